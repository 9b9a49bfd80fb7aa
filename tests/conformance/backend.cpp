#include "backend.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#ifdef TERMGATE_TEST_WITH_POSTGRES
#include <pqxx/pqxx>
#endif
#ifdef TERMGATE_TEST_WITH_SQLITE
#include <sqlite3.h>
#endif
#ifdef TERMGATE_TEST_WITH_ODBC
#include <termgate/detail/odbc/connection.hpp>
#include <termgate/operator.hpp>

namespace odbc = termgate::detail::odbc;
#endif

namespace conformance {
#ifdef TERMGATE_TEST_WITH_SQLITE
void register_functions(sqlite3* db);  // sqlite_functions.cpp
#endif
namespace {

// Databases and folders made here go when the process ends.
struct Leftovers {
  std::vector<std::filesystem::path> folders;
  std::vector<std::string> databases;
  std::vector<std::string> roles;
  std::string server;
  std::map<std::string, std::string>
      direct;  // the PostgreSQL URL of a database that the library reaches through ODBC

  std::vector<std::string> sqlserver_databases;

  ~Leftovers() {
#ifdef TERMGATE_TEST_WITH_ODBC
    for (const auto& name : sqlserver_databases) {
      try {
        odbc::Connection(odbc::connection_string_of(std::getenv("TERMGATE_TEST_SQLSERVER")),
                         std::chrono::seconds(10))
            .run("DROP DATABASE " + name);
      } catch (const std::exception& failure) {
        std::fprintf(stderr, "database %s is left over: %s\n", name.c_str(), failure.what());
      }
    }
#endif
    for (const auto& folder : folders) {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    }
#ifdef TERMGATE_TEST_WITH_POSTGRES
    try {
      if (!databases.empty()) {
        pqxx::connection connection(server);
        pqxx::nontransaction transaction(connection);
        for (const auto& name : databases) {
          transaction.exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)");
        }
        for (const auto& role : roles) transaction.exec("DROP ROLE IF EXISTS " + role);
      }
    } catch (const std::exception&) {
      // The throw-away server is stopped after the run anyway.
    }
#endif
  }
};

Leftovers& leftovers() {
  static Leftovers held;
  return held;
}

#ifdef TERMGATE_TEST_WITH_SQLITE
std::string path_of(const std::string& url) {
  const auto begin = url.find(':') + 1, end = std::min(url.find('?'), url.size());
  return url.substr(begin, end - begin);
}
#endif

#ifdef TERMGATE_TEST_WITH_POSTGRES
// As this process reaches the database past the library, which may use ODBC.
std::string direct_url(const std::string& url) {
  const auto direct = leftovers().direct.find(url);
  return direct == leftovers().direct.end() ? url : direct->second;
}

std::string with_user(const std::string& url, const std::string& user) {
  const auto host = url.find("://") + 3;
  return url.substr(0, host) + user + url.substr(url.find('@', host));
}

std::string with_database(const std::string& url, const std::string& name) {
  // The URL ends in /dbname or /dbname?parameters.
  const auto question = url.find('?');
  return url.substr(0, url.rfind('/', question) + 1) + name +
         (question == std::string::npos ? "" : url.substr(question));
}

void run_each(const std::string& url, const std::vector<std::string>& statements) {
  pqxx::connection connection(url);
  pqxx::nontransaction transaction(connection);
  for (const auto& statement : statements) transaction.exec(statement);
}

// Makes the database as a customer of a service does, and returns the URL of the role that leads
// and writes.
std::string managed_database(const std::string& server, const std::string& name) {
  const std::string admin = managed_role("admin"), owner = managed_role("owner"),
                    app = managed_role("app");
  const std::string superuser = with_database(server, name);
  if (leftovers().roles.empty()) {
    run_each(server, {"CREATE ROLE " + admin + " LOGIN CREATEDB CREATEROLE"});
    leftovers().roles = {owner, app, admin};
    run_each(with_user(server, admin),
             {"CREATE ROLE " + owner + " LOGIN", "CREATE ROLE " + app + " LOGIN"});
  }
  run_each(with_user(server, admin), {"CREATE DATABASE " + name});
  leftovers().databases.push_back(name);
  // What the service keeps for itself; privileges on functions belong to a database.
  run_each(superuser, {"REVOKE EXECUTE ON FUNCTION pg_control_system(), pg_control_checkpoint(), "
                       "pg_control_recovery(), pg_control_init() FROM PUBLIC",
                       "GRANT ALL ON SCHEMA public TO " + admin + " WITH GRANT OPTION"});
  run_each(with_user(superuser, admin), {"GRANT CREATE ON DATABASE " + name + " TO " + owner,
                                         "GRANT CREATE ON SCHEMA public TO " + app});
  return with_user(superuser, app);
}
#endif

}  // namespace

std::string backend_name() {
  const char* name = std::getenv("TERMGATE_CONFORMANCE");
  return name == nullptr ? "sqlite_memory" : name;
}

bool is_postgresql() { return backend_name().find("postgresql_") != std::string::npos; }
bool is_managed() { return backend_name().ends_with("_managed"); }
// What a customer of a service gets is `admin`, which makes the other two.
std::string managed_role(const std::string& what) {
  return "conformance_" + std::to_string(getpid()) + "_" + what;
}
bool is_sqlserver() { return backend_name() == "sqlserver"; }
bool survives_reopening() { return backend_name() != "sqlite_memory"; }

std::string fresh_url() {
  static std::atomic<int> count{0};
  const std::string backend = backend_name();
  if (backend == "sqlite_memory") return "sqlite::memory:";
  if (backend == "sqlite_wal" || backend == "sqlite_journal") {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "termgate-conformance-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    leftovers().folders.emplace_back(pattern);
    return "sqlite:" + pattern + "/test.db" +
           (backend == "sqlite_journal" ? "?journal_mode=delete" : "");
  }
#ifdef TERMGATE_TEST_WITH_ODBC
  if (backend == "sqlserver") {
    const char* named = std::getenv("TERMGATE_TEST_SQLSERVER");
    if (named == nullptr) throw std::runtime_error("TERMGATE_TEST_SQLSERVER names no server");
    const auto server = odbc::connection_string_of(named);
    const std::string name =
        "conformance_" + std::to_string(getpid()) + "_" + std::to_string(count++);
    odbc::Connection(server, std::chrono::seconds(10)).run("CREATE DATABASE " + name);
    leftovers().sqlserver_databases.push_back(name);
    std::string url = "odbc:Database=" + name;
    for (const auto& [key, value] : odbc::attributes_of(server.text)) {
      if (key != "Database") url += ";" + key + "=" + odbc::quoted_value(key, value, server.maker);
    }
    return url;
  }
#endif
#ifdef TERMGATE_TEST_WITH_POSTGRES
  const std::string plain =
      backend.substr(0, backend.size() - (is_managed() ? std::string("_managed").size() : 0));
  const std::string variable = "TERMGATE_TEST_POSTGRESQL_" + plain.substr(plain.rfind('_') + 1);
  const char* server = std::getenv(variable.c_str());
  if (server == nullptr) throw std::runtime_error(variable + " is not set");
  const std::string name =
      "conformance_" + std::to_string(getpid()) + "_" + std::to_string(count++);
  // Leftovers are made after libpqxx's first answer, and so destroyed before the static table that
  // its answers need.
  pqxx::connection connection{std::string(server)};
  pqxx::nontransaction transaction(connection);
  transaction.exec("SELECT 1");
  leftovers().server = server;
  if (is_managed()) return managed_database(server, name);
  transaction.exec("CREATE DATABASE " + name);
  leftovers().databases.push_back(name);
  const std::string url = with_database(server, name);
  if (!backend.starts_with("odbc_")) return url;
  const std::string through =
      "odbc:Driver={PostgreSQL Unicode};Server=127.0.0.1;Port=" + std::string(connection.port()) +
      ";Database=" + name + ";UID=postgres";
  leftovers().direct[through] = url;
  return through;
#else
  throw std::runtime_error("no such backend: " + backend);
#endif
}

termgate::Database& shared() {
  static termgate::Database database = [] {
    const std::string url = fresh_url();
    auto opened = termgate::Database::open(url);
    install(opened, url);
    return opened;
  }();
  return database;
}

std::string url_as([[maybe_unused]] const std::string& url, const std::string& what) {
#ifdef TERMGATE_TEST_WITH_POSTGRES
  return with_user(url, managed_role(what));
#else
  throw std::runtime_error("no role " + what + " on this backend");
#endif
}

std::string owner_url(const std::string& url) { return is_managed() ? url_as(url, "owner") : url; }

termgate::Operator::Installed install(termgate::Database& db, const std::string& url) {
#ifdef TERMGATE_TEST_WITH_POSTGRES
  if (is_managed()) {
    auto owner = termgate::Database::open(owner_url(url));
    const auto installed = termgate::Operator(owner).install();
    termgate::Operator(owner).grant(managed_role("app"), "operate");
    return installed;
  }
#endif
  return termgate::Operator(db).install();
}

std::string unique(const std::string& what) {
  static std::atomic<int> count{0};
  return what + "-" + std::to_string(count++);
}

std::string in_dialect(std::string statement) {
  if (!is_sqlserver()) return statement;
  static const std::pair<const char*, const char*> words[] = {
      {" text,", " nvarchar(400),"},
      {" text)", " nvarchar(400))"},
      {"ROLLBACK TO SAVEPOINT ", "ROLLBACK TRANSACTION "},
      {"SAVEPOINT ", "SAVE TRANSACTION "}};
  if (statement.starts_with("RELEASE SAVEPOINT")) return "SELECT 1";
  for (const auto& [from, to] : words) {
    for (auto at = statement.find(from); at != std::string::npos; at = statement.find(from, at + 1))
      statement.replace(at, std::string(from).size(), to);
  }
  return statement;
}

std::string own_table(const std::string& name) {
  return is_postgresql() || is_sqlserver() ? "termgate." + name : "termgate_" + name;
}

void run_as([[maybe_unused]] const std::string& url, const std::string& what,
            [[maybe_unused]] const std::string& statement) {
#ifdef TERMGATE_TEST_WITH_POSTGRES
  run_each(url_as(url, what), {statement});
#else
  throw std::runtime_error("no role " + what + " on this backend");
#endif
}

void run_outside(const std::string& url, const std::string& statement) {
#ifdef TERMGATE_TEST_WITH_ODBC
  if (is_sqlserver()) {
    odbc::Connection(odbc::connection_string_of(url), std::chrono::seconds(10)).run(statement);
    return;
  }
#endif
#ifdef TERMGATE_TEST_WITH_POSTGRES
  if (is_postgresql()) {
    pqxx::connection connection(direct_url(owner_url(url)));
    pqxx::nontransaction(connection).exec(statement);
    return;
  }
#endif
#ifdef TERMGATE_TEST_WITH_SQLITE
  sqlite3* db = nullptr;
  const int opened = sqlite3_open(path_of(url).c_str(), &db);
  const int code =
      opened == SQLITE_OK ? sqlite3_exec(db, statement.c_str(), nullptr, nullptr, nullptr) : opened;
  sqlite3_close(db);
  if (code != SQLITE_OK) throw std::runtime_error(statement + ": " + sqlite3_errstr(code));
#endif
}

void drop_guard(const std::string& url) {
  if (is_postgresql()) run_outside(url, "DROP EXTENSION IF EXISTS termgate_guard");
}

struct Outside::Connection {
#ifdef TERMGATE_TEST_WITH_ODBC
  std::unique_ptr<odbc::Connection> tsql;
#endif
#ifdef TERMGATE_TEST_WITH_POSTGRES
  std::unique_ptr<pqxx::connection> postgres;
#endif
#ifdef TERMGATE_TEST_WITH_SQLITE
  sqlite3* sqlite = nullptr;
  ~Connection() { sqlite3_close(sqlite); }
#endif
};

Outside::Outside() : connection_(std::make_unique<Connection>()) {
  const std::string url = fresh_url();
#ifdef TERMGATE_TEST_WITH_ODBC
  if (is_sqlserver()) {
    termgate::Operator(termgate::Database::open(url)).install();
    connection_->tsql = std::make_unique<odbc::Connection>(odbc::connection_string_of(url),
                                                           std::chrono::seconds(10));
    return;
  }
#endif
#ifdef TERMGATE_TEST_WITH_POSTGRES
  if (is_postgresql()) {
    auto opened = termgate::Database::open(url);
    install(opened, url);
    connection_->postgres = std::make_unique<pqxx::connection>(direct_url(url));
    return;
  }
#endif
#ifdef TERMGATE_TEST_WITH_SQLITE
  if (sqlite3_open(path_of(url).c_str(), &connection_->sqlite) != SQLITE_OK)
    throw std::runtime_error(url + " cannot be opened");
  register_functions(connection_->sqlite);
  run("SELECT termgate_init()");
#endif
}
Outside::~Outside() = default;

std::vector<std::string> Outside::run(const std::string& statement) {
  std::vector<std::string> first;
#ifdef TERMGATE_TEST_WITH_ODBC
  if (connection_->tsql) {
    try {
      const termgate::Rows found = connection_->tsql->run(statement);
      if (!found.rows.empty()) {
        for (const auto& value : found.rows[0]) first.push_back(value.as_text());
      }
    } catch (const odbc::OdbcError& failure) {
      std::string all;
      for (const auto& one : failure.diagnostics) all += odbc::plain_message(one.message) + "\n";
      throw std::runtime_error(all);
    }
    return first;
  }
#endif
#ifdef TERMGATE_TEST_WITH_POSTGRES
  if (connection_->postgres) {
    const pqxx::result found = pqxx::nontransaction(*connection_->postgres).exec(statement);
    if (!found.empty()) {
      for (const auto& field : found[0]) first.emplace_back(field.is_null() ? "" : field.c_str());
    }
    return first;
  }
#endif
#ifdef TERMGATE_TEST_WITH_SQLITE
  sqlite3_stmt* prepared = nullptr;
  int code = sqlite3_prepare_v2(connection_->sqlite, statement.c_str(), -1, &prepared, nullptr);
  if (code == SQLITE_OK) code = sqlite3_step(prepared);
  for (int column = 0; code == SQLITE_ROW && column < sqlite3_column_count(prepared); ++column) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(prepared, column));
    first.emplace_back(text == nullptr ? "" : text);
  }
  const std::string said = sqlite3_errmsg(connection_->sqlite);
  sqlite3_finalize(prepared);
  if (code != SQLITE_ROW && code != SQLITE_DONE) throw std::runtime_error(said);
#endif
  return first;
}

bool requested_within(const std::stop_token& token, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait_for(lock, token, time, [] { return false; });
  return token.stop_requested();
}

}  // namespace conformance
