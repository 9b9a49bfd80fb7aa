// What reaches SQLite's side from outside: what follows `sqlite:` in a URL, batches and write ids
// in JSON, names of tables to protect and adopt, scopes, and whole statements of an application.
// The first byte says which. Nothing may crash, leave the transaction, or end in anything but one
// of Termgate's errors.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <termgate/detail/driver.hpp>
#include <termgate/detail/sqlite_driver.hpp>
#include <termgate/error.hpp>

using namespace termgate;
using namespace std::chrono_literals;

namespace {

struct Undo {};  // rolls every input's work back

detail::Driver& database() {
  static const auto driver = [] {
    auto opened = detail::open_sqlite(":memory:", detail::SqliteOptions{2, 100ms});
    opened->install();
    opened->transact({}, [](detail::OpenTransaction& session) {
      session.execute("SELECT termgate_check_term('fuzzed', 5)", {});
      session.execute(
          "CREATE TABLE ledger (id INTEGER PRIMARY KEY, scope TEXT, term INTEGER, note TEXT)", {});
    });
    return opened;
  }();
  return *driver;
}

void run(std::string_view sql, std::string_view parameter, bool bound) {
  const Value values[] = {Value(std::string(parameter))};
  detail::TransactOptions options;
  options.timeout = 50ms;  // a statement that counts to infinity ends here
  bool ran = false;
  try {
    database().transact(options, [&](detail::OpenTransaction& session) {
      session.execute("SELECT termgate_check_term('fuzzed', 5)", {});
      try {
        session.execute(sql, {values, bound ? std::size_t{1} : std::size_t{0}});
      } catch (const Error&) {}
      ran = true;
      throw Undo();
    });
    std::abort();
  } catch (const Undo&) {
    if (!ran) std::abort();
  } catch (const Error&) {}
  if (database().query("SELECT termgate_fence('fuzzed')", {}).empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 4096) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'u': try { detail::open_sqlite(text, detail::SqliteOptions{2, 100ms});
      } catch (const Error&) {}
      break;
    case 'b': run("SELECT termgate_append_many('stream', 5, $1)", text, true); break;
    case 'w':
      run("SELECT termgate_append_many('stream', 5, '[\"a\",\"b\"]', NULL, NULL, $1)", text, true);
      break;
    case 'p': run("SELECT termgate_protect($1, NULL, 'fuzzed')", text, true); break;
    case 'c': run("SELECT termgate_protect('ledger', $1)", text, true); break;
    case 'a': run("SELECT termgate_adopt('ledger', $1, 'term')", text, true); break;
    case 's': run("SELECT termgate_check_term($1, 5)", text, true); break;
    case 'q': run(text, {}, false); break;
    default: break;
  }
  return 0;
}
