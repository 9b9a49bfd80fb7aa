// A leader that works for as long as it leads, as docs/use/leaders.md shows it, compiled against
// the installed package and run on every database. TERMGATE_DB replaces the URL, and the loop here
// ends by itself once it has shown what it can; between the marks stands the example to the letter.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

// [example]
#include <termgate/leader_loop.hpp>

using namespace termgate;
using namespace std::chrono_literals;

void bill(Database db, const Leadership& leads) {
  while (!leads.stop_requested()) {
    db.write(leads.scope(), leads.term(),
             [](Transaction& tx) {  // StaleTerm: another leads by now. Let it out
               tx.exec("UPDATE accounts SET balance = balance - $1 WHERE id = $2", 1, 42);
             });
    std::this_thread::sleep_for(100ms);
  }
}
// [/example]

namespace {

int lead(const char* url) {
  std::atomic<std::int64_t> elected{0};
  // [loop]
  auto db = Database::open(url);
  LeaderOptions options;
  options.ttl = 10s;
  options.news = [&](const LeaderNews& news) {
    if (news.kind == LeaderNews::Kind::elected) elected = news.term->value();
  };
  LeaderLoop loop(
      db, Scope{"billing"}, [db](const Leadership& leads) { bill(db, leads); }, options);
  // [/loop]
  const auto balance = [&] {
    return db.query("SELECT balance FROM accounts WHERE id = $1", {42}).one()[0].as_int();
  };
  const auto before = balance();
  for (int i = 0; i < 600 && balance() >= before - 2; ++i) std::this_thread::sleep_for(100ms);
  const auto term = loop.leads();
  loop.stop();

  // Given back at once, for all its ten seconds; and what comes next shuts the loop's term out.
  const auto next = db.try_acquire_lease(Scope{"billing"}, 10s);
  if (!term || !next || term->value() != elected || next->term() <= *term || balance() > before - 2)
    return std::puts("the loop did not lead as it should"), 1;
  try {
    db.write(Scope{"billing"}, *term,
             [](Transaction& tx) { tx.exec("UPDATE accounts SET balance = 0"); });
    return std::puts("a stale term was accepted"), 1;
  } catch (const StaleTerm& stale) { std::printf("refused: %s\n", stale.what()); }
  return 0;
}

}  // namespace

int main() {
  const char* url = std::getenv("TERMGATE_DB");
  try {
    return lead(url == nullptr ? "sqlite:billing.db" : url);
  } catch (const std::exception& failure) { return std::printf("failed: %s\n", failure.what()), 1; }
}
