// Term: a fencing token, and SequenceNo: a write's place in its stream. Values; any thread.
#pragma once

#include <compare>
#include <cstdint>

namespace termgate {
inline namespace v0 {

// An integer from 1 to 2^62 that grows with every change of leader (docs/contract.md, section 1).
class Term {
 public:
  static constexpr std::int64_t max_value = std::int64_t{1} << 62;

  // Throws InvalidInput (TG005) outside 1 … 2^62.
  explicit Term(std::int64_t value);

  std::int64_t value() const noexcept { return value_; }
  friend auto operator<=>(const Term&, const Term&) = default;

 private:
  std::int64_t value_;
};

// Starts at 1 with a stream's first write. As a last number, 0 means "none yet".
class SequenceNo {
 public:
  // Throws InvalidInput (TG005) below 0.
  explicit SequenceNo(std::int64_t value);

  std::int64_t value() const noexcept { return value_; }
  friend auto operator<=>(const SequenceNo&, const SequenceNo&) = default;

 private:
  std::int64_t value_;
};

}  // namespace v0
}  // namespace termgate
