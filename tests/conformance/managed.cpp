// What a managed PostgreSQL takes away, found by running it, and that doctor() says so. The other
// files run there unchanged, as a plain role of level operate, but for three cases that write to
// layer 1's own tables or hold its schema: they run as the owner of layer 1, who alone may do that
// ("install: a newer schema", "install: one that fails half-way", "verify: finds a term that
// decreases").
#include <catch2/catch.hpp>

#include <chrono>
#include <future>
#include <string>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "backend.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using Catch::Contains;
using conformance::is_managed;
using conformance::managed_role;
using conformance::url_as;

namespace {

// The row of doctor() for `object` whose problem has `part`; an empty one where there is none.
Advice advice(Database& db, const std::string& object, const std::string& part) {
  for (const Advice& row : Operator(db).doctor()) {
    if (row.object.starts_with(object) && row.problem.find(part) != std::string::npos) return row;
  }
  return {};
}

// A writer that has passed the check in its transaction and stands still there.
class Frozen {
 public:
  Frozen(const std::string& url, const Scope& scope, Term term)
      : ended_(std::async(std::launch::async, [this, url, scope, term] {
          auto db = Database::open(url);
          db.write(scope, term, [this](Transaction&) {
            passed_.set_value();
            thaw_.get_future().wait();
          });
        })) {
    passed_.get_future().wait();
  }
  // Throws what its write threw.
  void end() {
    thaw_.set_value();
    ended_.get();
  }

 private:
  std::promise<void> passed_, thaw_;
  std::future<void> ended_;
};

}  // namespace

TEST_CASE("managed: the roles have no right that a service keeps for itself", "[conformance]") {
  if (!is_managed()) return;
  const std::string url = conformance::fresh_url();
  for (const std::string what : {"admin", "owner", "app"}) {
    INFO(what);
    auto db = Database::open(url_as(url, what));
    CHECK(db.query("SELECT current_user::text").one()[0].as_text() == managed_role(what));
    CHECK(db.query("SELECT r.rolsuper OR r.rolreplication OR r.rolbypassrls FROM pg_roles r WHERE "
                   "r.rolname = current_user")
              .one()[0]
              .as_bool() == false);
    CHECK(db.query("SELECT count(*) FROM pg_roles r WHERE starts_with(r.rolname, 'pg_') AND "
                   "r.rolname <> 'pg_database_owner' AND "
                   "pg_has_role(r.oid, 'MEMBER')")
              .one()[0]
              .as_int() == 0);
    CHECK(db.query("SELECT count(*) FROM pg_proc p WHERE p.proname LIKE 'pg\\_control\\_%' AND "
                   "has_function_privilege(p.oid, 'EXECUTE')")
              .one()[0]
              .as_int() == 0);
  }
}

TEST_CASE(
    "managed: a frozen writer of another role ends a raise with its name, and the membership that "
    "doctor names mends it",
    "[F4][conformance]") {
  if (!is_managed()) return;
  const std::string url = conformance::fresh_url();
  auto db = Database::open(url);
  conformance::install(db, url);
  Operator(db).set_setting("eviction_grace_ms", "200");
  Operator(db).set_setting("check_wait_ms", "500");
  const Scope scope("frozen");
  const std::string membership =
      "GRANT " + managed_role("app") + " TO " + managed_role("owner") + ";";
  {
    Frozen writer(url, scope, Term(1));
    CHECK_THROWS_WITH(db.seal(scope, Term(2)),
                      Contains("TG006") && Contains("user " + managed_role("app")) &&
                          Contains("role " + managed_role("owner") + " may not signal it"));
    CHECK(Info(db).fence(scope)->term == 1);
    const Advice owner =
        advice(db, "role " + managed_role("owner"), "may not end other roles' sessions");
    CHECK(owner.severity == "warning");
    CHECK_THAT(owner.remedy, Contains("GRANT pg_signal_backend TO " + managed_role("owner")) &&
                                 Contains(membership));
    CHECK_THAT(advice(db, "pid ", "\"frozen\"").remedy, Contains(membership));
    writer.end();  // it was not evicted
  }
  // The customer's administrator may do that where it may not grant pg_signal_backend.
  conformance::run_as(url, "admin", membership);
  {
    Frozen writer(url, scope, Term(1));
    CHECK(advice(db, "pid ", "\"frozen\"").remedy.empty());
    CHECK(db.seal(scope, Term(2)).evicted == 1);
    CHECK_THROWS_AS(writer.end(), Error);
  }
  CHECK(advice(db, "role " + managed_role("owner"), "may not end other roles' sessions").severity ==
        "info");
  conformance::run_as(url, "admin",
                      "REVOKE " + managed_role("app") + " FROM " + managed_role("owner"));
}

// On every PostgreSQL, so that the difference is seen: what was restored into another server by its
// files alone is not noticed on a managed one.
TEST_CASE("untrusted: what tells a restored PostgreSQL from the old one", "[F3][conformance]") {
  if (!conformance::is_postgresql() || conformance::backend_name().starts_with("odbc_")) return;
  const std::string url = conformance::fresh_url();
  auto db = Database::open(url);
  conformance::install(db, url);
  const Scope scope("restored");
  db.seal(scope, Term(5));
  struct {
    const char* name;
    bool noticed;
  } const rows[] = {{"system_identifier = system_identifier + 1", !is_managed()},
                    {"timeline = '000000FF'", true},
                    {"database_oid = 1", true},
                    {"fences_oid = 1", true}};
  conformance::run_outside(url, "CREATE TABLE termgate.kept AS SELECT * FROM termgate.incarnation");
  for (const auto& row : rows) {
    INFO(row.name);
    conformance::run_outside(
        url,
        std::string("UPDATE termgate.incarnation SET postmaster_start = 'epoch', ") + row.name);
    // A session of its own, as every session is after a restore.
    auto restored = Database::open(url);
    if (row.noticed) CHECK_THROWS_AS(restored.check(scope, Term(5)), FenceUntrusted);
    else CHECK(restored.check(scope, Term(5)) == Term(5));
    conformance::run_outside(url,
                             "UPDATE termgate.incarnation i SET (postmaster_start, "
                             "system_identifier, timeline, database_oid, fences_oid) = "
                             "(SELECT k.postmaster_start, k.system_identifier, k.timeline, "
                             "k.database_oid, k.fences_oid FROM termgate.kept k)");
    CHECK(db.check(scope, Term(5)) == Term(5));
  }
  const Advice told =
      advice(db, "function pg_control_system()",
             "a database that was restored into another server is told by timeline and OIDs alone");
  CHECK(told.severity == (is_managed() ? "info" : ""));
  if (is_managed()) CHECK_THAT(told.remedy, Contains("declare-restored"));
}

TEST_CASE("uninstall: names who must let go of tables that its role may not change",
          "[conformance]") {
  if (!conformance::is_postgresql()) return;
  const std::string url = conformance::fresh_url();
  auto db = Database::open(url);
  conformance::install(db, url);
  db.write(Scope("ddl"), Term(1),
           [](Transaction& tx) { tx.exec("CREATE TABLE left_behind (tenant text, body text)"); });
  Operator(db).protect("left_behind", {.scope_column = "tenant"});
  conformance::install(db, url);  // an upgrade leaves it protected
  CHECK_THROWS_AS(
      db.write(Scope("ddl"), Term(1),
               [](Transaction& tx) { tx.exec("INSERT INTO left_behind VALUES ('other', 'x')"); }),
      TermRequired);
  auto owner = Database::open(conformance::owner_url(url));
  if (is_managed()) {
    CHECK_THROWS_WITH(Operator(owner).uninstall(),
                      Contains("as " + managed_role("app") +
                               ": SELECT termgate.unprotect('public.left_behind')"));
    CHECK(Operator(db).installed_version() > 0);
    Operator(db).unprotect("left_behind");
  }
  conformance::drop_guard(url);
  Operator(owner).uninstall();
  CHECK(db.query("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'left_behind'::regclass")
            .one()[0]
            .as_int() == 0);
  CHECK(
      db.query("SELECT count(*) FROM pg_namespace WHERE nspname = 'termgate'").one()[0].as_int() ==
      0);
}
