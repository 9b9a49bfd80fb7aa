// One event loop: a thread, the connections that live on it, and the sweep that checks their
// deadlines. Functions run on the loop's own thread unless they say otherwise.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <termgate/http/server.hpp>

namespace termgate::http {

class Connection;

// What all loops of a server share.
struct Shared {
  Shared(ServerOptions the_options, Handler& the_handler)
      : options(std::move(the_options)), handler(the_handler) {}

  const ServerOptions options;
  Handler& handler;
  std::atomic<std::size_t> connections{0}, sockets{0};
  std::atomic<std::uint64_t> accepted{0}, requests{0}, refused{0};
  std::atomic<bool> draining{false};

  TlsContext tls() const;
  void set_tls(TlsContext context);
  // Reports a failed connection, at most once a second.
  void failed(const Endpoint& peer, std::string_view why);

 private:
  mutable std::mutex mutex_;  // guards the members below
  TlsContext tls_;
  std::chrono::steady_clock::time_point told_{};
};

class Loop : public std::enable_shared_from_this<Loop> {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t buffer_bytes = 64u << 10;
  static constexpr std::chrono::milliseconds sweep_every{200};

  explicit Loop(std::shared_ptr<Shared> shared);

  // --- any thread ---
  void start();
  // Ends all connections and the thread; tasks that are posted later are dropped.
  void stop();
  void post(std::function<void()> task);
  bool here() const noexcept {
    return thread_id_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  std::size_t silent_count() const noexcept {
    return silent_count_.load(std::memory_order_relaxed);
  }
  std::size_t load() const noexcept { return load_.load(std::memory_order_relaxed); }
  void take(int descriptor, const Endpoint& peer, const ListenerOptions& listener);
  void drain();

  // --- for connections ---
  boost::asio::io_context& context() noexcept { return context_; }
  Shared& shared() noexcept { return *shared_; }
  char* buffer() noexcept { return buffer_.get(); }
  // Connections that wait for a complete request, with the one that has been silent longest first.
  using Place = std::list<Connection*>::iterator;
  Place silent(Connection& connection);
  void heard(Place place);
  void forget(Connection& connection);

 private:
  void sweep();
  void begin(int descriptor, const Endpoint& peer, const ListenerOptions& listener);

  const std::shared_ptr<Shared> shared_;
  std::unique_ptr<char[]> buffer_{new char[buffer_bytes]};
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  std::list<Connection*> silent_;
  std::atomic<std::size_t> silent_count_{0}, load_{0};
  std::atomic<std::thread::id> thread_id_{};
  std::mutex mutex_;  // guards ended_
  bool ended_ = false;
  boost::asio::io_context context_{1};
  boost::asio::steady_timer timer_{context_};
  std::thread thread_;
};

}  // namespace termgate::http
