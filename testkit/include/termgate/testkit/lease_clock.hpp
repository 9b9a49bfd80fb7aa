// LeaseClock: lets the time of leases pass at once, so that a test of a takeover need not wait for
// a TTL. For a database that belongs to the test (testkit/database.hpp).
//
// Two clocks decide about a lease: the database's, whether another may have it, and the holder's
// own, whether it believes to lead (Lease::still_held). advance() moves both: every lease in the
// database runs out so much earlier, and still_held() here answers as if so much time had passed
// for the holder. Terms and fences are not touched. Any thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <termgate/database.hpp>
#include <termgate/lease.hpp>

namespace termgate::inline v0::testkit {

class LeaseClock {
 public:
  // `schema`: of layer 1, on PostgreSQL. The database's role must own layer 1: nobody else may
  // write to its tables.
  explicit LeaseClock(Database database, std::string schema = "termgate");
  ~LeaseClock();
  LeaseClock(const LeaseClock&) = delete;
  LeaseClock& operator=(const LeaseClock&) = delete;

  // 0 or more. Writes to the lease table, and so waits for what holds its rows. Throws what
  // Database::write throws; std::invalid_argument for less than 0. Then nothing has moved.
  void advance(std::chrono::milliseconds by);

  // Whether the holder believes to lead: what lease.still_held() would say, had the time passed.
  bool still_held(const Lease& lease) const { return lease.still_held(now(lease)); }
  // The holder's moment, for code that takes one: real time, and what has been advanced since the
  // lease was acquired or last renewed.
  Lease::Clock::time_point now(const Lease& lease) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace termgate::inline v0::testkit
