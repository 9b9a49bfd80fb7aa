// The session of one TDS client and its SQL Server connection. conversation.hpp describes how a
// caller drives it; README.md has an overview.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/conversation/conversation.hpp>

namespace termgate::tds_session {

using conversation::Instant;

// What the operator chose. Must outlive the sessions that use it.
struct Options {
  // While an outbox holds more than this, the session reads nothing from the other side.
  std::size_t outbox_bytes_max = 256u << 10;
  // How much of a message is gathered and judged before it is sent on. A longer message goes
  // through the gate.
  std::size_t held_bytes_max = 64u << 10;
  // How much a client may send while it waits for an answer.
  std::size_t waiting_bytes_max = 64u << 10;

  // The proxy has a certificate.
  bool client_tls = false;
  // A client without TLS is refused.
  bool client_tls_required = false;
  // strict: TDS 8.0, whose TLS starts before PRELOGIN. The caller verifies the certificate.
  enum class ServerTls : std::uint8_t {
    disable,
    prefer,
    require,
    strict
  } server_tls = ServerTls::prefer;

  // The server name that logins carry, in place of the one that the client used for the proxy.
  // Empty: unchanged.
  std::string server_name;

  // The schema of layer 1.
  std::string schema = "termgate";
  // The database of layer 1: calls of the gate use its three-part name.
  std::string database;
  std::string install_hint = "termgate init --db sqlserver://…";

  // A session keeps the gate until a raise wants it (GateWanted), or until it has not used the gate
  // for this long and is in no transaction. The limit is for a proxy whose machine is lost later:
  // it could not give the gate back.
  std::chrono::milliseconds gate_idle_max{std::chrono::seconds{10}};
  // If a call of the gate has no answer after this time, both connections are closed.
  std::chrono::milliseconds gate_answer_timeout{std::chrono::seconds{60}};

  std::chrono::milliseconds login_timeout{std::chrono::seconds{60}};
  std::chrono::milliseconds idle_timeout{0};  // 0: no limit
  std::chrono::milliseconds idle_in_transaction_timeout{0};
};

// What the listener knows of this connection.
struct Peer {
  bool local = false;
  // TLS started before PRELOGIN: TDS 8.0.
  bool encrypted_already = false;
  // At most 64 bytes. Must be unguessable: whoever knows it can open and close this session's gate.
  std::string secret;
};

class TdsSession final : public conversation::Conversation {
 public:
  TdsSession(const Options& options, Peer peer, conversation::SessionHost& host, Instant now);
  ~TdsSession() override;

  void resume(const conversation::ClientBytes& event, Instant now) override;
  void resume(const conversation::ServerBytes& event, Instant now) override;
  void resume(const conversation::ClientGone& event, Instant now) override;
  void resume(const conversation::ServerLost& event, Instant now) override;
  void resume(const conversation::ClientTls& event, Instant now) override;
  void resume(const conversation::ServerConnected& event, Instant now) override;
  void resume(const conversation::ServerTls& event, Instant now) override;
  void resume(const conversation::Admitted& event, Instant now) override;
  void resume(const conversation::FenceSeen& event, Instant now) override;
  void resume(const conversation::Drain& event, Instant now) override;
  void resume(const conversation::Cut& event, Instant now) override;
  void resume(const conversation::Tick& event, Instant now) override;
  void resume(const conversation::Raised& event, Instant now) override;
  void resume(const conversation::GateWanted& event, Instant now) override;

  std::string_view to_client() const noexcept override;
  std::string_view to_server() const noexcept override;
  void sent_to_client(std::size_t bytes) noexcept override;
  void sent_to_server(std::size_t bytes) noexcept override;
  std::vector<conversation::Action> take_actions() override;
  bool wants_client() const noexcept override;
  bool wants_server() const noexcept override;
  std::optional<Instant> deadline() const noexcept override;
  const conversation::LoginRequest& login() const noexcept override;
  std::string_view raise_scope() const noexcept override;
  std::int64_t raise_term() const noexcept override;
  Phase phase() const noexcept override;
  std::size_t memory_bytes() const noexcept override;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace termgate::tds_session
