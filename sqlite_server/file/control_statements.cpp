// Statements that a session carries out itself: transactions, savepoints and settings; and whole
// batches as members of a group commit.
#include <algorithm>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/text/scanner.hpp>

#include "file/connection.hpp"
#include "file/errors.hpp"
#include "file/pooled_connection.hpp"
#include "file/pragmas.hpp"
#include "file/session.hpp"

namespace termgate::sqlite_file {

using State = FileTransaction::State;
using Is = Facts::Kind;

namespace {

void send_value(hrana::RowSink& rows, const std::string& name, const hrana::ValueView& value) {
  const hrana::Column column{name, {}};
  rows.columns({&column, 1});
  rows.row({&value, 1});
}

}  // namespace

void Session::begin(const Job& job, const Facts& facts) {
  if (transaction_.state() != State::none)
    throw refused(SQLITE_ERROR, "cannot start a transaction within a transaction");
  const hrana::Permit& permit = job.permit;
  transaction_.begin(facts.read_only_begin);
  // Only a client that may write gets the lock now; for any other, the first write requests it.
  const bool may_lock = permit.access != hrana::Access::read_only && !settings_.query_only &&
                        !permit.observe &&
                        (!permit.claim.none() || permit.access == hrana::Access::unfenced);
  if (!facts.locks || facts.read_only_begin || !may_lock) return;
  try {
    transaction_.checks().before_lock(permit, false, nullptr);
    transaction_.writer(permit, false, {permit.claim.scope, permit.claim.term});
  } catch (...) {
    transaction_.roll_back();
    throw;
  }
}

void Session::commit() {
  try {
    transaction_.commit();
  } catch (const sqlite::GaveUp&) {
    if (const auto why = control_.why()) throw_lost(*why);
    throw;
  }
  control_.forget_eviction();
}

hrana::Outcome Session::run_control(const Job& job, const Facts& facts) {
  if (member_ != nullptr) {
    run_member_control(job, facts);
  } else if (facts.kind == Is::begin) {
    begin(job, facts);
  } else if (facts.kind == Is::savepoint) {
    transaction_.savepoint(facts.name);
  } else if (facts.kind == Is::release) {
    if (transaction_.release(facts.name)) commit();
  } else if (facts.kind == Is::rollback_to) {
    transaction_.roll_back_to(facts.name);
  } else if (transaction_.state() == State::none) {
    throw refused(SQLITE_ERROR, facts.kind == Is::commit
                                    ? "cannot commit - no transaction is active"
                                    : "cannot rollback - no transaction is active");
  } else if (facts.kind == Is::commit) {
    commit();
  } else {
    transaction_.roll_back();
  }
  job.rows.columns({});
  return {};
}

// For a member of a group: BEGIN is a savepoint of the group's transaction, COMMIT releases it,
// ROLLBACK goes back to it.
void Session::run_member_control(const Job& job, const Facts& facts) {
  Member& member = *member_;
  sqlite::Connection& sqlite = member.connection.sqlite();
  if (!sqlite.in_transaction())
    throw refused(SQLITE_ABORT,
                  "the batch was rolled back by the error before: nothing of it was written");
  if (facts.kind == Is::begin && !member.within) {
    member.connection.run("SAVEPOINT termgate_batch");
    try {
      member.checks.require(member.connection, job.permit, false);
    } catch (...) {
      member.connection.run("ROLLBACK TO termgate_batch; RELEASE termgate_batch");
      throw;
    }
    member.within = true;
    return;
  }
  if (!member.within || (facts.kind != Is::commit && facts.kind != Is::rollback))
    throw refused(SQLITE_ERROR, facts.kind == Is::begin
                                    ? "cannot start a transaction within a transaction"
                                    : "no transaction is active");
  if (facts.kind == Is::commit) {
    int deferred = 0, highest = 0;
    sqlite3_db_status(sqlite.handle(), SQLITE_DBSTATUS_DEFERRED_FKS, &deferred, &highest, 0);
    if (deferred != 0) throw refused(SQLITE_CONSTRAINT_FOREIGNKEY, "FOREIGN KEY constraint failed");
    member.connection.run("RELEASE termgate_batch");
  } else {
    member.connection.run("ROLLBACK TO termgate_batch; RELEASE termgate_batch");
    member.checks.clear();
  }
  member.within = false;
}

hrana::Outcome Session::run_pragma(const Job& job, const Facts& facts) {
  if (facts.kind == Is::ignored) {
    if (facts.name == "journal_mode") {
      const PooledConnection lent(*this);
      sqlite::Statement statement(lent.connection().handle(), "PRAGMA main.journal_mode");
      sqlite::Running mode(statement.get());
      if (!mode.step() || sqlite3_stricmp(mode.text(0).c_str(), facts.value->c_str()) != 0)
        throw hrana::Refused(
            "SQLITE_AUTH",
            fmt::format(
                "not authorized: the journal mode of the file is {}, and its owner's to change",
                mode.text(0)),
            "SQLITE_AUTH");
    }
    if (pragma_answers(facts.name))
      send_value(job.rows, facts.name, std::string_view(*facts.value));
    else job.rows.columns({});
    return {};
  }
  bool& flag = facts.name == "foreign_keys" ? settings_.foreign_keys
               : facts.name == "query_only" ? settings_.query_only
                                            : settings_.defer_foreign_keys;
  if (!facts.value) {
    send_value(job.rows, facts.name, std::int64_t{flag ? 1 : 0});
    return {};
  }
  const bool on = pragma_truth(*facts.value);
  // As in SQLite, foreign_keys has no effect inside a transaction.
  if (&flag != &settings_.foreign_keys || is_autocommit()) flag = on;
  if (&flag == &settings_.defer_foreign_keys && transaction_.state() == State::writing)
    transaction_.connection()->run(on ? "PRAGMA defer_foreign_keys = ON"
                                      : "PRAGMA defer_foreign_keys = OFF");
  job.rows.columns({});
  return {};
}

// --- batches

// Whether the texts are BEGIN, statements that write or read, COMMIT, and perhaps a ROLLBACK in
// case one fails. A batch with a statement that cannot be prepared yet, because an earlier one
// creates what it uses, does not run as a group.
bool Session::suits_group(std::span<const std::string_view> texts) {
  if (texts.size() < 3) return false;
  const PooledConnection lent(*this);
  bool writes = false;
  std::size_t commit_at = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() > options_.text_bytes_max || engine_->rolls_back(texts[i])) return false;
    const Prepared prepared = lent.connection().prepare(texts[i]);
    const Facts& facts = prepared.facts();
    if (!text::is_nothing(texts[i].substr(prepared.used()), text::Dialect::sqlite)) return false;
    if (i == 0) {
      if (facts.kind != Is::begin || facts.read_only_begin) return false;
    } else if (commit_at != 0) {
      if (facts.kind != Is::rollback || i != texts.size() - 1) return false;
    } else if (facts.kind == Is::commit) {
      commit_at = i;
    } else {
      // The scope that such a function needs is not known yet.
      if (facts.kind != Is::plain || facts.calls_termgate || prepared.get() == nullptr)
        return false;
      writes = writes || facts.writes;
    }
  }
  return writes && commit_at != 0;
}

bool Session::together(std::span<const std::string_view> texts, const hrana::Permit& given,
                       const std::function<void()>& work) {
  const hrana::Permit permit = permitted(given);
  const bool fit = member_ == nullptr && !lost_ && transaction_.state() == State::none &&
                   !permit.observe && settings_.foreign_keys && !settings_.defer_foreign_keys &&
                   !settings_.query_only && permit.access != hrana::Access::read_only &&
                   (!permit.claim.none() || permit.access == hrana::Access::unfenced);
  if (!fit) return false;
  Checks early(*engine_);
  try {
    enter();
    if (!suits_group(texts)) return false;
    early.before_lock(permit, false, nullptr);
  } catch (const std::exception&) {
    return false;  // the error is reported when the statement runs
  }
  guarded(permit, [&] {
    std::vector<Want> passed;
    const Tally before = tally_;
    control_.limit(Control::Clock::time_point::max());
    try {
      engine_->group(
          control_, {permit.claim.scope, permit.claim.term}, false,
          [&](Connection& writer, bool shared) {
            Member member{writer, shared, Checks(*engine_)};
            member_ = &member;
            struct Over {
              Session& session;
              ~Over() { session.member_ = nullptr; }
            } over{*this};
            work();
            if (!writer.sqlite().in_transaction()) {
              for (const std::string_view each : texts) engine_->note_rolls_back(each);
            } else if (member.within) {
              throw refused(
                  SQLITE_ABORT,
                  "the batch ended without COMMIT or ROLLBACK: nothing of it was written");
            }
            passed = member.checks.passed();
          });
    } catch (const hrana::Busy&) { throw; } catch (...) {
      tally_ = before;
      const auto why = control_.why();
      if (!why) throw;
      control_.forget_eviction();
      throw hrana::Refused(why->code, why->message);
    }
    engine_->committed(passed);
    control_.forget_eviction();
  });
  return true;
}

}  // namespace termgate::sqlite_file
