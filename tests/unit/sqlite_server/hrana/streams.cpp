// Batons, whose they are, silence and losses, on a clock that moves when it is moved.
#include "hrana/streams.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "hrana/values.hpp"
#include "support.hpp"

using namespace std::chrono_literals;
using namespace termgate::hrana;
using namespace termgate::hrana::fake;

TEST_CASE("hrana streams: nothing is kept where there is nothing to keep", "[hrana]") {
  Server server;
  CHECK(baton_of(call(server, pipeline("", {"INSERT 1"}))).empty());
  CHECK(!baton_of(call(server, pipeline("", {"BEGIN"}))).empty());
  CHECK(!baton_of(call(server, pipeline("", {"SET"}))).empty());
  CHECK(baton_of(call(server, pipeline("", {"SET", "UNSET"}))).empty());
  CHECK(baton_of(call(server, pipeline("", {"BEGIN", "SET"}, true))).empty());
  CHECK(server.streams.counts().transactions == 1);
  CHECK(server.streams.counts().kept == 1);
}

TEST_CASE("hrana streams: a baton is taken once and its stream lives on", "[hrana]") {
  Server server;
  const std::string first = baton_of(call(server, pipeline("", {"BEGIN", "INSERT 1"})));
  const std::string second = baton_of(call(server, pipeline(first, {"INSERT 2"})));
  CHECK(first != second);
  CHECK(code_of(call(server, pipeline(first, {"INSERT 3"}))) == "BATON_REUSED");
  // In use by another request.
  auto taken = begin(Endpoint::pipeline_v3, pipeline(second, {"INSERT 3"}), server.streams, "app");
  REQUIRE(taken.call);
  CHECK(code_of(call(server, pipeline(second, {"INSERT 4"}))) == "BATON_REUSED");
  const std::string third = baton_of(taken.call->run(Permit{}));
  CHECK(call(server, pipeline(third, {"COMMIT"})).status == 200);
  CHECK(server.file.numbers == std::vector<std::int64_t>{1, 2, 3});
  CHECK(code_of(call(server, pipeline(third, {"SELECT"}))) == "STREAM_EXPIRED");
}

TEST_CASE("hrana streams: a baton that was not given is unknown", "[hrana]") {
  Server server, other;
  const std::string baton = baton_of(call(server, pipeline("", {"BEGIN"})));
  for (std::size_t at = 0; at < baton.size(); ++at) {
    std::string changed = baton;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    INFO(at);
    CHECK(code_of(call(server, pipeline(changed, {"SELECT"}))) == "STREAM_EXPIRED");
  }
  for (const std::string& bad : {std::string("x"), baton + "A", baton.substr(1), std::string("b1"),
                                 std::string(43, 'A'), std::string(1000, '-')}) {
    CHECK(code_of(call(server, pipeline(bad, {"SELECT"}))) == "STREAM_EXPIRED");
  }
  CHECK(code_of(call(other, pipeline(baton, {"SELECT"}))) == "STREAM_EXPIRED");
  CHECK(call(server, pipeline(baton, {"SELECT"})).status == 200);
}

TEST_CASE("hrana streams: a baton is its principal's", "[hrana]") {
  Server server;
  const std::string baton = baton_of(call(server, pipeline("", {"BEGIN", "INSERT 1"})));
  const auto stolen = call(server, pipeline(baton, {"COMMIT"}), Endpoint::pipeline_v3, "other");
  CHECK(stolen.status == 401);
  CHECK(code_of(stolen) == "AUTH_WRONG_TOKEN");
  CHECK(call(server, pipeline(baton, {"COMMIT"})).status == 200);
  CHECK(server.file.numbers.size() == 1);
}

TEST_CASE("hrana streams: a silent transaction is lost and remembered for an hour", "[hrana]") {
  Server server;
  const std::string baton = baton_of(call(server, pipeline("", {"BEGIN", "INSERT 1"})));
  server.now += 9'999ms;
  server.streams.tick();
  const std::string next = baton_of(call(server, pipeline(baton, {"INSERT 2"})));
  REQUIRE(!next.empty());
  server.now += 10s;
  server.streams.tick();
  CHECK(server.file.sessions == 0);
  server.now += 3'599s;
  server.streams.tick();
  const auto lost = call(server, pipeline(next, {"COMMIT"}));
  CHECK(lost.status == 400);
  CHECK(code_of(lost) == "TRANSACTION_TIMEOUT");
  CHECK(code_of(call(server, pipeline(baton, {"COMMIT"}))) == "TRANSACTION_TIMEOUT");
  CHECK(code_of(call(server, pipeline(next, {"COMMIT"}), Endpoint::pipeline_v3, "other")) ==
        "AUTH_WRONG_TOKEN");
  server.now += 2s;
  server.streams.tick();
  CHECK(code_of(call(server, pipeline(next, {"COMMIT"}))) == "STREAM_EXPIRED");
  CHECK(server.file.numbers.empty());
}

TEST_CASE("hrana streams: a stream that is no transaction lives for an hour", "[hrana]") {
  Server server;
  const std::string baton = baton_of(call(server, pipeline("", {"SET"})));
  server.now += 3'599s;
  server.streams.tick();
  const std::string next = baton_of(call(server, pipeline(baton, {"SELECT"})));
  REQUIRE(!next.empty());
  server.now += 3'600s;
  server.streams.tick();
  CHECK(code_of(call(server, pipeline(next, {"SELECT"}))) == "STREAM_EXPIRED");
  CHECK(server.file.sessions == 0);
}

TEST_CASE("hrana streams: a loss that the file knew comes before the reason of silence",
          "[hrana]") {
  Server server;
  const std::string baton = baton_of(call(server, pipeline("", {"BEGIN", "INSERT 1"})));
  server.file.lose_after = 1;
  server.now += 1min;
  server.streams.tick();
  CHECK(code_of(call(server, pipeline(baton, {"COMMIT"}))) == "TG001");
}

TEST_CASE("hrana streams: everything is lost at once", "[hrana]") {
  Server server;
  const std::string idle = baton_of(call(server, pipeline("", {"BEGIN"}))),
                    kept = baton_of(call(server, pipeline("", {"SET"})));
  auto busy =
      begin(Endpoint::pipeline_v3, pipeline("", {"BEGIN", "INSERT 1"}), server.streams, "app");
  auto whole = begin(Endpoint::pipeline_v3, pipeline("", {"BEGIN", "INSERT 2", "COMMIT"}),
                     server.streams, "app");
  server.streams.lose_all(Lost("DATABASE_MOVED", "DATABASE_MOVED the file is another one now"));
  CHECK(code_of(call(server, pipeline(idle, {"COMMIT"}))) == "DATABASE_MOVED");
  CHECK(code_of(busy.call->run(Permit{})) == "DATABASE_MOVED");
  CHECK(whole.call->run(Permit{}).status == 200);
  CHECK(call(server, pipeline(kept, {"SELECT"})).status == 200);
  CHECK(!baton_of(call(server, pipeline("", {"BEGIN"}))).empty());
  CHECK(server.file.numbers == std::vector<std::int64_t>{2});
}

TEST_CASE("hrana streams: the oldest cursor goes first and a transaction never", "[hrana]") {
  Server server(4);
  const auto cursor_baton = [&] {
    std::string text;
    answer(Endpoint::cursor, R"({"batch":{"steps":[]}})", server.streams, "app", Permit{},
           [&](std::string_view part) { text += part; });
    return std::string(
        boost::json::parse(text.substr(0, text.find('\n'))).at("baton").as_string().c_str());
  };
  const std::string setting = baton_of(call(server, pipeline("", {"SET"})));
  const std::string first = cursor_baton(), second = cursor_baton();
  const std::string transaction = baton_of(call(server, pipeline("", {"BEGIN", "INSERT 1"})));
  const std::string more = baton_of(call(server, pipeline("", {"BEGIN"})));
  CHECK(code_of(call(server, pipeline(first, {"SELECT"}))) == "STREAM_EXPIRED");
  baton_of(call(server, pipeline("", {"BEGIN"})));
  CHECK(code_of(call(server, pipeline(second, {"SELECT"}))) == "STREAM_EXPIRED");
  baton_of(call(server, pipeline("", {"BEGIN"})));
  CHECK(code_of(call(server, pipeline(setting, {"SELECT"}))) == "STREAM_EXPIRED");
  const auto refused = call(server, pipeline("", {"INSERT 9"}));
  CHECK(refused.status == 503);
  CHECK(server.file.numbers.empty());
  CHECK(call(server, pipeline(transaction, {"COMMIT"})).status == 200);
  CHECK(call(server, pipeline("", {"INSERT 9"})).status == 200);
  CHECK(!more.empty());
}
