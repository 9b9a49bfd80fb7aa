#include "session/pg_error.hpp"

#include <sqlite3.h>

#include <cctype>
#include <new>
#include <optional>

#include <termgate/dialect/translate.hpp>
#include <termgate/error.hpp>

namespace termgate::sqlite_server {
namespace {

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::string quoted_in_message(std::string_view name) { return "\"" + std::string(name) + "\""; }

bool is_code(std::string_view message) {
  return message.size() > 6 && message.starts_with("TG00") && message[4] >= '1' && message[4] <= '6' && message[5] == ' ';
}

// "t.a, t.b" -> t, {a, b}; an expression index is "index 'name'".
PgError unique(std::string_view what) {
  PgError fault{"23505", {}};
  if (take(what, "index '")) {
    fault.constraint = what.substr(0, what.find('\''));
  } else {
    std::string columns;
    while (!what.empty()) {
      std::string_view one = what.substr(0, what.find(", "));
      what.remove_prefix(std::min(what.size(), one.size() + 2));
      const auto dot = one.find('.');
      if (dot == std::string_view::npos) continue;
      fault.table = one.substr(0, dot);
      columns += (columns.empty() ? "" : "_") + std::string(one.substr(dot + 1));
    }
    fault.constraint = fault.table + "_" + columns + "_key";
    fault.column = columns;  // the caller knows the table and may find the index
  }
  fault.message = "duplicate key value violates unique constraint " + quoted_in_message(fault.constraint);
  return fault;
}

struct Says {
  std::string_view begins;
  std::string_view sqlstate;
  std::string_view before;  // ours: before + the quoted rest + after
  std::string_view after;
};
constexpr Says says[] = {
    {"no such table: ", "42P01", "relation ", " does not exist"},
    {"no such view: ", "42P01", "view ", " does not exist"},
    {"no such column: ", "42703", "column ", " does not exist"},
    {"no such function: ", "42883", "function ", " does not exist"},
    {"no such index: ", "42704", "index ", " does not exist"},
    {"no such trigger: ", "42704", "trigger ", " does not exist"},
    {"no such collation sequence: ", "42704", "collation ", " does not exist"},
    {"no such module: ", "42704", "module ", " does not exist"},
    {"no such savepoint: ", "3B001", "savepoint ", " does not exist"},
    {"ambiguous column name: ", "42702", "column reference ", " is ambiguous"},
    {"duplicate column name: ", "42701", "column ", " specified more than once"},
    {"misuse of aggregate: ", "42803", "aggregate ", " is not allowed here"},
};

std::string_view bare(std::string_view name) {
  for (const std::string_view schema : {"main.", "temp."}) {
    if (name.starts_with(schema)) name.remove_prefix(schema.size());
  }
  return name;
}

PgError plain_error(std::string_view message) {
  for (const Says& each : says) {
    if (!message.starts_with(each.begins)) continue;
    const std::string_view name = bare(message.substr(each.begins.size()));
    return {std::string(each.sqlstate), std::string(each.before) + quoted_in_message(name) + std::string(each.after)};
  }
  const std::string text(message);
  if (message.ends_with(": syntax error") || message == "incomplete input" || message.starts_with("unrecognized token")) {
    std::string_view near = message;
    if (take(near, "near \"") && near.ends_with("\": syntax error"))
      return {"42601", "syntax error at or near \"" + std::string(near.substr(0, near.size() - 15)) + "\""};
    return {"42601", message == "incomplete input" ? "syntax error at end of input" : text};
  }
  if (message.starts_with("too many attached databases")) return {"42501", "permission denied: ATTACH and VACUUM INTO name files"};
  if (message.starts_with("unsafe use of ")) return {"42501", "permission denied: " + text + " in a view or a trigger"};
  if (message.starts_with("cannot VACUUM ")) return {"25001", text};
  if (message.ends_with(" already exists")) {
    std::string_view name = message.substr(0, message.size() - 15);
    const bool known = take(name, "table ") || take(name, "index ") || take(name, "view ") || take(name, "trigger ") ||
                       take(name, "there is already a table named ");
    return {
        "42P07",
        known ? "relation " + quoted_in_message(name.starts_with('"') ? name.substr(1, name.size() - 2) : name) + " already exists" : text};
  }
  if (message.find(" has no column named ") != std::string_view::npos) {
    const auto at = message.find(" has no column named ");
    std::string_view table = message.substr(0, at);
    take(table, "table ");
    return {"42703",
            "column " + quoted_in_message(message.substr(at + 21)) + " of relation " + quoted_in_message(table) + " does not exist"};
  }
  if (message.starts_with("misuse of aggregate") || message.starts_with("misuse of window function"))
    return {message.starts_with("misuse of w") ? "42P20" : "42803", text};
  if (message.starts_with("ON CONFLICT clause does not match"))
    return {"42P10", "there is no unique or exclusion constraint matching the ON CONFLICT specification"};
  if (message.find(" term out of range") != std::string_view::npos) return {"42P10", text};
  if (message.starts_with("Cannot add a NOT NULL column")) return {"23502", "column contains null values: " + text};
  if (message == "FOREIGN KEY constraint failed") return {"23503", "insert, update or delete violates foreign key constraint"};
  if (message.starts_with("wrong number of arguments to function ")) return {"42883", text};
  if (message.find(" values for ") != std::string_view::npos || message.find(" values were supplied") != std::string_view::npos)
    return {"42601", text};
  if (message.find("because it is a view") != std::string_view::npos)
    return {"0A000", "writing through a view is not supported on SQLite: " + text};
  if (message.find("may not be modified") != std::string_view::npos || message.find("may not be dropped") != std::string_view::npos)
    return {"42501", text};
  if (message.starts_with("sub-select returns ") || message.starts_with("row value misused")) return {"42601", text};
  if (message.find("too many") != std::string_view::npos || message.find("too large") != std::string_view::npos) return {"54000", text};
  if (message.starts_with("argument of ntile must be")) return {"22014", "argument of ntile must be greater than zero"};
  if (message.starts_with("second argument to nth_value must be")) return {"22016", "argument of nth_value must be greater than zero"};
  if (message.starts_with("frame starting offset must be")) return {"22013", "frame starting offset must not be negative"};
  if (message.starts_with("frame ending offset must be")) return {"22013", "frame ending offset must not be negative"};
  if (message == "integer overflow") return {"22003", "bigint out of range"};
  if (message.starts_with("malformed JSON")) return {"22P02", "invalid input syntax for type json"};
  // A function of ours says its SQLSTATE in front.
  if (message.size() > 6 && message[5] == ' ') {
    bool code = true;
    for (int i = 0; i < 5; ++i)
      code = code && (std::isdigit(static_cast<unsigned char>(message[static_cast<std::size_t>(i)])) != 0 ||
                      (message[static_cast<std::size_t>(i)] >= 'A' && message[static_cast<std::size_t>(i)] <= 'Z'));
    if (code && std::isdigit(static_cast<unsigned char>(message[0])) != 0)
      return {std::string(message.substr(0, 5)), std::string(message.substr(6))};
  }
  return {"XX000", text};
}

PgError constraint(int extended_code, std::string_view message) {
  std::string_view what = message;
  if (take(what, "UNIQUE constraint failed: ") || take(what, "PRIMARY KEY constraint failed: ")) {
    PgError fault = unique(what);
    if (extended_code == SQLITE_CONSTRAINT_PRIMARYKEY || extended_code == SQLITE_CONSTRAINT_ROWID) {
      fault.constraint = fault.table + "_pkey";
      fault.message = "duplicate key value violates unique constraint " + quoted_in_message(fault.constraint);
    }
    return fault;
  }
  if (take(what, "NOT NULL constraint failed: ")) {
    const auto dot = what.find('.');
    PgError fault{"23502", {}};
    fault.table = what.substr(0, dot);
    fault.column = dot == std::string_view::npos ? "" : what.substr(dot + 1);
    fault.message = "null value in column " + quoted_in_message(fault.column) + " of relation " + quoted_in_message(fault.table) +
                    " violates not-null constraint";
    return fault;
  }
  if (take(what, "CHECK constraint failed: ")) {
    // What the front writes has the form; a text that SQLite alone has read may not.
    if (what == dialect::stored_check_name) return {"22P02", "a value is not in the form in which its column stores it"};
    PgError fault{"23514", "new row violates check constraint " + quoted_in_message(what)};
    fault.constraint = what;
    return fault;
  }
  if (message.starts_with("FOREIGN KEY constraint failed")) return {"23503", "insert, update or delete violates foreign key constraint"};
  if (extended_code == SQLITE_CONSTRAINT_DATATYPE) return {"42804", std::string(message)};
  return {extended_code == SQLITE_CONSTRAINT_TRIGGER ? "P0001" : "23000", std::string(message)};
}

}  // namespace

namespace {
PgError file_moved() {
  PgError fault{"57P01", "terminating connection: the database file was moved, removed or replaced, or its log was; nothing was written"};
  fault.hint = "Connect again: the server opens the file that is there now.";
  fault.fatal = fault.file_moved = true;
  return fault;
}
}  // namespace

PgError error_of(int extended_code, std::string_view message) {
  if (is_code(message)) return {std::string(message.substr(0, 5)), std::string(message)};
  const std::string text(message);
  if (message.find("Termgate is not installed") != std::string_view::npos || message.starts_with("no such table: termgate_") ||
      message.starts_with("no such table: main.termgate_")) {
    return {"3F000", text};
  }
  if (extended_code == SQLITE_READONLY_DBMOVED) return file_moved();
  if (extended_code == SQLITE_BUSY_SNAPSHOT)
    return {"40001", "could not serialize access: another session has committed since this transaction began to read"};
  switch (extended_code & 0xff) {
    case SQLITE_CONSTRAINT: return constraint(extended_code, message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return {"TG006", "TG006 blocked: another connection holds the database's lock; nothing was written"};
    case SQLITE_INTERRUPT: return {"57014", "canceling statement due to user request"};
    case SQLITE_READONLY: return {"25006", "cannot write in a read-only transaction"};
    case SQLITE_AUTH: return {"42501", text};
    case SQLITE_FULL: return {"53100", "could not extend the database: " + text};
    case SQLITE_IOERR: return {"58030", text};
    case SQLITE_CANTOPEN: return {"58030", text};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return {"XX001", text};
    case SQLITE_NOMEM: return {"53200", "out of memory"};
    case SQLITE_TOOBIG: return {"54000", text};
    case SQLITE_MISMATCH: return {"42804", text};
    case SQLITE_RANGE: return {"08P01", "there is no such parameter"};
    case SQLITE_SCHEMA: return {"40001", "the schema changed while the statement was running"};
    default: return plain_error(message);
  }
}

PgError error_of(const std::exception& error) {
  if (const auto* failed = dynamic_cast<const PgException*>(&error)) return failed->fault();
  const std::string text = error.what();
  if (is_code(text)) return {text.substr(0, 5), text};
  if (dynamic_cast<const Conflict*>(&error) != nullptr) return {"40001", text};
  if (const auto* unknown = dynamic_cast<const OutcomeUnknown*>(&error)) {
    PgError fault{"58030", unknown->what()};
    fault.fatal = true;  // whether it is committed is unknown: no ReadyForQuery may suggest either
    return fault;
  }
  if (const auto* gone = dynamic_cast<const Unavailable*>(&error)) {
    if (gone->code() == "SQLITE_READONLY_DBMOVED") return file_moved();
    if (gone->code() == "SQLITE_INTERRUPT") return {"57014", "canceling statement due to user request"};
    if (gone->code() == "SQLITE_FULL") return {"53100", text};
    if (gone->code().empty()) return {"40001", text};
    return {"58030", text};
  }
  if (const auto* database = dynamic_cast<const DatabaseError*>(&error)) {
    if (text.find("Termgate is not installed") != std::string::npos) return {"3F000", text};
    if (database->code() == "SQLITE_CONSTRAINT_FOREIGNKEY") return error_of(SQLITE_CONSTRAINT_FOREIGNKEY, text);
    return plain_error(text);
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return {"53200", "out of memory"};
  return {"XX000", text};
}

}  // namespace termgate::sqlite_server
