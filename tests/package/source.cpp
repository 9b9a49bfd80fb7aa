// A leader under the terms of a lock service, as docs/use/term-sources.md shows it, compiled
// against the installed package. In place of etcd it reads a file that this program writes.
// TERMGATE_DB is the database.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <termgate/leader_loop.hpp>
#include <termgate/sources.hpp>

using namespace termgate;
using namespace std::chrono_literals;

void bill(const Leadership& leads) {
  while (!leads.stop_requested()) std::this_thread::sleep_for(10ms);
}

int main() {
  const char *url = std::getenv("TERMGATE_DB"), *file = std::getenv("ELECTED_FILE");
  if (url == nullptr || file == nullptr)
    return std::puts("TERMGATE_DB and ELECTED_FILE are not set"), 2;
  auto db = Database::open(url);
  std::ofstream(file) << "scope=by-file term=7\n";
  {
    auto source = open_lease_source("file://" + std::string(file));
    LeaderLoop loop(db, source, Scope{"by-file"}, [](const Leadership& leads) { bill(leads); });
    for (int i = 0; i < 600 && !loop.leads(); ++i) std::this_thread::sleep_for(100ms);
    if (loop.leads() != Term(7)) return std::puts("the loop did not lead under term 7"), 1;
  }
  try {
    db.check(Scope{"by-file"}, Term(6));
    return std::puts("term 7 was not sealed"), 1;
  } catch (const StaleTerm& stale) { std::printf("refused: %s\n", stale.what()); }
  return 0;
}
