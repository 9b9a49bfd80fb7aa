// Arrays between the wire and the file: PostgreSQL's text with every element in its type's own canonical form, and its binary form.
//
//   int32 dimensions, int32 whether there are NULLs, uint32 element type, (int32 length, int32 lower bound) a dimension,
//   then each element: int32 length (-1: NULL), bytes
#include <algorithm>
#include <charconv>

#include "values/decimal.hpp"
#include "values/forms.hpp"

namespace termgate::sqlite_server {
namespace {

constexpr std::size_t array_dimensions_max = 6;

SqlError malformed_array(std::string_view text) { return {"22P02", "malformed array literal: \"" + std::string(text) + "\""}; }
SqlError bounds_refused(std::string_view text) {
  return {"0A000", "arrays whose lower bound is not 1 are not supported in an SQLite file: \"" + std::string(text) + "\""};
}

bool blank_in_array(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'; }

bool null_word(std::string_view word) {
  return word.size() == 4 && (word[0] | 0x20) == 'n' && (word[1] | 0x20) == 'u' && (word[2] | 0x20) == 'l' && (word[3] | 0x20) == 'l';
}

class ArrayReader {
 public:
  ArrayReader(std::string_view text, ArrayValue& out) : whole_(text), text_(text), out_(out) {}

  bool read() {
    skip();
    if (at_ < text_.size() && text_[at_] == '[' && !bounds()) return false;
    if (!level(0)) return false;
    skip();
    if (at_ != text_.size()) return false;
    if (out_.elements.empty()) out_.lengths.clear();
    return !declared_ || declared_lengths_ == out_.lengths;
  }
  bool other_bounds() const { return other_bounds_; }

 private:
  void skip() {
    while (at_ < text_.size() && blank_in_array(text_[at_])) ++at_;
  }
  bool number(std::int64_t& out) {
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out);
    at_ = static_cast<std::size_t>(end - text_.data());
    return error == std::errc();
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // "[1:2][1:3]="
  bool bounds() {
    declared_ = true;
    while (take('[')) {
      std::int64_t low = 1, high = 0;
      if (!number(high)) return false;
      if (take(':')) {
        low = high;
        if (!number(high)) return false;
      }
      if (!take(']') || high < low) return false;
      other_bounds_ = other_bounds_ || low != 1;
      declared_lengths_.push_back(static_cast<std::size_t>(high - low + 1));
    }
    skip();
    return take('=') && (skip(), true);
  }
  bool level(std::size_t depth) {
    if (depth >= array_dimensions_max || !take('{')) return false;
    std::size_t count = 0;
    skip();
    if (take('}')) return close(depth, 0);
    for (;;) {
      skip();
      if (at_ < text_.size() && text_[at_] == '{') {
        if (leaf_ && *leaf_ <= depth) return false;
        if (!level(depth + 1)) return false;
      } else {
        if (leaf_ && *leaf_ != depth) return false;
        leaf_ = depth;
        if (!element()) return false;
      }
      ++count;
      skip();
      if (take('}')) return close(depth, count);
      if (!take(',')) return false;
    }
  }
  // All arrays of one level have one length.
  bool close(std::size_t depth, std::size_t count) {
    if (out_.lengths.size() <= depth) out_.lengths.resize(depth + 1, SIZE_MAX);
    if (out_.lengths[depth] == SIZE_MAX) out_.lengths[depth] = count;
    return out_.lengths[depth] == count;
  }
  bool element() {
    std::string value;
    if (take('"')) {
      for (;; ++at_) {
        if (at_ >= text_.size()) return false;
        if (text_[at_] == '"') break;
        if (text_[at_] == '\\' && ++at_ >= text_.size()) return false;
        value += text_[at_];
      }
      ++at_;
      out_.elements.emplace_back(std::move(value));
      return true;
    }
    std::size_t kept = 0;
    bool escaped = false;
    for (; at_ < text_.size() && text_[at_] != ',' && text_[at_] != '}'; ++at_) {
      if (text_[at_] == '"' || text_[at_] == '{') return false;
      const bool escape = text_[at_] == '\\';
      if (escape && ++at_ >= text_.size()) return false;
      value += text_[at_];
      escaped = escaped || escape;
      if (escape || !blank_in_array(text_[at_])) kept = value.size();
    }
    value.resize(kept);
    if (value.empty()) return false;
    if (!escaped && null_word(value)) out_.elements.emplace_back();
    else out_.elements.emplace_back(std::move(value));
    return true;
  }

  std::string_view whole_, text_;
  ArrayValue& out_;
  std::size_t at_ = 0;
  std::optional<std::size_t> leaf_;
  bool declared_ = false, other_bounds_ = false;
  std::vector<std::size_t> declared_lengths_;
};

void append_element(std::string& out, const std::optional<std::string>& element) {
  if (!element) {
    out += "NULL";
    return;
  }
  if (!element->empty() && !null_word(*element) && element->find_first_of(" \t\n\r\v\f,{}\"\\") == std::string::npos) {
    out += *element;
    return;
  }
  out += '"';
  for (const char c : *element) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

void append_level(std::string& out, const ArrayValue& array, std::size_t depth, std::size_t& at) {
  out += '{';
  for (std::size_t i = 0; i < array.lengths[depth]; ++i) {
    if (i > 0) out += ',';
    if (depth + 1 < array.lengths.size()) append_level(out, array, depth + 1, at);
    else append_element(out, array.elements[at++]);
  }
  out += '}';
}

}  // namespace

namespace {

// An array's text keeps what a column of numbers does not: the zeros at the end.
void keep_zeros(std::string& text, std::int32_t modifier) {
  Decimal number;
  if (read_decimal(text, number) != Reading::fine) return;
  if (modifier >= 4) {
    const auto scale = static_cast<std::size_t>((modifier - 4) & 0x7ff);
    round_to(number, scale);
    number.fraction.resize(scale, '0');
  }
  text = digits_of(number);
}

}  // namespace

Oid element_of(Oid array) noexcept {
  if (array == 0) return 0;
  for (const dialect::Type& type : dialect::types()) {
    if (type.array == array) return type.oid;
  }
  return 0;
}

std::variant<ArrayValue, SqlError> read_array(std::string_view text) {
  ArrayValue out;
  ArrayReader reader(text, out);
  if (!reader.read()) return malformed_array(text);
  if (reader.other_bounds()) return bounds_refused(text);
  return out;
}

std::string array_text(const ArrayValue& array) {
  if (array.lengths.empty()) return "{}";
  std::string out;
  std::size_t at = 0;
  append_level(out, array, 0, at);
  return out;
}

Parsed parse_array(std::string_view text, Oid element, std::int32_t modifier) {
  auto read = read_array(text);
  if (auto* problem = std::get_if<SqlError>(&read)) return std::move(*problem);
  ArrayValue& array = std::get<ArrayValue>(read);
  for (auto& each : array.elements) {
    if (!each) continue;
    // Columns of char(n) leave out the trailing blanks; arrays of bpchar keep them.
    const bool as_it_is = element == dialect::oid::bpchar && modifier < 5;
    const Parsed parsed = as_it_is ? Parsed(Stored(*each)) : converted(Stored(*each), {element, modifier}, 0);
    if (const auto* problem = std::get_if<SqlError>(&parsed)) return *problem;
    if (element == dialect::oid::numeric) {
      keep_zeros(*each, modifier);
      continue;
    }
    each->clear();
    if (const auto problem = append_value(*each, std::get<Stored>(parsed), element, Format::text)) return *problem;
  }
  return Stored(array_text(array));
}

Parsed parse_array_binary(std::string_view bytes, Oid element) {
  const SqlError wrong = wrong_size("array");
  const auto take = [&](std::int32_t& out) {
    if (bytes.size() < 4) return false;
    out = static_cast<std::int32_t>(read_big<std::uint32_t>(bytes));
    bytes.remove_prefix(4);
    return true;
  };
  std::int32_t dimensions = 0, nulls = 0, type = 0;
  if (!take(dimensions) || !take(nulls) || !take(type) || dimensions < 0 || dimensions > static_cast<std::int32_t>(array_dimensions_max))
    return wrong;
  if (static_cast<Oid>(type) != element)
    return SqlError{"42804",
                    "binary data has array element type " + std::to_string(type) + " instead of expected " + std::to_string(element)};
  ArrayValue array;
  std::size_t count = dimensions == 0 ? 0 : 1;
  for (std::int32_t i = 0; i < dimensions; ++i) {
    std::int32_t length = 0, low = 0;
    if (!take(length) || !take(low) || length < 0 || static_cast<std::size_t>(length) > bytes.size() / 4 + 1) return wrong;
    if (low != 1) return bounds_refused("");
    array.lengths.push_back(static_cast<std::size_t>(length));
    count *= static_cast<std::size_t>(length);
    if (count > bytes.size()) return wrong;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::int32_t size = 0;
    if (!take(size) || (size >= 0 && static_cast<std::size_t>(size) > bytes.size())) return wrong;
    if (size < 0) {
      array.elements.emplace_back();
      continue;
    }
    const Parsed parsed = parse_value(bytes.substr(0, static_cast<std::size_t>(size)), element, Format::binary);
    if (const auto* problem = std::get_if<SqlError>(&parsed)) return *problem;
    array.elements.emplace_back(std::string());
    if (const auto problem = append_value(*array.elements.back(), std::get<Stored>(parsed), element, Format::text)) return *problem;
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  if (!bytes.empty()) return wrong;
  if (count == 0) array.lengths.clear();
  return Stored(array_text(array));
}

MaybeProblem append_array_binary(std::string& out, std::string_view text, Oid element) {
  auto read = read_array(text);
  if (auto* problem = std::get_if<SqlError>(&read)) return std::move(*problem);
  const ArrayValue& array = std::get<ArrayValue>(read);
  append_big(out, static_cast<std::uint32_t>(array.lengths.size()));
  append_big(out, static_cast<std::uint32_t>(
                      std::any_of(array.elements.begin(), array.elements.end(), [](const auto& each) { return !each; }) ? 1 : 0));
  append_big(out, static_cast<std::uint32_t>(element));
  for (const std::size_t length : array.lengths) {
    append_big(out, static_cast<std::uint32_t>(length));
    append_big(out, std::uint32_t{1});
  }
  for (const auto& each : array.elements) {
    if (!each) {
      append_big(out, ~std::uint32_t{0});
      continue;
    }
    // A numeric keeps its zeros.
    const Parsed parsed = element == dialect::oid::numeric ? Parsed(Stored(*each)) : parse_value(*each, element, Format::text);
    if (const auto* problem = std::get_if<SqlError>(&parsed)) return *problem;
    std::string bytes;
    if (auto problem = append_value(bytes, std::get<Stored>(parsed), element, Format::binary)) return problem;
    append_big(out, static_cast<std::uint32_t>(bytes.size()));
    out += bytes;
  }
  return std::nullopt;
}

}  // namespace termgate::sqlite_server
