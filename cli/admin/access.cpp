#include "access.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "command.hpp"
#include "output.hpp"

namespace termgate::cli::admin {
namespace {

constexpr std::size_t secret_letters_min = 20;
constexpr std::size_t secret_letters_max = 200;

// RFC 6750's b64token.
bool is_token(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._~+/=").find(c) != std::string_view::npos;
  });
}

// Looks at as many letters whatever they are.
bool same(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0 : 1;
  for (std::size_t at = 0; at < secret_letters_max; ++at) {
    const unsigned left = at < given.size() ? static_cast<unsigned char>(given[at]) : 0,
                   right = at < secret.size() ? static_cast<unsigned char>(secret[at]) : 0;
    difference |= left ^ right;
  }
  return difference == 0;
}

std::optional<Level> level_of(std::string_view word) {
  if (word == "read") return Level::read;
  if (word == "lead") return Level::lead;
  if (word == "operate") return Level::operate;
  return std::nullopt;
}

}  // namespace

Access Access::from_file(const std::string& path) {
  std::ifstream file(path);
  struct stat info {};
  if (!file || stat(path.c_str(), &info) != 0) throw UsageError(fmt::format("--tokens {}: it cannot be read", path));
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw UsageError(fmt::format("--tokens {}: others than its owner may use it; chmod 600", path));
  std::ostringstream text;
  text << file.rdbuf();
  return from_text(text.str(), path);
}

Access Access::from_text(std::string_view text, std::string_view name) {
  Access access;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    std::string who, level_word, secret, more;
    if (!(words >> who) || who.starts_with('#')) continue;
    words >> level_word >> secret >> more;
    const auto level = level_of(level_word);
    const auto wrong = [&](std::string_view what) { throw UsageError(fmt::format("--tokens {}, line {}: {}", name, number, what)); };
    if (!level || secret.empty() || !more.empty()) wrong("NAME LEVEL TOKEN is wanted, with a level of read, lead or operate");
    if (!is_utf8(who) || who.size() > 100) wrong("a name has 1 to 100 bytes of text");
    if (secret.size() < secret_letters_min || secret.size() > secret_letters_max || !is_token(secret))
      wrong("a token has 20 to 200 letters, digits or -._~+/= (head -c 32 /dev/urandom | base64)");
    for (const Token& other : access.tokens_) {
      if (other.secret == secret) wrong("this token stands in an earlier line too");
    }
    access.tokens_.push_back({{who, *level}, secret});
  }
  if (access.tokens_.empty()) throw UsageError(fmt::format("--tokens {}: there is no token in it", name));
  return access;
}

std::optional<Caller> Access::caller(std::string_view authorization) const {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() < scheme.size()) return std::nullopt;
  for (std::size_t at = 0; at < scheme.size(); ++at) {
    const char c = authorization[at];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != scheme[at]) return std::nullopt;
  }
  const std::string_view given = authorization.substr(scheme.size());
  std::optional<Caller> found;
  for (const Token& token : tokens_) {
    if (same(given, token.secret)) found = token.caller;
  }
  return found;
}

}  // namespace termgate::cli::admin
