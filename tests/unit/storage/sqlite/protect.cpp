// protect and adopt on SQLite: every way in which a row of another scope could be written, changed
// or removed behind the back of a check, and every table shape that changes where the trigger has
// to look.
#include "support.hpp"

using namespace sqlite_test;
using Catch::Contains;
using Catch::StartsWith;

namespace {

const std::string refused = "TG002 no term declared";

// Two scopes, each with its own row; this connection has passed "mine" only.
struct Fixture {
  Fixture(const std::string& table, const std::string& rows, const std::string& column = "scope") {
    install(db);
    db.must(table);
    db.must(rows);
    db.must("SELECT termgate_protect('t', '" + column + "')");
    db.must("SELECT termgate_seal('mine', 5), termgate_declare('mine', 5)");
  }
  std::string content() {
    return db.must(
        "SELECT group_concat(row, ';') FROM (SELECT scope || '/' || k AS row FROM t ORDER BY 1)");
  }
  Db db;
};

}  // namespace

// The usual keys are replaced.cpp's, at random.
TEST_CASE("protect: REPLACE cannot remove another scope's row whatever key it meets",
          "[F1][F2][sqlite]") {
  struct Shape {
    const char* name;
    const char* table;
    const char* attack;  // meets the row ('theirs', 2)
  };
  const Shape shapes[] = {
      {"hidden rowid", "CREATE TABLE t (scope TEXT, k)",
       "INSERT OR REPLACE INTO t (rowid, scope, k) VALUES (2, 'mine', 9)"},
      {"rowid hidden by a column", "CREATE TABLE t (rowid TEXT, scope TEXT, k)",
       "INSERT OR REPLACE INTO t (_rowid_, scope, k) VALUES (2, 'mine', 9)"},
      {"text primary key", "CREATE TABLE t (k TEXT PRIMARY KEY, scope TEXT)",
       "REPLACE INTO t (scope, k) VALUES ('mine', 2)"},
      {"collated",
       "CREATE TABLE t (k TEXT, scope TEXT, other TEXT COLLATE NOCASE DEFAULT 'Abc', UNIQUE "
       "(other, k))",
       "REPLACE INTO t (scope, k, other) VALUES ('mine', 2, 'aBC')"},
      {"index with another collation",
       "CREATE TABLE t (k, scope TEXT, n TEXT DEFAULT 'x'); CREATE UNIQUE INDEX t_n ON t (n "
       "COLLATE NOCASE, k)",
       "REPLACE INTO t (scope, k, n) VALUES ('mine', 2, 'X')"},
      {"partial index",
       "CREATE TABLE t (k, scope TEXT, live DEFAULT 1); CREATE UNIQUE INDEX \"t (k\" ON t (k) /* ) "
       "WHERE x */ WHERE live = 1 -- end",
       "REPLACE INTO t (scope, k) VALUES ('mine', 2)"},
      {"update of the rowid", "CREATE TABLE t (k, scope TEXT)",
       "UPDATE OR REPLACE t SET rowid = 2 WHERE scope = 'mine'"},
      {"update into a partial index",
       "CREATE TABLE t (k, scope TEXT, live DEFAULT 1); CREATE UNIQUE INDEX t_k ON t (live) WHERE "
       "k > 1",
       "UPDATE OR REPLACE t SET k = 7 WHERE scope = 'mine'"},
      {"update that changes the key for its index alone",
       "CREATE TABLE t (k, scope TEXT, n TEXT COLLATE NOCASE); CREATE UNIQUE INDEX t_n ON t (n "
       "COLLATE BINARY); "
       "CREATE TRIGGER fill AFTER INSERT ON t BEGIN UPDATE t SET n = CASE scope WHEN 'mine' THEN "
       "'abc' ELSE 'ABC' END WHERE rowid = "
       "NEW.rowid; END",
       "UPDATE OR REPLACE t SET n = 'ABC' WHERE scope = 'mine'"},
  };
  for (const Shape& shape : shapes) {
    INFO(shape.name);
    Fixture f(shape.table,
              "INSERT INTO t (scope, k) VALUES ('mine', 1); INSERT INTO t (scope, k) VALUES "
              "('theirs', 2)");
    const std::string before = f.content();
    CHECK_THAT(f.db(shape.attack).error, StartsWith(refused));
    CHECK(f.content() == before);
    f.db.must("PRAGMA recursive_triggers = ON");
    CHECK_THAT(f.db(shape.attack).error, StartsWith(refused));
    CHECK(f.content() == before);
    // Its own row may go.
    CHECK(f.db("DELETE FROM t WHERE scope = 'mine'").error == "");
  }
}

TEST_CASE("protect: OR IGNORE does not swallow a refusal", "[F5][sqlite]") {
  Fixture f("CREATE TABLE t (k INTEGER PRIMARY KEY, scope TEXT)",
            "INSERT INTO t VALUES (1, 'mine'), (2, 'theirs')");
  for (const char* attack : {"INSERT OR IGNORE INTO t VALUES (3, 'theirs')",
                             "UPDATE OR IGNORE t SET k = 9 WHERE scope = 'theirs'",
                             "INSERT OR FAIL INTO t VALUES (3, 'theirs')",
                             "INSERT OR ROLLBACK INTO t VALUES (3, 'theirs')"}) {
    INFO(attack);
    CHECK_THAT(f.db(attack).error, StartsWith(refused));
    CHECK(f.content() == "mine/1;theirs/2");
  }
}

TEST_CASE("protect: a statement refused at its last row leaves none of the others",
          "[F5][sqlite]") {
  Fixture f("CREATE TABLE t (k INTEGER PRIMARY KEY, scope TEXT)",
            "INSERT INTO t VALUES (1, 'mine'), (2, 'mine'), (3, 'theirs')");
  f.db.must("BEGIN");
  CHECK_THAT(f.db("UPDATE t SET k = k + 10").error, StartsWith(refused));
  CHECK_THAT(f.db("DELETE FROM t").error, StartsWith(refused));
  CHECK_THAT(f.db("INSERT INTO t VALUES (4, 'mine'), (5, 'theirs')").error, StartsWith(refused));
  f.db.must("COMMIT");
  CHECK(f.content() == "mine/1;mine/2;theirs/3");
}

TEST_CASE("adopt: a view that calls the guard raises nothing when it is read",
          "[F2][sqlite][issue-2]") {
  Installed db;
  db.must(
      "CREATE TABLE a (s TEXT, t INTEGER); CREATE INDEX a_st ON a (s, t); SELECT "
      "termgate_adopt('a', 's', 't'), termgate_seal('x', 3)");
  db.must("PRAGMA trusted_schema = OFF");
  for (const char* table : {"nothing", "a"}) {
    db.must(std::string("CREATE TEMP VIEW hostile AS SELECT "
                        "termgate_guard_load_termgate_extension_first('adopted', '") +
            table + "', 'x', 99)");
    db.must("CREATE TABLE sink (v)");
    CHECK_THAT(db("SELECT * FROM hostile").error, StartsWith("TG005"));
    db.must("BEGIN IMMEDIATE; INSERT INTO a VALUES ('y', 1)");
    CHECK_THAT(db("SELECT * FROM hostile").error, StartsWith("TG005"));
    db.must("COMMIT");
    if (table == std::string("nothing"))
      CHECK_THAT(db("INSERT INTO sink SELECT * FROM hostile").error, StartsWith("TG005"));
    db.must("DROP TABLE sink; DROP VIEW hostile");
  }
  CHECK(db("SELECT term FROM termgate_fences WHERE scope = 'x'").value() == "3");
  db.must("INSERT INTO a VALUES ('x', 4)");
  CHECK(db("SELECT term FROM termgate_fences WHERE scope = 'x'").value() == "4");
}

TEST_CASE("protect: scopes that only a collation holds equal are two scopes",
          "[F1][sqlite][issue-2]") {
  for (const auto& [collation, other] :
       {std::pair{"NOCASE", "MINE"}, std::pair{"RTRIM", "mine  "}}) {
    INFO(collation);
    Fixture f(
        std::string("CREATE TABLE t (k INTEGER PRIMARY KEY, scope TEXT COLLATE ") + collation + ")",
        "INSERT INTO t VALUES (1, 'mine')");
    const std::string attack = std::string("UPDATE t SET scope = '") + other + "' WHERE k = 1";
    CHECK_THAT(f.db(attack).error,
               StartsWith(refused) && Contains(std::string("\"") + other + "\""));
    f.db.must("UPDATE t SET scope = 'mine' WHERE k = 1");
    CHECK(f.content() == "mine/1");
  }
}

TEST_CASE("protect: rows changed by a foreign key are checked too", "[F1][sqlite]") {
  Installed db;
  db.must(
      "PRAGMA foreign_keys = ON; CREATE TABLE parent (id INTEGER PRIMARY KEY); INSERT INTO parent "
      "VALUES (1), (2)");
  db.must(
      "CREATE TABLE t (k INTEGER PRIMARY KEY, scope TEXT, p REFERENCES parent ON DELETE CASCADE ON "
      "UPDATE CASCADE)");
  db.must(
      "INSERT INTO t VALUES (1, 'mine', 1), (2, 'theirs', 2); SELECT termgate_protect('t', "
      "'scope')");
  db.must("SELECT termgate_seal('mine', 5), termgate_declare('mine', 5)");
  CHECK_THAT(db("DELETE FROM parent WHERE id = 2").error, StartsWith(refused));
  CHECK_THAT(db("UPDATE parent SET id = 7 WHERE id = 2").error, StartsWith(refused));
  CHECK(db("DELETE FROM parent WHERE id = 1").error == "");
  CHECK(db("SELECT group_concat(k) FROM t").value() == "2");
}

TEST_CASE("protect: a user's own triggers cannot open a way round", "[F1][sqlite]") {
  Fixture f("CREATE TABLE t (k INTEGER PRIMARY KEY, scope TEXT); CREATE TABLE door (x)",
            "INSERT INTO t VALUES (1, 'mine'), (2, 'theirs')");
  f.db.must("CREATE TRIGGER ignore_after AFTER UPDATE ON t BEGIN SELECT RAISE(IGNORE); END");
  f.db.must(
      "CREATE TRIGGER through AFTER INSERT ON door BEGIN UPDATE t SET k = k + 100 WHERE scope = "
      "NEW.x; END");
  CHECK_THAT(f.db("UPDATE t SET k = 9 WHERE scope = 'theirs'").error, StartsWith(refused));
  CHECK_THAT(f.db("INSERT INTO door VALUES ('theirs')").error, StartsWith(refused));
  CHECK(f.content() == "mine/1;theirs/2");
}

TEST_CASE("protect: scope columns that are settled late are checked late", "[F1][sqlite]") {
  Installed db;
  SECTION("an integer primary key that SQLite fills in") {
    db.must(
        "CREATE TABLE t (scope INTEGER PRIMARY KEY, v); SELECT termgate_protect('t', 'scope'); "
        "SELECT termgate_seal('1', 3), "
        "termgate_declare('1', 3)");
    db.must("INSERT INTO t (v) VALUES ('one')");
    CHECK_THAT(db("INSERT INTO t (v) VALUES ('two')").error,
               StartsWith(refused) && Contains("scope \"2\""));
    CHECK(db("SELECT count(*) FROM t").value() == "1");
    CHECK_THAT(db("UPDATE t SET scope = 7").error, StartsWith(refused));
    CHECK_THAT(db("DELETE FROM t; INSERT INTO t VALUES (5, 'five')").error, StartsWith(refused));
  }
  for (const char* kind : {"STORED", "VIRTUAL"}) {
    SECTION(std::string("a generated column: ") + kind) {
      db.must(
          "CREATE TABLE t (k INTEGER PRIMARY KEY, name TEXT, scope TEXT GENERATED ALWAYS AS ('s-' "
          "|| name) " +
          std::string(kind) + ")");
      db.must(
          "SELECT termgate_protect('t', 'scope'), termgate_seal('s-mine', 3), "
          "termgate_declare('s-mine', 3)");
      db.must("INSERT INTO t (name) VALUES ('mine')");
      CHECK_THAT(db("INSERT INTO t (name) VALUES ('theirs')").error, StartsWith(refused));
      CHECK_THAT(db("UPDATE t SET name = 'theirs'").error, StartsWith(refused));
      CHECK(db("SELECT group_concat(name) FROM t").value() == "mine");
    }
  }
}

TEST_CASE("protect: integer scopes and NULLs", "[sqlite]") {
  Installed db;
  db.must(
      "CREATE TABLE t (k INTEGER PRIMARY KEY, scope BIGINT, v); SELECT termgate_protect('t', "
      "'scope')");
  db.must(
      "SELECT termgate_seal('42', 3), termgate_declare('42', 3); INSERT INTO t VALUES (1, 42, "
      "'x'); INSERT INTO t VALUES (2, '42', 'x')");
  CHECK_THAT(db("INSERT INTO t VALUES (3, 43, 'x')").error,
             StartsWith(refused) && Contains("scope \"43\""));
  CHECK_THAT(db("INSERT INTO t VALUES (3, NULL, 'x')").error,
             StartsWith("TG005") && Contains("NULL"));
  CHECK_THAT(db("INSERT INTO t VALUES (3, x'00', 'x')").error, StartsWith("TG005"));
  CHECK_THAT(db("INSERT INTO t VALUES (3, 1.5, 'x')").error, StartsWith("TG005"));
  CHECK_THAT(db("INSERT INTO t VALUES (3, '', 'x')").error, StartsWith("TG005"));
}

TEST_CASE("protect: any scope that was passed must be said outright", "[F2][sqlite]") {
  Installed db;
  db.must("CREATE TABLE t (k); SELECT termgate_protect('t', NULL, '*')");
  CHECK_THAT(db("INSERT INTO t VALUES (1)").error, StartsWith(refused));
  db.must("BEGIN; SELECT termgate_check_term('a', 5); INSERT INTO t VALUES (1); COMMIT");
  CHECK_THAT(db("INSERT INTO t VALUES (1)").error, StartsWith(refused));
  db.must(
      "SELECT termgate_declare('a', 5); INSERT INTO t VALUES (2); SELECT termgate_seal('a', 6)");
  CHECK_THAT(db("INSERT INTO t VALUES (3)").error, StartsWith("TG001"));
  // A row's own value '*' is a scope like any other.
  db.must(
      "CREATE TABLE r (scope TEXT); SELECT termgate_protect('r', 'scope'), termgate_declare('a', "
      "6)");
  CHECK_THAT(db("INSERT INTO r VALUES ('*')").error, StartsWith(refused));
}

TEST_CASE("protect: works where the schema is not trusted", "[F1][sqlite]") {
  Fixture f("CREATE TABLE t (k INTEGER PRIMARY KEY, scope TEXT)",
            "INSERT INTO t VALUES (1, 'mine')");
  f.db.must("PRAGMA trusted_schema = OFF; INSERT INTO t VALUES (2, 'mine')");
  CHECK_THAT(f.db("INSERT INTO t VALUES (3, 'theirs')").error, StartsWith(refused));
  f.db.must("SELECT termgate_seal('mine', 6)");
  CHECK_THAT(f.db("INSERT INTO t VALUES (3, 'mine')").error, StartsWith("TG001 stale term 5"));
}

TEST_CASE("protect: observe lets everything pass and counts what it would have refused",
          "[sqlite]") {
  Installed db;
  db.must(
      "CREATE TABLE t (k INTEGER PRIMARY KEY, scope TEXT); SELECT termgate_protect('t', 'scope', "
      "NULL, 'observe')");
  db.must(
      "INSERT INTO t VALUES (1, 'a'), (2, 'a'), (3, NULL); SELECT termgate_seal('b', 5), "
      "termgate_declare('b', 4); INSERT INTO t VALUES "
      "(4, 'b')");
  CHECK(db("SELECT count(*) FROM t").value() == "4");
  CHECK(db("SELECT group_concat(scope || ':' || reason || ':' || count) FROM (SELECT * FROM "
           "termgate_observed ORDER BY scope)")
            .value() == ":TG005:1,a:TG002:2,b:TG001:1");
  CHECK_THAT(db("SELECT termgate_doctor()").value(), Contains("would have refused 2 rows"));
  db.must("SELECT termgate_protect('t', 'scope')");
  CHECK_THAT(db("INSERT INTO t VALUES (5, 'a')").error, StartsWith(refused));
}

TEST_CASE("protect: refuses what it cannot guard", "[sqlite]") {
  Installed db;
  db.must(
      "CREATE TABLE t (k, scope, real_scope REAL, text_scope TEXT); CREATE VIEW v AS SELECT * FROM "
      "t; CREATE VIRTUAL TABLE f USING "
      "fts5(x)");
  for (const char* arguments :
       {"'t', NULL", "'t', 'text_scope', 'a'", "'t', 'missing'", "'t', 'scope'",
        "'t', 'real_scope'", "'missing', NULL, 'a'", "'v', NULL, 'a'", "'f', NULL, 'a'",
        "'f_data', NULL, 'a'", "'termgate_fences', NULL, 'a'", "'sqlite_schema', NULL, 'a'",
        "'t', NULL, ''", "'t', NULL, 'a', 'sometimes'"}) {
    INFO(arguments);
    CHECK_THAT(db("SELECT termgate_protect(" + std::string(arguments) + ")").error,
               StartsWith("TG005"));
  }
  CHECK(db("SELECT count(*) FROM termgate_protected").value() == "0");
  CHECK(db("SELECT termgate_protect('T', 'TEXT_SCOPE')").value() == "1");
  CHECK(db("SELECT table_name || scope_column FROM termgate_protected").value() == "ttext_scope");
}

TEST_CASE("doctor: tells when a table has changed under its triggers", "[sqlite]") {
  Installed db;
  db.must(
      "CREATE TABLE t (k, scope TEXT); CREATE TABLE bare (x); SELECT termgate_protect('t', "
      "'scope')");
  const auto problems = [&] {
    return db("SELECT group_concat(json_extract(value, '$.object') || ': ' || json_extract(value, "
              "'$.severity'), '; ') FROM "
              "json_each(termgate_doctor())")
        .value();
  };
  CHECK(problems() == "table bare: info");
  db.must("CREATE UNIQUE INDEX t_k ON t (k)");
  CHECK_THAT(problems(), Contains("table t: error"));
  db.must(
      db.must("SELECT json_extract(value, '$.remedy') FROM json_each(termgate_doctor()) WHERE "
              "json_extract(value, '$.severity') = 'error'"));
  CHECK(problems() == "table bare: info");
  db.must("DROP TRIGGER termgate_protect_update_t");
  CHECK_THAT(problems(), Contains("table t: error"));
  db.must("DROP TABLE t");
  CHECK_THAT(problems(), Contains("table t: error"));
  db.must("SELECT termgate_unprotect('t')");
  CHECK(problems() == "table bare: info");
}

TEST_CASE("adopt: raises in the row's own transaction and never lowers", "[F3][sqlite]") {
  Installed db;
  db.must(
      "CREATE TABLE t (scope TEXT, term INTEGER, v); INSERT INTO t VALUES ('a', 5, 'x'), ('b', 3, "
      "'x'), (NULL, 9, 'x'), ('c', NULL, 'x')");
  CHECK(db("SELECT termgate_adopt('t', 'scope', 'term')").value() == "2");
  CHECK_THAT(db("SELECT termgate_check_term('a', 4)").error, StartsWith("TG001"));
  db.must("BEGIN; INSERT INTO t VALUES ('a', 8, 'y')");
  CHECK(db("SELECT term FROM termgate_fences WHERE scope = 'a'").value() == "8");
  db.must("ROLLBACK");
  CHECK(db("SELECT term FROM termgate_fences WHERE scope = 'a'").value() == "5");
  db.must("UPDATE t SET term = 9 WHERE scope = 'a'; DELETE FROM t");
  CHECK(db("SELECT term FROM termgate_fences WHERE scope = 'a'").value() == "9");
  db.must("SELECT termgate_set_raise_by('b', 'seal')");
  CHECK_THAT(db("INSERT INTO t VALUES ('b', 7, 'y')").error, StartsWith("TG005"));
  db.must(
      "INSERT INTO t VALUES ('a', 0, 'y'), ('fresh', 0, 'y'), ('fresh', -1, 'y'), ('fresh', NULL, "
      "'y')");
  CHECK(db("SELECT count(*) FROM termgate_fences WHERE scope = 'fresh'").value() == "0");
  db.must("SELECT termgate_acquire_lease('leased', 'me', 1000)");
  CHECK_THAT(db("INSERT INTO t VALUES ('leased', 2, 'y')").error,
             StartsWith("TG005") && Contains("never issued"));
}

TEST_CASE("adopt: its rows are evidence where a fence row is lost", "[F3][sqlite]") {
  Installed db;
  db.must(
      "CREATE TABLE t (scope INTEGER, term INTEGER, PRIMARY KEY (scope, term)); INSERT INTO t "
      "VALUES (7, 5); SELECT termgate_adopt('t', "
      "'scope', 'term')");
  db.plant("DELETE FROM termgate_fences");
  CHECK(db("SELECT count(*) FROM json_each(termgate_verify()) WHERE value ->> 'kind' = 'adopted'")
            .value() == "1");
  CHECK_THAT(db("SELECT termgate_check_term('7', 4)").error, StartsWith("TG001 stale term 4"));
  // A look-alike is another scope.
  CHECK(db("SELECT termgate_check_term('007', 1)").value() == "1");
}

TEST_CASE("adopt: what a reset took back is no evidence", "[F3][sqlite]") {
  Installed db;
  db.must(
      "CREATE TABLE t (s TEXT, n INTEGER, v INTEGER); INSERT INTO t VALUES ('x', 3, 0); SELECT "
      "termgate_adopt('t', 's', 'n')");
  db.must(
      "INSERT INTO t VALUES ('x', 1000000000000000000, 0); SELECT termgate_reset_fence('x', 4, "
      "'me', 'mistyped')");
  const auto fence = [&] {
    return db("SELECT term FROM termgate_fences WHERE scope = 'x'").value();
  };
  db.must("UPDATE t SET v = 1");
  CHECK(fence() == "4");
  CHECK(db("SELECT termgate_adopt('t', 's', 'n')").value() == "0");
  db.must("INSERT INTO t VALUES ('x', 6, 0)");
  CHECK(fence() == "6");
}

TEST_CASE("adopt: refuses malformed rows and says which", "[sqlite]") {
  for (const char* row : {"('a', 4611686018427387905)", "('', 1)"}) {
    INFO(row);
    Installed db;
    db.must(
        "CREATE TABLE t (scope TEXT, term INTEGER); CREATE INDEX t_st ON t (scope, term); INSERT "
        "INTO t VALUES " +
        std::string(row));
    CHECK_THAT(db("SELECT termgate_adopt('t', 'scope', 'term')").error, StartsWith("TG005"));
    CHECK(db("SELECT count(*) FROM termgate_adopted").value() == "0");
    CHECK(db("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 't'")
              .value() == "0");
  }
}
