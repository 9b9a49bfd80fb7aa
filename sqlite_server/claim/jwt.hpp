// Signed tokens: JSON Web Tokens (RFC 7519) with Ed25519 signatures (RFC 8037), and no other
// algorithm.
//
// These claims count: exp and nbf (whole seconds since 1970; 30 s of grace), a ("ro": level read,
// "rw" or absent: level write), sub (the caller's name), and termgate: {"scope": S, "term": "5"},
// or the scope alone. `p` and `id` name namespaces, which this server does not have: such a token
// is refused, because it would grant more here than its signer meant. Other claims are ignored.
// Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace termgate::claim {

inline constexpr std::size_t jwt_bytes_max = 8192;
inline constexpr std::int64_t jwt_grace_seconds = 30;

class JwtKey {
 public:
  // A PEM block PUBLIC KEY with an Ed25519 key, or 32 bytes in base64url. Throws
  // std::invalid_argument, which says what is wrong.
  static JwtKey parse(std::string_view text);
  // Throws std::invalid_argument; its message begins with the path.
  static JwtKey from_file(const std::string& path);

  bool signed_by(std::string_view message, std::string_view signature) const;

 private:
  std::array<unsigned char, 32> bytes_{};
};

struct SignedToken {
  std::string subject;  // "jwt" if the token has no sub
  bool read_only = false;
  std::optional<std::int64_t> expires;  // seconds since 1970, without the grace
  // From the claim `termgate`; a term comes with a scope.
  std::optional<std::string> scope;
  std::optional<std::int64_t> term;
};

// Why a token is refused. It contains no part of the token that is not known to be signed.
struct JwtRefused {
  enum class Why : std::uint8_t { malformed, not_signed, expired, not_yet, unusable, bad_claim };
  Why why = Why::malformed;
  std::string message;
};

// Whether it looks like a JWT: three parts, the first of which begins like an encoded `{"`.
bool is_jwt(std::string_view token);

// `now`: seconds since 1970. The token's claims count only once one of `keys` has verified its
// signature.
std::optional<SignedToken> read_jwt(std::string_view token, const std::vector<JwtKey>& keys,
                                    std::int64_t now, JwtRefused& refused);

}  // namespace termgate::claim
