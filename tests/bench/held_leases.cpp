// What it costs to hold many leases in one process: CPU of the client, statements and rows a second
// at the database (PostgreSQL), leases lost.
//
//   bench_held_leases URL LEASES TTL_MS SECONDS
//
// One line: leases, TTL, seconds, CPU of this process as a share of one core, leases that were
// lost.
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <termgate/database.hpp>
#include <termgate/operator.hpp>

using namespace termgate;
using namespace std::chrono;

namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int count = std::atoi(argv[2]);
  const milliseconds ttl(std::atoi(argv[3]));
  const seconds length(std::atoi(argv[4]));
  auto db = Database::open(argv[1]);
  Operator(db).install();
  std::vector<HeldLease> held;
  held.reserve(static_cast<std::size_t>(count));
  const auto begun = steady_clock::now();
  for (int i = 0; i < count; ++i)
    held.push_back(db.hold(Scope(fmt::format("bench {}", i)), {.ttl = ttl}));
  const double taking = duration<double>(steady_clock::now() - begun).count();
  // The first renewals are as far apart as the acquisitions were; after a while chance has spread
  // them.
  std::this_thread::sleep_for(ttl);
  const double before = cpu_seconds();
  const auto from = steady_clock::now();
  std::this_thread::sleep_for(length);
  const double cpu =
      (cpu_seconds() - before) / duration<double>(steady_clock::now() - from).count();
  int lost = 0;
  for (const HeldLease& lease : held) lost += lease.still_held() ? 0 : 1;
  fmt::print("leases {}  ttl_ms {}  seconds {}  taken_in_s {:.1f}  client_cpu {:.3f}  lost {}\n",
             count, ttl.count(), length.count(), taking, cpu, lost);
  std::fflush(stdout);
  // Giving back ten thousand by as many statements is not what is measured.
  std::_Exit(lost == 0 ? 0 : 1);
}
