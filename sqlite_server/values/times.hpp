// Days and microseconds since 2000-01-01, and the text of a date, time or timestamp: what times.cpp reads and writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <termgate/sqlite_server/values.hpp>

namespace termgate::sqlite_server {

struct CalendarDay {
  std::int64_t year;  // 0 is 1 BC
  int month, day;
};
std::int64_t days_since_2000(const CalendarDay& day) noexcept;
CalendarDay calendar_day(std::int64_t days_since_2000) noexcept;
int days_of_month(std::int64_t year, int month) noexcept;

// Days of a date, microseconds of the others. nullopt: it was read.
std::optional<SqlError> read_time_like(std::string_view text, Oid type, std::int64_t& value);
std::string write_time_like(std::int64_t value, Oid type);
// Whether the text of the day sorts as the day does: years 1 to 9999.
bool shown_in_order(std::int64_t days_since_2000) noexcept;
// The time of day, and seconds east of Greenwich; UTC where the text names no zone.
std::optional<SqlError> read_timetz(std::string_view text, std::int64_t& micros, std::int64_t& east);
std::string write_timetz(std::int64_t micros, std::int64_t east);

// The digits after a decimal point; and those of a second as microseconds, rounded through a double as PostgreSQL does.
double fraction_of(std::string_view digits);
std::int64_t micros_of_fraction(std::string_view digits);

// times_words.cpp: what PostgreSQL reads besides ISO (names of months, AM and PM, 1/2/2024, single digits), written as ISO; nothing
// where it is none of these. `dated`: a date, maybe with a time; else a time alone. Words for today's moment (now, today) are not read.
std::optional<std::string> iso_of(std::string_view text, bool dated);

}  // namespace termgate::sqlite_server
