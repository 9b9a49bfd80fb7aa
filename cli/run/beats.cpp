#include "run/beats.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <random>
#include <system_error>
#include <utility>

#include <termgate/jobs.hpp>

namespace termgate::cli::run {

using std::chrono::milliseconds;

Beats::Beats(Database database, std::string run_id, milliseconds every)
    : database_(std::move(database)),
      run_id_(std::move(run_id)),
      cancelled_(eventfd(0, EFD_CLOEXEC)) {
  if (cancelled_ < 0)
    throw std::system_error(errno, std::system_category(), "a descriptor for heartbeats");
  thread_ = std::jthread([this, every](const std::stop_token& stop) { beat(stop, every); });
}

Beats::~Beats() {
  stop();
  close(cancelled_);
}

void Beats::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void Beats::beat(const std::stop_token& stop, milliseconds every) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::mt19937 random{std::random_device{}()};
  std::uniform_int_distribution<std::int64_t> pause(every.count() * 3 / 4, every.count());
  for (;;) {
    {
      std::unique_lock lock(mutex);
      never.wait_for(lock, stop, milliseconds(pause(random)), [] { return false; });
    }
    if (stop.stop_requested()) return;
    try {
      if (Jobs(database_).beat(run_id_)) continue;
      // COMMAND may have finished its own run (`job finish`) and still go on.
      const auto runs = Jobs(database_).list({.run_id = run_id_}, 1);
      if (runs.empty() || runs.front().status != "cancelled") return;
      const std::uint64_t one = 1;
      if (write(cancelled_, &one, sizeof one) < 0) std::abort();  // the counter cannot be full
      return;
    } catch (const StaleTerm&) {
      return;                  // the term is stale: the lease reports its loss
    } catch (const Error&) {}  // like a renewal that failed: the next one may succeed
  }
}

}  // namespace termgate::cli::run
