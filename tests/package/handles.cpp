// A lease as a handle and a recorded job, as docs/use/handles.md shows them, compiled against the
// installed package and run on every database. TERMGATE_DB replaces the URL, and the loop here ends
// after one write; between the marks is the example to the letter.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

// [example]
#include <termgate/database.hpp>
// [/example]
#include <termgate/held_lease.hpp>
// [job]
#include <termgate/job_run.hpp>
// [/job]
#include <termgate/jobs.hpp>

using namespace termgate;
using namespace std::chrono_literals;

namespace {

int handles(const char* url) {
  auto db = Database::open(url);
  // [held]
  HeldLease held = db.hold(Scope{"billing"}, {.ttl = 10s, .wait = 30s});
  while (!held.lost().stop_requested()) {
    db.write(held.scope(), held.term(),
             [](Transaction& tx) {  // StaleTerm: another process holds it now
               tx.exec("UPDATE accounts SET balance = balance - $1 WHERE id = $2", 1, 42);
             });
    // [/held]
    const auto debit = [](Transaction& tx) {
      tx.exec("UPDATE accounts SET balance = balance - $1 WHERE id = $2", 1, 42);
    };
    // [in_time]
    WriteOptions in_time;
    in_time.lease_owner = held.owner();
    db.write(held.scope(), held.term(), debit, in_time);  // LeaseLost: it has ended
    // [/in_time]
    // [run]
    JobRun run(db, "export", held.scope(), held.term(), held.owner());
    std::string page =
        run.last_checkpoint().value_or("1");  // of the last run, if it was not completed
    run.beat(page);                           // false: the run is no longer open, stop
    run.complete();                           // the destructor records "failed" otherwise
    // [/run]
    held.release();
  }
  const auto jobs = Jobs(db).list();
  std::printf("%zu runs, the last one %s\n", jobs.size(),
              jobs.empty() ? "missing" : jobs.front().status.c_str());
  return jobs.size() == 1 && jobs.front().status == "completed" ? 0 : 1;
}

}  // namespace

int main() {
  const char* url = std::getenv("TERMGATE_DB");
  try {
    return handles(url == nullptr ? "sqlite:billing.db" : url);
  } catch (const std::exception& failure) {
    std::printf("failed: %s\n", failure.what());
    return 1;
  }
}
