// WriteQueue: many threads' writes through one connection, committed together (group commit).
//
// A thread that wants to write takes the baton, in the order of arrival. If no group is open, the
// thread begins one. It runs its own work on its own thread, under a savepoint unless it is the
// group's first member. If another thread waits then and the group has room, it hands the baton on
// and waits for the group's end; otherwise it commits for all members. So every caller returns
// after the flush of a COMMIT that contains its write, and threads that arrive during a flush share
// the next one. A single thread begins, works and commits inline, without savepoint or thread
// switch.
//
// The refusal of one member is rolled back to its savepoint and does not affect the others. It is
// thrown after the group's end, because it may depend on what another member has written. A COMMIT
// that fails, or an error on which SQLite rolls the whole transaction back, fails every member:
// nothing was written (Unavailable, or Blocked if readers prevent the commit), unless a flush
// failed half-way (OutcomeUnknown). A member whose own error rolled everything back gets its own
// error.
//
// Threads: any thread may call. The driver refuses a call from inside the work of another call.
// Owner: borrows the connection, which nobody else may use while the queue lives.
// Invariants, asserted in debug builds:
//   - the connection, open_, flushing_ and deadline_ are touched only by the thread that has the baton;
//   - a Turn has the baton and no thread has, from take_turn() to its end;
//   - waiters exist only while the baton is taken;
//   - a group has an end exactly when `done` is set, and open_ never names a group that is done.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <termgate/detail/sqlite/connection.hpp>
#include <termgate/detail/sqlite/lock_wait.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

struct GroupLimits {
  int members_max = 512;
  std::size_t bytes_max =
      16u * 1024 *
      1024;  // of parameters: beyond this the flush no longer dominates the cost of a commit
  std::chrono::milliseconds age_max{20};  // how long the first member waits for others at most
};

// Thrown if the caller's `give_up` returned true while it waited: nothing was written.
struct GaveUp {};

class WriteQueue {
 public:
  using Clock = std::chrono::steady_clock;

  struct How {
    std::optional<std::chrono::milliseconds> timeout =
        std::nullopt;  // from the call to the work's end; such a write commits alone, see run()
    std::optional<std::chrono::milliseconds> wait =
        std::nullopt;  // for the lock, if shorter than the queue's own
    const std::function<bool()>* give_up =
        nullptr;  // called now and then while it waits for its turn; true ends the wait with GaveUp
    bool read_only = false;  // for in-memory databases, which read through here
    bool alone = false;      // shares no transaction, so it may call begin_flushed()
    std::string scope =
        {};  // announced to the process whose lock this one waits for (lock_wait.hpp)
    std::int64_t term = 0;
    bool flushed = false;  // with PRAGMA synchronous = EXTRA, whatever the connection's setting
  };

  // `synchronous` is the connection's usual setting. Without `wait` the setting check_wait_ms
  // limits waiting.
  WriteQueue(Connection& connection, const std::string& synchronous,
             std::optional<std::chrono::milliseconds> wait, GroupLimits limits = {});

  // Runs `work` in a transaction and returns when it is committed. If `work` throws, it is rolled
  // back and the exception passed on. Throws Blocked if the baton or another process's lock was not
  // available in time. A write with a timeout shares no transaction: interrupting its statement
  // would undo the others' writes. *wants_flush becomes true with an InvalidInput that requires a
  // flushed transaction: `work` was rolled back and may be run again with `flushed`.
  void run(const How& how, const std::function<void(Connection&)>& work,
           bool* wants_flush = nullptr);

  // Called from inside the work of a run that is alone: restarts its transaction as a flushed one.
  // What the work has done in it so far is undone. Throws as run() does if the lock cannot be
  // acquired again.
  void begin_flushed();

  // For a transaction that lasts longer than one call, on a connection of its caller: nobody of
  // this queue writes while there is a Turn. It may be given back on another thread than the one
  // that took it. It must not outlive the queue.
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)) {}
    Turn& operator=(Turn&& other) noexcept {
      if (this != &other) {
        give();
        queue_ = std::exchange(other.queue_, nullptr);
      }
      return *this;
    }
    ~Turn() { give(); }
    explicit operator bool() const noexcept { return queue_ != nullptr; }
    void give() noexcept {
      if (WriteQueue* queue = std::exchange(queue_, nullptr)) queue->end_turn();
    }

   private:
    friend class WriteQueue;
    explicit Turn(WriteQueue& queue) noexcept : queue_(&queue) {}
    WriteQueue* queue_ = nullptr;
  };
  // The open group is committed first. Throws Blocked, GaveUp. Only `wait` and `give_up` of `how`
  // matter.
  [[nodiscard]] Turn take_turn(const How& how);
  [[nodiscard]] Turn take_turn() { return take_turn(How{}); }

  // Another process waits: the next thread that ends a commit or a turn leaves the lock free for a
  // moment. Any thread.
  void make_room() noexcept;

  // Called from inside the work of a run: whether the open transaction contains other members'
  // writes, which an interrupt would undo.
  bool shares() const noexcept { return open_ != nullptr; }

  // For tests and bench: commits done, and writes that they carried.
  std::int64_t commits() const noexcept { return commits_; }
  std::int64_t writes() const noexcept { return writes_; }
  // The number of threads that wait for the baton.
  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return queue_.size();
  }

 private:
  // Written by the thread that has the baton, until done is set; then read by all members.
  struct Group {
    enum class End { committed, blocked, unavailable, unknown };
    int members = 0;
    std::size_t bytes = 0;
    std::optional<Clock::time_point> handed_on;  // when it was first handed on
    End end = End::committed;
    std::string message, code;
    std::atomic<bool> done{false};
  };
  struct Waiter {
    std::condition_variable turn;
    bool has_baton = false;
  };

  // Several times a waiter's sleep between two attempts, because its process may not run at once.
  // It announces itself again while it waits.
  static constexpr std::chrono::milliseconds room_left = 5 * LockWait::pause_max;
  static constexpr std::chrono::milliseconds room_requested_valid =
      LockWait::every + std::chrono::milliseconds(50);

  void leave_room() const noexcept;
  void end_turn() noexcept;
  void take_baton(std::chrono::milliseconds wait, const std::function<bool()>* give_up);
  // Passes the baton to the first waiter, if there is one. Needs mutex_.
  void hand_on();
  void begin(const How& how, std::optional<Clock::time_point> deadline);
  // Ends the open group and wakes its members. The baton is held, mutex_ is not.
  void commit(std::shared_ptr<Group> group);
  void finish(Group& group, Group::End end, std::string message, std::string code);
  static void throw_end(const Group& group);

  // The steps of run(). From join() to leave() this thread has the baton.
  struct Member {
    bool begun = false;          // a transaction was begun for it
    std::exception_ptr failure;  // its work was refused, and undone
  };
  // Joins the open group, or begins a new one (`first`). If it throws, the baton is passed on.
  std::shared_ptr<Group> join(bool alone, bool& first);
  Member work_as_member(Group& group, bool first, const How& how,
                        std::optional<Clock::time_point> deadline,
                        const std::function<void(Connection&)>& work, bool* wants_flush);
  void refuse_what_commit_would();
  // True: the group stays open and another thread has the baton.
  bool hand_on_open(const std::shared_ptr<Group>& group, bool alone);
  // Passes the baton on after a group's end.
  void leave(bool read_only);
  void assert_has_baton() const;

  Connection& connection_;
  const std::string restore_;  // the statement that restores the connection's usual setting
  const std::optional<std::chrono::milliseconds> wait_;
  std::atomic<std::chrono::milliseconds> wait_now_;  // wait_, or the setting when it was last read
  const GroupLimits limits_;

  mutable std::mutex mutex_;  // guards the next five members
  bool taken_ = false;        // a thread or a Turn has the baton
  std::thread::id holder_;    // the thread that has it, once that thread runs
  bool turn_out_ = false;     // a Turn has it, on whatever thread
  std::deque<Waiter*> queue_;
  std::optional<Clock::time_point> since_;  // when the baton last changed hands, if somebody waits

  std::shared_ptr<Group> open_;  // for the holder of the baton
  bool flushing_ =
      false;  // for the holder of the baton: PRAGMA synchronous is EXTRA for this transaction
  std::optional<Clock::time_point> deadline_;  // for the holder of the baton
  mutable std::atomic<Clock::time_point> room_requested_at_{Clock::time_point{}};
  std::atomic<std::int64_t> commits_{0};
  std::atomic<std::int64_t> writes_{0};
};

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
