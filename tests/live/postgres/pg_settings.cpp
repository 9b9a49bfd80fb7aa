// [F2] [F5] Layer 1 does the same under any settings of the calling role: the whole API as a plain
// role whose ALTER ROLE SET is as hostile as can be.
#include <catch2/catch.hpp>

#include <map>
#include <vector>

#include "pg_calls.hpp"

using termgate::test::filled;
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

// A call of layer 1, and its first value or the code of its refusal.
struct Call {
  const char *call, *wanted;
};

// clang-format off
const Call calls[] = {
    {"fence FROM termgate.seal({S}, 5)", "5"},
    {"termgate.check_term({S}, 5)", "5"},
    {"termgate.check_term({S}, 6)", "6"},
    {"termgate.check_term({S}, 5)", "TG001"},
    {"termgate.check_term({S}, 0)", "TG005"},
    {"fence FROM termgate.check_session({S}, 6)", "6"},
    {"termgate.check_session()", "TG002"},
    {"fence FROM termgate.hold_session({S}, 6)", "6"},
    {"released FROM termgate.release_session()", "t"},
    {"termgate.append({STREAM}, 6, 'x', NULL, {S})", "1"},
    {"termgate.append({STREAM}, 6, 'x', 1)", "2"},
    {"termgate.append({STREAM}, 6, 'x', 1)", "TG003"},
    {"termgate.append({STREAM}, 5, 'x')", "TG001"},
    {"termgate.append({STREAM}, 6, 'x', NULL, NULL, {ID})", "3"},
    {"termgate.append({STREAM}, 6, 'x', NULL, NULL, {ID})", "3"},
    {"termgate.append_many({STREAM}, 6, ARRAY['a', 'b']::bytea[])", "5"},
    {"sequence_no FROM termgate.outcome({ID})", "3"},
    {"fresh FROM termgate.claim_write({S}, 6, pg_catalog.gen_random_uuid())", "t"},
    {"pg_catalog.count(*) FROM termgate.read_stream({STREAM})", "5"},
    {"termgate.prune({STREAM}, 2)", "1"},
    {"termgate.stream_move({STREAM}, pg_catalog.concat({S}, '2'), 'me', 'a test')", "t"},
    {"term FROM termgate.fence({S})", "6"},
    {"term FROM termgate.acquire_lease({LED}, 'one', '00:00:20')", "1"},
    {"acquired FROM termgate.acquire_lease({LED}, 'two', '00:00:20')", "f"},
    {"renewed FROM termgate.renew_lease({LED}, 'one', 1, '00:00:20')", "t"},
    {"live FROM termgate.lease({LED})", "t"},
    {"termgate.job_start('job', {LED}, 'one', 1)", "RUN"},
    {"termgate.job_heartbeat({RUN}, 'half')", "t"},
    {"termgate.job_finish({RUN}, 'completed', 0)", "t"},
    {"termgate.release_lease({LED}, 'one', 1)", "t"},
    {"term FROM termgate.acquire_lease({LED}, 'two', '00:00:20')", "2"},
    {"termgate.force_release({LED}, 'me', 'a test')", "t"},
    {"termgate.record_refusal({S}, 5, 1, pg_catalog.now(), pg_catalog.now())", "t"},
    {"termgate.reset_fence({S}, 4, 'me', 'a test')", "6"},
    {"termgate.set_raise_by({S}, 'seal')", "seal"},
    {"termgate.check_term({S}, 9)", "TG005"},
    {"termgate.declare_restored({S}, 8, 'me', 'a test')", "8"},
    {"fence FROM termgate.seal({S}, 10)", "10"},
};
// clang-format on

void whole_api(PgSession& s, const std::string& tag) {
  // A name with everything that has to be escaped somewhere, as a literal that means the same under
  // every setting.
  const std::string odd =
      "pg_catalog.concat('" + tag + " |', pg_catalog.chr(92), 'b', pg_catalog.chr(92), '|p''\"%')";
  for (const std::string& scope : {"'" + tag + "'", odd}) {
    CAPTURE(scope);
    std::map<std::string, std::string> values{
        {"{STREAM}", "pg_catalog.concat('stream of ', " + scope + ")"},
        {"{LED}", "pg_catalog.concat('led ', " + scope + ")"},
        {"{ID}", "'" + s.value("SELECT pg_catalog.gen_random_uuid()") + "'"},
        {"{S}", scope}};
    for (const Call& one : calls) {
      CAPTURE(one.call);
      const auto result = s.run("SELECT " + filled(one.call, values));
      if (one.wanted == std::string("RUN")) values["{RUN}"] = result.value();
      else CHECK((result.ok() ? result.value() : result.code) == one.wanted);
    }
    const auto declared = [&](const std::string& term, const std::string& write) {
      const auto code = s.run("BEGIN; SELECT pg_catalog.set_config('termgate.scope', " + scope +
                              ", true), pg_catalog.set_config('termgate.term', '" + term +
                              "', true); " + write + "; COMMIT")
                            .code;
      s.run("ROLLBACK");
      return code;
    };
    const std::string insert = "INSERT INTO app.t VALUES (" + scope + ", 10, 1)";
    s.must(
        "CREATE TABLE app.t (scope text, term bigint, v int); CREATE INDEX ON app.t (scope, term)");
    for (const std::string& how : {std::string("scope_column => 'scope'"), "scope => " + scope,
                                   std::string("scope => '*'")}) {
      CAPTURE(how);
      s.must("SELECT termgate.protect('app.t', " + how + ")");
      CHECK(s.run(insert).code == "TG002");
      CHECK(s.run("BEGIN; SELECT termgate.check_term(" + scope + ", 10); " + insert +
                  "; UPDATE app.t SET v = 2; COMMIT")
                .ok());
      // What is set after the check does not take back what has passed.
      CHECK(s.run("BEGIN; SELECT termgate.check_term(" + scope +
                  ", 10); SET LOCAL timezone = 'Asia/Tokyo'; SET LOCAL datestyle = 'ISO, MDY'; SET "
                  "LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 0; SET LOCAL "
                  "intervalstyle = 'iso_8601'; " +
                  insert + "; COMMIT")
                .ok());
      CHECK(declared("10", "DELETE FROM app.t") == "");
      CHECK(declared("9", insert) == "TG001");
      CHECK(s.run("BEGIN ISOLATION LEVEL READ COMMITTED; SELECT termgate.check_term(" + scope +
                  ", 10); TRUNCATE app.t; COMMIT")
                .ok());
      s.must("SELECT termgate.unprotect('app.t')");
    }
    s.must("INSERT INTO app.t VALUES (" + scope + ", 11, 1); SELECT termgate.set_raise_by(" +
           scope + ", 'writer'); SELECT termgate.adopt('app.t', 'scope', 'term')");
    CHECK(s.value("SELECT term FROM termgate.fence(" + scope + ")") == "11");
    s.must("INSERT INTO app.t VALUES (" + scope + ", 12, 1)");
    CHECK(s.value("SELECT term FROM termgate.fence(" + scope + ")") == "12");
    s.must("SELECT termgate.unadopt('app.t'); DROP TABLE app.t");
  }
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
  std::size_t set = 0;
  for (const std::string& one : hostile)
    set += admin.run("ALTER ROLE " + role + " SET " + one).ok() ? 1 : 0;
  CHECK(set + 6 > hostile.size());
  for (const char* level : {"read committed", "serializable"}) {
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
