// What dialect/'s typed statements call: decimal arithmetic, whole and floating numbers with PostgreSQL's errors, lengths;
// with the collations pg_numeric and pg_interval, and aggregates over exact numbers.
// Long: families of SQL functions, one after the other, and the table of them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <map>
#include <new>

#include <boost/multiprecision/cpp_int.hpp>
#include <boost/multiprecision/integer.hpp>

#include "values/forms.hpp"
#include "functions/functions.hpp"

namespace termgate::sqlite_server {
namespace typed_sql {
namespace {

namespace oid = dialect::oid;
using Big = boost::multiprecision::cpp_int;

constexpr int scale_max = 1000, significant_min = 16;
constexpr std::size_t digits_max = 20'000;

// value / 10^scale; or one of numeric's three that are no numbers.
struct Exact {
  enum class Kind : std::uint8_t { low, finite, high, nan } kind = Kind::finite;
  Big value = 0;
  int scale = 0;
};

Big power_of_ten(int count) { return boost::multiprecision::pow(Big(10), static_cast<unsigned>(count)); }

Exact read_exact(std::string_view text) {
  if (text == "NaN") return {Exact::Kind::nan, 0, 0};
  if (text == "Infinity") return {Exact::Kind::high, 0, 0};
  if (text == "-Infinity") return {Exact::Kind::low, 0, 0};
  Exact out;
  bool negative = false, point = false;
  std::string digits;
  for (const char c : text) {
    if (c == '-') negative = true;
    else if (c == '.') point = true;
    else if (c >= '0' && c <= '9') {
      digits += c;
      out.scale += point ? 1 : 0;
    } else {
      throw CallError{no_such("numeric", text)};
    }
  }
  if (digits.empty() || digits.size() > digits_max) throw CallError{no_such("numeric", text)};
  const auto first = digits.find_first_not_of('0');
  out.value = first == std::string::npos ? Big(0) : Big(digits.substr(first));
  if (negative) out.value = -out.value;
  return out;
}

std::string text_of_exact(const Exact& number) {
  if (number.kind == Exact::Kind::nan) return "NaN";
  if (number.kind != Exact::Kind::finite) return number.kind == Exact::Kind::high ? "Infinity" : "-Infinity";
  std::string digits = Big(boost::multiprecision::abs(number.value)).str();
  if (number.scale > 0) {
    const auto scale = static_cast<std::size_t>(number.scale);
    if (digits.size() <= scale) digits.insert(0, scale + 1 - digits.size(), '0');
    digits.insert(digits.size() - scale, ".");
  }
  return number.value < 0 ? "-" + digits : digits;
}

// As stored or as text; canonical.
std::string exact_text(const Call& call, int i) {
  if (call.type(i) == SQLITE_INTEGER) return std::to_string(call.whole(i));
  if (call.type(i) == SQLITE_TEXT) {
    std::string plain = call.text(i);
    if (!plain.empty() && plain.find_first_not_of("0123456789.-") == std::string::npos && plain.find('-', 1) == std::string::npos)
      return plain;
  }
  std::string out;
  if (append_value(out, call.stored(i), oid::numeric, Format::text)) out.clear();
  auto text = numeric_text(out);
  if (auto* problem = std::get_if<SqlError>(&text)) throw CallError{std::move(*problem)};
  return std::get<std::string>(text);
}
Exact exact(const Call& call, int i) { return read_exact(exact_text(call, i)); }
Exact finite(const Call& call, int i) {
  Exact number = exact(call, i);
  if (number.kind != Exact::Kind::finite) fail("0A000", "arithmetic with numeric NaN and Infinity is not translated for SQLite files");
  return number;
}

void at_scale(Exact& number, int scale) {
  if (number.scale < scale) number.value *= power_of_ten(scale - number.scale);
  number.scale = std::max(number.scale, scale);
}

// Halves go away from zero.
void round_to(Exact& number, int scale) {
  if (number.kind != Exact::Kind::finite) return;
  if (number.scale <= scale) {
    at_scale(number, scale);
    return;
  }
  const Big unit = power_of_ten(number.scale - scale);
  const Big half = unit / 2;
  number.value = number.value < 0 ? Big(-((-number.value + half) / unit)) : Big((number.value + half) / unit);
  number.scale = scale;
  if (scale < 0) {
    number.value *= power_of_ten(-scale);
    number.scale = 0;
  }
}

void truncate_to(Exact& number, int scale) {
  if (number.kind != Exact::Kind::finite) return;
  if (number.scale <= scale) return at_scale(number, scale);
  number.value /= power_of_ten(number.scale - scale);
  number.scale = scale;
  if (scale < 0) {
    number.value *= power_of_ten(-scale);
    number.scale = 0;
  }
}

int compare(const Exact& a, const Exact& b) {
  if (a.kind != Exact::Kind::finite || b.kind != Exact::Kind::finite) return a.kind == b.kind ? 0 : a.kind < b.kind ? -1 : 1;
  Exact left = a, right = b;
  at_scale(left, right.scale);
  at_scale(right, left.scale);
  return left.value < right.value ? -1 : left.value > right.value ? 1 : 0;
}

void answer(Call& call, const Exact& number) {
  if (number.scale > 16383) fail("22003", "value overflows numeric format");
  call.answer(text_of_exact(number));
}

// The first group of four decimal digits that is not zero, and its weight, as numeric's own division looks at them.
void leading_group(const Exact& number, int& weight, int& first) {
  weight = first = 0;
  if (number.value == 0) return;
  const std::string digits = Big(boost::multiprecision::abs(number.value)).str();
  // Place of the first digit before the point, from 1; at or below zero after it.
  const int places = static_cast<int>(digits.size()) - number.scale;
  weight = places > 0 ? (places - 1) / 4 : -((-places) / 4) - 1;
  const int in_group = places - weight * 4;  // how many digits of the first group are not leading zeros
  std::string group = digits.substr(0, static_cast<std::size_t>(in_group));
  while (static_cast<int>(group.size()) < in_group) group += '0';
  std::from_chars(group.data(), group.data() + group.size(), first);
}

int division_scale(const Exact& a, const Exact& b) {
  int weight_a = 0, first_a = 0, weight_b = 0, first_b = 0;
  leading_group(a, weight_a, first_a);
  leading_group(b, weight_b, first_b);
  int weight = weight_a - weight_b;
  if (first_a <= first_b) --weight;
  return std::min(std::max({significant_min - weight * 4, a.scale, b.scale, 0}), scale_max);
}

Exact divided(const Exact& a, const Exact& b) {
  if (b.value == 0) fail("22012", "division by zero");
  const int scale = division_scale(a, b);
  // One digit more than is shown, and the rest of the division tells a half from what is less.
  Exact out;
  out.scale = scale;
  const int shift = scale + b.scale - a.scale;
  Big top = a.value, bottom = b.value;
  if (shift >= 0) top *= power_of_ten(shift);
  else bottom *= power_of_ten(-shift);
  const bool negative = (top < 0) != (bottom < 0);
  top = boost::multiprecision::abs(top);
  bottom = boost::multiprecision::abs(bottom);
  out.value = (top * 2 + bottom) / (bottom * 2);
  if (negative) out.value = -out.value;
  return out;
}

template <char symbol>
void numeric_math(Call& call) {
  Exact a = finite(call, 0), b = finite(call, 1);
  if (symbol == '*') {
    Exact out{Exact::Kind::finite, a.value * b.value, a.scale + b.scale};
    return answer(call, out);
  }
  if (symbol == '/') return answer(call, divided(a, b));
  at_scale(a, b.scale);
  at_scale(b, a.scale);
  if (symbol == '+') a.value += b.value;
  else if (symbol == '-') a.value -= b.value;
  else if (b.value == 0) fail("22012", "division by zero");
  else if (symbol == '%') a.value %= b.value;
  else {
    a.value /= b.value;
    a.scale = 0;
  }
  answer(call, a);
}

void canonical(Call& call) {
  Exact number = exact(call, 0);
  if (call.count > 1 && number.kind == Exact::Kind::finite) at_scale(number, static_cast<int>(call.whole(1)));
  call.answer(text_of_exact(number));
}

void absolute(Call& call) {
  Exact number = exact(call, 0);
  if (number.value < 0) number.value = -number.value;
  if (number.kind == Exact::Kind::low) number.kind = Exact::Kind::high;
  answer(call, number);
}

// Rounded; never a half, as a root that ends there has no digits after it.
Exact root_of(const Exact& number, int scale) {
  Exact out;
  const int shift = 2 * (scale + 1) - number.scale;
  const Big shifted = shift >= 0 ? Big(number.value * power_of_ten(shift)) : Big(number.value / power_of_ten(-shift));
  out.value = (boost::multiprecision::sqrt(shifted) + 5) / 10;
  out.scale = scale;
  return out;
}

void numeric_square_root(Call& call) {
  const Exact number = finite(call, 0);
  if (number.value < 0) fail("2201F", "cannot take square root of a negative number");
  int weight = 0, first = 0;
  leading_group(number, weight, first);
  // As many digits as numeric's own square root shows.
  answer(call, root_of(number, std::min(std::max({significant_min - (2 * weight + 1), number.scale, 0}), scale_max)));
}

template <bool up>
void to_whole(Call& call) {
  Exact number = exact(call, 0);
  const Exact before = number;
  truncate_to(number, 0);
  const int order = compare(before, number);
  if (up && order > 0) ++number.value;
  if (!up && order < 0) --number.value;
  answer(call, number);
}

void sign(Call& call) {
  const Exact number = finite(call, 0);
  call.answer(number.value < 0 ? "-1" : number.value > 0 ? "1" : "0");
}

int wanted_scale(const Call& call) {
  return static_cast<int>(std::clamp<std::int64_t>(call.whole(1), -static_cast<std::int64_t>(digits_max) - 1, 16383));
}

// numeric(p, s): rounded, and 22003 where the digits before the point are too many.
void fitted(Call& call) {
  Exact number = exact(call, 0);
  const int precision = static_cast<int>(call.whole(1)), scale = static_cast<int>(call.whole(2));
  if (number.kind == Exact::Kind::nan) return answer(call, number);
  round_to(number, scale);
  if (number.kind != Exact::Kind::finite || boost::multiprecision::abs(number.value) >= power_of_ten(precision))
    fail("22003", "numeric field overflow");
  answer(call, number);
}

// SQLite makes a double of decimals in a NUMERIC column: what that cannot hold is not stored.
void storable(Call& call) {
  const Exact number = exact(call, 0);
  if (number.kind != Exact::Kind::finite) return answer(call, number);
  std::string digits = Big(boost::multiprecision::abs(number.value)).str();
  int scale = number.scale;
  while (scale > 0 && digits.size() > 1 && digits.back() == '0') {
    digits.pop_back();
    --scale;
  }
  const bool whole = scale == 0 || number.value == 0;
  const bool fits =
      whole ? number.value >= std::numeric_limits<std::int64_t>::min() &&
                  boost::multiprecision::abs(number.value) <= Big(std::numeric_limits<std::int64_t>::max()) * power_of_ten(number.scale)
            : digits.size() <= 15;
  if (!fits) fail("0A000", "a numeric of more than 15 digits cannot be stored in an SQLite file without loss");
  answer(call, number);
}

template <Oid type>
void numeric_to_integer(Call& call) {
  Exact number = exact(call, 0);
  if (number.kind != Exact::Kind::finite)
    fail("0A000",
         "cannot convert " + std::string(number.kind == Exact::Kind::nan ? "NaN" : "infinity") + " to " + std::string(spoken(type)));
  round_to(number, 0);
  const Big most = type == oid::int2 ? Big(32767) : type == oid::int4 ? Big(2147483647) : Big(std::numeric_limits<std::int64_t>::max());
  if (number.value > most || number.value < -most - 1) fail("22003", std::string(spoken(type)) + " out of range");
  call.answer(static_cast<std::int64_t>(number.value));
}

// --- whole numbers

template <Oid type>
void in_range(Call& call) {
  const std::int64_t most = type == oid::int2 ? std::numeric_limits<std::int16_t>::max() : std::numeric_limits<std::int32_t>::max();
  const std::int64_t value = call.whole(0);
  if (value > most || value < -most - 1 || call.type(0) != SQLITE_INTEGER) fail("22003", std::string(spoken(type)) + " out of range");
  call.answer(value);
}

template <char symbol>
void whole_math(Call& call) {
  const std::int64_t a = call.whole(0), b = call.whole(1);
  std::int64_t out = 0;
  const bool over = symbol == '+'   ? __builtin_add_overflow(a, b, &out)
                    : symbol == '-' ? __builtin_sub_overflow(a, b, &out)
                                    : __builtin_mul_overflow(a, b, &out);
  if (over) fail("22003", "bigint out of range");
  call.answer(out);
}

void whole_division(Call& call) {
  const std::int64_t a = call.whole(0), b = call.whole(1);
  if (b == 0) fail("22012", "division by zero");
  if (b == -1 && a == std::numeric_limits<std::int64_t>::min()) fail("22003", "bigint out of range");
  call.answer(a / b);
}
void whole_remainder(Call& call) {
  const std::int64_t a = call.whole(0), b = call.whole(1);
  if (b == 0) fail("22012", "division by zero");
  call.answer(b == -1 ? std::int64_t{0} : a % b);
}

// --- floating point

double real_of(const Call& call, int i) {
  if (call.type(i) != SQLITE_TEXT) return call.real(i);
  auto parsed = parse_value(call.text(i), oid::float8, Format::text);
  if (auto* problem = std::get_if<SqlError>(&parsed)) throw CallError{std::move(*problem)};
  if (const auto* value = std::get_if<double>(&std::get<Stored>(parsed))) return *value;
  return std::numeric_limits<double>::quiet_NaN();
}
void answer_real(Call& call, double value) {
  if (std::isnan(value)) call.answer("NaN");
  else call.answer(value);
}

// What only an infinite operand may make is an overflow else; what only zero may make, an underflow.
double checked(double value, bool infinite_in, bool zero_fine) {
  if (std::isinf(value) && !infinite_in) fail("22003", "value out of range: overflow");
  if (value == 0 && !zero_fine) fail("22003", "value out of range: underflow");
  return value;
}

template <char symbol, bool single>
void float_math(Call& call) {
  const double a = real_of(call, 0), b = real_of(call, 1);
  const bool infinite = std::isinf(a) || std::isinf(b);
  double out = 0;
  if (symbol == '/' && b == 0 && !std::isnan(a)) fail("22012", "division by zero");
  if (single) {
    const auto x = static_cast<float>(a), y = static_cast<float>(b);
    out = static_cast<double>(symbol == '+' ? x + y : symbol == '-' ? x - y : symbol == '*' ? x * y : x / y);
  } else {
    out = symbol == '+' ? a + b : symbol == '-' ? a - b : symbol == '*' ? a * b : a / b;
  }
  const bool zero_fine = symbol == '+' || symbol == '-' || a == 0 || (symbol == '*' ? b == 0 : std::isinf(b));
  answer_real(call, checked(out, infinite, zero_fine));
}

template <double (*function)(double)>
void float_function(Call& call) {
  answer_real(call, function(real_of(call, 0)));
}
double negated(double value) { return -value; }

void square_root(Call& call) {
  const double value = real_of(call, 0);
  if (value < 0) fail("2201F", "cannot take square root of a negative number");
  answer_real(call, std::sqrt(value));
}
void logarithm(Call& call) {
  const double value = real_of(call, 0);
  if (value == 0) fail("2201E", "cannot take logarithm of zero");
  if (value < 0) fail("2201E", "cannot take logarithm of a negative number");
  answer_real(call, std::log(value));
}
void exponential(Call& call) {
  const double value = real_of(call, 0);
  answer_real(call, checked(std::exp(value), std::isinf(value), std::isinf(value)));
}
void power(Call& call) {
  const double a = real_of(call, 0), b = real_of(call, 1);
  if (std::isnan(a) || std::isnan(b)) return answer_real(call, std::pow(a, b));
  if (a == 0 && b < 0) fail("2201F", "zero raised to a negative power is undefined");
  if (a < 0 && std::floor(b) != b) fail("2201F", "a negative number raised to a non-integer power yields a complex result");
  answer_real(call, checked(std::pow(a, b), std::isinf(a) || std::isinf(b), a == 0 || std::isinf(a) || std::isinf(b)));
}

template <Oid type>
void float_to_integer(Call& call) {
  const double rounded = std::rint(real_of(call, 0));
  const double most = type == oid::int2 ? 32767.0 : type == oid::int4 ? 2147483647.0 : 9223372036854775807.0;
  const bool fits = type == oid::int8 ? rounded >= -most && rounded < most : rounded >= -most - 1 && rounded <= most;
  if (std::isnan(rounded) || !fits) fail("22003", std::string(spoken(type)) + " out of range");
  call.answer(static_cast<std::int64_t>(rounded));
}

// By 15 digits of a double and 6 of a float, as PostgreSQL's own casts.
template <int digits>
void float_to_numeric(Call& call) {
  const double value = real_of(call, 0);
  if (std::isnan(value)) return call.answer("NaN");
  if (std::isinf(value)) return call.answer(value > 0 ? "Infinity" : "-Infinity");
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  auto exact_form = numeric_text(text);
  if (auto* problem = std::get_if<SqlError>(&exact_form)) throw CallError{std::move(*problem)};
  call.answer(std::get<std::string>(exact_form));
}

template <Oid type>
void numeric_to_float(Call& call) {
  const std::string text = exact_text(call, 0);
  auto parsed = parse_value(text, type, Format::text);
  if (auto* problem = std::get_if<SqlError>(&parsed)) throw CallError{std::move(*problem)};
  if (const auto* value = std::get_if<double>(&std::get<Stored>(parsed)))
    return call.answer(type == oid::float4 ? static_cast<double>(static_cast<float>(*value)) : *value);
  call.answer_stored(std::get<Stored>(parsed));
}

void narrowed(Call& call) {
  const double value = real_of(call, 0);
  const auto single = static_cast<double>(static_cast<float>(value));
  answer_real(call, checked(single, std::isinf(value), value == 0));
}

template <bool single>
void float_to_text(Call& call) {
  const double value = real_of(call, 0);
  call.answer(std::isnan(value) ? std::string("NaN") : float_text(value, single));
}

// --- lengths

// varchar(n) and char(n): what is too long is refused, but for blanks at the end.
void fitted_text(Call& call) {
  const std::string text = call.text(0);
  const auto letters = characters(text);
  const auto most = static_cast<std::size_t>(call.whole(1));
  if (letters.size() <= most) return call.answer(text);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < most; ++i) bytes += letters[i].size();
  if (text.find_first_not_of(' ', bytes) != std::string::npos)
    fail("22001", "value too long for type " + call.text(2) + "(" + std::to_string(most) + ")");
  call.answer(text.substr(0, bytes));
}

void padded_text(Call& call) {
  std::string text = call.text(0);
  const auto letters = static_cast<std::int64_t>(characters(text).size());
  if (letters < call.whole(1)) text.append(static_cast<std::size_t>(call.whole(1) - letters), ' ');
  call.answer(text);
}

// 63 bytes, of whole letters.
void name_of(Call& call) {
  const std::string text = call.text(0);
  std::size_t bytes = 0;
  for (const std::string_view letter : characters(text)) {
    if (bytes + letter.size() > 63) break;
    bytes += letter.size();
  }
  call.answer(text.substr(0, bytes));
}

void limit(Call& call) {
  const std::string what = call.text(1);
  if (call.null(0)) return call.answer(std::int64_t{what == "LIMIT" ? -1 : 0});
  if (call.whole(0) < 0) fail(what == "LIMIT" ? "2201W" : "2201X", what + " must not be negative");
  call.answer(call.whole(0));
}

void chr(Call& call) {
  const std::int64_t code = call.whole(0);
  if (code == 0) fail("54000", "null character not permitted");
  if (code < 0 || code > 0x10FFFF) fail("54000", "requested character too large for encoding: " + std::to_string(code));
  if (code >= 0xD800 && code < 0xE000) fail("54000", "requested character not valid for encoding: " + std::to_string(code));
  std::string out;
  if (code < 0x80) out += static_cast<char>(code);
  else if (code < 0x800) (out += static_cast<char>(0xC0 | code >> 6)) += static_cast<char>(0x80 | (code & 63));
  else if (code < 0x10000)
    ((out += static_cast<char>(0xE0 | code >> 12)) += static_cast<char>(0x80 | (code >> 6 & 63))) += static_cast<char>(0x80 | (code & 63));
  else
    (((out += static_cast<char>(0xF0 | code >> 18)) += static_cast<char>(0x80 | (code >> 12 & 63))) +=
     static_cast<char>(0x80 | (code >> 6 & 63))) += static_cast<char>(0x80 | (code & 63));
  call.answer(out);
}

void ascii(Call& call) {
  const std::string text = call.text(0);
  if (text.empty()) return call.answer(std::int64_t{0});
  const std::string_view first = characters(text).front();
  const auto lead = static_cast<unsigned char>(first[0]);
  std::int64_t code = first.size() == 1 ? lead : lead & (0xFF >> (first.size() + 1));
  for (std::size_t i = 1; i < first.size(); ++i) code = code << 6 | (static_cast<unsigned char>(first[i]) & 63);
  call.answer(code);
}

// As interval_mul() and interval_div(): what is left of a month goes into days, what is left of a day into the time.
template <bool division>
void interval_scaled(Call& call) {
  const Interval span = parse_interval(call.text(0));
  const double factor = real_of(call, 1);
  if (division && factor == 0) fail("22012", "division by zero");
  const auto scaled = [&](std::int64_t value) {
    return division ? static_cast<double>(value) / factor : static_cast<double>(value) * factor;
  };
  const auto rounded = [](double value) { return std::rint(value * 1e6) / 1e6; };
  const auto out_of_range = [](double value) { return std::isnan(value) || value > 2147483647.0 || value < -2147483648.0; };
  constexpr double day_seconds = 86400;
  if (out_of_range(scaled(span.months)) || out_of_range(scaled(span.days))) fail("22008", "interval out of range");
  Interval out;
  out.months = static_cast<std::int64_t>(scaled(span.months));
  out.days = static_cast<std::int64_t>(scaled(span.days));
  const double month_days = rounded((scaled(span.months) - static_cast<double>(out.months)) * 30);
  double seconds = rounded(
      (scaled(span.days) - static_cast<double>(out.days) + month_days - static_cast<double>(static_cast<std::int64_t>(month_days))) *
      day_seconds);
  if (std::fabs(seconds) >= day_seconds) {
    out.days += static_cast<std::int64_t>(seconds / day_seconds);
    seconds -= static_cast<double>(static_cast<std::int64_t>(seconds / day_seconds)) * day_seconds;
  }
  out.days += static_cast<std::int64_t>(month_days);
  const double micros = std::rint(scaled(span.micros) + seconds * 1e6);
  if (!(micros > -9.2e18 && micros < 9.2e18)) fail("22008", "interval out of range");
  out.micros = static_cast<std::int64_t>(micros);
  call.answer(interval_text(out));
}

// --- moments: each in its own form

Moment moment(const Call& call, Oid type) {
  Moment out = parse_moment(call.text(0));
  if (type != 0) out.type = type;
  return out;
}
constexpr std::int64_t day = 86'400'000'000;
bool without_end(const Moment& at) {
  return at.micros == std::numeric_limits<std::int64_t>::max() || at.micros == std::numeric_limits<std::int64_t>::min();
}

template <Oid type>
void as_moment(Call& call) {
  call.answer(moment_text(moment(call, type)));
}
void moment_date(Call& call) {
  Moment at = moment(call, oid::date);
  if (!without_end(at)) at.micros -= (at.micros % day + day) % day;
  call.answer(moment_text(at));
}
void moment_time(Call& call) {
  Moment at = moment(call, oid::time);
  if (without_end(at)) return call.answer_null();
  at.micros = (at.micros % day + day) % day;
  call.answer(moment_text(at));
}

// --- arrays

// As a JSON list of strings, for json_each.
void array_strings(Call& call) {
  std::string out = "[";
  for (const auto& each : array_elements(call.text(0))) {
    if (out.size() > 1) out += ',';
    out += each ? json_string(*each) : "null";
  }
  call.answer(out + "]");
}

void put_element(std::string& array, const Call& call, int i) {
  if (array.size() > 1) array += ',';
  if (call.null(i)) {
    array += "NULL";
    return;
  }
  const std::string text = call.text(i);
  std::string upper = text;
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  if (!text.empty() && upper != "NULL" && text.find_first_of("{}\",\\ \t\n\r\v\f") == std::string::npos) {
    array += text;
    return;
  }
  array += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') array += '\\';
    array += c;
  }
  array += '"';
}
void array_of(Call& call) {
  std::string out = "{";
  for (int i = 0; i < call.count; ++i) put_element(out, call, i);
  call.answer(out + "}");
}

// Joins results of pg_array_of(): each is {…} with at least one element.
void arrays_joined(Call& call) {
  std::string out;
  for (int i = 0; i < call.count; ++i) {
    const std::string each = call.text(i);
    out += (i == 0 ? "{" : ",") + each.substr(1, each.size() - 2);
  }
  call.answer(out + "}");
}

// NULLs are contained in nothing.
void array_contains(Call& call) {
  const Elements all = array_elements(call.text(0)), wanted = array_elements(call.text(1));
  call.answer(std::all_of(wanted.begin(), wanted.end(),
                          [&](const auto& each) { return each && std::find(all.begin(), all.end(), each) != all.end(); }));
}
void array_overlap(Call& call) {
  const Elements all = array_elements(call.text(0)), wanted = array_elements(call.text(1));
  call.answer(std::any_of(wanted.begin(), wanted.end(),
                          [&](const auto& each) { return each && std::find(all.begin(), all.end(), each) != all.end(); }));
}

// Of all but NULLs; NULL of none.
template <bool greatest>
void extreme(Call& call) {
  std::optional<Exact> best;
  for (int i = 0; i < call.count; ++i) {
    if (call.null(i)) continue;
    Exact each = exact(call, i);
    if (!best || (greatest ? compare(each, *best) > 0 : compare(each, *best) < 0)) best = std::move(each);
  }
  if (best) answer(call, *best);
  else call.answer_null();
}

int compare_spans(std::string_view a, std::string_view b) {
  // A month has 30 days, a day 24 hours.
  const auto span = [](const Interval& of) {
    const std::int64_t rest = (of.micros % day + day) % day;
    return std::pair(of.months * 30 + of.days + (of.micros - rest) / day, rest);
  };
  const auto x = span(parse_interval(a)), y = span(parse_interval(b));
  return x < y ? -1 : x > y ? 1 : 0;
}

constexpr Body typed_bodies[] = {
    {"pg_numeric_cmp", [](Call& call) { call.answer(std::int64_t{compare(exact(call, 0), exact(call, 1))}); }},
    {"pg_interval_cmp", [](Call& call) { call.answer(std::int64_t{compare_spans(call.text(0), call.text(1))}); }},
    {"pg_interval_mul", interval_scaled<false>},
    {"pg_interval_div", interval_scaled<true>},
    {"pg_num", canonical},
    {"pg_numeric_in", canonical},
    {"pg_numeric_add", numeric_math<'+'>},
    {"pg_numeric_sub", numeric_math<'-'>},
    {"pg_numeric_mul", numeric_math<'*'>},
    {"pg_numeric_div", numeric_math<'/'>},
    {"pg_numeric_mod", numeric_math<'%'>},
    {"pg_numeric_quotient", numeric_math<'q'>},
    {"pg_numeric_abs", absolute},
    {"pg_numeric_sqrt", numeric_square_root},
    {"pg_numeric_ceil", to_whole<true>},
    {"pg_numeric_floor", to_whole<false>},
    {"pg_numeric_sign", sign},
    {"pg_numeric_round",
     [](Call& call) {
       Exact number = exact(call, 0);
       round_to(number, wanted_scale(call));
       answer(call, number);
     }},
    {"pg_numeric_trunc",
     [](Call& call) {
       Exact number = exact(call, 0);
       truncate_to(number, wanted_scale(call));
       answer(call, number);
     }},
    {"pg_numeric_fit", fitted},
    {"pg_numeric_store", storable},
    {"pg_numeric_int2", numeric_to_integer<oid::int2>},
    {"pg_numeric_int4", numeric_to_integer<oid::int4>},
    {"pg_numeric_int8", numeric_to_integer<oid::int8>},
    {"pg_numeric_least", extreme<false>, true},
    {"pg_numeric_greatest", extreme<true>, true},
    {"pg_numeric_float8", numeric_to_float<oid::float8>},
    {"pg_numeric_float4", numeric_to_float<oid::float4>},
    {"pg_i2", in_range<oid::int2>},
    {"pg_i4", in_range<oid::int4>},
    {"pg_i8add", whole_math<'+'>},
    {"pg_i8sub", whole_math<'-'>},
    {"pg_i8mul", whole_math<'*'>},
    {"pg_idiv", whole_division},
    {"pg_imod", whole_remainder},
    {"pg_float8_add", float_math<'+', false>},
    {"pg_float8_sub", float_math<'-', false>},
    {"pg_float8_mul", float_math<'*', false>},
    {"pg_float8_div", float_math<'/', false>},
    {"pg_float4_add", float_math<'+', true>},
    {"pg_float4_sub", float_math<'-', true>},
    {"pg_float4_mul", float_math<'*', true>},
    {"pg_float4_div", float_math<'/', true>},
    {"pg_float8_neg", float_function<negated>},
    {"pg_float8_abs", float_function<std::fabs>},
    {"pg_float8_floor", float_function<std::floor>},
    {"pg_float8_ceil", float_function<std::ceil>},
    {"pg_float8_round", float_function<std::rint>},
    {"pg_float8_trunc", float_function<std::trunc>},
    {"pg_float8_sign",
     [](Call& call) {
       const double value = real_of(call, 0);
       answer_real(call, value > 0 ? 1.0 : value < 0 ? -1.0 : 0.0);
     }},
    {"pg_float8_sqrt", square_root},
    {"pg_array_contains", array_contains},
    {"pg_array_overlap", array_overlap},
    {"pg_float8_ln", logarithm},
    {"pg_float8_exp", exponential},
    {"pg_float8_pow", power},
    {"pg_float_int2", float_to_integer<oid::int2>},
    {"pg_float_int4", float_to_integer<oid::int4>},
    {"pg_float_int8", float_to_integer<oid::int8>},
    {"pg_float8_numeric", float_to_numeric<15>},
    {"pg_float4_numeric", float_to_numeric<6>},
    {"pg_float8_float4", narrowed},
    {"pg_float4_text", float_to_text<true>},
    {"pg_float8_text", float_to_text<false>},
    {"pg_fit", fitted_text},
    {"pg_pad", padded_text},
    {"pg_array_of", array_of, true},
    {"pg_arrays_joined", arrays_joined},
    {"pg_name", name_of},
    {"pg_limit", limit, true},
    {"pg_chr", chr},
    {"pg_ascii", ascii},
    {"pg_moment_date", moment_date},
    {"pg_moment_time", moment_time},
    {"pg_date_timestamp", as_moment<oid::timestamp>},
    {"pg_date_timestamptz", as_moment<oid::timestamptz>},
    {"pg_timestamp_timestamptz", as_moment<oid::timestamptz>},
    {"pg_timestamptz_timestamp", as_moment<oid::timestamp>},
    {"pg_array_strings", array_strings},
};

// --- collations

int compare_numeric(void*, int left_bytes, const void* left, int right_bytes, const void* right) {
  const std::string_view a(static_cast<const char*>(left), static_cast<std::size_t>(left_bytes)),
      b(static_cast<const char*>(right), static_cast<std::size_t>(right_bytes));
  if (a == b) return 0;
  try {
    return compare(read_exact(a), read_exact(b));
  } catch (...) {
    // A collation cannot fail: what is no number has an order of its own.
    return a < b ? -1 : 1;
  }
}
int compare_interval(void*, int left_bytes, const void* left, int right_bytes, const void* right) {
  const std::string_view a(static_cast<const char*>(left), static_cast<std::size_t>(left_bytes)),
      b(static_cast<const char*>(right), static_cast<std::size_t>(right_bytes));
  try {
    return compare_spans(a, b);
  } catch (...) { return a < b ? -1 : a > b ? 1 : 0; }
}

// --- aggregates

struct Sum {
  Big total = 0;
  int scale = 0;  // of `total`
  std::int64_t count = 0;
  std::map<int, std::int64_t> scales;  // of what is in it
};
struct OfState {
  CatalogState* state;
};

template <class Held>
Held* held_by(sqlite3_context* context, bool make) {
  auto** held = static_cast<Held**>(sqlite3_aggregate_context(context, make ? sizeof(Held*) : 0));
  if (held == nullptr) return nullptr;
  if (*held == nullptr && make) *held = new (std::nothrow) Held();
  return *held;
}

template <class Work>
void guarded(sqlite3_context* context, const Work& work) {
  CatalogState& state = *static_cast<OfState*>(sqlite3_user_data(context))->state;
  try {
    work(state);
  } catch (CallError& failed) { state.fail(context, std::move(failed.problem)); } catch (const std::bad_alloc&) {
    sqlite3_result_error_nomem(context);
  }
}

template <int direction>
void sum_step(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&](CatalogState& state) {
    Sum* sum = held_by<Sum>(context, true);
    if (sum == nullptr) throw std::bad_alloc();
    const Call call(state, context, count, values);
    if (call.null(0)) return;
    Exact each = finite(call, 0);
    sum->scales[each.scale] += direction;
    if (sum->scales[each.scale] == 0) sum->scales.erase(each.scale);
    if (each.scale > sum->scale) {
      sum->total *= power_of_ten(each.scale - sum->scale);
      sum->scale = each.scale;
    } else {
      at_scale(each, sum->scale);
    }
    sum->total += direction * each.value;
    sum->count += direction;
  });
}

template <bool average, bool last>
void sum_value(sqlite3_context* context) {
  Sum* sum = held_by<Sum>(context, false);
  guarded(context, [&](CatalogState&) {
    if (sum == nullptr || sum->count == 0) return sqlite3_result_null(context);
    Exact total{Exact::Kind::finite, sum->total, sum->scale};
    // Only what is in the frame says how many zeros are shown.
    const int shown = sum->scales.empty() ? 0 : sum->scales.rbegin()->first;
    truncate_to(total, shown);
    if (average) total = divided(total, Exact{Exact::Kind::finite, Big(sum->count), 0});
    const std::string text = text_of_exact(total);
    sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  });
  if (last) delete sum;
}

struct RealSum {
  double total = 0;
  std::int64_t count = 0;
  bool infinite = false;
};
void real_step(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&](CatalogState& state) {
    RealSum* sum = held_by<RealSum>(context, true);
    if (sum == nullptr) throw std::bad_alloc();
    const Call call(state, context, count, values);
    if (call.null(0)) return;
    const double value = real_of(call, 0);
    sum->infinite = sum->infinite || std::isinf(value);
    sum->total = checked(sum->total + value, sum->infinite, true);
    ++sum->count;
  });
}
// As PostgreSQL's float8_accum() does, whose sum of squares may overflow before the sum does.
struct RealMean {
  double count = 0, sum = 0, squares = 0;
};
void mean_step(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&](CatalogState& state) {
    RealMean* mean = held_by<RealMean>(context, true);
    if (mean == nullptr) throw std::bad_alloc();
    const Call call(state, context, count, values);
    if (call.null(0)) return;
    const double value = real_of(call, 0), before = mean->sum;
    mean->count += 1;
    mean->sum += value;
    if (mean->count > 1) {
      const double difference = value * mean->count - mean->sum;
      mean->squares += difference * difference / (mean->count * (mean->count - 1));
      if (std::isinf(mean->sum) || std::isinf(mean->squares)) {
        if (!std::isinf(before) && !std::isinf(value)) fail("22003", "value out of range: overflow");
        mean->squares = std::numeric_limits<double>::quiet_NaN();
      }
    } else if (std::isnan(value) || std::isinf(value)) {
      mean->squares = std::numeric_limits<double>::quiet_NaN();
    }
  });
}
void mean_end(sqlite3_context* context) {
  RealMean* mean = held_by<RealMean>(context, false);
  if (mean == nullptr || mean->count == 0) sqlite3_result_null(context);
  else if (const double out = mean->sum / mean->count; std::isnan(out)) sqlite3_result_text(context, "NaN", 3, SQLITE_STATIC);
  else sqlite3_result_double(context, out);
  delete mean;
}

enum class Spread : std::uint8_t { var_samp, var_pop, stddev_samp, stddev_pop };
constexpr bool is_sample(Spread which) { return which == Spread::var_samp || which == Spread::stddev_samp; }
constexpr bool is_root(Spread which) { return which == Spread::stddev_samp || which == Spread::stddev_pop; }

template <Spread which>
void real_spread_end(sqlite3_context* context) {
  RealMean* mean = held_by<RealMean>(context, false);
  if (mean == nullptr || mean->count <= (is_sample(which) ? 1 : 0)) {
    sqlite3_result_null(context);
  } else {
    double out = mean->squares / (is_sample(which) ? mean->count - 1 : mean->count);
    if (is_root(which)) out = std::sqrt(out);
    if (std::isnan(out)) sqlite3_result_text(context, "NaN", 3, SQLITE_STATIC);
    else sqlite3_result_double(context, out);
  }
  delete mean;
}

// Sums of exact numbers and of their squares, as PostgreSQL keeps them for integers and numeric.
struct Squares {
  Exact sum, squares;
  std::int64_t count = 0;
};
void squares_step(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&](CatalogState& state) {
    Squares* held = held_by<Squares>(context, true);
    if (held == nullptr) throw std::bad_alloc();
    const Call call(state, context, count, values);
    if (call.null(0)) return;
    Exact each = finite(call, 0);
    Exact square{Exact::Kind::finite, each.value * each.value, each.scale * 2};
    const auto add = [](Exact& total, Exact& one) {
      const int scale = std::max(total.scale, one.scale);
      at_scale(total, scale);
      at_scale(one, scale);
      total.value += one.value;
    };
    add(held->sum, each);
    add(held->squares, square);
    ++held->count;
  });
}

template <Spread which>
void squares_end(sqlite3_context* context) {
  Squares* held = held_by<Squares>(context, false);
  guarded(context, [&](CatalogState&) {
    if (held == nullptr || held->count <= (is_sample(which) ? 1 : 0)) return sqlite3_result_null(context);
    const Big count(held->count);
    Exact top{Exact::Kind::finite, held->squares.value * count, held->squares.scale};
    const Exact square{Exact::Kind::finite, held->sum.value * held->sum.value, held->sum.scale * 2};
    at_scale(top, square.scale);
    top.value -= square.value;
    Exact out;
    if (top.value > 0) {
      const Exact bottom{Exact::Kind::finite, is_sample(which) ? Big(count * (count - 1)) : Big(count * count), 0};
      out = divided(top, bottom);
      if (is_root(which)) out = root_of(out, out.scale);
    }
    const std::string text = text_of_exact(out);
    sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  });
  delete held;
}

// Of equals the later one, as numeric_smaller() and numeric_larger() have it: they may show other zeros.
struct Best {
  std::optional<Exact> value;
};
template <bool greatest>
void best_step(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&](CatalogState& state) {
    Best* best = held_by<Best>(context, true);
    if (best == nullptr) throw std::bad_alloc();
    const Call call(state, context, count, values);
    if (call.null(0)) return;
    Exact each = exact(call, 0);
    if (!best->value || (greatest ? compare(*best->value, each) <= 0 : compare(*best->value, each) >= 0)) best->value = std::move(each);
  });
}
void best_end(sqlite3_context* context) {
  Best* best = held_by<Best>(context, false);
  guarded(context, [&](CatalogState&) {
    if (best == nullptr || !best->value) return sqlite3_result_null(context);
    const std::string text = text_of_exact(*best->value);
    sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  });
  delete best;
}

void real_end(sqlite3_context* context) {
  RealSum* sum = held_by<RealSum>(context, false);
  if (sum == nullptr || sum->count == 0) {
    sqlite3_result_null(context);
  } else {
    const double out = sum->total;
    if (std::isnan(out)) sqlite3_result_text(context, "NaN", 3, SQLITE_STATIC);
    else sqlite3_result_double(context, out);
  }
  delete sum;
}

struct Joined {
  std::string text;
  bool any = false;
};
void join_step(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&](CatalogState& state) {
    const Call call(state, context, count, values);
    if (call.null(0)) return;
    Joined* joined = held_by<Joined>(context, true);
    if (joined == nullptr) throw std::bad_alloc();
    if (joined->any && !call.null(1)) joined->text += call.text(1);
    joined->any = true;
    joined->text += call.text(0);
    if (joined->text.size() > (std::size_t{1} << 26)) fail("54000", "a value is too long");
  });
}
void join_end(sqlite3_context* context) {
  Joined* joined = held_by<Joined>(context, false);
  if (joined == nullptr || !joined->any) sqlite3_result_null(context);
  else sqlite3_result_text64(context, joined->text.data(), joined->text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  delete joined;
}

struct Collected {
  std::string array = "{";
};
void collect_step(sqlite3_context* context, int count, sqlite3_value** values) {
  guarded(context, [&](CatalogState& state) {
    Collected* held = held_by<Collected>(context, true);
    if (held == nullptr) throw std::bad_alloc();
    put_element(held->array, Call(state, context, count, values), 0);
    if (held->array.size() > (std::size_t{1} << 26)) fail("54000", "a value is too long");
  });
}
void collect_end(sqlite3_context* context) {
  Collected* held = held_by<Collected>(context, false);
  if (held == nullptr) return sqlite3_result_null(context);
  held->array += '}';
  sqlite3_result_text64(context, held->array.data(), held->array.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  delete held;
}

struct One {
  sqlite3_value* value = nullptr;
  bool many = false;
};
void one_step(sqlite3_context* context, int, sqlite3_value** values) {
  guarded(context, [&](CatalogState&) {
    auto* one = static_cast<One*>(sqlite3_aggregate_context(context, sizeof(One)));
    if (one == nullptr) throw std::bad_alloc();
    if (one->value != nullptr) {
      one->many = true;
      fail("21000", "more than one row returned by a subquery used as an expression");
    }
    one->value = sqlite3_value_dup(values[0]);
    if (one->value == nullptr) throw std::bad_alloc();
  });
}
void one_end(sqlite3_context* context) {
  auto* one = static_cast<One*>(sqlite3_aggregate_context(context, 0));
  if (one == nullptr || one->value == nullptr) return sqlite3_result_null(context);
  if (!one->many) sqlite3_result_value(context, one->value);
  sqlite3_value_free(one->value);
}

}  // namespace
}  // namespace typed_sql

std::span<const Body> typed_functions() { return typed_sql::typed_bodies; }

std::pair<int, int> typed_arguments(std::string_view name) {
  static constexpr std::string_view two[] = {
      "pg_numeric_add",   "pg_numeric_sub",   "pg_numeric_mul",  "pg_numeric_div", "pg_numeric_mod",    "pg_numeric_quotient",
      "pg_numeric_round", "pg_numeric_trunc", "pg_i8add",        "pg_i8sub",       "pg_i8mul",          "pg_idiv",
      "pg_imod",          "pg_float8_add",    "pg_float8_sub",   "pg_float8_mul",  "pg_float8_div",     "pg_float4_add",
      "pg_float4_sub",    "pg_float4_mul",    "pg_float4_div",   "pg_float8_pow",  "pg_limit",          "pg_numeric_cmp",
      "pg_interval_cmp",  "pg_interval_mul",  "pg_interval_div", "pg_pad",         "pg_array_contains", "pg_array_overlap"};
  if (name == "pg_num") return {1, 2};
  if (name == "pg_numeric_least" || name == "pg_numeric_greatest" || name == "pg_array_of" || name == "pg_arrays_joined") return {-1, -1};
  if (name == "pg_fit" || name == "pg_numeric_fit") return {3, 3};
  return std::find(std::begin(two), std::end(two), name) != std::end(two) ? std::pair(2, 2) : std::pair(1, 1);
}

void register_typed(sqlite3* connection, CatalogState& state) {
  using namespace typed_sql;
  sqlite3_create_collation_v2(connection, "pg_numeric", SQLITE_UTF8, nullptr, compare_numeric, nullptr);
  sqlite3_create_collation_v2(connection, "pg_interval", SQLITE_UTF8, nullptr, compare_interval, nullptr);
  const auto add = [&](const char* name, int count, void (*step)(sqlite3_context*, int, sqlite3_value**), void (*end)(sqlite3_context*),
                       void (*value)(sqlite3_context*) = nullptr, void (*inverse)(sqlite3_context*, int, sqlite3_value**) = nullptr) {
    sqlite3_create_window_function(connection, name, count, SQLITE_UTF8 | SQLITE_INNOCUOUS, new OfState{&state}, step, end, value, inverse,
                                   [](void* held) { delete static_cast<OfState*>(held); });
  };
  add("pg_numeric_sum", 1, sum_step<1>, sum_value<false, true>, sum_value<false, false>, sum_step<-1>);
  add("pg_numeric_avg", 1, sum_step<1>, sum_value<true, true>, sum_value<true, false>, sum_step<-1>);
  add("pg_float8_sum", 1, real_step, real_end);
  add("pg_float8_avg", 1, mean_step, mean_end);
  add("pg_float8_var_samp", 1, mean_step, real_spread_end<Spread::var_samp>);
  add("pg_float8_var_pop", 1, mean_step, real_spread_end<Spread::var_pop>);
  add("pg_float8_stddev_samp", 1, mean_step, real_spread_end<Spread::stddev_samp>);
  add("pg_float8_stddev_pop", 1, mean_step, real_spread_end<Spread::stddev_pop>);
  add("pg_numeric_var_samp", 1, squares_step, squares_end<Spread::var_samp>);
  add("pg_numeric_var_pop", 1, squares_step, squares_end<Spread::var_pop>);
  add("pg_numeric_stddev_samp", 1, squares_step, squares_end<Spread::stddev_samp>);
  add("pg_numeric_stddev_pop", 1, squares_step, squares_end<Spread::stddev_pop>);
  add("pg_numeric_min", 1, best_step<false>, best_end);
  add("pg_numeric_max", 1, best_step<true>, best_end);
  add("pg_string_agg", 2, join_step, join_end);
  add("pg_array_of_all", 1, collect_step, collect_end);
  add("pg_one", 1, one_step, one_end);
  register_ordered(connection, state, [](std::string_view a, std::string_view b) {
    return compare_numeric(nullptr, static_cast<int>(a.size()), a.data(), static_cast<int>(b.size()), b.data());
  });
}

}  // namespace termgate::sqlite_server
