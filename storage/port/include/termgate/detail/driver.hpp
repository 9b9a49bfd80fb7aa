// The port to one database: the only thing that Database (storage/) knows of PostgreSQL or SQLite.
// Internal; not part of the public API.
//
// A driver moves statements and values and turns the database's errors into termgate::Error types. It
// has no rules of fencing: what a check or a seal is, sql/<database>/ says, and Database makes the calls
// of sql/<database>/calls/ (listed in sql/README.md) through this port.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/isolation.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>
#include <termgate/value.hpp>

namespace termgate::sql {
enum class Call : std::uint8_t;  // generated from sql/<database>/calls/ by sql/embed.cmake
}

namespace termgate::inline v0::detail {

struct Claim {
  const Scope& scope;
  Term term;
};

struct TransactOptions {
  bool read_only = false;
  Isolation isolation = Isolation::database_default;
  std::optional<std::chrono::milliseconds> timeout;  // for the work, COMMIT excluded; none: no limit
  // What the transaction writes under. A driver that can do so at less cost passes the check by itself (OpenTransaction::fence).
  std::optional<Claim> claim = {};
};

// One open transaction, valid inside the callback that it is handed to. That callback's thread only.
class OpenTransaction {
 public:
  virtual ~OpenTransaction() = default;
  virtual Rows call(sql::Call call, std::span<const Value> parameters) = 0;
  // Runs the user's statement; `$1`, `$2` … are parameters on every database, outside quotes and comments.
  virtual Rows execute(std::string_view sql, std::span<const Value> parameters) = 0;
  // The fence by which the driver has let the claim pass; none: it has not, and the caller checks.
  virtual std::optional<std::int64_t> fence() const { return std::nullopt; }

  // Nothing of it is to stay: it is rolled back when the callback returns, and transact() returns.
  void give_up() noexcept { given_up_ = true; }
  bool given_up() const noexcept { return given_up_; }

 private:
  bool given_up_ = false;
};

struct PayloadLimits {
  std::size_t bytes_max;   // a payload, or all of a batch together, has at most so many
  std::size_t part_bytes;  // a longer one is read in parts of so many
};

struct InstallReport {
  int from_version = 0;  // 0: nothing was there
  int to_version = 0;
};

// One database. Any thread; owns its connections. Every call throws the types of <termgate/error.hpp>:
// Unavailable where the database was not reached, OutcomeUnknown where COMMIT was sent and not answered.
class Driver {
 public:
  virtual ~Driver() = default;

  // "postgresql", "sqlserver" or "sqlite"; for messages and bench.
  virtual std::string_view kind() const noexcept = 0;
  virtual PayloadLimits payload_limits() const noexcept = 0;

  // Runs `work` in one transaction and commits it; when this returns, it is committed and flushed as the
  // database is set up, or rolled back (give_up()). Whatever `work` throws rolls back and comes out unchanged. `work` runs once, on
  // the caller's thread. Calling transact or call from inside `work` is refused with InvalidInput.
  virtual void transact(const TransactOptions& options, const std::function<void(OpenTransaction&)>& work) = 0;

  // The check for the claim and the user's statement after it, as a transaction of its own, in one round trip. None: this driver has no way
  // that is shorter than transact().
  virtual std::optional<Rows> execute(const Claim&, std::string_view /*sql*/, std::span<const Value> /*parameters*/) {
    return std::nullopt;
  }

  // One call as a transaction of its own, in one round trip where the database allows it. `timeout`: how long it
  // may take; a write that is given up on the way may be of unknown outcome.
  virtual Rows call(sql::Call call, std::span<const Value> parameters, bool read_only,
                    std::optional<std::chrono::milliseconds> timeout = std::nullopt) = 0;

  // The user's own query, which the database holds to reading.
  virtual Rows query(std::string_view sql, std::span<const Value> parameters) = 0;

  // Layer 1: installs or upgrades (idempotent, one transaction), tells the installed version (0: none),
  // takes it away, gives a role its grant ("read", "write", "lead", "operate").
  virtual InstallReport install() = 0;
  // Tries with two sessions of its own whether the server's advisory locks exclude. Why they do not; empty: they do, or layer 1 does not
  // need them. install() asks first, and refuses.
  virtual std::string locks_problem() { return {}; }
  virtual int installed_version() = 0;
  virtual void uninstall() = 0;
  virtual void grant(std::string_view role, std::string_view level) = 0;
  // Rows of level and through: what the role keeps, and from whom.
  virtual Rows revoke(std::string_view role) = 0;
};

}  // namespace termgate::inline v0::detail
