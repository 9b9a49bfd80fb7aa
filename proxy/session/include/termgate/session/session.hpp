// One client and its one server session, as bytes in and bytes out: no socket, no clock, no log (docs/decisions/0006).
// The caller (net/) owns the two connections and does what the actions say. One thread at a time.
//
//   client bytes ->  resume(ClientBytes)  -> to_client(), to_server(), actions()
//   server bytes ->  resume(ServerBytes)
//
// After each resume: send what the two outboxes hold (their owner is the session; take bytes away with sent_…), and carry
// out every action, in order. Backpressure: the caller reads from the client only while wants_client(), from the server only while
// wants_server(); what it gives in spite of that is kept. Both turn false where the outbox of the other side is full.
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
#include <termgate/session/admission.hpp>
#include <termgate/session/session_host.hpp>

namespace termgate::session {

// What the operator chose, the same for all sessions of a listener. Must outlive them.
struct Options {
  pgwire::Limits limits;
  pgwire::Rules client_rules = pgwire::Rules::frontend(limits);  // to be made anew where the limits are changed
  std::size_t outbox_bytes_max = 256u << 10;                     // past this the other side is not read
  std::size_t held_bytes_max = 64u << 10;                        // of a client's unfinished pipeline that is looked at before it is sent on

  bool client_tls = false;           // a certificate is there: SSLRequest is answered S
  bool client_tls_required = false;  // a start-up in clear text is refused
  enum class ServerTls : std::uint8_t { disable, prefer, require } server_tls = ServerTls::prefer;  // verify-* is the caller's
  bool server_is_local = false;                                                                     // a Unix socket: no TLS is asked for
  bool server_has_rules = true;                                                                     // it knows CREATE RULE: PostgreSQL does

  std::string schema = "termgate";  // of layer 1
  std::string install_hint;         // the command that installs layer 1; empty: the one for the client's PostgreSQL database
  // A pooler in session mode stands between the proxy and the server; one that is not announced is refused.
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

class Session {
 public:
  Session(const Options& options, Peer peer, SessionHost& session_host, Instant now);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void resume(const ClientBytes& event, Instant now);
  void resume(const ServerBytes& event, Instant now);
  void resume(const ClientGone& event, Instant now);
  void resume(const ServerLost& event, Instant now);
  void resume(const ClientTls& event, Instant now);
  void resume(const ServerConnected& event, Instant now);
  void resume(const ServerTls& event, Instant now);
  void resume(const Admitted& event, Instant now);
  void resume(const FenceSeen& event, Instant now);
  void resume(const Drain& event, Instant now);
  void resume(const Cut& event, Instant now);
  void resume(const Tick& event, Instant now);

  std::string_view to_client() const noexcept;
  std::string_view to_server() const noexcept;
  void sent_to_client(std::size_t bytes) noexcept;
  void sent_to_server(std::size_t bytes) noexcept;

  // Those since the last call, in order.
  std::vector<Action> take_actions();

  bool wants_client() const noexcept;
  bool wants_server() const noexcept;

  // When to resume(Tick) unless something else happens before; changes with every event.
  std::optional<Instant> deadline() const noexcept;

  const LoginRequest& login() const noexcept;
  std::uint32_t server_pid() const noexcept;
  std::string_view server_key() const noexcept;  // BackendKeyData's, 4 to 256 bytes
  std::uint32_t cancel_pid() const noexcept;     // of a cancel request
  std::string_view cancel_key() const noexcept;

  // For `admin`, drain and metrics.
  enum class Phase : std::uint8_t { greeting, connecting, login, idle, active, in_transaction, closing };
  Phase phase() const noexcept;
  // Of buffers that are held.
  std::size_t memory_bytes() const noexcept;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace termgate::session
