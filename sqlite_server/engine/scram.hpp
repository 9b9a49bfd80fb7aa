// The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel binding, as PostgreSQL speaks it. One exchange an object; no I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace termgate::sqlite_server {

class Scram {
 public:
  // `verifier` empty: no such user. The exchange then goes on as if there were one, with a salt that is always the same for the name.
  // `nonce`: what nobody can foresee.
  Scram(std::string_view user, std::string_view verifier, std::string nonce);

  // Of SASLInitialResponse: client-first-message. Gives server-first-message; nullopt: malformed.
  std::optional<std::string> first(std::string_view message);
  // client-final-message. Gives server-final-message; nullopt: refused.
  std::optional<std::string> final(std::string_view message);

 private:
  bool known_ = false;
  int iterations_ = 4096;
  std::string salt_;  // base64
  std::string stored_key_, server_key_;
  std::string nonce_;
  std::string gs2_header_;
  std::string client_first_bare_, server_first_;
};

}  // namespace termgate::sqlite_server
