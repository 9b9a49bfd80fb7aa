// Dates and times that are not in ISO form, as PostgreSQL reads them with DateStyle "ISO, MDY".
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
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

// 2024-1-5, 1/5/2024, 5-Jan-2024, 2024-Jan-05, Jan-5-2024, 2024.123: of one sign throughout.
bool take_date(Parts& parts, std::string_view token) {
  const char sign = token[token.find_first_of("-/.")];
  std::vector<std::string_view> fields;
  for (std::size_t at = 0; at <= token.size();) {
    const auto end = std::min(token.find(sign, at), token.size());
    fields.push_back(token.substr(at, end - at));
    at = end + 1;
  }
  const auto is_number = [](std::string_view field) { return !field.empty() && std::all_of(field.begin(), field.end(), is_digit); };
  if (fields.size() == 2) {
    if (!is_number(fields[0]) || !is_number(fields[1]) || fields[0].size() != 4 || fields[1].size() != 3) return false;
    parts.year = number_in(fields[0]);
    parts.day_of_year = number_in(fields[1]);
    return true;
  }
  if (fields.size() != 3) return false;
  std::size_t month = 0, day = 1, year = 2;  // as DateStyle has them
  if (is_number(fields[0]) && fields[0].size() == 4) {
    year = 0;
    month = 1;
    day = 2;
  } else if (month_named(fields[1]) != 0) {
    day = 0;
    month = 1;
  }
  const int named = month_named(fields[month]);
  if ((named == 0 && !is_number(fields[month])) || !is_number(fields[day]) || !is_number(fields[year])) return false;
  if (fields[day].size() > 2 || (named == 0 && fields[month].size() > 2)) return false;
  if (fields[year].size() != 4 && fields[year].size() != 2) return false;
  parts.year = full_year(fields[year]);
  parts.month = named != 0 ? named : number_in(fields[month]);
  parts.day = number_in(fields[day]);
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
    out += time;
  }
  if (!parts.zone.empty()) out += " " + parts.zone;
  return out + (parts.before_christ ? " BC" : "");
}

}  // namespace

namespace {

// The kind of each part of a text, in order: D a date with signs, n, y, 6 and 8 a number of as many digits (n: one or two, y: four),
// M a month, w a weekday, H a time, T the letter, a AM or PM, z a zone, b BC or AD, and the comma.
struct Kinds {
  std::string shape;
  std::vector<std::string_view> tokens;
};

// Which orders PostgreSQL reads depends on what it has met so far. Only these are read here.
bool is_read(std::string_view shape) {
  static constexpr std::string_view dates[] = {"",    "D",     "8",    "Mn,y", "Mny",   "nMy",   "nMn",   "Mn,n",
                                               "yMn", "wMn,y", "wMny", "wnMy", "w,nMy", "w,Mny", "w,Mn,y"};
  static constexpr std::string_view times[] = {"",  "H",  "Ha",  "Hz",  "Haz",  "Hb",   "Hab", "Hzb", "Hazb", "b",
                                               "z", "TH", "THa", "THz", "THaz", "THzb", "6",   "T6",  "6z",   "T6z"};
  if (shape == "wMnHy" || shape == "wMnHzy") return true;
  for (const std::string_view date : dates) {
    if (!shape.starts_with(date)) continue;
    const std::string_view rest = shape.substr(date.size());
    if (date.empty() && (rest.empty() || (rest[0] != 'H' && rest != "TH") || rest.ends_with('b'))) continue;
    if (std::find(std::begin(times), std::end(times), rest) != std::end(times)) return true;
  }
  return false;
}

std::optional<Kinds> kinds_of(std::string_view text) {
  Kinds kinds;
  std::size_t end_of_last = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == ' ' || text[at] == '\t') {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    const auto digits = [&] {
      while (at < text.size() && is_digit(text[at])) ++at;
    };
    char kind = 0;
    if (is_digit(text[at])) {
      digits();
      if (at < text.size() && text[at] == ':') {
        while (at < text.size() && (is_digit(text[at]) || text[at] == ':' || text[at] == '.')) ++at;
        kind = 'H';
      } else if (at + 1 < text.size() && is_date_sign(text[at]) && (is_digit(text[at + 1]) || is_letter(text[at + 1]))) {
        // A T after digits begins the time.
        const auto begins_time = [&] { return text[at] == 't' && is_digit(text[at - 1]); };
        while (at < text.size() && (is_digit(text[at]) || is_date_sign(text[at]) || (is_letter(text[at]) && !begins_time()))) ++at;
        kind = 'D';
      } else {
        const std::size_t size = at - begin;
        kind = size <= 2 ? 'n' : size == 4 ? 'y' : size == 6 ? '6' : size == 8 ? '8' : '\0';
      }
    } else if (is_letter(text[at])) {
      while (at < text.size() && is_letter(text[at])) ++at;
      const std::string_view word = text.substr(begin, at - begin);
      if (month_named(word) != 0) {
        kind = 'M';
        if (at + 1 < text.size() && text[at] == '-' && is_digit(text[at + 1])) {
          while (at < text.size() && (is_digit(text[at]) || text[at] == '-')) ++at;
          kind = 'D';
        }
      } else if (word == "am" || word == "pm") kind = 'a';
      else if (word == "utc" || word == "gmt" || word == "z" || word == "zulu") kind = 'z';
      else if (word == "bc" || word == "ad") kind = 'b';
      else if (word == "t") kind = 'T';
      else if (weekday_named(word)) kind = 'w';
    } else if (text[at] == ',') {
      ++at;
      kind = ',';
    } else if (text[at] == '+' || text[at] == '-') {
      ++at;
      while (at < text.size() && (is_digit(text[at]) || text[at] == ':')) ++at;
      kind = 'z';
    }
    if (kind == 0) return std::nullopt;
    const char last = kinds.shape.empty() ? '\0' : kinds.shape.back();
    const bool may_touch =
        kind == ',' || last == ',' || kind == 'T' || last == 'T' || last == '\0' || (last == 'H' && (kind == 'a' || kind == 'z'));
    if (begin == end_of_last && !may_touch) return std::nullopt;
    if (kind == 'T' &&
        (begin != end_of_last || (begin > 0 && std::any_of(kinds.tokens.back().begin(), kinds.tokens.back().end(), is_letter))))
      return std::nullopt;
    end_of_last = at;
    kinds.shape += kind;
    kinds.tokens.push_back(text.substr(begin, at - begin));
  }
  if (!is_read(kinds.shape)) return std::nullopt;
  return kinds;
}

bool take(Parts& parts, char kind, std::string_view token) {
  switch (kind) {
    case 'D': return take_date(parts, token);
    case 'H': return take_time(parts, token);
    case 'M': parts.month = month_named(token); return true;
    case 'n':
      if (parts.day >= 0) {
        parts.year = full_year(token);
        return token.size() == 2;
      }
      parts.day = number_in(token);
      return parts.day >= 1 && parts.day <= 31;
    case 'y': parts.year = number_in(token); return true;
    case '8':
      parts.year = number_in(token.substr(0, 4));
      parts.month = number_in(token.substr(4, 2));
      parts.day = number_in(token.substr(6));
      return true;
    case '6':
      // PostgreSQL takes 254904 for a time of the next day.
      if ((number_in(token.substr(0, 2)) > 23 && token != "240000") || number_in(token.substr(2, 2)) > 59 ||
          number_in(token.substr(4)) > 60)
        return false;
      parts.time = std::string(token.substr(0, 2)) + ":" + std::string(token.substr(2, 2)) + ":" + std::string(token.substr(4));
      return true;
    case 'a': (token == "am" ? parts.morning : parts.afternoon) = true; return true;
    case 'b': parts.before_christ = token == "bc"; return true;
    case 'z':
      parts.zone = is_letter(token[0]) ? "+00" : std::string(token);
      // PostgreSQL reads an hour of one digit; ISO has two.
      if (parts.zone.size() == 2) parts.zone.insert(1, "0");
      return true;
    default: return true;
  }
}

}  // namespace

double fraction_of(std::string_view digits) {
  const std::string text = "0." + std::string(digits);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::int64_t micros_of_fraction(std::string_view digits) { return static_cast<std::int64_t>(std::nearbyint(fraction_of(digits) * 1e6)); }

std::optional<std::string> iso_of(std::string_view whole, bool dated) {
  const std::string text = lowered(trimmed(whole));
  if (text.empty() || text.size() > 128) return std::nullopt;
  const auto kinds = kinds_of(text);
  if (!kinds || (kinds->shape[0] == 'H' || kinds->shape[0] == 'T') == dated) return std::nullopt;
  Parts parts;
  for (std::size_t i = 0; i < kinds->tokens.size(); ++i) {
    if (!take(parts, kinds->shape[i], kinds->tokens[i])) return std::nullopt;
  }
  return iso_text(parts);
}

}  // namespace termgate::sqlite_server
