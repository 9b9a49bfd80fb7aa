// Bearer tokens (RFC 6750): who may do what over HTTP. A file lists them, each with a level and a
// name, which logs and the audit record. Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace termgate::http {

// Each level includes the ones above it.
enum class Level : std::uint8_t {
  read = 1,  // read only
  write,     // change data, under the fence
  lead,      // take, renew and release leases
  operate,   // seal, release by force
};
std::string_view word_of(Level level) noexcept;

struct Caller {
  std::string name;
  Level level = Level::read;
};

// The file of tokens was refused. The message says which file, which line, and what is wrong with
// it.
class BadTokens : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Tokens {
 public:
  // One token a line: NAME LEVEL TOKEN. TOKEN is the token, or sha256: and the 64 hexadecimal
  // digits of its SHA-256, so that the file does not give it away. Blank lines and lines that begin
  // with # are skipped. Throws BadTokens if there is no such file, others than its owner may access
  // it, a line is malformed, a token is not 20 to 200 characters of RFC 6750's b64token, a token
  // appears twice, or there is no token at all.
  static Tokens from_file(const std::string& path);
  // The same for the text of a file; `name` is for the messages.
  static Tokens from_text(std::string_view text, std::string_view name);

  // Looks up the value of an Authorization header, "Bearer TOKEN". The time it takes does not show
  // how much of a token was right.
  std::optional<Caller> caller(std::string_view authorization) const;
  // Looks up the token alone, as a WebSocket's first message carries it.
  std::optional<Caller> caller_of_token(std::string_view token) const;

  bool empty() const noexcept { return tokens_.empty(); }

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Token {
    Caller caller;
    Digest digest;
  };
  std::vector<Token> tokens_;
};

// The token in "Bearer TOKEN"; the scheme may be in upper or lower case. nullopt: another scheme,
// or no token.
std::optional<std::string_view> bearer_token(std::string_view authorization) noexcept;

}  // namespace termgate::http
