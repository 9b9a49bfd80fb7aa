// CREATE, ALTER and DROP. Declared types stay in the table's text: types.hpp reads them back.
#include <algorithm>
#include <optional>

#include "names.hpp"
#include "typed.hpp"
#include "writer.hpp"

namespace termgate::dialect {

bool is_serial(Node type_name) {
  const std::string name = last_name(type_name["names"]);
  return name == "serial" || name == "bigserial" || name == "smallserial" || name == "serial2" || name == "serial4" || name == "serial8";
}

namespace {

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
  constexpr Oid internal_char = 18;
  if (relations_ != nullptr && type.oid == internal_char) refuse("a column of type \"char\"", type_name);
  std::string text = type_name["arrayBounds"] ? std::string(type.name) + "_array_text" : std::string(type.declared);
  const Node typmods = type_name["typmods"];
  // The blanks at a char's end are not stored, and only its length brings them back.
  if (!typmods && relations_ != nullptr && type.oid == oid::bpchar && !type_name["arrayBounds"])
    refuse("a column of type bpchar without a length", type_name);
  if (!typmods) return text;
  // Those that type_of_declaration() reads again: a length or precision that nobody keeps is none.
  const bool kept = type.oid == oid::varchar || type.oid == oid::bpchar || type.oid == oid::numeric || type.oid == oid::timestamp ||
                    type.oid == oid::timestamptz || type.oid == oid::time;
  std::vector<std::string> parts;
  for (const Node each : typmods.items()) {
    const Node number = each.as("A_Const");
    // char without a length has one of 1.
    if (!number["ival"] || !kept || whole(number) < 0) refuse("this type's length or precision", type_name);
    parts.push_back(std::to_string(whole(number)));
  }
  return text + "(" + joined(parts, ",") + ")";
}

std::string Writer::collation_name(Node names) {
  const std::string name = last_name(names);
  const std::string lower = lowered(name);
  if (lower == "nocase" || lower == "rtrim" || lower == "binary") return quoted_name(lower);
  if (name != "default" && name != "C" && name != "POSIX" && name != "ucs_basic")
    out_.notices.push_back("COLLATE \"" + name + "\" is left out: text compares by its bytes");
  return {};
}

// By types where that needs no function of the session's: other programs write such tables, too. Else as it is, if SQLite means the
// same by it; what it would reckon otherwise is refused.
std::string Writer::stored(Node expression_node, Kept what) {
  if (relations_ != nullptr && defined_) {
    Translated scratch;
    const std::string typed = Typed(scratch, sql_, *relations_, {}, false).over_columns(*defined_, expression_node, what);
    static constexpr std::string_view alike[] = {
        "pg_i2",     "pg_i4",      "pg_i8add",   "pg_i8sub",       "pg_i8mul",  "pg_num", "pg_numeric_cmp",    "pg_like",        "pg_ilike",
        "pg_regexp", "pg_iregexp", "pg_similar", "pg_like_escape", "pg_substr", "pg_now", "pg_localtimestamp", "pg_current_date"};
    bool plain = true;
    for (std::size_t at = typed.find("pg_"); at != std::string::npos; at = typed.find("pg_", at + 3)) {
      const std::size_t end = std::min(typed.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", at), typed.size());
      plain = false;
      const std::string_view called = std::string_view(typed).substr(at, end - at);
      // An index is of SQLite's lower(), which other programs keep, too: it tells letters of ASCII only.
      const bool letters = indexed_ && (called == "pg_lower" || called == "pg_upper");
      if (!letters && !only_faster_ && std::find(std::begin(alike), std::end(alike), called) == std::end(alike))
        refuse("an expression in the schema that needs " + std::string(called) + "()");
    }
    if (plain) return typed;
    if (only_faster_) return written(expression_node);
    std::vector<Node> open{expression_node};
    while (!open.empty()) {
      const Node next = open.back();
      open.pop_back();
      // A constant that its type writes otherwise.
      if (const Node constant_node = next.as("A_Const");
          constant_node["sval"] && typed.find(quoted_text(constant_node["sval"].text("sval"))) == std::string::npos)
        refuse("this constant in an expression of the schema", constant_node);
      next.children(open);
    }
  }
  return written(expression_node);
}

std::string Writer::written(Node expression_node) {
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

// Of an interval, a jsonb and some arrays equal values may have different texts, which a unique index would take for two.
void Writer::check_key(const std::string& column, Node at) const {
  if (!defined_) return;
  for (const auto& each : defined_->columns) {
    const Type* element = nullptr;
    for (const Type& type : types()) {
      if (type.array == each.type && each.type != 0) element = &type;
    }
    const Oid type = element != nullptr ? element->oid : each.type;
    const bool unsure = type == oid::interval || type == oid::jsonb || type == oid::json || (element != nullptr && type == oid::numeric);
    if (each.name == column && unsure)
      refuse("a unique column of type " + std::string(element != nullptr ? element->name : type_of(type)->name) +
                 (element != nullptr ? "[]" : ""),
             at);
  }
}

// CHECK, UNIQUE, PRIMARY KEY, FOREIGN KEY; `column` is empty for a table's own.
std::string Writer::constraint(Node body, const std::string& table, const std::string& column, std::set<std::string>& used) {
  const std::string_view type = body["contype"].string();
  const bool own = column.empty();
  std::string name = body.text("conname");
  if (name == stored_check_name) refuse_as("42939", "constraint name \"" + name + "\" is reserved", body);
  std::string text;
  if (type == "CONSTR_CHECK") {
    if (name.empty()) name = made_name(table + (own ? "_check" : "_" + column + "_check"), used);
    text = "CHECK (" + stored(body["raw_expr"], Kept::check) + ")";
  } else if (type == "CONSTR_UNIQUE" || type == "CONSTR_PRIMARY") {
    if (body.flag("nulls_not_distinct")) refuse("NULLS NOT DISTINCT", body);
    if (body.flag("deferrable") || body.flag("initdeferred")) refuse(deferrable_key, body);
    if (body["indexname"]) refuse("USING INDEX", body);
    if (own) {
      for (const std::string& key : strings(body["keys"])) check_key(key, body);
    } else {
      check_key(column, body);
    }
    text = std::string(type == "CONSTR_UNIQUE" ? "UNIQUE" : "PRIMARY KEY") + (own ? " " + key_list(body["keys"]) : "");
  } else if (type == "CONSTR_FOREIGN") {
    if (body["fk_matchtype"].string() == "f") refuse("MATCH FULL", body);
    if (body["fk_del_set_cols"]) refuse("SET NULL of some columns", body);
    check_reference(body, own ? strings(body["fk_attrs"]) : std::vector<std::string>{column}, table, body);
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

namespace {

// The text of a constant under any casts and signs; nothing for what is reckoned.
std::optional<std::string> constant_text(const Writer& writer, Node expression_node) {
  if (const Node cast = expression_node.as("TypeCast")) return constant_text(writer, cast["arg"]);
  const Node constant = expression_node.as("A_Const");
  if (!constant) {
    const Node sign = expression_node.as("A_Expr");
    if (!sign || sign["lexpr"] || last_name(sign["name"]) != "-") return std::nullopt;
    const auto number = constant_text(writer, sign["rexpr"]);
    return number && !number->starts_with("-") ? std::optional("-" + *number) : std::nullopt;
  }
  if (constant["sval"]) return constant["sval"].text("sval");
  if (constant["fval"]) return constant["fval"].text("fval");
  if (constant["ival"]) return std::to_string(writer.whole(constant));
  if (constant["boolval"]) return constant["boolval"].flag("boolval") ? "true" : "false";
  return std::nullopt;
}

// What now() and its kin are in a column of that type, by SQLite's own functions; empty: the type has no such default.
std::string moment_now(Oid type) {
  const auto bare = [](std::string_view format) { return "rtrim(rtrim(strftime('" + std::string(format) + "', 'now'), '0'), '.')"; };
  switch (type) {
    case oid::timestamptz: return bare("%Y-%m-%d %H:%M:%f") + " || '+00'";
    case oid::timestamp: return bare("%Y-%m-%d %H:%M:%f");
    case oid::date: return "date('now')";
    case oid::time: return bare("%H:%M:%f");
    case oid::timetz: return bare("%H:%M:%f") + " || '+00'";
    default: return {};
  }
}

bool is_now(Node expression_node) {
  if (expression_node.is("SQLValueFunction")) {
    const std::string_view op = expression_node.as("SQLValueFunction")["op"].string();
    return op.starts_with("SVFOP_CURRENT_DATE") || op.starts_with("SVFOP_CURRENT_TIME") || op.starts_with("SVFOP_LOCALTIME");
  }
  const Node called = expression_node.as("FuncCall");
  if (!called) return false;
  const std::string name = last_name(called["funcname"]);
  // now() AT TIME ZONE 'utc'
  if (name == "timezone" && called["args"].size() == 2)
    return lowered(called["args"].at(0).as("A_Const")["sval"].text("sval")) == "utc" && is_now(called["args"].at(1));
  if (called["args"]) return false;
  return name == "now" || name == "transaction_timestamp" || name == "statement_timestamp" || name == "clock_timestamp";
}

}  // namespace

// A DEFAULT stays in the schema: a constant as the column stores it, so that programs without the proxy store the same.
std::string Writer::default_value(Node expression_node, Node type_name) {
  if (relations_ == nullptr) return stored(expression_node, Kept::default_value);
  const bool plain = !type_name["arrayBounds"] && !type_name["typmods"];
  return default_of(expression_node, declared(type_name), plain ? type_in(type_name).oid : Oid{0});
}

// `plain`: the column's type where it is no array and has no precision.
std::string Writer::default_of(Node expression_node, const std::string& declared_text, Oid plain) {
  if (is_now(expression_node)) {
    if (const std::string now = moment_now(plain); !now.empty()) return now;
    refuse("the current time as a DEFAULT of this type", expression_node);
  }
  if (expression_node.as("A_Const").flag("isnull")) return "NULL";
  const auto text = constant_text(*this, expression_node);
  if (!text) {
    // nextval() is what counts anyway; a random uuid is made of SQLite's own functions.
    const Node called = expression_node.as("FuncCall");
    const std::string name = called ? last_name(called["funcname"]) : "";
    if (name == "gen_random_uuid" || name == "nextval" || name.starts_with("termgate_") || expression_node.is("A_ArrayExpr"))
      return stored(expression_node, Kept::default_value);
    refuse("a DEFAULT that is not a constant", expression_node);
  }
  const Node number = expression_node.as("A_Const");
  auto converted_text = relations_->stored_constant(*text, declared_text, number["fval"] || number["ival"] ? oid::numeric : Oid{0});
  if (auto* problem = std::get_if<SqlError>(&converted_text)) {
    // PostgreSQL finds it where a row is inserted.
    if (problem->sqlstate == "22001" || problem->sqlstate == "22003") refuse("a DEFAULT that the column cannot hold", expression_node);
    refuse_as(problem->sqlstate, problem->message, expression_node);
  }
  return std::get<std::string>(converted_text);
}

namespace {

// What is reckoned for a column of integers fails beyond them, as SQLite's abs() of the smallest number does (22003).
std::string within_integer(const std::string& text, Node expression_node, Node type_name) {
  const Type* type = type_name["arrayBounds"] ? nullptr : type_named(last_name(type_name["names"]));
  if (type == nullptr || (type->oid != oid::int2 && type->oid != oid::int4 && type->oid != oid::int8) || !expression_node.is("A_Expr"))
    return text;
  const std::string_view range = type->oid == oid::int2   ? "-32768 AND 32767"
                                 : type->oid == oid::int4 ? "-2147483648 AND 2147483647"
                                                          : "-9223372036854775808 AND 9223372036854775807";
  return "CASE WHEN (" + text + ") IS NULL OR (" + text + ") BETWEEN " + std::string(range) + " THEN " + text +
         " ELSE abs(-9223372036854775808) END";
}

}  // namespace

// In the schema of a file; a text alone has none.
std::string Writer::column_check(const std::string& name, Node type_name) const {
  if (relations_ == nullptr) return {};
  const Typed typed(out_, sql_, *relations_, {}, false);
  if (type_name["arrayBounds"]) return stored_check(name, typed.type_in_words(type_name), -1);
  const Oid type = type_of_name(type_name);
  return stored_check(name, type, typed.typmod_of(type_name, type));
}

std::string Writer::column_definition(Node body, const std::string& table, bool key, bool counted, std::set<std::string>& used) {
  const std::string name = body.text("colname");
  std::string text = quoted_name(name) + " ";
  const std::vector<Node> constraints = body["constraints"].items();
  if (counted) {
    // SQLite counts a key only where its type is INTEGER, in any letters: these tell a client's integer from its bigint.
    const Type* counts = body["typeName"] ? &type_in(body["typeName"]) : nullptr;
    const bool always = std::any_of(constraints.begin(), constraints.end(), [](Node each) {
      return each.as("Constraint")["contype"].string() == "CONSTR_IDENTITY" && each.as("Constraint")["generated_when"].string() == "a";
    });
    if (counts != nullptr && counts->oid == oid::int2) refuse("a smallint that counts", body["typeName"]);
    const bool serial = is_serial(body["typeName"]);
    text += counts != nullptr && counts->oid == oid::int4 ? (always   ? "INTegER"
                                                             : serial ? "INTegeR"
                                                                      : "INTeger")
                                                          : (always   ? "INTEGer"
                                                             : serial ? "INTEGEr"
                                                                      : "INTEGER");
    text += " PRIMARY KEY AUTOINCREMENT";
    // SQLite holds it to 64 bits by itself.
    if (relations_ != nullptr && counts != nullptr && counts->oid == oid::int4) text += " " + stored_check(name, oid::int4, -1);
  } else {
    if (!body["typeName"]) refuse("a column without a type", body);
    text += declared(body["typeName"]);
    if (const std::string check = column_check(name, body["typeName"]); !check.empty()) text += " " + check;
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
    if ((type == "CONSTR_UNIQUE" || type == "CONSTR_PRIMARY") && !deferral(constraints, i).empty()) refuse(deferrable_key, each);
    if (type == "CONSTR_NOTNULL") {
      if (!not_null) text += " NOT NULL";
      not_null = true;
    } else if (type == "CONSTR_DEFAULT") {
      text += " DEFAULT (" + default_value(each["raw_expr"], body["typeName"]) + ")";
    } else if (type == "CONSTR_GENERATED") {
      text += " GENERATED ALWAYS AS (" + within_integer(stored(each["raw_expr"], Kept::generated), each["raw_expr"], body["typeName"]) +
              ") STORED";
    } else if (type == "CONSTR_PRIMARY") {
      if (!counted) text += " " + constraint(each, table, name, used);
    } else {
      text += " " + constraint(each, table, name, used);
      if (type == "CONSTR_FOREIGN") text += deferral(constraints, i);
    }
  }
  return text;
}

// What the expressions of a CREATE TABLE may name.
void Writer::define(Node relation_node, const std::vector<Node>& elements) {
  if (relations_ == nullptr) return;
  defined_.emplace();
  defined_->name = relation_node.text("relname");
  for (const Node element : elements) {
    if (const Node column_node = element.as("ColumnDef")) define_column(column_node);
  }
}

void Writer::define_column(Node column_node) {
  if (relations_ == nullptr || !column_node["typeName"]) return;
  const Typed typed(out_, sql_, *relations_, {}, false);
  const bool array = static_cast<bool>(column_node["typeName"]["arrayBounds"]);
  if (array && is_serial(column_node["typeName"])) refuse_as("0A000", "array of serial is not implemented", column_node["typeName"]);
  const Oid type = array ? typed.type_in_words(column_node["typeName"]) : type_of_name(column_node["typeName"]);
  defined_->columns.push_back({column_node.text("colname"), type, array ? -1 : typed.typmod_of(column_node["typeName"], type), false});
}

// CREATE TEMPORARY …, or in the schema of temporary things.
bool Writer::is_temporary(Node relation_node) {
  const std::string schema = relation_node.text("schemaname");
  const bool there = schema == "pg_temp" || schema == "temp";
  const bool temporary = relation_node["relpersistence"].string() == "t";
  if (temporary && !there && !schema.empty()) refuse_as("42P16", "cannot create temporary relation in non-temporary schema", relation_node);
  if (temporary || there) {
    if (relations_ == nullptr) refuse("a temporary table", relation_node);
    out_.temporary = out_.typed = true;
    out_.temporary_name = relation_node.text("relname");
  }
  return temporary || there;
}

bool Writer::is_temporary_there(std::string_view name) const {
  const Relations::Relation* found = relations_ != nullptr ? relations_->find(name) : nullptr;
  return found != nullptr && found->temporary;
}

bool Writer::reads_temporary(Node query) const {
  std::vector<Node> open{query};
  while (!open.empty()) {
    const Node next = open.back();
    open.pop_back();
    if (next["relname"] && is_temporary_there(next.text("relname"))) return true;
    next.children(open);
  }
  return false;
}

void Writer::on_commit(Node relation_node, Node what) {
  const std::string_view action = what.string();
  if (action != "ONCOMMIT_DROP" && action != "ONCOMMIT_DELETE_ROWS" && action != "ONCOMMIT_PRESERVE_ROWS") return;
  if (!out_.temporary) refuse_as("42P16", "ON COMMIT can only be used on temporary tables", relation_node);
  out_.on_commit = action == "ONCOMMIT_DROP" ? 'd' : action == "ONCOMMIT_DELETE_ROWS" ? 'r' : '\0';
}

void Writer::create_table(Node body) {
  out_.effect = Effect::definition;
  out_.tag = "CREATE TABLE";
  const Node relation_node = body["relation"];
  const bool temporary = is_temporary(relation_node);
  if (body["partspec"] || body["partbound"]) refuse("partitioning", relation_node);
  if (body["inhRelations"]) refuse("INHERITS", relation_node);
  if (body["ofTypename"]) refuse("CREATE TABLE … OF", relation_node);
  on_commit(relation_node, body["oncommit"]);
  const std::string table = relation_node.text("relname");

  const std::vector<Node> elements = body["tableElts"].items();
  std::set<std::string> used;
  std::vector<std::string> key;
  bool key_on_column = false;
  for (const Node element : elements) {
    if (element.is("TableLikeClause")) refuse("LIKE in CREATE TABLE", relation_node);
    const Node own = element.as("Constraint");
    const auto is_first_key = [&] {
      if (!key.empty()) refuse_as("42P16", "multiple primary keys for table \"" + table + "\" are not allowed", relation_node);
    };
    if (own["contype"].string() == "CONSTR_PRIMARY") {
      is_first_key();
      key = strings(own["keys"]);
    }
    if (own["conname"]) used.insert(own.text("conname"));
    const Node column_node = element.as("ColumnDef");
    for (const Node each : column_node["constraints"].items()) {
      const Node constraint_body = each.as("Constraint");
      if (constraint_body["contype"].string() == "CONSTR_PRIMARY") {
        is_first_key();
        key = {column_node.text("colname")};
        key_on_column = true;
      }
      if (constraint_body["conname"]) used.insert(constraint_body.text("conname"));
    }
  }
  define(relation_node, elements);
  // A column that counts is SQLite's own counted key, or nothing.
  std::string counted;
  for (const Node element : elements) {
    const Node column_node = element.as("ColumnDef");
    const std::vector<Node> constraints = column_node["constraints"].items();
    const bool identity = std::any_of(constraints.begin(), constraints.end(),
                                      [](Node each) { return each.as("Constraint")["contype"].string() == "CONSTR_IDENTITY"; });
    if (!column_node || (!identity && !is_serial(column_node["typeName"]))) continue;
    const std::string name = column_node.text("colname");
    if (!counted.empty() || (!key.empty() && (key.size() != 1 || key[0] != name)))
      refuse("a serial or identity column beside another key", column_node);
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
  add(std::string("CREATE ") + (temporary ? "TEMP " : "") + "TABLE " + (body.flag("if_not_exists") ? "IF NOT EXISTS " : "") +
      (temporary ? quoted_name(table) : relation_name(relation_node)) + " (" + joined(parts, ", ") + ")");
  out_.typed = out_.typed || relations_ != nullptr;
}

void Writer::create_table_as(Node body) {
  out_.effect = Effect::definition;
  const std::string_view what = body["objtype"].string();
  if (what == "OBJECT_MATVIEW") refuse("a materialized view");
  if (!body["query"].is("SelectStmt")) refuse("CREATE TABLE AS EXECUTE");
  const Node into = body["into"];
  const Node relation_node = into["rel"];
  out_.tag = into.flag("skipData") ? "CREATE TABLE AS" : "SELECT";
  const bool temporary = is_temporary(relation_node);
  on_commit(relation_node, into["onCommit"]);
  if (relations_ != nullptr && Typed::wants(body["query"], *relations_)) return create_table_typed(body);
  std::string text = query(body["query"].body(), {strings(into["colNames"])});
  if (into.flag("skipData")) text = "SELECT * FROM (" + text + ") WHERE false";
  add(std::string("CREATE ") + (temporary ? "TEMP " : "") + "TABLE " + (body.flag("if_not_exists") ? "IF NOT EXISTS " : "") +
      (temporary ? quoted_name(relation_node.text("relname")) : relation_name(relation_node)) + " AS " + text);
}

// With the types of the query's columns, and then its rows.
void Writer::create_table_typed(Node body) {
  const Node into = body["into"], relation_node = into["rel"];
  if (body.flag("if_not_exists") && relations_->find(relation_node.text("relname")) != nullptr)
    return accept("CREATE TABLE AS", "relation \"" + relation_node.text("relname") + "\" already exists, skipping");
  std::vector<Column> columns;
  std::vector<std::string> values, parts;
  const std::string rows = Typed(out_, sql_, *relations_, {}).copied(body["query"].body(), strings(into["colNames"]), columns, values);
  out_.effect = Effect::definition;
  for (const Column& each : columns) {
    const Type* type = type_of(each.type);
    const Type* element = nullptr;
    for (const Type& candidate : types()) {
      if (type == nullptr && candidate.array == each.type) element = &candidate;
    }
    if (type == nullptr && element == nullptr) refuse("a column of this type", relation_node);
    std::string declared_text = element != nullptr ? std::string(element->name) + "_array_text" : std::string(type->declared);
    if (each.typmod >= 4 && each.type == oid::numeric)
      declared_text += "(" + std::to_string((each.typmod - 4) >> 16) + "," + std::to_string((each.typmod - 4) & 0xffff) + ")";
    if (each.typmod >= 4 && (each.type == oid::varchar || each.type == oid::bpchar))
      declared_text += "(" + std::to_string(each.typmod - 4) + ")";
    const std::string check = stored_check(each.name, each.type, each.typmod);
    parts.push_back(quoted_name(each.name) + " " + declared_text + (check.empty() ? "" : " " + check));
  }
  const std::string name = out_.temporary ? quoted_name(relation_node.text("relname")) : relation_name(relation_node);
  add(std::string("CREATE ") + (out_.temporary ? "TEMP " : "") + "TABLE " + name + " (" + joined(parts, ", ") + ")");
  if (!into.flag("skipData")) add("INSERT INTO " + name + " " + rows);
}

void Writer::create_index(Node body) {
  out_.effect = Effect::definition;
  out_.tag = "CREATE INDEX";
  const Node relation_node = body["relation"];
  if (const auto* known = relations_ != nullptr ? relations_->find(relation_node.text("relname")) : nullptr) defined_ = *known;
  out_.temporary = is_temporary_there(relation_node.text("relname"));
  // One that is not unique decides no answer.
  only_faster_ = !body.flag("unique");
  if (body.flag("concurrent")) out_.alone = "CREATE INDEX CONCURRENTLY";
  const std::string method = body.text("accessMethod");
  if (!method.empty() && method != "btree" && method != "hash") refuse("index method " + method, relation_node);
  if (body.flag("nulls_not_distinct")) refuse("NULLS NOT DISTINCT", relation_node);
  indexed_ = true;
  std::vector<std::string> parts;
  std::string made = relation_node.text("relname");
  for (const Node element : body["indexParams"].items()) {
    const Node each = element.as("IndexElem");
    if (body.flag("unique") && !each["expr"]) check_key(each.text("name"), relation_node);
    std::string text = each["expr"] ? stored(each["expr"], Kept::index) : quoted_name(each.text("name"));
    made += "_" + (each["expr"] ? result_name(each["expr"]) : each.text("name"));
    if (each["collation"]) {
      const std::string collation_text = collation_name(each["collation"]);
      if (!collation_text.empty()) text += " COLLATE " + collation_text;
    }
    if (each["ordering"].string() == "SORTBY_DESC") text += " DESC";
    parts.push_back(std::move(text));
  }
  const std::string name = body["idxname"] ? body.text("idxname") : made + "_idx";
  std::string text = std::string("CREATE ") + (body.flag("unique") ? "UNIQUE " : "") + "INDEX " +
                     (body.flag("if_not_exists") ? "IF NOT EXISTS " : "") + quoted_name(name) + " ON " + relation_name(relation_node) +
                     " (" + joined(parts, ", ") + ")";
  if (body["whereClause"]) text += " WHERE " + stored(body["whereClause"], Kept::predicate);
  add(std::move(text));
  out_.typed = out_.typed || relations_ != nullptr;
}

// CREATE OR REPLACE VIEW keeps the columns that there are, and may add others.
void Writer::check_replaced(Node relation_node, const std::vector<Column>& columns) const {
  const Relations::Relation* old = relations_->find(relation_node.text("relname"));
  if (old == nullptr || old->catalog) return;
  if (old->kind != 'v') refuse_as("42809", "\"" + old->name + "\" is not a view", relation_node);
  if (columns.size() < old->columns.size()) refuse_as("42P16", "cannot drop columns from view", relation_node);
  for (std::size_t i = 0; i < old->columns.size(); ++i) {
    const auto& before = old->columns[i];
    if (before.name != columns[i].name)
      refuse_as("42P16", "cannot change name of view column \"" + before.name + "\" to \"" + columns[i].name + "\"", relation_node);
    if (before.type != 0 && (before.type != columns[i].type || before.typmod != columns[i].typmod))
      refuse_as("42P16", "cannot change data type of view column \"" + before.name + "\"", relation_node);
  }
}

void Writer::create_view(Node body) {
  out_.effect = Effect::definition;
  out_.tag = "CREATE VIEW";
  if (body["withCheckOption"] && body["withCheckOption"].string() != "NO_CHECK_OPTION") refuse("WITH CHECK OPTION");
  const Node relation_node = body["view"];
  // Its text has the types of its columns, as SQLite keeps none of an expression.
  std::string types, text;
  if (relations_ != nullptr && Typed::wants(body["query"], *relations_)) {
    std::vector<Column> columns;
    text = Typed(out_, sql_, *relations_, {}).view(body["query"].as("SelectStmt"), types, columns);
    const std::vector<std::string> aliases = strings(body["aliases"]);
    for (std::size_t i = 0; i < aliases.size() && i < columns.size(); ++i) columns[i].name = aliases[i];
    if (body.flag("replace")) check_replaced(relation_node, columns);
    if (text.find("pg_") != std::string::npos)
      out_.notices.push_back("the view calls functions that programs which open the file without the proxy do not have");
    types = " /* columns: " + types + " */";
  } else {
    stored_ = true;
    text = query(body["query"].as("SelectStmt"));
    stored_ = false;
  }
  if (!out_.parameters.empty()) refuse_as("42P02", "a view cannot have parameters");
  bool temporary = is_temporary(relation_node);
  const std::string plain = quoted_name(relation_node.text("relname"));
  if (!temporary && reads_temporary(body["query"])) {
    out_.notices.push_back("view \"" + relation_node.text("relname") + "\" will be a temporary view");
    temporary = out_.temporary = true;
  }
  const std::string name = temporary ? plain : relation_name(relation_node);
  if (body.flag("replace")) add("DROP VIEW IF EXISTS " + (temporary ? "temp." + plain : name));
  add(std::string("CREATE ") + (temporary ? "TEMP " : "") + "VIEW " + name + (body["aliases"] ? " " + key_list(body["aliases"]) : "") +
      types + " AS " + text);
}

}  // namespace termgate::dialect
