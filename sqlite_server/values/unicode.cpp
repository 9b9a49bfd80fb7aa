#include "values/unicode.hpp"

#include <clocale>
#include <cwctype>

#include <algorithm>

#include "functions/functions.hpp"

namespace termgate::sqlite_server {
namespace {

locale_t letters() {
  static const locale_t made = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (made == locale_t{}) fail("0A000", "letters beyond ASCII need the locale C.UTF-8, which this system does not have");
  return made;
}

}  // namespace

bool is_ascii(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

std::wstring wide(std::string_view text) {
  std::wstring out;
  out.reserve(text.size());
  for (const std::string_view each : characters(text)) {
    auto code = static_cast<wchar_t>(static_cast<unsigned char>(each[0]));
    if (each.size() > 1) {
      code &= each.size() == 2 ? 0x1F : each.size() == 3 ? 0x0F : 0x07;
      for (const char c : each.substr(1)) code = code << 6 | (c & 0x3F);
    }
    out += code;
  }
  return out;
}

std::string narrow(std::wstring_view text) {
  std::string out;
  out.reserve(text.size());
  const auto put = [&](unsigned byte) { out += static_cast<char>(byte); };
  for (const wchar_t each : text) {
    const auto code = static_cast<unsigned>(each);
    if (code < 0x80) put(code);
    else if (code < 0x800) put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
    else if (code < 0x10000) put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
    else put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  }
  return out;
}

std::string upper_text(std::string_view text) {
  std::string out(text);
  if (is_ascii(text)) {
    for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    return out;
  }
  std::wstring all = wide(text);
  for (wchar_t& c : all) c = static_cast<wchar_t>(towupper_l(static_cast<wint_t>(c), letters()));
  return narrow(all);
}

std::string lower_text(std::string_view text) {
  std::string out(text);
  if (is_ascii(text)) {
    for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return out;
  }
  std::wstring all = wide(text);
  for (wchar_t& c : all) c = static_cast<wchar_t>(towlower_l(static_cast<wint_t>(c), letters()));
  return narrow(all);
}

std::string initcap_text(std::string_view text) {
  std::wstring all = wide(text);
  bool within = false;
  for (wchar_t& c : all) {
    const auto code = static_cast<wint_t>(c);
    c = static_cast<wchar_t>(within ? towlower_l(code, letters()) : towupper_l(code, letters()));
    within = iswalnum_l(code, letters()) != 0;
  }
  return narrow(all);
}

}  // namespace termgate::sqlite_server
