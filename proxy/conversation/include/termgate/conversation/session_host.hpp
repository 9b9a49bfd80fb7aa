// What a session shares with others, provided by net/ (in tests, by the test). A session calls
// these functions on its own thread, from within resume(); they must neither block nor call back
// into the session.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace termgate::statements {
class Cache;
}

namespace termgate::conversation {

using Instant = std::chrono::steady_clock::time_point;

// What happened, for metrics, audit and log. Views are valid during the call only.
struct Incident {
  enum class Kind : std::uint8_t {
    fenced,        // a check has passed: scope, term, fence, took
    refused,       // code, message; from_memory: without a query to the database
    would_refuse,  // the same under --enforce observe
    // The session or its open transaction was ended for a higher term: one that was seen or, on SQL
    // Server, whose raise has waited for the eviction grace.
    evicted,
    transaction,    // the server reported the end of a transaction
    malformed,      // a peer violated the protocol; message says how
    login_refused,  // a client was refused: code and message of the server or the proxy
    no_seat,        // the database gave no seat, or failed: scope, term, code, message
  };
  Kind kind = Kind::fenced;
  std::string_view scope{};
  std::int64_t term = 0;  // 0: none
  std::int64_t fence = 0;
  std::string_view code{};  // TG001 and the like, or an SQLSTATE
  std::string_view message{};
  std::string_view client{};  // address, user and application, if the host knows them
  // The beginning of what was refused, of which the log shows at most three words. PostgreSQL's
  // extended protocol: of the text parsed last. A call by RPC of TDS: "EXEC name", or empty.
  std::string_view statement{};
  bool from_memory = false;
  std::chrono::nanoseconds took{};  // from sending the check to its answer
};

// What a session needs to take a seat, on PostgreSQL (docs/decisions/0026).
struct SeatOffer {
  // The secret with which a seat is given back: hexadecimal, and the same for the life of the
  // process. Empty: there are no seats.
  std::string_view secret{};
  // After this many passed checks of one claim within a second, a session takes a seat.
  int checks = 8;
  // The database has, or may have, functions that run their arguments as SQL.
  bool runs_any_text = true;
};

class SessionHost {
 public:
  virtual ~SessionHost() = default;

  // The highest fence that the proxy itself has read, acquired or raised in this session's
  // database; 0: none. The true fence may be higher. For observed sessions see saw_term().
  virtual std::int64_t highest_fence(std::string_view scope) const = 0;
  // The session's server has returned this fence. It is not used to judge any session: the proxy
  // reads `fences` on a connection of its own, and trusts that.
  virtual void saw_fence(std::string_view scope, std::int64_t fence) = 0;

  // The message of TG004, if the database shows a lower fence for the scope than was seen before
  // and no audited reset explains that (F3); otherwise empty. An empty scope means any scope, for a
  // session whose scope only the server knows.
  virtual std::string untrusted(std::string_view) const { return {}; }

  // This session now holds the gate of this scope, or a seat in it, and of no other scope; empty:
  // of none. GateWanted comes when a raise waits for it, or may.
  virtual void holds_gate(std::string_view) {}

  virtual SeatOffer seat_offer() const { return {}; }

  // For --enforce observe, which raises no fence: a term that was seen to write. For observed
  // sessions highest_fence() includes the highest such term.
  virtual void saw_term(std::string_view, std::int64_t) {}

  // Whether the server's guard was there at the last login of this session's user to its database.
  virtual bool server_has_guard() const { return false; }
  virtual void saw_server_guard(bool) {}

  // Texts in this session's database that looked like reads and failed because of READ ONLY in some
  // session, by a hash of the text without its literals. With a claim they get the check; without
  // one they still run as reads.
  virtual bool known_to_write(std::size_t) const { return false; }
  virtual void saw_writing(std::size_t) {}

  // The classified texts that this thread remembers.
  virtual statements::Cache& statements() = 0;

  virtual void happened(const Incident& incident) = 0;
};

}  // namespace termgate::conversation
