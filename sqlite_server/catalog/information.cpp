// Rows of information_schema.
#include <algorithm>

#include "catalog/rows.hpp"

namespace termgate::sqlite_server {
namespace {

using Writer = RowWriter&;

bool is_user(const SchemaRelation& relation) { return relation.space != namespaces::termgate; }

std::string_view yes_or_no(bool yes) { return yes ? "YES" : "NO"; }

// What information_schema calls a type: without its length.
std::string data_type(std::int64_t oid) {
  const CatalogType* type = catalog_type(oid);
  return type != nullptr && type->fields[5] == "A" ? "ARRAY" : format_type(oid, -1);
}

void tables(Writer out, const CatalogView& view) {
  for (const SystemRelation& each : system_relations()) {
    if (each.kind == 'f') continue;
    out.row()
        .set("table_catalog", view.database)
        .set("table_schema", space_name(each.space))
        .set("table_name", each.shown)
        .set("table_type", each.kind == 'v' ? "VIEW" : "BASE TABLE");
    out.set("is_insertable_into", "NO").set("is_typed", "NO");
  }
  for (const SchemaRelation& each : view.schema.relations) {
    if (!is_user(each) || each.kind == 'S') continue;
    const std::string_view type = each.kind == 'v' ? "VIEW" : each.space == namespaces::temporary ? "LOCAL TEMPORARY" : "BASE TABLE";
    out.row()
        .set("table_catalog", view.database)
        .set("table_schema", space_name(each.space))
        .set("table_name", each.name)
        .set("table_type", type)
        .set("is_insertable_into", yes_or_no(each.kind == 'r'))
        .set("is_typed", "NO");
  }
}

void write_column(Writer out, const CatalogView& view, std::int64_t space, std::string_view table, std::string_view name, std::size_t place,
                  DeclaredType type) {
  out.row()
      .set("table_catalog", view.database)
      .set("table_schema", space_name(space))
      .set("table_name", table)
      .set("column_name", name)
      .set("ordinal_position", place)
      .set("is_nullable", "YES");
  out.set("data_type", data_type(type.oid))
      .set("udt_catalog", view.database)
      .set("udt_schema", "pg_catalog")
      .set("dtd_identifier", std::to_string(place));
  if (const CatalogType* known = catalog_type(type.oid)) out.set("udt_name", known->name);
  out.set("is_self_referencing", "NO")
      .set("is_identity", "NO")
      .set("identity_cycle", "NO")
      .set("is_generated", "NEVER")
      .set("is_updatable", "NO");
  const auto number = [&](int precision, int radix, std::optional<int> scale) {
    out.set("numeric_precision", precision).set("numeric_precision_radix", radix);
    if (scale) out.set("numeric_scale", *scale);
  };
  switch (type.oid) {
    case 21: number(16, 2, 0); break;
    case 23: number(32, 2, 0); break;
    case 20: number(64, 2, 0); break;
    case 700: number(24, 2, {}); break;
    case 701: number(53, 2, {}); break;
    case 1700:
      if (type.typmod >= 4) number((type.typmod - 4) >> 16, 10, (type.typmod - 4) & 0xffff);
      else out.set("numeric_precision_radix", 10);
      break;
    case 25: out.set("character_octet_length", 1 << 30); break;
    case 1042:
    case 1043:
      if (type.typmod >= 4)
        out.set("character_maximum_length", type.typmod - 4).set("character_octet_length", (type.typmod - 4) * std::int64_t{4});
      else out.set("character_octet_length", 1 << 30);
      break;
    case 1082: out.set("datetime_precision", 0); break;
    case 1083:
    case 1114:
    case 1184:
    case 1186:
    case 1266: out.set("datetime_precision", 6); break;
    default: break;
  }
}

void columns(Writer out, const CatalogView& view) {
  for (const SystemRelation& each : system_relations()) {
    if (each.kind == 'f') continue;
    for (std::size_t i = 0; i < each.columns.size(); ++i) {
      const CatalogType* type = catalog_type_named(each.columns[i].type);
      write_column(out, view, each.space, each.shown, each.columns[i].name, i + 1,
                   {type == nullptr ? dialect::oid::text : static_cast<Oid>(type->oid), -1});
    }
  }
  for (const SchemaRelation& each : view.schema.relations) {
    if (!is_user(each)) continue;
    for (std::size_t i = 0; i < each.columns.size(); ++i) {
      const SchemaColumn& column = each.columns[i];
      write_column(out, view, each.space, each.name, column.name, i + 1, column.type);
      out.set("is_nullable", yes_or_no(!column.not_null)).set("is_updatable", yes_or_no(each.kind == 'r'));
      if (column.generated) out.set("is_generated", "ALWAYS").set("generation_expression", default_expression(column));
      else if (column.default_text) out.set("column_default", default_expression(column));
      if (column.counted && !column.serial) {
        out.set("is_identity", "YES")
            .set("identity_generation", "BY DEFAULT")
            .set("identity_start", "1")
            .set("identity_increment", "1")
            .set("identity_maximum", "9223372036854775807")
            .set("identity_minimum", "1");
      }
    }
  }
}

void constraint_row(Writer out, const CatalogView& view, const SchemaRelation& relation, std::string_view name) {
  out.row()
      .set("constraint_catalog", view.database)
      .set("constraint_schema", space_name(relation.space))
      .set("constraint_name", name)
      .set("table_catalog", view.database);
  out.set("table_schema", space_name(relation.space)).set("table_name", relation.name);
}

void table_constraints(Writer out, const CatalogView& view) {
  for (const SchemaRelation& relation : view.schema.relations) {
    if (!is_user(relation)) continue;
    for (const SchemaConstraint& each : relation.constraints) {
      constraint_row(out, view, relation, each.name);
      out.set("constraint_type", each.kind == 'p'   ? "PRIMARY KEY"
                                 : each.kind == 'u' ? "UNIQUE"
                                 : each.kind == 'f' ? "FOREIGN KEY"
                                                    : "CHECK")
          .set("is_deferrable", yes_or_no(each.deferrable));
      out.set("initially_deferred", yes_or_no(each.deferred)).set("enforced", "YES");
      if (each.kind == 'u') out.set("nulls_distinct", "YES");
    }
    // NOT NULL is a CHECK to the standard; its name is made of OIDs.
    for (std::size_t i = 0; i < relation.columns.size(); ++i) {
      if (relation.kind != 'r' || !relation.columns[i].not_null) continue;
      constraint_row(out, view, relation,
                     std::to_string(relation.space) + "_" + std::to_string(relation.oid) + "_" + std::to_string(i + 1) + "_not_null");
      out.set("constraint_type", "CHECK").set("is_deferrable", "NO").set("initially_deferred", "NO").set("enforced", "YES");
    }
  }
}

void check_constraints(Writer out, const CatalogView& view) {
  for (const SchemaRelation& relation : view.schema.relations) {
    if (!is_user(relation)) continue;
    for (const SchemaConstraint& each : relation.constraints) {
      if (each.kind != 'c') continue;
      out.row()
          .set("constraint_catalog", view.database)
          .set("constraint_schema", space_name(relation.space))
          .set("constraint_name", each.name)
          .set("check_clause", "((" + each.expression + "))");
    }
    for (std::size_t i = 0; i < relation.columns.size(); ++i) {
      if (relation.kind != 'r' || !relation.columns[i].not_null) continue;
      out.row().set("constraint_catalog", view.database).set("constraint_schema", space_name(relation.space));
      out.set("constraint_name",
              std::to_string(relation.space) + "_" + std::to_string(relation.oid) + "_" + std::to_string(i + 1) + "_not_null")
          .set("check_clause", relation.columns[i].name + " IS NOT NULL");
    }
  }
}

void key_column_usage(Writer out, const CatalogView& view) {
  for (const SchemaRelation& relation : view.schema.relations) {
    if (!is_user(relation)) continue;
    for (const SchemaConstraint& each : relation.constraints) {
      if (each.kind == 'c') continue;
      for (std::size_t i = 0; i < each.columns.size(); ++i) {
        if (each.columns[i] == 0) continue;
        constraint_row(out, view, relation, each.name);
        out.set("column_name", relation.columns[static_cast<std::size_t>(each.columns[i]) - 1].name).set("ordinal_position", i + 1);
        if (each.kind != 'f' || i >= each.other_columns.size()) continue;
        // Its place in the key of the other side.
        const auto place = view.schema.indexes.find(each.index);
        if (place == view.schema.indexes.end()) continue;
        const auto& parts = view.schema.relations[place->second.relation].indexes[place->second.index].parts;
        const auto found =
            std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return part.attribute == each.other_columns[i]; });
        if (found != parts.end()) out.set("position_in_unique_constraint", found - parts.begin() + 1);
      }
    }
  }
}

void constraint_column_usage(Writer out, const CatalogView& view) {
  for (const SchemaRelation& relation : view.schema.relations) {
    if (!is_user(relation)) continue;
    for (const SchemaConstraint& each : relation.constraints) {
      const SchemaRelation* target = each.kind == 'f' ? view.schema.relation(each.other_oid) : &relation;
      if (target == nullptr) continue;
      for (const int column : each.kind == 'f' ? each.other_columns : each.columns) {
        if (column == 0) continue;
        constraint_row(out, view, *target, each.name);
        out.set("constraint_schema", space_name(relation.space))
            .set("column_name", target->columns[static_cast<std::size_t>(column) - 1].name);
      }
    }
  }
}

void referential_constraints(Writer out, const CatalogView& view) {
  const auto rule = [](char code) {
    return code == 'c' ? "CASCADE" : code == 'n' ? "SET NULL" : code == 'd' ? "SET DEFAULT" : code == 'r' ? "RESTRICT" : "NO ACTION";
  };
  for (const SchemaRelation& relation : view.schema.relations) {
    for (const SchemaConstraint& each : relation.constraints) {
      if (each.kind != 'f' || !is_user(relation)) continue;
      out.row()
          .set("constraint_catalog", view.database)
          .set("constraint_schema", space_name(relation.space))
          .set("constraint_name", each.name)
          .set("match_option", "NONE");
      out.set("update_rule", rule(each.on_update)).set("delete_rule", rule(each.on_delete));
      const auto place = view.schema.indexes.find(each.index);
      if (place == view.schema.indexes.end()) continue;
      const SchemaRelation& other = view.schema.relations[place->second.relation];
      out.set("unique_constraint_catalog", view.database)
          .set("unique_constraint_schema", space_name(other.space))
          .set("unique_constraint_name", other.indexes[place->second.index].name);
    }
  }
}

void schemata(Writer out, const CatalogView& view) {
  for (const std::int64_t space : {namespaces::user, namespaces::catalog, namespaces::information, namespaces::toast}) {
    out.row().set("catalog_name", view.database).set("schema_name", space_name(space)).set("schema_owner", view.session.user());
  }
}

void views(Writer out, const CatalogView& view) {
  for (const SchemaRelation& each : view.schema.relations) {
    if (each.kind != 'v' || !is_user(each)) continue;
    out.row()
        .set("table_catalog", view.database)
        .set("table_schema", space_name(each.space))
        .set("table_name", each.name)
        .set("view_definition", " " + view_query(each.sql) + ";")
        .set("check_option", "NONE");
    out.set("is_updatable", "NO")
        .set("is_insertable_into", "NO")
        .set("is_trigger_updatable", "NO")
        .set("is_trigger_deletable", "NO")
        .set("is_trigger_insertable_into", "NO");
  }
}

void table_privileges(Writer out, const CatalogView& view) {
  for (const SchemaRelation& each : view.schema.relations) {
    if (!is_user(each)) continue;
    for (const std::string_view privilege : {"INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"}) {
      out.row()
          .set("grantor", view.session.user())
          .set("grantee", view.session.user())
          .set("table_catalog", view.database)
          .set("table_schema", space_name(each.space))
          .set("table_name", each.name);
      out.set("privilege_type", privilege).set("is_grantable", "YES").set("with_hierarchy", yes_or_no(privilege == "SELECT"));
    }
  }
}

void triggers(Writer out, const CatalogView& view) {
  for (const SchemaRelation& relation : view.schema.relations) {
    for (const SchemaTrigger& each : relation.triggers) {
      const std::string words = lower(each.sql.substr(0, each.sql.find("BEGIN")));
      const auto has = [&](std::string_view word) { return words.find(word) != std::string::npos; };
      out.row()
          .set("trigger_catalog", view.database)
          .set("trigger_schema", space_name(relation.space))
          .set("trigger_name", each.name)
          .set("event_object_catalog", view.database);
      out.set("event_object_schema", space_name(relation.space))
          .set("event_object_table", relation.name)
          .set("action_statement", each.sql)
          .set("action_orientation", "ROW");
      out.set("event_manipulation", has(" insert ")   ? "INSERT"
                                    : has(" delete ") ? "DELETE"
                                                      : "UPDATE")
          .set("action_timing", has(" instead of ") ? "INSTEAD OF"
                                : has(" after ")    ? "AFTER"
                                                    : "BEFORE");
    }
  }
}

void catalog_name(Writer out, const CatalogView& view) { out.row().set("catalog_name", view.database); }
void enabled_roles(Writer out, const CatalogView& view) { out.row().set("role_name", view.session.user()); }
void character_sets(Writer out, const CatalogView& view) {
  out.row()
      .set("character_set_name", "UTF8")
      .set("character_repertoire", "UCS")
      .set("form_of_use", "UTF8")
      .set("default_collate_catalog", view.database)
      .set("default_collate_schema", "pg_catalog")
      .set("default_collate_name", "C");
}

void sequences(Writer out, const CatalogView& view) {
  for (const SchemaRelation& each : view.schema.relations) {
    if (each.kind != 'S') continue;
    const SchemaRelation* owner = view.schema.relation(each.owner);
    const bool big = owner == nullptr || owner->columns[static_cast<std::size_t>(each.owner_column) - 1].type.oid != dialect::oid::int4;
    out.row()
        .set("sequence_catalog", view.database)
        .set("sequence_schema", space_name(each.space))
        .set("sequence_name", each.name)
        .set("data_type", big ? "bigint" : "integer")
        .set("numeric_precision", big ? 64 : 32)
        .set("numeric_precision_radix", 2);
    out.set("numeric_scale", 0)
        .set("start_value", "1")
        .set("minimum_value", "1")
        .set("maximum_value", big ? "9223372036854775807" : "2147483647")
        .set("increment", "1")
        .set("cycle_option", "NO");
  }
}

struct ViewFiller {
  std::string_view relation;
  void (*write)(Writer, const CatalogView&);
};
constexpr ViewFiller view_fillers[] = {{"tables", tables},
                                       {"columns", columns},
                                       {"table_constraints", table_constraints},
                                       {"check_constraints", check_constraints},
                                       {"key_column_usage", key_column_usage},
                                       {"constraint_column_usage", constraint_column_usage},
                                       {"referential_constraints", referential_constraints},
                                       {"schemata", schemata},
                                       {"views", views},
                                       {"table_privileges", table_privileges},
                                       {"role_table_grants", table_privileges},
                                       {"triggers", triggers},
                                       {"information_schema_catalog_name", catalog_name},
                                       {"enabled_roles", enabled_roles},
                                       {"character_sets", character_sets},
                                       {"sequences", sequences}};

}  // namespace

void write_information_rows(const SystemRelation& relation, const CatalogView& view, std::vector<Row>& out) {
  for (const ViewFiller& each : view_fillers) {
    if (each.relation != relation.shown) continue;
    RowWriter writer(relation, out);
    each.write(writer, view);
    return;
  }
}

}  // namespace termgate::sqlite_server
