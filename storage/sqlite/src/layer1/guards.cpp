// Called by the triggers of protect() and adopt() for each row, and by layer 1's own triggers for
// its tables. It runs inside the application's writing statement, on its thread; a refusal is an
// exception that fails that statement.
#include <termgate/detail/sqlite/layer1.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

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
bool Layer1::attached() {
#if SQLITE_VERSION_NUMBER >= 3039000
  if (sqlite3_libversion_number() >= 3039000) return sqlite3_db_name(db_, 2) != nullptr;
#endif
  return use(stmt::attached).step();
}

bool Layer1::guard_arm() {
  if (!attached()) return false;
  // If the trigger runs in the main database, this connection holds its write lock.
  if (sqlite3_txn_state(db_, "main") != SQLITE_TXN_WRITE) return true;
  try {
    {
      // A ROLLBACK TO undoes the mark.
      Running read = use(stmt::here_read);
      if (!read.step())
        throw DatabaseError("termgate_here has lost its row: run termgate init again");
      if (mark_ && read.integer(0) == *mark_) return true;
    }
    mark_.reset();
    track();
    std::int64_t mark = 0;
    // A random number, so that no statement of an application can pass the mark of another
    // transaction.
    sqlite3_randomness(sizeof mark, &mark);
    const AtWork at_work(*this);
    Running write = use(stmt::here_write);
    write.bind(mark).run();
    if (sqlite3_changes(db_) == 1) mark_ = mark;
  } catch (const DatabaseError&) {
    // The main database has no layer 1, or an earlier version; so the trigger belongs to another
    // file.
    mark_.reset();
  }
  return true;
}

void Layer1::require_here(std::string_view table, const std::optional<Handed>& handed) {
  if (!attached()) return;
  if (!handed) {
    throw InvalidInput(fmt::format(
        "TG005 the triggers of table \"{}\" were made by an earlier version of Termgate and do not "
        "say which file they belong "
        "to, and a file is attached to this connection: run termgate init on each file, or DETACH",
        table));
  }
  if (sqlite3_txn_state(db_, "main") == SQLITE_TXN_WRITE && mark_ && handed->mark == mark_) return;
  throw InvalidInput(
      fmt::format("TG005 table \"{}\" belongs to an attached file, whose fences this connection "
                  "does not compare with: open that file as "
                  "the main database of a connection to write to it",
                  table));
}

// Passes if the transaction has passed the row's scope, or if the connection's declaration passes
// now. Otherwise throws TG001, TG002, TG004 or TG005; a trigger never raises a fence.
void Layer1::guard_row(std::string_view table, const RowScope& row) {
  if (row.kind == RowScope::Kind::null) {
    throw InvalidInput(
        fmt::format("TG005 a row of table \"{}\" has no scope: its scope column is NULL", table));
  }
  if (row.kind == RowScope::Kind::unfit) {
    throw InvalidInput(fmt::format(
        "TG005 a row of table \"{}\" has a scope that is neither text nor an integer", table));
  }
  if (Pass* pass = passed_checks_.find(row.text)) {
    // Nobody else can raise while this transaction writes, and its own raises have been counted.
    if (pass->raises == passed_checks_.raises()) return;
    const Fence fence = read_fence(row.text);
    refuse_untrusted(row.text, fence);
    if (fence.term > pass->term) refuse_stale_write(row.text, pass->term, fence.term);
    pass->raises = passed_checks_.raises();
    return;
  }
  if (const char* problem = name_problem(row.text)) {
    throw InvalidInput(
        fmt::format("TG005 a row of table \"{}\" has a malformed scope: {}", table, problem));
  }
  if (!declared_scope_ || declared_scope_->name() != row.text || !declared_term_) {
    throw TermRequired(
        fmt::format("TG002 no term declared for scope \"{}\": table \"{}\" is protected; run "
                    "SELECT termgate_check_term('{}', TERM) in "
                    "this transaction, or SELECT termgate_declare('{}', TERM) on this connection",
                    row.text, table, row.text, row.text));
  }
  lock();
  admit(row.text, declared_term_->value(),
        judge(row.text, declared_term_->value(), Raise::refused, false));
}

void Layer1::guard_any(std::string_view table) {
  for (const auto& [scope, pass] : passed_checks_.passes()) {
    if (pass.raises == passed_checks_.raises()) return;
    const Fence fence = read_fence(scope);
    if (!fence.untrusted && fence.term <= pass.term) return;
  }
  if (!declared_scope_ || !declared_term_) {
    throw TermRequired(
        fmt::format("TG002 no term declared: table \"{}\" is protected for any scope; run SELECT "
                    "termgate_check_term(SCOPE, TERM) in this "
                    "transaction, or SELECT termgate_declare(SCOPE, TERM) on this connection",
                    table));
  }
  const std::string scope = declared_scope_->name();
  lock();
  admit(scope, declared_term_->value(),
        judge(scope, declared_term_->value(), Raise::refused, false));
}

void Layer1::observe_row(std::string_view table, const std::optional<RowScope>& row,
                         const std::optional<Handed>& handed) noexcept {
  try {
    try {
      require_here(table, handed);
    } catch (const InvalidInput&) {
      return;  // of an attached file, whose fences are not known here, so refusals cannot be
               // counted
    }
    std::string reason;
    try {
      if (row) {
        guard_row(table, *row);
      } else {
        guard_any(table);
      }
      return;
    } catch (const Error& refusal) { reason = std::string(refusal.code()); }
    require_trigger();
    const AtWork at_work(*this);
    use(stmt::observed_count)
        .bind(table)
        .bind(row ? row->text : std::string("*"))
        .bind(reason)
        .bind(now())
        .run();
  } catch (const std::exception&) {
    // Mode observe lets everything pass, even after its own errors; doctor shows what was counted.
  }
}

// Refuses unless a writing statement is running, as is the case for a trigger.
void Layer1::require_trigger() {
  if (sqlite3_txn_state(db_, "main") == SQLITE_TXN_WRITE) {
    for (sqlite3_stmt* at = sqlite3_next_stmt(db_, nullptr); at != nullptr;
         at = sqlite3_next_stmt(db_, at)) {
      if (sqlite3_stmt_busy(at) != 0 && sqlite3_stmt_readonly(at) == 0) return;
    }
  }
  throw InvalidInput("TG005 a guard is called by the triggers of Termgate alone");
}

void Layer1::require_adopted(std::string_view table) {
  Running read = use(stmt::adopted_find);
  if (!read.bind(table).step())
    throw InvalidInput(
        fmt::format("TG005 table \"{}\" is not adopted, and its guard was called", table));
}

void Layer1::guard_adopted(std::string_view table, const RowScope& row,
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
  const Fence fence = read_fence(scope.name());
  // Rows of an adopted table are evidence instead of checked writes: one below the fence may be a
  // copy of an old row.
  if (fence.exists && row_term.value() <= fence.term) return;
  refuse_untrusted(scope.name(), fence);
  // The guard can also be called from views, because triggers must call it under trusted_schema =
  // OFF. Reading a view must not raise anything.
  require_trigger();
  require_adopted(table);
  const std::int64_t stands_at = height(scope.name(), fence);
  if (row_term.value() > stands_at) {
    const std::string raise_by =
        fence.raise_by ? *fence.raise_by : setting("default_raise_by").value_or("writer");
    if (raise_by == "seal") {
      throw InvalidInput(
          fmt::format("TG005 a row of term {} in the adopted table \"{}\" is above the fence of "
                      "scope \"{}\", {}, "
                      "which only a seal raises",
                      row_term.value(), table, scope.name(), stands_at));
    }
    refuse_unissued(scope.name(), row_term.value());
  }
  const AtWork at_work(*this);
  raise(scope.name(), fence, std::max(stands_at, row_term.value()), fence.untrusted, client_,
        "raise", Json('{').key("table").value(table).members());
  if (installed_version() >= first_with_prefixes)
    use(stmt::adopted_term_write).bind(scope.name()).bind(row_term.value()).run();
}

std::string Layer1::flush_problem(bool* folder) {
  const char* path = sqlite3_db_filename(db_, "main");
  if (path == nullptr || *path == '\0') return {};  // in memory: nothing outlives the process
  // A PRAGMA's answer is fixed when it is prepared, so these two are prepared each time.
  Statement synchronous(db_, "PRAGMA main.synchronous");
  Running level(synchronous.get());
  if (!level.step() || level.integer(0) < 2) {
    return fmt::format("PRAGMA synchronous is {}: set it to FULL, outside a transaction",
                       level.integer(0) == 0 ? "OFF" : "NORMAL");
  }
  Statement journal(db_, "PRAGMA main.journal_mode");
  Running mode(journal.get());
  if (!mode.step() || mode.text(0) == "off")
    return "PRAGMA journal_mode is OFF, so nothing can be rolled back";
  // Connections that share a cache also share its flushing: the one that set its synchronous last
  // decides for all.
  int used = 0, share = 0, most = 0;
  if (sqlite3_db_status(db_, SQLITE_DBSTATUS_CACHE_USED, &used, &most, 0) == SQLITE_OK &&
      sqlite3_db_status(db_, SQLITE_DBSTATUS_CACHE_USED_SHARED, &share, &most, 0) == SQLITE_OK &&
      used != share) {
    return "another connection of this process shares its cache, and with it decides what is "
           "flushed: open it without cache=shared";
  }
  if (folder != nullptr) *folder = mode.text(0) == "delete" && level.integer(0) == 2;
  return {};
}

void Layer1::guard_raise(std::string_view scope, std::int64_t term) {
  fence_changed();
  // The table has a CHECK, but PRAGMA ignore_check_constraints disables it.
  if (term < 0 || term > Term::max_value) {
    throw InvalidInput(fmt::format(
        "TG005 {} is not a term for the fence of scope \"{}\": a term is an integer from 1 to 2^62",
        term, scope));
  }
  if (term == 0) return;
  bool folder = false;
  if (const std::string problem = flush_problem(&folder); !problem.empty()) {
    wants_flush_ = true;
    throw InvalidInput(
        fmt::format("TG005 the fence of scope \"{}\" cannot be raised to {}, for a crash could "
                    "take it back: {}",
                    scope, term, problem));
  }
  if (!folder) return;
  // In mode DELETE a commit is the removal of the journal. FULL, unlike EXTRA, does not flush the
  // folder, so after a power failure the journal may be back and undo the raise (F3). Therefore
  // this flushes it.
  flush_folder_ = true;
}

// The last moment at which a transaction that has passed the check, or raised, can be refused. A
// folder that cannot be flushed is noticed now instead of after the commit.
std::optional<FileWatch::Problem> Layer1::before_commit() {
  if (auto problem = file_.problem(true)) return problem;
  try {
    need_required_leases();
  } catch (const Error& error) { return FileWatch::Problem{SQLITE_CONSTRAINT, error.what()}; }
  if (!flush_folder_) return std::nullopt;
  const std::string folder = std::filesystem::path(sqlite3_db_filename(db_, "main")).parent_path();
  folder_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ >= 0 && fsync(folder_) == 0) return std::nullopt;
  return FileWatch::Problem{
      SQLITE_CANTOPEN,
      fmt::format(
          "the folder {} cannot be flushed ({}), so a crash could take back the raise: nothing was "
          "written; PRAGMA journal_mode = WAL needs no such flush",
          folder, std::strerror(errno))};
}

void Layer1::transaction_ended(bool committed) noexcept {
  passed_checks_.ended();
  mark_.reset();
  perhaps_.clear();
  const int folder = std::exchange(folder_, -1);
  if (std::exchange(flush_folder_, false) && committed) {
    if (folder >= 0 && fsync(folder) == 0) {
      ++folder_flushes_;
    } else {
      flush_failed_ = true;
    }
  }
  if (folder >= 0) close(folder);
  write_refusals_aside();
}

// SQLite reports a commit when it can no longer fail, so the next call throws the failure; a call
// that commits by itself throws it before it returns.
void Layer1::report_failed_flush() {
  if (!std::exchange(flush_failed_, false)) return;
  throw OutcomeUnknown(
      "a fence was raised by the last COMMIT and the flush of its folder failed: a power cut could "
      "take the raise back",
      std::string(code_name(SQLITE_IOERR_DIR_FSYNC)));
}

// Whether the fence may be lowered to `term`: only if the current reset_fence does it.
bool Layer1::guard_lower(std::string_view scope, std::int64_t term) {
  fence_changed();
  return lowering_ && lowering_->first == scope && lowering_->second == term;
}

void Layer1::guard_noted(std::string_view table) {
  const auto found = perhaps_.find(table);
  if (found == perhaps_.end()) return;
  const RowScope row = found->second;
  perhaps_.erase(found);
  guard_row(table, row);
}

void Layer1::guard_replace(std::string_view table) {
  Statement pragma(db_, "PRAGMA recursive_triggers");
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
