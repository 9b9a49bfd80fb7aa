// Control: how other threads stop what a session runs. SqlConnection: one SQLite connection with the catalog,
// the guard and its prepared statements. The session that has borrowed a connection is the only one to use
// it; Control is the one part that other threads call, and it touches the connection through
// sqlite3_interrupt() alone.
#include "engine/sql_connection.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "catalog/relations.hpp"

namespace termgate::sqlite_server {

// --- Control

// From here to ends() other threads may interrupt `db`, so it has to stay open.
void Control::begins(sqlite3* db, bool shared) {
  const std::lock_guard lock(mutex_);
  running_ = db;
  cancelled_ = false;
  shared_ = shared;
  stop_requested_ = {};
}

void Control::ends() {
  const std::lock_guard lock(mutex_);
  running_ = nullptr;
}

std::string Control::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

// A cancel that arrives while nothing runs is dropped, as PostgreSQL does: it would hit the next statement.
void Control::cancel() {
  const std::lock_guard lock(mutex_);
  if (running_ == nullptr && !waits_) return;
  cancelled_ = true;
  if (running_ != nullptr && !shared_) sqlite3_interrupt(running_);
}

void Control::waits(bool on) {
  const std::lock_guard lock(mutex_);
  waits_ = on;
  if (on) cancelled_ = false;
}

bool Control::must_stop() noexcept {
  if (questions_left_ > 0 && --questions_left_ == 0) overran_ = true;
  if (overran_) return true;
  if (!cancelled_ && !timed_out()) return false;
  if (!shared_) return true;
  // An interrupt takes along what others wrote into the same commit: they get an error that asks them to run again.
  constexpr std::chrono::milliseconds moment{250};
  const auto now = std::chrono::steady_clock::now();
  if (stop_requested_ == std::chrono::steady_clock::time_point{}) stop_requested_ = now;
  return now - stop_requested_ >= moment;
}

void Control::tick() {
  if (!timed_out()) return;
  const std::lock_guard lock(mutex_);
  if (running_ != nullptr && !shared_) sqlite3_interrupt(running_);
}

void Control::evict(std::string why) {
  const std::lock_guard lock(mutex_);
  if (evicted_) return;
  why_ = std::move(why);
  evicted_ = true;
  // A higher term goes before those who share the commit with a stale one: they get an error that asks them to run again.
  if (running_ != nullptr) sqlite3_interrupt(running_);
  hang_up();
}

// --- SqlConnection

namespace {
constexpr int value_bytes_max = (1 << 26) + (1 << 16);  // with a row's other columns
}

SqlConnection::SqlConnection(const OpenAs& how, const std::function<void(sqlite3*)>& install, int kib)
    : cache_kib(kib), connection_(how, false, false) {
  connection_.control(("PRAGMA main.cache_size = -" + std::to_string(kib)).c_str());
  // Anything that the guard did not see prepared is ours.
  sqlite3_set_authorizer(handle(), authorize, this);
  sqlite3_limit(handle(), SQLITE_LIMIT_EXPR_DEPTH, 500);  // within a session's stack
  sqlite3_limit(handle(), SQLITE_LIMIT_TRIGGER_DEPTH, 50);
  // A value is held whole, often several times over, in the one process that serves everybody.
  sqlite3_limit(handle(), SQLITE_LIMIT_LENGTH, value_bytes_max);
  // VACUUM INTO is an ATTACH that no authorizer sees before it runs.
  sqlite3_limit(handle(), SQLITE_LIMIT_ATTACHED, 0);
  catalog_ = &install_catalog(handle(), {});
  catalog_->temporary(false);  // the guard refuses them
  sqlite3_commit_hook(
      handle(),
      [](void* held) {
        SqlConnection& self = *static_cast<SqlConnection*>(held);
        self.catalog_->transaction_over();
        return self.writable ? 0 : 1;
      },
      this);
  sqlite3_rollback_hook(
      handle(), [](void* self) { static_cast<SqlConnection*>(self)->catalog_->transaction_over(); }, this);
  constexpr int instructions = 5000;  // about a tenth of a millisecond
  sqlite3_progress_handler(
      handle(), instructions,
      [](void* self) {
        Control* control = static_cast<SqlConnection*>(self)->running_for;
        return control != nullptr && control->must_stop() ? 1 : 0;
      },
      this);
  if (install) install(handle());
}

void SqlConnection::open_temporary() {
  temporary_ = true;
  catalog_->temporary(true);
  connection_.control(("PRAGMA temp.max_page_count = " + std::to_string(temporary_pages_max)).c_str());
}

// A temporary table hides one of the file with its name: layer 1 reads tables by their names, so none may have the name of another.
// Somebody else may have made the other one since.
void SqlConnection::refuse_clashes() {
  sqlite3_stmt* statement = nullptr;
  static constexpr const char* sql =
      "SELECT t.type, t.name FROM temp.sqlite_schema t JOIN main.sqlite_schema m ON m.name = t.name COLLATE NOCASE WHERE t.name NOT LIKE "
      "'sqlite!_%' ESCAPE '!' LIMIT 1";
  if (const int code = sqlite3_prepare_v2(handle(), sql, -1, &statement, nullptr); code != SQLITE_OK) fail(code);
  std::string type, name;
  const int code = sqlite3_step(statement);
  if (code == SQLITE_ROW) {
    type = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    name = reinterpret_cast<const char*>(sqlite3_column_text(statement, 1));
  }
  sqlite3_finalize(statement);
  if (code == SQLITE_DONE) return;
  if (code != SQLITE_ROW) fail(code);
  throw PgException("0A000", "the temporary " + type + " \"" + name +
                                 "\" has the name of something in the file, which it would hide (DISCARD TEMP drops it)");
}

SqlConnection::~SqlConnection() {
  sqlite3_rollback_hook(handle(), nullptr, nullptr);  // closing rolls back, when the catalog may be gone
  catalog_->let_go();
  for (const Kept& each : kept_) sqlite3_finalize(each.statement);
}

// Called while a statement is prepared. It notes what the text does besides answering whether it may.
int SqlConnection::authorize(void* held, int action, const char* first, const char* second, const char*, const char*) {
  SqlConnection& self = *static_cast<SqlConnection*>(held);
  // The catalog declares its tables and reads the schema while a text of the network's is being prepared.
  if (!self.from_network_ || self.catalog_->reading()) return SQLITE_OK;
  if (action == SQLITE_FUNCTION && second != nullptr && function_writes(second)) self.calls_writer_ = true;
  if (action == SQLITE_FUNCTION && second != nullptr && sqlite3_stricmp(second, "pg_upsert_once") == 0) self.watches_ = true;
  self.named_.ask(action, second);
  if (action == SQLITE_ALTER_TABLE && second != nullptr) self.altered_.emplace_back(action, second);
  if (action == SQLITE_DROP_TABLE && first != nullptr) self.altered_.emplace_back(action, first);
  if (action == SQLITE_CREATE_INDEX || action == SQLITE_DROP_INDEX || action == SQLITE_ALTER_TABLE) self.changes_indexes_ = true;
  if (action == SQLITE_FUNCTION && second != nullptr) {
    self.renames_ = self.renames_ || sqlite3_stricmp(second, "sqlite_rename_table") == 0;
    self.renames_column_ = self.renames_column_ || sqlite3_stricmp(second, "sqlite_rename_column") == 0;
  }
  return may(action, first, second, self.refused_, self.temporary_) ? SQLITE_OK : SQLITE_DENY;
}

// Throws what the client sees for an error of SQLite: the catalog's own reason if it has one, else the
// nearest SQLSTATE.
void SqlConnection::fail(int code, const std::string& sql) {
  const int extended = sqlite3_extended_errcode(handle());
  PgError fault = error_of((extended & 0xff) == (code & 0xff) || code == SQLITE_ERROR ? extended : code, sqlite3_errmsg(handle()));
  // error_of() reports what is missing of layer 1.
  if (const auto problem = catalog_->problem(); problem && fault.sqlstate != "3F000")
    throw PgException(problem->sqlstate, problem->message);
  if (fault.sqlstate == "23505" && !fault.table.empty()) name_key(fault, extended != SQLITE_CONSTRAINT_UNIQUE);
  if (extended == SQLITE_CONSTRAINT_UNIQUE && !fault.table.empty()) name_index(fault);
  if ((fault.sqlstate == "23503" || fault.sqlstate == "23514") && !sql.empty()) name_constraint(fault, sql);
  throw PgException(fault);
}

// A key within the table's text may have a name of its own.
void SqlConnection::name_key(PgError& fault, bool primary) {
  const auto relations = catalog_->relations();
  const dialect::Relations::Relation* relation = relations->find(fault.table);
  if (relation == nullptr) return;
  for (const auto& item : relation->items) {
    for (const auto& clause : item.clauses) {
      std::string columns;
      for (const std::string& column : clause.columns) columns += (columns.empty() ? "" : "_") + column;
      if (clause.kind != (primary ? 'p' : 'u') || clause.name.empty() || (!primary && columns != lower(fault.column))) continue;
      fault.constraint = clause.name;
      fault.message = "duplicate key value violates unique constraint \"" + fault.constraint + "\"";
    }
  }
}

namespace {

// The table that a statement writes, as the dialect writes it: INSERT INTO t, UPDATE t, DELETE FROM t.
std::pair<char, std::string> written_by(const std::string& sql) {
  std::size_t at = std::string::npos;
  char kind = 0;
  for (const auto& [word, letter] : {std::pair{"INSERT INTO ", 'i'}, std::pair{"UPDATE ", 'u'}, std::pair{"DELETE FROM ", 'd'}}) {
    const auto found = sql.find(word);
    if (found == std::string::npos || found >= at) continue;
    at = found;
    kind = letter;
  }
  if (kind == 0) return {};
  at += kind == 'i' ? 12 : kind == 'u' ? 7 : 12;
  std::string name;
  if (at < sql.size() && sql[at] == '"') {
    for (++at; at < sql.size(); ++at) {
      if (sql[at] == '"' && (++at == sql.size() || sql[at] != '"')) break;
      name += sql[at];
    }
  } else {
    while (at < sql.size() && (std::isalnum(static_cast<unsigned char>(sql[at])) != 0 || sql[at] == '_' || (sql[at] & 0x80) != 0))
      name += sql[at++];
  }
  return {kind, name};
}

}  // namespace

void SqlConnection::name_constraint(PgError& fault, const std::string& sql) {
  const auto [kind, name] = written_by(sql);
  if (kind == 0) return;
  const auto relations = catalog_->relations();
  const dialect::Relations::Relation* relation = relations->find(name);
  if (relation == nullptr) return;
  const auto quoted = [](const std::string& of) { return "\"" + of + "\""; };
  if (fault.sqlstate == "23514") {
    for (const auto& item : relation->items) {
      for (const auto& clause : item.clauses) {
        if (clause.kind != 'c' || clause.name != fault.constraint) continue;
        fault.table = relation->name;
        fault.message = "new row for relation " + quoted(fault.table) + " violates check constraint " + quoted(fault.constraint);
      }
    }
    return;
  }
  // Keys of its own, and of others that refer to it, which the statement can have violated.
  const std::vector<std::string> mentioned = names_mentioned(sql);
  const auto touches = [&, kind = kind](const std::vector<std::string>& columns) {
    return kind != 'u' || std::any_of(columns.begin(), columns.end(), [&](const std::string& column) {
             return std::any_of(mentioned.begin(), mentioned.end(), [&](const std::string& each) { return lower(each) == column; });
           });
  };
  std::vector<PgError> found;
  for (const auto& item : relation->items) {
    for (const auto& clause : item.clauses) {
      if (clause.kind != 'f' || kind == 'd' || !touches(clause.columns)) continue;
      PgError one = fault;
      one.table = relation->name;
      one.constraint = clause.name;
      one.message = "insert or update on table " + quoted(one.table) + " violates foreign key constraint " + quoted(one.constraint);
      found.push_back(std::move(one));
    }
  }
  for (const auto& each : relation->others) {
    const char action = kind == 'd' ? each.on_delete : each.on_update;
    if (kind == 'i' || (action != 'a' && action != 'r') || !touches(each.columns)) continue;
    PgError one = fault;
    one.table = each.table;
    one.constraint = each.constraint;
    one.message = "update or delete on table " + quoted(relation->name) + " violates foreign key constraint " + quoted(one.constraint) +
                  " on table " + quoted(one.table);
    found.push_back(std::move(one));
  }
  if (found.size() == 1) fault = std::move(found.front());
}

// SQLite names the columns only; an index that was created by a name is what PostgreSQL would name.
void SqlConnection::name_index(PgError& fault) {
  static constexpr const char* sql =
      "SELECT l.name FROM pragma_index_list(?1) l WHERE l.\"unique\" AND l.origin = 'c' AND (SELECT group_concat(name, '_') FROM (SELECT "
      "i.name FROM pragma_index_info(l.name) i ORDER BY i.seqno)) = ?2";
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle(), sql, -1, &statement, nullptr) != SQLITE_OK) return;
  sqlite3_bind_text(statement, 1, fault.table.c_str(), -1, SQLITE_STATIC);
  sqlite3_bind_text(statement, 2, fault.column.c_str(), -1, SQLITE_STATIC);
  if (sqlite3_step(statement) == SQLITE_ROW) {
    fault.constraint = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    fault.message = "duplicate key value violates unique constraint \"" + fault.constraint + "\"";
  }
  sqlite3_finalize(statement);
  fault.column.clear();
}

sqlite3_stmt* SqlConnection::prepare_now(const std::string& sql) {
  refused_.clear();
  altered_.clear();
  calls_writer_ = changes_indexes_ = watches_ = renames_ = renames_column_ = false;
  sqlite3_stmt* statement = nullptr;
  const auto attempt = [&](const std::string& text) {
    from_network_ = true;
    // The older interface: with sqlite3_prepare_v2 SQLite would prepare the statement anew by itself after a
    // change of the schema, when from_network_ is off, and so past the guard. step() does that through
    // prepare_now().
    const int code = sqlite3_prepare(handle(), text.data(), static_cast<int>(text.size()) + 1, &statement, nullptr);
    from_network_ = false;
    return code;
  };
  int code = attempt(sql);
  if (code == SQLITE_ERROR && refused_.empty()) {
    // Of the two failures the client gets that of its own text.
    const std::string longer = with_columns(sql);
    if (!longer.empty()) code = attempt(longer);
    if (code != SQLITE_OK) code = attempt(sql);
  }
  if (const bool named = named_.may(sql, refused_); code == SQLITE_OK && named) {
    if (!altered_.empty()) refuse_altering();
    if (refused_.empty()) return statement;
  }
  if (code == SQLITE_OK) sqlite3_finalize(statement);
  if (!refused_.empty()) throw PgException("42501", refused_);
  fail(code);
}

// An adopted table is read by its name where a scope has no fence yet, and a protected one is protected by its name.
void SqlConnection::refuse_altering() {
  for (const auto& [action, table] : altered_) {
    if (action == SQLITE_ALTER_TABLE && !renames_ && !renames_column_) continue;
    for (const auto& [sql, how] : {std::pair{"SELECT 1 FROM main.termgate_adopted WHERE table_name = ?1 COLLATE NOCASE", "adopted"},
                                   std::pair{"SELECT 1 FROM main.termgate_protected WHERE table_name = ?1 COLLATE NOCASE", "protected"}}) {
      // What a protected table's columns are called, its triggers follow.
      if (action == SQLITE_ALTER_TABLE && !renames_ && std::string_view(how) == "protected") continue;
      sqlite3_stmt* statement = nullptr;
      if (sqlite3_prepare_v2(handle(), sql, -1, &statement, nullptr) != SQLITE_OK) continue;  // without layer 1
      sqlite3_bind_text(statement, 1, table.c_str(), -1, SQLITE_STATIC);
      const bool is = sqlite3_step(statement) == SQLITE_ROW;
      sqlite3_finalize(statement);
      if (!is) continue;
      const std::string undo = std::string(how) == "adopted" ? "unadopt" : "unprotect";
      refused_ = "permission denied: table \"" + table + "\" is " + how + "; the file's owner runs termgate " + undo + " first";
      return;
    }
  }
}

// PostgreSQL lets INSERT have fewer values than the table has columns, SQLite only where the columns are named: here they are, where
// that is what the last failure was about; else nothing.
std::string SqlConnection::with_columns(const std::string& sql) {
  const std::string_view message = sqlite3_errmsg(handle());
  const auto has = message.rfind(" has "), but = message.rfind(" columns but ");
  if (!message.starts_with("table ") || !message.ends_with(" values were supplied") || has == std::string_view::npos ||
      but == std::string_view::npos || has > but)
    return {};
  const int there = std::atoi(message.data() + has + 5), given = std::atoi(message.data() + but + 13);
  if (given <= 0 || given >= there) return {};
  // Behind INTO, the table's name and its alias; what is quoted or a comment is gone over as one token.
  std::size_t at = 0;
  const auto token = [&]() -> std::string_view {
    for (;;) {
      while (at < sql.size() && std::isspace(static_cast<unsigned char>(sql[at])) != 0) ++at;
      if (sql.compare(at, 2, "--") == 0) at = std::min(sql.find('\n', at), sql.size());
      else if (sql.compare(at, 2, "/*") == 0) at = std::min(sql.find("*/", at + 2), sql.size() - 2) + 2;
      else break;
    }
    const std::size_t begin = at;
    if (at == sql.size()) return {};
    const char first = sql[at++];
    if (first == '"' || first == '\'' || first == '`' || first == '[') {
      const char last = first == '[' ? ']' : first;
      while (at < sql.size()) {
        if (sql[at++] != last) continue;
        if (first == '[' || at == sql.size() || sql[at] != last) break;
        ++at;
      }
    } else if (std::isalnum(static_cast<unsigned char>(first)) != 0 || first == '_' || (first & 0x80) != 0) {
      while (at < sql.size() &&
             (std::isalnum(static_cast<unsigned char>(sql[at])) != 0 || sql[at] == '_' || sql[at] == '$' || (sql[at] & 0x80) != 0))
        ++at;
    }
    return std::string_view(sql).substr(begin, at - begin);
  };
  const auto is = [](std::string_view word, std::string_view wanted) {
    return word.size() == wanted.size() && sqlite3_strnicmp(word.data(), wanted.data(), static_cast<int>(wanted.size())) == 0;
  };
  for (std::string_view word = token(); !is(word, "into"); word = token()) {
    if (word.empty()) return {};
  }
  // The message names an alias where there is one.
  std::string table;
  const auto take_name = [&] {
    const std::string_view word = token();
    const bool quoted = word.size() >= 2 && std::isalnum(static_cast<unsigned char>(word.front())) == 0 && word.front() != '_' &&
                        (word.front() & 0x80) == 0;
    table = quoted ? word.substr(1, word.size() - 2) : word;
    if (!quoted) return;
    for (auto twice = table.find("\"\""); twice != std::string::npos; twice = table.find("\"\"", twice + 1)) table.erase(twice, 1);
  };
  take_name();
  std::size_t behind = at;
  std::string_view next = token();
  if (next == ".") {
    take_name();
    behind = at;
    next = token();
  }
  if (is(next, "as")) {
    token();
    behind = at;
  }
  sqlite3_stmt* columns = nullptr;
  std::string names;
  if (sqlite3_prepare_v2(handle(), "SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0 ORDER BY cid LIMIT ?2", -1, &columns,
                         nullptr) != SQLITE_OK)
    return {};
  sqlite3_bind_text(columns, 1, table.data(), static_cast<int>(table.size()), SQLITE_STATIC);
  sqlite3_bind_int(columns, 2, given);
  while (sqlite3_step(columns) == SQLITE_ROW) {
    names += names.empty() ? " (\"" : ", \"";
    for (const char* name = reinterpret_cast<const char*>(sqlite3_column_text(columns, 0)); *name != '\0'; ++name)
      names += *name == '"' ? std::string("\"\"") : std::string(1, *name);
    names += '"';
  }
  sqlite3_finalize(columns);
  return names.empty() ? std::string() : sql.substr(0, behind) + names + ") " + sql.substr(behind);
}

SqlConnection::Text SqlConnection::prepare(const std::string& sql) {
  Text text;
  text.owner_ = this;
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) { return each.sql == sql; });
  if (found != kept_.end()) {
    text.held_.splice(text.held_.begin(), kept_, found);
  } else {
    sqlite3_stmt* statement = prepare_now(sql);
    Kept& kept = text.held_.emplace_back();
    kept.sql = sql;
    kept.statement = statement;
    kept.calls_writer = calls_writer_;
    kept.changes_indexes = changes_indexes_;
    kept.watches = watches_;
  }
  return text;
}

// Of a table of the file's: with the first of them SQLite compares the schema's number and, for changes of this connection's own that were
// rolled back, its generation. Only EXPLAIN tells, and only of a statement that is run again and again it is worth while.
bool SqlConnection::asks_for_schema(const std::string& sql) {
  sqlite3_stmt* program = nullptr;
  if (sqlite3_prepare_v2(handle(), ("EXPLAIN " + sql).c_str(), -1, &program, nullptr) != SQLITE_OK) return false;
  bool found = false;
  while (!found && sqlite3_step(program) == SQLITE_ROW) {
    constexpr int opcode = 1, database = 2, compares = 6;
    const auto* name = reinterpret_cast<const char*>(sqlite3_column_text(program, opcode));
    found = name != nullptr && std::string_view(name) == "Transaction" && sqlite3_column_int(program, database) == 0 &&
            sqlite3_column_int(program, compares) != 0;
  }
  sqlite3_finalize(program);
  return found;
}

bool SqlConnection::will_ask(const std::string& sql, std::uint64_t schema) const noexcept {
  return !temporary_ &&
         std::any_of(kept_.begin(), kept_.end(), [&](const Kept& each) { return each.asks && each.schema == schema && each.sql == sql; });
}

void SqlConnection::keep(std::list<Kept>& one) noexcept {
  sqlite3_stmt* statement = one.front().statement;
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  if (one.front().sql.size() > kept_text_bytes_max) {
    sqlite3_finalize(statement);
    one.clear();
    return;
  }
  kept_.splice(kept_.begin(), one);
  if (kept_.size() <= kept_max) return;
  sqlite3_finalize(kept_.back().statement);
  kept_.pop_back();
}

// A new unique index is a new way for REPLACE to remove rows: the triggers of protect() look for those of each. In the same transaction.
void SqlConnection::follow_indexes() {
  try {
    if (connection_.layer1().installed_version() > 0) connection_.layer1().renew_triggers();
  } catch (const std::exception& error) { throw PgException(error_of(error)); }
}

SqlConnection::Text& SqlConnection::Text::operator=(Text&& other) noexcept {
  if (this == &other) return *this;
  return_statement();
  owner_ = other.owner_;
  held_.splice(held_.begin(), other.held_);
  stepped_ = std::exchange(other.stepped_, false);
  schema_ = std::exchange(other.schema_, 0);
  return *this;
}

void SqlConnection::Text::return_statement() noexcept {
  if (!held_.empty()) owner_->keep(held_);
  stepped_ = false;
  schema_ = 0;
}

void SqlConnection::Text::of_schema(std::uint64_t id) {
  schema_ = id;
  Kept& kept = held_.front();
  if (kept.schema != id) {
    // Asked after it was prepared. Should that have been with an older schema, SQLite's own comparison fails at the first step: a number
    // of the file's never comes back, and of those that a rollback gives back SQLite knows.
    kept.schema = owner_->catalog().relations()->id();
    kept.runs = 0;
    kept.asks = false;
    if (kept.schema != id) throw StalePlan();
  }
  if (kept.runs < 2 && ++kept.runs == 2) kept.asks = owner_->asks_for_schema(kept.sql);
}

// The file's schema is another than that of the statement, which may be another's than that of its plan.
void SqlConnection::Text::prepare_again() {
  const auto stale = [&] { return schema_ != 0 && owner_->catalog().relations()->id() != schema_; };
  Kept& kept = held_.front();
  sqlite3_stmt* fresh = nullptr;
  try {
    if (!stale()) fresh = owner_->prepare_now(kept.sql);
  } catch (const PgException&) {
    if (!stale()) throw;
  }
  // Asked again: it may have changed in between.
  if (fresh == nullptr || stale()) {
    sqlite3_finalize(fresh);
    kept.schema = 0;
    throw StalePlan();
  }
  if (sqlite3_transfer_bindings(kept.statement, fresh) != SQLITE_OK) {
    sqlite3_finalize(fresh);
    owner_->fail(SQLITE_SCHEMA);
  }
  sqlite3_finalize(std::exchange(kept.statement, fresh));
  kept.schema = schema_;
  kept.described.reset();
}

int SqlConnection::Text::step() {
  for (int again = 0;; ++again) {
    sqlite3_stmt* statement = held_.front().statement;
    // A statement that writes does all of it in its first step.
    const bool watches = held_.front().watches && !stepped_;
    if (watches) owner_->catalog().watch_rows(true);
    int code = sqlite3_step(statement);
    if (watches) owner_->catalog().watch_rows(false);
    if (code == SQLITE_ROW || code == SQLITE_DONE) {
      stepped_ = true;
      if (code == SQLITE_DONE && held_.front().changes_indexes) owner_->follow_indexes();
      return code;
    }
    // The older interface says what it was only here.
    code = sqlite3_reset(statement);
    // After the first row the client has a part of the answer, so it cannot be begun again. 25 times at most:
    // others may be changing the schema.
    if (code != SQLITE_SCHEMA || stepped_ || again == 25) owner_->fail(code, held_.front().sql);
    prepare_again();
  }
}

}  // namespace termgate::sqlite_server
