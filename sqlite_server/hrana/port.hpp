// What a stream needs of the file that it reads and writes. hrana/ speaks the protocol and knows no SQLite; file/ is SQLite and knows no
// protocol; they meet here.
//
// A FileSession is one stream's. One thread at a time calls it, not always the same one. Calls block: for SQLite's work, and for the
// write lock at most for what layer 1's setting check_wait_ms says. Whoever must not block calls it on a worker.
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
// A value of a row, for as long as the call that gets it lasts. Text is UTF-8: a row with text that is none fails its statement.
using ValueView = std::variant<std::monostate, std::int64_t, double, std::string_view, BlobView>;

// Scope and term that a write is checked with. Both, or neither.
struct Claim {
  std::string scope;
  std::int64_t term = 0;
  bool none() const noexcept { return term == 0; }
  bool operator==(const Claim&) const = default;
};

// What may be done with a request's writes; it comes from rules, options and the token's level.
enum class Access : std::uint8_t {
  read_only,  // a token of level read: a write fails with SQLITE_AUTH
  fenced,     // a write without a claim fails with TG002
  unfenced,   // a write without a claim runs unchecked (--without-term allow)
};
struct Permit {
  Claim claim;
  Access access = Access::fenced;
  bool observe = false;         // --enforce observe: the check's refusal is counted and not obeyed
  bool claim_is_final = false;  // of a rule or a signed token: termgate_declare() may not change it
  std::string why_no_claim;     // what a write without a claim is refused with, code first, where a rule has no term now; empty: TG002
};

struct Column {
  std::string name;
  std::optional<std::string> declared_type;
};

struct Statement {
  std::string_view sql;
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;  // with or without their first letter : @ $
  bool wants_rows = true;
};

// Where rows go. A sink may throw, which ends the statement: Refused (an answer that is too large) reaches the stream as it is.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // Once, before the first row, also where no row comes.
  virtual void columns(std::span<const Column> columns) = 0;
  virtual void row(std::span<const ValueView> values) = 0;
};

struct Outcome {
  std::int64_t affected_rows = 0;
  std::optional<std::int64_t> last_insert_rowid;  // none: it has inserted nothing
  std::uint64_t rows_read = 0, rows_written = 0;
  double milliseconds = 0;
};

struct Parameter {
  std::optional<std::string> name;  // with its first letter; none: ?
};
struct Description {
  std::vector<Parameter> parameters;
  std::vector<Column> columns;
  bool explains = false;
  bool read_only = false;
};

// A statement has failed or was refused. The stream goes on: an error in a 200. `code` is TG001 to TG006, or SQLITE_CONSTRAINT and the
// like; the message begins with it where it is a TG code, and is SQLite's own text otherwise.
class Refused : public std::runtime_error {
 public:
  Refused(std::string code_given, const std::string& message, std::string extended = {})
      : std::runtime_error(message), code(std::move(code_given)), extended_code(std::move(extended)) {}
  std::string code, extended_code;      // SQLITE_CONSTRAINT, SQLITE_CONSTRAINT_UNIQUE
  std::optional<std::size_t> offset{};  // bytes into the statement's text
};

// The stream's transaction is over though its client did not end it: evicted for a higher term (TG001), for its silence
// (TRANSACTION_TIMEOUT), moved file (DATABASE_MOVED), drain. Nothing of it was written. A status 400 for this and every later request of
// the stream, and never an error in a 200: a client that reads a 200 goes on in autocommit.
class Lost : public std::runtime_error {
 public:
  Lost(std::string code_given, const std::string& message) : std::runtime_error(message), code(std::move(code_given)) {}
  std::string code;
};

// A COMMIT of which nobody knows whether it was kept: status 500, code OUTCOME_UNKNOWN. The stream is lost, too.
class Unknown : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Nothing was run, because this server has too much to do: status 503 with Retry-After, code SERVER_BUSY.
class Busy : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class FileSession {
 public:
  // Rolls back.
  virtual ~FileSession() = default;

  // The one statement of the text: SQL_NO_STATEMENT, SQL_MANY_STATEMENTS where it has none or more. BEGIN, COMMIT, SAVEPOINT and so on are
  // statements like others. In autocommit a write is committed, and flushed, when this returns; its rows come to the sink after that.
  // Throws Refused, Lost, Unknown, Busy.
  virtual Outcome execute(const Statement& statement, const Permit& permit, RowSink& rows) = 0;
  // All statements of the text, one after the other, to the first that fails; no transaction of its own.
  virtual void sequence(std::string_view sql, const Permit& permit) = 0;
  // Runs nothing and needs no claim. Throws Refused.
  virtual Description describe(std::string_view sql, const Permit& permit) = 0;

  // Throws Lost where the transaction was lost and no call has thrown it yet. The stream looks here at the end of each request.
  virtual bool is_autocommit() const = 0;
  // A setting that differs from its default (PRAGMA foreign_keys = off, query_only, termgate_declare()).
  virtual bool keeps_settings() const = 0;

  // Runs `work`, which runs the statements `texts` in this order or fails, as one member of a group commit, where that comes to the same:
  // the texts are BEGIN, some statements, COMMIT, and perhaps a ROLLBACK for the failure of one. False: nothing was done, and the caller
  // runs them one by one. While `work` runs, BEGIN, COMMIT and ROLLBACK are understood within it; the flush is waited for before this
  // returns, so the caller answers afterwards. Throws Refused, Unknown, Busy: nothing of it was kept (or it is unknown), whatever `work`
  // has seen.
  virtual bool together(std::span<const std::string_view> texts, const Permit& permit, const std::function<void()>& work) = 0;

  // The stream's end, by its client or by the server: rolls back, drops settings. `why`: what later calls throw; none: nothing is lost.
  virtual void end(const Lost* why) noexcept = 0;

  // The client has the answer, and is silent from now on; or its next request is whole. For how long a holder of the lock may be silent is
  // counted between the two.
  virtual void answered() noexcept = 0;
  virtual void heard() noexcept = 0;
};

}  // namespace termgate::hrana
