// A transaction of three INSERTs through Database::write(), to the same five messages of libpq
// without a fence: BEGIN, three INSERTs, COMMIT. The two take turns.
//
//   bench_three_statements URL WRITERS SECONDS ROUNDS
//
// One line: writers, transactions a second of both (medians), their ratio with its range. The table
// three_statements is made anew and dropped.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <libpq-fe.h>

#include <fmt/format.h>

#include <termgate/database.hpp>
#include <termgate/operator.hpp>

using namespace termgate;
using namespace std::chrono;

namespace {

constexpr auto insert = "INSERT INTO three_statements (scope, term, v) VALUES ($1, $2, 'x')";

class Plain {
 public:
  explicit Plain(const char* url) : session_(PQconnectdb(url), PQfinish) {}
  void prepare() { need(PQprepare(session_.get(), "i", insert, 0, nullptr), PGRES_COMMAND_OK); }
  void run(const char* sql) { need(PQexec(session_.get(), sql), PGRES_COMMAND_OK); }
  void transaction() {
    run("BEGIN");
    const char* values[] = {"bench", "1"};
    for (int i = 0; i < 3; ++i)
      need(PQexecPrepared(session_.get(), "i", 2, values, nullptr, nullptr, 0), PGRES_COMMAND_OK);
    run("COMMIT");
  }

 private:
  void need(PGresult* result, ExecStatusType status) {
    const bool right = PQresultStatus(result) == status;
    PQclear(result);
    if (!right) throw std::runtime_error(PQerrorMessage(session_.get()));
  }
  std::unique_ptr<PGconn, void (*)(PGconn*)> session_;
};

// How many a second all writers reach together.
double rate(int writers, seconds length, const std::function<void(int)>& transaction) {
  std::atomic<long> done{0};
  const auto until = steady_clock::now() + length;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < writers; ++i) {
      threads.emplace_back([&, i] {
        for (; steady_clock::now() < until; ++done) transaction(i);
      });
    }
  }
  return static_cast<double>(done) / static_cast<double>(length.count());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int writers = std::atoi(argv[2]), rounds = std::atoi(argv[4]);
  const seconds length(std::atoi(argv[3]));
  auto db = Database::open(argv[1]);
  Operator(db).install();
  Plain control(argv[1]);
  control.run("SET client_min_messages = warning");
  control.run("DROP TABLE IF EXISTS three_statements");
  control.run("CREATE TABLE three_statements (scope text, term bigint, v text)");
  std::vector<std::unique_ptr<Plain>> plain;
  for (int i = 0; i < writers; ++i) {
    plain.push_back(std::make_unique<Plain>(argv[1]));
    plain.back()->prepare();
  }
  const Scope scope("bench");
  std::vector<double> unfenced, fenced, ratios;
  for (int round = 0; round < rounds; ++round) {
    unfenced.push_back(rate(writers, length, [&](int writer) { plain[writer]->transaction(); }));
    fenced.push_back(rate(writers, length, [&](int) {
      db.write(scope, Term(1), [&](Transaction& transaction) {
        for (int i = 0; i < 3; ++i) transaction.exec(insert, scope.name(), 1);
      });
    }));
    ratios.push_back(fenced.back() / unfenced.back());
  }
  control.run("DROP TABLE three_statements");
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  fmt::print("writers {}  unfenced {:.0f}  fenced {:.0f}  ratio {:.2f} ({:.2f}-{:.2f})\n", writers,
             median(unfenced), median(fenced), median(ratios), *least, *most);
}
