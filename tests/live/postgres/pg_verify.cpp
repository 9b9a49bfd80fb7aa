// verify_findings(): each kind of breach that stored rows can show is planted by a superuser, and
// found, and nothing before; a long history, which any writer can make, takes no longer than its
// length.
#include <catch2/catch.hpp>

#include <chrono>

#include <fmt/format.h>

#include "support/pg_session.hpp"

using Catch::Contains;
using termgate::test::PgDatabase;
using termgate::test::PgSession;

namespace {

std::string kinds(PgSession& s) {
  return s.value(
      "SELECT coalesce(string_agg(DISTINCT kind, ', '), '') FROM termgate.verify_findings()");
}

void history(PgSession& s) {
  s.must(
      "CREATE TABLE IF NOT EXISTS ad (s text, term bigint); CREATE INDEX IF NOT EXISTS ad_st ON ad "
      "(s, term); SELECT termgate.adopt('ad', "
      "'s', 'term')");
  for (const auto& [stream, term] :
       {std::pair("s1", 4), {"s2", 4}, {"s1", 5}, {"s2", 5}, {"s1", 6}, {"s2", 6}})
    s.must(fmt::format("SELECT termgate.append('{}', {}, 'x', scope => 'S')", stream, term));
  s.must("SELECT termgate.seal('only', 3)");
  s.must("SELECT termgate.seal('only', 9)");
  s.must("SELECT termgate.acquire_lease('L', 'o', '1 minute')");
  s.must("INSERT INTO ad VALUES ('D', 1)");
  s.must("INSERT INTO ad VALUES ('D', 3)");
  s.must("SELECT termgate.append('mv', 2, 'x', scope => 'M')");
  s.must("SELECT termgate.append('mv', 2, 'y')");
  s.must("SELECT termgate.append('gone', 2, 'x', scope => 'G')");
  s.must("SELECT termgate.prune('gone', 9)");
  s.must("SELECT termgate.append('reset', 8, 'x', scope => 'R')");
  s.must("SELECT termgate.reset_fence('R', 4, 'me', 'mistyped')");
  s.must("SELECT termgate.append('reset', 4, 'y')");
}

struct Case {
  const char* name;
  std::string planted, kind;
};

TEST_CASE("verify: finds each breach that the stored rows show", "[F1][F2][F3][F5][live]") {
  PgDatabase db("verify");
  PgSession s(db.url());
  history(s);
  const std::string later =
      "(SELECT greatest(max(created_at) + interval '1 ms', clock_timestamp()) FROM "
      "termgate.stream_writes)";
  const auto stale = [&](const char* stream, int number, const char* scope, int term) {
    return fmt::format(
        "INSERT INTO termgate.stream_writes (stream_id, sequence_no, scope, term, payload, "
        "created_at) VALUES ('{0}', {1}, '{2}', {3}, "
        "'s', {4}); "
        "UPDATE termgate.streams SET last_no = {1} WHERE stream_id = '{0}';",
        stream, number, scope, term, later);
  };
  const Case cases[] = {
      {"a stale write at the end of its stream", stale("s1", 4, "S", 5), "term decreases"},
      {"a stale write in another stream of the scope", stale("s2", 4, "S", 4), "term decreases"},
      {"a stale write in a new stream of the scope",
       "INSERT INTO termgate.streams VALUES ('s9', 'S', 1, " + later + ");" +
           stale("s9", 1, "S", 5),
       "term decreases"},
      {"a stale write behind another scope's", stale("mv", 3, "M2", 1) + stale("mv", 4, "M", 1),
       "term decreases"},
      {"a stale write long after the reset that would have excused it",
       "UPDATE termgate.resets SET at = '2020-01-01'; " + stale("s1", 4, "R", 6) +
           stale("s1", 5, "R", 5),
       "term decreases"},
      {"a write below the fence that a reset left", stale("s1", 4, "R", 3), "term decreases"},
      {"a fence lowered below stored terms",
       "UPDATE termgate.fences SET term = 2 WHERE scope = 'S'", "fence below a stored term"},
      {"a fence lowered that was only sealed",
       "UPDATE termgate.fences SET term = 3 WHERE scope = 'only'", "fence below the audit"},
      {"a fence deleted that was only sealed", "DELETE FROM termgate.fences WHERE scope = 'only'",
       "fence below the audit"},
      {"a fence deleted after a reset", "DELETE FROM termgate.fences WHERE scope = 'R'",
       "fence below the audit"},
      {"a fence raised by hand", "UPDATE termgate.fences SET term = 77 WHERE scope = 'only'",
       "term never raised"},
      {"a term that nobody raised",
       "UPDATE termgate.fences SET term = 7 WHERE scope = 'S';" + stale("s1", 4, "S", 7),
       "term never raised"},
      {"a write whose scope is not its stream's",
       "UPDATE termgate.stream_writes SET scope = 'M' WHERE stream_id = 's1' AND sequence_no = 1",
       "another scope's write"},
      {"a write in the middle that is gone",
       "DELETE FROM termgate.stream_writes WHERE stream_id = 's1' AND sequence_no = 2", "gap"},
      {"a last write that is gone",
       "DELETE FROM termgate.stream_writes WHERE stream_id = 's1' AND sequence_no = 3", "gap"},
      {"a first write that is gone",
       "DELETE FROM termgate.stream_writes WHERE stream_id = 's1' AND sequence_no = 1", "gap"},
      {"all writes of a stream that are gone",
       "DELETE FROM termgate.stream_writes WHERE stream_id = 's1'", "gap"},
      {"a reset that nobody made",
       "INSERT INTO termgate.resets (scope, from_term, to_term) VALUES ('S', 6, 3)",
       "reset not on record"},
      {"a lease above its fence", "UPDATE termgate.leases SET term = 50", "lease above its fence"},
      {"an adopted row above its fence", "UPDATE termgate.fences SET term = 1 WHERE scope = 'D'",
       "adopted row above the fence"},
  };
  CHECK(kinds(s) == "");
  for (const Case& planted : cases) {
    INFO(planted.name);
    s.must(
        "BEGIN; SET LOCAL session_replication_role = replica; ALTER TABLE termgate.fences DISABLE "
        "TRIGGER ALL; ALTER TABLE termgate.resets "
        "DISABLE TRIGGER ALL");
    s.must(planted.planted);
    CHECK_THAT(kinds(s), Contains(planted.kind));
    s.must("ROLLBACK");
  }
  CHECK(kinds(s) == "");
}

TEST_CASE("verify: says what it does not look at", "[live]") {
  PgDatabase db("verify");
  PgSession s(db.url());
  history(s);
  // A clock that went back by a minute orders nothing.
  s.must(
      "UPDATE termgate.audit SET at = at + interval '1 minute' WHERE id = (SELECT min(id) FROM "
      "termgate.audit)");
  CHECK(
      s.value("SELECT string_agg(kind || ': ' || object, ', ') FROM termgate.verify_findings()") ==
      "not looked at: the order of writes in several streams of a scope");
}

// Quadratic in what writers make of raises, prunings and streams, or operators of moves, this takes
// minutes.
TEST_CASE("verify: a long history costs no more than its length", "[live]") {
  PgDatabase db("verify");
  PgSession s(db.url());
  const auto audit = [&](const char* action, const char* scope, const char* detail, int count) {
    s.must(
        fmt::format("INSERT INTO termgate.audit (actor, action, scope, detail) SELECT 'a', '{}', "
                    "'{}', {} FROM generate_series(1, {}) i",
                    action, scope, detail, count));
  };
  s.must("SET session_replication_role = replica");
  audit("raise", "one", "jsonb_build_object('term', i)", 40'000);
  audit("raise", "before", "jsonb_build_object('term', i)", 10'000);
  audit("prune", "one", "jsonb_build_object('stream', 's' || i, 'before', 1)", 20'000);
  audit("stream_move", "one", "jsonb_build_object('stream', 's' || i, 'from', 'before')", 10'000);
  s.must(
      "INSERT INTO termgate.streams (stream_id, scope, last_no) SELECT 's' || i, 'one', 2 FROM "
      "generate_series(1, 10000) i");
  s.must(
      "INSERT INTO termgate.stream_writes (stream_id, sequence_no, scope, term, payload) SELECT "
      "'s' || i, n, CASE n WHEN 1 THEN 'before' "
      "ELSE 'one' END, i, '' FROM generate_series(1, 10000) i, generate_series(1, 2) n");
  s.must(
      "INSERT INTO termgate.fences (scope, term, raised_by) VALUES ('one', 40000, 'a'), ('before', "
      "10000, 'a')");
  for (const bool analyzed : {false, true}) {
    if (analyzed) s.must("ANALYZE");
    const auto began = std::chrono::steady_clock::now();
    kinds(s);
    INFO("after ANALYZE: " << analyzed);
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(20));
  }
}

}  // namespace
