// A follower that keeps a projection, as docs/use/followers.md shows it, compiled against the installed package and run on every database.
// TERMGATE_DB names it; between the marks is the example to the letter.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

// [example]
#include <termgate/follower.hpp>
// [/example]

using namespace termgate;
using namespace std::chrono_literals;

namespace {

std::atomic<int> projected{0}, from_projection{0}, at_leader{0};
void project(const std::string& payload) { projected += payload == "debited 30"; }
void answer_from_the_projection() { ++from_projection; }
void read_at_the_leader() { ++at_leader; }

int follow(const char* url) {
  auto db = Database::open(url);
  Lease lease = db.acquire_lease(Scope{"followed"}, 10s);
  AppendOptions first;
  first.scope = lease.scope();
  db.append(Stream{"orders"}, lease.term(), "debited 30", first);
  // [follower]
  Follower orders(db, "projection-1", Stream{"orders"}, [&](const Stream&, const StreamWrite& write) {
    project(write.payload);  // in order; throws: called again with the same write
  });
  // [/follower]
  const bool caught_up = orders.catch_up(10s);
  // [fresh]
  if (orders.fresh(500ms)) answer_from_the_projection();
  else read_at_the_leader();
  // [/fresh]
  orders.stop();
  db.release_lease(lease);
  std::printf("%d projected\n", projected.load());
  return caught_up && projected == 1 && from_projection + at_leader == 1 ? 0 : 1;
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
