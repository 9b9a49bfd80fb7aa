// COPY between a table and the client.
#include <algorithm>

#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/types.hpp>

#include "catalog/query.hpp"
#include "catalog/relations.hpp"
#include "session/session.hpp"
#include "values/forms.hpp"

namespace termgate::sqlite_server {

namespace backend = pgwire::backend;
namespace oid = dialect::oid;

namespace {

std::string response(bool binary, std::size_t columns) {
  std::string body(1, binary ? '\1' : '\0');
  body += static_cast<char>(columns >> 8);
  body += static_cast<char>(columns & 0xff);
  for (std::size_t i = 0; i < columns; ++i) {
    body += '\0';
    body += binary ? '\1' : '\0';
  }
  return body;
}

}  // namespace

std::string Session::run_copy(Portal& portal, const Plan& plan) {
  const auto& copy = *plan.utility<dialect::Copy>();
  if (copy.from) {
    begin_copy_in(copy);
    return {};
  }
  portal.done = true;
  return copy_out(copy);
}

std::string Session::copy_out(const dialect::Copy& copy) {
  Plan plan;
  if (copy.query) {
    plan.does = *copy.query;
    if (plan.does.typed) plan.schema = sql_connection().catalog().relations()->id();
    if (plan.does.sql.size() != 1 || !plan.does.steps.empty()) throw PgException("0A000", "COPY of this query is not spoken here");
  } else {
    std::string columns;
    for (const CopyColumn& each : columns_of_copy(copy)) columns += (columns.empty() ? "" : ", ") + in_quotes(each.name);
    plan.does.sql = {"SELECT " + columns + " FROM " + copy.table};
    plan.does.effect = dialect::Effect::read;
  }
  plan.does.returns_rows = true;
  const bool binary = copy.format == dialect::Copy::Format::binary;
  Portal portal;
  portal.plan = &plan;
  start(portal);
  know_columns(portal, true);
  std::vector<std::string> names;
  for (const OutColumn& each : portal.columns) names.push_back(each.name);
  pgwire::append_opaque(out_, backend::copy_out_response, response(binary, names.size()));
  std::string line;
  append_copy_header(line, copy, names);
  const auto send = [&] {
    if (line.empty()) return;
    pgwire::append_opaque(out_, backend::copy_data, line);
    line.clear();
    if (out_.size() >= (32u << 10)) flush_out();
  };
  if (copy.header && !binary) send();
  std::int64_t rows = 0;
  at_work(sql_connection(), [&] {
    CopyReader::Row row;
    while (!portal.done && (std::exchange(portal.peeked, false) || portal.text.step() == SQLITE_ROW)) {
      row.clear();
      sqlite3_stmt* statement = portal.text.get();
      for (int i = 0; i < static_cast<int>(names.size()); ++i) {
        Stored value;
        const auto bytes = [&](const void* data) {
          return std::string(data != nullptr ? static_cast<const char*>(data) : "",
                             static_cast<std::size_t>(sqlite3_column_bytes(statement, i)));
        };
        switch (sqlite3_column_type(statement, i)) {
          case SQLITE_INTEGER: value = static_cast<std::int64_t>(sqlite3_column_int64(statement, i)); break;
          case SQLITE_FLOAT: value = sqlite3_column_double(statement, i); break;
          case SQLITE_TEXT: value = bytes(sqlite3_column_text(statement, i)); break;
          case SQLITE_BLOB: value = Blob{bytes(sqlite3_column_blob(statement, i))}; break;
          default: row.emplace_back(); continue;
        }
        const Oid type = portal.columns[static_cast<std::size_t>(i)].type;
        std::string field;
        check_stored(portal, i, value, out_.size());
        append_field(field, &portal.text.owner(), value, type == 0 ? oid::text : type, portal.columns[static_cast<std::size_t>(i)].modifier,
                     binary ? Format::binary : Format::text);
        row.emplace_back(std::move(field));
      }
      append_copy_row(line, copy, names, row);
      ++rows;
      send();
      if (control_.interrupted()) throw PgException("57014", "canceling statement due to user request");
    }
  });
  append_copy_trailer(line, copy);
  send();
  pgwire::append_bare(out_, backend::copy_done);
  return "COPY " + std::to_string(rows);
}

// From the catalog: what SQLite prepares may be of a schema that has changed since, which it sees only at the first step.
std::vector<Session::CopyColumn> Session::columns_of_copy(const dialect::Copy& copy) {
  const auto relations = sql_connection().catalog().relations();
  const auto* relation = relations->find(copy.relation);
  if (relation == nullptr || (copy.table.starts_with("temp.") && !relation->temporary))
    throw PgException("42P01", "relation \"" + copy.relation + "\" does not exist");
  if (relation->kind == 'v' && !copy.from)
    throw PgException(PgError{"42809", "cannot copy from view \"" + relation->name + "\"", {}, "Try the COPY (SELECT ...) TO variant."});
  std::vector<CopyColumn> named;
  const auto add = [&](const dialect::Relations::RelationColumn& column) {
    named.push_back({column.name, {column.type == 0 ? Oid{oid::text} : column.type, column.typmod}});
  };
  if (copy.columns.empty()) {
    for (const auto& column : relation->columns) {
      if (!column.computed) add(column);
    }
    return named;
  }
  for (const std::string& wanted : copy.columns) {
    const auto found = std::find_if(relation->columns.begin(), relation->columns.end(),
                                    [&](const auto& each) { return sqlite3_stricmp(wanted.c_str(), each.name.c_str()) == 0; });
    if (found == relation->columns.end())
      throw PgException("42703", "column \"" + wanted + "\" of relation \"" + relation->name + "\" does not exist");
    if (found->computed)
      throw PgException(
          PgError{"42P10", "column \"" + found->name + "\" is a generated column", "Generated columns cannot be used in COPY."});
    if (std::any_of(named.begin(), named.end(), [&](const CopyColumn& each) { return each.name == found->name; }))
      throw PgException("42701", "column \"" + wanted + "\" specified more than once");
    add(*found);
  }
  return named;
}

void Session::begin_copy_in(const dialect::Copy& copy) {
  tx_.wrote = true;
  if (!copy.where.empty()) throw PgException("0A000", "COPY … WHERE is not spoken here");
  if (tx_.grouped) throw PgException("0A000", "COPY FROM STDIN behind a write of the same pipeline: send a Sync before it");
  if (tx_.read_only) throw PgException("25006", "cannot execute COPY FROM in a read-only transaction");
  become_writer({});
  settle_portals(nullptr);
  tx_.queried = true;
  SqlConnection& on = sql_connection();
  const std::vector<CopyColumn> all = columns_of_copy(copy);
  std::vector<std::string> names;
  std::vector<DeclaredType> types;
  for (const CopyColumn& each : all) {
    names.push_back(each.name);
    types.push_back(each.type);
  }
  std::string columns, marks;
  for (std::size_t i = 0; i < names.size(); ++i) {
    columns += (i == 0 ? "" : ", ") + in_quotes(names[i]);
    marks += (i == 0 ? "?" : ", ?") + std::to_string(i + 1);
  }
  CopyIn in;
  try {
    in.insert = on.prepare("INSERT INTO " + copy.table + " (" + columns + ") VALUES (" + marks + ")");
  } catch (const PgException& failed) {
    if (failed.fault().message.find("because it is a view") == std::string::npos) throw;
    throw PgException(PgError{"42809",
                              "cannot copy to view \"" + copy.relation + "\"",
                              {},
                              "To enable copying to a view, provide an INSTEAD OF INSERT trigger."});
  }
  in.types = std::move(types);
  in.binary = copy.format == dialect::Copy::Format::binary;
  pgwire::append_opaque(out_, backend::copy_in_response, response(in.binary, names.size()));
  in.reader = std::make_unique<CopyReader>(copy, std::move(names));
  copy_in_ = std::move(in);
}

void Session::insert_row(std::vector<std::optional<std::string>>& row) {
  CopyIn& in = *copy_in_;
  std::vector<Stored> values;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!row[i]) {
      values.emplace_back();
      continue;
    }
    if (!in.binary) {
      if (const auto problem = encoding_problem(*row[i])) throw PgException(problem->sqlstate, problem->message);
    }
    // Binary is a value of the type already; text is read as a literal would be.
    auto value =
        in.binary ? parse_value(*row[i], in.types[i].oid, Format::binary) : std::variant<Stored, SqlError>(Stored(std::move(*row[i])));
    if (const Stored* read = std::get_if<Stored>(&value)) value = converted(*read, in.types[i], in.binary ? in.types[i].oid : Oid{0});
    if (const auto* problem = std::get_if<SqlError>(&value)) throw PgException(problem->sqlstate, problem->message);
    values.push_back(std::move(std::get<Stored>(value)));
  }
  sqlite3_reset(in.insert.get());
  bind_values(in.insert.get(), values);
  in.insert.step();
  // What is bound is borrowed.
  sqlite3_reset(in.insert.get());
  sqlite3_clear_bindings(in.insert.get());
  ++in.rows;
}

void Session::copy_bytes(std::string_view bytes) {
  at_work(sql_connection(), [&] { copy_in_->reader->feed(bytes, [&](CopyReader::Row& row) { insert_row(row); }); });
}

void Session::end_copy_in() {
  at_work(sql_connection(), [&] { copy_in_->reader->finish([&](CopyReader::Row& row) { insert_row(row); }); });
  const std::int64_t rows = copy_in_->rows;
  std::string& reply = copy_in_->extended ? out_ : last_;
  copy_in_.reset();
  pgwire::append_command_complete(reply, "COPY " + std::to_string(rows));
}

void Session::abandon_copy() noexcept { copy_in_.reset(); }

}  // namespace termgate::sqlite_server
