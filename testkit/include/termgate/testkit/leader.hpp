// Leader runs your own leader code in a thread, which can be paused at named points and resumed:
// what SIGSTOP does to a process, but at exactly the line that you choose.
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
// One thread, the test's, uses Leader. Its body runs in another thread, and must not use the test
// framework's assertions unless the framework allows that. run_until_paused() and finish() rethrow
// what the body throws. A body that is paused inside a transaction keeps its locks: on SQLite the
// whole file, so that nobody else can write; on PostgreSQL a takeover ends its session after the
// eviction grace.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace termgate {
inline namespace v0 {
namespace testkit {

// The body did not reach the point where the test waited for it; the message says where it is
// instead.
class NotReached : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// How the body announces its points. For the body's thread only.
class Points {
 public:
  // Passes the point `name`, or pauses there until resume() if the test has requested that. If the
  // Leader is being destroyed, it throws something that is not a std::exception, to end the body;
  // do not catch it.
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

  // Does not start the body.
  explicit Leader(std::function<void(Points&)> body);
  // Unwinds a body that is paused, or when it reaches its next point. Waits for its end, so it can
  // take as long as a call in the body.
  ~Leader();
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  // The body will pause when it reaches `point` for the `visit`-th time since its start, counted
  // from 1. Throws NotReached if that visit is over, std::invalid_argument for a visit below 1.
  void pause_at(std::string point, int visit = 1);
  // Starts the body if necessary, and waits until it pauses at `point`. Throws NotReached after
  // `patience`, or if the body has paused elsewhere or ended; rethrows what the body threw.
  void run_until_paused(std::string_view point,
                        std::chrono::milliseconds patience = patience_default);
  // Resumes a paused body. Throws NotReached if it is not paused.
  void resume();
  // Starts the body if necessary, and waits for its end. Rethrows what the body threw. Throws
  // NotReached after `patience`, or if the body has paused at a point.
  void finish(std::chrono::milliseconds patience = patience_default);

  bool paused() const;
  // The points that the body has reached, in order.
  std::vector<std::string> visited() const;

 private:
  void start();
  std::shared_ptr<Points::State> state_;
};

}  // namespace testkit
}  // namespace v0
}  // namespace termgate
