// ConnectionPool: the connections that a driver has open to its database, each lent to one call at a time. A place is an open connection,
// or one that is being opened; there are at most `connections_max`. Internal.
//
// Owner: a driver, which outlives every loan. Threads: any thread may borrow; a loan stays on the thread that took it. Connections are
// opened, tested and closed outside the mutex, so a slow server delays only the call that waits for it.
// Invariants, asserted in debug builds:
//   - idle connections have a place each, and no more places are taken than there are;
//   - a thread has at most one loan of a pool: a second one would be a call from inside its own transaction;
//   - at the end every loan has been given back.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <termgate/error.hpp>

namespace termgate::inline v0::detail {

template <class Connection>
class ConnectionPool {
 public:
  struct Hooks {
    // Opens a connection; throws what the driver throws for one that cannot be opened.
    std::function<std::unique_ptr<Connection>()> open;
    // Whether an idle connection can still be used.
    std::function<bool(Connection&)> usable;
    // Whether a connection that its call has marked reusable is worth keeping.
    std::function<bool(Connection&)> worth_keeping;
  };

  ConnectionPool(int connections_max, std::chrono::milliseconds wait_max, Hooks hooks)
      : connections_max_(connections_max), wait_max_(wait_max), hooks_(std::move(hooks)) {}
  ~ConnectionPool() { assert(places_ == static_cast<int>(idle_.size()) && "every loan has been given back"); }
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  // A connection for the length of one call. Closed at its end, unless the call has marked it reusable.
  class Loan {
   public:
    // Throws InvalidInput inside another loan of this thread, Blocked where no place is free within `timeout` and the pool's own bound.
    explicit Loan(ConnectionPool& pool, std::optional<std::chrono::milliseconds> timeout = {}) : pool_(pool), outer_(innermost) {
      for (const Loan* open = innermost; open != nullptr; open = open->outer_) {
        if (&open->pool_ == &pool) {
          throw InvalidInput(
              "TG005 a call of this Database from inside its own transaction: use the Transaction that the callback was given");
        }
      }
      connection_ = pool.take(timeout, fresh_);
      innermost = this;
    }
    ~Loan() {
      assert(innermost == this && "loans of a thread end in the reverse order");
      innermost = outer_;
      if (!reusable_ || connection_ == nullptr || !pool_.hooks_.worth_keeping(*connection_)) connection_.reset();
      pool_.put_back(std::move(connection_));
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

    Connection& operator*() const noexcept { return *connection_; }
    // The connection is outside any transaction and may be used again.
    void mark_reusable() noexcept { reusable_ = true; }
    // Replaces a pooled connection that turned out to be dead by a new one. False: this one is new.
    bool renew() {
      if (fresh_) return false;
      connection_.reset();
      connection_ = pool_.hooks_.open();
      fresh_ = true;
      return true;
    }

   private:
    ConnectionPool& pool_;
    std::unique_ptr<Connection> connection_;
    bool reusable_ = false;
    bool fresh_ = false;
    const Loan* outer_;
    // This thread's loans. A plain pointer: it outlives the thread's other objects, and a Database may be closed late.
    static inline thread_local const Loan* innermost = nullptr;
  };

 private:
  std::unique_ptr<Connection> take(std::optional<std::chrono::milliseconds> timeout, bool& fresh) {
    bool has_place = false;  // without a connection in it
    for (;;) {
      std::unique_ptr<Connection> idle;
      {
        std::unique_lock lock(mutex_);
        if (!has_place) wait_for_place(lock, std::min(timeout.value_or(wait_max_), wait_max_));
        if (!idle_.empty()) {
          idle = std::move(idle_.back());
          idle_.pop_back();
          if (has_place) --places_;
        } else if (!has_place) {
          ++places_;
        }
        has_place = true;
        assert_consistent();
      }
      try {
        if (!idle) {
          fresh = true;
          return hooks_.open();
        }
        if (hooks_.usable(*idle)) return idle;
      } catch (...) {
        put_back(nullptr);
        throw;
      }
    }
  }

  void wait_for_place(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds wait) {
    if (freed_.wait_for(lock, wait, [&] { return !idle_.empty() || places_ < connections_max_; })) return;
    throw Blocked("TG006 all " + std::to_string(places_) +
                  " connections of this process to the database are busy; see OpenOptions::connections_max");
  }

  // nullptr: the place is free again.
  void put_back(std::unique_ptr<Connection> connection) {
    {
      const std::lock_guard lock(mutex_);
      if (connection) idle_.push_back(std::move(connection));
      else --places_;
      assert_consistent();
    }
    freed_.notify_one();
  }

  // With mutex_ held.
  void assert_consistent() const noexcept {
    assert(places_ >= 0 && places_ <= connections_max_);
    assert(idle_.size() <= static_cast<std::size_t>(places_) && "an idle connection has a place");
  }

  const int connections_max_;
  const std::chrono::milliseconds wait_max_;
  const Hooks hooks_;
  std::mutex mutex_;  // guards the next two
  int places_ = 0;
  std::vector<std::unique_ptr<Connection>> idle_;  // the next to be lent is the last
  std::condition_variable freed_;
};

}  // namespace termgate::inline v0::detail
