// A connection's catalog: what it remembers of the schema, whose session it serves, and what went wrong last.
// Owner: the SQLite connection, which deletes it when it closes (install_catalog). One thread at a time, like
// the connection.
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "catalog/state.hpp"
#include "catalog/query.hpp"

namespace termgate::sqlite_server {
namespace {

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The name in "no such table: main.x", without a schema.
std::string name_in(std::string_view message, std::string_view head) {
  std::string name(message.substr(head.size()));
  for (const std::string_view schema : {"main.", "temp."}) {
    if (name.starts_with(schema)) name.erase(0, schema.size());
  }
  return name;
}

// SQLite's words for what is not there, as PostgreSQL says it.
std::optional<SqlError> missing(std::string_view message) {
  if (constexpr std::string_view head = "no such table: "; message.starts_with(head)) {
    std::string name = name_in(message, head);
    if (constexpr std::string_view schema = "information_schema_"; name.starts_with(schema))
      name = "information_schema." + name.substr(schema.size());
    return SqlError{"42P01", "relation \"" + name + "\" does not exist"};
  }
  if (constexpr std::string_view head = "no such column: "; message.starts_with(head)) {
    const std::string name = name_in(message, head);
    return SqlError{"42703", "column " + (name.find('.') == std::string::npos ? "\"" + name + "\"" : name) + " does not exist"};
  }
  if (constexpr std::string_view head = "no such function: "; message.starts_with(head))
    return SqlError{"42883", "function " + name_in(message, head) + " does not exist"};
  if (constexpr std::string_view head = "wrong number of arguments to function "; message.starts_with(head)) {
    std::string name = name_in(message, head);
    if (name.ends_with("()")) name.resize(name.size() - 2);
    return SqlError{"42883", "function " + name + " with this number of arguments does not exist"};
  }
  if (constexpr std::string_view head = "unknown database "; message.starts_with(head))
    return SqlError{"3F000", "schema \"" + name_in(message, head) + "\" does not exist"};
  return std::nullopt;
}

}  // namespace

std::int64_t CatalogSession::transaction_began_us() const { return now_us(); }
std::int64_t CatalogSession::server_began_us() const {
  static const std::int64_t first = now_us();
  return first;
}
std::vector<Setting> CatalogSession::settings() const {
  return {
      {"application_name", application_name(), "", "Reporting and Logging / What to Log",
       "Sets the application name to be reported in statistics and logs."},
      {"client_encoding", "UTF8", "", "Client Connection Defaults / Locale and Formatting", "Sets the client's character set encoding."},
      {"DateStyle", "ISO, MDY", "", "Client Connection Defaults / Locale and Formatting",
       "Sets the display format for date and time values."},
      {"default_transaction_isolation", "serializable", "", "Client Connection Defaults / Statement Behavior",
       "Sets the transaction isolation level of each new transaction.", "user", "enum"},
      {"default_transaction_read_only", "off", "", "Client Connection Defaults / Statement Behavior",
       "Sets the default read-only status of new transactions.", "user", "bool"},
      {"extra_float_digits", "1", "", "Client Connection Defaults / Locale and Formatting",
       "Sets the number of digits displayed for floating-point values.", "user", "integer"},
      {"integer_datetimes", "on", "", "Preset Options", "Shows whether datetimes are integer based.", "internal", "bool"},
      {"IntervalStyle", "postgres", "", "Client Connection Defaults / Locale and Formatting",
       "Sets the display format for interval values.", "user", "enum"},
      {"is_superuser", "off", "", "Preset Options", "Shows whether the current user is a superuser.", "internal", "bool"},
      {"lc_collate", "C", "", "Preset Options", "Shows the collation order locale.", "internal"},
      {"lc_ctype", "C", "", "Preset Options", "Shows the character classification and case conversion locale.", "internal"},
      {"max_identifier_length", "63", "", "Preset Options", "Shows the maximum identifier length.", "internal", "integer"},
      {"max_index_keys", "32", "", "Preset Options", "Shows the maximum number of index keys.", "internal", "integer"},
      {"search_path", "\"$user\", public", "", "Client Connection Defaults / Statement Behavior",
       "Sets the schema search order for names that are not schema-qualified."},
      {"server_encoding", "UTF8", "", "Preset Options", "Shows the server (database) character set encoding.", "internal"},
      {"server_version", "15.0", "", "Preset Options", "Shows the server version.", "internal"},
      {"server_version_num", "150000", "", "Preset Options", "Shows the server version as an integer.", "internal", "integer"},
      {"standard_conforming_strings", "on", "", "Version and Platform Compatibility / Previous PostgreSQL Versions",
       "Causes '...' strings to treat backslashes literally.", "user", "bool"},
      {"statement_timeout", "0", "ms", "Client Connection Defaults / Statement Behavior",
       "Sets the maximum allowed duration of any statement.", "user", "integer"},
      {"TimeZone", "UTC", "", "Client Connection Defaults / Locale and Formatting",
       "Sets the time zone for displaying and interpreting time stamps."},
      {"transaction_isolation", "serializable", "", "Client Connection Defaults / Statement Behavior",
       "Sets the current transaction's isolation level.", "user", "enum"},
      {"transaction_read_only", "off", "", "Client Connection Defaults / Statement Behavior",
       "Sets the current transaction's read-only status.", "user", "bool"}};
}
std::optional<std::string> CatalogSession::setting(std::string_view name) const {
  for (const Setting& each : settings()) {
    if (lower(each.name) == name) return each.value;
  }
  return std::nullopt;
}
std::variant<std::string, SqlError> CatalogSession::set(std::string_view name, std::string_view, bool) {
  return SqlError{"55P02", "parameter \"" + std::string(name) + "\" cannot be changed here"};
}
std::optional<SqlError> CatalogSession::notify(std::string_view, std::string_view) {
  return SqlError{"0A000", "NOTIFY is not supported on SQLite"};
}
std::variant<bool, SqlError> CatalogSession::signal(std::int32_t, bool) { return false; }
std::optional<bool> CatalogSession::advisory(std::int64_t, bool) { return std::nullopt; }
void CatalogSession::count(std::string_view table, std::int64_t value) {
  counted_[lower(table)] = value;
  counted_last_ = value;
}
std::optional<std::int64_t> CatalogSession::counted(std::string_view table) const {
  if (table.empty()) return counted_last_;
  const auto found = counted_.find(lower(table));
  return found == counted_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<SqlError> CatalogState::problem() const {
  const char* message = sqlite3_errmsg(connection_);
  if (message == nullptr || sqlite3_errcode(connection_) == SQLITE_OK) return std::nullopt;
  if (problem_ && problem_->message == message) return problem_;
  return sqlite3_errcode(connection_) == SQLITE_ERROR ? missing(message) : std::nullopt;
}

void CatalogState::watch_rows(bool on) {
  changed_.clear();
  changes_lost_ = false;
  const auto note = [](void* self, int, const char*, const char* table, sqlite3_int64 row) {
    auto& state = *static_cast<CatalogState*>(self);
    try {
      state.changed_[table].insert(row);
    } catch (const std::bad_alloc&) { state.changes_lost_ = true; }
  };
  sqlite3_update_hook(connection_, on ? +note : nullptr, this);
}

bool CatalogState::changed(const std::string& table, std::int64_t row) const {
  if (changes_lost_) throw std::bad_alloc();
  const auto found = changed_.find(table);
  return found != changed_.end() && found->second.contains(row);
}

void CatalogState::fail(sqlite3_context* context, SqlError problem) {
  sqlite3_result_error(context, problem.message.data(), static_cast<int>(problem.message.size()));
  problem_ = std::move(problem);
}

// FNV-1a over every text of the schema; 0xff, which UTF-8 never has, keeps the fields apart.
std::uint64_t CatalogState::fingerprint() {
  std::uint64_t hash = 14'695'981'039'346'656'037U;
  Query query(
      connection_,
      "SELECT type, name, tbl_name, sql FROM main.sqlite_schema UNION ALL SELECT type, name, tbl_name, sql FROM temp.sqlite_schema");
  while (query.step()) {
    for (int i = 0; i < 4; ++i) {
      for (const char c : query.text(i)) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
      hash = (hash ^ 0xff) * 1'099'511'628'211U;
    }
  }
  return hash;
}

namespace {
std::optional<std::int64_t> answer_of(sqlite3* connection, std::optional<Query>& kept, std::string_view sql) {
  if (!kept) kept.emplace(connection, sql);
  const std::optional<std::int64_t> answer = kept->step() ? std::optional(kept->integer(0)) : std::nullopt;
  if (kept->failed()) kept.reset();
  else kept->again();
  return answer;
}
}  // namespace

std::int64_t CatalogState::cookie() { return answer_of(connection_, cookie_, "PRAGMA main.schema_version").value_or(-1); }

void CatalogState::writing() {
  if (unchanged_) return;
  const Reading reading(*this);
  unchanged_ = cookie();
}

// A committed schema has a number of its own, which is never used again. A transaction that writes still sees that number until it changes
// the schema itself. The numbers of its own changes are not unique: a rollback, also to a savepoint, gives them back. For these, and where
// there are temporary relations, the texts are compared.
std::shared_ptr<const Schema> CatalogState::schema() {
  const Reading reading(*this);
  const std::int64_t cookie = this->cookie();
  const bool temporary = may_have_temporary_ && answer_of(connection_, temporary_, "SELECT 1 FROM temp.sqlite_schema LIMIT 1").has_value();
  if (schema_ != nullptr && mark_.cookie == cookie && mark_.committed && !temporary) return schema_;
  const bool committed = !temporary && (unchanged_ == cookie || sqlite3_txn_state(connection_, "main") != SQLITE_TXN_WRITE);
  const std::uint64_t print = fingerprint();
  if (schema_ == nullptr || mark_.fingerprint != print || mark_.cookie != cookie) {
    schema_ = read_schema(connection_);
    rows_.clear();
    relations_.reset();
  }
  mark_ = {cookie, print, committed};
  return schema_;
}

std::shared_ptr<const FileRelations> CatalogState::relations() {
  const auto now = schema();
  if (relations_ == nullptr) relations_ = std::make_shared<const FileRelations>(*now, mark_.fingerprint);
  return relations_;
}

std::shared_ptr<Rows> CatalogState::rows(const SystemRelation& relation) {
  const auto now = schema();
  // Relations of the session (pg_stat_activity, pg_settings) are made anew each time; the others depend on
  // the schema alone.
  const bool fresh = of_the_session(relation.name);
  if (std::string database = this->database(); database != rows_database_) {
    rows_.clear();
    rows_database_ = std::move(database);
  }
  if (!fresh) {
    if (const auto found = rows_.find(&relation); found != rows_.end()) return found->second;
  }
  auto made = std::make_shared<Rows>();
  write_rows(relation, {*now, session(), rows_database_}, made->rows);
  if (!fresh) rows_[&relation] = made;
  return made;
}

void CatalogState::find_origins(std::vector<Origin>& origins) {
  std::shared_ptr<const Schema> now;
  for (Origin& origin : origins) {
    if (origin.table_name.empty()) continue;
    if (now == nullptr) now = schema();
    const SchemaRelation* relation = now->named(origin.table_name);
    if (relation == nullptr) {
      const auto& all = system_relations();
      const auto own = std::find_if(all.begin(), all.end(), [&](const SystemRelation& each) { return each.name == origin.table_name; });
      if (own == all.end()) continue;
      const auto at = std::find_if(own->columns.begin(), own->columns.end(),
                                   [&](const SystemRelation::Column& each) { return each.name == origin.column_name; });
      if (at == own->columns.end()) continue;
      origin.table = own->oid;
      origin.place = static_cast<std::uint16_t>(at - own->columns.begin() + 1);
      continue;
    }
    const auto at = std::find_if(relation->columns.begin(), relation->columns.end(),
                                 [&](const SchemaColumn& each) { return lower(each.name) == lower(origin.column_name); });
    if (at == relation->columns.end()) continue;
    origin.table = relation->oid;
    origin.place = static_cast<std::uint16_t>(at - relation->columns.begin() + 1);
  }
}

Catalog& install_catalog(sqlite3* connection, std::string database) {
  auto* state = new CatalogState(connection, std::move(database));
  register_relations(connection, *state);
  register_functions(connection, *state);
  // json_each declares itself at its first use, which an authorizer would see as reading sqlite_schema.
  { const Query first(connection, "SELECT 1 FROM json_each('[]'), json_tree('[]')"); }
  // Goes with the connection: closing it drops the function, and with it the state.
  sqlite3_create_function_v2(
      connection, "pg_catalog_of_this_connection", 0, SQLITE_UTF8 | SQLITE_DIRECTONLY, state,
      [](sqlite3_context* context, int, sqlite3_value**) { sqlite3_result_null(context); }, nullptr, nullptr,
      [](void* held) { delete static_cast<CatalogState*>(held); });
  return *state;
}

}  // namespace termgate::sqlite_server
