// A bare SQLite connection with layer 1 registered, as a program with the extension has it; and
// throw-away files.
#pragma once

#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <termgate/detail/sqlite/layer1.hpp>

namespace sqlite_test {

class Folder {
 public:
  Folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "termgate-sqlite-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name = "test.db") const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// What a statement gave: its rows, or its error.
struct Answer {
  std::vector<std::vector<std::string>> rows;
  std::string error;
  int code = SQLITE_OK;  // extended
  // The first value of the first row; the error where there is none, so that a failing CHECK shows
  // it.
  std::string value() const {
    return !error.empty() ? error : rows.empty() || rows[0].empty() ? "(none)" : rows[0][0];
  }
};

class Db {
 public:
  explicit Db(const std::string& path = ":memory:", bool with_law = true)
      : Db(open(path), with_law) {}
  explicit Db(sqlite3* opened, bool with_law = true) : db_(opened) {
    sqlite3_extended_result_codes(db_, 1);
    if (with_law) termgate::sqlite::Layer1::register_on(db_);
  }
  Db(const Db&) = delete;
  Db& operator=(const Db&) = delete;
  // sqlite3_close, not its forgiving sister: it fails if a statement of layer 1 is left prepared.
  ~Db() {
    if (sqlite3_close(db_) != SQLITE_OK) std::abort();
  }

  // Runs one or more statements; the answer is that of the last, or of the one that failed.
  Answer operator()(const std::string& sql) {
    Answer answer;
    const char* rest = sql.c_str();
    while (*rest != '\0') {
      sqlite3_stmt* statement = nullptr;
      int code = sqlite3_prepare_v2(db_, rest, -1, &statement, &rest);
      if (statement == nullptr && code == SQLITE_OK) continue;
      answer.rows.clear();
      while (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        auto& row = answer.rows.emplace_back();
        for (int column = 0; column < sqlite3_column_count(statement); ++column) {
          const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
          row.emplace_back(text != nullptr ? text : "NULL");
        }
        code = SQLITE_OK;
      }
      if (code != SQLITE_OK && code != SQLITE_DONE) {
        answer.error = sqlite3_errmsg(db_);
        answer.code = code;
        sqlite3_finalize(statement);
        return answer;
      }
      sqlite3_finalize(statement);
    }
    return answer;
  }
  // The same, and the test ends where it fails.
  std::string must(const std::string& sql) {
    const Answer answer = (*this)(sql);
    INFO(sql);
    REQUIRE(answer.error == "");
    return answer.rows.empty() ? std::string() : answer.value();
  }
  // The same as a program does it that rewrites the schema: past the triggers of Termgate's own
  // tables.
  void plant(const std::string& sql) {
    const Answer triggers = (*this)(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name LIKE "
        "'termgate!_%' ESCAPE '!' AND name LIKE 'termgate!_%' "
        "ESCAPE '!'");
    for (const auto& trigger : triggers.rows) must("DROP TRIGGER " + trigger[0]);
    must(sql);
    for (const auto& trigger : triggers.rows) must(trigger[1]);
  }
  sqlite3* handle() const { return db_; }

 private:
  static sqlite3* open(const std::string& path) {
    sqlite3* opened = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &opened) == SQLITE_OK);
    return opened;
  }
  sqlite3* db_;
};

inline void install(Db& db) { db.must("SELECT termgate_init()"); }

struct Installed : Db {
  explicit Installed(const std::string& path = ":memory:") : Db(path) { install(*this); }
};

// Runs `work` in a child process and gives what it wrote; once there is the child, the parent does
// `first`.
inline std::string in_child(
    const std::function<std::string()>& work, const std::function<void()>& first = [] {}) {
  int ends[2], go[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE(pipe(go) == 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    close(go[1]);
    char byte = 0;
    static_cast<void>(!read(go[0], &byte, 1));
    std::string said;
    try {
      said = work();
    } catch (const std::exception& error) { said = error.what(); }
    static_cast<void>(!write(ends[1], said.data(), said.size()));
    _exit(0);
  }
  close(ends[1]);
  close(go[0]);
  first();
  close(go[1]);
  std::string said;
  char part[4096];
  for (ssize_t size; (size = read(ends[0], part, sizeof part)) > 0;)
    said.append(part, static_cast<std::size_t>(size));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return said;
}

}  // namespace sqlite_test
