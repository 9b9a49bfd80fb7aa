// A few threads that run tasks at given times, such as renewals, acquisitions and reports. Any
// thread may call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace termgate::authority {

class Workers {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Workers(int threads);
  // Waits for running tasks and drops the others.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // `task` must not throw.
  void at(Clock::time_point when, std::function<void()> task);
  // Waits for running tasks; no further task begins. Must not be called from a task.
  void stop();

 private:
  void run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::multimap<Clock::time_point, std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace termgate::authority
