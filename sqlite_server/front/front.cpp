#include <termgate/sqlite_front/front.hpp>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "front/core.hpp"
#include "front/routes.hpp"

namespace termgate::sqlite_front {

using Clock = std::chrono::steady_clock;

class Front::Inside {
 public:
  explicit Inside(Options options) : core(std::move(options)), routes(core) {
    server.emplace(core.options.http, routes);
  }

  ~Inside() {
    stop_housekeeper();
    // The server is destroyed before what its handler uses; answers that come later are dropped.
    server.reset();
    while (!core.workers.stop(std::chrono::hours(1))) {}
  }

  // What must happen although no client sends anything: timeouts, moved files, the drain.
  void keep_house() {
    std::unique_lock lock(mutex);
    for (std::size_t round = 0; !wanted.wait_for(lock, every, [this] { return stopping; });
         ++round) {
      lock.unlock();
      if (core.files.look()) {
        core.log(true, "file_moved", {{"path", core.options.path}});
        lose({"DATABASE_MOVED",
              "the database file was moved or replaced: the transaction was rolled back"});
      }
      if (round % 5 == 0) {
        core.streams.tick();
        routes.tick();
        if (core.admissions) core.admissions->tick();
      }
      if (core.files.draining() && !closing) close_when_done();
      lock.lock();
    }
  }

  void lose(const hrana::Lost& why) {
    core.streams.lose_all(why);
    routes.lose(why);
  }

  void close_when_done() {
    if (core.files.transactions() > 0) {
      if (Clock::now() < drain_until.load()) return;
      lose({"SERVER_ENDING",
            "this server has ended, and waited no longer for the transaction, which was rolled "
            "back"});
    }
    closed_until = Clock::now() + closing_takes;
    closing = true;
    server->drain();
  }

  // Does not wait for clients that do not answer the end of their WebSocket, or read nothing.
  bool ended() const { return closing && (server->ended() || Clock::now() > closed_until.load()); }

  void stop_housekeeper() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wanted.notify_all();
    if (housekeeper.joinable()) housekeeper.join();
  }

  static constexpr std::chrono::milliseconds every{50};
  static constexpr std::chrono::seconds closing_takes{2};

  Core core;
  Routes routes;
  std::optional<http::Server> server;
  std::atomic<Clock::time_point> drain_until{Clock::time_point::max()},
      closed_until{Clock::time_point::max()};
  std::atomic<bool> closing{false};  // the listeners are closed, and the connections will be
  std::mutex mutex;                  // guards stopping
  std::condition_variable wanted;
  bool stopping = false;
  std::thread housekeeper;
};

Front::Front(Options options) : inside_(std::make_unique<Inside>(std::move(options))) {}
Front::~Front() = default;

void Front::start() {
  inside_->server->start();
  inside_->housekeeper = std::thread([this] { inside_->keep_house(); });
}

std::string Front::reload(const http::ClientTls& tls, const std::function<std::string()>& rest) {
  try {
    auto doors = inside_->core.read_doors();
    std::string problem = inside_->server->reload(tls, rest);
    if (!problem.empty()) return problem;
    inside_->core.use(std::move(doors));
    if (inside_->core.admissions) inside_->core.admissions->forget();
    return {};
  } catch (const std::exception& error) { return error.what(); }
}

void Front::drain() {
  inside_->drain_until = Clock::now() + inside_->core.options.drain_timeout;
  inside_->core.files.drain();
}

bool Front::ended() const { return inside_->ended(); }

bool Front::stop(std::chrono::milliseconds patience) {
  inside_->stop_housekeeper();
  inside_->server.reset();
  return inside_->core.workers.stop(patience);
}

std::vector<std::string> Front::addresses() const { return inside_->server->addresses(); }

}  // namespace termgate::sqlite_front
