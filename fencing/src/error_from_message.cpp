// Turns the text of a refusal into its exception. Every driver passes on the text, while SQLSTATEs
// and native numbers differ by database.
#include <termgate/detail/error_from_message.hpp>

#include <charconv>
#include <cstdint>
#include <string>

#include <termgate/error.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

// The integer that starts at text[at], or 0.
std::int64_t number_at(std::string_view text, std::size_t at) {
  std::int64_t value = 0;
  if (at < text.size()) std::from_chars(text.data() + at, text.data() + text.size(), value);
  return value;
}

// "TG001 stale term 3 for scope "billing": the fence stands at 5". The scope may hold quotes of its
// own, so its end is searched for from the end of the text.
[[noreturn]] void throw_stale(const std::string& message) {
  constexpr std::string_view before_term = "stale term ";
  constexpr std::string_view before_scope = " for scope \"";
  constexpr std::string_view before_fence = "\": the fence stands at ";
  std::string scope;
  std::int64_t term = 0;
  std::int64_t fence = 0;
  const auto term_at = message.find(before_term);
  const auto scope_at = message.find(before_scope);
  const auto fence_at = message.rfind(before_fence);
  if (term_at != std::string::npos && scope_at != std::string::npos &&
      fence_at != std::string::npos && scope_at + before_scope.size() <= fence_at) {
    term = number_at(message, term_at + before_term.size());
    fence = number_at(message, fence_at + before_fence.size());
    scope =
        message.substr(scope_at + before_scope.size(), fence_at - scope_at - before_scope.size());
  }
  throw StaleTerm(message, std::move(scope), term, fence);
}

constexpr int numbers_begin = 50000;
constexpr char last_code = '7';

}  // namespace

std::string tg_code_of(std::int64_t number) {
  std::string code = "TG00";
  if (number <= numbers_begin || number > numbers_begin + (last_code - '0')) return {};
  return code += static_cast<char>('0' + (number - numbers_begin));
}

std::uint32_t number_of_tg(std::string_view code) noexcept {
  if (code.size() != 5 || !code.starts_with("TG00") || code[4] < '1' || code[4] > last_code)
    return 0;
  return numbers_begin + static_cast<std::uint32_t>(code[4] - '0');
}

void throw_if_tg(std::string_view message) {
  const auto at = message.find("TG00");
  if (at == std::string_view::npos || at + 5 >= message.size() || message[at + 5] != ' ') return;
  // Only a driver's own short prefix may precede the code: a code inside a user's message does not
  // count.
  const std::string_view prefix = message.substr(0, at);
  if (!(prefix.empty() || prefix == "ERROR:  " || prefix == "FATAL:  ")) return;
  std::string text(message.substr(at));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  switch (text[4]) {
    case '1': throw_stale(text);
    case '2': throw TermRequired(text);
    case '3': throw SequenceConflict(text);
    case '4': throw FenceUntrusted(text);
    case '5': throw InvalidInput(text);
    case '6': throw Blocked(text);
    case '7': throw LeaseLost(text, "TG007");
    default: return;
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
