// SELECT, VALUES, set operations, WITH, ORDER BY, windows.
#include <algorithm>
#include <iterator>

#include "names.hpp"
#include "shapes.hpp"
#include "writer.hpp"

namespace termgate::dialect {
void Writer::describe(const std::vector<Target>& list, std::vector<Column>* columns) {
  if (columns == nullptr) return;
  columns->clear();
  for (const Target& target : list)
    columns->push_back(
        {target.star, target.star ? std::string() : target.name, target.sql.type == oid::unknown ? oid::text : target.sql.type});
}

// What `*`, or `only`.*, has where a function of FROM is read by parts of json_each, whose own columns SQLite would show. Empty: SQLite's
// star is right.
std::vector<Writer::Target> Writer::star_of(Node from_clause, const std::string& only) {
  std::vector<Target> all;
  bool written = false, merged = false;
  const auto add = [&](auto&& self, Node node) -> void {
    const Node body = node.body();
    if (node.is("JoinExpr")) {
      merged = merged || body["usingClause"] || body.flag("isNatural");
      self(self, body["larg"]);
      self(self, body["rarg"]);
      return;
    }
    std::string name = body["alias"].text("aliasname");
    if (name.empty() && node.is("RangeVar")) name = body.text("relname");
    if (name.empty() && node.is("RangeFunction"))
      name = last_name(body["functions"].at(0).as("List")["items"].at(0).as("FuncCall")["funcname"]);
    if (name.empty() || (!only.empty() && name != only)) return;
    bool own = false;
    for (const Renamed& each : scopes_.back()) {
      if (each.relation != name || each.sql.empty()) continue;
      Target target;
      target.sql = {each.sql, primary, each.type};
      target.name = each.column;
      target.named = own = written = true;
      all.push_back(std::move(target));
    }
    if (own) return;
    Target target;
    target.sql = {quoted_name(name) + ".*", primary, 0};
    target.star = true;
    all.push_back(std::move(target));
  };
  for (const Node item : from_clause.items()) add(add, item);
  if (!written) return {};
  if (merged && only.empty()) refuse("* of a join with USING and a function that uses its neighbour's columns");
  return all;
}

std::vector<Writer::Target> Writer::targets(Node list, const OutputNames& names, Node from_clause) {
  std::vector<Target> result;
  for (const Node item : list.items()) {
    const Node body = item.as("ResTarget");
    const Node value = body["val"];
    Target target;
    const Node fields = value.as("ColumnRef")["fields"];
    target.star = fields && fields.at(fields.size() - 1).is("A_Star");
    if (target.star && from_clause && fields.size() <= 2) {
      std::vector<Target> parts = star_of(from_clause, fields.size() == 2 ? fields.at(0).as("String").text("sval") : std::string());
      if (!parts.empty() && !names.names.empty()) refuse("a list of column names for *", value.body());
      std::move(parts.begin(), parts.end(), std::back_inserter(result));
      if (!parts.empty()) continue;
    }
    target.sql = target.star ? column(value.body()) : expression(value);
    target.named = static_cast<bool>(body["name"]);
    target.name = target.named ? body.text("name") : result_name(value);
    const std::string written = quoted_name(target.name);
    target.plain =
        !target.named && !name_all_ && value.is("ColumnRef") && (target.sql.text == written || target.sql.text.ends_with("." + written));
    if (!target.star && result.size() < names.names.size()) {
      target.name = names.names[result.size()];
      target.named = true;
      target.plain = false;
    }
    if (target.star && !names.names.empty()) refuse("a list of column names for *", value.body());
    result.push_back(std::move(target));
  }
  return result;
}

std::string Writer::target_text(const std::vector<Target>& list) const {
  std::vector<std::string> parts;
  for (const Target& target : list)
    parts.push_back(target.star || target.plain ? target.sql.text : target.sql.text + " AS " + quoted_name(target.name));
  return joined(parts, ", ");
}

std::string Writer::order_item(Node item) {
  const Node body = item.as("SortBy");
  const std::string_view direction = body["sortby_dir"].string();
  bool descending = direction == "SORTBY_DESC";
  if (direction == "SORTBY_USING") {
    const std::string symbol = last_name(body["useOp"]);
    if (symbol != "<" && symbol != ">") refuse("ORDER BY … USING " + symbol, body);
    descending = symbol == ">";
  }
  const std::string_view nulls = body["sortby_nulls"].string();
  const bool last = nulls == "SORTBY_NULLS_LAST" || (nulls != "SORTBY_NULLS_FIRST" && !descending);
  // SQLite's NULLs are smaller than all else, PostgreSQL's greater.
  const Sql sql = expression(body["node"]);
  return wrapped(sql, disjunction) + (descending ? " DESC" : "") + (last ? " NULLS LAST" : " NULLS FIRST");
}

std::string Writer::order(Node clause) {
  if (!clause) return {};
  std::vector<std::string> parts;
  for (const Node item : clause.items()) parts.push_back(order_item(item));
  return " ORDER BY " + joined(parts, ", ");
}

std::string Writer::limit(Node body) {
  if (body["limitOption"].string() == "LIMIT_OPTION_WITH_TIES") refuse("WITH TIES");
  const Node count = body["limitCount"];
  std::string text;
  if (count && !count.as("A_Const").flag("isnull")) text = " LIMIT " + operand(count, disjunction);
  if (const Node offset = body["limitOffset"]) {
    if (text.empty()) text = " LIMIT -1";
    text += " OFFSET " + operand(offset, disjunction);
  }
  return text;
}

std::string Writer::with(Node clause) {
  if (!clause) return {};
  std::vector<std::string> parts;
  for (const Node item : clause["ctes"].items()) {
    const Node body = item.as("CommonTableExpr");
    if (!body["ctequery"].is("SelectStmt")) refuse("a statement that writes within WITH", body);
    if (body["search_clause"] || body["cycle_clause"]) refuse("SEARCH and CYCLE", body);
    std::string text = quoted_name(body.text("ctename"));
    if (body["aliascolnames"]) {
      std::vector<std::string> names;
      for (const std::string& name : strings(body["aliascolnames"])) names.push_back(quoted_name(name));
      text += "(" + joined(names, ", ") + ")";
    }
    const std::string_view materialized = body["ctematerialized"].string();
    text += materialized == "CTEMaterializeAlways"  ? " AS MATERIALIZED ("
            : materialized == "CTEMaterializeNever" ? " AS NOT MATERIALIZED ("
                                                    : " AS (";
    parts.push_back(text + query(body["ctequery"].body()) + ")");
  }
  return std::string(clause.flag("recursive") ? "WITH RECURSIVE " : "WITH ") + joined(parts, ", ") + " ";
}

std::string Writer::window_definition(Node body) {
  std::vector<std::string> parts;
  if (body["refname"]) parts.push_back(quoted_name(body.text("refname")));
  if (body["partitionClause"]) parts.push_back("PARTITION BY " + list_of(body["partitionClause"]));
  if (body["orderClause"]) parts.push_back(order(body["orderClause"]).substr(1));
  const std::int64_t frame = body.integer("frameOptions");
  if ((frame & nondefault) != 0) {
    const auto edge = [&](bool start) -> std::string {
      const Node offset = body[start ? "startOffset" : "endOffset"];
      if ((frame & (start ? start_unbounded : end_unbounded)) != 0) return start ? "UNBOUNDED PRECEDING" : "UNBOUNDED FOLLOWING";
      if ((frame & (start ? start_current : end_current)) != 0) return "CURRENT ROW";
      return operand(offset, bits) + ((frame & (start ? start_preceding : end_preceding)) != 0 ? " PRECEDING" : " FOLLOWING");
    };
    std::string text = (frame & groups) != 0 ? "GROUPS" : (frame & rows) != 0 ? "ROWS" : "RANGE";
    text += " BETWEEN " + edge(true) + " AND " + edge(false);
    if ((frame & exclude_current) != 0) text += " EXCLUDE CURRENT ROW";
    if ((frame & exclude_group) != 0) text += " EXCLUDE GROUP";
    if ((frame & exclude_ties) != 0) text += " EXCLUDE TIES";
    parts.push_back(std::move(text));
  }
  return joined(parts, " ");
}

std::string Writer::group(Node clause) {
  if (!clause) return {};
  std::vector<std::string> parts;
  for (const Node item : clause.items()) {
    if (item.is("GroupingSet")) {
      if (item.body()["kind"].string() == "GROUPING_SET_EMPTY" && clause.size() == 1) return {};
      refuse("GROUPING SETS, ROLLUP and CUBE", item.body());
    }
    parts.push_back(operand(item, disjunction));
  }
  return " GROUP BY " + joined(parts, ", ");
}

std::string Writer::values(Node body, const OutputNames& names, std::vector<Column>* columns) {
  std::vector<std::string> lines;
  std::vector<Target> first;
  for (const Node list : body["valuesLists"].items()) {
    std::vector<std::string> parts;
    for (const Node item : list.as("List")["items"].items()) {
      const Sql sql = expression(item);
      if (lines.empty()) {
        Target target;
        target.sql.type = sql.type;
        target.name = first.size() < names.names.size() ? names.names[first.size()] : "column" + std::to_string(first.size() + 1);
        first.push_back(std::move(target));
      }
      parts.push_back(sql.text);
    }
    if (parts.size() != first.size()) refuse_as("42601", "VALUES lists must all be the same length");
    lines.push_back("(" + joined(parts, ", ") + ")");
  }
  if (names.names.size() > first.size()) refuse_as("42P10", "there are more column names than columns");
  describe(first, columns);
  std::string text = "VALUES " + joined(lines, ", ");
  if (names.names.empty()) return text;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < first.size(); ++i) parts.push_back("column" + std::to_string(i + 1) + " AS " + quoted_name(first[i].name));
  return "SELECT " + joined(parts, ", ") + " FROM (" + text + ")";
}

// The rows that come first within each group: numbered inside, chosen outside.
std::string Writer::distinct_on(Node body, const OutputNames& names, std::vector<Column>* columns) {
  const std::string source = from(body["fromClause"]);
  std::vector<Target> list = targets(body["targetList"], names);
  for (const Target& target : list) {
    if (target.star) refuse("DISTINCT ON with * (name the columns)");
  }
  // A number or an alias stands for its target.
  const auto resolved = [&](Node node) -> std::string {
    if (const std::int64_t place = node.as("A_Const")["ival"].integer("ival"); place >= 1 && static_cast<std::size_t>(place) <= list.size())
      return list[static_cast<std::size_t>(place) - 1].sql.text;
    const Node fields = node.as("ColumnRef")["fields"];
    if (fields.size() == 1) {
      for (const Target& target : list) {
        if (target.named && target.name == fields.at(0).as("String").text("sval")) return target.sql.text;
      }
    }
    return operand(node, disjunction);
  };
  std::vector<std::string> keys, sorts, outer_sorts, inner_parts, outer_parts;
  for (const Node key : body["distinctClause"].items()) keys.push_back(resolved(key));
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string inside = "pg_c" + std::to_string(i + 1);
    inner_parts.push_back(list[i].sql.text + " AS " + inside);
    outer_parts.push_back(inside + " AS " + quoted_name(list[i].name));
  }
  for (const Node item : body["sortClause"].items()) {
    const Node sort = item.as("SortBy");
    const std::string whole = order_item(item);
    const std::string bare = operand(sort["node"], disjunction);
    const std::string value = resolved(sort["node"]);
    const std::string tail = whole.substr(bare.size());
    const std::string inside = "pg_s" + std::to_string(sorts.size() + 1);
    inner_parts.push_back(value + " AS " + inside);
    sorts.push_back(value + tail);
    outer_sorts.push_back(inside + tail);
  }
  describe(list, columns);
  std::string inner_text = "SELECT " + joined(inner_parts, ", ") + ", row_number() OVER (PARTITION BY " + joined(keys, ", ") +
                           (sorts.empty() ? "" : " ORDER BY " + joined(sorts, ", ")) + ") AS pg_row" + source;
  if (body["whereClause"]) inner_text += " WHERE " + expression(body["whereClause"]).text;
  inner_text += group(body["groupClause"]);
  if (body["havingClause"]) inner_text += " HAVING " + expression(body["havingClause"]).text;
  return "SELECT " + joined(outer_parts, ", ") + " FROM (" + inner_text + ") WHERE pg_row = 1" +
         (outer_sorts.empty() ? "" : " ORDER BY " + joined(outer_sorts, ", "));
}

// One SELECT without WITH, ORDER BY and LIMIT.
std::string Writer::core(Node body, const OutputNames& names, std::vector<Column>* columns) {
  if (body["valuesLists"]) return values(body, names, columns);
  // What FROM brings into view is seen by everything after it.
  std::string source = from(body["fromClause"]);
  // `*` of one subquery is what that has.
  const std::vector<Column> whole =
      body["fromClause"].size() == 1 && body["fromClause"].at(0).is("RangeSubselect") ? subselect_ : std::vector<Column>();
  std::vector<std::string> rows_of_list;
  const bool may_multiply = !body["groupClause"] && !body["havingClause"];
  auto* const outside = rows_of_targets_;
  rows_of_targets_ = may_multiply ? &rows_of_list : nullptr;
  const std::vector<Target> list = targets(body["targetList"], names, body["fromClause"]);
  rows_of_targets_ = nullptr;
  if (list.empty()) refuse("SELECT without columns");
  describe(list, columns);
  if (columns != nullptr && !whole.empty()) {
    for (std::size_t i = 0; i < columns->size(); ++i) {
      if (!(*columns)[i].star) continue;
      columns->erase(columns->begin() + static_cast<std::ptrdiff_t>(i));
      columns->insert(columns->begin() + static_cast<std::ptrdiff_t>(i), whole.begin(), whole.end());
      i += whole.size() - 1;
    }
  }
  if (!rows_of_list.empty()) source += (source.empty() ? " FROM " : ", ") + rows_of_list[0];
  std::string text = std::string("SELECT ") + (body["distinctClause"] ? "DISTINCT " : "") + target_text(list) + source;
  if (body["whereClause"]) text += " WHERE " + expression(body["whereClause"]).text;
  text += group(body["groupClause"]);
  if (body["havingClause"]) text += " HAVING " + expression(body["havingClause"]).text;
  if (const Node windows = body["windowClause"]) {
    std::vector<std::string> parts;
    for (const Node window : windows.items())
      parts.push_back(quoted_name(window.as("WindowDef").text("name")) + " AS (" + window_definition(window.as("WindowDef")) + ")");
    text += " WINDOW " + joined(parts, ", ");
  }
  rows_of_targets_ = outside;
  return text;
}

std::string Writer::query(Node body, const OutputNames& names, std::vector<Column>* columns) {
  const Deeper deeper(*this);
  if (!body) refuse("this query");
  if (body["intoClause"]) refuse_as("42601", "SELECT ... INTO is not allowed here");
  auto* const outside = rows_of_targets_;
  rows_of_targets_ = nullptr;
  std::string text = with(body["withClause"]);
  scopes_.emplace_back();
  if (is_set(body)) {
    const auto side = [&](Node part, bool left, const OutputNames& part_names, std::vector<Column>* part_columns) {
      // SQLite reads a compound from the left and knows no parentheses in it.
      const bool plain = !has_tail(part) && (left || !is_set(part));
      if (plain && is_set(part)) return query(part, part_names, part_columns);
      if (plain) {
        scopes_.emplace_back();
        std::string one = core(part, part_names, part_columns);
        scopes_.pop_back();
        return one;
      }
      return "SELECT * FROM (" + query(part, part_names, part_columns) + ")";
    };
    const std::string_view op = body["op"].string();
    const bool all = body.flag("all");
    if (all && op != "SETOP_UNION") refuse(op == "SETOP_EXCEPT" ? "EXCEPT ALL" : "INTERSECT ALL");
    std::vector<Column> left, right;
    text += side(body["larg"], true, names, &left);
    text += op == "SETOP_UNION" ? (all ? " UNION ALL " : " UNION ") : op == "SETOP_EXCEPT" ? " EXCEPT " : " INTERSECT ";
    text += side(body["rarg"], false, {}, &right);
    for (std::size_t i = 0; i < left.size() && i < right.size(); ++i) {
      if (left[i].type == 0) left[i].type = right[i].type;
    }
    if (columns != nullptr) *columns = std::move(left);
    text += order(body["sortClause"]) + limit(body);
  } else {
    const Node distinct = body["distinctClause"];
    // Plain DISTINCT is a list of one empty node.
    const bool on = distinct && !distinct.at(0).kind().empty();
    if (on) {
      text += distinct_on(body, names, columns) + limit(body);
    } else {
      std::string one = core(body, names, columns);
      // SQLite takes no ORDER BY after VALUES.
      if (body["valuesLists"] && (body["sortClause"] || body["limitCount"] || body["limitOffset"]) && names.names.empty()) {
        one = "SELECT * FROM (" + one + ")";
      }
      text += one;
      text += order(body["sortClause"]) + limit(body);
    }
  }
  scopes_.pop_back();
  rows_of_targets_ = outside;
  return text;
}

}  // namespace termgate::dialect
