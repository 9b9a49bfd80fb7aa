// The connections of one driver to its database. Internal.
//
// A connection is lent to one call at a time, and to one thread. The caller marks a transaction as
// begun before BEGIN is sent, and as ended only once the server has answered; a connection that
// comes back in between is closed. So an unforeseen way out only costs a connection, and a
// connection with a transaction in it is never lent.
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

namespace termgate {
inline namespace v0 {
namespace detail {

// Any thread. The pool must outlive what it has lent.
template <class Connection>
class ConnectionPool {
 public:
  // Called without the pool's lock, so they may query the server. lend() passes on what `connect`
  // and `is_alive` throw.
  struct Hooks {
    std::function<std::unique_ptr<Connection>()> connect;
    std::function<bool(Connection&)> is_alive;     // whether an idle connection can be lent
    std::function<bool(Connection&)> is_reusable;  // whether a connection that comes back outside a
                                                   // transaction can be used again
  };

  // How well an idle connection suits a call; the one with the highest value is lent. Below 0: a
  // new connection is better, while more are allowed.
  using Fitness = std::function<int(const Connection&)>;

  // A connection for the length of one call.
  class PooledConnection {
   public:
    ~PooledConnection() {
      innermost_ = outer_;
      if (in_transaction_ || !connection_ || !pool_.hooks_.is_reusable(*connection_))
        connection_.reset();
      pool_.put_back(std::move(connection_));
    }
    PooledConnection(const PooledConnection&) = delete;
    PooledConnection& operator=(const PooledConnection&) = delete;

    Connection& operator*() const { return *connection_; }
    Connection* operator->() const { return connection_.get(); }

    // Between begun() and ended() the connection may be in a transaction.
    void begun() { in_transaction_ = true; }
    void ended() { in_transaction_ = false; }

    // Replaces the connection, which died while it was idle, before anything was sent on it. False:
    // this one is already new.
    bool renew() {
      if (fresh_) return false;
      connection_.reset();
      connection_ = pool_.hooks_.connect();
      fresh_ = true;
      return true;
    }

   private:
    friend class ConnectionPool;
    PooledConnection(ConnectionPool& pool, std::chrono::milliseconds wait, const Fitness& fitness)
        : pool_(pool), outer_(innermost_) {
      for (const PooledConnection* open = innermost_; open != nullptr; open = open->outer_) {
        if (&open->pool_ == &pool) {
          throw InvalidInput(
              "TG005 a call of this Database from inside its own transaction: use the Transaction "
              "that the callback was given");
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
    // This thread's innermost call in progress. A plain pointer, because it must outlive the
    // thread's other objects: a Database may be closed late.
    static inline thread_local const PooledConnection* innermost_ = nullptr;
  };

  ConnectionPool(int connections_max, Hooks hooks)
      : hooks_(std::move(hooks)), max_(connections_max) {
    assert(max_ > 0);
  }
  ~ConnectionPool() { assert(open_ == static_cast<int>(idle_.size())); }
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  // Waits for a free connection or makes one. Throws Blocked if all are busy for this long,
  // InvalidInput if this thread already has one.
  PooledConnection lend(std::chrono::milliseconds wait, const Fitness& fitness = {}) {
    return PooledConnection(*this, wait, fitness);
  }

  // Calls `use` with an idle connection that `which` picks, and that nobody else has meanwhile.
  // False: there is none. If `use` throws, the connection is closed.
  template <class Which, class Use>
  bool with_idle(Which which, Use use) {
    std::unique_ptr<Connection> one;
    {
      const std::lock_guard lock(mutex_);
      const auto found =
          std::find_if(idle_.begin(), idle_.end(), [&](const auto& idle) { return which(*idle); });
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
  // Needs the lock. None: a new connection must be made.
  std::unique_ptr<Connection> idle_for(const Fitness& fitness) {
    if (idle_.empty()) return nullptr;
    auto best = std::prev(idle_.end());
    if (fitness) {
      // Among equals, the one that was returned last is chosen.
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

  std::unique_ptr<Connection> take(std::chrono::milliseconds wait, bool& fresh,
                                   const Fitness& fitness) {
    for (;;) {
      std::unique_ptr<Connection> idle;
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, wait, [&] { return !idle_.empty() || open_ < max_; })) {
          throw Blocked(
              fmt::format("TG006 all {} connections of this process to the database are busy; see "
                          "OpenOptions::connections_max",
                          open_));
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

  // nullptr: the connection was closed.
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

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Connection>> idle_;  // the one that was returned last is lent first
  int open_ = 0;                                   // idle and lent ones
};

}  // namespace detail
}  // namespace v0
}  // namespace termgate
