// mend: values of an SQLite file that are not in the form of their columns' types are written in it, under a fence. doctor lists them.
#include <functional>
#include <map>
#include <optional>
#include <variant>

#include <fmt/format.h>

#include <termgate/sqlite_server/catalog.hpp>

#include "command.hpp"
#include "commands/stored_rows.hpp"
#include "output.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

using sqlite_server::Meeting;
using sqlite_server::Stored;

constexpr int page_rows = 1000;

struct Column {
  std::string name;
  sqlite_server::DeclaredType type;
  bool generated = false;
};

struct Table {
  std::string name;
  std::vector<std::string> key;  // what names a row: SQLite's row id, or the columns of the primary key
  std::vector<Column> columns;
};

// One value that is not what its column stores.
struct Misfit {
  const Table* table = nullptr;
  const Column* column = nullptr;
  std::vector<Value> key;
  Value value;
  Meeting meeting;
};

std::string quoted(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) out += c == '"' ? std::string(2, c) : std::string(1, c);
  return out + '"';
}

Stored stored_of(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value.variant())) return *whole;
  if (const auto* real = std::get_if<double>(&value.variant())) return *real;
  if (const auto* text = std::get_if<std::string>(&value.variant())) return *text;
  if (const auto* bytes = std::get_if<Bytes>(&value.variant())) return sqlite_server::Blob{bytes->data};
  return std::monostate();
}

Value value_of(const Stored& stored) {
  if (const auto* whole = std::get_if<std::int64_t>(&stored)) return *whole;
  if (const auto* real = std::get_if<double>(&stored)) return *real;
  if (const auto* text = std::get_if<std::string>(&stored)) return *text;
  if (const auto* blob = std::get_if<sqlite_server::Blob>(&stored)) return Bytes{blob->bytes};
  return {};
}

std::vector<Table> tables_of(Database& database, const std::optional<std::string>& only) {
  std::vector<Table> tables;
  const Rows names = database.query(
      "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name "
      "NOT LIKE 'termgate\\_%' ESCAPE '\\' AND ($1 IS NULL OR name = $1 COLLATE NOCASE) ORDER BY name",
      {Value(only)});
  for (const Row& row : names.rows) {
    Table table;
    table.name = row[0].as_text();
    std::map<std::int64_t, std::string> key;
    for (const Row& each :
         database.query("SELECT name, type, pk, hidden FROM pragma_table_xinfo($1) WHERE hidden <> 1 ORDER BY cid", {Value(table.name)})
             .rows) {
      table.columns.push_back({each[0].as_text(), sqlite_server::type_of_declaration(each[1].as_text()), each[3].as_int() != 0});
      if (each[2].as_int() > 0) key[each[2].as_int()] = each[0].as_text();
    }
    if (row[1].as_int() != 0) {
      for (const auto& [place, name] : key) table.key.push_back(quoted(name));
    } else {
      // By the one of its names that no column has.
      for (const char* name : {"rowid", "_rowid_", "oid"}) {
        bool free = table.key.empty();
        for (const Column& column : table.columns) {
          std::string small = column.name;
          for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
          free = free && small != name;
        }
        if (free) table.key.emplace_back(name);
      }
      if (table.key.empty()) continue;
    }
    tables.push_back(std::move(table));
  }
  if (only && tables.empty()) throw UsageError(fmt::format("there is no table {} with rows of its own", *only));
  return tables;
}

// Calls `found` with the misfits of each page of rows, in the order of the key.
void each_page(Database& database, const Table& table, const std::function<void(std::vector<Misfit>&)>& found) {
  std::string columns;
  for (const Column& column : table.columns) columns += ", " + quoted(column.name);
  const std::string key = fmt::format("{}", fmt::join(table.key, ", "));
  std::vector<Value> last;
  for (;;) {
    std::string after;
    for (std::size_t i = 0; i < last.size(); ++i) after += (i == 0 ? "" : ", ") + std::string("$") + std::to_string(i + 1);
    const Rows page = database.query("SELECT " + key + columns + " FROM " + quoted(table.name) +
                                         (last.empty() ? "" : " WHERE (" + key + ") > (" + after + ")") + " ORDER BY " + key + " LIMIT " +
                                         std::to_string(page_rows),
                                     last);
    std::vector<Misfit> misfits;
    for (const Row& row : page.rows) {
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const Value& value = row[table.key.size() + i];
        Meeting meeting = sqlite_server::meeting_of(stored_of(value), table.columns[i].type);
        if (meeting.how == Meeting::How::fits) continue;
        misfits.push_back({&table,
                           &table.columns[i],
                           {row.begin(), row.begin() + static_cast<std::ptrdiff_t>(table.key.size())},
                           value,
                           std::move(meeting)});
      }
    }
    if (!misfits.empty()) found(misfits);
    if (page.rows.size() < page_rows) return;
    last.assign(page.rows.back().begin(), page.rows.back().begin() + static_cast<std::ptrdiff_t>(table.key.size()));
  }
}

std::string shown(const Value& value) {
  std::string text = value.as_text();
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return printable(text);
}

std::string place_of(const Misfit& misfit) {
  std::vector<std::string> key;
  for (const Value& each : misfit.key) key.push_back(printable(each.as_text()));
  return fmt::format("{}.{}, {} {}", printable(misfit.table->name), printable(misfit.column->name), fmt::join(misfit.table->key, ", "),
                     fmt::join(key, ", "));
}

bool can_be_mended(const Misfit& misfit) { return misfit.meeting.how == Meeting::How::other_form && !misfit.column->generated; }

std::int64_t write_one(Transaction& tx, const Misfit& misfit) {
  std::vector<Value> values{value_of(misfit.meeting.proper), misfit.value};
  std::string where;
  for (std::size_t i = 0; i < misfit.key.size(); ++i) {
    where += " AND " + misfit.table->key[i] + " = $" + std::to_string(i + 3);
    values.push_back(misfit.key[i]);
  }
  const std::string column = quoted(misfit.column->name);
  // Only what has been read: a value that was written meanwhile stays.
  return tx.exec_values("UPDATE " + quoted(misfit.table->name) + " SET " + column + " = $1 WHERE " + column + " IS $2" + where, values)
      .affected;
}

struct Outcome {
  std::int64_t mended = 0, could_be = 0, left = 0;
  std::vector<std::string> lines;  // of what is left, the first of them
};

void keep_line(Outcome& outcome, const Misfit& misfit, std::string_view why) {
  ++outcome.left;
  if (outcome.lines.size() < 100)
    outcome.lines.push_back(fmt::format("{}: \"{}\": {}", place_of(misfit), shown(misfit.value), escaped(why)));
}

void mend_page(Database& database, const Arguments& arguments, const std::vector<Misfit>& misfits, Outcome& outcome) {
  std::vector<const Misfit*> writable;
  for (const Misfit& each : misfits) {
    if (can_be_mended(each)) writable.push_back(&each);
    else keep_line(outcome, each, each.column->generated ? "the table reckons it" : each.meeting.problem.message);
  }
  if (arguments.flag("dry-run")) {
    outcome.could_be += static_cast<std::int64_t>(writable.size());
    return;
  }
  const auto write = [&](const std::vector<const Misfit*>& some) {
    std::int64_t changed = 0;
    database.write(arguments.scope(), arguments.term(), [&](Transaction& tx) {
      changed = 0;
      for (const Misfit* each : some) changed += write_one(tx, *each);
    });
    outcome.mended += changed;
  };
  if (writable.empty()) return;
  try {
    write(writable);
  } catch (const DatabaseError&) {
    // A value that would be there twice, or a CHECK of the table's own: the others are written without it.
    for (const Misfit* each : writable) {
      try {
        write({each});
      } catch (const DatabaseError& error) { keep_line(outcome, *each, error.what()); }
    }
  }
}

int run_mend(const Arguments& arguments) {
  Database database = arguments.open();
  if (database.kind() != "sqlite") throw UsageError("mend is for SQLite files: other databases hold their columns' types themselves");
  const bool dry = arguments.flag("dry-run");
  if (!dry && (!arguments.has("scope") || !arguments.has("term")))
    throw UsageError("mend writes: give --scope and --term, or --dry-run to see what it would write");
  Outcome outcome;
  for (const Table& table : tables_of(database, arguments.maybe("table")))
    each_page(database, table, [&](std::vector<Misfit>& misfits) { mend_page(database, arguments, misfits, outcome); });
  if (arguments.json()) {
    boost::json::object document{{"mended", outcome.mended}, {"left", outcome.left}};
    if (dry) document["could_be_mended"] = outcome.could_be;
    document["values_left"] = boost::json::array(outcome.lines.begin(), outcome.lines.end());
    print_json(document);
  } else {
    print_line(dry ? fmt::format("{} values could be mended, {} could not; nothing was written", outcome.could_be, outcome.left)
                   : fmt::format("{} values mended, {} left", outcome.mended, outcome.left));
    for (const std::string& line : outcome.lines) print_line("  " + line);
    if (static_cast<std::int64_t>(outcome.lines.size()) < outcome.left)
      print_line(fmt::format("  and {} more", outcome.left - static_cast<std::int64_t>(outcome.lines.size())));
  }
  return outcome.left == 0 ? Exit::done : Exit::failed;
}

}  // namespace

void add_stored_rows(Database& database, std::vector<Advice>& advice) {
  struct Count {
    std::int64_t other_form = 0, none = 0;
    std::string first;
  };
  for (const Table& table : tables_of(database, std::nullopt)) {
    std::map<const Column*, Count> counts;
    each_page(database, table, [&](std::vector<Misfit>& misfits) {
      for (const Misfit& each : misfits) {
        Count& count = counts[each.column];
        ++(can_be_mended(each) ? count.other_form : count.none);
        if (count.first.empty()) count.first = fmt::format("{}: \"{}\"", place_of(each), shown(each.value));
      }
    });
    for (const auto& [column, count] : counts) {
      advice.push_back(
          {"warning", table.name + "." + column->name,
           fmt::format("{} values are none of its type and {} are not in the form in which it stores them, the first in {}; the "
                       "proxy refuses to read them, and conditions do not find them",
                       count.none, count.other_form, count.first),
           count.other_form > 0 ? "termgate mend writes those in another form anew" : "correct them with the program that wrote them"});
    }
  }
}

void add_stored_defaults(Database& database, std::vector<Advice>& advice) {
  for (const Table& table : tables_of(database, std::nullopt)) {
    const Rows text = database.query("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = $1", {Value(table.name)});
    if (text.rows.empty()) continue;
    std::vector<std::string> names;
    for (const Column& column : table.columns) names.push_back(column.name);
    for (const Row& row :
         database
             .query("SELECT name, type, dflt_value FROM pragma_table_xinfo($1) WHERE hidden = 0 AND dflt_value IS NOT NULL ORDER BY cid",
                    {Value(table.name)})
             .rows) {
      const sqlite_server::ColumnWithDefault column{row[0].as_text(), row[1].as_text(), row[2].as_text()};
      const auto check = sqlite_server::check_against_default(text.rows[0][0].as_text(), column, names);
      if (!check) continue;
      advice.push_back(
          {"warning", table.name + "." + column.name,
           fmt::format("its DEFAULT {} is refused by its own CHECK ({}); earlier builds of the proxy stored a negative default as 0",
                       column.default_text, *check),
           fmt::format("set the default again, as it was meant: ALTER TABLE {} ALTER COLUMN {} SET DEFAULT ...", quoted(table.name),
                       quoted(column.name))});
    }
  }
}

void add_mend_command(std::vector<Command>& commands) {
  commands.push_back({"mend",
                      "rewrite the values of an SQLite file that are not in their columns' form",
                      "Other programs and earlier versions may have stored what the proxy cannot read: 'Jan 6, 2024' in a date, 'yes' in a "
                      "boolean.\nWhat means a value of the type is written as the proxy stores it, in fenced transactions. What means none "
                      "is listed, and stays; the status is then 1.\n"
                      "  termgate mend --db sqlite:app.db --dry-run\n"
                      "  termgate mend --db sqlite:app.db --scope billing --term 7",
                      [](po::options_description& o) {
                        o.add_options()("scope", po::value<std::string>(), "the scope to write under")(
                            "term", po::value<std::string>(), "the writer's term")("table", po::value<std::string>(), "this table only")(
                            "dry-run", po::bool_switch(), "write nothing; show what could be mended and what could not");
                      },
                      {},
                      run_mend});
}

}  // namespace termgate::cli
