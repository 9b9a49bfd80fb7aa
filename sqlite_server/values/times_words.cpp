// Dates and times that are not in ISO form, as PostgreSQL reads them with DateStyle "ISO, MDY".
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <vector>

#include "values/forms.hpp"
#include "values/times.hpp"

namespace termgate::sqlite_server {
namespace {

constexpr std::array<std::string_view, 12> month_names = {"january", "february", "march",     "april",   "may",      "june",
                                                          "july",    "august",   "september", "october", "november", "december"};
constexpr std::array<std::string_view, 7> weekday_names = {"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }
bool is_date_sign(char c) { return c == '-' || c == '/' || c == '.'; }
int number_in(std::string_view digits) {
  int value = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

int month_named(std::string_view word) {
  for (std::size_t i = 0; i < month_names.size(); ++i) {
    if (word == month_names[i] || word == month_names[i].substr(0, 3) || (word == "sept" && i == 8)) return static_cast<int>(i) + 1;
  }
  return 0;
}
bool weekday_named(std::string_view word) {
  return std::any_of(weekday_names.begin(), weekday_names.end(),
                     [&](std::string_view day) { return word.size() >= 3 && day.starts_with(word); });
}

// What has been understood so far.
struct Parts {
  int year = -1, month = -1, day = -1, day_of_year = -1;
  std::string time, zone;
  bool morning = false, afternoon = false, before_christ = false;
};

int full_year(std::string_view digits) {
  const int value = number_in(digits);
  return digits.size() > 2 || value < 0 ? value : value < 70 ? value + 2000 : value + 1900;
}

// 2024-1-5, 1/5/2024, 5-Jan-2024, 2024-Jan-05, 2024.123
bool take_date(Parts& parts, std::string_view token) {
  std::vector<std::string_view> fields;
  for (std::size_t at = 0; at <= token.size();) {
    const auto end = std::min(token.find_first_of("-/.", at), token.size());
    fields.push_back(token.substr(at, end - at));
    at = end + 1;
  }
  if (parts.year >= 0 || !parts.time.empty()) return false;
  if (fields.size() == 2 && fields[0].size() >= 4 && fields[1].size() == 3 && is_digit(fields[1][0])) {
    parts.year = number_in(fields[0]);
    parts.day_of_year = number_in(fields[1]);
    return true;
  }
  if (fields.size() != 3 || std::any_of(fields.begin(), fields.end(), [](std::string_view field) { return field.empty(); })) return false;
  const int named = month_named(fields[1]);
  if (!is_digit(fields[1][0]) && named == 0) return false;
  if (fields[0].size() > 2 && is_digit(fields[0][0])) {
    parts.year = number_in(fields[0]);
    parts.month = named != 0 ? named : number_in(fields[1]);
    parts.day = number_in(fields[2]);
    return fields[2].size() <= 2;
  }
  parts.year = full_year(fields[2]);
  if (named != 0) {
    parts.month = named;
    parts.day = number_in(fields[0]);
  } else if (const int first = month_named(fields[0]); first != 0) {
    parts.month = first;
    parts.day = number_in(fields[1]);
  } else {
    parts.month = number_in(fields[0]);
    parts.day = number_in(fields[1]);
  }
  return true;
}

// h:m[:s[.f]], each of one digit or two.
bool take_time(Parts& parts, std::string_view token) {
  if (!parts.time.empty()) return false;
  std::string out;
  for (std::size_t at = 0, field = 0; at <= token.size(); ++field) {
    const auto end = std::min(token.find(':', at), token.size());
    const std::string_view part = token.substr(at, end - at), whole = part.substr(0, part.find('.'));
    if (whole.empty() || whole.size() > 2 || field > 2 || (whole.size() != part.size() && field != 2)) return false;
    out += (field > 0 ? ":" : "") + std::string(2 - whole.size(), '0') + std::string(part);
    at = end + 1;
  }
  parts.time = out;
  return true;
}

bool take_digits(Parts& parts, std::string_view token) {
  const bool dated = parts.day >= 0 || parts.day_of_year >= 0;
  if (token.size() == 8 && !dated && parts.month < 0) {
    parts.year = number_in(token.substr(0, 4));
    parts.month = number_in(token.substr(4, 2));
    parts.day = number_in(token.substr(6));
    return true;
  }
  if (token.size() == 6 && dated && parts.year >= 0 && parts.time.empty()) {
    parts.time = std::string(token.substr(0, 2)) + ":" + std::string(token.substr(2, 2)) + ":" + std::string(token.substr(4));
    return true;
  }
  if (parts.month < 0 && token.size() < 4) {
    // A day before the name of its month.
    if (parts.day >= 0 || token.size() > 2) return false;
    parts.day = number_in(token);
    return true;
  }
  if (token.size() <= 2 && parts.day < 0) {
    parts.day = number_in(token);
    return true;
  }
  if (parts.year >= 0 || token.size() > 4) return false;
  parts.year = full_year(token);
  return true;
}

bool take_word(Parts& parts, const std::string& word) {
  if (const int month = month_named(word); month != 0) {
    if (parts.month >= 0) return false;
    parts.month = month;
    return true;
  }
  if (word == "am" || word == "pm") {
    (word == "am" ? parts.morning : parts.afternoon) = true;
    return !parts.time.empty();
  }
  if (word == "utc" || word == "gmt" || word == "z" || word == "zulu") {
    parts.zone = "+00";
    return true;
  }
  if (word == "bc" || word == "ad") {
    parts.before_christ = word == "bc";
    return true;
  }
  return word == "t" || weekday_named(word);
}

std::optional<std::string> iso_text(const Parts& parts) {
  std::string out;
  const bool dated = parts.year >= 0 || parts.month >= 0 || parts.day >= 0;
  char date[64];
  if (parts.day_of_year >= 0) {
    if (parts.day_of_year < 1 || parts.day_of_year > 366 || parts.month >= 0) return std::nullopt;
    const CalendarDay day = calendar_day(days_since_2000({parts.year, 1, 1}) + parts.day_of_year - 1);
    std::snprintf(date, sizeof date, "%04d-%02d-%02d", static_cast<int>(day.year), day.month, day.day);
    out = date;
  } else if (dated) {
    if (parts.year < 0 || parts.month < 0 || parts.day < 0) return std::nullopt;
    std::snprintf(date, sizeof date, "%04d-%02d-%02d", parts.year, parts.month, parts.day);
    out = date;
  }
  if (!parts.time.empty()) {
    std::string time = parts.time;
    if (parts.morning || parts.afternoon) {
      const int hour = number_in(std::string_view(time).substr(0, 2));
      // What no clock of twelve hours shows is out of range where it is read.
      const int whole = hour > 12 ? 99 : hour == 12 ? (parts.afternoon ? 12 : 0) : hour + (parts.afternoon ? 12 : 0);
      time.replace(0, 2, (whole < 10 ? "0" : "") + std::to_string(whole));
    }
    if (!out.empty()) out += ' ';
    out += time + parts.zone;
  }
  return out + (parts.before_christ ? " BC" : "");
}

}  // namespace

std::optional<std::string> iso_of(std::string_view whole) {
  const std::string text = lowered(trimmed(whole));
  if (text.empty() || text.size() > 128) return std::nullopt;
  Parts parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (text[at] == ' ' || text[at] == ',' || text[at] == '\t') {
      ++at;
    } else if (is_digit(text[at])) {
      while (at < text.size() && is_digit(text[at])) ++at;
      if (at < text.size() && text[at] == ':') {
        while (at < text.size() && (is_digit(text[at]) || text[at] == ':' || text[at] == '.')) ++at;
        if (!take_time(parts, std::string_view(text).substr(begin, at - begin))) return std::nullopt;
      } else if (at + 1 < text.size() && is_date_sign(text[at]) && parts.year < 0 && (is_digit(text[at + 1]) || is_letter(text[at + 1]))) {
        // A T after digits begins the time.
        const auto begins_time = [&] { return text[at] == 't' && is_digit(text[at - 1]); };
        while (at < text.size() && (is_digit(text[at]) || is_date_sign(text[at]) || (is_letter(text[at]) && !begins_time()))) ++at;
        if (!take_date(parts, std::string_view(text).substr(begin, at - begin))) return std::nullopt;
      } else if (!take_digits(parts, std::string_view(text).substr(begin, at - begin))) {
        return std::nullopt;
      }
    } else if (is_letter(text[at])) {
      while (at < text.size() && is_letter(text[at])) ++at;
      if (at + 1 < text.size() && text[at] == '-' && is_digit(text[at + 1]) &&
          month_named(std::string_view(text).substr(begin, at - begin)) != 0) {
        while (at < text.size() && (is_digit(text[at]) || text[at] == '-')) ++at;
        if (!take_date(parts, std::string_view(text).substr(begin, at - begin))) return std::nullopt;
        continue;
      }
      if (at < text.size() && text[at] == '.') ++at;
      std::string word = text.substr(begin, at - begin);
      if (word.ends_with('.')) word.pop_back();
      if (!take_word(parts, word)) return std::nullopt;
    } else if ((text[at] == '+' || text[at] == '-') && !parts.time.empty() && parts.zone.empty()) {
      ++at;
      while (at < text.size() && (is_digit(text[at]) || text[at] == ':')) ++at;
      parts.zone = text.substr(begin, at - begin);
      // PostgreSQL reads an hour of one digit; ISO has two.
      if (parts.zone.size() == 2) parts.zone.insert(1, "0");
    } else {
      return std::nullopt;
    }
  }
  return iso_text(parts);
}

}  // namespace termgate::sqlite_server
