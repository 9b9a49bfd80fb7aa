// [F4] Nothing that a frozen session of the old leader can hold keeps a takeover waiting: every
// kind of lock it can have, against every way to take over. What is no lock of the scope is named
// by TG006 within check_wait and never ended.
#include <catch2/catch.hpp>

#include "pg_calls.hpp"

using termgate::test::filled;
using termgate::test::PgDatabase;
using termgate::test::PgSession;
using termgate::test::wait_until;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds grace{150};
constexpr seconds check_wait{1};
// Two cores that do other work too.
constexpr milliseconds slack{2500};
const bool short_run = std::getenv("TERMGATE_TEST_LONG") == nullptr;

// Layer 1 belongs to a role that is no superuser; the stale leader and its successor are one plain
// role that owns an adopted and a protected table.
struct Lab {
  static Lab& one() {
    static Lab lab;
    return lab;
  }
  PgDatabase database{"takeover", PgDatabase::Install::none};
  std::string role = "tg_leader_" + std::to_string(getpid());
  std::string url;
  PgSession admin{installed()};

  std::string installed() {
    database.install_as("tg_takeover_owner_" + std::to_string(getpid()));
    url = database.url_as(role, "operate");
    PgSession owner(database.url());
    owner.must(
        "UPDATE termgate.settings SET value = '" + std::to_string(grace.count()) +
        "' WHERE name = 'eviction_grace_ms'; UPDATE termgate.settings SET value = '" +
        std::to_string(milliseconds(check_wait).count()) +
        "' WHERE name = 'check_wait_ms'; CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO PUBLIC");
    PgSession app(url);
    app.must(
        "CREATE TABLE app.adopted (scope text, term bigint, v int); CREATE INDEX ON app.adopted "
        "(scope, term); SELECT "
        "termgate.adopt('app.adopted', 'scope', 'term')");
    app.must(
        "CREATE TABLE app.guarded (scope text, v int); SELECT termgate.protect('app.guarded', "
        "scope_column => 'scope')");
    app.must("CREATE TABLE app.other (v int)");
    app.must("SELECT count(termgate.seal('many ' || n, 1)) FROM generate_series(1, 120) n");
    return database.url();
  }
};

// What the old leader of scope H has done, in a transaction that it leaves open for ever.
struct Held {
  const char* name;
  std::string sql;  // H: the scope; N: its term
  bool of_scope;  // holds a lock of the scope, so that it is evicted; else it holds nothing that a
                  // takeover of H needs
};

// clang-format off
const std::vector<Held> holds = {
    {"passed its check", "SELECT termgate.check_term('{H}', {N})", true},
    {"truncated an adopted table", "SELECT termgate.check_term('{H}', {N}); TRUNCATE app.adopted", true},
    {"locked an adopted table", "SELECT termgate.check_term('{H}', {N}); LOCK TABLE app.adopted IN ACCESS EXCLUSIVE MODE", true},
    {"locked an adopted table without a check", "LOCK TABLE app.adopted IN ACCESS EXCLUSIVE MODE", false},
    {"altered tables", "SELECT termgate.check_term('{H}', {N}); ALTER TABLE app.adopted ADD COLUMN w int; ALTER TABLE app.guarded ADD COLUMN w int; LOCK TABLE app.other", true},
    {"appended", "SELECT termgate.append('stream {H}', {N}, 'x', NULL, '{H}')", true},
    {"appended with a write id", "SELECT termgate.append('stream {H}', {N}, 'x', NULL, '{H}', gen_random_uuid())", true},
    {"wrote to guarded tables", "SET LOCAL termgate.scope = '{H}'; SET LOCAL termgate.term = '{N}'; INSERT INTO app.guarded VALUES ('{H}', 1); INSERT INTO app.adopted VALUES ('{H}', {N}, 1)", true},
    {"renewed its lease", "SELECT termgate.renew_lease('{H}', 'old', {N}, '1 s')", true},
    {"released its lease", "SELECT termgate.release_lease('{H}', 'old', {N})", true},
    {"acquired its lease anew", "SELECT termgate.acquire_lease('{H}', 'old', '1 s')", true},
    {"acquired its lease in a savepoint", "SAVEPOINT s; SELECT termgate.acquire_lease('{H}', 'old', '1 s'); RELEASE s", true},
    {"started and beat a run", "SELECT termgate.job_heartbeat(termgate.job_start('job', '{H}', 'old', {N}))", true},
    {"force-released", "SELECT termgate.force_release('{H}', 'old', 'a test')", true},
    {"is serializable", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT termgate.check_term('{H}', {N}); SELECT count(*) FROM app.adopted; INSERT INTO app.guarded VALUES ('{H}', 1)", true},
    {"is at repeatable read", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT termgate.check_term('{H}', {N}); INSERT INTO app.adopted VALUES ('{H}', {N}, 1)", true},
    {"protects and adopts tables", "SELECT termgate.protect('app.other', scope => '{H}'), termgate.protect('app.adopted', scope => '*')", false},
    {"dropped an adopted table", "SELECT termgate.unadopt('app.adopted'); DROP TABLE app.adopted", false},
    {"holds its session", "COMMIT; SELECT termgate.hold_session('{H}', {N}); BEGIN", true},
    {"passed very many scopes", "SELECT count(termgate.check_term('many ' || n, 1)) FROM generate_series(1, 120) n; SELECT termgate.check_term('{H}', {N})", true},
    {"declared that nothing was lost", "SELECT termgate.declare_nothing_lost('old', 'a test')", false},
    {"changed settings and pruned", "SELECT termgate.set_setting('payload_bytes_max', '1000000'), termgate.prune_history('1 day'), termgate.record_refusal('{H}', {N} - 1, 1, now(), now())", false},
    {"moved its stream", "SELECT termgate.append('stream {H}', {N}, 'x', NULL, '{H}'); COMMIT; BEGIN; SELECT termgate.stream_move('stream {H}', 'moved {H}', 'old', 'a test')", true},
    {"is resetting the fence", "SELECT termgate.reset_fence('{H}', {N}, 'old', 'a test')", true},
};
// clang-format on

}  // namespace

TEST_CASE("takeover: nothing that a frozen leader holds keeps its scope or another one",
          "[F4][live]") {
  Lab& lab = Lab::one();
  int number = 0;
  for (const Held& held : holds) {
    CAPTURE(held.name);
    const std::string tag = std::to_string(++number);
    if (short_run && number % 3 != 0) continue;
    const std::string scope = "held " + tag, other = "other " + tag;
    PgSession old(lab.url), successor(lab.url);
    const std::string term =
        old.value("SELECT term FROM termgate.acquire_lease('" + scope + "', 'old', '150 ms')");
    old.must("INSERT INTO app.adopted VALUES ('" + scope + "', " + term + ", 1)");
    successor.must("SELECT termgate.acquire_lease('" + other + "', 'gone', '100 ms')");
    wait_until("the other lease to run out", [&] {
      return lab.admin.value("SELECT live FROM termgate.lease('" + other + "')") == "f";
    });
    old.must("BEGIN");
    old.must(filled(held.sql, {{"{H}", scope}, {"{N}", term}}));
    // Other scopes go on, and so does the first seal of a new one, whatever is locked of an adopted
    // table; nobody is ended for them.
    auto start = Clock::now();
    CHECK(successor.value("SELECT acquired FROM termgate.acquire_lease('" + other +
                          "', 'new', '10 s')") == "t");
    CHECK(successor.value("SELECT renewed FROM termgate.renew_lease('" + other +
                          "', 'new', 2, '10 s')") == "t");
    CHECK(successor.value("SELECT termgate.check_term('" + other + "', 2)") == "2");
    CHECK(successor.value("SELECT fence FROM termgate.seal('new " + tag + "', 3)") == "3");
    CHECK(Clock::now() - start < slack);
    CHECK(old.run("SELECT 1").ok());
    wait_until("the lease to run out", [&] {
      return lab.admin.value("SELECT count(*) FROM termgate.leases WHERE scope = '" + scope +
                             "' AND expires_at > clock_timestamp()") == "0";
    });
    // A forced release goes the same way to the locks.
    start = Clock::now();
    const auto taken = successor.run(
        number % 6 == 0
            ? "SELECT termgate.force_release('" + scope + "', 'me', 'a test')"
            : "SELECT acquired FROM termgate.acquire_lease('" + scope + "', 'new', '10 s')");
    const auto took = Clock::now() - start;
    CAPTURE(taken.message, std::chrono::duration_cast<milliseconds>(took).count());
    CHECK(taken.value() == "t");
    CHECK(took < 2 * grace + seconds(1) + slack);
    // The stale write does not commit any more, unless it never had anything of the scope.
    CHECK(old.run(held.of_scope ? "COMMIT" : "ROLLBACK").ended() == held.of_scope);
    CHECK(successor.run("SELECT termgate.check_term('" + scope + "', " + term + ")").code ==
          "TG001");
    CHECK(successor
              .run("SELECT termgate.append('stream " + scope +
                   "', (SELECT term FROM termgate.fence('" + scope + "')), 'y', NULL, '" + scope +
                   "')")
              .ok());
  }
}

TEST_CASE("takeover: a seal of a scope without a lease ends a frozen raise to a lower term",
          "[F4][live]") {
  Lab& lab = Lab::one();
  for (const std::string& way : {std::string("SELECT termgate.check_term('raised', 6)"),
                                 std::string("SELECT termgate.seal('raised', 6)"),
                                 std::string("INSERT INTO app.adopted VALUES ('raised', 6, 1)")}) {
    CAPTURE(way);
    lab.admin.must(
        "SELECT termgate.reset_fence('raised', 5, 'test', 'again') FROM termgate.fence('raised') "
        "WHERE term > 5; SELECT "
        "termgate.seal('raised', 5)");
    PgSession old(lab.url);
    old.must("BEGIN");
    old.must(way);
    PgSession successor(lab.url);
    const auto start = Clock::now();
    CHECK(successor.value("SELECT fence FROM termgate.seal('raised', 7)") == "7");
    CHECK(Clock::now() - start < grace + slack);
    CHECK(old.run("COMMIT").ended());
  }
}

TEST_CASE(
    "takeover: while the database is untrusted a frozen acquisition of one scope holds up no other",
    "[F3][F4][live]") {
  Lab& lab = Lab::one();
  PgSession frozen(lab.url), next(lab.url);
  next.must(
      "SELECT termgate.acquire_lease('untrusted 1', 'old', '100 ms'), "
      "termgate.acquire_lease('untrusted 2', 'old', '100 ms'), "
      "termgate.acquire_lease('untrusted 3', 'old', '100 s'); SELECT pg_sleep(0.15)");
  next.must("SELECT termgate.declare_untrusted('test', 'a restore')");
  frozen.must("BEGIN; SELECT termgate.acquire_lease('untrusted 1', 'old', '10 s')");
  const auto start = Clock::now();
  CHECK(next.value("SELECT acquired FROM termgate.acquire_lease('untrusted 2', 'new', '10 s')") ==
        "t");
  CHECK(Clock::now() - start < slack);
  // An operator's word about a scope whose lease a frozen session is renewing.
  PgSession renewing(lab.url);
  next.must("SELECT termgate.acquire_lease('untrusted 3', 'old', '100 s')");
  const std::string term = next.value("SELECT term FROM termgate.fence('untrusted 3')");
  renewing.must("BEGIN; SELECT termgate.renew_lease('untrusted 3', 'old', " + term + ", '100 s')");
  const auto declaring = Clock::now();
  CHECK(next.run("SELECT termgate.declare_restored('untrusted 3', " + term +
                 " + 5, 'test', 'a restore')")
            .ok());
  CHECK(Clock::now() - declaring < 2 * grace + slack);
  CHECK(renewing.run("COMMIT").ended());
  // What has to change the one row that says whether the database was restored is named, and not
  // hung upon.
  PgSession declaring_all(lab.url);
  declaring_all.must("BEGIN; SELECT termgate.declare_nothing_lost('test', 'a restore')");
  const auto blocked = next.run("SELECT termgate.declare_nothing_lost('test', 'a restore')");
  CHECK(blocked.code == "TG006");
  CHECK(blocked.message.find("pid " + std::to_string(declaring_all.pid())) != std::string::npos);
  declaring_all.must("COMMIT");
  frozen.run("ROLLBACK");
}

TEST_CASE("acquire_lease: an expired lease was its holder's grace, a released one was not",
          "[F4][live]") {
  Lab& lab = Lab::one();
  constexpr milliseconds whole{3000};
  lab.admin.must("UPDATE termgate.settings SET value = '" + std::to_string(whole.count()) +
                 "' WHERE name = 'eviction_grace_ms'");
  const auto put_back = [&] {
    lab.admin.must("UPDATE termgate.settings SET value = '" + std::to_string(grace.count()) +
                   "' WHERE name = 'eviction_grace_ms'");
    lab.admin.must(
        "UPDATE termgate.settings SET value = '100' WHERE name = 'grace_after_expiry_ms'");
  };
  PgSession next(lab.url);
  // How long a takeover of `scope` takes where the holder, alive or not, is frozen in a transaction
  // that has passed its check.
  const auto takes = [&](const std::string& scope, const std::string& end,
                         const std::string& call) {
    PgSession old(lab.url);
    old.must("SELECT termgate.acquire_lease('" + scope + "', 'old', '150 ms')");
    old.must("BEGIN; SELECT termgate.check_term('" + scope + "', 1)");
    lab.admin.must(end);
    const auto from = Clock::now();
    const auto taken = next.must(call);
    CHECK(taken.value() == "t");
    CHECK(lab.admin.value("SELECT detail ->> 'evicted' FROM termgate.audit_log WHERE scope = '" +
                          scope + "' AND action = 'acquire' ORDER BY id DESC LIMIT 1") == "1");
    return std::chrono::duration_cast<milliseconds>(Clock::now() - from);
  };
  const std::string expires = "SELECT pg_sleep(0.2)";
  const auto acquire = [](const std::string& scope, const std::string& more = "") {
    return "SELECT acquired FROM termgate.acquire_lease('" + scope + "', 'new', '10 s'" + more +
           ")";
  };

  const milliseconds expired = takes("expired", expires, acquire("expired"));
  CHECK(expired >= milliseconds(100));
  CHECK(expired < whole - milliseconds(500));
  CHECK(takes("again its own", expires,
              "SELECT acquired FROM termgate.acquire_lease('again its own', 'old', '10 s')") <
        whole - milliseconds(500));
  CHECK(takes("released", "SELECT termgate.release_lease('released', 'old', 1)",
              acquire("released")) >= whole);
  CHECK(takes("named", expires, acquire("named", ", NULL, '1 s'")) >= milliseconds(1000));
  lab.admin.must("SELECT termgate.set_setting('grace_after_expiry_ms', '900')");
  CHECK(takes("set", expires, acquire("set")) >= milliseconds(900));
  // The shorter of the two.
  lab.admin.must("SELECT termgate.set_setting('grace_after_expiry_ms', '3600000')");
  lab.admin.must("SELECT termgate.set_setting('eviction_grace_ms', '200')");
  CHECK(takes("shorter", expires, acquire("shorter")) < slack);
  for (const std::string wrong : {"soon", "-1", "3600001", ""})
    CHECK(lab.admin.run("SELECT termgate.set_setting('grace_after_expiry_ms', '" + wrong + "')")
              .code == "TG005");
  put_back();
}

TEST_CASE("acquire_lease: of a herd that waits for an expiry one leads and nobody is ended",
          "[F3][F4][live]") {
  Lab& lab = Lab::one();
  // A loser that has not said so within the grace may be ended by the next, so the grace is the
  // ordinary one here.
  lab.admin.must(
      "SELECT termgate.set_setting('eviction_grace_ms', '1000'), "
      "termgate.set_setting('check_wait_ms', '5000')");
  for (int round = 0; round < 5; ++round) {
    const std::string scope = "expired herd " + std::to_string(round);
    lab.admin.must("SELECT termgate.acquire_lease('" + scope + "', 'before', '100 ms')");
    lab.admin.must("SELECT pg_sleep(0.12)");
    std::vector<std::unique_ptr<PgSession>> herd;
    for (int one = 0; one < 12; ++one) herd.push_back(std::make_unique<PgSession>(lab.url));
    for (std::size_t one = 0; one < herd.size(); ++one)
      herd[one]->send("SELECT acquired FROM termgate.acquire_lease('" + scope + "', 'o" +
                      std::to_string(one) + "', '10 s')");
    int won = 0;
    for (auto& session : herd) {
      const auto result = session->finish();
      CAPTURE(result.message);
      CHECK(result.ok());
      won += result.value() == "t" ? 1 : 0;
    }
    CHECK(won == 1);
    CHECK(lab.admin.value("SELECT term FROM termgate.fence('" + scope + "')") == "2");
    CHECK(lab.admin.value("SELECT count(*) FROM termgate.audit_log WHERE scope = '" + scope +
                          "' AND action = 'evict'") == "0");
  }
  lab.admin.must("SELECT termgate.set_setting('eviction_grace_ms', '" +
                 std::to_string(grace.count()) + "'), termgate.set_setting('check_wait_ms', '" +
                 std::to_string(milliseconds(check_wait).count()) + "')");
}

TEST_CASE(
    "acquire_lease: called once a column it is one acquisition and a restored row proves none",
    "[F3][live]") {
  Lab& lab = Lab::one();
  PgSession s(lab.url);
  const auto all = s.must("SELECT (termgate.acquire_lease('twice', 'me', '10 s')).*");
  CHECK(all.rows[0][0] == "t");
  CHECK(all.rows[0][1] == "1");
  CHECK(all.rows[0][3] == "me");
  CHECK(s.value("SELECT term FROM termgate.fence('twice')") == "1");
  CHECK(s.value("SELECT count(*) FROM termgate.audit_log WHERE scope = 'twice' AND action = "
                "'acquire'") == "1");
  // A row that a restored database brought along names a transaction of another server, whose
  // number may be this one's.
  s.must("BEGIN; SELECT pg_current_xact_id()");
  lab.admin.must("UPDATE termgate.leases SET acquired_xid = '" +
                 s.value("SELECT pg_current_xact_id()") +
                 "', expires_at = clock_timestamp() + interval '10 s' WHERE scope = 'twice'");
  CHECK(s.value("SELECT term FROM termgate.acquire_lease('twice', 'me', '100 ms')") == "2");
  s.must("ROLLBACK");
}

TEST_CASE("jobs: a run that a frozen session holds keeps no successor from starting",
          "[F4][live]") {
  Lab& lab = Lab::one();
  PgSession s(lab.url), frozen(lab.url);
  s.must("SELECT termgate.acquire_lease('forced', 'two', '200 ms'); SELECT pg_sleep(0.2)");
  const std::string held = s.value("SELECT termgate.job_start('nightly', 'forced', 'two', 1)");
  frozen.must("BEGIN; SELECT termgate.job_finish(" + held + ", 'failed')");
  CHECK(s.value("SELECT term FROM termgate.acquire_lease('forced', 'three', '10 s')") == "2");
  const auto start = Clock::now();
  s.must("SELECT termgate.job_start('nightly', 'forced', 'three', 2)");
  CHECK(Clock::now() - start < slack);
  CHECK(s.value("SELECT status FROM termgate.job_history WHERE run_id = " + held) == "lost");
}
