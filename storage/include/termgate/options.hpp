// The options of Database::open(), write() and append(). Plain data; the defaults are right for
// most.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <termgate/isolation.hpp>
#include <termgate/scope.hpp>
#include <termgate/stats.hpp>
#include <termgate/term.hpp>
#include <termgate/write_id.hpp>

namespace termgate {
inline namespace v0 {

struct OpenOptions {
  // PostgreSQL and SQL Server: the schema of layer 1.
  std::string schema = "termgate";

  // The most connections for calls, 1 or more; SQLite has one that writes and at least one that
  // reads. If all are busy, a call waits for one, at most check_wait, then throws Blocked. Not
  // counted: those for renewals of held leases, and on PostgreSQL for notifications and seats.
  int connections_max = 64;

  // SQLite: how long a call waits for its turn or another process's lock; none: the setting
  // check_wait_ms (default 5 s). PostgreSQL, ODBC: how long it waits for a free connection; none:
  // 5 s. For locks the database's setting applies there.
  std::optional<std::chrono::milliseconds> check_wait = {};

  // PostgreSQL, ODBC (whole seconds, by the driver): how long one answer may take, COMMIT's
  // included (then OutcomeUnknown), before the connection is closed. 0: without limit, because a
  // statement may take long. A server that is gone is noticed anyway: a connection attempt ends
  // after 10 s, and on PostgreSQL a peer that has vanished from the network is noticed after 60 s,
  // unless the URL sets other values there (connect_timeout, keepalives_idle, keepalives_interval,
  // keepalives_count, tcp_user_timeout).
  std::chrono::milliseconds answer_wait{0};

  // Called after each acquisition, renewal and release of a lease by this Database, its handles and
  // its loops, on the thread that made the call: write a line, and return at once. What it throws
  // is ignored. Terms are no secrets.
  std::function<void(const LeaseCall&)> lease_log = {};
};

struct WriteOptions {
  // Makes the write repeatable after OutcomeUnknown.
  std::optional<WriteId> write_id = {};

  // For the check and the work, but not for COMMIT; none: no limit. When it is over, Unavailable is
  // thrown, up to a second later if the server is silent.
  std::optional<std::chrono::milliseconds> timeout = {};

  Isolation isolation = Isolation::database_default;

  // How often the callback runs again after Conflict; 0: never.
  int retries = 0;

  // If given, the write is committed only if this owner holds the scope's lease under the write's
  // term when the work has returned, by the database's clock. Otherwise LeaseLost is thrown, and
  // nothing was written. So a late holder is refused even if nobody took over. Needs an isolation
  // level in which each statement sees what was committed before it; every database's default is
  // one.
  std::optional<std::string> lease_owner = {};
};

struct AppendOptions {
  // The last number that the writer has seen. If the stream has another one: SequenceConflict.
  std::optional<SequenceNo> expected = {};

  // A stream's scope is fixed by its first write.
  std::optional<Scope> scope = {};

  std::optional<WriteId> write_id = {};
};

}  // namespace v0
}  // namespace termgate
