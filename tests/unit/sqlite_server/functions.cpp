// The functions that translate() leaves to a session: all are there, the texts of the dialect's oracle answer with them what a
// PostgreSQL 15 answered, and what is out of bounds is refused.
#include <catch2/catch.hpp>
#include <sqlite3.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <termgate/dialect/functions.hpp>

#include "connection.hpp"

namespace dialect = termgate::dialect;
using sqlite_server_test::Answer;
using sqlite_server_test::Connection;
using sqlite_server_test::file;

namespace {

struct Case {
  std::string name, sql, sqlstate;
  std::vector<std::string> rows;
};

std::vector<Case> cases(const std::string& path) {
  std::vector<Case> all;
  std::istringstream lines(file(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("-- ")) all.push_back({line.substr(3), {}, {}, {}});
    else if (all.empty()) continue;
    else if (line.starts_with("= ") || line == "=") all.back().rows.push_back(line.size() < 2 ? "" : line.substr(2));
    else if (line.starts_with("! ")) all.back().sqlstate = line.substr(2);
    else if (!line.empty()) all.back().sql += line + "\n";
  }
  return all;
}

// t and f of what the text gives no type for are 1 and 0; numeric keeps no zeros behind the point.
bool same(const std::string& ours, const std::string& theirs) {
  if (ours == theirs || (ours == "1" && theirs == "t") || (ours == "0" && theirs == "f")) return true;
  if (theirs.find('.') == std::string::npos || theirs.find_first_not_of("-0123456789.") != std::string::npos) return false;
  std::string bare = theirs;
  while (bare.back() == '0') bare.pop_back();
  if (bare.back() == '.') bare.pop_back();
  if (ours == bare) return true;
  // numeric is SQLite's double.
  const double a = std::atof(ours.c_str()), b = std::atof(theirs.c_str());
  return ours.find('.') != std::string::npos && std::abs(a - b) <= std::abs(b) * 1e-14;
}

std::vector<std::string> fields(const std::string& row) {
  std::vector<std::string> out(1);
  for (const char c : row) {
    if (c == '|') out.emplace_back();
    else out.back() += c;
  }
  return out;
}

// SQLite's own failures (constraints) have no SQLSTATE here; those of functions have PostgreSQL's.
void compare(const std::string& path, std::size_t least, bool same_sqlstate) {
  const auto all = cases(path);
  REQUIRE(all.size() > least);
  const bool with_setup = all[0].name == "setup";
  for (std::size_t i = with_setup ? 1 : 0; i < all.size(); ++i) {
    const Case& each = all[i];
    DYNAMIC_SECTION(each.name) {
      Connection connection;
      connection.open = true;
      if (with_setup) REQUIRE(connection.run(all[0].sql).message == "");
      const Answer answer = connection.run(each.sql);
      CAPTURE(each.sql, answer.sql, answer.message, answer.rows, each.rows);
      CHECK(answer.sqlstate.empty() == each.sqlstate.empty());
      if (same_sqlstate) CHECK(answer.sqlstate == each.sqlstate);
      if (!each.sqlstate.empty() || !answer.sqlstate.empty()) continue;
      REQUIRE(answer.rows.size() == each.rows.size());
      for (std::size_t row = 0; row < each.rows.size(); ++row) {
        const auto ours = fields(answer.rows[row]), theirs = fields(each.rows[row]);
        REQUIRE(ours.size() == theirs.size());
        for (std::size_t k = 0; k < ours.size(); ++k) {
          CAPTURE(row, k);
          if (!same(ours[k], theirs[k])) CHECK(ours[k] == theirs[k]);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("functions: the dialect's texts answer as PostgreSQL answered", "[proxy][sqlite_server]") {
  compare(TERMGATE_DIALECT_DATA "/oracle.txt", 80, false);
}

TEST_CASE("functions: what a session supplies computes as PostgreSQL computed", "[proxy][sqlite_server]") {
  compare(TERMGATE_SQLITE_SERVER_DATA "/functions.txt", 40, true);
}

TEST_CASE("functions: everything that translate may write is there", "[proxy][sqlite_server]") {
  Connection connection;
  for (const dialect::Function& function : dialect::functions_to_supply()) {
    const int most = function.arguments_max < 0 ? function.arguments_min + 2 : function.arguments_max;
    for (int count = function.arguments_min; count <= most; ++count) {
      std::string sql = "SELECT " + std::string(1, '"') + std::string(function.name) + "\"(";
      for (int i = 0; i < count; ++i) sql += i > 0 ? ", NULL" : "NULL";
      CAPTURE(sql + ")");
      sqlite3_stmt* statement = nullptr;
      CHECK(sqlite3_prepare_v2(connection.held, (sql + ")").c_str(), -1, &statement, nullptr) == SQLITE_OK);
      // NULLs harm none of them.
      const int code = sqlite3_step(statement);
      CHECK((code == SQLITE_ROW || connection.catalog->problem()));
      sqlite3_finalize(statement);
    }
  }
}

TEST_CASE("functions: what would grow without bound or run for ever is refused", "[proxy][sqlite_server]") {
  Connection connection;
  CHECK(connection.value("SELECT repeat('x', 2000000000)").starts_with("! 54000"));
  CHECK(connection.value("SELECT lpad('x', 2000000000)").starts_with("! 54000"));
  CHECK(connection.value("SELECT array_length(ARRAY(SELECT generate_series(1, 2, 0)), 1)").starts_with("! "));
  const std::string backtracks = connection.value("SELECT (repeat('a', 40) || 'b') ~ '^(a+)+$'");
  CHECK((backtracks == "f" || backtracks.starts_with("! 2201B")));
  CHECK(connection.value("SELECT 'x' ~ '('").starts_with("! 2201B"));
  CHECK(connection.value("SELECT repeat('a', 200000) LIKE '%a%a%a%a%b'") == "f");
  // Long texts need no deep stack.
  CHECK(connection.value("SELECT repeat('ab', 500000) ~ '^(ab)*$'").size() > 0);
  CHECK(connection.value("SELECT true::text || false::text || (2 > 1)::varchar(10) || (NOT true)::varchar(3) || "
                         "coalesce(NULL::boolean::text, '-') || (1 IN (1, 2) || 'x')") == "truefalsetruefal-truex");
  CHECK(connection.value("SELECT cardinality((repeat('{', 100000) || repeat('}', 100000))::text[])").starts_with("! 54000"));
  CHECK(connection.value("SELECT nextval('t_id_seq')").starts_with("! 25006"));
  CHECK(connection.value("SELECT pg_advisory_lock(1)").starts_with("! 0A000"));
  CHECK(connection.value("SELECT set_config('a.b', 'c', false)").starts_with("! 55P02"));
  CHECK(connection.value("SELECT pg_cancel_backend(1)") == "f");
  CHECK(connection.value("SELECT interval '9223372036854775807 years'").starts_with("! 22"));
  CHECK(connection.value("SELECT timestamp '2000-01-01' + interval '999999999 days'").starts_with("! 22008"));
}

namespace {

struct Session : termgate::sqlite_server::CatalogSession {
  std::string user() const override { return "Ann"; }
  std::int32_t process_id() const override { return 77; }
  std::int64_t transaction_began_us() const override { return 1'700'000'000'123'456; }
  std::optional<std::string> setting(std::string_view name) const override {
    const auto found = values.find(std::string(name));
    return found == values.end() ? CatalogSession::setting(name) : std::optional(found->second);
  }
  std::variant<std::string, termgate::sqlite_server::SqlError> set(std::string_view name, std::string_view value, bool) override {
    return values[std::string(name)] = value;
  }
  bool may_write() const override { return writer; }
  bool cancelled() const override { return cancel; }
  std::map<std::string, std::string> values;
  bool writer = false, cancel = false;
};

}  // namespace

TEST_CASE("functions: what only the session knows is asked of the one that is served", "[proxy][sqlite_server]") {
  Connection connection;
  connection.open = true;
  connection.run("CREATE TABLE t (id bigserial PRIMARY KEY, v text)");
  Session session;
  connection.catalog->serve(&session);
  CHECK(connection.value("SELECT current_user") == "Ann");
  CHECK(connection.value("SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 't'") == "Ann");
  CHECK(connection.value("SELECT rolname FROM pg_roles") == "Ann");
  CHECK(connection.value("SELECT 'ann'::regrole").starts_with("! 42704"));
  CHECK(connection.value("SELECT pg_backend_pid()") == "77");
  CHECK(connection.value("SELECT now()") == "2023-11-14 22:13:20.123456+00");
  CHECK(connection.value("SELECT current_date") == "2023-11-14");
  CHECK(connection.value("SELECT set_config('termgate.scope', 'a', false)") == "a");
  CHECK(connection.value("SELECT current_setting('termgate.scope')") == "a");
  // Counters: none before the first, none without leave to write, then each once.
  CHECK(connection.value("SELECT currval('t_id_seq')").starts_with("! 55000"));
  CHECK(connection.value("SELECT nextval('t_id_seq')").starts_with("! 25006"));
  CHECK(connection.value("SELECT setval('t_id_seq', 5)").starts_with("! 25006"));
  session.writer = true;
  connection.open = false;
  CHECK(connection.value("SELECT nextval('t_id_seq')") == "1");
  CHECK(connection.value("SELECT nextval('public.t_id_seq')") == "2");
  CHECK(connection.value("SELECT currval('t_id_seq') + lastval()") == "4");
  CHECK(connection.value("SELECT setval('t_id_seq', 40)") == "40");
  connection.open = true;
  connection.run("INSERT INTO t (v) VALUES ('x')");
  CHECK(connection.value("SELECT id FROM t") == "41");
  CHECK(connection.value("SELECT nextval('none_seq')").starts_with("! 42P01"));
  session.cancel = true;
  CHECK(connection.value("SELECT pg_sleep(30)").starts_with("! 57014"));
  CHECK(connection.value("SELECT repeat('a', 3000000) LIKE '%' || repeat('a', 100000) || 'b'").starts_with("! 57014"));
  connection.catalog->serve(nullptr);
  CHECK(connection.value("SELECT current_user") == "postgres");
  CHECK(connection.value("SELECT lastval()").starts_with("! 55000"));
}

namespace {

// What SQLite answers by itself, on a connection of its own.
std::string answer_of(sqlite3* db, const std::string& sql, const std::vector<std::string>& texts, bool blobs) {
  sqlite3_stmt* statement = nullptr;
  REQUIRE(sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (blobs) sqlite3_bind_blob(statement, static_cast<int>(i) + 1, texts[i].data(), static_cast<int>(texts[i].size()), SQLITE_TRANSIENT);
    else sqlite3_bind_text(statement, static_cast<int>(i) + 1, texts[i].data(), static_cast<int>(texts[i].size()), SQLITE_TRANSIENT);
  }
  std::string out;
  const int code = sqlite3_step(statement);
  if (code == SQLITE_ROW) {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, 0));
    out = std::to_string(sqlite3_column_type(statement, 0)) + ":" +
          (bytes == nullptr ? "" : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement, 0))));
  } else {
    out = "failed";
  }
  sqlite3_finalize(statement);
  return out;
}

}  // namespace

TEST_CASE("functions: those in place of SQLite's own answer as SQLite does", "[proxy][sqlite_server]") {
  Connection ours;
  ours.open = true;
  sqlite3* theirs = nullptr;
  REQUIRE(sqlite3_open(":memory:", &theirs) == SQLITE_OK);
  std::uint64_t state = 88172645463325252u ^ Catch::rngSeed();
  const auto below = [&](std::uint64_t bound) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % bound;
  };
  // Few letters, so that much is found; wildcards, sets, characters of several bytes.
  const std::vector<std::string> pieces = {"a", "b", "A",     "B",    "ab", "%", "_", "*", "?", "[", "]",
                                           "^", "-", "[a-b]", "[^a]", "\\", "ä", "Ä", "€", "😀", " ", "1"};
  const auto text = [&](std::uint64_t most) {
    std::string out;
    for (std::uint64_t left = below(most); left > 0; --left) out += pieces[below(pieces.size())];
    return out;
  };
  const std::vector<std::pair<std::string, int>> calls = {
      {"SELECT instr(?1, ?2)", 2},        {"SELECT replace(?1, ?2, ?3)", 3},    {"SELECT trim(?1, ?2)", 2},
      {"SELECT ltrim(?1, ?2)", 2},        {"SELECT rtrim(?1, ?2)", 2},          {"SELECT ?1 LIKE ?2", 2},
      {"SELECT ?1 GLOB ?2", 2},           {"SELECT ?1 LIKE ?2 ESCAPE '\\'", 2}, {"SELECT ?1 LIKE ?2 ESCAPE '%'", 2},
      {"SELECT ?1 LIKE ?2 ESCAPE 'ä'", 2}};
  int different = 0;
  for (int round = 0; round < 60'000 && different < 5; ++round) {
    const auto& [sql, count] = calls[below(calls.size())];
    std::vector<std::string> texts;
    for (int i = 0; i < count; ++i) texts.push_back(text(i == 0 ? 9 : 5));
    // Cut in the midst of a character now and then.
    if (below(20) == 0 && !texts[0].empty() && sql.find("LIKE") == std::string::npos && sql.find("GLOB") == std::string::npos)
      texts[0].pop_back();
    const bool blobs = below(10) == 0;
    const std::string wanted = answer_of(theirs, sql, texts, blobs), got = answer_of(ours.held, sql, texts, blobs);
    if (got == wanted) continue;
    ++different;
    CAPTURE(sql, texts, blobs, Catch::rngSeed());
    CHECK(got == wanted);
  }
  for (const char* sql :
       {"SELECT instr('abc', 'c')", "SELECT instr(x'0102ff', x'ff')", "SELECT instr(12345, 34)", "SELECT instr(1.0, '.0')",
        "SELECT replace(1.50, 5, 7)", "SELECT trim(1.0, '0')", "SELECT instr(NULL, 'a')", "SELECT replace('a', NULL, 'b')",
        "SELECT trim('aa', NULL)", "SELECT trim('xax', '')", "SELECT typeof(replace(x'61', 'a', 'b'))",
        "SELECT json_patch('{\"a\":1}', '{\"b\":2}')", "SELECT json_array(json_patch('{\"a\":1}', '{\"a\":null}'))",
        "SELECT json_patch('{', '{}')", "SELECT 'a' LIKE NULL", "SELECT 'a' || char(0) || 'b' LIKE 'a%b'", "SELECT 10 LIKE '1_'"}) {
    INFO(sql);
    CHECK(answer_of(ours.held, sql, {}, false) == answer_of(theirs, sql, {}, false));
  }
  sqlite3_close(theirs);
}

TEST_CASE("functions: what takes SQLite hours is answered or ends when it is asked to", "[proxy][sqlite_server]") {
  Connection connection;
  connection.open = true;
  Session session;
  connection.catalog->serve(&session);
  const std::string many = "replace(hex(zeroblob(4000000)), '00', 'aa')", half = "replace(hex(zeroblob(2000000)), '00', 'aa')";
  for (const std::string& sql : std::vector<std::string>{
           "SELECT instr(" + many + ", " + half + " || 'b')", "SELECT strpos(" + many + ", " + half + " || 'b')",
           "SELECT position(" + half + " || 'b' IN " + many + ")", "SELECT length(replace(" + many + ", " + half + " || 'b', 'c'))",
           "SELECT split_part(" + many + ", " + half + " || 'b', 1) = ''",
           "SELECT array_length(string_to_array(" + many + ", " + half + " || 'b'), 1)",
           "SELECT length(translate(" + many + ", replace(hex(zeroblob(2000000)), '0', 'b'), ''))",
           "SELECT length(trim(" + many + ", replace(hex(zeroblob(2000000)), '0', 'b')))"}) {
    INFO(sql);
    const auto began = std::chrono::steady_clock::now();
    CHECK_FALSE(connection.value(sql).starts_with("!"));
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(20));
  }
  session.cancel = true;
  for (const std::string& sql : std::vector<std::string>{
           "SELECT instr(" + many + ", 'b')", "SELECT " + many + " LIKE '%' || substr(" + half + ", 1, 40000) || 'b'",
           "SELECT like('%' || substr(" + half + ", 1, 40000) || 'b', " + many + ")",
           "SELECT glob('*' || substr(" + half + ", 1, 40000) || 'b', " + many + ")", "SELECT length(trim(" + many + ", 'a'))"}) {
    INFO(sql);
    CHECK(connection.value(sql).starts_with("! 57014"));
  }
  session.cancel = false;
  CHECK(connection.value("SELECT json_patch('{\"a\":\"' || " + many + " || '\"}', '{\"a\":\"' || " + many + " || '\"}') IS NULL")
            .starts_with("! 54000"));
  connection.catalog->serve(nullptr);
}
