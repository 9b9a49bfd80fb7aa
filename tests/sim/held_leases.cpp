// [F1] [F2] Deterministic simulation of processes that hold many leases each: HeldLeasesCore on
// clocks of its own, a network that delays and loses, processes stopped, crashed and cut off, in
// front of layer 1 itself on an SQLite database in memory whose clock is the simulation's. A seed
// is a history, the same on every machine.
//
//   sim_held_leases [--seeds N] [--from SEED]     N histories (default 300; with TERMGATE_TEST_LONG 30,000)
//   sim_held_leases --plant MISTAKE [--seeds N]   with a mistake in what stands around the core; status 0 if it is found:
//     from-answer   a lease is counted from when its answer came
//     unknown-done  a renewal without an answer is taken for one that was granted
//
// What is judged: no two processes believe in one scope's lease at one moment, but for a while
// after a forced release; where nothing is wrong no lease is lost, none is renewed more than twelve
// times a TTL, and statements are shared.
#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <termgate/detail/held_leases_core.hpp>
#include <termgate/detail/sqlite/layer1.hpp>

using namespace termgate;
using namespace std::chrono_literals;
using detail::HeldLeasesCore;
using Time = std::chrono::nanoseconds;

namespace {

constexpr Time ttl = 1s, margin = ttl / 5, every = ttl / 3, lateness_max = 2ms;
enum class Plant { none, from_answer, unknown_done };

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Boundary {
  Boundary() {
    if (sqlite3_open(":memory:", &db) != SQLITE_OK)
      throw std::runtime_error("no database in memory");
    layer1 = sqlite::Layer1::register_on(db);
    layer1->setup().install();
  }
  ~Boundary() { sqlite3_close(db); }
  Boundary(const Boundary&) = delete;
  Boundary& operator=(const Boundary&) = delete;
  sqlite3* db = nullptr;
  sqlite::Layer1* layer1 = nullptr;
};

struct Totals {
  std::size_t taken = 0, lost = 0, expired = 0, renewals = 0, statements = 0, shared = 0;
};

class World {
 public:
  World(std::uint64_t seed, Plant plant, Boundary& boundary, Totals& totals)
      : random_(seed),
        plant_(plant),
        layer1_(*boundary.layer1),
        totals_(totals),
        prefix_(fmt::format("history {} ", seed)),
        calm_(below(4) == 0 && plant == Plant::none) {
    scopes_ = static_cast<std::size_t>(3 + below(20));
    loss_ = calm_ || below(3) == 0 ? 0 : below(200);
    delay_ = calm_ ? ttl / 100 : ttl / 200 + some(ttl / 2);
    layer1_.core().set_clock([this] {
      return std::chrono::duration_cast<std::chrono::milliseconds>(now_).count() +
             1'700'000'000'000;
    });
    processes_.resize(static_cast<std::size_t>(calm_ ? 1 : 2 + below(2)));
    for (std::size_t i = 0; i < processes_.size(); ++i) start(processes_[i], i);
    for (int i = 0; !calm_ && i < 3; ++i) {
      after(some(10 * ttl), [this] {
        const auto number = static_cast<std::size_t>(below(static_cast<std::int64_t>(scopes_)));
        forced_[number] = now_;
        layer1_.leases().force_release(Scope(scope(number)), "operator", "a test");
      });
    }
  }
  ~World() { layer1_.core().set_clock({}); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void play() {
    while (!queue_.empty()) {
      Event event = std::move(const_cast<Event&>(queue_.top()));  // it is popped at once
      queue_.pop();
      now_ = event.at;
      if (now_ > 12 * ttl) break;
      event.what();
    }
    if (calm_ && (totals_.lost != 0 || totals_.expired != 0) && lost_here_ > 0)
      throw Broken("a lease was lost although nothing was wrong");
    if (calm_ && renewals_here_ > scopes_ * 12 * 12)
      throw Broken(fmt::format("{} renewals of {} leases in 12 TTLs", renewals_here_, scopes_));
    if (calm_ && scopes_ >= 10 && statements_here_ * 2 > renewals_here_)
      throw Broken(fmt::format("{} statements for {} renewals", statements_here_, renewals_here_));
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
  struct Mine {
    std::size_t scope;
    std::int64_t term;
    HeldLeasesCore::Moment end;  // of the belief, by its clock, when it was last looked at
  };
  struct Process {
    std::size_t number = 0;
    int life = 0;
    std::string owner;
    std::int64_t ppm = 1'000'000;
    Time paused_until{0}, cut_until{0};
    std::unique_ptr<HeldLeasesCore> core;
    std::map<HeldLeasesCore::Id, Mine> leases;
    std::set<std::size_t> asking;
    HeldLeasesCore::Id last = 0;
    std::uint64_t wake = 0;
  };

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  Time some(Time up_to) { return Time(below(up_to.count() + 1)); }
  void after(Time wait, std::function<void()> what) {
    queue_.push({now_ + wait, ++events_, std::move(what)});
  }
  void later(Process& process, Time wait, std::function<void()> what) {
    after(wait, [this, &process, life = process.life, what = std::move(what)]() mutable {
      if (process.life != life) return;
      if (now_ < process.paused_until)
        return later(process, process.paused_until - now_, std::move(what));
      what();
    });
  }
  // Within 5 % of true time, which is what margins are for.
  HeldLeasesCore::Moment local(const Process& process) const {
    return HeldLeasesCore::Moment(Time(now_.count() / 1000 * process.ppm / 1000) + 1h);
  }
  std::string scope(std::size_t number) const { return prefix_ + std::to_string(number); }

  void start(Process& process, std::size_t number) {
    ++process.life;
    process.number = number;
    process.owner = fmt::format("process {} life {}", number, process.life);
    process.ppm = 950'000 + below(100'001);
    process.core = std::make_unique<HeldLeasesCore>(random_());
    process.leases.clear();
    process.asking.clear();
    process.paused_until = 0ns;
    if (!calm_ && below(3) == 0) {
      after(some(6 * ttl), [this, &process, life = process.life] {
        if (process.life == life) process.paused_until = now_ + some(2 * ttl);
      });
    }
    if (!calm_ && below(3) == 0) {
      after(some(8 * ttl), [this, &process, life = process.life] {
        if (process.life == life) process.cut_until = now_ + some(2 * ttl);
      });
    }
    if (!calm_ && below(3) == 0) {
      after(some(10 * ttl), [this, &process, life = process.life] {
        if (process.life == life) start(process, process.number);
      });
    }
    later(process, some(10ms), [this, &process] { look(process); });
  }

  bool drops(const Process& process) { return now_ < process.cut_until || below(1000) < loss_; }

  // Tries to take what it does not hold.
  void look(Process& process) {
    for (std::size_t number = 0; number < scopes_; ++number) {
      bool mine = process.asking.contains(number);
      for (const auto& [id, lease] : process.leases) mine = mine || lease.scope == number;
      if (!mine && (calm_ || below(3) == 0)) acquire(process, number);
    }
    later(process, ttl / 5 + some(ttl / 5), [this, &process] { look(process); });
  }

  void acquire(Process& process, std::size_t number) {
    process.asking.insert(number);
    const auto sent = local(process);
    const bool lost_there = drops(process), lost_back = drops(process);
    after(some(delay_), [this, &process, life = process.life, number, sent, lost_there, lost_back] {
      std::optional<std::int64_t> term;
      if (!lost_there) {
        const auto got = layer1_.leases().acquire(
            Scope(scope(number)), fmt::format("{} {}", owner_of(process, life), number), 1000,
            std::nullopt);
        if (got.acquired) term = got.term;
      }
      const Time back = lost_there || lost_back ? ttl : some(delay_);
      if (process.life != life) return;
      later(process, back, [this, &process, number, sent, term, failed = lost_there || lost_back] {
        process.asking.erase(number);
        if (failed || !term) return;
        const HeldLeasesCore::Id id = ++process.last;
        const auto from = plant_ == Plant::from_answer ? local(process) : sent;
        if (!process.core->add(id, {ttl, margin, every}, from + ttl, local(process))) return;
        ++totals_.taken;
        process.leases[id] = {number, *term, *process.core->until(id)};
        judge(process, number);
        resume(process);
      });
    });
  }
  static std::string owner_of(const Process& process, int life) {
    return fmt::format("process {} life {}", process.number, life);
  }

  void judge(const Process& process, std::size_t number) {
    // Its holder learns of that with its next renewal that gets through, and believes in its lease
    // to the end where none does.
    if (forced_.contains(number) && now_ - forced_[number] < 3 * ttl / 2) return;
    for (const Process& other : processes_) {
      if (&other == &process) continue;
      for (const auto& [id, lease] : other.leases) {
        const auto until = other.core->until(id);
        if (lease.scope == number && until && local(other) < *until)
          throw Broken(fmt::format("{} and {} both believe in scope {}", process.owner, other.owner,
                                   number));
      }
    }
  }

  void resume(Process& process) {
    const auto action = process.core->resume(local(process));
    for (const auto& [id, loss] : action.over) {
      ++(loss == HeldLeasesCore::Loss::lost ? totals_.lost : totals_.expired);
      ++lost_here_;
      process.leases.erase(id);
    }
    if (!action.renew.empty()) renew(process, action.renew);
    if (action.wake) {
      const Time wait = std::max(
          Time((*action.wake - local(process)).count() / 1000 * 1'000'000 / process.ppm * 1000),
          0ns);
      later(process, wait + 1us + some(lateness_max), [this, &process, wake = ++process.wake] {
        if (process.wake == wake) resume(process);
      });
    }
  }

  void renew(Process& process, const std::vector<HeldLeasesCore::Id>& ids) {
    ++totals_.statements;
    ++statements_here_;
    totals_.renewals += ids.size();
    renewals_here_ += ids.size();
    totals_.shared += ids.size() > 1;
    std::string json = "[";
    for (const auto id : ids) {
      const Mine& lease = process.leases.at(id);
      json += fmt::format("{}{{\"scope\":\"{}\",\"owner\":\"{} {}\",\"term\":{},\"ttl_ms\":1000}}",
                          json.size() > 1 ? "," : "", scope(lease.scope), process.owner,
                          lease.scope, lease.term);
    }
    json += "]";
    const auto sent = local(process);
    const bool lost_there = drops(process), lost_back = drops(process);
    after(some(delay_), [this, &process, life = process.life, json, sent, lost_there, lost_back] {
      std::vector<HeldLeasesCore::Outcome> outcomes;
      if (!lost_there) {
        for (const std::string_view word : layer1_.leases().renew_all(json))
          outcomes.push_back(word == "renewed" ? HeldLeasesCore::Outcome::renewed
                                               : HeldLeasesCore::Outcome::lost);
      }
      if (process.life != life) return;
      const bool failed = lost_there || lost_back;
      later(process, failed ? ttl / 3 : some(delay_),
            [this, &process, outcomes, sent, failed]() mutable {
              if (failed && plant_ == Plant::unknown_done && outcomes.empty())
                outcomes.assign(in_flight_[process.number], HeldLeasesCore::Outcome::renewed);
              else if (failed) outcomes.clear();
              process.core->answered(outcomes, plant_ == Plant::from_answer ? local(process) : sent,
                                     local(process));
              resume(process);
            });
    });
    in_flight_[process.number] = ids.size();
  }

  std::mt19937_64 random_;
  const Plant plant_;
  sqlite::Layer1& layer1_;
  Totals& totals_;
  const std::string prefix_;
  const bool calm_;
  std::size_t scopes_;
  std::int64_t loss_;
  Time delay_;
  Time now_{0};
  std::uint64_t events_ = 0;
  std::priority_queue<Event> queue_;
  std::vector<Process> processes_;
  std::map<std::size_t, std::size_t> in_flight_;
  std::map<std::size_t, Time> forced_;
  std::size_t lost_here_ = 0, renewals_here_ = 0, statements_here_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t seeds = std::getenv("TERMGATE_TEST_LONG") != nullptr ? 30'000 : 300, from = 1;
  Plant plant = Plant::none;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i], value = argv[i + 1];
    if (option == "--seeds") seeds = std::strtoull(argv[i + 1], nullptr, 10);
    else if (option == "--from") from = std::strtoull(argv[i + 1], nullptr, 10);
    else if (option == "--plant" && value == "from-answer") plant = Plant::from_answer;
    else if (option == "--plant" && value == "unknown-done") plant = Plant::unknown_done;
    else return 2;
  }
  Totals totals;
  auto boundary = std::make_unique<Boundary>();
  for (std::uint64_t seed = from; seed < from + seeds; ++seed) {
    // Fewer rows, faster histories.
    if (seed % 100 == 0) boundary = std::make_unique<Boundary>();
    try {
      World(seed, plant, *boundary, totals).play();
    } catch (const std::exception& broken) {
      fmt::print("seed {}: {}\n", seed, broken.what());
      return plant == Plant::none ? 1 : 0;
    }
  }
  fmt::print(
      "{} histories: {} leases taken, {} lost, {} expired; {} renewals in {} statements, {} of "
      "them shared\n",
      seeds, totals.taken, totals.lost, totals.expired, totals.renewals, totals.statements,
      totals.shared);
  return plant == Plant::none && totals.expired > 0 && totals.lost > 0 ? 0 : 1;
}
