// A session under way: carries bytes between a client, its server and the
// conversation::Conversation between them, and does what the actions say.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <termgate/conversation/conversation.hpp>

#include "admittance.hpp"
#include "dialer.hpp"
#include "end.hpp"
#include "shared_host.hpp"
#include "worker.hpp"

namespace termgate::net {

// Owned by its Connection, on whose thread it runs. The session exists from begin() to finish() or
// close(), to which any step may lead by way of the connection; so running() is checked after each
// call that may have ended it. The object lives until its connection is destroyed.
class Relay {
 public:
  Relay(Connection& connection, Worker& worker, End& client)
      : connection_(connection),
        worker_(worker),
        client_(client),
        server_(connection, false),
        host_(connection, worker),
        admittance_(connection, worker),
        dialer_(worker, server_) {}

  // The client's greeting is over; `encrypted`: it is under TLS.
  void begin(bool encrypted);
  bool running() const noexcept { return session_ != nullptr; }
  // Both end the session and give back what it holds elsewhere, and close the server's socket.
  // close() also ends the client's greeting, if that is not over.
  void finish();
  void close();
  // The server has admitted the client.
  bool opened() const noexcept { return admittance_.opened(); }
  // The client's login, empty before it has sent one. nullptr: there is no session.
  const conversation::LoginRequest* who() const noexcept {
    return session_ ? &session_->login() : nullptr;
  }
  struct Seen {
    bool in_transaction = false;
    bool seated = false;
    std::size_t bytes = 0;
  };
  Seen seen() const;

  void ready(End& end, std::uint32_t events);
  void look_at_clock(conversation::Instant now);
  void fences_rose(const Worker::Risen& risen);
  void gates_wanted(const std::set<std::string, std::less<>>& scopes, bool certain);
  void cut(std::string_view sqlstate, std::string_view message);
  // Passes an event to the session, unless that is over.
  template <class Event>
  void tell(const Event& event) {
    if (!running()) return;
    session_->resume(event, std::chrono::steady_clock::now());
    pump();
  }

  // --- answers of other threads and of later rounds
  void admitted(conversation::Admission admission);  // only while running()
  void allowed();                                    // its first statement may run
  void resolved(Resolver::Addresses addresses, const std::string& problem);
  void cancelled();

 private:
  // The state of the cancel request that this client sends, if it is one. Until it is `done`, the
  // client's connection stays open.
  enum class Cancel : std::uint8_t { none, sent, done };

  void read_some(End& end);
  void step_handshake(End& end);
  void lost(End& end, std::string_view why);
  void pump();
  void flush(End& end);
  void write_failed(End& end);
  bool run_actions();
  bool wants(const End& end) const;
  void watch(End& end);

  bool do_action(conversation::Action::Kind kind);
  bool last_words_left(bool of_client);
  void leave();
  void connect_server();
  void next_address();
  void server_connected();
  bool begin_tls(End& end, bool wrapped);
  bool forward_cancel();
  void raise();
  void forget_server();
  CancelRegistry::Target target() const;

  Connection& connection_;
  Worker& worker_;
  End& client_;
  End server_;
  SharedHost host_;
  Admittance admittance_;
  Dialer dialer_;
  std::unique_ptr<conversation::Conversation> session_;
  std::deque<conversation::Action::Kind> actions_;
  // When a connect under way, or sending an end its last bytes, counts as failed.
  conversation::Instant deadline_ = conversation::Instant::max();
  Cancel cancel_ = Cancel::none;
  bool pumping_ = false;
  // The session is notified of raised fences even while it is idle.
  bool ends_when_stale_ = false;
  std::string secret_;  // that cancel requests need
  std::optional<CancelRegistry::Ticket> ticket_;
  std::string why_;
};

}  // namespace termgate::net
