// One client, its server session and the conversation::Conversation between them: carries bytes and
// does what the actions say. Runs on a worker's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <termgate/conversation/conversation.hpp>
#include <termgate/conversation/session_host.hpp>

#include "liveness.hpp"
#include "stream.hpp"
#include "worker.hpp"

namespace termgate::net {

class Connection final : public conversation::SessionHost {
 public:
  Connection(Worker& worker, std::uint64_t id, int descriptor, const Endpoint& peer,
             const http::OpenListener& listener, std::shared_ptr<const Settings> settings);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void begin();

  std::uint64_t id() const noexcept { return id_; }
  const Endpoint& peer() const noexcept { return peer_; }
  std::size_t place() const noexcept { return place_; }
  void set_place(std::size_t place) noexcept { place_ = place; }
  bool silent() const noexcept;  // its client has sent nothing yet
  conversation::Instant began() const noexcept { return began_; }

  void look_at_clock(conversation::Instant now);
  void fences_rose(const Worker::Risen& risen);
  void gates_wanted(const std::set<std::string, std::less<>>& scopes, bool certain);
  void drain();
  // The client has closed its side, perhaps after bytes that are not read yet.
  bool hung_up() const;
  void cut(std::string_view sqlstate, std::string_view message);
  // Sends this report, unless the client already has the session's own, and ends.
  void give_up(std::string_view sqlstate, std::string_view message, std::string_view why);
  void end(std::string_view why);  // at once

  struct Seen {
    bool in_transaction = false;
    bool seated = false;
    std::size_t bytes = 0;
  };
  Seen seen() const;

  // The login, once the client has sent it. nullptr: not yet, or no longer.
  const conversation::LoginRequest* who() const noexcept {
    return session_ ? &session_->login() : nullptr;
  }

  // --- conversation::SessionHost ---
  std::int64_t highest_fence(std::string_view scope) const override;
  void saw_fence(std::string_view scope, std::int64_t fence) override;
  std::string untrusted(std::string_view scope) const override;
  void holds_gate(std::string_view scope) override;
  conversation::SeatOffer seat_offer() const override;
  void saw_term(std::string_view scope, std::int64_t term) override;
  bool server_has_guard() const override;
  void saw_server_guard(bool there) override;
  bool known_to_write(std::size_t text) const override;
  void saw_writing(std::size_t text) override;
  statements::Cache& statements() override;
  void happened(const conversation::Incident& incident) override;

  // --- results of the blocking pool ---
  void admitted(conversation::Admission admission);
  void use(Resolver::Addresses addresses);
  void add_problem(const std::string& problem);
  void resolved(Resolver::Addresses addresses, const std::string& problem);

 private:
  enum class Stage : std::uint8_t { proxy_header, first_byte, direct_tls, session, farewell, over };
  // How far the client has been admitted. Each step includes those before it.
  enum class Entry : std::uint8_t {
    none,
    // The limits have a place for it.
    counted,
    // The rules admit it, and the authority knows of it.
    admitted,
    // The server has admitted it. Its first statement waits until the authority allows it.
    established,
    ready,
  };
  // The connection to the server. `retry`: a Unix socket whose queue was full is tried again at the
  // next sweep.
  enum class Connecting : std::uint8_t { no, under_way, retry };
  // The state of the cancel request that this client sends, if it is one. Until it is `done`, the
  // client's connection stays open.
  enum class Cancel : std::uint8_t { none, sent, done };

  struct End final : Pollable {
    End(Connection& connection, bool is_client) : owner(connection), client(is_client) {}
    void ready(std::uint32_t events) override { owner.ready(*this, events); }

    Connection& owner;
    const bool client;
    bool connected = false;
    bool handshaking = false;
    bool blocked = false;      // the last write did not take everything
    bool write_reads = false;  // TLS must read before that write can continue
    bool read_writes = false;  // TLS must write before the last read can continue
    bool gone = false;
    // It hung up while nothing is to be read from it, and is not watched until something is.
    bool deaf = false;
    // It accepts no more bytes, and its reason may be on its way.
    bool unheard = false;
    std::uint32_t handshake_wants = 0;
    std::uint32_t watched = 0;
    Stream stream;
  };

  void ready(End& end, std::uint32_t events);
  void read_proxy_header();
  void read_first_byte();
  void begin_session(bool encrypted);
  void read_some(End& end);
  void step_handshake(End& end);
  void lost(End& end, std::string_view why);
  void pump();
  void flush(End& end);
  bool run_actions();
  bool wants(const End& end) const;
  void watch(End& end);

  bool do_action(conversation::Action::Kind kind);
  void admit();
  void establish();
  void connect_server();
  void next_address();
  void server_connected();
  bool begin_tls(End& end, bool wrapped = false);
  bool forward_cancel();
  void raise();
  bool speaks_tds() const noexcept;
  void forget_server();
  void identified();
  void leave();
  void farewell();
  void drain_farewell();

  CancelRegistry::Target target() const;
  conversation::Fences* fences() const;  // nullptr: no fence is known
  std::string observed_key(std::string_view scope) const;

  Worker& worker_;
  const std::uint64_t id_;
  const http::OpenListener& listener_;
  std::shared_ptr<const Settings> settings_;
  Endpoint peer_;
  std::size_t place_ = 0;
  const conversation::Instant began_;
  conversation::Instant deadline_ =
      conversation::Instant::max();  // of the stage, or of a server connection under way
  Stage stage_ = Stage::first_byte;
  Entry entry_ = Entry::none;
  Connecting connecting_ = Connecting::no;
  Cancel cancel_ = Cancel::none;
  bool pumping_ = false;
  // With --enforce observe.
  bool observed_ = false;
  // It is also notified of raised fences while it is idle.
  bool ends_when_stale_ = false;
  // The server has sent something since it was connected, or since its TLS began.
  bool server_spoke_ = false;
  End client_;
  End server_;
  std::unique_ptr<conversation::Conversation> session_;
  mutable std::shared_ptr<conversation::Fences> fences_;  // of the session's database, once needed
  std::string gate_;  // the scope whose gate the session holds; empty: none
  std::deque<conversation::Action::Kind> actions_;
  std::string head_;  // a PROXY header; later the secret that cancel requests need
  std::optional<std::list<Connection*>::iterator> greeting_;
  std::shared_ptr<SocketLiveness> liveness_;
  Resolver::Addresses addresses_;
  // The next address to try. After connecting, one past the address in use.
  std::size_t address_ = 0;
  std::string connect_problem_;
  std::optional<CancelRegistry::Ticket> ticket_;
  std::string why_;
};

}  // namespace termgate::net
