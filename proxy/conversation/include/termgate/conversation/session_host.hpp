// What a session shares with its neighbours, given to it by net/ (in tests: by the test). A session calls these on its own
// thread, from within resume(); they must neither block nor call back into the session.
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
    fenced,         // a transaction passed the check: scope, term, fence, took
    refused,        // code, message; from_memory: the database was not asked
    would_refuse,   // the same under --enforce observe
    evicted,        // an open transaction was ended, because a higher term was seen
    transaction,    // the server said that a transaction ended (ReadyForQuery in state I)
    malformed,      // a peer broke the protocol; message says how
    login_refused,  // a client did not come in: code and message of the server, or of the proxy itself
  };
  Kind kind = Kind::fenced;
  std::string_view scope{};
  std::int64_t term = 0;  // 0: none
  std::int64_t fence = 0;
  std::string_view code{};  // TG001 …; SQLSTATE
  std::string_view message{};
  std::string_view client{};     // address, user and application, where the host knows them
  std::string_view statement{};  // what was refused, as the client wrote it. Only its first words are shown, no value
  bool from_memory = false;
  std::chrono::nanoseconds took{};  // from the check sent to its answer
};

// What a session on PostgreSQL can have a seat by (decision 0026).
struct SeatOffer {
  std::string_view secret{};  // gives it back, in hexadecimal; the same for the life of the process. Empty: there are no seats
  int checks = 8;             // of one claim within a second, after which a session takes one
  bool runs_any_text = true;  // the database has functions that run what they are given as SQL
};

class SessionHost {
 public:
  virtual ~SessionHost() = default;

  // The highest fence that the proxy itself has read in this session's database, 0 for none: only ever a lower bound of the truth.
  virtual std::int64_t highest_fence(std::string_view scope) const = 0;
  // What the session's server answered. It judges no session, this one included: the proxy reads `fences` on a connection of its own, and
  // believes that.
  virtual void saw_fence(std::string_view scope, std::int64_t fence) = 0;

  // The message of TG004, where the database shows a lower fence for the scope than was seen before and no audited reset explains it (F3);
  // else empty. An empty scope, of a session whose scope only the server knows: of any.
  virtual std::string untrusted(std::string_view) const { return {}; }

  // This session holds the gate of a scope from now on, and no other; empty: none. GateWanted comes when a raise waits for it.
  virtual void holds_gate(std::string_view) {}

  virtual SeatOffer seat_offer() const { return {}; }

  // Under --enforce observe, where no fence rises: the highest term that was seen to write. What is refused would be judged by it,
  // so highest_fence() counts it for scopes of sessions that are only observed.
  virtual void saw_term(std::string_view, std::int64_t) {}

  // Whether the server's guard was there for this session's user and database when somebody last logged in so.
  virtual bool server_has_guard() const { return false; }
  virtual void saw_server_guard(bool) {}

  // Texts of this session's database, by a hash of them without their values, that looked like reads and met READ ONLY in some session.
  // They get the check where there is a claim; where there is none they still read.
  virtual bool known_to_write(std::size_t) const { return false; }
  virtual void saw_writing(std::size_t) {}

  // This thread's.
  virtual statements::Cache& statements() = 0;

  virtual void happened(const Incident& incident) = 0;
};

}  // namespace termgate::conversation
