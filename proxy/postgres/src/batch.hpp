// Messages for the server together with the replies that they will have: those on their way, those
// held of a pipeline, those that wait for a lock. Owner: one session, its thread. Invariant: every
// message in `bytes` that the server answers has its entry in `replies`, in the same order; the
// messages of a passage (passage.hpp) share one. Whoever writes to `bytes` also pushes the entry;
// add() does both.
#pragma once

#include <cassert>
#include <cstddef>
#include <utility>

#include <termgate/pg_session/host.hpp>
#include "replies.hpp"

namespace termgate::pg_session {

struct Batch {
  Outbox bytes;
  PendingReplies replies;

  // A place between two messages.
  struct Mark {
    std::size_t bytes = 0, replies = 0;
  };

  bool empty() const noexcept { return bytes.size() == 0; }
  Mark end() const noexcept { return {bytes.size(), replies.size()}; }

  void add(std::string_view message, PendingReply reply) {
    bytes.back() += message;
    replies.push(std::move(reply));
  }
  void append(Batch&& other) {
    bytes.back() += other.bytes.view();
    replies.append(std::move(other.replies));
    other = Batch();
  }
  // Only into a batch of which nothing was sent yet.
  void insert_at(Mark mark, Batch&& other) {
    assert(bytes.back().size() == bytes.size() && "nothing of it was sent yet");
    assert(mark.bytes <= bytes.size() && mark.replies <= replies.size());
    bytes.back().insert(mark.bytes, other.bytes.view());
    replies.insert_at(mark.replies, std::move(other.replies));
    other = Batch();
  }
};

}  // namespace termgate::pg_session
