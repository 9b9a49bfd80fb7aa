// Operator: administration of a database: layer 1, roles, triggers on tables, audited changes of
// fences and leases, settings, audit.
//
//   Operator(db).install();
//   Operator(db).protect("jobs", {.scope_column = "queue"});
//
// Any thread; copies share the Database's connections. The levels of grant() say who may call what
// (docs/reference/security.md). `actor` and `reason` are kept in the audit.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>
#include <termgate/value.hpp>

namespace termgate {
inline namespace v0 {

struct HandOverOptions {
  // Who may take the lease meanwhile: an owner, or a prefix followed by *; empty: anybody but the
  // holder.
  std::string to = {};
  // The time in which the holder has to leave, 100 ms to 1 day.
  std::chrono::milliseconds drain{30'000};
  // For the audit; empty: the database's user.
  std::string actor = {};
  std::string reason = "planned";
};

struct Protection {
  // Where a row's scope comes from: give either a column or one scope for all rows.
  std::optional<std::string> scope_column = {};
  std::optional<std::string> scope = {};
  // "enforce", or "observe", which refuses nothing and counts what would have been refused.
  std::string mode = "enforce";
  // Put in front of the scope column's value: "river/" turns 17 into the scope "river/17".
  std::string prefix = {};
};

// One breach that the stored rows show.
struct Breach {
  std::string kind, scope, object, detail;
};

// One thing that is not protected.
struct Advice {
  std::string severity, object, problem, remedy;
};

struct AuditEntry {
  std::int64_t id = 0;
  std::int64_t at_ms = 0;
  std::string actor, client, action;
  std::optional<std::string> scope;
  std::string detail;  // JSON
};

struct AuditFilter {
  std::optional<std::string> scope = {};
  std::int64_t above_id = 0;
};

class Operator {
 public:
  explicit Operator(Database database) : database_(std::move(database)) {}

  // Installs or upgrades layer 1 (safe to run again, and concurrently). Returns the version before
  // and after.
  struct Installed {
    int from_version, to_version;
  };
  Installed install();
  int installed_version();  // 0: none
  void uninstall();

  // `level`: read, write, lead or operate. The role "public", which means every role, can have read
  // or write only. PostgreSQL and SQL Server only.
  void grant(std::string_view role, std::string_view level);
  // Removes every level; PostgreSQL only, else InvalidInput. The returned rows are the levels that
  // the role still has, each with the role through which it has it.
  Rows revoke(std::string_view role);

  // Adds the triggers that refuse unfenced and stale writes; the caller must own the table. Returns
  // how many tables are covered, partitions and children included.
  std::int64_t protect(std::string_view table, const Protection& protection);
  bool unprotect(std::string_view table);
  // Raises fences to the terms in the table, which is read once, as its owner; from then on a row
  // with a higher term raises the fence. NULL and terms below 1 do not count. Returns how many
  // fences the call raised.
  std::int64_t adopt(std::string_view table, std::string_view scope_column,
                     std::string_view term_column, std::string_view prefix = {});
  bool unadopt(std::string_view table);

  // The audited calls about fences after a restore or a promotion (F3). reset_fence returns the
  // previous fence, declare_restored the new one, the others the number of scopes.
  std::int64_t reset_fence(const Scope& scope, Term term, std::string_view actor,
                           std::string_view reason);
  Term declare_restored(const Scope& scope, Term above, std::string_view actor,
                        std::string_view reason);
  std::int64_t declare_nothing_lost(std::string_view actor, std::string_view reason);
  std::int64_t declare_untrusted(std::string_view actor, std::string_view reason);
  void set_raise_by(const Scope& scope, std::string_view mode);  // "writer" or "seal"

  // Ends a lease, whoever holds it, and seals the next term. False: there is none, or it was
  // already released.
  bool force_release(const Scope& scope, std::string_view actor, std::string_view reason);
  // Asks the holder of a lease to leave; it learns of that with its next renewal, on PostgreSQL
  // at once (HeldLease::asked_to_leave, LeaderLoop). During the drain only those whom options.to
  // allows can acquire the lease. If the holder has not left when the drain ends, the lease is
  // no longer renewed and expires, as after a crash. False: nobody holds it. A new request replaces
  // the last.
  bool request_hand_over(const Scope& scope, const HandOverOptions& options = {});

  // prune() deletes a stream's writes below `before`, prune_history() rows of the audit and of jobs
  // that are older than `older_than` (1 hour or more); fences stay. Both return the number of rows.
  std::int64_t prune(const Stream& stream, SequenceNo before);
  std::int64_t prune_history(std::chrono::milliseconds older_than);
  // Moves a stream to another scope. False: it is in that scope already.
  bool move_stream(const Stream& stream, const Scope& scope, std::string_view actor,
                   std::string_view reason);

  // doctor() returns what is not protected; verify() breaches that the stored rows show, without
  // stream writes from before `since_ms` (milliseconds since 1970; none: with all).
  std::vector<Advice> doctor();
  std::vector<Breach> verify(std::optional<std::int64_t> since_ms = {});

  Rows settings();  // name, value, what
  void set_setting(std::string_view name, std::string_view value);
  // Sets all of them, or throws and sets none.
  void set_settings(const std::vector<std::pair<std::string, std::string>>& names_and_values);

  std::vector<AuditEntry> audit(const AuditFilter& filter = {}, int limit = 100);  // newest first
  // The audit of one scope, newest first. Columns: at_ms, actor, client, action, detail.
  Rows explain(const Scope& scope, int limit = 100);

  // Records refusals that were made elsewhere (by a proxy, from memory). False: it is too soon
  // after the last report; add these to the next one. Refusals of a Database's own calls are
  // recorded without this.
  bool record_refusals(const Scope& scope, Term term, std::int64_t count, std::int64_t first_ms,
                       std::int64_t last_ms, std::string_view client);

 private:
  Database database_;
};

}  // namespace v0
}  // namespace termgate
