// What the client sees of each reply (reply_router.hpp has the owner and the thread). The content
// of a message is never parsed: the request at the head of the queue and the reply's type decide.
#include "reply_router.hpp"

#include <cassert>
#include <termgate/pgwire/types.hpp>

namespace termgate::pg_session {

namespace backend = pgwire::backend;
using pgwire::Event;

Shown shown_as(const PendingReply& request, const Event& reply) noexcept {
  if (reply.type == backend::command_complete) {
    if (request.role == Purpose::framed) return Shown::keep_framed;
    if (request.late_complete && reply.kind == Event::Kind::message) return Shown::keep_complete;
  }
  if (request.hidden || (request.hide_no_data && reply.type == backend::no_data))
    return Shown::hide;
  return request.late_description && reply.type == backend::row_description
             ? Shown::keep_description
             : Shown::forward;
}

void ReplyRouter::release(std::string& kept) {
  client_.back() += kept;
  kept.clear();
}

// A request ends with the last reply that it can have. Any other reply leaves it at the head of the
// queue.
void ReplyRouter::end_request(const Event& reply) {
  if (fit_of(pending_.head().request, reply.type) != Fit::last) return;
  pending_.pop();
  give_made_replies();
}

void ReplyRouter::route(const Event& reply) {
  assert(fits(static_cast<char>(reply.type)) && "the caller has asked fits()");
  const PendingReply& head = pending_.head();
  showing_ = true;
  // A reply to this statement has come, so the one before it has succeeded.
  if (head.role == Purpose::framed) release_framed();
  if (head.request == Request::execute) release(description_);
  switch (shown_as(head, reply)) {
    case Shown::forward: client_.back() += reply.frame; break;
    case Shown::hide: showing_ = false; break;
    case Shown::keep_description:
      description_ = reply.frame;
      keeping_ = !reply.last;
      break;
    case Shown::keep_complete: complete_ = reply.frame; break;
    case Shown::keep_framed: framed_ = reply.frame; break;
  }
  end_request(reply);
}

void ReplyRouter::hide(const Event& reply) {
  assert(!pending_.empty());
  showing_ = false;
  end_request(reply);
}

void ReplyRouter::forward(const Event& message) {
  showing_ = true;
  client_.back() += message.frame;
}

void ReplyRouter::forward_unless_hidden(const Event& message) {
  showing_ = pending_.empty() || !pending_.head().hidden;
  if (showing_) client_.back() += message.frame;
}

void ReplyRouter::forward_notice(const Event& notice) {
  showing_ =
      pending_.empty() || (!pending_.head().hide_warning &&
                           (!pending_.head().hidden || pending_.head().role == Purpose::client ||
                            pending_.head().role == Purpose::commit));
  if (showing_) client_.back() += notice.frame;
}

void ReplyRouter::route_rest(const Event& part, std::size_t kept_bytes_max) {
  assert((!keeping_ || !description_.empty()) &&
         "a description that is kept has its beginning here");
  if (!keeping_) {
    if (showing_) client_.back() += part.frame;
    return;
  }
  description_ += part.frame;
  keeping_ = !part.last;
  // A description is kept only so that an error can replace it. One that is too long to keep is
  // shown at once.
  if (keeping_ && description_.size() > kept_bytes_max) {
    release(description_);
    keeping_ = false;
  }
}

void ReplyRouter::drop_converted() noexcept {
  description_.clear();
  complete_.clear();
}

void ReplyRouter::give_made_replies() {
  while (!pending_.empty() && pending_.head().request == Request::nothing) {
    client_.back() += pending_.head().text;
    pending_.pop();
  }
}

// The server ignores Syncs while it reads copy data, so those that were already sent get no
// ReadyForQuery: their entries must go, or every later reply would be given to the wrong request.
bool ReplyRouter::copy_in_begins() {
  PendingReply& head = pending_.head();
  bool waits = !head.copy_ends;
  head.copy_ends = false;  // a text may have another COPY
  for (std::size_t i = 1; waits && i < pending_.size();) {
    waits = !pending_.at(i).copy_ends;
    if (pending_.at(i).request == Request::sync) {
      pending_.remove(i);
    } else {
      ++i;
    }
  }
  return waits;
}

}  // namespace termgate::pg_session
