#include "outlet.hpp"

#include <iterator>
#include <utility>

namespace termgate::http {
namespace {

std::size_t size_of(const std::deque<Piece>& pieces) {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece->size();
  return bytes;
}

}  // namespace

bool Outlet::add(std::deque<Piece> pieces, std::size_t waiting_bytes_max, bool replaces) {
  bool wake = false;
  {
    std::unique_lock lock(mutex_);
    if (waiting_bytes_max > 0)
      changed_.wait(lock,
                    [&] { return gone_ || waiting_bytes_ + taken_bytes_ <= waiting_bytes_max; });
    if (gone_ || finished_) return false;
    if (replaces) {
      waiting_.clear();
      waiting_bytes_ = 0;
    }
    waiting_bytes_ += size_of(pieces);
    std::move(pieces.begin(), pieces.end(), std::back_inserter(waiting_));
    wake = !std::exchange(woken_, true);
  }
  if (wake) wake_();
  return true;
}

void Outlet::finish(bool whole) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (gone_ || finished_) return;
    finished_ = true;
    whole_ = whole;
    wake = !std::exchange(woken_, true);
  }
  if (wake) wake_();
}

std::size_t Outlet::waiting_bytes() const {
  const std::lock_guard lock(mutex_);
  return waiting_bytes_ + taken_bytes_;
}

bool Outlet::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

Outlet::Taken Outlet::take() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  taken_bytes_ += std::exchange(waiting_bytes_, 0);
  return {std::exchange(waiting_, {}), finished_, whole_};
}

void Outlet::sent(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  taken_bytes_ -= bytes;
  changed_.notify_all();
}

void Outlet::end() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
  waiting_.clear();
  waiting_bytes_ = taken_bytes_ = 0;
  changed_.notify_all();
}

}  // namespace termgate::http
