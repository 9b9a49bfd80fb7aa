// The replies that the server still owes, in order: one entry for every message sent to it that is
// answered, and one for all messages of a passage (passage.hpp). Counters are not enough: the
// request that a reply belongs to decides whether it is forwarded, hidden or rewritten
// (docs/decisions/0006).
//
// Owner: a Batch of one session; the session's thread. Invariant: entries are in the order in which
// their messages are sent, so the head is always the request that the server answers next.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace termgate::pg_session {

// The kind of message that a reply belongs to; reply_router.hpp has the replies of each.
enum class Request : std::uint8_t {
  parse,
  bind,
  close,
  describe_statement,
  describe_portal,
  execute,
  sync,
  query,
  function_call,
  passage,  // a query or a whole group (passage.cpp)
  // No message was sent: `text` holds the reply, made by the proxy.
  nothing,
};
inline constexpr std::size_t request_count = static_cast<std::size_t>(Request::nothing) + 1;

// The statements that the proxy itself prepares; `none` ends the list.
enum class ProxyStatement : std::uint8_t {
  writable,
  locked,
  mark,
  unmark,
  default_on,
  default_off,
  default_back,
  lend,
  look,
  take_back,
  own_mode,
  recovery,
  check,
  check_in_own_mode,
  again,
  prepared,
  hold,
  release,
  declare,
  sit,
  stand,
  unseat,
  none
};
inline constexpr std::size_t proxy_statement_count = static_cast<std::size_t>(ProxyStatement::none);
constexpr std::size_t index_of(ProxyStatement which) noexcept {
  return static_cast<std::size_t>(which);
}

// Why a message was sent.
enum class Purpose : std::uint8_t {
  client,      // its replies go to the client
  silent,      // ours; nothing depends on its replies
  who_serves,  // Login::question(): its PID is compared with that of BackendKeyData
  // Restores the session's access mode, without which nothing that follows is safe.
  put_back,
  lock,  // makes the whole transaction READ ONLY
  // Sets something for the transaction: its access mode, the savepoint that preserves it, a
  // declaration, the end of a seat. If it fails, the transaction fails.
  mode,
  // SET transaction_read_only TO off, or what applies the server's own default after it.
  writable,
  // SHOW default_transaction_read_only, while the value is the server's own.
  own,
  // SHOW default_transaction_read_only, after the client's code may have changed the value.
  current,
  recovery,  // pg_is_in_recovery()
  // check_claim_text() or check_again(). The row has term, fence and scope in one text, or scope,
  // term and fence.
  check,
  // sit(), stand() or the check of a seat, in a transaction of its own.
  seat,
  // A check in a transaction of its own, so that a raise is committed separately. If it fails, the
  // check itself fails again later.
  in_advance,
  begin,  // begins a frame around the client's text
  // The client's text inside a frame: its last CommandComplete waits for the COMMIT.
  framed,
  commit,    // ends a frame
  rollback,  // ends a frame
  hold,      // hold_claim(), and what comes ahead of it
  release,   // release_session(), and the default that is restored with it
  // The check of a transaction that has become stale: it fails, and the transaction with it.
  eviction,
  // A check that must fail, so that the server's transaction fails with it. `text` holds the
  // client's error.
  refusal,
};

// What a successful statement of the client's does to default_transaction_read_only as the client
// sees it, or how it ends the transaction.
enum class Change : std::uint8_t { none, on, off, back, commit, rollback, prepared };

// The value that the client must see in the row of its SHOW of an access mode, if the server would
// return one that the proxy has set.
enum class Shows : std::uint8_t { none, on, off, own };

struct PendingReply {
  Request request = Request::query;
  Purpose role = Purpose::client;
  Change change = Change::none;
  bool hidden = false;  // its replies do not go to the client
  // The hash of a text that is taken for a read. If it fails because of READ ONLY, it counts as a
  // write from then on.
  std::size_t read_hash = 0;
  // For a `lock`: how many ends of transactions had been sent before it. For a `close` of ours: the
  // number of its Parse.
  std::size_t of = 0;
  bool row_seen = false;
  // For a `parse`: the name is in use already, and keeps its statement if this one fails.
  bool existed = false;
  bool copy_ends = false;     // the client's CopyDone or CopyFail followed directly
  bool hide_no_data = false;  // a simple query has no NoData
  bool hide_warning = false;  // a notice in its replies is about a BEGIN of ours
  Shows shows = Shows::none;
  // Our SET transaction_read_only TO on follows in the same text, and its reply is hidden.
  bool read_only_behind = false;
  // Its CommandComplete waits for the commit, which may still fail.
  bool late_complete = false;
  // Its RowDescription waits for the next reply: an error comes without one.
  bool late_description = false;
  // For a check: how many declarations had been sent before it.
  std::uint32_t changes = 0;
  // For a check: the proxy passed scope and term to it, or they may have been declared in its own
  // transaction.
  bool given = false;
  ProxyStatement closes = ProxyStatement::none;  // the statement that a `close` of ours closes
  // For the client's `parse` and `bind`: the name. For `nothing`: the bytes. For a refusal: the
  // client's error.
  std::string text{};
};

class PendingReplies {
 public:
  bool empty() const noexcept { return head_ == entries_.size(); }
  std::size_t size() const noexcept { return entries_.size() - head_; }
  PendingReply& head() noexcept {
    assert(!empty());
    return entries_[head_];
  }
  const PendingReply& last() const noexcept {
    assert(!empty());
    return entries_.back();
  }
  PendingReply& at(std::size_t index) noexcept {
    assert(index < size());
    return entries_[head_ + index];
  }

  void push(PendingReply reply) { entries_.push_back(std::move(reply)); }
  void pop() noexcept {
    assert(!empty());
    ++head_;
    if (head_ == entries_.size()) {
      entries_.clear();
      head_ = 0;
      if (entries_.capacity() > kept) std::vector<PendingReply>().swap(entries_);
    } else if (head_ >= 256 && head_ * 2 > entries_.size()) {
      entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
  }
  void append(PendingReplies&& other) { insert_at(size(), std::move(other)); }
  void insert_at(std::size_t index, PendingReplies&& other) {
    assert(index <= size() && &other != this);
    const auto from = other.entries_.begin() + static_cast<std::ptrdiff_t>(other.head_);
    entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(head_ + index),
                    std::make_move_iterator(from), std::make_move_iterator(other.entries_.end()));
    other = PendingReplies();
  }
  // Removes entry `index`, counted from the head.
  void remove(std::size_t index) {
    assert(index < size());
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(head_ + index));
  }

 private:
  static constexpr std::size_t kept = 64;
  std::vector<PendingReply> entries_;
  std::size_t head_ = 0;
};

}  // namespace termgate::pg_session
