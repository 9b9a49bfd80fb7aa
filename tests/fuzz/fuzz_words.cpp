// Everything that reads text from outside: names, write ids, a database's error messages, statements, URLs with
// passwords. Nothing may crash, read past the end, or take one thing for another.
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
#include "statement_text.hpp"
#endif

using namespace termgate;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (name_problem(text) == nullptr) {
    const Scope scope{std::string(text)};
    if (scope.name() != text || text.size() > Scope::bytes_max) std::abort();
  }
  try {
    const WriteId id(text);
    if (WriteId(id.text()) != id) std::abort();
  } catch (const InvalidInput&) {}
  try {
    detail::throw_if_tg(text);
  } catch (const Error& error) {
    if (!error.code().starts_with("TG00")) std::abort();
  }
#ifdef TERMGATE_TEST_WITH_POSTGRES
  detail::is_transaction_control(text);
  if (detail::first_words(text, 3).size() > 3) std::abort();
  detail::readable_message(text);
  const auto spliced = detail::with_schema(text, "s");
  if (text.find("@schema") == std::string_view::npos && spliced != text) std::abort();
  try {
    if (!detail::conninfo_of(text, false).starts_with(text)) std::abort();
  } catch (const InvalidInput& refused) {
    // An @ where none belongs. Nothing of the URL is in the message.
    if (std::string_view(refused.what()).find("malformed URL") == std::string_view::npos) std::abort();
  }
  const auto cut = text.find('\n');
  if (cut != std::string_view::npos) detail::redact(std::string(text.substr(cut + 1)), text.substr(0, cut));
#endif
  return 0;
}
