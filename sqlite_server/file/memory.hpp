// Bounds the memory that one statement takes. SQLite's own bound is for the whole process, where
// one greedy reader would make the writers fail. So an allocator that counts for each thread wraps
// SQLite's own; a statement runs on one thread.
#pragma once

#include <cstddef>

namespace termgate::sqlite_file {

// Must be called before the first use of SQLite in the process. False: SQLite was in use already,
// and there are no bounds. Thread-safe.
bool count_memory() noexcept;

// While it lives, SQLite can take at most `bytes_max` more than it frees on this thread; beyond
// that, allocations fail with SQLITE_NOMEM. 0: no bound. At most one on a thread.
class MemoryBound {
 public:
  explicit MemoryBound(std::size_t bytes_max) noexcept;
  ~MemoryBound();
  MemoryBound(const MemoryBound&) = delete;
  MemoryBound& operator=(const MemoryBound&) = delete;
};

}  // namespace termgate::sqlite_file
