// protect and adopt: the triggers of the owners' own tables.
//
// The triggers are generated text, for SQLite has no other kind. Names go through quoted_identifier
// and quoted_literal and through nothing else.
//
// What a protecting trigger must see, beyond the row itself (F1, F2):
//   - every row that REPLACE would remove: SQLite fires no DELETE trigger for it, so each unique key is
//     probed BEFORE INSERT and BEFORE UPDATE with the new row's values;
//   - a scope column whose value is not settled before the row is written (an INTEGER PRIMARY KEY that
//     SQLite fills in, a generated column) is looked at AFTER.
// A BEFORE trigger sees the final values otherwise: SQLite triggers cannot change NEW.
#include <termgate/detail/sqlite/tables.hpp>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/error.hpp>

#include <termgate/detail/sqlite/errors.hpp>
#include <termgate/text/ascii.hpp>
#include <termgate/text/quote.hpp>
#include <termgate/text/scanner.hpp>
#include "json.hpp"
#include "unit.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlite {
namespace {

namespace stmt = termgate::sql::sqlite_statements;

enum class Affinity { integer, text, none, real, numeric };

// "Datatypes in SQLite", section 3.1.
Affinity affinity_of(std::string_view declared) {
  const std::string type = text::lower(declared);
  const auto has = [&](const char* part) { return type.find(part) != std::string::npos; };
  if (has("int")) return Affinity::integer;
  if (has("char") || has("clob") || has("text")) return Affinity::text;
  if (type.empty() || has("blob")) return Affinity::none;
  return has("real") || has("floa") || has("doub") ? Affinity::real : Affinity::numeric;
}

bool names_scopes(Affinity affinity) {
  return affinity == Affinity::integer || affinity == Affinity::text;
}

// The scope that a trigger passes: the prefix, then the column's value. A value that is neither
// text nor integer is passed unchanged, and refused.
std::string scope_expression(const std::string& value, const std::string& prefix) {
  if (prefix.empty()) return value;
  return fmt::format("CASE WHEN typeof({0}) IN ('text', 'integer') THEN {1} || {0} ELSE {0} END",
                     value, quoted_literal(prefix));
}

void require_prefix(std::string_view prefix) {
  if (prefix.find('\0') != std::string_view::npos || prefix.size() > 600)
    throw InvalidInput("TG005 the prefix of a scope may have at most 600 bytes, and no NUL");
}

// The condition of a partial index: what follows the WHERE after the column list in its CREATE
// statement. The column list is the first pair of parentheses outside quotes and comments.
std::string partial_condition(const std::string& sql) {
  int depth = 0;
  bool listed = false;
  text::Scanner scanner(sql, text::Dialect::sqlite);
  for (text::Token token; scanner.next(token);) {
    if (token.text == "(") ++depth;
    else if (token.text == ")") listed = --depth == 0 || listed;
    // A comment at its end would swallow what is appended, so a line break ends it.
    else if (listed && depth == 0 && text::same(token.text, "WHERE"))
      return std::string(scanner.rest()) + "\n";
  }
  return {};
}

// A default whose text means the same inside a trigger: a number or a quoted string.
bool is_literal(const std::string& text) {
  if (text.empty()) return false;
  if (text.front() == '\'') {
    text::Scanner scanner(text, text::Dialect::sqlite);
    text::Token token;
    return scanner.next(token) && token.ends && scanner.rest().empty();
  }
  const std::size_t start = text[0] == '-' || text[0] == '+' ? 1 : 0;
  return start < text.size() && text.find_first_not_of("0123456789.", start) == std::string::npos;
}

// How often a text of SQL names something, quoted or not. It counts too many rather than too few if
// the name cannot be searched for.
int times_named(std::string_view sql, std::string_view name) {
  const auto part_of_name = [](char c) {
    return text::is_letter_or_digit(c) || c == '_' || c == '$' || text::is_high(c);
  };
  if (name.empty() || name.find_first_of("\"`]'") != std::string_view::npos) return 100;
  int times = 0;
  for (std::size_t at = 0; at + name.size() <= sql.size(); ++at) {
    if (!text::same(sql.substr(at, name.size()), name)) continue;
    const bool begins = at == 0 || !part_of_name(sql[at - 1]);
    const std::size_t end = at + name.size();
    if (begins && (end == sql.size() || !part_of_name(sql[end]))) ++times;
  }
  return times;
}

// The last argument of each guard call: the mark in the trigger's own file, which is read only if a
// file is attached.
std::string own_mark(const std::string& label) {
  return fmt::format(
      "CASE termgate_guard_load_termgate_extension_first('arm', {}) WHEN 1 THEN (SELECT mark FROM "
      "termgate_here) END",
      label);
}

}  // namespace

std::string quoted_identifier(std::string_view name) {
  if (name.find('\0') != std::string_view::npos) throw InvalidInput("TG005 a name holds a NUL");
  return text::quoted(name, '"');
}

std::string quoted_literal(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) throw InvalidInput("TG005 a text holds a NUL");
  return text::quoted(text, '\'');
}

Tables::Table Tables::find(const std::string& target, const char* what) {
  Table table;
  std::string kind;
  {
    Running read = core_.use(stmt::table_find);
    if (read.bind(target).step()) {
      table.name = read.text(0);
      table.sql = read.text(1);
    }
  }
  if (!table.name.empty()) {
    Running read = core_.use(stmt::table_kind);
    if (read.bind(table.name).step()) {
      kind = read.text(0);
      table.without_rowid = read.integer(1) != 0;
    }
  }
  if (kind != "table" || text::begins(table.name, "sqlite_") ||
      text::begins(table.name, "termgate_")) {
    throw InvalidInput(
        fmt::format("TG005 cannot {} \"{}\": it must be an ordinary table of the main database, "
                    "neither a view, a virtual table nor one of "
                    "Termgate's own",
                    what, target));
  }
  Running read = core_.use(stmt::columns);
  read.bind(table.name);
  while (read.step()) {
    table.columns.push_back({read.text(0), read.text(1), read.integer(2) != 0, read.integer(3) >= 2,
                             read.integer(4) != 0, read.optional_text(5)});
  }
  return table;
}

const Tables::Column& Tables::find_column(const Table& table, const std::string& name) {
  for (const Column& column : table.columns) {
    if (text::same(column.name, name)) return column;
  }
  throw InvalidInput(fmt::format("TG005 table \"{}\" has no column \"{}\"", table.name, name));
}

// Whether REPLACE turns a NULL of this column into the default, which happens after BEFORE triggers
// have run.
bool Tables::filled_late(const Column& column) {
  return column.not_null && column.default_text.has_value();
}

// Whether one of the owner's triggers that run before an UPDATE of the table may change the row
// that is updated.
bool Tables::changed_beneath(const Table& table) {
  Running read = core_.use(stmt::owner_triggers);
  read.bind(table.name);
  while (read.step()) {
    const std::string sql = read.text(0);
    const auto names = [&](const char* word) { return times_named(sql, word) > 0; };
    const bool writes =
        times_named(sql, "UPDATE") > 1 || names("INSERT") || names("REPLACE") || names("DELETE");
    if (names("UPDATE") && (names("BEFORE") || !names("AFTER")) && writes) return true;
  }
  return false;
}

// " AND …": the new row meets the condition of a partial index, or this cannot be known before the
// row is written. The columns in the condition get the values of NEW under the table's own name,
// with their affinities, which NEW itself lacks.
std::string Tables::enters(const Table& table, const std::string& condition,
                           const std::string& rowid) {
  std::string row, odd;
  int named = 0;
  bool untyped = false;
  for (const char* hidden : {"rowid", "_rowid_", "oid"}) {
    if (times_named(condition, hidden) > 0) return {};
  }
  for (const Column& column : table.columns) {
    if (times_named(condition, column.name) == 0) continue;
    const std::string quoted = quoted_identifier(column.name);
    if (column.generated || quoted == rowid || times_named(condition, column.name) >= 100)
      return {};
    const auto value = [&](const char* type, const char* fit) {
      row +=
          fmt::format("{}CAST(NEW.{} AS {}) AS {}", row.empty() ? "" : ", ", quoted, type, quoted);
      odd += fmt::format("typeof(NEW.{}) NOT IN ('null', {}) OR ", quoted, fit);
    };
    switch (affinity_of(column.type)) {
      case Affinity::integer:
      case Affinity::numeric: value("NUMERIC", "'integer', 'real'"); break;
      case Affinity::real: value("REAL", "'real'"); break;
      case Affinity::text: value("TEXT", "'text'"); break;
      case Affinity::none:
        row += fmt::format("{}NEW.{} AS {}", row.empty() ? "" : ", ", quoted, quoted);
        untyped = true;
    }
    if (filled_late(column)) odd += fmt::format("NEW.{} IS NULL OR ", quoted);
    ++named;
  }
  // Two columns without a type are compared by another rule than two values.
  if (named == 0 || (untyped && named > 1)) return {};
  return fmt::format(" AND ({}EXISTS (SELECT 1 FROM (SELECT {}) AS {} WHERE ({})))", odd, row,
                     quoted_identifier(table.name), condition);
}

// Long: the text of a table's triggers, which share its names.
Tables::Triggers Tables::protect_triggers(const Table& table,
                                          const std::optional<std::string>& scope_column,
                                          const std::optional<std::string>& scope,
                                          const std::string& mode) {
  const std::string target = quoted_identifier(table.name);
  const std::string label = quoted_literal(table.name);
  const bool any = scope == "*";
  const std::string kind = mode == "observe" ? (any ? "'observe any'" : "'observe'")
                           : any             ? "'any'"
                                             : "'row'";
  const std::string mark = own_mark(label);
  auto guard = [&](const std::string& more, const std::string& tail) {
    // RAISE is never reached: its presence makes SQLite able to undo the rows a statement changed
    // before.
    return fmt::format(
        "  SELECT CASE WHEN termgate_guard_load_termgate_extension_first({}, {}{}, {}) IS NULL "
        "THEN RAISE(ABORT, 'TG005 refused') "
        "END{};\n",
        kind, label, more, mark, tail);
  };
  Triggers triggers;
  auto add = [&](std::string_view name, std::string_view when, const std::string& body) {
    if (body.empty()) return;
    const std::string trigger = fmt::format("{}{}_{}", protect_prefix, name, table.name);
    triggers.emplace_back(trigger, fmt::format("CREATE TRIGGER {} {} ON {}\nBEGIN\n{}END",
                                               quoted_identifier(trigger), when, target, body));
  };
  if (scope) {
    const std::string body =
        guard(*scope == "*" ? std::string() : ", " + quoted_literal(*scope), "");
    add("insert", "BEFORE INSERT", body);
    add("update", "BEFORE UPDATE", body);
    add("delete", "BEFORE DELETE", body);
    return triggers;
  }

  const Column& column = find_column(table, *scope_column);
  const std::string name = quoted_identifier(column.name);
  const std::string prefix = scope_prefix("protect", table.name);
  const auto scope_in = [&](const std::string& row) {
    return scope_expression(row + "." + name, prefix);
  };
  struct Index {
    std::string name, origin, condition;
  };
  std::vector<Index> indexes;
  bool key_has_index = false;
  {
    Running read = core_.use(stmt::indexes);
    read.bind(table.name);
    while (read.step()) {
      if (read.integer(1) == 0) continue;
      Index index{read.text(0), read.text(2), {}};
      key_has_index = key_has_index || index.origin == "pk";
      if (read.integer(3) != 0) index.condition = partial_condition(read.text(4));
      indexes.push_back(std::move(index));
    }
  }
  // The rowid: its alias if there is one, otherwise one of its names that no column hides.
  std::string rowid;
  if (!table.without_rowid) {
    for (const Column& key : table.columns) {
      if (key.key && !key_has_index && text::same(key.type, "INTEGER"))
        rowid = quoted_identifier(key.name);
    }
    for (const char* candidate : {"rowid", "_rowid_", "oid"}) {
      const bool hidden =
          std::any_of(table.columns.begin(), table.columns.end(),
                      [&](const Column& other) { return text::same(other.name, candidate); });
      if (rowid.empty() && !hidden) rowid = candidate;
    }
  }
  const bool is_rowid = rowid == name;
  const bool settled_before = !is_rowid && !column.generated;
  // If SQLite chooses the key, BEFORE INSERT shows -1 instead.
  const std::string chosen_late =
      rowid.empty() ? std::string() : fmt::format(" WHERE NEW.{} = -1", rowid);
  const bool key_used_elsewhere =
      rowid.starts_with('"') && times_named(table.sql, rowid.substr(1, rowid.size() - 2)) != 1;

  std::string victims_insert, victims_update;
  // The rows that the new row would conflict with. They get an alias, because a table may be named
  // old or new. The condition is evaluated where only the table is visible, as in its index.
  auto met = [&](const std::string& keys, const std::string& condition) {
    return fmt::format(" FROM (SELECT {}{} AS scope FROM {}{}) AS met", keys, scope_in(target),
                       target,
                       condition.empty() ? std::string() : fmt::format(" WHERE ({})", condition));
  };
  auto victims = [&](const std::string& from, const std::string& same, const std::string& changed,
                     const std::string& known) {
    victims_insert += guard(", met.scope", fmt::format("{} WHERE {}{}", from, same, known));
    victims_update +=
        guard(", met.scope", fmt::format("{} WHERE {} AND ({})", from, same, changed));
  };
  std::string surely;
  if (!rowid.empty()) {
    const std::string from = met(fmt::format("{}.{} AS k, ", target, rowid), {});
    const std::string same = fmt::format("met.k = NEW.{}", rowid);
    victims_insert +=
        guard(", met.scope", fmt::format("{} WHERE {} AND NEW.{} <> -1", from, same, rowid));
    victims_update += guard(", met.scope", fmt::format("{} WHERE {} AND NEW.{} IS NOT OLD.{}", from,
                                                       same, rowid, rowid));
    if (mode != "observe") {
      victims_insert += fmt::format(
          "  SELECT termgate_guard_load_termgate_extension_first('perhaps', {}, met.scope){} WHERE "
          "{} AND NEW.{} = -1;\n",
          label, from, same, rowid);
      surely = fmt::format(
          "  SELECT CASE WHEN termgate_guard_load_termgate_extension_first('surely', {}, {}) IS "
          "NULL THEN RAISE(ABORT, 'TG005 refused') "
          "END{};\n",
          label, mark, chosen_late);
    }
  }
  // Requires recursive triggers for removals that only SQLite's own DELETE triggers can see:
  // always, or under the condition `tail`.
  auto ask_for_recursion = [&](std::string& into, const std::string& tail) {
    if (mode == "observe") return;
    into += fmt::format(
        "  SELECT CASE WHEN termgate_guard_load_termgate_extension_first('replace', {}, {}) IS "
        "NULL THEN RAISE(ABORT, 'TG005 "
        "refused') END{};\n",
        label, mark, tail);
  };
  for (const Index& index : indexes) {
    std::string keys, same, changed;
    bool expression = false, generated = false, has_rowid = false;
    int columns = 0;
    std::vector<std::string> unforeseen;
    Running read = core_.use(stmt::index_columns);
    read.bind(index.name);
    while (read.step()) {
      const std::string key = read.text(0);
      if (key.empty()) {
        expression = true;
        break;
      }
      const std::string quoted = quoted_identifier(key);
      const std::string collation = quoted_identifier(read.text(1));
      std::string value = "NEW." + quoted;
      const Column& held = find_column(table, key);
      generated = generated || held.generated;
      has_rowid = has_rowid || quoted == rowid;
      if (filled_late(held)) {
        if (is_literal(*held.default_text)) {
          value = fmt::format("coalesce({}, {})", value, *held.default_text);
        } else {
          unforeseen.push_back(quoted);
        }
      }
      keys += fmt::format("{}.{} AS k{}, ", target, quoted, columns);
      same += fmt::format("{}met.k{} = {} COLLATE {}", same.empty() ? "" : " AND ", columns, value,
                          collation);
      changed += fmt::format("{}NEW.{} IS NOT OLD.{} COLLATE {}", changed.empty() ? "" : " OR ",
                             quoted, quoted, collation);
      ++columns;
    }
    // Two rows that conflict there have the same rowid.
    if (has_rowid && !expression) continue;
    if (expression) {
      ask_for_recursion(victims_insert, {});
      ask_for_recursion(victims_update, {});
      continue;
    }
    if (same.empty()) continue;
    if (!index.condition.empty()) same += enters(table, index.condition, rowid);
    // A row that enters a partial index only now also conflicts there.
    const bool known_late = generated && key_used_elsewhere;
    victims(met(keys, index.condition), same, index.condition.empty() ? changed : "1",
            known_late ? fmt::format(" AND NEW.{} <> -1", rowid) : std::string());
    if (generated) {
      for (const Column& source : table.columns) {
        if (filled_late(source)) unforeseen.push_back(quoted_identifier(source.name));
      }
      if (known_late) ask_for_recursion(victims_insert, chosen_late);
    }
    for (const std::string& late : unforeseen) {
      ask_for_recursion(victims_insert, fmt::format(" WHERE NEW.{} IS NULL", late));
      ask_for_recursion(victims_update, fmt::format(" WHERE NEW.{} IS NULL", late));
    }
    // A trigger may change one column of the key during a statement that changes another: then no
    // trigger sees both changes.
    if ((columns > 1 || generated || !index.condition.empty()) && changed_beneath(table))
      ask_for_recursion(victims_update, {});
  }
  const std::string new_row = guard(", " + scope_in("NEW"), "");
  const std::string old_row = guard(", " + scope_in("OLD"), "");
  // Scopes are compared byte by byte, whatever the column's collation.
  const std::string moved_row =
      guard(", " + scope_in("NEW"),
            fmt::format(" WHERE NEW.{} IS NOT OLD.{} COLLATE BINARY", name, name));
  add("insert", "BEFORE INSERT", (settled_before ? new_row : std::string()) + victims_insert);
  add("update", "BEFORE UPDATE",
      old_row + (settled_before ? moved_row : std::string()) + victims_update);
  add("delete", "BEFORE DELETE", old_row);
  add("inserted", "AFTER INSERT", surely + (settled_before ? std::string() : new_row));
  if (!settled_before) add("updated", "AFTER UPDATE", new_row);
  return triggers;
}

Tables::Triggers Tables::adopt_triggers(const Table& table, const std::string& scope_column,
                                        const std::string& term_column) {
  Triggers triggers;
  const std::string scope = quoted_identifier(scope_column), term = quoted_identifier(term_column);
  const std::string body = fmt::format(
      "  SELECT CASE WHEN termgate_guard_load_termgate_extension_first('adopted', {}, {}, NEW.{}, "
      "{}) IS NULL THEN RAISE(ABORT, "
      "'TG005 refused') END;\n",
      quoted_literal(table.name),
      scope_expression("NEW." + scope, scope_prefix("adopt", table.name)), term,
      own_mark(quoted_literal(table.name)));
  // A row reports when it is new, or when its scope or term changes: an UPDATE of other columns
  // must not bring back a term that a reset has revoked.
  const std::string changed = fmt::format(
      "AFTER UPDATE ON {} WHEN NEW.{} IS NOT OLD.{} OR NEW.{} IS NOT OLD.{} COLLATE BINARY",
      quoted_identifier(table.name), term, term, scope, scope);
  for (const auto& [name, when] :
       {std::pair<std::string_view, std::string>{
            "inserted", "AFTER INSERT ON " + quoted_identifier(table.name)},
        std::pair<std::string_view, std::string>{"updated", changed}}) {
    const std::string trigger = fmt::format("{}{}_{}", adopt_prefix, name, table.name);
    triggers.emplace_back(trigger, fmt::format("CREATE TRIGGER {} {}\nBEGIN\n{}END",
                                               quoted_identifier(trigger), when, body));
  }
  return triggers;
}

void Tables::drop_triggers(const std::string& table, std::string_view prefix) {
  std::vector<std::string> names;
  {
    Running read = core_.use(stmt::triggers_of);
    read.bind(table).bind(prefix);
    while (read.step()) names.push_back(read.text(0));
  }
  for (const std::string& name : names)
    core_.execute("DROP TRIGGER main." + quoted_identifier(name));
}

std::int64_t Tables::protect(const std::string& target,
                             const std::optional<std::string>& scope_column,
                             const std::optional<std::string>& scope, const std::string& mode,
                             const std::string& prefix) {
  require_prefix(prefix);
  if (!prefix.empty() && !scope_column)
    throw InvalidInput(
        "TG005 a prefix is put in front of a scope column's value: with one scope for the whole "
        "table there is none");
  if (mode != "enforce" && mode != "observe") {
    throw InvalidInput(fmt::format("TG005 a mode is enforce or observe, not \"{}\"", mode));
  }
  if (scope_column.has_value() == scope.has_value()) {
    throw InvalidInput(
        "TG005 protect needs a scope column, or else a scope ('*' for any that the session has "
        "passed)");
  }
  if (scope && *scope != "*") Scope{*scope};
  Core::Unit unit(core_);
  require_version("protect");
  const Table table = find(target, "protect");
  std::optional<std::string> column;
  if (scope_column) {
    const Column& found = find_column(table, *scope_column);
    if (!names_scopes(affinity_of(found.type))) {
      throw InvalidInput(
          fmt::format("TG005 the scope column \"{}\" of table \"{}\" is declared \"{}\": its type "
                      "must be text or integer",
                      found.name, table.name, found.type));
    }
    column = found.name;
  }
  set_scope_prefix("protect", table.name, prefix);
  const auto triggers = protect_triggers(table, column, scope, mode);
  drop_triggers(table.name, protect_prefix);
  for (const auto& [name, text] : triggers) core_.execute(text);
  core_.use(stmt::protected_delete).bind(table.name).run();
  core_.use(stmt::protected_write)
      .bind(table.name)
      .bind(column)
      .bind(scope)
      .bind(mode)
      .bind(core_.now())
      .run();
  Json detail('{');
  detail.key("table").value(table.name);
  if (column) detail.key("scope_column").value(*column);
  if (!prefix.empty()) detail.key("prefix").value(prefix);
  core_.audit("protect",
              scope && *scope != "*" ? std::optional<std::string_view>(*scope) : std::nullopt,
              detail.key("mode").value(mode).close());
  unit.commit();
  return 1;
}

bool Tables::unprotect(const std::string& target) {
  Core::Unit unit(core_);
  drop_triggers(target, protect_prefix);
  core_.use(stmt::protected_delete).bind(target).run();
  const bool was = core_.changes() > 0;
  set_scope_prefix("protect", target, {});
  if (was) core_.audit("unprotect", std::nullopt, Json('{').key("table").value(target).close());
  unit.commit();
  return was;
}

std::string Tables::scope_prefix(std::string_view made_by, std::string_view table) {
  if (core_.installed_version() < Core::first_with_prefixes) return {};
  Running read = core_.use(stmt::prefix_read);
  return read.bind(made_by).bind(table).step() ? read.text(0) : std::string();
}

void Tables::set_scope_prefix(std::string_view made_by, std::string_view table,
                              std::string_view prefix) {
  core_.use(stmt::prefix_delete).bind(made_by).bind(table).run();
  if (!prefix.empty()) core_.use(stmt::prefix_write).bind(made_by).bind(table).bind(prefix).run();
}

std::int64_t Tables::adopt(const std::string& target, const std::string& scope_column,
                           const std::string& term_column, const std::string& prefix) {
  require_prefix(prefix);
  Core::Unit unit(core_);
  require_version("adopt");
  const Table table = find(target, "adopt");
  const Column& scope = find_column(table, scope_column);
  const Column& term = find_column(table, term_column);
  if (!names_scopes(affinity_of(scope.type)) || affinity_of(term.type) != Affinity::integer) {
    throw InvalidInput(
        fmt::format("TG005 cannot adopt \"{}\": its scope column must be text or integer, its term "
                    "column integer",
                    table.name));
  }
  set_scope_prefix("adopt", table.name, prefix);
  const auto triggers = adopt_triggers(table, scope.name, term.name);
  drop_triggers(table.name, adopt_prefix);
  for (const auto& [name, text] : triggers) core_.execute(text);
  core_.use(stmt::adopted_delete).bind(table.name).run();
  core_.use(stmt::adopted_write)
      .bind(table.name)
      .bind(scope.name)
      .bind(term.name)
      .bind(core_.now())
      .run();

  std::vector<std::pair<std::string, std::int64_t>> highest;
  {
    Statement statement(core_.connection(),
                        fmt::format("SELECT ?1 || CAST({1} AS TEXT) COLLATE BINARY, max({2}) FROM "
                                    "main.{0} WHERE {1} IS NOT NULL AND "
                                    "{2} > 0 GROUP BY CAST({1} AS TEXT) COLLATE BINARY ORDER BY 1",
                                    quoted_identifier(table.name), quoted_identifier(scope.name),
                                    quoted_identifier(term.name)));
    Running read(statement.get());
    read.bind(prefix);
    while (read.step()) {
      const std::string name = read.text(0);
      if (const char* problem = name_problem(name)) {
        throw InvalidInput(fmt::format("TG005 cannot adopt \"{}\": it holds a malformed scope, {}",
                                       table.name, problem));
      }
      if (read.integer(1) > Term::max_value) {
        throw InvalidInput(fmt::format(
            "TG005 cannot adopt \"{}\": scope \"{}\" has term {}, and a term is 1 to 2^62",
            table.name, name, read.integer(1)));
      }
      highest.emplace_back(name, read.integer(1));
    }
  }
  std::int64_t raised = 0;
  for (const auto& [name, shown] : highest) {
    const Fences::Fence fence = fences_.read(name);
    if ((fence.exists && shown <= fence.term) || fences_.taken_back(name, shown)) continue;
    fences_.refuse_passed(name, "an adoption");
    fences_.refuse_unissued(name, shown);
    const std::int64_t known = std::max(shown, fences_.height(name, fence));
    fences_.raise(name, fence, known, fence.untrusted, core_.client(), "raise",
                  Json('{').key("table").value(table.name).members());
    core_.use(stmt::adopted_term_write).bind(name).bind(shown).run();
    ++raised;
  }
  core_.audit("adopt", std::nullopt,
              Json('{').key("table").value(table.name).key("scopes_raised").value(raised).close());
  unit.commit();
  return raised;
}

bool Tables::unadopt(const std::string& target) {
  Core::Unit unit(core_);
  drop_triggers(target, adopt_prefix);
  core_.use(stmt::adopted_delete).bind(target).run();
  const bool was = core_.changes() > 0;
  set_scope_prefix("adopt", target, {});
  if (was) core_.audit("unadopt", std::nullopt, Json('{').key("table").value(target).close());
  unit.commit();
  return was;
}

void Tables::require_version(const char* what) {
  if (const int version = core_.installed_version();
      version > 0 && version < Core::first_with_prefixes) {
    throw DatabaseError(fmt::format(
        "cannot {} a table with version {} of Termgate's tables: run termgate init first", what,
        version));
  }
}

std::vector<std::string> Tables::outdated_triggers(bool mend) {
  struct Wanted {
    std::string table;
    std::string_view prefix;
    Triggers triggers;
  };
  std::vector<Wanted> all;
  const auto want = [&](const std::string& name, std::string_view prefix,
                        const auto& triggers_for) {
    try {
      all.push_back({name, prefix, triggers_for(find(name, "protect"))});
    } catch (const InvalidInput&) {
      // Its table or its column is gone, which doctor reports.
    }
  };
  {
    Running read = core_.use(stmt::protected_all);
    while (read.step()) {
      want(read.text(0), protect_prefix, [&](const Table& table) {
        return protect_triggers(table, read.optional_text(1), read.optional_text(2), read.text(3));
      });
    }
  }
  {
    Running read = core_.use(stmt::adopted_read);
    while (read.step()) {
      want(read.text(0), adopt_prefix, [&](const Table& table) {
        find_column(table, read.text(1));
        find_column(table, read.text(2));
        return adopt_triggers(table, read.text(1), read.text(2));
      });
    }
  }
  std::vector<std::string> outdated;
  for (Wanted& wanted : all) {
    Triggers present;
    {
      Running read = core_.use(stmt::triggers_of);
      read.bind(wanted.table).bind(wanted.prefix);
      while (read.step()) present.emplace_back(read.text(0), read.text(1));
    }
    auto sorted = wanted.triggers;
    std::sort(sorted.begin(), sorted.end());
    std::sort(present.begin(), present.end());
    if (sorted == present) continue;
    outdated.push_back(wanted.table);
    if (!mend) continue;
    drop_triggers(wanted.table, wanted.prefix);
    for (const auto& [name, text] : wanted.triggers) core_.execute(text);
  }
  return outdated;
}

// ------------------------------------------------------------------------------------------------
// doctor, verify

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
