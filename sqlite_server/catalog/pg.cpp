// Rows of pg_catalog.
#include <algorithm>
#include <functional>
#include <span>

#include "catalog/data.hpp"
#include "catalog/rows.hpp"
#include "functions/functions.hpp"

namespace termgate::sqlite_server {
namespace {

using Writer = RowWriter&;

std::string vector_text(const std::vector<std::int64_t>& values) {
  std::string out;
  for (const std::int64_t value : values) out += (out.empty() ? "" : " ") + std::to_string(value);
  return out;
}

std::int64_t operator_class(std::int64_t type) {
  // What is compared as another type is.
  if (type == 1043) type = 25;
  for (const std::string_view line : std::span(data::operator_classes, data::operator_classes_count)) {
    const auto fields = fields_of(line);
    if (number_of(fields[4]) == type) return number_of(fields[0]);
  }
  return operator_class(25);
}

std::int64_t collation_of(const SchemaColumn& column) {
  const CatalogType* type = catalog_type(column.type.oid);
  const std::int64_t own = type == nullptr ? 0 : number_of(type->fields[19]);
  if (own == 0) return 0;
  return column.collation == "nocase" ? 13050 : column.collation == "rtrim" ? 13051 : own;
}

void write_class(Writer out, std::int64_t oid, std::string_view name, std::int64_t space, char kind, std::size_t columns) {
  out.row()
      .set("oid", oid)
      .set("relname", name)
      .set("relnamespace", space)
      .set("relowner", owner_oid)
      .set("relkind", std::string(1, kind))
      .set("relnatts", columns);
  out.set("relpersistence", space == namespaces::temporary ? "t" : "p")
      .set("relispopulated", 1)
      .set("reltuples", Stored(-1.0))
      .set("relreplident", kind == 'r' ? "d" : "n");
  out.set("relam", kind == 'r'   ? heap_am
                   : kind == 'i' ? btree_am
                                 : 0)
      .set("relfilenode", kind == 'v' ? 0 : oid)
      .set("relhasrules", kind == 'v');
}

void pg_class(Writer out, const CatalogView& view) {
  for (const SystemRelation& each : system_relations()) {
    if (each.kind == 'f') continue;
    write_class(out, each.oid, each.shown, each.space, each.kind, each.columns.size());
  }
  for (const SchemaRelation& relation : view.schema.relations) {
    write_class(out, relation.oid, relation.name, relation.space, relation.kind, relation.columns.size());
    const auto checks =
        std::count_if(relation.constraints.begin(), relation.constraints.end(), [](const auto& each) { return each.kind == 'c'; });
    const bool foreign = relation.referenced || std::any_of(relation.constraints.begin(), relation.constraints.end(),
                                                            [](const auto& each) { return each.kind == 'f'; });
    out.set("relhasindex", !relation.indexes.empty())
        .set("relchecks", checks)
        .set("relhastriggers", foreign || !relation.triggers.empty())
        .set("reltuples", Stored(relation.rows));
    for (const SchemaIndex& index : relation.indexes) write_class(out, index.oid, index.name, relation.space, 'i', index.parts.size());
  }
}

void write_attribute(Writer out, std::int64_t relation, std::string_view name, DeclaredType declared, std::size_t number) {
  const CatalogType* type = catalog_type(declared.oid);
  out.row()
      .set("attrelid", relation)
      .set("attname", name)
      .set("atttypid", declared.oid)
      .set("atttypmod", declared.typmod)
      .set("attnum", number)
      .set("attstattarget", -1)
      .set("attcacheoff", -1);
  out.set("attislocal", 1).set("attidentity", "").set("attgenerated", "").set("attcompression", "");
  if (type == nullptr) return;
  out.set("attlen", number_of(type->fields[2]))
      .set("attbyval", type->fields[3] == "t")
      .set("attalign", type->fields[17])
      .set("attstorage", type->fields[18]);
  out.set("attndims", type->fields[5] == "A" ? 1 : 0).set("attcollation", number_of(type->fields[19]));
}

void pg_attribute(Writer out, const CatalogView& view) {
  for (const SystemRelation& each : system_relations()) {
    if (each.kind == 'f') continue;
    for (std::size_t i = 0; i < each.columns.size(); ++i) {
      const CatalogType* type = catalog_type_named(each.columns[i].type);
      write_attribute(out, each.oid, each.columns[i].name, {type == nullptr ? dialect::oid::text : static_cast<Oid>(type->oid), -1}, i + 1);
    }
  }
  for (const SchemaRelation& relation : view.schema.relations) {
    for (std::size_t i = 0; i < relation.columns.size(); ++i) {
      const SchemaColumn& column = relation.columns[i];
      write_attribute(out, relation.oid, column.name, column.type, i + 1);
      out.set("attnotnull", column.not_null)
          .set("atthasdef", column.default_text.has_value())
          .set("attidentity", column.always                      ? "a"
                              : column.counted && !column.serial ? "d"
                                                                 : "")
          .set("attgenerated", column.generated ? "s" : "");
      out.set("attcollation", collation_of(column));
    }
    for (const SchemaIndex& index : relation.indexes) {
      for (std::size_t i = 0; i < index.parts.size(); ++i) {
        const auto& part = index.parts[i];
        if (part.attribute > 0) {
          const SchemaColumn& column = relation.columns[static_cast<std::size_t>(part.attribute) - 1];
          write_attribute(out, index.oid, column.name, column.type, i + 1);
        } else {
          // Named by its function, where it is a call.
          const auto open = part.text.find('(');
          const std::string called = open == std::string::npos || open == 0 ? "expr" : lower(part.text.substr(0, open));
          const bool plain = called.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
          write_attribute(out, index.oid, (plain ? called : "expr") + (i == 0 || called != "expr" ? "" : std::to_string(i)),
                          {dialect::oid::text, -1}, i + 1);
        }
      }
    }
  }
}

std::int64_t default_oid(const SchemaRelation& relation, std::size_t place) {
  constexpr std::int64_t room = 0x7fff'ffff - first_user_oid;
  return first_user_oid + (relation.oid * 31 + static_cast<std::int64_t>(place) * 7919) % room;
}

void pg_attrdef(Writer out, const CatalogView& view) {
  for (const SchemaRelation& relation : view.schema.relations) {
    for (std::size_t i = 0; i < relation.columns.size(); ++i) {
      if (!relation.columns[i].default_text) continue;
      out.row()
          .set("oid", default_oid(relation, i))
          .set("adrelid", relation.oid)
          .set("adnum", i + 1)
          .set("adbin", default_expression(relation.columns[i]));
    }
  }
}

bool is_big(const CatalogView& view, const SchemaRelation& sequence) {
  const SchemaRelation* owner = view.schema.relation(sequence.owner);
  return owner == nullptr || owner->columns[static_cast<std::size_t>(sequence.owner_column) - 1].type.oid != dialect::oid::int4;
}

std::int64_t greatest(bool big) { return big ? INT64_MAX : INT32_MAX; }

void pg_sequence(Writer out, const CatalogView& view) {
  for (const SchemaRelation& each : view.schema.relations) {
    if (each.kind != 'S') continue;
    const bool big = is_big(view, each);
    out.row().set("seqrelid", each.oid).set("seqtypid", std::int64_t{big ? dialect::oid::int8 : dialect::oid::int4}).set("seqstart", 1);
    out.set("seqincrement", 1).set("seqmax", greatest(big)).set("seqmin", 1).set("seqcache", 1).set("seqcycle", 0);
  }
}

void pg_sequences(Writer out, const CatalogView& view) {
  for (const SchemaRelation& each : view.schema.relations) {
    if (each.kind != 'S') continue;
    const bool big = is_big(view, each);
    out.row()
        .set("schemaname", space_name(each.space))
        .set("sequencename", each.name)
        .set("sequenceowner", view.session.user())
        .set("data_type", std::int64_t{big ? dialect::oid::int8 : dialect::oid::int4});
    out.set("start_value", 1)
        .set("min_value", 1)
        .set("max_value", greatest(big))
        .set("increment_by", 1)
        .set("cycle", 0)
        .set("cache_size", 1);
  }
}

// Whose a sequence is.
void pg_depend(Writer out, const CatalogView& view) {
  constexpr std::int64_t of_pg_class = 1259;
  for (const SchemaRelation& each : view.schema.relations) {
    if (each.kind != 'S') continue;
    const SchemaRelation* owner = view.schema.relation(each.owner);
    const bool serial = owner != nullptr && owner->columns[static_cast<std::size_t>(each.owner_column) - 1].serial;
    out.row().set("classid", of_pg_class).set("objid", each.oid).set("objsubid", 0).set("refclassid", of_pg_class);
    out.set("refobjid", each.owner).set("refobjsubid", each.owner_column).set("deptype", serial ? "a" : "i");
    if (!serial) continue;
    // The default needs its sequence.
    constexpr std::int64_t of_pg_attrdef = 2604;
    out.row()
        .set("classid", of_pg_attrdef)
        .set("objid", default_oid(*owner, static_cast<std::size_t>(each.owner_column) - 1))
        .set("objsubid", 0);
    out.set("refclassid", of_pg_class).set("refobjid", each.oid).set("refobjsubid", 0).set("deptype", "n");
  }
}

void pg_index(Writer out, const CatalogView& view) {
  for (const SchemaRelation& relation : view.schema.relations) {
    for (const SchemaIndex& index : relation.indexes) {
      std::vector<std::int64_t> keys, collations, classes, options;
      std::string expressions;
      for (const auto& part : index.parts) {
        keys.push_back(part.attribute);
        const SchemaColumn* column = part.attribute > 0 ? &relation.columns[static_cast<std::size_t>(part.attribute) - 1] : nullptr;
        collations.push_back(column == nullptr ? 100 : collation_of(*column));
        classes.push_back(operator_class(column == nullptr ? 25 : column->type.oid));
        // Bit 0: descending; bit 1: NULLS FIRST, which descending means.
        options.push_back(part.descending ? 3 : 0);
        if (column == nullptr) expressions += (expressions.empty() ? "" : ", ") + part.text;
      }
      out.row()
          .set("indexrelid", index.oid)
          .set("indrelid", relation.oid)
          .set("indnatts", keys.size())
          .set("indnkeyatts", keys.size())
          .set("indisunique", index.unique)
          .set("indisprimary", index.primary);
      out.set("indimmediate", 1).set("indisvalid", 1).set("indisready", 1).set("indislive", 1);
      out.set("indkey", vector_text(keys))
          .set("indcollation", vector_text(collations))
          .set("indclass", vector_text(classes))
          .set("indoption", vector_text(options));
      if (!expressions.empty()) out.set("indexprs", expressions);
      if (!index.condition.empty()) out.set("indpred", index.condition.starts_with('(') ? index.condition : "(" + index.condition + ")");
    }
  }
}

std::string array_of(const std::vector<int>& columns) { return array_text(std::vector<std::int64_t>(columns.begin(), columns.end())); }

void pg_constraint(Writer out, const CatalogView& view) {
  for (const SchemaRelation& relation : view.schema.relations) {
    for (const SchemaConstraint& each : relation.constraints) {
      out.row()
          .set("oid", each.oid)
          .set("conname", each.name)
          .set("connamespace", relation.space)
          .set("contype", std::string(1, each.kind))
          .set("conrelid", relation.oid)
          .set("conindid", each.index);
      out.set("condeferrable", each.deferrable)
          .set("condeferred", each.deferred)
          .set("convalidated", 1)
          .set("conislocal", 1)
          .set("connoinherit", each.kind != 'c');
      out.set("confupdtype", " ").set("confdeltype", " ").set("confmatchtype", " ");
      if (!each.columns.empty()) out.set("conkey", array_of(each.columns));
      if (each.kind == 'f') {
        out.set("confrelid", each.other_oid).set("confkey", array_of(each.other_columns));
        out.set("confupdtype", std::string(1, each.on_update)).set("confdeltype", std::string(1, each.on_delete)).set("confmatchtype", "s");
      }
      if (each.kind == 'c') out.set("conbin", each.expression);
    }
  }
}

void pg_trigger(Writer out, const CatalogView& view) {
  for (const SchemaRelation& relation : view.schema.relations) {
    for (const SchemaTrigger& each : relation.triggers) {
      const std::string words = lower(each.sql.substr(0, each.sql.find("BEGIN")));
      const auto has = [&](std::string_view word) { return words.find(word) != std::string::npos; };
      // Bits: 1 each row, 2 before, 4 insert, 8 delete, 16 update, 64 instead of.
      const int type = 1 | (has(" instead of ") ? 64 : has(" after ") ? 0 : 2) | (has(" insert ") ? 4 : has(" delete ") ? 8 : 16);
      out.row()
          .set("oid", each.oid)
          .set("tgrelid", relation.oid)
          .set("tgname", each.name)
          .set("tgtype", type)
          .set("tgenabled", "O")
          .set("tgattr", "");
    }
  }
}

void pg_type(Writer out, const CatalogView&) {
  for (const CatalogType& type : catalog_types()) {
    const auto& f = type.fields;
    out.row()
        .set("oid", type.oid)
        .set("typname", type.name)
        .set("typnamespace", namespaces::catalog)
        .set("typowner", owner_oid)
        .set("typlen", number_of(f[2]))
        .set("typbyval", f[3] == "t")
        .set("typtype", f[4]);
    out.set("typcategory", f[5])
        .set("typispreferred", f[6] == "t")
        .set("typisdefined", 1)
        .set("typdelim", f[7])
        .set("typsubscript", number_of(f[8]))
        .set("typelem", number_of(f[9]))
        .set("typarray", number_of(f[10]));
    out.set("typinput", number_of(f[11]))
        .set("typoutput", number_of(f[12]))
        .set("typreceive", number_of(f[13]))
        .set("typsend", number_of(f[14]))
        .set("typmodin", number_of(f[15]))
        .set("typmodout", number_of(f[16]));
    out.set("typalign", f[17]).set("typstorage", f[18]).set("typtypmod", -1).set("typcollation", number_of(f[19]));
  }
}

void pg_proc(Writer out, const CatalogView&) {
  for (const std::string_view line : std::span(data::functions, data::functions_count)) {
    const auto f = fields_of(line);
    std::string arguments(f[4]);
    std::replace(arguments.begin(), arguments.end(), ',', ' ');
    out.row()
        .set("oid", number_of(f[0]))
        .set("proname", f[1])
        .set("pronamespace", namespaces::catalog)
        .set("proowner", owner_oid)
        .set("prolang", 12)
        .set("procost", Stored(1.0))
        .set("prokind", f[2]);
    out.set("prorettype", number_of(f[3]))
        .set("proargtypes", arguments)
        .set("proretset", f[5] == "t")
        .set("provolatile", f[6])
        .set("proisstrict", f[7] == "t")
        .set("proparallel", "s")
        .set("pronargs", number_of(f[8]))
        .set("prosrc", f[1]);
  }
}

void pg_namespace(Writer out, const CatalogView& view) {
  for (const std::int64_t space : {namespaces::catalog, namespaces::toast, namespaces::user, namespaces::information}) {
    out.row().set("oid", space).set("nspname", space_name(space)).set("nspowner", owner_oid);
  }
  for (const std::int64_t space : {namespaces::temporary, namespaces::termgate}) {
    if (std::any_of(view.schema.relations.begin(), view.schema.relations.end(), [&](const auto& each) { return each.space == space; })) {
      out.row().set("oid", space).set("nspname", space_name(space)).set("nspowner", owner_oid);
    }
  }
}

void pg_database(Writer out, const CatalogView& view) {
  out.row()
      .set("oid", database_oid(view.database))
      .set("datname", view.database)
      .set("datdba", owner_oid)
      .set("encoding", 6)
      .set("datlocprovider", "c")
      .set("datallowconn", 1)
      .set("datconnlimit", -1);
  out.set("datfrozenxid", 0).set("datminmxid", 0).set("dattablespace", 1663).set("datcollate", "C").set("datctype", "C");
}

void pg_roles(Writer out, const CatalogView& view) {
  out.row()
      .set("rolname", view.session.user())
      .set("rolinherit", 1)
      .set("rolcanlogin", 1)
      .set("rolconnlimit", -1)
      .set("rolpassword", "********")
      .set("oid", owner_oid);
}
void pg_authid(Writer out, const CatalogView& view) {
  out.row().set("oid", owner_oid).set("rolname", view.session.user()).set("rolinherit", 1).set("rolcanlogin", 1).set("rolconnlimit", -1);
}
void pg_user(Writer out, const CatalogView& view) {
  out.row().set("usename", view.session.user()).set("usesysid", owner_oid).set("passwd", "********");
}

void pg_settings(Writer out, const CatalogView& view) {
  for (const Setting& each : view.session.settings()) {
    out.row()
        .set("name", each.name)
        .set("setting", each.value)
        .set("category", each.category)
        .set("short_desc", each.description)
        .set("context", each.context)
        .set("vartype", each.kind)
        .set("source", "default");
    out.set("boot_val", each.value).set("reset_val", each.value);
    if (!each.unit.empty()) out.set("unit", each.unit);
  }
}

// How often it was planned, and how, is not counted here: NULL.
void pg_prepared_statements(Writer out, const CatalogView& view) {
  for (const PreparedStatement& each : view.session.prepared_statements()) {
    Elements types;
    for (const dialect::Oid type : each.parameters) types.push_back(format_type(type, -1));
    out.row()
        .set("name", each.name)
        .set("statement", each.text)
        .set("prepare_time", moment_of(each.made_us))
        .set("parameter_types", array_literal(types))
        .set("from_sql", each.by_sql);
  }
}
void pg_cursors(Writer out, const CatalogView& view) {
  for (const OpenCursor& each : view.session.cursors()) {
    out.row()
        .set("name", each.name)
        .set("statement", each.text)
        .set("is_holdable", each.holdable)
        .set("is_binary", false)
        .set("is_scrollable", each.scrollable)
        .set("creation_time", moment_of(each.made_us));
  }
}

void pg_tables(Writer out, const CatalogView& view) {
  for (const SystemRelation& each : system_relations()) {
    if (each.kind == 'r')
      out.row().set("schemaname", space_name(each.space)).set("tablename", each.shown).set("tableowner", view.session.user());
  }
  for (const SchemaRelation& each : view.schema.relations) {
    if (each.kind != 'r') continue;
    const bool foreign = each.referenced || std::any_of(each.constraints.begin(), each.constraints.end(),
                                                        [](const auto& constraint) { return constraint.kind == 'f'; });
    out.row()
        .set("schemaname", space_name(each.space))
        .set("tablename", each.name)
        .set("tableowner", view.session.user())
        .set("hasindexes", !each.indexes.empty())
        .set("hastriggers", foreign || !each.triggers.empty());
  }
}

void pg_views(Writer out, const CatalogView& view) {
  for (const SchemaRelation& each : view.schema.relations) {
    if (each.kind == 'v')
      out.row()
          .set("schemaname", space_name(each.space))
          .set("viewname", each.name)
          .set("viewowner", view.session.user())
          .set("definition", " " + view_query(each.sql) + ";");
  }
}

void pg_indexes(Writer out, const CatalogView& view) {
  for (const SchemaRelation& each : view.schema.relations) {
    for (const SchemaIndex& index : each.indexes)
      out.row()
          .set("schemaname", space_name(each.space))
          .set("tablename", each.name)
          .set("indexname", index.name)
          .set("indexdef", index_text(each, index, true));
  }
}

void pg_collation(Writer out, const CatalogView&) {
  struct Collation {
    std::int64_t oid;
    std::string_view name, provider;
    bool deterministic;
  };
  for (const Collation& each : {Collation{100, "default", "d", true},
                                {950, "C", "c", true},
                                {951, "POSIX", "c", true},
                                {13050, "nocase", "c", false},
                                {13051, "rtrim", "c", false}}) {
    out.row()
        .set("oid", each.oid)
        .set("collname", each.name)
        .set("collnamespace", namespaces::catalog)
        .set("collowner", owner_oid)
        .set("collprovider", each.provider)
        .set("collisdeterministic", each.deterministic)
        .set("collencoding", -1);
    if (each.provider == "c") out.set("collcollate", "C").set("collctype", "C");
  }
}

void pg_opclass(Writer out, const CatalogView&) {
  for (const std::string_view line : std::span(data::operator_classes, data::operator_classes_count)) {
    const auto f = fields_of(line);
    out.row()
        .set("oid", number_of(f[0]))
        .set("opcmethod", number_of(f[1]))
        .set("opcname", f[2])
        .set("opcnamespace", namespaces::catalog)
        .set("opcowner", owner_oid)
        .set("opcfamily", number_of(f[3]))
        .set("opcintype", number_of(f[4]));
    out.set("opcdefault", 1).set("opckeytype", number_of(f[5]));
  }
}

void pg_am(Writer out, const CatalogView&) {
  out.row().set("oid", heap_am).set("amname", "heap").set("amhandler", 3).set("amtype", "t");
  out.row().set("oid", btree_am).set("amname", "btree").set("amhandler", 330).set("amtype", "i");
}

void pg_language(Writer out, const CatalogView&) {
  out.row().set("oid", 12).set("lanname", "internal").set("lanowner", owner_oid);
  out.row().set("oid", 14).set("lanname", "sql").set("lanowner", owner_oid).set("lanpltrusted", 1);
}

void pg_tablespace(Writer out, const CatalogView&) {
  out.row()
      .set("oid", 1663)
      .set("spcname", "pg_default")
      .set("spcowner", owner_oid)
      .row()
      .set("oid", 1664)
      .set("spcname", "pg_global")
      .set("spcowner", owner_oid);
}

void pg_stat_activity(Writer out, const CatalogView& view) {
  out.row()
      .set("datid", database_oid(view.database))
      .set("datname", view.database)
      .set("pid", view.session.process_id())
      .set("usesysid", owner_oid)
      .set("usename", view.session.user());
  out.set("application_name", view.session.application_name()).set("state", "active").set("backend_type", "client backend");
}

void pg_stat_database(Writer out, const CatalogView& view) {
  out.row().set("datid", database_oid(view.database)).set("datname", view.database);
}

void pg_stat_tables(Writer out, const CatalogView& view) {
  for (const SchemaRelation& each : view.schema.relations) {
    if (each.kind == 'r')
      out.row()
          .set("relid", each.oid)
          .set("schemaname", space_name(each.space))
          .set("relname", each.name)
          .set("n_live_tup", static_cast<std::int64_t>(std::max(each.rows, 0.0)));
  }
}

void pg_get_keywords(Writer out, const CatalogView&) {
  for (const std::string_view line : std::span(data::keywords, data::keywords_count)) {
    const auto f = fields_of(line);
    out.row().set("word", f[0]).set("catcode", f[1]).set("barelabel", f[2] == "t").set("catdesc", f[3]).set("baredesc", f[4]);
  }
}

struct Filler {
  std::string_view relation;
  void (*write)(Writer, const CatalogView&);
  bool session;
};
// clang-format off
constexpr Filler fillers[] = {
    {"pg_class", pg_class, false}, {"pg_attribute", pg_attribute, false}, {"pg_attrdef", pg_attrdef, false}, {"pg_index", pg_index, false}, {"pg_constraint", pg_constraint, false}, {"pg_trigger", pg_trigger, false},
    {"pg_type", pg_type, false}, {"pg_proc", pg_proc, false}, {"pg_namespace", pg_namespace, false}, {"pg_database", pg_database, false}, {"pg_roles", pg_roles, true}, {"pg_authid", pg_authid, true},
    {"pg_user", pg_user, true}, {"pg_shadow", pg_user, true}, {"pg_settings", pg_settings, true}, {"pg_show_all_settings", pg_settings, true}, {"pg_tables", pg_tables, true}, {"pg_views", pg_views, true},
    {"pg_indexes", pg_indexes, false}, {"pg_collation", pg_collation, false}, {"pg_opclass", pg_opclass, false}, {"pg_am", pg_am, false}, {"pg_language", pg_language, false}, {"pg_tablespace", pg_tablespace, false},
    {"pg_stat_activity", pg_stat_activity, true}, {"pg_stat_database", pg_stat_database, false}, {"pg_stat_user_tables", pg_stat_tables, false}, {"pg_stat_all_tables", pg_stat_tables, false},
    {"pg_get_keywords", pg_get_keywords, false}, {"pg_sequence", pg_sequence, false}, {"pg_sequences", pg_sequences, true}, {"pg_depend", pg_depend, false},
    {"pg_prepared_statements", pg_prepared_statements, true}, {"pg_cursors", pg_cursors, true},
};
// clang-format on

}  // namespace

RowWriter::RowWriter(const SystemRelation& relation, std::vector<Row>& out) : out_(out) {
  for (std::size_t i = 0; i < relation.columns.size(); ++i) {
    const auto& column = relation.columns[i];
    places_[column.name] = i;
    const dialect::Type* type = dialect::type_named(column.type);
    const bool number = (column.type == "bool" && relation.space == namespaces::catalog) ||
                        (relation.kind == 'r' && type != nullptr && type->stored == dialect::Stored::integer);
    empty_.push_back(number ? Stored(std::int64_t{0}) : Stored());
  }
}

RowWriter& RowWriter::row() {
  out_.push_back(empty_);
  return *this;
}

RowWriter& RowWriter::set(std::string_view column, Stored value) {
  // A view has the columns of one major; what it lacks is left out.
  if (const auto place = places_.find(column); place != places_.end()) out_.back()[place->second] = std::move(value);
  return *this;
}

std::int64_t database_oid(std::string_view name) {
  std::uint32_t hash = 2'166'136'261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619U;
  return first_user_oid + static_cast<std::int64_t>(hash % 0x7fff'0000U);
}

std::string space_name(std::int64_t space) {
  switch (space) {
    case namespaces::catalog: return "pg_catalog";
    case namespaces::toast: return "pg_toast";
    case namespaces::user: return "public";
    case namespaces::information: return "information_schema";
    case namespaces::temporary: return "pg_temp_1";
    case namespaces::termgate: return "termgate";
    default: return {};
  }
}

std::string array_text(const std::vector<std::int64_t>& values) {
  std::string out = "{";
  for (const std::int64_t value : values) out += (out.size() > 1 ? "," : "") + std::to_string(value);
  return out + "}";
}

bool of_the_session(std::string_view relation) {
  if (relation.starts_with("information_schema_")) return true;
  return std::any_of(std::begin(fillers), std::end(fillers), [&](const Filler& each) { return each.relation == relation && each.session; });
}

void write_rows(const SystemRelation& relation, const CatalogView& view, std::vector<Row>& out) {
  if (relation.space == namespaces::information) return write_information_rows(relation, view, out);
  for (const Filler& each : fillers) {
    if (each.relation != relation.name) continue;
    RowWriter writer(relation, out);
    each.write(writer, view);
    return;
  }
}

}  // namespace termgate::sqlite_server
