// storm: the leaders' processes and what is done to them and to the database, by a schedule that the seed gives.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <termgate/testkit/history.hpp>

#include "storm/storm.hpp"
#include "storm/log.hpp"

namespace termgate::cli::storm {

class Clocks;
class HeldSession;
class Relay;
class Proxies;

struct Fault {
  std::string_view name;
  std::string_view what;
  bool on_sqlite;
  bool on_naive;                             // what needs layer 1, or would be no fault of a naive boundary's, is left out there
  int weight;                                // how often, to the others
  bool on_direct = true, on_proxies = true;  // without and with proxies between the leaders and the server
};
const std::vector<Fault>& all_faults();
bool holds(std::string_view fault);  // whether in it a leader freezes in the middle of a transaction: hold-…

struct Plan {
  std::string url;                            // with the storm's application_name
  std::string backend_url;                    // as it was given, for proxies
  std::string relayed_url;                    // every other leader's, where there is a relay; else empty
  std::string schema, naive, enforce = "on";  // enforce: of the proxies
  Names names;
  std::uint64_t seed = 0;
  int leaders = 0, scopes = 0, writers = 0, proxies = 0;
  std::vector<int> proxy_ports;                // the relays before the proxies, where leaders write
  std::chrono::nanoseconds time{0}, round{0};  // round: judged so often, and done with at the first breach
  milliseconds ttl{0};
  std::string pace;  // of the writers; empty: as usual
  std::vector<std::string> faults;
  std::string server_restart;  // the command; empty: the server is left alone
  std::string server_clock;    // the file that says how far the server's clock is off; empty: that clock is left alone
  Clocks* clocks = nullptr;    // of leaders and proxies; none: theirs is the machine's. Outlives them
  std::string folder;          // of the logs
  std::string program;         // this one
};

// The leaders. One thread. They die with the director, however it ends.
class Crew {
 public:
  Crew(const Plan& plan, History& history) : plan_(plan), history_(history), leaders_(static_cast<std::size_t>(plan.leaders)) {}
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void start_all();
  // Resumes and starts again whose time has come; notices who ended by itself.
  void tick();
  bool stop_one(Choice& choice, milliseconds low, milliseconds high);
  bool kill_one(Choice& choice);
  // Resumes all and asks them to end; kills those that do not within `patience`.
  void end_all(milliseconds patience);

  struct Stop {
    std::string client;
    Moment from, to;
  };
  const std::vector<Stop>& stops() const { return stops_; }
  int ended_by_themselves() const { return ended_by_themselves_; }

 private:
  struct Leader {
    pid_t pid = -1;
    int life = 0;
    std::string client;
    bool stopped = false;
    Moment stopped_at{};
    std::chrono::steady_clock::time_point due;  // to resume, or to start again
  };
  void start(std::size_t index);
  void resume(Leader& leader);
  std::vector<Leader*> awake();

  const Plan& plan_;
  History& history_;
  std::vector<Leader> leaders_;
  std::vector<Stop> stops_;
  int ended_by_themselves_ = 0;
};

// The faults. tick() on the director's thread; what takes time is done on threads of its own.
class Faults {
 public:
  // `relays`: where answers can be lost and all be delayed. `proxies`: none, or those that the leaders go through. Both must outlive this.
  Faults(const Plan& plan, Crew& crew, History& history, std::optional<Database> database, std::vector<Relay*> relays, Proxies* proxies);
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  void tick();
  // Waits for what is still being done; after it nothing of it is left in the database.
  void finish();
  // Nobody has to wait for a relay or a wrong clock any more.
  void calm();

  std::map<std::string, int> done() const;                        // by name
  std::int64_t pieces_delayed() const, pieces_overtaken() const;  // by the relays
  std::vector<testkit::Row> pruned() const;                       // what was in the streams before it was pruned
  // Takeovers that a frozen holder of something else was in the way of, or was ended for (F4). What took too long is in the history.
  struct Hostage {
    std::string kind, scope, text;
  };
  std::vector<Hostage> hostages() const;
  std::vector<std::string> problems() const;  // with the server's restart or clock: the storm was not what it was meant to be

 private:
  void begin(const std::string& fault);
  bool hand(const std::string& fault, std::function<void(Choice&)> work);  // false: enough are at work
  void cut(Choice& choice);
  void freeze(Choice& choice);
  void prepare(Choice& choice);
  void hold(Choice& choice, const std::string& fault);
  // The leader that a `hold-…` fault freezes: what it chose, and what it has taken.
  struct Frozen {
    std::string fault, scope, tag, stream;
    bool beside = false;     // holds a table and no lock of the scope: then it blocks nothing there, and is not ended
    bool on_table = false;   // holds the adopted table
    bool exclusive = false;  // in mode EXCLUSIVE, not ACCESS EXCLUSIVE
    milliseconds wait{};     // how long a takeover may take
    LeaseOptions mine;
    std::string url, pid, since;
    std::unique_ptr<HeldSession> session;
    std::int64_t term = 0;
    std::chrono::steady_clock::time_point expires;
    std::string place{};  // what its open transaction got: a number in the stream, a term

    std::string id() const { return "held." + tag; }
  };
  Frozen leader_to_freeze(Choice& choice, const std::string& fault);
  bool write_as(const Frozen& frozen, const std::string& id, const std::function<std::string()>& what);
  void take_what_it_holds(Frozen& frozen);
  bool takeover_past(const Frozen& frozen);
  void look_after(const Frozen& frozen);
  void commit(const Frozen& frozen);
  struct Acquired {
    std::optional<Lease> lease;  // none: another's
    bool through = false;
  };
  Acquired acquire(const std::string& scope, const LeaseOptions& options, milliseconds within, std::optional<std::int64_t> past = {});
  void probe_beside(const std::string& tag, const LeaseOptions& options, milliseconds within);
  void hostage(const std::string& kind, const std::string& scope, const std::string& text);
  milliseconds takeover_wait();  // how long a takeover may take: check_wait, and what a busy machine adds
  void force(Choice& choice);
  void hand_over(Choice& choice);
  void prune(Choice& choice);
  void restart_server(Choice& choice);
  void step_server_clock(Choice& choice);
  std::string run_restart() const;  // why it failed; empty: it did not
  void lose(Choice& choice);
  void half_open(Choice& choice);
  void delay(Choice& choice);
  void cut_relay(Choice& choice, bool front);
  std::string scope_of(Choice& choice) const { return plan_.names.scope(static_cast<int>(choice.number(0, plan_.scopes - 1))); }
  void count(const std::string& fault);
  std::string check_term() const;

  const Plan& plan_;
  Crew& crew_;
  std::optional<Database> database_;
  const std::vector<Relay*> relays_;
  Proxies* const proxies_;
  std::mutex relay_mutex_;  // guards the relays' orders
  Log log_;
  Choice choice_;
  std::chrono::steady_clock::time_point next_;
  int serial_ = 0;
  std::atomic<int> holds_{0};        // at work
  std::atomic<bool> calmed_{false};  // nothing is to be waited for any more in this round

  mutable std::mutex mutex_;                                           // guards what follows up to hands_
  std::optional<std::chrono::steady_clock::time_point> next_restart_;  // of the server; none during a restart, or without restarts
  std::optional<std::chrono::steady_clock::time_point> next_step_;     // of the server's clock, likewise
  std::vector<std::string> problems_;
  std::map<std::string, int> done_;
  std::vector<Hostage> hostages_;
  std::optional<milliseconds> takeover_wait_;
  std::map<std::pair<std::string, std::int64_t>, testkit::Row> pruned_;
  struct Hand {
    std::atomic<bool> done{false};
    std::jthread thread;
  };
  std::list<Hand> hands_;  // last: they use all of it
};

}  // namespace termgate::cli::storm
