// Running: the work for one request, so that the end of its client's connection stops the statement that it is at, and so that a refusal
// knows whose it is.
//
// Owner: the request. The worker's thread, but for cancel(), which is any thread's.
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
  // `late`: it came when the server was ending already.
  Running(Whose whose, bool late) : whose_(std::move(whose)), late_(late) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // The client has gone: what runs is stopped, and nothing more of the request is begun.
  void cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (stop_) stop_();
  }
  bool cancelled() const noexcept { return cancelled_; }
  bool late() const noexcept { return late_; }
  const Whose& whose() const noexcept { return whose_; }

  // Around a call that may take its time. `stop` may be called by another thread between the two.
  void begins(std::function<void()> stop) {
    const std::lock_guard lock(mutex_);
    stop_ = std::move(stop);
  }
  void ends() {
    const std::lock_guard lock(mutex_);
    stop_ = nullptr;
  }

  // That of the work which this thread is at; nullptr: none.
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
