// What each call for job runs does in each state of a run: the table of docs/reference/jobs.md, the
// same on every database.
#include <catch2/catch.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/job_run.hpp>
#include <termgate/jobs.hpp>
#include <termgate/operator.hpp>

#include "backend.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using conformance::Fresh;
using conformance::unique;

namespace {

constexpr const char* job = "nightly";

// A run, as one state has left it.
struct Case {
  Scope scope;
  Term term;    // the run's
  Term newest;  // that of whoever leads now
  std::string run;
};

struct State {
  const char* name;
  const char* shown;         // the status in the history
  const char* start;         // another start under the run's term
  const char* start_newest;  // a start under the term of whoever leads now
  const char* beat;          // as `completed`
  const char* ended;         // failed, lost and cancelled
  std::function<Case(Database&)> reach;
};

// "yes", "no" (the run is not open), or the code of the refusal.
std::string outcome(const std::function<bool()>& call) {
  try {
    return call() ? "yes" : "no";
  } catch (const Error& error) { return std::string(error.code()); }
}

Case open_run(Database& db, const Scope& scope, Term term) {
  return {scope, term, term, Jobs(db).start(job, scope, term, "holder")};
}

Case under_a_lease(Database& db, std::chrono::milliseconds ttl = 1h) {
  const Scope scope(unique("job"));
  return open_run(db, scope, db.acquire_lease(scope, ttl, {.owner = "holder"}).term());
}

Case without_lease(Database& db) { return open_run(db, Scope(unique("job")), Term(5)); }

Case ended(Database& db, const char* status) {
  Case at = without_lease(db);
  REQUIRE(Jobs(db).finish(at.run, status));
  return at;
}

// Another acquisition leads by now.
Case led_by(Database& db, const char* owner, Case at) {
  at.newest = db.acquire_lease(at.scope, 1h, {.owner = owner}).term();
  return at;
}

const std::vector<State>& states() {
  static const std::vector<State> all = {
      {"open, the lease is held", "started", "TG005", "TG005", "yes", "yes",
       [](Database& db) { return under_a_lease(db); }},
      {"open, the lease has run out", "lost", "TG005", "TG005", "yes", "yes",
       [](Database& db) {
         const Case at = under_a_lease(db, 100ms);
         std::this_thread::sleep_for(120ms);
         return at;
       }},
      {"open, the lease was given back", "lost", "TG005", "TG005", "yes", "yes",
       [](Database& db) {
         const Case at = under_a_lease(db);
         REQUIRE(db.release_lease(at.scope, at.term, "holder"));
         return at;
       }},
      {"open, the lease was taken", "lost", "TG001", "yes", "TG001", "yes",
       [](Database& db) {
         const Case at = under_a_lease(db);
         REQUIRE(db.release_lease(at.scope, at.term, "holder"));
         return led_by(db, "another", at);
       }},
      {"open, its owner has acquired the lease anew", "lost", "TG001", "yes", "TG001", "yes",
       [](Database& db) { return led_by(db, "holder", under_a_lease(db)); }},
      {"open, the lease was force-released", "lost", "TG001", "yes", "TG001", "yes",
       [](Database& db) {
         const Case at = under_a_lease(db);
         REQUIRE(Operator(db).force_release(at.scope, "operator", "a test"));
         return led_by(db, "another", at);
       }},
      {"open, no lease, its term is the fence", "started", "TG005", "TG005", "yes", "yes",
       without_lease},
      {"open, no lease, a higher term leads", "lost", "TG001", "yes", "TG001", "yes",
       [](Database& db) {
         Case at = without_lease(db);
         db.seal(at.scope, Term(7));
         at.newest = Term(7);
         return at;
       }},
      {"open, the fence was reset below it", "lost", "TG005", "yes", "yes", "yes",
       [](Database& db) {
         Case at = without_lease(db);
         Operator(db).reset_fence(at.scope, Term(3), "operator", "a test");
         at.newest = Term(3);
         return at;
       }},
      {"asked for, and not begun", "requested", "yes", "yes", "no", "yes",
       [](Database& db) {
         const Scope scope(unique("job"));
         const Term term = db.acquire_lease(scope, 1h, {.owner = "holder"}).term();
         return Case{scope, term, term, Jobs(db).request(job, scope, "run").run_id};
       }},
      {"completed", "completed", "yes", "yes", "no", "no",
       [](Database& db) { return ended(db, "completed"); }},
      {"failed", "failed", "yes", "yes", "no", "no",
       [](Database& db) { return ended(db, "failed"); }},
      {"cancelled", "cancelled", "yes", "yes", "no", "no",
       [](Database& db) { return ended(db, "cancelled"); }},
      {"lost", "lost", "yes", "yes", "no", "no", [](Database& db) { return ended(db, "lost"); }},
  };
  return all;
}

std::string status_of(Database& db, const std::string& run) {
  return Jobs(db).list({.run_id = run}, 1).at(0).status;
}

}  // namespace

TEST_CASE_METHOD(Fresh, "jobs: each call does in each state what the table says",
                 "[F2][jobs][conformance]") {
  for (const State& state : states()) {
    INFO(state.name);
    {
      const Case at = state.reach(db);
      CHECK(status_of(db, at.run) == state.shown);
      // Another owner's start is no other than its own; a stale caller's is refused.
      for (const char* owner : {"holder", "another"}) {
        std::string started;
        CHECK(outcome([&] {
                return !(started = Jobs(db).start(job, at.scope, at.term, owner)).empty();
              }) == state.start);
        if (!started.empty()) REQUIRE(Jobs(db).finish(started, "failed"));
      }
      // What is refused has ended nothing.
      CHECK(status_of(db, at.run) == state.shown);
    }
    {
      const Case at = state.reach(db);
      CHECK(outcome([&] { return !Jobs(db).start(job, at.scope, at.newest, "new").empty(); }) ==
            state.start_newest);
      if (std::string(state.start_newest) == "yes" && std::string(state.ended) == "yes" &&
          std::string(state.shown) != "requested") {
        CHECK(status_of(db, at.run) == "lost");
        CHECK_FALSE(Jobs(db).beat(at.run));
        CHECK_FALSE(Jobs(db).finish(at.run, "completed"));
      }
      // Another job and another scope are not concerned.
      CHECK(outcome([&] { return !Jobs(db).start("other", at.scope, at.newest, "new").empty(); }) ==
            "yes");
    }
    {
      const Case at = state.reach(db);
      CHECK(outcome([&] { return Jobs(db).beat(at.run, "page 3"); }) == state.beat);
      CHECK((Jobs(db).list({.run_id = at.run}, 1).at(0).checkpoint == "page 3") ==
            (std::string(state.beat) == "yes"));
      CHECK(outcome([&] { return Jobs(db).finish(at.run, "completed", 0); }) == state.beat);
      if (std::string(state.beat) == "yes") CHECK(status_of(db, at.run) == "completed");
    }
    for (const char* status : {"failed", "lost", "cancelled"}) {
      const Case at = state.reach(db);
      CHECK(outcome([&] { return Jobs(db).finish(at.run, status); }) == state.ended);
      if (std::string(state.ended) == "yes") CHECK(status_of(db, at.run) == status);
      CHECK_FALSE(Jobs(db).finish(at.run, status));
    }
  }
}

TEST_CASE_METHOD(Fresh, "jobs: a beat that renews the lease tells of a request for it",
                 "[handover][jobs][conformance]") {
  Lease lease = db.acquire_lease(scope, 1h, {.owner = "holder"});
  JobRun run(db, job, scope, lease.term(), "holder");
  REQUIRE(run.beat(lease));
  CHECK_FALSE(lease.leave_before());
  const auto requested = Lease::Clock::now();
  REQUIRE(Operator(db).request_hand_over(scope, {.to = "successor", .drain = 1min}));
  REQUIRE(run.beat(lease, "page 3"));
  REQUIRE(lease.leave_before());
  CHECK(*lease.leave_before() > requested);
  CHECK(*lease.leave_before() <= Lease::Clock::now() + 1min);
  CHECK(run.complete());
}

TEST_CASE_METHOD(Fresh, "jobs: no run and a run that is unknown", "[jobs][conformance]") {
  CHECK(Jobs(db).list({.scope = scope.name()}, 10).empty());
  const CompletedJob none = Jobs(db).completed(job, scope, 0ms);
  CHECK_FALSE(none.started_at_ms);
  CHECK_FALSE(none.latest_ms);
  const std::string run = Jobs(db).start(job, scope, Term(2), "holder");
  CHECK_THROWS_WITH(Jobs(db).start(job, scope, Term(2), "another"),
                    Catch::Contains("open run already, " + run));
}

TEST_CASE_METHOD(
    Fresh, "jobs: the last completed run is found behind any number of others and is never pruned",
    "[jobs][conformance]") {
  const std::string run = Jobs(db).start(job, scope, Term(1), "holder");
  REQUIRE(Jobs(db).finish(run, "completed"));
  const auto began = Jobs(db).list({.run_id = run}, 1).at(0).started_at_ms;
  for (int i = 0; i < 20; ++i)
    REQUIRE(Jobs(db).finish(Jobs(db).start(job, scope, Term(1), "holder"), "failed"));
  const CompletedJob last = Jobs(db).completed(job, scope, 0ms);
  CHECK(last.started_at_ms == began);
  CHECK(last.latest_ms == began);
  CHECK(last.now_ms >= began);
  CHECK_FALSE(Jobs(db).completed("other", scope, 0ms).started_at_ms);
}

namespace {

// Who is asked for leads already, under this term.
struct Led {
  Scope scope{unique("job")};
  Term term;
  explicit Led(Database& db) : term(db.acquire_lease(scope, 1h, {.owner = "holder"}).term()) {}
};

}  // namespace

TEST_CASE_METHOD(Fresh, "jobs: a request waits, and one taker begins it", "[jobs][conformance]") {
  for (const char* kind : {"run", "dry-run", "resume"}) {
    INFO(kind);
    const Led led(db);
    CHECK_FALSE(Jobs(db).take(job, led.scope, led.term, "holder"));
    const JobRequest made = Jobs(db).request(job, led.scope, kind, "alice", "figures corrected");
    REQUIRE(made.requested);
    const auto asked = Jobs(db).list({.scope = led.scope.name(), .status = "requested"}, 10);
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].run_id == made.run_id);
    CHECK(asked[0].request == kind);
    CHECK(asked[0].detail == "requested by alice: figures corrected");
    CHECK(asked[0].owner.empty());
    CHECK(asked[0].term == 0);
    const auto audited = Operator(db).audit({.scope = led.scope.name()}, 1);
    REQUIRE(audited.size() == 1);
    CHECK(audited[0].action == "request_job");
    CHECK(audited[0].actor == "alice");
    // Twice, and of another kind: nothing is changed.
    for (const char* again : {"run", "resume"}) {
      const JobRequest second = Jobs(db).request(job, led.scope, again);
      CHECK_FALSE(second.requested);
      CHECK(second.run_id == made.run_id);
    }
    CHECK(Jobs(db).list({.run_id = made.run_id}, 1).at(0).request == kind);
    // It has not begun: no heartbeat, no end but that of the request.
    CHECK_FALSE(Jobs(db).beat(made.run_id));
    CHECK_FALSE(Jobs(db).finish(made.run_id, "completed", 0));
    // Another job and another scope have requests of their own.
    CHECK(Jobs(db).request("other", led.scope, "run").requested);
    CHECK_FALSE(Jobs(db).take(job, Led(db).scope, Term(1), "holder"));
    const auto taken = Jobs(db).take(job, led.scope, led.term, "holder");
    REQUIRE(taken);
    CHECK(taken->run_id == made.run_id);
    CHECK(taken->request == kind);
    const auto run = Jobs(db).list({.run_id = made.run_id}, 1).at(0);
    CHECK(run.status == "started");
    CHECK(run.owner == "holder");
    CHECK(run.term == led.term.value());
    CHECK(run.started_at_ms >= asked[0].started_at_ms);
    CHECK(outcome([&] { return Jobs(db).take(job, led.scope, led.term, "holder").has_value(); }) ==
          "TG005");  // it runs
    CHECK(Jobs(db).beat(made.run_id));
    CHECK(Jobs(db).finish(made.run_id, "completed", 0));
    CHECK_FALSE(Jobs(db).take(job, led.scope, led.term, "holder"));
    CHECK(Jobs(db).request(job, led.scope, kind).requested);
  }
}

TEST_CASE_METHOD(Fresh,
                 "jobs: a request outlives runs and takeovers until it is taken or cancelled",
                 "[F1][jobs][conformance]") {
  const Led led(db);
  const std::string running = Jobs(db).start(job, led.scope, led.term, "holder");
  const JobRequest made = Jobs(db).request(job, led.scope, "run");
  REQUIRE(made.requested);
  CHECK(status_of(db, running) == "started");
  CHECK(outcome([&] { return Jobs(db).take(job, led.scope, led.term, "holder").has_value(); }) ==
        "TG005");
  // Whoever takes over begins it; a stale leader does not, and the run that it had is lost.
  REQUIRE(Operator(db).force_release(led.scope, "operator", "a test"));
  const Term newest = db.acquire_lease(led.scope, 1h, {.owner = "another"}).term();
  CHECK(status_of(db, made.run_id) == "requested");
  CHECK(outcome([&] { return Jobs(db).take(job, led.scope, led.term, "holder").has_value(); }) ==
        "TG001");
  // A start that nobody asked for leaves the request where it is.
  REQUIRE(Jobs(db).finish(Jobs(db).start(job, led.scope, newest, "another"), "failed"));
  CHECK(status_of(db, running) == "lost");
  const auto taken = Jobs(db).take(job, led.scope, newest, "another");
  REQUIRE(taken);
  CHECK(taken->run_id == made.run_id);
  // Who has begun it dies: the run is lost, and nobody begins it again.
  REQUIRE(Operator(db).force_release(led.scope, "operator", "a test"));
  CHECK(status_of(db, made.run_id) == "lost");
  CHECK_FALSE(Jobs(db).take(job, led.scope,
                            db.acquire_lease(led.scope, 1h, {.owner = "third"}).term(), "third"));
  // Cancelled before anybody has begun it.
  const JobRequest next = Jobs(db).request(job, led.scope, "resume");
  REQUIRE(next.requested);
  CHECK(Jobs(db).finish(next.run_id, "cancelled", {}, "not needed"));
  CHECK_FALSE(Jobs(db).finish(next.run_id, "cancelled"));
  CHECK(status_of(db, next.run_id) == "cancelled");
}

TEST_CASE_METHOD(Fresh, "jobs: what a request must be", "[jobs][conformance]") {
  CHECK(outcome([&] { return Jobs(db).request("", scope, "run").requested; }) == "TG005");
  CHECK(outcome([&] { return Jobs(db).request(std::string(300, 'x'), scope, "run").requested; }) ==
        "TG005");
  CHECK(outcome([&] { return Jobs(db).request(job, scope, "").requested; }) == "TG005");
  CHECK(outcome([&] { return Jobs(db).request(job, scope, "RUN").requested; }) == "TG005");
  CHECK(outcome([&] { return Jobs(db).request(job, scope, "run", " ").requested; }) == "TG005");
  for (const char* hostile : {"'; DROP TABLE job_runs; --", "a\nb\x1b[2J",
                              "\xc3\x9c \xf0\x9f\x92\xa5", "100%s {} $1", "\" \\ / ?"}) {
    INFO(hostile);
    const Scope odd(unique(hostile));
    const JobRequest made = Jobs(db).request(hostile, odd, "dry-run", hostile, hostile);
    REQUIRE(made.requested);
    const auto shown =
        Jobs(db).list({.job = hostile, .scope = odd.name(), .status = "requested"}, 2);
    REQUIRE(shown.size() == 1);
    CHECK(shown[0].detail == std::string("requested by ") + hostile + ": " + hostile);
    REQUIRE(Jobs(db).take(hostile, odd, Term(3), hostile));
  }
}

TEST_CASE_METHOD(Fresh, "jobs: a dry run neither counts as completed nor hides a checkpoint",
                 "[jobs][conformance]") {
  const Led led(db);
  const std::string stopped = Jobs(db).start(job, led.scope, led.term, "holder");
  REQUIRE(Jobs(db).beat(stopped, "page 3"));
  REQUIRE(Jobs(db).finish(stopped, "failed", 1));
  REQUIRE(Jobs(db).request(job, led.scope, "dry-run").requested);
  const std::string dry = Jobs(db).take(job, led.scope, led.term, "holder").value().run_id;
  REQUIRE(Jobs(db).beat(dry, "page 9"));
  REQUIRE(Jobs(db).finish(dry, "completed", 0));
  CHECK_FALSE(Jobs(db).completed(job, led.scope, 0ms).started_at_ms);
  CHECK(last_checkpoint(db, job, led.scope) == "page 3");
  // One that was asked for earlier than another run began, and was taken later: what counts is when
  // it began.
  REQUIRE(Jobs(db).request(job, led.scope, "resume").requested);
  const std::string between = Jobs(db).start(job, led.scope, led.term, "holder");
  REQUIRE(Jobs(db).beat(between, "page 5"));
  REQUIRE(Jobs(db).finish(between, "failed", 1));
  CHECK(last_checkpoint(db, job, led.scope) == "page 5");
  std::this_thread::sleep_for(5ms);
  REQUIRE(Jobs(db).finish(Jobs(db).take(job, led.scope, led.term, "holder").value().run_id,
                          "completed", 0));
  CHECK_FALSE(last_checkpoint(db, job, led.scope));
}
