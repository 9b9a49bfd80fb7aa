// Threads for calls that may block (rules, name resolution, HTTP queries), so that no event loop
// waits for them. Any thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace termgate::net {

class BlockingPool {
 public:
  explicit BlockingPool(unsigned threads);
  ~BlockingPool() { end(); }
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  void run(std::function<void()> errand);
  // Drops the calls that wait, and waits for those under way.
  void end();

 private:
  void work();

  std::mutex mutex_;  // guards waiting_, ending_
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace termgate::net
