// date, time, timestamp, timestamptz: ISO text, and binary counted from 2000-01-01 (days for a date, microseconds for the others).
#include "values/forms.hpp"
#include "values/times.hpp"

#include <algorithm>
#include <cctype>
#include <limits>
#include <vector>

namespace termgate::sqlite_server {

namespace oid = dialect::oid;

namespace {

constexpr std::int64_t second_us = 1'000'000, minute_us = 60 * second_us, hour_us = 60 * minute_us, day_us = 24 * hour_us;
// What PostgreSQL holds: from 4714-11-24 BC to 294276 for timestamps, to 5874897 for dates.
constexpr std::int64_t first_day = -2'451'545, last_timestamp_day = 106'751'982, last_date_day = 2'145'031'948;

// The proleptic Gregorian calendar; year 0 is 1 BC. Days since 2000-01-01, by years of 400 that begin in March.
std::int64_t days_of(std::int64_t year, int month, int day) noexcept {
  const std::int64_t from_march = month > 2 ? year : year - 1;
  const std::int64_t era = (from_march >= 0 ? from_march : from_march - 399) / 400;
  const std::int64_t of_era = from_march - era * 400;
  const std::int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  return era * 146'097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 730'425;
}

struct Date {
  std::int64_t year;
  int month, day;
};

Date date_of(std::int64_t days) noexcept {
  days += 730'425;
  const std::int64_t era = (days >= 0 ? days : days - 146'096) / 146'097;
  const std::int64_t of_era = days - era * 146'097;
  const std::int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36'524 - of_era / 146'096) / 365;
  const std::int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t shifted = (5 * of_year + 2) / 153;
  const int month = static_cast<int>(shifted < 10 ? shifted + 3 : shifted - 9);
  return {year_of_era + era * 400 + (month <= 2 ? 1 : 0), month, static_cast<int>(of_year - (153 * shifted + 2) / 5 + 1)};
}

int days_in(std::int64_t year, int month) noexcept {
  constexpr int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return month == 2 && leap ? 29 : lengths[month - 1];
}

// A cursor over a text that only moves past what it was asked for.
class Text {
 public:
  explicit Text(std::string_view text) noexcept : left_(text) {}
  bool at_end() const noexcept { return left_.empty(); }
  bool begins(char c) const noexcept { return left_.starts_with(c); }
  bool take(char c) noexcept {
    if (!left_.starts_with(c)) return false;
    left_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) noexcept {
    if (left_.size() < word.size()) return false;
    for (std::size_t at = 0; at < word.size(); ++at) {
      if ((left_[at] | 0x20) != word[at]) return false;
    }
    left_.remove_prefix(word.size());
    return true;
  }
  std::size_t digits() const noexcept {
    std::size_t count = 0;
    while (count < left_.size() && left_[count] >= '0' && left_[count] <= '9') ++count;
    return count;
  }
  // `count` digits, at most 9; the caller has asked how many there are.
  std::int64_t number(std::size_t count) noexcept {
    std::int64_t value = 0;
    for (std::size_t at = 0; at < count; ++at) value = value * 10 + (left_[at] - '0');
    left_.remove_prefix(count);
    return value;
  }
  std::string_view take_digits() noexcept {
    const std::string_view all = left_.substr(0, digits());
    left_.remove_prefix(all.size());
    return all;
  }
  void spaces() noexcept {
    while (take(' ')) {}
  }

 private:
  std::string_view left_;
};

enum class TimeReading : std::uint8_t { fine, nothing, out_of_range, zone_out_of_range, not_here };

TimeReading read_date(Text& text, std::int64_t& days) {
  const std::size_t first = text.digits();
  std::int64_t year = 0, month = 0, day = 0;
  if (first == 8) {
    year = text.number(4);
    month = text.number(2);
    day = text.number(2);
  } else {
    if (first < 4 || first > 7) return TimeReading::nothing;
    year = text.number(first);
    if (!text.take('-')) return TimeReading::nothing;
    if (text.digits() < 1 || text.digits() > 2) return TimeReading::nothing;
    month = text.number(text.digits());
    if (!text.take('-') || text.digits() < 1 || text.digits() > 2) return TimeReading::nothing;
    day = text.number(text.digits());
  }
  days = year;  // the calendar waits for a BC at the end
  days = days * 10'000 + month * 100 + day;
  return TimeReading::fine;
}

TimeReading finish_date(Text& text, std::int64_t& packed_to_days) {
  text.spaces();
  const bool before_christ = text.take_word("bc");
  std::int64_t year = packed_to_days / 10'000;
  const int month = static_cast<int>(packed_to_days / 100 % 100), day = static_cast<int>(packed_to_days % 100);
  if (year == 0 || month < 1 || month > 12 || day < 1) return TimeReading::out_of_range;
  if (before_christ) year = 1 - year;
  if (day > days_in(year, month)) return TimeReading::out_of_range;
  packed_to_days = days_of(year, month, day);
  return packed_to_days < first_day || packed_to_days > last_date_day ? TimeReading::out_of_range : TimeReading::fine;
}

// Microseconds of the day; 24:00:00 is one.
TimeReading read_time(Text& text, std::int64_t& micros) {
  const std::size_t first = text.digits();
  const bool compact = first == 4 || first == 6;
  if (!compact && (first < 1 || first > 2)) return TimeReading::nothing;
  const std::int64_t hour = text.number(compact ? 2 : first);
  if (!compact && (!text.take(':') || text.digits() != 2)) return TimeReading::nothing;
  const std::int64_t minute = text.number(2);
  std::int64_t second = 0, fraction = 0;
  if (compact ? first == 6 : text.take(':')) {
    if (text.digits() != 2) return TimeReading::nothing;
    second = text.number(2);
    if (text.take('.')) {
      if (text.digits() == 0) return TimeReading::nothing;
      fraction = micros_of_fraction(text.take_digits());
    }
  }
  // After a date PostgreSQL reads "7278" as 72 hours and 78 minutes.
  const bool beyond = hour == 24 && (minute > 0 || second > 0 || fraction > 0);
  if (hour > 24 || minute > 59 || second > 60 || (compact && beyond)) return compact ? TimeReading::nothing : TimeReading::out_of_range;
  // "161343-12" is read as a date.
  if (compact && text.begins('-')) return TimeReading::nothing;
  micros = hour * hour_us + minute * minute_us + second * second_us + fraction;
  return micros > day_us ? TimeReading::out_of_range : TimeReading::fine;
}

// Seconds east of Greenwich.
TimeReading read_zone(Text& text, std::optional<std::int64_t>& zone) {
  text.spaces();
  if (text.take_word("utc") || text.take_word("gmt") || text.take_word("z")) {
    zone = 0;
    return text.at_end() || text.begins(' ') ? TimeReading::fine : TimeReading::nothing;
  }
  const bool east = text.take('+');
  if (!east && !text.take('-')) return TimeReading::fine;
  std::int64_t seconds = 0, minutes = 0, rest = 0;
  const std::size_t count = text.digits();
  if (count == 4) {
    seconds = text.number(2) * 3600;
    minutes = text.number(2);
  } else {
    if (count < 1 || count > 2) return TimeReading::nothing;
    seconds = text.number(count) * 3600;
    if (text.take(':')) {
      if (text.digits() != 2) return TimeReading::nothing;
      minutes = text.number(2);
      if (text.take(':')) {
        if (text.digits() != 2) return TimeReading::nothing;
        rest = text.number(2);
      }
    }
  }
  if (seconds >= 16 * 3600 || minutes > 59 || rest > 59) return TimeReading::zone_out_of_range;
  seconds += minutes * 60 + rest;
  zone = east ? seconds : -seconds;
  return TimeReading::fine;
}

constexpr std::int64_t forever = std::numeric_limits<std::int64_t>::max(), never = std::numeric_limits<std::int64_t>::min();

// The ISO form: days, or microseconds of the day, or microseconds since 2000-01-01; `forever` and `never` are the infinities.
TimeReading read_iso(std::string_view whole, Oid type, std::int64_t& value) {
  Text text(trimmed(whole));
  if (type != oid::time) {
    Text word = text;
    const bool negative = word.take('-');
    if (word.take_word("infinity") && word.at_end()) {
      value = negative ? never : forever;
      return TimeReading::fine;
    }
    if (word = text; word.take_word("epoch") && word.at_end()) {
      value = type == oid::date ? -10'957 : -10'957 * day_us;
      return TimeReading::fine;
    }
  }
  std::int64_t days = 0, micros = 0;
  std::optional<std::int64_t> zone;
  bool dated = type != oid::time, spaced = false;
  // A field out of range is reported only if the rest of the text is well-formed. True: the text is not.
  TimeReading problem = TimeReading::fine;
  const auto take = [&](TimeReading reading) {
    const bool second = reading != TimeReading::fine && problem != TimeReading::fine && reading != problem;
    if (problem == TimeReading::fine) problem = reading;
    return reading == TimeReading::nothing || second;
  };
  if (type == oid::time) {
    // A date in front of it is ignored.
    Text probe = text;
    if (std::int64_t ignored = 0; probe.digits() == 4 && read_date(probe, ignored) == TimeReading::fine) dated = true;
  }
  if (dated) {
    if (take(read_date(text, days))) return TimeReading::nothing;
    spaced = text.begins(' ');
    if (!text.take('T') && !text.take('t')) text.spaces();
  }
  if (type == oid::time && dated && text.digits() > 2) return TimeReading::nothing;
  if (text.digits() > 0) {
    if (take(read_time(text, micros)) || take(read_zone(text, zone))) return TimeReading::nothing;
  } else if (type == oid::time) {
    return TimeReading::nothing;
  } else if (spaced || !text.begins('-')) {
    // A date may have a zone without a time, as JDBC writes one. A minus that follows it directly continues the date.
    if (take(read_zone(text, zone))) return TimeReading::nothing;
  }
  if (dated && take(finish_date(text, days))) return TimeReading::nothing;
  text.spaces();
  if (!text.at_end()) return TimeReading::nothing;
  if (problem != TimeReading::fine) return problem;
  if (type == oid::date) {
    value = days;
  } else if (type == oid::time) {
    value = micros;
  } else {
    if (days > last_timestamp_day) return TimeReading::out_of_range;
    value = days * day_us + micros;
    if (type == oid::timestamptz && zone) value -= *zone * second_us;
  }
  return TimeReading::fine;
}

// Texts of time sort as time does from year 1 to 9999 only.
constexpr std::int64_t shown_first_day = -730'119, shown_last_day = 2'921'939;

// "2001-02-03T04:05": of a time of day PostgreSQL reads a date in front only with a blank between them.
bool joined_by_t(std::string_view text) {
  const auto at = text.find_first_of("Tt");
  return at != std::string_view::npos && at > 0 && at + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[at - 1])) != 0 &&
         std::isdigit(static_cast<unsigned char>(text[at + 1])) != 0;
}

TimeReading read(std::string_view whole, Oid type, std::int64_t& value) {
  if (type == oid::time && joined_by_t(whole)) return TimeReading::nothing;
  TimeReading reading = read_iso(whole, type, value);
  if (reading == TimeReading::nothing) {
    const auto iso = iso_of(whole, type != oid::time);
    if (!iso) return reading;
    reading = read_iso(*iso, type, value);
  }
  if (reading != TimeReading::fine || type == oid::time || value == forever || value == never) return reading;
  const std::int64_t unit = type == oid::date ? 1 : day_us;
  return value < shown_first_day * unit || value >= (shown_last_day + 1) * unit ? TimeReading::not_here : reading;
}

void append_two(std::string& out, std::int64_t number) {
  out += static_cast<char>('0' + number / 10);
  out += static_cast<char>('0' + number % 10);
}

// Returns whether it was before Christ, which the very end of the text says.
bool append_date(std::string& out, std::int64_t days) {
  const Date date = date_of(days);
  const bool before_christ = date.year <= 0;
  const std::string year = std::to_string(before_christ ? 1 - date.year : date.year);
  if (year.size() < 4) out.append(4 - year.size(), '0');
  out += year + "-";
  append_two(out, date.month);
  out += '-';
  append_two(out, date.day);
  return before_christ;
}

void append_time(std::string& out, std::int64_t micros) {
  append_two(out, micros / hour_us);
  out += ':';
  append_two(out, micros / minute_us % 60);
  out += ':';
  append_two(out, micros / second_us % 60);
  if (std::int64_t fraction = micros % second_us; fraction != 0) {
    std::string digits = std::to_string(fraction);
    digits.insert(0, 6 - digits.size(), '0');
    while (digits.back() == '0') digits.pop_back();
    out += "." + digits;
  }
}

std::string written(std::int64_t value, Oid type) {
  std::string out;
  if (type == oid::time) {
    append_time(out, value);
    return out;
  }
  if (value == forever || value == never) return value == forever ? "infinity" : "-infinity";
  bool before_christ = false;
  if (type == oid::date) {
    before_christ = append_date(out, value);
  } else {
    std::int64_t days = value / day_us, micros = value % day_us;
    if (micros < 0) {
      micros += day_us;
      --days;
    }
    before_christ = append_date(out, days);
    out += ' ';
    append_time(out, micros);
    if (type == oid::timestamptz) out += "+00";
  }
  if (before_christ) out += " BC";
  return out;
}

// PostgreSQL reads more forms than this does. Only words without a number are certainly no time, apart from a few.
bool perhaps_a_time(std::string_view text) {
  static constexpr std::string_view words[] = {"infinity", "epoch", "allballs", "now", "today", "tomorrow", "yesterday"};
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || c == ' '; };
  return !std::all_of(text.begin(), text.end(), plain) ||
         std::any_of(std::begin(words), std::end(words), [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

SqlError problem_of(TimeReading reading, std::string_view text, Oid type) {
  if (reading == TimeReading::not_here)
    return {"0A000", "dates before year 1 and after year 9999 are not supported in an SQLite file: \"" + std::string(text) + "\""};
  if (reading == TimeReading::zone_out_of_range) return {"22009", "time zone displacement out of range: \"" + std::string(text) + "\""};
  if (reading == TimeReading::out_of_range) return {"22008", "date/time field value out of range: \"" + std::string(text) + "\""};
  const std::string word = lowered(trimmed(text));
  for (const std::string_view moving : {"now", "today", "tomorrow", "yesterday"}) {
    if (word.starts_with(moving)) return {"0A000", "the word \"" + std::string(moving) + "\" as a date or time is not supported on SQLite"};
  }
  if (perhaps_a_time(word))
    return {"0A000", "this form of a " + std::string(spoken(type)) + " is not supported on SQLite: \"" + std::string(text) + "\""};
  return {"22007", "invalid input syntax for type " + std::string(spoken(type)) + ": \"" + std::string(text) + "\""};
}

}  // namespace

Parsed parse_time_like(std::string_view text, Oid type) {
  std::int64_t value = 0;
  const TimeReading reading = read(text, type, value);
  if (reading != TimeReading::fine) return problem_of(reading, text, type);
  return Stored(written(value, type));
}

Parsed parse_time_like_binary(std::string_view bytes, Oid type) {
  if (type == oid::date) {
    if (bytes.size() != 4) return wrong_size("date", bytes.size(), 4);
    const auto days = static_cast<std::int32_t>(read_big<std::uint32_t>(bytes));
    if (days == std::numeric_limits<std::int32_t>::max()) return Stored(written(forever, type));
    if (days == std::numeric_limits<std::int32_t>::min()) return Stored(written(never, type));
    if (days < first_day || days > last_date_day) return SqlError{"22008", "date out of range"};
    if (days < shown_first_day || days > shown_last_day) return problem_of(TimeReading::not_here, written(days, type), type);
    return Stored(written(days, type));
  }
  if (bytes.size() != 8) return wrong_size(spoken(type), bytes.size(), 8);
  const auto micros = static_cast<std::int64_t>(read_big<std::uint64_t>(bytes));
  if (type == oid::time) {
    if (micros < 0 || micros > day_us) return SqlError{"22008", "time out of range"};
  } else if (micros != forever && micros != never && (micros < first_day * day_us || micros >= (last_timestamp_day + 1) * day_us)) {
    return SqlError{"22008", "timestamp out of range"};
  } else if (micros != forever && micros != never && (micros < shown_first_day * day_us || micros >= (shown_last_day + 1) * day_us)) {
    return problem_of(TimeReading::not_here, written(micros, type), type);
  }
  return Stored(written(micros, type));
}

MaybeProblem append_time_like(std::string& out, const Stored& value, Oid type, Format format) {
  const std::string text = text_of(value);
  std::int64_t number = 0;
  const TimeReading reading = read_iso(text, type, number);
  if (format == Format::text) {
    // Written by whom it may be: what can be read goes out as PostgreSQL prints it.
    out += reading == TimeReading::fine ? written(number, type) : text;
    return std::nullopt;
  }
  if (reading != TimeReading::fine) return problem_of(reading, text, type);
  if (type == oid::date) {
    const std::int64_t days = number == forever ? std::numeric_limits<std::int32_t>::max()
                              : number == never ? std::numeric_limits<std::int32_t>::min()
                                                : number;
    append_big(out, static_cast<std::uint32_t>(days));
  } else {
    append_big(out, static_cast<std::uint64_t>(number));
  }
  return std::nullopt;
}

std::int64_t days_since_2000(const CalendarDay& day) noexcept { return days_of(day.year, day.month, day.day); }
CalendarDay calendar_day(std::int64_t days) noexcept {
  const Date date = date_of(days);
  return {date.year, date.month, date.day};
}
int days_of_month(std::int64_t year, int month) noexcept { return days_in(year, month); }

std::optional<SqlError> read_time_like(std::string_view text, Oid type, std::int64_t& value) {
  const TimeReading reading = read(text, type, value);
  return reading == TimeReading::fine ? std::nullopt : std::optional(problem_of(reading, text, type));
}
std::string write_time_like(std::int64_t value, Oid type) { return written(value, type); }
bool shown_in_order(std::int64_t days) noexcept { return days >= shown_first_day && days <= shown_last_day; }

namespace {

std::string zone_text(std::int64_t east) {
  std::string out(1, east < 0 ? '-' : '+');
  const std::int64_t seconds = east < 0 ? -east : east;
  append_two(out, seconds / 3600);
  if (seconds % 3600 != 0) append_two(out += ':', seconds / 60 % 60);
  if (seconds % 60 != 0) append_two(out += ':', seconds % 60);
  return out;
}

}  // namespace

std::optional<SqlError> read_timetz(std::string_view whole, std::int64_t& micros, std::int64_t& east) {
  if (joined_by_t(whole)) return problem_of(TimeReading::nothing, whole, oid::timetz);
  const auto read_here = [&](std::string_view from) {
    Text text(trimmed(from));
    // A date in front of it is ignored.
    Text probe = text;
    TimeReading date = TimeReading::fine;
    if (std::int64_t day = 0; probe.digits() == 4 && read_date(probe, day) == TimeReading::fine && probe.begins(' ')) {
      Text none("");
      date = finish_date(none, day);
      probe.spaces();
      text = probe;
      if (text.digits() > 2) return TimeReading::nothing;
    }
    if (text.digits() == 0) return TimeReading::nothing;
    const TimeReading time = read_time(text, micros);
    std::optional<std::int64_t> zone;
    const TimeReading of_zone = time == TimeReading::nothing ? time : read_zone(text, zone);
    east = zone.value_or(0);
    if (of_zone == TimeReading::nothing || !text.at_end()) return TimeReading::nothing;
    // PostgreSQL reports one of several problems; which one is not known here.
    TimeReading problem = TimeReading::fine;
    for (const TimeReading each : {time, date, of_zone}) {
      if (each == TimeReading::fine || each == problem) continue;
      if (problem != TimeReading::fine) return TimeReading::nothing;
      problem = each;
    }
    return problem;
  };
  TimeReading reading = read_here(whole);
  if (reading == TimeReading::nothing) {
    if (const auto iso = iso_of(whole, false)) reading = read_here(*iso);
  }
  return reading == TimeReading::fine ? std::nullopt : std::optional(problem_of(reading, whole, oid::timetz));
}

std::string write_timetz(std::int64_t micros, std::int64_t east) {
  std::string out;
  append_time(out, micros);
  return out + zone_text(east);
}

}  // namespace termgate::sqlite_server
