// [F3] Layer 1 of an older version is upgraded in place: functions are those of a fresh install,
// and grants, data and settings stay.
#include <catch2/catch.hpp>

#include <cstdio>
#include <memory>

#include <termgate/operator.hpp>

#include "support/pg_session.hpp"

using termgate::Database;
using termgate::test::PgDatabase;
using termgate::test::PgSession;

namespace {

// The files of schema version 13 as they were, with its rows of migrations.
std::string schema_13() {
  const std::string command =
      std::string("gzip -dc '") + TERMGATE_TEST_FIXTURES + "/postgres_schema_13.sql.gz'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), &pclose);
  std::string text(1 << 20, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), pipe.get()));
  return text;
}

// Every function, view, column, trigger and grant of layer 1, one a line.
const char* const everything =
    "SELECT string_agg(line, E'\\n' ORDER BY line) FROM ("
    "SELECT pg_get_functiondef(p.oid) AS line FROM pg_proc p WHERE p.pronamespace = "
    "'termgate'::regnamespace "
    "UNION ALL SELECT p.oid::regprocedure || ' ' || a.grantee::regrole || ' ' || a.privilege_type "
    "FROM pg_proc p, aclexplode(p.proacl) a "
    "WHERE p.pronamespace = 'termgate'::regnamespace "
    "UNION ALL SELECT c.oid::regclass || ' ' || a.grantee::regrole || ' ' || a.privilege_type FROM "
    "pg_class c, aclexplode(c.relacl) a "
    "WHERE c.relnamespace = 'termgate'::regnamespace AND c.relkind = 'v' "
    "UNION ALL SELECT c.oid::regclass || ': ' || pg_get_viewdef(c.oid) FROM pg_class c WHERE "
    "c.relnamespace = 'termgate'::regnamespace AND "
    "c.relkind = 'v' "
    "UNION ALL SELECT d.classoid::regclass || ' ' || pg_describe_object(d.classoid, d.objoid, "
    "d.objsubid) || ': ' || d.description FROM "
    "pg_description d "
    "  WHERE (d.classoid = 'pg_proc'::regclass AND (SELECT p.pronamespace FROM pg_proc p WHERE "
    "p.oid = d.objoid) = "
    "'termgate'::regnamespace) "
    "     OR (d.classoid = 'pg_class'::regclass AND (SELECT c.relnamespace FROM pg_class c WHERE "
    "c.oid = d.objoid) = "
    "'termgate'::regnamespace) "
    "UNION ALL SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = "
    "i.indexrelid WHERE c.relnamespace = "
    "'termgate'::regnamespace "
    "UNION ALL SELECT g.tgrelid::regclass || ' ' || pg_get_triggerdef(g.oid) || g.tgenabled::text "
    "FROM pg_trigger g JOIN pg_class c ON "
    "c.oid = g.tgrelid WHERE c.relnamespace = 'termgate'::regnamespace "
    "UNION ALL SELECT a.attrelid::regclass || '.' || a.attname || ' ' || format_type(a.atttypid, "
    "a.atttypmod) || ' ' || a.attnotnull || "
    "coalesce(pg_get_expr(d.adbin, d.adrelid), '') "
    "  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON "
    "d.adrelid = a.attrelid AND d.adnum = a.attnum "
    "  WHERE c.relnamespace = 'termgate'::regnamespace AND c.relkind IN ('r', 'v') AND a.attnum > "
    "0 AND NOT a.attisdropped) q";

const std::string uses =
    "CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO PUBLIC; CREATE TABLE app.rows (scope text, term "
    "bigint, v int); CREATE INDEX ON "
    "app.rows (scope, term);"
    "SELECT termgate.protect('app.rows', scope_column => 'scope'); SELECT "
    "termgate.adopt('app.rows', 'scope', 'term')";

}  // namespace

TEST_CASE("upgrade: schema 13 becomes what a fresh install makes", "[F3][live]") {
  const std::string me = std::to_string(getpid());
  const std::string reader = "tg_up_read_" + me;
  const std::string writer = "tg_up_write_" + me;
  const std::string leader = "tg_up_lead_" + me;
  PgDatabase fresh("upgrade_fresh");
  PgDatabase old("upgrade_old", PgDatabase::Install::none);
  PgSession was(old.url());
  was.must("BEGIN; " + schema_13() + "; COMMIT");
  REQUIRE(was.value("SELECT termgate.schema_version()") == "13");
  for (const PgDatabase* database : {&fresh, &old}) {
    const std::string grant =
        database == &old ? "SELECT termgate._grant('" : "SELECT termgate.grant_level('";
    PgSession owner(database->url());
    for (const auto& [role, level] :
         {std::pair(reader, "read"), std::pair(writer, "write"), std::pair(leader, "lead")}) {
      database->url_as(role, "");
      owner.must(grant + role + "', '" + level + "')");
    }
    owner.must(uses);
  }
  // Grants by hand, one with the right to pass it on, and one to everybody.
  const std::string by_hand =
      "GRANT EXECUTE ON FUNCTION termgate.prune(text, bigint) TO " + reader +
      " WITH GRANT OPTION; GRANT EXECUTE ON FUNCTION termgate.fence(text) TO PUBLIC; "
      "GRANT SELECT ON termgate.fence_status TO PUBLIC; GRANT USAGE ON SCHEMA termgate TO PUBLIC";
  PgSession(fresh.url()).must(by_hand);
  was.must(by_hand);
  was.must(
      "SELECT termgate.set_setting('eviction_grace_ms', '700'); SELECT termgate.append('s', 5, "
      "'x'); SELECT termgate.seal('other', 9);"
      "SELECT * FROM termgate.acquire_lease('led', 'one', '1 day'); SELECT "
      "termgate.job_start('nightly', 'led', 'one', 1)");

  const auto report = termgate::Operator(Database::open(old.url())).install();
  CHECK(report.from_version == 13);
  CHECK(std::to_string(report.to_version) ==
        PgSession(fresh.url()).value("SELECT termgate.schema_version()"));
  const std::string expected = PgSession(fresh.url()).value(everything);
  const std::string found = PgSession(old.url()).value(everything);
  REQUIRE(expected.size() > 100000);
  if (found != expected) {
    std::size_t at = 0;
    while (at < found.size() && at < expected.size() && found[at] == expected[at]) ++at;
    CAPTURE(expected.substr(at > 200 ? at - 200 : 0, 600),
            found.substr(at > 200 ? at - 200 : 0, 600));
    FAIL("an upgraded layer 1 differs from a fresh one");
  }
  PgSession now(old.url());
  CHECK(now.value("SELECT value FROM termgate.settings WHERE name = 'eviction_grace_ms'") == "700");
  CHECK(now.value(
            "SELECT string_agg(scope || ' ' || term, ', ' ORDER BY scope) FROM termgate.fences") ==
        "led 1, other 9, s 5");
  CHECK(now.value("SELECT count(*) FROM termgate.migrations") ==
        PgSession(fresh.url()).value("SELECT count(*) FROM termgate.migrations"));
  // As the roles that were granted something.
  PgSession write(old.url_as(writer, ""));
  CHECK(write.must("SELECT termgate.append('s', 5, 'y')").value() == "2");
  CHECK(write.run("SELECT termgate.append('s', 4, 'y')").code == "TG001");
  CHECK(write.run("SELECT termgate.seal('s', 8)").code == "42501");
  PgSession lead(old.url_as(leader, ""));
  CHECK(lead.must("SELECT renewed FROM termgate.renew_lease('led', 'one', 1, '1 hour')").value() ==
        "t");
  // Nothing is pending any more, and an upgrade that is run again changes nothing.
  CHECK(termgate::Operator(Database::open(old.url())).install().from_version == report.to_version);
  now.must("DELETE FROM termgate.migrations WHERE version > 12");
  CHECK(termgate::Operator(Database::open(old.url())).install().from_version == 12);
  CHECK(PgSession(old.url()).value(everything) == expected);
}

TEST_CASE("install: every public function and view has a comment", "[live]") {
  PgDatabase fresh("install_comments");
  PgSession now(fresh.url());
  REQUIRE(now.value("SELECT obj_description('termgate.check_term'::regproc, 'pg_proc')")
              .find("The check") == 0);
  // Names that begin with _ are internal.
  const std::string missing =
      "SELECT coalesce(string_agg(name, ', ' ORDER BY name), 'none') FROM ("
      "SELECT p.proname AS name FROM pg_proc p WHERE p.pronamespace = 'termgate'::regnamespace AND "
      "p.proname !~ '^_' "
      "  AND coalesce(obj_description(p.oid, 'pg_proc'), '') = '' "
      "UNION ALL SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'termgate'::regnamespace "
      "AND c.relkind = 'v' AND c.relname !~ "
      "'^_' "
      "  AND coalesce(obj_description(c.oid, 'pg_class'), '') = '') q";
  CHECK(now.value(missing) == "none");
  now.must(
      "COMMENT ON FUNCTION termgate.unadopt(regclass) IS NULL; COMMENT ON VIEW termgate.audit_log "
      "IS NULL");
  CHECK(now.value(missing) == "audit_log, unadopt");
}

TEST_CASE("upgrade: doctor names the tables that must be protected again", "[F6][live]") {
  PgDatabase old("upgrade_protected", PgDatabase::Install::none);
  PgSession was(old.url());
  was.must("BEGIN; " + schema_13() + "; COMMIT");
  was.must(
      "CREATE TABLE root (k int) PARTITION BY LIST (k); CREATE TABLE part1 PARTITION OF root FOR "
      "VALUES IN (1); SELECT "
      "termgate.protect('part1', scope => 'a')");
  termgate::Operator(Database::open(old.url())).install();
  PgSession now(old.url());
  CHECK(now.value("SELECT problem FROM termgate.doctor() WHERE severity = 'error' AND object = "
                  "'public.part1'")
            .find("termgate_below") != std::string::npos);
  now.must("SELECT termgate.protect('part1', scope => 'a')");
  CHECK(
      now.must(
             "SELECT * FROM termgate.doctor() WHERE severity = 'error' AND object = 'public.part1'")
          .rows.empty());
  CHECK(now.run("INSERT INTO root VALUES (1)").code == "TG002");
  CHECK(now.must("SELECT object FROM termgate._doctor_layer1() WHERE severity = 'warning'").rows ==
        std::vector<std::vector<std::string>>{{"public.part1"}});
}

TEST_CASE("upgrade: a frozen writer holds it up for seconds and not for ever", "[F4][live]") {
  PgDatabase old("upgrade_held", PgDatabase::Install::none);
  PgSession was(old.url());
  was.must("BEGIN; " + schema_13() + "; COMMIT");
  PgSession frozen(old.url());
  frozen.must("BEGIN; SELECT termgate.append('s', 5, 'x')");
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS(termgate::Operator(Database::open(old.url())).install());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  CHECK(was.value("SELECT termgate.schema_version()") == "13");
  frozen.must("COMMIT");
  CHECK(termgate::Operator(Database::open(old.url())).install().to_version > 13);
  CHECK(was.value("SELECT termgate.append('s', 5, 'x')") == "2");
}
