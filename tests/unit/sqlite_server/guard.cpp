// What a text from the network may not touch, tried through a session that may write; and the table of SQLSTATEs.
#include <catch2/catch.hpp>
#include <sqlite3.h>

#include <filesystem>

#include <termgate/error.hpp>
#include <termgate/sqlite_server/users.hpp>

#include "session/pg_error.hpp"
#include "engine/scram.hpp"
#include "support/sqlite_server_lab.hpp"

using namespace termgate;
using namespace sqlite_server_lab;

// Long: the table of its cases.
TEST_CASE("sqlite_server: the network reaches neither the file system nor the fences", "[F3][F6][sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(query("CREATE TABLE t (id int); INSERT INTO t VALUES (1); SELECT termgate.check_term('s', 5)"));
  const std::string folder = std::filesystem::path(lab.file.path).parent_path();
  for (const std::string& sql : {
           "ATTACH '" + folder + "/b.db' AS b",
           std::string("ATTACH ':memory:' AS b"),
           std::string("DETACH main"),
           "VACUUM INTO '" + folder + "/c.db'",
           std::string("PRAGMA journal_mode = DELETE"),
           std::string("PRAGMA journal_mode(off)"),
           std::string("PRAGMA synchronous = OFF"),
           std::string("PRAGMA writable_schema = ON"),
           std::string("PRAGMA trusted_schema = ON"),
           std::string("PRAGMA query_only = OFF"),
           std::string("PRAGMA foreign_keys = OFF"),
           std::string("PRAGMA temp_store_directory = '/tmp'"),
           std::string("PRAGMA database_list"),
           std::string("PRAGMA wal_checkpoint"),
           std::string("PRAGMA user_version = 5"),
           std::string("PRAGMA main.locking_mode = EXCLUSIVE"),
           std::string("SELECT load_extension('x')"),
           std::string("SELECT readfile('/etc/passwd')"),
           std::string("SELECT writefile('x', 'y')"),
           std::string("SELECT fts3_tokenizer('simple')"),
           std::string("SELECT * FROM pragma_database_list"),
           std::string("SELECT * FROM pragma_optimize"),
           std::string("SELECT data FROM sqlite_dbpage"),
           std::string("SELECT * FROM dbstat"),
           std::string("UPDATE sqlite_master SET sql = ''"),
           std::string("DELETE FROM sqlite_schema"),
           std::string("UPDATE termgate_fences SET term = 1"),
           std::string("DELETE FROM termgate_fences"),
           std::string("INSERT OR REPLACE INTO termgate_fences(scope, term) VALUES ('s', 1)"),
           std::string("DROP TABLE termgate_fences"),
           std::string("ALTER TABLE termgate_fences RENAME TO x"),
           std::string("ALTER TABLE termgate_fences ADD COLUMN x"),
           std::string("CREATE INDEX i ON termgate_fences (term)"),
           std::string("SELECT termgate_reset_fence('s', 1, 'a', 'r')"),
           std::string("SELECT termgate_uninstall()"),
           std::string("SELECT termgate_init()"),
           std::string("SELECT termgate_force_release('s', 'a', 'r')"),
           std::string("SELECT termgate_set_setting('check_wait_ms', '1')"),
           std::string("SELECT termgate_declare_restored('s', 1, 'a', 'r')"),
           std::string("SELECT termgate_prune('s', 5)"),
           std::string("SELECT termgate_declare('s', 5)"),
           std::string("CREATE TRIGGER termgate_x AFTER INSERT ON t BEGIN SELECT 1; END"),
           std::string("CREATE TRIGGER x AFTER INSERT ON termgate_fences BEGIN SELECT 1; END"),
           std::string("CREATE VIEW termgate_v AS SELECT 1"),
           std::string("CREATE TABLE termgate_t (x)"),
           std::string("DROP TRIGGER termgate_fences_no_delete"),
           // The authorizer is not told these names.
           std::string("ALTER TABLE t RENAME TO termgate_x"),
           std::string("ALTER TABLE t RENAME TO /* */ \"Termgate_x\" -- y"),
           std::string("ALTER TABLE t RENAME TO [termgate_x]"),
           std::string("CREATE VIRTUAL TABLE v USING fts4(x, compress=termgate_unprotect, uncompress=termgate_unprotect)"),
           std::string("CREATE VIRTUAL TABLE v USING fts3(x, COMPRESS=\"lower\")"),
           std::string("CREATE VIRTUAL TABLE v USING fts5(name, content='Termgate_Settings')"),
           // The name of what asks is the client's own choice.
           std::string(
               "WITH termgate_fences_insert AS (SELECT termgate_reset_fence('s', 1, 'a', 'r')) SELECT * FROM termgate_fences_insert"),
           std::string("SELECT * FROM (SELECT termgate_uninstall()) AS termgate_fences_update"),
           std::string("WITH termgate_x AS (SELECT * FROM termgate_settings) SELECT * FROM termgate_x"),
           std::string("CREATE VIRTUAL TABLE termgate USING fts5(x)"),
           std::string("CREATE TEMP TABLE termgate_x (y int)"),
           std::string("CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END"),
           std::string("CREATE VIRTUAL TABLE v USING csv(filename='/etc/passwd')"),
           std::string("CREATE VIRTUAL TABLE v USING dbstat"),
           std::string("CREATE VIRTUAL TABLE v USING termgate_transaction"),
           std::string("SELECT * FROM termgate_settings"),
           std::string("SAVEPOINT x; RELEASE x; ATTACH 'x' AS y"),
           std::string("/* x */ ATTACH 'x' AS y"),
       }) {
    CAPTURE(sql);
    const std::string answer = client.ask(query(sql));
    CHECK(answer.find("E(") != std::string::npos);
    CHECK(answer.find("E(XX000)") == std::string::npos);
    CHECK(answer.ends_with("Z(I)"));
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()) == 3);  // the file, -wal, -shm
  CHECK(client.ask(query("SELECT term FROM termgate_fences WHERE scope = 's'")) == "T(term:20) D(5) C(SELECT 1) Z(I)");
  SECTION("nor through a trigger or a view of its own") {
    client.ask(query("CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT termgate_reset_fence('s', 1, 'a', 'r'); END"));
    CHECK(client.ask(query("INSERT INTO t VALUES (2)")) == "E(42501) Z(I)");
    client.ask(query("CREATE TRIGGER y AFTER DELETE ON t BEGIN UPDATE termgate_fences SET term = 1; END"));
    CHECK(client.ask(query("DELETE FROM t")) == "E(42501) Z(I)");
    client.ask(query("CREATE VIEW v AS SELECT termgate_reset_fence('s', 1, 'a', 'r')"));
    CHECK(client.ask(query("SELECT * FROM v")) == "E(42501) Z(I)");
    client.ask(query("CREATE VIEW w AS SELECT termgate_seal('s', 50)"));
    Client reader(lab.engine, {{"default_transaction_read_only", "on"}});
    CHECK(reader.ask(query("SELECT * FROM w")) == "E(42501) Z(I)");
    CHECK(client.ask(query("SELECT term FROM termgate_fences WHERE scope = 's'")) == "T(term:20) D(5) C(SELECT 1) Z(I)");
  }
  SECTION("what tells of the schema stays open") {
    CHECK(client.ask(query("SELECT name FROM pragma_table_info('t')")) == "T(name:25) D(id) C(SELECT 1) Z(I)");
    CHECK(client.ask(query("PRAGMA journal_mode")).find("D(wal)") != std::string::npos);
    CHECK(client.ask(query("PRAGMA integrity_check")).find("D(ok)") != std::string::npos);
    CHECK(client.ask(query("CREATE VIRTUAL TABLE f USING fts5(body)")) == "C(CREATE TABLE) Z(I)");
    CHECK(client.ask(query("INSERT INTO f VALUES ('one two')")) == "C(INSERT 0 1) Z(I)");
    CHECK(client.ask(query("SELECT body FROM f WHERE f MATCH 'two'")) == "T(body:25) D(one two) C(SELECT 1) Z(I)");
    CHECK(client.ask(query("ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME COLUMN id TO termgate_id")) ==
          "C(ALTER TABLE) C(ALTER TABLE) Z(I)");
    CHECK(client.ask(query("ANALYZE; ANALYZE u")) == "C(ANALYZE) C(ANALYZE) Z(I)");
    CHECK(client.ask(query("ANALYZE termgate_fences")) == "E(42501) Z(I)");
  }
}

TEST_CASE("sqlite_server: an error of SQLite's has PostgreSQL's code and names", "[sqlite_server]") {
  struct Row {
    const char* name;
    int code;
    const char* message;
    const char* sqlstate;
    const char* said;
  };
  // clang-format off
  const Row rows[] = {
      {"unique", SQLITE_CONSTRAINT_UNIQUE, "UNIQUE constraint failed: t.a, t.b", "23505", "duplicate key value violates unique constraint \"t_a_b_key\""},
      {"primary key", SQLITE_CONSTRAINT_PRIMARYKEY, "UNIQUE constraint failed: t.id", "23505", "duplicate key value violates unique constraint \"t_pkey\""},
      {"unique index on an expression", SQLITE_CONSTRAINT_UNIQUE, "UNIQUE constraint failed: index 'i'", "23505", "duplicate key value violates unique constraint \"i\""},
      {"not null", SQLITE_CONSTRAINT_NOTNULL, "NOT NULL constraint failed: t.a", "23502", "null value in column \"a\" of relation \"t\" violates not-null constraint"},
      {"check", SQLITE_CONSTRAINT_CHECK, "CHECK constraint failed: t_a_check", "23514", "new row violates check constraint \"t_a_check\""},
      {"foreign key", SQLITE_CONSTRAINT_FOREIGNKEY, "FOREIGN KEY constraint failed", "23503", "insert, update or delete violates foreign key constraint"},
      {"table", SQLITE_ERROR, "no such table: main.t", "42P01", "relation \"t\" does not exist"},
      {"column", SQLITE_ERROR, "no such column: x", "42703", "column \"x\" does not exist"},
      {"column of an insert", SQLITE_ERROR, "table t has no column named x", "42703", "column \"x\" of relation \"t\" does not exist"},
      {"function", SQLITE_ERROR, "no such function: f", "42883", "function \"f\" does not exist"},
      {"exists", SQLITE_ERROR, "table t already exists", "42P07", "relation \"t\" already exists"},
      {"ambiguous", SQLITE_ERROR, "ambiguous column name: x", "42702", "column reference \"x\" is ambiguous"},
      {"syntax", SQLITE_ERROR, "near \"selec\": syntax error", "42601", "syntax error at or near \"selec\""},
      {"a cast of ours", SQLITE_ERROR, "22P02 invalid input syntax for type integer: \"x\"", "22P02", "invalid input syntax for type integer: \"x\""},
      {"layer 1", SQLITE_ERROR, "TG001 stale term 3 for scope \"s\": the fence stands at 5", "TG001", "TG001 stale term 3 for scope \"s\": the fence stands at 5"},
      {"not installed", SQLITE_ERROR, "no such table: termgate_fences", "3F000", "no such table: termgate_fences"},
      {"snapshot", SQLITE_BUSY_SNAPSHOT, "database is locked", "40001", "could not serialize access: another session has committed since this transaction began to read"},
      {"busy", SQLITE_BUSY, "database is locked", "TG006", "TG006 blocked: another connection holds the database's lock; nothing was written"},
      {"interrupt", SQLITE_INTERRUPT, "interrupted", "57014", "canceling statement due to user request"},
      {"full", SQLITE_FULL, "database or disk is full", "53100", "could not extend the database: database or disk is full"},
      {"corrupt", SQLITE_CORRUPT, "database disk image is malformed", "XX001", "database disk image is malformed"},
  };
  // clang-format on
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const sqlite_server::PgError fault = sqlite_server::error_of(row.code, row.message);
    CHECK(fault.sqlstate == row.sqlstate);
    CHECK(fault.message == row.said);
  }
  CHECK(sqlite_server::error_of(Conflict("x")).sqlstate == "40001");
  CHECK(sqlite_server::error_of(OutcomeUnknown("x", "SQLITE_IOERR_FSYNC")).fatal);
  CHECK(sqlite_server::error_of(Unavailable("x", "SQLITE_FULL")).sqlstate == "53100");
  Lab lab;
  Client client(lab.engine);
  client.ask(query("CREATE TABLE t (id int PRIMARY KEY, a text NOT NULL, CHECK (id < 10))"));
  CHECK(client.field(query("INSERT INTO t VALUES (1, NULL)"), 'c') == "a");
  client.ask(
      query("CREATE UNIQUE INDEX only_once ON t (a, id); CREATE TABLE u (v text UNIQUE); INSERT INTO u VALUES ('x'); INSERT INTO t VALUES "
            "(2, 'x')"));
  CHECK(client.field(query("INSERT INTO u VALUES ('x')"), 'n') == "u_v_key");
  client.ask(query("ALTER TABLE u ADD COLUMN w text; CREATE UNIQUE INDEX each_w ON u (w); INSERT INTO u VALUES ('y', 'z')"));
  CHECK(client.field(query("INSERT INTO u VALUES ('q', 'z')"), 'n') == "each_w");
  CHECK(client.field(query("INSERT INTO t VALUES (11, 'x')"), 'n') == "t_check");
  CHECK(client.field(query("SELECT é, )"), 'P') == "11");
  CHECK(client.field(query("SELECT 'é' FROM"), 'P') == "16");
}

TEST_CASE("sqlite_server: SCRAM as in RFC 7677, and what it refuses", "[sqlite_server]") {
  // The RFC's example, its password "pencil".
  const std::string verifier =
      "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
      "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
  const std::string first = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
  const std::string last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
  const std::string nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
  {
    sqlite_server::Scram scram("user", verifier, nonce);
    CHECK(scram.first(first) == "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
    CHECK(scram.final(last) == "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
  }
  for (std::size_t i = 0; i < last.size(); ++i) {
    std::string wrong = last;
    wrong[i] = wrong[i] == 'A' ? 'B' : 'A';
    sqlite_server::Scram scram("user", verifier, nonce);
    REQUIRE(scram.first(first));
    CHECK_FALSE(scram.final(wrong));
  }
  {
    sqlite_server::Scram unknown("user", "", nonce);
    CHECK(unknown.first(first)->ends_with(",i=4096"));
    CHECK_FALSE(unknown.final(last));
  }
  for (const char* malformed : {"", "n", "p=tls-server-end-point,,n=,r=x", "n,,r=x", "n,,n=,r=", "x,,n=,r=x", "n,n=,r=x"})
    CHECK_FALSE(sqlite_server::Scram("user", verifier, nonce).first(malformed));
  CHECK_THROWS(sqlite_server::make_verifier(""));
  CHECK_THROWS(sqlite_server::make_verifier("p\xc3\xa9"));
  CHECK(sqlite_server::make_verifier("pencil") != sqlite_server::make_verifier("pencil"));
}
