// Databases for one test: created with layer 1 by the static functions, dropped by the destructor.
// The name is random, so that tests can run side by side.
#include <termgate/operator.hpp>
#include <termgate/testkit/database.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <utility>

#include <fmt/format.h>

#ifdef TERMGATE_WITH_POSTGRES
#include <libpq-fe.h>
#endif

namespace termgate {
inline namespace v0 {
namespace testkit {
namespace {

#ifdef TERMGATE_WITH_POSTGRES
// Runs one statement outside a transaction: CREATE and DROP DATABASE are not allowed inside one.
void run(const std::string& url, const std::string& statement) {
  const std::unique_ptr<PGconn, decltype(&PQfinish)> connection(PQconnectdb(url.c_str()), PQfinish);
  if (PQstatus(connection.get()) != CONNECTION_OK)
    throw Unavailable(
        fmt::format("the server of the throw-away database: {}", PQerrorMessage(connection.get())));
  const std::unique_ptr<PGresult, decltype(&PQclear)> result(
      PQexec(connection.get(), statement.c_str()), PQclear);
  if (PQresultStatus(result.get()) == PGRES_COMMAND_OK) return;
  const char* code = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
  throw DatabaseError(PQresultErrorMessage(result.get()), code == nullptr ? "" : code);
}
#endif

// Replaces the database's name in postgresql://user@host:port/name?….
std::string with_database(std::string_view url, const std::string& name) {
  const auto authority = url.find("://");
  if (authority == std::string_view::npos || !url.starts_with("postgres"))
    throw InvalidInput(
        "TG005 a throw-away database wants a server's URL, postgresql://user@host/dbname");
  const auto query = std::min(url.find('?'), url.size());
  const auto slash = std::min(url.find('/', authority + 3), query);
  return fmt::format("{}/{}{}", url.substr(0, slash), name, url.substr(query));
}

}  // namespace

ThrowAwayDatabase ThrowAwayDatabase::sqlite() {
  ThrowAwayDatabase made;
  std::string folder = (std::filesystem::temp_directory_path() / "termgate-test-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr)
    throw Unavailable("no temporary folder for a throw-away database");
  made.folder_ = std::move(folder);
  made.url_ = "sqlite:" + made.folder_ + "/test.db";
  Operator(made.open()).install();
  return made;
}

ThrowAwayDatabase ThrowAwayDatabase::postgres(std::string_view server_url) {
#ifdef TERMGATE_WITH_POSTGRES
  ThrowAwayDatabase made;
  std::random_device chance;
  const std::string name =
      fmt::format("termgate_test_{:08x}{:08x}", static_cast<std::uint32_t>(chance()),
                  static_cast<std::uint32_t>(chance()));
  made.url_ = with_database(server_url, name);
  // template0, because template1 cannot be copied while somebody is connected to it.
  run(std::string(server_url), "CREATE DATABASE " + name + " TEMPLATE template0 ENCODING 'UTF8'");
  made.server_url_ = server_url;
  made.name_ = name;
  Operator(made.open()).install();
  return made;
#else
  static_cast<void>(server_url);
  throw Unavailable("this build has no PostgreSQL");
#endif
}

ThrowAwayDatabase ThrowAwayDatabase::from_environment() {
  const char* server = std::getenv("TERMGATE_TEST_POSTGRESQL");
  return server != nullptr && *server != '\0' ? postgres(server) : sqlite();
}

ThrowAwayDatabase::ThrowAwayDatabase(ThrowAwayDatabase&& other) noexcept
    : url_(std::move(other.url_)),
      folder_(std::exchange(other.folder_, {})),
      server_url_(std::move(other.server_url_)),
      name_(std::exchange(other.name_, {})) {}

ThrowAwayDatabase::~ThrowAwayDatabase() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
#ifdef TERMGATE_WITH_POSTGRES
  try {
    if (!name_.empty()) run(server_url_, "DROP DATABASE " + name_ + " WITH (FORCE)");
  } catch (const std::exception&) {
    // The server may have gone already.
  }
#endif
}

}  // namespace testkit
}  // namespace v0
}  // namespace termgate
