// A follower, as docs/use/followers.md shows it, compiled against the installed package and run on
// every database. TERMGATE_DB replaces the URL; what the example leaves to the reader counts here.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
// [example]
#include <termgate/follower.hpp>
// [/example]

using namespace termgate;
using namespace std::chrono_literals;

namespace {

std::atomic<int> projected{0}, fresh{0}, from_the_leader{0};

void project(const std::string& payload) { projected += payload == "an order" ? 1 : 100; }
void answer_from_the_projection() { ++fresh; }
void read_at_the_leader() { ++from_the_leader; }

int follow(const char* url) {
  auto db = Database::open(url);
  for (int i = 0; i < 3; ++i) db.append(Stream{"orders"}, Term{1}, "an order");
  // [example]
  Follower orders(db, "projection-1", Stream{"orders"},
                  [&](const Stream&, const StreamWrite& write) {
                    project(write.payload);  // in order; throws: called again with the same write
                  });
  if (orders.fresh(500ms)) answer_from_the_projection();
  else read_at_the_leader();
  // [/example]
  const bool all = orders.catch_up(20s);
  std::printf("%d writes projected\n", projected.load());
  return all && projected == 3 && fresh + from_the_leader == 1 ? 0 : 1;
}

}  // namespace

int main() {
  const char* url = std::getenv("TERMGATE_DB");
  try {
    return follow(url == nullptr ? "sqlite:billing.db" : url);
  } catch (const std::exception& failure) {
    std::printf("failed: %s\n", failure.what());
    return 1;
  }
}
