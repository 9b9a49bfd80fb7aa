// The catalog over a real SQLite schema: what psql, drivers and tools ask is answered as a PostgreSQL 15 answered it for the same
// schema (sqlite_server/catalog.txt; tools/catalog_oracle.py).
#include <catch2/catch.hpp>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <termgate/dialect/types.hpp>
#include <termgate/sqlite_server/catalog.hpp>

#include "catalog/relations.hpp"
#include "connection.hpp"

using namespace termgate::sqlite_server;
namespace dialect = termgate::dialect;
using sqlite_server_test::Answer;
using sqlite_server_test::Catalog;
using sqlite_server_test::Connection;
using sqlite_server_test::file;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

struct Case {
  std::string name, sql, sqlstate;
  std::vector<std::string> rows;
  bool names_only = false;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  std::istringstream lines(file(TERMGATE_SQLITE_SERVER_DATA "/catalog.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("-- ")) {
      all.emplace_back();
      all.back().names_only = line.starts_with("-- ~ ");
      all.back().name = line.substr(all.back().names_only ? 5 : 3);
    } else if (all.empty()) {
      continue;
    } else if (line.starts_with("= ") || line == "=") {
      all.back().rows.push_back(line.size() < 2 ? "" : line.substr(2));
    } else if (line.starts_with("! ")) {
      all.back().sqlstate = line.substr(2);
    } else if (!line.empty()) {
      all.back().sql += line + "\n";
    }
  }
  return all;
}

}  // namespace

TEST_CASE("catalog: what psql and drivers and tools ask is answered as PostgreSQL answered it", "[proxy][sqlite_server]") {
  const auto all = cases();
  REQUIRE(all.size() > 40);
  Connection connection;
  connection.open = true;  // CREATE writes sqlite_schema by itself
  const Answer setup = connection.run(file(TERMGATE_SQLITE_SERVER_DATA "/catalog_setup.sql"));
  REQUIRE(setup.message == "");
  connection.open = false;
  std::map<std::string, std::string> oids;
  const Answer list = connection.run("SELECT relname, oid FROM pg_class WHERE oid >= 16384");
  CAPTURE(list.message, list.sql);
  for (std::size_t i = 1; i < list.rows.size(); ++i)
    oids[list.rows[i].substr(0, list.rows[i].find('|'))] = list.rows[i].substr(list.rows[i].find('|') + 1);
  REQUIRE(oids.size() == 12);
  for (const Case& each : all) {
    DYNAMIC_SECTION(each.name) {
      std::string sql = each.sql;
      for (const auto& [name, oid] : oids) sql = replaced(sql, "{" + name + "}", oid);
      Answer answer = connection.run(sql);
      CAPTURE(sql, answer.sql, answer.message);
      CHECK(answer.sqlstate == each.sqlstate);
      if (each.names_only) {
        answer.rows.resize(std::min<std::size_t>(answer.rows.size(), 1));
        CHECK(answer.rows == each.rows);
        continue;
      }
      for (std::string& row : answer.rows) {
        row = "|" + row + "|";
        for (const auto& [name, oid] : oids) row = replaced(row, "|" + oid + "|", "|{" + name + "}|");
        row = row.substr(1, row.size() - 2);
      }
      CHECK(answer.rows == each.rows);
    }
  }
}

TEST_CASE("catalog: types of declarations are as documented", "[proxy][sqlite_server]") {
  struct Row {
    const char* declared;
    dialect::Oid oid;
    std::int32_t typmod;
  };
  for (const Row& row : {Row{"INTEGER", 20, -1},
                         {"int", 23, -1},
                         {"INT4", 23, -1},
                         {"UNSIGNED BIG INT", 20, -1},
                         {"tinyint", 21, -1},
                         {"POINT", 25, -1},
                         {"varchar(10)", 1043, 14},
                         {"CHARACTER VARYING(5)", 1043, 9},
                         {"NVARCHAR(7)", 1043, 11},
                         {"char(3)", 1042, 7},
                         {"NATIVE CHARACTER(70)", 25, -1},
                         {"numeric(10,2)", 1700, 655366},
                         {"DECIMAL(5)", 1700, 327684},
                         {"decimal", 1700, -1},
                         {"numeric(99999999999999999999,1)", 1700, -1},
                         {"varchar(-1)", 1043, -1},
                         {"varchar()", 1043, -1},
                         {"varchar(", 1043, -1},
                         {"", 25, -1},
                         {"BLOB", 17, -1},
                         {"LONGBLOB", 17, -1},
                         {"FLOAT", 701, -1},
                         {"real", 700, -1},
                         {"DOUBLE PRECISION", 701, -1},
                         {"boolean", 16, -1},
                         {"date text", 1082, -1},
                         {"DATETIME", 1114, -1},
                         {"timestamptz text", 1184, -1},
                         {"interval_text", 1186, -1},
                         {"uuid text", 2950, -1},
                         {"jsonb text", 3802, -1},
                         {"int4_array_text", 1007, -1},
                         {"text[]", 1009, -1},
                         {"WHATEVER", 25, -1},
                         {"LONGTEXT", 25, -1}}) {
    CAPTURE(row.declared);
    CHECK(type_of_declaration(row.declared) == DeclaredType{row.oid, row.typmod});
  }
}

TEST_CASE("catalog: OIDs stay over connections and over changes of the schema", "[proxy][sqlite_server]") {
  const std::string oids = "SELECT relname, oid FROM pg_class WHERE oid >= 16384 AND relname IN ('a', 'b', 'a_pkey') ORDER BY 1";
  Connection first, second;
  first.open = second.open = true;
  first.run("CREATE TABLE a (x int PRIMARY KEY); CREATE TABLE b (y int)");
  const auto before = first.run(oids).rows;
  REQUIRE(before.size() == 4);
  second.run("CREATE TABLE other (z int); CREATE TABLE b (y int); CREATE TABLE a (x int PRIMARY KEY)");
  CHECK(second.run(oids).rows == before);
  first.run("CREATE TABLE c (z int); ALTER TABLE a ADD COLUMN w text; DROP TABLE b");
  first.run("CREATE TABLE b (y text)");
  REQUIRE(sqlite3_exec(first.held, "VACUUM", nullptr, nullptr, nullptr) == SQLITE_OK);
  CHECK(first.run(oids).rows == before);
}

TEST_CASE("catalog: the open transaction's schema is seen and what was rolled back is not", "[proxy][sqlite_server]") {
  Connection connection;
  connection.open = true;
  const auto run = [&](const char* sql) { REQUIRE(sqlite3_exec(connection.held, sql, nullptr, nullptr, nullptr) == SQLITE_OK); };
  const std::string tables =
      "SELECT string_agg(relname, ',') FROM (SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 2200 ORDER BY 1) t";
  run("CREATE TABLE kept (x int)");
  CHECK(connection.value(tables) == "kept");
  run("BEGIN; CREATE TABLE one (x int)");
  CHECK(connection.value(tables) == "kept,one");
  // The number of the schema is used twice.
  run("ROLLBACK; BEGIN; CREATE TABLE two (x int)");
  CHECK(connection.value(tables) == "kept,two");
  run("SAVEPOINT s; CREATE TABLE three (x int)");
  CHECK(connection.value(tables) == "kept,three,two");
  run("ROLLBACK TO s; CREATE TABLE four (x int)");
  CHECK(connection.value(tables) == "four,kept,two");
  run("COMMIT");
  CHECK(connection.value(tables) == "four,kept,two");
  run("CREATE TEMP TABLE kept (y text)");
  CHECK(connection.value("SELECT count(*) FROM pg_class WHERE relname = 'kept'") == "2");
  CHECK(connection.value("SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relname = 'kept' AND "
                         "pg_table_is_visible(c.oid)") == "pg_temp_1");
}

TEST_CASE("catalog: a transaction that writes compares the schema's texts only after a change of its own", "[proxy][sqlite_server]") {
  Connection connection;
  connection.open = true;
  // As a session's connection does.
  const auto over = [](void* catalog) { static_cast<Catalog*>(catalog)->transaction_over(); };
  sqlite3_rollback_hook(connection.held, over, connection.catalog);
  sqlite3_commit_hook(
      connection.held,
      [](void* catalog) {
        static_cast<Catalog*>(catalog)->transaction_over();
        return 0;
      },
      connection.catalog);
  int comparisons = 0;
  sqlite3_trace_v2(
      connection.held, SQLITE_TRACE_STMT,
      [](unsigned, void* count, void*, void* text) {
        *static_cast<int*>(count) += std::string_view(static_cast<const char*>(text)).find("sqlite_schema UNION ALL") != std::string::npos;
        return 0;
      },
      &comparisons);
  const auto run = [&](const std::string& text) { REQUIRE(sqlite3_exec(connection.held, text.c_str(), nullptr, nullptr, nullptr) == 0); };
  const auto begin = [&] {
    run("BEGIN IMMEDIATE");
    connection.catalog->writing();
  };
  // Which of a, b and c the catalog sees, and how often it has compared for that.
  const auto seen = [&] {
    const int before = comparisons;
    const auto relations = connection.catalog->relations();
    std::string names;
    for (const char* name : {"a", "b", "c"}) names += relations->find(name) != nullptr ? name : "";
    return names + std::to_string(comparisons - before);
  };
  run("CREATE TABLE a (i INTEGER)");
  begin();
  CHECK(seen() == "a1");
  CHECK(seen() == "a0");
  run("INSERT INTO a VALUES (1); SAVEPOINT s; CREATE TABLE b (i INTEGER)");
  CHECK(seen() == "ab1");
  run("ROLLBACK TO s; CREATE TABLE c (i INTEGER)");  // with the number that b had
  CHECK(seen() == "ac1");
  connection.catalog->writing();  // another session in the same transaction
  CHECK(seen() == "ac1");
  run("ROLLBACK TO s");
  CHECK(seen() == "a1");
  CHECK(seen() == "a0");
  run("CREATE TABLE b (i INTEGER); ROLLBACK");
  begin();
  CHECK(seen() == "a0");
  run("CREATE TABLE c (i INTEGER); COMMIT");
  begin();
  CHECK(seen() == "ac1");
  CHECK(seen() == "ac0");
  run("COMMIT");
  begin();
  CHECK(seen() == "ac0");
  run("ROLLBACK");
}

TEST_CASE("catalog: another connection's change is seen at the next statement", "[proxy][sqlite_server]") {
  char name[] = "/tmp/sqlite_server_catalog_XXXXXX";
  const int descriptor = mkstemp(name);
  REQUIRE(descriptor >= 0);
  close(descriptor);
  {
    Connection one(name), two(name);
    one.open = two.open = true;
    one.run("CREATE TABLE a (x int)");
    CHECK(two.value("SELECT count(*) FROM pg_class WHERE relname = 'a'") == "1");
    one.run("CREATE TABLE b (x int)");
    CHECK(two.value("SELECT count(*) FROM pg_class WHERE relname IN ('a', 'b')") == "2");
  }
  std::remove(name);
}

TEST_CASE("catalog: Termgate's tables and SQLite's are no tables of the user", "[proxy][sqlite_server]") {
  Connection connection;
  connection.open = true;
  connection.run("CREATE TABLE mine (id bigserial PRIMARY KEY, v text)");
  REQUIRE(sqlite3_exec(connection.held,
                       "CREATE TABLE termgate_fences (scope TEXT PRIMARY KEY, term INTEGER) STRICT, WITHOUT ROWID; CREATE TRIGGER "
                       "termgate_guard_mine BEFORE INSERT ON mine BEGIN SELECT 1; END; INSERT INTO mine (v) VALUES ('x'); ANALYZE",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  connection.open = false;
  CHECK(connection.value("SELECT string_agg(relname, ',') FROM pg_class WHERE relkind = 'r' AND relnamespace = 2200") == "mine");
  CHECK(connection.value(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'termgate' AND relkind = 'r'") ==
        "termgate_fences");
  CHECK(connection.value("SELECT pg_table_is_visible('termgate.termgate_fences'::regclass)") == "f");
  CHECK(connection.value("SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'termgate%' OR table_name LIKE 'sqlite%'") ==
        "0");
  CHECK(connection.value("SELECT count(*) FROM pg_trigger") == "0");
  CHECK(connection.value("SELECT has_table_privilege('termgate_fences', 'INSERT')") == "f");
  CHECK(connection.value("SELECT 'termgate_fences'::regclass").starts_with("! 42P01"));
  // The row id comes by itself, and counts.
  CHECK(connection.value("SELECT attidentity FROM pg_attribute WHERE attname = 'id' AND attrelid = 'mine'::regclass").empty());
  CHECK(connection.value("SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'mine'::regclass") ==
        "nextval('mine_id_seq'::regclass)");
  CHECK(connection.value("SELECT deptype FROM pg_depend WHERE objid = 'mine_id_seq'::regclass AND refobjid = 'mine'::regclass") == "a");
  CHECK(connection.value("SELECT relkind FROM pg_class WHERE relname = 'mine_id_seq'") == "S");
  CHECK(connection.value("SELECT pg_get_serial_sequence('mine', 'id')") == "public.mine_id_seq");
  CHECK(connection.value("SELECT indexdef FROM pg_indexes WHERE tablename = 'mine'") ==
        "CREATE UNIQUE INDEX mine_pkey ON public.mine USING btree (id)");
}

TEST_CASE("catalog: nothing of it can be written or dropped and the authorizer is not opened by it", "[proxy][sqlite_server]") {
  Connection connection;
  CHECK_FALSE(connection.run("DELETE FROM pg_class").sqlstate.empty());
  CHECK_FALSE(connection.run("INSERT INTO pg_namespace (nspname) VALUES ('x')").sqlstate.empty());
  CHECK_FALSE(connection.run("DROP TABLE pg_class").sqlstate.empty());
  CHECK(connection.value("SELECT count(*) > 0 FROM pg_class") == "t");
  CHECK_FALSE(connection.catalog->reading());
  CHECK(sqlite3_exec(connection.held, "SELECT * FROM sqlite_schema", nullptr, nullptr, nullptr) == SQLITE_AUTH);
  CHECK(sqlite3_exec(connection.held, "PRAGMA table_info(pg_class)", nullptr, nullptr, nullptr) == SQLITE_AUTH);
}

TEST_CASE("catalog: SQLite's own definitions have PostgreSQL's names", "[proxy][sqlite_server]") {
  Connection connection;
  connection.open = true;
  REQUIRE(sqlite3_exec(connection.held, R"(
    CREATE TABLE "Odd Name" ("a b" INTEGER PRIMARY KEY, [c] TEXT CHECK ("c" <> ')' /* ( */) COLLATE NOCASE, `d` REAL DEFAULT (1 + 2) -- , (
      , e GENERATED ALWAYS AS (d * 2) STORED, UNIQUE ("c", d), CONSTRAINT "big one" CHECK (d < 100 AND c LIKE 'x,%'));
    CREATE TABLE child (p REFERENCES "Odd Name", q INT REFERENCES nowhere(z), PRIMARY KEY (p, q)) WITHOUT ROWID;
    CREATE VIRTUAL TABLE words USING fts5(body);
    CREATE VIEW broken AS SELECT * FROM nowhere;
    CREATE TRIGGER touch AFTER UPDATE ON "Odd Name" BEGIN SELECT 1; END;)",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  CHECK(connection.run("SELECT conname, contype, pg_get_constraintdef(oid, true) FROM pg_constraint ORDER BY 1").rows ==
        std::vector<std::string>{"conname|contype|pg_get_constraintdef", R"(Odd Name_c_check|c|CHECK ("c" <> ')' /* ( */))",
                                 R"(Odd Name_c_d_key|u|UNIQUE (c, d))", R"(Odd Name_pkey|p|PRIMARY KEY ("a b"))",
                                 R"(big one|c|CHECK (d < 100 AND c LIKE 'x,%'))",
                                 R"(child_p_fkey|f|FOREIGN KEY (p) REFERENCES "Odd Name"("a b"))", "child_pkey|p|PRIMARY KEY (p, q)",
                                 "child_q_fkey|f|FOREIGN KEY (q) REFERENCES nowhere"});
  CHECK(connection.value("SELECT string_agg(relname || relkind, ',') FROM (SELECT relname, relkind FROM pg_class WHERE relnamespace = 2200 "
                         "AND relkind IN ('r', 'v') ORDER BY 1) t") == "Odd Namer,brokenv,childr,wordsr");
  CHECK(connection
            .run("SELECT a.attname, attgenerated, pg_get_expr(adbin, adrelid) FROM pg_attribute a JOIN pg_attrdef d ON adrelid = attrelid "
                 "AND adnum = attnum WHERE attrelid = '\"Odd Name\"'::regclass ORDER BY attnum")
            .rows == std::vector<std::string>{"attname|attgenerated|pg_get_expr", "d||1 + 2", "e|s|(d * 2)"});
  CHECK(connection.value("SELECT tgname FROM pg_trigger WHERE tgrelid = '\"Odd Name\"'::regclass") == "touch");
  CHECK(connection.value("SELECT collname FROM pg_attribute a JOIN pg_collation c ON c.oid = attcollation WHERE attname = 'c' AND attrelid "
                         "= '\"Odd Name\"'::regclass") == "nocase");
}
