// Called by the triggers of protect() and adopt() for each row, and by layer 1's own triggers for
// its tables. It runs inside the application's writing statement, on its thread; a refusal is an
// exception that fails that statement.
#include <termgate/detail/sqlite/tables.hpp>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/detail/sqlite/errors.hpp>
#include <termgate/error.hpp>

#include "common.hpp"
#include "json.hpp"
#include "unit.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlite {
namespace {

namespace stmt = termgate::sql::sqlite_statements;

}  // namespace

// Databases 0 and 1 are main and temp, so a third one is an attached file. The function exists
// since SQLite 3.39.
bool Guards::attached() {
#if SQLITE_VERSION_NUMBER >= 3039000
  if (sqlite3_libversion_number() >= 3039000)
    return sqlite3_db_name(core_.connection(), 2) != nullptr;
#endif
  return core_.use(stmt::attached).step();
}

bool Guards::arm() {
  if (!attached()) return false;
  // If the trigger runs in the main database, this connection holds its write lock.
  if (sqlite3_txn_state(core_.connection(), "main") != SQLITE_TXN_WRITE) return true;
  try {
    {
      // A ROLLBACK TO undoes the mark.
      Running read = core_.use(stmt::here_read);
      if (!read.step())
        throw DatabaseError("termgate_here has lost its row: run termgate init again");
      if (mark_ && read.integer(0) == *mark_) return true;
    }
    mark_.reset();
    core_.track();
    std::int64_t mark = 0;
    // A random number, so that no statement of an application can pass the mark of another
    // transaction.
    sqlite3_randomness(sizeof mark, &mark);
    const Core::AtWork at_work(core_);
    Running write = core_.use(stmt::here_write);
    write.bind(mark).run();
    if (core_.changes() == 1) mark_ = mark;
  } catch (const DatabaseError&) {
    // The main database has no layer 1, or an earlier version; so the trigger belongs to another
    // file.
    mark_.reset();
  }
  return true;
}

void Guards::require_here(std::string_view table, const std::optional<Handed>& handed) {
  if (!attached()) return;
  if (!handed) {
    throw InvalidInput(fmt::format(
        "TG005 the triggers of table \"{}\" were made by an earlier version of Termgate and do not "
        "say which file they belong "
        "to, and a file is attached to this connection: run termgate init on each file, or DETACH",
        table));
  }
  if (sqlite3_txn_state(core_.connection(), "main") == SQLITE_TXN_WRITE && mark_ &&
      handed->mark == mark_)
    return;
  throw InvalidInput(
      fmt::format("TG005 table \"{}\" belongs to an attached file, whose fences this connection "
                  "does not compare with: open that file as "
                  "the main database of a connection to write to it",
                  table));
}

// Passes if the transaction has passed the row's scope, or if the connection's declaration passes
// now. Otherwise throws TG001, TG002, TG004 or TG005; a trigger never raises a fence.
void Guards::row(std::string_view table, const RowScope& row) {
  if (row.kind == RowScope::Kind::null) {
    throw InvalidInput(
        fmt::format("TG005 a row of table \"{}\" has no scope: its scope column is NULL", table));
  }
  if (row.kind == RowScope::Kind::unfit) {
    throw InvalidInput(fmt::format(
        "TG005 a row of table \"{}\" has a scope that is neither text nor an integer", table));
  }
  if (Pass* pass = core_.passed_checks().find(row.text)) {
    // Nobody else can raise while this transaction writes, and its own raises have been counted.
    if (pass->raises == core_.passed_checks().raises()) return;
    const Fences::Fence fence = fences_.read(row.text);
    fences_.refuse_untrusted(row.text, fence);
    if (fence.term > pass->term) refuse_stale_write(row.text, pass->term, fence.term);
    pass->raises = core_.passed_checks().raises();
    return;
  }
  if (const char* problem = name_problem(row.text)) {
    throw InvalidInput(
        fmt::format("TG005 a row of table \"{}\" has a malformed scope: {}", table, problem));
  }
  if (!core_.declared_scope() || core_.declared_scope()->name() != row.text ||
      !core_.declared_term()) {
    throw TermRequired(
        fmt::format("TG002 no term declared for scope \"{}\": table \"{}\" is protected; run "
                    "SELECT termgate_check_term('{}', TERM) in "
                    "this transaction, or SELECT termgate_declare('{}', TERM) on this connection",
                    row.text, table, row.text, row.text));
  }
  core_.lock();
  fences_.pass_check(row.text, core_.declared_term()->value(), Fences::Raise::refused);
}

void Guards::any(std::string_view table) {
  for (const auto& [scope, pass] : core_.passed_checks().passes()) {
    if (pass.raises == core_.passed_checks().raises()) return;
    const Fences::Fence fence = fences_.read(scope);
    if (!fence.untrusted && fence.term <= pass.term) return;
  }
  if (!core_.declared_scope() || !core_.declared_term()) {
    throw TermRequired(
        fmt::format("TG002 no term declared: table \"{}\" is protected for any scope; run SELECT "
                    "termgate_check_term(SCOPE, TERM) in this "
                    "transaction, or SELECT termgate_declare(SCOPE, TERM) on this connection",
                    table));
  }
  const std::string scope = core_.declared_scope()->name();
  core_.lock();
  fences_.pass_check(scope, core_.declared_term()->value(), Fences::Raise::refused);
}

void Guards::observe_row(std::string_view table, const std::optional<RowScope>& row,
                         const std::optional<Handed>& handed) noexcept {
  try {
    try {
      require_here(table, handed);
    } catch (const InvalidInput&) {
      return;  // an attached file's trigger: its fences are not known here, so refusals cannot be
               // counted
    }
    std::string reason;
    try {
      if (row) {
        this->row(table, *row);
      } else {
        any(table);
      }
      return;
    } catch (const Error& refusal) { reason = std::string(refusal.code()); }
    require_trigger();
    const Core::AtWork at_work(core_);
    core_.use(stmt::observed_count)
        .bind(table)
        .bind(row ? row->text : std::string("*"))
        .bind(reason)
        .bind(core_.now())
        .run();
  } catch (const std::exception&) {
    // Mode observe lets everything pass, even after its own errors; doctor shows what was counted.
  }
}

// Refuses unless a writing statement is running, as is the case for a trigger.
void Guards::require_trigger() {
  if (sqlite3_txn_state(core_.connection(), "main") == SQLITE_TXN_WRITE) {
    for (sqlite3_stmt* at = sqlite3_next_stmt(core_.connection(), nullptr); at != nullptr;
         at = sqlite3_next_stmt(core_.connection(), at)) {
      if (sqlite3_stmt_busy(at) != 0 && sqlite3_stmt_readonly(at) == 0) return;
    }
  }
  throw InvalidInput("TG005 a guard is called by the triggers of Termgate alone");
}

void Guards::require_adopted(std::string_view table) {
  Running read = core_.use(stmt::adopted_find);
  if (!read.bind(table).step())
    throw InvalidInput(
        fmt::format("TG005 table \"{}\" is not adopted, and its guard was called", table));
}

void Guards::adopted(std::string_view table, const RowScope& row,
                     std::optional<std::int64_t> term) {
  // A job that nobody has claimed yet has no term, or term 0.
  if (row.kind == RowScope::Kind::null || !term || *term < 1) return;
  if (row.kind == RowScope::Kind::unfit) {
    throw InvalidInput(fmt::format(
        "TG005 a row of the adopted table \"{}\" has a scope that is neither text nor an integer",
        table));
  }
  const Scope scope(row.text);
  const Term row_term(*term);
  const Fences::Fence fence = fences_.read(scope.name());
  // Rows of an adopted table are evidence instead of checked writes: one below the fence may be a
  // copy of an old row.
  if (fence.exists && row_term.value() <= fence.term) return;
  fences_.refuse_untrusted(scope.name(), fence);
  // The guard can also be called from views, because triggers must call it under trusted_schema =
  // OFF. Reading a view must not raise anything.
  require_trigger();
  require_adopted(table);
  const std::int64_t stands_at = fences_.height(scope.name(), fence);
  if (row_term.value() > stands_at) {
    const std::string raise_by =
        fence.raise_by ? *fence.raise_by : core_.setting("default_raise_by").value_or("writer");
    if (raise_by == "seal") {
      throw InvalidInput(
          fmt::format("TG005 a row of term {} in the adopted table \"{}\" is above the fence of "
                      "scope \"{}\", {}, "
                      "which only a seal raises",
                      row_term.value(), table, scope.name(), stands_at));
    }
    fences_.refuse_unissued(scope.name(), row_term.value());
  }
  const Core::AtWork at_work(core_);
  fences_.raise(scope.name(), fence, std::max(stands_at, row_term.value()), fence.untrusted,
                core_.client(), "raise", Json('{').key("table").value(table).members());
  if (core_.installed_version() >= Core::first_with_prefixes)
    core_.use(stmt::adopted_term_write).bind(scope.name()).bind(row_term.value()).run();
}

void Guards::raise(std::string_view scope, std::int64_t term) {
  changed();
  // The table has a CHECK, but PRAGMA ignore_check_constraints disables it.
  if (term < 0 || term > Term::max_value) {
    throw InvalidInput(fmt::format(
        "TG005 {} is not a term for the fence of scope \"{}\": a term is an integer from 1 to 2^62",
        term, scope));
  }
  if (term > 0) core_.flush().require(scope, term);
}

// Whether the fence may be lowered to `term`: only if the current reset_fence does it.
bool Guards::lower(std::string_view scope, std::int64_t term) {
  changed();
  return fences_.may_lower(scope, term);
}

void Guards::noted(std::string_view table) {
  const auto found = perhaps_.find(table);
  if (found == perhaps_.end()) return;
  const RowScope row = found->second;
  perhaps_.erase(found);
  this->row(table, row);
}

void Guards::replace(std::string_view table) {
  Statement pragma(core_.connection(), "PRAGMA recursive_triggers");
  Running value(pragma.get());
  if (value.step() && value.integer(0) != 0) return;
  throw InvalidInput(
      fmt::format("TG005 table \"{}\" has a unique index over an expression, or a key that is only "
                  "known when the row is written (a default, "
                  "a column generated from the key that SQLite chooses, a trigger that writes "
                  "before), so the rows that REPLACE would remove "
                  "can only be seen with PRAGMA recursive_triggers = ON on this connection",
                  table));
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
