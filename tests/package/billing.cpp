// The library at a glance, as docs/contract.md and the README show it, compiled against the
// installed package and run on every database. TERMGATE_DB replaces the URL; the rest is the
// example to the letter.
#include <cstdio>
#include <cstdlib>
#include <exception>

// [example]
#include <termgate/database.hpp>

using namespace termgate;
using namespace std::chrono_literals;

int billing(const char* url) {
  auto db = Database::open(url);  // any thread; owns its connections
  Lease lease = db.acquire_lease(Scope{"billing"},
                                 10s);  // a term, and the seal; renewed by LeaderLoop or by hand
  db.write(lease.scope(), lease.term(), [](Transaction& tx) {
    tx.exec("UPDATE accounts SET balance = balance - $1 WHERE id = $2", 30, 42);
    tx.append(Stream{"billing-events"}, "debited 30 from 42");
  });  // committed when it returns; StaleTerm: refused, nothing written
  // [/example]

  // The proof: a second acquisition shuts the first one's term out.
  Lease next = db.acquire_lease(Scope{"billing"}, 10s);
  try {
    db.write(lease.scope(), lease.term(),
             [](Transaction& tx) { tx.exec("UPDATE accounts SET balance = 0"); });
    std::puts("a stale term was accepted");
    return 1;
  } catch (const StaleTerm& stale) { std::printf("refused: %s\n", stale.what()); }
  const auto balance =
      db.query("SELECT balance FROM accounts WHERE id = $1", {42}).one()[0].as_int();
  std::printf("balance %lld, term %lld\n", static_cast<long long>(balance),
              static_cast<long long>(next.term().value()));
  return balance == 70 ? 0 : 1;
}

int main() {
  const char* url = std::getenv("TERMGATE_DB");
  try {
    return billing(url == nullptr ? "sqlite:billing.db" : url);
  } catch (const std::exception& failure) {
    std::printf("failed: %s\n", failure.what());
    return 1;
  }
}
