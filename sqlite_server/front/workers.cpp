#include "front/workers.hpp"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace termgate::sqlite_front {

Workers::~Workers() {
  while (!stop(std::chrono::hours(1))) {}
}

bool Workers::run(Lane lane, std::function<void()> work) {
  std::unique_lock lock(mutex_);
  const auto index = static_cast<std::size_t>(lane);
  Queue& queue = queues_[index];
  const Limit& limit = limits_[index];
  if (stopping_ || queue.running + queue.waiting.size() >= limit.threads + limit.waiting)
    return false;
  queue.waiting.push_back(std::move(work));
  // All threads of the lane are busy: the first that becomes free takes this work.
  if (queue.running + queue.waiting.size() > limit.threads) return true;
  if (begun_ < resting_) {
    ++begun_;
    lock.unlock();  // otherwise the thread would wake up only to wait for the lock
    wanted_.notify_one();
    return true;
  }
  if (start_thread()) return true;
  // If no thread can be started, the existing ones do the work.
  if (threads_ > 0) return true;
  queue.waiting.pop_back();
  return false;
}

bool Workers::start_thread() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t made;
  const bool started = pthread_create(&made, &attributes, &Workers::thread, this) == 0;
  pthread_attr_destroy(&attributes);
  if (started) ++threads_;
  return started;
}

void* Workers::thread(void* self) {
  static_cast<Workers*>(self)->work();
  return nullptr;
}

// The first lane that has work and may use another thread; nullptr: none.
Workers::Queue* Workers::next() {
  for (std::size_t index = 0; index < lanes; ++index) {
    if (!queues_[index].waiting.empty() && queues_[index].running < limits_[index].threads)
      return &queues_[index];
  }
  return nullptr;
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (Queue* queue = next()) {
      std::function<void()> work = std::move(queue->waiting.front());
      queue->waiting.pop_front();
      ++queue->running;
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      --queue->running;
      continue;
    }
    if (stopping_) break;
    ++resting_;
    const bool woken =
        wanted_.wait_for(lock, rests_for, [this] { return begun_ > 0 || stopping_; });
    --resting_;
    if (begun_ > 0) --begun_;
    if (!woken) break;
  }
  --threads_;
  ended_.notify_all();
}

bool Workers::stop(std::chrono::milliseconds patience) {
  std::array<Queue, lanes> dropped;
  std::unique_lock lock(mutex_);
  stopping_ = true;
  for (std::size_t index = 0; index < lanes; ++index)
    std::swap(dropped[index].waiting, queues_[index].waiting);
  wanted_.notify_all();
  const bool gone = ended_.wait_for(lock, patience, [this] { return threads_ == 0; });
  lock.unlock();
  return gone;
}

}  // namespace termgate::sqlite_front
