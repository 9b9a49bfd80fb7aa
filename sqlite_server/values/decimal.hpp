// Decimal numbers of any length, as texts: what `numeric` is where no double is exact enough.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <termgate/sqlite_server/values.hpp>

namespace termgate::sqlite_server {

struct Decimal {
  bool negative = false;
  std::string whole;     // no leading zeros; may be empty
  std::string fraction;  // as many digits as are shown
};

enum class Reading : std::uint8_t { fine, nothing, too_large };

// NaN and the infinities are none.
Reading read_decimal(std::string_view text, Decimal& out);
std::string digits_of(const Decimal& number);
bool is_zero(const Decimal& number) noexcept;
// Halves go away from zero, as PostgreSQL's numeric rounds.
void round_to(Decimal& number, std::size_t scale);
// Below, equal, above: -1, 0, 1.
int compare(const Decimal& a, const Decimal& b) noexcept;
// What SQLite computes and sorts with, where that is the same number; else its text.
Stored stored_as(const Decimal& number);

}  // namespace termgate::sqlite_server
