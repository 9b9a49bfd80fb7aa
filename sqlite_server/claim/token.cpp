#include "claim/token.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <termgate/scope.hpp>
#include <termgate/text/ascii.hpp>

#include "claim/letters.hpp"

namespace termgate::claim {
namespace {

constexpr std::string_view prefix = "tg.";

bool is_plain(std::string_view scope) {
  return !scope.empty() && std::all_of(scope.begin(), scope.end(), [](char c) {
    return text::is_letter_or_digit(c) || c == '_' || c == '-';
  });
}

// Removes the part up to the next dot from `rest` and returns it. nullopt: there is no dot.
std::optional<std::string_view> part_of(std::string_view& rest) {
  const auto point = rest.find('.');
  if (point == std::string_view::npos) return std::nullopt;
  const auto part = rest.substr(0, point);
  rest.remove_prefix(point + 1);
  return part;
}

std::optional<std::string> scope_of(std::string_view part) {
  if (is_plain(part)) return std::string(part);
  return part.starts_with('~') ? from_base64url(part.substr(1)) : std::nullopt;
}

}  // namespace

std::optional<CarriedClaim> read_token(std::string_view token) {
  if (!token.starts_with(prefix)) return std::nullopt;
  CarriedClaim read;
  std::string_view rest = token.substr(prefix.size());
  const auto term = part_of(rest), scope = part_of(rest);
  if (!term || !scope) {
    read.problem =
        "a token that begins with tg. is tg.TERM.SCOPE.SECRET, with three points at least";
    return read;
  }
  read.secret = rest;
  const auto number = read_term(*term);
  const auto name = scope_of(*scope);
  if (!number)
    read.problem =
        "the term in a token tg.TERM.SCOPE.SECRET is 1 to 2^62 in decimal, without a leading zero";
  else if (!name)
    read.problem =
        "the scope in a token tg.TERM.SCOPE.SECRET has letters A-Z a-z 0-9 _ - only, or is ~ and "
        "base64url";
  else if (const char* problem = name_problem(*name))
    read.problem = fmt::format("the scope in a token tg.TERM.SCOPE.SECRET: {}", problem);
  if (read.problem.empty()) read.claim = {*name, *number};
  return read;
}

std::string token_of(const hrana::Claim& claim, std::string_view secret) {
  const std::string scope = is_plain(claim.scope) ? claim.scope : "~" + to_base64url(claim.scope);
  return fmt::format("{}{}.{}.{}", prefix, claim.term, scope, secret);
}

std::string shown(std::string_view token) {
  const auto carried = read_token(token);
  return carried && carried->problem.empty() ? token_of(carried->claim, "…") : "…";
}

}  // namespace termgate::claim
