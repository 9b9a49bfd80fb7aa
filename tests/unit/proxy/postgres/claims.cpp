// Which scope and term a session writes under (proxy/postgres/src/claims.hpp), without a session:
// by its rule, by what it declares, by a comment, and what of that is still known for certain while
// something is on its way that may declare anew.
#include <catch2/catch.hpp>

#include <memory>
#include <optional>
#include <string>

#include <termgate/statements/classify.hpp>

#include "claims.hpp"

using namespace termgate;
using namespace termgate::pg_session;

namespace {

statements::Declaration says(const std::optional<std::string>& scope,
                             std::optional<std::int64_t> term) {
  statements::Declaration one;
  if (scope) one.scope = Scope(*scope);
  if (term) one.term = Term(*term);
  return one;
}

struct Rule : TermSource {
  Standing standing;
  Standing now() const override { return standing; }
};

std::shared_ptr<Rule> rule_of(const std::string& scope, std::int64_t term) {
  auto rule = std::make_shared<Rule>();
  rule->standing = {.scope = Scope(scope), .term = Term(term), .why_not = {}};
  return rule;
}

Claims admitted(std::shared_ptr<const TermSource> rule = nullptr, bool overridable = false) {
  Claims claims;
  Admission admission;
  admission.rule = std::move(rule);
  admission.overridable = overridable;
  claims.admit(admission, false);
  claims.login_begins();
  claims.transaction_begins();
  return claims;
}

Standing standing_of(const Claims& claims, const statements::Declaration* named = nullptr) {
  return claims.standing_of(claims.claim_of(named), {});
}

const ScopedTerm orders5{"orders", 5}, orders6{"orders", 6};

}  // namespace

TEST_CASE("claims: of what a start-up message declares the later place counts, each half by itself",
          "[F6][proxy]") {
  Claims claims;
  CHECK_FALSE(claims.may_speak());
  claims.declare(says("bills", 4));
  claims.declare(says(std::nullopt, std::nullopt));
  CHECK(claims.claim_of(nullptr).pair == ScopedTerm{"bills", 4});
  claims.declare(says(std::nullopt, 5));
  claims.declare(says("orders", std::nullopt));
  CHECK(claims.claim_of(nullptr).pair == orders5);
  CHECK(claims.claim_of(nullptr).certain);
  CHECK(claims.may_speak());
  // The session's own claim is not given to the check: its server session knows it.
  CHECK(claims.claim_of(nullptr).given.empty());
}

TEST_CASE(
    "claims: what the server's session declares from its start takes the place of the start-up "
    "message's",
    "[F6][proxy]") {
  Claims claims = admitted();
  claims.declare(says("bills", 4));
  claims.server_declares("orders", "5");
  CHECK(claims.claim_of(nullptr).pair == orders5);
  SECTION("nothing") {
    claims.server_declares("", "");
    CHECK(claims.claim_of(nullptr).pair.empty());
    CHECK(standing_of(claims) == Standing::none);
    CHECK(claims.may_speak());
  }
  SECTION("a malformed term: only the server can say what is wrong with it") {
    claims.server_declares("orders", "x");
    CHECK_FALSE(claims.certain());
    CHECK(standing_of(claims) == Standing::uncertain);
  }
}

TEST_CASE(
    "claims: what is sent that may declare makes the claim uncertain until a check has passed "
    "after it",
    "[F1][F6][proxy]") {
  Claims claims = admitted();
  claims.declare(says("orders", 5));
  REQUIRE(standing_of(claims) == Standing::current);
  claims.may_declare(true);
  CHECK(claims.claim_of(nullptr).pair.empty());
  CHECK(standing_of(claims) == Standing::uncertain);
  const std::uint32_t sent = claims.declarations();
  SECTION("a check that was sent after it") {
    claims.check_passed(orders6, sent);
    CHECK(claims.claim_of(nullptr).pair == orders6);
    CHECK(standing_of(claims) == Standing::current);
  }
  SECTION("a check that was sent before another one") {
    claims.may_declare(true);
    claims.check_passed(orders6, sent);
    CHECK(standing_of(claims) == Standing::uncertain);
  }
  SECTION("a check that was refused says what is declared as well") {
    claims.check_refused(orders6, sent);
    CHECK(claims.claim_of(nullptr).pair == orders6);
  }
  SECTION("a check that was refused before another one") {
    claims.may_declare(true);
    claims.check_refused(orders6, sent);
    CHECK(standing_of(claims) == Standing::uncertain);
  }
}

TEST_CASE(
    "claims: who is guarded, by enforcement, by what an undeclared session may do, and by what was "
    "declared",
    "[F6][proxy]") {
  struct Row {
    Enforce enforce;
    WithoutTerm without_term;
    bool declares, replication;
    bool guards, active;
  };
  for (const Row& row : {Row{Enforce::on, WithoutTerm::reject, false, false, true, true},
                         Row{Enforce::on, WithoutTerm::read_only, false, false, true, true},
                         Row{Enforce::on, WithoutTerm::allow, false, false, false, false},
                         Row{Enforce::on, WithoutTerm::allow, true, false, true, true},
                         Row{Enforce::on, WithoutTerm::read_only, true, true, false, true},
                         Row{Enforce::observe, WithoutTerm::reject, true, false, false, false}}) {
    CAPTURE(static_cast<int>(row.enforce), static_cast<int>(row.without_term), row.declares,
            row.replication);
    Claims claims;
    if (row.declares) claims.declare(says("orders", 5));
    Admission admission;
    admission.enforce = row.enforce;
    admission.without_term = row.without_term;
    claims.admit(admission, row.replication);
    claims.login_begins();
    CHECK(claims.guards() == row.guards);
    CHECK(claims.active() == row.active);
    // Behind a pooler that is known to be one it is of no use to ask who serves.
    CHECK(claims.asks_at_login(false) ==
          !row.replication);  // who only observes asks what the session may do
    CHECK(claims.asks_at_login(true) == row.guards);
  }
}

TEST_CASE(
    "claims: a final rule stands above the session and its comments and is given to the check",
    "[F6][proxy]") {
  const auto rule = rule_of("orders", 5);
  Claims claims = admitted(rule);
  claims.declare(says("bills", 9));
  const auto comment = says("bills", 9);
  for (const statements::Declaration* named :
       {static_cast<const statements::Declaration*>(nullptr), &comment}) {
    const Claim claim = claims.claim_of(named);
    CHECK(claim.pair == orders5);
    CHECK(claim.given == orders5);
    CHECK(claim.certain);
    CHECK_FALSE(claim.named);
  }
  SECTION("its first term is the session's for good") {
    rule->standing.term = Term(6);
    CHECK(standing_of(claims) == Standing::current);  // until a transaction begins
    claims.transaction_begins();
    const Claim claim = claims.claim_of(nullptr);
    CHECK(claim.code == "TG001");
    CHECK(claim.problem.find("admitted under term 5") != std::string::npos);
    CHECK(standing_of(claims) == Standing::problem);
    rule->standing.term = Term(5);
    claims.transaction_begins();
    CHECK(standing_of(claims) == Standing::current);
  }
  SECTION("it has none any more") {
    rule->standing = {.scope = {}, .term = {}, .why_not = "the lease is another's"};
    claims.transaction_begins();
    const Claim claim = claims.claim_of(nullptr);
    CHECK(claim.code == "TG002");
    CHECK(claim.problem == "TG002 no term for a fenced write: the lease is another's");
  }
}

TEST_CASE("claims: an overridable rule speaks where the session and its comments do not",
          "[F6][proxy]") {
  const auto rule = rule_of("orders", 5);
  Claims claims = admitted(rule, true);
  CHECK_FALSE(claims.final_rule());
  Claim claim = claims.claim_of(nullptr);
  CHECK(claim.pair == orders5);
  CHECK(claim.otherwise == orders5);
  CHECK(claim.given.empty());
  claims.declare(says("bills", 9));
  claim = claims.claim_of(nullptr);
  CHECK(claim.pair == ScopedTerm{"bills", 9});
  CHECK(claim.otherwise == orders5);
  rule->standing = {.scope = {}, .term = {}, .why_not = {}};
  claims.transaction_begins();
  claim = claims.claim_of(nullptr);
  CHECK(claim.pair == ScopedTerm{"bills", 9});
  CHECK(claim.otherwise.empty());
  CHECK(claim.problem.empty());
}

TEST_CASE("claims: what a text says of its session", "[F6][proxy]") {
  const auto learned = [](std::string_view sql) {
    return learned_of(statements::classify(sql), sql);
  };
  CHECK_FALSE(learned("SELECT 1").speaks_of_terms);
  CHECK(learned("SELECT 1 /* termgate.scope=orders;termgate.term=5 */").speaks_of_terms);
  CHECK(learned("SET termgate.term = 5").speaks_of_terms);
  CHECK_FALSE(learned("SELECT length('a')").calls_unknown);
  CHECK(learned("SELECT 1; SELECT their_own('a')").calls_unknown);
  CHECK(learned("DEALLOCATE a; DEALLOCATE ALL; DEALLOCATE b").deallocates ==
        std::vector<std::string>{"a", "b"});
  CHECK_FALSE(learned("SELECT 1").role);
  CHECK(learned("SET ROLE ann; SET ROLE bob").role == "bob");
  CHECK(learned("RESET ROLE").role == "");
}

TEST_CASE("claims: whether a text may put other schemas before pg_catalog", "[F1][proxy]") {
  const auto keeps = [](std::string_view sql) {
    CAPTURE(sql);
    return learned_of(statements::classify(sql), sql).own_names_first;
  };
  for (const char* sql :
       {"SELECT 1", "SHOW search_path", "SET search_path TO app, public", "RESET search_path",
        "SET search_path = \"$user\", public", "SET search_path TO pg_catalog, app",
        "SET LOCAL search_path TO 'app'", "SET search_path = 'pg_catalog'", "SET SCHEMA 'app'",
        "SET search_path TO DEFAULT", "SET search_path TO app; SELECT count(*) FROM t",
        "SET application_name = 'search_path'", "SELECT current_setting('search_path')",
        "SELECT pg_catalog.set_config('search_path', '', false)", "DISCARD ALL", "SELEKT 1",
        "SELECT set_config('search_path', 'app, public', true)",
        "SELECT now(), set_config('a.b', $1, true)",
        "SELECT set_config(name, 'view, foreign-table', false) FROM pg_settings WHERE name = "
        "'restrict_nonsystem_relation_kind'"}) {
    INFO(sql);
    CHECK(keeps(sql));
  }
  for (const char* sql :
       {"SET search_path TO evil, pg_catalog",
        "SET SESSION search_path = evil, pg_catalog",
        "SET search_path TO pg_catalog; SET search_path TO evil, pg_catalog",
        "/* search_path = pg_catalog */ SET search_path TO evil, pg_catalog",
        "SET /* search_path = pg_catalog */ search_path TO evil, pg_catalog",
        "SET application_name = 'search_path = pg_catalog'; SET search_path TO evil, pg_catalog",
        "SELECT 'search_path, pg_catalog'; SET LOCAL search_path TO evil, pg_catalog",
        "SET search_path TO pg_catalog2, pg_catalog",
        "SET search_path TO \"PG_CATALOG\", pg_catalog",
        "SET search_path TO 'pg_catalog, a', evil, pg_catalog",
        "SET search_path TO evil, U&\"pg!005fcatalog\" UESCAPE '!'",
        "SET search_path TO evil, E'pg\\x5fcatalog'",
        "SET search_path TO evil, 'pg'\n'_catalog'",
        "SET search_path TO evil, 'pg' -- more\n'_catalog'",
        "SET U&\"search\\005fpath\" TO evil, pg_catalog",
        "SELECT set_config('search_path', 'evil, pg_catalog', false)",
        "SELECT set_config('search_path', 'evil, pg' || '_catalog', false)",
        "SELECT set_config('search_path', 'evil, pg'\n'_catalog', false)",
        "SELECT set_config('search_path', E'evil, pg\\x5fcatalog', false)",
        "SELECT set_config('search_path', $1, false)",
        "SELECT set_config('search' || '_path', 'evil, pg_catalog', false)",
        "SELECT set_config('search_path', 'a', false), set_config('search_path', v, false) FROM t",
        "SELECT set_config(new_value => v, setting_name => 'search_path', is_local => false) FROM "
        "t",
        "UPDATE pg_settings SET setting = 'evil, pg_catalog' WHERE name LIKE 'search%'",
        "INSERT INTO t SELECT set_config('search_path', $1, false)",
        "DO $$ BEGIN SET search_path TO evil, pg_catalog; END $$",
        "PREPARE p AS SELECT set_config('search_path', $1, false)"}) {
    INFO(sql);
    CHECK_FALSE(keeps(sql));
  }
}
