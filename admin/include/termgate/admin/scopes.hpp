// All scopes of a database with their leases and fences. One complete reading is shared by callers
// at about the same time, so that the page, the API and the metrics are complete however many
// scopes there are, and ten viewers cost no more than one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>

namespace termgate::admin {

// "held", "expired" or "released".
const char* state_of(const LeaseInfo& lease);

struct ScopeRow {
  std::string scope;
  std::optional<LeaseInfo> lease;
  std::optional<FenceInfo> fence;
  const char* state() const { return lease ? state_of(*lease) : "no_lease"; }
};

struct Scopes {
  std::vector<ScopeRow> rows;  // ordered by name, byte by byte
  std::int64_t now_ms = 0;     // the database's clock if a lease shows it, else this process's
  std::int64_t count(std::string_view state) const;
  std::int64_t untrusted() const;
};

// Whether `text` is part of one of them, ignoring case. The empty text is.
bool found_in(std::string_view text, std::initializer_list<std::string_view> all);

class ScopeBook {
 public:
  explicit ScopeBook(Database database) : database_(std::move(database)) {}
  // A reading made now, or one by another caller so recent that reading takes at most a tenth of
  // the time. Throws what Database throws. Any thread.
  std::shared_ptr<const Scopes> look();
  // Call it after a change: the next look() reads again.
  void forget();

 private:
  using Clock = std::chrono::steady_clock;
  Database database_;
  std::mutex mutex_;  // guards the members below
  std::shared_ptr<const Scopes> last_;
  Clock::time_point good_until_{};
};

}  // namespace termgate::admin
