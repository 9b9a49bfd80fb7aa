// Lines of the log, the text of the metrics, and what HTTP answers: none of them lets a peer write
// a line of its own.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <boost/json.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include <termgate/net/log.hpp>
#include <termgate/net/metrics.hpp>

#include "http.hpp"

using namespace termgate::net;
using termgate::conversation::Incident;

namespace {

const auto moment =
    std::chrono::system_clock::time_point(std::chrono::milliseconds(1'795'255'323'456));

Incident refused(std::string_view scope, std::string_view code, bool from_memory) {
  Incident incident;
  incident.kind = Incident::Kind::refused;
  incident.scope = scope;
  incident.code = code;
  incident.from_memory = from_memory;
  return incident;
}

}  // namespace

TEST_CASE("log: a line of text names the moment the level the event and its fields", "[net]") {
  CHECK(log_line(LogFormat::text, LogLevel::info, moment, "opened",
                 {{"connection", 7},
                  {"user", "app"},
                  {"tls", true},
                  {"name", "two words"},
                  {"empty", ""}}) ==
        "2026-11-21T10:02:03.456Z info opened connection=7 user=app tls=true name=\"two words\" "
        "empty=\"\"\n");
}

TEST_CASE("log: whatever a peer says stays inside its field", "[net]") {
  const std::string hostile("a\n2026 error forged\x1b[2J\"\\\xff\xc2\x9b\0z", 31);
  const std::string text =
      log_line(LogFormat::text, LogLevel::warning, moment, "opened", {{"user", hostile}});
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  CHECK(text.find('\x1b') == std::string::npos);
  const std::string json = log_line(LogFormat::json, LogLevel::warning, moment, "opened",
                                    {{"user", hostile}, {"n", -5}});
  const auto document = boost::json::parse(json);
  CHECK(document.at("level").as_string() == "warning");
  CHECK(document.at("n").as_int64() == -5);
  CHECK(document.at("user").as_string().starts_with("a\n2026 error forged"));
  const auto cut = boost::json::parse(log_line(LogFormat::json, LogLevel::info, moment, "x",
                                               {{"long", std::string(100'000, 'y')}}));
  CHECK(cut.at("long").as_string().size() < 600);
}

TEST_CASE("log: writes all that was said before it ends and repeats itself seldom", "[net]") {
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  {
    Log log(ends[1], LogFormat::text, LogLevel::info);
    log.say(LogLevel::debug, "not_wanted");
    log.say(LogLevel::info, "first");
    CHECK(log.say_seldom("a", LogLevel::warning, "second"));
    CHECK_FALSE(log.say_seldom("a", LogLevel::warning, "third"));
    CHECK(log.say_seldom("b", LogLevel::warning, "fourth"));
  }
  close(ends[1]);
  std::string all(4096, '\0');
  const ssize_t got = read(ends[0], all.data(), all.size());
  close(ends[0]);
  REQUIRE(got > 0);
  all.resize(static_cast<std::size_t>(got));
  CHECK(all.find(" info first\n") != std::string::npos);
  CHECK(all.find("second") < all.find("fourth"));
  CHECK(all.find("third") == std::string::npos);
  CHECK(all.find("not_wanted") == std::string::npos);
}

TEST_CASE("log: a reader that does not read holds nobody up and memory stays bounded", "[net]") {
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  std::string all;
  {
    Log log(ends[1], LogFormat::text, LogLevel::info);
    const std::string long_one(500, 'x');
    for (int i = 0; i < 10'000; ++i) log.say(LogLevel::info, "flood", {{"text", long_one}});
    std::string piece(1 << 16, '\0');
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    // Until the writer has nothing left.
    for (pollfd more{ends[0], POLLIN, 0}; poll(&more, 1, 500) == 1;) {
      const ssize_t got = read(ends[0], piece.data(), piece.size());
      if (got > 0) all.append(piece.data(), static_cast<std::size_t>(got));
    }
    log.say(LogLevel::info, "after");
  }
  close(ends[1]);
  std::string piece(1 << 16, '\0');
  for (ssize_t got = 0; (got = read(ends[0], piece.data(), piece.size())) > 0;)
    all.append(piece.data(), static_cast<std::size_t>(got));
  close(ends[0]);
  const auto dropped = all.find("log_lines_dropped");
  REQUIRE(dropped != std::string::npos);
  CHECK(all.find(" info after\n") > dropped);
  CHECK(all.size() < 3u << 20);
}

TEST_CASE("log: a slow reader holds up the end for five seconds and no longer", "[net]") {
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
  auto log = std::make_unique<Log>(ends[1], LogFormat::text, LogLevel::info);
  const std::string long_one(500, 'x');
  for (int i = 0; i < 2'000; ++i) log->say(LogLevel::info, "flood", {{"text", long_one}});
  std::atomic<bool> over{false};
  std::thread reader([&] {  // would need 25 s for all of it
    std::array<char, 4096> piece{};
    while (!over) {
      std::ignore = read(ends[0], piece.data(), piece.size());
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  const auto start = std::chrono::steady_clock::now();
  log.reset();
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  over = true;
  reader.join();
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("metrics: a scope's class is its letters", "[net]") {
  CHECK(scope_class("order-7") == "order");
  CHECK(scope_class("billing") == "billing");
  CHECK(scope_class("7") == "other");
  CHECK(scope_class("") == "other");
  CHECK(scope_class("\"} evil 1") == "other");
  CHECK(scope_class(std::string(100, 'a')).size() == 40);
}

TEST_CASE("metrics: the refusals that alerts ask for are there from 0", "[net]") {
  const std::string text = metrics_text({std::make_shared<Counters>()}, Gauges(), "1.2.3");
  for (const char* code : {"TG001", "TG002", "TG004", "TG006"}) {
    for (const char* from : {"memory", "database"})
      CHECK(text.find(fmt::format(
                "termgate_refusals_total{{scope_class=\"other\",code=\"{}\",from=\"{}\"}} 0\n",
                code, from)) != std::string::npos);
  }
}

TEST_CASE("metrics: refusals are counted by class code and who knew", "[net]") {
  auto one = std::make_shared<Counters>();
  auto other = std::make_shared<Counters>();
  for (int i = 0; i < 3; ++i) one->note(refused("order-1", "TG001", true));
  other->note(refused("order-2", "TG001", true));
  other->note(refused("order-2", "TG002", false));
  Incident fenced;
  fenced.kind = Incident::Kind::fenced;
  fenced.took = std::chrono::microseconds(200);
  one->note(fenced);
  other->note(fenced);
  Gauges gauges;
  gauges.connections = 5;
  const std::string text = metrics_text({one, other}, gauges, "1.2.3");
  CHECK(text.find(
            "termgate_refusals_total{scope_class=\"order\",code=\"TG001\",from=\"memory\"} 4\n") !=
        std::string::npos);
  CHECK(
      text.find(
          "termgate_refusals_total{scope_class=\"order\",code=\"TG002\",from=\"database\"} 1\n") !=
      std::string::npos);
  CHECK(text.find("termgate_check_seconds_bucket{le=\"0.0001\"} 0\n") != std::string::npos);
  CHECK(text.find("termgate_check_seconds_bucket{le=\"0.00025\"} 2\n") != std::string::npos);
  CHECK(text.find("termgate_check_seconds_bucket{le=\"+Inf\"} 2\ntermgate_check_seconds_sum "
                  "0.000400000\ntermgate_check_seconds_count 2\n") != std::string::npos);
  CHECK(text.find("termgate_connections 5\n") != std::string::npos);
}

TEST_CASE("metrics: no flood of scopes makes more labels", "[net]") {
  auto counters = std::make_shared<Counters>();
  for (int i = 0; i < 1000; ++i) {
    const std::string scope(1 + static_cast<std::size_t>(i / 26), static_cast<char>('a' + i % 26));
    counters->note(refused(scope, "TG001", false));
  }
  CHECK(counters->refusals().size() <= Counters::classes_max + 1);
  std::int64_t total = 0;
  for (const auto& [key, count] : counters->refusals()) total += count.from_database;
  CHECK(total == 1000);
}

TEST_CASE("log: of a statement the first words are shown and never a value", "[net]") {
  CHECK(statement_words("INSERT INTO app.accounts VALUES ('secret', 5)") ==
        "INSERT INTO app.accounts");
  CHECK(statement_words(
            "  /* a /* b */ 'secret' */ -- 'secret'\n update accounts set x = 'secret'") ==
        "update accounts set");
  CHECK(statement_words("DELETE FROM t WHERE id = 5") == "DELETE FROM t");
  CHECK(statement_words("(SELECT 'secret')") == "SELECT");
  CHECK(statement_words("SELECT E'secret'") == "SELECT");
  CHECK(statement_words("SELECT U&'secret'") == "SELECT");
  CHECK(statement_words("SELECT x$secret$") == "SELECT");
  CHECK(statement_words("SELECT 42secret") == "SELECT");
  CHECK(statement_words("DO $$ secret $$") == "DO");
  CHECK(statement_words("DO $tag$ secret $tag$") == "DO");
  CHECK(statement_words("NOTIFY channel, 'secret'") == "NOTIFY channel");
  CHECK(statement_words("ALTER ROLE a PASSWORD 'secret'") == "ALTER ROLE a");
  CHECK(statement_words("SET LOCAL password TO secret") == "SET LOCAL password");
  CHECK(statement_words("UPDATE \"Secret\" SET a = 1") == "UPDATE");
  CHECK(statement_words("/* open") == "");
  CHECK(statement_words("") == "");
  CHECK(statement_words("INSERT INTO " + std::string(500, 'a')) == "INSERT INTO");
}

TEST_CASE("HTTP: answers four paths and nothing else", "[net]") {
  HttpOptions options;
  options.hosts = {"proxy.example"};
  std::string obstacle;
  std::string asked;
  const HttpQuestions questions{[&] { return obstacle; }, [] { return std::string("metrics\n"); },
                                [&](std::string_view scope) {
                                  asked = scope;
                                  return scope == "order 7/ä";
                                }};
  const auto get = [&](std::string_view target) {
    return answer_http("GET", target, "localhost:9000", options, questions);
  };
  CHECK(get("/healthz").status == 200);
  CHECK(get("/readyz").status == 200);
  obstacle = "not-installed";
  CHECK(get("/readyz").status == 503);
  CHECK(get("/readyz").body == "not-installed\n");
  CHECK(get("/healthz").status == 200);
  CHECK(get("/metrics").body == "metrics\n");
  CHECK(get("/leader?scope=order%207%2f%C3%A4").status == 200);
  CHECK(asked == "order 7/ä");
  CHECK(get("/leader?scope=other").status == 503);
  CHECK(get("/leader?x=1&scope=other").status == 503);
  for (const char* wrong :
       {"/leader", "/leader?scope=", "/leader?scope=%2", "/leader?scope=a&scope=b",
        "/leader?scope=%00", "/leader?scope=a%00b", "/leader?scope=%ff"}) {
    CAPTURE(wrong);
    CHECK(get(wrong).status == 400);
  }
  CHECK(get("/leader?scope=" + std::string(5000, 'a')).status == 400);
  CHECK(get("/leader?scope=" + std::string(201, 'a')).status == 400);
  CHECK(get("/leader?scope=" + std::string(200, 'a')).status == 503);
  for (const char* unknown : {"/", "", "/api/v1", "/api/v1/scopes", "/healthz/", "/metrics2", "*",
                              "http://localhost/healthz"}) {
    CAPTURE(unknown);
    CHECK(get(unknown).status == 404);
  }
  CHECK(answer_http("POST", "/healthz", "localhost", options, questions).status == 405);
}

TEST_CASE("HTTP: serves only names that are its own", "[net]") {
  HttpOptions options;
  options.hosts = {"proxy.example"};
  const HttpQuestions questions{[] { return std::string(); }, [] { return std::string(); },
                                [](std::string_view) { return true; }};
  const auto status = [&](std::string_view host) {
    return answer_http("GET", "/healthz", host, options, questions).status;
  };
  for (const char* ours : {"localhost", "LOCALHOST:9000", "127.0.0.1:9000", "[::1]:9000", "[::1]",
                           "Proxy.Example:80"}) {
    CAPTURE(ours);
    CHECK(status(ours) == 200);
  }
  for (const char* others : {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                             "proxy.example.", "10.0.0.1"}) {
    CAPTURE(others);
    CHECK(status(others) == 421);
  }
  CHECK(status("[::1") == 400);
  options.hosts = {"*"};
  CHECK(answer_http("GET", "/healthz", "anything", options, questions).status == 200);
}
