#include "stream.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include <termgate/text/ascii.hpp>

#include "batch.hpp"
#include "limits.hpp"
#include "values.hpp"

namespace termgate::hrana {

namespace {

// Writes {"cols":…,"rows":…, and the rest of a statement's result.
class ResultRows : public RowSink {
 public:
  ResultRows(Body& body, bool wants_rows) : body_(body), wants_rows_(wants_rows) {}

  void columns(std::span<const Column> columns) override {
    body_.text += R"({"cols":)";
    append_columns(body_.text, columns);
    body_.text += R"(,"rows":[)";
    begun_ = true;
    body_.count();
  }
  void row(std::span<const ValueView> values) override {
    if (!wants_rows_) return;
    if (std::exchange(has_rows_, true)) body_.text += ',';
    append_row(body_.text, values);
    body_.count();
  }
  void finish(const Outcome& outcome) {
    if (!begun_) columns({});
    body_.text += "],";
    append_counts(body_.text, outcome, RowidForm::text);
    fmt::format_to(
        std::back_inserter(body_.text),
        R"(,"replication_index":null,"rows_read":{},"rows_written":{},"query_duration_ms":{:.3f}}})",
        outcome.rows_read, outcome.rows_written, outcome.milliseconds);
    body_.count();
  }

 private:
  Body& body_;
  bool wants_rows_, begun_ = false, has_rows_ = false;
};

class ResultSteps : public StepSink {
 public:
  ResultSteps(const Batch& batch, Body& body)
      : batch_(batch), body_(body), mark_(body.text.size()), errors_(batch.steps.size(), "null") {}

  void skipped(std::size_t step) override {
    separate(step);
    body_.text += "null";
  }
  RowSink& begin(std::size_t step) override {
    separate(step);
    start_ = body_.text.size();
    return rows_.emplace(body_, batch_.steps[step].stmt.want_rows);
  }
  void end(std::size_t, const Outcome& outcome) override { rows_->finish(outcome); }
  void failed(std::size_t step, const Refused& error) override {
    body_.text.resize(start_);
    body_.text += "null";
    errors_[step].clear();
    append_error(errors_[step], error);
  }
  void finish() {
    if (errors_.empty()) body_.text += R"({"step_results":[)";
    body_.text += R"(],"step_errors":[)";
    for (std::size_t step = 0; step < errors_.size(); ++step) {
      if (step != 0) body_.text += ',';
      body_.text += errors_[step];
    }
    body_.text += "]}";
  }

 private:
  // The first step begins the list.
  void separate(std::size_t step) {
    if (step == 0) {
      body_.text.resize(mark_);
      std::fill(errors_.begin(), errors_.end(), "null");
      body_.text += R"({"step_results":[)";
    } else {
      body_.text += ',';
    }
  }

  const Batch& batch_;
  Body& body_;
  std::size_t mark_, start_ = 0;
  std::vector<std::string> errors_;
  std::optional<ResultRows> rows_;
};

class CursorSteps : public StepSink, private RowSink {
 public:
  CursorSteps(const Batch& batch, RowidForm form, const EntrySink& sink)
      : batch_(batch), form_(form), sink_(sink) {}

  void skipped(std::size_t) override {}
  RowSink& begin(std::size_t step) override {
    step_ = step;
    begun_ = false;
    return *this;
  }
  void end(std::size_t, const Outcome& outcome) override {
    if (!begun_) columns({});
    entry_ = R"({"type":"step_end",)";
    append_counts(entry_, outcome, form_);
    entry_ += '}';
    sink_(entry_);
  }
  void failed(std::size_t step, const Refused& error) override {
    entry_ = R"({"type":"step_error","step":)";
    append_number(entry_, static_cast<std::int64_t>(step));
    entry_ += R"(,"error":)";
    append_error(entry_, error);
    entry_ += '}';
    sink_(entry_);
  }

 private:
  void columns(std::span<const Column> columns) override {
    begun_ = true;
    entry_ = R"({"type":"step_begin","step":)";
    append_number(entry_, static_cast<std::int64_t>(step_));
    entry_ += R"(,"cols":)";
    append_columns(entry_, columns);
    entry_ += '}';
    sink_(entry_);
  }
  void row(std::span<const ValueView> values) override {
    if (!batch_.steps[step_].stmt.want_rows) return;
    entry_ = R"({"type":"row","row":)";
    append_row(entry_, values);
    entry_ += '}';
    sink_(entry_);
  }

  const Batch& batch_;
  RowidForm form_;
  const EntrySink& sink_;
  std::string entry_;
  std::size_t step_ = 0;
  bool begun_ = false;
};

// Writes {"results":{"columns":…,"rows":…}} for v0.
class PlainRows : public RowSink {
 public:
  explicit PlainRows(Body& body) : body_(body) {}

  void columns(std::span<const Column> columns) override {
    begun_ = true;
    body_.text += R"({"results":{"columns":[)";
    for (const Column& column : columns) {
      if (body_.text.back() != '[') body_.text += ',';
      append_string(body_.text, column.name);
    }
    body_.text += R"(],"rows":[)";
  }
  void row(std::span<const ValueView> values) override {
    if (std::exchange(has_rows_, true)) body_.text += ',';
    body_.text += '[';
    for (const ValueView& value : values) {
      if (body_.text.back() != '[') body_.text += ',';
      append_plain_value(body_.text, value);
    }
    body_.text += ']';
    body_.count();
  }
  void finish(const Outcome& outcome) {
    if (!begun_) columns({});
    body_.text += "],";
    append_counts(body_.text, outcome, RowidForm::number);
    fmt::format_to(std::back_inserter(body_.text),
                   R"(,"rows_read":{},"rows_written":{},"query_duration_ms":{:.3f}}}}})",
                   outcome.rows_read, outcome.rows_written, outcome.milliseconds);
    body_.count();
  }

 private:
  Body& body_;
  bool begun_ = false, has_rows_ = false;
};

class NoRows : public RowSink {
 public:
  void columns(std::span<const Column>) override {}
  void row(std::span<const ValueView>) override {}
};

Failure failure_of(const Lost& lost) { return Failure(400, lost.code, lost.what()); }

void must_fit(std::size_t bytes, std::size_t bytes_max, std::string_view what) {
  if (bytes > bytes_max)
    throw Refused("SQLITE_TOOBIG",
                  fmt::format("{} has {} bytes; at most {}", what, bytes, bytes_max));
}

void must_fit(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value))
    must_fit(text->size(), value_bytes_max, "a value");
  if (const auto* blob = std::get_if<Blob>(&value))
    must_fit(blob->bytes.size(), value_bytes_max, "a value");
}

// Follows which texts would be stored by each request, before anything has run.
class StoreCheck {
 public:
  StoreCheck(const std::map<std::int32_t, std::string>& stored, Version version)
      : version_(version) {
    for (const auto& [id, text] : stored) ids_.insert(id);
  }

  void operator()(const Stmt& stmt) { must_know(stmt.sql); }
  void operator()(const Execute& request) { must_know(request.stmt.sql); }
  void operator()(const Batch& request) {
    for (const Step& step : request.steps) must_know(step.stmt.sql);
  }
  void operator()(const Sequence& request) { must_know(request.sql); }
  void operator()(const Describe& request) { must_know(request.sql); }
  void operator()(const StoreSql& request) {
    if (ids_.insert(request.id).second || version_ == Version::hrana3) return;
    throw Failure(
        400, code::protocol,
        fmt::format("store_sql: sql_id {} is in use; send close_sql first, or use version 3",
                    request.id));
  }
  void operator()(const CloseSql& request) { ids_.erase(request.id); }
  void operator()(const GetAutocommit&) {}
  void operator()(const Close&) {}

 private:
  void must_know(const Sql& sql) const {
    if (!sql.id || ids_.contains(*sql.id)) return;
    throw Failure(
        400, code::protocol,
        fmt::format("sql_id {} is not stored in this stream; send store_sql first", *sql.id));
  }

  std::set<std::int32_t> ids_;
  Version version_;
};

}  // namespace

void Stream::check(const std::vector<Request>& requests, Version version) const {
  StoreCheck store(stored_, version);
  for (std::size_t at = 0; at < requests.size(); ++at) {
    if (std::holds_alternative<Close>(requests[at]) && at + 1 != requests.size()) {
      throw Failure(
          400, code::protocol,
          fmt::format("requests[{}] is \"close\"; only the last request may close the stream", at));
    }
    std::visit(store, requests[at]);
  }
}

void Stream::check(const Batch& batch) const { StoreCheck(stored_, Version::hrana3)(batch); }

void Stream::check(const Stmt& stmt) const { StoreCheck(stored_, Version::hrana3)(stmt); }

// Runs `work` and turns the file's exceptions into what a client gets. Afterwards it checks for a
// loss that nothing has thrown: an answer with status 200 promises that the transaction still
// exists.
template <class Work>
void Stream::guarded(const Work& work) {
  must_live();
  const auto look = [this] {
    if (file_) static_cast<void>(file_->is_autocommit());
  };
  try {
    try {
      work();
    } catch (const Refused&) {
      look();
      throw;
    }
    look();
  } catch (const Lost& lost) {
    lose(lost);
    throw failure_of(*lost_);
  } catch (const Unknown& unknown) {
    lose(Lost(code::unknown, unknown.what()));
    throw Failure(500, code::unknown, unknown.what());
  } catch (const Busy& busy) {
    if (has_run_) throw Refused(code::busy, busy.what());
    throw Failure(503, code::busy, busy.what());
  }
}

void Stream::must_live() const {
  if (lost_) throw failure_of(*lost_);
}

FileSession& Stream::file() {
  if (!file_) file_ = factory_();
  return *file_;
}

std::string_view Stream::text_of(const Sql& sql, std::size_t bytes_max,
                                 std::string_view limit_name) const {
  if (!sql.id) {
    must_fit(sql.text.size(), bytes_max, limit_name);
    return sql.text;
  }
  const auto found = stored_.find(*sql.id);
  if (found == stored_.end())
    throw Refused("SQL_NOT_STORED", fmt::format("sql_id {} is not stored in this stream", *sql.id));
  return found->second;
}

Outcome Stream::run_statement(Stmt& stmt, const Permit& permit, RowSink& rows) {
  const std::string_view text = text_of(stmt.sql, text_bytes_max, "the statement's text");
  for (const Value& value : stmt.args) must_fit(value);
  for (const auto& [name, value] : stmt.named_args) must_fit(value);
  const Statement statement{text, std::move(stmt.args), std::move(stmt.named_args), stmt.want_rows};
  return file().execute(statement, permit, rows);
}

void Stream::run_steps(Batch& batch, const Permit& permit, StepSink& sink) {
  std::vector<Ran> ran(batch.steps.size(), Ran::skipped);
  for (std::size_t at = 0; at < batch.steps.size(); ++at) {
    Step& step = batch.steps[at];
    if (step.condition &&
        !holds(*step.condition, ran, [this] { return !file_ || file_->is_autocommit(); })) {
      sink.skipped(at);
      continue;
    }
    ran[at] = Ran::failed;
    try {
      RowSink& rows = sink.begin(at);
      const Outcome outcome = run_statement(step.stmt, permit, rows);
      sink.end(at, outcome);
      ran[at] = Ran::ok;
    } catch (const Refused& error) { sink.failed(at, error); } catch (const Busy& busy) {
      if (!has_run_) throw;
      sink.failed(at, Refused(code::busy, busy.what()));
    }
    has_run_ = true;
  }
}

std::vector<std::string_view> Stream::transaction_texts(const Batch& batch) const {
  std::vector<std::string_view> texts;
  for (const Step& step : batch.steps) {
    if (step.stmt.sql.id && !stored_.contains(*step.stmt.sql.id)) return {};
    texts.push_back(step.stmt.sql.id ? stored_.at(*step.stmt.sql.id)
                                     : std::string_view(step.stmt.sql.text));
  }
  if (!is_one_transaction(batch, texts)) texts.clear();
  return texts;
}

void Stream::execute(Stmt& stmt, const Permit& permit, Body& body) {
  guarded([&] {
    ResultRows rows(body, stmt.want_rows);
    const Outcome outcome = run_statement(stmt, permit, rows);
    has_run_ = true;
    rows.finish(outcome);
  });
}

void Stream::batch(Batch& batch, const Permit& permit, Body& body) {
  guarded([&] {
    ResultSteps steps(batch, body);
    const auto texts = transaction_texts(batch);
    const auto work = [&] { run_steps(batch, permit, steps); };
    if (texts.empty() || !file().is_autocommit() || !file().together(texts, permit, work)) work();
    steps.finish();
  });
}

void Stream::cursor(Batch& batch, const Permit& permit, RowidForm form, const EntrySink& sink) {
  guarded([&] {
    CursorSteps steps(batch, form, sink);
    run_steps(batch, permit, steps);
  });
}

void Stream::store(const StoreSql& request) {
  must_fit(request.text.size(), stored_sql_bytes_max, "a stored text");
  if (stored_.size() >= stored_sql_max && !stored_.contains(request.id)) {
    throw Refused(
        "SQL_STORE_FULL",
        fmt::format("the stream has {} stored texts, which is the most; send close_sql for one",
                    stored_.size()));
  }
  stored_.insert_or_assign(request.id, request.text);
}

void Stream::respond(Request& request, const Permit& permit, Body& body) {
  must_live();
  std::string& out = body.text;
  if (auto* execute_request = std::get_if<Execute>(&request)) {
    out += R"({"type":"execute","result":)";
    execute(execute_request->stmt, permit, body);
    out += '}';
  } else if (auto* batch_request = std::get_if<Batch>(&request)) {
    out += R"({"type":"batch","result":)";
    batch(*batch_request, permit, body);
    out += '}';
  } else if (const auto* sequence = std::get_if<Sequence>(&request)) {
    guarded([&] {
      file().sequence(text_of(sequence->sql, sequence_bytes_max, "the sequence's text"), permit);
    });
    out += R"({"type":"sequence"})";
  } else if (const auto* describe = std::get_if<Describe>(&request)) {
    guarded([&] {
      out += R"({"type":"describe","result":)";
      append_description(
          out,
          file().describe(text_of(describe->sql, text_bytes_max, "the statement's text"), permit));
      out += '}';
      body.count();
    });
  } else if (std::holds_alternative<GetAutocommit>(request)) {
    out += in_transaction() ? R"({"type":"get_autocommit","is_autocommit":false})"
                            : R"({"type":"get_autocommit","is_autocommit":true})";
  } else if (const auto* store_request = std::get_if<StoreSql>(&request)) {
    store(*store_request);
    out += R"({"type":"store_sql"})";
  } else if (const auto* close_request = std::get_if<CloseSql>(&request)) {
    stored_.erase(close_request->id);
    out += R"({"type":"close_sql"})";
  } else {
    close();
    out += R"({"type":"close"})";
  }
}

void Stream::run(Request& request, const Permit& permit, Body& body) {
  const std::size_t mark = body.text.size();
  try {
    body.text += R"({"type":"ok","response":)";
    respond(request, permit, body);
    body.text += '}';
  } catch (const Refused& error) {
    body.text.resize(mark);
    body.text += R"({"type":"error","error":)";
    append_error(body.text, error);
    body.text += '}';
  }
  has_run_ = true;
}

void Stream::control(std::string_view sql, const Permit& permit) {
  NoRows rows;
  static_cast<void>(file().execute({sql, {}, {}, false}, permit, rows));
}

void Stream::run_plain(std::vector<Stmt>& statements, const Permit& permit, Body& body) {
  const std::size_t mark = body.text.size();
  const auto run_all = [&] {
    body.text.resize(mark);
    body.text += '[';
    for (Stmt& stmt : statements) {
      if (body.text.size() > mark + 1) body.text += ',';
      PlainRows rows(body);
      const Outcome outcome = run_statement(stmt, permit, rows);
      rows.finish(outcome);
    }
    body.text += ']';
  };
  if (statements.size() < 2) return run_all();
  std::vector<std::string_view> texts{"BEGIN"};
  for (const Stmt& stmt : statements) texts.push_back(stmt.sql.text);
  texts.push_back("COMMIT");
  const auto work = [&] {
    control("BEGIN", permit);
    run_all();
    control("COMMIT", permit);
  };
  if (!file().together(texts, permit, work)) work();
}

void Stream::plain(std::vector<Stmt>& statements, const Permit& permit, Body& body) {
  for (std::size_t at = 0; at < statements.size(); ++at) {
    const std::string word = first_word(statements[at].sql.text);
    if (!is_transaction_word(word)) continue;
    throw Failure(
        400, code::protocol,
        fmt::format("statements[{}] is {}: the statements of this call are one transaction already",
                    at, text::upper(word)));
  }
  try {
    guarded([&] { run_plain(statements, permit, body); });
  } catch (const Refused&) {
    close();
    throw;
  }
}

void Stream::close() noexcept {
  if (file_) file_->end(nullptr);
  file_.reset();
  stored_.clear();
}

void Stream::heard() noexcept {
  has_run_ = false;
  if (file_) file_->heard();
}

void Stream::answered() noexcept {
  if (file_) file_->answered();
}

bool Stream::in_transaction() {
  bool in = false;
  guarded([&] { in = file_ && !file_->is_autocommit(); });
  return in;
}

bool Stream::keeps() {
  return in_transaction() || !stored_.empty() || (file_ && file_->keeps_settings());
}

void Stream::lose(const Lost& why) noexcept {
  if (lost_) return;
  lost_ = why;
  if (!file_) return;
  try {
    static_cast<void>(file_->is_autocommit());
  } catch (const Lost& earlier) { lost_ = earlier; } catch (const std::exception&) {
    // The file gives no reason, so the given one applies.
  }
  file_->end(&*lost_);
  file_.reset();
  stored_.clear();
}

}  // namespace termgate::hrana
