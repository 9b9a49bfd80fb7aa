// Leader: a leader of your own code in a thread, which can be paused at named points and resumed:
// what SIGSTOP does to a process, at the very line that you choose.
//
//   Leader stale([&](Points& at) {
//     Lease lease = db.acquire_lease(Scope{"billing"}, 10s);
//     at("leads");
//     db.write(lease.scope(), lease.term(), [&](Transaction& tx) { tx.exec("UPDATE …"); });
//   });
//   stale.pause_at("leads");
//   stale.run_until_paused("leads");   // … another one takes over …
//   stale.resume();
//   CHECK_THROWS_AS(stale.finish(), StaleTerm);
//
// Leader is used by one thread, the test's; its body runs in another one, and must not use the test
// framework's assertions unless the framework allows that. What the body throws comes out of
// run_until_paused() or finish(). A body that is paused inside a transaction keeps what it holds:
// on SQLite that is the file, so that nobody else writes before it goes on; on PostgreSQL a
// takeover ends its session after the eviction grace.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace termgate::inline v0::testkit {

// What was waited for did not come about; the message says where the leader is instead.
class NotReached : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The body's side. Its thread only.
class Points {
 public:
  // Passes the point `name`, or stays there until resume() if the test has asked for that. Throws a
  // type of its own, no std::exception, where the test is over and the leader is being destroyed:
  // let it pass.
  void operator()(std::string_view name);

 private:
  friend class Leader;
  struct State;
  explicit Points(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

class Leader {
 public:
  static constexpr std::chrono::milliseconds patience_default{10'000};

  // Starts nothing yet.
  explicit Leader(std::function<void(Points&)> body);
  // Unwinds a body that is paused, or that comes to a point; waits for its end, and so as long as a
  // call in it takes.
  ~Leader();
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  // The `visit`-th time that the body comes to `point`, from 1 and counted from its start, it will
  // stay there. At any time before.
  void pause_at(std::string point, int visit = 1);
  // Starts the body, if it has not started, and waits until it stays at `point`. Throws NotReached
  // after `patience` or where it stays elsewhere or has ended; what the body threw, if it did.
  void run_until_paused(std::string_view point, std::chrono::milliseconds patience = patience_default);
  // Lets a paused body go on. Throws NotReached where it is not paused.
  void resume();
  // Starts the body, if it has not started, and waits for its end. Throws what the body threw;
  // NotReached after `patience` or where it stays at a point.
  void finish(std::chrono::milliseconds patience = patience_default);

  bool paused() const;
  // The points that it has come to, in order.
  std::vector<std::string> visited() const;

 private:
  void start();
  std::shared_ptr<Points::State> state_;
};

}  // namespace termgate::inline v0::testkit
