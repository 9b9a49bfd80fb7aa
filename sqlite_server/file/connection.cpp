#include "file/connection.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <termgate/error.hpp>

#include "file/control.hpp"
#include "file/errors.hpp"

namespace termgate::sqlite_file {
namespace {
constexpr int value_bytes_max = 1 << 26;
constexpr int text_bytes_max = (1 << 24) + 1;  // for the text of a sequence
constexpr int parameters_max = 32'766;
constexpr int columns_max = 2'000;
constexpr int wildcards_bytes_max = 1'000;  // for a pattern of LIKE or GLOB
constexpr int expression_depth_max = 500;   // fits the stack of a worker
constexpr int trigger_depth_max = 50;
}  // namespace

Connection::Connection(const sqlite::OpenAs& how, Role role, int kib)
    : cache_kib(kib), role_(role), connection_(how, false, false) {
  connection_.control_checked(("PRAGMA main.cache_size = -" + std::to_string(kib)).c_str());
  // The authorizer judges only while a client's text is being prepared.
  sqlite3_set_authorizer(handle(), authorize, this);
  sqlite3_limit(handle(), SQLITE_LIMIT_EXPR_DEPTH, expression_depth_max);
  sqlite3_limit(handle(), SQLITE_LIMIT_TRIGGER_DEPTH, trigger_depth_max);
  sqlite3_limit(handle(), SQLITE_LIMIT_LENGTH, value_bytes_max);
  sqlite3_limit(handle(), SQLITE_LIMIT_SQL_LENGTH, text_bytes_max);
  sqlite3_limit(handle(), SQLITE_LIMIT_VARIABLE_NUMBER, parameters_max);
  sqlite3_limit(handle(), SQLITE_LIMIT_COLUMN, columns_max);
  sqlite3_limit(handle(), SQLITE_LIMIT_LIKE_PATTERN_LENGTH, wildcards_bytes_max);
  sqlite3_limit(handle(), SQLITE_LIMIT_WORKER_THREADS, 0);
  // VACUUM INTO attaches a file, and the authorizer is not called for it before it runs.
  sqlite3_limit(handle(), SQLITE_LIMIT_ATTACHED, 0);
  install_functions(handle(), serving_, role != Role::reads);
  sqlite3_commit_hook(
      handle(), [](void* self) { return static_cast<Connection*>(self)->writable_ ? 0 : 1; }, this);
  constexpr int instructions = 5000;  // takes about a tenth of a millisecond
  sqlite3_progress_handler(
      handle(), instructions,
      [](void* self) {
        Control* control = static_cast<Connection*>(self)->serving_.control;
        return control != nullptr && control->must_stop() ? 1 : 0;
      },
      this);
  may_write(role == Role::writer);
}

Connection::~Connection() {
  for (const Kept& each : kept_) sqlite3_finalize(each.statement);
}

void Connection::may_write(bool on) {
  writable_ = on;
  if (query_only_ == !on) return;
  connection_.only_read(!on);
  query_only_ = !on;
}

bool Connection::restore() noexcept {
  serving_.control = nullptr;
  serving_.declare = nullptr;
  foreign_keys(true);
  try {
    may_write(role_ == Role::writer);
  } catch (const std::exception&) { return false; }
  return sqlite3_get_autocommit(handle()) != 0;
}

// Uses the API instead of a PRAGMA, so that it cannot fail on the way back.
void Connection::foreign_keys(bool on) noexcept {
  sqlite3_db_config(handle(), SQLITE_DBCONFIG_ENABLE_FKEY, on ? 1 : 0, nullptr);
}

int Connection::authorize(void* held, int action, const char* first, const char* second,
                          const char*, const char*) {
  Connection& self = *static_cast<Connection*>(held);
  return self.from_network_ ? self.guard_.may(action, first, second) : SQLITE_OK;
}

void Connection::fail(int code, bool preparing) {
  const int extended = sqlite3_extended_errcode(handle());
  const bool same = (extended & 0xff) == (code & 0xff);
  const std::string message = same ? sqlite3_errmsg(handle()) : sqlite3_errstr(code);
  std::optional<std::size_t> offset;
#if SQLITE_VERSION_NUMBER >= 3038000
  if (const int at = sqlite3_error_offset(handle()); same && at >= 0)
    offset = static_cast<std::size_t>(at);
#endif
  hrana::Refused made = refused(same ? extended : code, message, offset);
  if (preparing && offset && made.code == "SQLITE_ERROR") {
    made.code = "SQL_INPUT_ERROR";
    made.extended_code.clear();
  }
  if (made.code == "SQLITE_TOOBIG")
    made = hrana::Refused("SQLITE_TOOBIG",
                          message + ": a value may have " + std::to_string(value_bytes_max) +
                              " bytes, a text " + std::to_string(text_bytes_max - 1),
                          "SQLITE_TOOBIG");
  throw made;
}

void Connection::run(const std::string& sql) {
  if (const int code = sqlite3_exec(handle(), sql.c_str(), nullptr, nullptr, nullptr);
      code != SQLITE_OK)
    fail(code);
}

Connection::Kept Connection::prepare_now(std::string_view sql) {
  if (sql.find('\0') != std::string_view::npos)
    throw hrana::Refused("SQL_INPUT_ERROR",
                         "the text holds a zero byte, at which SQLite would end it; bind such a "
                         "value as a parameter");
  Kept made;
  const char* tail = nullptr;
  // With a zero byte at its end, which the length includes, SQLite makes no copy of its own.
  const std::string text(sql);
  guard_.begin(sql);
  from_network_ = true;
  const int code = sqlite3_prepare(handle(), text.c_str(), static_cast<int>(text.size()) + 1,
                                   &made.statement, &tail);
  from_network_ = false;
  // The statement ends at its semicolon. If preparing failed, nothing after it is run.
  const std::size_t used =
      tail != nullptr ? static_cast<std::size_t>(tail - text.c_str()) : text.size();
  const bool failed = code != SQLITE_OK;
  const bool may =
      guard_.judge(sql.substr(0, failed ? sql.size() : used), failed,
                   made.statement == nullptr || sqlite3_stmt_readonly(made.statement) != 0,
                   made.statement != nullptr && sqlite3_stmt_isexplain(made.statement) != 0);
  if (!may) {
    const bool unknown = guard_.refusal().empty();
    if (unknown) fail(code, true);
    sqlite3_finalize(made.statement);
    throw hrana::Refused("SQLITE_AUTH", guard_.refusal(), "SQLITE_AUTH");
  }
  made.facts = guard_.facts();
  // SQLite does not know BEGIN READONLY, so its text ends at the first semicolon.
  made.sql =
      failed ? sql.substr(0, std::min(sql.find(';'), sql.size() - 1) + 1) : sql.substr(0, used);
  try {
    refuse_changes();
  } catch (...) {
    sqlite3_finalize(made.statement);
    throw;
  }
  return made;
}

// Whether the open transaction has passed a check of the table's scope, or the table is not
// protected.
bool Connection::fixed_scope_passed(std::string_view table, bool& found) {
  sqlite3_stmt* statement = nullptr;
  static constexpr const char* sql =
      "SELECT scope FROM main.termgate_protected WHERE table_name = ?1 COLLATE NOCASE";
  if (sqlite3_prepare_v2(handle(), sql, -1, &statement, nullptr) != SQLITE_OK)
    return true;  // without layer 1
  sqlite3_bind_text(statement, 1, table.data(), static_cast<int>(table.size()), SQLITE_STATIC);
  found = sqlite3_step(statement) == SQLITE_ROW;
  bool passed = !found;
  if (const auto* scope =
          reinterpret_cast<const char*>(found ? sqlite3_column_text(statement, 0) : nullptr);
      scope != nullptr) {
    auto& passes = connection_.layer1().core().passed_checks();
    passed =
        std::string_view(scope) == "*" ? !passes.passes().empty() : passes.find(scope) != nullptr;
  }
  sqlite3_finalize(statement);
  return passed;
}

// Refuses a change that could bypass protection. An adopted table is read by its name while a scope
// has no fence yet, and a protected one is protected by its name; and changing the columns,
// triggers or indexes of a protected table changes what all its scopes write. A connection that
// only reads skips this, because it does not run what it prepares here.
void Connection::refuse_changes() {
  using What = Guard::Change::What;
  if (!writable_) return;
  for (const Guard::Change& each : guard_.changes()) {
    const auto refuse = [&](std::string_view how, std::string_view undo) {
      throw hrana::Refused(
          "SQLITE_AUTH",
          fmt::format("not authorized: table \"{}\" is {}; the file's owner runs termgate {} first",
                      each.table, how, undo),
          "SQLITE_AUTH");
    };
    bool is_protected = false;
    const bool passed = fixed_scope_passed(each.table, is_protected);
    if (is_protected && (!passed || each.what == What::renames || each.what == What::drops))
      refuse("protected", "unprotect");
    if (each.what == What::indexes) continue;
    sqlite3_stmt* statement = nullptr;
    static constexpr const char* sql =
        "SELECT 1 FROM main.termgate_adopted WHERE table_name = ?1 COLLATE NOCASE";
    if (sqlite3_prepare_v2(handle(), sql, -1, &statement, nullptr) != SQLITE_OK) continue;
    sqlite3_bind_text(statement, 1, each.table.data(), static_cast<int>(each.table.size()),
                      SQLITE_STATIC);
    const bool adopted = sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    if (adopted) refuse("adopted", "unadopt");
  }
}

Prepared Connection::prepare(std::string_view sql) {
  Prepared prepared(*this);
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) { return each.sql == sql; });
  if (found != kept_.end()) {
    prepared.held_.splice(prepared.held_.begin(), kept_, found);
    return prepared;
  }
  if (sqlite::answers_from_memory(sql)) return prepare_anew(sql);
  prepared.held_.push_back(prepare_now(sql));
  return prepared;
}

Prepared Connection::prepare_anew(std::string_view sql) {
  Prepared prepared(*this);
  run(sqlite::take_up_schema);
  prepared.held_.push_back(prepare_now(sql));
  prepared.held_.front().only_once = true;
  return prepared;
}

void Connection::keep(std::list<Kept>& one) noexcept {
  sqlite3_stmt* statement = one.front().statement;
  if (statement == nullptr) return one.clear();
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  // A statement whose permission depends on the passed checks is judged again each time.
  if (one.front().sql.size() > kept_text_bytes_max ||
      one.front().facts.kind != Facts::Kind::plain || one.front().facts.changes_schema ||
      one.front().only_once) {
    sqlite3_finalize(statement);
    one.clear();
    return;
  }
  kept_.splice(kept_.begin(), one);
  if (kept_.size() <= kept_max) return;
  sqlite3_finalize(kept_.back().statement);
  kept_.pop_back();
}

Prepared::~Prepared() {
  if (!held_.empty()) owner_->keep(held_);
}

void Prepared::prepare_again() {
  Connection::Kept& kept = held_.front();
  Connection::Kept fresh = owner_->prepare_now(kept.sql);
  const bool same = fresh.statement != nullptr && fresh.facts.kind == kept.facts.kind &&
                    fresh.facts.writes == kept.facts.writes &&
                    fresh.facts.names_claim == kept.facts.names_claim;
  const bool moved =
      same && sqlite3_transfer_bindings(kept.statement, fresh.statement) == SQLITE_OK;
  sqlite3_finalize(std::exchange(kept.statement, fresh.statement));
  kept.facts = fresh.facts;
  if (!same) throw Changed{};
  if (!moved) owner_->fail(SQLITE_SCHEMA);
}

int Prepared::step() {
  for (int again = 0;; ++again) {
    int code = sqlite3_step(get());
    if (code == SQLITE_ROW || code == SQLITE_DONE) {
      stepped_ = true;
      // A new unique index is another way for REPLACE to remove rows, and the triggers of protect()
      // check each unique index.
      sqlite::Layer1& layer1 = owner_->connection_.layer1();
      if (code == SQLITE_DONE && facts().changes_indexes && layer1.core().installed_version() > 0)
        layer1.tables().outdated_triggers(true);
      return code;
    }
    // The older interface returns the specific error only here.
    code = sqlite3_reset(get());
    // Not after the first row, because the client has a part of the answer then. At most 25 times,
    // because others may keep changing the schema.
    if ((code & 0xff) != SQLITE_SCHEMA || stepped_ || again == 25) owner_->fail(code);
    prepare_again();
  }
}

}  // namespace termgate::sqlite_file
