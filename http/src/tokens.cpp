#include <termgate/http/tokens.hpp>
#include <termgate/text/ascii.hpp>
#include <termgate/text/hex.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "frames.hpp"

namespace termgate::http {
namespace {

constexpr std::size_t secret_letters_min = 20;
constexpr std::size_t secret_letters_max = 200;
constexpr std::size_t name_bytes_max = 100;
constexpr std::string_view hash_prefix = "sha256:";

using Digest = std::array<unsigned char, 32>;

// RFC 6750's b64token.
bool is_token(std::string_view text) {
  return text.size() >= secret_letters_min && text.size() <= secret_letters_max &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return text::is_letter_or_digit(c) ||
                  std::string_view("-._~+/=").find(c) != std::string_view::npos;
         });
}

Digest digest_of(std::string_view secret) {
  Digest digest{};
  EVP_Digest(secret.data(), secret.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  return digest;
}

std::optional<Digest> digest_in(std::string_view text) {
  Digest digest{};
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const int high = text::hex_value(text[2 * i]), low = text::hex_value(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return digest;
}

std::optional<Level> level_of(std::string_view word) {
  for (const Level level : {Level::read, Level::write, Level::lead, Level::operate}) {
    if (word == word_of(level)) return level;
  }
  return std::nullopt;
}

}  // namespace

std::string_view word_of(Level level) noexcept {
  switch (level) {
    case Level::read: return "read";
    case Level::write: return "write";
    case Level::lead: return "lead";
    case Level::operate: break;
  }
  return "operate";
}

Tokens Tokens::from_file(const std::string& path) {
  std::ifstream file(path);
  struct stat info {};
  if (!file || stat(path.c_str(), &info) != 0)
    throw BadTokens(fmt::format("the file of tokens {} cannot be read", path));
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw BadTokens(
        fmt::format("the file of tokens {}: others than its owner may use it; chmod 600", path));
  std::ostringstream text;
  text << file.rdbuf();
  return from_text(text.str(), path);
}

Tokens Tokens::from_text(std::string_view text, std::string_view name) {
  Tokens tokens;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    std::string who, level_word, secret, more;
    if (!(words >> who) || who.starts_with('#')) continue;
    words >> level_word >> secret >> more;
    const auto wrong = [&](std::string_view what) {
      throw BadTokens(fmt::format("the file of tokens {}, line {}: {}", name, number, what));
    };
    const auto level = level_of(level_word);
    if (!level || secret.empty() || !more.empty())
      wrong("NAME LEVEL TOKEN is wanted, with a level of read, write, lead or operate");
    if (!is_utf8_text(who) || who.size() > name_bytes_max)
      wrong("a name has 1 to 100 bytes of text");
    Digest digest{};
    if (secret.starts_with(hash_prefix)) {
      const auto given = digest_in(std::string_view(secret).substr(hash_prefix.size()));
      if (!given) wrong("sha256: is followed by 64 hexadecimal digits");
      digest = *given;
    } else {
      if (!is_token(secret))
        wrong(
            "a token has 20 to 200 letters, digits or -._~+/= (head -c 32 /dev/urandom | base64)");
      digest = digest_of(secret);
    }
    if (std::any_of(tokens.tokens_.begin(), tokens.tokens_.end(),
                    [&](const Token& other) { return other.digest == digest; }))
      wrong("this token stands in an earlier line too");
    tokens.tokens_.push_back({{who, *level}, digest});
  }
  if (tokens.empty())
    throw BadTokens(fmt::format("the file of tokens {}: there is no token in it", name));
  return tokens;
}

std::optional<std::string_view> bearer_token(std::string_view authorization) noexcept {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() <= scheme.size() || !text::begins(authorization, scheme))
    return std::nullopt;
  return authorization.substr(scheme.size());
}

std::optional<Caller> Tokens::caller(std::string_view authorization) const {
  const auto token = bearer_token(authorization);
  return token ? caller_of_token(*token) : std::nullopt;
}

// Compares digests, and always all of them, so the time does not show how much of a token was
// right.
std::optional<Caller> Tokens::caller_of_token(std::string_view token) const {
  if (!is_token(token)) return std::nullopt;
  const Digest digest = digest_of(token);
  const Token* found = nullptr;
  for (const Token& one : tokens_) {
    if (CRYPTO_memcmp(one.digest.data(), digest.data(), digest.size()) == 0) found = &one;
  }
  return found == nullptr ? std::nullopt : std::optional(found->caller);
}

}  // namespace termgate::http
