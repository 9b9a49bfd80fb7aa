// Statements over a schema with a column of each type, typed and written for SQLite: nothing may crash; what comes out is SQL that SQLite
// prepares with the session's functions, and each value that it gives is one of the column's type. The first byte says whether the rest
// is the text, or choices in a grammar of statements: mostly sensible ones, of whatever types.
#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <termgate/dialect/translate.hpp>
#include <termgate/sqlite_server/catalog.hpp>

#include "catalog/relations.hpp"

using namespace termgate::sqlite_server;
namespace dialect = termgate::dialect;
namespace oid = dialect::oid;

namespace {

// clang-format off
constexpr std::string_view statements[] = {
    "SELECT {e}, {e} FROM r WHERE {e} ORDER BY {e}", "SELECT {e} AS x FROM r", "SELECT {a}, {a} FROM r", "SELECT {e}, {a} FROM r GROUP BY {e} HAVING {e}", "SELECT {e}, {w} FROM r", "SELECT DISTINCT {e} FROM r ORDER BY 1",
    "SELECT {e} FROM r a {j} s b ON {e}", "SELECT * FROM r a {j} s b USING (id)", "SELECT {e} FROM r {u} SELECT {e} FROM s ORDER BY 1", "WITH q(x, y) AS (SELECT {e}, {e} FROM r) SELECT x, y, {e} FROM q, s", "SELECT DISTINCT ON ({e}) {e} FROM r ORDER BY {e}",
    "SELECT x FROM (SELECT {e} AS x, {e} AS y FROM r) q WHERE {e} LIMIT {e} OFFSET {e}", "VALUES ({e}, {e}), ({e}, {e})", "SELECT {e} FROM (VALUES ({l}, {l}), ({l}, {l})) v(id, i4)", "INSERT INTO w ({c}, {c}) VALUES ({e}, {e}) RETURNING {e}",
    "INSERT INTO w ({c}) SELECT {e} FROM r", "INSERT INTO w (id, {c}) SELECT {e}, {e} FROM r ON CONFLICT (id) DO UPDATE SET {c} = {e} WHERE {e} RETURNING *", "UPDATE w SET {c} = {e}, {c} = {e} WHERE {e} RETURNING {e}", "UPDATE w SET {c} = {e} FROM s WHERE w.id = s.id",
    "DELETE FROM w WHERE {e} RETURNING *", "DELETE FROM w USING s WHERE {e}", "SELECT {e} FROM generate_series({e}, {e}) g", "SELECT {e} FROM r, unnest({e}) u", "WITH RECURSIVE q(n) AS (SELECT {l} UNION ALL SELECT n + {l} FROM q WHERE n < {l}) SELECT n FROM q LIMIT 3",
    "SELECT {e} FROM r, LATERAL (SELECT {e} AS z) l", "SELECT ({e}, {e}) = ({e}, {e}) FROM r", "CREATE TABLE n AS SELECT {e} AS x FROM r", "CREATE VIEW n AS SELECT {e} AS x FROM r", "CREATE TABLE n (a {T} DEFAULT {l} CHECK ({e}), b {T})", "ALTER TABLE w ALTER COLUMN {c} TYPE {T}",
};
constexpr std::string_view expressions[] = {
    "{c}", "{l}", "{c}", "$1", "({e} {o} {e})", "{f}({e})", "{f}({e}, {e})", "{f}({e}, {e}, {e})", "CAST({e} AS {T})", "{l}::{T}", "CASE WHEN {e} THEN {e} ELSE {e} END", "CASE {e} WHEN {e} THEN {e} END", "coalesce({e}, {e})", "nullif({e}, {e})", "greatest({e}, {e})",
    "({e} IS NULL)", "({e} IS DISTINCT FROM {e})", "({e} BETWEEN {e} AND {e})", "({e} IN ({e}, {e}))", "({e} = ANY ({e}))", "({e} <> ALL ({e}))", "({e} IN (SELECT {c} FROM s))", "EXISTS (SELECT 1 FROM s WHERE {e})", "(SELECT {e} FROM s)", "(SELECT {a} FROM s)", "ARRAY[{e}, {e}]",
    "ARRAY(SELECT {c} FROM s)", "({e})[{e}]", "(NOT {e})", "({e} AND {e})", "({e} OR {e})", "-{e}", "({e} LIKE {e})", "({e} ~ {e})", "extract(year FROM {e})", "({e} AT TIME ZONE 'UTC')", "substring({e} FROM {e} FOR {e})", "position({e} IN {e})", "trim({e})", "{k}", "r.{c}", "s.{c}", "({e} > ALL (SELECT {c} FROM s))", "$2",
};
constexpr std::string_view columns[] = {"id", "i2", "i4", "i8", "f4", "f8", "n", "n2", "t", "v", "c", "b", "d", "ti", "ts", "tz", "iv", "u", "j", "jj", "ar", "ta", "by"};
constexpr std::string_view literals[] = {"1", "'x'", "0", "-1", "1.50", "'2024-01-05'", "true", "NULL", "'{1,2}'", "'{\"a\": [1, 2]}'", "'1 day'", "2147483647", "9223372036854775807", "'10:00'", "'\\xff'", "1e10", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'%a_'", "''", "'NaN'", "interval '1 mon'", "date '2024-02-29'", "0.001", "'t'"};
constexpr std::string_view operators[] = {"+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "||", "&", "|", "#", "<<", "->", "->>", "#>", "#>>", "@>", "<@", "&&", "?", "^"};
constexpr std::string_view functions[] = {"abs", "round", "trunc", "floor", "length", "lower", "upper", "btrim", "replace", "substr", "left", "lpad", "split_part", "concat", "concat_ws", "md5", "date_trunc", "date_part", "age", "to_char", "jsonb_set", "to_jsonb", "jsonb_build_object", "array_length", "array_to_string", "string_to_array", "sqrt", "power", "mod", "div", "sign", "now", "make_date", "regexp_replace", "encode", "decode", "pg_typeof", "starts_with", "jsonb_typeof", "cardinality", "initcap", "repeat", "reverse", "translate", "ascii", "chr", "timezone", "overlay", "exp", "ln"};
constexpr std::string_view aggregates[] = {"count(*)", "count({e})", "sum({e})", "avg({e})", "min({e})", "max({e})", "count(DISTINCT {e})", "bool_and({e})", "array_agg({e})", "string_agg({e}, ',' ORDER BY {e})", "jsonb_agg({e})", "sum({e}) FILTER (WHERE {e})", "array_agg(DISTINCT {e})", "json_object_agg({e}, {e})"};
constexpr std::string_view windows[] = {"row_number() OVER (ORDER BY {e})", "sum({e}) OVER (PARTITION BY {e} ORDER BY {e})", "lag({e}, {e}, {e}) OVER (ORDER BY {e} DESC NULLS LAST)", "first_value({e}) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", "max({e}) OVER ()", "ntile({l}) OVER (ORDER BY id)", "avg({e}) OVER w"};
constexpr std::string_view joins[] = {"JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN LATERAL"};
constexpr std::string_view unions[] = {"UNION", "UNION ALL", "EXCEPT", "INTERSECT"};
constexpr std::string_view types[] = {"smallint", "int", "bigint", "real", "float8", "numeric", "numeric(8,3)", "text", "varchar(3)", "char(3)", "boolean", "date", "time", "timestamp", "timestamptz", "interval", "uuid", "json", "jsonb", "int[]", "text[]", "bytea", "timestamp(0)", "numeric(3)"};
constexpr std::string_view constants[] = {"current_date", "now()", "current_timestamp", "localtime", "current_user", "pi()", "gen_random_uuid()"};
// clang-format on

std::span<const std::string_view> rules_of(char letter) {
  switch (letter) {
    case 'e': return expressions;
    case 'c': return columns;
    case 'l': return literals;
    case 'o': return operators;
    case 'f': return functions;
    case 'a': return aggregates;
    case 'w': return windows;
    case 'j': return joins;
    case 'u': return unions;
    case 'T': return types;
    case 'k': return constants;
    default: std::abort();
  }
}

// Without further choices each part is the first of its rules.
struct Grammar {
  std::string_view choices;
  std::string out;
  unsigned next() {
    if (choices.empty()) return 0;
    const auto choice = static_cast<unsigned char>(choices.front());
    choices.remove_prefix(1);
    return choice;
  }
  void write(std::string_view rule, int depth) {
    for (std::size_t at = 0; at < rule.size(); ++at) {
      if (rule[at] != '{' || at + 2 >= rule.size() || rule[at + 2] != '}') {
        out += rule[at];
        continue;
      }
      const auto rules = rules_of(rule[at + 1]);
      write(depth > 6 ? rules[next() % 3 % rules.size()] : rules[next() % rules.size()], depth + 1);
      at += 2;
    }
  }
};

constexpr std::string_view columns_declared =
    "id integer primary key, i2 smallint, i4 int4, i8 bigint, f4 float4, f8 double precision, n numeric, n2 numeric(12,2), t text, v "
    "varchar(8), c "
    "char(4), b boolean, d date text, ti time text, ts timestamp text, tz timestamptz text, iv interval_text, u uuid text, j jsonb text, "
    "jj json "
    "text, ar int4_array_text, ta text_array_text, by bytea blob";
constexpr std::string_view row =
    "12, 3, 5000000000, 1.5, 2.25, 1.5, 3.25, 'abc', 'v', 'cc', 1, '2024-02-29', '10:11:12', '2024-02-29 12:00:00', '2024-02-29 "
    "12:00:00+00', '1 "
    "mon 2 days', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"a\": 1}', '[1]', '{1,2,NULL}', '{a,\"b c\"}', x'00ff'";

int left = 0;

struct File {
  sqlite3* held = nullptr;
  Catalog* catalog = nullptr;
  std::shared_ptr<const FileRelations> relations;
  File() {
    if (sqlite3_open(":memory:", &held) != SQLITE_OK) std::abort();
    sqlite3_limit(held, SQLITE_LIMIT_LENGTH, 1 << 20);
    sqlite3_limit(held, SQLITE_LIMIT_EXPR_DEPTH, 500);
    catalog = &install_catalog(held, "fuzz");
    for (const char* table : {"r", "s", "w"}) {
      run(std::string("CREATE TABLE ") + table + " (" + std::string(columns_declared) + ")");
      run(std::string("INSERT INTO ") + table + " VALUES (1, " + std::string(row) + ")");
      run(std::string("INSERT INTO ") + table + " (id) VALUES (2)");
    }
    relations = catalog->relations();
    sqlite3_progress_handler(
        held, 100, [](void*) { return left-- > 0 ? 0 : 1; }, nullptr);
  }
  void run(const std::string& sql) const {
    char* message = nullptr;
    if (sqlite3_exec(held, sql.c_str(), nullptr, nullptr, &message) != SQLITE_OK) {
      std::fprintf(stderr, "%s: %s\n", sql.c_str(), message);
      std::abort();
    }
  }
};

[[noreturn]] void found(std::string_view what, const std::string& text, const std::string& sql) {
  std::fprintf(stderr, "%.*s\n  of: %s\n  is: %s\n", static_cast<int>(what.size()), what.data(), text.c_str(), sql.c_str());
  std::abort();
}

Stored stored_of(sqlite3_stmt* statement, int column) {
  const auto bytes = [&](const void* data) {
    return std::string(data != nullptr ? static_cast<const char*>(data) : "",
                       static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
  };
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER: return static_cast<std::int64_t>(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT: return sqlite3_column_double(statement, column);
    case SQLITE_TEXT: return bytes(sqlite3_column_text(statement, column));
    case SQLITE_BLOB: return Blob{bytes(sqlite3_column_blob(statement, column))};
    default: return std::monostate();
  }
}

void check_row(sqlite3_stmt* statement, const dialect::Translated& of, const std::string& text, const std::string& sql) {
  if (!of.returns_rows) return;
  if (static_cast<std::size_t>(sqlite3_column_count(statement)) != of.columns.size()) found("another number of columns", text, sql);
  for (std::size_t i = 0; i < of.columns.size(); ++i) {
    switch (of.columns[i].type) {
      case oid::int2:
      case oid::int4:
      case oid::int8:
      case oid::boolean:
      case oid::float4:
      case oid::float8:
      case oid::text:
      case oid::varchar:
      case oid::date:
      case oid::time:
      case oid::timestamp:
      case oid::timestamptz:
      case oid::uuid:
      case oid::bytea: break;
      default: continue;
    }
    const Stored value = stored_of(statement, static_cast<int>(i));
    const Meeting meeting = meeting_of(value, {of.columns[i].type, of.columns[i].typmod});
    const bool float_of_double = of.columns[i].type == oid::float4 && meeting.how == Meeting::How::other_form;
    if (meeting.how != Meeting::How::fits && !float_of_double)
      found("a value that is none of its column's type: " + of.columns[i].name, text, sql);
  }
}

// What SQLite may say of a statement that is well written.
bool is_a_limit(std::string_view message) {
  for (const std::string_view part : {"too many", "too deep", "parser stack overflow", "too large", "too long", "too big", "depth"}) {
    if (message.find(part) != std::string_view::npos) return true;
  }
  return false;
}

void look(const File& file, const dialect::Translated& translated, const std::string& text) {
  if (translated.offset + translated.length > text.size()) std::abort();
  if (translated.problem && (translated.problem->sqlstate.size() != 5 || translated.problem->message.empty())) std::abort();
  file.run("SAVEPOINT one");
  for (const std::string& sql : translated.sql) {
    left = 50;
    sqlite3_stmt* statement = nullptr;
    const char* tail = nullptr;
    if (sqlite3_prepare_v2(file.held, sql.c_str(), -1, &statement, &tail) != SQLITE_OK) {
      const std::string_view message = sqlite3_errmsg(file.held);
      if (translated.typed && !translated.rebuild && !is_a_limit(message)) found(message, text, sql);
      break;
    }
    if (*tail != '\0') found("more than one statement", text, sql);
    left = 50;
    int code = sqlite3_step(statement);
    for (int rows = 0; code == SQLITE_ROW && rows < 10; ++rows) {
      if (translated.typed && &sql == &translated.sql.back()) check_row(statement, translated, text, sql);
      code = sqlite3_step(statement);
    }
    sqlite3_finalize(statement);
    if (code != SQLITE_DONE && code != SQLITE_ROW) break;
  }
  left = 1000;
  file.run("ROLLBACK TO one");
  file.run("RELEASE one");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const File file;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string text(bytes);
  if ((data[0] & 1) != 0) {
    Grammar grammar{bytes, {}};
    grammar.write(statements[grammar.next() % std::size(statements)], 0);
    text = std::move(grammar.out);
  }
  // Sleeping is not what is looked for.
  if (text.find("leep") != std::string::npos || text.size() > 20'000) return 0;
  const auto result = dialect::translate(text, {1 << 15}, file.relations.get());
  if (const auto* problem = std::get_if<SqlError>(&result)) {
    if (problem->sqlstate.size() != 5 || problem->message.empty() || problem->position > text.size() + 1) std::abort();
    return 0;
  }
  for (const dialect::Translated& translated : std::get<0>(result)) look(file, translated, text);
  return 0;
}
