// A value of the file that is none of its column's type, or not in the type's form: reading it is an error that says where it is.
#include "session/session.hpp"

#include "catalog/relations.hpp"
#include "values/forms.hpp"

namespace termgate::sqlite_server {

namespace oid = dialect::oid;

namespace {

// The first row that holds it; nothing where the table has no row ids.
std::optional<std::int64_t> row_of(sqlite3* db, const std::string& table, const std::string& column, sqlite3_value* value) {
  const auto quoted = [](const std::string& name) {
    std::string out = "\"";
    for (const char c : name) out += c == '"' ? std::string(2, c) : std::string(1, c);
    return out + '"';
  };
  sqlite3_stmt* found = nullptr;
  std::optional<std::int64_t> row;
  const std::string sql = "SELECT rowid FROM main." + quoted(table) + " WHERE " + quoted(column) + " IS ?1 LIMIT 1";
  if (sqlite3_prepare_v2(db, sql.c_str(), -1, &found, nullptr) != SQLITE_OK) return row;
  sqlite3_bind_value(found, 1, value);
  if (sqlite3_step(found) == SQLITE_ROW) row = sqlite3_column_int64(found, 0);
  sqlite3_finalize(found);
  return row;
}

// Whether an expression of the type has values of the same form as a column.
bool same_everywhere(Oid type) {
  switch (type) {
    case oid::int2:
    case oid::int4:
    case oid::int8:
    case oid::boolean:
    case oid::text:
    case oid::varchar:
    case oid::bytea:
    case oid::date:
    case oid::time:
    case oid::timestamp:
    case oid::timestamptz:
    case oid::uuid: return true;
    default: return false;
  }
}

std::string shown(const Stored& value) {
  constexpr std::size_t most = 60;
  std::string text = text_of(value);
  if (!is_valid_text(text)) {
    for (char& c : text) c = c > 0x1f && c < 0x7f ? c : '?';
  }
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

}  // namespace

// `value` becomes what is shown of it. `begin`: where the row begins in what is sent, which is taken back.
void Session::check_stored(const Portal& portal, int column, Stored& value, std::size_t begin) {
  const OutColumn& of = portal.columns[static_cast<std::size_t>(column)];
  const DeclaredType type{of.type == 0 ? Oid{oid::text} : of.type, of.modifier};
  // What is written by its text is about the catalog. An expression may hand on what a column holds, but has a form of its own where a
  // column's differs from it.
  if (portal.plan == nullptr || (!portal.plan->does.typed && !portal.plan->native)) return;
  if (of.table == 0 && !same_everywhere(type.oid)) return;
  Meeting meeting = meeting_of(value, type);
  if (meeting.how == Meeting::How::fits) return;
  if (meeting.how == Meeting::How::other_form && reads_other_forms(type.oid)) {
    value = std::move(meeting.proper);
    return;
  }
  sqlite3_stmt* statement = portal.text.get();
  const char* table = sqlite3_column_table_name(statement, column);
  // The catalog's own rows are made by the front.
  if (table != nullptr) {
    const auto relations = portal.text.owner().catalog().relations();
    if (const auto* relation = relations->find(table); relation != nullptr && relation->catalog) return;
  }
  out_.resize(begin);
  const char* name = sqlite3_column_origin_name(statement, column);
  PgError fault;
  fault.sqlstate = meeting.how == Meeting::How::none && !meeting.problem.sqlstate.empty() ? meeting.problem.sqlstate : "22P02";
  std::string where = "column \"" + of.name + "\" of the result";
  if (table != nullptr && name != nullptr) {
    fault.table = table;
    fault.column = name;
    where = "column \"" + fault.column + "\" of table \"" + fault.table + "\"";
    if (const auto row = row_of(portal.text.owner().handle(), fault.table, fault.column, sqlite3_column_value(statement, column)))
      where += ", rowid " + std::to_string(*row);
  }
  fault.message = where + ": the file holds \"" + shown(value) + "\", which is " +
                  (meeting.how == Meeting::How::none ? "no value of type " : "not in the form of type ") + type_in_words(type);
  fault.hint = "Another program stored it. termgate doctor lists such rows, termgate mend rewrites those that it can.";
  throw PgException(fault);
}

std::string Session::type_in_words(DeclaredType type) {
  const Oid element = element_of(type.oid);
  if (element != 0) return std::string(spoken(element)) + "[]";
  if ((type.oid == oid::varchar || type.oid == oid::bpchar) && type.typmod >= 5)
    return (type.oid == oid::varchar ? "character varying(" : "character(") + std::to_string(type.typmod - 4) + ")";
  return std::string(spoken(type.oid));
}

}  // namespace termgate::sqlite_server
