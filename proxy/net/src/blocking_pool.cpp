// After end() no call begins, and those that waited are dropped.
#include "blocking_pool.hpp"

namespace termgate::net {

BlockingPool::BlockingPool(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

void BlockingPool::run(std::function<void()> errand) {
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    waiting_.push_back(std::move(errand));
  }
  changed_.notify_one();
}

void BlockingPool::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void BlockingPool::work() {
  for (;;) {
    std::function<void()> errand;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (ending_) return;
      errand = std::move(waiting_.front());
      waiting_.pop_front();
    }
    errand();
  }
}

}  // namespace termgate::net
