// Session: hrana::FileSession over a file. It finds out what kind of statement a text is, runs it
// in the right place (a reader of the pool, a member of a group commit, the stream's transaction),
// and turns errors of SQLite and of the library into the port's.
//
// A front creates one for each stream:
//   auto session = std::make_unique<Session>(engine, SessionOptions{.on_lost = …});
// It must
//   - make one call at a time, on a worker that may block; only cancel() and lose() may come at any
//     time and from any thread;
//   - call answered() when the answer has been sent, and heard() when the next request is
//     complete: a holder of the lock whose client is silent in between for idle_holder_max
//     loses its transaction if others wait;
//   - call end(&lost) on a worker soon after `on_lost`: only that rolls back the transaction of
//     an idle stream and passes the lock on;
//   - call end(&lost) when it measures too long a silence itself, and at a drain.
//
// Owner: the stream. The engine lives as long as its last session.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "file/control.hpp"
#include "file/engine.hpp"
#include "file/transaction.hpp"
#include "hrana/port.hpp"

namespace termgate::sqlite_file {

class HeldRows;
class Prepared;
struct Facts;

struct SessionOptions {
  std::size_t text_bytes_max = std::size_t{1} << 20;       // for execute() and describe()
  std::size_t sequence_bytes_max = std::size_t{16} << 20;  // for sequence()
  std::size_t written_rows_bytes_max =
      std::size_t{16}
      << 20;  // for the rows of one statement that writes, which wait for its commit
  std::size_t held_rows_bytes_max =
      std::size_t{64}
      << 20;  // for the rows of a statement that reads in a transaction with the lock
  std::size_t reading_bytes_max =
      std::size_t{256} << 20;  // for SQLite's memory in one statement that reads; 0: no limit
  std::chrono::milliseconds reading_time_max{
      0};  // for SQLite's work in one statement that reads without a claim; 0: no limit
  std::chrono::milliseconds statement_time_max{0};  // for any statement; 0: no limit
  // The engine has ended the transaction. Called on any thread with locks held: it may only pass
  // this on to the thread that calls end().
  std::function<void(const hrana::Lost& why)> on_lost = {};
};

class Session final : public hrana::FileSession {
 public:
  Session(std::shared_ptr<Engine> engine, SessionOptions options);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  hrana::Outcome execute(const hrana::Statement& statement, const hrana::Permit& permit,
                         hrana::RowSink& rows) override;
  void sequence(std::string_view sql, const hrana::Permit& permit) override;
  hrana::Description describe(std::string_view sql, const hrana::Permit& permit) override;
  // Whether the last sequence ran anything that a rollback of its open transaction keeps.
  bool keeps_of_sequence() const noexcept { return keeps_of_sequence_; }
  bool is_autocommit() const override;
  bool keeps_settings() const override;
  bool together(std::span<const std::string_view> texts, const hrana::Permit& permit,
                const std::function<void()>& work) override;
  void end(const hrana::Lost* why) noexcept override;
  void answered() noexcept override;
  void heard() noexcept override;

  // Any thread. For a client that has gone: ends the wait for the turn to write, or the running
  // statement, after a moment if that shares a commit.
  void cancel() noexcept { control_.cancel(); }
  // Any thread. The stream is lost from now on, as if the engine had ended it (for a drain).
  void lose(const hrana::Lost& why);

 private:
  // One statement of a text, while it is processed.
  struct Job {
    const hrana::Statement& statement;
    const hrana::Permit& permit;
    hrana::RowSink& rows;
    std::size_t at = 0;    // where the statement begins in the text
    std::size_t used = 0;  // its length in bytes, including the semicolon
    std::string_view text() const noexcept { return statement.sql.substr(at); }
  };
  // A batch that runs as one member of a group commit.
  struct Member {
    Connection& connection;
    bool shared;
    Checks checks;
    bool within = false;  // between the member's BEGIN and its end
  };
  // What the SQL functions of these names return.
  struct Tally {
    std::int64_t last_insert_rowid = 0, changes = 0, total_changes = 0;
  };
  class PooledConnection;

  void enter();
  [[noreturn]] void throw_lost(const Eviction& why);
  // Turns what `work` throws into the port's errors, and remembers what ends the stream.
  void guarded(const hrana::Permit& permit, const std::function<void()>& work);
  hrana::Permit permitted(const hrana::Permit& given) const;

  std::optional<hrana::Outcome> run_next(Job& job, bool only_one);
  std::optional<hrana::Outcome> run_prepared(Job& job, bool only_one);
  hrana::Outcome run_control(const Job& job, const Facts& facts);
  void run_member_control(const Job& job, const Facts& facts);
  hrana::Outcome run_pragma(const Job& job, const Facts& facts);
  void begin(const Job& job, const Facts& facts);
  void commit();
  void refuse_write(const Job& job, const Facts& facts) const;
  hrana::Outcome read(Job& job, PooledConnection& lent, Prepared& prepared);
  hrana::Outcome write(Job& job, const Facts& facts);
  hrana::Outcome write_alone(Job& job, const Facts& facts, HeldRows& rows);
  hrana::Outcome write_in_transaction(Job& job, const Facts& facts, HeldRows& rows);
  hrana::Outcome step_or_undo(Job& job, Prepared& prepared, HeldRows& rows);
  hrana::Outcome write_in_member(Job& job, const Facts& facts, HeldRows& rows);
  // The claim that the statement waits for: the request's, or the one that it names itself.
  Want want_of(Job& job, const Facts& facts);
  void vacuum(Job& job);
  hrana::Outcome step_through(Job& job, Prepared& prepared, hrana::RowSink& rows, bool shared);
  hrana::Outcome step_rows(Job& job, Prepared& prepared, hrana::RowSink& rows);
  // Called after every statement of a transaction, whether it succeeded or failed.
  void settle();
  bool suits_group(std::span<const std::string_view> texts);

  const std::shared_ptr<Engine> engine_;
  const SessionOptions options_;
  Control control_;
  Settings settings_;
  FileTransaction transaction_;
  Member* member_ = nullptr;  // set while together() runs its work
  std::optional<hrana::Lost> lost_;
  bool keeps_of_sequence_ = false;
  Tally tally_;
};

}  // namespace termgate::sqlite_file
