// One client and its one server session, as bytes in and bytes out, whatever protocol they speak: what net/ knows of a session. No
// socket, no clock, no log. The caller (net/) owns the two connections and does what the actions say. One thread at a time.
//
//   client bytes ->  resume(ClientBytes)  -> to_client(), to_server(), actions()
//   server bytes ->  resume(ServerBytes)
//
// After each resume: send what the two outboxes hold (their owner is the session; take bytes away with sent_…), and carry
// out every action, in order. Backpressure: the caller reads from the client only while wants_client(), from the server only while
// wants_server(); what it gives in spite of that is kept. Both turn false where the outbox of the other side is full.
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
    admit,             // then resume(Admission): login() says who
    connect_server,    // then resume(ServerConnected) or resume(ServerLost)
    start_server_tls,  // then resume(ServerTls) or ServerLost
    registered,        // the server's key is known (server_pid(), server_key()): cancel requests may be let through
    cancel_server,     // send a CancelRequest of our own for the server session
    forward_cancel,    // this connection is a cancel request: cancel_pid(), cancel_key(); then close it
    close_server,      // once to_server() is sent
    close_client,      // once to_client() is sent
    // TDS: the handshake goes in packets of the protocol; else as the two above.
    start_wrapped_client_tls,
    start_wrapped_server_tls,
    raise,  // the fence of raise_scope() to raise_term(), on a connection of the proxy's own; then resume(Raised)
  };
  Kind kind;
};

// Events. Bytes need only live during the call.
struct ClientBytes {
  std::string_view bytes;
};
struct ServerBytes {
  std::string_view bytes;
};
struct ClientGone {};  // end of stream, or an error of its connection
struct ServerLost {
  std::string_view why;
};                    // connecting failed, or the same; empty: end of stream
struct ClientTls {};  // the handshake is done
struct ServerConnected {};
struct ServerTls {};
struct Admitted {
  Admission admission;
};
struct FenceSeen {
  std::string_view scope;
  std::int64_t fence;
};                // elsewhere in this process; ends a stale open transaction (F4)
struct Drain {};  // SIGTERM: end as soon as no transaction is open
struct Cut {
  std::string_view sqlstate, message;
};               // end now, with this report (drain timeout, an operator's word)
struct Tick {};  // deadline() has come
struct Raised {
  std::string_view code, message;  // why it was not; empty: it was
};
struct GateWanted {
  std::string_view scope;
  bool certain = true;  // else a raise may wait, and nobody knows
};                      // a raise waits for the gate of this scope: the session gives it back as soon as nothing runs in it

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

  // Those since the last call, in order.
  virtual std::vector<Action> take_actions() = 0;

  virtual bool wants_client() const noexcept = 0;
  virtual bool wants_server() const noexcept = 0;

  // When to resume(Tick) unless something else happens before; changes with every event.
  virtual std::optional<Instant> deadline() const noexcept = 0;

  virtual const LoginRequest& login() const noexcept = 0;
  virtual std::uint32_t server_pid() const noexcept { return {}; }
  virtual std::string_view server_key() const noexcept { return {}; }  // BackendKeyData's, 4 to 256 bytes
  virtual std::uint32_t cancel_pid() const noexcept { return {}; }     // of a cancel request
  virtual std::string_view cancel_key() const noexcept { return {}; }

  // What an action `raise` is about.
  virtual std::string_view raise_scope() const noexcept { return {}; }
  virtual std::int64_t raise_term() const noexcept { return 0; }

  // For `admin`, drain and metrics.
  enum class Phase : std::uint8_t { greeting, connecting, login, idle, active, in_transaction, closing };
  virtual Phase phase() const noexcept = 0;
  // What its buffers hold.
  virtual std::size_t memory_bytes() const noexcept = 0;
};

}  // namespace termgate::conversation
