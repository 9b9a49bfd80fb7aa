#include "file/memory.hpp"

#include <sqlite3.h>

#include <cstdint>

namespace termgate::sqlite_file {
namespace {

sqlite3_mem_methods allocator;
thread_local std::int64_t taken = 0, most = 0;  // if most is 0 there is no bound

bool fits(int bytes) noexcept { return most == 0 || taken + bytes <= most; }

void* take(int bytes) {
  if (!fits(bytes)) return nullptr;
  void* made = allocator.xMalloc(bytes);
  if (made != nullptr) taken += allocator.xSize(made);
  return made;
}

void give(void* memory) {
  if (memory != nullptr) taken -= allocator.xSize(memory);
  allocator.xFree(memory);
}

void* change(void* memory, int bytes) {
  const int before = allocator.xSize(memory);
  if (bytes > before && !fits(bytes - before)) return nullptr;
  void* made = allocator.xRealloc(memory, bytes);
  if (made != nullptr) taken += allocator.xSize(made) - before;
  return made;
}

bool install() noexcept {
  // Both calls fail once sqlite3_initialize() has run.
  if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &allocator) != SQLITE_OK ||
      allocator.xMalloc == nullptr)
    return false;
  sqlite3_mem_methods counted = allocator;
  counted.xMalloc = take;
  counted.xFree = give;
  counted.xRealloc = change;
  return sqlite3_config(SQLITE_CONFIG_MALLOC, &counted) == SQLITE_OK;
}

}  // namespace

bool count_memory() noexcept {
  static const bool installed = install();
  return installed;
}

MemoryBound::MemoryBound(std::size_t bytes_max) noexcept {
  taken = 0;
  most = static_cast<std::int64_t>(bytes_max);
}

MemoryBound::~MemoryBound() { most = 0; }

}  // namespace termgate::sqlite_file
