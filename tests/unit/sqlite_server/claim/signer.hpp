// Makes signed tokens for tests, with the key pair of RFC 8037, appendix A.
#pragma once

#include <openssl/evp.h>

#include <string>
#include <string_view>

#include "claim/jwt.hpp"
#include "claim/letters.hpp"

namespace claim_test {

inline constexpr std::string_view private_key = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A";
inline constexpr std::string_view public_key = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

inline std::string signed_token(std::string_view payload,
                                std::string_view header = R"({"alg":"EdDSA","typ":"JWT"})") {
  using termgate::claim::from_base64url;
  using termgate::claim::to_base64url;
  const std::string message = to_base64url(header) + "." + to_base64url(payload),
                    secret = from_base64url(private_key).value();
  const auto bytes = [](const std::string& text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  EVP_PKEY* key =
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes(secret), secret.size());
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  unsigned char signature[64];
  std::size_t length = sizeof signature;
  EVP_DigestSignInit(context, nullptr, nullptr, nullptr, key);
  EVP_DigestSign(context, signature, &length, bytes(message), message.size());
  EVP_MD_CTX_free(context);
  EVP_PKEY_free(key);
  return message + "." + to_base64url({reinterpret_cast<const char*>(signature), length});
}

}  // namespace claim_test
