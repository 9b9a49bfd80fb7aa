// The login, from the client's PRELOGIN to the server's answer that admits it. Owner: one session;
// its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <termgate/tds/login.hpp>
#include <termgate/tds/token.hpp>

#include "channel.hpp"
#include "claims.hpp"
#include "verdict.hpp"

namespace termgate::tds_session {

class Login {
 public:
  Login(Channel& channel, Claims& claims)
      : channel_(channel), claims_(claims), encrypted_(channel.peer.encrypted_already) {}

  // --- the client ---
  // `more_came`: more bytes of the client have arrived after this message.
  void on_client_message(const Message& message, bool more_came);
  void client_has_tls() noexcept { encrypted_ = true; }
  const conversation::LoginRequest& request() const noexcept { return request_; }
  void on_admitted(const conversation::Admission& admission);

  // --- the server ---
  void send_prelogin();
  void take_server_prelogin(std::string_view bytes, bool ends);
  void send_login();
  void on_token(const tds::TokenEvent& event);
  // The server's message has ended. True: the server admits the client, and pass_answer_on() passes
  // its answer on. False: the client has been sent an answer or an error already.
  [[nodiscard]] bool lets_in();
  void pass_answer_on();

  std::size_t memory_bytes() const noexcept { return login7_.capacity() + answer_.capacity(); }

 private:
  // What the login itself would write.
  enum class Writes : std::uint8_t { nothing, attached_file, password };
  enum class Outcome : std::uint8_t { open, accepted, refused };

  void on_client_prelogin(std::string_view payload, bool more_came);
  void on_client_login(std::string_view payload);
  bool speaks_known_version(const tds::Login7& login);
  void on_server_prelogin();
  void on_environment_change(const tds::EnvironmentChange& change);
  void append_answer(const tds::TokenEvent& event);
  void refuse(std::string_view code, std::string_view message);
  void end(std::string_view message);
  void malformed_peer(std::string_view who, std::string_view why) {
    channel_.malformed_peer(who, why, false);
  }

  Channel& channel_;
  Claims& claims_;
  conversation::LoginRequest request_;
  Writes writes_ = Writes::nothing;
  Outcome outcome_ = Outcome::open;
  // The client's connection uses TLS.
  bool encrypted_;
  // The client uses TDS 8.0, which is the same as 7.4 after the login.
  bool speaks_8_0_ = false;
  // NTLM or Kerberos: the messages pass unchanged.
  bool integrated_ = false;
  std::string server_prelogin_;
  // The login message for the server.
  std::string login7_;
  // Tokens for the client, and the offset after the last error among them.
  std::string answer_;
  std::size_t behind_errors_ = 0;
  // Where the server redirects its clients to. Empty: nowhere.
  std::string routed_to_;
};

}  // namespace termgate::tds_session
