// The conversation of a TDS client with its SQL Server. conversation.hpp says how it is driven; README.md tells the whole.
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

// What the operator chose, the same for all sessions of a listener. Must outlive them.
struct Options {
  std::size_t outbox_bytes_max = 256u << 10;  // past this the other side is not read
  std::size_t held_bytes_max = 64u << 10;     // of a message that is looked at before it is sent on; what is longer goes through the gate
  std::size_t waiting_bytes_max = 64u << 10;  // of what a client sends while it waits for an answer

  bool client_tls = false;           // a certificate is there
  bool client_tls_required = false;  // a client in clear text is refused
  // strict: TDS 8.0, whose TLS comes first and not in PRELOGIN. To verify the certificate is the caller's part.
  enum class ServerTls : std::uint8_t { disable, prefer, require, strict } server_tls = ServerTls::prefer;

  std::string server_name;  // that logins name to the server, in place of what the client has called the proxy; empty: as it came

  std::string schema = "termgate";  // of layer 1
  std::string database;             // where layer 1 is: the gate is called by its name in three parts
  std::string install_hint = "termgate init --db sqlserver://…";

  // A session keeps the gate until a raise wants it (GateWanted). One that has not used it for so long, and is in no transaction, gives it
  // back by itself: a proxy whose machine is lost can give nothing back.
  std::chrono::milliseconds gate_idle_max{std::chrono::seconds{10}};
  std::chrono::milliseconds gate_answer_timeout{std::chrono::seconds{60}};  // then both connections are closed

  std::chrono::milliseconds login_timeout{std::chrono::seconds{60}};
  std::chrono::milliseconds idle_timeout{0};  // 0: none
  std::chrono::milliseconds idle_in_transaction_timeout{0};
};

// About this connection.
struct Peer {
  bool local = false;
  bool encrypted_already = false;  // TLS came first, before PRELOGIN: TDS 8.0
  std::string secret;              // unguessable: who knows it can open and close the gate of this session. At most 64 bytes
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
