// What the dialect has to know of a file's tables and of the catalog's, in the dialect's own terms. Made once
// for each schema; not changed afterwards, so any thread may read it.
#include "catalog/relations.hpp"

#include <algorithm>

#include "values/forms.hpp"
#include "functions/functions.hpp"

namespace termgate::sqlite_server {
namespace {

namespace oid = dialect::oid;

// Columns of the domain yes_or_no, which is a varchar(3).
bool is_yes_or_no(std::string_view column) {
  static constexpr std::string_view others[] = {"as_locator",           "cycle_option",        "enforced",       "identity_cycle",
                                                "initially_deferred",   "new_savepoint_level", "nulls_distinct", "result_cast_as_locator",
                                                "schema_level_routine", "with_hierarchy"};
  if (column.starts_with("is_")) return column != "is_generated" && column != "is_verified_by";
  return std::find(std::begin(others), std::end(others), column) != std::end(others);
}

const std::unordered_map<std::string, dialect::Relations::Relation>& of_the_catalog() {
  static const auto all = [] {
    std::unordered_map<std::string, dialect::Relations::Relation> map;
    for (const SystemRelation& relation : system_relations()) {
      dialect::Relations::Relation out;
      out.name = relation.shown;
      out.catalog = true;
      for (const SystemRelation::Column& column : relation.columns) {
        const CatalogType* type = catalog_type_named(column.type);
        const bool yes_or_no = relation.name.starts_with("information_schema_") && column.type == "varchar" && is_yes_or_no(column.name);
        out.columns.push_back({column.name, type == nullptr ? Oid{oid::text} : static_cast<Oid>(type->oid), yes_or_no ? 7 : -1, false});
        // The tables of pg_catalog that have an OID have it as their key.
        if (relation.kind == 'r' && column.name == "oid") out.key = {out.columns.size() - 1};
      }
      map.emplace(relation.name, std::move(out));
    }
    return map;
  }();
  return all;
}

std::string literal(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

std::string written(const Stored& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value))
    return *number == INT64_MIN ? "(-9223372036854775807 - 1)" : std::to_string(*number);
  if (const auto* real = std::get_if<double>(&value)) {
    // 9e999 is how SQLite's text says infinity.
    if (*real > 1.7976931348623157e308) return "9e999";
    if (*real < -1.7976931348623157e308) return "-9e999";
    std::string text = float_text(*real, false);
    if (text.find_first_of(".eE") == std::string::npos) text += ".0";
    return text;
  }
  if (const auto* text = std::get_if<std::string>(&value)) return literal(*text);
  if (const auto* bytes = std::get_if<Blob>(&value)) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out = "x'";
    for (const char c : bytes->bytes) {
      out += digits[static_cast<unsigned char>(c) >> 4];
      out += digits[static_cast<unsigned char>(c) & 15];
    }
    return out + "'";
  }
  return "NULL";
}

}  // namespace

FileRelations::FileRelations(const Schema& schema, std::uint64_t id) : id_(id) {
  const Around around(schema);
  for (const SchemaRelation& relation : schema.relations) {
    if (relation.kind == 'S') continue;
    Relation out;
    out.name = relation.name;
    out.rowid = relation.kind == 'r' && !relation.without_rowid;
    for (const SchemaColumn& column : relation.columns) {
      if (column.hidden) continue;
      // Nothing in the file has the type of an expression of a view that another program created.
      const bool unknown = relation.kind == 'v' && column.declared.empty();
      out.columns.push_back({column.name, unknown ? Oid{0} : column.type.oid, unknown ? -1 : column.type.typmod,
                             column.generated || column.always, column.not_null, column.generated});
    }
    for (const SchemaConstraint& constraint : relation.constraints) {
      if (constraint.kind != 'p') continue;
      for (const int attribute : constraint.columns) out.key.push_back(static_cast<std::size_t>(attribute - 1));
    }
    // A temporary one hides what has its name.
    out.kind = relation.kind;
    out.temporary = relation.space == namespaces::temporary;
    if (relation.kind == 'r') {
      read_table_text(relation, out);
      around.read(relation, out);
      for (const Relation::Index& each : out.indexes) plain_indexes_ = plain_indexes_ && each.whole && !each.columns.empty();
      out.counted = std::any_of(relation.columns.begin(), relation.columns.end(), [](const SchemaColumn& each) { return each.counted; });
    } else if (relation.kind == 'v') {
      around.read(relation, out);
    }
    const std::string name = lower(relation.name);
    if (relation.space == namespaces::temporary) own_.insert_or_assign(name, std::move(out));
    else own_.emplace(name, std::move(out));
  }
}

const dialect::Relations::Relation* FileRelations::find(std::string_view name) const {
  const std::string wanted = lower(name);
  if (const auto found = own_.find(wanted); found != own_.end()) return &found->second;
  const auto found = of_the_catalog().find(wanted);
  return found == of_the_catalog().end() ? nullptr : &found->second;
}

const dialect::Relations::Relation::Index* FileRelations::find_index(std::string_view name) const {
  const std::string wanted = lower(name);
  for (const auto& [relation_name, relation] : own_) {
    for (const Relation::Index& each : relation.indexes) {
      if (lower(each.name) == wanted) return &each;
    }
  }
  return nullptr;
}

const dialect::Relations::Relation* FileRelations::owner_of_constraint(std::string_view name) const {
  for (const auto& [relation_name, relation] : own_) {
    for (const auto& item : relation.items) {
      for (const auto& clause : item.clauses) {
        if (clause.name == name) return &relation;
      }
    }
  }
  return nullptr;
}

std::variant<std::string, SqlError> FileRelations::constant(std::string_view text, dialect::Oid type, std::int32_t typmod) const {
  try {
    if (typmod >= 0) {
      auto stored = converted(Stored(std::string(text)), {type, typmod}, 0);
      if (const auto* bad = std::get_if<SqlError>(&stored)) return *bad;
      return written(std::get<Stored>(stored));
    }
    // Names of the catalog are looked up where the statement runs.
    const bool of_catalog = type == oid::regclass || type == 2206 || type == 24 || type == 2202 || type == 2203 || type == 2204 ||
                            type == 4089 || type == 4096 || type == 4191;
    if (of_catalog && text.find_first_not_of("0123456789") != std::string_view::npos)
      return std::string(dialect::type_of(type)->cast) + "(" + literal(text) + ")";
    if (type == oid::interval) return literal(interval_text(parse_interval(text)));
    if (type == oid::numeric) {
      auto exact = numeric_text(text);
      if (const auto* bad = std::get_if<SqlError>(&exact)) return *bad;
      return literal(std::get<std::string>(exact));
    }
    auto parsed = parse_value(text, type, Format::text);
    if (const auto* bad = std::get_if<SqlError>(&parsed)) return *bad;
    if (type == oid::float4) {
      if (const auto* real = std::get_if<double>(&std::get<Stored>(parsed)))
        return written(Stored(static_cast<double>(static_cast<float>(*real))));
    }
    return written(std::get<Stored>(parsed));
  } catch (const CallError& failed) { return failed.problem; }
}

std::variant<std::string, SqlError> FileRelations::stored_constant(std::string_view text, std::string_view declared,
                                                                   dialect::Oid from) const {
  const auto value = converted(Stored(std::string(text)), type_of_declaration(declared), from);
  if (const auto* bad = std::get_if<SqlError>(&value)) return *bad;
  return written(std::get<Stored>(value));
}

}  // namespace termgate::sqlite_server
