// One client and its one server session, as bytes in and bytes out, whatever their protocol: all
// that net/ knows of a session. No socket, no clock, no log. The caller (net/) owns the two
// connections and does what the actions say. One thread at a time.
//
//   client bytes ->  resume(ClientBytes)  -> to_client(), to_server(), take_actions()
//   server bytes ->  resume(ServerBytes)
//
// After each resume: send what the two outboxes hold (the session owns them; remove the bytes with
// sent_to_client() and sent_to_server()), and carry out every action, in order. Backpressure: the
// caller reads from the client only while wants_client(), and from the server only while
// wants_server(). Each is false while the other side's outbox is full, and at other times, for
// example in a TLS handshake. A client's bytes that are given all the same are kept until the
// session ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/conversation/admission.hpp>
#include <termgate/conversation/session_host.hpp>

namespace termgate::conversation {

struct Action {
  enum class Kind : std::uint8_t {
    start_client_tls,  // once to_client() is sent; then resume(ClientTls)
    admit,             // then resume(Admitted); login() identifies the client
    connect_server,    // then resume(ServerConnected) or resume(ServerLost)
    start_server_tls,  // then resume(ServerTls) or ServerLost
    // The server's key is known (server_pid(), server_key()): cancel requests may be admitted.
    registered,
    // This connection is a cancel request: forward it (cancel_pid(), cancel_key()), then close the
    // connection.
    forward_cancel,
    close_server,  // once to_server() is sent
    close_client,  // once to_client() is sent
    // As start_client_tls and start_server_tls, for a TDS handshake inside PRELOGIN packets.
    start_wrapped_client_tls,
    start_wrapped_server_tls,
    // Raise the fence of raise_scope() to raise_term(), on a connection of the proxy's own; then
    // resume(Raised).
    raise,
  };
  Kind kind;
};

// Events. Bytes must be valid only during the call.
struct ClientBytes {
  std::string_view bytes;
};
struct ServerBytes {
  std::string_view bytes;
};
// End of stream, or an error of the client's connection.
struct ClientGone {};
// Connecting failed, or the connection has ended or failed. An empty reason means end of stream.
struct ServerLost {
  std::string_view why;
};
// ClientTls, ServerTls: the TLS handshake with that side is done.
struct ClientTls {};
struct ServerConnected {};
struct ServerTls {};
struct Admitted {
  Admission admission;
};
// A fence was raised, as seen elsewhere in this process. A stale open transaction ends (F4).
struct FenceSeen {
  std::string_view scope;
  std::int64_t fence;
};
// SIGTERM: end as soon as no transaction is open.
struct Drain {};
// End now, with this report (after the drain timeout, or when an operator wants it).
struct Cut {
  std::string_view sqlstate, message;
};
// The time of deadline() has come.
struct Tick {};
struct Raised {
  std::string_view code, message;  // why the raise failed; both empty: it succeeded
};
// A raise waits for the gate of this scope, or for a seat in it: the session gives it back as soon
// as no transaction of the session is open.
struct GateWanted {
  std::string_view scope;
  bool certain = true;  // false: it is not known whether a raise waits
};

class Conversation {
 public:
  Conversation() = default;
  virtual ~Conversation() = default;
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  virtual void resume(const ClientBytes& event, Instant now) = 0;
  virtual void resume(const ServerBytes& event, Instant now) = 0;
  virtual void resume(const ClientGone& event, Instant now) = 0;
  virtual void resume(const ServerLost& event, Instant now) = 0;
  virtual void resume(const ClientTls& event, Instant now) = 0;
  virtual void resume(const ServerConnected& event, Instant now) = 0;
  virtual void resume(const ServerTls& event, Instant now) = 0;
  virtual void resume(const Admitted& event, Instant now) = 0;
  virtual void resume(const FenceSeen& event, Instant now) = 0;
  virtual void resume(const Drain& event, Instant now) = 0;
  virtual void resume(const Cut& event, Instant now) = 0;
  virtual void resume(const Tick& event, Instant now) = 0;
  virtual void resume(const Raised&, Instant) {}
  virtual void resume(const GateWanted&, Instant) {}

  virtual std::string_view to_client() const noexcept = 0;
  virtual std::string_view to_server() const noexcept = 0;
  virtual void sent_to_client(std::size_t bytes) noexcept = 0;
  virtual void sent_to_server(std::size_t bytes) noexcept = 0;

  // The actions since the last call, in order.
  virtual std::vector<Action> take_actions() = 0;

  virtual bool wants_client() const noexcept = 0;
  virtual bool wants_server() const noexcept = 0;

  // When to call resume(Tick) unless something else happens earlier. Any event may change it.
  virtual std::optional<Instant> deadline() const noexcept = 0;

  virtual const LoginRequest& login() const noexcept = 0;
  virtual std::uint32_t server_pid() const noexcept { return {}; }
  virtual std::string_view server_key() const noexcept {
    return {};
  }  // from BackendKeyData, 4 to 256 bytes
  virtual std::uint32_t cancel_pid() const noexcept { return {}; }  // of a cancel request
  virtual std::string_view cancel_key() const noexcept { return {}; }

  // The scope and term of the action `raise`.
  virtual std::string_view raise_scope() const noexcept { return {}; }
  virtual std::int64_t raise_term() const noexcept { return 0; }

  // For `admin`, drain and metrics.
  enum class Phase : std::uint8_t {
    greeting,
    connecting,
    login,
    idle,
    active,
    in_transaction,
    closing
  };
  virtual Phase phase() const noexcept = 0;
  // The size of its buffers.
  virtual std::size_t memory_bytes() const noexcept = 0;
};

}  // namespace termgate::conversation
