// Expressions, from the leaves up: what PostgreSQL's parse_expr.c does, and the SQLite text that means the same.
// Long: one case for each kind of expression.
#include <algorithm>
#include <charconv>
#include <utility>

#include "names.hpp"
#include "typed.hpp"

namespace termgate::dialect {

using resolution::Context;
using resolution::spoken;

namespace {

constexpr std::size_t walk_depth_max = 300;
// Some parts are analysed twice; nested, that doubles with each level, and so does what is written twice.
constexpr std::size_t steps_max = 2'000'000, written_bytes_max = 8u << 20;
constexpr std::size_t repeated_bytes_max = 1 << 14;

bool is_comparison(std::string_view symbol) {
  return symbol == "=" || symbol == "<>" || symbol == "<" || symbol == "<=" || symbol == ">" || symbol == ">=";
}

// Types whose values compare alike in SQLite; 0: they do not.
int family(Oid type) {
  switch (type) {
    case oid::int2:
    case oid::int4:
    case oid::int8:
    case oid::oid:
    case 24:
    case 28:
    case 2202:
    case 2203:
    case 2204:
    case oid::regclass:
    case 2206:
    case 4089:
    case 4096: return 1;
    case oid::float4:
    case oid::float8: return 2;
    case oid::text:
    case oid::varchar:
    case oid::name: return 3;
    case oid::numeric: return 4;
    case oid::interval: return 5;
    case oid::bpchar: return 6;
    case oid::boolean:
    case oid::bytea:
    case oid::date:
    case oid::time:
    case oid::timestamp:
    case oid::timestamptz:
    case oid::uuid:
    case 18: return static_cast<int>(type);
    default: return 0;
  }
}

bool same_as_text(Oid element) {
  return element == oid::int2 || element == oid::int4 || element == oid::int8 || element == oid::boolean || element == oid::text ||
         element == oid::varchar || element == oid::date || element == oid::uuid;
}

[[noreturn]] void no_operator(std::string_view symbol, const Value* left, const Value& right, const resolution::Operator& found, Node at) {
  const std::string words = (left != nullptr ? spoken(left->type) + " " : std::string()) + std::string(symbol) + " " + spoken(right.type);
  if (found.state == resolution::Operator::State::ambiguous) refuse_as("42725", "operator is not unique: " + words, at);
  // PostgreSQL may have one for a type of which nothing is known here.
  const auto is_strange = [](Oid type) {
    const Oid of = resolution::is_array(type) ? resolution::type_row(type)->element : type;
    return of != oid::unknown && of != 0 && type_of(of) == nullptr;
  };
  if (is_strange(right.type) || (left != nullptr && is_strange(left->type))) refuse(words);
  refuse_as("42883", "operator does not exist: " + words, at);
}

}  // namespace

Typed::Typed(Translated& out, std::string_view sql, const Relations& relations, std::span<const Oid> declared, bool mark)
    : out_(out), sql_(sql), relations_(relations) {
  out_.typed = out_.typed || mark;
  for (const Oid type : declared) out_.parameters.push_back(type == oid::unknown ? 0 : type);
}

Typed::Deeper::Deeper(Typed& typed) : typed_(typed) {
  if (++typed_.depth_ > walk_depth_max || ++typed_.steps_ > steps_max) {
    --typed_.depth_;
    refuse_as("54001", "this statement nests deeper than can be translated");
  }
}

// Where it was written out; a part of the text that is analysed twice is one constant.
void Typed::lift(Value& value, std::int64_t number, Node at) {
  auto place = static_cast<std::size_t>(at.integer("location"));
  const bool negative = place < sql_.size() && sql_[place] == '-';
  place += negative ? 1 : 0;
  std::int64_t written = 0;
  std::size_t end = place;
  for (; end < sql_.size() && sql_[end] >= '0' && sql_[end] <= '9' && end - place < 10; ++end) written = written * 10 + (sql_[end] - '0');
  if (end == place || end - place > 9 || (negative ? -written : written) != number) return;
  auto& all = out_.lifted;
  auto known = std::find_if(all.begin(), all.end(), [place](const Translated::Lifted& each) { return each.at == place; });
  if (known == all.end()) known = all.insert(all.end(), {place, negative});
  value.text = "?" + std::to_string(known - all.begin() + 1);
  value.level = primary;
}

Value Typed::constant(Node body) {
  Value value;
  value.at = body;
  if (body.flag("isnull")) {
    value.text = "NULL";
    value.type = oid::unknown;
    value.null = true;
    return value;
  }
  Translated nothing;
  const Writer plain(nothing, sql_);
  if (body["ival"]) {
    const std::int64_t number = plain.whole(body);
    value.text = std::to_string(number);
    value.level = number < 0 ? unary : primary;
    value.type = oid::int4;
    if (out_.lifts) lift(value, number, body);
  } else if (body["fval"]) {
    const std::string text = body["fval"].text("fval");
    // A minus before a number is part of it.
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool fits = error == std::errc() && end == text.data() + text.size();
    value.type = !fits ? Oid{oid::numeric} : number == static_cast<std::int32_t>(number) ? Oid{oid::int4} : Oid{oid::int8};
    if (fits) {
      // The smallest has no positive counterpart to put a minus before.
      value.text = number == INT64_MIN ? "(-9223372036854775807 - 1)" : text;
      value.level = number < 0 && number != INT64_MIN ? unary : primary;
    } else {
      auto converted_text = relations_.constant(text, oid::numeric);
      if (auto* problem = std::get_if<SqlError>(&converted_text)) refuse_as(problem->sqlstate, problem->message, body);
      value.text = std::get<std::string>(converted_text);
    }
  } else if (body["sval"]) {
    value.constant = body["sval"].text("sval");
    value.text = quoted_text(*value.constant);
    value.type = oid::unknown;
  } else if (body["boolval"]) {
    value.text = body["boolval"].flag("boolval") ? "1" : "0";
    value.type = oid::boolean;
  } else {
    refuse("a bit string", body);
  }
  return value;
}

void Typed::set_parameter(std::size_t number, Oid type, Node at) {
  Oid& known = out_.parameters[number - 1];
  // An earlier use had to do without a type, and PostgreSQL does not go back to it.
  if (known == 0 && left_open_.contains(number))
    refuse_as("42P08", "could not determine data type of parameter $" + std::to_string(number), at);
  if (known != 0 && known != type) refuse_as("42P08", "inconsistent types deduced for parameter $" + std::to_string(number), at);
  known = type;
}

Value Typed::parameter(Node body) {
  const std::int64_t number = body.integer("number");
  if (number < 1 || number > 65535 || is_schemas(place_)) refuse_as("42P02", "there is no parameter $" + std::to_string(number), body);
  const auto at = static_cast<std::size_t>(number);
  if (out_.parameters.size() < at) out_.parameters.resize(at);
  Value value;
  value.text = "?" + std::to_string(number);
  value.at = body;
  value.type = out_.parameters[at - 1];
  if (value.type == 0) {
    value.type = oid::unknown;
    value.parameter = at;
  }
  value.stored = value.type == oid::numeric || value.type == oid::float4;
  return value;
}

const Typed::ScopeColumn* Typed::look_up(Scope& scope, const std::vector<std::string>& names, Node at) const {
  const ScopeColumn* found = nullptr;
  const std::string& name = names.back();
  const auto take = [&](const ScopeColumn& column) {
    if (column.name != name) return;
    if (found != nullptr) refuse_as("42702", "column reference \"" + name + "\" is ambiguous", at);
    found = &column;
  };
  if (names.size() == 1) {
    for (const ScopeColumn& column : scope.visible) take(column);
    return found;
  }
  for (const Relation& relation : scope.relations) {
    if (relation.name != names[0]) continue;
    for (const ScopeColumn& column : relation.columns) take(column);
    if (found == nullptr) refuse_as("42703", "column " + names[0] + "." + name + " does not exist", at);
    return found;
  }
  return nullptr;
}

Value Typed::column(Node body) {
  std::vector<std::string> names;
  for (const Node field : body["fields"].items()) {
    if (field.is("A_Star")) refuse("a whole row within an expression", body);
    names.push_back(field.as("String").text("sval"));
  }
  if (names.size() == 3 && (names[0] == "public" || names[0] == "pg_catalog" || names[0] == "information_schema"))
    names.erase(names.begin());
  if (names.size() > 3) refuse_as("0A000", "cross-database references are not implemented: " + joined(names, "."), body);
  if (names.size() > 2) refuse_as("42P01", "missing FROM-clause entry for table \"" + names[0] + "\"", body);
  for (std::size_t i = scopes_.size(); i-- > 0;) {
    Scope& scope = scopes_[i];
    const ScopeColumn* found = look_up(scope, names, body);
    if (found == nullptr) continue;
    if (found->unseen) refuse("RETURNING another table's columns", body);
    Value value = found->value;
    value.at = body;
    if (home_ != nullptr) home_->reads(i);
    if (!(in_aggregate_ && i + 1 == scopes_.size())) scope.loose.push_back({value.text, found->relation, found->place, body});
    return value;
  }
  if (names.size() == 2) {
    for (const Scope& scope : scopes_) {
      for (const Relation& relation : scope.relations) {
        if (relation.name == names[0]) refuse_as("42703", "column " + names[0] + "." + names[1] + " does not exist", body);
      }
    }
    refuse_as("42P01", "missing FROM-clause entry for table \"" + names[0] + "\"", body);
  }
  for (const Scope& scope : scopes_) {
    for (const Relation& relation : scope.relations) {
      if (relation.name == names[0]) refuse("a whole row within an expression", body);
    }
  }
  for (const std::string_view system : {"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"}) {
    if (names[0] == system) refuse("the system column " + names[0], body);
  }
  refuse_as("42703", "column \"" + names[0] + "\" does not exist", body);
}

Value Typed::expression(Node node) {
  const Deeper deeper(*this);
  const std::size_t before = scopes_.empty() ? 0 : scopes_.back().loose.size();
  const std::size_t level = scopes_.size();
  Value value = analysed(node);
  if (!value.at) value.at = node.body();
  if (value.text.size() > written_bytes_max) refuse_as("54001", "this expression is too long to be translated", value.at);
  if (level > 0 && scopes_.size() == level) {
    // What GROUP BY names may be used whole.
    Scope& scope = scopes_.back();
    const auto names_it = [&](const Scope& of) {
      return std::find(of.groups.begin(), of.groups.end(), value.text) != of.groups.end() ||
             std::any_of(of.group_nodes.begin(), of.group_nodes.end(), [&](Node each) { return each.same_as(node); });
    };
    if (scope.loose.size() > before && names_it(scope)) scope.loose.resize(before);
  }
  return value;
}

Value Typed::analysed(Node node) {
  const std::string_view kind = node.kind();
  const Node body = node.body();
  const bool rows_may_come = std::exchange(rows_may_come_, false);
  if (kind == "ColumnRef") return column(body);
  if (kind == "A_Const") return constant(body);
  if (kind == "ParamRef") return parameter(body);
  if (kind == "A_Expr") return a_expr(body, rows_may_come);
  if (kind == "BoolExpr") return boolean(body);
  if (kind == "FuncCall") return call(body, rows_may_come);
  if (kind == "TypeCast") {
    rows_may_come_ = rows_may_come;
    return cast(body);
  }
  if (kind == "SubLink") return link(body);
  if (kind == "CaseExpr") return choice(body);
  if (kind == "SQLValueFunction") return value_function(body);
  if (kind == "A_ArrayExpr") return array(body);
  if (kind == "A_Indirection") return element(body);
  if (kind == "CoalesceExpr" || kind == "MinMaxExpr") {
    const bool coalesce = kind == "CoalesceExpr";
    const bool least = body["op"].string() == "IS_LEAST";
    std::vector<Value> values;
    for (const Node arg : body["args"].items()) values.push_back(expression(arg));
    Value result = common(values, coalesce ? "COALESCE" : least ? "LEAST" : "GREATEST", body);
    std::vector<std::string> parts;
    for (const Value& each : values) parts.push_back(exact(each));
    if (coalesce) {
      result.text = parts.size() == 1 ? parts[0] : call_of("coalesce", "coalesce", parts);
      if (parts.size() == 1) result.level = values[0].level;
      return result;
    }
    if (family(result.type) == 0 || result.type == oid::interval || result.type == oid::bpchar)
      refuse(std::string(least ? "LEAST" : "GREATEST") + " of " + spoken(result.type), body);
    const std::string_view function =
        result.type == oid::numeric ? (least ? "pg_numeric_least" : "pg_numeric_greatest") : (least ? "pg_least" : "pg_greatest");
    result.text = call_of(function, function, parts);
    return result;
  }
  if (kind == "NullTest") {
    const Value arg = expression(body["arg"]);
    left_open(arg);
    return {wrapped(arg, bits) + (body["nulltesttype"].string() == "IS_NULL" ? " IS NULL" : " IS NOT NULL"), equality, oid::boolean};
  }
  if (kind == "BooleanTest") {
    const std::string_view test = body["booltesttype"].string();
    const Value arg = coerce(expression(body["arg"]), oid::boolean);
    if (arg.type != oid::boolean) refuse_as("42804", "argument of IS TRUE must be type boolean, not type " + spoken(arg.type), body);
    const std::string_view written = test == "IS_TRUE"        ? " IS TRUE"
                                     : test == "IS_NOT_TRUE"  ? " IS NOT TRUE"
                                     : test == "IS_FALSE"     ? " IS FALSE"
                                     : test == "IS_NOT_FALSE" ? " IS NOT FALSE"
                                     : test == "IS_UNKNOWN"   ? " IS NULL"
                                                              : " IS NOT NULL";
    return {wrapped(arg, bits).append(written), equality, oid::boolean};
  }
  if (kind == "CollateClause") {
    const std::string name = last_name(body["collname"]);
    if (name != "default" && name != "C" && name != "POSIX" && name != "ucs_basic") refuse("COLLATE \"" + name + "\"", body);
    return decided(expression(body["arg"]));
  }
  if (kind == "RowExpr") refuse("a row here", body);
  if (kind == "SetToDefault") refuse_as("42601", "DEFAULT is not allowed in this context", body);
  if (kind == "CurrentOfExpr") refuse("WHERE CURRENT OF", body);
  if (kind == "MultiAssignRef") refuse("this assignment", body);
  refuse(kind.empty() ? std::string_view("this expression") : kind, body);
}

Value Typed::operation(std::string_view symbol, const Value* left, const Value& right, Node at) {
  if (symbol == "!=") symbol = "<>";
  const resolution::Operator found = resolution::find_operator(symbol, left != nullptr ? left->type : Oid{0}, right.type, left == nullptr);
  if (found.state != resolution::Operator::State::found) no_operator(symbol, left, right, found, at);
  if (left == nullptr) return written_operator(found, symbol, nullptr, coerce(right, found.right), at);
  const Value first = coerce(*left, found.left), second = coerce(right, found.right);
  if (is_comparison(symbol) && found.result == oid::boolean) return comparison(symbol, found, first, second, at);
  return written_operator(found, symbol, &first, second, at);
}

Value Typed::written_operator(const resolution::Operator& found, std::string_view symbol, const Value* left, const Value& right, Node at) {
  std::vector<Oid> types;
  std::vector<Value> values;
  if (left != nullptr) {
    types.push_back(found.row->left);
    values.push_back(*left);
  }
  types.push_back(found.row->right);
  values.push_back(right);
  const std::string signature = signature_of(found.row->function, types);
  if (auto arrays = array_call(found.row->function, values, found.result, at)) return std::move(*arrays);
  // Text joined with a value of any other type.
  if (found.row->function == "textanycat" || found.row->function == "anytextcat") {
    for (Value& each : values) each = as_text(each, oid::text);
    return templated("$1 || $2", values, oid::text, at);
  }
  const Written* written = written_function(signature);
  if (written == nullptr) {
    refuse_as("0A000",
              (left != nullptr ? spoken(found.left) + " " : std::string("operator ")) + std::string(symbol) + " " + spoken(found.right) +
                  " is not translated for SQLite files",
              at);
  }
  if ((found.row->function == "arraycontains" || found.row->function == "arraycontained" || found.row->function == "arrayoverlap") &&
      (found.left != found.right || !same_as_text(resolution::type_row(found.left)->element))) {
    refuse_as("0A000", spoken(found.left) + " " + std::string(symbol) + " " + spoken(found.right) + " is not translated for SQLite files",
              at);
  }
  if (written->sql.empty()) {
    std::vector<std::string> parts;
    for (const Value& each : values) parts.push_back(exact(each));
    return supplied(found.row->function, joined(parts, ", "), found.result, at);
  }
  Value result = templated(written->sql, values, found.result, at);
  result.level = written->level;
  return result;
}

Value Typed::comparison(std::string_view symbol, const resolution::Operator& found, const Value& left_value, const Value& right_value,
                        Node at) {
  Value left = left_value, right = right_value;
  const auto both = [&](Oid type) {
    left = coerce(left, type);
    right = coerce(right, type);
  };
  const auto is = [&](Oid first, Oid second) {
    return (left.type == first && right.type == second) || (left.type == second && right.type == first);
  };
  if (is(oid::date, oid::timestamp)) both(oid::timestamp);
  else if (is(oid::date, oid::timestamptz) || is(oid::timestamp, oid::timestamptz)) both(oid::timestamptz);
  else if (left.type != right.type && family(left.type) == 2) both(oid::float8);
  if (written_function(signature_of(found.row->function, std::vector<Oid>{found.row->left, found.row->right})) != nullptr)
    return written_operator(found, symbol, &left_value, right_value, at);
  const bool arrays = left.type == right.type && resolution::is_array(left.type) &&
                      same_as_text(resolution::type_row(left.type)->element) && (symbol == "=" || symbol == "<>");
  if (!arrays && (family(left.type) == 0 || family(left.type) != family(right.type))) {
    refuse_as("0A000", spoken(found.left) + " " + std::string(symbol) + " " + spoken(found.right) + " is not translated for SQLite files",
              at);
  }
  const Level level = symbol == "=" || symbol == "<>" ? equality : Level::comparison;
  const auto side = [&](const Value& value, Level least) {
    if (value.type == oid::bpchar) return value.stored ? value.text : "rtrim(" + value.text + ", ' ')";
    const std::string text = exact(value);
    return text == value.text ? wrapped(value, least) : text;
  };
  // By a function: COLLATE would also act on what is around the comparison.
  if (left.type == oid::numeric || left.type == oid::interval) {
    compared_ = Compared{exact(left), exact(right), left.type == oid::numeric ? "pg_numeric_cmp" : "pg_interval_cmp"};
    return {compared_->function + "(" + compared_->left + ", " + compared_->right + ") " + std::string(symbol) + " 0", level, oid::boolean};
  }
  compared_ = Compared{side(left, level), side(right, static_cast<Level>(level + 1)), {}};
  return {compared_->left + " " + std::string(symbol) + " " + compared_->right, level, oid::boolean};
}

Value Typed::between(Node body, std::string_view kind) {
  const Node bounds = body["rexpr"].as("List")["items"];
  const Value value = expression(body["lexpr"]), low = expression(bounds.at(0)), high = expression(bounds.at(1));
  const auto test = [&](const Value& from, const Value& to) {
    const Value above = operation(">=", &value, from, body);
    // A parameter has its type from the first of both.
    const Value again = value.parameter != 0 ? expression(body["lexpr"]) : value;
    const Value below = operation("<=", &again, to.parameter != 0 ? expression(bounds.at(&to == &high ? 1 : 0)) : to, body);
    return Value{"(" + above.text + " AND " + below.text + ")", primary, oid::boolean};
  };
  Value result = test(low, high);
  if (kind.ends_with("_SYM")) result = {"(" + result.text + " OR " + test(high, low).text + ")", primary, oid::boolean};
  // What is written twice doubles with each level.
  if (result.text.size() > repeated_bytes_max) refuse_as("54001", "BETWEEN is nested too deeply, or its operands are too long", body);
  return kind.starts_with("AEXPR_NOT") ? Value{"NOT " + result.text, negation, oid::boolean} : result;
}

Value Typed::distinct_from(Node body, bool negated) {
  const Value left = expression(body["lexpr"]), right = expression(body["rexpr"]);
  if (left.null || right.null) {
    const Value other = left.null ? right : left;
    return {wrapped(other, bits) + (negated ? " IS NULL" : " IS NOT NULL"), equality, oid::boolean};
  }
  compared_.reset();
  (void)operation("=", &left, right, body);
  if (!compared_) refuse("IS DISTINCT FROM of these expressions", body);
  if (!compared_->function.empty()) {
    const std::string same = "coalesce(" + compared_->function + "(" + compared_->left + ", " + compared_->right + ") = 0, " +
                             compared_->left + " IS NULL AND " + compared_->right + " IS NULL)";
    return {same + (negated ? "" : " = 0"), negated ? primary : equality, oid::boolean};
  }
  return {compared_->left + (negated ? " IS " : " IS NOT ") + compared_->right, equality, oid::boolean};
}

Value Typed::null_if(Node body) {
  const Value left = expression(body["lexpr"]), right = expression(body["rexpr"]);
  const Value test = operation("=", &left, right, body);
  // The left operand as the operator takes it.
  const resolution::Operator equal = resolution::find_operator("=", left.type, right.type, false);
  const Value first = coerce(left, equal.left);
  if (test.text.size() > repeated_bytes_max) refuse_as("54001", "NULLIF is nested too deeply", body);
  return {"CASE WHEN " + test.text + " THEN NULL ELSE " + exact(first) + " END", primary, first.type, first.typmod};
}

// LIKE with a constant, which an index can serve.
Value Typed::glob(const Value& left, const std::string& pattern, bool negated, Node at) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    bool itself = c != '%' && c != '_';
    if (c == '\\') {
      if (++i >= pattern.size()) refuse_as("22025", "LIKE pattern must not end with escape character", at);
      c = pattern[i];
      itself = true;
    }
    if (!itself) out += c == '%' ? '*' : '?';
    else if (c == '*' || c == '?' || c == '[') ((out += '[') += c) += ']';
    else out += c;
  }
  return {wrapped(left, bits) + (negated ? " NOT GLOB " : " GLOB ") + quoted_text(out), equality, oid::boolean};
}

// The pattern of LIKE … ESCAPE, with a backslash for what escapes in it.
Value Typed::like_pattern(Node args) {
  const Value pattern = coerce(expression(args.at(0)), oid::text), escape = coerce(expression(args.at(1)), oid::text);
  if (pattern.type != oid::text || escape.type != oid::text) refuse("LIKE … ESCAPE of " + spoken(pattern.type), args);
  return supplied("pg_like_escape", pattern.text + ", " + escape.text, oid::text, args);
}

// (a, b) < (c, d) is a < c OR (a = c AND b < d): the first fields that differ decide, and NULL where one of these is NULL.
Value Typed::rows_compared(Node body, const std::string& symbol) {
  const Node left = body["lexpr"].body()["args"], right = body["rexpr"].body()["args"];
  const bool equal = symbol == "=" || symbol == "<>";
  if (!equal && !is_comparison(symbol)) refuse("operator " + symbol + " of rows", body);
  if (left.size() != right.size()) refuse_as("42601", "unequal number of entries in row expressions", body);
  if (left.size() == 0) refuse("a row without fields", body);
  const auto field = [&](std::size_t i, std::string_view by) {
    const Value first = expression(left.at(i)), second = expression(right.at(i));
    return operation(by, &first, second, body);
  };
  if (equal) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < left.size(); ++i) parts.push_back(field(i, symbol).text);
    return {"(" + joined(parts, symbol == "=" ? " AND " : " OR ") + ")", primary, oid::boolean};
  }
  std::string written = field(left.size() - 1, symbol).text;
  for (std::size_t i = left.size() - 1; i-- > 0;) {
    const std::string before = field(i, symbol.substr(0, 1)).text;
    written = before + " OR (" + field(i, "=").text + " AND (" + written + "))";
  }
  if (written.size() > repeated_bytes_max) refuse_as("54001", "this comparison of rows is too long", body);
  return {"(" + written + ")", primary, oid::boolean};
}

Value Typed::a_expr(Node body, bool rows_may_come) {
  const std::string_view kind = body["kind"].string();
  const std::string symbol = last_name(body["name"]);
  if (kind == "AEXPR_OP") {
    if (body["lexpr"].is("RowExpr") && body["rexpr"].is("RowExpr")) return rows_compared(body, symbol == "!=" ? "<>" : symbol);
    if ((body["lexpr"].is("RowExpr") && body["rexpr"].is("SubLink")) || (body["rexpr"].is("RowExpr") && body["lexpr"].is("SubLink")))
      refuse("a row compared with a subquery", body);
    rows_may_come_ = rows_may_come;
    const Value right = expression(body["rexpr"]);
    if (!body["lexpr"]) return operation(symbol, nullptr, right, body);
    rows_may_come_ = rows_may_come;
    const Value left = expression(body["lexpr"]);
    return operation(symbol, &left, right, body);
  }
  if (kind == "AEXPR_LIKE" || kind == "AEXPR_ILIKE") {
    const Value left = expression(body["lexpr"]);
    const Node escaped = body["rexpr"].as("FuncCall");
    const bool own_escape = escaped && last_name(escaped["funcname"]) == "like_escape";
    const Value right = own_escape ? like_pattern(escaped["args"]) : expression(body["rexpr"]);
    const bool plain = left.type == oid::text || left.type == oid::varchar;
    if (plain && right.constant && (symbol == "~~" || symbol == "!~~")) return glob(left, *right.constant, symbol == "!~~", body);
    return operation(symbol, &left, right, body);
  }
  if (kind == "AEXPR_OP_ANY") return any_or_all(body, false);
  if (kind == "AEXPR_OP_ALL") return any_or_all(body, true);
  if (kind == "AEXPR_DISTINCT") return distinct_from(body, false);
  if (kind == "AEXPR_NOT_DISTINCT") return distinct_from(body, true);
  if (kind == "AEXPR_NULLIF") return null_if(body);
  if (kind == "AEXPR_IN") return membership(body, symbol);
  if (kind.starts_with("AEXPR_BETWEEN") || kind.starts_with("AEXPR_NOT_BETWEEN")) return between(body, kind);
  if (kind == "AEXPR_SIMILAR") {
    const Value left = coerce(expression(body["lexpr"]), oid::text);
    std::vector<std::string> parts{left.text};
    if (left.type != oid::text) refuse("SIMILAR TO of " + spoken(left.type), body);
    for (const Node arg : body["rexpr"].as("FuncCall")["args"].items()) {
      const Value part = coerce(expression(arg), oid::text);
      if (part.type != oid::text)
        refuse_as("42883", "function pg_catalog.similar_to_escape(" + spoken(part.type) + ") does not exist", body);
      parts.push_back(part.text);
    }
    return {(symbol.starts_with("!") ? "NOT pg_similar(" : "pg_similar(") + joined(parts, ", ") + ")",
            symbol.starts_with("!") ? negation : primary, oid::boolean};
  }
  refuse("this operator", body);
}

// x IN (a, b): where the items agree on a type, all of them have it; a column among them is compared by itself.
Value Typed::membership(Node body, std::string_view symbol) {
  const Node items = body["rexpr"].as("List")["items"];
  const bool negated = symbol == "<>";
  std::vector<std::string> parts;
  if (const Node row = body["lexpr"].as("RowExpr")) {
    for (const Node item : items.items()) {
      const Node other = item.as("RowExpr")["args"];
      if (other.size() != row["args"].size()) refuse_as("42601", "unequal number of entries in row expressions", body);
      std::vector<std::string> fields;
      for (std::size_t i = 0; i < other.size(); ++i) {
        const Value first = expression(row["args"].at(i)), second = expression(other.at(i));
        fields.push_back(operation("=", &first, second, body).text);
      }
      parts.push_back("(" + joined(fields, " AND ") + ")");
    }
    const std::string all = "(" + joined(parts, " OR ") + ")";
    return negated ? Value{"NOT " + all, negation, oid::boolean} : Value{all, primary, oid::boolean};
  }
  const Value left = expression(body["lexpr"]);
  std::vector<Value> values;
  std::vector<Oid> types{left.type};
  bool columns = false;
  for (const Node item : items.items()) {
    values.push_back(expression(item));
    types.push_back(values.back().type);
    columns = columns || mentions_column(item);
  }
  const auto agreed = resolution::common_type(types);
  // There is no array of arrays that PostgreSQL could make of them.
  const bool whole = !columns && values.size() > 1 && agreed.type.has_value() && !resolution::is_array(*agreed.type);
  if (whole) {
    for (Value& each : values) each = coerce(each, *agreed.type);
  }
  // One list where all compare alike.
  std::vector<std::string> list;
  std::optional<std::string> head;
  bool alike = !values.empty();
  for (const Value& each : values) {
    compared_.reset();
    parts.push_back(operation(symbol, &left, each, body).text);
    alike = alike && compared_ && compared_->function.empty() && (!head || *head == compared_->left);
    if (!alike) continue;
    head = compared_->left;
    list.push_back(compared_->right);
  }
  if (alike) return {*head + (negated ? " NOT IN (" : " IN (") + joined(list, ", ") + ")", equality, oid::boolean};
  const std::string all = "(" + joined(parts, negated ? " AND " : " OR ") + ")";
  if (parts.size() > 1 && left.text.size() * parts.size() > (std::size_t{1} << 20)) refuse_as("54001", "this IN is too long", body);
  return {all, primary, oid::boolean};
}

std::optional<Value> Typed::array_call(std::string_view name, const std::vector<Value>& args, Oid result, Node at) {
  if (args.size() != 2) return std::nullopt;
  const bool append = name == "array_append", prepend = name == "array_prepend", cat = name == "array_cat",
             by_value = name == "array_remove" || name == "array_position";
  if (!append && !prepend && !cat && !by_value) return std::nullopt;
  const Value& array = args[prepend ? 1 : 0];
  const resolution::TypeRow* row = resolution::type_row(array.type);
  const Oid element = row == nullptr ? Oid{0} : row->element;
  if (!resolution::is_array(array.type) || element == 0 || (by_value && !same_as_text(element)) || (cat && args[0].type != args[1].type) ||
      (!cat && args[prepend ? 0 : 1].type != element))
    refuse_as("0A000",
              std::string(name) + "() of " + spoken(args[0].type) + " and " + spoken(args[1].type) + " is not translated for SQLite files",
              at);
  if (by_value) return supplied(name, array.text + ", " + element_text(args[1]), result, at);
  const auto side = [&](std::size_t i) {
    return cat || i == (prepend ? 1U : 0U) ? args[i].text : "pg_array_of(" + element_text(args[i]) + ")";
  };
  return supplied("pg_array_join", side(0) + ", " + side(1), result, at);
}

std::string Typed::array_list(const Value& value) { return "pg_array_strings(" + value.text + ")"; }
std::string Typed::array_rows(const Value& value) { return "json_each(" + array_list(value) + ")"; }

Value Typed::any_or_all(Node body, bool all) {
  const std::string symbol = last_name(body["name"]) == "!=" ? "<>" : last_name(body["name"]);
  const Value left = expression(body["lexpr"]);
  Value right = expression(body["rexpr"]);
  Oid element_type = 0;
  if (right.open()) {
    // An untyped right side is an array of the left side's type.
    const Oid array_type = resolution::type_row(left.type) != nullptr && left.type != oid::unknown ? resolution::type_row(left.type)->array
                                                                                                   : Oid{oid::text_array};
    right = coerce(right, array_type == 0 ? Oid{oid::text_array} : array_type);
  }
  if (!resolution::is_array(right.type)) refuse_as("42809", "op ANY/ALL (array) requires array on right side", body);
  element_type = resolution::type_row(right.type)->element;
  const int of = family(element_type);
  if (!is_comparison(symbol) || of == 0 || of == 6 || of == 5 || element_type == oid::bytea)
    refuse(symbol + " ANY or ALL of " + spoken(right.type), body);
  Value each{"value", primary, oid::text};
  if (of != 3) each = from_text(each, element_type);
  each.type = element_type;
  compared_.reset();
  const Value test = operation(symbol, &left, each, body);
  // One list, which SQLite makes once and an index can serve; NULL of an array that is NULL.
  if (compared_ && compared_->function.empty() && (all ? symbol == "<>" : symbol == "=")) {
    return {compared_->left + (all ? " NOT IN (SELECT " : " IN (SELECT ") + compared_->right +
                " FROM json_each(coalesce(pg_array_strings(" + right.text + "), '[null]')))",
            equality, oid::boolean};
  }
  // No element: false for ANY and true for ALL; NULL where the array is NULL or no element decides and one is NULL.
  const std::string fold = all ? "min" : "max";
  return {"CASE WHEN " + wrapped(right, bits) + " IS NULL THEN NULL WHEN EXISTS (SELECT 1 FROM " + array_rows(right) + " WHERE " +
              (all ? "NOT (" + test.text + ")" : test.text) + ") THEN " + (all ? "0" : "1") + " WHEN EXISTS (SELECT 1 FROM " +
              array_rows(right) + " WHERE (" + test.text + ") IS NULL) THEN NULL ELSE " + (all ? "1" : "0") + " END",
          primary, oid::boolean};
}

Value Typed::condition(Node node, std::string_view of) {
  const Value value = expression(node);
  if (!value.open() && value.type != oid::boolean)
    refuse_as("42804", "argument of " + std::string(of) + " must be type boolean, not type " + spoken(value.type), value.at);
  return coerce(value, oid::boolean);
}

Value Typed::boolean(Node body) {
  const std::string_view which = body["boolop"].string();
  const Node args = body["args"];
  if (which == "NOT_EXPR") return {"NOT " + wrapped(condition(args.at(0), "NOT"), negation), negation, oid::boolean};
  const Level level = which == "AND_EXPR" ? conjunction : disjunction;
  std::vector<std::string> parts;
  for (const Node arg : args.items())
    parts.push_back(wrapped(condition(arg, level == conjunction ? "AND" : "OR"), static_cast<Level>(level + 1)));
  return {joined(parts, level == conjunction ? " AND " : " OR "), level, oid::boolean};
}

// Coerces all to the type that they have in common; the result has that type, and their typmod where they agree.
Value Typed::common(std::vector<Value>& values, std::string_view of, Node at) {
  std::vector<Oid> types;
  for (const Value& each : values) types.push_back(each.type);
  const auto found = resolution::common_type(types);
  if (!found.type)
    refuse_as("42804", std::string(of) + " types " + spoken(found.left) + " and " + spoken(found.right) + " cannot be matched", at);
  Value result;
  result.type = *found.type;
  bool first = true;
  for (Value& each : values) {
    if (!each.open() && !resolution::can_coerce(each.type, result.type))
      refuse_as("42846", std::string(of) + " could not convert type " + spoken(each.type) + " to " + spoken(result.type), at);
    const std::int32_t typmod = each.type == result.type ? each.typmod : -1;
    result.typmod = first || result.typmod == typmod ? typmod : -1;
    first = false;
    each = coerce(each, result.type);
  }
  return result;
}

Value Typed::choice(Node body) {
  std::vector<std::string> tests;
  std::vector<Value> results;
  // ELSE is the first to say a type, as in PostgreSQL.
  std::optional<Value> subject;
  if (body["arg"]) subject = decided(expression(body["arg"]));
  for (const Node when : body["args"].items()) {
    const Node each = when.as("CaseWhen");
    if (subject) {
      const Value other = expression(each["expr"]);
      tests.push_back(operation("=", &*subject, other, each).text);
    } else {
      tests.push_back(condition(each["expr"], "CASE/WHEN").text);
    }
    results.push_back(expression(each["result"]));
  }
  if (subject && subject->text.size() * tests.size() > repeated_bytes_max * 4) refuse_as("54001", "this CASE is too long", body);
  const bool otherwise = static_cast<bool>(body["defresult"]);
  Value nothing;
  nothing.text = "NULL";
  nothing.type = oid::unknown;
  nothing.null = true;
  results.insert(results.begin(), otherwise ? expression(body["defresult"]) : nothing);
  Value result = common(results, "CASE", body);
  result.text = "CASE";
  for (std::size_t i = 0; i < tests.size(); ++i) result.text += " WHEN " + tests[i] + " THEN " + exact(results[i + 1]);
  if (otherwise) result.text += " ELSE " + exact(results[0]);
  result.text += " END";
  return result;
}

Value Typed::value_function(Node body) {
  struct Known {
    std::string_view op, function;
    Oid type;
  };
  static constexpr Known all[] = {{"SVFOP_CURRENT_DATE", "pg_current_date()", oid::date},
                                  {"SVFOP_CURRENT_TIMESTAMP", "pg_now()", oid::timestamptz},
                                  {"SVFOP_LOCALTIMESTAMP", "pg_localtimestamp()", oid::timestamp},
                                  {"SVFOP_CURRENT_TIME", "pg_current_time()", oid::timetz},
                                  {"SVFOP_LOCALTIME", "pg_localtime()", oid::time},
                                  {"SVFOP_CURRENT_CATALOG", "current_database()", oid::name},
                                  {"SVFOP_CURRENT_SCHEMA", "current_schema()", oid::name},
                                  {"SVFOP_SESSION_USER", "session_user()", oid::name}};
  const std::string_view op = body["op"].string();
  if (op.ends_with("_N")) refuse("the precision of a current time", body);
  for (const Known& each : all) {
    if (op == each.op) return {std::string(each.function), primary, each.type};
  }
  return {"\"current_user\"()", primary, oid::name};
}

Value Typed::array(Node body, Oid element) {
  std::vector<Value> values;
  for (const Node item : body["elements"].items()) {
    if (item.is("A_ArrayExpr")) refuse("an array of arrays", body);
    values.push_back(expression(item));
    if (element == 0) continue;
    // What is cast is each element, and not their common type.
    Value& each = values.back();
    const Value converted = coerce(each, element, Context::explicitly);
    if (converted.type != element) {
      if (resolution::cast_path(each.type, element, Context::explicitly).how != resolution::Path::How::none)
        no_cast(each.type, element, item);
      refuse_as("42846", "cannot cast type " + spoken(each.type) + " to " + spoken(element), item);
    }
    each = converted;
  }
  if (values.empty() && element == 0) refuse_as("42P18", "cannot determine type of empty array", body);
  Value result = element == 0 ? common(values, "ARRAY", body) : Value{{}, primary, element};
  const Oid array_type = resolution::type_row(result.type)->array;
  if (array_type == 0 || resolution::is_array(result.type)) refuse("an array of " + spoken(result.type), body);
  std::vector<std::string> parts;
  for (const Value& each : values) parts.push_back(element_text(each));
  return {call_of("pg_array_of", "pg_arrays_joined", parts), primary, array_type};
}

Value Typed::element(Node body) {
  Value value = expression(body["arg"]);
  for (const Node step : body["indirection"].items()) {
    const Node indices = step.as("A_Indices");
    if (!indices || indices.flag("is_slice") || !resolution::is_array(value.type))
      refuse(indices ? "this subscript of " + spoken(value.type) : std::string("a field of a row"), body);
    const Value index = coerce(expression(indices["uidx"]), oid::int4, Context::assignment);
    if (index.type != oid::int4) refuse_as("42804", "array subscript must have type integer", body);
    const Oid type = resolution::type_row(value.type)->element;
    // As text: an element of digits alone comes as a number, which equals no text.
    Value text{"CAST(pg_element(" + value.text + ", " + index.text + ") AS TEXT)", primary, oid::text};
    value = type == oid::text || type == oid::varchar ? text : from_text(text, type);
    value.type = type;
  }
  return value;
}

Value Typed::link(Node body) {
  if (is_schemas(place_)) refuse_as("0A000", "cannot use subquery in " + words_of(place_), body);
  const std::string_view which = body["subLinkType"].string();
  const Node select = body["subselect"].as("SelectStmt");
  const bool inside = std::exchange(in_aggregate_, false);
  Query sub = query(select);
  in_aggregate_ = inside;
  if (which == "EXISTS_SUBLINK") return {"EXISTS (" + sub.text + ")", primary, oid::boolean};
  if (sub.outs.size() != 1) {
    if (which == "EXPR_SUBLINK" || which == "ARRAY_SUBLINK") refuse_as("42601", "subquery must return only one column", body);
    if (body["testexpr"].is("RowExpr")) refuse("a row compared with a subquery", body);
    refuse_as("42601", "subquery has too many columns", body);
  }
  const std::string from = made("q"), name = quoted_name(sub.outs[0].name);
  Value each{from + "." + name, primary, sub.outs[0].type, sub.outs[0].typmod, sub.outs[0].stored};
  if (which == "EXPR_SUBLINK") {
    if (sub.one_row) return {"(" + sub.text + ")", primary, each.type, each.typmod, each.stored};
    // A second row is 21000.
    return {"(SELECT pg_one(" + each.text + ") FROM (" + sub.text + ") AS " + from + ")", primary, each.type, each.typmod, each.stored};
  }
  if (which == "ARRAY_SUBLINK") {
    const Oid array_type = resolution::type_row(each.type)->array;
    if (array_type == 0 || resolution::is_array(each.type)) refuse("an array of " + spoken(each.type), body);
    return {"(SELECT coalesce(pg_array_of_all(" + element_text(each) + "), '{}') FROM (" + sub.text + ") AS " + from + ")", primary,
            array_type, each.typmod};
  }
  const bool all = which == "ALL_SUBLINK";
  if (!all && which != "ANY_SUBLINK") refuse("this kind of subquery", body);
  const std::string symbol = body["operName"] ? last_name(body["operName"]) : "=";
  const Value left = expression(body["testexpr"]);
  compared_.reset();
  const Value test = operation(symbol, &left, each, body);
  // Where the subquery's values are compared as they are, it is written by itself.
  const bool direct = compared_ && compared_->right == each.text && compared_->function.empty();
  if (direct && !all && symbol == "=") return {compared_->left + " IN (" + sub.text + ")", equality, oid::boolean};
  if (direct && all && symbol == "<>") return {compared_->left + " NOT IN (" + sub.text + ")", equality, oid::boolean};
  // 1 before NULL before 0, or the other way round; nothing at all is false of ANY, true of ALL.
  const std::string rows = " FROM (" + sub.text + ") AS " + from;
  if (all)
    return {
        "(SELECT CASE WHEN min(" + test.text + ") = 0 THEN 0 WHEN count(*) > count(" + test.text + ") THEN NULL ELSE 1 END" + rows + ")",
        primary, oid::boolean};
  return {"(SELECT CASE WHEN max(" + test.text + ") = 1 THEN 1 WHEN count(*) > count(" + test.text + ") THEN NULL ELSE 0 END" + rows + ")",
          primary, oid::boolean};
}

}  // namespace termgate::dialect
