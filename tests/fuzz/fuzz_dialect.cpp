// Statements of a client that are translated: nothing may crash, and what comes out is SQL to SQLite, or an error. The first byte
// says whether the rest is the text or each byte of it a fragment of SQL. SQLite may miss a table or a function; a syntax error
// of its parser is a finding.
#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <variant>

#include <termgate/dialect/translate.hpp>

using namespace termgate::dialect;

namespace {

// clang-format off
constexpr std::string_view fragments[] = {
    "SELECT", "a", "b", "t", "u", "1", "-2", "'x'", "E'\\n'", "NULL", "true", "$1", "FROM", "WHERE", "AND", "OR", "NOT", "(", ")", ",", ";", ".", "*", "+", "-", "/", "||", "=", "<>", "<", "LIKE", "ILIKE", "~", "IS NULL",
    "IS DISTINCT FROM", "BETWEEN", "BETWEEN SYMMETRIC", "IN (1, 2)", "IN (SELECT a FROM u)", "= ANY ('{1,2}'::int[])", "::int", "::text", "::bool", "::date", "::regclass", "CASE WHEN", "THEN", "ELSE", "END", "count(*)",
    "sum(a)", "OVER (ORDER BY a)", "OVER (PARTITION BY b ROWS 1 PRECEDING)", "FILTER (WHERE a > 0)", "GROUP BY a", "HAVING", "ORDER BY a", "DESC NULLS LAST", "LIMIT 1", "OFFSET 2", "LIMIT ALL", "FETCH FIRST 1 ROW ONLY",
    "DISTINCT", "DISTINCT ON (a)", "UNION", "UNION ALL", "EXCEPT", "INTERSECT", "VALUES (1, 2)", "VALUES (DEFAULT)", "WITH w AS (SELECT 1 AS a)", "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)", "JOIN u ON",
    "LEFT JOIN u USING (a)", "FULL JOIN", "NATURAL JOIN u", "LATERAL", "(SELECT 1) s", "generate_series(1, 3) g", "unnest(ARRAY[1, a]) WITH ORDINALITY x(y, z)", "AS", "AS x(p, q)", "ARRAY[1, 2]", "ARRAY(SELECT a FROM t)",
    "EXISTS (SELECT 1)", "ROW(1, 2)", "coalesce(a, 1)", "greatest(a, b)", "current_timestamp", "now()", "interval '1 day'", "extract(year FROM a)", "substring(a FROM 1 FOR 2)", "trim(a)", "position('x' IN a)", "COLLATE \"C\"",
    "INSERT INTO t", "(a, b)", "DEFAULT VALUES", "DEFAULT", "ON CONFLICT (a) DO UPDATE SET b = 1", "ON CONFLICT DO NOTHING", "RETURNING *", "RETURNING t.a", "UPDATE t SET a = 1", "SET (a, b) = (1, 2)", "DELETE FROM t", "USING u",
    "TRUNCATE t", "CREATE TABLE n (a int PRIMARY KEY, b text DEFAULT 'x', CHECK (a > 0))", "CREATE TABLE n (id serial", "PRIMARY KEY", "REFERENCES u(a)", "NOT NULL", "UNIQUE", "varchar(10)", "numeric(10,2)", "timestamptz DEFAULT now()",
    "CREATE INDEX ON t (lower(b))", "CREATE VIEW v AS", "ALTER TABLE t", "ADD COLUMN c int", "DROP COLUMN b", "RENAME TO n", "DROP TABLE IF EXISTS t, u", "CASCADE", "CREATE TEMP TABLE n AS", "COPY t FROM STDIN", "(FORMAT csv)", "EXPLAIN",
    "BEGIN", "SET x = 1", "\"order\"", "\"Mixed Name\"", "\"\"", "group_", "U&'\\0041'", "$$;$$", "x'1f'", "FOR UPDATE", "WINDOW w AS (ORDER BY a)", "OVER w", "public.t", "pg_catalog.lower(b)", "t.a", "t.*", "a[1]", "-> 'k'", "->> 1",
};
// clang-format on

std::string assembled(std::string_view bytes) {
  std::string sql;
  for (const char byte : bytes) ((sql += fragments[static_cast<unsigned char>(byte) % std::size(fragments)]) += ' ');
  return sql;
}

sqlite3* database() {
  static sqlite3* held = [] {
    sqlite3* opened = nullptr;
    if (sqlite3_open(":memory:", &opened) != SQLITE_OK) std::abort();
    sqlite3_exec(opened, "CREATE TABLE t (a int, b text); CREATE TABLE u (a int, b text)", nullptr, nullptr, nullptr);
    return opened;
  }();
  return held;
}

void must_be_sql(const std::string& sql, const std::string& text) {
  sqlite3_stmt* statement = nullptr;
  const char* tail = nullptr;
  sqlite3_prepare_v2(database(), sql.c_str(), -1, &statement, &tail);
  const std::string_view message = sqlite3_errmsg(database());
  const bool whole = statement == nullptr || *tail == '\0';
  const bool syntax = message.find("syntax error") != std::string_view::npos ||
                      message.find("unrecognized token") != std::string_view::npos ||
                      message.find("incomplete input") != std::string_view::npos;
  if (!whole || syntax) {
    std::fprintf(stderr, "%s\n  of: %s\n  is: %s\n", std::string(message).c_str(), text.c_str(), sql.c_str());
    std::abort();
  }
  sqlite3_finalize(statement);
}

void look(const Translated& translated, const std::string& text) {
  if (translated.offset + translated.length > text.size()) std::abort();
  for (const std::string& sql : translated.sql) must_be_sql(sql, text);
  if (translated.returns_rows && translated.effect != Effect::utility && translated.sql.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string text = (data[0] & 1) != 0 ? assembled(bytes) : std::string(bytes);
  const auto result = translate(text, {1 << 16});
  if (const auto* problem = std::get_if<SqlError>(&result)) {
    if (problem->sqlstate.size() != 5 || problem->message.empty() || problem->position > text.size() + 1) std::abort();
    return 0;
  }
  for (const Translated& translated : std::get<0>(result)) look(translated, text);
  return 0;
}
