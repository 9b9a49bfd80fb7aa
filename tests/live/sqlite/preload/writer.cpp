// Programs that know nothing of terms, in C++: writer MODE FILE.
//   lines    each line of the input is a statement, and it prints what came of it
//   threads  eight threads insert twenty rows each, every one on a connection of its own
//   facts    what a program can see of a connection that it has just opened, by each of the three functions
#include <sqlite3.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr const char* insert = "INSERT INTO t (v) VALUES ('row')";

sqlite3* opened(const char* path) {
  sqlite3* db = nullptr;
  if (sqlite3_open(path, &db) != SQLITE_OK) std::exit(1);
  sqlite3_busy_timeout(db, 10000);
  return db;
}

std::string run(sqlite3* db, const char* sql) {
  char* message = nullptr;
  if (sqlite3_exec(db, sql, nullptr, nullptr, &message) == SQLITE_OK) return "ok";
  std::string text = message != nullptr ? message : "no message";
  sqlite3_free(message);
  return text;
}

int lines(const char* path) {
  sqlite3* db = opened(path);
  for (std::string line; std::getline(std::cin, line);)
    std::cout << run(db, line.c_str()) << std::endl;
  return sqlite3_close(db);
}

int threads(const char* path) {
  std::vector<std::string> answers(8, "ok");
  std::vector<std::thread> running;
  for (std::string& answer : answers) {
    running.emplace_back([&answer, path] {
      sqlite3* db = opened(path);
      for (int i = 0; i < 20 && answer == "ok"; ++i) answer = run(db, insert);
      if (sqlite3_close(db) != SQLITE_OK) answer = "not closed";
    });
  }
  for (std::thread& one : running) one.join();
  for (const std::string& answer : answers) std::cout << answer << "\n";
  return 0;
}

void tell(const char* what, int code, sqlite3*& opened) {
  sqlite3* db = opened;
  int allowed = -1;
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, -1, &allowed);
  std::cout << what << " " << code << " " << sqlite3_errcode(db) << " " << sqlite3_errmsg(db)
            << ", extensions " << allowed << ", changes " << sqlite3_total_changes(db) << ", rowid "
            << sqlite3_last_insert_rowid(db) << ", statements "
            << (sqlite3_next_stmt(db, nullptr) != nullptr) << ", autocommit "
            << sqlite3_get_autocommit(db)
            << ", SQL: " << run(db, "SELECT load_extension('nothing')") << ", closed "
            << sqlite3_close(db) << "\n";
}

int facts(const char* path) {
  std::cout << "config " << sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 1) << "\n";
  sqlite3* db = nullptr;
  tell("open", sqlite3_open(path, &db), db);
  tell("open_v2", sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, nullptr), db);
  std::u16string wide(path, path + std::strlen(path));
  tell("open16", sqlite3_open16(wide.c_str(), &db), db);
  tell("in memory", sqlite3_open(":memory:", &db), db);
  tell("no such folder",
       sqlite3_open_v2("/no/such/folder/x.db", &db, SQLITE_OPEN_READONLY, nullptr), db);
  return 0;
}

}  // namespace

int main(int, char** words) {
  const std::string mode = words[1];
  if (mode == "threads") return threads(words[2]);
  if (mode == "facts") return facts(words[2]);
  return lines(words[2]);
}
