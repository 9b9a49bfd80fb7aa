// SELECT, VALUES, set operations, WITH, FROM: what is visible where, and under which type.
// Long: one case for each clause of a query.
#include <algorithm>
#include <utility>

#include "names.hpp"
#include "shapes.hpp"
#include "typed.hpp"

namespace termgate::dialect {

using resolution::spoken;

namespace {

// What SQLite would take for the number of a column in ORDER BY and GROUP BY. It makes 0 of `0 AND b` before it looks.
bool is_place(std::string_view text, Oid type) {
  return text.find_first_not_of("+-0123456789() ") == std::string_view::npos ||
         (type == oid::boolean && text.find(' ') != std::string_view::npos);
}

// Types whose values in a file are not what PostgreSQL has: see Typed::exact().
bool is_stored(Oid type) { return type == oid::numeric || type == oid::float4 || type == oid::bpchar; }

// What stands for relations, CTEs aside; `own`: whether a function of Termgate's is called.
void collect_relations(Node node, std::set<std::string>& names, std::set<std::string>& ctes, bool& own) {
  std::vector<Node> open{node};
  while (!open.empty()) {
    const Node next = open.back();
    open.pop_back();
    if (next.is("RangeVar") || next["relname"]) {
      const Node body = next.is("RangeVar") ? next.body() : next;
      const std::string schema = body.text("schemaname");
      if (body["relname"])
        names.insert(schema == "information_schema" ? "information_schema_" + body.text("relname") : body.text("relname"));
    }
    if (const Node cte = next.as("CommonTableExpr")) ctes.insert(cte.text("ctename"));
    if (const Node called = next.as("FuncCall"); called && last_name(called["funcname"]).starts_with("termgate_")) own = true;
    next.children(open);
  }
}

bool has_window(Node list) {
  std::vector<Node> open{list};
  while (!open.empty()) {
    const Node next = open.back();
    open.pop_back();
    if (next["over"]) return true;
    next.children(open);
  }
  return false;
}

}  // namespace

Typed::About Typed::about(Node node, const Relations& relations) {
  std::set<std::string> names, ctes;
  bool own = false;
  collect_relations(node, names, ctes, own);
  bool catalog = false;
  for (const std::string& name : names) {
    if (ctes.contains(name)) continue;
    const Relations::Relation* found = relations.find(name);
    if (found == nullptr || (!found->catalog && !found->columns.empty())) return About::file;
    // A view that cannot be read fails by itself.
    catalog = true;
  }
  return own ? About::own : catalog ? About::catalog : About::file;
}

void Typed::statement(Node node) {
  const Node body = node.body();
  if (node.is("SelectStmt")) {
    Node first = body;
    while (first["larg"]) first = first["larg"];
    if (const Node into = first["intoClause"]) refuse("SELECT … INTO (use CREATE TABLE … AS)", into["rel"]);
    out_.effect = Effect::read;
    out_.tag = "SELECT";
    out_.returns_rows = true;
    top_with_ = true;
    Query all = query(body);
    if (!out_.steps.empty()) out_.effect = Effect::write;
    for (const Out& each : all.outs) out_.columns.push_back({false, each.name, each.type, each.typmod});
    add(std::move(all.text));
  } else {
    top_with_ = true;
    if (node.is("InsertStmt")) insert(body);
    else if (node.is("UpdateStmt")) update(body);
    else remove(body);
  }
  if (!out_.steps.empty()) check_steps(body);
  // What nothing says the type of is text, as in PostgreSQL's own reports to clients.
  for (std::size_t i = 0; i < out_.parameters.size(); ++i) {
    if (out_.parameters[i] == 0) refuse_as("42P18", "could not determine data type of parameter $" + std::to_string(i + 1));
  }
}

// The columns of one table, by their bare names.
void Typed::own_scope(const Relations::Relation& relation) {
  scopes_.emplace_back();
  Relation own;
  own.name = relation.name;
  for (const auto& column : relation.columns) {
    ScopeColumn each;
    each.name = column.name;
    each.relation = relation.name;
    each.place = own.columns.size();
    each.value = {quoted_name(column.name), primary, column.type, column.typmod, is_stored(column.type)};
    own.columns.push_back(std::move(each));
  }
  scopes_.back().visible = own.columns;
  scopes_.back().relations.push_back(std::move(own));
  place_ = Place::transform;
}

std::string Typed::over_columns(const Relations::Relation& relation, Node node, Kept what) {
  own_scope(relation);
  place_ = what == Kept::check       ? Place::check
           : what == Kept::index     ? Place::index
           : what == Kept::predicate ? Place::predicate
           : what == Kept::generated ? Place::generated
                                     : Place::default_value;
  const bool tested = what == Kept::check || what == Kept::predicate;
  const Value value = decided(tested ? condition(node, what == Kept::check ? "CHECK" : "WHERE") : expression(node));
  scopes_.pop_back();
  return value.text;
}

std::string Typed::converted_column(const Relations::Relation& relation, const Relations::RelationColumn& from,
                                    const Relations::RelationColumn& to, Node with) {
  own_scope(relation);
  Value value{quoted_name(from.name), primary, from.type, from.typmod, is_stored(from.type)};
  if (with) value = expression(with);
  if (!value.open() && value.type != to.type &&
      resolution::cast_path(value.type, to.type, resolution::Context::assignment).how == resolution::Path::How::none) {
    refuse_as("42804", with
                           ? "result of USING clause for column \"" + to.name + "\" cannot be cast automatically to type " + spoken(to.type)
                           : "column \"" + to.name + "\" cannot be cast automatically to type " + spoken(to.type));
  }
  const std::string text = assigned(value, to, {}).text;
  scopes_.pop_back();
  return text;
}

std::string Typed::view(Node select, std::string& types, std::vector<Column>& columns) {
  plain_names_ = true;
  Query all = query(select);
  for (const Out& each : all.outs) {
    if (each.type == oid::bpchar) refuse("a view's column of type character");
    columns.push_back({false, each.name, each.type, each.typmod});
    types += (types.empty() ? "" : ",") + std::to_string(each.type) + ":" + std::to_string(each.typmod);
  }
  return all.text;
}

std::string Typed::copied(Node select, const std::vector<std::string>& names, std::vector<Column>& columns,
                          std::vector<std::string>& values) {
  Query all = query(select);
  if (names.size() > all.outs.size()) refuse_as("42601", "too many column names were specified");
  std::vector<std::string> inner;
  for (std::size_t i = 0; i < all.outs.size(); ++i) {
    const Out& each = all.outs[i];
    Relations::RelationColumn column{i < names.size() ? names[i] : each.name, each.type, each.typmod, false};
    inner.push_back("c" + std::to_string(i + 1));
    values.push_back(assigned({"pg_s." + inner.back(), primary, each.type, each.typmod, each.stored}, column, {}).text);
    columns.push_back({false, column.name, each.type, each.typmod});
  }
  return "SELECT " + joined(values, ", ") + " FROM (WITH pg_w(" + joined(inner, ", ") + ") AS (" + all.text +
         ") SELECT * FROM pg_w) AS pg_s";
}

std::string Typed::relation_name(Node body) const {
  const std::string schema = body.text("schemaname"), name = body.text("relname");
  if (body["catalogname"]) refuse("a database's name before a schema's", body);
  if (schema == "information_schema") return quoted_name("information_schema_" + name);
  if (schema == "main" || schema == "temp") return schema + "." + quoted_name(name);
  if (schema == "pg_temp") return "temp." + quoted_name(name);
  if (!schema.empty() && schema != "public" && schema != "pg_catalog") refuse_as("3F000", "schema \"" + schema + "\" does not exist", body);
  return quoted_name(name);
}

Typed::From Typed::relation(Node body) {
  const std::string name = body.text("relname");
  const Node alias = body["alias"];
  From result;
  Relation relation;
  relation.name = alias ? alias.text("aliasname") : name;
  const std::vector<std::string> names = strings(alias["colnames"]);
  const auto cte =
      body["schemaname"] ? ctes_.rend() : std::find_if(ctes_.rbegin(), ctes_.rend(), [&](const Cte& each) { return each.name == name; });
  if (cte != ctes_.rend()) {
    if (cte->silent) refuse_as("0A000", "WITH query \"" + name + "\" does not have a RETURNING clause", body);
    relation.columns = cte->columns;
  } else {
    const std::string actual = body.text("schemaname") == "information_schema" ? "information_schema_" + name : name;
    const Relations::Relation* found = relations_.find(actual);
    if (found == nullptr)
      refuse_as("42P01", "relation \"" + (body["schemaname"] ? body.text("schemaname") + "." : std::string()) + name + "\" does not exist",
                body);
    relation.key = found->key;
    for (const auto& column : found->columns) {
      ScopeColumn made_column;
      made_column.name = column.name;
      made_column.value.type = column.type;
      made_column.value.typmod = column.typmod;
      made_column.value.stored = is_stored(column.type);
      relation.columns.push_back(std::move(made_column));
    }
  }
  if (names.size() > relation.columns.size())
    refuse_as("42P10",
              "table \"" + name + "\" has " + std::to_string(relation.columns.size()) + " columns available but " +
                  std::to_string(names.size()) + " columns specified",
              body);
  for (std::size_t i = 0; i < relation.columns.size(); ++i) {
    ScopeColumn& column = relation.columns[i];
    column.relation = relation.name;
    column.place = i;
    column.value.text = quoted_name(relation.name) + "." + quoted_name(column.name);
    // A view's expression, whose type nothing tells: as docs/reference/sqlite-types.md says, text.
    if (column.value.type == 0) column.value = {"pg_text(" + column.value.text + ")", primary, oid::text};
    if (i < names.size()) column.name = names[i];
  }
  result.text = relation_name(body) + (alias || body.text("schemaname") == "information_schema" ? " AS " + quoted_name(relation.name) : "");
  result.visible = relation.columns;
  result.relations.push_back(std::move(relation));
  return result;
}

Typed::From Typed::subselect(Node body) {
  const Node alias = body["alias"];
  if (!alias) refuse_as("42601", "subquery in FROM must have an alias");
  const bool lateral = body.flag("lateral") && mentions_column(body["subquery"]);
  const Place outside = std::exchange(place_, Place::plain);
  const bool inside = std::exchange(in_aggregate_, false);
  const Query sub = query(body["subquery"].as("SelectStmt"));
  place_ = outside;
  in_aggregate_ = inside;
  Relation relation;
  relation.name = alias.text("aliasname");
  const std::vector<std::string> names = strings(alias["colnames"]);
  if (names.size() > sub.outs.size())
    refuse_as("42P10", "table \"" + relation.name + "\" has " + std::to_string(sub.outs.size()) + " columns available but " +
                           std::to_string(names.size()) + " columns specified");
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sub.outs.size(); ++i) {
    ScopeColumn column;
    column.name = i < names.size() ? names[i] : sub.outs[i].name;
    column.relation = relation.name;
    column.place = i;
    const std::string inner = "c" + std::to_string(i + 1);
    parts.push_back(inner);
    column.value = {quoted_name(relation.name) + "." + inner, primary, sub.outs[i].type, sub.outs[i].typmod, sub.outs[i].stored};
    relation.columns.push_back(std::move(column));
  }
  if (lateral) {
    // SQLite has no such subquery, but functions that take a neighbour's columns: its rows go through one list of texts.
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < sub.outs.size(); ++i) {
      const Value inner{"pg_r.c" + std::to_string(i + 1), primary, sub.outs[i].type, sub.outs[i].typmod, sub.outs[i].stored};
      texts.push_back(element_text(inner));
      Value text{"json_extract(" + quoted_name(relation.name) + ".value, '$[" + std::to_string(i) + "]')", primary, oid::text};
      const Oid type = sub.outs[i].type;
      const std::int32_t typmod = sub.outs[i].typmod;
      Value& value = relation.columns[i].value;
      const bool as_it_is = type == oid::text || type == oid::varchar || type == oid::bpchar || resolution::is_array(type);
      value = as_it_is ? text : from_text(text, type);
      value.type = type;
      value.typmod = typmod;
    }
    const std::string rows = made("w");
    From listed;
    listed.text = "json_each((WITH " + rows + "(" + joined(parts, ", ") + ") AS (" + sub.text + ") SELECT json_group_array(json_array(" +
                  joined(texts, ", ") + ")) FROM (SELECT * FROM " + rows + ") AS pg_r)) AS " + quoted_name(relation.name);
    listed.visible = relation.columns;
    listed.relations.push_back(std::move(relation));
    return listed;
  }
  // Columns by place: two of a subquery may have one name.
  const std::string with_name = made("w");
  From result;
  result.text = "(WITH " + with_name + "(" + joined(parts, ", ") + ") AS (" + sub.text + ") SELECT * FROM " + with_name + ") AS " +
                quoted_name(relation.name);
  result.visible = relation.columns;
  result.relations.push_back(std::move(relation));
  return result;
}

Typed::From Typed::function(Node body) {
  const Deeper deeper(*this);
  if (body["functions"].size() != 1 || body.flag("is_rowsfrom")) refuse("ROWS FROM");
  if (body["coldeflist"]) refuse("a function with a column definition list");
  const Node call_body = body["functions"].at(0).as("List")["items"].at(0).as("FuncCall");
  if (!call_body) refuse("this function in FROM");
  const std::string name = last_name(call_body["funcname"]);
  if (name == "unnest" && call_body["args"].size() > 1) refuse("unnest of several arrays", call_body);
  const Node alias = body["alias"];
  const bool counted = body.flag("ordinality");
  std::vector<Value> args;
  std::vector<Oid> types;
  const Place outside = std::exchange(place_, Place::from);
  for (const Node arg : call_body["args"].items()) {
    args.push_back(expression(arg));
    types.push_back(args.back().type);
  }
  place_ = outside;
  const resolution::Function found = resolution::find_function(name, types);
  using State = resolution::Function::State;
  if (found.state != State::found) {
    std::vector<std::string> words;
    for (const Oid type : types) words.push_back(spoken(type));
    refuse_as(
        found.state == State::ambiguous     ? "42725"
        : found.state == State::polymorphic ? "42804"
                                            : "42883",
        "function " + name + "(" + joined(words, ", ") + ") " + (found.state == State::ambiguous ? "is not unique" : "does not exist"),
        call_body);
  }
  for (std::size_t i = 0; i < args.size(); ++i) args[i] = coerce(args[i], found.arguments[i]);
  const std::string relation_text = alias ? alias.text("aliasname") : name;
  const std::string as = quoted_name(relation_text);
  From result;
  std::vector<RowColumn> columns;
  if (const std::string rows = rows_of(found, args, as + ".value", columns); !rows.empty()) {
    result.text = "json_each(" + rows + ") AS " + as;
  } else if (!found.row->set && found.row->kind == 'f' && found.result != 2249) {
    // One row of one value.
    result.text = "(SELECT " + written_call(found, args, call_body).text + " AS value" + (counted ? ", 0 AS key" : "") + ") AS " + as;
  } else {
    refuse_as("0A000", "the function " + name + " in FROM is not translated for SQLite files", call_body);
  }
  Relation relation;
  relation.name = relation_text;
  const std::vector<std::string> names = strings(alias["colnames"]);
  if (names.size() > columns.size() + (counted ? 1U : 0U))
    refuse_as("42P10", "table \"" + relation_text + "\" has fewer columns than are named");
  const auto put = [&](const std::string& column_name, Value with) {
    ScopeColumn column;
    column.name = column_name;
    column.relation = relation_text;
    column.place = relation.columns.size();
    column.value = std::move(with);
    relation.columns.push_back(std::move(column));
  };
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string& own = columns[i].name.empty() ? relation_text : columns[i].name;
    put(i < names.size() ? names[i] : own, columns[i].value);
  }
  if (counted) put(names.size() > columns.size() ? names[columns.size()] : "ordinality", {"(" + as + ".key + 1)", primary, oid::int8});
  result.visible = relation.columns;
  result.relations.push_back(std::move(relation));
  return result;
}

void Typed::bring(From&& from) {
  Scope& scope = scopes_.back();
  for (Relation& each : from.relations) {
    for (const Relation& other : scope.relations) {
      if (other.name == each.name) refuse_as("42712", "table name \"" + each.name + "\" specified more than once");
    }
    scope.relations.push_back(std::move(each));
  }
  for (ScopeColumn& each : from.visible) scope.visible.push_back(std::move(each));
}

Typed::From Typed::join(Node body) {
  if (body["alias"]) refuse("a name for a whole join");
  if (body["join_using_alias"]) refuse("USING … AS");
  const std::string_view type = body["jointype"].string();
  From left = from_item(body["larg"]);
  // A function and LATERAL see what is on the left; the condition sees both.
  const bool sees = body["rarg"].is("RangeFunction") || body["rarg"].as("RangeSubselect").flag("lateral");
  const Scope outside_scope = sees ? scopes_.back() : Scope();
  if (sees) {
    if (type == "JOIN_RIGHT" || type == "JOIN_FULL") refuse("a RIGHT or FULL JOIN with LATERAL");
    From seen = left;
    for (Relation& each : seen.relations) scopes_.back().relations.push_back(std::move(each));
    for (ScopeColumn& each : seen.visible) scopes_.back().visible.push_back(std::move(each));
  }
  From right = from_item(body["rarg"]);
  if (sees) scopes_.back() = outside_scope;
  From result;
  result.text = left.text +
                (type == "JOIN_LEFT"    ? " LEFT JOIN "
                 : type == "JOIN_RIGHT" ? " RIGHT JOIN "
                 : type == "JOIN_FULL"  ? " FULL JOIN "
                                        : " JOIN ") +
                (body["rarg"].is("JoinExpr") ? "(" + right.text + ")" : right.text);
  std::vector<std::string> shared = strings(body["usingClause"]);
  if (body.flag("isNatural")) {
    for (const ScopeColumn& each : left.visible) {
      if (std::any_of(right.visible.begin(), right.visible.end(), [&](const ScopeColumn& other) { return other.name == each.name; }))
        shared.push_back(each.name);
    }
  }
  std::vector<std::string> tests;
  std::vector<ScopeColumn> merged;
  for (const std::string& name : shared) {
    const auto pick = [&](From& side) -> const ScopeColumn& {
      const ScopeColumn* found = nullptr;
      for (const ScopeColumn& each : side.visible) {
        if (each.name != name) continue;
        if (found != nullptr) refuse_as("42702", "common column name \"" + name + "\" appears more than once in left table");
        found = &each;
      }
      if (found == nullptr)
        refuse_as("42703",
                  "column \"" + name + "\" specified in USING clause does not exist in " + (&side == &left ? "left" : "right") + " table");
      return *found;
    };
    const ScopeColumn first = pick(left), second = pick(right);
    tests.push_back(operation("=", &first.value, second.value, {}).text);
    ScopeColumn column = type == "JOIN_RIGHT" ? second : first;
    if (first.value.type != second.value.type || first.value.typmod != second.value.typmod) refuse("USING columns of two types");
    if (type == "JOIN_FULL") {
      column.value.text = "coalesce(" + exact(first.value) + ", " + exact(second.value) + ")";
      column.value.stored = false;
    }
    merged.push_back(std::move(column));
    std::erase_if(left.visible, [&](const ScopeColumn& each) { return each.name == name; });
    std::erase_if(right.visible, [&](const ScopeColumn& each) { return each.name == name; });
  }
  result.relations = std::move(left.relations);
  for (Relation& each : right.relations) result.relations.push_back(std::move(each));
  result.visible = std::move(merged);
  for (auto* side : {&left, &right}) {
    for (ScopeColumn& each : side->visible) result.visible.push_back(std::move(each));
  }
  if (body["quals"]) {
    // The condition sees this join, and what is around the whole query.
    Scope seen;
    seen.relations = result.relations;
    seen.visible = result.visible;
    std::swap(scopes_.back(), seen);
    const Place outside = std::exchange(place_, Place::from);
    tests.push_back(condition(body["quals"], "JOIN/ON").text);
    place_ = outside;
    std::swap(scopes_.back(), seen);
  }
  const bool outer = type == "JOIN_LEFT" || type == "JOIN_RIGHT" || type == "JOIN_FULL";
  if (!tests.empty()) result.text += " ON " + joined(tests, " AND ");
  else if (outer) result.text += " ON 1";
  return result;
}

Typed::From Typed::from_item(Node node) {
  const Deeper deeper(*this);
  if (node.is("RangeVar")) return relation(node.body());
  if (node.is("JoinExpr")) return join(node.body());
  if (node.is("RangeSubselect")) return subselect(node.body());
  if (node.is("RangeFunction")) return function(node.body());
  refuse(node.is("RangeTableSample") ? "TABLESAMPLE" : "this item of FROM", node.body());
}

// Into the current scope.
Typed::From Typed::from(Node list) {
  From result;
  std::vector<std::string> parts;
  for (const Node item : list.items()) {
    From each = from_item(item);
    parts.push_back(each.text);
    bring(std::move(each));
  }
  if (!parts.empty()) result.text = " FROM " + joined(parts, ", ");
  return result;
}

void Typed::star(Node fields, std::vector<Target>& out, Node at) {
  const Scope& scope = scopes_.back();
  const std::vector<ScopeColumn>* columns = nullptr;
  if (fields.size() == 1) {
    columns = &scope.visible;
    if (scope.relations.empty()) refuse_as("42601", "SELECT * with no tables specified is not valid", at);
  } else {
    const std::string name = fields.at(fields.size() - 2).as("String").text("sval");
    for (const Relation& each : scope.relations) {
      if (each.name == name) columns = &each.columns;
    }
    if (columns == nullptr) refuse_as("42P01", "missing FROM-clause entry for table \"" + name + "\"", at);
  }
  for (const ScopeColumn& each : *columns) {
    if (each.unseen) refuse("RETURNING another table's columns", at);
    Target target;
    target.value = each.value;
    target.value.at = at;
    target.name = each.name;
    scopes_.back().loose.push_back({each.value.text, each.relation, each.place, at});
    if (std::find(scope.groups.begin(), scope.groups.end(), each.value.text) != scope.groups.end()) scopes_.back().loose.pop_back();
    out.push_back(std::move(target));
  }
}

std::vector<Typed::Target> Typed::targets(Node list) {
  std::vector<Target> result;
  for (const Node item : list.items()) {
    const Node body = item.as("ResTarget");
    const Node value = body["val"];
    const Node fields = value.as("ColumnRef")["fields"];
    if (fields && fields.at(fields.size() - 1).is("A_Star")) {
      star(fields, result, value.body());
      continue;
    }
    Target target;
    rows_may_come_ = expansions_ != nullptr;
    target.value = expression(value);
    rows_may_come_ = false;
    target.named = static_cast<bool>(body["name"]);
    target.name = target.named ? body.text("name") : result_name(value);
    target.node = value;
    result.push_back(std::move(target));
  }
  return result;
}

std::string Typed::order_tail(Node body, bool& descending) const {
  const std::string_view direction = body["sortby_dir"].string();
  descending = direction == "SORTBY_DESC";
  if (direction == "SORTBY_USING") {
    const std::string symbol = last_name(body["useOp"]);
    if (symbol != "<" && symbol != ">") refuse("ORDER BY … USING " + symbol, body);
    descending = symbol == ">";
  }
  const std::string_view nulls = body["sortby_nulls"].string();
  const bool last = nulls == "SORTBY_NULLS_LAST" || (nulls != "SORTBY_NULLS_FIRST" && !descending);
  return std::string(descending ? " DESC" : "") + (last ? " NULLS LAST" : " NULLS FIRST");
}

std::string Typed::order(Node clause, const std::vector<Target>& list, bool distinct) {
  if (!clause) return {};
  std::vector<std::string> parts;
  for (const Sorted& each : sorted(clause, list, distinct))
    parts.push_back((is_place(each.key, each.value.type) ? "coalesce(" + each.key + ", NULL)" : each.key) + each.tail);
  return " ORDER BY " + joined(parts, ", ");
}

// A number or an output's name stands for that output; else it is an expression over FROM.
std::vector<Typed::Sorted> Typed::sorted(Node clause, const std::vector<Target>& list, bool distinct) {
  std::vector<Sorted> result;
  for (const Node item : clause.items()) {
    const Node sort = item.as("SortBy");
    bool descending = false;
    const std::string tail = order_tail(sort, descending);
    const Node node = sort["node"];
    const Target* target = nullptr;
    if (const Node number = node.as("A_Const"); number["ival"]) {
      const std::int64_t place = number["ival"].integer("ival");
      if (place < 1 || static_cast<std::size_t>(place) > list.size())
        refuse_as("42P10", "ORDER BY position " + std::to_string(place) + " is not in select list", number);
      target = &list[static_cast<std::size_t>(place) - 1];
    } else if (node.is("A_Const")) {
      refuse_as("42601", "non-integer constant in ORDER BY", node.body());
    } else if (const Node fields = node.as("ColumnRef")["fields"]; fields.size() == 1 && fields.at(0).is("String")) {
      for (const Target& each : list) {
        if (each.name != fields.at(0).as("String").text("sval")) continue;
        if (target != nullptr && target->value.text != each.value.text)
          refuse_as("42702", "ORDER BY \"" + each.name + "\" is ambiguous", node.body());
        target = &each;
      }
    }
    const Value value = decided(target != nullptr ? target->value : expression(node));
    if (distinct && target == nullptr &&
        std::none_of(list.begin(), list.end(), [&](const Target& each) { return each.value.text == value.text; })) {
      refuse_as("42P10", "for SELECT DISTINCT, ORDER BY expressions must appear in select list", node.body());
    }
    result.push_back({sortable(value, true), tail, value});
  }
  return result;
}

// The rows that come first within each group: numbered inside, chosen outside.
void Typed::distinct_on(Node body, std::vector<Target>& list, std::string& tail, std::string& order_text) {
  std::vector<std::string> keys, sorts, inner, outer_sorts;
  for (Target& each : list) each.value = decided(each.value);
  for (const Node key : body["distinctClause"].items()) {
    const Value* value = nullptr;
    Value own;
    if (const Node number = key.as("A_Const"); number["ival"]) {
      const std::int64_t place = number["ival"].integer("ival");
      if (place < 1 || static_cast<std::size_t>(place) > list.size())
        refuse_as("42P10", "SELECT DISTINCT ON position " + std::to_string(place) + " is not in select list", number);
      value = &list[static_cast<std::size_t>(place) - 1].value;
    } else if (const Node fields = key.as("ColumnRef")["fields"]; fields.size() == 1) {
      for (const Target& each : list) {
        if (each.name == fields.at(0).as("String").text("sval")) value = &each.value;
      }
    }
    if (value == nullptr) {
      own = decided(expression(key));
      value = &own;
    }
    keys.push_back(sortable(*value, true));
  }
  const std::vector<Sorted> order_list = body["sortClause"] ? sorted(body["sortClause"], list, false) : std::vector<Sorted>();
  for (std::size_t i = 0; i < order_list.size(); ++i) {
    if (i < keys.size() && std::find(keys.begin(), keys.end(), order_list[i].key) == keys.end())
      refuse_as("42P10", "SELECT DISTINCT ON expressions must match initial ORDER BY expressions");
    sorts.push_back(order_list[i].key + order_list[i].tail);
    // The collation goes with the expression, not with the column that it becomes.
    if (order_list[i].key.ends_with(" COLLATE pg_interval")) refuse("DISTINCT ON with an order by intervals");
    const bool numeric = order_list[i].value.type == oid::numeric;
    inner.push_back((numeric ? exact(order_list[i].value) : order_list[i].key) + " AS s" + std::to_string(i + 1));
    outer_sorts.push_back("pg_d.s" + std::to_string(i + 1) + (numeric ? " COLLATE pg_numeric" : "") + order_list[i].tail);
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    inner.push_back(list[i].value.text + " AS c" + std::to_string(i + 1));
    list[i].value.text = "pg_d.c" + std::to_string(i + 1);
    list[i].value.level = primary;
  }
  tail = " FROM (SELECT " + joined(inner, ", ") + ", row_number() OVER (PARTITION BY " + joined(keys, ", ") +
         (sorts.empty() ? "" : " ORDER BY " + joined(sorts, ", ")) + ") AS n" + tail + ") AS pg_d WHERE pg_d.n = 1";
  order_text = outer_sorts.empty() ? "" : " ORDER BY " + joined(outer_sorts, ", ");
}

std::string Typed::limit(Node body) {
  if (body["limitOption"].string() == "LIMIT_OPTION_WITH_TIES") refuse("WITH TIES");
  const auto amount = [&](Node node, std::string_view what) {
    // Columns of this query's own; those of a subquery's are inside of it.
    if (node.is("ColumnRef")) refuse_as("42P10", "argument of " + std::string(what) + " must not contain variables", node.body());
    Value value = expression(node);
    if (!value.open() && value.type != oid::int8 && value.type != oid::int4 && value.type != oid::int2)
      refuse("a " + std::string(what) + " of type " + spoken(value.type), value.at);
    value = coerce(value, oid::int8);
    if (value.text.find_first_not_of("0123456789") == std::string::npos) return value.text;
    // NULL is none; below zero is an error.
    return "pg_limit(" + value.text + ", '" + std::string(what) + "')";
  };
  std::string text;
  const Node count = body["limitCount"];
  if (count && !count.as("A_Const").flag("isnull")) text = " LIMIT " + amount(count, "LIMIT");
  if (const Node offset = body["limitOffset"]) {
    if (text.empty()) text = " LIMIT -1";
    text += " OFFSET " + amount(offset, "OFFSET");
  }
  return text;
}

std::string Typed::with(Node clause) {
  const bool top = std::exchange(top_with_, false);
  if (!clause) return {};
  std::vector<std::string> parts;
  const bool recursive = clause.flag("recursive");
  std::set<std::string> seen;
  for (const Node item : clause["ctes"].items()) {
    const Node body = item.as("CommonTableExpr");
    if (!body["ctequery"].is("SelectStmt")) {
      if (!top) refuse_as("0A000", "WITH clause containing a data-modifying statement must be at the top level", body);
      if (recursive) refuse("WITH RECURSIVE with a statement that writes", body);
      Cte cte;
      cte.name = body.text("ctename");
      if (std::string part = step(body, cte, parts); !part.empty()) parts.push_back(std::move(part));
      ctes_.push_back(std::move(cte));
      continue;
    }
    if (body["search_clause"] || body["cycle_clause"]) refuse("SEARCH and CYCLE", body);
    Cte cte;
    cte.name = body.text("ctename");
    if (!seen.insert(cte.name).second) refuse_as("42712", "WITH query name \"" + cte.name + "\" specified more than once", body);
    const std::vector<std::string> names = strings(body["aliascolnames"]);
    const Node query_body = body["ctequery"].body();
    const std::size_t known = ctes_.size();
    const auto columns_of = [&](const std::vector<Out>& outs) {
      cte.columns.clear();
      for (std::size_t i = 0; i < outs.size(); ++i) {
        ScopeColumn column;
        column.name = i < names.size() ? names[i] : outs[i].name;
        column.value.type = outs[i].type;
        column.value.typmod = outs[i].typmod;
        column.value.stored = outs[i].stored;
        cte.columns.push_back(std::move(column));
      }
    };
    if (recursive && is_set(query_body)) {
      // The term that does not recurse says the types.
      const std::size_t made_before = made_;
      const auto parameters = out_.parameters;
      const Query first = query(query_body["larg"]);
      made_ = made_before;
      (void)parameters;
      columns_of(first.outs);
      for (ScopeColumn& each : cte.columns) each.value.stored = each.value.type == oid::numeric;
      ctes_.push_back(cte);
    }
    const Query sub = query(query_body);
    ctes_.resize(known);
    if (!cte.columns.empty()) {
      for (std::size_t i = 0; i < sub.outs.size() && i < cte.columns.size(); ++i) {
        if (sub.outs[i].type != cte.columns[i].value.type) {
          refuse_as("42804",
                    "recursive query \"" + cte.name + "\" column " + std::to_string(i + 1) + " has type " +
                        spoken(cte.columns[i].value.type) + " in non-recursive term but type " + spoken(sub.outs[i].type) + " overall",
                    body);
        }
      }
    }
    if (names.size() > sub.outs.size())
      refuse_as("42P10",
                "WITH query \"" + cte.name + "\" has " + std::to_string(sub.outs.size()) + " columns available but " +
                    std::to_string(names.size()) + " columns specified",
                body);
    columns_of(sub.outs);
    std::vector<std::string> quoted;
    for (const ScopeColumn& each : cte.columns) quoted.push_back(quoted_name(each.name));
    const std::string_view materialized = body["ctematerialized"].string();
    parts.push_back(quoted_name(cte.name) + "(" + joined(quoted, ", ") + ")" +
                    (materialized == "CTEMaterializeAlways"  ? " AS MATERIALIZED ("
                     : materialized == "CTEMaterializeNever" ? " AS NOT MATERIALIZED ("
                                                             : " AS (") +
                    sub.text + ")");
    ctes_.push_back(std::move(cte));
  }
  if (parts.empty()) return {};
  return std::string(recursive ? "WITH RECURSIVE " : "WITH ") + joined(parts, ", ") + " ";
}

void Typed::group_by(Node clause, const std::vector<Node>& list, std::string& tail) {
  std::vector<std::string> parts;
  const Place outside = std::exchange(place_, Place::group);
  for (const Node item : clause.items()) {
    if (item.is("GroupingSet")) refuse("GROUPING SETS, ROLLUP and CUBE", item.body());
    Node node = item;
    if (const Node number = item.as("A_Const"); number["ival"]) {
      const std::int64_t place = number["ival"].integer("ival");
      if (place < 1 || static_cast<std::size_t>(place) > list.size())
        refuse_as("42P10", "GROUP BY position " + std::to_string(place) + " is not in select list", number);
      node = list[static_cast<std::size_t>(place) - 1].as("ResTarget")["val"];
    } else if (const Node fields = item.as("ColumnRef")["fields"]; fields.size() == 1 && fields.at(0).is("String")) {
      // A column of FROM first, then an output.
      const std::string name = fields.at(0).as("String").text("sval");
      if (look_up(scopes_.back(), {name}, item.body()) == nullptr) {
        for (const Node each : list) {
          if (each.as("ResTarget")["name"] && each.as("ResTarget").text("name") == name) node = each.as("ResTarget")["val"];
        }
      }
    }
    if (item.as("A_Const") && !item.as("A_Const")["ival"]) refuse_as("42601", "non-integer constant in GROUP BY", item.body());
    const Value key = decided(expression(node));
    scopes_.back().loose.clear();
    scopes_.back().groups.push_back(key.text);
    scopes_.back().group_nodes.push_back(node);
    const std::string text = sortable(key, false);
    parts.push_back(is_place(text, key.type) ? "coalesce(" + text + ", NULL)" : text);
  }
  place_ = outside;
  tail += " GROUP BY " + joined(parts, ", ");
}

void Typed::check_groups(Scope& scope) {
  if (!scope.aggregates && scope.groups.empty()) return;
  for (const Loose& each : scope.loose) {
    // By its primary key, a table's other columns are known.
    bool determined = false;
    for (const Relation& relation : scope.relations) {
      if (relation.name != each.relation || relation.key.empty()) continue;
      determined = std::all_of(relation.key.begin(), relation.key.end(), [&](std::size_t place) {
        return place < relation.columns.size() &&
               std::find(scope.groups.begin(), scope.groups.end(), relation.columns[place].value.text) != scope.groups.end();
      });
    }
    if (determined) continue;
    const Node fields = each.at["fields"];
    std::string name = fields ? joined(strings(fields), ".") : each.column;
    if (fields.size() == 1 && fields.at(0).is("String")) name = each.relation + "." + name;
    refuse_as("42803", "column \"" + name + "\" must appear in the GROUP BY clause or be used in an aggregate function", each.at);
  }
}

Typed::Core Typed::values(Node body) {
  Core core;
  core.values = true;
  const Place outside = std::exchange(place_, Place::values);
  for (const Node list : body["valuesLists"].items()) {
    std::vector<Value> row;
    for (const Node item : list.as("List")["items"].items()) row.push_back(expression(item));
    if (!core.rows.empty() && row.size() != core.rows[0].size()) refuse_as("42601", "VALUES lists must all be the same length");
    core.rows.push_back(std::move(row));
  }
  place_ = outside;
  for (std::size_t i = 0; i < core.rows[0].size(); ++i) core.names.push_back("column" + std::to_string(i + 1));
  return core;
}

// The targets, and what a set-returning function among them adds to FROM.
std::vector<Typed::Target> Typed::expanded_targets(Node list, Expansions& expansions) {
  expansions.as = made("r");
  Expansions* const outside = std::exchange(expansions_, &expansions);
  const std::size_t before = scopes_.back().loose.size();
  std::vector<Target> result = targets(list);
  if (expansions.lists.size() > 1) {
    // Each is written otherwise where it is one of several.
    expansions.lists.clear();
    expansions.several = true;
    scopes_.back().loose.resize(before);
    result = targets(list);
  }
  expansions_ = outside;
  return result;
}

// One SELECT without WITH and LIMIT; within its scope.
Typed::Core Typed::core(Node body, std::string& order_text) {
  if (body["valuesLists"]) return values(body);
  Core core;
  const Node distinct = body["distinctClause"];
  const bool on = distinct && !distinct.at(0).kind().empty();
  core.distinct = distinct && !on;
  std::string tail = from(body["fromClause"]).text;
  const std::size_t from_end = tail.size();
  if (body["whereClause"]) {
    const Place outside = std::exchange(place_, Place::where);
    tail += " WHERE " + condition(body["whereClause"], "WHERE").text;
    place_ = outside;
  }
  scopes_.back().loose.clear();
  if (body["groupClause"]) group_by(body["groupClause"], body["targetList"].items(), tail);
  for (const Node each : body["windowClause"].items()) scopes_.back().windows.insert(each.as("WindowDef").text("name"));
  Expansions expansions;
  std::vector<Target> list = expanded_targets(body["targetList"], expansions);
  if (list.empty()) refuse("SELECT without columns");
  if (!expansions.lists.empty()) {
    if (on || body["groupClause"] || body["havingClause"] || scopes_.back().aggregates || has_window(body["targetList"]))
      refuse("a set-returning function beside DISTINCT ON, groups, aggregates or window functions");
    core.expands = true;
    const std::string lists = joined(expansions.lists, ", ");
    tail.insert(from_end, (from_end == 0 ? " FROM json_each(" : " CROSS JOIN json_each(") +
                              (expansions.several ? "pg_zip(" + lists + ")" : lists) + ") AS " + expansions.as);
  }
  if (body["havingClause"]) {
    tail += " HAVING " + condition(body["havingClause"], "HAVING").text;
    scopes_.back().aggregates = true;
  }
  if (const Node windows = body["windowClause"]) {
    std::vector<std::string> parts;
    for (const Node each : windows.items())
      parts.push_back(quoted_name(each.as("WindowDef").text("name")) + " AS (" + window(each.as("WindowDef")) + ")");
    tail += " WINDOW " + joined(parts, ", ");
  }
  if (on) {
    if (body["windowClause"]) refuse("DISTINCT ON with WINDOW");
    distinct_on(body, list, tail, order_text);
  } else {
    order_text = order(body["sortClause"], list, core.distinct);
  }
  check_groups(scopes_.back());
  core.tail = std::move(tail);
  core.rows.emplace_back();
  for (Target& each : list) {
    core.names.push_back(each.name);
    core.rows[0].push_back(std::move(each.value));
  }
  return core;
}

// Types for its columns, where they are still open.
void Typed::settle(Core& core) {
  core.outs.clear();
  for (std::size_t i = 0; i < core.names.size(); ++i) {
    std::vector<Value> column;
    for (const auto& row : core.rows) column.push_back(row[i]);
    Out out;
    out.name = core.names[i];
    if (core.rows.size() == 1) {
      column[0] = decided(column[0]);
      out.type = column[0].type;
      out.typmod = column[0].typmod;
      out.stored = column[0].stored;
    } else {
      const Value all = common(column, "VALUES", {});
      out.type = all.type;
      out.typmod = all.typmod;
      for (Value& each : column) {
        each.text = exact(each);
        each.stored = false;
        each.level = primary;
      }
    }
    for (std::size_t k = 0; k < core.rows.size(); ++k) core.rows[k][i] = column[k];
    core.outs.push_back(std::move(out));
  }
}

std::string Typed::assembled(const Core& core, const std::vector<std::string>& names, bool unique, bool plain) const {
  std::vector<std::string> lines;
  for (const auto& row : core.rows) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string text = unique || core.distinct ? sortable(row[i], false) : row[i].text;
      // Without a name of its own SQLite would make one up.
      const std::string name = quoted_name(i < names.size() ? names[i] : core.names[i]);
      const bool own = plain && text.ends_with("." + name) && core.tail.find(" JOIN (") == std::string::npos;
      if (!core.values && !own) text += " AS " + name;
      parts.push_back(std::move(text));
    }
    lines.push_back(core.values ? "(" + joined(parts, ", ") + ")" : joined(parts, ", "));
  }
  if (core.values) return "VALUES " + joined(lines, ", ");
  return std::string("SELECT ") + (core.distinct ? "DISTINCT " : "") + lines[0] + core.tail;
}

Typed::Query Typed::simple(Node body, const std::vector<std::string>& names, const std::vector<const Relations::RelationColumn*>* assign,
                           bool plain) {
  Query result;
  scopes_.emplace_back();
  std::string order_text;
  Core all = core(body, order_text);
  if (assign != nullptr) {
    if (all.names.size() > assign->size()) refuse_as("42601", "INSERT has more expressions than target columns");
    for (auto& row : all.rows) {
      for (std::size_t i = 0; i < row.size(); ++i) row[i] = assigned(row[i], *(*assign)[i], row[i].at);
    }
  }
  settle(all);
  if (all.distinct) {
    for (Out& each : all.outs) each.stored = each.stored && each.type == oid::bpchar;
  }
  result.outs = all.outs;
  for (std::size_t i = 0; i < names.size() && i < result.outs.size(); ++i) result.outs[i].name = names[i];
  result.text = assembled(all, names, false, plain);
  const Scope& scope = scopes_.back();
  result.one_row = (!all.values && ((scope.aggregates && scope.groups.empty() && !body["groupClause"]) ||
                                    (!body["fromClause"] && !body["whereClause"] && !all.expands))) ||
                   (all.values && all.rows.size() == 1);
  if (all.values) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < all.names.size(); ++i) parts.push_back(all.names[i] + " AS " + quoted_name(result.outs[i].name));
    result.text = "SELECT " + joined(parts, ", ") + " FROM (" + result.text + ")";
    if (body["sortClause"]) refuse("ORDER BY of VALUES");
  }
  result.text += order_text + limit(body);
  scopes_.pop_back();
  return result;
}

void Typed::collect_set(Node body, std::vector<Core>& leaves, std::string& text, std::vector<std::pair<std::size_t, std::size_t>>& spans,
                        bool& unique) {
  const Deeper deeper(*this);
  const auto side = [&](Node part, bool left) {
    if (is_set(part) && !has_tail(part) && left) return collect_set(part, leaves, text, spans, unique);
    Core leaf;
    if (is_set(part) || has_tail(part)) {
      // A part with ORDER BY, LIMIT or set operations of its own is a query in FROM.
      const Query sub = query(part);
      const std::string from_name = made("u");
      leaf.rows.emplace_back();
      leaf.tail = " FROM (" + sub.text + ") AS " + from_name;
      for (const Out& each : sub.outs) {
        leaf.rows[0].push_back({from_name + "." + quoted_name(each.name), primary, each.type, each.typmod, each.stored});
        leaf.names.push_back(each.name);
      }
    } else {
      scopes_.emplace_back();
      std::string none;
      leaf = core(part, none);
      scopes_.pop_back();
    }
    leaves.push_back(std::move(leaf));
    spans.emplace_back(text.size(), leaves.size() - 1);
  };
  const std::string_view op = body["op"].string();
  const bool all = body.flag("all");
  if (all && op != "SETOP_UNION") refuse(op == "SETOP_EXCEPT" ? "EXCEPT ALL" : "INTERSECT ALL");
  unique = unique || !all;
  side(body["larg"], true);
  text += op == "SETOP_UNION" ? (all ? " UNION ALL " : " UNION ") : op == "SETOP_EXCEPT" ? " EXCEPT " : " INTERSECT ";
  side(body["rarg"], false);
}

// PostgreSQL matches the types of two sides at a time, from the left, and those of VALUES first: what two of them leave open is text.
void Typed::agree(const std::vector<Core>& leaves, std::vector<Value>& column) {
  Oid type = 0;
  std::size_t next = 0;
  for (const Core& leaf : leaves) {
    std::vector<Value> own(column.begin() + static_cast<std::ptrdiff_t>(next),
                           column.begin() + static_cast<std::ptrdiff_t>(next + leaf.rows.size()));
    Oid of_leaf = own[0].type;
    if (leaf.values) {
      of_leaf = common(own, "VALUES", {}).type;
      std::copy(own.begin(), own.end(), column.begin() + static_cast<std::ptrdiff_t>(next));
    }
    next += leaf.rows.size();
    if (&leaf == &leaves[0]) {
      type = of_leaf;
      continue;
    }
    const Oid pair[] = {type, of_leaf};
    const auto found = resolution::common_type(pair);
    if (!found.type) refuse_as("42804", "UNION types " + spoken(type) + " and " + spoken(of_leaf) + " cannot be matched", own[0].at);
    type = *found.type;
  }
  for (Value& each : column) {
    if (each.open()) each = coerce(each, type);
  }
}

Typed::Query Typed::set_operation(Node body, const std::vector<std::string>& names) {
  std::vector<Core> leaves;
  std::string glue;
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  bool unique = false;
  collect_set(body, leaves, glue, spans, unique);
  const std::size_t width = leaves[0].names.size();
  for (const Core& leaf : leaves) {
    if (leaf.names.size() != width) refuse_as("42601", "each UNION, INTERSECT or EXCEPT query must have the same number of columns");
  }
  Query result;
  for (std::size_t i = 0; i < width; ++i) {
    std::vector<Value> column;
    for (const Core& leaf : leaves) {
      for (const auto& row : leaf.rows) column.push_back(row[i]);
    }
    agree(leaves, column);
    const Value all = common(column, "UNION", {});
    Out out{i < names.size() ? names[i] : leaves[0].names[i], all.type, all.typmod, false};
    std::size_t next = 0;
    for (Core& leaf : leaves) {
      for (auto& row : leaf.rows) {
        row[i] = column[next++];
        row[i].text = exact(row[i]);
        row[i].level = row[i].stored ? primary : row[i].level;
        row[i].stored = false;
      }
    }
    result.outs.push_back(std::move(out));
  }
  std::size_t at = 0;
  for (const auto& [offset, index] : spans) {
    result.text += glue.substr(at, offset - at);
    at = offset;
    Core& leaf = leaves[index];
    std::vector<std::string> own;
    for (const Out& each : result.outs) own.push_back(each.name);
    const std::string text = assembled(leaf, index == 0 ? own : std::vector<std::string>(), unique);
    result.text += leaf.values ? "SELECT * FROM (" + text + ")" : text;
  }
  result.text += glue.substr(at);
  // Outputs by name or place are all that may be sorted by.
  std::vector<std::string> parts;
  for (const Node item : body["sortClause"].items()) {
    const Node sort = item.as("SortBy");
    bool descending = false;
    const std::string tail = order_tail(sort, descending);
    std::size_t place = 0;
    if (const Node number = sort["node"].as("A_Const"); number["ival"]) place = static_cast<std::size_t>(number["ival"].integer("ival"));
    const Node fields = sort["node"].as("ColumnRef")["fields"];
    for (std::size_t i = 0; i < width && fields.size() == 1; ++i) {
      if (result.outs[i].name == fields.at(0).as("String").text("sval") && place == 0) place = i + 1;
    }
    if (place < 1 || place > width) refuse_as("0A000", "invalid UNION/INTERSECT/EXCEPT ORDER BY clause", sort["node"].body());
    Value key;
    key.type = result.outs[place - 1].type;
    key.text = std::to_string(place);
    const std::string sorted = sortable(key, true);
    if (key.type == oid::bpchar) refuse("ORDER BY of char(n) after a set operation");
    parts.push_back(sorted + tail);
  }
  if (!parts.empty()) result.text += " ORDER BY " + joined(parts, ", ");
  scopes_.emplace_back();
  result.text += limit(body);
  scopes_.pop_back();
  return result;
}

Typed::Query Typed::query(Node body, const std::vector<std::string>& names) {
  const Deeper deeper(*this);
  if (!body) refuse("this query");
  if (body["intoClause"]) refuse_as("42601", "SELECT ... INTO is not allowed here");
  const std::size_t known = ctes_.size();
  const Place outside = std::exchange(place_, Place::plain);
  const bool plain = std::exchange(plain_names_, false);
  const std::string head = with(body["withClause"]);
  Query result = is_set(body) ? set_operation(body, names) : simple(body, names, nullptr, plain);
  result.text = head + result.text;
  ctes_.resize(known);
  place_ = outside;
  return result;
}

}  // namespace termgate::dialect
