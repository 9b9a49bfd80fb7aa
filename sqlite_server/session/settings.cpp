#include "session/settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include <termgate/sqlite_server/catalog.hpp>

#include "session/pg_error.hpp"
#include "values/forms.hpp"

namespace termgate::sqlite_server {
namespace {

struct Known {
  std::string_view name;
  std::string_view value;
  bool reported = false;
  bool fixed = false;
};
constexpr Known known[] = {
    {"application_name", "", true},
    {"client_encoding", "UTF8", true},
    {"DateStyle", "ISO, MDY", true},
    {"default_transaction_read_only", "off", true},
    {"in_hot_standby", "off", true, true},
    {"integer_datetimes", "on", true, true},
    {"IntervalStyle", "postgres", true},
    {"is_superuser", "off", true, true},
    {"server_encoding", "UTF8", true, true},
    {"server_version", "15.0", true, true},
    {"session_authorization", "", true, true},
    {"standard_conforming_strings", "on", true},
    {"TimeZone", "UTC", true},
    {"server_version_num", "150000", false, true},
    {"max_identifier_length", "63", false, true},
    {"block_size", "8192", false, true},
    {"max_index_keys", "32", false, true},
    {"wal_level", "replica", false, true},
    {"max_prepared_transactions", "0", false, true},
    {"password_encryption", "scram-sha-256", false, true},
    {"lc_collate", "C", false, true},
    {"lc_ctype", "C", false, true},
    {"bytea_output", "hex"},
    {"check_function_bodies", "on"},
    {"client_min_messages", "notice"},
    {"default_table_access_method", "heap"},
    {"default_tablespace", ""},
    {"default_transaction_deferrable", "off"},
    {"default_transaction_isolation", "read committed"},
    {"enable_seqscan", "on"},
    {"escape_string_warning", "on"},
    {"extra_float_digits", "1"},
    {"geqo", "on"},
    {"idle_in_transaction_session_timeout", "0"},
    {"jit", "off"},
    {"lc_messages", "C"},
    {"lc_monetary", "C"},
    {"lc_numeric", "C"},
    {"lc_time", "C"},
    {"lock_timeout", "0"},
    {"quote_all_identifiers", "off"},
    {"row_security", "on"},
    {"search_path", "\"$user\", public"},
    {"statement_timeout", "0"},
    {"synchronize_seqscans", "on"},
    {"synchronous_commit", "on"},
    {"timezone_abbreviations", "Default"},
    {"vacuum_cost_delay", "0"},
    {"work_mem", "4MB"},
    {"maintenance_work_mem", "64MB"},
    {"xmloption", "content"},
};

std::string bare(std::string text) {
  std::erase_if(text, [](char c) { return c == '-' || c == '_' || c == ' '; });
  return text;
}

// As PostgreSQL reads one: a number, with a fraction or not, and a unit; milliseconds without. nullopt: none, or out of range.
std::optional<std::int64_t> milliseconds_of(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  double number = 0;
  const auto [behind, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || !std::isfinite(number)) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(behind - text.data()));
  while (!unit.empty() && blank(unit.front())) unit.remove_prefix(1);
  static constexpr std::pair<std::string_view, double> units[] = {{"", 1},         {"ms", 1},        {"us", 0.001},    {"s", 1000},
                                                                  {"min", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
  for (const auto& [name, factor] : units) {
    if (name != unit) continue;
    const double found = std::nearbyint(number * factor);
    if (found < 0 || found > 2147483647.0) return std::nullopt;
    return static_cast<std::int64_t>(found);
  }
  return std::nullopt;
}

// As SHOW tells it: in the largest unit that needs no fraction.
std::string shown_as(std::int64_t ms) {
  static constexpr std::pair<std::string_view, std::int64_t> units[] = {{"d", 86'400'000}, {"h", 3'600'000}, {"min", 60'000}, {"s", 1000}};
  if (ms == 0) return "0";
  for (const auto& [name, factor] : units) {
    if (ms % factor == 0) return std::to_string(ms / factor) + std::string(name);
  }
  return std::to_string(ms) + "ms";
}

}  // namespace

std::chrono::milliseconds Settings::timeout(const Value& value) {
  if (value.text == "0") return std::chrono::milliseconds(0);
  return std::chrono::milliseconds(milliseconds_of(value.text).value_or(0));
}

Settings::Settings() {
  for (const Known& each : known) {
    Value value;
    value.text = value.initial = each.value;
    value.name = each.name;
    value.reported = each.reported;
    value.fixed = each.fixed;
    value.known = true;
    values_.emplace(lowered(each.name), std::move(value));
  }
  statement_timeout_ = &values_.at("statement_timeout");
  lock_timeout_ = &values_.at("lock_timeout");
  idle_in_transaction_timeout_ = &values_.at("idle_in_transaction_session_timeout");
  default_read_only_ = &values_.at("default_transaction_read_only");
  default_deferrable_ = &values_.at("default_transaction_deferrable");
  default_isolation_ = &values_.at("default_transaction_isolation");
}

std::string Settings::checked(const std::string& name, std::string value) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return value;
  const auto refuse = [&] { throw PgException("22023", "invalid value for parameter \"" + found->second.name + "\": \"" + value + "\""); };
  static const std::set<std::string, std::less<>> booleans = {"default_transaction_read_only",
                                                              "default_transaction_deferrable",
                                                              "standard_conforming_strings",
                                                              "row_security",
                                                              "synchronize_seqscans",
                                                              "check_function_bodies",
                                                              "quote_all_identifiers",
                                                              "enable_seqscan",
                                                              "escape_string_warning",
                                                              "jit",
                                                              "geqo"};
  if (booleans.contains(name)) {
    const std::string word = lowered(value);
    const bool yes = word == "on" || word == "true" || word == "yes" || word == "1" || word == "t" || word == "y";
    const bool no = word == "off" || word == "false" || word == "no" || word == "0" || word == "f" || word == "n";
    if (!yes && !no) throw PgException("22023", "parameter \"" + found->second.name + "\" requires a Boolean value");
    value = yes ? "on" : "off";
    // The dialect reads '\' in '…' as a character of the text.
    if (name == "standard_conforming_strings" && no) throw PgException("0A000", "standard_conforming_strings cannot be switched off here");
  } else if (name == "client_encoding") {
    const std::string word = bare(lowered(value));
    if (word != "utf8" && word != "unicode" && word != "sqlascii")
      throw PgException("0A000", "the encoding here is UTF8: client_encoding " + value + " is not supported");
    // Nothing is converted for either: the text is UTF-8, and what comes in is checked.
    value = word == "sqlascii" ? "SQL_ASCII" : "UTF8";
  } else if (name == "default_transaction_isolation") {
    static constexpr std::array<std::string_view, 4> levels = {"read uncommitted", "read committed", "repeatable read", "serializable"};
    if (std::find(levels.begin(), levels.end(), lowered(value)) == levels.end()) refuse();
    value = lowered(value);
  } else if (name == "statement_timeout" || name == "lock_timeout" || name == "idle_in_transaction_session_timeout") {
    const auto ms = milliseconds_of(value);
    if (!ms) refuse();
    value = shown_as(*ms);
  } else if (name == "datestyle") {
    const std::string word = lowered(value);
    const auto has = [&](std::string_view part) { return word.find(part) != std::string::npos; };
    if ((!has("iso") && !has("mdy") && !has("us") && word != "default") || has("dmy") || has("ymd") || has("euro") || has("sql") ||
        has("german") || has("postgres"))
      throw PgException("0A000", "times are read and written as ISO, MDY here: DateStyle " + value + " is not supported");
    value = "ISO, MDY";
  } else if (name == "extra_float_digits") {
    int digits = 0;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), digits);
    if (problem != std::errc() || end != value.data() + value.size() || digits < -15 || digits > 3) refuse();
    // From 1 on a number is shown in the shortest form that means it, whatever the setting.
    if (digits < 1) throw PgException("0A000", "floating point numbers are shown exactly here: extra_float_digits cannot be below 1");
  } else if (name == "intervalstyle" && lowered(value) != "postgres") {
    throw PgException("0A000", "intervals are shown in PostgreSQL's form here: IntervalStyle " + value + " is not supported");
  } else if (name == "bytea_output" && lowered(value) != "hex") {
    throw PgException("0A000", "bytea_output is hex here");
  }
  return value;
}

std::map<std::string, Settings::Value, std::less<>>::iterator Settings::make(const std::string& name, std::string_view given) {
  if (name.find('.') == std::string::npos) {
    const SqlError problem = unknown_setting(given);
    throw PgException(problem.sqlstate, problem.message);
  }
  Value made;
  made.name = given;
  return values_.emplace(name, std::move(made)).first;
}

void Settings::start(std::string_view given, std::string_view value) {
  const std::string name = lowered(given);
  auto found = values_.find(name);
  if (found == values_.end()) found = make(name, given);
  if (found->second.fixed && name != "session_authorization") return;
  changed_ = true;
  found->second.text = found->second.initial = checked(name, std::string(value));
}

void Settings::set(std::string_view given, std::optional<std::string> value, bool local) {
  const std::string name = lowered(given);
  auto found = values_.find(name);
  if (found == values_.end()) {
    found = make(name, given);
    changes_.push_back({name, std::nullopt, local});
  } else {
    if (found->second.fixed) throw PgException("55P02", "parameter \"" + found->second.name + "\" cannot be changed");
    changes_.push_back({name, found->second.text, local});
  }
  changed_ = true;
  try {
    found->second.text = value ? checked(name, std::move(*value)) : found->second.initial;
  } catch (const PgException&) {
    put_back(changes_.back());
    changes_.pop_back();
    throw;
  }
}

void Settings::reset_all() {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_) {
    if (!value.fixed && value.text != value.initial) names.push_back(name);
  }
  for (const std::string& name : names) set(name, std::nullopt, false);
}

std::optional<std::string> Settings::get(std::string_view name) const {
  auto found = values_.find(name);  // most ask in lower case
  if (found == values_.end()) found = values_.find(lowered(name));
  if (found == values_.end()) return std::nullopt;
  return found->second.text;
}

std::vector<std::pair<std::string, std::string>> Settings::all() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const auto& [name, value] : values_) result.emplace_back(value.name, value.text);
  return result;
}

void Settings::put_back(const Change& change) {
  const auto found = values_.find(change.name);
  if (found == values_.end()) return;
  changed_ = true;
  if (change.before) found->second.text = *change.before;
  else if (found->second.known) found->second.text = found->second.initial;
  else values_.erase(found);
}

void Settings::commit() {
  std::set<std::string> settled;  // a SET that came later remains in force
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    if (!change->local) settled.insert(change->name);
    else if (!settled.contains(change->name)) put_back(*change);
  }
  changes_.clear();
}

void Settings::rollback() { rollback_to(0); }

void Settings::rollback_to(std::size_t mark) {
  while (changes_.size() > mark) {
    put_back(changes_.back());
    changes_.pop_back();
  }
}

std::vector<std::pair<std::string, std::string>> Settings::take_reports() {
  std::vector<std::pair<std::string, std::string>> due;
  if (!std::exchange(changed_, false)) return due;
  for (auto& [name, value] : values_) {
    if (!value.reported || value.last_reported == value.text) continue;
    value.last_reported = value.text;
    due.emplace_back(value.name, value.text);
  }
  return due;
}

}  // namespace termgate::sqlite_server
