// Moments and intervals: arithmetic, parts, and pictures (to_char, to_date, to_timestamp). Time zones are UTC and fixed offsets.
// Long: a family of SQL functions, one after the other, and the table of them.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "values/forms.hpp"
#include "functions/functions.hpp"
#include "values/times.hpp"

namespace termgate::sqlite_server {
namespace {

namespace oid = dialect::oid;

constexpr std::int64_t second_us = 1'000'000, minute_us = 60 * second_us, hour_us = 60 * minute_us, day_us = 24 * hour_us;
constexpr std::int64_t unix_epoch_us = 946'684'800 * second_us;  // from 1970 to 2000
constexpr std::int64_t forever = std::numeric_limits<std::int64_t>::max(), never = std::numeric_limits<std::int64_t>::min();

bool infinite(const Moment& moment) { return moment.micros == forever || moment.micros == never; }

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

[[noreturn]] void out_of_range(std::string_view what) { fail("22008", std::string(what) + " out of range"); }

// PostgreSQL's bounds of a timestamp.
void check_moment(const Moment& moment) {
  if (infinite(moment)) return;
  if (moment.micros < -2'451'545 * day_us || moment.micros >= 106'751'983 * day_us) out_of_range("timestamp");
}

std::int64_t added(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) out_of_range("interval");
  return out;
}
std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) out_of_range("interval");
  return out;
}

void put_fraction(Interval& interval, double amount, std::string_view text) {
  const double rounded = std::nearbyint(amount);
  if (!(std::abs(rounded) < 9e18)) fail("22015", "interval field value out of range: \"" + std::string(text) + "\"");
  interval.micros = added(interval.micros, static_cast<std::int64_t>(rounded));
}

// "[-]hh:mm[:ss[.ffffff]]". A minute may have a second 60.
enum class Clock { read, none, out_of_range };
Clock read_clock(std::string_view word, std::int64_t& micros) {
  const bool minus = word.starts_with('-');
  if (minus || word.starts_with('+')) word.remove_prefix(1);
  std::int64_t parts[3] = {0, 0, 0};
  std::int64_t fraction = 0;
  std::size_t at = 0, part = 0;
  for (; part < 3; ++part) {
    const std::size_t begin = at;
    while (at < word.size() && word[at] >= '0' && word[at] <= '9') ++at;
    if (at == begin) return Clock::none;
    if (at - begin > (part == 0 ? 18 : 9)) return Clock::out_of_range;  // hours fill what an interval can hold
    parts[part] = number_of(word.substr(begin, at - begin));
    if (at >= word.size() || word[at] != ':') break;
    ++at;
  }
  if (part == 0 || part > 2) return Clock::none;
  if (part == 1 && at < word.size() && word[at] == '.') {
    // Two numbers and a fraction are minutes and seconds.
    if (parts[0] > 59) return Clock::none;
    parts[2] = std::exchange(parts[1], std::exchange(parts[0], 0));
  }
  if (at < word.size() && word[at] == '.') {
    const std::string_view digits = word.substr(at + 1);
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return Clock::none;
    fraction = micros_of_fraction(digits);
    at = word.size();
  }
  if (at != word.size()) return Clock::none;
  const std::int64_t sign = minus ? -1 : 1;
  const bool holds = !__builtin_mul_overflow(parts[0], sign * hour_us, &micros) &&
                     !__builtin_add_overflow(micros, sign * (parts[1] * minute_us + parts[2] * second_us + fraction), &micros);
  return holds && parts[1] < 60 && parts[2] <= 60 ? Clock::read : Clock::out_of_range;
}

// An amount of months or days, with what is broken going to the next smaller unit: 1.5 days is a day and 12 hours.
void put_days(Interval& interval, double amount) {
  if (!(std::abs(amount) < 1e12)) fail("22015", "interval field value out of range");
  const double whole = std::trunc(amount);
  interval.days = added(interval.days, static_cast<std::int64_t>(whole));
  put_fraction(interval, (amount - whole) * static_cast<double>(day_us), "");
}
void put_months(Interval& interval, double amount) {
  if (!(std::abs(amount) < 1e12)) fail("22015", "interval field value out of range");
  const double whole = std::trunc(amount);
  interval.months = added(interval.months, static_cast<std::int64_t>(whole));
  put_days(interval, (amount - whole) * 30);
}

// A number of a unit as it is written: its whole part and its fraction, which has the sign, too.
struct Amount {
  std::int64_t whole = 0;
  double fraction = 0;
};

bool read_amount(std::string_view digits, Amount& amount) {
  const bool minus = digits.starts_with('-'), sign = minus || digits.starts_with('+');
  if (sign) digits.remove_prefix(1);
  const auto dot = std::min(digits.find('.'), digits.size());
  const std::string_view whole = digits.substr(0, dot), fraction = digits.substr(std::min(dot + 1, digits.size()));
  const auto is_digits = [](std::string_view text) { return text.find_first_not_of("0123456789") == std::string_view::npos; };
  const bool bare = whole.empty() && digits.size() != dot;  // ".5", and with a sign PostgreSQL does not read it
  if (digits.empty() || !is_digits(whole) || !is_digits(fraction) || (bare && (sign || fraction.empty()))) return false;
  amount = {};
  if (!whole.empty())
    amount.whole = number_of(whole.size() > 18 ? std::string_view("900000000000000000") : whole);  // put_unit() refuses it
  if (!fraction.empty()) amount.fraction = fraction_of(fraction);
  if (minus) amount = {-amount.whole, -amount.fraction};
  return true;
}

// What is broken goes to the next smaller units, as PostgreSQL counts it: of years to months, of months to days, of days to the time.
// False: no such unit.
bool put_unit(Interval& interval, std::string_view unit, const Amount& amount, std::string_view text) {
  if (amount.whole > 1'000'000'000'000'000 || amount.whole < -1'000'000'000'000'000)
    fail("22015", "interval field value out of range: \"" + std::string(text) + "\"");
  const auto micros = [&](double fraction, std::int64_t of_a_unit) {
    const double all = fraction * static_cast<double>(of_a_unit), whole = std::trunc(all), rest = all - whole;
    interval.micros = added(interval.micros, static_cast<std::int64_t>(whole) + (rest > 0.5 ? 1 : rest < -0.5 ? -1 : 0));
  };
  const auto days = [&](double fraction, int of_a_unit) {
    const double all = fraction * of_a_unit, whole = std::trunc(all);
    interval.days = added(interval.days, static_cast<std::int64_t>(whole));
    micros(all - whole, day_us);
  };
  const auto years = [&](std::int64_t of_a_unit) {
    interval.months = added(interval.months, times(amount.whole, of_a_unit * 12));
    interval.months =
        added(interval.months, static_cast<std::int64_t>(std::nearbyint(amount.fraction * static_cast<double>(of_a_unit) * 12)));
  };
  const auto time = [&](std::int64_t of_a_unit) {
    interval.micros = added(interval.micros, times(amount.whole, of_a_unit));
    micros(amount.fraction, of_a_unit);
  };
  const auto is = [&](std::initializer_list<std::string_view> words) { return std::find(words.begin(), words.end(), unit) != words.end(); };
  if (is({"millennium", "millennia", "mil", "mils"})) years(1000);
  else if (is({"century", "centuries", "cent", "c"})) years(100);
  else if (is({"decade", "decades", "dec", "decs"})) years(10);
  else if (is({"year", "years", "yr", "yrs", "y"})) years(1);
  else if (is({"month", "months", "mon", "mons"})) {
    interval.months = added(interval.months, amount.whole);
    days(amount.fraction, 30);
  } else if (is({"week", "weeks", "w"})) {
    interval.days = added(interval.days, times(amount.whole, 7));
    days(amount.fraction, 7);
  } else if (is({"day", "days", "d"})) {
    interval.days = added(interval.days, amount.whole);
    micros(amount.fraction, day_us);
  } else if (is({"hour", "hours", "hr", "hrs", "h"})) time(hour_us);
  else if (is({"minute", "minutes", "min", "mins", "m"})) time(minute_us);
  else if (is({"second", "seconds", "sec", "secs", "s"})) time(second_us);
  else if (is({"millisecond", "milliseconds", "msec", "msecs", "ms"})) time(1000);
  else if (is({"microsecond", "microseconds", "usec", "usecs", "us"})) time(1);
  else return false;
  return true;
}

std::int64_t zone_seconds(std::string_view zone) {
  const std::string name = lower(trimmed(zone));
  if (name == "utc" || name == "gmt" || name == "z" || name == "zulu" || name == "etc/utc" || name == "etc/gmt" || name == "uct" ||
      name == "universal")
    return 0;
  if (!name.empty() && (name[0] == '+' || name[0] == '-')) {
    // An offset by itself counts as POSIX has it: + lies west of Greenwich.
    std::int64_t value = 0;
    if (read_clock(name.find(':') == std::string::npos ? name + ":00" : name, value) == Clock::read && std::abs(value) < 168 * hour_us)
      return -value / second_us;
  }
  if (name.ends_with(":00:00") || name.find(':') != std::string::npos) {
    std::int64_t value = 0;
    if (read_clock(name, value) == Clock::read && std::abs(value) < 168 * hour_us) return value / second_us;
  }
  // Of names PostgreSQL knows hundreds.
  if (!name.empty() && (name[0] < '0' || name[0] > '9') && name[0] != '+' && name[0] != '-')
    fail("0A000", "time zone \"" + std::string(zone) + "\" is not supported on SQLite: only UTC and offsets are");
  fail("22023", "time zone \"" + std::string(zone) + "\" not recognized");
}

struct Broken {
  CalendarDay day{2000, 1, 1};
  std::int64_t days = 0, of_day = 0;
};
Broken broken(const Moment& moment) {
  Broken out;
  if (moment.type == oid::time) {
    out.of_day = moment.micros;
    return out;
  }
  out.days = floor_div(moment.micros, day_us);
  out.of_day = moment.micros - out.days * day_us;
  out.day = calendar_day(out.days);
  return out;
}

int day_of_year(const Broken& at) { return static_cast<int>(at.days - days_since_2000({at.day.year, 1, 1})) + 1; }
// 2000-01-01 was a Saturday; 0 is Sunday.
int weekday(const Broken& at) { return static_cast<int>(((at.days + 6) % 7 + 7) % 7); }
// The week of ISO 8601 belongs to the year of its Thursday.
void iso_week(const Broken& at, std::int64_t& year, int& week) {
  const std::int64_t thursday = at.days - (weekday(at) + 6) % 7 + 3;
  year = calendar_day(thursday).year;
  week = static_cast<int>((thursday - days_since_2000({year, 1, 1})) / 7) + 1;
}

// The seconds of what an interval can hold, in microseconds.
__extension__ using Wide = __int128;

// A numeric of `places` decimals, as PostgreSQL's extract() gives them; the units are 10^-places.
void answer_decimal(Call& call, Wide units, int places) {
  const bool minus = units < 0;
  if (minus) units = -units;
  std::string digits;
  for (int i = 0; units > 0 || i <= places; ++i, units /= 10)
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(units % 10)));
  if (places > 0) digits.insert(digits.size() - static_cast<std::size_t>(places), 1, '.');
  call.answer((minus ? "-" : "") + digits);
}

bool is_interval(std::string_view text) {
  const std::string small = lower(text);
  for (const std::string_view word : {"day", "mon", "year", "hour", "min", "sec", "week"}) {
    if (small.find(word) != std::string::npos) return true;
  }
  // A time of day ends at 24; up to there both have the same parts.
  if (const auto colon = small.find(':'); colon != std::string::npos && small.find_first_not_of("0123456789") == colon &&
                                          number_of(std::string_view(small).substr(0, colon)) > 24)
    return true;
  return small.starts_with('p') || (small.find('-', 1) == std::string::npos && small.starts_with('-'));
}

// A unit by any of its names, as extract() and date_trunc() take them; empty: PostgreSQL knows none of that name.
std::string unit_named(std::string_view word) {
  struct Names {
    std::string_view unit;
    std::initializer_list<std::string_view> words;
  };
  static const Names all[] = {
      {"microseconds", {"microseconds", "microsecond", "usec", "usecs", "us", "microsecon"}},
      {"milliseconds", {"milliseconds", "millisecond", "msec", "msecs", "ms", "millisecon"}},
      {"second", {"second", "seconds", "sec", "secs", "s"}},
      {"minute", {"minute", "minutes", "min", "mins", "m"}},
      {"hour", {"hour", "hours", "hr", "hrs", "h"}},
      {"day", {"day", "days", "d"}},
      {"week", {"week", "weeks", "w"}},
      {"month", {"month", "months", "mon", "mons"}},
      {"quarter", {"quarter", "qtr"}},
      {"year", {"year", "years", "yr", "yrs", "y"}},
      {"decade", {"decade", "decades", "dec", "decs"}},
      {"century", {"century", "centuries", "cent", "c"}},
      {"millennium", {"millennium", "millennia", "mil", "mils"}},
      {"dow", {"dow"}},
      {"isodow", {"isodow"}},
      {"doy", {"doy"}},
      {"isoyear", {"isoyear"}},
      {"julian", {"julian", "jd", "j"}},
      {"epoch", {"epoch"}},
      {"timezone", {"timezone"}},
      {"timezone_hour", {"timezone_hour", "timezone_h"}},
      {"timezone_minute", {"timezone_minute", "timezone_m"}},
  };
  for (const Names& each : all) {
    if (std::find(each.words.begin(), each.words.end(), word) != each.words.end()) return std::string(each.unit);
  }
  return {};
}

[[noreturn]] void no_unit(const std::string& given, const std::string& unit, std::string_view type) {
  if (unit.empty()) fail("22023", "unit \"" + given + "\" not recognized for type " + std::string(type));
  fail("0A000", "unit \"" + given + "\" not supported for type " + std::string(type));
}

void extract_interval(Call& call, const Interval& interval, const std::string& given, const std::string& unit) {
  const std::int64_t of_minute = interval.micros % minute_us;
  if (unit == "epoch") {
    // A year has 365.25 days here.
    const Wide quarters =
        static_cast<Wide>(interval.months / 12) * 1461 + (static_cast<Wide>(interval.months % 12) * 30 + interval.days) * 4;
    return answer_decimal(call, quarters * (day_us / 4) + interval.micros, 6);
  }
  if (unit == "year") return call.answer(interval.months / 12);
  if (unit == "month") return call.answer(interval.months % 12);
  if (unit == "day") return call.answer(interval.days);
  if (unit == "hour") return call.answer(interval.micros / hour_us);
  if (unit == "minute") return call.answer(interval.micros / minute_us % 60);
  if (unit == "second") return answer_decimal(call, of_minute, 6);
  if (unit == "milliseconds") return answer_decimal(call, of_minute, 3);
  if (unit == "microseconds") return call.answer(of_minute);
  if (unit == "quarter") return call.answer(interval.months % 12 / 3 + 1);
  if (unit == "decade") return call.answer(interval.months / 120);
  if (unit == "century") return call.answer(interval.months / 1200);
  if (unit == "millennium") return call.answer(interval.months / 12000);
  no_unit(given, unit, "interval");
}

// Of a date or a timestamp; false: it is no unit of days.
bool extract_day(Call& call, const Moment& moment, const Broken& at, const std::string& unit) {
  const auto answer = [&](std::int64_t number) {
    call.answer(number);
    return true;
  };
  if (unit == "year") return answer(at.day.year > 0 ? at.day.year : at.day.year - 1);
  if (unit == "month") return answer(at.day.month);
  if (unit == "day") return answer(at.day.day);
  if (unit == "quarter") return answer((at.day.month - 1) / 3 + 1);
  if (unit == "doy") return answer(day_of_year(at));
  if (unit == "dow") return answer(weekday(at));
  if (unit == "isodow") return answer(weekday(at) == 0 ? 7 : weekday(at));
  if (unit == "week" || unit == "isoyear") {
    std::int64_t year = 0;
    int week = 0;
    iso_week(at, year, week);
    return answer(unit == "week" ? std::int64_t{week} : year);
  }
  if (unit == "decade") return answer(floor_div(at.day.year, 10));
  if (unit == "century") return answer(at.day.year > 0 ? (at.day.year + 99) / 100 : -((99 - (at.day.year - 1)) / 100));
  if (unit == "millennium") return answer(at.day.year > 0 ? (at.day.year + 999) / 1000 : -((999 - (at.day.year - 1)) / 1000));
  if (unit == "julian") {
    if (at.of_day != 0) fail("0A000", "the Julian date of a time of day is not supported on SQLite");
    return answer(at.days + 2'451'545);
  }
  if (unit != "epoch") return false;
  const std::int64_t since = moment.micros + unix_epoch_us;
  if (moment.type == oid::date) call.answer(since / second_us);
  else answer_decimal(call, since, 6);
  return true;
}

// (unit, value[, type]). Without a type it is guessed from the value: the texts about the catalog.
void extract(Call& call) {
  const std::string given = lower(call.text(0)), unit = unit_named(given), text = call.text(1);
  const std::string type = call.count > 2 ? call.text(2) : is_interval(text) ? "interval" : "";
  if (type == "interval") return extract_interval(call, parse_interval(text), given, unit);
  const Moment moment = parse_moment(text);
  const std::string_view spoken = type == "date"                          ? "date"
                                  : moment.type == oid::time              ? "time without time zone"
                                  : type.empty() || type == "timestamptz" ? "timestamp with time zone"
                                                                          : "timestamp without time zone";
  if (unit.empty()) no_unit(given, unit, spoken);
  if (infinite(moment)) fail("0A000", "the fields of an infinite moment are not supported on SQLite");
  const Broken at = broken(moment);
  const std::int64_t of_minute = at.of_day % minute_us;
  if (moment.type != oid::time) {
    if (extract_day(call, moment, at, unit)) return;
    if (type == "date") no_unit(given, unit, spoken);
    if (unit.starts_with("timezone")) return type == "timestamp" ? no_unit(given, unit, spoken) : call.answer(std::int64_t{0});
  } else if (unit == "epoch") {
    return answer_decimal(call, moment.micros, 6);
  }
  if (unit == "hour") return call.answer(at.of_day / hour_us);
  if (unit == "minute") return call.answer(at.of_day / minute_us % 60);
  if (unit == "second") return answer_decimal(call, of_minute, 6);
  if (unit == "milliseconds") return answer_decimal(call, of_minute, 3);
  if (unit == "microseconds") return call.answer(of_minute);
  no_unit(given, unit, spoken);
}

void trunc_interval(Call& call, const std::string& given, const std::string& unit) {
  Interval interval = parse_interval(call.text(1));
  const auto years = [&](std::int64_t count) { interval = {interval.months / (12 * count) * 12 * count, 0, 0}; };
  if (unit == "millennium") years(1000);
  else if (unit == "century") years(100);
  else if (unit == "decade") years(10);
  else if (unit == "year") years(1);
  else if (unit == "quarter") interval = {interval.months / 3 * 3, 0, 0};
  else if (unit == "month") interval = {interval.months, 0, 0};
  else if (unit == "day") interval.micros = 0;
  else if (unit == "hour") interval.micros -= interval.micros % hour_us;
  else if (unit == "minute") interval.micros -= interval.micros % minute_us;
  else if (unit == "second") interval.micros -= interval.micros % second_us;
  else if (unit == "milliseconds") interval.micros -= interval.micros % 1000;
  else if (unit != "microseconds") no_unit(given, unit, "interval");
  call.answer(interval_text(interval));
}

// (unit, value[, type]), as extract().
void date_trunc(Call& call) {
  const std::string given = lower(call.text(0)), unit = unit_named(given);
  const std::string type = call.count > 2 ? call.text(2) : is_interval(call.text(1)) ? "interval" : "";
  if (type == "interval") return trunc_interval(call, given, unit);
  const std::string_view spoken = type == "timestamp" ? "timestamp without time zone" : "timestamp with time zone";
  Moment moment = parse_moment(call.text(1));
  // A date is a moment of the session's zone, which is UTC.
  if (moment.type == oid::date) moment.type = oid::timestamptz;
  if (unit.empty()) no_unit(given, unit, spoken);
  if (infinite(moment)) return call.answer(moment_text(moment));
  Broken at = broken(moment);
  const auto at_day = [&](std::int64_t days) { moment.micros = days * day_us; };
  const auto of_year = [&](std::int64_t year) { at_day(days_since_2000({year, 1, 1})); };
  if (unit == "microseconds") {
  } else if (unit == "milliseconds") moment.micros -= at.of_day % 1000;
  else if (unit == "second") moment.micros -= at.of_day % second_us;
  else if (unit == "minute") moment.micros -= at.of_day % minute_us;
  else if (unit == "hour") moment.micros -= at.of_day % hour_us;
  else if (unit == "day") at_day(at.days);
  else if (unit == "week") at_day(at.days - (weekday(at) + 6) % 7);
  else if (unit == "month") at_day(days_since_2000({at.day.year, at.day.month, 1}));
  else if (unit == "quarter") at_day(days_since_2000({at.day.year, (at.day.month - 1) / 3 * 3 + 1, 1}));
  else if (unit == "year") of_year(at.day.year);
  else if (unit == "decade") of_year(floor_div(at.day.year, 10) * 10);
  else if (unit == "century") of_year(floor_div(at.day.year - 1, 100) * 100 + 1);
  else if (unit == "millennium") of_year(floor_div(at.day.year - 1, 1000) * 1000 + 1);
  else no_unit(given, unit, spoken);
  call.answer(moment_text(moment));
}

Interval age_between(const Moment& later, const Moment& earlier) {
  const bool minus = later.micros < earlier.micros;
  const Broken a = broken(minus ? earlier : later), b = broken(minus ? later : earlier);
  Interval out;
  out.months = (a.day.year - b.day.year) * 12 + a.day.month - b.day.month;
  out.days = a.day.day - b.day.day;
  out.micros = a.of_day - b.of_day;
  if (out.micros < 0) {
    out.micros += day_us;
    --out.days;
  }
  if (out.days < 0) {
    --out.months;
    // Days are borrowed from the month of the earlier moment.
    out.days += days_of_month(b.day.year, b.day.month);
  }
  if (minus) out = {-out.months, -out.days, -out.micros};
  return out;
}

void age(Call& call) {
  const Moment first = parse_moment(call.text(0)), second = call.count > 1 ? parse_moment(call.text(1)) : first;
  if (infinite(first) || infinite(second)) fail("0A000", "age() of an infinite timestamp is not supported on SQLite");
  if (call.count > 1) return call.answer(interval_text(age_between(first, second)));
  const std::int64_t now = call.state.session().transaction_began_us() - unix_epoch_us;
  call.answer(interval_text(age_between({floor_div(now, day_us) * day_us, oid::timestamp}, first)));
}

Moment transaction_began(Call& call) { return {call.state.session().transaction_began_us() - unix_epoch_us, oid::timestamptz}; }
Moment clock_now() {
  return {
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count() - unix_epoch_us,
      oid::timestamptz};
}

template <Oid type>
void now_as(Call& call) {
  Moment moment = transaction_began(call);
  if (type == oid::time) moment.micros = broken(moment).of_day;
  if (type == oid::date) moment.micros = broken(moment).days * day_us;
  moment.type = type;
  call.answer(moment_text(moment));
}

template <int sign>
void shift(Call& call) {
  Moment moment = parse_moment(call.text(0));
  if (moment.type == oid::date) moment.type = oid::timestamp;
  call.answer(moment_text(shifted(moment, parse_interval(call.text(1)), sign)));
}

void interval_math(Call& call) {
  const std::string symbol = call.text(1);
  if (symbol == "+" || symbol == "-") {
    const Interval a = parse_interval(call.text(0)), b = parse_interval(call.text(2));
    const std::int64_t sign = symbol == "+" ? 1 : -1;
    return call.answer(interval_text({added(a.months, sign * b.months), added(a.days, sign * b.days), added(a.micros, sign * b.micros)}));
  }
  const bool number_first = call.type(0) != SQLITE_TEXT;
  const Interval interval = parse_interval(call.text(number_first ? 2 : 0));
  double factor = call.real(number_first ? 0 : 2);
  if (symbol == "/") {
    if (factor == 0) fail("22012", "division by zero");
    factor = 1 / factor;
  }
  Interval out;
  put_months(out, static_cast<double>(interval.months) * factor);
  put_days(out, static_cast<double>(interval.days) * factor);
  put_fraction(out, static_cast<double>(interval.micros) * factor, "");
  call.answer(interval_text(out));
}

void date_diff(Call& call) {
  const Moment later = parse_moment(call.text(0)), earlier = parse_moment(call.text(1));
  if (infinite(later) || infinite(earlier)) fail("22008", "cannot subtract infinite dates");
  call.answer(floor_div(later.micros, day_us) - floor_div(earlier.micros, day_us));
}
void date_add(Call& call) {
  Moment moment = parse_moment(call.text(0));
  moment.type = oid::date;
  if (!infinite(moment)) moment.micros = added(moment.micros, times(call.whole(1), day_us));
  call.answer(moment_text(moment));
}

void at_zone(Call& call) {
  Moment moment = parse_moment(call.text(1));
  const std::int64_t offset = zone_seconds(call.text(0)) * second_us;
  const bool zoned = moment.type == oid::timestamptz;
  if (!infinite(moment)) moment.micros += zoned ? offset : -offset;
  moment.type = zoned ? oid::timestamp : oid::timestamptz;
  call.answer(moment_text(moment));
}

void make_date(Call& call) {
  const std::int64_t year = call.whole(0) < 0 ? call.whole(0) + 1 : call.whole(0), month = call.whole(1), day = call.whole(2);
  if (call.whole(0) == 0 || std::abs(year) > 294'275 || month < 1 || month > 12 || day < 1 ||
      day > days_of_month(year, static_cast<int>(month))) {
    fail("22008",
         "date field value out of range: " + std::to_string(call.whole(0)) + "-" + std::to_string(month) + "-" + std::to_string(day));
  }
  call.answer(moment_text({days_since_2000({year, static_cast<int>(month), static_cast<int>(day)}) * day_us, oid::date}));
}

void make_interval(Call& call) {
  const auto whole = [&](int i) { return call.count > i ? call.whole(i) : 0; };
  Interval out;
  out.months = added(times(whole(0), 12), whole(1));
  out.days = added(times(whole(2), 7), whole(3));
  out.micros = added(times(whole(4), hour_us), times(whole(5), minute_us));
  if (call.count > 6) put_fraction(out, call.real(6) * 1e6, "");
  call.answer(interval_text(out));
}

// ------------------------------------------------------------------------------------------------ pictures

constexpr std::string_view months[] = {"January", "February", "March",     "April",   "May",      "June",
                                       "July",    "August",   "September", "October", "November", "December"};
constexpr std::string_view weekdays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

// The pattern that begins here, the longest first; empty: a character of its own.
std::string_view picture_at(std::string_view format) {
  static constexpr std::string_view patterns[] = {
      "Y,YYY", "HH24", "HH12", "SSSSS", "SSSS", "YYYY", "IYYY", "MONTH", "Month", "month", "A.D.", "B.C.", "A.M.", "P.M.", "a.m.",
      "p.m.",  "YYY",  "MON",  "Mon",   "mon",  "DDD",  "DAY",  "Day",   "day",   "YY",    "MM",   "DD",   "HH",   "MI",   "SS",
      "MS",    "US",   "DY",   "Dy",    "dy",   "ID",   "IW",   "WW",    "CC",    "TZ",    "tz",   "OF",   "AM",   "PM",   "am",
      "pm",    "AD",   "BC",   "TH",    "th",   "FM",   "FX",   "TM",    "Y",     "D",     "Q",    "J",    "W"};
  for (const std::string_view pattern : patterns) {
    if (format.starts_with(pattern)) return pattern;
  }
  // Numbers may be asked for in small letters too.
  static constexpr std::string_view small[] = {"hh24", "hh12", "sssss", "yyyy", "iyyy", "ddd", "yy", "mm", "dd", "hh", "mi", "ss",
                                               "ms",   "us",   "id",    "iw",   "ww",   "cc",  "fm", "q",  "j",  "d",  "y",  "w"};
  static constexpr std::string_view big[] = {"HH24", "HH12", "SSSSS", "YYYY", "IYYY", "DDD", "YY", "MM", "DD", "HH", "MI", "SS",
                                             "MS",   "US",   "ID",    "IW",   "WW",   "CC",  "FM", "Q",  "J",  "D",  "Y",  "W"};
  for (std::size_t i = 0; i < std::size(small); ++i) {
    if (format.starts_with(small[i])) return big[i];
  }
  return {};
}

struct Fields {
  std::int64_t year = 0;
  int month = 1, day = 1;
  std::int64_t hour = 0, minute = 0, second = 0, micros = 0;
  int weekday = 0, day_of_year = 1, iso_week = 1;
  std::int64_t iso_year = 0, days = 0, of_day = 0;
  bool zoned = false;
};

std::string cased(std::string_view name, std::string_view pattern) {
  std::string out(name);
  const bool upper = pattern.size() > 1 && pattern[1] >= 'A' && pattern[1] <= 'Z';
  const bool small = pattern[0] >= 'a' && pattern[0] <= 'z';
  for (char& c : out) {
    if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    if (small && c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return out;
}

std::string ordinal(std::int64_t number, bool upper) {
  const std::int64_t last = number % 10, two = number % 100;
  const std::string_view end = two >= 11 && two <= 13 ? "th" : last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th";
  std::string out(end);
  if (upper) {
    for (char& c : out) c = static_cast<char>(c - 32);
  }
  return out;
}

std::string drawn(const Fields& at, std::string_view format) {
  std::string out;
  bool fill = true;
  std::int64_t last_number = 0;
  const auto number = [&](std::int64_t value, std::size_t width) {
    last_number = value;
    std::string digits = std::to_string(std::abs(value));
    if (fill && digits.size() < width) digits.insert(0, width - digits.size(), '0');
    out += (value < 0 ? "-" : "") + digits;
    fill = true;
  };
  const auto word = [&](std::string_view name, std::string_view pattern, std::size_t width) {
    std::string text = cased(name, pattern);
    if (fill && text.size() < width) text.append(width - text.size(), ' ');
    out += text;
    fill = true;
  };
  for (std::size_t i = 0; i < format.size();) {
    if (format[i] == '"') {
      const auto end = std::min(format.find('"', i + 1), format.size());
      out += format.substr(i + 1, end - i - 1);
      i = end + 1;
      continue;
    }
    if (format[i] == '\\' && i + 1 < format.size()) {
      out += format[i + 1];
      i += 2;
      continue;
    }
    const std::string_view pattern = picture_at(format.substr(i));
    if (pattern.empty()) {
      out += format[i++];
      continue;
    }
    i += pattern.size();
    const std::int64_t year = at.year > 0 ? at.year : 1 - at.year;
    if (pattern == "FM") fill = false;
    else if (pattern == "FX" || pattern == "TM") continue;
    else if (pattern == "YYYY") number(year, 4);
    else if (pattern == "Y,YYY") out += std::to_string(year / 1000) + "," + std::to_string(1000 + year % 1000).substr(1);
    else if (pattern == "YYY") number(year % 1000, 3);
    else if (pattern == "YY") number(year % 100, 2);
    else if (pattern == "Y") number(year % 10, 1);
    else if (pattern == "IYYY") number(at.iso_year, 4);
    else if (pattern == "CC") number((year + 99) / 100, 2);
    else if (pattern == "Q") number((at.month - 1) / 3 + 1, 1);
    else if (pattern == "MM") number(at.month, 2);
    else if (pattern == "MONTH" || pattern == "Month" || pattern == "month") word(months[at.month - 1], pattern, 9);
    else if (pattern == "MON" || pattern == "Mon" || pattern == "mon") word(months[at.month - 1].substr(0, 3), pattern, 0);
    else if (pattern == "DDD") number(at.day_of_year, 3);
    else if (pattern == "DD") number(at.day, 2);
    else if (pattern == "D") number(at.weekday + 1, 1);
    else if (pattern == "ID") number(at.weekday == 0 ? 7 : at.weekday, 1);
    else if (pattern == "DAY" || pattern == "Day" || pattern == "day") word(weekdays[at.weekday], pattern, 9);
    else if (pattern == "DY" || pattern == "Dy" || pattern == "dy") word(weekdays[at.weekday].substr(0, 3), pattern, 0);
    else if (pattern == "WW") number((at.day_of_year - 1) / 7 + 1, 2);
    else if (pattern == "W") number((at.day - 1) / 7 + 1, 1);
    else if (pattern == "IW") number(at.iso_week, 2);
    else if (pattern == "J") number(at.days + 2'451'545, 7);
    else if (pattern == "HH24") number(at.hour, 2);
    else if (pattern == "HH" || pattern == "HH12") number(at.hour % 12 == 0 ? 12 : at.hour % 12, 2);
    else if (pattern == "MI") number(at.minute, 2);
    else if (pattern == "SS") number(at.second, 2);
    else if (pattern == "MS") number(at.micros / 1000, 3);
    else if (pattern == "US") number(at.micros, 6);
    else if (pattern == "SSSS" || pattern == "SSSSS") number(at.of_day / second_us, 1);
    else if (pattern == "AM" || pattern == "PM") out += at.hour % 24 >= 12 ? "PM" : "AM";
    else if (pattern == "am" || pattern == "pm") out += at.hour % 24 >= 12 ? "pm" : "am";
    else if (pattern == "A.M." || pattern == "P.M.") out += at.hour % 24 >= 12 ? "P.M." : "A.M.";
    else if (pattern == "a.m." || pattern == "p.m.") out += at.hour % 24 >= 12 ? "p.m." : "a.m.";
    else if (pattern == "AD" || pattern == "BC") out += at.year > 0 ? "AD" : "BC";
    else if (pattern == "A.D." || pattern == "B.C.") out += at.year > 0 ? "A.D." : "B.C.";
    else if (pattern == "TZ" || pattern == "tz") out += at.zoned ? (pattern == "TZ" ? "UTC" : "utc") : "";
    else if (pattern == "OF") out += at.zoned ? "+00" : "";
    else if (pattern == "TH" || pattern == "th") out += ordinal(last_number, pattern == "TH");
  }
  return out;
}

// to_date() and to_timestamp(text, format): digits and names where the picture has them.
Moment read_picture(std::string_view text, std::string_view format, Oid type) {
  std::int64_t year = 1, hour = 0, minute = 0, second = 0, micros = 0, day = 1, of_year = 0;
  int month = 1;
  bool afternoon = false, twelve = false, before_christ = false;
  std::size_t at = 0;
  const auto wrong = [&](std::string_view pattern) {
    fail("22007", "invalid value \"" + std::string(text.substr(std::min(at, text.size()), 4)) + "\" for \"" + std::string(pattern) + "\"");
  };
  const auto number = [&](std::string_view pattern, std::size_t most) {
    while (at < text.size() && text[at] == ' ') ++at;
    const bool minus = at < text.size() && text[at] == '-' && pattern == "YYYY";
    if (minus) ++at;
    std::size_t count = 0;
    while (count < most && at + count < text.size() && text[at + count] >= '0' && text[at + count] <= '9') ++count;
    if (count == 0) wrong(pattern);
    const std::int64_t value = number_of(text.substr(at, count));
    at += count;
    return minus ? -value : value;
  };
  const auto name = [&](std::span<const std::string_view> names, std::string_view pattern, bool whole) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string_view wanted = whole ? names[i] : names[i].substr(0, 3);
      if (lower(text.substr(std::min(at, text.size()), wanted.size())) == lower(wanted)) {
        at += wanted.size();
        return static_cast<int>(i);
      }
    }
    wrong(pattern);
    return 0;
  };
  for (std::size_t i = 0; i < format.size();) {
    const std::string_view pattern = picture_at(format.substr(i));
    if (pattern.empty()) {
      // What separates stands for any separator.
      ++i;
      if (at < text.size() && !((text[at] >= '0' && text[at] <= '9') || (text[at] | 0x20) == 'x')) ++at;
      continue;
    }
    i += pattern.size();
    const bool more = !picture_at(format.substr(std::min(i, format.size()))).empty();
    if (pattern == "YYYY") year = number(pattern, more ? 4 : 6);
    else if (pattern == "YY") {
      year = number(pattern, 2);
      year += year < 70 ? 2000 : 1900;
    } else if (pattern == "MM") month = static_cast<int>(number(pattern, 2));
    else if (pattern == "DD") day = number(pattern, 2);
    else if (pattern == "DDD") of_year = number(pattern, 3);
    else if (pattern == "HH24") hour = number(pattern, 2);
    else if (pattern == "HH" || pattern == "HH12") {
      hour = number(pattern, 2);
      twelve = true;
      if (hour < 1 || hour > 12) fail("22007", "hour \"" + std::to_string(hour) + "\" is invalid for the 12-hour clock");
    } else if (pattern == "MI") minute = number(pattern, 2);
    else if (pattern == "SS") second = number(pattern, 2);
    else if (pattern == "MS" || pattern == "US") {
      const std::size_t begin = at;
      const std::size_t width = pattern == "MS" ? 3 : 6;
      micros = number(pattern, width);
      for (std::size_t digits = at - begin; digits < 6; ++digits) micros *= 10;
    } else if (pattern == "MON" || pattern == "Mon" || pattern == "mon") month = name(months, pattern, false) + 1;
    else if (pattern == "MONTH" || pattern == "Month" || pattern == "month") month = name(months, pattern, true) + 1;
    else if (pattern == "DAY" || pattern == "Day" || pattern == "day") name(weekdays, pattern, true);
    else if (pattern == "DY" || pattern == "Dy" || pattern == "dy") name(weekdays, pattern, false);
    else if (lower(pattern) == "am" || lower(pattern) == "pm") {
      const std::string mark = lower(text.substr(std::min(at, text.size()), 2));
      if (mark != "am" && mark != "pm") wrong(pattern);
      afternoon = mark == "pm";
      twelve = true;
      at += 2;
    } else if (pattern == "AD" || pattern == "BC") {
      before_christ = lower(text.substr(std::min(at, text.size()), 2)) == "bc";
      at += 2;
    } else if (pattern != "FM" && pattern != "FX" && pattern != "TM") {
      fail("0A000", "this picture is not supported on SQLite: \"" + std::string(pattern) + "\"");
    }
  }
  if (before_christ) year = 1 - year;
  if (twelve) hour = hour % 12 + (afternoon ? 12 : 0);
  if (month < 1 || month > 12 || day < 1 || std::abs(year) > 294'275 || day > days_of_month(year, month) || hour > 24 || minute > 59 ||
      second > 59) {
    fail("22008", "date/time field value out of range: \"" + std::string(text) + "\"");
  }
  std::int64_t days = days_since_2000({year, month, static_cast<int>(day)});
  if (of_year > 0) days = days_since_2000({year, 1, 1}) + of_year - 1;
  return {days * day_us + (type == oid::date ? 0 : hour * hour_us + minute * minute_us + second * second_us + micros), type};
}

void to_timestamp(Call& call) {
  if (call.count > 1) return call.answer(moment_text(read_picture(call.text(0), call.text(1), oid::timestamptz)));
  const double seconds = call.real(0);
  if (!(std::abs(seconds) < 9e12)) out_of_range("timestamp");
  const Moment moment{static_cast<std::int64_t>(std::nearbyint(seconds * 1e6)) - unix_epoch_us, oid::timestamptz};
  call.answer(moment_text(moment));
}

// clang-format off
constexpr Body time_bodies[] = {
    {"pg_now", now_as<oid::timestamptz>, false, false}, {"clock_timestamp", [](Call& call) { call.answer(moment_text(clock_now())); }, false, false},
    {"timeofday", [](Call& call) { call.answer(time_to_char(clock_now(), "Dy Mon DD HH24:MI:SS.US YYYY TZ")); }, false, false}, {"pg_current_date", now_as<oid::date>, false, false},
    {"pg_current_time", [](Call& call) {
       const Moment moment = transaction_began(call);
       call.answer(moment_text({broken(moment).of_day, oid::time}) + "+00");
     }, false, false},
    {"pg_localtime", now_as<oid::time>, false, false}, {"pg_localtimestamp", now_as<oid::timestamp>, false, false}, {"pg_add_interval", shift<1>}, {"pg_sub_interval", shift<-1>}, {"pg_interval_math", interval_math},
    {"pg_date_diff", date_diff}, {"pg_date_add", date_add},
    {"pg_timestamp_diff", [](Call& call) { call.answer(interval_text(between(parse_moment(call.text(0)), parse_moment(call.text(1))))); }}, {"pg_extract", extract}, {"pg_timezone", at_zone}, {"date_trunc", date_trunc},
    {"age", age, false, false}, {"make_date", make_date}, {"make_interval", make_interval}, {"to_timestamp", to_timestamp},
    {"to_date", [](Call& call) { call.answer(moment_text(read_picture(call.text(0), call.text(1), oid::date))); }},
};
// clang-format on

}  // namespace

std::span<const Body> time_functions() { return time_bodies; }

Moment parse_moment(std::string_view whole) {
  const std::string_view text = trimmed(whole);
  Moment out;
  const auto colon = text.find(':'), dash = text.find('-', 1);
  const bool dated = dash != std::string_view::npos && (colon == std::string_view::npos || dash < colon);
  if (colon != std::string_view::npos && !dated && !(text.size() > 8 && text[8] == ' ')) out.type = oid::time;
  else if (colon == std::string_view::npos && lower(text).find("inf") == std::string::npos) out.type = oid::date;
  else
    out.type =
        colon != std::string_view::npos && text.find_first_of("+-Zz", colon) != std::string_view::npos ? oid::timestamptz : oid::timestamp;
  if (out.type == oid::timestamp && colon != std::string_view::npos &&
      (lower(text).find("utc") != std::string::npos || lower(text).find("gmt") != std::string::npos))
    out.type = oid::timestamptz;
  if (const auto problem = read_time_like(text, out.type, out.micros)) throw CallError{*problem};
  if (out.type == oid::date && !infinite(out)) out.micros = times(out.micros, day_us);
  return out;
}

std::string moment_of(std::int64_t since_1970) { return moment_text({since_1970 - 946'684'800'000'000, oid::timestamptz}); }

std::string moment_text(const Moment& moment) {
  if (moment.type != oid::time) {
    check_moment(moment);
    if (!infinite(moment) && !shown_in_order(floor_div(moment.micros, day_us)))
      fail("0A000", "dates before year 1 and after year 9999 are not supported in an SQLite file");
  }
  if (moment.type == oid::date && !infinite(moment)) return write_time_like(floor_div(moment.micros, day_us), oid::date);
  return write_time_like(moment.micros, moment.type);
}

namespace {
// PostgreSQL has 32 bits for months and for days.
bool is_within(const Interval& interval) {
  const auto fits = [](std::int64_t number) { return number == static_cast<std::int32_t>(number); };
  return fits(interval.months) && fits(interval.days);
}
}  // namespace

namespace {

Interval read_interval(std::string_view whole) {
  const std::string text = lower(trimmed(whole));
  // PostgreSQL reads more forms than this does. 22007 is certain only for words and numbers where one of the words is no unit.
  const auto wrong = [&] {
    const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ' '; };
    bool strange = false;
    for (std::size_t at = 0; at < text.size();) {
      const auto begin = text.find_first_of("abcdefghijklmnopqrstuvwxyz", at);
      if (begin == std::string::npos) break;
      at = std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz", begin), text.size());
      Interval ignored;
      const std::string word = text.substr(begin, at - begin);
      strange |= word != "ago" && !put_unit(ignored, word, {}, whole);
    }
    if (!strange || !std::all_of(text.begin(), text.end(), plain))
      fail("0A000", "this form of an interval is not supported on SQLite: \"" + std::string(whole) + "\"");
    fail("22007", "invalid input syntax for type interval: \"" + std::string(whole) + "\"");
  };
  const auto refuse = [&] { fail("0A000", "this form of an interval is not supported on SQLite: \"" + std::string(whole) + "\""); };
  if (text.empty()) wrong();
  Interval out;
  if (text[0] == 'p') {
    // P0001-02-03T04:05:06, and small letters and blanks, which PostgreSQL does not take
    if ((text.find('-', 2) != std::string::npos && text.find_first_of("ymwdhs") == std::string::npos) || text.size() != whole.size() ||
        std::any_of(whole.begin(), whole.end(), [](char c) { return c >= 'a' && c <= 'z'; }))
      refuse();
    bool clock = false;
    std::size_t at = 1;
    if (at >= text.size()) wrong();
    while (at < text.size()) {
      if (text[at] == 't' && !clock) {
        clock = true;
        ++at;
        continue;
      }
      const auto end = text.find_first_not_of("0123456789.+-", at);
      Amount amount;
      if (end == std::string::npos || end == at || !read_amount(std::string_view(text).substr(at, end - at), amount)) wrong();
      const char unit = text[end];
      if (!put_unit(out,
                    unit == 'y'   ? "year"
                    : unit == 'm' ? (clock ? "minute" : "month")
                    : unit == 'w' ? "week"
                    : unit == 'd' ? "day"
                    : unit == 'h' ? "hour"
                    : unit == 's' ? "second"
                                  : "?",
                    amount, whole))
        wrong();
      at = end + 1;
    }
    return out;
  }
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const bool comma =
        text[at] == ',' && at > 0 && text[at - 1] >= 'a' && text[at - 1] <= 'z' && at + 1 < text.size() && text[at + 1] == ' ';
    if (text[at] == ' ' || text[at] == '\t' || comma || (text[at] == '@' && at == 0)) {
      ++at;
      continue;
    }
    if (text[at] == ',') refuse();
    const bool number = (text[at] >= '0' && text[at] <= '9') || text[at] == '.' || text[at] == '-' || text[at] == '+';
    auto end = number ? text.find_first_not_of("0123456789.:+-", at) : text.find_first_of(" \t,0123456789", at);
    end = std::min(end, text.size());
    // "1day" is two words, and "day1" is not.
    if (!number && end < text.size() && text[end] >= '0' && text[end] <= '9') refuse();
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  bool ago = false, clocked = false, out_of_range = false, broken_second = false;
  std::set<std::string, std::less<>> units;  // PostgreSQL takes each once
  const auto put = [&](const std::string& unit, const Amount& amount) {
    static constexpr std::pair<std::string_view, std::string_view> longer[] = {
        {"mon", "mon"}, {"millis", "ms"}, {"ms", "ms"}, {"micros", "us"}, {"us", "us"}, {"mil", "mil"}, {"m", "min"}, {"dec", "dec"}};
    const auto found = std::find_if(std::begin(longer), std::end(longer), [&](const auto& each) { return unit.starts_with(each.first); });
    const std::string kind = found != std::end(longer) ? std::string(found->second) : unit.substr(0, 1);
    if (!units.insert(kind).second) refuse();
    broken_second |= kind == "s" && amount.fraction != 0;
    return put_unit(out, unit, amount, whole);
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "ago" && i + 1 == words.size() && i > 0) {
      ago = true;
      continue;
    }
    std::int64_t clock = 0;
    Amount amount;
    if (word.find(':') != std::string::npos) {
      const Clock as = read_clock(word, clock);
      // PostgreSQL tries what has a sign as something else then.
      if (as == Clock::none || (as == Clock::out_of_range && (word[0] == '-' || word[0] == '+'))) wrong();
      out_of_range |= as == Clock::out_of_range;
      if (std::exchange(clocked, true)) refuse();
      out.micros = added(out.micros, clock);
    } else if (const auto dash = word.find('-', 1); dash != std::string::npos && word.find('.') == std::string::npos) {
      // Years and months: 1-2
      Amount years, rest;
      const std::string_view months = std::string_view(word).substr(dash + 1);
      if (!read_amount(word.substr(0, dash), years) || months.size() > 2 ||
          months.find_first_not_of("0123456789") != std::string_view::npos || !read_amount(months, rest))
        wrong();
      out_of_range |= rest.whole >= 12;
      if (word[0] == '-') rest.whole = -rest.whole;
      put("year", years);
      put("month", rest);
    } else if (read_amount(word, amount)) {
      // A number alone, at the end, is seconds.
      if (i + 1 < words.size() && !(words[i + 1] == "ago") && words[i + 1].find(':') == std::string::npos) {
        if (!put(words[++i], amount)) wrong();
      } else if (clocked) {
        refuse();
      } else if (i + 1 < words.size() && words[i + 1].find(':') != std::string::npos) {
        put("day", amount);
      } else {
        put("second", amount);
      }
    } else {
      wrong();
    }
  }
  const bool small = units.contains("ms") || units.contains("us");
  if ((clocked && (small || units.contains("h") || units.contains("min") || units.contains("s"))) || (broken_second && small)) refuse();
  if (!clocked && units.empty()) wrong();
  if (out_of_range) fail("22015", "interval field value out of range: \"" + std::string(whole) + "\"");
  if (ago) out = {-out.months, -out.days, times(out.micros, -1)};
  if (!is_within(out)) fail("22015", "interval field value out of range: \"" + std::string(whole) + "\"");
  return out;
}

}  // namespace

Interval parse_interval(std::string_view whole) {
  try {
    return read_interval(whole);
  } catch (const CallError& failed) {
    // The arithmetic reports a result out of range; here it is a field of the text.
    if (failed.problem.sqlstate != "22008") throw;
    fail("22015", "interval field value out of range: \"" + std::string(whole) + "\"");
  }
}

std::string interval_text(const Interval& interval) {
  if (!is_within(interval)) fail("22008", "interval out of range");
  std::string out;
  bool minus_before = false;
  const auto put = [&](std::int64_t amount, std::string_view unit) {
    if (amount == 0) return;
    if (!out.empty()) out += ' ';
    // After something negative a plus is written.
    if (minus_before && amount > 0) out += '+';
    out += std::to_string(amount) + " " + std::string(unit) + (amount == 1 ? "" : "s");
    minus_before = amount < 0;
  };
  put(interval.months / 12, "year");
  put(interval.months % 12, "mon");
  put(interval.days, "day");
  if (interval.micros != 0 || out.empty()) {
    const bool minus = interval.micros < 0;
    const std::uint64_t micros = minus ? 0 - static_cast<std::uint64_t>(interval.micros) : static_cast<std::uint64_t>(interval.micros);
    char clock[64];
    std::snprintf(clock, sizeof clock, "%02llu:%02llu:%02llu", static_cast<unsigned long long>(micros / hour_us),
                  static_cast<unsigned long long>(micros / minute_us % 60), static_cast<unsigned long long>(micros / second_us % 60));
    if (!out.empty()) out += ' ';
    if (minus) out += '-';
    else if (minus_before) out += '+';
    out += clock;
    if (const std::uint64_t fraction = micros % second_us; fraction != 0) {
      std::string digits = std::to_string(second_us + static_cast<std::int64_t>(fraction)).substr(1);
      while (digits.back() == '0') digits.pop_back();
      out += "." + digits;
    }
  }
  return out;
}

Interval between(const Moment& later, const Moment& earlier) {
  std::int64_t micros = 0;
  if (infinite(later) || infinite(earlier) || __builtin_sub_overflow(later.micros, earlier.micros, &micros))
    fail("22008", "cannot subtract infinite timestamps");
  if (later.type == oid::time) return {0, 0, micros};
  return {0, micros / day_us, micros % day_us};
}

Moment shifted(Moment moment, const Interval& by, int sign) {
  if (infinite(moment)) return moment;
  if (moment.type == oid::time) {
    moment.micros = ((moment.micros + sign * (by.micros % day_us)) % day_us + day_us) % day_us;
    return moment;
  }
  if (std::abs(by.months) > 12 * 400'000) out_of_range("timestamp");
  if (by.months != 0) {
    const Broken at = broken(moment);
    const std::int64_t count = at.day.year * 12 + at.day.month - 1 + sign * by.months;
    const std::int64_t year = floor_div(count, 12);
    const int month = static_cast<int>(count - year * 12) + 1;
    moment.micros = added(times(days_since_2000({year, month, std::min(at.day.day, days_of_month(year, month))}), day_us), at.of_day);
  }
  moment.micros = added(added(moment.micros, times(sign * by.days, day_us)), sign * by.micros);
  check_moment(moment);
  return moment;
}

std::string time_to_char(const Moment& moment, std::string_view format) {
  if (infinite(moment)) return {};
  const Broken at = broken(moment);
  Fields fields{at.day.year,
                at.day.month,
                at.day.day,
                at.of_day / hour_us,
                at.of_day / minute_us % 60,
                at.of_day / second_us % 60,
                at.of_day % second_us,
                weekday(at),
                day_of_year(at),
                1,
                0,
                at.days,
                at.of_day,
                moment.type == oid::timestamptz};
  iso_week(at, fields.iso_year, fields.iso_week);
  return drawn(fields, format);
}

std::string interval_to_char(const Interval& interval, std::string_view format) {
  Fields fields;
  fields.year = interval.months / 12;
  // A picture of months has no name for none.
  fields.month = static_cast<int>(std::max<std::int64_t>(interval.months % 12, 0));
  if (fields.month == 0 && lower(format).find("mon") != std::string::npos) return {};
  fields.day = static_cast<int>(std::clamp<std::int64_t>(interval.days, -1'000'000, 1'000'000));
  fields.hour = interval.micros / hour_us;
  fields.minute = interval.micros / minute_us % 60;
  fields.second = interval.micros / second_us % 60;
  fields.micros = interval.micros % second_us;
  fields.of_day = interval.micros;
  return drawn(fields, format);
}

}  // namespace termgate::sqlite_server
