// What a leader loop does next, step by step: each test tells LeaderCore what has happened and
// when. Histories by the thousand, on clocks and networks that are wrong, are
// tests/sim/leaders.cpp's.
#include <catch2/catch.hpp>

#include <algorithm>
#include <set>
#include <vector>

#include <termgate/detail/leader_core.hpp>

using namespace termgate;
using namespace std::chrono_literals;
using detail::LeaderCore;
using Action = LeaderCore::Action;
using Answer = LeaderCore::Answer;
using Call = LeaderCore::Call;
using How = LeaderCore::Answer::How;
using Loss = LeaderCore::Loss;
using Moment = LeaderCore::Moment;

namespace {

constexpr LeaderCore::Timing timing{1200ms, 200ms, 400ms};
const Moment start{1h};

bool calls(const Action& action, Call::Kind kind, std::optional<std::int64_t> term = {}) {
  return action.call && action.call->kind == kind &&
         action.call->term.has_value() == term.has_value() &&
         (!term || action.call->term->value() == *term);
}
bool elected(const Action& action, std::int64_t term) {
  return action.change && !action.change->loss && action.change->term.value() == term;
}
bool lost(const Action& action, Loss loss, std::int64_t term) {
  return action.change && action.change->loss == loss && action.change->term.value() == term;
}
bool silent(const Action& action) { return !action.change && !action.call && !action.over; }
// As if the request had been sent at `sent`.
Answer granted(Moment sent, std::optional<std::int64_t> term = {}) {
  return {How::granted, term ? std::optional(Term(*term)) : std::nullopt, sent + timing.ttl};
}

// Elected with `term`: sent at `start`, answered 10 ms later.
LeaderCore leader(std::int64_t term, std::uint64_t seed = 1) {
  LeaderCore core(timing, seed);
  REQUIRE(calls(core.resume(LeaderCore::Woken{}, start), Call::Kind::acquire));
  REQUIRE(elected(core.resume(granted(start, term), start + 10ms), term));
  return core;
}

}  // namespace

TEST_CASE("leader core: asks at once and is elected with the term that it got",
          "[fencing][leader]") {
  LeaderCore core(timing, 1);
  const Action first = core.resume(LeaderCore::Woken{}, start);
  CHECK(calls(first, Call::Kind::acquire));
  CHECK_FALSE(first.wake);
  CHECK_FALSE(core.leads(start));
  const Action second = core.resume(granted(start, 7), start + 10ms);
  CHECK(elected(second, 7));
  CHECK(core.leads(start + 10ms) == Term(7));
  // A third of the TTL from before the request was sent, or up to a quarter earlier.
  CHECK(second.wake > start + 300ms);
  CHECK(second.wake <= start + 400ms);
  std::set<std::int64_t> others;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    LeaderCore other(timing, seed);
    other.resume(LeaderCore::Woken{}, start);
    others.insert((*other.resume(granted(start, 7), start + 10ms).wake - start).count());
  }
  CHECK(others.size() == 20);
}

TEST_CASE("leader core: believes until the margin and not a moment longer", "[fencing][leader]") {
  LeaderCore core = leader(7);
  CHECK(core.leads(start + 999ms) == Term(7));
  CHECK_FALSE(core.leads(start + 1000ms));
  // A renewal is under way and hangs; the end is told all the same.
  const Action renews = core.resume(LeaderCore::Woken{}, start + 400ms);
  CHECK(calls(renews, Call::Kind::renew, 7));
  CHECK(renews.wake == start + 1000ms);
  CHECK(silent(core.resume(LeaderCore::Woken{}, start + 999ms)));
  const Action end = core.resume(LeaderCore::Woken{}, start + 1000ms);
  CHECK(lost(end, Loss::expired, 7));
  CHECK_FALSE(end.call);
}

TEST_CASE("leader core: a renewal moves the end by when it was sent", "[fencing][leader]") {
  LeaderCore core = leader(7);
  CHECK(calls(core.resume(LeaderCore::Woken{}, start + 400ms), Call::Kind::renew, 7));
  const Action renewed = core.resume(granted(start + 401ms), start + 900ms);
  CHECK(silent(renewed));
  CHECK(core.leads_until() == start + 401ms + 1000ms);
  // The next one is due, but not in the same breath.
  CHECK(renewed.wake == start + 900ms + timing.ttl / (2 * LeaderCore::retries_a_ttl));
}

TEST_CASE(
    "leader core: who is asked to leave leads on until its work has ended and gives the lease back",
    "[fencing][leader]") {
  LeaderCore core = leader(7);
  CHECK(calls(core.resume(LeaderCore::Woken{}, start + 400ms), Call::Kind::renew, 7));
  Answer asked = granted(start + 400ms);
  asked.leave = true;
  const Action first = core.resume(asked, start + 410ms);
  CHECK(first.leave);
  CHECK(silent(first));
  // It renews as before, and tells its work once.
  CHECK(calls(core.resume(LeaderCore::Woken{}, start + 800ms), Call::Kind::renew, 7));
  asked.until = start + 800ms + timing.ttl;
  CHECK_FALSE(core.resume(asked, start + 810ms).leave);
  CHECK(core.leads(start + 1700ms) == Term(7));
  const Action ended = core.resume(LeaderCore::WorkEnded{false}, start + 900ms);
  CHECK(lost(ended, Loss::handed_over, 7));
  CHECK(calls(ended, Call::Kind::release, 7));
  const Action waits = core.resume(granted(start + 900ms), start + 901ms);
  CHECK(silent(waits));
  CHECK(waits.wake >= start + 900ms + timing.poll);
  // The database lets others go first, so a hint is followed: it may be of the next hand-over.
  CHECK(calls(core.resume(LeaderCore::Hint{}, start + 902ms), Call::Kind::acquire));
}

TEST_CASE("leader core: hints of its own release do not bring it back before others",
          "[fencing][leader]") {
  LeaderCore core = leader(7);
  CHECK(calls(core.resume(LeaderCore::WorkEnded{false}, start + 100ms), Call::Kind::release, 7));
  core.resume(granted(start + 100ms), start + 101ms);
  const Action waits = core.resume(LeaderCore::Hint{}, start + 102ms);
  CHECK(silent(waits));
  CHECK(waits.wake >= start + 100ms + timing.poll);
}

TEST_CASE("leader core: a hint is followed at once and a hundred of them are not a hundred calls",
          "[fencing][leader]") {
  LeaderCore core = leader(7);
  CHECK(calls(core.resume(LeaderCore::Hint{}, start + 20ms), Call::Kind::renew, 7));
  // What is under way may have been answered before what this one is of.
  CHECK(silent(core.resume(LeaderCore::Hint{}, start + 21ms)));
  Action action = core.resume(granted(start + 20ms), start + 22ms);
  CHECK(silent(action));
  CHECK(action.wake == start + 20ms + LeaderCore::hint_pause);
  int renewals = 0;
  for (int i = 23; i < 223; ++i) {
    action = core.resume(LeaderCore::Hint{}, start + std::chrono::milliseconds(i));
    if (!action.call) continue;
    ++renewals;
    core.resume(granted(start + std::chrono::milliseconds(i)),
                start + std::chrono::milliseconds(i));
  }
  CHECK(renewals >= 15);
  CHECK(renewals <= 20);
}

TEST_CASE("leader core: a standby tries at once when it hears of a release", "[fencing][leader]") {
  LeaderCore core(timing, 1);
  REQUIRE(calls(core.resume(LeaderCore::Woken{}, start), Call::Kind::acquire));
  REQUIRE(silent(core.resume(Answer{How::refused, {}, {}, 1h}, start + 5ms)));
  CHECK(calls(core.resume(LeaderCore::Hint{}, start + 50ms), Call::Kind::acquire));
}

TEST_CASE("leader core: a renewal that is refused ends it at once and gives nothing back",
          "[fencing][leader]") {
  LeaderCore core = leader(7);
  core.resume(LeaderCore::Woken{}, start + 400ms);
  const Action refused = core.resume(Answer{How::refused}, start + 410ms);
  CHECK(lost(refused, Loss::lost, 7));
  CHECK_FALSE(refused.call);
  // Nobody is elected while the work of before is at it, however long that takes.
  CHECK_FALSE(refused.wake);
  CHECK(silent(core.resume(LeaderCore::Woken{}, start + 10s)));
  const Action ended = core.resume(LeaderCore::WorkEnded{false}, start + 11s);
  CHECK(calls(ended, Call::Kind::acquire));
}

TEST_CASE("leader core: work that ends by itself gives the lease back and lets others go first",
          "[fencing][leader]") {
  LeaderCore core = leader(7);
  const Action ended = core.resume(LeaderCore::WorkEnded{false}, start + 100ms);
  CHECK(lost(ended, Loss::finished, 7));
  CHECK(calls(ended, Call::Kind::release, 7));
  const Action released = core.resume(Answer{How::granted}, start + 110ms);
  CHECK(silent(released));
  CHECK(*released.wake >= start + 100ms + timing.poll);
  CHECK(calls(core.resume(LeaderCore::Woken{}, *released.wake), Call::Kind::acquire));
}

TEST_CASE("leader core: work that was refused as stale gives nothing back",
          "[F1][fencing][leader]") {
  LeaderCore core = leader(7);
  const Action ended = core.resume(LeaderCore::WorkEnded{true}, start + 100ms);
  CHECK(lost(ended, Loss::fenced, 7));
  CHECK_FALSE(ended.call);
  CHECK(*ended.wake >= start + 100ms + timing.poll);
}

TEST_CASE("leader core: a stop gives the lease back when the work has ended and not before",
          "[fencing][leader]") {
  LeaderCore core = leader(7);
  const Action stopped = core.resume(LeaderCore::Stop{}, start + 100ms);
  CHECK(lost(stopped, Loss::stopped, 7));
  CHECK_FALSE(stopped.call);
  CHECK_FALSE(core.leads(start + 100ms));
  const Action ended = core.resume(LeaderCore::WorkEnded{false}, start + 300ms);
  CHECK(calls(ended, Call::Kind::release, 7));
  CHECK_FALSE(ended.over);
  auto now = start + 310ms;
  for (const auto pause : {10ms, 20ms, 40ms, 80ms}) {
    const Action waits = core.resume(Answer{pause == 20ms ? How::unavailable : How::unknown}, now);
    CHECK_FALSE(waits.over);
    CHECK(silent(waits));
    CHECK(waits.wake == now + pause);
    CHECK_FALSE(core.resume(LeaderCore::Woken{}, now + pause - 1ns).call);
    CHECK(calls(core.resume(LeaderCore::Woken{}, now + pause), Call::Kind::release, 7));
    now += pause + 5ms;
  }
  CHECK(core.resume(Answer{How::unknown}, now).over);
}

TEST_CASE("leader core: what is over by the database's clock too is not given back",
          "[fencing][leader]") {
  LeaderCore core = leader(7);
  CHECK(lost(core.resume(LeaderCore::Stop{}, start + 100ms), Loss::stopped, 7));
  CHECK(core.resume(LeaderCore::WorkEnded{false}, start + 1200ms).over);
}

TEST_CASE("leader core: a stop while a renewal is under way waits for its answer",
          "[fencing][leader]") {
  LeaderCore core = leader(7);
  CHECK(calls(core.resume(LeaderCore::Woken{}, start + 400ms), Call::Kind::renew, 7));
  CHECK(lost(core.resume(LeaderCore::Stop{}, start + 410ms), Loss::stopped, 7));
  CHECK(silent(core.resume(LeaderCore::WorkEnded{false}, start + 420ms)));
  CHECK(calls(core.resume(granted(start + 400ms), start + 430ms), Call::Kind::release, 7));
  CHECK(core.resume(Answer{How::granted}, start + 440ms).over);
}

TEST_CASE("leader core: an acquisition that comes after the stop is given back and never told",
          "[fencing][leader]") {
  LeaderCore core(timing, 1);
  CHECK(calls(core.resume(LeaderCore::Woken{}, start), Call::Kind::acquire));
  CHECK(silent(core.resume(LeaderCore::Stop{}, start + 5ms)));
  const Action given_back = core.resume(granted(start, 7), start + 10ms);
  CHECK_FALSE(given_back.change);
  CHECK(calls(given_back, Call::Kind::release, 7));
  CHECK(core.resume(Answer{How::granted}, start + 20ms).over);
}

TEST_CASE("leader core: a stop before anything was won is over at once", "[fencing][leader]") {
  LeaderCore core(timing, 1);
  core.resume(LeaderCore::Woken{}, start);
  core.resume(Answer{How::refused}, start + 10ms);
  CHECK(core.resume(LeaderCore::Stop{}, start + 20ms).over);
}

TEST_CASE("leader core: standbys ask when the lease ends or after a poll and never in step",
          "[fencing][leader]") {
  const auto free_in = GENERATE(-5ms, 0ms, 50ms, 399ms, 400ms, 10'000ms);
  std::set<Moment> wakes;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    LeaderCore core(timing, seed);
    core.resume(LeaderCore::Woken{}, start);
    const Action refused = core.resume(Answer{How::refused, {}, {}, free_in}, start + 10ms);
    REQUIRE(silent(refused));
    REQUIRE(refused.wake);
    const auto waits = *refused.wake - (start + 10ms);
    const LeaderCore::Time least = std::clamp<LeaderCore::Time>(free_in, 0ms, timing.poll);
    CHECK(waits >= least + timing.poll / 8);
    CHECK(waits < least + timing.poll / 2);
    CHECK(silent(core.resume(LeaderCore::Woken{}, *refused.wake - 1ns)));
    CHECK(calls(core.resume(LeaderCore::Woken{}, *refused.wake), Call::Kind::acquire));
    wakes.insert(*refused.wake);
  }
  CHECK(wakes.size() > 95);
}

TEST_CASE("leader core: where nobody answers the waits grow to three polls at most",
          "[fencing][leader]") {
  LeaderCore core(timing, 1);
  Moment now = start;
  std::vector<LeaderCore::Time> waits;
  for (int i = 0; i < 100; ++i) {
    REQUIRE(calls(core.resume(LeaderCore::Woken{}, now), Call::Kind::acquire));
    const Action failed = core.resume(Answer{i % 2 == 0 ? How::unavailable : How::unknown}, now);
    REQUIRE(silent(failed));
    waits.push_back(*failed.wake - now);
    now = *failed.wake;
  }
  CHECK(waits.front() >= 50ms);
  CHECK(waits.front() < 150ms);
  CHECK(*std::min_element(waits.begin() + 5, waits.end()) >= timing.poll);
  CHECK(*std::max_element(waits.begin(), waits.end()) < 3 * timing.poll);
}

TEST_CASE("leader core: a clock that goes back stands still", "[fencing][leader]") {
  LeaderCore core = leader(7);
  CHECK(silent(core.resume(LeaderCore::Woken{}, start - 1h)));
  CHECK(core.leads_until() == start + 1000ms);
  CHECK(calls(core.resume(LeaderCore::Woken{}, start + 400ms), Call::Kind::renew, 7));
  CHECK(*core.resume(Answer{How::unavailable}, start - 1h).wake > start + 400ms);
}
