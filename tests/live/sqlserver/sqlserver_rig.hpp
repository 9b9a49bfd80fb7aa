// A live T-SQL server for tests: plain sessions as any client has them, a database with layer 1,
// and clients in processes of their own that are frozen or lost. TERMGATE_TEST_SQLSERVER names the
// server (a login that may create databases and end sessions).
#pragma once

#include <catch2/catch.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/operator.hpp>

#include <termgate/detail/odbc/connection.hpp>

namespace termgate::test {

namespace odbc = detail::odbc;

// What waits for so long waits for ever. The shorter bounds of Termgate itself pass slowly on a
// machine that is busy.
inline constexpr std::chrono::seconds hang{60};

inline odbc::Connection connect(const std::string& url) {
  return odbc::Connection(odbc::connection_string_of(url), std::chrono::seconds(10));
}

// The connection string of `url` with other values for some keys.
inline std::string with(const std::string& url,
                        const std::vector<std::pair<std::string, std::string>>& changes) {
  const auto text = odbc::connection_string_of(url);
  std::string result = "odbc:";
  const auto add = [&](const std::string& key, const std::string& value) {
    result += key + "=" + odbc::quoted_value(key, value, text.maker) + ";";
  };
  for (const auto& [key, value] : odbc::attributes_of(text.text)) {
    bool changed = false;
    for (const auto& [name, instead] : changes) changed = changed || name == key;
    if (!changed) add(key, value);
  }
  for (const auto& [key, value] : changes) add(key, value);
  return result;
}

// One session; what the server refuses comes out as its number and message.
class Session {
 public:
  explicit Session(const std::string& url) : connection_(connect(url)) {
    connection_.run("SET XACT_ABORT ON; SET LOCK_TIMEOUT 2000");
  }

  Rows run(const std::string& statement) { return connection_.run(statement); }
  std::int64_t number(const std::string& statement) { return run(statement).one()[0].as_int(); }

  // What the refusal says, or nothing where there was none.
  std::optional<std::string> refusal(const std::string& statement) {
    try {
      run(statement);
      return std::nullopt;
    } catch (const odbc::OdbcError& failure) {
      std::string all;
      for (const auto& one : failure.diagnostics)
        all += std::to_string(one.native) + " " + odbc::plain_message(one.message) + "\n";
      return all;
    }
  }

 private:
  odbc::Connection connection_;
};

inline std::string write_row(int term) {
  return "INSERT INTO dbo.ledger (term) VALUES (" + std::to_string(term) + ")";
}
inline std::string check(const std::string& scope, int term) {
  return "DECLARE @fence bigint; EXEC termgate.check_term @scope = N'" + scope +
         "', @term = " + std::to_string(term) + ", @fence = @fence OUTPUT";
}
inline std::string seal(const std::string& scope, int term, int grace_ms = 200) {
  return "EXEC termgate.seal @scope = N'" + scope + "', @term = " + std::to_string(term) +
         ", @grace_ms = " + std::to_string(grace_ms);
}

// A database with layer 1 and a ledger, gone when the test ends.
struct Rig {
  Rig() : server(std::getenv("TERMGATE_TEST_SQLSERVER")) {
    static int count = 0;
    name = "live_law_" + std::to_string(getpid()) + "_" + std::to_string(count++);
    connect(server).run("CREATE DATABASE " + name);
    url = with(server, {{"Database", name}});
    Operator(Database::open(url)).install();
    Session session(url);
    session.run(
        "CREATE TABLE dbo.ledger (id int IDENTITY(1, 1) NOT NULL PRIMARY KEY, term bigint NOT "
        "NULL)");
    session.run("UPDATE termgate.settings SET value = N'1000' WHERE name = 'check_wait_ms'");
    sees_locks =
        session.number(
            "SELECT CASE WHEN OBJECT_ID(N'sys.dm_tran_locks') IS NULL THEN 0 ELSE 1 END") == 1;
  }
  ~Rig() {
    try {
      connect(server).run("DROP DATABASE " + name);
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "database %s is left over: %s\n", name.c_str(), failure.what());
    }
  }
  std::int64_t rows(int term) {
    return Session(url).number("SELECT COUNT_BIG(*) FROM dbo.ledger WHERE term = " +
                               std::to_string(term));
  }

  std::string server, name, url;
  bool sees_locks = false;  // whether the server tells who holds a lock: without it nobody can be
                            // evicted, only named as unseen
};

// A client of its own process, frozen after `begin` and before `end`.
class Frozen {
 public:
  Frozen(const std::string& url, const std::function<void(Session&)>& begin,
         const std::function<void(Session&)>& end) {
    int pipes[2];
    REQUIRE(pipe(pipes) == 0);
    process_ = fork();
    REQUIRE(process_ >= 0);
    if (process_ == 0) {
      int outcome = 3;
      try {
        Session session(url);
        const int id = static_cast<int>(session.number("SELECT CAST(@@SPID AS bigint)"));
        begin(session);
        if (write(pipes[1], &id, sizeof id) != sizeof id) _exit(4);
        ::raise(SIGSTOP);
        outcome = 1;
        end(session);
        outcome = 0;
      } catch (...) {}
      _exit(outcome);
    }
    close(pipes[1]);
    const bool told = read(pipes[0], &session_id, sizeof session_id) == sizeof session_id;
    close(pipes[0]);
    REQUIRE(told);
    int status = 0;
    REQUIRE(waitpid(process_, &status, WUNTRACED) == process_);
    REQUIRE(WIFSTOPPED(status));
  }
  Frozen(const Frozen&) = delete;
  ~Frozen() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  // Lets it go on; 0: `end` ended well, 1: a statement of it failed.
  int thaw() {
    kill(process_, SIGCONT);
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int session_id = 0;

 private:
  pid_t process_ = -1;
};

// Has checked and written, and is frozen before its COMMIT.
inline Frozen frozen_writer(const std::string& url, const std::string& scope, int term) {
  return Frozen(
      url,
      [&](Session& session) {
        session.run("BEGIN TRANSACTION");
        session.run(check(scope, term));
        session.run(write_row(term));
      },
      [&](Session& session) {
        session.run(write_row(term));
        session.run("COMMIT TRANSACTION");
      });
}

}  // namespace termgate::test
