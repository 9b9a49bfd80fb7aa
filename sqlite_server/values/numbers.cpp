// bool, the integers, the floating point numbers.
#include "values/forms.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace termgate::sqlite_server {

namespace oid = dialect::oid;

namespace {

struct Range {
  std::int64_t low, high;
  std::size_t bytes;
};

Range range_of(Oid type) noexcept {
  switch (type) {
    case oid::int2: return {std::numeric_limits<std::int16_t>::min(), std::numeric_limits<std::int16_t>::max(), 2};
    case oid::int4: return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max(), 4};
    case oid::int8: return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), 8};
    default: return {0, std::numeric_limits<std::uint32_t>::max(), 4};  // oid and what stands for one
  }
}

// A number that SQLite has made of an integer on its way (a sum of reals, an affinity): still one if nothing is lost.
std::optional<std::int64_t> whole(double number) noexcept {
  constexpr double limit = 9223372036854775808.0;
  if (!(number >= -limit && number < limit) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace

Parsed parse_integer(std::string_view text, Oid type) {
  std::string_view body = trimmed(text);
  if (body.starts_with('+') && body.size() > 1 && body[1] != '-') body.remove_prefix(1);
  const Range range = range_of(type);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), number);
  if (error == std::errc::invalid_argument || end != body.data() + body.size()) return no_such(spoken(type), text);
  // An oid may be written as the negative number of the same bits.
  if (range.low == 0 && error == std::errc() && number < 0 && number >= std::numeric_limits<std::int32_t>::min()) number &= 0xffffffff;
  if (error == std::errc::result_out_of_range || number < range.low || number > range.high) return out_of_range(body, spoken(type));
  return Stored(number);
}

Parsed parse_integer_binary(std::string_view bytes, Oid type) {
  if (bytes.size() != range_of(type).bytes) return wrong_size(spoken(type), bytes.size(), range_of(type).bytes);
  switch (type) {
    case oid::int2: return Stored(std::int64_t{static_cast<std::int16_t>(read_big<std::uint16_t>(bytes))});
    case oid::int4: return Stored(std::int64_t{static_cast<std::int32_t>(read_big<std::uint32_t>(bytes))});
    case oid::int8: return Stored(static_cast<std::int64_t>(read_big<std::uint64_t>(bytes)));
    default: return Stored(std::int64_t{read_big<std::uint32_t>(bytes)});
  }
}

MaybeProblem append_integer(std::string& out, const Stored& value, Oid type, Format format) {
  std::optional<std::int64_t> number;
  if (const auto* stored = std::get_if<std::int64_t>(&value)) number = *stored;
  else if (const auto* real = std::get_if<double>(&value)) number = whole(*real);
  if (format == Format::text) {
    out += number ? std::to_string(*number) : text_of(value);
    return std::nullopt;
  }
  if (!number) {
    const Parsed parsed = parse_integer(text_of(value), type);
    if (const auto* problem = std::get_if<SqlError>(&parsed)) return *problem;
    number = std::get<std::int64_t>(std::get<Stored>(parsed));
  }
  const Range range = range_of(type);
  if (*number < range.low || *number > range.high) return out_of_range(std::to_string(*number), spoken(type));
  switch (range.bytes) {
    case 2: append_big(out, static_cast<std::uint16_t>(*number)); break;
    case 4: append_big(out, static_cast<std::uint32_t>(*number)); break;
    default: append_big(out, static_cast<std::uint64_t>(*number)); break;
  }
  return std::nullopt;
}

Parsed parse_bool(std::string_view text) {
  const std::string word = lowered(trimmed(text));
  const auto is = [&](std::string_view whole_word, std::size_t letters_min) {
    return word.size() >= letters_min && whole_word.starts_with(word);
  };
  if (word == "1" || is("true", 1) || is("yes", 1) || is("on", 2)) return Stored(std::int64_t{1});
  if (word == "0" || is("false", 1) || is("no", 1) || is("off", 2)) return Stored(std::int64_t{0});
  return no_such("boolean", text);
}

MaybeProblem append_bool(std::string& out, const Stored& value, Format format) {
  std::optional<bool> truth;
  if (const auto* number = std::get_if<std::int64_t>(&value)) truth = *number != 0;
  else if (const auto* real = std::get_if<double>(&value)) truth = *real != 0;
  if (!truth) {
    const Parsed parsed = parse_bool(text_of(value));
    if (const auto* stored = std::get_if<Stored>(&parsed)) {
      truth = std::get<std::int64_t>(*stored) != 0;
    } else if (format == Format::text) {
      out += text_of(value);
      return std::nullopt;
    } else {
      return std::get<SqlError>(parsed);
    }
  }
  if (format == Format::binary) out += *truth ? '\1' : '\0';
  else out += *truth ? 't' : 'f';
  return std::nullopt;
}

namespace {

// Whether the digits are those of the middle between the number and a neighbour of its type, or do not read back as the number at all.
bool is_halfway(std::string_view digits, double value, bool single) {
  // A middle has one bit more than the numbers: elsewhere it has more digits than are ever printed.
  if (std::abs(value) < (single ? 1e6 : 1e15) || std::abs(value) > (single ? 1e20 : 1e42)) return false;
  const std::string text(digits);
  const bool reads_back =
      single ? std::strtof(text.c_str(), nullptr) == static_cast<float>(value) : std::strtod(text.c_str(), nullptr) == value;
  if (!reads_back) return true;
  for (const bool up : {false, true}) {
    const double end = up ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
    const double next =
        single ? static_cast<double>(std::nextafter(static_cast<float>(value), static_cast<float>(end))) : std::nextafter(value, end);
    if (std::isinf(next)) continue;
    // Exact: a long double has more than one bit more.
    const long double middle = (static_cast<long double>(value) + static_cast<long double>(next)) / 2;
    if (std::strtold(text.c_str(), nullptr) != middle) continue;
    // As near as a long double can tell. All of the middle's digits decide.
    char whole[1200];
    const auto size = std::snprintf(whole, sizeof whole, "%.1100Le", middle);
    const std::string_view exact(whole, static_cast<std::size_t>(std::max(size, 0)));
    std::string a(digits.substr(0, digits.find('e'))), b(exact.substr(0, exact.find('e')));
    for (std::string* each : {&a, &b}) {
      if (each->find('.') != std::string::npos) each->erase(each->find_last_not_of('0') + 1);
      if (each->ends_with('.')) each->pop_back();
    }
    if (a == b) return true;
  }
  return false;
}

}  // namespace

std::string float_text(double value, bool single) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  if (value == 0) return std::signbit(value) ? "-0" : "0";
  // d.ddde±x, of which PostgreSQL shows small exponents as zeros.
  char digits[48];
  const auto end = single ? std::to_chars(digits, digits + sizeof digits, static_cast<float>(value), std::chars_format::scientific)
                          : std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific);
  std::string_view all(digits, static_cast<std::size_t>(end.ptr - digits));
  // PostgreSQL never prints digits that are exactly halfway to the next number, though they read back as this one.
  const double own = single ? static_cast<double>(static_cast<float>(value)) : value;
  for (int places = static_cast<int>(all.find('e')) - (all.front() == '-' ? 1 : 0);
       places <= (single ? 9 : 17) && is_halfway(all, own, single); ++places) {
    const auto longer = std::to_chars(digits, digits + sizeof digits, own, std::chars_format::scientific, std::max(places - 1, 1));
    all = std::string_view(digits, static_cast<std::size_t>(longer.ptr - digits));
  }
  std::string out;
  if (all.front() == '-') {
    out = "-";
    all.remove_prefix(1);
  }
  const auto mark = all.find('e');
  int exponent = 0;
  const std::size_t power = all[mark + 1] == '+' ? mark + 2 : mark + 1;
  std::from_chars(all.data() + power, all.data() + all.size(), exponent);
  std::string mantissa(1, all[0]);
  if (mark > 2) mantissa += all.substr(2, mark - 2);
  const int places = static_cast<int>(mantissa.size());
  if (exponent < -4 || exponent >= (single ? 6 : 15)) {
    out += mantissa[0];
    if (places > 1) out += "." + mantissa.substr(1);
    out += exponent < 0 ? "e-" : "e+";
    const std::string number = std::to_string(std::abs(exponent));
    return out + (number.size() < 2 ? "0" : "") + number;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + mantissa;
  if (places <= exponent + 1) return out + mantissa + std::string(static_cast<std::size_t>(exponent + 1 - places), '0');
  return out + mantissa.substr(0, static_cast<std::size_t>(exponent) + 1) + "." + mantissa.substr(static_cast<std::size_t>(exponent) + 1);
}

Parsed parse_float(std::string_view text, Oid type) {
  const std::string word = lowered(trimmed(text));
  const bool single = type == oid::float4;
  std::string_view body = word;
  if (body.starts_with('+')) body.remove_prefix(1);
  const bool negative = body.starts_with('-');
  const std::string_view name = negative ? body.substr(1) : body;
  if (name == "infinity" || name == "inf")
    return Stored(negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity());
  if (body == "nan") return Stored(std::string("NaN"));
  // from_chars would take inf(…) and nan(…) besides.
  if (name.empty() || !((name[0] >= '0' && name[0] <= '9') || name[0] == '.') || body.starts_with("+")) return no_such(spoken(type), text);
  double number = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), number);
  if (error == std::errc::invalid_argument || end != body.data() + body.size()) return no_such(spoken(type), text);
  const std::string range = "\"" + std::string(trimmed(text)) + "\" is out of range for type " + std::string(spoken(type));
  if (error == std::errc::result_out_of_range) return SqlError{"22003", range};
  if (single) {
    const float narrow = static_cast<float>(number);
    if (std::isinf(narrow) || (narrow == 0 && number != 0)) return SqlError{"22003", range};
    number = narrow;
  }
  return Stored(number);
}

Parsed parse_float_binary(std::string_view bytes, Oid type) {
  if (const std::size_t wanted = type == oid::float4 ? 4 : 8; bytes.size() != wanted) return wrong_size(spoken(type), bytes.size(), wanted);
  const double number = type == oid::float4 ? static_cast<double>(std::bit_cast<float>(read_big<std::uint32_t>(bytes)))
                                            : std::bit_cast<double>(read_big<std::uint64_t>(bytes));
  if (std::isnan(number)) return Stored(std::string("NaN"));
  return Stored(number);
}

MaybeProblem append_float(std::string& out, const Stored& value, Oid type, Format format) {
  std::optional<double> number;
  if (const auto* real = std::get_if<double>(&value)) number = *real;
  else if (const auto* whole_number = std::get_if<std::int64_t>(&value)) number = static_cast<double>(*whole_number);
  const bool single = type == oid::float4;
  if (!number) {
    const Parsed parsed = parse_float(text_of(value), type);
    const auto* stored = std::get_if<Stored>(&parsed);
    if (stored == nullptr && format == Format::binary) return std::get<SqlError>(parsed);
    if (stored == nullptr || format == Format::text) {
      out += text_of(value);
      return std::nullopt;
    }
    const auto* real = std::get_if<double>(stored);
    number = real != nullptr ? *real : std::numeric_limits<double>::quiet_NaN();
  }
  if (format == Format::text) out += float_text(*number, single);
  else if (single) append_big(out, std::bit_cast<std::uint32_t>(static_cast<float>(*number)));
  else append_big(out, std::bit_cast<std::uint64_t>(*number));
  return std::nullopt;
}

}  // namespace termgate::sqlite_server
