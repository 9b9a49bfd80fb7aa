// Threads that may block. They are started when there is work, and end after some idle seconds.
// Each lane has its own number of threads, so that the thread which a transaction needs for its
// COMMIT is never taken by work that waits for that very transaction to end.
//
// Owner: the front. Any thread may call run().
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace termgate::sqlite_front {

enum class Lane : std::uint8_t {
  transactions,  // requests of streams with an open transaction, and whatever ends one: they do not
                 // wait for others
  writers,       // may wait for the write lock
  reads,         // a statement that reads
  cursors,       // may wait for a client that reads slowly
  admissions,    // may wait for a lease, or read a large body
};
inline constexpr std::size_t lanes = 5;

class Workers {
 public:
  struct Limit {
    std::size_t threads = 1;
    std::size_t waiting =
        0;  // work that is kept until a thread is free; beyond that run() returns false
  };
  using Limits = std::array<Limit, lanes>;

  explicit Workers(const Limits& limits) : limits_(limits) {}
  // Waits for running work.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // False: the lane is full, no thread can be started, or stop() was called; nothing was done.
  // `work` must not throw.
  [[nodiscard]] bool run(Lane lane, std::function<void()> work);
  // Accepts no more work and drops what waits. False: some work still runs after `patience`.
  bool stop(std::chrono::milliseconds patience);

 private:
  struct Queue {
    std::size_t running = 0;
    std::deque<std::function<void()>> waiting;
  };
  static void* thread(void* self);
  bool start_thread();
  void work();
  Queue* next();

  static constexpr std::size_t stack_bytes = std::size_t{2} << 20;
  static constexpr std::chrono::seconds rests_for{10};

  const Limits limits_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable wanted_, ended_;
  std::array<Queue, lanes> queues_;
  std::size_t threads_ = 0, resting_ = 0;
  std::size_t begun_ = 0;  // waiting work for which a resting thread has been woken
  bool stopping_ = false;
};

}  // namespace termgate::sqlite_front
