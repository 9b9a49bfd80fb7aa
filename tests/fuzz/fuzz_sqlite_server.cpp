// A client's bytes behind its start-up, to a session over a real file: whatever they are, the answers are whole messages, the fence
// of a scope never falls, and the next session finds the file in order.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <sqlite3.h>

#include "support/sqlite_server_lab.hpp"

namespace {

[[noreturn]] void broken(const char* what, std::string_view seen) {
  std::fprintf(stderr, "%s: %.*s\n", what, static_cast<int>(seen.size()), seen.data());
  std::abort();
}

// Thousands of instructions that one client's bytes may take; the one who looks afterwards begins anew.
int left = 0;

struct Place {
  sqlite_server_lab::File file;
  // A statement ends after some milliseconds, as an operator's limit would end it.
  sqlite_server_lab::sqlite_server::Engine engine{{.path = file.path, .install = [](sqlite3* db) {
                                                     sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 20);
                                                     sqlite3_progress_handler(
                                                         db, 1000, [](void*) { return left-- > 0 ? 0 : 1; }, nullptr);
                                                   }}};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Place place;
  constexpr int enough = 200;
  left = enough;
  {
    sqlite_server_lab::Client before(place.engine);
    before.raw(sqlite_server_lab::query("CREATE TABLE IF NOT EXISTS t (id int)"));
    before.raw(sqlite_server_lab::query("SELECT termgate.check_term('f', 5)"));
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // Sleeping is not what is looked for.
  if (bytes.find("leep") != std::string_view::npos) return 0;
  {
    left = enough;
    sqlite_server_lab::Client client(place.engine);
    client.quickly = size % 2 != 0;
    std::string answer = client.raw(bytes.substr(0, size / 2));
    answer += client.raw(bytes.substr(size / 2));
    const std::string told = sqlite_server_lab::told(answer);
    if (told.ends_with(" bytes")) broken("an answer that is no message", told);
  }
  left = enough;
  sqlite_server_lab::Client after(place.engine);
  const std::string fence =
      sqlite_server_lab::told(after.raw(sqlite_server_lab::query("SELECT term >= 5 AS stands FROM termgate_fences WHERE scope = 'f'")));
  if (fence.find("D(t)") == std::string::npos && fence.find("D(1)") == std::string::npos) broken("the fence fell", fence);
  return 0;
}
