// What a stream needs from the file that it reads and writes. hrana/ implements the protocol
// without knowing SQLite; file/ implements it on SQLite without knowing the protocol. This is their
// interface.
//
// Each stream has one FileSession. One thread at a time calls it, not always the same one. Calls
// block: for SQLite's work, for a connection of the pool, and for the turn to write and the write
// lock, each of these two at most as long as layer 1's setting check_wait_ms. A thread that must
// not block leaves the calls to a worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace termgate::hrana {

struct Blob {
  std::string bytes;
  bool operator==(const Blob&) const = default;
};
// A parameter: NULL, integer, float, text, blob.
using Value = std::variant<std::monostate, std::int64_t, double, std::string, Blob>;

struct BlobView {
  std::string_view bytes;
};
// A value of a row, valid during the call that receives it. Text is UTF-8: a row with other text
// fails its statement.
using ValueView = std::variant<std::monostate, std::int64_t, double, std::string_view, BlobView>;

// The scope and term that a write is checked with: both or neither.
struct Claim {
  std::string scope;
  std::int64_t term = 0;
  bool none() const noexcept { return term == 0; }
  bool operator==(const Claim&) const = default;
};

// How a request's writes are treated, by rules, options and the token's level.
enum class Access : std::uint8_t {
  read_only,  // a token of level read: a write fails with SQLITE_AUTH
  fenced,     // a write without a claim fails with TG002
  unfenced,   // a write without a claim runs unchecked (--without-term allow)
};
struct Permit {
  Claim claim;
  Access access = Access::fenced;
  bool observe = false;  // --enforce observe: refusals of the check are counted and ignored
  bool claim_is_final =
      false;  // from a rule or a signed token: termgate_declare() may not change it
  // The message for a write without a claim while a rule has no term, beginning with the code;
  // empty: TG002.
  std::string why_no_claim;
};

struct Column {
  std::string name;
  std::optional<std::string> declared_type;
};

struct Statement {
  std::string_view sql;
  std::vector<Value> positional;
  // The names may come without their first character, which is : @ $ or ?.
  std::vector<std::pair<std::string, Value>> named;
  bool wants_rows = true;
};

// Receives rows. A sink may throw, which ends the statement: Refused (an answer that is too large)
// reaches the stream unchanged.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // Called once, before the first row, even if there is no row.
  virtual void columns(std::span<const Column> columns) = 0;
  virtual void row(std::span<const ValueView> values) = 0;
};

struct Outcome {
  std::int64_t affected_rows = 0;
  std::optional<std::int64_t> last_insert_rowid;  // none: nothing was inserted
  std::uint64_t rows_read = 0, rows_written = 0;
  double milliseconds = 0;
};

struct Parameter {
  std::optional<std::string> name;  // with its first character; none: ?
};
struct Description {
  std::vector<Parameter> parameters;
  std::vector<Column> columns;
  bool explains = false;
  bool read_only = false;
};

// A statement failed or was refused. The stream continues: the error is part of a 200. `code` is
// TG001 to TG007, or a name such as SQLITE_CONSTRAINT. With a TG code, the message begins with it.
class Refused : public std::runtime_error {
 public:
  Refused(std::string code_given, const std::string& message, std::string extended = {})
      : std::runtime_error(message),
        code(std::move(code_given)),
        extended_code(std::move(extended)) {}
  std::string code, extended_code;      // such as SQLITE_CONSTRAINT and SQLITE_CONSTRAINT_UNIQUE
  std::optional<std::size_t> offset{};  // in bytes, within the statement's text
};

// The server has ended the stream's transaction, for example for a higher term (TG001), for the
// client's silence (TRANSACTION_TIMEOUT) or because the file was moved (DATABASE_MOVED). Nothing of
// it was written, unless `code` is OUTCOME_UNKNOWN. This and every later request of the stream gets
// status 400, and never an error in a 200: a client that reads a 200 would go on in autocommit.
class Lost : public std::runtime_error {
 public:
  Lost(std::string code_given, const std::string& message)
      : std::runtime_error(message), code(std::move(code_given)) {}
  std::string code;
};

// A COMMIT whose outcome is unknown: status 500, code OUTCOME_UNKNOWN. The stream is lost, too.
class Unknown : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Nothing was run because the server is overloaded: status 503 with Retry-After, code SERVER_BUSY.
class Busy : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class FileSession {
 public:
  // Rolls back.
  virtual ~FileSession() = default;

  // Runs the text's only statement; SQL_NO_STATEMENT or SQL_MANY_STATEMENTS if it has none or
  // several. BEGIN, COMMIT, SAVEPOINT and so on are statements like others. In autocommit a write
  // is committed and flushed before its rows are sent to the sink. Throws Refused, Lost, Unknown,
  // Busy.
  virtual Outcome execute(const Statement& statement, const Permit& permit, RowSink& rows) = 0;
  // Runs all statements of the text in order, until one fails, without a transaction around them.
  // Throws as execute() does; Busy only if none has run.
  virtual void sequence(std::string_view sql, const Permit& permit) = 0;
  // Runs nothing and needs no claim. Throws Refused, Lost, Busy.
  virtual Description describe(std::string_view sql, const Permit& permit) = 0;

  // Throws Lost if the stream's transaction was lost. The stream calls this at the end of each
  // request.
  virtual bool is_autocommit() const = 0;
  // Whether a setting differs from its default (PRAGMA foreign_keys = off, query_only,
  // termgate_declare()).
  virtual bool keeps_settings() const = 0;

  // Runs `work`, which runs the statements `texts` in this order or fails, as one member of a group
  // commit, if that is equivalent: the texts are BEGIN, some statements, COMMIT, and perhaps a
  // ROLLBACK in case one fails. False: nothing was done, and the caller runs them one by one. While
  // `work` runs, BEGIN, COMMIT and ROLLBACK apply within the member. This returns after the flush,
  // so the caller answers afterwards. Throws Refused, Lost, Unknown, Busy: nothing of it was kept
  // (or that is unknown), whatever `work` has seen.
  virtual bool together(std::span<const std::string_view> texts, const Permit& permit,
                        const std::function<void()>& work) = 0;

  // Ends the stream, for its client or for the server: rolls back and drops settings. `why`: what
  // later calls throw; nullptr: they throw no loss.
  virtual void end(const Lost* why) noexcept = 0;

  // answered(): the client has the answer. heard(): its next request is complete. The time between
  // the two counts as silence of a client that holds the lock.
  virtual void answered() noexcept = 0;
  virtual void heard() noexcept = 0;
};

}  // namespace termgate::hrana
