// [F2] [F5] Layer 1 does the same under any settings of the calling role: the whole API as a plain
// role whose ALTER ROLE SET is as hostile as can be.
#include <catch2/catch.hpp>

#include "support/pg_session.hpp"

using termgate::test::PgDatabase;
using termgate::test::PgSession;

namespace {

// clang-format off
// Each as ALTER ROLE … SET takes it; one that this server does not know is left out.
const std::vector<std::string> hostile = {
    "standard_conforming_strings = off", "backslash_quote = off", "escape_string_warning = on", "search_path = evil, pg_catalog, app", "DateStyle = 'SQL, DMY'",
    "IntervalStyle = sql_standard", "bytea_output = escape", "quote_all_identifiers = on", "lc_messages = C", "lc_monetary = C", "lc_numeric = C", "lc_time = C",
    "TimeZone = 'Asia/Kathmandu'", "extra_float_digits = -15", "check_function_bodies = off", "row_security = off", "default_transaction_deferrable = on",
    "lock_timeout = '200ms'", "statement_timeout = '20s'", "idle_in_transaction_session_timeout = '60s'", "array_nulls = off", "transform_null_equals = on",
    "plan_cache_mode = force_generic_plan", "force_parallel_mode = regress", "debug_parallel_query = regress", "parallel_setup_cost = 0", "parallel_tuple_cost = 0",
    "min_parallel_table_scan_size = 0", "synchronous_commit = off", "client_encoding = LATIN1", "client_min_messages = error", "plpgsql.extra_errors = 'all'",
    "plpgsql.extra_warnings = 'all'", "plpgsql.print_strict_params = on", "enable_indexscan = off", "enable_seqscan = off",
    "enable_bitmapscan = off", "jit = off", "enable_nestloop = off", "geqo_threshold = 2", "from_collapse_limit = 1", "xmlbinary = hex", "gin_fuzzy_search_limit = 1"};
// clang-format on

// Functions and operators that anybody's search path could find in the place of the server's own.
const char* const evil =
    "CREATE SCHEMA evil; GRANT ALL ON SCHEMA evil TO PUBLIC;"
    "CREATE FUNCTION evil.no(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false'; CREATE "
    "OPERATOR evil.= (LEFTARG = text, RIGHTARG "
    "= text, PROCEDURE = evil.no);"
    "CREATE OPERATOR evil.<> (LEFTARG = text, RIGHTARG = text, PROCEDURE = evil.no);"
    "CREATE FUNCTION evil.no(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false'; "
    "CREATE OPERATOR evil.< (LEFTARG = bigint, "
    "RIGHTARG = bigint, PROCEDURE = evil.no);"
    "CREATE OPERATOR evil.> (LEFTARG = bigint, RIGHTARG = bigint, PROCEDURE = evil.no); CREATE "
    "OPERATOR evil.= (LEFTARG = bigint, RIGHTARG "
    "= bigint, PROCEDURE = evil.no);"
    "CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT "
    "timestamptz ''2000-01-01''';"
    "CREATE FUNCTION evil.current_setting(text, boolean) RETURNS text LANGUAGE sql AS 'SELECT "
    "NULL::text'";

// Long: each call once.
void whole_api(PgSession& s, const std::string& tag) {
  // A name with everything that has to be escaped somewhere, as a literal that means the same under
  // every setting.
  const std::string odd =
      "pg_catalog.concat('" + tag + " |', pg_catalog.chr(92), 'b', pg_catalog.chr(92), '|p''\"%')";
  const auto both = [&](const std::string& scope, const std::string& label) {
    CAPTURE(label);
    CHECK(s.value("SELECT fence FROM termgate.seal(" + scope + ", 5)") == "5");
    CHECK(s.value("SELECT termgate.check_term(" + scope + ", 5)") == "5");
    CHECK(s.value("SELECT termgate.check_term(" + scope + ", 6)") == "6");
    CHECK(s.run("SELECT termgate.check_term(" + scope + ", 5)").code == "TG001");
    CHECK(s.run("SELECT termgate.check_term(" + scope + ", 0)").code == "TG005");
    CHECK(s.value("SELECT fence FROM termgate.check_session(" + scope + ", 6)") == "6");
    CHECK(s.run("SELECT termgate.check_session()").code == "TG002");
    CHECK(s.value("SELECT fence FROM termgate.hold_session(" + scope + ", 6)") == "6");
    CHECK(s.value("SELECT released FROM termgate.release_session()") == "t");
    const std::string stream = "pg_catalog.concat('stream of ', " + scope + ")";
    CHECK(s.value("SELECT termgate.append(" + stream + ", 6, 'x', NULL, " + scope + ")") == "1");
    CHECK(s.value("SELECT termgate.append(" + stream + ", 6, 'x', 1)") == "2");
    CHECK(s.run("SELECT termgate.append(" + stream + ", 6, 'x', 1)").code == "TG003");
    CHECK(s.run("SELECT termgate.append(" + stream + ", 5, 'x')").code == "TG001");
    const std::string id = s.value("SELECT pg_catalog.gen_random_uuid()");
    CHECK(s.value("SELECT termgate.append(" + stream + ", 6, 'x', NULL, NULL, '" + id + "')") ==
          "3");
    CHECK(s.value("SELECT termgate.append(" + stream + ", 6, 'x', NULL, NULL, '" + id + "')") ==
          "3");
    CHECK(s.value("SELECT termgate.append_many(" + stream + ", 6, ARRAY['a', 'b']::bytea[])") ==
          "5");
    CHECK(s.value("SELECT sequence_no FROM termgate.outcome('" + id + "')") == "3");
    CHECK(s.value("SELECT fresh FROM termgate.claim_write(" + scope +
                  ", 6, pg_catalog.gen_random_uuid())") == "t");
    CHECK(s.value("SELECT pg_catalog.count(*) FROM termgate.read_stream(" + stream + ")") == "5");
    CHECK(s.value("SELECT termgate.prune(" + stream + ", 2)") == "1");
    CHECK(s.value("SELECT termgate.stream_move(" + stream + ", pg_catalog.concat(" + scope +
                  ", '2'), 'me', 'a test')") == "t");
    CHECK(s.value("SELECT term FROM termgate.fence(" + scope + ")") == "6");
    const std::string led = "pg_catalog.concat('led ', " + scope + ")";
    CHECK(s.value("SELECT term FROM termgate.acquire_lease(" + led + ", 'one', '00:00:20')") ==
          "1");
    CHECK(s.value("SELECT acquired FROM termgate.acquire_lease(" + led + ", 'two', '00:00:20')") ==
          "f");
    CHECK(s.value("SELECT renewed FROM termgate.renew_lease(" + led + ", 'one', 1, '00:00:20')") ==
          "t");
    CHECK(s.value("SELECT live FROM termgate.lease(" + led + ")") == "t");
    const std::string run = s.value("SELECT termgate.job_start('job', " + led + ", 'one', 1)");
    s.must("SELECT termgate.job_heartbeat(" + run + ", 'half')");
    CHECK(s.value("SELECT termgate.job_finish(" + run + ", 'completed', 0)") == "t");
    CHECK(s.value("SELECT termgate.release_lease(" + led + ", 'one', 1)") == "t");
    CHECK(s.value("SELECT term FROM termgate.acquire_lease(" + led + ", 'two', '00:00:20')") ==
          "2");
    CHECK(s.value("SELECT termgate.force_release(" + led + ", 'me', 'a test')") == "t");
    CHECK(s.value("SELECT termgate.record_refusal(" + scope +
                  ", 5, 1, pg_catalog.now(), pg_catalog.now())") == "t");
    CHECK(s.value("SELECT termgate.reset_fence(" + scope + ", 4, 'me', 'a test')") == "6");
    CHECK(s.value("SELECT termgate.set_raise_by(" + scope + ", 'seal')") == "seal");
    CHECK(s.run("SELECT termgate.check_term(" + scope + ", 9)").code == "TG005");
    CHECK(s.value("SELECT termgate.declare_restored(" + scope + ", 8, 'me', 'a test')") == "8");
    CHECK(s.value("SELECT fence FROM termgate.seal(" + scope + ", 10)") == "10");

    s.must(
        "CREATE TABLE app.t (scope text, term bigint, v int); CREATE INDEX ON app.t (scope, term)");
    for (const std::string& how : {std::string("scope_column => 'scope'"), "scope => " + scope,
                                   std::string("scope => '*'")}) {
      CAPTURE(how);
      s.must("SELECT termgate.protect('app.t', " + how + ")");
      CHECK(s.run("INSERT INTO app.t VALUES (" + scope + ", 10, 1)").code == "TG002");
      CHECK(s.run("BEGIN; SELECT termgate.check_term(" + scope +
                  ", 10); INSERT INTO app.t VALUES (" + scope +
                  ", 10, 1); UPDATE app.t SET v = 2; COMMIT")
                .ok());
      CHECK(s.run("BEGIN; SELECT pg_catalog.set_config('termgate.scope', " + scope +
                  ", true), pg_catalog.set_config('termgate.term', '10', true); DELETE FROM app.t; "
                  "COMMIT")
                .ok());
      CHECK(s.run("BEGIN; SELECT pg_catalog.set_config('termgate.scope', " + scope +
                  ", true), pg_catalog.set_config('termgate.term', '9', true);"
                  "INSERT INTO app.t VALUES (" +
                  scope + ", 10, 1); COMMIT")
                .code == "TG001");
      s.run("ROLLBACK");
      CHECK(s.run("BEGIN ISOLATION LEVEL READ COMMITTED; SELECT termgate.check_term(" + scope +
                  ", 10); TRUNCATE app.t; COMMIT")
                .ok());
      s.run("ROLLBACK");
      s.must("SELECT termgate.unprotect('app.t')");
    }
    s.must("INSERT INTO app.t VALUES (" + scope + ", 11, 1); SELECT termgate.set_raise_by(" +
           scope + ", 'writer'); SELECT termgate.adopt('app.t', 'scope', 'term')");
    CHECK(s.value("SELECT term FROM termgate.fence(" + scope + ")") == "11");
    s.must("INSERT INTO app.t VALUES (" + scope + ", 12, 1)");
    CHECK(s.value("SELECT term FROM termgate.fence(" + scope + ")") == "12");
    s.must("SELECT termgate.unadopt('app.t'); DROP TABLE app.t");
  };
  both("'" + tag + "'", "a plain name");
  both(odd, "an odd name");
  CHECK(s.value("SELECT value FROM termgate.set_setting('eviction_grace_ms', '900')") == "900");
  s.must(
      "SELECT termgate.declare_nothing_lost('me', 'a test'); SELECT termgate.prune_history('1 "
      "day')");
  CHECK(s.value("SELECT pg_catalog.count(*) > 0 FROM termgate.doctor()") == "t");
  CHECK(s.must("SELECT * FROM termgate.verify_findings() WHERE kind OPERATOR(pg_catalog.<>) 'term "
               "decreases'")
            .rows.empty());
  for (const char* view : {"fence_status", "lease_status", "stream_status", "job_history",
                           "audit_log", "setting_list", "protected_tables", "adopted_tables"}) {
    CAPTURE(view);
    CHECK(s.run(std::string("SELECT * FROM termgate.") + view).ok());
  }
}

}  // namespace

TEST_CASE("settings: layer 1 does the same whatever the role has set", "[F2][F5][live]") {
  PgDatabase database("settings", PgDatabase::Install::none);
  const std::string owner = "tg_settings_owner_" + std::to_string(getpid());
  database.install_as(owner);
  PgSession admin(database.url());
  const std::string role = "tg_settings_" + std::to_string(getpid());
  const std::string url = database.url_as(role, "operate");
  admin.must("CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO PUBLIC");
  admin.must(evil);
  {
    PgSession plain(url);
    whole_api(plain, "plain");
  }
  std::size_t set = 0;
  for (const std::string& one : hostile)
    set += admin.run("ALTER ROLE " + role + " SET " + one).ok() ? 1 : 0;
  CHECK(set + 6 > hostile.size());
  for (const char* level : {"read committed", "repeatable read", "serializable"}) {
    CAPTURE(level);
    admin.must("ALTER ROLE " + role + " SET default_transaction_isolation = '" + level + "'");
    PgSession session(url);
    REQUIRE(session.value("SELECT pg_catalog.current_setting('standard_conforming_strings')") ==
            "off");
    whole_api(session, level);
  }
  // A trigger function that one role's session made serves the others.
  PgSession doctor(database.url());
  CHECK(doctor.must("SELECT * FROM termgate.doctor() WHERE problem LIKE '%triggers are missing%'")
            .rows.empty());
  admin.must("ALTER ROLE " + role + " RESET ALL");
}

TEST_CASE("settings: no function of layer 1 has a literal that a setting could change", "[live]") {
  PgDatabase database("settings_literals");
  PgSession admin(database.url());
  admin.must(
      "CREATE TABLE t (s text, n bigint); CREATE INDEX ON t (s, n); SELECT termgate.protect('t', "
      "scope_column => 's'), termgate.adopt('t', "
      "'s', 'n')");
  // Comments may have one.
  CHECK(admin
            .must("SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'termgate'::regnamespace "
                  "AND strpos(regexp_replace(p.prosrc, "
                  "'(^|\\s)-- [^\\n]*', '', 'g'), chr(92)) > 0")
            .rows.empty());
}
