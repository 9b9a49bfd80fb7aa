// storm: the leaders' processes, and the faults that hit them and the database, by a schedule that
// follows from the seed.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <termgate/testkit/history.hpp>

#include "storm/hold.hpp"
#include "storm/log.hpp"
#include "storm/storm.hpp"

namespace termgate::cli::storm {

class Clocks;
class Relay;
class Proxies;

struct Fault {
  std::string_view name;
  std::string_view what;
  bool on_sqlite;
  // Whether it also runs against naive boundaries. False for faults that need layer 1, or that
  // would be no fair test of a naive boundary.
  bool on_naive;
  int weight;  // how often it happens, relative to the others
  // Whether it runs without proxies and with proxies between the leaders and the server.
  bool on_direct = true, on_proxies = true;
};
const std::vector<Fault>& all_faults();
// Whether a leader freezes in the middle of a transaction in this fault: hold-….
bool holds(std::string_view fault);

struct Plan {
  std::string url;          // with the storm's application_name
  std::string backend_url;  // as given by the user; proxies use it
  // The URL for every other leader, through the relay; empty if there is no relay.
  std::string relayed_url;
  std::string schema, naive, enforce = "on";  // enforce: the proxies' option
  Names names;
  std::uint64_t seed = 0;
  int leaders = 0, scopes = 0, writers = 0, proxies = 0;
  // Ports of the relays in front of the proxies, where leaders write.
  std::vector<int> proxy_ports;
  // The history is judged after each `round`, and the storm ends at the first breach.
  std::chrono::nanoseconds time{0}, round{0};
  milliseconds ttl{0};
  std::string pace;  // the writers' pace; empty: the usual one
  std::vector<std::string> faults;
  std::string server_restart;  // a command; empty: the server is not restarted
  // The file that says how far the server's clock is off; empty: that clock is not stepped.
  std::string server_clock;
  // Clocks of leaders and proxies; null: they use the machine's. Must outlive the plan.
  Clocks* clocks = nullptr;
  std::string folder;   // where the logs are
  std::string program;  // this program's path

  std::string scope_of(Choice& choice) const {
    return names.scope(static_cast<int>(choice.number(0, scopes - 1)));
  }
};

// The leaders' processes. One thread. They die with the director, however it ends.
class Crew {
 public:
  Crew(const Plan& plan, History& history)
      : plan_(plan), history_(history), leaders_(static_cast<std::size_t>(plan.leaders)) {}
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void start_all();
  // Resumes and restarts leaders whose time has come; notices those that ended by themselves.
  void tick();
  bool stop_one(Choice& choice, milliseconds low, milliseconds high);
  bool kill_one(Choice& choice);
  // Resumes all leaders and sends them SIGTERM; kills those that do not end within `patience`.
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
    std::chrono::steady_clock::time_point due;  // when to resume or restart it
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

// Causes the faults. tick() runs on the director's thread; a fault that takes time runs on a thread
// of its own.
class Faults {
 public:
  // `relays` can lose and delay answers. `proxies`: those between leaders and server, or null. All
  // must outlive this object.
  Faults(const Plan& plan, Crew& crew, History& history, std::optional<Database> database,
         std::vector<Relay*> relays, Proxies* proxies);
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  void tick();
  // Waits until the current faults are over; then nothing of them is left in the database.
  void finish();
  // Ends all delays and sets clocks right, so that nobody has to wait for them.
  void calm();

  std::map<std::string, int> done() const;  // how often each fault has happened, by name
  std::int64_t pieces_delayed() const, pieces_overtaken() const;  // counted by the relays
  // What was in the streams before it was pruned.
  std::vector<testkit::Row> pruned() const;
  std::vector<Hostage> hostages() const { return holds_.hostages(); }
  // Failures of the server's restart or of stepping its clock: the storm did not test what it
  // should have.
  std::vector<std::string> problems() const;

 private:
  void begin(const std::string& fault);
  // Runs `work` on a thread; false if too many threads are at work.
  bool hand(const std::string& fault, std::function<void(Choice&)> work);
  void cut(Choice& choice);
  void freeze(Choice& choice);
  void prepare(Choice& choice);
  void force(Choice& choice);
  void hand_over(Choice& choice);
  void prune(Choice& choice);
  void restart_server(Choice& choice);
  void step_server_clock(Choice& choice);
  // Returns why it failed; empty if it did not.
  std::string run_restart() const;
  void lose(Choice& choice);
  void half_open(Choice& choice);
  void delay(Choice& choice);
  void cut_relay(Choice& choice, bool front);
  void count(const std::string& fault);
  std::string check_term() const;

  const Plan& plan_;
  Crew& crew_;
  std::optional<Database> database_;
  const std::vector<Relay*> relays_;
  Proxies* const proxies_;
  std::mutex relay_mutex_;  // one loss or cut at a time, as Relay requires
  Log log_;
  Choice choice_;
  std::chrono::steady_clock::time_point next_;
  int serial_ = 0;
  std::atomic<bool> calmed_{false};  // this round is over: a fault that waits gives up
  Holds holds_;

  mutable std::mutex mutex_;  // guards what follows up to hands_
  // When to restart the server next. Empty during a restart, or without restarts.
  std::optional<std::chrono::steady_clock::time_point> next_restart_;
  // The same for the next step of the server's clock.
  std::optional<std::chrono::steady_clock::time_point> next_step_;
  std::vector<std::string> problems_;
  std::map<std::string, int> done_;
  std::map<std::pair<std::string, std::int64_t>, testkit::Row> pruned_;
  struct Hand {
    std::atomic<bool> done{false};
    std::jthread thread;
  };
  std::list<Hand> hands_;  // last, because its threads use the other members
};

}  // namespace termgate::cli::storm
