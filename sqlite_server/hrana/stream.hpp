// One stream: a client's logical connection to the file. It runs requests and writes their results.
// Streams (HTTP) or Socket (WebSocket) know its owner and how long it is kept.
//
// A statement's error is a result; what ends the whole request is thrown as Failure. A loss is
// final: each later request ends with the same code, so that no client takes its next statement for
// one in autocommit.
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

// Makes a stream's session on the file. It is called for every stream's first statement, and must
// be cheap and not touch the file. May throw Busy.
using SessionFactory = std::function<std::unique_ptr<FileSession>()>;

// Receives a cursor's entries, one a call: {"type":"row","row":[…]}. May throw, which ends the
// cursor's statement.
using EntrySink = std::function<void(std::string_view)>;

// Receives the results of a batch's steps, as lists of one result or as entries of a cursor.
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

  // Checks requests before any of them runs: `close` is the last, stored texts are known, and with
  // Hrana 2 none is stored under a number that is in use. Throws Failure.
  void check(const std::vector<Request>& requests, Version version) const;
  void check(const Batch& batch) const;
  void check(const Stmt& stmt) const;

  // Runs the request and appends {"type":"ok","response":…} or {"type":"error","error":…}. Uses up
  // its arguments. Throws Failure.
  void run(Request& request, const Permit& permit, Body& body);
  // Appends {"type":"execute",…}. Throws Failure, and Refused, after which the caller cuts the text
  // back.
  void respond(Request& request, const Permit& permit, Body& body);
  // Appends only the result. Throws like respond().
  void execute(Stmt& stmt, const Permit& permit, Body& body);
  void batch(Batch& batch, const Permit& permit, Body& body);
  // Sends the entries step_begin, row, step_end and step_error. Throws Failure, and what the sink
  // throws.
  void cursor(Batch& batch, const Permit& permit, RowidForm form, const EntrySink& sink);
  // For v0: runs the statements in one transaction and appends their results as a list. Throws
  // Failure, and Refused if nothing was kept.
  void plain(std::vector<Stmt>& statements, const Permit& permit, Body& body);
  // Rolls back, forgets stored texts and settings.
  void close() noexcept;

  // A new request has come, of which nothing has run yet.
  void heard() noexcept;
  // The answer is being sent.
  void answered() noexcept;
  // Both throw Failure if the transaction was lost meanwhile. keeps(): there is something that must
  // not be forgotten: an open transaction, stored texts or settings.
  bool keeps();
  bool in_transaction();

  // Rolls back; every later request fails with this code. An earlier reason takes precedence, even
  // if only the file knew it.
  void lose(const Lost& why) noexcept;
  const std::optional<Lost>& lost() const noexcept { return lost_; }
  // Throws Failure if the stream is lost.
  void must_live() const;

 private:
  template <class Work>
  void guarded(const Work& work);
  FileSession& file();
  std::string_view text_of(const Sql& sql, std::size_t bytes_max,
                           std::string_view limit_name) const;
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
  // Something of this request has run. Busy is then reported as a statement's error, because the
  // client must not send the request again.
  bool has_run_ = false;
};

}  // namespace termgate::hrana
