// The functions that translate() leaves to a session, as far as the tests compute with them: plain, and of no use beyond tests.
// Those that are only prepared answer NULL.
#pragma once

#include <sqlite3.h>

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/dialect/functions.hpp>

namespace dialect_test {

struct Value {
  bool null = false;
  std::string text;
};

inline std::string text_of(sqlite3_value* value) {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_value_text(value));
  return bytes == nullptr ? std::string() : std::string(bytes, static_cast<std::size_t>(sqlite3_value_bytes(value)));
}
inline bool is_null(sqlite3_value* value) { return sqlite3_value_type(value) == SQLITE_NULL; }
inline void answer(sqlite3_context* context, const std::string& text) {
  sqlite3_result_text(context, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

// '{a,"b c",NULL}' and '1 2'.
inline std::vector<Value> elements(const std::string& array) {
  std::vector<Value> result;
  if (array.size() < 2 || array.front() != '{') {
    std::string word;
    for (const char c : array + " ") {
      if (c != ' ') word += c;
      else if (!word.empty()) result.push_back({false, std::exchange(word, {})});
    }
    return result;
  }
  std::string word;
  bool quoted = false, inside = false;
  for (std::size_t i = 1; i < array.size(); ++i) {
    const char c = array[i];
    if (inside) {
      if (c == '\\') word += array[++i];
      else if (c == '"') inside = false;
      else word += c;
    } else if (c == '"') {
      inside = quoted = true;
    } else if (c == ',' || c == '}') {
      if (quoted || !word.empty()) result.push_back({!quoted && word == "NULL", word});
      word.clear();
      quoted = false;
    } else {
      word += c;
    }
  }
  return result;
}

inline std::string array_of(const std::vector<Value>& values) {
  std::string result = "{";
  for (const Value& value : values) {
    if (result.size() > 1) result += ',';
    if (value.null) result += "NULL";
    else if (!value.text.empty() && value.text.find_first_of(" ,{}\"\\") == std::string::npos && value.text != "NULL") result += value.text;
    else {
      result += '"';
      for (const char c : value.text) {
        if (c == '"' || c == '\\') result += '\\';
        result += c;
      }
      result += '"';
    }
  }
  return result + "}";
}

inline std::string one(sqlite3_context* context, const char* sql, std::vector<std::string> arguments) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(sqlite3_context_db_handle(context), sql, -1, &statement, nullptr);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    sqlite3_bind_text(statement, static_cast<int>(i) + 1, arguments[i].data(), static_cast<int>(arguments[i].size()), SQLITE_TRANSIENT);
  std::string result;
  if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != nullptr)
    result = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
  sqlite3_finalize(statement);
  return result;
}

inline bool like(std::string_view text, std::string_view pattern, char escape) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '%') {
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (like(text.substr(i), pattern.substr(1), escape)) return true;
    }
    return false;
  }
  if (text.empty()) return false;
  if (pattern[0] == escape && pattern.size() > 1) return text[0] == pattern[1] && like(text.substr(1), pattern.substr(2), escape);
  return (pattern[0] == '_' || pattern[0] == text[0]) && like(text.substr(1), pattern.substr(1), escape);
}

// Without NULL arguments.
inline void compute(std::string_view name, sqlite3_context* context, int count, sqlite3_value** values) {
  const std::string a = count > 0 ? text_of(values[0]) : "", b = count > 1 ? text_of(values[1]) : "",
                    c = count > 2 ? text_of(values[2]) : "";
  const auto whole = [&](int i) { return sqlite3_value_int64(values[i]); };
  if (name == "pg_int2" || name == "pg_int4" || name == "pg_int8")
    return sqlite3_result_int64(context, static_cast<sqlite3_int64>(std::nearbyint(sqlite3_value_double(values[0]))));
  if (name == "pg_float8" || name == "pg_float4") return sqlite3_result_double(context, sqlite3_value_double(values[0]));
  if (name == "pg_numeric") return sqlite3_result_value(context, values[0]);
  if (name == "pg_bool") return sqlite3_result_int(context, a == "t" || a == "true" || whole(0) != 0);
  if (name == "pg_text" || name == "pg_date" || name == "pg_timestamp" || name == "pg_interval" || name == "pg_time" ||
      name == "pg_timestamptz" || name == "pg_json" || name == "pg_uuid")
    return answer(context, a);
  if (name == "pg_regexp") return sqlite3_result_int(context, std::regex_search(a, std::regex(b)));
  if (name == "pg_iregexp") return sqlite3_result_int(context, std::regex_search(a, std::regex(b, std::regex::icase)));
  if (name == "pg_like") return sqlite3_result_int(context, like(a, b, count > 2 ? c[0] : '\\'));
  if (name == "pg_xor") return sqlite3_result_int64(context, whole(0) ^ whole(1));
  if (name == "pg_element") {
    const auto all = elements(a);
    const auto at = whole(1);
    if (at >= 1 && static_cast<std::size_t>(at) <= all.size()) return answer(context, all[static_cast<std::size_t>(at) - 1].text);
    return sqlite3_result_null(context);
  }
  if (name == "pg_array_json") {
    std::string json = "[";
    for (const Value& value : elements(a)) {
      if (json.size() > 1) json += ',';
      const bool number = !value.text.empty() && value.text.find_first_not_of("0123456789") == std::string::npos;
      json += value.null ? "null" : number ? value.text : "\"" + value.text + "\"";
    }
    return answer(context, json + "]");
  }
  if (name == "pg_series") {
    const auto step = count > 2 ? whole(2) : 1;
    std::string json = "[";
    for (auto i = whole(0); step > 0 ? i <= whole(1) : i >= whole(1); i += step) json += (json.size() > 1 ? "," : "") + std::to_string(i);
    return answer(context, json + "]");
  }
  if (name == "array_to_string") {
    std::string result;
    for (const Value& value : elements(a)) result += (result.empty() ? "" : b) + value.text;
    return answer(context, result);
  }
  if (name == "array_lower") return sqlite3_result_int(context, 1);
  if (name == "array_length" || name == "array_upper") return sqlite3_result_int64(context, static_cast<sqlite3_int64>(elements(a).size()));
  if (name == "pg_substr") {
    auto from = whole(1) - 1, to = count > 2 ? from + whole(2) : static_cast<sqlite3_int64>(a.size());
    from = std::max<sqlite3_int64>(from, 0);
    to = std::min<sqlite3_int64>(to, static_cast<sqlite3_int64>(a.size()));
    return answer(context, from < to ? a.substr(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)) : "");
  }
  if (name == "pg_overlay")
    return answer(context,
                  a.substr(0, static_cast<std::size_t>(whole(2)) - 1) + b +
                      a.substr(static_cast<std::size_t>(whole(2) - 1 + (count > 3 ? whole(3) : static_cast<sqlite3_int64>(b.size())))));
  if (name == "left") return answer(context, a.substr(0, static_cast<std::size_t>(whole(1))));
  if (name == "right") return answer(context, a.substr(a.size() - static_cast<std::size_t>(whole(1))));
  if (name == "lpad") return answer(context, std::string(static_cast<std::size_t>(whole(1)) - a.size(), c[0]) + a);
  if (name == "rpad") return answer(context, a + std::string(static_cast<std::size_t>(whole(1)) - a.size(), c[0]));
  if (name == "repeat") {
    std::string result;
    for (auto i = whole(1); i > 0; --i) result += a;
    return answer(context, result);
  }
  if (name == "reverse") return answer(context, std::string(a.rbegin(), a.rend()));
  if (name == "initcap") {
    std::string result = a;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (i == 0 || a[i - 1] == ' ') result[i] = static_cast<char>(std::toupper(a[i]));
    }
    return answer(context, result);
  }
  if (name == "split_part") {
    std::string rest = a;
    for (auto i = whole(2); i > 1; --i) rest = rest.find(b) == std::string::npos ? "" : rest.substr(rest.find(b) + b.size());
    return answer(context, rest.substr(0, rest.find(b)));
  }
  if (name == "starts_with") return sqlite3_result_int(context, a.starts_with(b));
  if (name == "pg_add_interval") return answer(context, one(context, "SELECT datetime(?1, '+' || ?2)", {a, b}));
  if (name == "pg_sub_interval") return answer(context, one(context, "SELECT datetime(?1, '-' || ?2)", {a, b}));
  if (name == "pg_date_diff")
    return sqlite3_result_int(context, std::atoi(one(context, "SELECT CAST(julianday(?1) - julianday(?2) AS INTEGER)", {a, b}).c_str()));
  if (name == "pg_date_add") return answer(context, one(context, "SELECT date(?1, ?2 || ' days')", {a, b}));
  if (name == "pg_extract")
    return sqlite3_result_int(
        context,
        std::atoi(one(context, "SELECT strftime(CASE ?1 WHEN 'year' THEN '%Y' WHEN 'month' THEN '%m' ELSE '%d' END, ?2)", {a, b}).c_str()));
  if (name == "pg_now") return answer(context, "2024-01-02 03:04:05+00");
  if (name == "array_position") {
    const auto all = elements(a);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].text == b) return sqlite3_result_int64(context, static_cast<sqlite3_int64>(i) + 1);
    }
  }
  if (name == "current_schemas") return answer(context, "{pg_catalog,public}");
  sqlite3_result_null(context);
}

inline void scalar(sqlite3_context* context, int count, sqlite3_value** values) {
  const std::string_view name = static_cast<const termgate::dialect::Function*>(sqlite3_user_data(context))->name;
  if (name == "pg_greatest" || name == "pg_least") {
    sqlite3_value* best = nullptr;
    for (int i = 0; i < count; ++i) {
      if (is_null(values[i])) continue;
      const bool better = best == nullptr || (sqlite3_value_double(values[i]) < sqlite3_value_double(best)) == (name == "pg_least");
      if (better) best = values[i];
    }
    return best == nullptr ? sqlite3_result_null(context) : sqlite3_result_value(context, best);
  }
  if (name == "pg_array" || name == "concat" || name == "concat_ws") {
    std::vector<Value> all;
    for (int i = 0; i < count; ++i) all.push_back({is_null(values[i]), text_of(values[i])});
    if (name == "pg_array") return answer(context, array_of(all));
    std::string text;
    const bool separated = name == "concat_ws";
    bool first = true;
    for (std::size_t i = separated ? 1 : 0; i < all.size(); ++i) {
      if (all[i].null) continue;
      text += (separated && !first ? all[0].text : "") + all[i].text;
      first = false;
    }
    return answer(context, text);
  }
  for (int i = 0; i < count; ++i) {
    if (is_null(values[i])) return sqlite3_result_null(context);
  }
  compute(name, context, count, values);
}

inline void step(sqlite3_context* context, int, sqlite3_value** values) {
  auto** held = static_cast<std::vector<Value>**>(sqlite3_aggregate_context(context, sizeof(std::vector<Value>*)));
  if (*held == nullptr) *held = new std::vector<Value>();
  (*held)->push_back({is_null(values[0]), text_of(values[0])});
}
inline void final(sqlite3_context* context) {
  auto** held = static_cast<std::vector<Value>**>(sqlite3_aggregate_context(context, sizeof(std::vector<Value>*)));
  if (*held == nullptr) return answer(context, "{}");
  answer(context, array_of(**held));
  delete *held;
}

inline void register_functions(sqlite3* database) {
  for (const auto& function : termgate::dialect::functions_to_supply()) {
    const std::string name(function.name);
    auto* const self = const_cast<termgate::dialect::Function*>(&function);
    const bool aggregate = function.kind == termgate::dialect::Function::Kind::aggregate;
    sqlite3_create_function(database, name.c_str(), -1, SQLITE_UTF8, self, aggregate ? nullptr : scalar, aggregate ? step : nullptr,
                            aggregate ? final : nullptr);
  }
}

}  // namespace dialect_test
