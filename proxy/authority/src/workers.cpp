// Tasks may schedule further ones. After stop() no task begins, and those that waited are destroyed
// without having run.
#include "workers.hpp"

#include <utility>

namespace termgate::authority {

Workers::Workers(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() { stop(); }

void Workers::at(Clock::time_point when, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    tasks_.emplace(when, std::move(task));
  }
  changed_.notify_one();
}

void Workers::stop() {
  // Destroyed outside the lock, because a task may hold the last reference to an object that
  // schedules tasks here.
  std::multimap<Clock::time_point, std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
  }
  changed_.notify_all();
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Workers::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (tasks_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto due = tasks_.begin()->first;
    if (Clock::now() < due) {
      changed_.wait_until(lock, due);
      continue;
    }
    auto task = std::move(tasks_.begin()->second);
    tasks_.erase(tasks_.begin());
    lock.unlock();
    task();
    // Destroyed before the lock is taken, for the same reason as in stop().
    task = nullptr;
    lock.lock();
  }
}

}  // namespace termgate::authority
