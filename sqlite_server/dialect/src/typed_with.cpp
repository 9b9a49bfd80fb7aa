// Statements of WITH that write. SQLite has none: each is run by itself, in front of the rest, and what it returns is a parameter of what
// comes after. In PostgreSQL all of them, and the statement itself, see the tables as they were before: so what one of them writes must not
// be read or written by another.
#include <algorithm>
#include <utility>

#include "names.hpp"
#include "typed.hpp"

namespace termgate::dialect {

using resolution::spoken;

namespace {

std::size_t mentions_of(Node node, const std::string& name) {
  std::size_t count = 0;
  std::vector<Node> open{node};
  while (!open.empty()) {
    const Node next = open.back();
    open.pop_back();
    if (next["relname"] && lowered(next.text("relname")) == lowered(name)) ++count;
    next.children(open);
  }
  return count;
}

void collect_names(Node node, std::set<std::string>& names) {
  std::vector<Node> open{node};
  while (!open.empty()) {
    const Node next = open.back();
    open.pop_back();
    if (next["relname"]) names.insert(next.text("relname"));
    next.children(open);
  }
}

std::string with_parts(const std::vector<std::string>& parts, const std::string& sql) {
  if (parts.empty()) return sql;
  for (const std::string_view head : {"WITH RECURSIVE ", "WITH "}) {
    if (sql.starts_with(head)) return std::string(head) + joined(parts, ", ") + ", " + sql.substr(head.size());
  }
  return "WITH " + joined(parts, ", ") + " " + sql;
}

}  // namespace

// What the WITH of later statements has of it; empty: nothing.
std::string Typed::step(Node cte_body, Cte& cte, const std::vector<std::string>& parts) {
  const Node statement = cte_body["ctequery"], body = statement.body();
  const bool insert_kind = statement.is("InsertStmt"), update_kind = statement.is("UpdateStmt");
  if (!insert_kind && !update_kind && !statement.is("DeleteStmt")) refuse("this statement within WITH", cte_body);
  if (step_outs_ != nullptr) refuse_as("0A000", "WITH clause containing a data-modifying statement must be at the top level", cte_body);
  std::vector<Out> outs;
  step_outs_ = &outs;
  std::vector<std::string> sql = std::exchange(out_.sql, {});
  const bool rows = std::exchange(out_.returns_rows, false);
  const std::string tag = out_.tag;
  const Effect effect = out_.effect;
  const Place outside = std::exchange(place_, Place::plain);
  std::vector<Scope> scopes = std::exchange(scopes_, {});
  if (insert_kind) insert(body);
  else if (update_kind) update(body);
  else remove(body);
  scopes_ = std::move(scopes);
  place_ = outside;
  step_outs_ = nullptr;
  Translated::Step made_step;
  made_step.sql = std::exchange(out_.sql, std::move(sql));
  made_step.rows = std::exchange(out_.returns_rows, rows);
  out_.tag = tag;
  out_.effect = effect;
  for (std::string& each : made_step.sql) each = with_parts(parts, each);
  cte.silent = !made_step.rows;
  out_.steps.push_back(std::move(made_step));
  steps_done_.push_back(cte_body);
  if (cte.silent) return {};
  const std::vector<std::string> names = strings(cte_body["aliascolnames"]);
  if (names.size() > outs.size())
    refuse_as("42P10",
              "WITH query \"" + cte.name + "\" has " + std::to_string(outs.size()) + " columns available but " +
                  std::to_string(names.size()) + " columns specified",
              cte_body);
  std::vector<std::string> quoted, values;
  for (std::size_t i = 0; i < outs.size(); ++i) {
    const Oid type = outs[i].type;
    const Value text{"json_extract(pg_s.value, '$[" + std::to_string(i) + "]')", primary, oid::text};
    const bool as_it_is = type == oid::text || type == oid::varchar || type == oid::bpchar || resolution::is_array(type);
    values.push_back((as_it_is ? text : from_text(text, type)).text);
    ScopeColumn column;
    column.name = i < names.size() ? names[i] : outs[i].name;
    column.value.type = type;
    column.value.typmod = outs[i].typmod;
    quoted.push_back(quoted_name(column.name));
    cte.columns.push_back(std::move(column));
  }
  return quoted_name(cte.name) + "(" + joined(quoted, ", ") + ") AS (SELECT " + joined(values, ", ") + " FROM json_each(:pg_step" +
         std::to_string(out_.steps.size()) + ") AS pg_s)";
}

void Typed::check_steps(Node body) const {
  std::set<std::string> names;
  collect_names(body, names);
  std::set<std::string> ctes;
  for (const Node item : body["withClause"]["ctes"].items()) ctes.insert(item.as("CommonTableExpr").text("ctename"));
  for (const std::string& name : names) {
    const Relations::Relation* found = relations_.find(name);
    if (found != nullptr && found->kind == 'v' && !ctes.contains(name)) refuse("a view beside a statement that writes within WITH");
  }
  for (const Node cte_body : steps_done_) {
    const Node statement = cte_body["ctequery"];
    const std::string name = statement.body()["relation"].text("relname");
    const Relations::Relation* target = relations_.find(name);
    if (target == nullptr) continue;
    // Its own name for what it returns hides the table.
    std::size_t hidden = 0;
    if (ctes.contains(name)) {
      if (cte_body.text("ctename") != name) refuse("a WITH whose names hide a table that it writes", cte_body);
      for (const std::string_view part : {"fromClause", "usingClause", "selectStmt", "whereClause", "targetList", "returningList"})
        hidden += mentions_of(body[part], name);
    }
    if (mentions_of(body, name) > mentions_of(cte_body, name) + hidden)
      refuse("a WITH whose statement reads or writes \"" + name + "\" again, which one of its parts writes", cte_body);
    for (const auto& [reader, mentioned] : target->readers) {
      if (reader.starts_with("trigger ")) refuse("a statement within WITH that writes a table with triggers", cte_body);
    }
    for (const auto& each : target->others) {
      const bool cascades = (each.on_delete != 'a' && each.on_delete != 'r') || (each.on_update != 'a' && each.on_update != 'r');
      if (cascades && !statement.is("InsertStmt")) refuse("a statement within WITH whose foreign keys write other tables", cte_body);
    }
  }
}

}  // namespace termgate::dialect
