// Operators, constants, columns, conditions.
#include <algorithm>
#include <cstdint>

#include "names.hpp"
#include "shapes.hpp"
#include "writer.hpp"

namespace termgate::dialect {
namespace {

constexpr std::size_t walk_depth_max = 300;

struct Operator {
  std::string_view symbol;
  std::string_view written;
  Level level;
  bool comparison;
};
// clang-format off
constexpr Operator operators[] = {
    {"+", "+", sum, false}, {"-", "-", sum, false}, {"*", "*", product, false}, {"/", "/", product, false}, {"%", "%", product, false}, {"||", "||", concatenation, false},
    {"&", "&", bits, false}, {"|", "|", bits, false}, {"<<", "<<", bits, false}, {">>", ">>", bits, false}, {"->", "->", concatenation, false}, {"->>", "->>", concatenation, false},
    {"=", "=", equality, true}, {"<>", "<>", equality, true}, {"!=", "<>", equality, true}, {"<", "<", comparison, true}, {"<=", "<=", comparison, true}, {">", ">", comparison, true},
    {">=", ">=", comparison, true}};
// clang-format on

const Operator* operator_named(std::string_view symbol) {
  for (const Operator& each : operators) {
    if (each.symbol == symbol) return &each;
  }
  return nullptr;
}

constexpr std::size_t symmetric_bytes_max = 1 << 14;

bool is_null(Node node) { return node.as("A_Const").flag("isnull"); }
bool is_moment(Oid type) { return type == oid::timestamp || type == oid::timestamptz || type == oid::time || type == oid::timetz; }

}  // namespace

void refuse_as(std::string_view sqlstate, std::string message, Node at) {
  const std::int64_t location = at ? at.integer("location", -1) : -1;
  throw Refused{{std::string(sqlstate), std::move(message), location < 0 ? 0 : static_cast<std::size_t>(location) + 1}};
}
void refuse(std::string_view what, Node at) { refuse_as("0A000", std::string(what) + " is not supported on SQLite", at); }

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) result += separator;
    result += parts[i];
  }
  return result;
}

std::string call_of(std::string_view function, std::string_view of_several, std::vector<std::string> parts) {
  constexpr std::size_t most = 100;  // SQLite's functions take 127 arguments
  const auto call = [](std::string_view name, const std::vector<std::string>& all) {
    return std::string(name) + "(" + joined(all, ", ") + ")";
  };
  while (parts.size() > most) {
    std::vector<std::string> calls;
    for (std::size_t at = 0; at < parts.size(); at += most) {
      const auto end = std::min(at + most, parts.size());
      const auto offset = [&](std::size_t place) { return parts.begin() + static_cast<std::ptrdiff_t>(place); };
      const std::vector<std::string> some(offset(at), offset(end));
      calls.push_back(some.size() == 1 && function == of_several ? some[0] : call(function, some));
    }
    parts = std::move(calls);
    function = of_several;
  }
  return call(function, parts);
}

Writer::Deeper::Deeper(Writer& writer) : writer_(writer) {
  if (++writer_.depth_ > walk_depth_max) {
    --writer_.depth_;
    refuse_as("54001", "this statement nests deeper than can be translated");
  }
}

std::string Writer::wrapped(const Sql& sql, Level least) const { return sql.level < least ? "(" + sql.text + ")" : sql.text; }
// It has the operand once: nested, it would double with each level, and be evaluated as often.
std::string Writer::boolean_text(const Sql& sql) const {
  return "CASE NOT " + wrapped(sql, unary) + " WHEN 0 THEN 'true' WHEN 1 THEN 'false' END";
}
std::string Writer::operand(Node node, Level least) { return wrapped(expression(node), least); }

std::string Writer::list_of(Node list) {
  std::vector<std::string> parts;
  for (const Node item : list.items()) parts.push_back(expression(item).text);
  return joined(parts, ", ");
}

// libpg_query 15 leaves a negative number out as if it were zero (its JSON prints what is > 0): it is read from the text.
std::int64_t Writer::whole(Node constant_body) const {
  const std::int64_t written = constant_body["ival"].integer("ival");
  const std::int64_t location = constant_body.integer("location", 0);
  if (written != 0 || location < 0) return written;
  auto at = static_cast<std::size_t>(location);
  bool minus = false;
  for (; at < sql_.size(); ++at) {
    const char c = sql_[at];
    if (sql_.substr(at, 2) == "--") at = std::min(sql_.find_first_of("\r\n", at), sql_.size() - 1);
    else if (sql_.substr(at, 2) == "/*") refuse("a comment within a number", constant_body);
    else if (c == '-') minus = !minus;
    else if (c != '(' && c != ' ' && (c < '\t' || c > '\r')) break;
  }
  std::int64_t value = 0;
  for (; at < sql_.size() && sql_[at] >= '0' && sql_[at] <= '9' && value <= INT32_MAX; ++at) value = value * 10 + (sql_[at] - '0');
  return minus ? -value : value;
}

Sql Writer::constant(Node body) const {
  if (body.flag("isnull")) return {"NULL"};
  if (body["ival"]) {
    const std::int64_t value = whole(body);
    return {std::to_string(value), value < 0 ? unary : primary, oid::int4};
  }
  if (body["fval"]) {
    const std::string text = body["fval"].text("fval");
    const bool whole_digits = text.find_first_not_of("0123456789") == std::string::npos;
    // Whole numbers of up to 19 digits stay whole where 64 bits hold them.
    const bool fits = whole_digits && (text.size() < 19 || (text.size() == 19 && text <= "9223372036854775807"));
    if (fits) return {text, primary, oid::int8};
    return {whole_digits ? text + ".0" : text, text[0] == '-' ? unary : primary, oid::numeric};
  }
  if (body["sval"])
    return {quoted_text(body["sval"].string().empty() ? std::string_view(body["sval"]["sval"].string()) : body["sval"].string()), primary,
            oid::unknown};
  if (body["boolval"]) return {body["boolval"].flag("boolval") ? "1" : "0", primary, oid::boolean};
  refuse("a bit string", body);
}

Sql Writer::parameter(Node body, Oid type) {
  const std::int64_t number = body.integer("number");
  if (number < 1 || number > 65535) refuse_as("42P02", "there is no parameter $" + std::to_string(number), body);
  if (out_.parameters.size() < static_cast<std::size_t>(number)) out_.parameters.resize(static_cast<std::size_t>(number));
  Oid& known = out_.parameters[static_cast<std::size_t>(number) - 1];
  if (known == 0) known = type;
  return {"?" + std::to_string(number), primary, known};
}

Sql Writer::column(Node body) {
  const Node fields = body["fields"];
  std::vector<std::string> names;
  bool star = false;
  for (const Node field : fields.items()) {
    if (field.is("A_Star")) star = true;
    else names.push_back(field.as("String").text("sval"));
  }
  if (names.size() > 2) {
    if (names.size() > 3 || (names[0] != "public" && names[0] != "pg_catalog" && names[0] != "information_schema"))
      refuse_as("42P01", "missing FROM-clause entry for table \"" + names[0] + "\"", body);
    if (names[0] == "information_schema") names[1] = "information_schema_" + names[1];
    names.erase(names.begin());
  }
  if (names.size() == 2 && !returned_.empty() && names[0] == returned_) names.erase(names.begin());
  Oid type = 0;
  if (!star) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      for (const Renamed& renamed : *scope) {
        const bool match = names.size() == 1 ? renamed.column == names[0] : renamed.relation == names[0] && renamed.column == names[1];
        if (!match) continue;
        if (!renamed.sql.empty()) return {renamed.sql, primary, renamed.type};
        // Further out, a table between may have a column of that name.
        if (scope == scopes_.rbegin()) type = renamed.type;
      }
    }
  }
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(quoted_name(name));
  if (star) quoted.emplace_back("*");
  return {joined(quoted, "."), primary, type};
}

Sql Writer::expression(Node node) {
  const Deeper deeper(*this);
  const std::string_view kind = node.kind();
  const Node body = node.body();
  if (kind == "ColumnRef") {
    if (const Node fields = body["fields"]; fields.at(fields.size() - 1).is("A_Star")) refuse("a whole row within an expression", body);
    return column(body);
  }
  if (kind == "A_Const") return constant(body);
  if (kind == "ParamRef") return parameter(body);
  if (kind == "A_Expr") return operation(body);
  if (kind == "BoolExpr") return boolean(body);
  if (kind == "FuncCall") return call(body);
  if (kind == "TypeCast") return cast(body);
  if (kind == "SubLink") return link(body);
  if (kind == "CaseExpr") return choice(body);
  if (kind == "A_Indirection") return indirection(body);
  if (kind == "SQLValueFunction") return value_function(body);
  if (kind == "CoalesceExpr") {
    const Node args = body["args"];
    if (args.size() == 1) return expression(args.at(0));
    std::vector<std::string> parts;
    Oid type = 0;
    for (const Node arg : args.items()) {
      const Sql each = expression(arg);
      if (type == 0 || type == oid::unknown) type = each.type;
      parts.push_back(each.text);
    }
    return {"coalesce(" + joined(parts, ", ") + ")", primary, type};
  }
  if (kind == "MinMaxExpr") {
    std::vector<std::string> parts;
    Oid type = 0;
    for (const Node arg : body["args"].items()) {
      const Sql each = expression(arg);
      if (type == 0 || type == oid::unknown) type = each.type;
      parts.push_back(each.text);
    }
    return supplied(body["op"].string() == "IS_LEAST" ? "pg_least" : "pg_greatest", joined(parts, ", "), type);
  }
  if (kind == "NullTest")
    return {operand(body["arg"], bits) + (body["nulltesttype"].string() == "IS_NULL" ? " IS NULL" : " IS NOT NULL"), equality,
            oid::boolean};
  if (kind == "BooleanTest") {
    const std::string_view test = body["booltesttype"].string();
    // SQLite knows IS TRUE and IS FALSE; IS UNKNOWN is IS NULL.
    const std::string_view written = test == "IS_TRUE"        ? " IS TRUE"
                                     : test == "IS_NOT_TRUE"  ? " IS NOT TRUE"
                                     : test == "IS_FALSE"     ? " IS FALSE"
                                     : test == "IS_NOT_FALSE" ? " IS NOT FALSE"
                                     : test == "IS_UNKNOWN"   ? " IS NULL"
                                                              : " IS NOT NULL";
    return {operand(body["arg"], bits).append(written), equality, oid::boolean};
  }
  if (kind == "CollateClause") {
    Sql arg = expression(body["arg"]);
    const std::string name = collation_name(body["collname"]);
    if (name.empty()) return arg;
    return {wrapped(arg, collation) + " COLLATE " + name, collation, arg.type};
  }
  if (kind == "RowExpr") {
    if (body["args"].size() < 2) refuse("a row of fewer than two columns", body);
    return {"(" + list_of(body["args"]) + ")", primary, oid::record};
  }
  if (kind == "A_ArrayExpr") return supplied("pg_array", list_of(body["elements"]), oid::text_array);
  if (kind == "SetToDefault") refuse("DEFAULT here", body);
  if (kind == "GroupingFunc") refuse("GROUPING", body);
  if (kind == "CurrentOfExpr") refuse("WHERE CURRENT OF", body);
  if (kind == "XmlExpr" || kind == "XmlSerialize") refuse("XML", body);
  if (kind == "MultiAssignRef") refuse("this assignment", body);
  refuse(kind.empty() ? std::string_view("this expression") : kind, body);
}

Sql Writer::boolean(Node body) {
  const std::string_view which = body["boolop"].string();
  const Node args = body["args"];
  if (which == "NOT_EXPR") {
    const Sql inner = expression(args.at(0));
    return {"NOT " + wrapped(inner, negation), negation, oid::boolean};
  }
  const Level level = which == "AND_EXPR" ? conjunction : disjunction;
  std::vector<std::string> parts;
  for (const Node arg : args.items()) parts.push_back(operand(arg, static_cast<Level>(level + 1)));
  return {joined(parts, level == conjunction ? " AND " : " OR "), level, oid::boolean};
}

Sql Writer::choice(Node body) {
  std::string text = "CASE";
  if (body["arg"]) text += " " + operand(body["arg"], bits);
  Oid type = 0;
  for (const Node when : body["args"].items()) {
    const Node each = when.as("CaseWhen");
    const Sql result = expression(each["result"]);
    if (type == 0 || type == oid::unknown) type = result.type;
    text += " WHEN " + operand(each["expr"], disjunction) + " THEN " + wrapped(result, disjunction);
  }
  if (body["defresult"]) {
    const Sql result = expression(body["defresult"]);
    if (type == 0 || type == oid::unknown) type = result.type;
    text += " ELSE " + wrapped(result, disjunction);
  }
  return {text + " END", primary, type};
}

Sql Writer::value_function(Node body) {
  const std::string_view op = body["op"].string();
  if (op.starts_with("SVFOP_CURRENT_DATE"))
    return stored_ ? Sql{"date('now')", primary, oid::date} : supplied("pg_current_date", "", oid::date);
  if (op.starts_with("SVFOP_CURRENT_TIMESTAMP")) {
    return stored_ ? Sql{"(strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00')", primary, oid::timestamptz}
                   : supplied("pg_now", "", oid::timestamptz);
  }
  if (op.starts_with("SVFOP_LOCALTIMESTAMP"))
    return stored_ ? Sql{"strftime('%Y-%m-%d %H:%M:%f', 'now')", primary, oid::timestamp}
                   : supplied("pg_localtimestamp", "", oid::timestamp);
  if (op.starts_with("SVFOP_CURRENT_TIME")) return supplied("pg_current_time", "", oid::timetz);
  if (op.starts_with("SVFOP_LOCALTIME")) return supplied("pg_localtime", "", oid::time);
  if (op == "SVFOP_CURRENT_CATALOG") return supplied("current_database", "", oid::name);
  if (op == "SVFOP_CURRENT_SCHEMA") return supplied("current_schema", "", oid::name);
  if (op == "SVFOP_SESSION_USER") return supplied("session_user", "", oid::name);
  return supplied("current_user", "", oid::name);
}

// x[i]: an element of an array in its text form.
Sql Writer::indirection(Node body) {
  Sql result = expression(body["arg"]);
  for (const Node step : body["indirection"].items()) {
    const Node indices = step.as("A_Indices");
    if (step.is("A_Star")) refuse("(row).*", body);
    if (const Node field = step.as("String")) {
      // A value of several fields is a JSON object here.
      result = {"json_extract(" + result.text + ", " + quoted_text("$.\"" + field.text("sval") + "\"") + ")", primary, 0};
      continue;
    }
    if (indices.flag("is_slice")) {
      result = supplied("pg_slice",
                        result.text + ", " + (indices["lidx"] ? expression(indices["lidx"]).text : "NULL") + ", " +
                            (indices["uidx"] ? expression(indices["uidx"]).text : "NULL"),
                        result.type);
    } else {
      result = supplied("pg_element", result.text + ", " + expression(indices["uidx"]).text, 0);
    }
  }
  return result;
}

Sql Writer::link(Node body) {
  const std::string_view which = body["subLinkType"].string();
  const Node select = body["subselect"].as("SelectStmt");
  if (which == "EXISTS_SUBLINK") return {"EXISTS (" + query(select) + ")", primary, oid::boolean};
  if (which == "ARRAY_SUBLINK") {
    const std::string value = "pg_v" + std::to_string(++made_);
    left_to_the_session("pg_array_agg");
    return {"(SELECT pg_array_agg(" + value + ") FROM (" + query(select, {{value}}) + "))", primary, oid::text_array};
  }
  if (which == "EXPR_SUBLINK") {
    std::vector<Column> columns;
    std::string text = "(" + query(select, {}, &columns) + ")";
    return {std::move(text), primary, columns.size() == 1 ? columns[0].type : 0};
  }
  const bool all = which == "ALL_SUBLINK";
  if (!all && which != "ANY_SUBLINK") refuse("this kind of subquery", body);
  const std::string symbol = body["operName"] ? last_name(body["operName"]) : "=";
  const Operator* op = operator_named(symbol);
  if (op == nullptr || !op->comparison) refuse("operator " + symbol + " with ANY or ALL", body);
  if (!all && op->written == "=") return {operand(body["testexpr"], bits) + " IN (" + query(select) + ")", equality, oid::boolean};
  if (all && op->written == "<>") return {operand(body["testexpr"], bits) + " NOT IN (" + query(select) + ")", equality, oid::boolean};
  const std::string value = "pg_v" + std::to_string(++made_);
  const std::string test = operand(body["testexpr"], unary);
  const std::string rows = "(" + query(select, {{value}}) + ")";
  return {"(SELECT coalesce(" + std::string(all ? "min" : "max") + "(" + test + " " + std::string(op->written) + " " + value + "), " +
              (all ? "1" : "0") + ") FROM " + rows + ")",
          primary, oid::boolean};
}

std::string Writer::array_rows(Node array) {
  Sql text = expression(array);
  return supplied("pg_array_json", text.text, oid::json).text;
}

// = ANY (array): a list where the text has the elements, else the rows of the array's JSON.
Sql Writer::any_or_all(Node body, bool all) {
  const std::string symbol = last_name(body["name"]);
  const Operator* op = operator_named(symbol);
  if (op == nullptr || !op->comparison) {
    if (!all && (symbol == "~~" || symbol == "~~*" || symbol == "~" || symbol == "~*")) {
      const std::string value = operand(body["lexpr"], lowest);
      const std::string_view function = symbol == "~~"    ? "pg_like"
                                        : symbol == "~~*" ? "pg_ilike"
                                        : symbol == "~"   ? "pg_regexp"
                                                          : "pg_iregexp";
      const std::string test = supplied(function, value + ", value", oid::boolean).text;
      return {"EXISTS (SELECT 1 FROM json_each(" + array_rows(body["rexpr"]) + ") WHERE " + test + ")", primary, oid::boolean};
    }
    refuse("operator " + symbol + " with ANY or ALL", body);
  }
  const bool in = !all && op->written == "=";
  const bool not_in = all && op->written == "<>";
  const Node array = body["rexpr"];
  std::string element = "value";
  Node bare = array;
  if (const Node inner_cast = array.as("TypeCast"); inner_cast && inner_cast["typeName"]["arrayBounds"]) {
    bare = inner_cast["arg"];
    const Type& type = type_in(inner_cast["typeName"]);
    if (bare.is("ParamRef")) parameter(bare.body(), type.array);
    if (type.stored == Stored::integer) element = "CAST(value AS INTEGER)";
    if (type.stored == Stored::real || type.oid == oid::numeric) element = "CAST(value AS NUMERIC)";
  }
  const std::string left = operand(body["lexpr"], bits);
  if (const Node literal = bare.as("A_ArrayExpr"); literal && (in || not_in))
    return {left + (in ? " IN (" : " NOT IN (") + list_of(literal["elements"]) + ")", equality, oid::boolean};
  const std::string rows = "json_each(" + array_rows(bare) + ")";
  // An array that is NULL makes the answer NULL in PostgreSQL and false or true here; in a WHERE only NOT IN tells them apart.
  if (in || not_in) return {left + (in ? " IN (SELECT " : " NOT IN (SELECT ") + element + " FROM " + rows + ")", equality, oid::boolean};
  return {"(SELECT coalesce(" + std::string(all ? "min" : "max") + "(" + operand(body["lexpr"], unary) + " " + std::string(op->written) +
              " " + element + "), " + (all ? "1" : "0") + ") FROM " + rows + ")",
          primary, oid::boolean};
}

// LIKE in SQLite ignores case: ILIKE is LIKE, and LIKE with a constant is GLOB, which an index can serve.
Sql Writer::pattern(Node body, bool ignore_case, bool negated) {
  const Node right = body["rexpr"];
  const std::string_view no = negated ? "NOT " : "";
  const std::string left = operand(body["lexpr"], bits);
  if (right.is("A_Const") && right.body()["sval"]) {
    const std::string text = right.body()["sval"].text("sval");
    std::string out;
    if (ignore_case) return {left + " " + std::string(no) + "LIKE " + quoted_text(text) + " ESCAPE '\\'", equality, oid::boolean};
    for (std::size_t i = 0; i < text.size(); ++i) {
      char c = text[i];
      bool taken_as_it_is = c != '%' && c != '_';
      if (c == '\\') {
        if (++i >= text.size()) refuse_as("22025", "LIKE pattern must not end with escape character", body);
        c = text[i];
        taken_as_it_is = true;
      }
      if (!taken_as_it_is) out += c == '%' ? '*' : '?';
      else if (c == '*' || c == '?' || c == '[') ((out += '[') += c) += ']';
      else out += c;
    }
    return {left + " " + std::string(no) + "GLOB " + quoted_text(out), equality, oid::boolean};
  }
  std::string args = expression(body["lexpr"]).text;
  // The grammar says LIKE … ESCAPE as a call of like_escape.
  const Node escaped = right.as("FuncCall");
  if (escaped && last_name(escaped["funcname"]) == "like_escape") args += ", " + list_of(escaped["args"]);
  else args += ", " + expression(right).text;
  Sql test = supplied(ignore_case ? "pg_ilike" : "pg_like", args, oid::boolean);
  return negated ? Sql{"NOT " + test.text, negation, oid::boolean} : test;
}

Sql Writer::binary(std::string_view symbol, Node left_node, Node right_node, Node at) {
  // Without a left operand: a prefix.
  if (!left_node) {
    const Sql right = expression(right_node);
    if (symbol == "-" || symbol == "+" || symbol == "~") {
      // Blank between, as -- begins a comment.
      const bool minus = right.text.starts_with("-");
      return {std::string(symbol) + (minus ? " " : "") + wrapped(right, unary), unary, right.type};
    }
    if (symbol == "@") return {"abs(" + right.text + ")", primary, right.type};
    if (symbol == "|/") return {"sqrt(" + right.text + ")", primary, oid::float8};
    if (symbol == "||/") return supplied("pg_cbrt", right.text, oid::float8);
    refuse("operator " + std::string(symbol), at);
  }
  // -> and ->> with a number: the same in both.
  const Operator* op = operator_named(symbol);
  const auto as_call = [&](std::string_view function, Oid type, bool negated = false) {
    Sql test = supplied(function, expression(left_node).text + ", " + expression(right_node).text, type);
    return negated ? Sql{"NOT " + test.text, negation, type} : test;
  };
  if (symbol == "~") return as_call("pg_regexp", oid::boolean);
  if (symbol == "~*") return as_call("pg_iregexp", oid::boolean);
  if (symbol == "!~") return as_call("pg_regexp", oid::boolean, true);
  if (symbol == "!~*") return as_call("pg_iregexp", oid::boolean, true);
  if (symbol == "~~") return as_call("pg_like", oid::boolean);
  if (symbol == "!~~") return as_call("pg_like", oid::boolean, true);
  if (symbol == "^") return {"pow(" + expression(left_node).text + ", " + expression(right_node).text + ")", primary, oid::float8};
  if (symbol == "#") return as_call("pg_xor", oid::int8);
  if (symbol == "^@") return as_call("starts_with", oid::boolean);
  if (symbol == "#>" || symbol == "#>>")
    return as_call(symbol == "#>" ? "pg_json_path" : "pg_json_path_text", symbol == "#>" ? oid::json : oid::text);
  if (op == nullptr) refuse("operator " + std::string(symbol), at);
  const Sql left = expression(left_node);
  const Sql right = expression(right_node);
  const bool plus_or_minus = symbol == "+" || symbol == "-";
  if (plus_or_minus && right.type == oid::interval) {
    const Oid type = left.type == oid::date                        ? oid::timestamp
                     : left.type == oid::interval                  ? oid::interval
                     : left.type == 0 || left.type == oid::unknown ? oid::timestamp
                                                                   : left.type;
    if (left.type == oid::interval) return supplied("pg_interval_math", left.text + ", " + quoted_text(symbol) + ", " + right.text, type);
    return supplied(symbol == "+" ? "pg_add_interval" : "pg_sub_interval", left.text + ", " + right.text, type);
  }
  if (symbol == "+" && left.type == oid::interval)
    return supplied("pg_add_interval", right.text + ", " + left.text, is_moment(right.type) ? right.type : oid::timestamp);
  if ((symbol == "*" || symbol == "/") && (left.type == oid::interval || right.type == oid::interval))
    return supplied("pg_interval_math", left.text + ", " + quoted_text(symbol) + ", " + right.text, oid::interval);
  if (plus_or_minus && left.type == oid::date) {
    if (symbol == "-" && right.type == oid::date) return supplied("pg_date_diff", left.text + ", " + right.text, oid::int4);
    if (is_whole(right.type))
      return supplied("pg_date_add", left.text + ", " + (symbol == "-" ? "-(" + right.text + ")" : right.text), oid::date);
  }
  if (symbol == "-" && is_moment(left.type) && (is_moment(right.type) || right.type == oid::date))
    return supplied("pg_timestamp_diff", left.text + ", " + right.text, oid::interval);
  if (symbol == "||" && (left.type == oid::text_array || right.type == oid::text_array))
    return supplied("pg_array_cat", left.text + ", " + right.text, oid::text_array);
  Oid type = 0;
  if (op->comparison) type = oid::boolean;
  else if (symbol == "||") type = left.type == oid::bytea ? oid::bytea : oid::text;
  else if (symbol == "->") type = oid::json;
  else if (symbol == "->>") type = oid::text;
  else if (is_whole(left.type) && is_whole(right.type)) type = left.type == oid::int8 || right.type == oid::int8 ? oid::int8 : oid::int4;
  else if (left.type == oid::float8 || right.type == oid::float8) type = oid::float8;
  else if (left.type == oid::numeric || right.type == oid::numeric) type = oid::numeric;
  // true || 'x' and 1.5 || 'x' read as PostgreSQL prints them.
  const auto printed = [&](const Sql& sql, Level least) {
    if (symbol != "||" || (sql.type != oid::boolean && sql.type != oid::float8 && sql.type != oid::float4)) return wrapped(sql, least);
    return sql.type == oid::boolean ? boolean_text(sql) : supplied("pg_text", sql.text, oid::text).text;
  };
  // SQLite gives comparisons, IS, IN and BETWEEN one level: on the left of another they keep their parentheses.
  const Level least = op->comparison ? static_cast<Level>(op->level + 1) : op->level;
  return {printed(left, least) + " " + std::string(op->written) + " " + printed(right, static_cast<Level>(op->level + 1)), op->level, type};
}

Sql Writer::operation(Node body) {
  const std::string_view kind = body["kind"].string();
  const std::string symbol = last_name(body["name"]);
  if (kind == "AEXPR_OP") return binary(symbol, body["lexpr"], body["rexpr"], body);
  if (kind == "AEXPR_LIKE" || kind == "AEXPR_ILIKE") return pattern(body, kind == "AEXPR_ILIKE", symbol.starts_with("!"));
  if (kind == "AEXPR_OP_ANY") return any_or_all(body, false);
  if (kind == "AEXPR_OP_ALL") return any_or_all(body, true);
  if (kind == "AEXPR_DISTINCT" || kind == "AEXPR_NOT_DISTINCT") {
    return {operand(body["lexpr"], bits) + (kind == "AEXPR_DISTINCT" ? " IS NOT " : " IS ") +
                operand(body["rexpr"], is_null(body["rexpr"]) ? primary : bits),
            equality, oid::boolean};
  }
  if (kind == "AEXPR_NULLIF") {
    const Sql left = expression(body["lexpr"]);
    return {"nullif(" + left.text + ", " + expression(body["rexpr"]).text + ")", primary, left.type};
  }
  if (kind == "AEXPR_IN") {
    const std::string left = operand(body["lexpr"], bits);
    // SQLite compares rows with those of a query only.
    const std::string rows = body["lexpr"].is("RowExpr") ? "VALUES " : "";
    const Node items = body["rexpr"].as("List")["items"];
    for (std::size_t i = 0; !rows.empty() && i < items.size(); ++i) {
      if (!items.at(i).is("RowExpr")) refuse_as("42883", "operator does not exist: a row is compared with a row", body);
    }
    return {left + (symbol == "<>" ? " NOT IN (" : " IN (") + rows + list_of(items) + ")", equality, oid::boolean};
  }
  if (kind.starts_with("AEXPR_BETWEEN") || kind.starts_with("AEXPR_NOT_BETWEEN")) {
    const Node bounds = body["rexpr"].as("List")["items"];
    const bool negated = kind.starts_with("AEXPR_NOT");
    const std::string value = operand(body["lexpr"], bits);
    const std::string low = operand(bounds.at(0), bits);
    const std::string high = operand(bounds.at(1), bits);
    const std::string no = negated ? " NOT BETWEEN " : " BETWEEN ";
    if (!kind.ends_with("_SYM")) return {value + no + low + " AND " + high, equality, oid::boolean};
    // All three are written twice, as PostgreSQL plans them; nested, that doubles with each level.
    if (value.size() + low.size() + high.size() > symmetric_bytes_max)
      refuse_as("54001", "BETWEEN SYMMETRIC is nested too deeply, or its operands are too long", body);
    return {"(" + value + no + low + " AND " + high + (negated ? " AND " : " OR ") + value + no + high + " AND " + low + ")", primary,
            oid::boolean};
  }
  if (kind == "AEXPR_SIMILAR") {
    Sql test = supplied("pg_similar", expression(body["lexpr"]).text + ", " + list_of(body["rexpr"].as("FuncCall")["args"]), oid::boolean);
    return symbol.starts_with("!") ? Sql{"NOT " + test.text, negation, oid::boolean} : test;
  }
  refuse("this operator", body);
}

}  // namespace termgate::dialect
