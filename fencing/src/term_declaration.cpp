// Reads the one line of a term file:
//
//   scope=billing term=7
//
// Words are separated by blanks, each key comes once, values are URL-encoded. Anything else is a
// problem and not a declaration. Electors replace the file by rename, so that half of it is never
// read.
#include <termgate/detail/term_declaration.hpp>

#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

bool blank(char character) { return character == ' ' || character == '\t'; }

std::optional<std::string> url_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      decoded += text[at];
      continue;
    }
    unsigned value = 0;
    if (at + 2 >= text.size()) return std::nullopt;
    const char* end = text.data() + at + 3;
    const auto [stopped, error] = std::from_chars(text.data() + at + 1, end, value, 16);
    if (error != std::errc() || stopped != end) return std::nullopt;
    decoded += static_cast<char>(value);
    at += 2;
  }
  return decoded;
}

}  // namespace

TermDeclaration read_term_declaration(std::string_view text) {
  TermDeclaration declaration;
  const auto refuse = [&](std::string why) {
    declaration.scope.reset();
    declaration.term.reset();
    declaration.problem = std::move(why);
    return declaration;
  };
  // At most one line end, LF or CR LF.
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (text.find_first_of(std::string_view("\n\0", 2)) != std::string_view::npos)
    return refuse("it has more than one line");
  std::size_t at = 0;
  for (;;) {
    while (at < text.size() && blank(text[at])) ++at;
    if (at >= text.size()) break;
    auto end = at;
    while (end < text.size() && !blank(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    at = end;
    const auto equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    if (equals == std::string_view::npos || (key != "scope" && key != "term"))
      return refuse("it is one line, scope=… term=…, and nothing else");
    const auto value = url_decoded(word.substr(equals + 1));
    if (!value) return refuse(fmt::format("its {} is not URL-encoded", key));
    if (key == "scope") {
      if (declaration.scope) return refuse("it has two scopes");
      if (const char* problem = name_problem(*value))
        return refuse(fmt::format("its scope: {}", problem));
      declaration.scope.emplace(*value);
    } else {
      if (declaration.term) return refuse("it has two terms");
      std::int64_t number = 0;
      const auto [stopped, error] =
          std::from_chars(value->data(), value->data() + value->size(), number);
      if (error != std::errc() || stopped != value->data() + value->size() || number < 1 ||
          number > Term::max_value) {
        return refuse(fmt::format("its term is not a whole number from 1 to {}", Term::max_value));
      }
      declaration.term.emplace(number);
    }
  }
  if (!declaration.scope) return refuse("it names no scope");
  if (!declaration.term) return refuse("it names no term");
  return declaration;
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
