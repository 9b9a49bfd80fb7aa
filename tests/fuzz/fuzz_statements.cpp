// Statements of a client: nothing may crash, and no verdict may contradict PostgreSQL's own scanner
// and its full parse tree. The first byte says what is known of the session's settings, and whether
// the rest is the text or each byte of it a fragment of SQL: bytes alone seldom grow into a
// statement.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include <termgate/statements/cache.hpp>
#include <termgate/statements/classify.hpp>

#include "unit/proxy/statements/oracle.hpp"
#include "unit/proxy/statements/scan.hpp"

using namespace termgate::statements;

namespace {

// clang-format off
constexpr std::string_view fragments[] = {
    "SELECT", "1", "INTO", "t", "FOR", "UPDATE", "SHARE", "NO KEY", "(", ")", ",", ";", "WITH", "a AS (", "RECURSIVE", "MATERIALIZED", "DELETE FROM t", "UPDATE t SET x = 1",
    "INSERT INTO t VALUES (1)", "MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE", "RETURNING *", "FROM", "WHERE", "AS", ".", "*", "VALUES", "TABLE", "UNION", "EXPLAIN", "ANALYZE", "VERBOSE",
    "analyse", "\"analyze\"", "off", "false", "true", "COPY", "TO", "STDIN", "STDOUT", "PROGRAM", "'x'", "E'\\''", "$$;$$", "BINARY", "PREPARE", "EXECUTE", "p", "DEALLOCATE", "ALL", "DECLARE", "c",
    "CURSOR", "SCROLL", "HOLD", "WITHOUT", "FETCH", "MOVE", "CLOSE", "NEXT", "BACKWARD", "BEGIN", "START", "TRANSACTION", "WORK", "COMMIT", "END", "ROLLBACK", "ABORT", "AND", "CHAIN", "NO", "SAVEPOINT",
    "RELEASE", "PREPARED", "ISOLATION LEVEL", "SERIALIZABLE", "READ", "WRITE", "ONLY", "NOT", "DEFERRABLE", "SET", "LOCAL", "SESSION", "CHARACTERISTICS", "AUTHORIZATION", "ROLE", "TIME ZONE", "NAMES",
    "termgate.scope", "=", "DEFAULT", "FROM CURRENT", "RESET", "SHOW", "DISCARD", "TEMP", "CALL", "DO", "LOCK", "IN", "ACCESS", "EXCLUSIVE", "MODE", "NOWAIT", "LISTEN", "UNLISTEN", "NOTIFY", "VACUUM",
    "FULL", "CREATE", "UNIQUE", "INDEX", "CONCURRENTLY", "i", "ON", "DATABASE", "d", "TABLESPACE", "DROP", "IF EXISTS", "ALTER", "SYSTEM", "REINDEX", "CLUSTER", "SCHEMA", "lo_unlink", "TREAT",
    "set_config", "pg_notify", "f", "U&\"a\"", "UESCAPE '!'", "/* c */", "-- c\n", "\n", "CASE", "WHEN", "THEN", "ELSE", "FUNCTION g() RETURNS int", "ATOMIC", "RULE r AS", "ALSO", "OF", "LATERAL",
    "SEARCH DEPTH FIRST BY x", "CYCLE x", "USING", "y", "update", "delete", "into", "\"q\"", "42", "-", "::", "[", "]", "CAST", "substring", "CONSTRAINTS", "IMMEDIATE", "SNAPSHOT", "GRANT", "COMMENT",
};
// clang-format on

std::string assembled(std::string_view bytes) {
  std::string sql;
  for (const char byte : bytes)
    ((sql += fragments[static_cast<unsigned char>(byte) % std::size(fragments)]) += ' ');
  return sql;
}

void must_be_empty(const std::string& objection, const std::string& sql) {
  if (objection.empty()) return;
  std::fprintf(stderr, "%s: %s\n", objection.c_str(), sql.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  Settings settings;
  settings.standard_conforming_strings = static_cast<ConformingStrings>(data[0] % 3);
  settings.ascii_safe_encoding = (data[0] & 4) == 0;
  settings.parsed_bytes_max = 4096;
  settings.lexed_bytes_max = 1 << 16;
  settings.tokens_max = 2000;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string sql = (data[0] & 8) != 0 ? assembled(bytes) : std::string(bytes);
  const Classified classified = classify(sql, settings);
  if (classified.statements.empty()) std::abort();
  std::size_t last = 0;
  for (const Statement& statement : classified.statements) {
    if (statement.offset < last || statement.offset > sql.size() ||
        statement.length > sql.size() - statement.offset)
      std::abort();
    last = statement.offset + statement.length;
    if (statement.kind == Kind::unparsable &&
        (is_read(statement) || !statement.might_end_transaction))
      std::abort();
    if (statement.read_only_hole && is_read(statement)) std::abort();
  }
  if (classified.single && classified.statements.size() != 1) std::abort();
  static Cache cache({64, 1 << 16, 4096});
  if (cache.classify(sql, settings)->is_read() != classified.is_read() ||
      cache.classify(sql, settings)->statements.size() != classified.statements.size())
    std::abort();
  if (cache.entries() > 64 || cache.bytes() > 1 << 16) std::abort();
  // What less is known of, less may be said.
  const Classified known = classify(sql);
  if (classified.is_read() && !known.is_read()) std::abort();
  if (sql.size() > 2048 || sql.find('\0') != std::string::npos || beyond_the_library(sql)) return 0;
  must_be_empty(objection(sql, known), sql);
  must_be_empty(scanner_objection(sql), sql);
  return 0;
}
