// Info: the current fences, leases and streams of a database. Reads only, outside the fence.
//
//   std::optional<LeaseInfo> leader = Info(db).lease(Scope{"billing"});
//
// Any thread; copies share the Database's connections. Moments are milliseconds since 1970 by the
// database's clock. Lists begin after the name `after` and have at most `limit` rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/scope.hpp>
#include <termgate/stats.hpp>
#include <termgate/term.hpp>

namespace termgate {
inline namespace v0 {

struct FenceInfo {
  std::string scope;
  std::int64_t term = 0;
  std::int64_t raised_at_ms = 0;
  std::string raised_by;
  std::string raise_by;  // "writer": any writer may raise it; "seal": only a seal or a lease
  bool untrusted = false;
  std::optional<std::int64_t> reset_from;  // the highest fence that an audited reset has lowered
};

struct LeaseInfo {
  std::string scope;
  std::string owner;
  std::int64_t term = 0;
  std::int64_t expires_at_ms = 0;
  std::int64_t acquired_at_ms = 0;
  std::int64_t renewed_at_ms = 0;
  std::optional<std::int64_t> released_at_ms;
  std::string endpoint;
  std::int64_t remaining_ms = 0;  // 0 or less: it has ended
};

// The last hand-over of a scope: a request, and then its receipt.
struct HandOverInfo {
  std::string scope, owner;       // the owner that leaves
  std::int64_t term = 0;          // the term of the owner that leaves
  std::optional<std::string> to;  // who may take it; none: anybody else
  std::string requested_by, reason;
  std::int64_t requested_at_ms = 0, leave_before_ms = 0;
  std::optional<std::int64_t> left_at_ms;  // none: the owner has not left, or its lease ran out
  std::optional<std::string> next_owner;
  std::optional<std::int64_t> next_term, taken_at_ms;
  std::optional<std::int64_t> gap_ms;  // how long nobody held the lease
  // asked, left (its successor may come), taken, over (nobody has taken it in time)
  std::string state;
  bool in_progress() const { return state == "asked" || state == "left"; }
};

struct StreamWrite {
  SequenceNo sequence_no;
  std::string scope;
  Term term;
  std::string payload;
  std::int64_t created_at_ms = 0;
  std::optional<std::string> write_id;
};

struct StreamInfo {
  std::string stream;
  std::string scope;
  std::int64_t last_no = 0;
  std::optional<std::int64_t> first_no;  // none: everything was pruned, or nothing written
  std::int64_t created_at_ms = 0;
};

class Info {
 public:
  explicit Info(Database database) : database_(std::move(database)) {}

  std::optional<FenceInfo> fence(const Scope& scope);
  std::vector<FenceInfo> fences(std::string_view after = {}, int limit = 1000);  // in scope order

  std::optional<LeaseInfo> lease(const Scope& scope);
  std::vector<LeaseInfo> leases(std::string_view after = {}, int limit = 1000);
  // The last hand-over of the scope, or of every scope (none), newest first. Empty if the installed
  // layer 1 is too old to have hand-overs.
  std::vector<HandOverInfo> hand_overs(const std::optional<Scope>& scope = {}, int limit = 500);

  std::optional<StreamInfo> stream(const Stream& stream);
  std::vector<StreamInfo> streams(std::string_view after = {}, int limit = 1000);
  // Returns writes in order: at most `limit` of them with at most `bytes_max` bytes of payload, but
  // at least one if there is one. A large payload is fetched in parts, and is in memory once. If a
  // write is pruned while its payload is fetched, the page ends before it, or skips it if it is the
  // first. Throws Conflict if that happened in ten attempts.
  std::vector<StreamWrite> read_stream(
      const Stream& stream, SequenceNo after, int limit = 1000,
      std::size_t bytes_max = std::numeric_limits<std::size_t>::max());

  // How often writes were refused, by code. On PostgreSQL and SQLite this includes plain SQL;
  // elsewhere it is what libraries and proxies have reported.
  std::vector<std::pair<std::string, std::int64_t>> refusal_counts();
  // What this Database and its copies have done with leases so far.
  DatabaseStats stats() const;

 private:
  Database database_;
};

}  // namespace v0
}  // namespace termgate
