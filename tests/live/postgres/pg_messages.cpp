// [F3] [F6] What refusals say and count, prepared transactions on untrusted scopes, and an owner of
// layer 1 with as few rights as a managed server gives.
#include <catch2/catch.hpp>

#include "support/pg_session.hpp"

using termgate::test::PgDatabase;
using termgate::test::PgResult;
using termgate::test::PgSession;

namespace {

struct Refusals {
  static PgDatabase& database() {
    static PgDatabase one("messages");
    return one;
  }
  const std::string me = std::to_string(getpid());
  PgSession admin{database().url()};
  PgSession app{prepared()};

  std::string prepared() {
    admin.must(
        "DROP SCHEMA IF EXISTS app CASCADE; CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO PUBLIC; "
        "CREATE TABLE app.t (v int); GRANT ALL ON "
        "app.t TO PUBLIC; "
        "SELECT termgate.seal('billing', 5); SELECT termgate.protect('app.t', scope => 'billing')");
    return database().url_as("tg_msg_" + me, "write");
  }
  struct Said {
    std::string code, message, hint;
  };
  Said said(PgSession& session, const std::string& sql) {
    PGresult* result = nullptr;
    Said last;
    PQsendQuery(session.raw(), sql.c_str());
    while ((result = PQgetResult(session.raw())) != nullptr) {
      if (const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE)) {
        const char* hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
        last = {state, PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY),
                hint != nullptr ? hint : ""};
      }
      PQclear(result);
    }
    session.run("ROLLBACK");
    return last;
  }
  std::string counted(const std::string& code) {
    return admin.value("SELECT count FROM termgate.refusal_counts WHERE code = '" + code + "'");
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("messages: TG002 says what was declared and what is needed", "[F6][live]") {
  Refusals r;
  struct Case {
    const char *declared, *seen;
  };
  for (const Case& one :
       {Case{"", "nothing is declared"},
        Case{"SET LOCAL termgate.scope = 'other'; SET LOCAL termgate.term = '6';",
             "term 6 is declared for scope \"other\""},
        Case{"SET LOCAL termgate.scope = 'billing';",
             "scope \"billing\" is declared without a term"},
        Case{"SET LOCAL termgate.term = '5';", "term 5 is declared without a scope"}}) {
    CAPTURE(one.declared);
    const auto refused =
        r.said(r.app, std::string("BEGIN; ") + one.declared + " INSERT INTO app.t VALUES (1)");
    CHECK(refused.code == "TG002");
    CHECK(refused.message ==
          std::string("TG002 no term declared for scope \"billing\": table app.t is protected; ") +
              one.seen);
    CHECK(contains(refused.hint, "SET LOCAL termgate.scope = 'billing'"));
    CHECK(contains(refused.hint, "check_term('billing', N)"));
    CHECK(contains(refused.hint, "Outside a transaction block"));
  }
  // What the hint says works, once the leader's term is in the place of N.
  CHECK(r.app
            .run("BEGIN; SET LOCAL termgate.scope = 'billing'; SET LOCAL termgate.term = '5'; "
                 "INSERT INTO app.t VALUES (1); COMMIT")
            .ok());
}

TEST_CASE("messages: a hint names a function that the role may call", "[live]") {
  Refusals r;
  const std::string above =
      "BEGIN; SET LOCAL termgate.scope = 'billing'; SET LOCAL termgate.term = '6'; INSERT INTO "
      "app.t VALUES (1)";
  CHECK(contains(r.said(r.app, above).hint, "\"termgate\".check_term('billing', 6)"));
  PgSession lead(Refusals::database().url_as("tg_msg_lead_" + r.me, "lead"));
  CHECK(contains(r.said(lead, above).hint, "\"termgate\".seal('billing', 6)"));
  // As SET ROLE has it, not as it logged in.
  r.admin.must("GRANT tg_msg_" + r.me + " TO tg_msg_lead_" + r.me);
  lead.must("SET ROLE tg_msg_" + r.me);
  CHECK(contains(r.said(lead, above).hint, "\"termgate\".check_term('billing', 6)"));
  r.admin.must("SELECT termgate.set_raise_by('billing', 'seal')");
  CHECK(contains(r.said(r.app, above).hint, "termgate init --grant tg_msg_" + r.me + "=lead"));
  CHECK(contains(r.said(r.app, "SELECT termgate.check_term('billing', 6)").hint, "=lead"));
  r.admin.must(
      "SELECT termgate.set_raise_by('billing', 'writer'); SELECT termgate.acquire_lease('leased', "
      "'me', '10 s')");
  CHECK(contains(r.said(r.app,
                        "BEGIN; SELECT termgate.check_term('leased', 1); SELECT "
                        "termgate.check_term('leased', 2)")
                     .code,
                 "TG005"));
}

TEST_CASE("refusals: those of plain SQL are counted although they were rolled back", "[F6][live]") {
  Refusals r;
  const auto stale = std::stoll(r.counted("TG001"));
  const auto none = std::stoll(r.counted("TG002"));
  for (int i = 0; i < 3; ++i)
    CHECK(r.app.run("SELECT termgate.check_term('billing', 4)").code == "TG001");
  CHECK(r.said(r.app,
               "BEGIN; SET LOCAL termgate.scope = 'billing'; SET LOCAL termgate.term = '4'; INSERT "
               "INTO app.t VALUES (1)")
            .code == "TG001");
  CHECK(r.app.run("INSERT INTO app.t VALUES (1)").code == "TG002");
  CHECK(r.app.run("SELECT termgate.check_session()").code == "TG002");
  CHECK(r.counted("TG001") == std::to_string(stale + 4));
  CHECK(r.counted("TG002") == std::to_string(none + 2));
  // A read-only transaction cannot count, and is refused all the same; nobody else can write the
  // counts.
  CHECK(r.said(r.app, "BEGIN READ ONLY; SELECT termgate.check_term('billing', 4)").code == "TG001");
  CHECK(r.app.run("SELECT nextval('termgate.refused_tg001')").code == "42501");
  CHECK(r.app.run("SELECT setval('termgate.refused_tg001', 1)").code == "42501");
  CHECK(r.app.value("SELECT sum(count) > 0 FROM termgate.refusal_counts") == "t");
  CHECK(contains(
      r.admin.value("SELECT problem FROM termgate._doctor_layer1() WHERE object = 'refusals'"),
      "TG001: " + std::to_string(stale + 4)));
}

TEST_CASE("untrusted: prepared transactions that hold an untrusted scope are listed",
          "[F3][live]") {
  Refusals r;
  if (r.admin.value("SELECT current_setting('max_prepared_transactions')") == "0") return;
  r.admin.must("SELECT termgate.seal('prepared', 5), termgate.seal('other', 5)");
  const std::string gid = "tg_untrusted_" + r.me;
  r.app.must("BEGIN; SELECT termgate.check_term('prepared', 5); PREPARE TRANSACTION '" + gid + "'");
  CHECK(r.admin.must("SELECT * FROM termgate._prepared_in_doubt()").rows.empty());
  r.admin.must("SELECT termgate.declare_untrusted('test', 'a restore')");
  CHECK(r.admin.must("SELECT gid, scope FROM termgate._prepared_in_doubt()").rows ==
        std::vector<std::vector<std::string>>{{gid, "prepared"}});
  CHECK(contains(
      r.admin.value("SELECT object FROM termgate._doctor_layer1() WHERE severity = 'error'"), gid));
  r.admin.must("SELECT termgate.declare_nothing_lost('test', 'a restore')");
  CHECK(r.admin.value("SELECT count(*) FROM termgate.audit_log WHERE action = 'prepared_in_doubt' "
                      "AND detail::text LIKE '%" +
                      gid + "%'") == "1");
  CHECK(r.admin.must("SELECT * FROM termgate._prepared_in_doubt()").rows.empty());
  r.admin.must("ROLLBACK PREPARED '" + gid + "'");
}

TEST_CASE(
    "managed: an owner without superuser and pg_signal_backend and pg_control_system installs and "
    "works",
    "[F3][F4][live]") {
  PgDatabase managed("managed", PgDatabase::Install::none);
  const std::string me = std::to_string(getpid());
  PgSession admin(managed.url());
  // A database without what PUBLIC may do on one's own server.
  admin.must("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC");
  managed.install_as("tg_managed_" + me, "");
  PgSession owner(managed.url_as("tg_managed_" + me, "")),
      app(managed.url_as("tg_managed_app_" + me, ""));
  owner.must("SELECT termgate.grant_level('tg_managed_app_" + me + "', 'operate')");
  CHECK(app.value("SELECT term FROM termgate.acquire_lease('s', 'me', '10 s')") == "1");
  CHECK(app.value("SELECT termgate.append('s', 1, 'x')") == "1");
  CHECK(contains(owner.value("SELECT problem FROM termgate._doctor_layer1() WHERE object = "
                             "'function pg_control_system()'"),
                 "tg_managed_" + me));
  CHECK(owner.must("SELECT * FROM termgate.doctor() WHERE problem LIKE '%may not end other roles%'")
            .rows.size() == 1);
  // A restart is noted, and a declared restore ended, without it.
  owner.must(
      "UPDATE termgate.incarnation SET postmaster_start = postmaster_start - interval '1 day'");
  CHECK(app.value("SELECT untrusted IS NULL FROM termgate.fence('s')") == "t");
  CHECK(owner.value(
            "SELECT postmaster_start = pg_postmaster_start_time() FROM termgate.incarnation") ==
        "t");
  owner.must("SELECT termgate.declare_untrusted('test', 'a restore')");
  CHECK(app.run("SELECT termgate.check_term('s', 1)").code == "TG004");
  CHECK(app.value("SELECT acquired FROM termgate.acquire_lease('s', 'me', '10 s')") == "t");
  owner.must("SELECT termgate.declare_nothing_lost('test', 'a restore')");
  // Where it may be asked later on, its answer is noted, and the scope stays trusted.
  admin.must("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC");
  owner.must(
      "UPDATE termgate.incarnation SET postmaster_start = postmaster_start - interval '1 day'");
  CHECK(app.value("SELECT untrusted IS NULL FROM termgate.fence('s')") == "t");
  CHECK(owner.value("SELECT system_identifier <> 0 FROM termgate.incarnation") == "t");
  // A frozen writer of another role is named and not hung upon.
  PgSession frozen(managed.url_as("tg_managed_other_" + me, ""));
  owner.must("SELECT termgate.grant_level('tg_managed_other_" + me +
             "', 'write'); SELECT termgate.seal('t', 5); UPDATE termgate.settings SET value = "
             "'200' WHERE name IN ('eviction_grace_ms', "
             "'check_wait_ms')");
  frozen.must("BEGIN; SELECT termgate.check_term('t', 5)");
  const auto blocked = app.run("SELECT termgate.seal('t', 6)");
  CHECK(blocked.code == "TG006");
  CHECK(contains(blocked.message, "GRANT pg_signal_backend"));
}
