// A bound on what one statement takes of memory. SQLite knows such a bound for the whole process only, where one greedy reader would make
// the writers fail: so an allocator that counts by thread wraps SQLite's own. A statement runs on one thread.
#pragma once

#include <cstddef>

namespace termgate::sqlite_file {

// Before the first use of SQLite in the process; later it changes nothing. False: SQLite was in use, and there are no bounds. Thread-safe.
bool count_memory() noexcept;

// For its lifetime and on its thread SQLite gets `bytes_max` more than it gives back, and then SQLITE_NOMEM. 0: no bound.
class MemoryBound {
 public:
  explicit MemoryBound(std::size_t bytes_max) noexcept;
  ~MemoryBound();
  MemoryBound(const MemoryBound&) = delete;
  MemoryBound& operator=(const MemoryBound&) = delete;
};

}  // namespace termgate::sqlite_file
