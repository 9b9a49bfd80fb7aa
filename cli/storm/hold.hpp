// storm: a leader that freezes in the middle of a transaction (faults `hold-…`). Its session is
// either one of this process that is left idle, or one of a child process that is stopped.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <termgate/database.hpp>

#include "command.hpp"
#include "storm/log.hpp"
#include "storm/storm.hpp"

namespace termgate::cli::storm {

struct Plan;

// One thread at a time. If it has a child process, that dies with this object, and with the thread
// that created it.
class HeldSession {
 public:
  virtual ~HeldSession() = default;
  // Runs one statement, which must be on one line. Returns the first value of the result, or "".
  // Throws like Sql::run. A child process reports every error but OutcomeUnknown and Unavailable as
  // a DatabaseError with the same code.
  virtual std::string run(const std::string& statement) = 0;
  virtual void freeze() = 0;
  virtual void resume() = 0;
};
std::unique_ptr<HeldSession> held_session(const std::string& url);
std::unique_ptr<HeldSession> held_process(const std::string& program, const std::string& url);

// Takeovers that a frozen session kept waiting although it held nothing of the scope, or that ended
// such a session (F4). Takeovers that took too long are in the history.
struct Hostage {
  std::string kind, scope, text;
};

// The `hold-…` faults: a leader of one of the storm's scopes freezes in the middle of a
// transaction, and the next one has to get through. Owned by Faults, whose members it uses; each
// fault runs on a thread of its own, at most two at a time: each takes a second or more and locks
// what the others need.
class Holds {
 public:
  // `calmed` becomes true when the round is over: a fault that waits gives up. All must outlive
  // this object.
  Holds(const Plan& plan, std::optional<Database>& database, Log& log,
        const std::atomic<bool>& calmed)
      : plan_(plan), database_(database), log_(log), calmed_(calmed) {}

  // Takes a place for one fault. False: there is none.
  bool enter();
  void leave() { --at_work_; }
  // Runs the fault and gives its place back. Throws Error if the fault did not happen.
  void hold(Choice& choice, const std::string& fault);
  std::vector<Hostage> hostages() const;

 private:
  // The leader that is frozen: what it chose, and what it has taken.
  struct Frozen {
    std::string fault, scope, tag, stream;
    // It holds a table but no lock of the scope. So it blocks nothing there and must not be
    // evicted.
    bool beside = false;
    bool on_table = false;   // it holds the adopted table
    bool exclusive = false;  // it holds it in mode EXCLUSIVE instead of ACCESS EXCLUSIVE
    milliseconds wait{};     // how long a takeover may take
    LeaseOptions mine;
    std::string url, pid, since;
    std::unique_ptr<HeldSession> session;
    std::int64_t term = 0;
    std::chrono::steady_clock::time_point expires;
    // What its open transaction got: a number in the stream, or a term.
    std::string place{};

    std::string id() const { return "held." + tag; }
  };
  Frozen leader_to_freeze(Choice& choice, const std::string& fault);
  bool write_as(const Frozen& frozen, const std::string& id,
                const std::function<std::string()>& what);
  void take_what_it_holds(Frozen& frozen);
  bool takeover_past(const Frozen& frozen);
  void look_after(const Frozen& frozen);
  void commit(const Frozen& frozen);
  struct Acquired {
    std::optional<Lease> lease;  // empty: another owner holds it
    bool through = false;
  };
  Acquired acquire(const std::string& scope, const LeaseOptions& options, milliseconds within,
                   std::optional<std::int64_t> past = {});
  void probe_beside(const std::string& tag, const LeaseOptions& options, milliseconds within);
  void hostage(const std::string& kind, const std::string& scope, const std::string& text);
  // How long a takeover may take: check_wait, and some time more for a busy machine.
  milliseconds takeover_wait();

  const Plan& plan_;
  std::optional<Database>& database_;
  Log& log_;
  const std::atomic<bool>& calmed_;
  std::atomic<int> at_work_{0};
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Hostage> hostages_;
  std::optional<milliseconds> takeover_wait_;
};

// The hidden command `storm-holder`: runs what it reads, one statement a line, and answers each
// with a line.
int hold(const Arguments& arguments);

}  // namespace termgate::cli::storm
