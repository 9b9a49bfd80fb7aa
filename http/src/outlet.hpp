// What waits to be sent on a connection and comes from other threads: the body of a stream, or the
// frames of a WebSocket. Any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace termgate::http {

using Piece = std::shared_ptr<const std::string>;

class Outlet {
 public:
  // `wake` makes the connection call take() on its loop. It is called once for everything that
  // arrives between two take().
  explicit Outlet(std::function<void()> wake) : wake_(std::move(wake)) {}

  // False: the client is gone or finish() was called; the pieces are dropped.
  bool push(std::deque<Piece> pieces) { return add(std::move(pieces), 0, false); }
  // Blocks while more than `waiting_bytes_max` bytes wait.
  bool push_when_room(std::deque<Piece> pieces, std::size_t waiting_bytes_max) {
    return add(std::move(pieces), waiting_bytes_max, false);
  }
  // Replaces the pieces that are not taken yet.
  bool replace(std::deque<Piece> pieces) { return add(std::move(pieces), 0, true); }
  // Nothing follows; `whole`: the answer is complete.
  void finish(bool whole);
  std::size_t waiting_bytes() const;
  bool gone() const;

  // --- for the connection ---
  struct Taken {
    std::deque<Piece> pieces;
    bool finished = false, whole = false;
  };
  Taken take();
  void sent(std::size_t bytes);
  void end();  // called when the client is gone

 private:
  bool add(std::deque<Piece> pieces, std::size_t waiting_bytes_max, bool replaces);

  const std::function<void()> wake_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Piece> waiting_;
  // waiting_bytes_: not taken yet; taken_bytes_: taken and not sent yet.
  std::size_t waiting_bytes_ = 0, taken_bytes_ = 0;
  bool gone_ = false, finished_ = false, whole_ = false, woken_ = false;
};

}  // namespace termgate::http
