// Everything that reads text from outside: names, write ids, a database's error messages,
// statements, URLs with passwords. Nothing may crash, read past the end, or take one thing for
// another.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <termgate/detail/error_from_message.hpp>
#include <termgate/error.hpp>
#include <termgate/scope.hpp>
#include <termgate/write_id.hpp>

#ifdef TERMGATE_TEST_WITH_POSTGRES
#include "conninfo.hpp"
#include "errors.hpp"
#include "redact.hpp"
#include <termgate/detail/schema.hpp>
#include <termgate/text/scanner.hpp>
#include "statement_text.hpp"
#endif

using namespace termgate;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view sql(reinterpret_cast<const char*>(data), size);
  if (name_problem(sql) == nullptr) {
    const Scope scope{std::string(sql)};
    if (scope.name() != sql || sql.size() > Scope::bytes_max) std::abort();
  }
  try {
    const WriteId id(sql);
    if (WriteId(id.text()) != id) std::abort();
  } catch (const InvalidInput&) {}
  try {
    detail::throw_if_tg(sql);
  } catch (const Error& error) {
    if (!error.code().starts_with("TG00")) std::abort();
  }
  for (const auto dialect :
       {text::Dialect::postgresql, text::Dialect::sqlserver, text::Dialect::sqlite}) {
    text::Scanner scanner(sql, dialect);
    std::size_t read = 0;
    for (text::Token token; scanner.next(token); read += token.text.size())
      if (token.text.empty() || (!token.ends && !scanner.rest().empty())) std::abort();
    if (read != size || text::first_pieces(sql, dialect, 3, true).size() > 3) std::abort();
  }
#ifdef TERMGATE_TEST_WITH_POSTGRES
  detail::is_transaction_control(sql);
  detail::readable_message(sql);
  const auto spliced = detail::with_schema(sql, "s");
  if (sql.find("@schema") == std::string_view::npos && spliced != sql) std::abort();
  try {
    if (!detail::conninfo_of(sql, {}).starts_with(sql)) std::abort();
  } catch (const InvalidInput& refused) {
    // An @ where none belongs. Nothing of the URL is in the message.
    if (std::string_view(refused.what()).find("malformed URL") == std::string_view::npos)
      std::abort();
  }
  const auto cut = sql.find('\n');
  if (cut != std::string_view::npos)
    detail::redact(std::string(sql.substr(cut + 1)), sql.substr(0, cut));
#endif
  return 0;
}
