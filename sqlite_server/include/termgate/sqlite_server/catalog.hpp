// What PostgreSQL's clients ask of a server about itself, answered from an SQLite connection: the relations of pg_catalog and
// information_schema as virtual tables, and every function that translate() leaves to the session (dialect/functions.hpp).
//
// The tables are eponymous: they belong to the connection, are in no schema, cannot be dropped or written, and take nothing of the
// file. A name of the user's own goes first. They read sqlite_schema and the pragmas of tables by statements of their own, so that
// they see what the open transaction sees; while they do, reading() is true, and an authorizer lets those statements through.
//
// One thread at a time, as the connection.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <termgate/sqlite_server/values.hpp>

struct sqlite3;

namespace termgate::sqlite_server {

class FileRelations;

// The OID and atttypmod of what a CREATE TABLE declares; docs/reference/sqlite-types.md is the table. typmod -1: no length given.
struct DeclaredType {
  Oid oid;
  std::int32_t typmod;
  bool operator==(const DeclaredType&) const = default;
};
DeclaredType type_of_declaration(std::string_view declared) noexcept;

// What a column of that type stores for a value, by PostgreSQL's rules of assignment: its canonical form (values.hpp), rounded, or a
// problem where it is out of range, too long, or none of the type. `from`: the type that the value has, as SQLite holds one (0 and unknown:
// a literal, a text to be read); whether the one may be assigned to the other is the caller's to know. NULL stays NULL.
std::variant<Stored, SqlError> converted(const Stored& value, DeclaredType to, Oid from);

// How a value that a file holds meets its column's declared type. `other_form`: it means a value of the type, and `proper` is what the
// column would store for it. `none`: it means none, and `problem` says why.
struct Meeting {
  enum class How : std::uint8_t { fits, other_form, none } how = How::fits;
  Stored proper;
  SqlError problem;
};
Meeting meeting_of(const Stored& value, DeclaredType type);
// Whether a value in another form is read all the same: conditions see what it means, and it is shown in the type's form.
bool reads_other_forms(Oid type) noexcept;

// A column as the text of its CREATE TABLE has it, with a DEFAULT.
struct ColumnWithDefault {
  std::string name, declared, default_text;
};
// The CHECK that refuses the column's own default: its name, or its expression where it has none. Only CHECKs that mention that column and
// none of the other `columns` are tried, with SQLite's own functions, on a connection in memory. nullopt: none does, or it cannot be known.
std::optional<std::string> check_against_default(std::string_view create_table, const ColumnWithDefault& column,
                                                 const std::vector<std::string>& columns);

struct Setting {
  std::string name;
  std::string value;
  std::string unit, category, description;
  std::string context = "user", kind = "string";  // as pg_settings has them
};

// What is said of a setting that is not kept: 0A000 where PostgreSQL 15 has one of that name, else 42704.
SqlError unknown_setting(std::string_view name);

// As pg_prepared_statements and pg_cursors have them. Times are microseconds since 1970-01-01 UTC.
struct PreparedStatement {
  std::string name, text;
  std::int64_t made_us = 0;
  std::vector<dialect::Oid> parameters;
  bool by_sql = false;  // by PREPARE
};
struct OpenCursor {
  std::string name, text;
  std::int64_t made_us = 0;
  bool holdable = false, scrollable = false;
};

// What only a session knows. Called on the thread that steps a statement, within it: answers at once, and asks the connection nothing.
class CatalogSession {
 public:
  virtual ~CatalogSession() = default;
  virtual std::string user() const { return "postgres"; }
  // What current_database() says; nullopt: what install_catalog() was given.
  virtual std::optional<std::string> database() const { return std::nullopt; }
  virtual std::int32_t process_id() const { return 0; }
  virtual std::string application_name() const { return {}; }
  // Microseconds since 1970-01-01 UTC.
  virtual std::int64_t transaction_began_us() const;
  virtual std::int64_t server_began_us() const;
  // Settings by their lower-case name; nullopt: there is none (42704).
  virtual std::optional<std::string> setting(std::string_view name) const;
  virtual std::vector<Setting> settings() const;
  virtual std::vector<PreparedStatement> prepared_statements() const { return {}; }
  virtual std::vector<OpenCursor> cursors() const { return {}; }
  // set_config(): the value that holds now, or what is wrong with it.
  virtual std::variant<std::string, SqlError> set(std::string_view name, std::string_view value, bool local);
  virtual std::optional<SqlError> notify(std::string_view channel, std::string_view payload);
  // pg_cancel_backend and pg_terminate_backend: false where there is no such session, a problem where it is another user's.
  virtual std::variant<bool, SqlError> signal(std::int32_t process_id, bool terminate);
  // Whether a function may write in the transaction that is open: nextval() and setval() do, within statements that SQLite calls
  // reads. False is 25006.
  virtual bool may_write() const { return false; }
  // Asked by pg_sleep() every 20 ms, and by LIKE on long texts: true ends it with 57014.
  virtual bool cancelled() const { return false; }
  // pg_advisory_lock and pg_advisory_unlock; nullopt: there are none (0A000).
  virtual std::optional<bool> advisory(std::int64_t key, bool unlock);

  // What currval() and lastval() answer: nextval() calls it, and so may the session after an INSERT into a table that counts.
  void count(std::string_view table, std::int64_t value);
  // Empty: the last of all.
  std::optional<std::int64_t> counted(std::string_view table) const;

 private:
  std::map<std::string, std::int64_t, std::less<>> counted_;
  std::optional<std::int64_t> counted_last_;
};

// The table and the column of it that a result's column is, as RowDescription says it; 0: none.
struct Origin {
  std::string table_name, column_name;
  std::int64_t table = 0;
  std::uint16_t place = 0;
};

// A connection's catalog; lives until the connection is closed.
class Catalog {
 public:
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;
  virtual ~Catalog() = default;

  // Who is asking from now on; borrowed until the next call. nullptr: nobody, as after install_catalog().
  virtual void serve(CatalogSession* session) noexcept = 0;
  // Whether the statement that is being prepared or run right now is the catalog's own.
  virtual bool reading() const noexcept = 0;
  // What PostgreSQL would say of the failure that the connection has just reported: of one of the functions here, or of a relation,
  // column or function that is not there (42P01, 42703, 42883). nullopt: neither.
  virtual std::optional<SqlError> problem() const = 0;
  // An OID as text, where a value is of the type regclass, regtype, regproc …: its name, or its digits where nothing has it.
  virtual std::string reg_text(std::int64_t value, Oid type) = 0;
  // Fills in where columns of results come from, by the names that SQLite gives.
  virtual void find_origins(std::vector<Origin>& origins) = 0;
  // The file's tables as the open transaction sees them, for dialect::translate().
  virtual std::shared_ptr<const FileRelations> relations() = 0;
  // Whether the connection may have temporary tables (it may, at first): where it has none, they are not looked for.
  virtual void temporary(bool may_be) noexcept = 0;
  // A transaction that writes is open on the connection, and has changed nothing of the schema unless an earlier call for the same
  // transaction came before the change. Without this call the schema's texts are compared at each look within such a transaction.
  virtual void writing() = 0;
  // The connection's transaction has ended. May be called within SQLite's hooks.
  virtual void transaction_over() noexcept = 0;
  // Around the first step of a statement that calls pg_upsert_once(), which asks for the rows that it has changed.
  virtual void watch_rows(bool on) = 0;
  // Before the connection is closed: lets go of its own statements. Nothing may be asked after it.
  virtual void let_go() noexcept = 0;

 protected:
  Catalog() = default;
};

// On a connection that is open, and whose authorizer, if it has one already, lets this thread's own statements through. `database` is
// what current_database() says where the session does not. Throws std::bad_alloc.
Catalog& install_catalog(sqlite3* connection, std::string database);

}  // namespace termgate::sqlite_server
