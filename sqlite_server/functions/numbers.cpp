// Numbers, bits, random values, JSON paths, and numbers in pictures (to_char, to_number).
#include <sys/random.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <numeric>

#include "values/forms.hpp"
#include "functions/functions.hpp"

namespace termgate::sqlite_server {
namespace {

// As SQLite orders values: numbers before text before blobs.
int compare(sqlite3_value* left, sqlite3_value* right) {
  const auto rank = [](sqlite3_value* value) {
    return sqlite3_value_type(value) == SQLITE_TEXT ? 1 : sqlite3_value_type(value) == SQLITE_BLOB ? 2 : 0;
  };
  if (rank(left) != rank(right)) return rank(left) < rank(right) ? -1 : 1;
  if (rank(left) == 0) {
    if (sqlite3_value_type(left) == SQLITE_INTEGER && sqlite3_value_type(right) == SQLITE_INTEGER) {
      const auto a = sqlite3_value_int64(left), b = sqlite3_value_int64(right);
      return a < b ? -1 : a > b ? 1 : 0;
    }
    const double a = sqlite3_value_double(left), b = sqlite3_value_double(right);
    return a < b ? -1 : a > b ? 1 : 0;
  }
  const std::string_view a(static_cast<const char*>(sqlite3_value_blob(left)), static_cast<std::size_t>(sqlite3_value_bytes(left)));
  const std::string_view b(static_cast<const char*>(sqlite3_value_blob(right)), static_cast<std::size_t>(sqlite3_value_bytes(right)));
  return a.compare(b);
}

template <int sign>
void extreme(Call& call) {
  int best = -1;
  for (int i = 0; i < call.count; ++i) {
    if (!call.null(i) && (best < 0 || compare(call.values[i], call.values[best]) * sign > 0)) best = i;
  }
  best < 0 ? call.answer_null() : call.answer_value(best);
}

void random_number(Call& call) {
  std::uint64_t bits = 0;
  sqlite3_randomness(sizeof bits, &bits);
  call.answer(static_cast<double>(bits >> 11) * 0x1p-53);
}

void uuid(Call& call) {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) fail("XX000", "could not generate random values");
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    (out += "0123456789abcdef"[bytes[i] >> 4]) += "0123456789abcdef"[bytes[i] & 15];
  }
  call.answer(out);
}

void width_bucket(Call& call) {
  const double value = call.real(0), low = call.real(1), high = call.real(2);
  const std::int64_t count = call.whole(3);
  if (count <= 0) fail("2201G", "count must be greater than zero");
  if (low == high) fail("2201G", "lower bound cannot equal upper bound");
  const double place = (value - low) / (high - low);
  if (place < 0) return call.answer(std::int64_t{0});
  if (place >= 1) return call.answer(count + 1);
  call.answer(static_cast<std::int64_t>(place * static_cast<double>(count)) + 1);
}

std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

void gcd(Call& call) {
  const std::uint64_t result = std::gcd(magnitude(call.whole(0)), magnitude(call.whole(1)));
  if (result > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) fail("22003", "bigint out of range");
  call.answer(static_cast<std::int64_t>(result));
}
void lcm(Call& call) {
  const std::uint64_t a = magnitude(call.whole(0)), b = magnitude(call.whole(1));
  if (a == 0 || b == 0) return call.answer(std::int64_t{0});
  std::uint64_t result = 0;
  if (__builtin_mul_overflow(a / std::gcd(a, b), b, &result) ||
      result > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    fail("22003", "bigint out of range");
  call.answer(static_cast<std::int64_t>(result));
}

bool looks_like_interval(std::string_view text) {
  for (const std::string_view word : {"day", "mon", "year", "hour", "min", "sec", "week", "P"}) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  return text.find('-', 1) == std::string_view::npos;
}

void to_char(Call& call) {
  const std::string format = call.text(1);
  if (call.type(0) != SQLITE_TEXT) return call.answer(number_to_char(call.real(0), format));
  const std::string text = call.text(0);
  if (text.find_first_not_of("0123456789.-+eE") == std::string::npos && text.find('-', 1) == std::string::npos)
    return call.answer(number_to_char(call.real(0), format));
  call.answer(looks_like_interval(text) ? interval_to_char(parse_interval(text), format) : time_to_char(parse_moment(text), format));
}

void to_number(Call& call) {
  const std::string text = call.text(0);
  std::string number;
  bool minus =
      text.find('-') != std::string::npos || (text.find('<') != std::string::npos && lower(call.text(1)).find("pr") != std::string::npos);
  for (const char c : text) {
    if ((c >= '0' && c <= '9') || (c == '.' && number.find('.') == std::string::npos)) number += c;
  }
  if (number.empty() || number == ".") fail("22P02", "invalid input syntax for type numeric: \"" + text + "\"");
  auto parsed = parse_value((minus ? "-" : "") + number, dialect::oid::numeric, Format::text);
  if (auto* problem = std::get_if<SqlError>(&parsed)) throw CallError{std::move(*problem)};
  call.answer_stored(std::get<Stored>(parsed));
}

constexpr Body number_bodies[] = {
    {"pg_greatest", extreme<1>, true},
    {"pg_least", extreme<-1>, true},
    {"pg_random", random_number, false, false},
    {"gen_random_uuid", uuid, false, false},
    {"width_bucket", width_bucket},
    {"gcd", gcd},
    {"lcm", lcm},
    {"pg_xor", [](Call& call) { call.answer(call.whole(0) ^ call.whole(1)); }},
    {"pg_cbrt", [](Call& call) { call.answer(std::cbrt(call.real(0))); }},
    {"to_char", to_char},
    {"to_number", to_number},
};

}  // namespace

std::span<const Body> number_functions() { return number_bodies; }

namespace {

// A picture of to_char(), read: 9 0 . , D G S MI PL PR FM and characters of its own; others are 0A000.
struct Picture {
  struct Place {
    char kind;  // 9 0 . , or c: a character of its own
    std::string text;
  };
  bool fill = true, point = false, sign_first = false, sign_last = false, minus_last = false, plus = false, brackets = false;
  std::vector<Place> places;
  int whole = 0, fraction = 0;  // how many digits on each side of the point

  explicit Picture(std::string_view format) {
    for (std::size_t i = 0; i < format.size();) i += read(format, i);
    if (fraction > 30 || whole > 30) fail("0A000", "a picture of more than 30 digits is not supported on SQLite");
  }

  // Of the digits after the point, how many are written: FM drops the zeros at the end that stand for a 9.
  std::size_t kept_of(const std::string& digits) const {
    if (fill) return digits.size();
    std::size_t least = 0, place_of = 0;
    bool after_point = false;
    for (const Place& place : places) {
      if (place.kind == '.') after_point = true;
      if (!after_point || (place.kind != '9' && place.kind != '0')) continue;
      ++place_of;
      if (place.kind == '0') least = place_of;
    }
    std::size_t kept = digits.size();
    while (kept > least && digits[kept - 1] == '0') --kept;
    return kept;
  }

 private:
  // Reads one element; how many bytes it has.
  std::size_t read(std::string_view format, std::size_t at) {
    const std::string two = lower(format.substr(at, 2));
    const char one = format[at], lowered = static_cast<char>(one | 0x20);
    if (one == '"') {
      const auto end = std::min(format.find('"', at + 1), format.size());
      places.push_back({'c', std::string(format.substr(at + 1, end - at - 1))});
      return end + 1 - at;
    }
    if (two == "fm" || two == "mi" || two == "pl" || two == "pr") {
      if (two == "fm") fill = false;
      else (two == "mi" ? minus_last : two == "pl" ? plus : brackets) = true;
      return 2;
    }
    if (one == '9' || one == '0') {
      places.push_back({one, {}});
      (point ? fraction : whole) += 1;
    } else if (one == '.' || lowered == 'd') {
      if (point) fail("42601", "multiple decimal points");
      point = true;
      places.push_back({'.', {}});
    } else if (one == ',' || lowered == 'g') {
      places.push_back({',', {}});
    } else if (lowered == 's') {
      (whole + fraction > 0 ? sign_last : sign_first) = true;
    } else if (two == "ee" || two == "rn" || two == "th" || lowered == 'v') {
      fail("0A000", "this picture of to_char() is not supported on SQLite: \"" + std::string(format) + "\"");
    } else {
      places.push_back({'c', std::string(1, one)});
    }
    return 1;
  }
};

// The digits and characters of a picture, without the sign; `padding` gets the blanks in front of it.
std::string digits_of(const Picture& picture, const std::string& whole, const std::string& fraction, bool over, std::string& padding) {
  const std::size_t kept = picture.kept_of(fraction);
  std::string out;
  int at = 0;
  std::size_t fraction_at = 0;
  bool started = false, zero_seen = false, after_point = false;
  for (const Picture::Place& place : picture.places) {
    if (place.kind == 'c') {
      out += place.text;
    } else if (place.kind == '.') {
      started = after_point = true;
      out += '.';
    } else if (place.kind == ',') {
      if (started) out += ',';
      else if (picture.fill) padding += ' ';
    } else if (after_point) {
      if (fraction_at < kept) out += over ? '#' : fraction[fraction_at];
      if (!over) ++fraction_at;
    } else {
      zero_seen = zero_seen || place.kind == '0';
      const int from_right = picture.whole - at++;
      const int index = static_cast<int>(whole.size()) - from_right;
      const bool zero = zero_seen || (from_right == 1 && picture.fraction == 0 && whole.empty());
      if (!over && index < 0 && !zero) {
        if (picture.fill) padding += ' ';
        continue;
      }
      out += over ? '#' : index >= 0 ? whole[static_cast<std::size_t>(index)] : '0';
      started = true;
    }
  }
  return out;
}

}  // namespace

std::string number_to_char(double value, std::string_view format) {
  const Picture picture(format);
  char digits[400];
  std::snprintf(digits, sizeof digits, "%.*f", picture.fraction, std::abs(value));
  const std::string number = digits;
  const bool negative = std::signbit(value) && number.find_first_of("123456789") != std::string::npos;
  std::string whole = number.substr(0, number.find('.'));
  const std::string fraction = picture.fraction > 0 ? number.substr(number.find('.') + 1) : "";
  const bool over = static_cast<int>(whole.size()) > picture.whole && whole != "0";
  if (whole == "0") whole.clear();
  const std::string blank = picture.fill ? " " : "";
  std::string sign;
  if (picture.brackets) sign = negative ? "<" : blank;
  else if (!picture.minus_last && !picture.sign_last) sign = negative ? "-" : picture.sign_first || picture.plus ? "+" : blank;
  std::string padding;
  std::string out = digits_of(picture, whole, fraction, over, padding);
  out = padding + sign + out;
  if (picture.brackets) out += negative ? ">" : blank;
  if (picture.minus_last) out += negative ? "-" : blank;
  if (picture.sign_last) out += negative ? "-" : "+";
  return out;
}

}  // namespace termgate::sqlite_server
