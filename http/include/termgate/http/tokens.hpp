// Bearer tokens (RFC 6750): who may do what over HTTP. A file names them, each with a name, which logs and the audit keep, and a level.
// Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace termgate::http {

// Each may do what the one before may.
enum class Level : std::uint8_t {
  read = 1,  // look
  write,     // change data, under the fence
  lead,      // take, renew and release leases
  operate,   // seal, release by force
};
std::string_view word_of(Level level) noexcept;

struct Caller {
  std::string name;
  Level level = Level::read;
};

// A file of tokens that is not taken: which one, which line, what is wrong with it.
class BadTokens : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Tokens {
 public:
  // A line each: NAME LEVEL TOKEN. TOKEN is the token, or sha256: and the 64 hexadecimal digits of its SHA-256, so that the file gives
  // nothing away. Blank lines and those that begin with # count for nothing. Throws BadTokens: no such file, a file that others than its
  // owner may use, a line that is none of these, a token outside 20 to 200 letters of RFC 6750's b64token, one that is there twice, no
  // token at all.
  static Tokens from_file(const std::string& path);
  static Tokens from_text(std::string_view text, std::string_view name);

  // By the value of the header Authorization, as "Bearer TOKEN". How long it takes says nothing of how much of a token was right.
  std::optional<Caller> caller(std::string_view authorization) const;
  // By the token alone, as a WebSocket's first message carries it.
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

// The token of "Bearer TOKEN"; the scheme's letters may be large or small. None: another scheme, or no token.
std::optional<std::string_view> bearer_token(std::string_view authorization) noexcept;

}  // namespace termgate::http
