// Running: the work for one request, so that its statement can be stopped when the client's
// connection ends, and so that a refusal can be attributed.
//
// Owner: the request. For the worker's thread, except cancel(), which any thread may call.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace termgate::sqlite_front {

// The token's name and the client's address, for the log.
struct Whose {
  std::string principal, client;
};

class Running {
 public:
  // `late`: the request came when the server was already shutting down.
  Running(Whose whose, bool late) : whose_(std::move(whose)), late_(late) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // The client has gone: stops the running statement, and prevents further ones.
  void cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (stop_) stop_();
  }
  bool cancelled() const noexcept { return cancelled_; }
  bool late() const noexcept { return late_; }
  const Whose& whose() const noexcept { return whose_; }

  // The start of a call that may take long. Another thread may call `stop` until ends().
  void begins(std::function<void()> stop) {
    const std::lock_guard lock(mutex_);
    stop_ = std::move(stop);
  }
  void ends() {
    const std::lock_guard lock(mutex_);
    stop_ = nullptr;
  }

  // The work of the current thread; nullptr: none.
  static Running*& here() noexcept {
    thread_local Running* current = nullptr;
    return current;
  }
  class Here {
   public:
    explicit Here(Running& running) noexcept : before_(std::exchange(here(), &running)) {}
    ~Here() { here() = before_; }
    Here(const Here&) = delete;
    Here& operator=(const Here&) = delete;

   private:
    Running* before_;
  };

 private:
  const Whose whose_;
  const bool late_;
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;  // guards stop_, also while it is called
  std::function<void()> stop_;
};

}  // namespace termgate::sqlite_front
