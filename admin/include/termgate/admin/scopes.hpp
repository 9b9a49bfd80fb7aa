// All scopes of a database with their leases and fences, read whole and shared by whoever asks at about the same time: the page, the API
// and the metrics are complete however many scopes there are, and ten viewers cost no more than one.
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
  std::vector<ScopeRow> rows;  // by name, byte by byte
  std::int64_t now_ms = 0;     // the database's clock, as far as a lease shows it
  std::int64_t count(std::string_view state) const;
  std::int64_t untrusted() const;
};

// Whether `text`, small letters or capitals, is part of one of them. The empty text is.
bool found_in(std::string_view text, std::initializer_list<std::string_view> all);

class ScopeBook {
 public:
  explicit ScopeBook(Database database) : database_(std::move(database)) {}
  // Read now, or by another caller so lately that reading takes a tenth of the time at most. Throws what Database throws. Any thread.
  std::shared_ptr<const Scopes> look();
  // Something was changed here: the next look reads.
  void forget();

 private:
  using Clock = std::chrono::steady_clock;
  Database database_;
  std::mutex mutex_;  // guards what follows
  std::shared_ptr<const Scopes> last_;
  Clock::time_point good_until_{};
};

}  // namespace termgate::admin
