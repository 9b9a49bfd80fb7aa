// [F6] Differential: what the classifier calls a read, PostgreSQL must run in a READ ONLY
// transaction. Three thousand seeded texts (fifty thousand with TERMGATE_TEST_LONG) and the
// fuzzer's corpus, on every server there is. After each text that succeeded: no transaction id was
// assigned, none of the database's tables has changed, no table is locked as who writes locks it.
// Texts that call functions may be refused with 25006, for their names say nothing (bypasses.md,
// "read-only"); no others.
#include <catch2/catch.hpp>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <libpq-fe.h>

#include <termgate/statements/classify.hpp>

using termgate::statements::Classified;
using termgate::statements::classify;
using termgate::statements::Kind;

namespace {

// Texts that mostly run: a grammar small enough to read, in which writes hide where they can.
class Texts {
 public:
  explicit Texts(std::uint64_t seed) : random_(seed) {}

  std::string next() {
    std::string sql = statement(3);
    if (in(8)) sql += "; " + statement(2);
    if (in(5)) sql += ";";
    return disguised(sql);
  }

 private:
  bool in(int of_hundred) { return static_cast<int>(random_() % 100) < of_hundred; }
  template <std::size_t n>
  std::string one(const char* const (&those)[n]) {
    return those[random_() % n];
  }

  std::string statement(int depth) {
    switch (random_() % 16) {
      case 0:
        return "EXPLAIN " +
               one({"", "ANALYZE ", "VERBOSE ", "ANALYZE VERBOSE ", "(ANALYZE) ", "(ANALYZE off) ",
                    "(COSTS off, ANALYZE true) ", "(ANALYZE 0) ", "(\"analyze\" on) "}) +
               statement(depth - 1);
      case 1:
        return "COPY (" + query(depth) + ") TO STDOUT" +
               one({"", " (FORMAT csv)", " WITH (HEADER, FORMAT csv)", " BINARY"});
      case 2: return "COPY t" + one({"", " (a)"}) + " TO STDOUT";
      case 3:
        return one({"DECLARE c CURSOR FOR ", "DECLARE c SCROLL CURSOR FOR ",
                    "DECLARE c NO SCROLL CURSOR WITHOUT HOLD FOR "}) +
               query(depth);
      case 4: return "SHOW " + one({"work_mem", "ALL", "TRANSACTION ISOLATION LEVEL", "TIME ZONE"});
      case 5:
        return one({"INSERT INTO t VALUES (7)", "UPDATE t SET a = a", "DELETE FROM t WHERE false",
                    "TRUNCATE t", "CREATE TEMP TABLE tt (x int)", "CREATE TABLE tt (x int)",
                    "SELECT 1 INTO tt", "SELECT a INTO TEMP tt FROM t",
                    "CREATE TABLE tt AS SELECT 1 AS x", "REFRESH MATERIALIZED VIEW m",
                    "COMMENT ON TABLE t IS 'x'", "GRANT SELECT ON t TO PUBLIC", "ANALYZE t",
                    "NOTIFY n", "NOTIFY n, 'x'", "DROP TABLE t"});
      case 6:
        return "LOCK TABLE t" + one({"", " IN ACCESS SHARE MODE", " IN ROW EXCLUSIVE MODE",
                                     " IN SHARE MODE NOWAIT"});
      case 7:
        return one({"LISTEN n", "UNLISTEN *", "DISCARD PLANS", "DISCARD TEMP", "DISCARD SEQUENCES",
                    "SET CONSTRAINTS ALL IMMEDIATE", "SAVEPOINT s", "CLOSE ALL", "DEALLOCATE ALL",
                    "SET LOCAL work_mem = '1MB'", "SET LOCAL transaction_read_only = off",
                    "SET TRANSACTION READ WRITE", "RESET work_mem", "CALL nothing()",
                    "DO 'BEGIN END'", "CHECKPOINT"});
      case 8:
        return "PREPARE p AS " + (in(70) ? query(depth) : std::string("INSERT INTO t VALUES (8)"));
      default: return query(depth);
    }
  }

  std::string query(int depth) {
    std::string with;
    if (in(20) && depth > 0) {
      with =
          "WITH " + one({"", "RECURSIVE "}) + "w AS " +
          one({"", "MATERIALIZED ", "NOT MATERIALIZED "}) + "(" +
          (in(40) ? one({"INSERT INTO t VALUES (9) RETURNING a",
                         "DELETE FROM t WHERE false RETURNING a", "UPDATE t SET a = a RETURNING a"})
                  : query(depth - 1)) +
          ") ";
    }
    std::string text;
    switch (random_() % 10) {
      case 0: text = "VALUES (1), (2)"; break;
      case 1: text = "TABLE t"; break;
      case 2:
        text = "(" + query(depth - 1) + ") UNION ALL (" + query(depth - 1) + ")";
        if (depth <= 0) text = "SELECT 1";
        break;
      default:
        text = "SELECT " + expression(depth) + (in(70) ? " FROM " + source(depth) : "") +
               (in(30) ? " WHERE " + condition(depth) : "") + (in(10) ? " ORDER BY 1" : "") +
               (in(10) ? " LIMIT 3" : "");
    }
    if (in(6))
      text += one({" FOR UPDATE", " FOR SHARE", " FOR NO KEY UPDATE", " FOR KEY SHARE",
                   " FOR UPDATE SKIP LOCKED"});
    return with + text;
  }

  std::string source(int depth) {
    if (depth > 0 && in(20)) return "(" + query(depth - 1) + ") AS q (a)";
    return one({"t", "ONLY t", "v", "m", "t AS x", "t, v AS y",
                "t CROSS JOIN LATERAL (SELECT 2) AS l (z)", "generate_series(1, 3) AS g (a)",
                "pg_class", "writing_view", "t TABLESAMPLE BERNOULLI (50)", "pg_locks"});
  }

  std::string condition(int depth) {
    if (depth > 0 && in(20)) return "EXISTS (" + query(depth - 1) + ")";
    return one({"true", "1 = 1", "'a' <> 'b'", "NOT false", "1 IN (1, 2)", "NULL IS NULL",
                "writes() = 1"});
  }

  std::string expression(int depth) {
    if (depth > 0 && in(10)) return "(SELECT count(*) FROM (" + query(depth - 1) + ") AS q)";
    return one({"1",
                "1 AS a",
                "'x'",
                "E'\\'; DELETE FROM t; --'",
                "'; INSERT INTO t VALUES (1)'",
                "$$; DROP TABLE t$$",
                "$a$ $$ $a$",
                "U&'\\0061'",
                "B'01'",
                "now()",
                "current_user",
                "count(*)",
                "random()",
                "version()",
                "pg_backend_pid()",
                "nextval('s')",
                "setval('s', 5)",
                "currval('s')",
                "lastval()",
                "writes()",
                "pg_notify('n', 'x')",
                "lo_create(0)",
                "lo_unlink(1)",
                "set_config('transaction_read_only', 'off', true)",
                "set_config('work_mem', '2MB', true)",
                "pg_advisory_xact_lock(1)",
                "pg_current_xact_id()",
                "txid_current()",
                "txid_current_if_assigned()",
                "pg_export_snapshot()",
                "query_to_xml('DELETE FROM t', true, false, '')",
                "ROW(1, 2)",
                "ARRAY(SELECT 1)",
                "CASE WHEN true THEN 1 ELSE 2 END",
                "CAST('1' AS int)",
                "'1'::int",
                "pg_stat_get_activity(NULL)",
                "pg_current_wal_lsn()",
                "pg_logical_emit_message(true, 'a', 'b')",
                "pg_size_pretty(1::bigint)"});
  }

  // What lexers disagree about: comments, case, blanks.
  std::string disguised(const std::string& sql) {
    std::string text;
    if (in(10)) text = one({"/* c */ ", "-- c\n", "/* a /* b */ c */ ", "\t\n", "/*;*/"});
    for (const char byte : sql) {
      if (byte == ' ' && in(2)) text += one({"  ", "\n", " /* ' */ ", " --;'\n"});
      text += in(3) && sql.find("writing_view") == std::string::npos &&
                      sql.find('\'') == std::string::npos && sql.find('$') == std::string::npos
                  ? static_cast<char>(std::tolower(static_cast<unsigned char>(byte)))
                  : byte;
    }
    return text;
  }

  std::mt19937_64 random_;
};

class Server {
 public:
  explicit Server(const std::string& url) : connection_(PQconnectdb(url.c_str()), PQfinish) {
    if (PQstatus(connection_.get()) != CONNECTION_OK)
      throw std::runtime_error(PQerrorMessage(connection_.get()));
    PQsetNoticeProcessor(
        connection_.get(), [](void*, const char*) {}, nullptr);
    must("DROP SCHEMA IF EXISTS read_only_game CASCADE; CREATE SCHEMA read_only_game");
    must(
        "SET search_path = read_only_game, pg_catalog; SET statement_timeout = '5s'; SET "
        "lock_timeout = '1s'; SET "
        "max_parallel_workers_per_gather = 0");
    must(
        "CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); CREATE VIEW v AS SELECT a FROM t; "
        "CREATE MATERIALIZED VIEW m AS SELECT a "
        "FROM t; CREATE SEQUENCE s;"
        "CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS 'INSERT INTO read_only_game.t VALUES "
        "(3) RETURNING a';"
        "CREATE VIEW writing_view AS SELECT writes() AS a; CREATE PROCEDURE nothing() LANGUAGE sql "
        "AS ''");
  }
  ~Server() {
    run("ROLLBACK");
    run("DROP SCHEMA read_only_game CASCADE");
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Empty for success, else the SQLSTATE of the first error.
  std::string run(const std::string& sql) {
    said.clear();
    cell.clear();
    if (PQsendQuery(connection_.get(), sql.c_str()) == 0) return "lost";
    std::string code;
    while (PGresult* result = PQgetResult(connection_.get())) {
      const auto status = PQresultStatus(result);
      if (status == PGRES_COPY_OUT) {
        for (char* row = nullptr; PQgetCopyData(connection_.get(), &row, 0) > 0;) PQfreemem(row);
      } else if (status == PGRES_TUPLES_OK) {
        if (PQntuples(result) > 0 && PQnfields(result) > 0) cell = PQgetvalue(result, 0, 0);
      } else if (status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY && code.empty()) {
        const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        code = state == nullptr ? "lost" : state;
        said = PQresultErrorMessage(result);
      }
      PQclear(result);
      if (PQstatus(connection_.get()) == CONNECTION_BAD)
        throw std::runtime_error("the server ended the connection at: " + sql);
    }
    return code;
  }
  void must(const std::string& sql) {
    if (!run(sql).empty()) throw std::runtime_error(sql + ": " + said);
  }
  bool in_transaction() const { return PQtransactionStatus(connection_.get()) == PQTRANS_INTRANS; }
  bool still_read_only() { return run("SHOW transaction_read_only").empty() && cell == "on"; }
  // Whether this transaction has an id, or holds a lock as who writes.
  std::string traces(bool id, bool locks) {
    if (id && !run("SELECT txid_current_if_assigned()").empty()) return "cannot be asked: " + said;
    if (id && !cell.empty()) return "has the transaction id " + cell;
    if (!locks) return "";
    if (!run("SELECT mode FROM pg_locks WHERE pid = pg_backend_pid() AND locktype IN ('relation', "
             "'tuple') AND mode <> 'AccessShareLock' "
             "LIMIT 1")
             .empty())
      return "cannot be asked: " + said;
    return cell.empty() ? "" : "holds a " + cell;
  }

  std::string said, cell;

 private:
  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

struct Counts {
  std::size_t texts = 0, reads = 0, ran = 0, refused_functions = 0;
};

void compare(Server& server, const std::string& sql, Counts& counts) {
  ++counts.texts;
  if (sql.find('\0') != std::string::npos || sql.size() > 4096) return;
  const Classified classified = classify(sql);
  if (!classified.is_read() || classified.might_end_transaction()) return;
  bool functions = false, only_plans = false;
  for (const auto& statement : classified.statements) {
    functions |= statement.calls_functions || statement.calls_unknown || statement.calls_termgate;
    // What another text prepared or opened, and what leaves the transaction's savepoints or
    // settings, is the session's to judge (proxy/postgres).
    only_plans |=
        statement.kind == Kind::prepare ||
        statement.kind ==
            Kind::explain;  // an INSERT that is only planned locks its table as one that runs
    if (statement.kind == Kind::execute || statement.kind == Kind::fetch ||
        statement.kind == Kind::move || statement.sets_read_only)
      return;
  }
  ++counts.reads;
  server.must("BEGIN READ ONLY");
  const std::string code = server.run(sql);
  INFO(sql);
  INFO(server.said);
  // A view or a function whose name says nothing: the database stops it, and that is what READ ONLY
  // is there for.
  const bool hides = functions || sql.find("writing_view") != std::string::npos;
  std::string upper = sql;
  for (char& byte : upper) byte = static_cast<char>(std::toupper(static_cast<unsigned char>(byte)));
  // These assign one, and no more; EXPLAIN of what makes a temporary table makes the session's
  // temporary schema, which its first temporary table would.
  const bool asks_for_id = (only_plans && upper.find("TEMP") != std::string::npos) ||
                           sql.find("txid_current()") != std::string::npos ||
                           sql.find("pg_current_xact_id()") != std::string::npos;
  if (code == "25006") {
    if (!hides) FAIL("called a read, and refused in a READ ONLY transaction");
    ++counts.refused_functions;
  } else if (code.empty()) {
    if (!server.in_transaction()) FAIL("called a read, and ended its transaction");
    if (!server.still_read_only()) FAIL("called a read, and made its transaction writable");
    // A body that is planned with its caller locks its tables as one that runs.
    if (const std::string trace = server.traces(!asks_for_id, !only_plans && !hides);
        !trace.empty())
      FAIL("called a read, and " + trace);
    ++counts.ran;
  }
  server.run("ROLLBACK; DEALLOCATE ALL; CLOSE ALL; UNLISTEN *");
}

}  // namespace

TEST_CASE("what is called a read runs in a READ ONLY transaction, and leaves nothing [F6]") {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(TERMGATE_TEST_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    if (!text.str().empty())
      texts.push_back(text.str().substr(1));  // its first byte is about settings
  }
  REQUIRE(texts.size() > 10);
  Texts made(20'261'122);
  const int count = std::getenv("TERMGATE_TEST_LONG") != nullptr ? 50'000 : 3'000;
  for (int i = 0; i < count; ++i) texts.push_back(made.next());
  for (const char* name :
       {"TERMGATE_TEST_POSTGRESQL_13", "TERMGATE_TEST_POSTGRESQL", "TERMGATE_TEST_POSTGRESQL_18"}) {
    const char* url = std::getenv(name);
    if (url == nullptr) continue;
    INFO(name);
    Server server(url);
    Counts counts;
    for (const std::string& sql : texts) compare(server, sql, counts);
    server.must("SELECT count(*) FROM t");
    CHECK(server.cell == "2");
    std::printf(
        "%s: %zu texts, %zu called reads, %zu of them ran, %zu were refused for what a function or "
        "a view hides\n",
        name, counts.texts, counts.reads, counts.ran, counts.refused_functions);
    // The game is worth nothing where hardly anything runs.
    CHECK(counts.ran > counts.texts / 10);
    CHECK(counts.refused_functions > counts.texts / 200);
  }
}
