// The memory of fences only rises, and forgetting makes it lower, never higher, than the truth.
#include <catch2/catch.hpp>

#include <string>

#include <termgate/detail/fence_memory.hpp>

using termgate::detail::FenceMemory;

TEST_CASE("fence memory: keeps the highest and forgets when told", "[F3][fencing]") {
  FenceMemory memory;
  CHECK(memory.highest("a") == 0);
  memory.saw("a", 7);
  memory.saw("a", 5);
  CHECK(memory.highest("a") == 7);
  memory.forget("a");
  CHECK(memory.highest("a") == 0);
}

TEST_CASE("fence memory: is bounded", "[fencing]") {
  FenceMemory memory;
  for (std::size_t i = 0; i < FenceMemory::scopes_max + 10; ++i) memory.saw(std::to_string(i), 1);
  CHECK(memory.highest(std::to_string(FenceMemory::scopes_max + 9)) == 1);
}
