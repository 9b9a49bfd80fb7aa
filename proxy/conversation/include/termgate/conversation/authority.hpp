// The operator's rules and the known fences, as net/ uses them. authority/ implements this
// interface; cli/ connects the two. Every function may be called from any thread; functions that
// may block say so.
//
// A session is identified by a number that the caller chooses and does not reuse:
//
//   admit(7, request)        what the rules answer to its login; takes no lease yet
//   established(7, settled)  the server has admitted it: only now may it hold a lease, or take one
//                            over. The caller holds the client's statements back until `settled` is
//                            called, so that the first one finds its term
//   ended(7)                 if it was the last session of its host, the host's lease is given back
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

// Whether a client still answers, according to its kernel's acknowledgements. Any thread, also
// after the connection has ended.
class PeerLiveness {
 public:
  virtual ~PeerLiveness() = default;
  virtual bool open() const = 0;
  // How long nothing has been received from the peer's machine. A huge value once the connection
  // has ended.
  virtual std::chrono::milliseconds silent_for() const = 0;
  // From now on a silent peer is probed so often that silent_for() stays below `bound` (at least 1
  // s) as long as the peer is there.
  virtual void ask_within(std::chrono::milliseconds bound) = 0;
};

// A client that wants to connect: all that the rules look at, and whether it is still there.
struct ConnectRequest {
  std::string listener;
  std::string client_host;  // "192.0.2.7"; "local" for a Unix socket
  LoginRequest login;
  // nullptr: the client counts as there while its session is open.
  std::shared_ptr<PeerLiveness> liveness;
};

// The fences of one database that this process knows: lower bounds, and only what the proxy itself
// has read from `fences` there, acquired or raised. A session keeps those of its own database until
// it ends. Any thread; must not block.
class Fences {
 public:
  virtual ~Fences() = default;
  // Unique: never used by another object, even later.
  virtual std::uint64_t id() const = 0;
  // 0: nothing is known of the scope.
  virtual std::int64_t highest(std::string_view scope) const = 0;
  // A session's server has reported this fence. The owner of a database could fake that, so it is
  // only a reason to read `fences`.
  virtual void hint(std::string_view scope, std::int64_t fence) = 0;
  // The same as SessionHost::untrusted().
  virtual std::string untrusted(std::string_view scope) const = 0;
};

// Why the proxy cannot do its work in the database of --backend.
enum class Obstacle : std::uint8_t { none, unreachable, login_refused, not_installed };

// Which server of --backend the proxy's own connection uses, or used last, as the URL names it.
struct ServedBy {
  std::string host;  // empty: not known yet
  std::string port;
};

// Values for metrics.
struct Watching {
  bool backend = false;        // the database of --backend is watched now
  std::int64_t failures = 0;   // how often a watch was lost or failed to begin, in all databases
  std::int64_t databases = 0;  // other databases that are watched now
  std::int64_t databases_limit = 0;
};

class Authority {
 public:
  virtual ~Authority() = default;

  // May block: called on a thread kept for that.
  virtual Admission admit(std::uint64_t session, const ConnectRequest& request) = 0;
  // `settled` is called exactly once, by this call or later by another thread: when the lease is
  // held, when it is known why it cannot be, or when the wait for it has timed out. It is called at
  // once for a session that needs no lease, is unknown or has ended. Must not block.
  virtual void established(std::uint64_t session, std::function<void()> settled) = 0;
  // An admitted session has ended. Must not block.
  virtual void ended(std::uint64_t session) = 0;

  // The fences of the database that a start-up message names. nullptr: it is not known yet which
  // database --backend means, so no fence is known; call again. Must not block.
  virtual std::shared_ptr<Fences> fences(std::string_view database) = 0;
  // An incident of a session in this database; refusals of stale terms go to the audit. Must not
  // block.
  virtual void happened(std::string_view database, const Incident& incident) = 0;

  // `callback` is called for every fence that is seen to have risen, with the id() of its
  // database's Fences, by the thread that saw it. It must not block or call subscribe(). Call this
  // before the first session only. With nullptr, no call is made once this returns.
  virtual void subscribe(
      std::function<void(std::uint64_t fences, std::string_view scope, std::int64_t fence)>
          callback) = 0;

  // A session holds, or no longer holds, the gate of the scope (or a seat in it) in the database of
  // --backend; a raise has to wait for that. Called in pairs. Must not block.
  virtual void gate_held(std::string_view) {}
  virtual void gate_left(std::string_view) {}
  // What a session needs to take a seat in the database that its login names.
  virtual SeatOffer seat_offer(std::string_view database) const {
    static_cast<void>(database);
    return {};
  }
  // `callback` is called, by any thread, for a scope whose gate a raise waits for, and again while
  // it waits. With `certain` false it is called while that is unknown, because the database does
  // not answer. It must not block or call this object. Call this before the first session only.
  // With nullptr, no call is made once this returns.
  virtual void subscribe_gates(std::function<void(std::string_view scope, bool certain)>) {}

  // Raises the fence of the scope in the database of --backend, for a session that cannot do so
  // itself. `done` is called exactly once, by this call or later by another thread: with empty
  // arguments, or with the code and message of the failure. Must not block.
  virtual void raise(std::string_view scope, std::int64_t term,
                     std::function<void(std::string_view code, std::string_view message)> done) {
    static_cast<void>(scope);
    static_cast<void>(term);
    done("TG005",
         "TG005 the fence must be raised first, and this proxy knows no database that it could "
         "raise it in");
  }

  // Must not block.
  virtual Obstacle obstacle() const = 0;
  virtual ServedBy served_by() const { return {}; }
  virtual Watching watching() const = 0;

  // For HTTP: whether this proxy now holds the scope's lease for a host of one of its rules, and
  // how many leases it holds.
  virtual bool leads(std::string_view scope) const = 0;
  virtual std::int64_t leases_held() const = 0;

  // Reads the rules again (SIGHUP). Returns what is wrong with them, and then the former rules stay
  // in force; or an empty string. Sessions keep what they were admitted with.
  virtual std::string reload() = 0;
};

}  // namespace termgate::conversation
