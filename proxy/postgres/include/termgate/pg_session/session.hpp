// The session of one PostgreSQL client and its server connection (docs/decisions/0006).
// conversation.hpp describes how a caller drives it.
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
#include <termgate/pg_session/host.hpp>

namespace termgate::pg_session {

// What the operator chose, the same for all sessions of a listener. Must outlive them.
struct Options {
  pgwire::Limits limits;
  // Must be built again after a change of `limits`.
  pgwire::Rules client_rules = pgwire::Rules::frontend(limits);
  // While an outbox holds this much or more, the session wants nothing from the other side.
  std::size_t outbox_bytes_max = 256u << 10;
  // How much of an unfinished pipeline is held back until it is known whether it writes.
  std::size_t held_bytes_max = 64u << 10;
  // How long it is held back after the client's last message.
  std::chrono::milliseconds held_quiet_max{100};

  // The proxy has a certificate: it answers SSLRequest with S.
  bool client_tls = false;
  // A start-up message in clear text is refused, unless the client is local.
  bool client_tls_required = false;
  // The caller verifies the server's certificate (verify-ca, verify-full).
  enum class ServerTls : std::uint8_t { disable, prefer, require } server_tls = ServerTls::prefer;
  // A Unix socket, which is used without TLS.
  bool server_is_local = false;

  // The schema of layer 1.
  std::string schema = "termgate";
  // Whether the guard inside the server (docs/use/guard.md) checks the writes of the sessions that
  // it can guard (Claims::may_be_server_guarded): never; if the last login of the same user to the
  // same database has found it; or always, so that a login without it is refused.
  enum class ServerGuard : std::uint8_t {
    off,
    when_there,
    required
  } server_guard = ServerGuard::off;
  // A pooler in session mode is between the proxy and the server. A pooler that is not announced
  // here is refused, except on replication connections.
  bool server_pooler = false;
  // Lets clients that are not local use a server that requires no credential.
  bool trust_backend = false;

  // From the beginning of the session to the client's first ReadyForQuery.
  std::chrono::milliseconds login_timeout{std::chrono::seconds{60}};
  std::chrono::milliseconds idle_timeout{0};  // 0: no limit
  std::chrono::milliseconds idle_in_transaction_timeout{0};
};

// What the listener knows of this connection.
struct Peer {
  bool local = false;              // loopback or Unix socket
  bool encrypted_already = false;  // direct TLS: the handshake is done
  // Handed to the client in place of the server's own key; must be unguessable. 32 bytes; if the
  // server's key has only 4 (protocol 3.0), the client gets the first 4.
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

}  // namespace termgate::pg_session
