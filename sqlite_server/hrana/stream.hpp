// One stream: a client's logical connection to the file. It runs requests and writes their results; whose it is, and how long it is kept,
// is known to Streams (HTTP) or Socket (WebSocket).
//
// A statement's error is a result. What ends the whole request is thrown: Failure. A loss makes the stream lost for good: each later
// request ends with the same code, so that no client takes what follows for a statement in autocommit.
//
// One thread at a time. Blocks as FileSession does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "budget.hpp"
#include "failure.hpp"
#include "messages.hpp"
#include "port.hpp"

namespace termgate::hrana {

// Makes what a stream needs of the file. Cheap: it is called for every stream's first statement, and touches no file. May throw Busy.
using SessionFactory = std::function<std::unique_ptr<FileSession>()>;

// Where the entries of a cursor go, one call an entry: {"type":"row","row":[…]}. May throw, which ends the cursor's statement.
using EntrySink = std::function<void(std::string_view)>;

// What becomes of a batch's steps: a result with lists, or the entries of a cursor.
class StepSink {
 public:
  virtual ~StepSink() = default;
  virtual void skipped(std::size_t step) = 0;
  virtual RowSink& begin(std::size_t step) = 0;
  virtual void end(std::size_t step, const Outcome& outcome) = 0;
  virtual void failed(std::size_t step, const Refused& error) = 0;
};

class Stream {
 public:
  explicit Stream(const SessionFactory& factory) : factory_(factory) {}

  // Before anything runs: `close` is the last, stored texts are known, and with Hrana 2 none is stored under a number that is taken.
  // Throws Failure.
  void check(const std::vector<Request>& requests, Version version) const;
  void check(const Batch& batch) const;
  void check(const Stmt& stmt) const;

  // Runs it and appends {"type":"ok","response":…} or {"type":"error","error":…}. Uses up its arguments. Throws Failure.
  void run(Request& request, const Permit& permit, Body& body);
  // Appends {"type":"execute",…}. Throws Refused, after which the caller cuts the text back, and Failure.
  void respond(Request& request, const Permit& permit, Body& body);
  // Appends the result alone. Throws as respond().
  void execute(Stmt& stmt, const Permit& permit, Body& body);
  void batch(Batch& batch, const Permit& permit, Body& body);
  // Entries step_begin, row, step_end, step_error. Throws Failure, and what the sink throws.
  void cursor(Batch& batch, const Permit& permit, RowidForm form, const EntrySink& sink);
  // v0: the statements in one transaction, the results as a list. Throws Refused, with nothing kept, and Failure.
  void plain(std::vector<Stmt>& statements, const Permit& permit, Body& body);
  // Rolls back, forgets stored texts and settings.
  void close() noexcept;

  // A new request after silence: from here on counts whether anything of it has run.
  void heard() noexcept;
  // The answer goes out.
  void answered() noexcept;
  // Both throw Failure where the transaction was lost meanwhile. keeps(): something that must not be forgotten, an open transaction, stored
  // texts or settings.
  bool keeps();
  bool in_transaction();

  // From now on every request fails with this code; rolls back. The first reason stays, also one that only the file knew so far.
  void lose(const Lost& why) noexcept;
  const std::optional<Lost>& lost() const noexcept { return lost_; }
  // Throws Failure where the stream is lost.
  void must_live() const;

 private:
  template <class Work>
  void guarded(const Work& work);
  FileSession& file();
  std::string_view text_of(const Sql& sql, std::size_t bytes_max, std::string_view limit_name) const;
  Outcome run_statement(Stmt& stmt, const Permit& permit, RowSink& rows);
  void run_steps(Batch& batch, const Permit& permit, StepSink& sink);
  void run_plain(std::vector<Stmt>& statements, const Permit& permit, Body& body);
  void control(std::string_view sql, const Permit& permit);
  void store(const StoreSql& request);
  std::vector<std::string_view> transaction_texts(const Batch& batch) const;

  const SessionFactory& factory_;
  std::unique_ptr<FileSession> file_;
  std::map<std::int32_t, std::string> stored_;
  std::optional<Lost> lost_;
  bool has_run_ = false;  // something of this request: Busy is then a statement's error, for the request must not be sent again
};

}  // namespace termgate::hrana
