// Long: one protocol, whose cases share the client that reads its answers as text.
// One session of sqlite_server over a real file, message by message: what PostgreSQL's protocol promises of simple and extended queries,
// transactions, portals, settings, COPY, and of READ ONLY, on which the proxy's own promises stand (docs/decisions/0007).
#include <catch2/catch.hpp>

#include <chrono>
#include <thread>

#include "support/sqlite_server_lab.hpp"

using namespace termgate;
using namespace sqlite_server_lab;

TEST_CASE("sqlite_server: a login tells the settings a driver waits for", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine, {{"application_name", "x"}});
  CHECK(told(client.began()) == "Z(I)");
  for (const char* name : {"server_version", "client_encoding", "standard_conforming_strings", "default_transaction_read_only", "TimeZone",
                           "integer_datetimes"}) {
    CHECK(client.began().find(name) != std::string::npos);
  }
}

TEST_CASE("sqlite_server: simple queries, one statement and several", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  CHECK(client.ask(query("SELECT 1 AS a, 'x' AS b")) == "T(a:23,b:25) D(1,x) C(SELECT 1) Z(I)");
  CHECK(client.ask(query("")) == "I Z(I)");
  CHECK(client.ask(query(" -- nothing\n")) == "I Z(I)");
  CHECK(client.ask(query("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b'); SELECT * FROM t")) ==
        "C(CREATE TABLE) C(INSERT 0 2) T(id:23,v:25) D(1,a) D(2,b) C(SELECT 2) Z(I)");
  CHECK(client.ask(query("UPDATE t SET v = 'z' RETURNING id")) == "T(id:23) D(1) D(2) C(UPDATE 2) Z(I)");
  CHECK(client.ask(query("DELETE FROM t WHERE id = 1")) == "C(DELETE 1) Z(I)");
  SECTION("all or nothing") {
    CHECK(client.ask(query("INSERT INTO t VALUES (5, 'e'); SELECT nope FROM t")) == "C(INSERT 0 1) E(42703) Z(I)");
    CHECK(client.ask(query("SELECT count(*) FROM t WHERE id = 5")) == "T(count:20) D(0) C(SELECT 1) Z(I)");
  }
  SECTION("SQLite's own words") {
    CHECK(client.ask(query("INSERT OR REPLACE INTO t VALUES (2, 'y')")) == "C(INSERT 0 1) Z(I)");
    CHECK(client.ask(query("SELECT v FROM t WHERE v GLOB 'y*'; SELECT 2")) ==
          "T(v:25) D(y) C(SELECT 1) T(?column?:23) D(2) C(SELECT 1) Z(I)");
  }
}

TEST_CASE("sqlite_server: the extended protocol", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(query("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')"));
  SECTION("parse, describe, bind, execute") {
    CHECK(client.ask(parse("s", "SELECT id, v FROM t WHERE id > $1::int ORDER BY id") + describe_statement("s") + synced()) ==
          "1 t(23) T(id:23,v:25) Z(I)");
    CHECK(client.ask(bind("", "s", {"1"}) + describe_portal("") + execute() + synced()) ==
          "2 T(id:23,v:25) D(2,b) D(3,c) C(SELECT 2) Z(I)");
    CHECK(client.ask(parse("s", "SELECT 1") + synced()) == "E(42P05) Z(I)");
    CHECK(client.ask(bind("", "none") + execute() + synced()) == "E(26000) Z(I)");
    CHECK(client.ask(bind("", "s") + synced()) == "E(08P01) Z(I)");
  }
  SECTION("binary both ways") {
    CHECK(
        client.raw(parse("", "SELECT $1::int + 1 AS n") + bind("", "", {std::string_view("\0\0\0\7", 4)}, {1}, {1}) + execute() + synced())
            .find(std::string("\0\0\0\10", 4)) != std::string::npos);
  }
  SECTION("a parameter without a type takes that of the column beside it") {
    client.ask(query("CREATE TABLE k (a int, b boolean, c bytea, d date)"));
    CHECK(client.ask(parse("p", "INSERT INTO k (b, a, c) VALUES ($2, $1, $3), ($4, 5, decode($5, 'hex'))") + describe_statement("p") +
                     synced()) == "1 t(23,16,17,16,25) n Z(I)");
    CHECK(client.ask(parse("q", "INSERT INTO k VALUES ($1, $2, $3, $4)") + describe_statement("q") + synced()) ==
          "1 t(23,16,17,1082) n Z(I)");
    CHECK(client.ask(parse("r", "UPDATE k SET b = $1, d = $2 WHERE a >= $3 AND $4 = 'x'::text AND c = $5") + describe_statement("r") +
                     synced()) == "1 t(16,1082,23,25,17) n Z(I)");
    CHECK(client.ask(bind("", "q", {"1", "yes", "\\x00", "2024-02-03"}) + execute() + synced()) == "2 C(INSERT 0 1) Z(I)");
    CHECK(client.ask(query("SELECT * FROM k")) == "T(a:23,b:16,c:17,d:1082) D(1,t,\\x00,2024-02-03) C(SELECT 1) Z(I)");
    CHECK(client.ask(bind("", "q", {"one", "yes", "\\x00", "2024-02-03"}) + execute() + synced()) == "E(22P02) Z(I)");
  }
  SECTION("row limits, until the end of the transaction") {
    client.ask(query("BEGIN"));
    CHECK(client.ask(parse("", "SELECT id FROM t ORDER BY id") + bind("p", "") + execute("p", 2) + synced()) == "1 2 D(1) D(2) s Z(T)");
    CHECK(client.ask(execute("p", 2) + synced()) == "D(3) C(SELECT 1) Z(T)");
    CHECK(client.ask(query("COMMIT")) == "C(COMMIT) Z(I)");
    CHECK(client.ask(execute("p") + synced()) == "E(34000) Z(I)");
  }
  SECTION("a pipeline is one transaction, and an error skips to its Sync") {
    CHECK(client.ask(parse("", "INSERT INTO t VALUES (7, 'g')") + bind("", "") + execute() + parse("", "SELECT nope FROM t") +
                     bind("", "") + describe_portal("") + execute() + synced()) == "1 2 C(INSERT 0 1) E(42703) Z(I)");
    CHECK(client.ask(query("SELECT id FROM t WHERE id = 7")) == "T(id:23) C(SELECT 0) Z(I)");
  }
  SECTION("a Flush answers before the Sync commits") {
    CHECK(client.ask(parse("", "INSERT INTO t VALUES (8, 'h')") + bind("", "") + execute() + bare('H')) == "1 2 C(INSERT 0 1)");
    Client other(lab.engine);
    CHECK(other.ask(query("SELECT id FROM t WHERE id = 8")) == "T(id:23) C(SELECT 0) Z(I)");
    CHECK(client.ask(synced()) == "Z(I)");
    CHECK(other.ask(query("SELECT id FROM t WHERE id = 8")) == "T(id:23) D(8) C(SELECT 1) Z(I)");
  }
  SECTION("an empty statement, a closed one, one of two commands") {
    CHECK(client.ask(parse("", "") + bind("", "") + describe_portal("") + execute() + synced()) == "1 2 n I Z(I)");
    CHECK(client.ask(parse("", "SELECT 1; SELECT 2") + synced()) == "E(42601) Z(I)");
    std::string close;
    pgwire::append_close_statement(close, "s");
    CHECK(client.ask(parse("s", "SELECT 1") + close + bind("", "s") + synced()) == "1 3 E(26000) Z(I)");
  }
}

TEST_CASE("sqlite_server: bytes may come in any pieces", "[sqlite_server]") {
  const std::string script = query("CREATE TABLE t (id int, v text)") + parse("s", "INSERT INTO t VALUES ($1, $2)", {23, 25}) +
                             bind("", "s", {"1", "x"}) + execute() + bind("", "s", {"2", "y"}) + execute() + synced() + query("BEGIN") +
                             query("SELECT * FROM t") + query("SELECT nope") + query("ROLLBACK") + query("COPY t FROM STDIN") +
                             copy_data("3\tz\n4\t\\") + copy_data("N\n") + copy_done() + query("SELECT * FROM t");
  Lab whole;
  const std::string wanted = Client(whole.engine).ask(script);
  REQUIRE(wanted.ends_with("D(4,NULL) C(SELECT 4) Z(I)"));
  Lab pieces;
  Client client(pieces.engine);
  std::string answer;
  for (const char byte : script) answer += client.raw(std::string_view(&byte, 1));
  CHECK(told(answer) == wanted);
}

TEST_CASE("sqlite_server: what reads a little is answered at once, and nothing else is begun", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(query(
      "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b'); CREATE TABLE s (id serial PRIMARY KEY)"));
  client.ask(parse("s", "SELECT v FROM t WHERE id = $1") + synced());
  const std::string not_now = "-";
  SECTION("reads, simple and extended, and what they fail with") {
    CHECK(client.ask_quickly_at_last(query("SELECT v FROM t WHERE id = 2")) == "T(v:25) D(b) C(SELECT 1) Z(I)");
    CHECK(client.ask_quickly_at_last(bind("", "s", {"1"}) + execute() + synced()) == "2 D(a) C(SELECT 1) Z(I)");
    CHECK(client.ask_quickly_at_last(parse("", "SELECT id FROM t ORDER BY id DESC") + bind("", "") + describe_portal("") + execute() +
                                     synced()) == "1 2 T(id:23) D(2) D(1) C(SELECT 2) Z(I)");
    CHECK(client.ask_quickly_at_last(bind("", "s", {"1"}) + execute() + bind("", "s", {"2"}) + execute() + synced()) ==
          "2 D(a) C(SELECT 1) 2 D(b) C(SELECT 1) Z(I)");
    CHECK(client.ask_quickly_at_last(bind("", "s", {"1", "2"}) + execute() + synced()) == "E(08P01) Z(I)");
    CHECK(client.ask_quickly_at_last(query("SELECT v::int FROM t")) == "E(22P02) Z(I)");
    CHECK(client.ask(query("SELECT 1 AS a")) == "T(a:23) D(1) C(SELECT 1) Z(I)");
  }
  SECTION("no write, whatever it looks like, and no block") {
    for (const char* sql :
         {"INSERT INTO t VALUES (3, 'c')", "SELECT nextval('s_id_seq')", "CREATE TABLE u (id int)", "BEGIN", "SET work_mem = 1",
          "SELECT 1; SELECT 2", "SELECT termgate.check_term('x', 1)", "DECLARE c CURSOR WITH HOLD FOR SELECT 1", "COPY t TO STDOUT",
          "EXPLAIN SELECT 1", "SELECT v FROM t WHERE v GLOB 'a'", "PREPARE p AS SELECT 1", "no sql", ""}) {
      CAPTURE(sql);
      CHECK(client.ask_quickly(query(sql)) == not_now);
    }
    CHECK(client.ask(query("SELECT count(*) FROM t")) == "T(count:20) D(2) C(SELECT 1) Z(I)");
    CHECK(client.ask(query("SELECT nextval('s_id_seq')")) == "T(nextval:20) D(1) C(SELECT 1) Z(I)");
    client.ask(query("BEGIN"));
    CHECK(client.ask_quickly(query("SELECT 1")) == not_now);
    client.ask(query("ROLLBACK"));
  }
  SECTION("no batch that is not whole, and no more than a whole one") {
    const std::string batch = bind("", "s", {"1"}) + execute() + synced();
    for (std::size_t size = 0; size < batch.size(); ++size) CHECK(client.ask_quickly(std::string_view(batch).substr(0, size)) == not_now);
    CHECK(client.ask_quickly(batch + query("SELECT 1")) == not_now);
    CHECK(client.ask_quickly(batch + "Q") == not_now);
    CHECK(client.ask(batch.substr(0, 9)).empty());
    CHECK(client.ask_quickly(batch.substr(9)) == not_now);
    CHECK(client.ask(batch.substr(9)) == "2 D(a) C(SELECT 1) Z(I)");
    CHECK(client.ask(parse("", "SELECT 7 AS n") + bare('H')) == "1");
    CHECK(client.ask_quickly_at_last(bind("", "") + execute() + synced()) == "2 D(7) C(SELECT 1) Z(I)");
    CHECK(client.ask_quickly_at_last(batch) == "2 D(a) C(SELECT 1) Z(I)");
  }
  SECTION("what takes long is left to a thread of its own, as if nothing had been, and not tried again") {
    for (const char* sql : {"SELECT count(*) FROM generate_series(1, 1000000)",
                            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT max(i) FROM n",
                            "SELECT pg_sleep(0.01)", "SELECT repeat('x', 100000)"}) {
      CAPTURE(sql);
      CHECK(client.ask_quickly(query(sql)) == not_now);
      CHECK(client.ask(query(sql)).ends_with("C(SELECT 1) Z(I)"));
      CHECK(client.ask_quickly(query(sql)) == not_now);
    }
    CHECK(client.ask_quickly_at_last(query("SELECT 1 AS a")) == "T(a:23) D(1) C(SELECT 1) Z(I)");
    client.ask(query("SET default_transaction_read_only = on"));
    CHECK(client.ask_quickly_at_last(query("SELECT id FROM t WHERE id = 1")) == "T(id:23) D(1) C(SELECT 1) Z(I)");
  }
  SECTION("a time-out of the last statement is none of the next") {
    client.ask(query("SET statement_timeout = 20"));
    CHECK(client.ask(query("SELECT pg_sleep(1)")).find("E(57014)") != std::string::npos);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CHECK(client.ask_quickly_at_last(query("SELECT 1 AS a")) == "T(a:23) D(1) C(SELECT 1) Z(I)");
  }
  SECTION("an evicted session answers nothing more") {
    client.control().evict("over");
    CHECK(client.ask_quickly(query("SELECT 1")) == not_now);
  }
}

TEST_CASE("sqlite_server: nobody is told of a write that its commit refuses", "[F7][sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(query("CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (p int REFERENCES p(id) DEFERRABLE INITIALLY DEFERRED)"));
  CHECK(client.ask(query("INSERT INTO c VALUES (1)")) == "E(23503) Z(I)");
  CHECK(client.ask(query("SELECT 1; INSERT INTO c VALUES (1)")) == "T(?column?:23) D(1) C(SELECT 1) E(23503) Z(I)");
  CHECK(client.ask(query("INSERT INTO c VALUES (1); SELECT 1")) == "C(INSERT 0 1) T(?column?:23) D(1) E(23503) Z(I)");
  CHECK(client.ask(query("COPY c FROM STDIN")) == "G");
  CHECK(client.ask(copy_data("1\n") + bare('c')) == "E(23503) Z(I)");
  CHECK(client.ask(query("BEGIN; INSERT INTO c VALUES (1)")) == "C(BEGIN) C(INSERT 0 1) Z(T)");
  CHECK(client.ask(query("COMMIT")) == "E(23503) Z(I)");
  // Extended, as from PostgreSQL: Execute is answered before the Sync commits, and only the Sync says how that went.
  CHECK(client.ask(parse("", "INSERT INTO c VALUES (1)") + bind("", "") + execute() + synced()) == "1 2 C(INSERT 0 1) E(23503) Z(I)");
  CHECK(client.ask(query("SELECT count(*) FROM c")) == "T(count:20) D(0) C(SELECT 1) Z(I)");
}

TEST_CASE("sqlite_server: blocks and their states", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine), other(lab.engine);
  client.ask(query("CREATE TABLE t (id int PRIMARY KEY)"));
  CHECK(client.ask(query("BEGIN")) == "C(BEGIN) Z(T)");
  CHECK(client.ask(query("INSERT INTO t VALUES (1)")) == "C(INSERT 0 1) Z(T)");
  CHECK(client.ask(query("SAVEPOINT a")) == "C(SAVEPOINT) Z(T)");
  CHECK(client.ask(query("INSERT INTO t VALUES (1)")) == "E(23505) Z(E)");
  CHECK(client.ask(query("SELECT 1")) == "E(25P02) Z(E)");
  CHECK(client.ask(query("ROLLBACK TO a")) == "C(ROLLBACK) Z(T)");
  CHECK(client.ask(query("RELEASE a")) == "C(RELEASE) Z(T)");
  CHECK(client.ask(query("ROLLBACK TO a")) == "E(3B001) Z(E)");
  CHECK(client.ask(query("COMMIT")) == "C(ROLLBACK) Z(I)");
  CHECK(client.ask(query("SELECT * FROM t")) == "T(id:23) C(SELECT 0) Z(I)");
  SECTION("each statement before the first write sees what is newest, and none is too old to write") {
    client.ask(query("BEGIN"));
    CHECK(client.ask(query("SELECT * FROM t")) == "T(id:23) C(SELECT 0) Z(T)");
    CHECK(other.ask(query("INSERT INTO t VALUES (5)")) == "C(INSERT 0 1) Z(I)");
    CHECK(client.ask(query("SELECT * FROM t")) == "T(id:23) D(5) C(SELECT 1) Z(T)");
    CHECK(client.ask(query("INSERT INTO t VALUES (6)")) == "C(INSERT 0 1) Z(T)");
    CHECK(client.ask(query("COMMIT")) == "C(COMMIT) Z(I)");
  }
  SECTION("AND CHAIN begins the next block in the same modes, after a failed one too") {
    CHECK(client.ask(query("COMMIT AND CHAIN")) == "E(25P01) Z(I)");
    client.ask(query("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY"));
    CHECK(client.ask(query("COMMIT AND CHAIN")) == "C(COMMIT) Z(T)");
    CHECK(client.ask(query("INSERT INTO t VALUES (7)")) == "E(25006) Z(E)");
    CHECK(client.ask(query("COMMIT AND CHAIN")) == "C(ROLLBACK) Z(T)");
    CHECK(client.ask(query("SHOW transaction_isolation")) == "T(transaction_isolation:25) D(serializable) C(SHOW) Z(T)");
    CHECK(client.ask(query("ROLLBACK AND CHAIN")) == "C(ROLLBACK) Z(T)");
    CHECK(client.ask(query("INSERT INTO t VALUES (7)")) == "E(25006) Z(E)");
    CHECK(client.ask(query("ROLLBACK")) == "C(ROLLBACK) Z(I)");
  }
  SECTION("REPEATABLE READ keeps its snapshot, and fails where that is old") {
    client.ask(query("BEGIN ISOLATION LEVEL REPEATABLE READ"));
    CHECK(client.ask(query("SELECT * FROM t")) == "T(id:23) C(SELECT 0) Z(T)");
    other.ask(query("INSERT INTO t VALUES (5)"));
    CHECK(client.ask(query("SELECT * FROM t")) == "T(id:23) C(SELECT 0) Z(T)");
    CHECK(client.ask(query("INSERT INTO t VALUES (6)")) == "E(40001) Z(E)");
    CHECK(client.ask(query("ROLLBACK")) == "C(ROLLBACK) Z(I)");
  }
  SECTION("what is not committed goes with its session") {
    {
      Client gone(lab.engine);
      gone.ask(query("BEGIN"));
      gone.ask(query("INSERT INTO t VALUES (9)"));
    }
    CHECK(other.ask(query("INSERT INTO t VALUES (10)")) == "C(INSERT 0 1) Z(I)");
    CHECK(other.ask(query("SELECT * FROM t")) == "T(id:23) D(10) C(SELECT 1) Z(I)");
  }
}

TEST_CASE("sqlite_server: READ ONLY is kept by the engine", "[F6][sqlite_server]") {
  Lab lab;
  Client(lab.engine).ask(query("CREATE TABLE t (id int); INSERT INTO t VALUES (1)"));
  Client client(lab.engine, {{"default_transaction_read_only", "on"}});
  for (const char* sql :
       {"INSERT INTO t VALUES (2)", "UPDATE t SET id = 3", "DELETE FROM t", "TRUNCATE t", "DROP TABLE t", "CREATE TABLE u (x int)",
        "ALTER TABLE t ADD COLUMN y int", "INSERT OR REPLACE INTO t VALUES (2)", "CREATE INDEX i ON t (id)", "SELECT termgate_seal('x', 5)",
        "SELECT termgate_append('s', 1, x'00')", "SELECT * FROM termgate.seal('x', 5)", "SELECT termgate.check_term('x', 5)",
        "WITH a AS (SELECT termgate_check_term('x', 5)) SELECT * FROM a", "COPY t FROM STDIN", "VACUUM",
        "INSERT INTO t SELECT 5 RETURNING id", "REINDEX TABLE t"}) {
    CAPTURE(sql);
    CHECK(client.ask(query(sql)) == "E(25006) Z(I)");
    CHECK(client.ask(parse("", sql) + bind("", "") + execute() + synced()) == "1 2 E(25006) Z(I)");
  }
  CHECK(client.ask(query("SELECT * FROM t")) == "T(id:23) D(1) C(SELECT 1) Z(I)");
  CHECK(client.ask(query("SELECT count(*) FROM termgate_fences")) == "T(count:20) D(0) C(SELECT 1) Z(I)");
  CHECK(client.ask(query("SET transaction_read_only TO off")) == "C(SET) Z(I)");
  CHECK(client.ask(query("INSERT INTO t VALUES (2)")) == "E(25006) Z(I)");
  SECTION("not to be switched off behind a query") {
    client.ask(query("BEGIN"));
    client.ask(query("SELECT 1 FROM t"));
    CHECK(client.ask(query("SET transaction_read_only TO off")) == "E(25001) Z(E)");
  }
  SECTION("switched off for one transaction") {
    CHECK(client.ask(parse("", "SET transaction_read_only TO off") + bind("", "") + execute() + parse("", "INSERT INTO t VALUES (2)") +
                     bind("", "") + execute() + synced()) == "1 2 C(SET) 1 2 C(INSERT 0 1) Z(I)");
    CHECK(client.ask(query("INSERT INTO t VALUES (2)")) == "E(25006) Z(I)");
  }
}

// The proxy's session asks PostgreSQL's grammar what a text holds: what that takes for a comment or a string is none of ours either.
TEST_CASE("sqlite_server: a text has the statements that PostgreSQL's grammar sees", "[F6][sqlite_server]") {
  Lab lab;
  Client(lab.engine).ask(query("CREATE TABLE t (id int)"));
  Client client(lab.engine, {{"default_transaction_read_only", "on"}});
  const std::string write = "COMMIT; BEGIN READ WRITE; INSERT INTO t VALUES (1); COMMIT";
  for (const std::string& sql :
       {"SELECT 1 /* /* */; SELECT termgate.fence('s'); " + write + " -- */", "SELECT $$ ; SELECT termgate.fence('s'); " + write + "; $$",
        "SELECT E'\\'; SELECT termgate.fence(1); " + write + "; --'", std::string("SELECT 1 /* pragma_ /* */; BEGIN IMMEDIATE; -- */"),
        "/* /* */ " + write + "; -- */\nSELECT termgate.fence('s')"}) {
    CAPTURE(sql);
    const std::string answer = client.ask(query(sql));
    CHECK(answer.find("C(INSERT") == std::string::npos);
    CHECK(answer.ends_with("Z(I)"));
    CHECK(client.ask(query("SELECT count(*) FROM t")) == "T(count:20) D(0) C(SELECT 1) Z(I)");
  }
  CHECK(client.ask(query("/* /* */ SELECT termgate.fence('s') -- */")) == "I Z(I)");
  CHECK(client.ask(query("-- a line\rSELECT 1 AS x")) == "T(x:23) D(1) C(SELECT 1) Z(I)");
  CHECK(client.ask(query("SELECT 1 AS x; SELECT termgate.fence('s'); SELECT 2 AS y")) ==
        "T(x:23) D(1) C(SELECT 1) T(fence:20) C(SELECT 0) T(y:23) D(2) C(SELECT 1) Z(I)");
  // What is refused within a text of several is shown at its place in the whole.
  CHECK(client.field(query("SELECT 1; SELECT 'é' FROM a TABLESAMPLE system (1)"), 'P') ==
        client.field(query("          SELECT 'é' FROM a TABLESAMPLE system (1)"), 'P'));
  Client writer(lab.engine);
  CHECK(writer.ask(query("/* /* */ INSERT OR REPLACE INTO t VALUES (1)")) == "C(INSERT 0 1) Z(I)");
  CHECK(writer.ask(query("INSERT OR REPLACE INTO t VALUES (2); INSERT OR REPLACE INTO t VALUES (3)")) ==
        "C(INSERT 0 1) C(INSERT 0 1) Z(I)");
}

TEST_CASE("sqlite_server: the check joins the transaction, and a refusal leaves no trace", "[F1][F2][F5][sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(query("CREATE TABLE t (id int)"));
  const auto fenced = [&](const char* term, const char* value) {
    return parse("", "SELECT \"termgate\".check_term($1, $2)", {25, 20}) + bind("", "", {"s", term}) + execute() +
           parse("", std::string("INSERT INTO t VALUES (") + value + ")") + bind("", "") + execute() + synced();
  };
  CHECK(client.ask(fenced("5", "1")) == "1 2 D(5) C(SELECT 1) 1 2 C(INSERT 0 1) Z(I)");
  CHECK(client.ask(fenced("4", "2")) == "1 2 E(TG001) Z(I)");
  CHECK(client.field(fenced("4", "2"), 'M') == "TG001 stale term 4 for scope \"s\": the fence stands at 5");
  CHECK(client.ask(query("SELECT * FROM termgate.seal('s', 9)")).starts_with("T(fence:20,previous:20,evicted:20,sealed_at:1184) D(9,5,0,"));
  CHECK(client.ask(fenced("5", "3")) == "1 2 E(TG001) Z(I)");
  CHECK(client.ask(query("SELECT * FROM t")) == "T(id:23) D(1) C(SELECT 1) Z(I)");
  SECTION("a block that has asked and not written stands in nobody's way, and is refused at its write") {
    Client other(lab.engine);
    client.ask(query("BEGIN"));
    CHECK(client.ask(query("SELECT termgate.check_term('s', 9)")) == "T(check_term:20) D(9) C(SELECT 1) Z(T)");
    CHECK(other.ask(query("SELECT termgate.check_term('s', 10)")) == "T(check_term:20) D(10) C(SELECT 1) Z(I)");
    CHECK(client.ask(query("INSERT INTO t VALUES (7)")) == "E(TG001) Z(E)");
    CHECK(client.ask(query("ROLLBACK")) == "C(ROLLBACK) Z(I)");
  }
  SECTION("check_session takes what is declared, each half by itself") {
    const std::string asked = parse("", "SELECT * FROM \"termgate\".check_session($1, $2)", {25, 20}) +
                              bind("", "", {std::nullopt, std::nullopt}) + execute() + synced();
    CHECK(client.ask(asked) == "1 2 E(TG002) Z(I)");
    client.ask(query("SET termgate.scope = 's'"));
    CHECK(client.field(asked, 'M') == "TG002 no term declared for scope \"s\": a write needs both");
    client.ask(query("SET termgate.term = '12'"));
    CHECK(client.ask(asked) == "1 2 D(s,12,12) C(SELECT 1) Z(I)");
    client.ask(query("SET termgate.term = 'twelve'"));
    CHECK(client.ask(asked) == "1 2 E(TG005) Z(I)");
  }
  SECTION("what is held is checked again by every write") {
    CHECK(client.ask(query("SELECT * FROM termgate.hold_session('s', 20)")) == "T(scope:25,term:20,fence:20) D(s,20,20) C(SELECT 1) Z(I)");
    CHECK(client.ask(query("VACUUM")) == "C(VACUUM) Z(I)");
    Client(lab.engine).ask(query("SELECT termgate.check_term('s', 21)"));
    CHECK(client.ask(query("INSERT INTO t VALUES (8)")) == "E(TG001) Z(I)");
    CHECK(client.ask(query("SELECT termgate.release_session('s')")) == "T(release_session:16) D(t) C(SELECT 1) Z(I)");
    CHECK(client.ask(query("INSERT INTO t VALUES (8)")) == "C(INSERT 0 1) Z(I)");
  }
  SECTION(
      "hold_claim takes what is given, what is declared or what a rule says, and holds nothing where none of them is and none is needed") {
    const auto held = [&](pgwire::Field scope, pgwire::Field term, pgwire::Field else_scope, pgwire::Field else_term,
                          std::string_view required) {
      const std::string asked = parse("", "SELECT * FROM \"termgate\".hold_claim($1, $2, $3, $4, $5)", {25, 20, 25, 20, 16}) +
                                bind("", "", {scope, term, else_scope, else_term, required}) + execute() + synced();
      const std::string answer = client.ask(asked);
      client.ask(query("SELECT termgate.release_session()"));
      return answer;
    };
    CHECK(held({}, {}, {}, {}, "t") == "1 2 E(TG002) Z(I)");
    CHECK(held({}, {}, {}, {}, "f") == "1 2 D(NULL,NULL,NULL) C(SELECT 1) Z(I)");
    CHECK(held({}, {}, "r", "7", "t") == "1 2 D(r,7,7) C(SELECT 1) Z(I)");
    CHECK(held("s", "30", "r", "7", "f") == "1 2 D(s,30,30) C(SELECT 1) Z(I)");
    client.ask(query("SET termgate.scope = 's'"));
    CHECK(held({}, {}, {}, {}, "f") == "1 2 D(NULL,NULL,NULL) C(SELECT 1) Z(I)");
    client.ask(query("SET termgate.term = '29'"));
    CHECK(held({}, {}, "r", "7", "f") == "1 2 E(TG001) Z(I)");
  }
}

TEST_CASE("sqlite_server: settings", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine, {{"options", "-c termgate.scope=a\\ b --statement_timeout=5"}});
  CHECK(client.ask(query("SHOW termgate.scope")) == "T(termgate.scope:25) D(a b) C(SHOW) Z(I)");
  client.ask(query("BEGIN"));
  client.ask(query("SET LOCAL termgate.term = '7'"));
  client.ask(query("SET termgate.scope = 'x'"));
  client.ask(query("SAVEPOINT s"));
  client.ask(query("SET termgate.scope = 'y'"));
  client.ask(query("ROLLBACK TO s"));
  CHECK(client.ask(query("SHOW termgate.term")) == "T(termgate.term:25) D(7) C(SHOW) Z(T)");
  client.ask(query("COMMIT"));
  CHECK(client.ask(query("SHOW termgate.scope")) == "T(termgate.scope:25) D(x) C(SHOW) Z(I)");
  CHECK(client.ask(query("RESET termgate.scope; SHOW termgate.scope")) == "C(RESET) T(termgate.scope:25) D(a b) C(SHOW) Z(I)");
  CHECK(client.ask(query("SET nonsense = 1")) == "E(42704) Z(I)");
  CHECK(client.ask(query("SET server_version = '1'")) == "E(55P02) Z(I)");
  CHECK(client.ask(query("SELECT current_setting('termgate.scope') AS s, set_config('termgate.scope', 'q', false) AS q")) ==
        "T(s:25,q:25) D(a b,q) C(SELECT 1) Z(I)");
  CHECK(client.ask(query("DISCARD ALL")) == "C(DISCARD ALL) Z(I)");
  CHECK(client.ask(query("SHOW termgate.scope")) == "T(termgate.scope:25) D(a b) C(SHOW) Z(I)");
}

TEST_CASE("sqlite_server: COPY", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(query("CREATE TABLE t (id int PRIMARY KEY, v text, ok boolean)"));
  CHECK(client.ask(query("COPY t FROM STDIN")) == "G");
  CHECK(client.ask(copy_data("1\ta\\tb\tt\n2\t\\N\t") + copy_data("f\n\\.\n") + copy_done()) == "C(COPY 2) Z(I)");
  CHECK(client.ask(query("COPY t TO STDOUT")) == "H d(1\ta\\tb\tt\n) d(2\t\\N\tf\n) c C(COPY 2) Z(I)");
  CHECK(client.ask(query("COPY t (id, v) FROM STDIN (FORMAT csv, HEADER)") + copy_data("id,v\r\n3,\"x\"\"y,\nz\"\r\n4,") + copy_data("\n") +
                   copy_done()) == "G C(COPY 2) Z(I)");
  CHECK(client.ask(query("COPY (SELECT id, v FROM t WHERE id > 2 ORDER BY id) TO STDOUT (FORMAT csv, HEADER)")) ==
        "H d(id,v\n) d(3,\"x\"\"y,\nz\"\n) d(4,\n) c C(COPY 2) Z(I)");
  const std::string binary = client.raw(query("COPY t TO STDOUT (FORMAT binary)"));
  std::string rows;
  for (std::string_view rest = binary; rest.size() >= 5;) {
    std::uint32_t size = 0;
    for (std::size_t i = 1; i < 5; ++i) size = size << 8 | static_cast<unsigned char>(rest[i]);
    if (rest[0] == 'd') rows += rest.substr(5, size - 4);
    rest.remove_prefix(size + 1);
  }
  client.ask(query("DELETE FROM t"));
  CHECK(client.ask(query("COPY t FROM STDIN (FORMAT binary)") + copy_data(rows.substr(0, 9)) + copy_data(rows.substr(9)) + copy_done()) ==
        "G C(COPY 4) Z(I)");
  CHECK(client.ask(query("SELECT * FROM t WHERE id = 2")) == "T(id:23,v:25,ok:16) D(2,NULL,f) C(SELECT 1) Z(I)");
  SECTION("what fails leaves nothing") {
    CHECK(client.ask(query("COPY t FROM STDIN") + copy_data("9\tx\tt\n1\tagain\tt\n") + copy_done()) == "G E(23505) Z(I)");
    CHECK(client.ask(query("COPY t FROM STDIN") + copy_data("9\tx\n") + copy_done()) == "G E(22P04) Z(I)");
    CHECK(client.ask(query("COPY t FROM STDIN") + copy_data("nine\tx\tt\n") + copy_done()) == "G E(22P02) Z(I)");
    std::string failed;
    pgwire::append_copy_fail(failed, "no");
    CHECK(client.ask(query("COPY t FROM STDIN") + copy_data("9\tx\tt\n") + failed) == "G E(57014) Z(I)");
    CHECK(client.ask(query("SELECT count(*) FROM t")) == "T(count:20) D(4) C(SELECT 1) Z(I)");
  }
}

TEST_CASE("sqlite_server: cursors, PREPARE, EXPLAIN", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(query("CREATE TABLE t (id int); INSERT INTO t VALUES (1), (2), (3)"));
  CHECK(client.ask(query("DECLARE c CURSOR FOR SELECT id FROM t")) == "E(25P01) Z(I)");
  client.ask(query("BEGIN"));
  CHECK(client.ask(query("DECLARE c CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id")) == "C(DECLARE CURSOR) Z(T)");
  CHECK(client.ask(query("FETCH 1 FROM c")) == "T(id:23) D(1) C(FETCH 1) Z(T)");
  CHECK(client.ask(query("COMMIT")) == "C(COMMIT) Z(I)");
  CHECK(client.ask(query("FETCH ALL FROM c")) == "T(id:23) D(2) D(3) C(FETCH 2) Z(I)");
  CHECK(client.ask(query("CLOSE c")) == "C(CLOSE CURSOR) Z(I)");
  CHECK(client.ask(query("PREPARE p(int) AS SELECT id FROM t WHERE id > $1 ORDER BY id")) == "C(PREPARE) Z(I)");
  CHECK(client.ask(query("EXECUTE p(1 + 1)")) == "T(id:23) D(3) C(SELECT 1) Z(I)");
  CHECK(client.ask(query("PREPARE w(int) AS INSERT INTO t VALUES ($1)")) == "C(PREPARE) Z(I)");
  CHECK(client.ask(query("EXECUTE w(4)")) == "C(INSERT 0 1) Z(I)");
  CHECK(client.ask(query("DEALLOCATE p; DEALLOCATE ALL")) == "C(DEALLOCATE) C(DEALLOCATE ALL) Z(I)");
  CHECK(client.ask(query("EXECUTE p(1)")) == "E(26000) Z(I)");
  CHECK(client.ask(query("EXPLAIN SELECT * FROM t")).starts_with("T(QUERY PLAN:25) D("));
}

TEST_CASE("sqlite_server: an evicted session says why and keeps nothing", "[F4][sqlite_server]") {
  Lab lab;
  Client client(lab.engine), other(lab.engine);
  client.ask(query("CREATE TABLE t (id int)"));
  client.ask(query("BEGIN"));
  client.ask(query("INSERT INTO t VALUES (1)"));
  client.control().evict("somebody stood in the way");
  client.session().end_evicted();
  CHECK(client.raw("").find("57P01") != std::string::npos);
  CHECK(client.session().over());
  CHECK(other.ask(query("SELECT * FROM t")) == "T(id:23) C(SELECT 0) Z(I)");
  CHECK(other.ask(query("INSERT INTO t VALUES (2)")) == "C(INSERT 0 1) Z(I)");
}

TEST_CASE("sqlite_server: nothing of a schema that changed slips past the guard", "[F6][sqlite_server]") {
  Lab lab;
  Client one(lab.engine), two(lab.engine);
  one.ask(query("CREATE TABLE t (id int); INSERT INTO t VALUES (1)"));
  CHECK(one.ask(parse("s", "SELECT * FROM t") + bind("", "s") + execute() + synced()) == "1 2 D(1) C(SELECT 1) Z(I)");
  two.ask(query("ALTER TABLE t ADD COLUMN v text DEFAULT 'x'"));
  // As on PostgreSQL: a Describe may have given the client other columns.
  CHECK(one.ask(bind("", "s") + describe_portal("") + execute() + synced()) == "2 E(0A000) Z(I)");
  CHECK(one.ask(query("SELECT * FROM t")) == "T(id:23,v:25) D(1,x) C(SELECT 1) Z(I)");
  two.ask(query("DROP TABLE t"));
  CHECK(one.ask(bind("", "s") + execute() + synced()) == "2 E(42P01) Z(I)");
}

// A statement that has run twice is not typed for another schema than the file's, whoever changed that, and when (SqlConnection::will_ask).
TEST_CASE("sqlite_server: a plan for another schema never runs", "[sqlite_server]") {
  Lab lab;
  Client one(lab.engine), two(lab.engine);
  one.ask(query("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 7)"));
  one.ask(parse("half", "SELECT (n / 2)::text FROM t WHERE id = $1") + parse("set", "UPDATE t SET n = $1 WHERE id = 1") +
          parse("give", "UPDATE t SET n = n + 1 WHERE id = 1 RETURNING n") + synced());
  const std::string half = bind("", "half", {"1"}) + describe_portal("") + execute() + synced();
  const std::string set = bind("", "set", {"7"}) + describe_portal("") + execute() + synced();
  const std::string halved = "2 T(text:25) D(3) C(SELECT 1) Z(I)", set_one = "2 n C(UPDATE 1) Z(I)";
  for (int i = 0; i < 3; ++i) {
    CHECK(one.ask(half) == halved);
    CHECK(one.ask(set) == set_one);
    CHECK(one.ask(query("SELECT n / 2 FROM t WHERE id = 1")) == "T(?column?:23) D(3) C(SELECT 1) Z(I)");
  }
  const std::string numeric = "ALTER TABLE t ALTER COLUMN n TYPE numeric";
  const std::string as_numeric = "2 T(text:25) D(3.5000000000000000) C(SELECT 1) Z(I)";
  SECTION("that another session changed") {
    REQUIRE(two.ask(query(numeric)) == "C(ALTER TABLE) Z(I)");
    CHECK(one.ask(half) == as_numeric);
    CHECK(one.ask(query("SELECT n / 2 FROM t WHERE id = 1")) == "T(?column?:1700) D(3.5000000000000000) C(SELECT 1) Z(I)");
    CHECK(one.ask(set) == set_one);
    CHECK(one.field(bind("", "give") + describe_portal("") + execute() + synced(), 'R') == "RevalidateCachedQuery");
    CHECK(one.ask(half) == as_numeric);
    CHECK(two.ask(query("SELECT n FROM t")) == "T(n:1700) D(7) C(SELECT 1) Z(I)");
  }
  SECTION("that another process changed") {
    const auto elsewhere = [&](const char* sql) {
      sqlite3* file = nullptr;
      REQUIRE(sqlite3_open(lab.file.path.c_str(), &file) == SQLITE_OK);
      CHECK(sqlite3_exec(file, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
      sqlite3_close(file);
    };
    elsewhere("CREATE TABLE u (id INT PRIMARY KEY, n NUMERIC); INSERT INTO u SELECT * FROM t; DROP TABLE t; ALTER TABLE u RENAME TO t");
    CHECK(one.ask(half) == as_numeric);
    CHECK(one.ask(set) == set_one);
    elsewhere("DROP TABLE t");
    CHECK(one.ask(half) == "2 E(42P01) Z(I)");
    CHECK(one.ask(set) == "2 n E(42P01) Z(I)");
    elsewhere("CREATE TABLE t (id INT, n INT); INSERT INTO t VALUES (1, 7)");
    CHECK(one.ask(half) == halved);
    CHECK(one.ask(set) == set_one);
  }
  SECTION("that its own transaction changes and takes back") {
    const auto in_block = [](std::string answer) { return answer.replace(answer.size() - 2, 1, "T"); };
    one.ask(query("BEGIN"));
    one.ask(query("SAVEPOINT a"));
    REQUIRE(one.ask(query(numeric)) == "C(ALTER TABLE) Z(T)");
    for (int i = 0; i < 3; ++i) CHECK(one.ask(half) == in_block(as_numeric));
    CHECK(one.ask(query("ROLLBACK TO a")) == "C(ROLLBACK) Z(T)");
    for (int i = 0; i < 3; ++i) CHECK(one.ask(half) == in_block(halved));
    CHECK(one.ask(set) == in_block(set_one));
    // The same number of a schema's again, with another schema.
    REQUIRE(one.ask(query("ALTER TABLE t ALTER COLUMN n TYPE text")) == "C(ALTER TABLE) Z(T)");
    CHECK(one.ask(half) == "2 E(42883) Z(E)");
    one.ask(query("ROLLBACK"));
    CHECK(one.ask(half) == halved);
    one.ask(query("BEGIN"));
    REQUIRE(one.ask(query(numeric)) == "C(ALTER TABLE) Z(T)");
    CHECK(one.ask(half) == in_block(as_numeric));
    one.ask(query("ROLLBACK"));
    CHECK(one.ask(set) == set_one);
    CHECK(one.ask(half) == halved);
  }
  SECTION("of which a temporary table hides nothing") {
    CHECK(one.ask(query("CREATE TEMP TABLE t (id int, n numeric)")) == "E(0A000) Z(I)");
    CHECK(one.ask(half) == halved);
    CHECK(one.ask(query("CREATE TEMP TABLE other (id int, n numeric)")) == "C(CREATE TABLE) Z(I)");
    REQUIRE(two.ask(query(numeric)) == "C(ALTER TABLE) Z(I)");
    CHECK(one.ask(half) == as_numeric);
  }
  SECTION("of a statement that reads no table") {
    one.ask(parse("oid", "SELECT 't'::regclass::oid = $1") + synced());
    one.ask(parse("one", "SELECT 1") + synced());
    two.ask(query("DROP TABLE t"));
    for (int i = 0; i < 3; ++i) {
      CHECK(one.ask(bind("", "oid", {"1"}) + execute() + synced()) == "2 E(42P01) Z(I)");
      CHECK(one.ask(bind("", "one") + execute() + synced()) == "2 D(1) C(SELECT 1) Z(I)");
    }
  }
}

// PostgreSQL looks at a definition when it runs it: drivers prepare a whole batch before they run its first statement.
TEST_CASE("sqlite_server: a definition is prepared before what it is about is there", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  CHECK(client.ask(parse("make", "CREATE TABLE t (id int)") + parse("empty", "TRUNCATE t") + parse("drop", "DROP TABLE t") +
                   describe_statement("drop") + synced()) == "1 1 1 t() n Z(I)");
  CHECK(client.ask(bind("", "drop") + execute() + synced()) == "2 E(42P01) Z(I)");
  CHECK(client.ask(bind("", "make") + execute() + bind("", "empty") + execute() + bind("", "drop") + describe_portal("") + execute() +
                   synced()) == "2 C(CREATE TABLE) 2 C(TRUNCATE TABLE) 2 n C(DROP TABLE) Z(I)");
  CHECK(client.ask(parse("s", "SELECT * FROM t") + synced()) == "E(42P01) Z(I)");
}

TEST_CASE("sqlite_server: the first temporary table without a Describe", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  CHECK(client.ask(parse("", "CREATE TEMP TABLE t (id int)") + bind("", "") + execute() + synced()) == "1 2 C(CREATE TABLE) Z(I)");
  CHECK(client.ask(query("SELECT * FROM t")) == "T(id:23) C(SELECT 0) Z(I)");
}

TEST_CASE("sqlite_server: parameters beside what a statement within WITH returns", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(query("CREATE TABLE t (a int, b text)"));
  CHECK(client.ask(parse("", "WITH x AS (INSERT INTO t VALUES (7, $3) RETURNING *) SELECT 1 IN ($1, $2), b FROM x") +
                   bind("", "", {"1", "2", "?"}) + describe_portal("") + execute() + synced()) ==
        "1 2 T(?column?:16,b:25) D(t,?) C(SELECT 1) Z(I)");
}

// None of it gets into the file, where it could not be read.
TEST_CASE("sqlite_server: what is no UTF-8", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(query("CREATE TABLE t (v text, j jsonb)"));
  CHECK(client.ask(query("INSERT INTO t VALUES ('\xc3(')")) == "E(22021) Z(I)");
  CHECK(client.ask(query("SELECT 7, '\xff'")) == "E(22021) Z(I)");
  CHECK(client.ask(query("COPY t FROM STDIN") + copy_data("\xed\xa0\x80\t\\N\n") + copy_done()).ends_with("E(22021) Z(I)"));
  for (const std::uint16_t format : {0, 1}) {
    CHECK(client.ask(parse("", "INSERT INTO t (v) VALUES ($1)") + bind("", "", {"a\xff"}, {format}) + execute() + synced()) ==
          "1 E(22021) Z(I)");
  }
  CHECK(client.field(query("SELECT '\xed\xa0\x80'"), 'M') == "invalid byte sequence for encoding \"UTF8\": 0xed 0xa0 0x80");
  CHECK(client.ask(query("SELECT * FROM t")) == "T(v:25,j:3802) C(SELECT 0) Z(I)");
  for (const char* type : {"int", "uuid", "date", "text"}) {
    CAPTURE(type);
    CHECK(client.ask(parse("", "SELECT $1::" + std::string(type)) + bind("", "", {"\xff"}) + execute() + synced()) == "1 E(22021) Z(I)");
    CHECK(client.field(parse("", "SELECT $1::" + std::string(type)) + bind("", "nope") + synced(), 'R') == "FetchPreparedStatement");
  }
}

// What clients ask of the server about itself: the catalog on the connection of the session that asks.
TEST_CASE("sqlite_server: the catalog answers each session as itself", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine), other(lab.engine, {{"database", "second"}, {"application_name", "tool"}}, 8);
  CHECK(client.ask(query("CREATE TABLE t (id serial PRIMARY KEY, n numeric(10,2), v varchar(5))")) == "C(CREATE TABLE) Z(I)");
  CHECK(client.ask(query("SELECT relname FROM pg_class WHERE relname = 't'")) == "T(relname:19) D(t) C(SELECT 1) Z(I)");
  CHECK(client.ask(
            query("SELECT attname, atttypid::regtype FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum")) ==
        "T(attname:19,atttypid:2206) D(id,integer) D(n,numeric) D(v,character varying) C(SELECT 3) Z(I)");
  CHECK(client.ask(query("SELECT current_database(), pg_backend_pid()")) ==
        "T(current_database:19,pg_backend_pid:23) D(app,7) C(SELECT 1) Z(I)");
  CHECK(other.ask(query("SELECT current_database(), pg_backend_pid(), current_setting('application_name')")).find("D(second,8,tool)") !=
        std::string::npos);
  // One connection serves both, one after the other.
  CHECK(client.ask(query("SELECT datname FROM pg_database")) == "T(datname:19) D(app) C(SELECT 1) Z(I)");
  CHECK(other.ask(query("SELECT datname FROM pg_database")) == "T(datname:19) D(second) C(SELECT 1) Z(I)");
  CHECK(client.ask(query("INSERT INTO t (n) VALUES (12.3), (4), (0.123)")) == "C(INSERT 0 3) Z(I)");
  CHECK(client.ask(query("SELECT n FROM t ORDER BY id")) == "T(n:1700) D(12.30) D(4.00) D(0.12) C(SELECT 3) Z(I)");
  CHECK(client.ask(query("COPY t (n) TO STDOUT")).find("d(12.30\n)") != std::string::npos);
  CHECK(client.field(query("SELECT 'é', nope FROM t"), 'P') == "13");
  CHECK(client.field(query("SELECT 'missing', 1 FROM missing"), 'P') == "26");
  CHECK(client.field(query("SELECT x.nope FROM t AS x"), 'P') == "8");
  CHECK(client.field(query("SELECT nope(1)"), 'P') == "8");
  CHECK(client.ask(query("SELECT set_config('search_path', 'pg_catalog', false), current_setting('nope', true)"))
            .find("D(pg_catalog,NULL)") != std::string::npos);
  CHECK(client.ask(query("SELECT current_schema()")) == "T(current_schema:19) D(pg_catalog) C(SELECT 1) Z(I)");
  CHECK(client.ask(query("SELECT set_config('server_version', 'x', false)")) == "E(55P02) Z(I)");
  CHECK(client.ask(query("SELECT relname ~ '(' FROM pg_class")) == "E(2201B) Z(I)");
}

TEST_CASE("sqlite_server: the catalog is nobody's to write, and its functions write only behind the check", "[F6][sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(query("CREATE TABLE t (id serial PRIMARY KEY)"));
  for (const char* attempt : {"INSERT INTO pg_class (relname) VALUES ('x')", "UPDATE pg_class SET relname = 'x'", "DELETE FROM pg_class",
                              "DROP TABLE pg_class", "CREATE TRIGGER g AFTER INSERT ON pg_class BEGIN SELECT 1; END"}) {
    CAPTURE(attempt);
    CHECK(client.ask(query(attempt)).starts_with("E("));
  }
  CHECK(client.ask(query("SELECT nextval('t_id_seq')")) == "T(nextval:20) D(1) C(SELECT 1) Z(I)");
  CHECK(client.ask(query("BEGIN READ ONLY; SELECT nextval('t_id_seq')")) == "C(BEGIN) E(25006) Z(E)");
  client.ask(query("ROLLBACK"));
  CHECK(client.ask(query("BEGIN READ ONLY; SELECT setval('t_id_seq', 99)")) == "C(BEGIN) E(25006) Z(E)");
  client.ask(query("ROLLBACK"));
  CHECK(client.ask(query("SELECT currval('t_id_seq'), lastval()")).find("D(1,1)") != std::string::npos);
  // While the catalog reads the schema for a text of the network's, that text itself is let through nothing.
  CHECK(client.ask(query("SELECT * FROM pg_class, pragma_database_list")) == "E(42501) Z(I)");
  CHECK(client.ask(query("SELECT relname FROM pg_class WHERE relname = (SELECT value FROM termgate_settings LIMIT 1)")) == "E(42501) Z(I)");
}

TEST_CASE("sqlite_server: INSERT may give fewer values than the table has columns", "[sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(query("CREATE TABLE \"odd into\" (\"a\"\"b\" int, v text DEFAULT 'd', w int)"));
  CHECK(client.ask(query("INSERT INTO /* into x */ \"odd into\" VALUES (1)")) == "C(INSERT 0 1) Z(I)");
  CHECK(client.ask(query("INSERT INTO \"odd into\" AS o SELECT 2, 'x'")) == "C(INSERT 0 1) Z(I)");
  CHECK(client.ask(query("WITH c AS (SELECT 3) INSERT INTO \"odd into\" SELECT * FROM c")) == "C(INSERT 0 1) Z(I)");
  CHECK(client.ask(query("INSERT INTO \"odd into\" VALUES (1, 'x', 2, 3)")) == "E(42601) Z(I)");
  CHECK(client.ask(query("SELECT * FROM \"odd into\" ORDER BY 1")) ==
        "T(a\"b:23,v:25,w:23) D(1,d,NULL) D(2,x,NULL) D(3,d,NULL) C(SELECT 3) Z(I)");
}

TEST_CASE("sqlite_server: a cursor does not see what its own transaction writes behind it", "[F7][sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(query("CREATE TABLE t (id int); INSERT INTO t VALUES (1), (2)"));
  for (const char* begin : {"BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN; UPDATE t SET id = id"}) {
    CAPTURE(begin);
    client.ask(query(begin));
    client.ask(query("DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id"));
    CHECK(client.ask(query("FETCH 1 FROM c")) == "T(id:23) D(1) C(FETCH 1) Z(T)");
    CHECK(client.ask(query("INSERT INTO t VALUES (3); UPDATE t SET id = id + 10")) == "C(INSERT 0 1) C(UPDATE 3) Z(T)");
    CHECK(client.ask(query("FETCH ALL FROM c")) == "T(id:23) D(2) C(FETCH 1) Z(T)");
    CHECK(client.ask(query("SELECT count(*) FROM t")) == "T(count:20) D(3) C(SELECT 1) Z(T)");
    client.ask(query("ROLLBACK"));
  }
}

TEST_CASE("sqlite_server: a PREPARE TRANSACTION that is refused has ended the block", "[F7][sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(query("CREATE TABLE t (id int)"));
  client.ask(query("BEGIN; INSERT INTO t VALUES (1)"));
  CHECK(client.ask(query("PREPARE TRANSACTION 'x'")) == "E(0A000) Z(I)");
  CHECK(client.ask(query("SELECT count(*) FROM t")) == "T(count:20) D(0) C(SELECT 1) Z(I)");
  client.ask(query("BEGIN; INSERT INTO t VALUES (1)"));
  CHECK(client.ask(parse("", "PREPARE TRANSACTION 'x'") + bind("", "") + execute() + synced()) == "E(0A000) Z(I)");
  CHECK(client.ask(query("SELECT count(*) FROM t")) == "T(count:20) D(0) C(SELECT 1) Z(I)");
}

TEST_CASE("sqlite_server: thousands of parameters take no longer each than a few", "[F7][sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  std::string values = "VALUES ", list;
  constexpr int rows = 20'000;
  for (int i = 1; i <= rows; ++i) values += (i > 1 ? ", (" : "(") + std::string("$") + std::to_string(i) + "::int)";
  const auto begun = std::chrono::steady_clock::now();
  const std::string described = client.ask(parse("p", values) + describe_statement("p") + synced());
  CHECK(described.ends_with("T(column1:23) Z(I)"));
  // By the square of their number it took 5 s.
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(4));
}

TEST_CASE("sqlite_server: a counted key has the type that was declared, and takes no value where it is GENERATED ALWAYS",
          "[F7][sqlite_server]") {
  Lab lab;
  Client client(lab.engine);
  client.ask(
      query("CREATE TABLE a (id serial PRIMARY KEY, n int); CREATE TABLE b (id bigserial PRIMARY KEY, n int); CREATE TABLE c (id int "
            "GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int)"));
  CHECK(client.ask(query("INSERT INTO a (n) VALUES (5) RETURNING id")) == "T(id:23) D(1) C(INSERT 0 1) Z(I)");
  CHECK(client.ask(query("INSERT INTO b (n) VALUES (5) RETURNING id")) == "T(id:20) D(1) C(INSERT 0 1) Z(I)");
  CHECK(client.ask(query("INSERT INTO c (n) VALUES (5) RETURNING id")) == "T(id:23) D(1) C(INSERT 0 1) Z(I)");
  CHECK(client.ask(query("INSERT INTO c (id, n) VALUES (7, 5)")) == "E(428C9) Z(I)");
  CHECK(client.ask(query("INSERT INTO c (id, n) OVERRIDING SYSTEM VALUE VALUES (7, 5)")) == "C(INSERT 0 1) Z(I)");
  CHECK(client.ask(query("UPDATE c SET id = 8")) == "E(428C9) Z(I)");
}

// A block's check looks at the fence without the lock, and is made under it at the block's first write.
TEST_CASE("sqlite_server: a raise between a block's check and its first write refuses the write", "[F1][F2][F5][sqlite_server]") {
  Lab lab;
  Client old(lab.engine), raiser(lab.engine);
  old.ask(query("CREATE TABLE t (id int); SELECT termgate.check_term('s', 5)"));
  const auto begin = [&] { CHECK(old.ask(query("BEGIN; SELECT termgate.check_term('s', 5)")).ends_with("D(5) C(SELECT 1) Z(T)")); };
  std::int64_t higher = 6;
  const auto raise = [&] {
    CHECK(raiser.ask(query("SELECT termgate.check_term('s', " + std::to_string(higher) + ")")).ends_with("C(SELECT 1) Z(I)"));
  };
  SECTION("of a statement") {
    begin();
    raise();
    CHECK(old.ask(query("INSERT INTO t VALUES (1)")) == "E(TG001) Z(E)");
  }
  SECTION("behind a savepoint, before which the check was made") {
    begin();
    old.ask(query("SAVEPOINT a"));
    raise();
    CHECK(old.ask(query("INSERT INTO t VALUES (1)")) == "E(TG001) Z(E)");
    old.ask(query("ROLLBACK TO a"));
    CHECK(old.ask(query("INSERT INTO t VALUES (1)")) == "E(TG001) Z(E)");
    CHECK(old.ask(query("COMMIT")) == "C(ROLLBACK) Z(I)");
  }
  SECTION("behind a savepoint, and nobody else is kept from writing") {
    begin();
    old.ask(query("SAVEPOINT a"));
    raise();
    CHECK(old.ask(query("INSERT INTO t VALUES (1)")) == "E(TG001) Z(E)");
    CHECK(raiser.ask(query("INSERT INTO t VALUES (2); DELETE FROM t")) == "C(INSERT 0 1) C(DELETE 1) Z(I)");
  }
  SECTION("behind a savepoint that the check was made in and that was rolled back") {
    old.ask(query("BEGIN; SAVEPOINT a; SELECT termgate.check_term('s', 5); ROLLBACK TO a; SELECT termgate.check_term('s', 5)"));
    raise();
    CHECK(old.ask(query("INSERT INTO t VALUES (1)")) == "E(TG001) Z(E)");
  }
  SECTION("of COPY") {
    begin();
    raise();
    CHECK(old.ask(query("COPY t FROM STDIN")) == "E(TG001) Z(E)");
  }
  SECTION("of a cursor's reader") {
    begin();
    old.ask(query("DECLARE c CURSOR FOR SELECT 1 UNION ALL SELECT 2"));
    old.ask(query("FETCH 1 FROM c"));
    raise();
    CHECK(old.ask(query("INSERT INTO t VALUES (1)")) == "E(TG001) Z(E)");
  }
  SECTION("at REPEATABLE READ, whose snapshot hides the raise") {
    old.ask(query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT termgate.check_term('s', 5); SAVEPOINT a"));
    raise();
    const std::string said = old.ask(query("INSERT INTO t VALUES (1)"));
    CHECK((said == "E(TG001) Z(E)" || said == "E(40001) Z(E)"));
    CHECK(old.ask(query("ROLLBACK TO a")) == "E(25P02) Z(E)");
  }
  old.ask(query("ROLLBACK"));
  CHECK(old.ask(query("SELECT count(*) FROM t")) == "T(count:20) D(0) C(SELECT 1) Z(I)");
  // With nothing in between it passes, and from its first write on it holds the lock against a raise.
  higher = 6;
  CHECK(raiser.ask(query("BEGIN; SELECT termgate.check_term('s', 6); INSERT INTO t VALUES (6); COMMIT"))
            .ends_with("C(INSERT 0 1) C(COMMIT) Z(I)"));
  CHECK(raiser.ask(query("SELECT id FROM t")) == "T(id:23) D(6) C(SELECT 1) Z(I)");
}
