// Who knows the operator's rules and the fences, as the proxy asks: net/ calls it, authority/ is it, cli/ brings the two together. Every
// function may be called from any thread; what may block says so.
//
// A session is named by a number that the caller chooses and does not use twice:
//
//   admit(7, arrival)        the rules' answer to its start-up message; nothing is done for it yet
//   established(7, settled)  the server has let it in: only now may it hold a lease, or take one over. The caller holds the client's
//   statements back
//                            until `settled` is called, so that the first one finds its term
//   ended(7)                 the last one of a host gives the host's lease back
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <termgate/conversation/admission.hpp>
#include <termgate/conversation/session_host.hpp>

namespace termgate::conversation {

// Whether a client still answers, as its kernel's acknowledgements show. Any thread, also after the connection has ended.
class PeerLiveness {
 public:
  virtual ~PeerLiveness() = default;
  virtual bool open() const = 0;
  // Since the peer's machine was last heard of. Huge once the connection has ended.
  virtual std::chrono::milliseconds silent_for() const = 0;
  // From now on a silent peer is probed so often that silent_for() stays below `bound` (1 s at the least) while it is there.
  virtual void ask_within(std::chrono::milliseconds bound) = 0;
};

// A client that asks to come in: all that the rules look at, and whether it is still there.
struct ConnectRequest {
  std::string listener;
  std::string client_host;  // "192.0.2.7"; "local" for a Unix socket
  LoginRequest login;
  std::shared_ptr<PeerLiveness> liveness;  // nullptr: taken to be there as long as its session is open
};

// What this process knows of the fences of one database: a lower bound, and only what the proxy itself has read from `fences` there. A
// session holds that of its own database as long as it is there. Any thread; must not block.
class Fences {
 public:
  virtual ~Fences() = default;
  // Belongs to this object and to no other, now or later.
  virtual std::uint64_t id() const = 0;
  // 0: nothing is known of the scope.
  virtual std::int64_t highest(std::string_view scope) const = 0;
  // A session has heard of this fence from its server. Whoever owns a database can make that up, so it is only a reason to read `fences`.
  virtual void hint(std::string_view scope, std::int64_t fence) = 0;
  // As SessionHost::untrusted().
  virtual std::string untrusted(std::string_view scope) const = 0;
};

// What keeps the proxy from doing its job in the database of --backend.
enum class Obstacle : std::uint8_t { none, unreachable, login_refused, not_installed };

// Which of the servers of --backend the proxy's own connection is with, or was last, as the URL names it.
struct ServedBy {
  std::string host;  // empty: not known yet
  std::string port;
};

// For metrics.
struct Watching {
  bool backend = false;        // the database of --backend is watched now
  std::int64_t failures = 0;   // how often a watch was lost or could not begin, in all databases
  std::int64_t databases = 0;  // other databases that are watched now
  std::int64_t databases_limit = 0;
};

class Authority {
 public:
  virtual ~Authority() = default;

  // May take its time: called on a thread kept for that.
  virtual Admission admit(std::uint64_t session, const ConnectRequest& request) = 0;
  // `settled` is called exactly once, from within or from another thread: the lease is held, or it is known why not, or the wait for it is
  // over. A session that is not known (or has ended) is settled at once. Must not block.
  virtual void established(std::uint64_t session, std::function<void()> settled) = 0;
  // An admitted session is over. Must not block.
  virtual void ended(std::uint64_t session) = 0;

  // The fences of the database that a start-up message names. nullptr: not known yet which one
  // --backend means, so nothing is known of any; ask again. Must not block.
  virtual std::shared_ptr<Fences> fences(std::string_view database) = 0;
  // Must not block.
  virtual void happened(std::string_view database, const Incident& incident) = 0;

  // `callback` is called for every fence that is seen to have risen, with the id() of its database's Fences, by whichever thread saw it; it
  // must not block nor call subscribe(). Before the first session only. nullptr: no more calls once this returns.
  virtual void subscribe(std::function<void(std::uint64_t fences, std::string_view scope, std::int64_t fence)> callback) = 0;

  // A session holds the gate of the scope in the database of --backend, which a raise has to wait for; or no longer. In pairs. Must not
  // block.
  virtual void gate_held(std::string_view) {}
  virtual void gate_left(std::string_view) {}
  // To sessions in the database that a start-up message names. A seat is held as a gate is.
  virtual SeatOffer seat_offer(std::string_view database) const {
    static_cast<void>(database);
    return {};
  }
  // `callback` is called, by any thread, for a scope whose gate a raise waits for, and again while it waits; and, with `certain` false,
  // while nobody knows because the database does not answer. It must not block nor call anything here. Before the first session only.
  // nullptr: no more calls once this returns.
  virtual void subscribe_gates(std::function<void(std::string_view scope, bool certain)>) {}

  // Raises the fence of the scope in the database of --backend, for a session that cannot do so itself. `done` is called exactly once, from
  // within or from another thread: with nothing, or with the code and message of why it was not raised. Must not block.
  virtual void raise(std::string_view scope, std::int64_t term, std::function<void(std::string_view code, std::string_view message)> done) {
    static_cast<void>(scope);
    static_cast<void>(term);
    done("TG005", "TG005 the fence must be raised first, and this proxy knows no database that it could raise it in");
  }

  // Must not block.
  virtual Obstacle obstacle() const = 0;
  virtual ServedBy served_by() const { return {}; }
  virtual Watching watching() const = 0;

  // For HTTP: whether a host behind this proxy holds the scope's lease now, by a rule; how many leases are held.
  virtual bool leads(std::string_view scope) const = 0;
  virtual std::int64_t leases_held() const = 0;

  // Reads the rules anew (SIGHUP). What is wrong with them, or empty; the former rules stand then. Sessions keep what they were admitted
  // with.
  virtual std::string reload() = 0;
};

}  // namespace termgate::conversation
