// One session of a PostgreSQL server, through libpq.
//
// Statements are sent with the extended protocol, which accepts a single statement, so no text can
// add a second one after the check. Several of them can share a round trip (run_all). The caller
// begins and ends transactions.
#pragma once

#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

#include <termgate/value.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

// The failure of a statement or of connecting. sqlstate: the server's; empty: the error is libpq's
// own. message: as libpq has it, with severity, hint and context.
class ServerFailure : public std::exception {
 public:
  ServerFailure(std::string sqlstate, std::string message)
      : sqlstate_(std::move(sqlstate)), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& sqlstate() const noexcept { return sqlstate_; }

 private:
  std::string sqlstate_, message_;
};

struct Statement {
  std::string_view sql;
  std::span<const Value> parameters = {};
};

// Used by one call, and so by one thread, at a time. Failures are thrown as ServerFailure,
// unsuitable parameters as InvalidInput.
class Connection {
 public:
  explicit Connection(const std::string& conninfo);

  // Call it before a statement is run: a statement that is seen for the second time gets prepared,
  // in a round trip in which nothing is written yet.
  void prepare(std::string_view sql);
  // Runs the statements in one round trip. Outside BEGIN they are one transaction, which has ended
  // when this returns. Returns the result of each; throws the error of the first that fails.
  std::vector<Rows> run_all(std::span<const Statement> statements);
  Rows run(const Statement& statement);
  // Uses the simple protocol, for several statements in one text; only for texts of the library.
  // Returns the rows of the last one.
  Rows run_script(const std::string& sql);

  // False if the server has closed the connection while it was idle. Looking costs no round trip,
  // and a write sent on a dead connection would end as "unknown" without need. A connection that
  // answered within the last 5 ms is not looked at, which saves a system call for each statement.
  bool looks_alive() const;
  // Call it before COMMIT: it throws if the session has already ended. COMMIT is then not sent, so
  // the write surely did not happen. Other messages in the socket (a notice, a changed parameter)
  // are processed.
  void expect_alive();
  bool is_open() const { return !given_up_ && PQstatus(session_.get()) == CONNECTION_OK; }
  bool in_transaction() const { return PQtransactionStatus(session_.get()) != PQTRANS_IDLE; }
  int socket() const { return PQsocket(session_.get()); }
  // The process number of the server session, as the server sent it at the start. Through a pooler
  // it is another session's, or invented.
  int pid() const { return PQbackendPID(session_.get()); }
  std::string_view database() const { return text(PQdb(session_.get())); }
  std::string_view host() const { return text(PQhost(session_.get())); }
  std::string_view port() const { return text(PQport(session_.get())); }

  // Payloads of notifications that have already arrived for channels that this session listens to.
  std::vector<std::string> notified();

 private:
  struct Close {
    void operator()(PGconn* session) const { PQfinish(session); }
  };
  struct Clear {
    void operator()(PGresult* result) const { PQclear(result); }
  };
  using Result = std::unique_ptr<PGresult, Clear>;
  class Sent;

  static std::string_view text(const char* word) { return word != nullptr ? word : ""; }
  [[noreturn]] void fail(const Statement* statement = nullptr,
                         const PGresult* result = nullptr) const;
  const std::string* prepared(std::string_view sql) const;
  Rows rows_of(Result result, const Statement* statement);
  bool has_nothing_to_read() const;

  std::unique_ptr<PGconn, Close> session_;
  std::chrono::steady_clock::time_point answered_{};
  bool given_up_ = false;  // it is in the middle of something that cannot be completed
  std::map<std::string, std::string, std::less<>>
      seen_;  // statements seen so far, with names for those that are prepared
};

}  // namespace detail
}  // namespace v0
}  // namespace termgate
