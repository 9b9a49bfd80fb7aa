// The port to one database: Database (storage/) uses PostgreSQL, SQL Server and SQLite through it
// alone. Internal; not part of the public API.
//
// A driver moves statements and values and turns the database's errors into termgate::Error types.
// It has no rules of fencing: sql/<database>/ defines what a check or a seal is, and Database makes
// the calls of sql/<database>/calls/ (listed in sql/README.md) through this port.
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

namespace termgate {
inline namespace v0 {
namespace detail {

struct Claim {
  const Scope& scope;
  Term term;
};

struct TransactOptions {
  bool read_only = false;
  Isolation isolation = Isolation::database_default;
  std::optional<std::chrono::milliseconds> timeout;  // for the work without COMMIT; none: no limit
  // The scope and term that the transaction writes under. A driver that can check them more cheaply
  // does it itself (OpenTransaction::fence).
  std::optional<Claim> claim = {};
};

// One open transaction, valid inside the callback that receives it, and on its thread only.
class OpenTransaction {
 public:
  virtual ~OpenTransaction() = default;
  virtual Rows call(sql::Call call, std::span<const Value> parameters) = 0;
  // Runs the user's statement; `$1`, `$2` … are parameters on every database, outside quotes and
  // comments.
  virtual Rows execute(std::string_view sql, std::span<const Value> parameters) = 0;
  // The fence that the driver has checked the claim against; none: it has not, and the caller must
  // check.
  virtual std::optional<std::int64_t> fence() const { return std::nullopt; }

  // Requests a rollback without an error: the transaction is rolled back when the callback returns,
  // and transact() returns.
  void give_up() noexcept { given_up_ = true; }
  bool given_up() const noexcept { return given_up_; }

 private:
  bool given_up_ = false;
};

struct PayloadLimits {
  std::size_t
      bytes_max;  // a payload, or all payloads of a batch together, have at most this many bytes
  std::size_t part_bytes;  // a longer payload is read in parts of this many bytes
};

struct InstallReport {
  int from_version = 0;  // 0: there was no layer 1
  int to_version = 0;
};

// One database. Any thread; owns its connections. Every call throws the types of
// <termgate/error.hpp>: Unavailable if the database was not reached, OutcomeUnknown if COMMIT was
// sent and not answered.
class Driver {
 public:
  virtual ~Driver() = default;

  // "postgresql", "sqlserver" or "sqlite"; for messages and benchmarks, and where databases behave
  // differently.
  virtual std::string_view kind() const noexcept = 0;
  virtual PayloadLimits payload_limits() const noexcept = 0;

  // Runs `work` once, on the caller's thread, in one transaction. When this returns, the
  // transaction is committed, and flushed as the database is configured, or it was rolled back by
  // give_up(). If `work` throws, the transaction is rolled back and the exception passed on.
  // Calling transact or call from inside `work` is refused with InvalidInput.
  virtual void transact(const TransactOptions& options,
                        const std::function<void(OpenTransaction&)>& work) = 0;

  // Checks the claim and runs the user's statement, as one transaction in one round trip. None:
  // this driver has no shorter way than transact().
  virtual std::optional<Rows> execute(const Claim&, std::string_view /*sql*/,
                                      std::span<const Value> /*parameters*/) {
    return std::nullopt;
  }

  // Runs one call as a transaction of its own, in one round trip if the database allows it.
  // `timeout`: how long it may take; a write that is given up half-way may have an unknown outcome.
  virtual Rows call(sql::Call call, std::span<const Value> parameters, bool read_only,
                    std::optional<std::chrono::milliseconds> timeout = std::nullopt) = 0;

  // Runs the user's own query; everything but reading is refused.
  virtual Rows query(std::string_view sql, std::span<const Value> parameters) = 0;

  // Installs or upgrades layer 1, in one transaction; running it again changes nothing.
  virtual InstallReport install() = 0;
  // Tests with two sessions whether the server's advisory locks exclude each other. Returns why
  // they do not; empty: they do, or this driver does not test them. PostgreSQL's install() calls it
  // first, and refuses if there is a problem.
  virtual std::string locks_problem() { return {}; }
  virtual int installed_version() = 0;  // 0: none
  virtual void uninstall() = 0;
  // `level`: "read", "write", "lead" or "operate".
  virtual void grant(std::string_view role, std::string_view level) = 0;
  // Returns rows of level and through: what the role still has, and which role it has it from.
  virtual Rows revoke(std::string_view role) = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace termgate
