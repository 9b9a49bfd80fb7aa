// One session of a PostgreSQL server, by libpq.
//
// Each statement is sent by the extended protocol, which takes one statement only, so no text can smuggle in a second one after the check.
// Several of them can share a round trip (run_all). Transactions are the caller's: nothing here begins or ends one.
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

namespace termgate::inline v0::detail {

// What a statement, or the making of a connection, failed with. sqlstate: the server's; empty: libpq's own complaint. message: as libpq has
// it, with severity, hint and context.
class ServerFailure : public std::exception {
 public:
  ServerFailure(std::string sqlstate, std::string message) : sqlstate_(std::move(sqlstate)), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& sqlstate() const noexcept { return sqlstate_; }

 private:
  std::string sqlstate_, message_;
};

struct Statement {
  std::string_view sql;
  std::span<const Value> parameters = {};
};

// One call, and so one thread, uses it at a time. What fails throws ServerFailure; parameters that PostgreSQL cannot take, InvalidInput.
class Connection {
 public:
  explicit Connection(const std::string& conninfo);

  // Before a statement is run: the second time that it is seen it is prepared, a round trip of its own in which nothing is written yet.
  void prepare(std::string_view sql);
  // In one round trip. Outside BEGIN they are one transaction, which has ended when this returns. The result of each; of the first that
  // fails, its error.
  std::vector<Rows> run_all(std::span<const Statement> statements);
  Rows run(const Statement& statement);
  // Simple protocol: several statements in one text. Only for texts of our own. The rows of the last one.
  Rows run_script(const std::string& sql);

  // False when the server has closed the connection while it lay idle: asking costs no round trip, and a write sent on a dead connection
  // would end as "unknown" without need. One that answered within 5 ms is not looked at, to save a system call for each
  // statement.
  bool looks_alive() const;
  // Before COMMIT: a session that has ended by now is found out without sending it, and its write is then surely not there. What else lies
  // in the socket (a notice, a changed parameter) is taken up on the way.
  void expect_alive();
  bool is_open() const { return !given_up_ && PQstatus(session_.get()) == CONNECTION_OK; }
  bool in_transaction() const { return PQtransactionStatus(session_.get()) != PQTRANS_IDLE; }
  int socket() const { return PQsocket(session_.get()); }
  // The process number of the server session, as the server sent it at the start. A pooler sends another session's, or a made-up one.
  int pid() const { return PQbackendPID(session_.get()); }
  std::string_view database() const { return text(PQdb(session_.get())); }
  std::string_view host() const { return text(PQhost(session_.get())); }
  std::string_view port() const { return text(PQport(session_.get())); }

  // What was notified to channels that this session listens to, and lies in the socket: payloads.
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
  [[noreturn]] void fail(const Statement* statement = nullptr, const PGresult* result = nullptr) const;
  const std::string* prepared(std::string_view sql) const;
  Rows rows_of(Result result, const Statement* statement);
  bool has_nothing_to_read() const;

  std::unique_ptr<PGconn, Close> session_;
  std::chrono::steady_clock::time_point answered_{};
  bool given_up_ = false;                                 // it is in the middle of something that nobody here can end
  std::map<std::string, std::string, std::less<>> seen_;  // statements, and the names of those that are prepared
};

}  // namespace termgate::inline v0::detail
