// INSERT, UPDATE, DELETE, TRUNCATE.
#include "names.hpp"
#include "shapes.hpp"
#include "writer.hpp"

namespace termgate::dialect {

std::string Writer::returning(Node list, Node relation_node) {
  if (!list) return {};
  returned_ = relation_node["alias"] ? relation_node["alias"].text("aliasname") : relation_node.text("relname");
  out_.returns_rows = true;
  std::vector<Target> all = targets(list, {});
  // SQLite has `*` here, but not `t.*`, which is the same of one table.
  for (Target& target : all) {
    if (target.star) target.sql.text = "*";
  }
  describe(all, &out_.columns);
  returned_.clear();
  return " RETURNING " + target_text(all);
}

std::string Writer::assignments(Node list) {
  std::vector<std::string> parts;
  const std::vector<Node> items = list.items();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Node body = items[i].as("ResTarget");
    if (body["indirection"]) refuse("an assignment to a part of a column", body);
    const Node multi = body["val"].as("MultiAssignRef");
    if (!multi) {
      if (is_default(body["val"])) refuse("SET … = DEFAULT", body);
      parts.push_back(quoted_name(body.text("name")) + " = " + operand(body["val"], disjunction));
      continue;
    }
    const auto count = static_cast<std::size_t>(multi.integer("ncolumns"));
    std::vector<std::string> names;
    for (std::size_t k = i; k < i + count && k < items.size(); ++k) names.push_back(quoted_name(items[k].as("ResTarget").text("name")));
    const Node source = multi["source"];
    if (const Node row = source.as("RowExpr")) {
      if (row["args"].size() != names.size()) refuse_as("42601", "number of columns does not match number of values", body);
      for (const Node value : row["args"].items()) {
        if (is_default(value)) refuse("SET … = DEFAULT", body);
      }
      if (names.size() == 1) parts.push_back(names[0] + " = " + operand(row["args"].at(0), disjunction));
      else parts.push_back("(" + joined(names, ", ") + ") = " + expression(source).text);
    } else if (source.is("SubLink")) {
      parts.push_back("(" + joined(names, ", ") + ") = " + expression(source).text);
    } else {
      refuse("this assignment", body);
    }
    i += count - 1;
  }
  return joined(parts, ", ");
}

std::string Writer::conflict(Node clause) {
  if (!clause) return {};
  const Node infer = clause["infer"];
  std::string text = " ON CONFLICT";
  if (infer) {
    if (infer["conname"]) refuse("ON CONFLICT ON CONSTRAINT (name the columns)", infer);
    std::vector<std::string> parts;
    for (const Node element : infer["indexElems"].items()) {
      const Node body = element.as("IndexElem");
      parts.push_back(body["expr"] ? expression(body["expr"]).text : quoted_name(body.text("name")));
    }
    text += " (" + joined(parts, ", ") + ")";
    if (infer["whereClause"]) text += " WHERE " + expression(infer["whereClause"]).text;
  }
  if (clause["action"].string() == "ONCONFLICT_NOTHING") return text + " DO NOTHING";
  text += " DO UPDATE SET " + assignments(clause["targetList"]);
  if (clause["whereClause"]) text += " WHERE " + expression(clause["whereClause"]).text;
  return text;
}

void Writer::insert(Node body) {
  out_.effect = Effect::write;
  out_.tag = "INSERT";
  scopes_.emplace_back();
  const std::string head = with(body["withClause"]) + "INSERT INTO " + relation(body["relation"]);
  std::vector<std::string> columns;
  for (const Node column : body["cols"].items()) {
    if (column.as("ResTarget")["indirection"]) refuse("an assignment to a part of a column", column.body());
    columns.push_back(quoted_name(column.as("ResTarget").text("name")));
  }
  const auto named = [](const std::vector<std::string>& names) { return names.empty() ? std::string() : " (" + joined(names, ", ") + ")"; };
  const Node select = body["selectStmt"].as("SelectStmt");
  const Node conflict_clause = body["onConflictClause"];
  if (!select) {
    if (conflict_clause) refuse("ON CONFLICT with DEFAULT VALUES", conflict_clause);
    const std::string tail = returning(body["returningList"], body["relation"]);
    add(head + " DEFAULT VALUES" + tail);
  } else if (select["valuesLists"] && !select["sortClause"] && !select["limitCount"] && !select["limitOffset"] && !select["withClause"]) {
    // SQLite has no DEFAULT among values: a column that has it is left out.
    struct Line {
      std::vector<std::string> names;
      std::vector<std::string> values;
    };
    std::vector<Line> lines;
    for (const Node list : select["valuesLists"].items()) {
      Line line;
      const std::vector<Node> items = list.as("List")["items"].items();
      if (!columns.empty() && items.size() > columns.size()) refuse_as("42601", "INSERT has more expressions than target columns");
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (is_default(items[i])) {
          if (columns.empty()) refuse("DEFAULT in an INSERT that does not name its columns", items[i].body());
          continue;
        }
        if (!columns.empty()) line.names.push_back(columns[i]);
        line.values.push_back(expression(items[i]).text);
      }
      lines.push_back(std::move(line));
    }
    const std::string tail = conflict(conflict_clause) + returning(body["returningList"], body["relation"]);
    std::vector<std::string> rows;
    std::size_t begun = 0;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      rows.push_back("(" + joined(lines[i].values, ", ") + ")");
      if (i + 1 < lines.size() && lines[i + 1].names == lines[i].names && lines[i + 1].values.empty() == lines[i].values.empty()) continue;
      if (begun > 0 && body["returningList"]) refuse("RETURNING where rows differ in what is DEFAULT");
      if (lines[i].values.empty()) {
        if (conflict_clause || lines.size() > 1) refuse("DEFAULT for every column here");
        add(head + " DEFAULT VALUES" + tail);
      } else {
        add(head + named(lines[i].names) + " VALUES " + joined(rows, ", ") + tail);
      }
      ++begun;
      rows.clear();
    }
    if (begun > 1 && body["returningList"]) refuse("RETURNING where rows differ in what is DEFAULT");
  } else {
    std::string rows = query(select);
    // Without a WHERE, SQLite reads ON CONFLICT as the ON of a join.
    if (conflict_clause) rows = "SELECT * FROM (" + rows + ") WHERE true";
    const std::string tail = conflict(conflict_clause) + returning(body["returningList"], body["relation"]);
    add(head + named(columns) + " " + rows + tail);
  }
  scopes_.pop_back();
}

void Writer::update(Node body) {
  out_.effect = Effect::write;
  out_.tag = "UPDATE";
  scopes_.emplace_back();
  std::string text = with(body["withClause"]) + "UPDATE " + relation(body["relation"]);
  const std::string source = from(body["fromClause"]);
  text += " SET " + assignments(body["targetList"]) + source;
  if (body["whereClause"]) text += " WHERE " + expression(body["whereClause"]).text;
  add(text + returning(body["returningList"], body["relation"]));
  scopes_.pop_back();
}

void Writer::remove(Node body) {
  out_.effect = Effect::write;
  out_.tag = "DELETE";
  scopes_.emplace_back();
  std::string text = with(body["withClause"]) + "DELETE FROM " + relation(body["relation"]);
  if (body["usingClause"]) {
    const std::string source = from(body["usingClause"]);
    text += " WHERE EXISTS (SELECT 1" + source + (body["whereClause"] ? " WHERE " + expression(body["whereClause"]).text : "") + ")";
  } else if (body["whereClause"]) {
    text += " WHERE " + expression(body["whereClause"]).text;
  }
  add(text + returning(body["returningList"], body["relation"]));
  scopes_.pop_back();
}

}  // namespace termgate::dialect
