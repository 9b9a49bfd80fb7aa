// kill -9 in the middle of group commits: every write that any thread was told of is there, in
// order, once.
#include <catch2/catch.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

using namespace termgate;

TEST_CASE("kill: what many threads were told of survives kill -9", "[F1][F3][F5][live]") {
  for (const char* mode : {"wal", "delete"}) {
    INFO(mode);
    std::string folder = (std::filesystem::temp_directory_path() / "termgate-kill-XXXXXX").string();
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    const std::string url = "sqlite:" + folder + "/test.db?journal_mode=" + mode;
    Operator(Database::open(url)).install();
    int acknowledged[2];
    REQUIRE(pipe(acknowledged) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      close(acknowledged[0]);
      auto db = Database::open(url);
      std::vector<std::thread> threads;
      for (int thread = 0; thread < 8; ++thread) {
        threads.emplace_back([&, thread] {
          for (;;) {
            try {
              const std::int64_t number =
                  db.append(Stream("log"), Term(1), std::to_string(thread), {}).value();
              if (write(acknowledged[1], &number, sizeof number) != sizeof number) std::_Exit(1);
            } catch (const std::exception&) { std::_Exit(2); }
          }
        });
      }
      for (auto& thread : threads) thread.join();
    }
    close(acknowledged[1]);
    std::set<std::int64_t> told;
    std::int64_t number = 0;
    const auto next = [&] {
      return read(acknowledged[0], &number, sizeof number) == sizeof number;
    };
    while (told.size() < 200 && next()) told.insert(number);
    REQUIRE(kill(child, SIGKILL) == 0);
    while (next()) told.insert(number);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    close(acknowledged[0]);
    {
      auto db = Database::open(url);
      CHECK(db.query("PRAGMA integrity_check").one()[0].as_text() == "ok");
      CHECK(told.size() >= 200);
      CHECK(Info(db).stream(Stream("log"))->last_no >= *told.rbegin());
      CHECK(db.query("SELECT count(*) FROM termgate_stream_writes").one()[0].as_int() ==
            Info(db).stream(Stream("log"))->last_no);
      CHECK(Operator(db).verify().empty());
      CHECK(db.append(Stream("log"), Term(1), "on").value() > *told.rbegin());
    }
    std::filesystem::remove_all(folder);
  }
}
