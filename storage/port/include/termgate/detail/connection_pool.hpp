// The connections of one driver to its database. Internal.
//
// A connection is lent to one call at a time, and to one thread. Whoever begins a transaction on it says so before
// BEGIN is sent, and that it ended only once the server has answered; a connection that comes back in between is closed.
// So a way out that nobody thought of costs a connection and never lends out one with a transaction in it.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <termgate/error.hpp>

namespace termgate::inline v0::detail {

// Any thread. The pool outlives what it has lent.
template <class Connection>
class ConnectionPool {
 public:
  // Called without the pool's lock: they may ask the server. What `connect` and `is_alive` throw comes out of take().
  struct Hooks {
    std::function<std::unique_ptr<Connection>()> connect;
    std::function<bool(Connection&)> is_alive;     // of an idle connection that is about to be lent
    std::function<bool(Connection&)> is_reusable;  // of one that comes back outside any transaction
  };

  // How well an idle connection suits a call: the highest is lent. Below 0: rather a new one, while there may be more.
  using Fitness = std::function<int(const Connection&)>;

  // A connection for the length of one call.
  class PooledConnection {
   public:
    ~PooledConnection() {
      innermost_ = outer_;
      if (in_transaction_ || !connection_ || !pool_.hooks_.is_reusable(*connection_)) connection_.reset();
      pool_.put_back(std::move(connection_));
    }
    PooledConnection(const PooledConnection&) = delete;
    PooledConnection& operator=(const PooledConnection&) = delete;

    Connection& operator*() const { return *connection_; }
    Connection* operator->() const { return connection_.get(); }

    // From here to ended() the connection may be in a transaction.
    void begun() { in_transaction_ = true; }
    void ended() { in_transaction_ = false; }

    // The connection had died while it was idle, and nothing was sent on it yet: a new one instead. False: this one is new.
    bool renew() {
      if (fresh_) return false;
      connection_.reset();
      connection_ = pool_.hooks_.connect();
      fresh_ = true;
      return true;
    }

   private:
    friend class ConnectionPool;
    PooledConnection(ConnectionPool& pool, std::chrono::milliseconds wait, const Fitness& fitness) : pool_(pool), outer_(innermost_) {
      for (const PooledConnection* open = innermost_; open != nullptr; open = open->outer_) {
        if (&open->pool_ == &pool) {
          throw InvalidInput(
              "TG005 a call of this Database from inside its own transaction: use the Transaction that the callback was given");
        }
      }
      connection_ = pool.take(wait, fresh_, fitness);
      innermost_ = this;
    }

    ConnectionPool& pool_;
    std::unique_ptr<Connection> connection_;
    bool fresh_ = false;
    bool in_transaction_ = false;
    const PooledConnection* outer_;
    // This thread's calls in progress. A plain pointer: it outlives the thread's other objects, and a Database may be closed late.
    static inline thread_local const PooledConnection* innermost_ = nullptr;
  };

  ConnectionPool(int connections_max, Hooks hooks) : hooks_(std::move(hooks)), max_(connections_max) { assert(max_ > 0); }
  ~ConnectionPool() { assert(open_ == static_cast<int>(idle_.size())); }
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  // Waits for a free connection or makes one. Blocked: all are busy for so long. InvalidInput: this thread has one already.
  PooledConnection lend(std::chrono::milliseconds wait, const Fitness& fitness = {}) { return PooledConnection(*this, wait, fitness); }

  // Calls `use` with an idle connection that `which` picks; nobody else has it meanwhile. False: there is none. What `use` throws closes
  // it.
  template <class Which, class Use>
  bool with_idle(Which which, Use use) {
    std::unique_ptr<Connection> one;
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const auto& idle) { return which(*idle); });
      if (found == idle_.end()) return false;
      one = std::move(*found);
      idle_.erase(found);
    }
    try {
      use(*one);
    } catch (...) {
      one.reset();
      put_back(nullptr);
      throw;
    }
    put_back(std::move(one));
    return true;
  }

 private:
  // With the lock. None: one is to be made.
  std::unique_ptr<Connection> idle_for(const Fitness& fitness) {
    if (idle_.empty()) return nullptr;
    auto best = std::prev(idle_.end());
    if (fitness) {
      // Among equals, the one that was given back last.
      int highest = fitness(**best);
      for (auto one = best; one != idle_.begin();) {
        --one;
        if (const int found = fitness(**one); found > highest) {
          best = one;
          highest = found;
        }
      }
      if (highest < 0 && open_ < max_) return nullptr;
    }
    std::unique_ptr<Connection> idle = std::move(*best);
    idle_.erase(best);
    return idle;
  }

  std::unique_ptr<Connection> take(std::chrono::milliseconds wait, bool& fresh, const Fitness& fitness) {
    for (;;) {
      std::unique_ptr<Connection> idle;
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, wait, [&] { return !idle_.empty() || open_ < max_; })) {
          throw Blocked(
              fmt::format("TG006 all {} connections of this process to the database are busy; see OpenOptions::connections_max", open_));
        }
        idle = idle_for(fitness);
        if (!idle) ++open_;
      }
      try {
        fresh = !idle;
        if (!idle) return hooks_.connect();
        if (hooks_.is_alive(*idle)) return idle;
      } catch (...) {
        put_back(nullptr);
        throw;
      }
      idle.reset();
      put_back(nullptr);
    }
  }

  // Null: one is gone.
  void put_back(std::unique_ptr<Connection> connection) {
    {
      const std::lock_guard lock(mutex_);
      if (connection) idle_.push_back(std::move(connection));
      else --open_;
      assert(open_ >= static_cast<int>(idle_.size()));
    }
    changed_.notify_one();
  }

  const Hooks hooks_;
  const int max_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Connection>> idle_;  // the last one given back is lent first
  int open_ = 0;                                   // idle and lent
};

}  // namespace termgate::inline v0::detail
