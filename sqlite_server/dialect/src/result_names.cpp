// FigureColname() of PostgreSQL's parse_target.c: what a result column is called that has no AS.
#include <utility>

#include "writer.hpp"

namespace termgate::dialect {
namespace {

// The name and how sure it is: 0 none, 1 a type's, 2 good.
std::pair<std::string, int> figure(Node node) {
  const std::string_view kind = node.kind();
  const Node body = node.body();
  if (kind == "ColumnRef") {
    std::string name;
    for (const Node field : body["fields"].items()) {
      if (field.is("String")) name = field.as("String").text("sval");
    }
    return {name, name.empty() ? 0 : 2};
  }
  if (kind == "A_Indirection") {
    std::string name;
    for (const Node step : body["indirection"].items()) {
      if (step.is("String")) name = step.as("String").text("sval");
    }
    return name.empty() ? figure(body["arg"]) : std::pair(name, 2);
  }
  if (kind == "FuncCall") return {last_name(body["funcname"]), 2};
  if (kind == "A_Expr" && body["kind"].string() == "AEXPR_NULLIF") return {"nullif", 2};
  if (kind == "TypeCast") {
    auto inner = figure(body["arg"]);
    return inner.second > 1 ? inner : std::pair(last_name(body["typeName"]["names"]), 1);
  }
  if (kind == "CollateClause") return figure(body["arg"]);
  if (kind == "GroupingFunc") return {"grouping", 2};
  if (kind == "SubLink") {
    const std::string_view which = body["subLinkType"].string();
    if (which == "EXISTS_SUBLINK") return {"exists", 2};
    if (which == "ARRAY_SUBLINK") return {"array", 2};
    if (which == "EXPR_SUBLINK") {
      Node select = body["subselect"].as("SelectStmt");
      while (select["larg"]) select = select["larg"];
      if (select["valuesLists"]) return {"column1", 2};
      const Node target = select["targetList"].at(0).as("ResTarget");
      if (target["name"]) return {target.text("name"), 2};
      return figure(target["val"]);
    }
    return {};
  }
  if (kind == "CaseExpr") {
    auto inner = figure(body["defresult"]);
    return inner.second > 1 ? inner : std::pair(std::string("case"), 1);
  }
  if (kind == "A_ArrayExpr") return {"array", 2};
  if (kind == "RowExpr") return {"row", 2};
  if (kind == "CoalesceExpr") return {"coalesce", 2};
  if (kind == "MinMaxExpr") return {body["op"].string() == "IS_LEAST" ? "least" : "greatest", 2};
  if (kind == "SQLValueFunction") {
    const std::string_view op = body["op"].string();
    constexpr std::pair<std::string_view, std::string_view> names[] = {
        {"SVFOP_CURRENT_DATE", "current_date"},    {"SVFOP_CURRENT_TIMESTAMP", "current_timestamp"},
        {"SVFOP_CURRENT_TIME", "current_time"},    {"SVFOP_LOCALTIMESTAMP", "localtimestamp"},
        {"SVFOP_LOCALTIME", "localtime"},          {"SVFOP_CURRENT_ROLE", "current_role"},
        {"SVFOP_CURRENT_USER", "current_user"},    {"SVFOP_USER", "user"},
        {"SVFOP_SESSION_USER", "session_user"},    {"SVFOP_CURRENT_CATALOG", "current_catalog"},
        {"SVFOP_CURRENT_SCHEMA", "current_schema"}};
    for (const auto& [prefix, name] : names) {
      if (op.starts_with(prefix)) return {std::string(name), 2};
    }
  }
  return {};
}

}  // namespace

std::string result_name(Node expression) {
  auto [name, strength] = figure(expression);
  return strength == 0 ? "?column?" : name;
}

}  // namespace termgate::dialect
