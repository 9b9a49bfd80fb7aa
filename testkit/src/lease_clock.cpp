// Lets leases age without waiting: expires_at in the database is moved back, and now() moves the
// lease's own clock forward by as much.
#include <termgate/testkit/lease_clock.hpp>
#include <termgate/text/quote.hpp>

#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace termgate {
inline namespace v0 {
namespace testkit {

struct LeaseClock::State {
  State(Database its_database, std::string its_statement)
      : database(std::move(its_database)), statement(std::move(its_statement)) {}
  Database database;
  std::string statement;
  mutable std::mutex mutex;  // guards steps
  std::vector<std::pair<Lease::Clock::time_point, std::chrono::milliseconds>> steps;
};

LeaseClock::LeaseClock(Database database, std::string schema) {
  const bool sqlite = database.kind() == "sqlite";
  // All leases are moved; one that has expired stays expired.
  std::string statement =
      sqlite ? "UPDATE termgate_leases SET expires_at = expires_at - $1"
             : "UPDATE " + text::quoted(schema, '"') +
                   ".leases SET expires_at = expires_at - CAST($1 AS bigint) * interval '1 ms'";
  state_ = std::make_unique<State>(std::move(database), std::move(statement));
}

LeaseClock::~LeaseClock() = default;

void LeaseClock::advance(std::chrono::milliseconds by) {
  if (by.count() < 0) throw std::invalid_argument("LeaseClock: time does not go back");
  // Every write needs a scope; this one is the clock's own.
  state_->database.write(Scope("termgate testkit clock"), Term(1), [&](Transaction& transaction) {
    transaction.exec(state_->statement, static_cast<std::int64_t>(by.count()));
  });
  const std::lock_guard lock(state_->mutex);
  state_->steps.emplace_back(Lease::Clock::now(), by);
}

Lease::Clock::time_point LeaseClock::now(const Lease& lease) const {
  const auto since = lease.held_until() - lease.ttl();  // when its last request was sent
  auto moment = Lease::Clock::now();
  const std::lock_guard lock(state_->mutex);
  for (const auto& [at, by] : state_->steps) {
    // A renewal after the step has extended the lease anew, so the step does not count for it.
    if (at >= since) moment += by;
  }
  return moment;
}

}  // namespace testkit
}  // namespace v0
}  // namespace termgate
