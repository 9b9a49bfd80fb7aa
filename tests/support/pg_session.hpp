// Sessions of a real PostgreSQL server for tests that force every step: a statement is sent, the
// server shows that it waits, another session goes on. Nothing here sleeps to be right;
// wait_until() only polls for what the server already says.
#pragma once

#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <libpq-fe.h>
#include <unistd.h>

#include <termgate/database.hpp>
#include <termgate/operator.hpp>

namespace termgate::test {

// What a statement came to: the SQLSTATE ("" when it went well, "lost" when the connection did),
// the message, and the rows as text.
struct PgResult {
  std::string code;
  std::string message;
  std::vector<std::vector<std::string>> rows;

  bool ok() const { return code.empty(); }
  // The server ended the session, whether or not its last word still came through.
  bool ended() const { return code == "57P01" || code == "lost"; }
  std::string value() const { return rows.empty() || rows[0].empty() ? "" : rows[0][0]; }
};

class PgSession {
 public:
  explicit PgSession(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
    if (PQstatus(connection_) != CONNECTION_OK) {
      const std::string why = PQerrorMessage(connection_);
      PQfinish(connection_);
      throw std::runtime_error(why);
    }
    PQsetNoticeProcessor(
        connection_, [](void*, const char*) {}, nullptr);
    pid_ = PQbackendPID(connection_);
  }
  ~PgSession() { PQfinish(connection_); }
  PgSession(const PgSession&) = delete;
  PgSession& operator=(const PgSession&) = delete;

  int pid() const { return pid_; }
  PGconn* raw() { return connection_; }

  // The result of the last statement in `sql`, or of the first that failed.
  PgResult run(const std::string& sql) { return result_of(PQexec(connection_, sql.c_str())); }

  // As run(), for statements that must go well.
  PgResult must(const std::string& sql) {
    PgResult result = run(sql);
    if (!result.ok()) throw std::runtime_error(sql + ": " + result.code + " " + result.message);
    return result;
  }
  // Those that came with the last answers.
  int notifications() {
    int count = 0;
    PQconsumeInput(connection_);
    while (PGnotify* one = PQnotifies(connection_)) {
      PQfreemem(one);
      ++count;
    }
    return count;
  }
  std::string value(const std::string& sql) { return must(sql).value(); }

  // Sends and comes back at once; finish() waits for the result.
  void send(const std::string& sql) {
    if (PQsendQuery(connection_, sql.c_str()) == 0)
      throw std::runtime_error(PQerrorMessage(connection_));
  }
  bool busy() {
    PQconsumeInput(connection_);
    return PQisBusy(connection_) != 0;
  }
  PgResult finish() {
    PgResult last;
    bool failed = false;
    while (PGresult* result = PQgetResult(connection_)) {
      PgResult one = result_of(result);
      if (!failed) last = std::move(one);
      failed = failed || !last.ok();
    }
    return last;
  }
  void cancel() {
    char text[256];
    PGcancel* handle = PQgetCancel(connection_);
    PQcancel(handle, text, sizeof text);
    PQfreeCancel(handle);
  }

 private:
  PgResult result_of(PGresult* raw) {
    PgResult result;
    const auto status = PQresultStatus(raw);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
      const char* state = PQresultErrorField(raw, PG_DIAG_SQLSTATE);
      result.code = state != nullptr ? state : "lost";
      const char* primary = PQresultErrorField(raw, PG_DIAG_MESSAGE_PRIMARY);
      result.message = primary != nullptr ? primary : PQerrorMessage(connection_);
    }
    for (int row = 0; row < PQntuples(raw); ++row) {
      result.rows.emplace_back();
      for (int column = 0; column < PQnfields(raw); ++column)
        result.rows.back().emplace_back(PQgetvalue(raw, row, column));
    }
    PQclear(raw);
    return result;
  }

  PGconn* connection_;
  int pid_ = 0;
};

// Polls until `condition` holds; throws after thirty seconds, naming what it waited for.
inline void wait_until(const std::string& what, const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until)
      throw std::runtime_error("waited in vain for: " + what);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// A database of its own with layer 1 in it, on the server of TERMGATE_TEST_POSTGRESQL; dropped at
// the end.
class PgDatabase {
 public:
  enum class Install { layer_1, none };
  explicit PgDatabase(const std::string& name, Install install = Install::layer_1)
      : server_(std::getenv("TERMGATE_TEST_POSTGRESQL")),
        name_(name + "_" + std::to_string(getpid())) {
    PgSession admin(server_);
    admin.run("DROP DATABASE IF EXISTS " + name_ + " WITH (FORCE)");
    admin.must("CREATE DATABASE " + name_);
    url_ = server_.substr(0, server_.rfind('/') + 1) + name_;
    if (install == Install::layer_1) Operator(Database::open(url_)).install();
  }
  ~PgDatabase() {
    try {
      PgSession(server_).run("DROP DATABASE IF EXISTS " + name_ + " WITH (FORCE)");
    } catch (const std::exception&) {  // a test that failed has said why already
    }
  }
  PgDatabase(const PgDatabase&) = delete;
  PgDatabase& operator=(const PgDatabase&) = delete;

  const std::string& url() const { return url_; }

  // Installs layer 1 as a role of its own that is no superuser, as docs/reference/security.md
  // advises; `rights` is what it is granted besides CREATE on the database.
  void install_as(const std::string& owner, const std::string& rights = "pg_signal_backend") {
    PgSession admin(url_);
    admin.run("CREATE ROLE " + owner + " LOGIN");
    admin.must("GRANT CREATE ON DATABASE " + name_ + " TO " + owner);
    if (!rights.empty()) admin.must("GRANT " + rights + " TO " + owner);
    Operator(Database::open(url_as(owner, ""))).install();
  }

  // The URL for another role, made on first use and granted that level.
  std::string url_as(const std::string& role, const std::string& level) const {
    PgSession admin(url_);
    admin.run("CREATE ROLE " + role + " LOGIN");
    if (!level.empty()) admin.must("SELECT termgate.grant_level('" + role + "', '" + level + "')");
    const auto at = url_.find("postgres@");
    return url_.substr(0, at) + role + url_.substr(at + 8);
  }

 private:
  std::string server_;
  std::string name_;
  std::string url_;
};

// Whether the session waits for a lock that is not granted, as the server sees it.
inline bool waits_for_lock(PgSession& observer, const PgSession& session) {
  return observer.value("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = " +
                        std::to_string(session.pid())) != "0";
}
inline void wait_for_lock(PgSession& observer, const PgSession& session) {
  wait_until("session " + std::to_string(session.pid()) + " to wait for a lock",
             [&] { return waits_for_lock(observer, session); });
}

}  // namespace termgate::test
