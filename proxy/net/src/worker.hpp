// One thread with its connections: an epoll loop, the read buffer that they share, and the sweep
// that checks deadlines.
//
// It uses epoll directly and not through Asio. Asio re-arms the descriptor at each wait, which is a
// system call for every message, and keeps an operation allocated for each idle socket. Here there
// is a system call only when the events of interest change.
//
// Functions may be called by the worker's own thread only, unless marked otherwise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include <termgate/net/cancel_registry.hpp>
#include <termgate/conversation/session_host.hpp>
#include <termgate/statements/cache.hpp>

#include "shared.hpp"

namespace termgate::net {

class Connection;
class CancelTask;

// An object that epoll events are delivered to.
class Pollable {
 public:
  virtual ~Pollable() = default;
  virtual void ready(std::uint32_t events) = 0;
};

class Worker final {
 public:
  static constexpr std::size_t buffer_bytes = 64u << 10;

  Worker(Shared& shared, std::shared_ptr<Counters> counters);
  ~Worker();

  // --- any thread ---
  void start();
  void join();
  void post(std::function<void()> task);
  void fence_rose(std::uint64_t fences, std::string_view scope, std::int64_t fence);
  void gate_wanted(std::string_view scope, bool certain);
  std::size_t load() const noexcept { return load_.load(std::memory_order_relaxed); }
  std::int64_t in_transaction() const noexcept {
    return in_transaction_.load(std::memory_order_relaxed);
  }
  std::int64_t seated() const noexcept { return seated_.load(std::memory_order_relaxed); }
  std::int64_t session_bytes() const noexcept {
    return session_bytes_.load(std::memory_order_relaxed);
  }
  void drain(conversation::Instant cut_at);
  void stop();
  // Takes a connection that another thread has accepted. `room_is_here`: of all workers this one
  // has the most clients that are still in their greeting.
  void hand_over(int descriptor, const Endpoint& peer, const http::OpenListener* listener,
                 bool room_is_here);
  std::size_t greeting_count() const noexcept {
    return greeting_count_.load(std::memory_order_relaxed);
  }

  // --- for connections ---
  Shared& shared() noexcept { return shared_; }
  Counters& counters() noexcept { return *counters_; }
  char* buffer() noexcept { return buffer_.get(); }
  // Sets the events of interest; 0 removes the descriptor. `current`: what the last call set.
  void watch(int descriptor, Pollable* who, std::uint32_t wanted, std::uint32_t& current);
  Connection* find(std::uint64_t id);
  // Takes it out of the lists. It is destroyed when the current events are handled.
  void bury(Connection& connection);
  // Adds a connection to those that have not sent their login, or removes it from them.
  std::list<Connection*>::iterator greets(Connection& connection);
  void has_greeted(std::list<Connection*>::iterator place);
  // `done` is called once, on this thread. False: too many requests are under way, and `done` will
  // not be called.
  bool cancel(const CancelRegistry::Target& target, std::shared_ptr<const Settings> settings,
              std::function<void()> done);
  void bury(CancelTask& task);
  bool draining() const noexcept { return draining_; }
  statements::Cache& statements() noexcept { return cache_; }
  // Counts and logs an incident of a connection of this thread, and passes it to the authority.
  void happened(const Connection& connection, const conversation::Incident& incident);

  // The raised fences, by the id() of Fences and by scope.
  using Risen = std::unordered_map<std::uint64_t, std::unordered_map<std::string, std::int64_t>>;

 private:
  class Acceptor;
  class Waker;

  void run();
  void accept_from(const http::OpenListener& listener);
  void take(int descriptor, const Endpoint& peer, const http::OpenListener* listener,
            bool room_is_here);
  bool make_room();
  void sweep(conversation::Instant now);
  void run_posted();
  void watch_listeners(bool wanted);

  Shared& shared_;
  std::shared_ptr<Counters> counters_;
  statements::Cache cache_;
  std::unique_ptr<char[]> buffer_;
  int epoll_ = -1;
  int spare_ = -1;  // closed when no descriptor is left, so that a client can still get an error
  std::unique_ptr<Waker> waker_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::unordered_map<std::uint64_t, Connection*> by_id_;
  std::list<Connection*> greeting_;  // those that have not sent their login, in order of arrival
  std::vector<std::unique_ptr<CancelTask>> tasks_;
  // Kept until the current events are handled.
  std::vector<std::unique_ptr<Connection>> buried_;
  std::vector<std::unique_ptr<CancelTask>> buried_tasks_;
  conversation::Instant accept_again_{};
  conversation::Instant counted_{};
  conversation::Instant cut_at_ = conversation::Instant::max();
  bool cut_ = false;
  bool draining_ = false;

  std::atomic<std::size_t> load_{0};
  std::atomic<std::size_t> greeting_count_{0};
  std::atomic<std::int64_t> in_transaction_{0};
  std::atomic<std::int64_t> seated_{0};
  std::atomic<std::int64_t> session_bytes_{0};
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;  // guards posted_, rose_, the gates, awake_
  std::vector<std::function<void()>> posted_;
  Risen rose_;
  std::set<std::string, std::less<>> gates_wanted_, gates_unwatched_;
  bool awake_ = false;

  std::thread thread_;
};

}  // namespace termgate::net
