// Group commit (write_queue.hpp has the threads, the owner and the invariants). Two things must not
// be confused: the baton, which says which thread of this process may use the connection, and
// SQLite's write lock, which says which process may write. The baton comes first; a thread that has
// it may still wait for the lock.
#include <termgate/detail/sqlite/write_queue.hpp>

#include <algorithm>
#include <cassert>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <termgate/detail/plant.hpp>
#include <termgate/error.hpp>

#include <termgate/detail/sqlite/errors.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

using std::chrono::milliseconds;

WriteQueue::WriteQueue(Connection& connection, const std::string& synchronous,
                       std::optional<milliseconds> wait, GroupLimits limits)
    : connection_(connection),
      restore_("PRAGMA main.synchronous = " + synchronous),
      wait_(wait),
      wait_now_(wait ? *wait : connection.layer1().core().check_wait()),
      limits_(limits) {}

// Returns with the baton. Throws Blocked after `wait`, GaveUp if the caller's `give_up` returns
// true; in both cases the thread has left the queue and nothing was written.
void WriteQueue::take_baton(milliseconds wait, const std::function<bool()>* give_up) {
  std::unique_lock lock(mutex_);
  if (!taken_) {
    assert(queue_.empty() && "waiters exist only while the baton is taken");
    taken_ = true;
    holder_ = std::this_thread::get_id();
    since_.reset();
    return;
  }
  assert(holder_ != std::this_thread::get_id() && "a thread with the baton cannot wait for it");
  // An uncontended write reads no clock: the first waiter notes the time.
  if (!since_) since_ = Clock::now();
  Waiter waiter;
  queue_.push_back(&waiter);
  const auto until = Clock::now() + wait;
  bool gave_up = false;
  do {
    // How often give_up() is called. Its answer may change without a signal to this thread's
    // condition.
    constexpr milliseconds question{50};
    const auto slice = give_up != nullptr ? std::min(until, Clock::now() + question) : until;
    if (waiter.turn.wait_until(lock, slice, [&] { return waiter.has_baton; })) {
      holder_ = std::this_thread::get_id();
      return;
    }
    gave_up = give_up != nullptr && (*give_up)();
  } while (!gave_up && Clock::now() < until);
  // The predicate was false under the mutex, so no other thread has removed this waiter from the
  // queue.
  queue_.erase(std::find(queue_.begin(), queue_.end(), &waiter));
  if (gave_up) throw GaveUp{};
  throw Blocked(fmt::format(
      "TG006 blocked for {} ms: another thread of this process has been writing to the database "
      "for at least {} ms; nothing was written",
      wait.count(),
      std::chrono::duration_cast<milliseconds>(Clock::now() - since_.value_or(Clock::now()))
          .count()));
}

// The baton goes to the first waiter directly and is never free in between, so a thread that
// arrives now cannot overtake the queue. `holder_` stays empty until the waiter runs.
void WriteQueue::hand_on() {
  assert(taken_ && (turn_out_ || holder_ == std::this_thread::get_id()) &&
         "only who has the baton hands it on");
  holder_ = std::thread::id();
  turn_out_ = false;
  if (queue_.empty()) {
    taken_ = false;
    return;
  }
  Waiter* next = queue_.front();
  queue_.pop_front();
  since_ = Clock::now();
  next->has_baton = true;
  next->turn.notify_one();
}

// Begins the group's transaction. The first attempt does not wait and reads no clock, because the
// lock is usually free.
void WriteQueue::begin(const How& how, std::optional<Clock::time_point> deadline) {
  assert_has_baton();
  if (how.flushed) {
    flushing_ = true;
    connection_.control_checked("PRAGMA main.synchronous = EXTRA");
  }
  if (how.read_only) connection_.only_read(true);
  connection_.wait_for_locks(milliseconds(0));
  int code = connection_.begin(how.read_only, milliseconds(0), {}, 0);
  // The time and the setting are only needed if another process has the lock.
  const auto start = code == SQLITE_OK ? Clock::time_point{} : Clock::now();
  if ((code & 0xff) == SQLITE_BUSY) {
    if (!wait_) wait_now_ = connection_.layer1().core().check_wait();
    milliseconds wait = wait_now_;
    if (how.wait) wait = std::min(*how.wait, wait);
    if (deadline)
      wait = std::clamp(std::chrono::duration_cast<milliseconds>(*deadline - start),
                        milliseconds(0), wait);
    code = connection_.begin(how.read_only, wait, how.scope, how.term);
  }
  connection_.wait_for_locks(wait_now_);
  if (code == SQLITE_OK) return;
  if ((code & 0xff) == SQLITE_BUSY &&
      sqlite3_extended_errcode(connection_.handle()) != SQLITE_BUSY_SNAPSHOT) {
    throw Blocked(
        fmt::format("TG006 blocked for {} ms: {} holds the database; nothing was written",
                    std::chrono::duration_cast<milliseconds>(Clock::now() - start).count(),
                    lock_holder(connection_.handle())));
  }
  throw_sqlite(connection_.handle(), code);
}

// The open group is committed before the caller writes on its own connection: the group holds
// SQLite's write lock, and its members wait for its end.
WriteQueue::Turn WriteQueue::take_turn(const How& how) {
  const milliseconds wait = wait_now_;
  take_baton(how.wait ? std::min(*how.wait, wait) : wait, how.give_up);
  if (open_) commit(open_);
  const std::lock_guard lock(mutex_);
  holder_ = std::thread::id();
  turn_out_ = true;
  return Turn(*this);
}

void WriteQueue::make_room() noexcept { room_requested_at_ = Clock::now(); }

// SQLite's lock goes to whoever tries while it is free. A queue that always has a waiter frees it
// for microseconds only, so another process would starve.
void WriteQueue::leave_room() const noexcept {
  const auto requested = room_requested_at_.load();
  if (requested == Clock::time_point{} || Clock::now() - requested > room_requested_valid) return;
  room_requested_at_ = Clock::time_point{};
  std::this_thread::sleep_for(room_left);
}

void WriteQueue::end_turn() noexcept {
  leave_room();
  const std::lock_guard lock(mutex_);
  hand_on();
}

void WriteQueue::begin_flushed() {
  connection_.control("ROLLBACK");
  connection_.layer1().transaction_undone();
  begin({.flushed = true}, deadline_);
  connection_.layer1().begin_transaction();
}

void WriteQueue::throw_end(const Group& group) {
  switch (group.end) {
    case Group::End::committed: return;
    case Group::End::blocked: throw Blocked(group.message);
    case Group::End::unavailable: throw Unavailable(group.message, group.code);
    case Group::End::unknown: throw OutcomeUnknown(group.message, group.code);
  }
}

// The members read `end`, `message` and `code` without the mutex, so `done` is set last, with
// release order.
void WriteQueue::finish(Group& group, Group::End end, std::string message, std::string code) {
  assert(!group.done && "a group ends once");
  group.end = end;
  group.message = std::move(message);
  group.code = std::move(code);
  open_.reset();
  group.done.store(true, std::memory_order_release);
  group.done.notify_all();
}

// Every path calls finish(): members of a group without an end would wait for ever.
void WriteQueue::commit(std::shared_ptr<Group> held) {
  assert_has_baton();
  Group& group = *held;  // `held` is a copy, because the end of a group resets open_
  // All members were refused, or they only read: there is nothing to commit.
  if (group.members == 0) {
    connection_.control("ROLLBACK");
    connection_.layer1().transaction_undone();
    finish(group, Group::End::committed, {}, {});
    return;
  }
  int extended = SQLITE_OK;
  const int code = connection_.commit(extended);
  if (code == SQLITE_OK) {
    connection_.layer1().transaction_committed();
    ++commits_;
    writes_ += group.members;
    finish(group, Group::End::committed, {}, {});
    return;
  }
  sqlite3* db = connection_.handle();
  // Read before the ROLLBACK, which replaces the connection's message.
  const std::string problem = sqlite3_errmsg(db);
  const std::string name(code_name(extended));
  if (connection_.in_transaction()) connection_.control("ROLLBACK");
  connection_.layer1().transaction_undone();
  if (connection_.file_problem()) {
    finish(group, Group::End::unavailable, connection_.file_problem()->text, name);
  } else if ((extended & 0xff) == SQLITE_BUSY) {
    finish(group, Group::End::blocked,
           fmt::format("TG006 blocked: {} reads the database, so that nothing can be committed; "
                       "nothing was written",
                       lock_holder(db)),
           {});
    // An error during the flush: the commit record may or may not be on the disk.
  } else if (commit_outcome_unknown(extended)) {
    finish(group, Group::End::unknown,
           fmt::format("COMMIT was sent and its flush failed: {} ({})", problem, name), name);
  } else {
    finish(group, Group::End::unavailable,
           fmt::format("COMMIT failed: {} ({}): nothing was written", problem, name), name);
  }
}

void WriteQueue::assert_has_baton() const {
#ifndef NDEBUG
  const std::lock_guard lock(mutex_);
  assert(taken_ && holder_ == std::this_thread::get_id() &&
         "only the thread with the baton may do this");
#endif
}

std::shared_ptr<WriteQueue::Group> WriteQueue::join(bool alone, bool& first) {
  try {
    if (alone && open_) commit(open_);
    first = open_ == nullptr;
    return first ? std::make_shared<Group>() : open_;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    hand_on();
    throw;
  }
}

// What COMMIT would refuse to all members must be refused to the member that caused it.
void WriteQueue::refuse_what_commit_would() {
  if (!connection_.in_transaction())
    throw Unavailable("the transaction was rolled back on the way: nothing was written");
  int deferred = 0, highest = 0;
  if (sqlite3_db_status(connection_.handle(), SQLITE_DBSTATUS_DEFERRED_FKS, &deferred, &highest,
                        0) == SQLITE_OK &&
      deferred != 0) {
    throw DatabaseError("FOREIGN KEY constraint failed", "SQLITE_CONSTRAINT_FOREIGNKEY");
  }
  connection_.layer1().leases().need_required();
}

WriteQueue::Member WriteQueue::work_as_member(Group& group, bool first, const How& how,
                                              std::optional<Clock::time_point> deadline,
                                              const std::function<void(Connection&)>& work,
                                              bool* wants_flush) {
  assert_has_baton();
  Member member{.begun = !first, .failure = {}};
  bool in_savepoint = false;
  try {
    deadline_ = deadline;
    if (deadline) connection_.set_deadline(deadline);
    if (first) {
      begin(how, deadline);
      member.begun = true;
    } else {
      if (const int code = connection_.control("SAVEPOINT termgate_member"); code != SQLITE_OK)
        throw_sqlite(connection_.handle(), code);
      in_savepoint = true;
    }
    // The passed checks are the transaction's; what one member passed or declared does not count
    // for another.
    connection_.layer1().begin_transaction();
    work(connection_);
    refuse_what_commit_would();
    if (in_savepoint) {
      if (const int code = connection_.control("RELEASE termgate_member"); code != SQLITE_OK)
        throw_sqlite(connection_.handle(), code);
    }
    if (!how.read_only) ++group.members;
    group.bytes += connection_.take_bound_bytes();
  } catch (...) {
    member.failure = std::current_exception();
    if (wants_flush != nullptr) *wants_flush = connection_.layer1().core().flush().take_wanted();
    connection_.take_bound_bytes();
    connection_.layer1().transaction_undone();
    // If the savepoint cannot be undone, the whole transaction is: a member's refused writes must
    // not be committed with the others'. run() sees that no transaction is left and fails every
    // member.
    if (in_savepoint && connection_.in_transaction() &&
        (connection_.control("ROLLBACK TO termgate_member") != SQLITE_OK ||
         connection_.control("RELEASE termgate_member") != SQLITE_OK)) {
      connection_.control("ROLLBACK");
    }
  }
  if (how.timeout) connection_.set_deadline(std::nullopt);
  return member;
}

// A group without members is not handed on: its only member was refused, and would wait for the end
// of other threads' work. `age_max` bounds what the first member waits for the others.
bool WriteQueue::hand_on_open(const std::shared_ptr<Group>& group, bool alone) {
  const std::lock_guard lock(mutex_);
  if (alone || queue_.empty() || group->members == 0 || group->members >= limits_.members_max ||
      group->bytes >= limits_.bytes_max)
    return false;
  const auto now = Clock::now();
  assert(!group->done && "a group that has ended takes no further member");
  if (!group->handed_on) group->handed_on = now;
  if (now - *group->handed_on >= limits_.age_max) return false;
  open_ = group;
  hand_on();
  return true;
}

// The group's end is known by now, so a failure here must neither hide it nor keep the baton.
// Flushing too much is harmless.
void WriteQueue::leave(bool read_only) {
  assert_has_baton();
  assert(open_ == nullptr && "a group that has ended is not open");
  sqlite3* db = connection_.handle();
  if (read_only) sqlite3_exec(db, "PRAGMA query_only = OFF", nullptr, nullptr, nullptr);
  if (std::exchange(flushing_, false))
    sqlite3_exec(db, restore_.c_str(), nullptr, nullptr, nullptr);
  leave_room();
  const std::lock_guard lock(mutex_);
  hand_on();
}

void WriteQueue::run(const How& how, const std::function<void(Connection&)>& work,
                     bool* wants_flush) {
  const bool alone = how.alone || how.timeout.has_value() || how.read_only || how.flushed;
  const auto deadline = how.timeout ? std::optional(Clock::now() + *how.timeout) : std::nullopt;
  milliseconds wait = wait_now_;
  if (how.timeout) wait = std::min(*how.timeout, wait);
  if (how.wait) wait = std::min(*how.wait, wait);
  take_baton(wait, how.give_up);

  bool first = false;
  const std::shared_ptr<Group> group = join(alone, first);
  const Member member = work_as_member(*group, first, how, deadline, work, wants_flush);
  // A failure that undid the whole transaction is the member's own, whatever happened to the group.
  const bool ended_all = member.begun && !connection_.in_transaction();
  const bool among_others = member.begun && !ended_all && group->members > 0;
  bool handed_on = false;
  if (ended_all) {
    // SQLite rolled everything back (a full disk, an interrupt, OR ROLLBACK): the others' writes
    // are gone too.
    finish(*group, Group::End::unavailable,
           "another write of the same commit made SQLite roll back all of it: nothing was written",
           {});
  } else if (member.begun) {
    handed_on = hand_on_open(group, alone);
    if (!handed_on) commit(group);
  }
  if (!handed_on) leave(how.read_only);

  if (member.failure && !among_others) std::rethrow_exception(member.failure);
  if (TERMGATE_PLANTED(group_commit) && !member.failure && handed_on) return;
  // The thread may have handed the baton on; another member commits for all.
  group->done.wait(false, std::memory_order_acquire);
  if (member.failure) {
    // The reason of this refusal may be what another member wrote earlier in the same transaction
    // (a raise, a key). It is reported once that is committed, and not at all if it never was.
    if (group->end == Group::End::committed) std::rethrow_exception(member.failure);
    throw Unavailable("what this write met was not committed in the end: nothing was written",
                      group->code);
  }
  throw_end(*group);
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
