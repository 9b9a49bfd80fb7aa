// The conversation of a PostgreSQL client with its server (docs/decisions/0006): conversation.hpp says how it is driven.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/pgwire/reader.hpp>
#include <termgate/session/host.hpp>

namespace termgate::session {

// What the operator chose, the same for all sessions of a listener. Must outlive them.
struct Options {
  pgwire::Limits limits;
  pgwire::Rules client_rules = pgwire::Rules::frontend(limits);  // to be made anew where the limits are changed
  std::size_t outbox_bytes_max = 256u << 10;                     // past this the other side is not read
  std::size_t held_bytes_max = 64u << 10;                        // of a client's unfinished pipeline that is looked at before it is sent on
  std::chrono::milliseconds held_quiet_max{100};                 // … and for how long after the client's last message

  bool client_tls = false;           // a certificate is there: SSLRequest is answered S
  bool client_tls_required = false;  // a start-up in clear text is refused
  enum class ServerTls : std::uint8_t { disable, prefer, require } server_tls = ServerTls::prefer;  // verify-* is the caller's
  bool server_is_local = false;                                                                     // a Unix socket: without TLS

  std::string schema = "termgate";  // of layer 1
  // Whether the guard inside the server (docs/use/guard.md) does the work where it is installed: not at all, where a login finds it, or
  // else the login is refused.
  enum class ServerGuard : std::uint8_t { off, when_there, required } server_guard = ServerGuard::off;
  // A pooler in session mode is between the proxy and the server; one that is not announced is refused.
  bool server_pooler = false;
  // A server that lets in without asking for a credential is refused to a client that is not local, unless this says otherwise.
  bool trust_backend = false;

  std::chrono::milliseconds login_timeout{std::chrono::seconds{60}};  // from the first byte wanted to the first ReadyForQuery
  std::chrono::milliseconds idle_timeout{0};                          // 0: none
  std::chrono::milliseconds idle_in_transaction_timeout{0};
};

// About this connection.
struct Peer {
  bool local = false;              // loopback or Unix socket
  bool encrypted_already = false;  // direct TLS: the handshake is done
  // Handed to the client in place of the server's own key; must be unguessable. 32 bytes; a 3.0 client gets the first 4.
  std::string cancel_key;
};

class Session final : public Conversation {
 public:
  Session(const Options& options, Peer peer, SessionHost& session_host, Instant now);
  ~Session() override;

  using Conversation::resume;

  void resume(const ClientBytes& event, Instant now) override;
  void resume(const ServerBytes& event, Instant now) override;
  void resume(const ClientGone& event, Instant now) override;
  void resume(const ServerLost& event, Instant now) override;
  void resume(const ClientTls& event, Instant now) override;
  void resume(const ServerConnected& event, Instant now) override;
  void resume(const ServerTls& event, Instant now) override;
  void resume(const Admitted& event, Instant now) override;
  void resume(const FenceSeen& event, Instant now) override;
  void resume(const Drain& event, Instant now) override;
  void resume(const Cut& event, Instant now) override;
  void resume(const Tick& event, Instant now) override;
  void resume(const GateWanted& event, Instant now) override;
  std::string_view to_client() const noexcept override;
  std::string_view to_server() const noexcept override;
  void sent_to_client(std::size_t bytes) noexcept override;
  void sent_to_server(std::size_t bytes) noexcept override;
  std::vector<Action> take_actions() override;
  bool wants_client() const noexcept override;
  bool wants_server() const noexcept override;
  std::optional<Instant> deadline() const noexcept override;
  const LoginRequest& login() const noexcept override;
  std::uint32_t server_pid() const noexcept override;
  std::string_view server_key() const noexcept override;
  std::uint32_t cancel_pid() const noexcept override;
  std::string_view cancel_key() const noexcept override;
  Phase phase() const noexcept override;
  std::size_t memory_bytes() const noexcept override;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace termgate::session
