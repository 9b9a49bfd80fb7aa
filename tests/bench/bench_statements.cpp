// What does a decision cost? classify() of five statements of growing length, afresh and from the
// cache, and of the same as the second of two statements in one text. One thread. A line is
// scenario, bytes, repetitions, nanoseconds per call (the median of five runs), calls a second.
// `--quick` runs it in small, as a test.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include <termgate/statements/cache.hpp>
#include <termgate/statements/classify.hpp>

using namespace termgate::statements;

namespace {

struct Scenario {
  const char* name;
  std::string sql;
  bool read;
};

template <class Call>
double nanoseconds_of(std::size_t repetitions, Call call) {
  std::array<double, 5> runs{};
  for (double& run : runs) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < repetitions; ++i) call();
    run =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() /
        static_cast<double>(repetitions);
  }
  std::sort(runs.begin(), runs.end());
  return runs[runs.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t repetitions = argc > 1 && std::strcmp(argv[1], "--quick") == 0 ? 20 : 50'000;
  const Scenario scenarios[] = {
      {"begin", "BEGIN", true},
      {"select_by_key", "SELECT abalance FROM pgbench_accounts WHERE aid = 42", true},
      {"update_by_key", "UPDATE pgbench_accounts SET abalance = abalance + 7 WHERE aid = 42",
       false},
      {"insert_on_conflict",
       "INSERT INTO orders (id, customer, state, amount, placed_at, note) VALUES (1001, 'anna', "
       "'open', 19.90, now(), 'first order') ON "
       "CONFLICT (id) DO UPDATE SET state = excluded.state, "
       "amount = excluded.amount, note = excluded.note",
       false},
      {"ctes_joins_windows",
       "WITH recent AS (SELECT o.id, o.customer, o.amount, o.placed_at FROM orders o WHERE "
       "o.placed_at > now() - interval '30 days'), "
       "totals AS (SELECT r.customer, sum(r.amount) AS total, count(*) "
       "AS orders FROM recent r GROUP BY r.customer) SELECT c.name, t.total, t.orders, rank() OVER "
       "(ORDER BY t.total DESC) AS place, "
       "lag(t.total) OVER (PARTITION BY c.region ORDER BY t.total) AS "
       "before FROM customers c JOIN totals t ON t.customer = c.id LEFT JOIN regions g ON g.id = "
       "c.region WHERE t.orders > 3 AND c.active "
       "ORDER BY place LIMIT 50",
       true},
      {"two_statements",
       "SET LOCAL termgate.term = '42'; UPDATE pgbench_accounts SET abalance = abalance + 7 WHERE "
       "aid = 42",
       false},
      {"declared",
       "UPDATE pgbench_accounts SET abalance = abalance + 7 WHERE aid = 42 "
       "/*termgate.scope='order-7',termgate.term='42'*/",
       false},
  };
  int wrong = 0;
  for (const Scenario& scenario : scenarios) {
    const auto line = [&](const char* how, double nanoseconds) {
      std::printf("%-20s %-8s %4zu bytes  %zu times  %8.0f ns  %9.0f/s\n", scenario.name, how,
                  scenario.sql.size(), repetitions, nanoseconds, 1e9 / nanoseconds);
    };
    line("afresh", nanoseconds_of(repetitions, [&] {
           wrong += classify(scenario.sql).is_read() != scenario.read ? 1 : 0;
         }));
    Cache cache;
    line("cache", nanoseconds_of(repetitions, [&] {
           wrong += cache.classify(scenario.sql)->is_read() != scenario.read ? 1 : 0;
         }));
  }
  if (wrong != 0) std::printf("%d wrong answers\n", wrong);
  return wrong == 0 ? 0 : 1;
}
