// LeaseClock lets leases age at once, so that a test of a takeover need not wait for a TTL. For a
// database that belongs to the test (testkit/database.hpp): SQLite or PostgreSQL.
//
// Two clocks matter for a lease: by the database's clock another owner may acquire it, and by its
// own clock the holder knows whether it still leads (Lease::still_held). advance() moves both:
// every lease in the database expires that much earlier, and still_held() of this class returns
// what it would if that much time had passed for the holder. Leases' terms and fences are not
// touched. Any thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <termgate/database.hpp>
#include <termgate/lease.hpp>

namespace termgate {
inline namespace v0 {
namespace testkit {

class LeaseClock {
 public:
  // `schema` is layer 1's, on PostgreSQL. The database's role must own layer 1: nobody else may
  // write to its tables.
  explicit LeaseClock(Database database, std::string schema = "termgate");
  ~LeaseClock();
  LeaseClock(const LeaseClock&) = delete;
  LeaseClock& operator=(const LeaseClock&) = delete;

  // `by` must not be negative. Writes to the lease table, and so waits for locks on its rows.
  // Throws what Database::write throws, and std::invalid_argument for a negative `by`; then no time
  // has passed.
  void advance(std::chrono::milliseconds by);

  // Whether the holder would still lead: what lease.still_held() would return if the time had
  // passed.
  bool still_held(const Lease& lease) const { return lease.still_held(now(lease)); }
  // The holder's current moment, for code that takes one: real time plus what was advanced since
  // the lease was acquired or last renewed.
  Lease::Clock::time_point now(const Lease& lease) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace testkit
}  // namespace v0
}  // namespace termgate
