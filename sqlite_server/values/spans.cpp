// interval (int64 microseconds, int32 days, int32 months) and time with time zone (int64 microseconds, int32 seconds west of Greenwich).
#include <limits>

#include "values/forms.hpp"
#include "functions/functions.hpp"
#include "values/times.hpp"

namespace termgate::sqlite_server {

Parsed parse_interval_value(std::string_view text) {
  const SqlError out_of_bounds = {"22015", "interval field value out of range: \"" + std::string(text) + "\""};
  Interval interval;
  try {
    interval = parse_interval(text);
  } catch (const CallError& failed) { return failed.problem.sqlstate == "22008" ? out_of_bounds : failed.problem; }
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (interval.months > most || interval.months < -most - 1 || interval.days > most || interval.days < -most - 1) return out_of_bounds;
  return Stored(interval_text(interval));
}

Parsed parse_interval_binary(std::string_view bytes) {
  if (bytes.size() != 16) return wrong_size("interval", bytes.size(), 16);
  Interval interval;
  interval.micros = static_cast<std::int64_t>(read_big<std::uint64_t>(bytes));
  interval.days = static_cast<std::int32_t>(read_big<std::uint32_t>(bytes.substr(8)));
  interval.months = static_cast<std::int32_t>(read_big<std::uint32_t>(bytes.substr(12)));
  return Stored(interval_text(interval));
}

MaybeProblem append_interval_binary(std::string& out, std::string_view text) {
  try {
    const Interval interval = parse_interval(text);
    append_big(out, static_cast<std::uint64_t>(interval.micros));
    append_big(out, static_cast<std::uint32_t>(interval.days));
    append_big(out, static_cast<std::uint32_t>(interval.months));
  } catch (const CallError& failed) { return failed.problem; }
  return std::nullopt;
}

Parsed parse_timetz(std::string_view text) {
  std::int64_t micros = 0, east = 0;
  if (const auto problem = read_timetz(text, micros, east)) return *problem;
  return Stored(write_timetz(micros, east));
}

Parsed parse_timetz_binary(std::string_view bytes) {
  constexpr std::int64_t day_us = 86'400'000'000, zone_max = 16 * 3600;
  if (bytes.size() != 12) return wrong_size("timetz", bytes.size(), 12);
  const auto micros = static_cast<std::int64_t>(read_big<std::uint64_t>(bytes));
  const auto west = static_cast<std::int32_t>(read_big<std::uint32_t>(bytes.substr(8)));
  if (micros < 0 || micros > day_us) return SqlError{"22008", "time out of range"};
  if (west <= -zone_max || west >= zone_max) return SqlError{"22009", "time zone displacement out of range"};
  return Stored(write_timetz(micros, -std::int64_t{west}));
}

MaybeProblem append_timetz_binary(std::string& out, std::string_view text) {
  std::int64_t micros = 0, east = 0;
  if (auto problem = read_timetz(text, micros, east)) return problem;
  append_big(out, static_cast<std::uint64_t>(micros));
  append_big(out, static_cast<std::uint32_t>(-east));
  return std::nullopt;
}

}  // namespace termgate::sqlite_server
