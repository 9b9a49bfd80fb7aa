// The memory that requests and answers in progress may take, over all streams (--max-memory), and
// the text of an answer, which is counted while it grows.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace termgate::hrana {

// Any thread. Outlives its charges.
class Budget {
 public:
  explicit Budget(std::size_t bytes_max) : bytes_max_(bytes_max) {}
  bool take(std::size_t bytes) noexcept;
  void give(std::size_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  std::size_t bytes_max() const noexcept { return bytes_max_; }

 private:
  const std::size_t bytes_max_;
  std::atomic<std::size_t> used_{0};
};

// A part of the budget, returned when it is destroyed.
class Charge {
 public:
  Charge() = default;
  explicit Charge(Budget& budget) : budget_(&budget) {}
  Charge(Charge&& other) noexcept
      : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept;
  ~Charge() { shrink_to(0); }

  // False if the budget is used up; the charge then stays as it was.
  bool grow_to(std::size_t bytes) noexcept;
  void shrink_to(std::size_t bytes) noexcept;
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  Budget* budget_ = nullptr;
  std::size_t bytes_ = 0;
};

// The text of an answer. Code that appends rows calls `count` after each. One thread.
class Body {
 public:
  Body(Budget& budget, std::size_t bytes_max) : charge(budget), bytes_max_(bytes_max) {}

  std::string text;
  Charge charge;

  // Throws Refused if the answer is too long or the budget is used up. The caller then cuts the
  // text back to its last complete part.
  void count();

 private:
  std::size_t bytes_max_;
};

}  // namespace termgate::hrana
