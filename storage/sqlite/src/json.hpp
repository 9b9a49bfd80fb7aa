// Json builds an object or an array as text, in one pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace termgate {
inline namespace v0 {
namespace sqlite {

// An object or array under construction; keys come in pairs with values.
class Json {
 public:
  explicit Json(char open) : text_(1, open) {}
  Json& key(std::string_view name) {
    separate();
    quote(name);
    text_ += ':';
    fresh_ = true;
    return *this;
  }
  Json& value(std::string_view text) {
    separate();
    quote(text);
    return *this;
  }
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(std::int64_t number) { return raw(std::to_string(number)); }
  Json& value(bool truth) { return raw(truth ? "true" : "false"); }
  template <class T>
  Json& value(const std::optional<T>& held) {
    return held ? value(*held) : raw("null");
  }
  Json& raw(std::string_view text) {
    separate();
    text_ += text;
    return *this;
  }
  // The text between the brackets.
  std::string members() const { return text_.substr(1); }
  std::string close() { return text_ + (text_[0] == '{' ? '}' : ']'); }

 private:
  void separate() {
    if (!fresh_) text_ += ',';
    fresh_ = false;
  }
  void quote(std::string_view text) {
    text_ += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        text_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }
  std::string text_;
  bool fresh_ = true;
};

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
