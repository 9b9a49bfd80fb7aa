#include "run/holding.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <termgate/database.hpp>
#include <termgate/detail/source_election.hpp>
#include <termgate/write_id.hpp>

namespace termgate::cli::run {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

class OfDatabase final : public Holding {
 public:
  explicit OfDatabase(HeldLease held) : held_(std::move(held)) {}
  Term term() const override { return held_.term(); }
  const std::string& owner() const override { return held_.owner(); }
  bool lost() const override { return held_.lost().stop_requested(); }
  std::stop_token asked_to_leave() const override { return held_.asked_to_leave(); }
  BootClock::time_point held_until() const override { return held_.held_until(); }
  void release() override { held_.release(); }

 private:
  HeldLease held_;
};

// One thread renews: after a third of the TTL, minus a random part of up to a quarter of that, and
// after a twelfth if a renewal failed. A renewal that hangs reports nothing, so lost() also
// compares held_until() with the clock.
class OfSource final : public Holding {
 public:
  OfSource(LeaseSource& source, Scope scope, std::string owner, const HoldOptions& options,
           detail::SourceElection election)
      : source_(source),
        scope_(std::move(scope)),
        owner_(std::move(owner)),
        ttl_(options.ttl),
        margin_(options.margin.value_or(options.ttl / 5)),
        lease_(std::move(election.lease)),
        until_((election.until - margin_).time_since_epoch().count()),
        thread_([this](const std::stop_token& stop) { renew(stop); }) {}
  ~OfSource() override {
    try {
      release();
    } catch (const std::exception&) {}  // the lease expires by itself
  }
  Term term() const override { return lease_.term; }
  const std::string& owner() const override { return owner_; }
  bool lost() const override { return lost_ || BootClock::now() >= held_until(); }
  BootClock::time_point held_until() const override {
    return BootClock::time_point(BootClock::duration(until_.load()));
  }
  void release() override {
    if (std::exchange(released_, true)) return;
    thread_.request_stop();
    thread_.join();
    if (lost()) return;  // another owner holds it, or it ends within the margin
    source_.release(scope_, lease_, owner_);
  }

 private:
  void renew(const std::stop_token& stop) {
    std::minstd_rand random(std::random_device{}());
    const auto third = [&] {
      return ttl_ / 3 - milliseconds(static_cast<std::int64_t>(
                            random() % static_cast<std::uint64_t>(ttl_.count() / 12)));
    };
    milliseconds pause = third();
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, stop, pause, [] { return false; }) || stop.stop_requested())
          return;
      }
      const auto sent = BootClock::now();
      if (sent >= held_until()) lost_ = true;
      if (lost_) return;
      try {
        if (!source_.renew(scope_, lease_, owner_, ttl_)) {
          lost_ = true;
          return;
        }
        until_ = (sent + ttl_ - margin_).time_since_epoch().count();
        pause = third();
      } catch (const Error&) { pause = ttl_ / 12; }
    }
  }

  LeaseSource& source_;
  const Scope scope_;
  const std::string owner_;
  const milliseconds ttl_, margin_;
  const SourceLease lease_;
  std::atomic<BootClock::rep> until_;
  std::atomic<bool> lost_ = false;
  bool released_ = false;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<Holding> holding_of(HeldLease held) {
  return std::make_unique<OfDatabase>(std::move(held));
}

std::unique_ptr<Holding> hold_from(LeaseSource& source, Database* database, const Scope& scope,
                                   const HoldOptions& options, bool waits) {
  std::minstd_rand random(std::random_device{}());
  const std::string owner = options.owner.empty()
                                ? default_owner() + ":" + WriteId::random().text().substr(0, 8)
                                : options.owner;
  const auto give_up = BootClock::now() + options.wait;
  milliseconds step = 20ms;
  for (;;) {
    if (options.stop.stop_requested())
      throw Cancelled(
          fmt::format("the wait for the lease of scope \"{}\" was ended", scope.name()));
    if (auto won =
            detail::elect_by_source(source, database, scope, owner, options.ttl, options.grace))
      return std::make_unique<OfSource>(source, scope, owner, options, *std::move(won));
    const auto left = std::chrono::duration_cast<milliseconds>(give_up - BootClock::now());
    if (!waits || left <= 0ms) return nullptr;
    const milliseconds pause = std::min(
        left + 1ms, step / 2 + milliseconds(random() % static_cast<std::uint64_t>(step.count())));
    step = std::min<milliseconds>(step * 2, std::min<milliseconds>(options.ttl / 8, 500ms));
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, options.stop, pause, [] { return false; });
  }
}

}  // namespace termgate::cli::run
