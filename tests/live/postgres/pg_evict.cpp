// [F4] Nobody is a hostage: frozen sessions and a storm of them in the way of a raise.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "pg_calls.hpp"

using namespace std::chrono_literals;
using termgate::test::check;
using termgate::test::filled;
using termgate::test::fresh_scope;
using termgate::test::PgDatabase;
using termgate::test::PgResult;
using termgate::test::PgSession;
using termgate::test::seal;
using termgate::test::slack;
using termgate::test::time_of;
using termgate::test::wait_for_lock;
using termgate::test::wait_until;

namespace {

PgDatabase& database() {
  static PgDatabase one("evict");
  return one;
}

}  // namespace

TEST_CASE("evict: a frozen session holds up a seal no longer than the grace", "[F4][live]") {
  const auto scope = fresh_scope();
  PgSession leader(database().url()), frozen(database().url()), bystander(database().url());
  leader.must(seal(scope, 5));
  frozen.must("BEGIN ISOLATION LEVEL SERIALIZABLE; " + check(scope, 5) +
              "; CREATE TEMP TABLE t (v int)");
  bystander.must("BEGIN; " + check(fresh_scope(), 1));
  PgResult sealed;
  const auto took = time_of([&] { sealed = leader.run(seal(scope, 6)); });
  REQUIRE(sealed.ok());
  CHECK(sealed.rows[0][2] == "1");
  CHECK(took >= 1000ms);
  CHECK(took < 1000ms + slack);
  CHECK(frozen.run("COMMIT").ended());
  CHECK(bystander.run("COMMIT").ok());
  CHECK(leader.value(
            "SELECT detail -> 'pids' FROM termgate.audit WHERE action = 'evict' AND scope = '" +
            scope + "'") == "[" + std::to_string(frozen.pid()) + "]");
}

TEST_CASE("evict: who has been ended is waited for though no time is left", "[F4][live]") {
  PgSession admin(database().url());
  // As on a machine that stood still until check_wait was over: the session that was evicted for
  // this raise is still letting go of its locks.
  admin.must("SELECT termgate.set_setting('check_wait_ms', '0')");
  for (int i = 0; i < 20; ++i) {
    const auto scope = fresh_scope();
    PgSession leader(database().url()), frozen(database().url());
    frozen.must("BEGIN; " + check(scope, 5));
    const auto sealed = leader.run(seal(scope, 6, "1 ms"));
    INFO(sealed.message);
    REQUIRE(sealed.ok());
    CHECK(frozen.run("COMMIT").ended());
  }
  admin.must("SELECT termgate.set_setting('check_wait_ms', '5000')");
}

TEST_CASE("evict: who changes fences and stays open is named and evicted", "[F4][live]") {
  PgSession admin(database().url()), leader(database().url());
  const auto scope = fresh_scope();
  leader.must(seal(scope, 5));
  // declare_untrusted() changes every fence, and holds no lock that belongs to the scope.
  const std::string way = GENERATE(
      "SELECT termgate.declare_untrusted('me', 'a test')",
      "SAVEPOINT s; SELECT termgate.declare_untrusted('me', 'a test'); RELEASE s",
      "DO $$ BEGIN BEGIN PERFORM termgate.declare_untrusted('me', 'a test'); EXCEPTION WHEN "
      "division_by_zero THEN NULL; END; END $$");
  CAPTURE(way);
  PgSession open(database().url());
  open.must("BEGIN; " + way);
  CHECK(leader.must(seal(scope, 6, "100 ms")).rows[0][2] == "1");
  CHECK(open.run("COMMIT").ended());
}

TEST_CASE("evict: a check waits for who changes fences no longer than check_wait", "[F4][live]") {
  PgSession admin(database().url());
  const auto scope = fresh_scope();
  admin.must(seal(scope, 5));
  admin.must(
      "DROP TABLE IF EXISTS public.guarded; CREATE TABLE public.guarded (scope text); SELECT "
      "termgate.protect('public.guarded', 'scope')");
  admin.must("SELECT termgate.set_setting('check_wait_ms', '200')");
  PgSession open(database().url()), writer(database().url());
  const std::string how = GENERATE("by a call", "by a trigger", "by a call after very many scopes");
  CAPTURE(how);
  const bool many = how == "by a call after very many scopes";
  if (many) admin.must("SELECT termgate.seal('many ' || n, 5) FROM generate_series(1, 70) n");
  const auto refusals = [&] {
    return std::stoi(admin.value(
        "SELECT coalesce(sum(count), 0) FROM termgate.refusal_counts WHERE code = 'TG006'"));
  };
  const int refused_before = refusals();
  writer.must(std::string("BEGIN ISOLATION LEVEL ") +
              (many ? "READ COMMITTED" : "REPEATABLE READ") +
              "; SET LOCAL statement_timeout = '10 s'; SET LOCAL termgate.scope = '" + scope +
              "'; SET LOCAL termgate.term = '5'");
  if (many)
    writer.must(
        "DO $$ BEGIN FOR n IN 1..70 LOOP EXIT WHEN octet_length(current_setting('termgate.passed', "
        "true)) > 5000; PERFORM termgate.check_term('many ' || n, 5); END LOOP; END $$");
  open.must("BEGIN; SELECT termgate.declare_untrusted('me', 'a test')");
  PgResult blocked;
  const auto took = time_of([&] {
    blocked =
        writer.run(how != "by a trigger" ? check(scope, 5)
                                         : "INSERT INTO public.guarded VALUES ('" + scope + "')");
  });
  CHECK(blocked.code == "TG006");
  CHECK_THAT(blocked.message, Catch::Contains("pid " + std::to_string(open.pid()) + " "));
  CHECK(refusals() == refused_before + 1);
  CHECK(took < 200ms + slack);
  open.must("ROLLBACK");
  admin.must("SELECT termgate.set_setting('check_wait_ms', '5000')");
}

TEST_CASE("evict: evictions by an operator's calls and by adopt are audited", "[F4][live]") {
  PgSession admin(database().url());
  const auto scope = fresh_scope();
  admin.must(seal(scope, 5) + "; SELECT termgate.append('moved " + scope + "', 5, 'x', scope => '" +
             scope + "')");
  admin.must("SELECT termgate.set_setting('eviction_grace_ms', '100')");
  const std::vector<std::string> calls{
      "SELECT termgate.set_raise_by('" + scope + "', 'seal')",
      "SELECT termgate.stream_move('moved " + scope + "', 'to " + scope + "', 'me', 'a test')",
      "SELECT termgate.adopt('public.adopted', 'scope', 'term')"};
  const auto call = calls[GENERATE(0U, 1U, 2U)];
  CAPTURE(call);
  admin.must(
      "DROP TABLE IF EXISTS public.adopted; CREATE TABLE public.adopted (scope text, term bigint); "
      "CREATE INDEX ON public.adopted (scope, "
      "term);"
      "INSERT INTO public.adopted VALUES ('" +
      scope + "', 9)");
  PgSession frozen(database().url());
  frozen.must("BEGIN; " + check(scope, 5));
  admin.must(call);
  CHECK(frozen.run("COMMIT").ended());
  CHECK(admin.value(
            "SELECT detail -> 'pids' FROM termgate.audit WHERE action = 'evict' AND scope = '" +
            scope + "'") == "[" + std::to_string(frozen.pid()) + "]");
  admin.must(
      "SELECT termgate.unadopt('public.adopted'); SELECT termgate.set_setting('eviction_grace_ms', "
      "'1000')");
}

TEST_CASE("evict: who lost an acquisition and stays open stops no renewal", "[F4][live]") {
  PgSession admin(database().url()), holder(database().url()), loser(database().url());
  const auto scope = fresh_scope();
  const std::string term = holder.value("SELECT term FROM termgate.acquire_lease('" + scope +
                                        "', 'holder', interval '2 s')");
  // The clock was ahead at the last renewal, and is right again.
  admin.must(
      "UPDATE termgate.leases SET renewed_at = clock_timestamp() + interval '1 hour', "
      "expires_at = clock_timestamp() + interval '1 hour 2 s' WHERE scope = '" +
      scope + "'");
  const bool alone = GENERATE(true, false);
  CAPTURE(alone);
  // Together with its BEGIN it limits the lease, and so changes its row.
  const auto acquires =
      "SELECT acquired FROM termgate.acquire_lease('" + scope + "', 'loser', interval '2 s')";
  if (alone) {
    loser.must("BEGIN");
    std::this_thread::sleep_for(100ms);
  }
  CHECK(loser.value(alone ? acquires : "BEGIN; " + acquires) == "f");
  PgResult renewed;
  const auto took = time_of([&] {
    renewed =
        holder.run("SET statement_timeout = '10 s'; SELECT renewed FROM termgate.renew_lease('" +
                   scope + "', 'holder', " + term + ", interval '2 s')");
  });
  if (alone) {
    CHECK(renewed.value() == "t");
  } else {
    CHECK(renewed.code == "TG006");
    CHECK_THAT(renewed.message, Catch::Contains("pid " + std::to_string(loser.pid()) + " "));
  }
  CHECK(took < 200ms + slack);
  loser.must("COMMIT");
}

TEST_CASE("evict: busy writers and ever more frozen ones do not starve a seal", "[F4][live]") {
  const auto scope = fresh_scope();
  PgSession leader(database().url());
  leader.must(seal(scope, 5));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::atomic<int> passed{0};
  // Writers that never pause.
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      auto session = std::make_unique<PgSession>(database().url());
      while (!stop) {
        const auto result =
            session->run("BEGIN; " + check(scope, 5) + "; SELECT count(*) FROM pg_class; COMMIT");
        if (result.ok()) ++passed;
        if (PQstatus(session->raw()) == CONNECTION_BAD)
          session = std::make_unique<PgSession>(database().url());
        else session->run("ROLLBACK");
      }
    });
  }
  // Some twenty sessions a second check and then freeze for good.
  threads.emplace_back([&] {
    std::vector<std::unique_ptr<PgSession>> frozen;
    while (!stop && frozen.size() < 80) {
      frozen.push_back(std::make_unique<PgSession>(database().url()));
      frozen.back()->run("BEGIN");
      frozen.back()->send(check(scope, 5));
      std::this_thread::sleep_for(50ms);
    }
    while (!stop) std::this_thread::sleep_for(5ms);
  });
  wait_until("the writers to write", [&] { return passed > 50; });
  PgResult sealed;
  const auto took = time_of([&] { sealed = leader.run(seal(scope, 6)); });
  stop = true;
  for (auto& thread : threads) thread.join();
  REQUIRE(sealed.ok());
  CHECK(took < 1000ms + slack);
  CHECK(leader.run(check(scope, 5)).code == "TG001");
}

TEST_CASE(
    "evict: a raise or an acquisition whose aim another session has reached meanwhile ends nobody",
    "[F4][live]") {
  PgDatabase own("evict_again");
  PgSession admin(own.url());
  // Holds a session up right after it has found that it must raise, for as long as another one has
  // the lock 4711.
  admin.must(R"(
    ALTER FUNCTION termgate._take_turnstile(text, bigint, timestamptz, timestamptz) RENAME TO _take_turnstile_now;
    CREATE FUNCTION termgate._take_turnstile(p_scope text, p_term bigint, p_grace_until timestamptz, p_until timestamptz) RETURNS integer[]
    LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
      IF current_setting('test.slow', true) = 'on' THEN
        PERFORM pg_advisory_xact_lock_shared(4711);
      END IF;
      RETURN termgate._take_turnstile_now(p_scope, p_term, p_grace_until, p_until);
    END $$;
    SELECT termgate.set_setting('eviction_grace_ms', '100'))");
  const std::pair<const char*, const char*> cases[] = {
      // a call of term 7, or of another owner
      {"SELECT termgate.check_term('{S}', 7)", "7"},
      {"SELECT fence FROM termgate.seal('{S}', 7)", "7"},
      {"SELECT termgate.append('s {S}', 7, 'x', NULL, '{S}')", "1"},
      {"SELECT acquired FROM termgate.acquire_lease('{S}', 'late', '1 h')", "f"}};
  for (const auto& [text, wanted] : cases) {
    for (const std::string level : {"READ COMMITTED", "REPEATABLE READ"}) {
      const auto scope = fresh_scope();
      CAPTURE(text, level);
      const bool leased = wanted == std::string("f");
      PgSession observer(own.url()), late(own.url()), first(own.url()), writer(own.url());
      if (!leased) first.must(seal(scope, 5));
      admin.must("SELECT pg_advisory_lock(4711)");
      late.must("SET test.slow = on; BEGIN ISOLATION LEVEL " + level +
                "; SELECT count(*) FROM pg_class");
      late.send(filled(text, {{"{S}", scope}}));
      wait_for_lock(observer, late);
      first.must(leased ? "SELECT termgate.acquire_lease('" + scope + "', 'first', '1 h')"
                        : seal(scope, 7));
      writer.must("BEGIN; " + check(scope, leased ? 1 : 7) + "; CREATE TEMP TABLE t (v int)");
      std::this_thread::sleep_for(200ms);  // past the grace of the late one
      admin.must("SELECT pg_advisory_unlock(4711)");
      const auto answer = late.finish();
      INFO(answer.message);
      CHECK(answer.code == (level == "READ COMMITTED" ? "" : "40001"));
      if (answer.ok()) CHECK(answer.value() == wanted);
      CHECK(late.run("COMMIT").ok());
      CHECK(writer.run("COMMIT").ok());
      // No lock of the raise stays behind: a higher term need not wait.
      CHECK(time_of([&] {
              first.must(leased ? "SELECT termgate.force_release('" + scope + "', 'test', 'next')"
                                : seal(scope, 8));
            }) < slack);
    }
  }
  CHECK(admin.value("SELECT count(*) FROM termgate.audit WHERE action = 'evict'") == "0");
}
