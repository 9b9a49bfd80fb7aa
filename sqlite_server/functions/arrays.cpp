// Arrays as their text, and JSON lists made of them for json_each().
#include <algorithm>
#include <iterator>

#include "values/forms.hpp"
#include "functions/functions.hpp"
#include "session/search.hpp"

namespace termgate::sqlite_server {
namespace {

[[noreturn]] void malformed(std::string_view array) { fail("22P02", "malformed array literal: \"" + std::string(array) + "\""); }

bool json_number(std::string_view text) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const std::size_t whole = at;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  if (at == whole || (text[whole] == '0' && at > whole + 1)) return false;
  if (at < text.size() && text[at] == '.') {
    const std::size_t fraction = ++at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    if (at == fraction) return false;
  }
  return at == text.size() && text.size() <= 18;
}

// The text of an element, an inner array's too.
std::string_view shown_element(const std::string& element) { return std::string_view(element).substr(is_inner_array(element) ? 1 : 0); }

std::string json_value(const std::optional<std::string>& element) {
  return !element ? "null" : json_number(*element) ? *element : json_string(shown_element(*element));
}

// int2vector and oidvector count from 0.
bool is_vector(std::string_view array) { return !array.starts_with('{') && !array.starts_with('['); }

// Of arrays an array of arrays: where their types are not known, by their look.
void array(Call& call) {
  Elements elements;
  for (int i = 0; i < call.count; ++i) {
    elements.push_back(call.null(i) ? std::nullopt : std::optional(call.text(i)));
    if (auto& each = elements.back(); each && each->size() >= 2 && each->front() == '{' && each->back() == '}')
      each->insert(0, 1, inner_mark);
  }
  call.answer(array_literal(elements));
}

void array_json(Call& call) {
  std::string out = "[";
  for (const auto& element : array_elements(call.text(0))) out += (out.size() > 1 ? "," : "") + json_value(element);
  call.answer(out + "]");
}

void array_cat(Call& call) {
  if (call.null(0) || call.null(1)) return call.null(0) && call.null(1) ? call.answer_null() : call.answer_value(call.null(0) ? 1 : 0);
  const std::string left = call.text(0), right = call.text(1);
  Elements elements;
  for (const std::string& side : {left, right}) {
    if (!side.starts_with('{')) {
      elements.emplace_back(side);
      continue;
    }
    for (auto& each : array_elements(side)) elements.push_back(std::move(each));
  }
  call.answer(array_literal(elements));
}

// A number where it is one, so that it compares as one.
void answer_element(Call& call, const std::optional<std::string>& element) {
  if (!element) return call.answer_null();
  if (json_number(*element) && element->find('.') == std::string::npos) return call.answer(number_of(*element));
  call.answer(shown_element(*element));
}

void element(Call& call) {
  const std::string text = call.text(0);
  const Elements elements = array_elements(text);
  const std::int64_t at = call.whole(1) - (is_vector(text) ? 0 : 1);
  if (at < 0 || at >= static_cast<std::int64_t>(elements.size())) return call.answer_null();
  answer_element(call, elements[static_cast<std::size_t>(at)]);
}

void slice(Call& call) {
  if (call.null(0)) return call.answer_null();
  const Elements elements = array_elements(call.text(0));
  const auto size = static_cast<std::int64_t>(elements.size());
  const std::int64_t from = call.null(1) ? 1 : std::clamp<std::int64_t>(call.whole(1), 1, size + 1),
                     to = call.null(2) ? size : std::clamp<std::int64_t>(call.whole(2), 0, size);
  Elements part;
  for (std::int64_t i = from; i <= to; ++i) part.push_back(elements[static_cast<std::size_t>(i) - 1]);
  call.answer(array_literal(part));
}

void expand(Call& call) {
  std::string out = "[";
  std::size_t place = 0;
  for (const auto& each : array_elements(call.text(0)))
    out += (out.size() > 1 ? "," : "") + ("{\"x\":" + json_value(each)) + ",\"n\":" + std::to_string(++place) + "}";
  call.answer(out + "]");
}

void to_string(Call& call) {
  if (call.null(0) || call.null(1)) return call.answer_null();
  const std::string separator = call.text(1);
  std::string out;
  bool first = true;
  for (const auto& each : array_elements(call.text(0))) {
    if (!each && (call.count < 3 || call.null(2))) continue;
    if (!first) out += separator;
    if (each && is_inner_array(*each)) fail("0A000", "array_to_string() of an array of arrays is not supported on SQLite");
    out += each ? *each : call.text(2);
    first = false;
  }
  call.answer(out);
}

void from_string(Call& call) {
  if (call.null(0)) return call.answer_null();
  const std::string text = call.text(0);
  const std::optional<std::string> none = call.count > 2 && !call.null(2) ? std::optional(call.text(2)) : std::nullopt;
  Elements elements;
  const auto put = [&](std::string_view part) {
    elements.push_back(none && part == *none ? std::nullopt : std::optional(std::string(part)));
  };
  if (call.null(1)) {
    for (const std::string_view each : characters(text)) put(each);
  } else if (const std::string separator = call.text(1); separator.empty()) {
    if (!text.empty()) put(text);
  } else if (!text.empty()) {
    std::string_view rest = text;
    for (;;) {
      const auto at = find_text(rest, separator);
      put(rest.substr(0, at));
      if (at == std::string_view::npos) break;
      rest.remove_prefix(at + separator.size());
    }
  }
  call.answer(array_literal(elements));
}

// As PostgreSQL bounds them.
constexpr std::int64_t dimensions_max = 6;

// Of the dimension asked for; arrays of arrays are elements that are arrays.
std::optional<std::int64_t> length(const std::string& text, std::int64_t dimension) {
  if (dimension > dimensions_max) return std::nullopt;
  Elements elements = array_elements(text);
  for (; dimension > 1; --dimension) {
    if (elements.empty() || !elements[0] || !is_inner_array(*elements[0])) return std::nullopt;
    elements = array_elements(shown_element(*elements[0]));
  }
  if (dimension < 1 || elements.empty()) return std::nullopt;
  return static_cast<std::int64_t>(elements.size());
}

void array_length(Call& call) {
  const auto size = length(call.text(0), call.whole(1));
  size ? call.answer(*size) : call.answer_null();
}
void array_upper(Call& call) {
  const std::string text = call.text(0);
  const auto size = length(text, call.whole(1));
  size ? call.answer(*size - (is_vector(text) ? 1 : 0)) : call.answer_null();
}
void array_lower(Call& call) {
  const std::string text = call.text(0);
  length(text, call.whole(1)) ? call.answer(std::int64_t{is_vector(text) ? 0 : 1}) : call.answer_null();
}

std::int64_t cardinality(const Elements& elements, std::int64_t dimension = 1) {
  if (dimension > dimensions_max)
    fail("54000", "number of array dimensions exceeds the maximum allowed (" + std::to_string(dimensions_max) + ")");
  std::int64_t count = 0;
  for (const auto& each : elements)
    count += each && is_inner_array(*each) ? cardinality(array_elements(shown_element(*each)), dimension + 1) : 1;
  return count;
}

// What PostgreSQL does with arrays of arrays here depends on their dimensions.
void one_dimension(const Elements& elements, std::string_view what) {
  if (std::any_of(elements.begin(), elements.end(), [](const auto& each) { return each && is_inner_array(*each); }))
    fail("0A000", std::string(what) + " of arrays of arrays is not supported on SQLite");
}

void position(Call& call) {
  if (call.null(0)) return call.answer_null();
  const Elements elements = array_elements(call.text(0));
  one_dimension(elements, "array_position()");
  const std::optional<std::string> wanted = call.null(1) ? std::nullopt : std::optional(call.text(1));
  const auto found = std::find(elements.begin(), elements.end(), wanted);
  found == elements.end() ? call.answer_null() : call.answer(static_cast<std::int64_t>(found - elements.begin()) + 1);
}

void remove(Call& call) {
  if (call.null(0)) return call.answer_null();
  Elements elements = array_elements(call.text(0));
  one_dimension(elements, "array_remove()");
  const std::optional<std::string> unwanted = call.null(1) ? std::nullopt : std::optional(call.text(1));
  std::erase(elements, unwanted);
  call.answer(array_literal(elements));
}

// array_cat(), array_append() and array_prepend(): a NULL array is none.
void join_arrays(Call& call) {
  if (call.null(0) && call.null(1)) return call.answer_null();
  Elements elements;
  for (int i = 0; i < 2; ++i) {
    if (call.null(i)) continue;
    for (auto& each : array_elements(call.text(i))) elements.push_back(std::move(each));
  }
  one_dimension(elements, "joining");
  call.answer(array_literal(elements));
}

void append(Call& call) {
  Elements elements = call.null(0) ? Elements() : array_elements(call.text(0));
  elements.push_back(call.null(1) ? std::nullopt : std::optional(call.text(1)));
  call.answer(array_literal(elements));
}

constexpr std::size_t series_rows_max = 1'000'000;

void series(Call& call) {
  std::string out = "[";
  std::size_t rows = 0;
  const auto put = [&](const std::string& value) {
    if (++rows > series_rows_max) fail("54000", "generate_series of more than 1000000 rows is not supported here");
    if (out.size() > 1) out += ',';
    out += value;
  };
  if (call.count > 2 && call.type(2) == SQLITE_TEXT && call.type(0) == SQLITE_TEXT && call.text(0).find('-', 1) != std::string::npos) {
    Moment at = parse_moment(call.text(0));
    const Moment stop = parse_moment(call.text(1));
    const Interval step = parse_interval(call.text(2));
    if (at.type == dialect::oid::date) at.type = dialect::oid::timestamp;
    const std::int64_t towards = step.months * 30 * 86'400'000'000 + step.days * 86'400'000'000 + step.micros;
    if (towards == 0) fail("22023", "step size cannot equal zero");
    while (towards > 0 ? at.micros <= stop.micros : at.micros >= stop.micros) {
      put(json_string(moment_text(at)));
      at = shifted(at, step, 1);
    }
    return call.answer(out + "]");
  }
  if (call.type(0) == SQLITE_FLOAT || call.type(1) == SQLITE_FLOAT || (call.count > 2 && call.type(2) == SQLITE_FLOAT)) {
    const double start = call.real(0), stop = call.real(1), step = call.count > 2 ? call.real(2) : 1;
    if (step == 0) fail("22023", "step size cannot equal zero");
    for (std::size_t i = 0;; ++i) {
      const double value = start + static_cast<double>(i) * step;
      if (!(step > 0 ? value <= stop : value >= stop)) break;
      put(float_text(value, false));
    }
    return call.answer(out + "]");
  }
  const std::int64_t stop = call.whole(1), step = call.count > 2 ? call.whole(2) : 1;
  if (step == 0) fail("22023", "step size cannot equal zero");
  for (std::int64_t value = call.whole(0); step > 0 ? value <= stop : value >= stop;) {
    put(std::to_string(value));
    if (__builtin_add_overflow(value, step, &value)) break;
  }
  call.answer(out + "]");
}

// clang-format off
constexpr Body array_bodies[] = {
    {"pg_array", array, true}, {"pg_array_json", array_json}, {"pg_array_cat", array_cat, true}, {"pg_array_join", join_arrays, true}, {"pg_element", element}, {"pg_slice", slice, true}, {"pg_expandarray", expand}, {"array_to_string", to_string, true},
    {"string_to_array", from_string, true}, {"array_length", array_length}, {"array_upper", array_upper}, {"array_lower", array_lower},
    {"cardinality", [](Call& call) { call.answer(cardinality(array_elements(call.text(0)))); }}, {"array_position", position, true}, {"array_remove", remove, true}, {"array_append", append, true}, {"pg_series", series},
};
// clang-format on

}  // namespace

std::span<const Body> array_functions() { return array_bodies; }

Elements array_elements(std::string_view text) {
  const std::string_view whole = text;
  Elements out;
  text = trimmed(text);
  if (text.starts_with('[')) {
    // Bounds before it: '[0:1]={…}'.
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) malformed(whole);
    text.remove_prefix(equals + 1);
  }
  if (!text.starts_with('{')) {
    if (text.find_first_not_of("0123456789 -") != std::string_view::npos) malformed(whole);
    for (std::size_t at = 0; at < text.size();) {
      if (text[at] == ' ') {
        ++at;
        continue;
      }
      const auto end = std::min(text.find(' ', at), text.size());
      out.emplace_back(std::string(text.substr(at, end - at)));
      at = end;
    }
    return out;
  }
  if (text.size() < 2 || !text.ends_with('}')) malformed(whole);
  const std::string_view inner = text.substr(1, text.size() - 2);
  if (trimmed(inner).empty()) return out;
  std::size_t at = 0;
  for (;;) {
    while (at < inner.size() && inner[at] == ' ') ++at;
    std::string value;
    bool quoted = false;
    if (at < inner.size() && inner[at] == '{') {
      std::size_t depth = 0, begin = at;
      bool within = false;
      for (; at < inner.size(); ++at) {
        if (inner[at] == '\\') ++at;
        else if (inner[at] == '"') within = !within;
        else if (!within && inner[at] == '{') ++depth;
        else if (!within && inner[at] == '}' && --depth == 0) break;
      }
      if (at >= inner.size()) malformed(whole);
      ++at;
      value = inner_mark + std::string(inner.substr(begin, at - begin));
      quoted = true;
    } else if (at < inner.size() && inner[at] == '"') {
      quoted = true;
      for (++at; at < inner.size() && inner[at] != '"'; ++at) {
        if (inner[at] == '\\' && ++at >= inner.size()) malformed(whole);
        value += inner[at];
      }
      if (at >= inner.size()) malformed(whole);
      ++at;
    } else {
      for (; at < inner.size() && inner[at] != ','; ++at) {
        if (inner[at] == '"' || inner[at] == '{' || inner[at] == '}') malformed(whole);
        if (inner[at] == '\\' && ++at >= inner.size()) malformed(whole);
        value += inner[at];
      }
      while (!value.empty() && value.back() == ' ') value.pop_back();
      if (value.empty()) malformed(whole);
    }
    while (at < inner.size() && inner[at] == ' ') ++at;
    out.push_back(!quoted && lower(value) == "null" ? std::nullopt : std::optional(std::move(value)));
    if (at >= inner.size()) return out;
    if (inner[at++] != ',') malformed(whole);
  }
}

std::string array_literal(const Elements& elements) {
  std::string out = "{";
  for (const auto& each : elements) {
    if (out.size() > 1) out += ',';
    if (!each) {
      out += "NULL";
      continue;
    }
    if (is_inner_array(*each)) {
      out += std::string_view(*each).substr(1);
      continue;
    }
    const bool plain = (!each->empty() && lower(*each) != "null" && each->find_first_of(" \t\n\r\v\f,{}\"\\") == std::string::npos);
    if (plain) {
      out += *each;
      continue;
    }
    out += '"';
    for (const char c : *each) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    out += '"';
  }
  return out + "}";
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    static constexpr std::string_view named = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt";
    if (const auto found = named.find(c); found != std::string_view::npos) {
      (out += '\\') += letters[found];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      (out += "0123456789abcdef"[c >> 4]) += "0123456789abcdef"[c & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace termgate::sqlite_server
