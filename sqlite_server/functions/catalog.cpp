// What tools ask about relations by their OIDs: names, definitions, visibility, privileges, sizes.
#include <algorithm>
#include <iterator>
#include <span>

#include "catalog/data.hpp"
#include "functions/functions.hpp"
#include "catalog/query.hpp"

namespace termgate::sqlite_server {
namespace {

void format_type_call(Call& call) {
  if (call.null(0)) return call.answer_null();
  call.answer(format_type(call.whole(0), call.null(1) ? -1 : static_cast<std::int32_t>(call.whole(1))));
}

void user_by_id(Call& call) {
  call.answer(call.whole(0) == owner_oid ? call.state.session().user() : "unknown (OID=" + std::to_string(call.whole(0)) + ")");
}

// Pretty is without the outermost parentheses.
void get_expression(Call& call) {
  if (call.null(0)) return call.answer_null();
  const std::string text = call.text(0);
  if (call.count < 3 || call.null(2) || call.whole(2) == 0 || text.size() < 2 || text.front() != '(' || text.back() != ')')
    return call.answer(text);
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\'') i = std::min(text.find('\'', i + 1), text.size() - 1);
    else if (text[i] == '(') ++depth;
    else if (text[i] == ')' && --depth == 0 && i + 1 < text.size()) return call.answer(text);
  }
  call.answer(std::string_view(text).substr(1, text.size() - 2));
}

void index_definition(Call& call) {
  const auto schema = call.state.schema();
  const auto place = schema->indexes.find(call.whole(0));
  if (place == schema->indexes.end()) return call.answer_null();
  const SchemaRelation& relation = schema->relations[place->second.relation];
  const SchemaIndex& index = relation.indexes[place->second.index];
  const std::int64_t part = call.count > 1 ? call.whole(1) : 0;
  if (part == 0) return call.answer(index_text(relation, index, call.count < 3 || call.whole(2) == 0));
  if (part < 1 || part > static_cast<std::int64_t>(index.parts.size())) return call.answer("");
  call.answer(index.parts[static_cast<std::size_t>(part) - 1].text);
}

void constraint_definition(Call& call) {
  const auto schema = call.state.schema();
  const auto place = schema->constraints.find(call.whole(0));
  if (place == schema->constraints.end()) return call.answer_null();
  const SchemaRelation& relation = schema->relations[place->second.relation];
  call.answer(constraint_text(*schema, relation, relation.constraints[place->second.index], call.count > 1 && call.whole(1) != 0));
}

void view_definition(Call& call) {
  const auto schema = call.state.schema();
  const SchemaRelation* relation = call.type(0) == SQLITE_INTEGER || call.text(0).find_first_not_of("0123456789") == std::string::npos
                                       ? schema->relation(call.whole(0))
                                       : schema->named(call.text(0));
  if (relation == nullptr || relation->kind != 'v') return call.answer_null();
  std::string text = view_query(relation->sql);
  while (!text.empty() && (text.back() == ';' || text.back() == ' ')) text.pop_back();
  call.answer(" " + text + ";");
}

void trigger_definition(Call& call) {
  const auto schema = call.state.schema();
  const auto place = schema->triggers.find(call.whole(0));
  if (place == schema->triggers.end()) return call.answer_null();
  call.answer(schema->relations[place->second.relation].triggers[place->second.index].sql);
}

std::optional<std::vector<std::string_view>> function_line(std::int64_t oid) {
  for (const std::string_view line : std::span(data::functions, data::functions_count)) {
    auto fields = fields_of(line);
    if (number_of(fields[0]) == oid) return fields;
  }
  return std::nullopt;
}

void function_result(Call& call) {
  const auto fields = function_line(call.whole(0));
  if (!fields) return call.answer_null();
  call.answer(((*fields)[5] == "t" ? "SETOF " : "") + format_type(number_of((*fields)[3]), -1));
}
void function_arguments(Call& call) {
  const auto fields = function_line(call.whole(0));
  if (!fields) return call.answer_null();
  std::string out;
  if (!(*fields)[4].empty()) {
    for (const std::string_view type : fields_of((*fields)[4], ',')) out += (out.empty() ? "" : ", ") + format_type(number_of(type), -1);
  }
  call.answer(out);
}

void table_visible(Call& call) {
  const std::int64_t oid = call.whole(0);
  for (const SystemRelation& each : system_relations()) {
    if (each.oid == oid && each.kind != 'f') return call.answer(each.space == namespaces::catalog);
  }
  const auto schema = call.state.schema();
  const SchemaRelation* relation = schema->relation(oid);
  if (relation == nullptr) {
    const auto index = schema->indexes.find(oid);
    if (index == schema->indexes.end()) return call.answer_null();
    relation = &schema->relations[index->second.relation];
  }
  call.answer(relation->space != namespaces::termgate && schema->named(relation->name) == relation);
}

void type_visible(Call& call) { catalog_type(call.whole(0)) == nullptr ? call.answer_null() : call.answer(true); }
void visible(Call& call) { call.answer(true); }
void no(Call& call) { call.answer(false); }
void none(Call& call) { call.answer_null(); }

void encoding_name(Call& call) { call.answer(call.whole(0) == 6 ? "UTF8" : call.whole(0) == 0 ? "SQL_ASCII" : ""); }

// Pages of the tree, as dbstat counts them; that reads every page of it.
std::optional<std::int64_t> size_of(Call& call, const std::vector<std::string>& trees) {
  const CatalogState::Reading reading(call.state);
  std::int64_t bytes = 0;
  for (const std::string& tree : trees) {
    Query query(call.state.connection(), "SELECT pgsize FROM dbstat WHERE name = ?1 AND aggregate = TRUE");
    query.bind(tree);
    if (query.step()) bytes += query.integer(0);
    else if (query.failed()) return std::nullopt;
  }
  return bytes;
}

template <bool table, bool indexes>
void relation_size(Call& call) {
  const auto schema = call.state.schema();
  const std::int64_t oid = call.whole(0);
  std::vector<std::string> trees;
  if (const SchemaRelation* relation = schema->relation(oid)) {
    if (table && relation->kind == 'r') trees.push_back(relation->name);
    for (const SchemaIndex& index : relation->indexes) {
      if (indexes && !index.actual.empty()) trees.push_back(index.actual);
    }
  } else if (const auto place = schema->indexes.find(oid); place != schema->indexes.end()) {
    const SchemaIndex& index = schema->relations[place->second.relation].indexes[place->second.index];
    if (!index.actual.empty()) trees.push_back(index.actual);
  } else if (std::none_of(system_relations().begin(), system_relations().end(), [&](const auto& each) { return each.oid == oid; })) {
    return call.answer_null();
  }
  const auto bytes = size_of(call, trees);
  bytes ? call.answer(*bytes) : call.answer_null();
}

void database_size(Call& call) {
  const CatalogState::Reading reading(call.state);
  Query query(call.state.connection(), "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size");
  query.step() ? call.answer(query.integer(0)) : call.answer_null();
}

// From 10 units of a size on the next is used; halves are rounded up.
void size_pretty(Call& call) {
  const std::int64_t size = call.whole(0);
  std::uint64_t amount = size < 0 ? 0 - static_cast<std::uint64_t>(size) : static_cast<std::uint64_t>(size);
  static constexpr std::string_view units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  bool halves = false;
  while (unit + 1 < std::size(units) && amount >= (unit == 0 ? 10U * 1024 : 20U * 1024 - 1)) {
    // Kept in halves from the first step on, so that the last can round.
    amount >>= unit == 0 ? 9 : 10;
    halves = true;
    ++unit;
  }
  if (halves) amount = (amount + 1) / 2;
  call.answer((size < 0 ? "-" : "") + std::to_string(amount) + " " + std::string(units[unit]));
}

void table_privilege(Call& call) {
  const int which = call.count - 2;
  const auto schema = call.state.schema();
  const SchemaRelation* relation = nullptr;
  if (call.type(which) == SQLITE_INTEGER) {
    relation = schema->relation(call.whole(which));
  } else {
    std::string name = call.text(which);
    if (const auto dot = name.rfind('.'); dot != std::string::npos) name.erase(0, dot + 1);
    if (name.size() > 2 && name.front() == '"' && name.back() == '"') name = name.substr(1, name.size() - 2);
    relation = schema->named(name);
    const bool system =
        std::any_of(system_relations().begin(), system_relations().end(), [&](const auto& each) { return each.shown == name; });
    if (relation == nullptr && !system) fail("42P01", "relation \"" + call.text(which) + "\" does not exist");
  }
  if (relation != nullptr) return call.answer(relation->space != namespaces::termgate);
  call.answer(lower(call.text(call.count - 1)).starts_with("select"));
}

void ancestors(Call& call) { call.answer("[" + std::to_string(call.whole(0)) + "]"); }

// clang-format off
constexpr Body catalog_bodies[] = {
    {"format_type", format_type_call, true}, {"pg_get_userbyid", user_by_id, false, false}, {"pg_get_expr", get_expression, true},
    {"pg_get_indexdef", index_definition, false, false}, {"pg_get_constraintdef", constraint_definition, false, false}, {"pg_get_viewdef", view_definition, false, false}, {"pg_get_ruledef", none},
    {"pg_get_triggerdef", trigger_definition, false, false}, {"pg_get_functiondef", none}, {"pg_get_function_result", function_result}, {"pg_get_function_arguments", function_arguments},
    {"pg_get_function_identity_arguments", function_arguments}, {"pg_get_function_sqlbody", none}, {"pg_get_partkeydef", none}, {"pg_get_statisticsobjdef_columns", none}, {"pg_get_replica_identity_index", none},
    {"pg_relation_is_publishable", no}, {"pg_encoding_to_char", encoding_name}, {"pg_table_is_visible", table_visible, false, false}, {"pg_type_is_visible", type_visible}, {"pg_function_is_visible", visible},
    {"pg_operator_is_visible", visible}, {"pg_collation_is_visible", visible}, {"pg_conversion_is_visible", visible}, {"pg_statistics_obj_is_visible", visible},
    {"pg_opclass_is_visible", visible}, {"pg_opfamily_is_visible", visible}, {"pg_ts_config_is_visible", visible}, {"pg_ts_dict_is_visible", visible}, {"pg_ts_parser_is_visible", visible},
    {"pg_ts_template_is_visible", visible}, {"getdatabaseencoding", [](Call& call) { call.answer("UTF8"); }},
    {"pg_char_to_encoding", [](Call& call) { call.answer(std::int64_t{lower(call.text(0)) == "utf8" || lower(call.text(0)) == "unicode" ? 6 : lower(call.text(0)) == "sql_ascii" ? 0 : -1}); }},
    {"has_any_column_privilege", table_privilege, false, false}, {"has_sequence_privilege", visible}, {"has_function_privilege", visible}, {"pg_indexes_size", relation_size<false, true>, false, false},
    {"obj_description", none}, {"col_description", none},
    {"shobj_description", none}, {"pg_table_size", relation_size<true, false>, false, false}, {"pg_relation_size", relation_size<true, false>, false, false}, {"pg_total_relation_size", relation_size<true, true>, false, false},
    {"pg_database_size", database_size, false, false}, {"pg_tablespace_size", database_size, false, false}, {"pg_tablespace_location", [](Call& call) { call.answer(""); }}, {"pg_size_pretty", size_pretty},
    {"has_table_privilege", table_privilege, false, false}, {"has_schema_privilege", visible}, {"has_database_privilege", visible}, {"has_column_privilege", visible}, {"pg_has_role", visible},
    {"pg_partition_ancestors", ancestors},
};
// clang-format on

}  // namespace

std::span<const Body> catalog_functions() { return catalog_bodies; }

}  // namespace termgate::sqlite_server
