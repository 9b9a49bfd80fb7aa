// ThrowAwayDatabase: a database for one test, with layer 1 installed, which is removed with the
// object. It is an SQLite file in a temporary folder, or a database of its own on a PostgreSQL
// server that you have. One thread at a time; any number can exist side by side.
#pragma once

#include <string>
#include <string_view>

#include <termgate/database.hpp>

namespace termgate {
inline namespace v0 {
namespace testkit {

class ThrowAwayDatabase {
 public:
  // Makes a file in a new folder under TMPDIR, or /tmp. Throws Unavailable if that fails,
  // InvalidInput if this build has no SQLite.
  static ThrowAwayDatabase sqlite();
  // Runs CREATE DATABASE termgate_test_… on the server of `server_url` (postgresql://…), as that
  // URL's role, which needs CREATEDB. Throws Unavailable if the server cannot be reached or this
  // build has no PostgreSQL, DatabaseError if the server refuses, InvalidInput for another kind of
  // URL.
  static ThrowAwayDatabase postgres(std::string_view server_url);
  // Uses the server in the environment variable TERMGATE_TEST_POSTGRESQL, or SQLite if it is not
  // set, so that one test runs on both.
  static ThrowAwayDatabase from_environment();

  // Removes the folder, or drops the database and ends its sessions. Failures are ignored; what
  // could not be removed stays.
  ~ThrowAwayDatabase();
  ThrowAwayDatabase(ThrowAwayDatabase&& other) noexcept;
  ThrowAwayDatabase& operator=(ThrowAwayDatabase&&) = delete;

  const std::string& url() const noexcept { return url_; }
  // Opens another Database each time, as another process would, with connections of its own.
  Database open(OpenOptions options = {}) const { return Database::open(url_, options); }

 private:
  ThrowAwayDatabase() = default;
  std::string url_;
  std::string folder_;             // SQLite
  std::string server_url_, name_;  // PostgreSQL
};

}  // namespace testkit
}  // namespace v0
}  // namespace termgate
