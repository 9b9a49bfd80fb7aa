// Function calls: PostgreSQL's syntax for some, SQLite's names for others, a session's help for the rest.
#include <algorithm>
#include <iterator>

#include <termgate/dialect/functions.hpp>

#include "names.hpp"
#include "writer.hpp"

namespace termgate::dialect {
namespace {

struct Renaming {
  std::string_view name;
  std::string_view written;
  std::string_view result;
};
// clang-format off
// Plain SQLite has these under another name, or under the same.
constexpr Renaming renamings[] = {
    {"strpos", "instr", "int4"}, {"char_length", "length", "int4"}, {"character_length", "length", "int4"}, {"length", "length", "int4"}, {"power", "pow", "float8"}, {"dpow", "pow", "float8"},
    {"ceiling", "ceil", "numeric"}, {"chr", "char", "text"}, {"bool_and", "min", "bool"}, {"every", "min", "bool"}, {"bool_or", "max", "bool"}, {"json_agg", "json_group_array", "json"},
    {"jsonb_agg", "json_group_array", "jsonb"}, {"json_object_agg", "json_group_object", "json"}, {"jsonb_object_agg", "json_group_object", "jsonb"}, {"json_build_object", "json_object", "json"},
    {"jsonb_build_object", "json_object", "jsonb"}, {"json_build_array", "json_array", "json"}, {"jsonb_build_array", "json_array", "jsonb"}, {"json_array_length", "json_array_length", "int4"},
    {"jsonb_array_length", "json_array_length", "int4"}, {"btrim", "trim", "text"}, {"trim", "trim", "text"}, {"ltrim", "ltrim", "text"}, {"rtrim", "rtrim", "text"}, {"lower", "lower", "text"},
    {"upper", "upper", "text"}, {"replace", "replace", "text"}, {"count", "count", "int8"}, {"row_number", "row_number", "int8"}, {"rank", "rank", "int8"}, {"dense_rank", "dense_rank", "int8"},
    {"percent_rank", "percent_rank", "float8"}, {"cume_dist", "cume_dist", "float8"}, {"ntile", "ntile", "int4"}, {"sqrt", "sqrt", "float8"}, {"exp", "exp", "float8"}, {"ln", "ln", "float8"},
    {"sin", "sin", "float8"}, {"cos", "cos", "float8"}, {"tan", "tan", "float8"}, {"pi", "pi", "float8"}, {"quote_literal", "pg_quote_literal", "text"}, {"avg", "avg", "numeric"},
    {"random", "pg_random", "float8"}, {"format", "pg_format", "text"}, {"date", "pg_date", "date"}, {"time", "pg_time", "time"}, {"timestamp", "pg_timestamp", "timestamp"},
    {"clock_timestamp", "clock_timestamp", "timestamptz"}, {"statement_timestamp", "pg_now", "timestamptz"}, {"text", "pg_text", "text"}, {"int4", "pg_int4", "int4"}, {"int8", "pg_int8", "int8"},
    {"float8", "pg_float8", "float8"}, {"ascii", "unicode", "int4"}, {"like", "pg_like", "bool"}, {"log10", "log10", "float8"}, {"json_typeof", "pg_json_typeof", "text"}, {"jsonb_typeof", "pg_json_typeof", "text"},
    {"bit_and", "pg_bit_and", "int8"}, {"bit_or", "pg_bit_or", "int8"}};
// clang-format on
// The result is of the first argument's type.
constexpr std::string_view same_type[] = {"min",       "max", "lag",   "lead", "first_value", "last_value",
                                          "nth_value", "abs", "floor", "ceil", "round",       "trunc"};

constexpr std::string_view sets[] = {"generate_series",          "unnest",
                                     "json_array_elements",      "jsonb_array_elements",
                                     "json_array_elements_text", "jsonb_array_elements_text",
                                     "regexp_split_to_table",    "string_to_table",
                                     "_pg_expandarray",          "generate_subscripts"};
constexpr std::string_view other_sets[] = {
    "json_each",         "jsonb_each",         "json_each_text",   "jsonb_each_text",   "regexp_matches",
    "json_to_recordset", "jsonb_to_recordset", "json_object_keys", "jsonb_object_keys", "json_populate_recordset"};

template <class Range>
bool among(std::string_view name, const Range& range) {
  return std::find(std::begin(range), std::end(range), name) != std::end(range);
}

const Function* supplied_named(std::string_view name) {
  for (const Function& each : functions_to_supply()) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

}  // namespace

void Writer::left_to_the_session(std::string_view name) {
  if (stored_)
    out_.notices.push_back("the schema now holds a call of " + std::string(name) +
                           "(), which programs that open the file without the proxy do not have");
}

Sql Writer::supplied(std::string_view name, const std::string& args, Oid type) {
  left_to_the_session(name);
  return {quoted_name(name) + "(" + args + ")", primary, type};
}

std::string Writer::arguments(Node body) {
  if (body.flag("func_variadic")) refuse("VARIADIC", body);
  for (const Node arg : body["args"].items()) {
    if (arg.is("NamedArgExpr")) refuse("a named argument", body);
  }
  return list_of(body["args"]);
}

std::string Writer::over(Node window) {
  if (!window) return {};
  if (window["name"] && window.integer("frameOptions") == 1058 && !window["partitionClause"] && !window["orderClause"])
    return " OVER " + quoted_name(window.text("name"));
  return " OVER (" + window_definition(window) + ")";
}

// What has a meaning of its own. `done` false: an ordinary call.
Sql Writer::special_call(const std::string& name, Node body, bool& done) {
  done = true;
  const Node args = body["args"];
  const std::size_t count = args.size();
  const auto each = [&](std::size_t i) { return expression(args.at(i)); };
  if (name == "now" || name == "transaction_timestamp")
    return stored_ ? Sql{"(strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00')", primary, oid::timestamptz}
                   : supplied("pg_now", "", oid::timestamptz);
  if (name == "gen_random_uuid" && stored_) {
    return {
        "(lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' || substr('89AB', 1 + "
        "(random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))))",
        primary, oid::uuid};
  }
  if ((name == "substring" || name == "substr") && (count == 2 || count == 3)) {
    // From a string: a regular expression.
    if (count == 2 && args.at(1).as("A_Const")["sval"])
      return supplied("pg_substring_regexp", each(0).text + ", " + each(1).text, oid::text);
    const Sql value = each(0);
    const Node start = args.at(1).as("A_Const");
    // A constant start of 1 or more means the same in both.
    const bool plain = start && start["ival"].integer("ival") >= 1 && (count == 2 || (args.at(2).as("A_Const")["ival"]));
    const std::string text = value.text + ", " + each(1).text + (count == 3 ? ", " + each(2).text : "");
    return plain ? Sql{"substr(" + text + ")", primary, value.type == oid::bytea ? oid::bytea : oid::text}
                 : supplied("pg_substr", text, value.type == oid::bytea ? oid::bytea : oid::text);
  }
  if (name == "position" && count == 2) return {"instr(" + each(0).text + ", " + each(1).text + ")", primary, oid::int4};
  if (name == "overlay" && count >= 3) return supplied("pg_overlay", arguments(body), oid::text);
  if (name == "extract" || name == "date_part") {
    if (count != 2) refuse("this EXTRACT", body);
    return supplied("pg_extract", each(0).text + ", " + each(1).text, name == "extract" ? oid::numeric : oid::float8);
  }
  if (name == "timezone" && count == 2) {
    const Sql value = each(1);
    return supplied("pg_timezone", each(0).text + ", " + value.text, value.type == oid::timestamptz ? oid::timestamp : oid::timestamptz);
  }
  if (name == "string_agg" && count == 2) {
    if (!body.flag("agg_distinct")) {
      done = false;
      return {};
    }
    if (args.at(1).as("A_Const")["sval"].text("sval") != ",") refuse("string_agg(DISTINCT …) with another separator than ','", body);
    return {"group_concat(DISTINCT " + each(0).text + ")", primary, oid::text};
  }
  if (name == "sum" && count == 1) {
    done = false;
    return {};
  }
  if (name == "to_json" || name == "to_jsonb") {
    const Sql value = each(0);
    if (value.type == oid::json || value.type == oid::jsonb) return value;
    return {"json_quote(" + value.text + ")", primary, name == "to_json" ? oid::json : oid::jsonb};
  }
  if (name == "round" && count == 1) {
    const Sql value = each(0);
    if (value.type == oid::int4 || value.type == oid::int8) return value;
    return {"round(" + value.text + ")", primary, value.type == 0 ? oid::numeric : value.type};
  }
  if (name == "mod" && count == 2) {
    const Sql left = each(0), right = each(1);
    return {wrapped(left, product) + " % " + wrapped(right, static_cast<Level>(product + 1)), product, left.type};
  }
  if (name == "div" && count == 2)
    return {"trunc(" + wrapped(each(0), product) + " / " + wrapped(each(1), static_cast<Level>(product + 1)) + ")", primary, oid::numeric};
  if (name == "like_escape") refuse("ESCAPE here", body);
  if (name == "normalize" || name == "is_normalized") refuse("NORMALIZE", body);
  if (name == "xmlexists") refuse("XML", body);
  if (name == "overlaps") refuse("OVERLAPS", body);
  if (name == "load_extension" || name == "readfile" || name == "writefile" || name == "fts3_tokenizer")
    refuse_as("42883", "function " + name + " does not exist", body);
  done = false;
  return {};
}

// Long: each clause that a call may have is looked at once, in the order in which PostgreSQL refuses them.
Sql Writer::call(Node body) {
  const std::vector<std::string> path = strings(body["funcname"]);
  if (path.empty()) refuse("this call", body);
  if (path.size() > 2 || (path.size() == 2 && path[0] != "pg_catalog" && path[0] != "public" && path[0] != "information_schema"))
    refuse_as("3F000", "schema \"" + path[0] + "\" does not exist", body);
  const std::string& name = path.back();
  if (body.flag("agg_within_group")) refuse("WITHIN GROUP", body);
  if (name == "array_agg" && !body["over"] && !body.flag("agg_distinct") && body["args"].size() == 1) {
    // A name's array is name[], which clients read.
    const Node fields = body["args"].at(0).as("ColumnRef")["fields"];
    const std::string column_name = fields ? last_name(fields) : "";
    static constexpr std::string_view named[] = {"attname", "relname", "nspname", "conname", "typname", "proname", "rolname", "datname"};
    const Oid type = among(column_name, named) ? Oid{1003} : Oid{oid::text_array};
    const std::string filter = body["agg_filter"] ? " FILTER (WHERE " + expression(body["agg_filter"]).text + ")" : "";
    if (!body["agg_order"]) {
      Sql plain_call = supplied(name, arguments(body), type);
      plain_call.text += filter;
      return plain_call;
    }
    std::string letters;
    std::vector<std::string> keys;
    for (const Node item : body["agg_order"].items()) {
      const bool descending = item.as("SortBy")["sortby_dir"].string() == "SORTBY_DESC";
      const std::string_view nulls = item.as("SortBy")["sortby_nulls"].string();
      const bool last = nulls == "SORTBY_NULLS_LAST" || (nulls != "SORTBY_NULLS_FIRST" && !descending);
      letters += std::string(descending ? ">v" : "<v") + (last ? "l" : "f");
      keys.push_back(expression(item.as("SortBy")["node"]).text);
    }
    return {"pg_ordered('a', '" + letters + "', " + arguments(body) + ", NULL, " + joined(keys, ", ") + ")" + filter, primary, type};
  }
  if (body["agg_order"]) refuse("ORDER BY within an aggregate", body);
  if (among(name, sets)) {
    if (rows_of_targets_ == nullptr || body["over"] || body["agg_filter"]) refuse("a set-returning function here", body);
    auto* const rows = rows_of_targets_;
    rows_of_targets_ = nullptr;
    std::string source;
    if (name == "generate_series") source = supplied("pg_series", arguments(body), oid::json).text;
    else if (name == "unnest") source = array_rows(body["args"].at(0));
    else if (name == "generate_subscripts") {
      // The places of the same rows that unnest() has.
      if (body["args"].size() != 2 || body["args"].at(1).as("A_Const")["ival"].integer("ival") != 1)
        refuse("generate_subscripts of other than one dimension", body);
      source = array_rows(body["args"].at(0));
    } else if (name == "regexp_split_to_table" || name == "string_to_table")
      source =
          supplied("pg_array_json",
                   supplied(name == "string_to_table" ? "string_to_array" : "regexp_split_to_array", arguments(body), oid::text_array).text,
                   oid::json)
              .text;
    else if (name == "_pg_expandarray") source = supplied("pg_expandarray", arguments(body), oid::json).text;
    else source = arguments(body);
    rows_of_targets_ = rows;
    // The same call twice goes row by row together, as PostgreSQL has it.
    const std::string item = "json_each(" + source + ") AS pg_rows";
    // Both sides of a foreign key have as many columns.
    const std::string column_name = last_name(body["args"].at(0).as("ColumnRef")["fields"]);
    if (name == "unnest" && !rows->empty() && rows->front() != item && (column_name == "conkey" || column_name == "confkey") &&
        rows->front().find("conkey") != std::string::npos)
      return {"json_extract(" + source + ", '$[' || pg_rows.key || ']')", primary, 0};
    if (!rows->empty() && rows->front() != item) refuse("two set-returning functions in one list", body);
    if (rows->empty()) rows->push_back(item);
    if (name == "generate_subscripts")
      return {"pg_rows.key + " + supplied("array_lower", expression(body["args"].at(0)).text + ", 1", oid::int4).text, sum, oid::int4};
    return {"pg_rows.value", primary, name == "generate_series" ? oid::int4 : 0};
  }
  if (among(name, other_sets)) refuse("function " + name + "() here", body);

  bool done = false;
  const bool window = static_cast<bool>(body["over"]);
  const bool filter = static_cast<bool>(body["agg_filter"]);
  if (!window && !filter) {
    Sql special = special_call(name, body, done);
    if (done) return special;
  }
  std::string args;
  Oid first = 0;
  if (body.flag("agg_star")) {
    args = "*";
  } else {
    if (body.flag("func_variadic")) refuse("VARIADIC", body);
    std::vector<std::string> parts;
    for (const Node arg : body["args"].items()) {
      if (arg.is("NamedArgExpr")) refuse("a named argument", body);
      const Sql each = expression(arg);
      if (parts.empty()) first = each.type;
      parts.push_back(each.text);
    }
    args = joined(parts, ", ");
    if (body.flag("agg_distinct")) args = "DISTINCT " + args;
  }
  std::string written = name;
  Oid type = 0;
  if (const auto* renaming = std::find_if(std::begin(renamings), std::end(renamings), [&](const Renaming& r) { return r.name == name; });
      renaming != std::end(renamings)) {
    written = renaming->written;
    type = type_named(renaming->result)->oid;
    if (name == "avg" && (first == oid::float4 || first == oid::float8)) type = oid::float8;
  } else if (name == "sum") {
    type = first == oid::int2 || first == oid::int4 ? oid::int8 : first == oid::int8 ? oid::numeric : first;
  } else if (name == "string_agg") {
    written = "group_concat";
    type = oid::text;
  } else if (among(name, same_type)) {
    type = first == oid::unknown ? oid::text : first;
  }
  if (const Function* function = supplied_named(written)) {
    left_to_the_session(written);
    if (type == 0)
      type = function->result.empty() ? first : function->result == "_text" ? oid::text_array : type_named(function->result)->oid;
  }
  std::string text = quoted_name(written) + "(" + args + ")";
  if (filter) text += " FILTER (WHERE " + expression(body["agg_filter"]).text + ")";
  text += over(body["over"]);
  return {text, primary, type};
}

}  // namespace termgate::dialect
