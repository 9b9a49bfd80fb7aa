// [F1] [F2] [F3] [F5] Deterministic simulation of leader loops: candidates for one scope on clocks
// of their own, on a network that delays, loses, repeats and reorders, stopped, crashed and cut off
// at any point, in front of layer 1 itself on an SQLite database in memory whose clock is the
// simulation's. A seed is a history, the same on every machine.
//
//   sim_leaders [--seeds N] [--from SEED]     N histories (default 1000; with TERMGATE_TEST_LONG
//                                             100,000) from SEED (default 1); ends at the first
//                                             breach, whose seed is printed with it
//   sim_leaders --seed SEED                   one; TERMGATE_SIM_TELL=1 prints what happens
//   sim_leaders --plant MISTAKE [--seeds N]   with a mistake in what is around LeaderCore; status 0
//                                             if it is found within N histories:
//     from-answer   a lease is counted from when its answer came
//     unknown-done  a renewal without an answer is taken for one that was granted
//     late-loss     leadership that ran out ends only when the next thing happens
//     no-fence      writes meet no check
// Long: one simulated world.
//
// What is judged in every history: what the clients saw and the rows show, by the checker of the
// testkit; that a loop says that it no longer leads before its own window ends, and makes no more
// than calls_a_ttl_max calls within a TTL of its clock. In two of three histories the clocks keep
// to what <termgate/leader_loop.hpp> asks for; there also: no two believe to lead at one moment;
// who could not renew has said so before the database's lease ends; once faults cease somebody
// leads for good within settled_after, and a lease that is given back is taken within taken_after.
// In the others clocks run three times too fast or slow, the database's jumps by hours and leases
// are taken away by force: nothing but the fence is left, and must do.
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <termgate/detail/leader_core.hpp>
#include <termgate/error.hpp>
#include <termgate/testkit/checker.hpp>
#include <termgate/testkit/history.hpp>

#include <termgate/detail/sqlite/layer1.hpp>

using namespace termgate;
using namespace std::chrono_literals;
using detail::LeaderCore;
using testkit::Operation;
using testkit::Outcome;
using How = LeaderCore::Answer::How;
using Time = std::chrono::nanoseconds;  // true time, which nobody in the simulation sees

namespace {

constexpr Time ttl = 1s, margin = ttl / 5, poll = ttl / 4;
// A thread gets its turn this late, at most, where nothing stops it.
constexpr Time lateness_max = 2ms;
constexpr int calls_a_ttl_max = 40;
// What was sent before the faults ceased arrives for another 1.5 TTL, and may be an acquisition
// that nobody waits for: its lease runs out 1.1 TTL later. Then polls and steps back.
constexpr Time settled_after = 4 * ttl;
constexpr Time taken_after = ttl / 2;

enum class Plant { none, from_answer, unknown_done, late_loss, no_fence };
constexpr std::pair<std::string_view, Plant> plants[] = {{"from-answer", Plant::from_answer},
                                                         {"unknown-done", Plant::unknown_done},
                                                         {"late-loss", Plant::late_loss},
                                                         {"no-fence", Plant::no_fence}};

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const bool telling = std::getenv("TERMGATE_SIM_TELL") != nullptr;

// A clock that runs at `ppm` millionths of true time from a moment on. Whole numbers: the same on
// every machine.
class Clockwork {
 public:
  Clockwork(Time local, std::int64_t ppm) : local_(local), ppm_(ppm) {}
  Time at(Time now) const {
    return now <= since_ ? local_ : local_ + Time((now - since_).count() / 1000 * ppm_ / 1000);
  }
  // The first moment at which it shows no less.
  Time when(Time shows) const {
    return shows <= local_ ? since_
                           : since_ + Time(((shows - local_).count() / ppm_ + 1) * 1'000'000);
  }
  void jump(Time now, Time by) { *this = Clockwork(at(now) + by, ppm_, now); }
  void stand_still(Time now, Time until) { *this = Clockwork(at(now), ppm_, until); }

 private:
  Clockwork(Time local, std::int64_t ppm, Time since) : local_(local), ppm_(ppm), since_(since) {}
  Time local_;
  std::int64_t ppm_;
  Time since_{0};
};

// One database for many histories, each of which has a scope of its own in it.
class Boundary {
 public:
  Boundary() {
    if (sqlite3_open(":memory:", &db_) != SQLITE_OK)
      throw std::runtime_error("no database in memory");
    law_ = sqlite::Layer1::register_on(db_);
    law_->setup().install();
  }
  ~Boundary() { sqlite3_close(db_); }
  Boundary(const Boundary&) = delete;
  Boundary& operator=(const Boundary&) = delete;

  sqlite::Layer1& layer1() { return *law_; }

  std::int64_t fence(const std::string& scope) {
    sqlite::Running read = law_->core().use("SELECT term FROM termgate_fences WHERE scope = ?1");
    return read.bind(scope).step() ? read.integer(0) : 0;
  }
  void rows(const std::string& scope, std::vector<testkit::Row>& into) {
    sqlite::Running read = law_->core().use(
        "SELECT sequence_no, scope, term, payload FROM termgate_stream_writes WHERE stream_id = ?1 "
        "ORDER BY sequence_no");
    read.bind(scope);
    while (read.step())
      into.push_back({read.text(1), read.integer(2), read.text(3), scope, read.integer(0)});
  }

 private:
  sqlite3* db_ = nullptr;
  sqlite::Layer1* law_ = nullptr;  // the connection's
};

struct Totals {
  std::size_t elections = 0, committed = 0, refused = 0, unknown = 0, expired = 0, crashes = 0,
              calls = 0;
};

// The chances of one history: the same for one seed on every machine. Owned by its World.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::uint64_t seed() { return random_(); }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  bool chance(std::int64_t of_thousand) { return below(1000) < of_thousand; }
  Time some(Time up_to) { return Time(below(up_to.count() + 1)); }

 private:
  std::mt19937_64 random_;
};

// What the clients of one history saw, for the checker of the testkit. Owned by its World.
class Record {
 public:
  explicit Record(std::string scope) : scope_(std::move(scope)) {}

  // Returns its number.
  std::size_t add(Operation operation) {
    operation.scope = scope_;
    history_.push_back(std::move(operation));
    return history_.size() - 1;
  }
  Operation& at(std::size_t number) { return history_[number]; }
  // A term that came twice by two copies of one answer was issued once.
  void acquired(std::size_t process, const std::string& owner, std::int64_t term, Time invoked,
                Time now) {
    if (!issued_.emplace(term, process).second) return;
    Operation raise = seen(Operation::Kind::raise, owner, term, now);
    raise.acquisition = true;
    raise.invoked = invoked;
    add(std::move(raise));
  }
  // At one moment, by somebody who waits for no answer.
  void saw(Operation::Kind kind, const std::string& client, std::int64_t fence, Time now) {
    add(seen(kind, client, fence, now));
  }
  testkit::Verdict judge(const testkit::State& state) const {
    testkit::Verdict verdict = testkit::check(history_, state);
    if (!verdict.breaches.empty())
      throw Broken(testkit::describe(verdict.breaches.front(), history_));
    return verdict;
  }

 private:
  static Operation seen(Operation::Kind kind, const std::string& client, std::int64_t term,
                        Time now) {
    Operation operation;
    operation.kind = kind;
    operation.term = term;
    operation.invoked = operation.answered = now;
    operation.client = client;
    return operation;
  }

  const std::string scope_;
  std::vector<Operation> history_;
  std::map<std::int64_t, std::size_t> issued_;
};

// One history: processes with their clocks, the network between them and the database, faults, and
// what is judged. Owned by main(), one at a time; it drives the boundary's clock while it lives.
class World {
 public:
  World(std::uint64_t seed, Plant plant, Boundary& boundary, Totals& totals)
      : dice_(seed),
        plant_(plant),
        boundary_(boundary),
        totals_(totals),
        scope_(fmt::format("history {}", seed)),
        id_prefix_(fmt::format("{:08x}-0000-4000-8000-", seed & 0xffffffffU)),
        tame_(dice_.below(3) != 0),
        database_clock_(some_clock(1'700'000'000s)) {
    loss_ = dice_.below(3) == 0 ? 0 : dice_.below(150);
    repeats_ = dice_.below(2) == 0 ? 0 : dice_.below(100);
    slow_ = dice_.below(3) == 0 ? 0 : dice_.below(100);
    refuses_ = dice_.below(2) == 0;
    patience_ = ttl / 5 + dice_.some(2 * ttl / 5);
    faults_until_ = 4 * ttl + dice_.some(4 * ttl);
    boundary_.layer1().core().set_clock([this] { return database_now(); });
    processes_.resize(2 + dice_.below(3));
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      processes_[i].number = i;
      // After a restart some come with the name that they had, others with a new one.
      processes_[i].keeps_name = dice_.below(2) == 0;
      start(processes_[i]);
    }
    for (Process& process : processes_) plan_faults(process);
    plan_database_faults();
  }
  ~World() { boundary_.layer1().core().set_clock({}); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void play() {
    // Who leads when the faults have been over for long enough goes on leading.
    after(faults_until_ + settled_after, [this] {
      if (tame_) settled_ = the_leader("once faults had ceased");
    });
    after(faults_until_ + settled_after + 2 * ttl, [this] {
      if (!tame_) return;
      if (the_leader("two TTLs after faults had ceased").first != settled_.first)
        throw Broken("leadership changed although nothing was wrong");
      Process& leader = processes_[settled_.first];
      stopped_for_good_ = settled_.first;
      happens(leader, leader.life, [this, &leader] { stop(leader); });
    });
    // Its work takes up to a fifth of a TTL to end.
    after(faults_until_ + settled_after + 2 * ttl + ttl / 5 + taken_after, [this] {
      if (tame_) the_leader("soon after a leader had given its lease back");
      over_ = true;
    });
    while (!over_) {
      if (queue_.empty()) throw Broken("nothing will ever happen again");
      // Cheap to move from: it is popped at once.
      Event event = std::move(const_cast<Event&>(queue_.top()));
      queue_.pop();
      now_ = event.at;
      event.what();
      if (plant_ != Plant::no_fence) judge_silence();
    }
    judge_history();
  }

 private:
  struct Event {
    Time at;
    std::uint64_t number;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  struct Process {
    std::size_t number = 0;
    std::string owner;
    bool keeps_name = false;
    int life = 0;  // counts starts; what was to happen in another life does not
    std::unique_ptr<LeaderCore> core;
    Clockwork clock{0ns, 1'000'000};
    Time paused_until{0};
    Time cut_until{0};
    std::uint64_t wake = 0, call = 0;  // the latest; what belongs to an earlier one is void
    std::vector<Time> calls;           // by its clock, the last calls_a_ttl_max
    std::vector<Time> wakes;
    bool stopping = false;
    bool works = false;
    int work = 0;
    std::optional<Term> term;  // of its work
  };

  struct Answer {
    How how = How::unknown;
    std::int64_t number = 0;  // a term, or a place
    std::optional<Time> free_in = {};
    bool stale = false;
  };

  // --- clocks

  // Within 5 % of true time, or anything up to three times too slow or fast.
  Clockwork some_clock(Time from) {
    const Time shows = from + dice_.some(1h);
    return Clockwork(shows,
                     tame_ ? 950'000 + dice_.below(100'001) : 300'000 + dice_.below(2'700'001));
  }
  bool faults() const { return now_ < faults_until_; }

  // --- events

  void after(Time wait, std::function<void()> what) {
    queue_.push({now_ + wait, ++events_, std::move(what)});
  }
  // On a process: when it runs again, if it is stopped; never, if it has crashed.
  void happens(Process& process, int life, std::function<void()> what) {
    if (process.life != life) return;
    if (now_ < process.paused_until)
      return after(process.paused_until - now_,
                   [this, &process, life, what = std::move(what)]() mutable {
                     happens(process, life, std::move(what));
                   });
    what();
  }
  void later(Process& process, Time wait, std::function<void()> what) {
    after(wait, [this, &process, life = process.life, what = std::move(what)]() mutable {
      happens(process, life, std::move(what));
    });
  }
  template <class... Arguments>
  void tell(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    if (telling)
      fmt::print(stderr, "{:>10.3f} ms  {}\n",
                 std::chrono::duration<double, std::milli>(now_).count(),
                 fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  [[noreturn]] void broken(const std::string& what) {
    throw Broken(fmt::format("at {:.3f} ms: {}",
                             std::chrono::duration<double, std::milli>(now_).count(), what));
  }

  static LeaderCore::Moment moment(Time local) {
    return LeaderCore::Moment(std::chrono::duration_cast<LeaderCore::Time>(local));
  }
  std::int64_t database_now() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(database_clock_.at(now_)).count();
  }

  // --- a process

  void start(Process& process) {
    ++process.life;
    process.owner = fmt::format("process {}{}", process.number,
                                process.keeps_name ? "" : fmt::format(" life {}", process.life));
    process.clock = some_clock(0s);
    if (now_ > 0ns) process.clock.stand_still(0ns, now_);
    process.core =
        std::make_unique<LeaderCore>(LeaderCore::Timing{ttl, margin, poll}, dice_.seed());
    process.calls.clear();
    process.wakes.clear();
    process.paused_until = 0ns;
    process.works = process.stopping = false;
    ++process.call;
    tell("{} starts", process.owner);
    later(process, dice_.some(5ms), [this, &process] { resume(process, LeaderCore::Woken{}); });
  }

  void resume(Process& process, const LeaderCore::Event& event) {
    if (!process.core) return;
    const Time local = process.clock.at(now_);
    const auto until = process.core->leads_until();
    const LeaderCore::Action action = process.core->resume(event, moment(local));
    if (action.change && action.change->loss) lost(process, *action.change, local, until);
    if (action.change && !action.change->loss) elected(process, action.change->term);
    if (action.call) call(process, *action.call, local);
    ++process.wake;
    if (action.wake) {
      const Time due = std::max(process.clock.when(action.wake->time_since_epoch()) - now_, 0ns);
      // A loop that does not keep the time while a call is under way.
      if (plant_ == Plant::late_loss && process.core->leads_until() &&
          *action.wake == process.core->leads_until())
        return;
      later(process, due + dice_.some(lateness_max), [this, &process, wake = process.wake] {
        if (process.wake != wake) return;
        count(process, process.wakes, "wakes");
        resume(process, LeaderCore::Woken{});
      });
    }
    if (action.over) {
      tell("{} is over", process.owner);
      process.core.reset();
      if (stopped_for_good_ == process.number) return;
      const Time rest = dice_.some(ttl);
      after(now_ < faults_until_ ? std::min(rest, faults_until_ - now_) : 0ns,
            [this, &process, life = process.life] {
              if (process.life == life) start(process);
            });
    }
  }

  void stop(Process& process) {
    tell("{} has to stop", process.owner);
    process.stopping = true;
    resume(process, LeaderCore::Stop{});
  }

  void elected(Process& process, Term term) {
    tell("{} is elected with term {}", process.owner, term.value());
    ++totals_.elections;
    if (tame_) {
      for (const Process& other : processes_) {
        if (&other != &process && other.core && other.core->leads(moment(other.clock.at(now_))))
          broken(fmt::format("{} and {} both believe to lead", other.owner, process.owner));
      }
    }
    if (process.works)
      broken(
          fmt::format("{} is elected while the work of its last election is at it", process.owner));
    if (process.stopping) broken(fmt::format("{} is elected after it had to stop", process.owner));
    process.works = true;
    process.term = term;
    const int work = ++process.work;
    later(process, dice_.some(ttl / 20), [this, &process, work] { decide(process, work); });
    if (faults() && dice_.chance(100))
      later(process, dice_.some(3 * ttl),
            [this, &process, work] { work_ends(process, work, false); });
  }

  void lost(Process& process, const LeaderCore::LeadershipChange& change, Time local,
            std::optional<LeaderCore::Moment> until) {
    tell("{} no longer leads with term {}: {}", process.owner, change.term.value(),
         static_cast<int>(*change.loss));
    if (*change.loss == LeaderCore::Loss::expired) {
      ++totals_.expired;
      // Unless it was stopped when it should have said so.
      const bool in_time = until && moment(local) - *until <= lateness_max * 2;
      if (tame_ && in_time && database_now() >= granted_until_[change.term.value()])
        broken(
            fmt::format("{} says that it leads no more when the database's lease is over already",
                        process.owner));
    }
    // Work takes its time to end, and some of it looks at no token meanwhile.
    const int work = process.work;
    later(process, dice_.some(ttl / 5),
          [this, &process, work] { work_ends(process, work, false); });
  }

  void work_ends(Process& process, int work, bool stale) {
    if (!process.works || process.work != work) return;
    process.works = false;
    resume(process, LeaderCore::WorkEnded{stale});
  }

  // No loop may keep on believing without a word, nor be in a hurry.
  void judge_silence() {
    for (const Process& process : processes_) {
      if (!process.core || now_ <= process.paused_until) continue;
      const auto until = process.core->leads_until();
      if (until && moment(process.clock.at(now_ - 2 * lateness_max)) > *until)
        broken(fmt::format("{} has not said that its leadership is over", process.owner));
    }
  }
  void count(Process& process, std::vector<Time>& times, const char* what) {
    const Time local = process.clock.at(now_);
    if (times.size() == calls_a_ttl_max) {
      if (local - times.front() < ttl)
        broken(fmt::format("{} {} more than {} times within a TTL", process.owner, what,
                           calls_a_ttl_max));
      times.erase(times.begin());
    }
    times.push_back(local);
  }

  // --- the network

  Time journey() {
    return faults() && dice_.chance(slow_) ? dice_.some(3 * ttl / 2)
                                           : 500us + dice_.some(faults() ? 30ms : 10ms);
  }
  bool cut_off(const Process& process) const {
    return now_ < process.cut_until || now_ < database_down_until_;
  }
  bool gets_lost(const Process& process) {
    return faults() && (dice_.chance(loss_) || cut_off(process));
  }

  // Sends a request, perhaps twice, perhaps not at all; `answered` gets whatever comes back, in any
  // order.
  void send(Process& process, std::function<Answer()> request,
            std::function<void(const Answer&)> answered) {
    if (faults() && cut_off(process) && refuses_)
      return later(process, dice_.some(5ms),
                   [answered = std::move(answered)] { answered({How::unavailable}); });
    const int copies = faults() && dice_.chance(repeats_) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      if (gets_lost(process)) continue;
      after(journey(), [this, &process, life = process.life, request, answered] {
        const Answer answer = request();
        if (dice_.chance(200))
          record_.saw(Operation::Kind::look, "onlooker", boundary_.fence(scope_), now_);
        if (gets_lost(process)) return;
        after(journey(), [this, &process, life, answered, answer] {
          happens(process, life, [answered, answer] { answered(answer); });
        });
      });
    }
  }

  // --- leases

  void call(Process& process, const LeaderCore::Call& call, Time local) {
    count(process, process.calls, "calls");
    if (call.kind == LeaderCore::Call::Kind::release && process.works)
      broken(fmt::format("{} gives the lease back while its work is at it", process.owner));
    ++totals_.calls;
    const std::uint64_t number = ++process.call;
    // The clock is read, and then a thread may stand still before the first byte is sent.
    const Time counted_from = local;
    const bool stalls = faults() && dice_.chance(20);
    later(process, stalls ? dice_.some(3 * ttl / 2) : dice_.some(1ms),
          [this, &process, call, number, counted_from] {
            const Time invoked = now_;
            send(
                process, [this, call, owner = process.owner] { return serve(call, owner); },
                [this, &process, call, number, counted_from, invoked](const Answer& answer) {
                  // Layer 1 issued it, whether anybody waits for it any more or not.
                  if (call.kind == LeaderCore::Call::Kind::acquire && answer.how == How::granted)
                    record_.acquired(process.number, process.owner, answer.number, invoked, now_);
                  answer_call(process, call, number, counted_from, answer);
                });
          });
    later(process, patience_, [this, &process, call, number, counted_from] {
      Answer nothing;
      if (plant_ == Plant::unknown_done && call.kind == LeaderCore::Call::Kind::renew)
        nothing.how = How::granted;
      answer_call(process, call, number, counted_from, nothing);
    });
  }

  void answer_call(Process& process, const LeaderCore::Call& call, std::uint64_t number,
                   Time counted_from, const Answer& answer) {
    if (process.call != number || !process.core) return;
    ++process.call;
    LeaderCore::Answer to_core{answer.how};
    if (answer.how == How::granted) {
      to_core.until =
          moment((plant_ == Plant::from_answer ? process.clock.at(now_) : counted_from) + ttl);
      if (call.kind == LeaderCore::Call::Kind::acquire) to_core.term = Term(answer.number);
    }
    to_core.free_in = answer.free_in;
    resume(process, to_core);
  }

  Answer serve(const LeaderCore::Call& call, const std::string& owner) {
    using Kind = LeaderCore::Call::Kind;
    sqlite::Layer1& layer1 = boundary_.layer1();
    constexpr std::int64_t ttl_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(ttl).count();
    const Scope scope(scope_);
    switch (call.kind) {
      case Kind::acquire: {
        const auto result = layer1.leases().acquire(scope, owner, ttl_ms, std::nullopt);
        tell("database: {} {} term {}", owner, result.acquired ? "acquires" : "is refused by",
             result.term);
        if (!result.acquired)
          return {How::refused, 0, std::chrono::milliseconds(result.remaining_ms)};
        granted_until_[result.term] = result.expires_at;
        return {How::granted, result.term};
      }
      case Kind::renew: {
        const auto result = layer1.leases().renew(scope, owner, *call.term, ttl_ms);
        tell("database: {} {} term {}", owner, result.renewed ? "renews" : "cannot renew",
             call.term->value());
        if (result.renewed) granted_until_[call.term->value()] = *result.expires_at;
        return {result.renewed ? How::granted : How::refused};
      }
      case Kind::release: break;
    }
    const bool released = layer1.leases().release(scope, owner, *call.term);
    tell("database: {} {} term {}", owner, released ? "releases" : "does not release",
         call.term->value());
    return {released ? How::granted : How::refused};
  }

  // --- writes

  struct Write {
    std::string id;
    Term term;
    int rows;
    std::string client;
  };

  // A worker looks whether it leads, and writes a little later, or a great deal.
  void decide(Process& process, int work) {
    if (!process.works || process.work != work || !process.core) return;
    later(process, 50ms + dice_.some(ttl / 4), [this, &process, work] { decide(process, work); });
    const bool looks = dice_.below(5) != 0;
    if (looks && !process.core->leads(moment(process.clock.at(now_)))) return;
    const Write write{fmt::format("{}{:012x}", id_prefix_, ++writes_), *process.term,
                      dice_.chance(250) ? 3 : 1, process.owner};
    later(process, faults() && dice_.chance(100) ? dice_.some(3 * ttl) : dice_.some(5ms),
          [this, &process, work, write] { attempt(process, work, write, 1); });
  }

  void attempt(Process& process, int work, const Write& write, int tries) {
    Operation operation;
    operation.term = write.term.value();
    operation.id = write.id;
    operation.rows = write.rows;
    operation.outcome = Outcome::unknown;
    operation.invoked = now_;
    operation.client = write.client;
    const std::size_t at = record_.add(operation);
    const auto waiting = std::make_shared<bool>(true);
    send(
        process, [this, write] { return append(write); },
        [this, &process, work, write, at, waiting, tries](const Answer& answer) {
          if (!std::exchange(*waiting, false)) return;
          Operation& done = record_.at(at);
          done.answered = now_;
          done.outcome = answer.how == How::granted ? Outcome::committed : Outcome::refused;
          if (answer.how == How::unavailable) return again(process, work, write, tries);
          if (answer.how == How::granted) done.place = answer.number;
          if (answer.stale && process.term == write.term) work_ends(process, work, true);
        });
    later(process, patience_, [this, &process, work, write, waiting, tries] {
      if (std::exchange(*waiting, false)) again(process, work, write, tries);
    });
  }
  // With the same id and the same term, whoever leads by now.
  void again(Process& process, int work, const Write& write, int tries) {
    if (tries < 3)
      later(process, dice_.some(ttl / 5),
            [this, &process, work, write, tries] { attempt(process, work, write, tries + 1); });
  }

  Answer append(const Write& write) {
    if (plant_ == Plant::no_fence) {
      const auto found = std::find_if(unfenced_.begin(), unfenced_.end(),
                                      [&](const testkit::Row& row) { return row.id == write.id; });
      if (found != unfenced_.end()) return {How::granted, *found->place + write.rows - 1};
      for (int i = 0; i < write.rows; ++i)
        unfenced_.push_back({scope_, write.term.value(), write.id, scope_,
                             static_cast<std::int64_t>(unfenced_.size()) + 1});
      return {How::granted, static_cast<std::int64_t>(unfenced_.size())};
    }
    std::vector<sqlite::Streams::Write> writes;
    // The rows of one write carry its id as payload; each has an id of its own for layer 1.
    for (int i = 0; i < write.rows; ++i) {
      std::string id = write.id;
      id[9] = static_cast<char>('0' + i);
      writes.push_back({write.id, id});
    }
    try {
      const std::int64_t place = boundary_.layer1().streams().append(
          Stream(scope_), write.term, writes, std::nullopt, Scope(scope_));
      tell("database: {} writes {} with term {}", write.client, write.id, write.term.value());
      return {How::granted, place};
    } catch (const StaleTerm&) {
      tell("database: {} is refused with term {}", write.client, write.term.value());
      return {How::refused, 0, {}, true};
    }
  }

  // --- faults, all of which end when faults() does

  void plan_faults(Process& process) {
    for (std::int64_t left = dice_.below(5); left > 0; --left) {
      const Time at = dice_.some(faults_until_);
      const std::int64_t kind = dice_.below(10);
      const Time lasts =
          std::min(kind < 5 ? dice_.some(3 * ttl) : dice_.some(2 * ttl), faults_until_ - at);
      after(at, [this, &process, kind, lasts] {
        if (kind < 5) {
          tell("{} is stopped for {} ms", process.owner, lasts / 1ms);
          if (now_ + lasts > process.paused_until) {
            // A machine that is suspended, and its clock with it.
            if (!tame_ && kind == 0) process.clock.stand_still(now_, now_ + lasts);
            process.paused_until = now_ + lasts;
          }
        } else if (kind < 7) {
          tell("{} crashes", process.owner);
          ++totals_.crashes;
          const int life = ++process.life;
          process.core.reset();
          process.works = false;
          after(lasts, [this, &process, life] {
            if (process.life == life) start(process);
          });
        } else if (kind < 9) {
          tell("{} is cut off for {} ms", process.owner, lasts / 1ms);
          process.cut_until = std::max(process.cut_until, now_ + lasts);
        } else {
          happens(process, process.life, [this, &process] { stop(process); });
        }
      });
    }
  }

  void plan_database_faults() {
    if (dice_.below(3) == 0) {
      const Time at = dice_.some(faults_until_);
      const Time lasts = std::min(dice_.some(2 * ttl), faults_until_ - at);
      after(at, [this, lasts] {
        tell("the database is away for {} ms", lasts / 1ms);
        database_down_until_ = now_ + lasts;
      });
    }
    if (tame_) {
      // A tenth of a TTL within one, either way.
      for (Time at = dice_.some(ttl); at < faults_until_; at += ttl * 3 / 2)
        after(at, [this, by = dice_.some(ttl / 5) - ttl / 10] { database_clock_.jump(now_, by); });
      return;
    }
    for (std::int64_t left = dice_.below(4); left > 0; --left) {
      // One draw a statement: the order of arguments is each compiler's own.
      const Time at = dice_.some(faults_until_);
      after(at,
            [this, by = dice_.below(3) == 0 ? dice_.some(2h) - 1h : dice_.some(6 * ttl) - 3 * ttl] {
              database_clock_.jump(now_, by);
            });
    }
    for (std::int64_t left = dice_.below(3); left > 0; --left) {
      after(dice_.some(faults_until_), [this] {
        if (!boundary_.layer1().leases().force_release(Scope(scope_), "operator", "simulation"))
          return;
        tell("the lease is taken away by force");
        record_.saw(Operation::Kind::raise, "operator", boundary_.fence(scope_), now_);
      });
    }
  }

  // --- the verdict

  // Who, and with which term; exactly one.
  std::pair<std::size_t, std::int64_t> the_leader(const char* when) {
    std::optional<std::pair<std::size_t, std::int64_t>> found;
    for (const Process& process : processes_) {
      if (!process.core) continue;
      const auto term = process.core->leads(moment(process.clock.at(now_)));
      if (!term) continue;
      if (found) broken(fmt::format("two lead {}", when));
      found.emplace(process.number, term->value());
    }
    if (!found) broken(fmt::format("nobody leads {}", when));
    return *found;
  }

  void judge_history() {
    testkit::State state;
    if (plant_ == Plant::no_fence) state.rows = unfenced_;
    else boundary_.rows(scope_, state.rows);
    if (plant_ != Plant::no_fence) state.fences[scope_] = boundary_.fence(scope_);
    else
      for (const testkit::Row& row : state.rows)
        state.fences[scope_] = std::max({state.fences[scope_], row.term, boundary_.fence(scope_)});
    const testkit::Verdict verdict = record_.judge(state);
    totals_.committed += verdict.committed;
    totals_.refused += verdict.refused;
    totals_.unknown += verdict.unknown_committed + verdict.unknown_absent;
  }

  Dice dice_;
  const Plant plant_;
  Boundary& boundary_;
  Totals& totals_;
  const std::string scope_;
  const std::string id_prefix_;  // of write ids
  const bool tame_;
  Clockwork database_clock_;
  std::int64_t loss_ = 0, repeats_ = 0, slow_ = 0;  // of a thousand
  bool refuses_ = false;  // what is cut off is told at once, not by silence
  Time patience_{}, faults_until_{}, now_{}, database_down_until_{};
  std::priority_queue<Event> queue_;
  std::uint64_t events_ = 0, writes_ = 0;
  std::vector<Process> processes_;
  Record record_{scope_};
  std::map<std::int64_t, std::int64_t> granted_until_;  // by term; the database's milliseconds
  std::vector<testkit::Row> unfenced_;
  std::pair<std::size_t, std::int64_t> settled_{};
  std::optional<std::size_t> stopped_for_good_;
  bool over_ = false;
};

}  // namespace

int main(int count, char** words) {
  std::uint64_t seeds = 1000, from = 1;
  Plant plant = Plant::none;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view word = words[i];
    const auto value = std::strtoull(words[i + 1], nullptr, 10);
    const auto* named = std::find_if(std::begin(plants), std::end(plants),
                                     [&](const auto& one) { return one.first == words[i + 1]; });
    if (word == "--seeds") seeds = value;
    else if (word == "--from") from = value;
    else if (word == "--seed") from = value, seeds = 1;
    else if (word == "--plant" && named != std::end(plants)) plant = named->second;
    else return 2;
  }
  if (const char* long_run = std::getenv("TERMGATE_TEST_LONG"); long_run != nullptr && count == 1)
    seeds = 100'000;
  Totals totals;
  std::unique_ptr<Boundary> boundary;
  for (std::uint64_t seed = from; seed < from + seeds; ++seed) {
    // A new one now and then, so that it stays small.
    if (!boundary || seed % 200 == 0) boundary = std::make_unique<Boundary>();
    try {
      World(seed, plant, *boundary, totals).play();
    } catch (const std::exception& breach) {
      fmt::print(plant == Plant::none ? stderr : stdout, "{}\nseed {}: sim_leaders --seed {}\n",
                 breach.what(), seed, seed);
      return plant == Plant::none ? 1 : 0;
    }
  }
  fmt::print(
      "{} histories: {} elections, {} calls of loops, {} leaders that ran out of time, {} crashes; "
      "{} writes committed, {} refused, {} "
      "unknown; no breach\n",
      seeds, totals.elections, totals.calls, totals.expired, totals.crashes, totals.committed,
      totals.refused, totals.unknown);
  // A simulation in which nothing happens proves nothing.
  return plant == Plant::none && totals.committed > seeds &&
                 (seeds < 100 || (totals.refused > 0 && totals.unknown > 0 && totals.expired > 0))
             ? 0
             : 1;
}
