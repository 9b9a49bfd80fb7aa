// What FROM may have: tables by their names, joins, subqueries, functions.
#include "names.hpp"
#include "writer.hpp"

namespace termgate::dialect {
namespace {

// The rows of these come from json_each().
bool is_json_list(std::string_view name) {
  return name == "json_array_elements" || name == "jsonb_array_elements" || name == "json_array_elements_text" ||
         name == "jsonb_array_elements_text" || name == "pg_partition_ancestors";
}

void collect_names(Node node, std::set<std::string>& out) {
  if (const Node join = node.as("JoinExpr")) {
    collect_names(join["larg"], out);
    collect_names(join["rarg"], out);
    return;
  }
  const Node body = node.body();
  if (body["alias"]) out.insert(body["alias"].text("aliasname"));
  else if (node.is("RangeVar")) out.insert(body.text("relname"));
}

// Nothing but a list of expressions, without aggregates' clauses.
bool is_one_row(Node subquery) {
  const Node body = subquery.as("SelectStmt");
  if (!body["targetList"]) return false;
  for (const std::string_view clause : {"fromClause", "whereClause", "groupClause", "havingClause", "limitCount", "limitOffset",
                                        "withClause", "larg", "distinctClause", "intoClause", "sortClause"}) {
    if (body[clause]) return false;
  }
  return true;
}

}  // namespace

bool mentions_column(Node node, const std::set<std::string>* of) {
  std::vector<Node> open{node};
  while (!open.empty()) {
    const Node next = open.back();
    open.pop_back();
    if (const Node fields = next.as("ColumnRef")["fields"]) {
      if (of == nullptr || (fields.size() > 1 && of->contains(fields.at(0).as("String").text("sval")))) return true;
    }
    next.children(open);
  }
  return false;
}

std::string Writer::relation_name(Node body) const {
  const std::string schema = body.text("schemaname");
  const std::string name = body.text("relname");
  if (body["catalogname"]) refuse("a database's name before a schema's", body);
  if (schema == "information_schema") return quoted_name("information_schema_" + name);
  if (schema == "pg_temp") return "temp." + quoted_name(name);
  if (schema == "main" || schema == "temp") return schema + "." + quoted_name(name);
  if (!schema.empty() && schema != "public" && schema != "pg_catalog") refuse_as("3F000", "schema \"" + schema + "\" does not exist", body);
  return quoted_name(name);
}

std::string Writer::relation(Node body, bool with_alias) {
  std::string name = relation_name(body);
  const Node alias = body["alias"];
  if (!with_alias || !alias) {
    // So that its columns can be qualified by the name that PostgreSQL would know.
    return body.text("schemaname") == "information_schema" && with_alias ? name + " AS " + quoted_name(body.text("relname")) : name;
  }
  const std::string as = quoted_name(alias.text("aliasname"));
  if (!alias["colnames"]) return name + " AS " + as;
  std::vector<std::string> columns;
  for (const std::string& column : strings(alias["colnames"])) columns.push_back(quoted_name(column));
  const std::string made = "pg_t" + std::to_string(++made_);
  return "(WITH " + made + "(" + joined(columns, ", ") + ") AS (SELECT * FROM " + name + ") SELECT * FROM " + made + ") AS " + as;
}

std::string Writer::subselect(Node body) {
  const Node alias = body["alias"];
  subselect_.clear();
  OutputNames names;
  if (alias["colnames"]) names.names = strings(alias["colnames"]);
  if (body.flag("lateral") && alias && is_one_row(body["subquery"]) && mentions_column(body["subquery"])) {
    // One row of expressions: each is written where its column is named.
    const std::string relation_name_text = alias.text("aliasname");
    for (const Target& target : targets(body["subquery"].body()["targetList"], names))
      scopes_.back().push_back({relation_name_text, target.name, "(" + target.sql.text + ")", target.sql.type});
    return "(SELECT 1) AS " + quoted_name(relation_name_text);
  }
  std::vector<Column> columns;
  std::string text = "(" + query(body["subquery"].as("SelectStmt"), names, &columns) + ")";
  for (const Column& column : columns) {
    if (column.star) {
      columns.clear();
      break;
    }
    if (alias && column.type != 0 && column.type != oid::unknown)
      scopes_.back().push_back({alias.text("aliasname"), column.name, {}, column.type});
  }
  subselect_ = std::move(columns);
  return alias ? text + " AS " + quoted_name(alias.text("aliasname")) : text;
}

std::string Writer::function(Node body) {
  const Deeper deeper(*this);
  if (body["functions"].size() != 1 || body.flag("is_rowsfrom")) refuse("ROWS FROM");
  if (body["coldeflist"]) refuse("a function with a column definition list");
  const Node item = body["functions"].at(0).as("List")["items"].at(0);
  const Node call_body = item.as("FuncCall");
  const std::string name = call_body ? last_name(call_body["funcname"]) : result_name(item);
  const Node alias = body["alias"];
  // The catalog's own tables that are functions in PostgreSQL.
  if (name == "pg_get_keywords" || name == "pg_timezone_names" || name == "pg_show_all_settings" || name == "pg_available_extensions") {
    if (call_body["args"] || alias["colnames"] || body.flag("ordinality")) refuse("this use of " + name + "()", call_body);
    return quoted_name(name) + (alias ? " AS " + quoted_name(alias.text("aliasname")) : "");
  }
  const std::string relation = alias ? alias.text("aliasname") : name;
  std::vector<std::string> columns = strings(alias["colnames"]);
  if (columns.empty()) columns.push_back(relation);
  const bool counted = body.flag("ordinality");
  if (name == "unnest" && call_body["args"].size() > 1 && columns.size() == call_body["args"].size() + (counted ? 1 : 0) &&
      mentions_column(item)) {
    // The first says how many rows there are; those beside it are read by place.
    const std::string as = quoted_name(relation);
    const std::string rows = array_rows(call_body["args"].at(0));
    scopes_.back().push_back({relation, columns[0], as + ".value", 0});
    for (std::size_t i = 1; i < call_body["args"].size(); ++i)
      scopes_.back().push_back(
          {relation, columns[i], "json_extract(" + array_rows(call_body["args"].at(i)) + ", '$[' || " + as + ".key || ']')", 0});
    if (counted) scopes_.back().push_back({relation, columns.back(), "(" + as + ".key + 1)", oid::int8});
    return "json_each(" + rows + ") AS " + as;
  }
  if (columns.size() < 2 && counted) columns.emplace_back("ordinality");
  if (columns.size() > (counted ? 2U : 1U)) refuse("this many column names for " + name + "()", call_body);

  if (name == "generate_series" && !mentions_column(item) && !counted) {
    const Node args = call_body["args"];
    if (args.size() != 2 && args.size() != 3) refuse("generate_series of this many arguments", call_body);
    const Sql start = expression(args.at(0));
    const Sql stop = expression(args.at(1));
    if (start.type == oid::date || start.type == oid::timestamp || start.type == oid::timestamptz ||
        (args.size() == 3 && expression(args.at(2)).type == oid::interval)) {
      const std::string rows = supplied("pg_series", arguments(call_body), oid::json).text;
      return "(SELECT value AS " + quoted_name(columns[0]) + " FROM json_each(" + rows + ")) AS " + quoted_name(relation);
    }
    const std::string column = quoted_name(columns[0]);
    const std::string made = "pg_t" + std::to_string(++made_);
    std::string step = "1", bound = "pg_v <= " + wrapped(stop, bits), next = "pg_v + 1 <= " + wrapped(stop, bits);
    if (args.size() == 3) {
      step = operand(args.at(2), product);
      const std::string towards = "CASE WHEN " + step + " > 0 THEN ";
      bound = towards + bound + " WHEN " + step + " < 0 THEN pg_v >= " + wrapped(stop, bits) + " END";
      next = towards + "pg_v + " + step + " <= " + wrapped(stop, bits) + " ELSE pg_v + " + step + " >= " + wrapped(stop, bits) + " END";
    }
    return "(WITH RECURSIVE " + made + "(pg_v) AS (SELECT * FROM (SELECT " + start.text + " AS pg_v) WHERE " + bound +
           " UNION ALL SELECT pg_v + " + step + " FROM " + made + " WHERE " + next + ") SELECT pg_v AS " + column + " FROM " + made +
           ") AS " + quoted_name(relation);
  }

  std::string rows;
  if (name == "generate_series") rows = supplied("pg_series", arguments(call_body), oid::json).text;
  else if (name == "unnest" && call_body["args"].size() == 1) rows = array_rows(call_body["args"].at(0));
  else if (is_json_list(name)) rows = arguments(call_body);
  else if (name == "regexp_split_to_table" || name == "string_to_table")
    rows =
        supplied(
            "pg_array_json",
            supplied(name == "string_to_table" ? "string_to_array" : "regexp_split_to_array", arguments(call_body), oid::text_array).text,
            oid::json)
            .text;
  if (!rows.empty()) {
    if (!mentions_column(item)) {
      return "(SELECT value AS " + quoted_name(columns[0]) + (counted ? ", key + 1 AS " + quoted_name(columns[1]) : "") +
             " FROM json_each(" + rows + ")) AS " + quoted_name(relation);
    }
    // A function sees the relations before it; a subquery would not, so the columns keep json_each's names, and references change.
    const std::string as = quoted_name(relation);
    scopes_.back().push_back({relation, columns[0], as + ".value", name == "generate_series" ? oid::int4 : 0});
    if (counted) scopes_.back().push_back({relation, columns[1], "(" + as + ".key + 1)", oid::int8});
    return "json_each(" + rows + ") AS " + as;
  }
  if (counted) refuse("WITH ORDINALITY for " + name + "()", call_body);
  const Sql value = expression(item);
  return "(SELECT " + value.text + " AS " + quoted_name(columns[0]) + ") AS " + quoted_name(relation);
}

std::string Writer::join(Node body) {
  if (body["alias"]) refuse("a name for a whole join");
  const std::string_view type = body["jointype"].string();
  std::string text = from_item(body["larg"]);
  if (body.flag("isNatural")) text += " NATURAL";
  const bool condition = body["quals"] || body["usingClause"] || body.flag("isNatural");
  text += type == "JOIN_LEFT"    ? " LEFT JOIN "
          : type == "JOIN_RIGHT" ? " RIGHT JOIN "
          : type == "JOIN_FULL"  ? " FULL JOIN "
          : condition            ? " JOIN "
                                 : " CROSS JOIN ";
  const std::string right = from_item(body["rarg"]);
  const bool nested = body["rarg"].is("JoinExpr");
  // Columns from within parentheses are "k:1" to SQLite.
  name_all_ = name_all_ || nested;
  text += nested ? "(" + right + ")" : right;
  if (body["quals"]) text += " ON " + expression(body["quals"]).text;
  if (body["usingClause"]) {
    if (body["join_using_alias"]) refuse("USING … AS");
    std::vector<std::string> columns;
    for (const std::string& column : strings(body["usingClause"])) columns.push_back(quoted_name(column));
    text += " USING (" + joined(columns, ", ") + ")";
  }
  return text;
}

std::string Writer::from_item(Node node) {
  const Deeper deeper(*this);
  if (node.is("RangeVar")) return relation(node.body());
  if (node.is("JoinExpr")) return join(node.body());
  if (node.is("RangeSubselect")) return subselect(node.body());
  if (node.is("RangeFunction")) return function(node.body());
  if (node.is("RangeTableSample")) refuse("TABLESAMPLE", node.body());
  refuse("this item of FROM", node.body());
}

std::string Writer::from(Node list) {
  if (!list) return {};
  // LATERAL is no more than a word where the subquery names none of its neighbours.
  std::set<std::string> neighbours;
  for (const Node item : list.items()) collect_names(item, neighbours);
  const auto check = [&](auto&& self, Node node) -> void {
    if (const Node join = node.as("JoinExpr")) {
      self(self, join["larg"]);
      self(self, join["rarg"]);
    }
    const Node subquery = node.as("RangeSubselect");
    if (subquery.flag("lateral") && !is_one_row(subquery["subquery"]) && mentions_column(subquery["subquery"], &neighbours))
      refuse("LATERAL");
  };
  std::vector<std::string> parts;
  for (const Node item : list.items()) {
    check(check, item);
    parts.push_back(from_item(item));
  }
  return " FROM " + joined(parts, ", ");
}

}  // namespace termgate::dialect
