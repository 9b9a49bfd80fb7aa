// Function calls: the function that PostgreSQL's rules choose, written as typed_functions.cpp says.
#include <algorithm>
#include <utility>

#include "names.hpp"
#include "shapes.hpp"
#include "typed.hpp"

namespace termgate::dialect {

using resolution::Context;
using resolution::spoken;

namespace {

std::string types_in_words(const std::vector<Value>& args) {
  std::vector<std::string> words;
  for (const Value& each : args) words.push_back(spoken(each.type));
  return joined(words, ", ");
}

bool needs_window(std::string_view name) {
  static constexpr std::string_view all[] = {"row_number", "rank", "dense_rank",  "percent_rank", "cume_dist", "ntile",
                                             "lag",        "lead", "first_value", "last_value",   "nth_value"};
  return std::find(std::begin(all), std::end(all), name) != std::end(all);
}

}  // namespace

Value Typed::templated(std::string_view sql, const std::vector<Value>& args, Oid type, Node at) const {
  Value result;
  result.type = type;
  result.at = at;
  for (std::size_t i = 0; i < sql.size(); ++i) {
    if (sql[i] != '$') {
      result.text += sql[i];
      continue;
    }
    const auto number = static_cast<std::size_t>(sql[++i] - '1');
    if (number >= args.size()) refuse("this call", at);
    const std::string text = exact(args[number]);
    result.text += text != args[number].text ? text : wrapped(args[number], primary);
  }
  return result;
}

Value Typed::written_call(const resolution::Function& found, const std::vector<Value>& args, Node at) {
  const std::string signature = signature_of(found.row->name, found.row->arguments);
  if (auto arrays = array_call(found.row->name, args, found.result, at)) return std::move(*arrays);
  // These are listed for the operators that call them, whose second operand is an array.
  const Written* written = found.row->variadic != 0 ? nullptr : written_function(signature);
  if (written == nullptr)
    refuse_as("0A000", "the function " + std::string(found.row->name) + "(" + types_in_words(args) + ") is not translated for SQLite files",
              at);
  if (!written->sql.empty()) {
    Value result = templated(written->sql, args, found.result, at);
    result.level = written->level;
    return result;
  }
  std::vector<std::string> parts;
  for (const Value& each : args) parts.push_back(exact(each));
  return supplied(found.row->name, joined(parts, ", "), found.result, at);
}

Value Typed::supplied(std::string_view name, const std::string& arguments, Oid type, Node at) {
  Value result{quoted_name(name) + "(" + arguments + ")", primary, type};
  result.at = at;
  return result;
}

// "pg_to_json(…)" of a value, which reads it by its type.
std::string Typed::json_text(const Value& value) {
  const resolution::TypeRow* row = resolution::type_row(value.type);
  if (row == nullptr || value.type == 2249) refuse("JSON of " + spoken(value.type), value.at);
  return "pg_to_json(" + exact(value) + ", " + quoted_text(row->name) + ")";
}

Value Typed::special_call(const std::string& name, Node body, std::vector<Value>& args, bool& done) {
  done = true;
  // A sequence by its name; what is no constant is refused.
  if ((name == "nextval" || name == "currval" || name == "setval") && !args.empty() && args[0].constant) {
    std::vector<std::string> parts{quoted_text(*args[0].constant)};
    if (args.size() > 1) parts.push_back(coerce(args[1], oid::int8).text);
    if (args.size() > 2) parts.push_back(coerce(args[2], oid::boolean).text);
    return supplied(name, joined(parts, ", "), oid::int8, body);
  }
  if (name.starts_with("termgate_")) {
    std::vector<std::string> parts;
    for (const Value& each : args) parts.push_back(exact(decided(each)));
    return supplied(name, joined(parts, ", "), 0, body);
  }
  if (name == "pg_typeof" && args.size() == 1) {
    left_open(args[0]);
    return {"pg_regtype(" + quoted_text(spoken(args[0].type)) + ")", primary, 2206};
  }
  const bool binary = name.starts_with("jsonb_") || name == "to_jsonb";
  if ((name == "to_json" || name == "to_jsonb") && args.size() == 1) {
    if (args[0].open()) refuse_as("42804", "could not determine polymorphic type because input has type unknown", body);
    const Value arg = decided(args[0]);
    // NULL of any type is NULL, and no JSON null.
    return {"CASE WHEN " + wrapped(arg, bits) + " IS NOT NULL THEN " +
                (binary ? "pg_to_jsonb" + json_text(arg).substr(10) : json_text(arg)) + " END",
            primary, binary ? oid::jsonb : oid::json};
  }
  if (name == "json_build_array" || name == "jsonb_build_array" || name == "json_build_object" || name == "jsonb_build_object") {
    const bool object = name.ends_with("object");
    if (object && args.size() % 2 != 0) refuse_as("22023", "argument list must have even number of elements", body);
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < args.size(); ++i) {
      if (args[i].parameter != 0) refuse_as("22023", "could not determine data type for argument " + std::to_string(i + 1), body);
      parts.push_back(object && i % 2 == 0 ? as_text(args[i], oid::text).text : json_text(decided(args[i])));
    }
    return supplied("pg_" + name, joined(parts, ", "), binary ? oid::jsonb : oid::json, body);
  }
  if ((name == "concat" && !args.empty()) || (name == "concat_ws" && args.size() > 1)) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < args.size(); ++i) {
      const bool any = args[i].parameter != 0 && (name == "concat" || i > 0);
      if (any) left_open(args[i]);
      std::string text = any ? args[i].text : as_text(args[i], oid::text).text;
      if (args[i].type == oid::bpchar) text = exact(args[i]);
      if (args[i].type == oid::boolean) text = "substr(" + text + ", 1, 1)";
      parts.push_back(std::move(text));
    }
    return supplied(name, joined(parts, ", "), oid::text, body);
  }
  done = false;
  return {};
}

std::string Typed::words_of(Place place) {
  switch (place) {
    case Place::where: return "WHERE";
    case Place::group: return "GROUP BY";
    case Place::from: return "JOIN conditions";
    case Place::returning: return "RETURNING";
    case Place::update: return "UPDATE";
    case Place::check: return "check constraint";
    case Place::index: return "index expression";
    case Place::predicate: return "index predicate";
    case Place::generated: return "column generation expression";
    case Place::transform: return "transform expression";
    case Place::default_value: return "DEFAULT expression";
    case Place::plain:
    case Place::values: break;
  }
  return "VALUES";
}

// Where an aggregate or a window function is allowed; the columns within an aggregate are none of its query's own.
void Typed::check_place(const resolution::Function& found, bool windowed, std::size_t before, Node body) {
  const std::string name(found.row->name);
  if (!windowed) {
    if (found.row->kind == 'w') refuse_as("42809", "window function " + name + " requires an OVER clause", body);
    if (place_ != Place::plain || scopes_.empty()) {
      refuse_as("42803", "aggregate functions are not allowed in " + words_of(place_) + (is_schemas(place_) ? "s" : ""), body);
    }
    if (in_aggregate_) refuse_as("42803", "aggregate function calls cannot be nested", body);
    scopes_.back().loose.resize(before);
    scopes_.back().aggregates = true;
  } else if (place_ != Place::plain) {
    refuse_as("42P20", "window functions are not allowed in " + words_of(place_) + (is_schemas(place_) ? "s" : ""), body);
  }
}

std::string Typed::rows_of(const resolution::Function& found, const std::vector<Value>& args, const std::string& cell,
                           std::vector<RowColumn>& columns) {
  const std::string_view name = found.row->name;
  const Oid first = found.arguments.empty() ? Oid{0} : found.arguments[0];
  std::vector<std::string> parts;
  for (const Value& each : args) parts.push_back(exact(each));
  const std::string all = joined(parts, ", ");
  columns = {{{}, Value{cell, primary, found.result}}};
  if (name == "generate_series" && (first == oid::int4 || first == oid::int8 || first == oid::timestamp || first == oid::timestamptz))
    return "pg_series(" + all + ")";
  if (name == "generate_subscripts" && args.size() == 2) return "pg_series(array_lower(" + all + "), array_upper(" + all + "))";
  if (name == "unnest" && resolution::is_array(first)) {
    const Oid element = resolution::type_row(first)->element;
    Value& value = columns[0].value;
    if (element != oid::text) value = from_text(value, element);
    value.type = element;
    return array_list(args[0]);
  }
  if (name == "json_array_elements" || name == "jsonb_array_elements") {
    columns[0].name = "value";
    return "pg_json_elements(" + all + ")";
  }
  if (name == "json_array_elements_text" || name == "jsonb_array_elements_text") {
    columns[0].name = "value";
    return "pg_json_element_texts(" + all + ")";
  }
  if (name == "jsonb_object_keys") return "pg_json_keys(" + all + ")";
  if (name == "jsonb_each" || name == "jsonb_each_text") {
    const bool text = name == "jsonb_each_text";
    columns = {{"key", Value{"json_extract(" + cell + ", '$[0]')", primary, oid::text}},
               {"value", Value{"json_extract(" + cell + ", '$[1]')", primary, text ? Oid{oid::text} : Oid{oid::jsonb}}}};
    return (text ? "pg_json_text_pairs(" : "pg_json_pairs(") + all + ")";
  }
  return {};
}

// PostgreSQL makes the rows after it has grouped, and before DISTINCT, ORDER BY and LIMIT: core() sees to the former. Several go side by
// side, and the shorter ones end in NULL.
Value Typed::expansion(const resolution::Function& found, std::vector<Value>& args, Node body, bool may) {
  const std::string name(found.row->name);
  if (is_schemas(place_)) refuse_as("0A000", "set-returning functions are not allowed in " + words_of(place_) + "s", body);
  if (!may || expansions_ == nullptr || in_aggregate_ || place_ != Place::plain) refuse("a set-returning function here", body);
  for (std::size_t i = 0; i < args.size(); ++i) args[i] = coerce(args[i], found.arguments[i]);
  const std::string value = expansions_->as + ".value";
  const std::string cell =
      expansions_->several ? "json_extract(" + value + ", '$[" + std::to_string(expansions_->lists.size()) + "]')" : value;
  std::vector<RowColumn> columns;
  std::string list = rows_of(found, args, cell, columns);
  if (list.empty() || columns.size() != 1)
    refuse_as("0A000", "the function " + name + " in a select list is not translated for SQLite files", body);
  for (const Value& each : args) {
    if (each.text.find(value) != std::string::npos) refuse("a set-returning function within another one", body);
  }
  expansions_->lists.push_back(std::move(list));
  columns[0].value.at = body;
  return columns[0].value;
}

Value Typed::call(Node body, bool rows_may_come) {
  const std::vector<std::string> path = strings(body["funcname"]);
  if (path.empty()) refuse("this call", body);
  if (path.size() > 2 || (path.size() == 2 && path[0] != "pg_catalog" && path[0] != "public"))
    refuse_as("3F000", "schema \"" + path[0] + "\" does not exist", body);
  const std::string& name = path.back();
  // No function of PostgreSQL's is in the schema public.
  if (path.size() == 2 && path[0] == "public" && !name.starts_with("termgate_"))
    refuse_as("42883", "function public." + name + "() does not exist", body);
  if (body.flag("agg_within_group")) refuse("WITHIN GROUP", body);
  if (body.flag("func_variadic")) refuse("VARIADIC", body);
  // An aggregate's arguments are looked at once it is known to be one.
  const std::size_t level = scopes_.size();
  const std::size_t before = level == 0 ? 0 : scopes_.back().loose.size();
  std::vector<Value> args;
  std::vector<Oid> types;
  const bool aggregated = !body["over"] && resolution::is_aggregate(name);
  if (aggregated && in_aggregate_) refuse_as("42803", "aggregate function calls cannot be nested", body);
  const bool outside = std::exchange(in_aggregate_, in_aggregate_ || aggregated);
  HomeOfAggregate home(*this, aggregated);  // what is read writes to it
  for (const Node arg : body["args"].items()) {
    if (arg.is("NamedArgExpr")) refuse("a named argument", body);
    rows_may_come_ = rows_may_come && !aggregated && !body["over"];
    args.push_back(expression(arg));
    types.push_back(args.back().type);
  }
  in_aggregate_ = outside;
  bool done = false;
  Value special = special_call(name, body, args, done);
  if (done) return special;
  if (name == "coalesce" || name == "nullif") refuse("this call", body);
  using State = resolution::Function::State;
  if (body.flag("agg_star")) types.clear();
  const resolution::Function found = resolution::find_function(name, types, args.size() == 1 && (args[0].constant || args[0].null));
  switch (found.state) {
    case State::found: break;
    case State::cast:
      return coerce(args[0], found.result, Context::explicitly).type == found.result ? coerce(args[0], found.result, Context::explicitly)
                                                                                     : (refuse("this cast", body), Value());
    case State::ambiguous: refuse_as("42725", "function " + name + "(" + types_in_words(args) + ") is not unique", body);
    case State::polymorphic: refuse_as("42804", "could not determine polymorphic type because input has type unknown", body);
    default: refuse_as("42883", "function " + name + "(" + types_in_words(args) + ") does not exist", body);
  }
  if (found.row->set) return expansion(found, args, body, rows_may_come);
  for (std::size_t i = 0; i < args.size(); ++i) {
    // count($1) leaves the type open, as PostgreSQL does.
    if (args[i].parameter != 0 && i < found.row->arguments.size() && found.row->arguments[i] == 2276) {
      if (!body.flag("agg_distinct")) left_open(args[i]);
      continue;
    }
    args[i] = coerce(args[i], found.arguments[i]);
    if (args[i].type != found.arguments[i]) refuse("this argument of " + name + "()", body);
  }
  const bool windowed = static_cast<bool>(body["over"]);
  if (found.row->kind == 'f') {
    if (windowed) refuse_as("42809", "OVER specified, but " + name + " is not a window function nor an aggregate function", body);
    if (body.flag("agg_distinct") || body["agg_filter"])
      refuse_as("42809", "DISTINCT or FILTER specified, but " + name + " is not an aggregate function", body);
    return written_call(found, args, body);
  }
  check_place(found, windowed, before, body);
  Value result = aggregate(found, args, body);
  // PostgreSQL computes it in the query whose columns these are, and that query is one of groups then.
  if (!windowed && home.is_outer()) refuse("an aggregate of columns of an outer query alone", body);
  return result;
}

// How sum() and avg() of that type are written; false: they are not.
bool Typed::sum_of(std::string_view name, const Value& arg, bool distinct, bool windowed, std::string& written,
                   std::vector<std::string>& parts) const {
  const bool whole = arg.type == oid::int2 || arg.type == oid::int4;
  if (arg.type == oid::numeric || arg.type == oid::int8 || (name == "avg" && whole)) {
    written = name == "sum" ? "pg_numeric_sum" : "pg_numeric_avg";
    parts.push_back(distinct ? exact(arg) + (arg.type == oid::numeric ? " COLLATE pg_numeric" : "") : exact(arg));
  } else if (whole) {
    parts.push_back(arg.text);
  } else if (arg.type == oid::float8 && !windowed) {
    written = name == "sum" ? "pg_float8_sum" : "pg_float8_avg";
    parts.push_back(exact(arg));
  } else {
    return false;
  }
  return true;
}

// What pg_ordered() gets for a key: its direction, how it compares, where its NULLs go.
std::string Typed::sort_letters(const Value& key, bool descending, bool nulls_last) {
  sortable(key, true);  // refuses what has no order here
  return std::string(descending ? ">" : "<") +
         (key.type == oid::numeric    ? "n"
          : key.type == oid::interval ? "i"
                                      : "v") +
         (nulls_last ? "l" : "f");
}

std::string Typed::ordered_aggregate(const resolution::Function& found, std::vector<Value>& args, Node body) {
  const std::string_view name = found.row->name;
  const bool distinct = body.flag("agg_distinct");
  if (!body["agg_order"] && !distinct) return {};
  const bool json = name == "json_agg" || name == "jsonb_agg", object = name == "json_object_agg" || name == "jsonb_object_agg";
  const bool array = name == "array_agg" && !resolution::is_array(args[0].type);
  const bool text = name == "string_agg" && args[0].type == oid::text;
  if (!json && !object && !array && !text) {
    // An order changes nothing of what others make.
    static constexpr std::string_view any_order[] = {"count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every"};
    const bool same = std::find(std::begin(any_order), std::end(any_order), name) != std::end(any_order);
    if (body["agg_order"] && !same) refuse("ORDER BY within " + std::string(name) + "()", body);
    return {};
  }
  if (body["over"]) refuse(std::string(distinct ? "DISTINCT" : "ORDER BY") + " within an aggregate that has a window", body);
  std::vector<std::string> keys;
  std::string letters;
  std::vector<std::string> seen;
  const bool inside = std::exchange(in_aggregate_, true);
  for (const Node item : body["agg_order"].items()) {
    const Node sort = item.as("SortBy");
    bool descending = false;
    const std::string tail = order_tail(sort, descending);
    const Value key = decided(expression(sort["node"]));
    if (distinct && std::none_of(args.begin(), args.end(), [&](const Value& each) { return each.text == key.text; }))
      refuse_as("42P10", "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list", sort["node"].body());
    letters += sort_letters(key, descending, tail.ends_with("LAST"));
    keys.push_back(exact(key));
    seen.push_back(key.text);
  }
  in_aggregate_ = inside;
  if (distinct) {
    for (const Value& each : args) {
      if (std::find(seen.begin(), seen.end(), each.text) != seen.end()) continue;
      letters += sort_letters(each, false, true);
      keys.push_back(exact(each));
    }
  }
  const std::string first = text    ? args[0].text
                            : array ? element_text(args[0])
                            : json  ? json_text(args[0])
                                    : as_text(args[0], oid::text).text;
  const std::string second = text ? args[1].text : object ? json_text(args[1]) : "NULL";
  const std::string_view kind = text                        ? "s"
                                : array                     ? "a"
                                : name == "json_agg"        ? "j"
                                : name == "jsonb_agg"       ? "J"
                                : name == "json_object_agg" ? "o"
                                                            : "O";
  return "pg_ordered('" + std::string(kind) + "', '" + (distinct ? "D" : "") + letters + "', " + first + ", " + second +
         (keys.empty() ? "" : ", " + joined(keys, ", ")) + ")";
}

Value Typed::aggregate(const resolution::Function& found, std::vector<Value>& args, Node body) {
  const std::string_view name = found.row->name;
  if (args.empty() && !body.flag("agg_star") && found.row->kind == 'a' && !needs_window(name))
    refuse_as("42809", std::string(name) + "(*) must be used to call a parameterless aggregate function", body);
  const Oid first = args.empty() ? Oid{0} : args[0].type;
  const bool distinct = body.flag("agg_distinct");
  const bool windowed = static_cast<bool>(body["over"]);
  if (windowed && distinct) refuse_as("0A000", "DISTINCT is not implemented for window functions", body);
  Value result;
  result.type = found.result;
  result.at = body;
  const auto no = [&]() {
    refuse_as("0A000", "the aggregate " + std::string(name) + "(" + types_in_words(args) + ") is not translated for SQLite files", body);
  };
  std::string written(name), argument;
  std::vector<std::string> parts;
  if (args.empty() && !body.flag("agg_star") && found.row->kind == 'a')
    refuse_as("42809", std::string(name) + "(*) must be used to call a parameterless aggregate function", body);
  if (std::string by_order = args.empty() ? std::string() : ordered_aggregate(found, args, body); !by_order.empty()) {
    result.text = std::move(by_order);
    if (const Node filter = body["agg_filter"]) {
      const std::size_t before = scopes_.back().loose.size();
      result.text += " FILTER (WHERE " + condition(filter, "FILTER").text + ")";
      scopes_.back().loose.resize(before);
    }
    return result;
  }
  if (body.flag("agg_star")) {
    if (name != "count")
      refuse_as("42809", std::string(name) + "(*) specified, but " + std::string(name) + " is not a parameterless aggregate function",
                body);
    argument = "*";
  } else if (needs_window(name)) {
    if (distinct || body["agg_filter"]) refuse("DISTINCT or FILTER of a window function", body);
    for (std::size_t i = 0; i < args.size(); ++i) parts.push_back(exact(args[i]));
  } else if (name == "count") {
    if (distinct) args[0] = decided(args[0]);
    parts.push_back(distinct ? sortable(args[0], false) : exact(args[0]));
  } else if (name == "min" || name == "max") {
    if (resolution::is_array(first) || (first == oid::interval && windowed)) no();
    if ((first == oid::numeric && windowed) || (first == oid::bpchar && (!args[0].stored || windowed || args[0].typmod < 5))) no();
    parts.push_back(exact(args[0]));
    if (first == oid::numeric) written = name == "min" ? "pg_numeric_min" : "pg_numeric_max";
    if (first == oid::interval) written = name == "min" ? "pg_interval_min" : "pg_interval_max";
    // They compare without the blanks that they show.
    if (first == oid::bpchar) parts = {args[0].text};
  } else if (first == oid::interval && name == "sum" && !distinct && !windowed) {
    written = "pg_interval_sum";
    parts.push_back(args[0].text);
  } else if (first == oid::interval && name == "avg" && !distinct && !windowed && !body["agg_filter"]) {
    result.text = "pg_interval_div(pg_interval_sum(" + args[0].text + "), CAST(count(" + args[0].text + ") AS REAL))";
    return result;
  } else if (name == "sum" || name == "avg") {
    if (!sum_of(name, args[0], distinct, windowed, written, parts)) no();
  } else if (name.starts_with("stddev") || name.starts_with("var")) {
    const bool exactly = first == oid::int2 || first == oid::int4 || first == oid::int8 || first == oid::numeric;
    if (windowed || (!exactly && first != oid::float8)) no();
    written = std::string(exactly ? "pg_numeric_" : "pg_float8_") + (name == "stddev"     ? "stddev_samp"
                                                                     : name == "variance" ? "var_samp"
                                                                                          : std::string(name));
    parts.push_back(exact(args[0]) + (distinct && first == oid::numeric ? " COLLATE pg_numeric" : ""));
  } else if (name == "bool_and" || name == "every" || name == "bool_or") {
    written = name == "bool_or" ? "max" : "min";
    parts.push_back(exact(args[0]));
  } else if (name == "string_agg" && first == oid::text) {
    if (distinct || windowed) no();
    written = "pg_string_agg";
    parts = {args[0].text, args[1].text};
  } else if ((name == "json_agg" || name == "jsonb_agg") && !windowed && !distinct) {
    written = "pg_" + std::string(name);
    parts.push_back(json_text(args[0]));
  } else if ((name == "json_object_agg" || name == "jsonb_object_agg") && !windowed && !distinct) {
    written = "pg_" + std::string(name);
    parts = {as_text(args[0], oid::text).text, json_text(args[1])};
  } else if (name == "array_agg" && !resolution::is_array(first) && !windowed) {
    if (distinct) no();
    written = "pg_array_of_all";
    parts.push_back(element_text(args[0]));
  } else {
    no();
  }
  if (argument.empty()) argument = (distinct ? "DISTINCT " : "") + joined(parts, ", ");
  result.text = quoted_name(written) + "(" + argument + ")";
  if (const Node filter = body["agg_filter"]) {
    const std::size_t before = scopes_.back().loose.size();
    result.text += " FILTER (WHERE " + condition(filter, "FILTER").text + ")";
    if (!windowed) scopes_.back().loose.resize(before);
  }
  if (first == oid::bpchar && (name == "min" || name == "max"))
    result.text = "pg_pad(" + result.text + ", " + std::to_string(args[0].typmod - 4) + ")";
  const bool by_name = windowed && body["over"]["name"] && !body["over"]["partitionClause"] && !body["over"]["orderClause"];
  if (by_name) known_window(body["over"], "name");
  if (windowed)
    result.text += " OVER " + (body["over"]["name"] && !body["over"]["partitionClause"] && !body["over"]["orderClause"] &&
                                       body["over"].integer("frameOptions") == 1058
                                   ? quoted_name(body["over"].text("name"))
                                   : "(" + window(body["over"]) + ")");
  return result;
}

void Typed::known_window(Node body, std::string_view key) const {
  if (!body[key] || scopes_.back().windows.contains(body.text(key))) return;
  refuse_as("42704", "window \"" + body.text(key) + "\" does not exist", body);
}

std::string Typed::window(Node body) {
  std::vector<std::string> parts;
  known_window(body, "refname");
  if (body["refname"]) parts.push_back(quoted_name(body.text("refname")));
  if (body["partitionClause"]) {
    std::vector<std::string> keys;
    for (const Node item : body["partitionClause"].items()) keys.push_back(sortable(decided(expression(item)), false));
    parts.push_back("PARTITION BY " + joined(keys, ", "));
  }
  if (body["orderClause"]) {
    std::vector<std::string> keys;
    for (const Node item : body["orderClause"].items()) {
      bool descending = false;
      const std::string tail = order_tail(item.as("SortBy"), descending);
      keys.push_back(sortable(decided(expression(item.as("SortBy")["node"])), true) + tail);
    }
    parts.push_back("ORDER BY " + joined(keys, ", "));
  }
  const std::int64_t frame = body.integer("frameOptions");
  if ((frame & nondefault) != 0) {
    if ((frame & exclusions) != 0) refuse("EXCLUDE in a window", body);
    const auto edge = [&](bool start) -> std::string {
      if ((frame & (start ? start_unbounded : end_unbounded)) != 0) return start ? "UNBOUNDED PRECEDING" : "UNBOUNDED FOLLOWING";
      if ((frame & (start ? start_current : end_current)) != 0) return "CURRENT ROW";
      if ((frame & rows) == 0) refuse("RANGE or GROUPS with an offset", body);
      const Value offset = coerce(expression(body[start ? "startOffset" : "endOffset"]), oid::int8);
      if (offset.type != oid::int8) refuse("this offset of a window", body);
      const bool preceding = start ? (frame & start_preceding) != 0 : (frame & 0x1000) != 0;
      return wrapped(offset, bits) + (preceding ? " PRECEDING" : " FOLLOWING");
    };
    std::string text = (frame & groups) != 0 ? "GROUPS" : (frame & rows) != 0 ? "ROWS" : "RANGE";
    text += " BETWEEN " + edge(true) + " AND " + edge(false);
    parts.push_back(std::move(text));
  }
  return joined(parts, " ");
}

}  // namespace termgate::dialect
