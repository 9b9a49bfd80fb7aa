// Random requests of several streams, and a model of a few lines that knows what each must be
// answered and what the file must hold.
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support.hpp"

using namespace std::chrono_literals;
using namespace termgate::hrana;
using namespace termgate::hrana::fake;

namespace {

struct ModelStream {
  std::string baton, old_baton;
  bool in_transaction = false, has_setting = false;
  std::vector<std::int64_t> pending;
  std::string lost;  // code
  Moment since{};
};

class Game {
 public:
  explicit Game(unsigned seed) : random_(seed), streams_(8) {}

  void step() {
    ModelStream& stream = streams_[number(8)];
    switch (number(12)) {
      case 0: return wait();
      case 1: return repeat(stream);
      case 2: return steal(stream);
      case 3: return lose(stream);
      case 4: stream = ModelStream{}; return;  // the client forgets it
      default: return request(stream);
    }
  }
  void check() const { REQUIRE(server_.file.numbers == committed_); }

 private:
  std::size_t number(std::size_t below) { return random_() % below; }
  bool is_open(const ModelStream& stream) const { return !stream.baton.empty(); }

  void wait() {
    server_.now += std::chrono::milliseconds(number(6000));
    server_.streams.tick();
    for (ModelStream& stream : streams_) {
      if (!stream.in_transaction || server_.now - stream.since < 10s) continue;
      lost(stream, "TRANSACTION_TIMEOUT");
    }
  }
  static void lost(ModelStream& stream, const std::string& code) {
    stream.lost = code;
    stream.in_transaction = false;
    stream.pending.clear();
  }
  void repeat(ModelStream& stream) {
    if (stream.old_baton.empty() || !is_open(stream)) return;
    const auto answer = call(server_, pipeline(stream.old_baton, {"INSERT 1"}));
    REQUIRE(answer.status == 400);
    REQUIRE(code_of(answer) == (stream.lost.empty() ? "BATON_REUSED" : stream.lost));
  }
  void steal(ModelStream& stream) {
    if (!is_open(stream)) return;
    REQUIRE(call(server_, pipeline(stream.baton, {"INSERT 1"}), Endpoint::pipeline_v3, "thief")
                .status == 401);
  }
  void lose(ModelStream& stream) {
    if (!stream.in_transaction) return;
    const auto answer = call(server_, pipeline(stream.baton, {"INSERT 1", "LOSE", "COMMIT"}));
    REQUIRE(answer.status == 400);
    lost(stream, "TG001");
  }

  // One to four statements; the model runs them first.
  void request(ModelStream& stream) {
    std::string body = stream.baton.empty() ? R"({"requests":[)"
                                            : R"({"baton":")" + stream.baton + R"(","requests":[)";
    std::vector<bool> succeeds;
    ModelStream after = stream;
    std::vector<std::int64_t> committed = committed_;
    for (std::size_t count = 1 + number(4); count > 0; --count) {
      const std::string sql = statement();
      succeeds.push_back(run(after, committed, sql));
      body += R"({"type":"execute","stmt":{"sql":")" + sql + "\"}},";
    }
    const bool closes = number(5) == 0;
    if (closes) {
      body += R"({"type":"close"},)";
      after.in_transaction = after.has_setting = false;
      after.pending.clear();
    }
    body.back() = ']';
    const auto answer = call(server_, body + "}");
    if (!stream.lost.empty()) {
      REQUIRE(answer.status == 400);
      REQUIRE(code_of(answer) == stream.lost);
      return;
    }
    REQUIRE(answer.status == 200);
    const auto json = json_of(answer);
    for (std::size_t at = 0; at < succeeds.size(); ++at)
      REQUIRE((json.at("results").at(at).at("type") == "ok") == succeeds[at]);
    committed_ = committed;
    after.old_baton = stream.baton;
    after.baton = baton_of(answer);
    after.since = server_.now;
    REQUIRE(after.baton.empty() == !(after.in_transaction || after.has_setting));
    stream = after.baton.empty() ? ModelStream{} : after;
  }
  std::string statement() {
    switch (number(8)) {
      case 0: return "BEGIN";
      case 1: return "COMMIT";
      case 2: return "ROLLBACK";
      case 3: return "SET";
      case 4: return "UNSET";
      case 5: return "FAIL";
      default: return "INSERT " + std::to_string(number(1000));
    }
  }
  static bool run(ModelStream& stream, std::vector<std::int64_t>& committed,
                  const std::string& sql) {
    if (sql == "FAIL") return false;
    if (sql == "SET" || sql == "UNSET") return stream.has_setting = sql == "SET", true;
    if (sql.starts_with("INSERT "))
      return (stream.in_transaction ? stream.pending : committed)
                 .push_back(std::stoll(sql.substr(7))),
             true;
    if (stream.in_transaction == (sql == "BEGIN")) return false;
    if (sql == "COMMIT")
      committed.insert(committed.end(), stream.pending.begin(), stream.pending.end());
    stream.in_transaction = sql == "BEGIN";
    stream.pending.clear();
    return true;
  }

  std::mt19937 random_;
  Server server_{1000};
  std::vector<ModelStream> streams_;
  std::vector<std::int64_t> committed_;
};

void play(unsigned seed, int steps) {
  INFO("seed " << seed);
  Game game(seed);
  for (int step = 0; step < steps; ++step) {
    game.step();
    game.check();
  }
}

}  // namespace

TEST_CASE("hrana model: random requests of eight streams do what the model does", "[hrana]") {
  for (unsigned game = 0; game < 10; ++game)
    play(static_cast<unsigned>(Catch::rngSeed()) + game, 1000);
}

TEST_CASE("hrana model: a million steps", "[hrana][.slow]") {
  for (unsigned game = 0; game < 1000; ++game)
    play(static_cast<unsigned>(Catch::rngSeed()) + game, 1000);
}
