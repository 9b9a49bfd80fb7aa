// Statements of a client: nothing may crash, and no verdict may contradict PostgreSQL's own scanner and its full parse tree. The
// first byte says what is known of the session's settings.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <termgate/statements/cache.hpp>
#include <termgate/statements/classify.hpp>

#include "statements_oracle.hpp"
#include "statements_scan.hpp"

using namespace termgate::statements;

namespace {

void must_be_empty(const std::string& objection) {
  if (objection.empty()) return;
  std::fprintf(stderr, "%s\n", objection.c_str());
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
  const std::string sql(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Classified classified = classify(sql, settings);
  if (classified.statements.empty()) std::abort();
  std::size_t last = 0;
  for (const Statement& statement : classified.statements) {
    if (statement.offset < last || statement.offset > sql.size() || statement.length > sql.size() - statement.offset) std::abort();
    last = statement.offset + statement.length;
    if (statement.kind == Kind::unparsable && (is_read(statement) || !statement.might_end_transaction)) std::abort();
    if (statement.read_only_hole && is_read(statement)) std::abort();
  }
  if (classified.single && classified.statements.size() != 1) std::abort();
  static Cache cache({64, 1 << 16, 4096});
  if (cache.classify(sql, settings)->is_read() != classified.is_read() || cache.classify(sql, settings)->statements.size() != classified.statements.size()) std::abort();
  if (cache.entries() > 64 || cache.bytes() > 1 << 16) std::abort();
  // What less is known of, less may be said.
  const Classified known = classify(sql);
  if (classified.is_read() && !known.is_read()) std::abort();
  if (sql.size() > 2048 || sql.find('\0') != std::string::npos || beyond_the_library(sql)) return 0;
  must_be_empty(objection(sql, known));
  must_be_empty(scanner_objection(sql));
  return 0;
}
