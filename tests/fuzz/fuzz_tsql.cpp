// What classify() takes for a read or a setting has, outside of its quotes and comments, no word
// that begins a write: by a second, simpler reading of the text than the lexer's.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <termgate/tds_session/text.hpp>

using namespace termgate::tds_session;

namespace {

// The text without what is inside of quotes and comments. Where it has none of the marks of either
// it is the text itself.
std::string bare(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\'' || c == '"' || c == '[') {
      const char close = c == '[' ? ']' : c;
      for (++i; i < text.size(); ++i) {
        if (text[i] != close) continue;
        if (i + 1 < text.size() && text[i + 1] == close) ++i;
        else break;
      }
      ++i;
      out += c == '\'' ? " ' " : " \" ";
    } else if (text.substr(i, 2) == "--") {
      while (i < text.size() && text[i] != '\n') ++i;
      out += ' ';
    } else if (text.substr(i, 2) == "/*") {
      int depth = 0;
      do {
        if (text.substr(i, 2) == "/*") ++depth, i += 2;
        else if (text.substr(i, 2) == "*/") --depth, i += 2;
        else ++i;
      } while (depth > 0 && i < text.size());
      out += ' ';
    } else {
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      ++i;
    }
  }
  return out;
}

bool in_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '@' || c == '#' ||
         c == '$';
}

// Wherever it is, glued to a number in front of it too.
bool has_word(std::string_view text, std::string_view word) noexcept {
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const auto end = at + word.size();
    if (end < text.size() && in_word(text[end])) continue;
    std::size_t begin = at;
    while (begin > 0 && in_word(text[begin - 1])) --begin;
    const bool number =
        begin < at && text[begin] >= '0' && text[begin] <= '9' && text.substr(begin, 2) != "0x";
    if (begin == at || number) return true;
  }
  return false;
}

constexpr std::array writes{"insert",   "update",  "delete",    "merge",      "truncate", "create",
                            "alter",    "drop",    "grant",     "revoke",     "bulk",     "into",
                            "exec",     "execute", "openquery", "openrowset", "updlock",  "xlock",
                            "tablockx", "receive", "kill",      "dbcc",       "backup"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto kind = classify(text, "termgate").kind;
  if (kind != TextVerdict::Kind::reads && kind != TextVerdict::Kind::settings) return 0;
  const std::string plain = bare(text);
  for (const char* word : writes) {
    if (kind == TextVerdict::Kind::settings && std::string_view(word).starts_with("exec"))
      continue;  // of the server's procedures
    if (has_word(plain, word)) std::abort();
  }
  return 0;
}
