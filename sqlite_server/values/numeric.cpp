// numeric: in text as written, in binary by four decimal digits a group.
//
//   int16 groups, int16 weight (of the first group, in groups before the point less one), uint16 sign, int16 decimals, groups × int16
#include "values/forms.hpp"
#include "values/decimal.hpp"

#include <charconv>
#include <cmath>
#include <vector>

namespace termgate::sqlite_server {
namespace {

constexpr std::uint16_t negative_sign = 0x4000, nan_sign = 0xC000, infinity_sign = 0xD000, negative_infinity_sign = 0xF000;
// More than anybody has; PostgreSQL's own limit is 131072 before the point.
constexpr int places_max = 2000;

bool digit(char c) noexcept { return c >= '0' && c <= '9'; }

}  // namespace

Reading read_decimal(std::string_view text, Decimal& out) {
  std::string_view body = trimmed(text);
  if (body.starts_with('-') || body.starts_with('+')) {
    out.negative = body[0] == '-';
    body.remove_prefix(1);
  }
  std::string digits;
  int point = -1, exponent = 0;
  std::size_t at = 0;
  for (; at < body.size(); ++at) {
    if (digit(body[at])) digits += body[at];
    else if (body[at] == '.' && point < 0) point = static_cast<int>(digits.size());
    else break;
  }
  if (digits.empty()) return Reading::nothing;
  if (at < body.size()) {
    if (body[at] != 'e' && body[at] != 'E') return Reading::nothing;
    std::string_view power = body.substr(at + 1);
    if (power.starts_with('+')) power.remove_prefix(1);
    const auto [end, error] = std::from_chars(power.data(), power.data() + power.size(), exponent);
    if (error == std::errc::result_out_of_range) return Reading::too_large;
    if (error != std::errc() || end != power.data() + power.size()) return Reading::nothing;
  }
  if (point < 0) point = static_cast<int>(digits.size());
  if (exponent > places_max || exponent < -places_max || digits.size() > static_cast<std::size_t>(places_max)) return Reading::too_large;
  point += exponent;
  if (point < 0) {
    digits.insert(0, static_cast<std::size_t>(-point), '0');
    point = 0;
  }
  if (static_cast<std::size_t>(point) > digits.size()) digits.append(static_cast<std::size_t>(point) - digits.size(), '0');
  out.whole = digits.substr(0, static_cast<std::size_t>(point));
  out.fraction = digits.substr(static_cast<std::size_t>(point));
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size()));
  return Reading::fine;
}

bool is_zero(const Decimal& number) noexcept { return number.whole.empty() && number.fraction.find_first_not_of('0') == std::string::npos; }

std::string digits_of(const Decimal& number) {
  std::string out = number.negative && !is_zero(number) ? "-" : "";
  out += number.whole.empty() ? "0" : number.whole;
  if (!number.fraction.empty()) out += "." + number.fraction;
  return out;
}

void round_to(Decimal& number, std::size_t scale) {
  if (number.fraction.size() <= scale) return;
  const bool up = number.fraction[scale] >= '5';
  number.fraction.resize(scale);
  if (!up) return;
  std::string digits = number.whole + number.fraction;
  std::size_t at = digits.size();
  while (at > 0 && digits[at - 1] == '9') digits[--at] = '0';
  if (at > 0) ++digits[at - 1];
  else digits.insert(0, 1, '1');
  number.whole = digits.substr(0, digits.size() - scale);
  number.fraction = digits.substr(digits.size() - scale);
}

int compare(const Decimal& a, const Decimal& b) noexcept {
  const bool a_below = a.negative && !is_zero(a), b_below = b.negative && !is_zero(b);
  if (a_below != b_below) return a_below ? -1 : 1;
  const int sign = a_below ? -1 : 1;
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -sign : sign;
  if (const int order = a.whole.compare(b.whole); order != 0) return order < 0 ? -sign : sign;
  const std::size_t places = std::max(a.fraction.size(), b.fraction.size());
  for (std::size_t i = 0; i < places; ++i) {
    const char x = i < a.fraction.size() ? a.fraction[i] : '0', y = i < b.fraction.size() ? b.fraction[i] : '0';
    if (x != y) return x < y ? -sign : sign;
  }
  return 0;
}

// What SQLite computes and sorts with, where it is the same number.
Stored stored_as(const Decimal& number) {
  const std::string text = digits_of(number);
  const auto last = number.fraction.find_last_not_of('0');
  if (last == std::string::npos) {
    const std::string whole = (number.negative ? "-" : "") + (number.whole.empty() ? std::string("0") : number.whole);
    std::int64_t integer = 0;
    const auto [end, error] = std::from_chars(whole.data(), whole.data() + whole.size(), integer);
    if (error == std::errc() && end == whole.data() + whole.size()) return Stored(integer);
    return Stored(text);
  }
  const std::string significant = number.whole + number.fraction.substr(0, last + 1);
  const auto first = significant.find_first_not_of('0');
  if (significant.size() - first > 15) return Stored(text);
  double real = 0;
  std::from_chars(text.data(), text.data() + text.size(), real);
  return Stored(real);
}

namespace {

std::optional<std::uint16_t> special(std::string_view text) {
  std::string word;
  for (const char c : trimmed(text)) word += static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  if (word == "nan") return nan_sign;
  if (word == "infinity" || word == "inf" || word == "+infinity" || word == "+inf") return infinity_sign;
  if (word == "-infinity" || word == "-inf") return negative_infinity_sign;
  return std::nullopt;
}

std::string special_text(std::uint16_t sign) { return sign == nan_sign ? "NaN" : sign == infinity_sign ? "Infinity" : "-Infinity"; }

// A real without an exponent, in its shortest digits.
std::string plain(double number) {
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  char digits[400];
  const auto end = std::to_chars(digits, digits + sizeof digits, number, std::chars_format::fixed);
  return {digits, end.ptr};
}

void append_groups(std::string& out, const Decimal& number) {
  std::string whole = number.whole, fraction = number.fraction;
  const auto decimals = static_cast<std::uint16_t>(fraction.size());
  if (whole.size() % 4 != 0) whole.insert(0, 4 - whole.size() % 4, '0');
  if (fraction.size() % 4 != 0) fraction.append(4 - fraction.size() % 4, '0');
  const std::string digits = whole + fraction;
  std::vector<std::uint16_t> groups;
  for (std::size_t at = 0; at < digits.size(); at += 4) {
    std::uint16_t group = 0;
    std::from_chars(digits.data() + at, digits.data() + at + 4, group);
    groups.push_back(group);
  }
  auto weight = static_cast<int>(whole.size() / 4) - 1;
  std::size_t first = 0;
  for (; first < groups.size() && groups[first] == 0; ++first) --weight;
  std::size_t last = groups.size();
  while (last > first && groups[last - 1] == 0) --last;
  if (first == last) weight = 0;
  append_big(out, static_cast<std::uint16_t>(last - first));
  append_big(out, static_cast<std::uint16_t>(weight));
  append_big(out, number.negative && first != last ? negative_sign : std::uint16_t{0});
  append_big(out, decimals);
  for (; first < last; ++first) append_big(out, groups[first]);
}

}  // namespace

Parsed parse_numeric(std::string_view text) {
  if (const auto sign = special(text)) return Stored(special_text(*sign));
  Decimal number;
  switch (read_decimal(text, number)) {
    case Reading::fine: return stored_as(number);
    case Reading::nothing: break;
    case Reading::too_large: return SqlError{"22003", "value overflows numeric format"};
  }
  return no_such("numeric", text);
}

std::variant<std::string, SqlError> numeric_text(std::string_view text) {
  if (const auto sign = special(text)) return special_text(*sign);
  Decimal number;
  switch (read_decimal(text, number)) {
    case Reading::fine: return digits_of(number);
    case Reading::nothing: break;
    case Reading::too_large: return SqlError{"22003", "value overflows numeric format"};
  }
  return no_such("numeric", text);
}

std::variant<std::string, SqlError> numeric_text_of_binary(std::string_view bytes) {
  if (bytes.size() < 8) return wrong_size("numeric");
  const auto groups = read_big<std::uint16_t>(bytes);
  const auto weight = static_cast<std::int16_t>(read_big<std::uint16_t>(bytes.substr(2)));
  const auto sign = read_big<std::uint16_t>(bytes.substr(4));
  const auto decimals = read_big<std::uint16_t>(bytes.substr(6));
  if (bytes.size() != 8 + std::size_t{groups} * 2 || decimals > 16383) return wrong_size("numeric");
  if (sign == nan_sign || sign == infinity_sign || sign == negative_infinity_sign) return special_text(sign);
  if (sign != 0 && sign != negative_sign) return wrong_size("numeric");
  if (weight > places_max / 4 || weight < -places_max / 4 || decimals > places_max || groups > places_max / 4)
    return SqlError{"22003", "value overflows numeric format"};
  std::string text = sign == negative_sign ? "-" : "";
  const auto group = [&](int at) {
    if (at < 0 || at >= groups) return std::string("0000");
    const std::string number = std::to_string(read_big<std::uint16_t>(bytes.substr(8 + static_cast<std::size_t>(at) * 2)));
    return number.size() < 4 ? std::string(4 - number.size(), '0') + number : number;
  };
  for (int at = 0; at < groups; ++at) {
    if (read_big<std::uint16_t>(bytes.substr(8 + static_cast<std::size_t>(at) * 2)) > 9999) return wrong_size("numeric");
  }
  if (weight < 0) text += '0';
  for (int at = 0; at <= weight; ++at) text += group(at);
  if (decimals > 0) {
    std::string fraction;
    for (int at = weight + 1; fraction.size() < decimals; ++at) fraction += group(at);
    text += "." + fraction.substr(0, decimals);
  }
  return numeric_text(text);
}

Parsed parse_numeric_binary(std::string_view bytes) {
  const auto text = numeric_text_of_binary(bytes);
  if (const auto* problem = std::get_if<SqlError>(&text)) return *problem;
  return parse_numeric(std::get<std::string>(text));
}

MaybeProblem append_numeric(std::string& out, const Stored& value, Format format) {
  const auto* real = std::get_if<double>(&value);
  const std::string text = real != nullptr ? plain(*real) : text_of(value);
  if (format == Format::text) {
    out += text;
    return std::nullopt;
  }
  if (const auto sign = special(text)) {
    append_big(out, std::uint32_t{0});
    append_big(out, *sign);
    append_big(out, std::uint16_t{0});
    return std::nullopt;
  }
  Decimal number;
  if (read_decimal(text, number) != Reading::fine) return no_such("numeric", text);
  append_groups(out, number);
  return std::nullopt;
}

}  // namespace termgate::sqlite_server
