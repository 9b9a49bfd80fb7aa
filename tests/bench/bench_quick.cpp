// bench --quick on a real database: it ends, its JSON says what it measured and compared, and it
// leaves no table behind, not even after Ctrl-C. TERMGATE_COMMAND is the command, TERMGATE_BENCH_ON
// the database.
#include <catch2/catch.hpp>

#include <fcntl.h>
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

#include <boost/json.hpp>

namespace {

struct Ended {
  int status;
  std::string output;
};

// Runs the command; after `interrupt_after`, if given, it gets SIGINT.
Ended run(std::vector<std::string> words, std::chrono::milliseconds interrupt_after = {}) {
  words.insert(words.begin(), std::getenv("TERMGATE_COMMAND"));
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    std::vector<char*> pointers;
    for (auto& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  close(ends[1]);
  std::jthread interrupt;
  if (interrupt_after.count() > 0) {
    interrupt = std::jthread([=] {
      std::this_thread::sleep_for(interrupt_after);
      kill(pid, SIGINT);
    });
  }
  Ended ended{0, {}};
  char bytes[4096];
  for (ssize_t count; (count = read(ends[0], bytes, sizeof bytes)) > 0;)
    ended.output.append(bytes, static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

// A database with layer 1 in it: a file of its own, or the test server's.
class Database {
 public:
  Database() {
    if (std::string_view(std::getenv("TERMGATE_BENCH_ON")) == "sqlite") {
      std::string pattern =
          (std::filesystem::temp_directory_path() / "termgate-bench-XXXXXX").string();
      REQUIRE(mkdtemp(pattern.data()) != nullptr);
      folder_ = pattern;
      url_ = "sqlite:" + (folder_ / "bench.db").string();
    } else {
      url_ = std::getenv("TERMGATE_TEST_POSTGRESQL");
    }
    REQUIRE(run({"init", "--db", url_}).status == 0);
  }
  ~Database() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  bool sqlite() const { return !folder_.empty(); }
  const std::string& url() const { return url_; }

  void no_table_is_left() const {
    const char* count =
        sqlite() ? "SELECT count(*) AS n FROM sqlite_schema WHERE name LIKE 'bench\\_%' ESCAPE '\\'"
                 : "SELECT count(*) AS n FROM pg_class WHERE relname LIKE 'bench\\_%'";
    const Ended ended =
        run({"exec", "--db", url_, "--scope", "bench-quick-test", "--term", "1", "--json", count});
    CAPTURE(ended.output);
    REQUIRE(ended.status == 0);
    CHECK(boost::json::parse(ended.output).at_pointer("/results/0/rows/0/n").as_int64() == 0);
  }

 private:
  std::filesystem::path folder_;
  std::string url_;
};

}  // namespace

TEST_CASE("bench: quick measures every scenario and clears its tables away", "[bench]") {
  const Database database;
  const Ended ended = run({"bench", "--quick", "--json", "--seed", "7", "--db", database.url()});
  CAPTURE(ended.output);
  REQUIRE(ended.status == 0);
  const boost::json::value document = boost::json::parse(ended.output);
  CHECK(document.at("seed").as_int64() == 7);
  CHECK(document.at_pointer("/flush/p50_us").as_double() >= 0);
  CHECK_FALSE(document.at("interrupted").as_bool());
  std::set<std::string> seen;
  std::set<std::int64_t> writers, batches, scopes;
  for (const auto& run : document.at("runs").as_array()) {
    CAPTURE(boost::json::serialize(run));
    seen.insert(std::string(run.at("scenario").as_string()));
    writers.insert(run.at("writers").to_number<std::int64_t>());
    batches.insert(run.at("batch").to_number<std::int64_t>());
    scopes.insert(run.at("scopes").to_number<std::int64_t>());
    CHECK(run.at("rows_per_second").to_number<double>() > 0);
    CHECK(run.at("ratio").to_number<double>() > 0);
    CHECK(run.at("p50_us").to_number<double>() > 0);
    CHECK(run.at("p99_us").to_number<double>() >= run.at("p50_us").to_number<double>());
  }
  CHECK(seen == std::set<std::string>{"unfenced", "unfenced-one", "textbook", "check-insert",
                                      "append", "append-each"});
  CHECK(writers == std::set<std::int64_t>{1, 8});
  CHECK(batches == std::set<std::int64_t>{1, 10});
  CHECK(scopes == std::set<std::int64_t>{1, 4});
  database.no_table_is_left();
}

TEST_CASE("bench: quick growth and takeover give their figures", "[bench]") {
  const Database database;
  const Ended ended =
      run({"bench", "growth", "takeover", "--quick", "--json", "--db", database.url()});
  CAPTURE(ended.output);
  REQUIRE(ended.status == 0);
  const boost::json::value document = boost::json::parse(ended.output);
  for (const char* what : {"stream", "scopes"}) {
    CAPTURE(what);
    const auto& levels = document.at("growth").at(what).as_array();
    CHECK(levels.size() >= 2);
    for (const auto& level : levels) CHECK(level.at("append_p50_us").to_number<double>() > 0);
  }
  if (database.sqlite()) {
    CHECK(document.at("takeover").is_null());
  } else {
    // Each frozen writer was evicted, and none before the grace was over.
    CHECK(document.at_pointer("/takeover/takeovers").to_number<int>() == 3);
    CHECK(document.at_pointer("/takeover/evicted").to_number<int>() == 3);
    CHECK(document.at_pointer("/takeover/p50_ms").to_number<double>() >=
          document.at_pointer("/takeover/grace_ms").to_number<double>());
  }
  database.no_table_is_left();
}

TEST_CASE("bench: an interrupted run tells so and clears its tables away", "[bench]") {
  const Database database;
  const Ended ended = run({"bench", "--json", "--writers", "4", "--db", database.url()},
                          std::chrono::milliseconds(1500));
  CAPTURE(ended.output);
  CHECK(ended.status == 1);
  CHECK(boost::json::parse(ended.output).at("interrupted").as_bool());
  database.no_table_is_left();
}

TEST_CASE("bench: wrong wishes end with status 2 and a database without layer 1 says init",
          "[bench]") {
  const Database database;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--writers", "0"},
                                             {"--writers", "1,,2"},
                                             {"--batches", "x"},
                                             {"--seconds", "-1"},
                                             {"--durable", "maybe"},
                                             {"nosuch"}}) {
    std::vector<std::string> all{"bench", "--json", "--db", database.url()};
    all.insert(all.end(), words.begin(), words.end());
    const Ended ended = run(all);
    CAPTURE(ended.output);
    CHECK(ended.status == 2);
  }
  database.no_table_is_left();
  if (database.sqlite()) {
    const std::filesystem::path empty =
        std::filesystem::path(database.url().substr(7)).parent_path() / "empty.db";
    const Ended ended = run({"bench", "--json", "--quick", "--db", "sqlite:" + empty.string()});
    CAPTURE(ended.output);
    CHECK(ended.status == 1);
    CHECK(ended.output.find("termgate init") != std::string::npos);
  }
}
