// CREATE, ALTER and DROP. Declared types stay in the table's text: types.hpp reads them back.
#include <algorithm>

#include "names.hpp"
#include "writer.hpp"

namespace termgate::dialect {
namespace {

bool is_serial(Node type_name) {
  const std::string name = last_name(type_name["names"]);
  return name == "serial" || name == "bigserial" || name == "smallserial" || name == "serial2" || name == "serial4" || name == "serial8";
}

std::string key_list(Node keys) {
  std::vector<std::string> names;
  for (const std::string& key : strings(keys)) names.push_back(quoted_name(key));
  return "(" + joined(names, ", ") + ")";
}

std::string action(std::string_view code) {
  return code == "c" ? "CASCADE" : code == "n" ? "SET NULL" : code == "d" ? "SET DEFAULT" : code == "r" ? "RESTRICT" : "";
}

// As PostgreSQL makes a name up: with a number where it is taken.
std::string made_name(const std::string& base, std::set<std::string>& used) {
  std::string name = base;
  for (std::size_t i = 1; !used.insert(name).second; ++i) name = base + std::to_string(i);
  return name;
}

}  // namespace

std::string Writer::declared(Node type_name) const {
  const Type& type = type_in(type_name);
  if (type_name["arrayBounds"]) return std::string(type.name) + "_array_text";
  std::string text(type.declared);
  const bool with_length = type.oid == oid::varchar || type.oid == oid::bpchar || type.oid == oid::numeric;
  if (const Node typmods = type_name["typmods"]; typmods && with_length) {
    std::vector<std::string> parts;
    for (const Node each : typmods.items()) {
      const Node number = each.as("A_Const")["ival"];
      if (!number) refuse("this type", type_name);
      parts.push_back(std::to_string(number.integer("ival")));
    }
    text += "(" + joined(parts, ",") + ")";
  }
  return text;
}

std::string Writer::collation_name(Node names) {
  const std::string name = last_name(names);
  const std::string lower = lowered(name);
  if (lower == "nocase" || lower == "rtrim" || lower == "binary") return quoted_name(lower);
  if (name != "default" && name != "C" && name != "POSIX" && name != "ucs_basic") out_.notices.push_back("COLLATE \"" + name + "\" is left out: text compares by its bytes");
  return {};
}

std::string Writer::stored(Node expression_node) {
  stored_ = true;
  std::string text = expression(expression_node).text;
  stored_ = false;
  return text;
}

std::string Writer::deferral(const std::vector<Node>& constraints, std::size_t after) const {
  bool deferrable = false, deferred = false;
  for (std::size_t i = after + 1; i < constraints.size(); ++i) {
    const std::string_view type = constraints[i].as("Constraint")["contype"].string();
    if (type == "CONSTR_ATTR_DEFERRABLE") deferrable = true;
    else if (type == "CONSTR_ATTR_DEFERRED") deferrable = deferred = true;
    else if (type != "CONSTR_ATTR_NOT_DEFERRABLE" && type != "CONSTR_ATTR_IMMEDIATE") break;
  }
  return deferred ? " DEFERRABLE INITIALLY DEFERRED" : deferrable ? " DEFERRABLE" : "";
}

// CHECK, UNIQUE, PRIMARY KEY, FOREIGN KEY; `column` is empty for a table's own.
std::string Writer::constraint(Node body, const std::string& table, const std::string& column, std::set<std::string>& used) {
  const std::string_view type = body["contype"].string();
  const bool own = column.empty();
  std::string name = body.text("conname");
  std::string text;
  if (type == "CONSTR_CHECK") {
    if (name.empty()) name = made_name(table + (own ? "_check" : "_" + column + "_check"), used);
    text = "CHECK (" + stored(body["raw_expr"]) + ")";
  } else if (type == "CONSTR_UNIQUE" || type == "CONSTR_PRIMARY") {
    if (body.flag("nulls_not_distinct")) refuse("NULLS NOT DISTINCT", body);
    if (body["indexname"]) refuse("USING INDEX", body);
    text = std::string(type == "CONSTR_UNIQUE" ? "UNIQUE" : "PRIMARY KEY") + (own ? " " + key_list(body["keys"]) : "");
  } else if (type == "CONSTR_FOREIGN") {
    if (body["fk_matchtype"].string() == "f") refuse("MATCH FULL", body);
    if (body["fk_del_set_cols"]) refuse("SET NULL of some columns", body);
    if (own) text = "FOREIGN KEY " + key_list(body["fk_attrs"]) + " ";
    text += "REFERENCES " + relation_name(body["pktable"]);
    if (body["pk_attrs"]) text += " " + key_list(body["pk_attrs"]);
    if (const std::string what = action(body["fk_upd_action"].string()); !what.empty()) text += " ON UPDATE " + what;
    if (const std::string what = action(body["fk_del_action"].string()); !what.empty()) text += " ON DELETE " + what;
    if (body.flag("initdeferred")) text += " DEFERRABLE INITIALLY DEFERRED";
    else if (body.flag("deferrable")) text += " DEFERRABLE";
  } else if (type == "CONSTR_EXCLUSION") {
    refuse("EXCLUDE", body);
  } else {
    refuse("this constraint", body);
  }
  return name.empty() ? text : "CONSTRAINT " + quoted_name(name) + " " + text;
}

std::string Writer::column_definition(Node body, const std::string& table, bool key, bool counted, std::set<std::string>& used) {
  const std::string name = body.text("colname");
  std::string text = quoted_name(name) + " ";
  const std::vector<Node> constraints = body["constraints"].items();
  if (counted) {
    text += "INTEGER PRIMARY KEY AUTOINCREMENT";
  } else {
    if (!body["typeName"]) refuse("a column without a type", body);
    text += declared(body["typeName"]);
    // SQLite lets NULL into a key that is not INTEGER PRIMARY KEY.
    if (key) text += " NOT NULL";
  }
  if (body["collClause"]) {
    const std::string collation_text = collation_name(body["collClause"]["collname"]);
    if (!collation_text.empty()) text += " COLLATE " + collation_text;
  }
  bool not_null = key && !counted;
  for (std::size_t i = 0; i < constraints.size(); ++i) {
    const Node each = constraints[i].as("Constraint");
    const std::string_view type = each["contype"].string();
    if (type == "CONSTR_NULL" || type == "CONSTR_IDENTITY" || type.starts_with("CONSTR_ATTR_")) continue;
    if (type == "CONSTR_NOTNULL") {
      if (!not_null) text += " NOT NULL";
      not_null = true;
    } else if (type == "CONSTR_DEFAULT") {
      text += " DEFAULT (" + stored(each["raw_expr"]) + ")";
    } else if (type == "CONSTR_GENERATED") {
      text += " GENERATED ALWAYS AS (" + stored(each["raw_expr"]) + ") STORED";
    } else if (type == "CONSTR_PRIMARY") {
      if (!counted) text += " " + constraint(each, table, name, used);
    } else {
      text += " " + constraint(each, table, name, used);
      if (type == "CONSTR_FOREIGN") text += deferral(constraints, i);
    }
  }
  return text;
}

void Writer::create_table(Node body) {
  out_.effect = Effect::definition;
  out_.tag = "CREATE TABLE";
  const Node relation_node = body["relation"];
  if (body["partspec"] || body["partbound"]) refuse("partitioning", relation_node);
  if (body["inhRelations"]) refuse("INHERITS", relation_node);
  if (body["ofTypename"]) refuse("CREATE TABLE … OF", relation_node);
  if (body["oncommit"].string() == "ONCOMMIT_DROP" || body["oncommit"].string() == "ONCOMMIT_DELETE_ROWS") refuse("ON COMMIT", relation_node);
  const std::string table = relation_node.text("relname");

  const std::vector<Node> elements = body["tableElts"].items();
  std::set<std::string> used;
  std::vector<std::string> key;
  bool key_on_column = false;
  for (const Node element : elements) {
    if (element.is("TableLikeClause")) refuse("LIKE in CREATE TABLE", relation_node);
    const Node own = element.as("Constraint");
    if (own["contype"].string() == "CONSTR_PRIMARY") key = strings(own["keys"]);
    if (own["conname"]) used.insert(own.text("conname"));
    const Node column_node = element.as("ColumnDef");
    for (const Node each : column_node["constraints"].items()) {
      const Node constraint_body = each.as("Constraint");
      if (constraint_body["contype"].string() == "CONSTR_PRIMARY") {
        key = {column_node.text("colname")};
        key_on_column = true;
      }
      if (constraint_body["conname"]) used.insert(constraint_body.text("conname"));
    }
  }
  // A column that counts is SQLite's own counted key, or nothing.
  std::string counted;
  for (const Node element : elements) {
    const Node column_node = element.as("ColumnDef");
    const std::vector<Node> constraints = column_node["constraints"].items();
    const bool identity = std::any_of(constraints.begin(), constraints.end(), [](Node each) { return each.as("Constraint")["contype"].string() == "CONSTR_IDENTITY"; });
    if (!column_node || (!identity && !is_serial(column_node["typeName"]))) continue;
    const std::string name = column_node.text("colname");
    if (!counted.empty() || (!key.empty() && (key.size() != 1 || key[0] != name))) refuse("a serial or identity column beside another key", column_node);
    counted = name;
    if (key.empty()) out_.notices.push_back("column \"" + name + "\" counts, so it is the primary key");
  }
  std::vector<std::string> parts;
  for (const Node element : elements) {
    if (const Node column_node = element.as("ColumnDef")) {
      const std::string name = column_node.text("colname");
      parts.push_back(column_definition(column_node, table, std::find(key.begin(), key.end(), name) != key.end(), name == counted, used));
    }
  }
  if (parts.empty()) refuse("a table without columns", relation_node);
  for (const Node element : elements) {
    const Node own = element.as("Constraint");
    if (!own || (own["contype"].string() == "CONSTR_PRIMARY" && !counted.empty() && !key_on_column)) continue;
    parts.push_back(constraint(own, table, {}, used));
  }
  const bool temporary = relation_node["relpersistence"].string() == "t";
  add(std::string("CREATE ") + (temporary ? "TEMP " : "") + "TABLE " + (body.flag("if_not_exists") ? "IF NOT EXISTS " : "") + relation_name(relation_node) + " (" + joined(parts, ", ") + ")");
}

void Writer::create_table_as(Node body) {
  out_.effect = Effect::definition;
  const std::string_view what = body["objtype"].string();
  if (what == "OBJECT_MATVIEW") refuse("a materialized view");
  if (!body["query"].is("SelectStmt")) refuse("CREATE TABLE AS EXECUTE");
  const Node into = body["into"];
  const Node relation_node = into["rel"];
  out_.tag = into.flag("skipData") ? "CREATE TABLE AS" : "SELECT";
  std::string text = query(body["query"].body(), {strings(into["colNames"])});
  if (into.flag("skipData")) text = "SELECT * FROM (" + text + ") WHERE false";
  add(std::string("CREATE ") + (relation_node["relpersistence"].string() == "t" ? "TEMP " : "") + "TABLE " + (body.flag("if_not_exists") ? "IF NOT EXISTS " : "") + relation_name(relation_node) + " AS " + text);
}

void Writer::create_index(Node body) {
  out_.effect = Effect::definition;
  out_.tag = "CREATE INDEX";
  const Node relation_node = body["relation"];
  const std::string method = body.text("accessMethod");
  if (!method.empty() && method != "btree" && method != "hash") refuse("index method " + method, relation_node);
  if (body.flag("nulls_not_distinct")) refuse("NULLS NOT DISTINCT", relation_node);
  std::vector<std::string> parts;
  std::string made = relation_node.text("relname");
  for (const Node element : body["indexParams"].items()) {
    const Node each = element.as("IndexElem");
    std::string text = each["expr"] ? stored(each["expr"]) : quoted_name(each.text("name"));
    made += "_" + (each["expr"] ? result_name(each["expr"]) : each.text("name"));
    if (each["collation"]) {
      const std::string collation_text = collation_name(each["collation"]);
      if (!collation_text.empty()) text += " COLLATE " + collation_text;
    }
    if (each["ordering"].string() == "SORTBY_DESC") text += " DESC";
    parts.push_back(std::move(text));
  }
  const std::string name = body["idxname"] ? body.text("idxname") : made + "_idx";
  std::string text = std::string("CREATE ") + (body.flag("unique") ? "UNIQUE " : "") + "INDEX " + (body.flag("if_not_exists") ? "IF NOT EXISTS " : "") + quoted_name(name) + " ON " + relation_name(relation_node) + " (" + joined(parts, ", ") + ")";
  if (body["whereClause"]) text += " WHERE " + stored(body["whereClause"]);
  add(std::move(text));
}

void Writer::create_view(Node body) {
  out_.effect = Effect::definition;
  out_.tag = "CREATE VIEW";
  if (body["withCheckOption"] && body["withCheckOption"].string() != "NO_CHECK_OPTION") refuse("WITH CHECK OPTION");
  const Node relation_node = body["view"];
  stored_ = true;
  const std::string text = query(body["query"].as("SelectStmt"));
  stored_ = false;
  if (!out_.parameters.empty()) refuse_as("42P02", "a view cannot have parameters");
  const bool temporary = relation_node["relpersistence"].string() == "t";
  const std::string name = relation_name(relation_node);
  if (body.flag("replace")) add("DROP VIEW IF EXISTS " + name);
  add(std::string("CREATE ") + (temporary ? "TEMP " : "") + "VIEW " + name + (body["aliases"] ? " " + key_list(body["aliases"]) : "") + " AS " + text);
}

void Writer::alter_table(Node body) {
  out_.effect = Effect::definition;
  out_.tag = "ALTER TABLE";
  const Node relation_node = body["relation"];
  if (body["objtype"].string() != "OBJECT_TABLE") refuse("ALTER of this kind of object", relation_node);
  const std::string table = relation_node.text("relname");
  const std::string head = "ALTER TABLE " + relation_name(relation_node) + " ";
  std::set<std::string> used;
  for (const Node command_node : body["cmds"].items()) {
    const Node command = command_node.as("AlterTableCmd");
    const std::string_view what = command["subtype"].string();
    if (what == "AT_AddColumn") {
      if (command.flag("missing_ok")) refuse("ADD COLUMN IF NOT EXISTS", relation_node);
      const Node column_node = command["def"].as("ColumnDef");
      if (is_serial(column_node["typeName"])) refuse("ADD COLUMN of a serial type", relation_node);
      bool unique = false;
      for (const Node each : column_node["constraints"].items()) {
        const std::string_view type = each.as("Constraint")["contype"].string();
        if (type == "CONSTR_PRIMARY" || type == "CONSTR_IDENTITY" || type == "CONSTR_GENERATED") refuse("ADD COLUMN with such a constraint", relation_node);
        unique = unique || type == "CONSTR_UNIQUE";
      }
      if (unique) refuse("ADD COLUMN … UNIQUE (create a unique index after it)", relation_node);
      add(head + "ADD COLUMN " + column_definition(column_node, table, false, false, used));
    } else if (what == "AT_DropColumn") {
      if (command.flag("missing_ok")) refuse("DROP COLUMN IF EXISTS", relation_node);
      add(head + "DROP COLUMN " + quoted_name(command.text("name")));
    } else if (what == "AT_AddConstraint") {
      const Node each = command["def"].as("Constraint");
      const std::string_view type = each["contype"].string();
      if ((type != "CONSTR_PRIMARY" && type != "CONSTR_UNIQUE") || each["indexname"]) refuse("ADD CONSTRAINT other than PRIMARY KEY and UNIQUE", relation_node);
      std::string name = each.text("conname");
      if (name.empty()) name = type == "CONSTR_PRIMARY" ? table + "_pkey" : table + "_" + joined(strings(each["keys"]), "_") + "_key";
      add("CREATE UNIQUE INDEX " + quoted_name(name) + " ON " + relation_name(relation_node) + " " + key_list(each["keys"]));
    } else if (what == "AT_ChangeOwner" || what == "AT_SetRelOptions" || what == "AT_ResetRelOptions" || what == "AT_SetLogged" || what == "AT_SetUnLogged" || what == "AT_ClusterOn" || what == "AT_DropCluster" ||
               what == "AT_SetStatistics" || what == "AT_SetStorage" || what == "AT_ReplicaIdentity") {
      continue;
    } else {
      refuse("this ALTER TABLE", relation_node);
    }
  }
  if (out_.sql.empty()) out_.effect = Effect::none;
}

void Writer::rename(Node body) {
  out_.effect = Effect::definition;
  out_.tag = "ALTER TABLE";
  const std::string_view what = body["renameType"].string();
  const Node relation_node = body["relation"];
  if (body.flag("missing_ok")) refuse("ALTER … IF EXISTS", relation_node);
  const std::string head = "ALTER TABLE " + relation_name(relation_node) + " RENAME ";
  if (what == "OBJECT_COLUMN") add(head + "COLUMN " + quoted_name(body.text("subname")) + " TO " + quoted_name(body.text("newname")));
  else if (what == "OBJECT_TABLE") add(head + "TO " + quoted_name(body.text("newname")));
  else refuse("RENAME of this kind of object", relation_node);
}

void Writer::drop(Node body) {
  out_.effect = Effect::definition;
  const std::string_view what = body["removeType"].string();
  const std::string_view word = what == "OBJECT_TABLE" ? "TABLE" : what == "OBJECT_VIEW" ? "VIEW" : what == "OBJECT_INDEX" ? "INDEX" : "";
  if (word.empty()) refuse("DROP of this kind of object");
  out_.tag = "DROP " + std::string(word);
  for (const Node object : body["objects"].items()) {
    std::vector<std::string> path = strings(object.as("List")["items"]);
    if (path.empty() || path.size() > 2 || (path.size() == 2 && path[0] != "public" && path[0] != "pg_temp" && path[0] != "pg_catalog")) refuse_as("3F000", "schema \"" + (path.empty() ? std::string() : path[0]) + "\" does not exist");
    add("DROP " + std::string(word) + " " + (body.flag("missing_ok") ? "IF EXISTS " : "") + (path.size() == 2 && path[0] == "pg_temp" ? "temp." : "") + quoted_name(path.back()));
  }
}

}  // namespace termgate::dialect
