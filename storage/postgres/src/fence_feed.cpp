// LISTEN on a connection of its own. libpqxx's await_notification() cannot be woken, so the socket is polled beside an eventfd.
#include <termgate/detail/postgres_fence_feed.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

#include <pqxx/pqxx>

#include <termgate/error.hpp>

#include "conninfo.hpp"
#include "errors.hpp"

namespace termgate::inline v0::detail {

struct PostgresFenceFeed::Inside {
  struct Receiver final : pqxx::notification_receiver {
    using pqxx::notification_receiver::notification_receiver;
    void operator()(const std::string& payload, int) override {
      if (payloads.size() < payloads_max)
        payloads.push_back(payload);
      else
        ++missed;
    }
    std::vector<std::string> payloads;
    std::size_t payloads_max = 0;
    std::size_t missed = 0;
  };

  // The members' order is that of construction: the receiver sends LISTEN, and UNLISTEN when it goes.
  struct Listening {
    explicit Listening(const std::string& conninfo) : connection(conninfo), quiet(connection) {
#if PQXX_VERSION_MAJOR < 7
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
      connection.inhibit_reactivation(true);
#pragma GCC diagnostic pop
#endif
      receiver.emplace(connection, "termgate");
    }
    pqxx::connection connection;
    pqxx::quiet_errorhandler quiet;
    std::optional<Receiver> receiver;
  };

  std::string url;
  std::string conninfo;
  int wakeup = -1;
  std::optional<Listening> listening;
};

PostgresFenceFeed::PostgresFenceFeed(std::string url) : inside_(std::make_unique<Inside>()) {
  inside_->url = std::move(url);
  inside_->conninfo = conninfo_of(inside_->url, std::getenv("PGCONNECT_TIMEOUT") != nullptr);
  inside_->wakeup = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (inside_->wakeup < 0) throw Unavailable("no descriptor is left for the feed of raised fences");
}

PostgresFenceFeed::~PostgresFenceFeed() { close(inside_->wakeup); }

std::size_t PostgresFenceFeed::wait(std::chrono::milliseconds at_most, std::size_t payloads_max, std::vector<std::string>& payloads, bool& connected_anew) {
  Inside& in = *inside_;
  try {
    connected_anew = !in.listening;
    if (!in.listening) {
      in.listening.emplace(in.conninfo);
    } else {
      pollfd watched[] = {{in.listening->connection.sock(), POLLIN, 0}, {in.wakeup, POLLIN, 0}};
      poll(watched, 2, static_cast<int>(at_most.count()));
    }
    std::uint64_t count = 0;
    if (read(in.wakeup, &count, sizeof count) < 0) count = 0;  // nobody called wake()
    auto& receiver = *in.listening->receiver;
    receiver.payloads_max = payloads_max;
    receiver.missed = 0;
    in.listening->connection.get_notifs();
    if (!in.listening->connection.is_open()) throw pqxx::broken_connection("the server ended the session");
    payloads = std::exchange(receiver.payloads, {});
    return receiver.missed;
  } catch (...) {
    const bool open = in.listening && in.listening->connection.is_open();
    in.listening.reset();
    rethrow_as_ours(Phase::before_commit, in.url, open);
  }
}

void PostgresFenceFeed::wake() noexcept {
  const std::uint64_t one = 1;
  // Fails only when it is awake a great many times already.
  if (write(inside_->wakeup, &one, sizeof one) < 0) return;
}

}  // namespace termgate::inline v0::detail
