// A body that runs on a thread of its own and stops at named points, so that a test decides the
// order of two leaders. The state is shared by the test's thread and the body's, under one mutex;
// an abandoned body is unwound by an exception from its next point.
#include <termgate/testkit/leader.hpp>

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace termgate {
inline namespace v0 {
namespace testkit {
namespace {

struct Abandoned {};

}  // namespace

struct Points::State {
  std::function<void(Points&)> body;
  mutable std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  std::set<std::pair<std::string, int>> wanted;
  std::map<std::string, int> visits;
  std::vector<std::string> visited;
  std::optional<std::string> paused;
  bool started = false, ended = false, abandoned = false;
  std::exception_ptr thrown;
  std::thread thread;  // used by the test's thread alone

  std::string where() const {
    if (!started) return "it has not started";
    if (ended) return thrown ? "it has thrown" : "it has ended";
    if (paused) return fmt::format("it stays at \"{}\"", *paused);
    return visited.empty() ? "it is running, and has reached no point"
                           : fmt::format("it is running, after \"{}\"", visited.back());
  }
};

void Points::operator()(std::string_view name) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  const std::string point(name);
  state.visited.push_back(point);
  const int visit = ++state.visits[point];
  if (state.wanted.count({point, visit}) != 0 && !state.abandoned) {
    state.paused = point;
    state.changed.notify_all();
    state.changed.wait(lock, [&] { return !state.paused || state.abandoned; });
    state.paused.reset();
  }
  // A destructor of the body may reach this point while the body is unwound; then nothing may be
  // thrown.
  if (state.abandoned && std::uncaught_exceptions() == 0) throw Abandoned{};
}

Leader::Leader(std::function<void(Points&)> body) : state_(std::make_shared<Points::State>()) {
  state_->body = std::move(body);
}

Leader::~Leader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->abandoned = true;
    state_->changed.notify_all();
  }
  // A body that neither ends nor reaches another point blocks the test here. That is the body's
  // mistake, and this makes it visible.
  if (state_->thread.joinable()) state_->thread.join();
}

void Leader::pause_at(std::string point, int visit) {
  const std::lock_guard lock(state_->mutex);
  if (visit < 1) throw std::invalid_argument("pause_at: visits are counted from 1");
  const auto found = state_->visits.find(point);
  if (found != state_->visits.end() && found->second >= visit)
    throw NotReached(fmt::format("visit {} of \"{}\" is over", visit, point));
  state_->wanted.emplace(std::move(point), visit);
}

void Leader::run_until_paused(std::string_view point, std::chrono::milliseconds patience) {
  start();
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, patience, [&] { return state_->ended || state_->paused; });
  if (state_->paused == point) return;
  if (state_->thrown) std::rethrow_exception(state_->thrown);
  throw NotReached(fmt::format("the leader is not at \"{}\": {}", point, state_->where()));
}

void Leader::resume() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->paused)
    throw NotReached(fmt::format("the leader is not paused: {}", state_->where()));
  state_->paused.reset();
  state_->changed.notify_all();
}

void Leader::finish(std::chrono::milliseconds patience) {
  start();
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, patience, [&] { return state_->ended || state_->paused; });
  if (!state_->ended) throw NotReached(fmt::format("the leader does not end: {}", state_->where()));
  if (state_->thrown) std::rethrow_exception(state_->thrown);
}

void Leader::start() {
  const std::lock_guard lock(state_->mutex);
  if (state_->started) return;
  state_->started = true;
  state_->thread = std::thread([state = state_] {
    Points points(state);
    std::exception_ptr thrown;
    try {
      state->body(points);
    } catch (const Abandoned&) {
    } catch (...) { thrown = std::current_exception(); }
    const std::lock_guard held(state->mutex);
    state->thrown = std::move(thrown);
    state->ended = true;
    state->changed.notify_all();
  });
}

bool Leader::paused() const {
  const std::lock_guard lock(state_->mutex);
  return state_->paused.has_value();
}

std::vector<std::string> Leader::visited() const {
  const std::lock_guard lock(state_->mutex);
  return state_->visited;
}

}  // namespace testkit
}  // namespace v0
}  // namespace termgate
