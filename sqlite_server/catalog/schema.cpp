// Reads an SQLite schema and gives it PostgreSQL's names and OIDs.
#include "catalog/schema.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <span>

#include "catalog/data.hpp"
#include "catalog/query.hpp"

namespace termgate::sqlite_server {
namespace {

// FNV-1a, folded into what an OID of a user's object may be and a signed 32-bit number holds.
// An OID is made of the name, so that it is the same on every connection and after a restart.
std::int64_t first_oid(std::string_view kind, std::string_view name) {
  std::uint64_t hash = 14'695'981'039'346'656'037U;
  const auto put = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
  };
  put(kind);
  put(lower(name));
  constexpr std::uint64_t room = 0x7fff'ffff - first_user_oid;
  return static_cast<std::int64_t>(first_user_oid + (hash ^ hash >> 32) % room);
}

class Oids {
 public:
  std::int64_t give(std::string_view kind, std::string_view name) {
    std::int64_t oid = first_oid(kind, name);
    while (!used_.insert(oid).second) oid = oid == 0x7fff'fffe ? first_user_oid : oid + 1;
    return oid;
  }

 private:
  std::set<std::int64_t> used_;
};

bool own(std::string_view name) { return lower(name.substr(0, 9)) == "termgate_"; }

struct Entry {
  std::string type, name, table, sql;
  bool temporary;
};

std::vector<Entry> entries(sqlite3* connection) {
  std::vector<Entry> all;
  for (const bool temporary : {false, true}) {
    Query query(connection, temporary ? "SELECT type, name, tbl_name, sql FROM temp.sqlite_schema ORDER BY name"
                                      : "SELECT type, name, tbl_name, sql FROM main.sqlite_schema ORDER BY name");
    while (query.step()) all.push_back({query.text(0), query.text(1), query.text(2), query.text(3), temporary});
  }
  return all;
}

// What PostgreSQL calls the sequence of a column that counts.
std::string sequence_name(const SchemaRelation& relation, const SchemaColumn& column) { return relation.name + "_" + column.name + "_seq"; }

int attribute_of(const SchemaRelation& relation, std::string_view name) {
  const std::string wanted = lower(name);
  for (std::size_t i = 0; i < relation.columns.size(); ++i) {
    if (lower(relation.columns[i].name) == wanted) return static_cast<int>(i) + 1;
  }
  return 0;
}

std::vector<int> attributes_of(const SchemaRelation& relation, const std::vector<std::string>& names) {
  std::vector<int> out;
  for (const std::string& name : names) out.push_back(attribute_of(relation, name));
  return out;
}

// As PostgreSQL makes a name up: with a number where it is taken, and at most 63 bytes.
std::string made_name(std::string base, std::string_view label, std::set<std::string>& used) {
  if (base.size() + label.size() + 1 > 63) base.resize(62 - label.size());
  while (!base.empty() && (base.back() & 0xC0) == 0x80 && base.size() + label.size() + 1 >= 62) base.pop_back();
  std::string name = base + "_" + std::string(label);
  for (std::size_t i = 1; !used.insert(name).second; ++i) name = base + "_" + std::string(label) + std::to_string(i);
  return name;
}

std::string joined_names(const SchemaRelation& relation, const std::vector<int>& columns) {
  std::string out = relation.name;
  for (const int column : columns) out += "_" + (column > 0 ? relation.columns[static_cast<std::size_t>(column) - 1].name : "expr");
  return out;
}

// What PRAGMA table_list says of each; asked once, as it goes through all tables.
struct Listed {
  bool without_rowid = false, strict = false, shadow = false;
};
using Listing = std::map<std::pair<bool, std::string>, Listed>;  // by whether it is temporary, and its name

Listing listing_of(sqlite3* connection) {
  Listing all;
  Query query(connection, "SELECT schema = 'temp', name, wr, strict, type = 'shadow' FROM pragma_table_list");
  while (query.step()) all[{query.integer(0) != 0, query.text(1)}] = {query.integer(2) != 0, query.integer(3) != 0, query.integer(4) != 0};
  return all;
}

void read_columns(sqlite3* connection, SchemaRelation& relation, const Definition& definition, const Listing& listing,
                  std::vector<int>& key) {
  std::vector<std::pair<std::int64_t, int>> keyed;
  Query query(connection, "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?1, ?2)");
  query.bind(relation.name).bind(relation.space == namespaces::temporary ? "temp" : "main");
  while (query.step()) {
    SchemaColumn column;
    column.name = query.text(0);
    column.declared = query.text(1);
    column.type = type_of_declaration(column.declared);
    column.serial = definition.serials.contains(lower(column.name));
    column.always = definition.always.contains(lower(column.name));
    if (definition.integers.contains(lower(column.name))) column.type = {dialect::oid::int4, -1};
    column.not_null = query.integer(2) != 0;
    if (!query.is_null(3)) column.default_text = query.text(3);
    column.hidden = query.integer(5) == 1;
    column.generated = query.integer(5) >= 2;
    const std::string lowered = lower(column.name);
    if (column.generated) {
      const auto expression = definition.generated.find(lowered);
      column.default_text = expression == definition.generated.end() ? "" : expression->second;
    }
    if (const auto collation = definition.collations.find(lowered); collation != definition.collations.end())
      column.collation = lower(collation->second);
    if (column.hidden) continue;
    relation.columns.push_back(std::move(column));
    if (const auto place = query.integer(4); place > 0) keyed.emplace_back(place, static_cast<int>(relation.columns.size()));
  }
  std::sort(keyed.begin(), keyed.end());
  for (const auto& [place, attribute] : keyed) key.push_back(attribute);
  const auto found = listing.find({relation.space == namespaces::temporary, relation.name});
  const Listed listed = found == listing.end() ? Listed{} : found->second;
  relation.without_rowid = listed.without_rowid;
  for (const int attribute : key) {
    SchemaColumn& column = relation.columns[static_cast<std::size_t>(attribute) - 1];
    const bool rowid = key.size() == 1 && !relation.without_rowid && lower(column.declared) == "integer";
    column.counted = rowid;
    if (rowid && column.serial) column.default_text = "nextval('" + quoted_identifier(sequence_name(relation, column)) + "'::regclass)";
    if (rowid || relation.without_rowid || listed.strict) column.not_null = true;
  }
}

// What the front has written into the text of its views: "oid:typmod" of each column.
void read_view_types(SchemaRelation& relation) {
  constexpr std::string_view mark = " /* columns: ";
  auto at = relation.sql.find(mark);
  const auto end = relation.sql.find(" */ AS ", at);
  if (at == std::string::npos || end == std::string::npos || relation.sql.find('\'') < at) return;
  std::string_view list = std::string_view(relation.sql).substr(at + mark.size(), end - at - mark.size());
  for (SchemaColumn& column : relation.columns) {
    const std::string_view each = list.substr(0, list.find(','));
    const auto colon = each.find(':');
    if (colon == std::string_view::npos) return;
    const auto type = static_cast<Oid>(number_of(each.substr(0, colon)));
    column.type = {type, static_cast<std::int32_t>(number_of(each.substr(colon + 1)))};
    const auto* known_type = dialect::type_of(type);
    column.declared = known_type == nullptr ? "text" : std::string(known_type->declared);
    list.remove_prefix(std::min(list.size(), each.size() + 1));
  }
}

void read_indexes(sqlite3* connection, SchemaRelation& relation, const Definition& definition, const std::vector<int>& key,
                  const std::map<std::string, std::string>& texts, std::set<std::string>& used) {
  const auto key_name = [&](const std::vector<int>& columns, bool primary) -> std::string {
    for (const auto& each : definition.keys) {
      if (each.primary == primary && attributes_of(relation, each.columns) == columns && !each.name.empty()) return each.name;
    }
    return {};
  };
  const std::string space = relation.space == namespaces::temporary ? "temp" : "main";
  bool primary_seen = false;
  std::vector<SchemaIndex> found;
  Query list(connection, "SELECT name, \"unique\", origin FROM pragma_index_list(?1, ?2) ORDER BY seq DESC");
  list.bind(relation.name).bind(space);
  while (list.step()) {
    SchemaIndex index;
    index.actual = list.text(0);
    index.unique = list.integer(1) != 0;
    const std::string origin = list.text(2);
    index.primary = origin == "pk";
    index.by_constraint = origin != "c";
    IndexDefinition text;
    if (!index.by_constraint) {
      if (const auto sql = texts.find(index.actual); sql != texts.end()) text = index_definition_of(sql->second);
      index.condition = text.condition;
    }
    Query parts(connection, "SELECT cid, name, \"desc\", coll FROM pragma_index_xinfo(?1, ?2) WHERE key = 1 ORDER BY seqno");
    parts.bind(index.actual).bind(space);
    std::vector<int> columns;
    while (parts.step()) {
      SchemaIndex::Part part;
      part.attribute = parts.integer(0) >= 0 ? attribute_of(relation, parts.text(1)) : 0;
      part.descending = parts.integer(2) != 0;
      part.collation = lower(parts.text(3));
      const std::size_t at = columns.size();
      part.text = part.attribute > 0       ? quoted_identifier(relation.columns[static_cast<std::size_t>(part.attribute) - 1].name)
                  : at < text.parts.size() ? text.parts[at]
                                           : "";
      columns.push_back(part.attribute);
      index.parts.push_back(std::move(part));
    }
    if (index.by_constraint) {
      index.name = key_name(columns, index.primary);
      if (index.name.empty())
        index.name = index.primary ? made_name(relation.name, "pkey", used) : made_name(joined_names(relation, columns), "key", used);
      else used.insert(index.name);
    } else {
      index.name = index.actual;
      used.insert(index.name);
      const auto sql = texts.find(index.actual);
      index.by_constraint = index.unique && index.condition.empty() && sql != texts.end() &&
                            sql->second.find(dialect::added_constraint_mark) != std::string::npos &&
                            std::find(columns.begin(), columns.end(), 0) == columns.end();
    }
    primary_seen = primary_seen || index.primary;
    found.push_back(std::move(index));
  }
  if (!primary_seen && !key.empty()) {
    // The row id, or a table without one: the key is the table itself.
    SchemaIndex index;
    index.unique = index.primary = index.by_constraint = true;
    index.name = key_name(key, true);
    if (index.name.empty()) index.name = made_name(relation.name, "pkey", used);
    else used.insert(index.name);
    for (const int attribute : key)
      index.parts.push_back(
          {attribute, quoted_identifier(relation.columns[static_cast<std::size_t>(attribute) - 1].name), false, "binary"});
    found.insert(found.begin(), std::move(index));
    primary_seen = true;
  }
  if (!primary_seen) {
    // ALTER TABLE … ADD PRIMARY KEY is a unique index of this name.
    for (SchemaIndex& index : found) {
      if (index.unique && index.name == relation.name + "_pkey" && index.condition.empty() &&
          std::none_of(index.parts.begin(), index.parts.end(), [](const auto& part) { return part.attribute == 0; })) {
        index.primary = index.by_constraint = true;
        for (const auto& part : index.parts) relation.columns[static_cast<std::size_t>(part.attribute) - 1].not_null = true;
        break;
      }
    }
  }
  relation.indexes = std::move(found);
}

char action_code(std::string_view action) {
  return action == "CASCADE" ? 'c' : action == "SET NULL" ? 'n' : action == "SET DEFAULT" ? 'd' : action == "RESTRICT" ? 'r' : 'a';
}

void read_constraints(sqlite3* connection, SchemaRelation& relation, const Definition& definition, std::set<std::string>& used) {
  for (const auto& check : definition.checks) {
    SchemaConstraint constraint;
    constraint.kind = 'c';
    constraint.name = check.name;
    if (constraint.name.empty())
      constraint.name = made_name(check.column.empty() ? relation.name : relation.name + "_" + check.column, "check", used);
    constraint.expression = check.expression;
    for (const std::string& name : names_mentioned(check.expression)) {
      const int attribute = attribute_of(relation, name);
      if (attribute > 0 && std::find(constraint.columns.begin(), constraint.columns.end(), attribute) == constraint.columns.end())
        constraint.columns.push_back(attribute);
    }
    relation.constraints.push_back(std::move(constraint));
  }
  Query query(connection,
              "SELECT id, \"table\", \"from\", \"to\", on_update, on_delete FROM pragma_foreign_key_list(?1, ?2) ORDER BY id DESC, seq");
  query.bind(relation.name).bind(relation.space == namespaces::temporary ? "temp" : "main");
  std::int64_t last = -1;
  std::vector<SchemaConstraint> foreign;
  while (query.step()) {
    if (foreign.empty() || query.integer(0) != last) {
      last = query.integer(0);
      SchemaConstraint constraint;
      constraint.kind = 'f';
      constraint.other = query.text(1);
      constraint.on_update = action_code(query.text(4));
      constraint.on_delete = action_code(query.text(5));
      foreign.push_back(std::move(constraint));
    }
    foreign.back().columns.push_back(attribute_of(relation, query.text(2)));
    if (!query.is_null(3)) foreign.back().other_names.push_back(query.text(3));
  }
  // They come in the order of the text.
  for (std::size_t i = 0; i < foreign.size(); ++i) {
    SchemaConstraint& constraint = foreign[i];
    const Definition::Foreign* text =
        i < definition.foreign.size() && attributes_of(relation, definition.foreign[i].columns) == constraint.columns
            ? &definition.foreign[i]
            : nullptr;
    if (text != nullptr) {
      constraint.name = text->name;
      constraint.deferrable = text->deferrable;
      constraint.deferred = text->deferred;
    }
    if (constraint.name.empty()) constraint.name = made_name(joined_names(relation, constraint.columns), "fkey", used);
    relation.constraints.push_back(std::move(constraint));
  }
  for (const SchemaIndex& index : relation.indexes) {
    if (!index.by_constraint) continue;
    SchemaConstraint constraint;
    constraint.kind = index.primary ? 'p' : 'u';
    constraint.name = index.name;
    for (const auto& part : index.parts) constraint.columns.push_back(part.attribute);
    relation.constraints.push_back(std::move(constraint));
  }
}

// The other side of each foreign key, once all tables are known.
void resolve(Schema& schema) {
  for (SchemaRelation& relation : schema.relations) {
    for (SchemaConstraint& constraint : relation.constraints) {
      if (constraint.kind != 'f') continue;
      const SchemaRelation* other = schema.named(constraint.other, relation.space);
      if (other == nullptr) continue;
      constraint.other_oid = other->oid;
      schema.relations[schema.by_oid[other->oid]].referenced = true;
      if (!constraint.other_names.empty()) {
        constraint.other_columns = attributes_of(*other, constraint.other_names);
      } else {
        for (const SchemaIndex& index : other->indexes) {
          if (!index.primary) continue;
          for (const auto& part : index.parts) constraint.other_columns.push_back(part.attribute);
        }
      }
      for (const SchemaIndex& index : other->indexes) {
        std::vector<int> columns;
        for (const auto& part : index.parts) columns.push_back(part.attribute);
        if (index.unique &&
            std::is_permutation(columns.begin(), columns.end(), constraint.other_columns.begin(), constraint.other_columns.end())) {
          constraint.index = index.oid;
          break;
        }
      }
    }
  }
}

}  // namespace

const SchemaRelation* Schema::relation(std::int64_t oid) const {
  const auto found = by_oid.find(oid);
  return found == by_oid.end() ? nullptr : &relations[found->second];
}

const SchemaRelation* Schema::named(std::string_view name, std::optional<std::int64_t> space) const {
  const SchemaRelation* best = nullptr;
  const auto [first, last] = by_name.equal_range(lower(name));
  for (auto found = first; found != last; ++found) {
    const SchemaRelation& each = relations[found->second];
    if (space && each.space != *space) continue;
    // Temporary ones hide others, as in SQLite.
    if (best == nullptr || each.space == namespaces::temporary) best = &each;
  }
  return best;
}

std::shared_ptr<const Schema> read_schema(sqlite3* connection) {
  auto schema = std::make_shared<Schema>();
  const std::vector<Entry> all = entries(connection);
  Oids oids;
  std::map<std::string, std::string> texts;
  std::multimap<std::string, const Entry*> triggers;
  for (const Entry& entry : all) {
    if (entry.type == "index") texts[entry.name] = entry.sql;
    if (entry.type == "trigger" && !own(entry.name)) triggers.emplace(entry.table, &entry);
  }
  const Listing listing = listing_of(connection);
  std::set<std::string> used;
  for (const Entry& entry : all) used.insert(entry.name);
  bool counts = false;
  for (const Entry& entry : all) {
    if (entry.type != "table" && entry.type != "view") continue;
    if (lower(entry.name.substr(0, 7)) == "sqlite_") {
      counts = counts || entry.name == "sqlite_stat1";
      continue;
    }
    if (entry.temporary && own(entry.name)) continue;  // the session's list of ON COMMIT
    // The shadow tables of virtual ones are theirs.
    if (const auto listed = listing.find({entry.temporary, entry.name}); listed != listing.end() && listed->second.shadow) continue;
    SchemaRelation relation;
    relation.name = entry.name;
    relation.sql = entry.sql;
    relation.kind = entry.type == "view" ? 'v' : 'r';
    relation.space = entry.temporary ? namespaces::temporary : own(entry.name) ? namespaces::termgate : namespaces::user;
    relation.oid = oids.give(entry.temporary ? "temporary" : "relation", entry.name);
    const Definition definition = relation.kind == 'r' ? definition_of(entry.sql) : Definition{};
    std::vector<int> key;
    read_columns(connection, relation, definition, listing, key);
    if (relation.kind == 'v') read_view_types(relation);
    if (relation.kind == 'r') {
      read_indexes(connection, relation, definition, key, texts, used);
      for (SchemaIndex& index : relation.indexes) index.oid = oids.give(entry.temporary ? "temporary index" : "index", index.name);
      read_constraints(connection, relation, definition, used);
      for (SchemaConstraint& constraint : relation.constraints) {
        constraint.oid = oids.give("constraint " + relation.name, constraint.name);
        for (const SchemaIndex& index : relation.indexes) {
          if ((constraint.kind == 'p' || constraint.kind == 'u') && index.name == constraint.name) constraint.index = index.oid;
        }
      }
    }
    for (auto [trigger, last] = triggers.equal_range(entry.name); trigger != last; ++trigger) {
      relation.triggers.push_back({oids.give("trigger", trigger->second->name), trigger->second->name, trigger->second->sql});
    }
    for (std::size_t i = 0; i < relation.columns.size(); ++i) {
      if (!relation.columns[i].counted || relation.space != namespaces::user) continue;
      SchemaRelation sequence;
      sequence.name = sequence_name(relation, relation.columns[i]);
      sequence.kind = 'S';
      sequence.oid = oids.give("relation", sequence.name);
      sequence.owner = relation.oid;
      sequence.owner_column = static_cast<int>(i) + 1;
      schema->relations.push_back(std::move(sequence));
    }
    schema->relations.push_back(std::move(relation));
  }
  std::stable_sort(schema->relations.begin(), schema->relations.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (std::size_t i = 0; i < schema->relations.size(); ++i) {
    schema->by_oid[schema->relations[i].oid] = i;
    schema->by_name.emplace(lower(schema->relations[i].name), i);
  }
  resolve(*schema);
  schema->index_texts = std::move(texts);
  for (std::size_t i = 0; i < schema->relations.size(); ++i) {
    SchemaRelation& relation = schema->relations[i];
    for (std::size_t k = 0; k < relation.indexes.size(); ++k) schema->indexes[relation.indexes[k].oid] = {i, k};
    for (std::size_t k = 0; k < relation.constraints.size(); ++k) schema->constraints[relation.constraints[k].oid] = {i, k};
    for (std::size_t k = 0; k < relation.triggers.size(); ++k) schema->triggers[relation.triggers[k].oid] = {i, k};
  }
  if (counts) {
    Query query(connection, "SELECT tbl, max(CAST(stat AS INTEGER)) FROM main.sqlite_stat1 GROUP BY tbl");
    while (query.step()) {
      if (const SchemaRelation* relation = schema->named(query.text(0), namespaces::user))
        schema->relations[schema->by_oid[relation->oid]].rows = query.real(1);
    }
  }
  return schema;
}

// ------------------------------------------------------------------------------------------------ PostgreSQL's own

std::vector<std::string_view> fields_of(std::string_view line, char separator) {
  std::vector<std::string_view> out;
  for (;;) {
    const auto end = line.find(separator);
    out.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return out;
    line.remove_prefix(end + 1);
  }
}

std::int64_t number_of(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

const std::vector<CatalogType>& catalog_types() {
  static const auto& all = *new std::vector<CatalogType>([] {
    std::vector<CatalogType> types;
    for (const std::string_view line : std::span(data::types, data::types_count)) {
      auto fields = fields_of(line);
      types.push_back({number_of(fields[0]), fields[1], fields});
    }
    return types;
  }());
  return all;
}

const CatalogType* catalog_type(std::int64_t oid) {
  const auto& all = catalog_types();
  const auto found =
      std::lower_bound(all.begin(), all.end(), oid, [](const CatalogType& type, std::int64_t wanted) { return type.oid < wanted; });
  return found == all.end() || found->oid != oid ? nullptr : &*found;
}

const CatalogType* catalog_type_named(std::string_view name) {
  for (const CatalogType& type : catalog_types()) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

std::string format_type(std::int64_t oid, std::int32_t typmod) {
  if (oid == 0) return "-";
  const CatalogType* type = catalog_type(oid);
  if (type == nullptr) return "???";
  if (type->fields[5] == "A" && number_of(type->fields[9]) != 0 && type->name.starts_with('_'))
    return format_type(number_of(type->fields[9]), typmod) + "[]";
  const std::string length = typmod >= 4 ? "(" + std::to_string(typmod - 4) + ")" : "";
  const std::string precision = typmod >= 0 ? "(" + std::to_string(typmod & 0xffff) + ")" : "";
  switch (oid) {
    case 16: return "boolean";
    case 18: return "\"char\"";
    case 20: return "bigint";
    case 21: return "smallint";
    case 23: return "integer";
    case 700: return "real";
    case 701: return "double precision";
    case 1042: return "character" + length;
    case 1043: return "character varying" + length;
    case 1083: return "time" + precision + " without time zone";
    case 1114: return "timestamp" + precision + " without time zone";
    case 1184: return "timestamp" + precision + " with time zone";
    case 1266: return "time" + precision + " with time zone";
    case 1560: return "bit";
    case 1562: return "bit varying";
    case 1700:
      return typmod < 4 ? "numeric" : "numeric(" + std::to_string((typmod - 4) >> 16) + "," + std::to_string((typmod - 4) & 0xffff) + ")";
    default: return std::string(type->name);
  }
}

const std::vector<SystemRelation>& system_relations() {
  static const auto& all = *new std::vector<SystemRelation>([] {
    std::vector<SystemRelation> relations;
    for (const std::string_view line : std::span(data::relations, data::relations_count)) {
      const auto fields = fields_of(line);
      SystemRelation relation;
      const bool information = fields[0].starts_with("information_schema.");
      relation.shown = std::string(information ? fields[0].substr(19) : fields[0]);
      relation.name = (information ? "information_schema_" : "") + relation.shown;
      relation.oid = number_of(fields[1]);
      relation.space = information ? namespaces::information : namespaces::catalog;
      relation.kind = fields[2][0];
      for (const std::string_view column : fields_of(fields[3], ',')) {
        const auto space = column.find(' ');
        relation.columns.push_back({std::string(column.substr(0, space)), std::string(column.substr(space + 1))});
      }
      relations.push_back(std::move(relation));
    }
    // Functions in PostgreSQL that the catalog has as tables here.
    relations.push_back({"pg_get_keywords",
                         "pg_get_keywords",
                         0,
                         0,
                         'f',
                         {{"word", "text"}, {"catcode", "char"}, {"barelabel", "bool"}, {"catdesc", "text"}, {"baredesc", "text"}}});
    for (const SystemRelation& each : std::vector<SystemRelation>(relations)) {
      if (each.name == "pg_settings") relations.push_back({"pg_show_all_settings", "pg_show_all_settings", 0, 0, 'f', each.columns});
    }
    return relations;
  }());
  return all;
}

// ------------------------------------------------------------------------------------------------ definitions

namespace {

std::string column_list(const SchemaRelation& relation, const std::vector<int>& columns) {
  std::string out;
  for (const int column : columns) {
    if (!out.empty()) out += ", ";
    if (column > 0) out += quoted_identifier(relation.columns[static_cast<std::size_t>(column) - 1].name);
  }
  return "(" + out + ")";
}

std::string_view spoken_action(char code) {
  return code == 'c' ? "CASCADE" : code == 'n' ? "SET NULL" : code == 'd' ? "SET DEFAULT" : "RESTRICT";
}

std::string qualified_name(const SchemaRelation& relation) {
  return (relation.space == namespaces::temporary  ? "pg_temp."
          : relation.space == namespaces::termgate ? "termgate."
                                                   : "public.") +
         quoted_identifier(relation.name);
}

}  // namespace

std::string index_text(const SchemaRelation& relation, const SchemaIndex& index, bool qualified) {
  std::string out = std::string("CREATE ") + (index.unique ? "UNIQUE " : "") + "INDEX " + quoted_identifier(index.name) + " ON " +
                    (qualified ? qualified_name(relation) : quoted_identifier(relation.name)) + " USING btree (";
  for (std::size_t i = 0; i < index.parts.size(); ++i) {
    if (i > 0) out += ", ";
    const auto& part = index.parts[i];
    const bool call = part.text.ends_with(')') && !part.text.starts_with('(');
    out += part.attribute > 0 || call ? part.text : "(" + part.text + ")";
    if (part.descending) out += " DESC";
  }
  out += ")";
  if (!index.condition.empty())
    out += " WHERE " + (!qualified || index.condition.starts_with('(') ? index.condition : "(" + index.condition + ")");
  return out;
}

std::string constraint_text(const Schema& schema, const SchemaRelation& relation, const SchemaConstraint& constraint, bool pretty) {
  std::string out;
  if (constraint.kind == 'p') out = "PRIMARY KEY " + column_list(relation, constraint.columns);
  else if (constraint.kind == 'u') out = "UNIQUE " + column_list(relation, constraint.columns);
  else if (constraint.kind == 'c') return pretty ? "CHECK (" + constraint.expression + ")" : "CHECK ((" + constraint.expression + "))";
  else {
    const SchemaRelation* other = schema.relation(constraint.other_oid);
    out = "FOREIGN KEY " + column_list(relation, constraint.columns) + " REFERENCES " + quoted_identifier(constraint.other);
    if (other != nullptr) out += column_list(*other, constraint.other_columns);
    if (constraint.on_update != 'a') out += " ON UPDATE " + std::string(spoken_action(constraint.on_update));
    if (constraint.on_delete != 'a') out += " ON DELETE " + std::string(spoken_action(constraint.on_delete));
  }
  if (constraint.deferrable) out += " DEFERRABLE";
  if (constraint.deferred) out += " INITIALLY DEFERRED";
  return out;
}

// SQLite keeps the text as it was written; a plain string gets the cast that PostgreSQL prints.
std::string default_expression(const SchemaColumn& column) {
  std::string text = column.default_text.value_or("");
  // As the front writes the time of the statement (dialect/definitions.cpp).
  if (text.starts_with("rtrim(rtrim(strftime('%Y-%m-%d %H:%M:%f', 'now'), '0'), '.')")) return "now()";
  if (text == "date('now')") return "CURRENT_DATE";
  if (column.generated) return "(" + text + ")";
  if (column.type.oid == dialect::oid::boolean && (text == "0" || text == "1")) return text == "1" ? "true" : "false";
  if (text.size() < 2 || text.front() != '\'' || text.back() != '\'') return text;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\'' && text[++i] != '\'') return text;
  }
  return text + "::" + format_type(column.type.oid, -1);
}

}  // namespace termgate::sqlite_server
