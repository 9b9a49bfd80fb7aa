// LeaseWatch: calls back whenever the leader of a scope changes. For followers, routers and
// dashboards; it takes no part in the election.
//
//   LeaseWatch watch(db, Scope{"billing"}, [](const std::optional<LeaseInfo>& leader) { route_to(leader ? leader->endpoint : ""); });
//
// What it reports may be outdated when it arrives: never write because of it. It learns of a
// release at once on PostgreSQL; it reads the lease at least every `poll`, and ten times a second
// while nobody leads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/scope.hpp>

namespace termgate {
inline namespace v0 {

// It has one thread.
class LeaseWatch {
 public:
  // None: nobody holds the lease. Called on the watch's thread with the result of the first read,
  // and then with each change of owner or term. It must not throw. If a read fails, it is repeated
  // after `poll`, without a call.
  using Changed = std::function<void(const std::optional<LeaseInfo>&)>;

  // `poll`: 10 ms to 1 day, else InvalidInput.
  LeaseWatch(Database database, Scope scope, Changed changed,
             std::chrono::milliseconds poll = std::chrono::seconds(1));
  // Waits for the calls of `changed` and of the database that are under way. Must not run on the
  // watch's thread.
  ~LeaseWatch();
  LeaseWatch(const LeaseWatch&) = delete;
  LeaseWatch& operator=(const LeaseWatch&) = delete;

 private:
  void look(const std::stop_token& stop);

  Database database_;
  const Scope scope_;
  const Changed changed_;
  const std::chrono::milliseconds poll_;
  std::mutex mutex_;  // guards hinted_
  std::condition_variable_any woken_;
  bool hinted_ = false;
  std::shared_ptr<void> hints_;
  std::jthread thread_;
};

}  // namespace v0
}  // namespace termgate
