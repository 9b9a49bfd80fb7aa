#include "budget.hpp"

#include <string>

#include "failure.hpp"
#include "port.hpp"

#include <fmt/format.h>

namespace termgate::hrana {

namespace {

// An answer takes this much of the budget at a time, so that not every row touches the shared
// counter.
constexpr std::size_t step_bytes = std::size_t{64} << 10;

}  // namespace

bool Budget::take(std::size_t bytes) noexcept {
  std::size_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > bytes_max_ || used > bytes_max_ - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

Charge& Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  shrink_to(0);
  budget_ = other.budget_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

bool Charge::grow_to(std::size_t bytes) noexcept {
  if (bytes <= bytes_ || budget_ == nullptr) return true;
  if (!budget_->take(bytes - bytes_)) return false;
  bytes_ = bytes;
  return true;
}

void Charge::shrink_to(std::size_t bytes) noexcept {
  if (bytes >= bytes_) return;
  budget_->give(bytes_ - bytes);
  bytes_ = bytes;
}

void Body::count() {
  if (text.size() > bytes_max_) {
    throw Refused(
        code::answer_too_large,
        fmt::format(
            "the answer is larger than {} bytes (--max-answer-bytes); what was committed is kept; "
            "read it in parts, or by /v3/cursor, which has no such limit",
            bytes_max_));
  }
  if (text.size() <= charge.bytes()) return;
  if (!charge.grow_to((text.size() / step_bytes + 1) * step_bytes)) {
    throw Refused(code::answer_too_large,
                  "the requests and answers in flight fill the server's memory for them "
                  "(--max-memory); what was committed is "
                  "kept; send fewer at a time, or read by /v3/cursor");
  }
}

}  // namespace termgate::hrana
