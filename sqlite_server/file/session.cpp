// How a statement runs: it is prepared on the stream's connection or on a reader of the pool,
// judged by what the guard found, and run by its kind (session.hpp).
#include "file/session.hpp"

#include <algorithm>
#include <cassert>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/text/scanner.hpp>

#include "file/connection.hpp"
#include "file/errors.hpp"
#include "file/pooled_connection.hpp"
#include "file/memory.hpp"
#include "file/pragmas.hpp"
#include "file/rows.hpp"

namespace termgate::sqlite_file {

using State = FileTransaction::State;
using Is = Facts::Kind;

namespace {

std::string_view without_end(std::string_view sql) {
  while (!sql.empty() &&
         (sql.back() == ' ' || sql.back() == '\n' || sql.back() == '\r' || sql.back() == '\t'))
    sql.remove_suffix(1);
  return sql;
}

class NoRows final : public hrana::RowSink {
 public:
  void columns(std::span<const hrana::Column>) override {}
  void row(std::span<const hrana::ValueView>) override {}
};

bool returns_rows(const Prepared& prepared) {
  return sqlite3_column_count(prepared.get()) != 0 && sqlite3_stmt_readonly(prepared.get()) == 0;
}

bool is_control(Is kind) { return kind >= Is::begin && kind <= Is::rollback_to; }

// Whether the connection's last statement, which has failed, keeps something: INSERT OR FAIL does.
bool wrote_before_failure(Connection& connection) {
  return connection.sqlite().in_transaction() &&
         sqlite3_total_changes64(connection.handle()) != connection.serving().total_before;
}

void start_clock(Control& control, std::chrono::milliseconds limit) noexcept {
  control.limit(limit.count() == 0 ? Control::Clock::time_point::max()
                                   : Control::Clock::now() + limit);
}

void require_size(std::string_view sql, std::size_t bytes_max) {
  if (sql.size() > bytes_max)
    throw hrana::Refused(
        "SQLITE_TOOBIG",
        fmt::format("the text has {} bytes, and may have {}", sql.size(), bytes_max),
        "SQLITE_TOOBIG");
}

}  // namespace

Session::Session(std::shared_ptr<Engine> engine, SessionOptions options)
    : engine_(std::move(engine)),
      options_(std::move(options)),
      control_([this](const Eviction& why) {
        if (options_.on_lost) options_.on_lost(hrana::Lost(why.code, why.message));
      }),
      transaction_(*engine_, control_, settings_) {}

Session::~Session() { transaction_.roll_back(); }

// --- what may end a stream

void Session::throw_lost(const Eviction& why) {
  transaction_.roll_back();
  control_.forget_eviction();
  if (!lost_) lost_.emplace(why.code, why.message);
  throw hrana::Lost(*lost_);
}

void Session::enter() {
  if (lost_) throw hrana::Lost(*lost_);
  if (const auto why = control_.why()) throw_lost(*why);
  if (engine_->moved()) {
    throw_lost({"DATABASE_MOVED", fmt::format("the database file {} was moved, removed or "
                                              "replaced, or its log was: nothing is written to it "
                                              "any more; begin again in a new stream",
                                              engine_->path())});
  }
}

void Session::lose(const hrana::Lost& why) { control_.evict({why.code, why.what()}); }

void Session::end(const hrana::Lost* why) noexcept {
  transaction_.roll_back();
  settings_ = Settings();
  control_.forget_eviction();
  if (why != nullptr && !lost_) lost_.emplace(*why);
}

void Session::answered() noexcept { control_.silent(); }
void Session::heard() noexcept { control_.heard(); }

bool Session::is_autocommit() const {
  if (lost_) throw hrana::Lost(*lost_);
  return member_ != nullptr ? !member_->within : transaction_.state() == State::none;
}

bool Session::keeps_settings() const { return settings_ != Settings(); }

// A claim declared in SQL overrides that of the token and of the headers.
hrana::Permit Session::permitted(const hrana::Permit& given) const {
  hrana::Permit permit = given;
  if (settings_.declared && !given.claim_is_final)
    permit.claim = {settings_.declared->scope, settings_.declared->term};
  return permit;
}

void Session::guarded(const hrana::Permit& permit, const std::function<void()>& work) {
  if (member_ == nullptr) enter();
  try {
    try {
      work();
    } catch (...) { rethrow_for_stream(!permit.claim.none()); }
  } catch (const hrana::Unknown& unknown) {
    lost_.emplace("OUTCOME_UNKNOWN", unknown.what());
    throw;
  } catch (const hrana::Lost& lost) {
    if (!lost_) lost_.emplace(lost);
    throw;
  } catch (const hrana::Refused& refusal) {
    if (member_ != nullptr) throw;
    if (refusal.extended_code == "SQLITE_READONLY_DBMOVED") engine_->note_moved();
    if (engine_->moved()) enter();
    throw;
  }
}

// --- texts

hrana::Outcome Session::execute(const hrana::Statement& statement, const hrana::Permit& given,
                                hrana::RowSink& rows) {
  const hrana::Permit permit = permitted(given);
  hrana::Outcome outcome;
  guarded(permit, [&] {
    require_size(statement.sql, options_.text_bytes_max);
    hrana::Statement trimmed = statement;
    trimmed.sql = without_end(statement.sql);
    Job job{trimmed, permit, rows};
    outcome = *run_next(job, true);
  });
  return outcome;
}

void Session::sequence(std::string_view sql, const hrana::Permit& given) {
  keeps_of_sequence_ = false;
  guarded(given, [&] {
    require_size(sql, options_.sequence_bytes_max);
    NoRows none;
    hrana::Statement statement;
    statement.sql = without_end(sql);
    statement.wants_rows = false;
    for (std::size_t at = 0; !text::is_nothing(statement.sql.substr(at), text::Dialect::sqlite);) {
      // Computed again for each statement, because one of them may be a declaration.
      const hrana::Permit permit = permitted(given);
      Job job{statement, permit, none, at};
      try {
        run_next(job, false);
      } catch (const hrana::Busy& busy) {
        // A client repeats a Busy, and would run the earlier statements twice.
        if (at != 0) throw hrana::Refused("SERVER_BUSY", busy.what());
        throw;
      }
      keeps_of_sequence_ = keeps_of_sequence_ || transaction_.state() == State::none;
      at += job.used;
    }
  });
}

hrana::Description Session::describe(std::string_view sql, const hrana::Permit& given) {
  hrana::Description description;
  guarded(given, [&] {
    require_size(sql, options_.text_bytes_max);
    const std::string_view text = without_end(sql);
    const PooledConnection lent(*this);
    const Prepared prepared = lent.connection().prepare_anew(text);
    const Facts& facts = prepared.facts();
    if (prepared.get() == nullptr && facts.kind == Is::plain)
      throw hrana::Refused("SQL_NO_STATEMENT", "the text holds no statement");
    if (!text::is_nothing(text.substr(prepared.used()), text::Dialect::sqlite))
      throw hrana::Refused("SQL_MANY_STATEMENTS", "the text holds more than one statement");
    description.read_only = !facts.writes && facts.kind != Is::vacuum;
    if (prepared.get() == nullptr) return;
    description.explains = sqlite3_stmt_isexplain(prepared.get()) != 0;
    for (int at = 1; at <= sqlite3_bind_parameter_count(prepared.get()); ++at) {
      const char* name = sqlite3_bind_parameter_name(prepared.get(), at);
      description.parameters.push_back(
          {name != nullptr ? std::optional<std::string>(name) : std::nullopt});
    }
    if (facts.kind == Is::plain) description.columns = columns_of(prepared.get());
    else if (facts.kind == Is::setting && !facts.value) description.columns = {{facts.name, {}}};
  });
  return description;
}

// If the schema has changed meanwhile, the text may have become another kind of statement.
std::optional<hrana::Outcome> Session::run_next(Job& job, bool only_one) {
  for (int again = 0;; ++again) {
    try {
      return run_prepared(job, only_one);
    } catch (const Prepared::Changed&) {
      if (again == 5) throw refused(SQLITE_SCHEMA, "database schema has changed");
    } catch (hrana::Refused& refusal) {
      if (refusal.offset && job.at != 0) *refusal.offset += job.at;
      throw;
    }
  }
}

std::optional<hrana::Outcome> Session::run_prepared(Job& job, bool only_one) {
  Facts facts;
  {
    PooledConnection lent(*this);
    Prepared prepared = lent.connection().prepare(job.text());
    job.used = prepared.used();
    facts = prepared.facts();
    if (prepared.get() == nullptr && facts.kind == Is::plain) {
      if (only_one) throw hrana::Refused("SQL_NO_STATEMENT", "the text holds no statement");
      return std::nullopt;
    }
    if (only_one && !text::is_nothing(job.text().substr(job.used), text::Dialect::sqlite))
      throw hrana::Refused(
          "SQL_MANY_STATEMENTS",
          "the text holds more than one statement: send them one by one, or as a sequence");
    if (facts.kind == Is::plain && !facts.writes) return read(job, lent, prepared);
  }
  if (is_control(facts.kind)) return run_control(job, facts);
  if (facts.kind == Is::setting || facts.kind == Is::ignored) return run_pragma(job, facts);
  return write(job, facts);
}

// --- reading

hrana::Outcome Session::read(Job& job, PooledConnection& lent, Prepared& prepared) {
  start_clock(control_, job.permit.claim.none() && options_.reading_time_max.count() != 0
                            ? options_.reading_time_max
                            : options_.statement_time_max);
  if (member_ != nullptr || transaction_.state() == State::writing) {
    HeldRows rows(options_.held_rows_bytes_max,
                  "a statement that reads in a transaction that has the write lock");
    hrana::Outcome outcome;
    try {
      outcome = step_through(job, prepared, rows, member_ != nullptr && member_->shared);
    } catch (...) {
      settle();
      throw;
    }
    settle();
    rows.send(job.rows);
    return outcome;
  }
  if (transaction_.state() == State::begun) transaction_.read_on(lent.take());
  try {
    const MemoryBound bound(options_.reading_bytes_max);
    const hrana::Outcome outcome = step_through(job, prepared, job.rows, false);
    settle();
    return outcome;
  } catch (const hrana::Refused& refusal) {
    settle();
    if (refusal.code == "SQLITE_NOMEM")
      throw hrana::Refused("SQLITE_NOMEM",
                           fmt::format("out of memory: one statement that reads may take {} bytes",
                                       options_.reading_bytes_max),
                           "SQLITE_NOMEM");
    throw;
  } catch (...) {
    settle();
    throw;
  }
}

void Session::settle() {
  if (member_ != nullptr) return;
  const bool was_open = transaction_.state() != State::none;
  if (const auto why = control_.why(); why && was_open) throw_lost(*why);
  const bool over = transaction_.follow_sqlite();
  // SQLite itself rolls back if the statement says so or the disk is full. If the statement was
  // stopped, the server caused the rollback.
  if (was_open && over && (control_.timed_out() || control_.cancelled()))
    throw_lost({"TRANSACTION_TIMEOUT",
                "the statement was stopped, and with it the transaction was rolled back: nothing "
                "of it was written"});
}

hrana::Outcome Session::step_through(Job& job, Prepared& prepared, hrana::RowSink& rows,
                                     bool shared) {
  Connection& connection = prepared.owner();
  struct During {
    Control& control;
    Connection& connection;
    During(Session& session, Connection& on, const hrana::Permit& permit, bool shared)
        : control(session.control_), connection(on) {
      control.begins(on.handle(), shared);
      Serving& serving = on.serving();
      serving.control = &control;
      serving.changes = session.tally_.changes;
      serving.total_changes = session.tally_.total_changes;
      serving.total_before = sqlite3_total_changes64(on.handle());
      serving.declare = [&session, final = permit.claim_is_final](std::optional<Want> claim) {
        if (final)
          throw InvalidInput(
              "TG005 termgate_declare() is not for this stream: its rule or its token names scope "
              "and term");
        session.settings_.declared = std::move(claim);
      };
      sqlite3_set_last_insert_rowid(on.handle(), session.tally_.last_insert_rowid);
    }
    ~During() {
      connection.serving().control = nullptr;
      connection.serving().declare = nullptr;
      control.ends();
    }
  };
  const During during(*this, connection, job.permit, shared);
  try {
    const hrana::Outcome outcome = step_rows(job, prepared, rows);
    if (control_.evicted()) throw sqlite::GaveUp{};
    return outcome;
  } catch (const hrana::Refused& refusal) {
    if (refusal.code != "SQLITE_INTERRUPT" || !control_.timed_out()) throw;
    throw hrana::Refused("SQLITE_INTERRUPT",
                         "interrupted: the statement ran longer than this server lets it",
                         "SQLITE_INTERRUPT");
  }
}

hrana::Outcome Session::step_rows(Job& job, Prepared& prepared, hrana::RowSink& rows) {
  const auto began = Control::Clock::now();
  const auto limit = control_.limit();
  auto sending = Control::Clock::duration::zero();
  bind_parameters(prepared.get(), job.statement);
  int code = prepared.step();
  // Read after the first step, which may have prepared the statement again.
  const auto columns = columns_of(prepared.get());
  rows.columns(columns);
  hrana::Outcome outcome;
  std::vector<hrana::ValueView> values;
  for (; code == SQLITE_ROW; code = prepared.step()) {
    ++outcome.rows_read;
    if (!job.statement.wants_rows) continue;
    read_row(prepared.get(), outcome.rows_read, values);
    if (limit == Control::Clock::time_point::max()) {
      rows.row(values);
      continue;
    }
    // The time in which the client is slow does not count for the statement.
    const auto since = Control::Clock::now();
    rows.row(values);
    sending += Control::Clock::now() - since;
    control_.limit(limit + sending);
  }
  sqlite3* db = prepared.owner().handle();
  const std::int64_t moved = sqlite3_total_changes64(db) - prepared.owner().serving().total_before;
  // DDL leaves the previous statement's count in place.
  if (moved != 0) {
    outcome.affected_rows = sqlite3_changes64(db);
    outcome.rows_written = static_cast<std::uint64_t>(moved);
    tally_.changes = outcome.affected_rows;
    tally_.total_changes += moved;
  } else if (prepared.facts().writes && sqlite3_column_count(prepared.get()) == 0) {
    tally_.changes = 0;
  }
  tally_.last_insert_rowid = sqlite3_last_insert_rowid(db);
  if (prepared.facts().inserts && outcome.affected_rows != 0)
    outcome.last_insert_rowid = tally_.last_insert_rowid;
  outcome.milliseconds =
      std::chrono::duration<double, std::milli>(Control::Clock::now() - began).count();
  return outcome;
}

// --- writing

void Session::refuse_write(const Job& job, const Facts& facts) const {
  if (job.permit.access == hrana::Access::read_only)
    throw hrana::Refused("SQLITE_AUTH", "not authorized: this token's level is read",
                         "SQLITE_AUTH");
  if (settings_.query_only || transaction_.read_only())
    throw hrana::Refused("SQLITE_READONLY", "attempt to write a readonly database",
                         "SQLITE_READONLY");
  if (facts.leads && job.permit.claim_is_final)
    throw InvalidInput(
        "TG005 seals and leases are not for this stream: its rule or its token names scope and "
        "term");
}

hrana::Outcome Session::write(Job& job, const Facts& facts) {
  refuse_write(job, facts);
  start_clock(control_, options_.statement_time_max);
  const Tally before = tally_;
  HeldRows rows(options_.written_rows_bytes_max, "a statement that writes");
  hrana::Outcome outcome;
  try {
    if (facts.kind == Is::vacuum) {
      vacuum(job);
    } else if (member_ != nullptr) {
      outcome = write_in_member(job, facts, rows);
    } else if (transaction_.state() != State::none) {
      outcome = write_in_transaction(job, facts, rows);
    } else if (settings_.foreign_keys) {
      outcome = write_alone(job, facts, rows);
    } else {
      // foreign_keys belongs to the connection and cannot be changed inside a transaction, so this
      // write cannot share a group.
      transaction_.begin(false);
      try {
        outcome = write_in_transaction(job, facts, rows);
        commit();
      } catch (const hrana::Refused& refusal) {
        if (refusal.code == "SQLITE_CONSTRAINT" && transaction_.state() == State::writing &&
            wrote_before_failure(*transaction_.connection()))
          commit();
        transaction_.roll_back();
        throw;
      } catch (...) {
        transaction_.roll_back();
        throw;
      }
    }
  } catch (...) {
    tally_ = before;
    throw;
  }
  rows.send(job.rows);
  return outcome;
}

Want Session::want_of(Job& job, const Facts& facts) {
  if (!facts.names_claim || !job.permit.claim.none() || transaction_.state() == State::writing)
    return {job.permit.claim.scope, job.permit.claim.term};
  // On a reader the function only records its arguments. Other errors are reported when the
  // statement really runs.
  std::unique_ptr<Connection> reader = engine_->borrow(false);
  reader->serving().asked_for.reset();
  try {
    Prepared prepared = reader->prepare(job.text());
    NoRows none;
    const MemoryBound bound(options_.reading_bytes_max);
    step_through(job, prepared, none, false);
  } catch (const std::exception&) {
  } catch (...) {
    engine_->put_back(std::move(reader));
    throw;
  }
  const Want want = reader->serving().asked_for.value_or(Want{});
  engine_->put_back(std::move(reader));
  return want;
}

hrana::Outcome Session::write_alone(Job& job, const Facts& facts, HeldRows& rows) {
  Checks checks(*engine_);
  // A statement that names its own claim is checked under that one, unless the request's claim is
  // final.
  const bool by_itself = facts.names_claim && !job.permit.claim_is_final;
  if (!by_itself) checks.before_lock(job.permit, facts.names_claim, nullptr);
  const std::string_view text = job.text();
  hrana::Outcome outcome;
  std::exception_ptr failed_and_kept;
  try {
    engine_->group(control_, want_of(job, facts), engine_->rolls_back(text),
                   [&](Connection& writer, bool shared) {
                     try {
                       if (by_itself) Checks::declare(writer, job.permit);
                       else checks.require(writer, job.permit, facts.names_claim);
                       Prepared prepared = writer.prepare(text);
                       if (prepared.facts().kind != facts.kind ||
                           (prepared.facts().names_claim != facts.names_claim && facts.names_claim))
                         throw Prepared::Changed{};
                       const std::int64_t changes = sqlite3_total_changes64(writer.handle());
                       try {
                         outcome = step_through(job, prepared, rows, shared);
                       } catch (const hrana::Refused& refusal) {
                         // INSERT OR FAIL and RAISE(FAIL) keep what was written before the failure.
                         // SQLite's count excludes what it has undone.
                         const bool kept = writer.sqlite().in_transaction() &&
                                           sqlite3_total_changes64(writer.handle()) != changes;
                         if (refusal.code != "SQLITE_CONSTRAINT" || !kept) throw;
                         failed_and_kept = std::current_exception();
                       }
                       checks.absorb(writer);
                     } catch (...) {
                       if (!writer.sqlite().in_transaction()) engine_->note_rolls_back(text);
                       throw;
                     }
                   });
  } catch (const hrana::Busy&) { throw; } catch (...) {
    const auto why = control_.why();
    if (!why) throw;
    // No transaction is left that could be lost: only the statement has failed.
    control_.forget_eviction();
    throw hrana::Refused(why->code, why->message);
  }
  engine_->committed(checks.passed());
  control_.forget_eviction();
  if (failed_and_kept) std::rethrow_exception(failed_and_kept);
  return outcome;
}

hrana::Outcome Session::write_in_transaction(Job& job, const Facts& facts, HeldRows& rows) {
  assert(transaction_.state() != State::none && "a write in a transaction has one");
  try {
    transaction_.checks().before_lock(job.permit, facts.names_claim, transaction_.connection());
    Connection& writer = transaction_.writer(job.permit, facts.names_claim, want_of(job, facts));
    Prepared prepared = writer.prepare(job.text());
    const hrana::Outcome outcome = returns_rows(prepared)
                                       ? step_or_undo(job, prepared, rows)
                                       : step_through(job, prepared, rows, false);
    transaction_.absorb_passes();
    settle();
    return outcome;
  } catch (...) {
    settle();
    throw;
  }
}

// SQLite completes a statement before it returns the first row of a RETURNING. If this server
// refuses a row, for its size or its encoding, the statement has failed and must be undone.
hrana::Outcome Session::step_or_undo(Job& job, Prepared& prepared, HeldRows& rows) {
  Connection& writer = prepared.owner();
  writer.run("SAVEPOINT termgate_statement");
  try {
    const hrana::Outcome outcome = step_through(job, prepared, rows, false);
    writer.run("RELEASE termgate_statement");
    return outcome;
  } catch (const RowRefused&) {
    sqlite3_reset(prepared.get());
    if (writer.sqlite().in_transaction())
      writer.run("ROLLBACK TO termgate_statement; RELEASE termgate_statement");
    throw;
  } catch (const hrana::Refused&) {
    sqlite3_reset(prepared.get());
    if (writer.sqlite().in_transaction()) writer.run("RELEASE termgate_statement");
    throw;
  }
}

hrana::Outcome Session::write_in_member(Job& job, const Facts& facts, HeldRows& rows) {
  if (!member_->connection.sqlite().in_transaction())
    throw refused(SQLITE_ABORT,
                  "the batch was rolled back by the error before: nothing of it was written");
  member_->checks.require(member_->connection, job.permit, facts.names_claim);
  Prepared prepared = member_->connection.prepare(job.text());
  return step_through(job, prepared, rows, member_->shared);
}

// SQLite runs VACUUM outside a transaction, so the claim is checked in one before it, which writes
// nothing; no other write of this process gets in between. The pages that VACUUM moves are not
// anybody's write.
void Session::vacuum(Job& job) {
  if (member_ != nullptr || transaction_.state() != State::none)
    throw refused(SQLITE_ERROR, "cannot VACUUM from within a transaction");
  transaction_.checks().before_lock(job.permit, false, nullptr);
  transaction_.begin(false);
  try {
    Connection& writer =
        transaction_.writer(job.permit, false, {job.permit.claim.scope, job.permit.claim.term});
    if (writer.sqlite().control("ROLLBACK") != SQLITE_OK) writer.fail(SQLITE_ERROR);
    writer.sqlite().layer1().transaction_undone();
    control_.begins(writer.handle(), false);
    writer.serving().control = &control_;
    // VACUUM attaches a file of its own.
    sqlite3_limit(writer.handle(), SQLITE_LIMIT_ATTACHED, 1);
    const int code = sqlite3_exec(writer.handle(), "VACUUM", nullptr, nullptr, nullptr);
    sqlite3_limit(writer.handle(), SQLITE_LIMIT_ATTACHED, 0);
    control_.ends();
    if (const auto why = control_.why()) throw_lost(*why);
    if (code != SQLITE_OK) writer.fail(code);
  } catch (...) {
    transaction_.roll_back();
    throw;
  }
  transaction_.roll_back();
}

}  // namespace termgate::sqlite_file
