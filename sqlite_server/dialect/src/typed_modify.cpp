// INSERT, UPDATE and DELETE: each value is converted to its column's type as PostgreSQL assigns it.
#include <algorithm>
#include <utility>

#include "names.hpp"
#include "shapes.hpp"
#include "typed.hpp"

namespace termgate::dialect {

using resolution::spoken;

namespace {

const Relations::Relation::Item* item_named(const Relations::Relation& relation, const std::string& column) {
  for (const auto& item : relation.items) {
    if (!item.column.empty() && lowered(item.column) == lowered(column)) return &item;
  }
  return nullptr;
}

// The key that counts, to which NULL is its next number.
bool is_counted(const Relations::Relation& relation, const std::string& column) {
  return relation.counted && relation.key.size() == 1 && relation.columns[relation.key[0]].name == column;
}

// The columns of ON CONFLICT ON CONSTRAINT.
std::vector<std::string> constraint_columns(const Relations::Relation& relation, const std::string& name, Node at) {
  std::vector<std::string> parts;
  const auto put = [&](const std::vector<std::string>& columns) {
    for (const std::string& column : columns) parts.push_back(quoted_name(column));
  };
  for (const auto& item : relation.items) {
    for (const auto& clause : item.clauses) {
      if (clause.name == name && (clause.kind == 'u' || clause.kind == 'p')) put(clause.columns);
    }
  }
  for (const auto& index : relation.indexes) {
    if (index.name == name && index.unique && index.whole) put(index.columns);
  }
  if (parts.empty()) refuse_as("42704", "constraint \"" + name + "\" for table \"" + relation.name + "\" does not exist", at);
  return parts;
}

}  // namespace

const Relations::Relation& Typed::target(Node body) {
  const Relations::Relation* found = relations_.find(body.text("relname"));
  const std::string schema = body.text("schemaname");
  if (found == nullptr || (!schema.empty() && schema != "public" && schema != "main" && schema != "temp" && schema != "pg_temp")) {
    if (!schema.empty() && schema != "public") refuse_as("3F000", "schema \"" + schema + "\" does not exist", body);
    refuse_as("42P01", "relation \"" + (schema.empty() ? "" : schema + ".") + body.text("relname") + "\" does not exist", body);
  }
  return *found;
}

const Relations::RelationColumn& Typed::target_column(const Relations::Relation& relation, const std::string& name, Node at) const {
  const auto found = std::find_if(relation.columns.begin(), relation.columns.end(), [&](const auto& each) { return each.name == name; });
  if (found == relation.columns.end())
    refuse_as("42703", "column \"" + name + "\" of relation \"" + relation.name + "\" does not exist", at);
  return *found;
}

// The target among what the statement sees; its name for SQLite.
std::string Typed::target_scope(Node body, const Relations::Relation& relation) {
  (void)relation;
  From own = this->relation(body);
  std::string text = own.text;
  bring(std::move(own));
  return text;
}

std::string Typed::returning(Node list, Node range_var, const Relations::Relation& relation) {
  if (!list) return {};
  out_.returns_rows = true;
  // SQLite knows the columns by their bare names here.
  Scope seen;
  const std::string name = range_var["alias"] ? range_var["alias"].text("aliasname") : range_var.text("relname");
  Relation own;
  own.name = name;
  for (std::size_t i = 0; i < relation.columns.size(); ++i) {
    const auto& column = relation.columns[i];
    ScopeColumn each;
    each.name = column.name;
    each.relation = name;
    each.place = i;
    each.value = {quoted_name(column.name), primary, column.type, column.typmod,
                  column.type == oid::numeric || column.type == oid::float4 || column.type == oid::bpchar};
    own.columns.push_back(std::move(each));
  }
  seen.visible = own.columns;
  seen.relations.push_back(std::move(own));
  // The names of FROM and USING are heard, too.
  for (Relation other : scopes_.back().relations) {
    if (other.name == name) continue;
    for (ScopeColumn& each : other.columns) each.unseen = true;
    for (const ScopeColumn& each : other.columns) seen.visible.push_back(each);
    seen.relations.push_back(std::move(other));
  }
  std::swap(scopes_.back(), seen);
  const Place outside = std::exchange(place_, Place::returning);
  std::vector<std::string> parts;
  for (Target& each : targets(list)) {
    const Value value = decided(each.value);
    if (step_outs_ != nullptr) {
      step_outs_->push_back({each.name, value.type, value.typmod, false});
      parts.push_back(element_text(value));
      continue;
    }
    out_.columns.push_back({false, each.name, value.type, value.typmod});
    parts.push_back(value.text + " AS " + quoted_name(each.name));
  }
  place_ = outside;
  std::swap(scopes_.back(), seen);
  if (step_outs_ != nullptr) return " RETURNING json_array(" + joined(parts, ", ") + ")";
  return " RETURNING " + joined(parts, ", ");
}

// A column's DEFAULT as the schema has it.
std::string Typed::default_of(const Relations::Relation& relation, const std::string& column, bool counts_too, Node at) const {
  if (is_counted(relation, column)) {
    if (counts_too) return "NULL";
    refuse("SET … = DEFAULT of a key that counts", at);
  }
  const auto* item = item_named(relation, column);
  if (item == nullptr) refuse("DEFAULT of a column of this relation", at);
  for (const auto& clause : item->clauses) {
    if (clause.kind == 'g') refuse("SET … = DEFAULT of a generated column", at);
    if (clause.kind != 'd') continue;
    const auto begin = lowered(clause.text).find("default");
    return "(" + clause.text.substr(begin + 7) + ")";
  }
  return "NULL";
}

std::string Typed::assignments(Node list, const Relations::Relation& relation) {
  std::vector<std::string> parts;
  std::set<std::string> seen;
  const std::vector<Node> items = list.items();
  const auto column_of = [&](Node body) -> const Relations::RelationColumn& {
    if (body["indirection"]) refuse("an assignment to a part of a column", body);
    const auto& column = target_column(relation, body.text("name"), body);
    if (!seen.insert(column.name).second) refuse_as("42601", "multiple assignments to same column \"" + column.name + "\"", body);
    if (column.generated) refuse_as("428C9", "column \"" + column.name + "\" can only be updated to DEFAULT", body);
    return column;
  };
  const auto set = [&](const Relations::RelationColumn& column, Node value, Node at) {
    if (is_default(value)) {
      parts.push_back(quoted_name(column.name) + " = " + default_of(relation, column.name, false, at));
      return;
    }
    parts.push_back(quoted_name(column.name) + " = " + wrapped(assigned(expression(value), column, at), disjunction));
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Node body = items[i].as("ResTarget");
    const Node multi = body["val"].as("MultiAssignRef");
    if (!multi) {
      set(column_of(body), body["val"], body);
      continue;
    }
    const auto count = static_cast<std::size_t>(multi.integer("ncolumns"));
    const Node source = multi["source"];
    if (const Node row = source.as("RowExpr")) {
      if (row["args"].size() != count) refuse_as("42601", "number of columns does not match number of values", body);
      for (std::size_t k = 0; k < count && i + k < items.size(); ++k) set(column_of(items[i + k].as("ResTarget")), row["args"].at(k), body);
    } else if (const Node link_body = source.as("SubLink")) {
      const Query sub = query(link_body["subselect"].as("SelectStmt"));
      if (sub.outs.size() != count) refuse_as("42601", "number of columns does not match number of values", body);
      if (!sub.one_row) refuse("a row from a subquery that may have several (write one subquery a column)", body);
      std::vector<std::string> names;
      for (std::size_t k = 0; k < count && i + k < items.size(); ++k) {
        const auto& column = column_of(items[i + k].as("ResTarget"));
        if (column.type != sub.outs[k].type || column.typmod != sub.outs[k].typmod || column.type == oid::numeric)
          refuse("a row from a subquery whose types are not the columns'", body);
        names.push_back(quoted_name(column.name));
      }
      parts.push_back("(" + joined(names, ", ") + ") = (" + sub.text + ")");
    } else {
      refuse("this assignment", body);
    }
    i += count - 1;
  }
  return joined(parts, ", ");
}

// Fails (21000) where the statement itself has inserted or changed the row.
std::string Typed::once(Node range_var, const Relations::Relation& relation) const {
  if (!relation.rowid) refuse("ON CONFLICT DO UPDATE with several rows for a table WITHOUT ROWID", range_var);
  for (const std::string_view name : {"rowid", "_rowid_", "oid"}) {
    if (std::any_of(relation.columns.begin(), relation.columns.end(), [&](const auto& each) { return lowered(each.name) == name; }))
      continue;
    const std::string own = range_var["alias"] ? range_var["alias"].text("aliasname") : relation.name;
    return "pg_upsert_once(" + quoted_text(relation.name) + ", " + quoted_name(own) + "." + std::string(name) + ")";
  }
  refuse("ON CONFLICT DO UPDATE with several rows for this table", range_var);
}

// `many`: the statement inserts several rows, of which PostgreSQL lets no two meet in one that is there.
std::string Typed::conflict(Node clause, Node range_var, const Relations::Relation& relation, bool many) {
  if (!clause) return {};
  const Node infer = clause["infer"];
  std::string text = " ON CONFLICT";
  if (infer) {
    std::vector<std::string> parts;
    if (infer["conname"]) parts = constraint_columns(relation, infer.text("conname"), infer);
    for (const Node element_node : infer["indexElems"].items()) {
      const Node body = element_node.as("IndexElem");
      if (body["expr"]) refuse("ON CONFLICT with an expression", infer);
      parts.push_back(quoted_name(target_column(relation, body.text("name"), infer).name));
    }
    text += " (" + joined(parts, ", ") + ")";
    if (infer["whereClause"]) refuse("ON CONFLICT … WHERE before DO", infer);
  }
  if (clause["action"].string() == "ONCONFLICT_NOTHING") return text + " DO NOTHING";
  Scope seen;
  std::swap(scopes_.back(), seen);
  Relation excluded;
  excluded.name = "excluded";
  From own = this->relation(range_var);
  for (const ScopeColumn& column : own.visible) {
    ScopeColumn each = column;
    each.relation = "excluded";
    each.value.text = "excluded." + quoted_name(column.name);
    excluded.columns.push_back(std::move(each));
  }
  bring(std::move(own));
  // Unqualified, a name is ambiguous, as in PostgreSQL.
  for (const ScopeColumn& each : excluded.columns) scopes_.back().visible.push_back(each);
  scopes_.back().relations.push_back(std::move(excluded));
  const Place outside = std::exchange(place_, Place::update);
  text += " DO UPDATE SET " + assignments(clause["targetList"], relation);
  place_ = Place::where;
  std::string test = clause["whereClause"] ? condition(clause["whereClause"], "WHERE").text : "";
  if (many) test = "CASE WHEN " + once(range_var, relation) + " THEN " + (test.empty() ? "1" : "(" + test + ")") + " END";
  if (!test.empty()) text += " WHERE " + test;
  place_ = outside;
  std::swap(scopes_.back(), seen);
  return text;
}

// The lines of VALUES, converted to the columns' types. SQLite has no DEFAULT among values: a column that has it is left out.
std::vector<Typed::Line> Typed::lines_of(const Relations::Relation& relation, Node lists,
                                         const std::vector<const Relations::RelationColumn*>& columns, bool named, bool overriding) {
  std::vector<Line> lines;
  std::size_t width = 0;
  // Where the rows differ in what is DEFAULT, it is written out.
  bool differ = false;
  const auto defaults = [](Node row) {
    std::string marks;
    for (const Node item : row.as("List")["items"].items()) marks += is_default(item) ? 'd' : 'v';
    return marks;
  };
  const std::vector<Node> all_rows = lists.items();
  for (const Node row : all_rows) differ = differ || defaults(row) != defaults(all_rows.front());
  const Place outside = std::exchange(place_, Place::values);
  for (const Node row : lists.items()) {
    Line line;
    const std::vector<Node> items = row.as("List")["items"].items();
    if (!lines.empty() && items.size() != width) refuse_as("42601", "VALUES lists must all be the same length");
    width = items.size();
    if (items.size() > columns.size()) refuse_as("42601", "INSERT has more expressions than target columns");
    if (named && items.size() < columns.size()) refuse_as("42601", "INSERT has more target columns than expressions");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (is_default(items[i]) && (!differ || columns[i]->generated)) {
        if (differ && !is_counted(relation, columns[i]->name)) refuse("DEFAULT of a generated column beside other rows", items[i].body());
        if (!differ) continue;
      }
      if (is_default(items[i])) {
        line.names.push_back(quoted_name(columns[i]->name));
        line.values.push_back(default_of(relation, columns[i]->name, true, items[i].body()));
        continue;
      }
      if (columns[i]->generated && !overriding)
        refuse_as("428C9", "cannot insert a non-DEFAULT value into column \"" + columns[i]->name + "\"", items[i].body());
      const Value value = expression(items[i]);
      line.names.push_back(quoted_name(columns[i]->name));
      line.values.push_back(assigned(value, *columns[i], value.at).text);
    }
    lines.push_back(std::move(line));
  }
  place_ = outside;
  return lines;
}

void Typed::insert_lines(const std::string& head, const std::vector<Line>& lines, const std::string& tail, Node body) {
  std::vector<std::string> rows;
  std::size_t begun = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    rows.push_back("(" + joined(lines[i].values, ", ") + ")");
    if (i + 1 < lines.size() && lines[i + 1].names == lines[i].names && !lines[i].values.empty()) continue;
    if (begun > 0 && body["returningList"]) refuse("RETURNING where rows differ in what is DEFAULT");
    if (lines[i].values.empty()) {
      if (body["onConflictClause"]) refuse("DEFAULT for every column here");
      add(head + " DEFAULT VALUES" + tail);
    } else {
      add(head + " (" + joined(lines[i].names, ", ") + ") VALUES " + joined(rows, ", ") + tail);
    }
    ++begun;
    rows.clear();
  }
  if (begun > 1 && body["returningList"]) refuse("RETURNING where rows differ in what is DEFAULT");
}

// INSERT … SELECT: " (columns) SELECT …".
std::string Typed::insert_query(Node select, const std::vector<const Relations::RelationColumn*>& columns, bool named, bool conflicts) {
  const bool set = select["larg"] || select["rarg"];
  const std::size_t known = ctes_.size();
  const std::string inner_with = with(select["withClause"]);
  Query sub = set ? set_operation(select, {}) : simple(select, {}, &columns);
  ctes_.resize(known);
  if (sub.outs.size() > columns.size()) refuse_as("42601", "INSERT has more expressions than target columns");
  if (named && sub.outs.size() < columns.size()) refuse_as("42601", "INSERT has more target columns than expressions");
  std::vector<std::string> names, values, inner;
  const std::string from_name = made("i"), with_name = made("w");
  for (std::size_t i = 0; i < sub.outs.size(); ++i) {
    if (columns[i]->generated) refuse_as("428C9", "cannot insert a non-DEFAULT value into column \"" + columns[i]->name + "\"");
    inner.push_back("c" + std::to_string(i + 1));
    names.push_back(quoted_name(columns[i]->name));
    const Value each{from_name + "." + inner.back(), primary, sub.outs[i].type, sub.outs[i].typmod, sub.outs[i].stored};
    values.push_back(set ? assigned(each, *columns[i], {}).text : each.text);
  }
  // Without a WHERE, SQLite reads ON CONFLICT as the ON of a join.
  return " (" + joined(names, ", ") + ") SELECT " + joined(values, ", ") + " FROM (WITH " + with_name + "(" + joined(inner, ", ") +
         ") AS (" + inner_with + sub.text + ") SELECT * FROM " + with_name + ") AS " + from_name + (conflicts ? " WHERE true" : "");
}

void Typed::insert(Node body) {
  out_.effect = Effect::write;
  out_.tag = "INSERT";
  scopes_.emplace_back();
  const Node range_var = body["relation"];
  const Relations::Relation& relation = target(range_var);
  const std::string as = range_var["alias"] ? " AS " + quoted_name(range_var["alias"].text("aliasname")) : "";
  const std::string head = with(body["withClause"]) + "INSERT INTO " + relation_name(range_var) + as;
  std::vector<const Relations::RelationColumn*> columns;
  std::set<std::string> seen;
  for (const Node column_node : body["cols"].items()) {
    const Node each = column_node.as("ResTarget");
    if (each["indirection"]) refuse("an assignment to a part of a column", each);
    columns.push_back(&target_column(relation, each.text("name"), each));
    if (!seen.insert(columns.back()->name).second)
      refuse_as("42701", "column \"" + columns.back()->name + "\" specified more than once", each);
  }
  const bool named = !columns.empty();
  if (!named) {
    for (const auto& each : relation.columns) columns.push_back(&each);
  }
  const Node select = body["selectStmt"].as("SelectStmt"), on_conflict = body["onConflictClause"];
  const auto tail = [&] {
    const bool one = select["valuesLists"].size() == 1 && !select["withClause"];
    std::string text = conflict(on_conflict, range_var, relation, !one);
    return text + returning(body["returningList"], range_var, relation);
  };
  if (!select) {
    if (on_conflict) refuse("ON CONFLICT with DEFAULT VALUES", on_conflict);
    add(head + " DEFAULT VALUES" + tail());
  } else if (select["valuesLists"] && !select["sortClause"] && !select["limitCount"] && !select["limitOffset"] && !select["withClause"]) {
    const std::vector<Line> lines =
        lines_of(relation, select["valuesLists"], columns, named, body["override"].string() == "OVERRIDING_SYSTEM_VALUE");
    insert_lines(head, lines, tail(), body);
  } else {
    const std::string rows = insert_query(select, columns, named, static_cast<bool>(on_conflict));
    add(head + rows + tail());
  }
  scopes_.pop_back();
}

void Typed::update(Node body) {
  out_.effect = Effect::write;
  out_.tag = "UPDATE";
  scopes_.emplace_back();
  const Relations::Relation& relation = target(body["relation"]);
  const std::string with_text = with(body["withClause"]);
  const std::string name = target_scope(body["relation"], relation);
  const std::string source = from(body["fromClause"]).text;
  const Place outside = std::exchange(place_, Place::update);
  std::string text = with_text + "UPDATE " + name + " SET " + assignments(body["targetList"], relation) + source;
  place_ = Place::where;
  if (body["whereClause"]) text += " WHERE " + condition(body["whereClause"], "WHERE").text;
  place_ = outside;
  add(text + returning(body["returningList"], body["relation"], relation));
  scopes_.pop_back();
}

void Typed::remove(Node body) {
  out_.effect = Effect::write;
  out_.tag = "DELETE";
  scopes_.emplace_back();
  const Relations::Relation& relation = target(body["relation"]);
  const std::string with_text = with(body["withClause"]);
  std::string text = with_text + "DELETE FROM " + target_scope(body["relation"], relation);
  const Place outside = std::exchange(place_, Place::where);
  if (body["usingClause"]) {
    const std::string source = from(body["usingClause"]).text;
    text +=
        " WHERE EXISTS (SELECT 1" + source + (body["whereClause"] ? " WHERE " + condition(body["whereClause"], "WHERE").text : "") + ")";
  } else if (body["whereClause"]) {
    text += " WHERE " + condition(body["whereClause"], "WHERE").text;
  }
  place_ = outside;
  add(text + returning(body["returningList"], body["relation"], relation));
  scopes_.pop_back();
}

}  // namespace termgate::dialect
