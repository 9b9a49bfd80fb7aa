// The replies that the server still owes: one entry for every message sent to it that is answered, in order. Counters are never enough:
// a reply is forwarded, hidden or rewritten by the request that it belongs to (docs/decisions/0006).
//
// Owner: a Batch of one session; the session's thread. Invariant: entries are in the order in which their messages are sent, so the head
// is always the request that the server answers next.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace termgate::session {

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
  nothing,  // no message was sent: `text` is the reply, made here
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
constexpr std::size_t index_of(ProxyStatement which) noexcept { return static_cast<std::size_t>(which); }

// On whose behalf it was sent.
enum class Purpose : std::uint8_t {
  client,      // its replies are the client's
  silent,      // ours, of no interest unless it fails
  who_serves,  // pg_backend_pid(), to be compared with BackendKeyData
  put_back,    // of the session's access mode, without which nothing that follows is safe
  lock,        // READ ONLY for all of the transaction
  mode,        // of the transaction's, and the savepoint that keeps it: where it fails, so does the transaction
  writable,    // SET transaction_read_only = off
  own,         // SHOW default_transaction_read_only, while it is the server's own
  current,     // … while code of the client's may have changed it
  recovery,    // pg_is_in_recovery()
  check,       // check_claim_text(), check_again(): its row is term, fence and scope in one text, or scope, term, fence
  seat,        // sit(), stand() or the check that looks after a seat, in a transaction of its own
  in_advance,  // the same two in a transaction of their own, so that a raise is committed by itself; what fails fails again later
  begin,       // of a frame around the client's text
  framed,      // the client's text inside a frame: its last CommandComplete waits for the COMMIT
  commit,      // of a frame
  rollback,    // of a frame
  hold,        // hold_claim()
  release,     // release_session()
  eviction,    // the check of a transaction that has become stale: it fails, and with it the transaction
  refusal,     // a check that must fail, so that the server's transaction fails with it; `text` is the client's error
};

// What a statement of the client's does to default_transaction_read_only as the client is to see it, once it has succeeded.
enum class Change : std::uint8_t { none, on, off, back, commit, rollback, prepared };

// What the one row of a client's SHOW of an access mode must say, where the server would say what we made of it.
enum class Shows : std::uint8_t { none, on, off, own };

struct PendingReply {
  Request request = Request::query;
  Purpose role = Purpose::client;
  Change change = Change::none;
  bool hidden = false;        // its replies are not the client's
  std::size_t read_hash = 0;  // of a text that is taken for a read: where it meets READ ONLY, it is known as a writer from then on
  std::size_t of = 0;         // of a `lock`: how many ends had been sent before it; of a `close` of ours: which of its Parses it belongs to
  bool row_seen = false;
  bool existed = false;       // of a `parse`: the name is in use already, and keeps its statement if this one fails
  bool copy_ends = false;     // the client's CopyDone or CopyFail went right behind it
  bool hide_no_data = false;  // a simple query has no NoData
  bool hide_warning = false;  // a notice of it is about a BEGIN of ours
  Shows shows = Shows::none;
  bool read_only_behind = false;  // SET transaction_read_only TO on follows it in its text: its answer is not the client's
  bool late_complete = false;     // its CommandComplete waits for the commit, which may yet fail
  bool late_description = false;  // its RowDescription waits for what comes next: an error comes without one
  std::uint32_t changes = 0;      // of a check: how many declarations had been sent before it
  bool given = false;             // … and whether its scope and term were given by us, or declared for its transaction alone
  ProxyStatement closes = ProxyStatement::none;  // of a `close` of ours: what is gone with it
  std::string text{};                            // the name for `parse` and `bind`; the bytes for `nothing`
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
    entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(head_ + index), std::make_move_iterator(from),
                    std::make_move_iterator(other.entries_.end()));
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

}  // namespace termgate::session
