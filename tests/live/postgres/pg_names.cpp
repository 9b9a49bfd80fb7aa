// [F3] [F6] Functions that run as the owner of layer 1 without SET search_path call nothing of the
// caller's: every operator, function, type and table in them names its schema. IN, IS DISTINCT FROM
// and the like cannot name one, and find the caller's operators.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include <boost/json.hpp>
#include <pg_query.h>

#include "pg_calls.hpp"

using termgate::test::PgDatabase;
using termgate::test::PgSession;
namespace json = boost::json;

namespace {

json::value read(const char* text) {
  json::parse_options options;
  options.max_depth = 500;
  return json::parse(text, {}, options);
}

// What parses `text`: an expression of PL/pgSQL is not yet a statement.
json::value parsed(const std::string& text) {
  for (const std::string& sql :
       {text, "SELECT " + text,
        "SELECT " + text.substr(std::min(text.size(), text.find(":=") + 2))}) {
    PgQueryParseResult result = pg_query_parse(sql.c_str());
    json::value tree = result.error != nullptr ? json::value() : read(result.parse_tree);
    pg_query_free_parse_result(result);
    if (!tree.is_null()) return tree;
  }
  return {};
}

bool names_a_schema(const json::object& node, const char* field) {
  const auto* names = node.if_contains(field);
  return names != nullptr && names->as_array().size() > 1;
}

// Adds what a node of the grammar would look up in the search path.
void look_at(const std::string& kind, const json::object& node, std::vector<std::string>& found) {
  const auto bad = [&](bool is_bad) {
    if (is_bad) found.push_back(kind + " " + json::serialize(node).substr(0, 120));
  };
  const auto text = [&](const char* field) {
    const auto* value = node.if_contains(field);
    return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
  };
  if (kind == "A_Expr") {
    const std::string form = text("kind");
    bad((form != "AEXPR_OP" && form != "AEXPR_OP_ANY" && form != "AEXPR_OP_ALL") ||
        !names_a_schema(node, "name"));
  }
  if (kind == "FuncCall") bad(!names_a_schema(node, "funcname"));
  if (kind == "typeName" || kind == "TypeName") bad(!names_a_schema(node, "names"));
  if (kind == "CollateClause") bad(!names_a_schema(node, "collname"));
  if (kind == "RangeVar") bad(text("schemaname").empty());
  if (kind == "CaseExpr") bad(node.contains("arg"));
  if (kind == "JoinExpr") bad(node.contains("usingClause") || node.contains("isNatural"));
  if (kind == "SubLink")
    bad((text("subLinkType") == "ANY_SUBLINK" || text("subLinkType") == "ALL_SUBLINK") &&
        !names_a_schema(node, "operName"));
  if (kind == "SortBy") bad(node.contains("useOp") && !names_a_schema(node, "useOp"));
}

void walk(const json::value& value, std::vector<std::string>& found) {
  if (value.is_array())
    for (const auto& one : value.as_array()) walk(one, found);
  if (!value.is_object()) return;
  for (const auto& [key, inside] : value.as_object()) {
    if (inside.is_object()) look_at(std::string(key), inside.as_object(), found);
    walk(inside, found);
  }
}

void walk_plpgsql(const json::value& value, std::vector<std::string>& found) {
  if (value.is_array())
    for (const auto& one : value.as_array()) walk_plpgsql(one, found);
  if (!value.is_object()) return;
  for (const auto& [key, inside] : value.as_object()) {
    if (key == "PLpgSQL_stmt_case" || key == "PLpgSQL_stmt_dynexecute") found.emplace_back(key);
    if (key == "typname" && inside.as_string() != "UNKNOWN" &&
        inside.as_string().find('.') == json::string::npos)
      found.push_back("a variable of the type " + std::string(inside.as_string()));
    if (key == "query" && inside.is_string()) {
      const std::string text(inside.as_string());
      const json::value tree = parsed(text);
      if (tree.is_null()) found.push_back("not parsed: " + text);
      walk(tree, found);
    }
    walk_plpgsql(inside, found);
  }
}

std::vector<std::string> looked_up(const std::string& language, std::string text) {
  std::vector<std::string> found;
  if (language == "sql") {
    const json::value tree = parsed(text);
    if (tree.is_null()) found.push_back("not parsed: " + text);
    walk(tree, found);
    return found;
  }
  // The parser of PL/pgSQL knows no collations of variables.
  const std::string collation = R"( COLLATE pg_catalog."C" :=)";
  for (std::size_t at = 0; (at = text.find(collation, at)) != std::string::npos;)
    text.replace(at, collation.size(), " :=");
  const std::string declared = R"( COLLATE pg_catalog."C";)";
  for (std::size_t at = 0; (at = text.find(declared, at)) != std::string::npos;)
    text.replace(at, declared.size(), ";");
  PgQueryPlpgsqlParseResult result = pg_query_parse_plpgsql(text.c_str());
  if (result.error != nullptr) found.push_back(std::string("not parsed: ") + result.error->message);
  else walk_plpgsql(read(result.plpgsql_funcs), found);
  pg_query_free_plpgsql_parse_result(result);
  return found;
}

}  // namespace

TEST_CASE("names: what has no search_path of its own looks nothing up in the caller's",
          "[F3][F6][live]") {
  PgDatabase database("tg_names");
  PgSession owner(database.url());
  owner.must(
      "CREATE TABLE by_column (scope text, term bigint); CREATE TABLE whole (v int);"
      "CREATE TABLE kept (scope text, term bigint); CREATE INDEX ON kept (scope, term);"
      "SELECT termgate.protect('by_column', scope_column => 'scope');"
      "SELECT termgate.protect('whole', scope => 'a'); SELECT termgate.adopt('kept', 'scope', "
      "'term')");
  const auto functions = owner.must(
      "SELECT p.oid::regprocedure::text, l.lanname, CASE l.lanname WHEN 'sql' THEN p.prosrc ELSE "
      "pg_get_functiondef(p.oid) END FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang "
      "WHERE p.pronamespace = 'termgate'::regnamespace AND l.lanname IN ('sql', 'plpgsql') AND NOT "
      "EXISTS (SELECT FROM unnest(p.proconfig) c WHERE c LIKE 'search_path=%')");
  // Those of the check, of append and of the triggers, one for each protected column.
  CHECK(functions.rows.size() >= 20);
  for (const auto& function : functions.rows) {
    INFO(function[0]);
    for (const std::string& found : looked_up(function[1], function[2])) FAIL_CHECK(found);
  }
}

TEST_CASE("names: the test above sees each way to look something up", "[live]") {
  for (const char* text :
       {"a IS DISTINCT FROM b", "a IS NOT DISTINCT FROM b", "a IN (1, 2)", "a NOT IN (1, 2)",
        "a BETWEEN 1 AND 2", "NULLIF(a, b)", "a LIKE b", "a = b", "a = ANY (c)", "f(a)", "a::text",
        "a COLLATE \"C\"", "CASE a WHEN 1 THEN 2 END", "a IN (SELECT 1)", "(SELECT 1 FROM t)",
        "(SELECT 1 FROM s.t JOIN s.u USING (v))", "(SELECT 1 FROM s.t NATURAL JOIN s.u)"}) {
    CAPTURE(text);
    CHECK_FALSE(looked_up("sql", std::string("SELECT ") + text).empty());
  }
  const auto body = [](const std::string& declared, const std::string& statement) {
    return looked_up("plpgsql", "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ DECLARE " +
                                    declared + " BEGIN " + statement + " END $$");
  };
  CHECK(body("v pg_catalog.text := '';", "RETURN 1;").empty());
  CHECK_FALSE(body("v text := '';", "RETURN 1;").empty());
  CHECK_FALSE(body("v pg_catalog.text := f();", "RETURN 1;").empty());
  CHECK_FALSE(body("v pg_catalog.text;", "v := 1 + 1;").empty());
  CHECK_FALSE(body("v pg_catalog.text;", "EXECUTE 'SELECT 1';").empty());
  CHECK_FALSE(body("v pg_catalog.text;", "CASE v WHEN '1' THEN RETURN 1; END CASE;").empty());
}
