// ThrowAwayDatabase: a database for one test, with layer 1 in it, gone when the object goes. Real
// ones: an SQLite file in a temporary folder, or a database of its own on a PostgreSQL server that
// you have. One thread at a time; any number beside one another.
#pragma once

#include <string>
#include <string_view>

#include <termgate/database.hpp>

namespace termgate::inline v0::testkit {

class ThrowAwayDatabase {
 public:
  // A file in a new folder under TMPDIR, or /tmp. Throws Unavailable where none can be made or this
  // build has no SQLite.
  static ThrowAwayDatabase sqlite();
  // CREATE DATABASE termgate_test_… on the server of `server_url`, postgresql://…, as the role of
  // that URL, which needs CREATEDB. Throws Unavailable where the server cannot be reached or this
  // build has no PostgreSQL, DatabaseError where it refuses.
  static ThrowAwayDatabase postgres(std::string_view server_url);
  // By what the environment variable TERMGATE_TEST_POSTGRESQL says: on that server, or, where it is
  // not set, on SQLite. So one test runs on both.
  static ThrowAwayDatabase from_environment();

  // Removes the folder; drops the database and ends whoever is still connected to it. What fails is
  // left where it is, without a word.
  ~ThrowAwayDatabase();
  ThrowAwayDatabase(ThrowAwayDatabase&& other) noexcept;
  ThrowAwayDatabase& operator=(ThrowAwayDatabase&&) = delete;

  const std::string& url() const noexcept { return url_; }
  // Another Database each time, as another process would have; with connections of its own.
  Database open(OpenOptions options = {}) const { return Database::open(url_, options); }

 private:
  ThrowAwayDatabase() = default;
  std::string url_;
  std::string folder_;             // SQLite
  std::string server_url_, name_;  // PostgreSQL
};

}  // namespace termgate::inline v0::testkit
