#include "values/json.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "values/decimal.hpp"
#include "values/forms.hpp"
#include "functions/functions.hpp"

namespace termgate::sqlite_server {
namespace {

constexpr int levels_max = 1000;

// One pass over a text. What is not wanted is checked and skipped.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  [[noreturn]] void wrong() const { fail("22P02", "invalid input syntax for type json"); }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!take(c)) wrong();
  }
  void end() {
    peek();
    if (at_ != text_.size()) wrong();
  }
  std::size_t place() const { return at_; }
  std::string_view since(std::size_t begin) const { return text_.substr(begin, at_ - begin); }

  void literal(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) wrong();
    at_ += word.size();
    if (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) wrong();
  }

  std::string_view number() {
    const std::size_t begin = at_;
    if (at_ >= text_.size()) wrong();
    const auto digits = [&] {
      const std::size_t first = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      if (at_ == first) wrong();
      return at_ - first;
    };
    if (text_[at_] == '-') ++at_;
    const std::size_t whole = at_;
    if (digits() > 1 && text_[whole] == '0') wrong();
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      digits();
    }
    if (at_ < text_.size() && (text_[at_] | 0x20) == 'e') {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      digits();
    }
    if (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_' || text_[at_] == '.'))
      wrong();
    return text_.substr(begin, at_ - begin);
  }

  // `out` null: only checked. A \u0000 is refused where the text is wanted, as jsonb refuses it.
  void string(std::string* out) {
    need('"');
    for (;; ++at_) {
      if (at_ >= text_.size() || static_cast<unsigned char>(text_[at_]) < 0x20) wrong();
      if (text_[at_] == '"') break;
      if (text_[at_] != '\\') {
        if (out != nullptr) *out += text_[at_];
        continue;
      }
      if (++at_ >= text_.size()) wrong();
      static constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
      if (const auto found = letters.find(text_[at_]); found != std::string_view::npos) {
        if (out != nullptr) *out += meant[found];
      } else if (text_[at_] == 'u') {
        character(out);
      } else {
        wrong();
      }
    }
    ++at_;
  }

  void skip(int level = 0) {
    if (level > levels_max) fail("54001", "JSON nests deeper than " + std::to_string(levels_max) + " levels");
    switch (peek()) {
      case '{':
        ++at_;
        if (take('}')) return;
        do {
          if (peek() != '"') wrong();
          string(nullptr);
          need(':');
          skip(level + 1);
        } while (take(','));
        return need('}');
      case '[':
        ++at_;
        if (take(']')) return;
        do skip(level + 1);
        while (take(','));
        return need(']');
      case '"': return string(nullptr);
      case 't': return literal("true");
      case 'f': return literal("false");
      case 'n': return literal("null");
      default: number();
    }
  }

 private:
  unsigned hex() {
    unsigned code = 0;
    const std::string_view digits = text_.substr(std::min(at_ + 1, text_.size()), 4);
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || error != std::errc() || last != digits.data() + 4) wrong();
    at_ += 4;
    return code;
  }
  void character(std::string* out) {
    unsigned code = hex();
    // PostgreSQL looks at halves of a character only where it wants the text.
    if (out == nullptr) return;
    if (code >= 0xDC00 && code <= 0xDFFF) wrong();
    if (code >= 0xD800 && code <= 0xDBFF) {
      if (text_.substr(at_ + 1, 2) != "\\u") wrong();
      at_ += 2;
      const unsigned low = hex();
      if (low < 0xDC00 || low > 0xDFFF) wrong();
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code == 0) fail("22P05", "unsupported Unicode escape sequence: \\u0000 cannot be converted to text");
    const auto put = [&](unsigned byte) { *out += static_cast<char>(byte); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
    } else {
      put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool key_before(const std::string& a, const std::string& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; }

std::string number_text(std::string_view written) {
  Decimal number;
  if (read_decimal(written, number) != Reading::fine) fail("22003", "value overflows numeric format");
  return digits_of(number);
}

Json read_value(Reader& reader, int level) {
  if (level > levels_max) fail("54001", "JSON nests deeper than " + std::to_string(levels_max) + " levels");
  Json out;
  switch (reader.peek()) {
    case '{': {
      out.kind = Json::Kind::object;
      reader.need('{');
      if (reader.take('}')) return out;
      do {
        if (reader.peek() != '"') reader.wrong();
        std::string key;
        reader.string(&key);
        reader.need(':');
        out.fields.push_back({std::move(key), read_value(reader, level + 1)});
      } while (reader.take(','));
      reader.need('}');
      std::stable_sort(out.fields.begin(), out.fields.end(), [](const auto& a, const auto& b) { return key_before(a.first, b.first); });
      // Of equal keys the last stays.
      std::vector<Json::Field> once;
      for (auto& each : out.fields) {
        if (!once.empty() && once.back().first == each.first) once.back() = std::move(each);
        else once.push_back(std::move(each));
      }
      out.fields = std::move(once);
      return out;
    }
    case '[':
      out.kind = Json::Kind::array;
      reader.need('[');
      if (reader.take(']')) return out;
      do out.items.push_back(read_value(reader, level + 1));
      while (reader.take(','));
      reader.need(']');
      return out;
    case '"':
      out.kind = Json::Kind::string;
      reader.string(&out.text);
      return out;
    case 't':
    case 'f':
      out.kind = Json::Kind::boolean;
      out.truth = reader.peek() == 't';
      reader.literal(out.truth ? "true" : "false");
      return out;
    case 'n': reader.literal("null"); return out;
    default:
      out.kind = Json::Kind::number;
      out.text = number_text(reader.number());
      return out;
  }
}

void write_value(std::string& out, const Json& value) {
  switch (value.kind) {
    case Json::Kind::null: out += "null"; return;
    case Json::Kind::boolean: out += value.truth ? "true" : "false"; return;
    case Json::Kind::number: out += value.text; return;
    case Json::Kind::string: out += json_string(value.text); return;
    case Json::Kind::array:
      out += '[';
      for (std::size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) out += ", ";
        write_value(out, value.items[i]);
      }
      out += ']';
      return;
    case Json::Kind::object:
      out += '{';
      for (std::size_t i = 0; i < value.fields.size(); ++i) {
        if (i > 0) out += ", ";
        out += json_string(value.fields[i].first);
        out += ": ";
        write_value(out, value.fields[i].second);
      }
      out += '}';
      return;
  }
}

int order(std::size_t a, std::size_t b) { return a < b ? -1 : a > b ? 1 : 0; }

int compare_within(const Json& a, const Json& b) {
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  switch (a.kind) {
    case Json::Kind::null: return 0;
    case Json::Kind::boolean: return order(a.truth ? 1 : 0, b.truth ? 1 : 0);
    case Json::Kind::string: {
      const int result = a.text.compare(b.text);
      return result < 0 ? -1 : result > 0 ? 1 : 0;
    }
    case Json::Kind::number: {
      Decimal x, y;
      (void)read_decimal(a.text, x);
      (void)read_decimal(b.text, y);
      return compare(x, y);
    }
    case Json::Kind::array:
      if (const int result = order(a.items.size(), b.items.size()); result != 0) return result;
      for (std::size_t i = 0; i < a.items.size(); ++i) {
        if (const int result = compare_within(a.items[i], b.items[i]); result != 0) return result;
      }
      return 0;
    case Json::Kind::object:
      if (const int result = order(a.fields.size(), b.fields.size()); result != 0) return result;
      for (std::size_t i = 0; i < a.fields.size(); ++i) {
        const int result = a.fields[i].first.compare(b.fields[i].first);
        if (result != 0) return result < 0 ? -1 : 1;
        if (const int inner = compare_within(a.fields[i].second, b.fields[i].second); inner != 0) return inner;
      }
      return 0;
  }
  return 0;
}

bool scalar(const Json& value) { return value.kind != Json::Kind::array && value.kind != Json::Kind::object; }

bool contains(const Json& whole, const Json& part) {
  if (whole.kind != part.kind) return false;
  if (scalar(whole)) return compare_within(whole, part) == 0;
  if (whole.kind == Json::Kind::object) {
    return std::all_of(part.fields.begin(), part.fields.end(), [&](const auto& wanted) {
      const auto fits = [&](const auto& field) { return field.first == wanted.first && contains(field.second, wanted.second); };
      return std::any_of(whole.fields.begin(), whole.fields.end(), fits);
    });
  }
  return std::all_of(part.items.begin(), part.items.end(), [&](const Json& wanted) {
    return std::any_of(whole.items.begin(), whole.items.end(), [&](const Json& item) { return contains(item, wanted); });
  });
}

}  // namespace

Json parse_jsonb(std::string_view text) {
  Reader reader(text);
  Json out = read_value(reader, 0);
  reader.end();
  return out;
}

std::string jsonb_text(const Json& value) {
  std::string out;
  write_value(out, value);
  return out;
}

void check_json(std::string_view text) {
  Reader reader(text);
  reader.skip();
  reader.end();
}

// PostgreSQL holds a scalar as an array of one: it is below an array, but above an empty one, and below any object.
int compare_jsonb(const Json& a, const Json& b) {
  const bool a_scalar = scalar(a), b_scalar = scalar(b);
  if (a_scalar == b_scalar) return compare_within(a, b);
  const Json& other = a_scalar ? b : a;
  const int result = other.kind == Json::Kind::array && other.items.empty() ? 1 : -1;
  return a_scalar ? result : -result;
}

// An array contains a scalar that is one of its elements; nothing else contains what is of another kind.
bool jsonb_contains(const Json& whole, const Json& part) {
  if (whole.kind == Json::Kind::array && scalar(part)) {
    return std::any_of(whole.items.begin(), whole.items.end(), [&](const Json& item) { return compare_within(item, part) == 0; });
  }
  return contains(whole, part);
}

std::optional<std::string_view> json_field(std::string_view json, std::string_view key) {
  Reader reader(json);
  std::optional<std::string_view> found;
  if (!reader.take('{') || reader.take('}')) return found;
  do {
    std::string name;
    reader.peek();
    reader.string(&name);
    reader.need(':');
    reader.peek();
    const std::size_t begin = reader.place();
    reader.skip();
    if (name == key) found = reader.since(begin);
  } while (reader.take(','));
  return found;
}

std::optional<std::string_view> json_element(std::string_view json, std::int64_t place) {
  Reader reader(json);
  std::vector<std::string_view> items;
  if (!reader.take('[') || reader.take(']')) return std::nullopt;
  do {
    reader.peek();
    const std::size_t begin = reader.place();
    reader.skip();
    items.push_back(reader.since(begin));
    if (place >= 0 && items.size() > static_cast<std::size_t>(place)) return items.back();
  } while (reader.take(','));
  const auto count = static_cast<std::int64_t>(items.size());
  if (place >= 0 || place < -count) return std::nullopt;
  return items[static_cast<std::size_t>(count + place)];
}

std::vector<std::string_view> json_elements(std::string_view json) {
  Reader reader(json);
  std::vector<std::string_view> items;
  if (!reader.take('[') || reader.take(']')) return items;
  do {
    reader.peek();
    const std::size_t begin = reader.place();
    reader.skip();
    items.push_back(reader.since(begin));
  } while (reader.take(','));
  return items;
}

std::optional<std::string_view> json_step(std::string_view json, std::string_view step) {
  if (json_kind(json) == Json::Kind::object) return json_field(json, step);
  std::int64_t place = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), place);
  if (error != std::errc() || end != step.data() + step.size()) return std::nullopt;
  return json_element(json, place);
}

std::optional<std::string> json_as_text(std::string_view json) {
  const Json::Kind kind = json_kind(json);
  if (kind == Json::Kind::null) return std::nullopt;
  if (kind != Json::Kind::string) return std::string(trimmed(json));
  Reader reader(json);
  std::string out;
  reader.peek();
  reader.string(&out);
  return out;
}

Json::Kind json_kind(std::string_view json) {
  switch (Reader(json).peek()) {
    case '{': return Json::Kind::object;
    case '[': return Json::Kind::array;
    case '"': return Json::Kind::string;
    case 't':
    case 'f': return Json::Kind::boolean;
    case 'n': return Json::Kind::null;
    default: return Json::Kind::number;
  }
}

}  // namespace termgate::sqlite_server
