// Long: one statement, whose forms share the table that is made anew and what is checked before it.
// ALTER TABLE. What SQLite's own ALTER can do is left to it; for all else the table is made anew from the parts of its text, filled from
// the old one, and put in its place (https://www.sqlite.org/lang_altertable.html, "otheralter").
#include <algorithm>
#include <optional>
#include <utility>

#include "names.hpp"
#include "typed.hpp"
#include "writer.hpp"

namespace termgate::dialect {

using Relation = Relations::Relation;

struct Writer::Altered {
  const Relation* relation = nullptr;
  std::string table;
  std::vector<Relation::Item> items;
  std::map<std::string, std::string> values;  // of columns that are not copied as they are
  std::set<std::string> made;                 // columns that the old table has not
  std::set<std::string> used;                 // names of constraints
  std::vector<std::string> native;            // what SQLite's own ALTER does instead, if that is all
  Rebuild rebuild;
  bool anew = false;
  bool keeps_rowid = true;
};

namespace {

bool mentions(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), lowered(name)) != names.end();
}

std::string in_list(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(quoted_name(name));
  return "(" + joined(quoted, ", ") + ")";
}

Relation::Item* item_of(std::vector<Relation::Item>& items, const std::string& column) {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const auto& each) { return !each.column.empty() && lowered(each.column) == column; });
  return found == items.end() ? nullptr : &*found;
}

Relation::Clause* clause_of(Relation::Item& item, char kind) {
  const auto found = std::find_if(item.clauses.begin(), item.clauses.end(), [&](const auto& each) { return each.kind == kind; });
  return found == item.clauses.end() ? nullptr : &*found;
}

[[noreturn]] void depends(const std::string& what, const std::string& table) {
  refuse_as("2BP01", "cannot drop " + what + " of table " + table + " because other objects depend on it");
}

[[noreturn]] void no_column(const std::string& column, const std::string& table, Node at) {
  refuse_as("42703", "column \"" + column + "\" of relation \"" + table + "\" does not exist", at);
}

// Only what SQLite's ADD COLUMN can do with rows there already.
bool plain_addition(Node column_node) {
  for (const Node each : column_node["constraints"].items()) {
    const Node body = each.as("Constraint");
    const std::string_view type = body["contype"].string();
    if (type == "CONSTR_DEFAULT") {
      Node value = body["raw_expr"];
      while (value.is("TypeCast")) value = value.as("TypeCast")["arg"];
      if (!value.is("A_Const")) return false;
    } else if (type != "CONSTR_NULL" && type != "CONSTR_CHECK") {
      return false;
    }
  }
  return true;
}

bool counts(Node column_node) {
  return is_serial(column_node["typeName"]) || [&] {
    for (const Node each : column_node["constraints"].items()) {
      if (each.as("Constraint")["contype"].string() == "CONSTR_IDENTITY") return true;
    }
    return false;
  }();
}

bool is_without_effect(std::string_view what) {
  static constexpr std::string_view nothing[] = {"AT_ChangeOwner", "AT_SetRelOptions",   "AT_ResetRelOptions", "AT_SetLogged",
                                                 "AT_SetUnLogged", "AT_ClusterOn",       "AT_DropCluster",     "AT_SetStatistics",
                                                 "AT_SetStorage",  "AT_ReplicaIdentity", "AT_SetTableSpace"};
  return std::find(std::begin(nothing), std::end(nothing), what) != std::end(nothing);
}

// The order in which PostgreSQL does the commands of one ALTER TABLE, whatever their order in the text (ATPrepCmd).
int pass_of(Node command) {
  const std::string_view what = command["subtype"].string();
  if (what == "AT_DropColumn" || what == "AT_DropConstraint" || what == "AT_DropNotNull") return 0;
  if (what == "AT_ColumnDefault") return command["def"] ? 5 : 0;
  if (what == "AT_AlterColumnType") return 1;
  if (what == "AT_AddColumn") return 2;
  if (what == "AT_AddConstraint") return 3;
  if (what == "AT_SetNotNull") return 4;
  return 6;
}

// Types whose values are stored alike, so that keys of both still meet.
bool stored_alike(Oid a, Oid b) {
  const auto whole = [](Oid type) { return type == oid::int2 || type == oid::int4 || type == oid::int8; };
  const auto text = [](Oid type) { return type == oid::text || type == oid::varchar; };
  return a == b || (whole(a) && whole(b)) || (text(a) && text(b));
}

}  // namespace

void Writer::add_column(Altered& altered, Node command, Node at) {
  const Node column_node = command["def"].as("ColumnDef");
  const std::string name = column_node.text("colname");
  if (item_of(altered.items, lowered(name)) != nullptr) {
    if (!command.flag("missing_ok")) refuse_as("42701", "column \"" + name + "\" of relation \"" + altered.table + "\" already exists", at);
    out_.notices.push_back("column \"" + name + "\" of relation \"" + altered.table + "\" already exists, skipping");
    return;
  }
  bool key = false;
  for (const Node each : column_node["constraints"].items()) key = key || each.as("Constraint")["contype"].string() == "CONSTR_PRIMARY";
  const bool counted = counts(column_node);
  if ((key || counted) && !altered.relation->key.empty()) {
    if (key) refuse_as("42P16", "multiple primary keys for table \"" + altered.table + "\" are not allowed", at);
    refuse("a serial or identity column beside another key", at);
  }
  if (counted && !altered.relation->rowid) refuse("a serial column of a table WITHOUT ROWID", at);
  define_column(column_node);
  const std::string text = column_definition(column_node, altered.table, key || counted, counted, altered.used);
  if (counted || key || !plain_addition(column_node)) altered.anew = true;
  altered.keeps_rowid = altered.keeps_rowid && !counted && !key;
  altered.native.push_back("ALTER TABLE " + quoted_name(altered.table) + " ADD COLUMN " + text);
  Relation::Item item;
  item.column = name;
  item.type = text.substr(quoted_name(name).size() + 1);
  altered.items.insert(std::find_if(altered.items.begin(), altered.items.end(), [](const auto& each) { return each.column.empty(); }),
                       std::move(item));
  altered.made.insert(lowered(name));
}

void Writer::drop_column(Altered& altered, Node command, Node at) {
  const std::string name = command.text("name");
  const Relation::Item* item = item_of(altered.items, lowered(name));
  if (item == nullptr) {
    if (!command.flag("missing_ok")) no_column(name, altered.table, at);
    out_.notices.push_back("column \"" + name + "\" of relation \"" + altered.table + "\" does not exist, skipping");
    return;
  }
  const std::string what = "column " + name;
  for (const auto& each : altered.relation->others) {
    if (mentions(each.columns, name)) depends(what, altered.table);
  }
  for (const auto& [reader, names] : altered.relation->readers) {
    if (mentions(names, name)) depends(what, altered.table);
  }
  if (std::count_if(altered.items.begin(), altered.items.end(), [](const auto& each) { return !each.column.empty(); }) == 1)
    refuse("a table without columns", at);
  altered.items.erase(altered.items.begin() + (item - altered.items.data()));
  for (Relation::Item& each : altered.items) {
    std::erase_if(each.clauses, [&](const Relation::Clause& clause) {
      if (clause.kind == 'g' && mentions(clause.names, name)) depends(what, altered.table);
      return clause.kind == 'c' ? mentions(clause.names, name) : mentions(clause.columns, name);
    });
  }
  std::erase_if(altered.items, [](const Relation::Item& each) { return each.column.empty() && each.clauses.empty(); });
  for (const auto& index : altered.relation->indexes) {
    if (mentions(index.whole ? index.columns : index.names, name)) altered.rebuild.lost_indexes.push_back(index.name);
  }
  if (defined_) std::erase_if(defined_->columns, [&](const auto& each) { return lowered(each.name) == lowered(name); });
  altered.anew = true;
}

// Whether the other table can be referred to by these columns.
void Writer::check_reference(Node body, const std::vector<std::string>& own, const std::string& table, Node at) const {
  if (relations_ == nullptr || !defined_) return;
  out_.typed = true;  // it is of the schema that it was written for
  const std::string other_name = body["pktable"].text("relname");
  const bool self = lowered(other_name) == lowered(table);
  const Relation* other = self ? &*defined_ : relations_->find(other_name);
  if (other == nullptr || other->catalog) refuse_as("42P01", "relation \"" + other_name + "\" does not exist", body["pktable"]);
  if (!self && other->temporary != out_.temporary)
    refuse_as("42P16",
              std::string("constraints on ") + (out_.temporary ? "temporary" : "permanent") + " tables may reference only " +
                  (out_.temporary ? "temporary" : "permanent") + " tables",
              at);
  std::vector<Oid> own_types;
  for (const std::string& name : own) {
    const auto found =
        std::find_if(defined_->columns.begin(), defined_->columns.end(), [&](const auto& each) { return each.name == name; });
    if (found == defined_->columns.end())
      refuse_as("42703", "column \"" + name + "\" referenced in foreign key constraint does not exist", at);
    own_types.push_back(found->type);
  }
  std::vector<std::string> names = strings(body["pk_attrs"]);
  if (names.empty()) {
    // A table that is only being made says its key in this very statement.
    if (self && other->key.empty()) return;
    if (other->key.empty()) refuse_as("42704", "there is no primary key for referenced table \"" + other_name + "\"", body["pktable"]);
    for (const std::size_t place : other->key) names.push_back(other->columns[place].name);
  }
  if (names.size() != own.size()) refuse_as("42830", "number of referencing and referenced columns for foreign key disagree", at);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = std::find_if(other->columns.begin(), other->columns.end(), [&](const auto& each) { return each.name == names[i]; });
    if (found == other->columns.end())
      refuse_as("42703", "column \"" + names[i] + "\" referenced in foreign key constraint does not exist", at);
    if (stored_alike(found->type, own_types[i])) continue;
    const auto compared = resolution::find_operator("=", found->type, own_types[i], false);
    if (compared.state != resolution::Operator::State::found)
      refuse_as("42804",
                "foreign key constraint cannot be implemented: key columns \"" + own[i] + "\" and \"" + names[i] +
                    "\" are of incompatible types: " + resolution::spoken(own_types[i]) + " and " + resolution::spoken(found->type),
                at);
    refuse("a foreign key between " + resolution::spoken(own_types[i]) + " and " + resolution::spoken(found->type), at);
  }
  if (self) return;  // what is unique of it may be in this very statement
  std::set<std::string> wanted;
  for (const std::string& name : names) wanted.insert(lowered(name));
  const auto same = [&](const std::vector<std::string>& columns) {
    return std::set<std::string>(columns.begin(), columns.end()) == wanted;
  };
  std::vector<std::string> key;
  for (const std::size_t place : other->key) key.push_back(lowered(other->columns[place].name));
  bool unique = same(key) || other->items.empty();
  for (const auto& item : other->items) {
    for (const auto& clause : item.clauses) unique = unique || ((clause.kind == 'u' || clause.kind == 'p') && same(clause.columns));
  }
  for (const auto& index : other->indexes) unique = unique || (index.unique && index.whole && same(index.columns));
  if (!unique) refuse_as("42830", "there is no unique constraint matching given keys for referenced table \"" + other_name + "\"", at);
}

void Writer::add_constraint(Altered& altered, Node each, Node at) {
  const std::string_view type = each["contype"].string();
  const std::string name = each.text("conname");
  if (!name.empty() && !altered.used.insert(name).second) {
    if (type == "CONSTR_UNIQUE" || type == "CONSTR_PRIMARY") refuse_as("42P07", "relation \"" + name + "\" already exists", at);
    refuse_as("42710", "constraint \"" + name + "\" for relation \"" + altered.table + "\" already exists", at);
  }
  if (each["indexname"]) refuse("ADD CONSTRAINT … USING INDEX", at);
  if ((type == "CONSTR_UNIQUE" || type == "CONSTR_PRIMARY") && (each.flag("deferrable") || each.flag("initdeferred")))
    refuse(deferrable_key, at);
  for (const std::string& key : strings(each["keys"])) {
    if (item_of(altered.items, lowered(key)) == nullptr) refuse_as("42703", "column \"" + key + "\" named in key does not exist", at);
  }
  if (type == "CONSTR_UNIQUE") {
    if (each.flag("nulls_not_distinct")) refuse("NULLS NOT DISTINCT", at);
    for (const std::string& key : strings(each["keys"])) check_key(key, at);
    std::string index = name;
    const std::string base = altered.table + "_" + joined(strings(each["keys"]), "_") + "_key";
    for (std::size_t i = 0; name.empty() && (index.empty() || !altered.used.insert(index).second); ++i)
      index = i == 0 ? base : base + std::to_string(i);
    const std::string sql = "CREATE UNIQUE INDEX " + quoted_name(index) + std::string(added_constraint_mark) + " ON " +
                            quoted_name(altered.table) + " " + in_list(strings(each["keys"]));
    altered.native.push_back(sql);
    altered.rebuild.after.push_back(sql);
    return;
  }
  Relation::Item item;
  if (type == "CONSTR_PRIMARY") {
    if (!altered.relation->key.empty()) refuse_as("42P16", "multiple primary keys for table \"" + altered.table + "\" are not allowed", at);
    bool nullable = false;
    for (const std::string& key : strings(each["keys"])) {
      check_key(key, at);
      nullable = nullable || std::none_of(altered.relation->columns.begin(), altered.relation->columns.end(),
                                          [&](const auto& column) { return column.name == key && column.not_null; });
    }
    if (!nullable && (name.empty() || name == altered.table + "_pkey")) {
      // A unique index of this name is shown as the key, and the rows stay where they are.
      const std::string sql = "CREATE UNIQUE INDEX " + quoted_name(altered.table + "_pkey") + " ON " + quoted_name(altered.table) + " " +
                              in_list(strings(each["keys"]));
      altered.native.push_back(sql);
      altered.rebuild.after.push_back(sql);
      return;
    }
    for (const std::string& key : strings(each["keys"])) alter_null(altered, key, false, at);
    altered.keeps_rowid = false;
    item.clauses.push_back({'p',
                            name,
                            (name.empty() ? "" : "CONSTRAINT " + quoted_name(name) + " ") + "PRIMARY KEY " + in_list(strings(each["keys"])),
                            {},
                            {}});
  } else if (type == "CONSTR_FOREIGN" || type == "CONSTR_CHECK") {
    if (type == "CONSTR_CHECK" && each.flag("skip_validation")) refuse("ADD CONSTRAINT … CHECK … NOT VALID", at);
    if (type == "CONSTR_FOREIGN") {
      check_reference(each, strings(each["fk_attrs"]), altered.table, at);
      altered.rebuild.check_foreign = altered.rebuild.check_foreign || !each.flag("skip_validation");
    }
    item.clauses.push_back({type == "CONSTR_FOREIGN" ? 'f' : 'c', name, constraint(each, altered.table, {}, altered.used), {}, {}});
  } else {
    refuse("this constraint", at);
  }
  altered.items.push_back(std::move(item));
  altered.anew = true;
}

void Writer::drop_constraint(Altered& altered, const std::string& name, Node command, Node at) {
  for (std::size_t i = 0; i < altered.items.size(); ++i) {
    Relation::Item& item = altered.items[i];
    for (std::size_t k = 0; k < item.clauses.size(); ++k) {
      const Relation::Clause& clause = item.clauses[k];
      if (clause.name != name || clause.name.empty()) continue;
      if (clause.kind == 'p' || clause.kind == 'u') {
        for (const auto& each : altered.relation->others) {
          if (std::set<std::string>(each.columns.begin(), each.columns.end()) ==
              std::set<std::string>(clause.columns.begin(), clause.columns.end()))
            depends("constraint " + name, altered.table);
        }
        if (clause.kind == 'p' && altered.relation->counted) refuse("DROP CONSTRAINT of a key that counts", at);
      }
      item.clauses.erase(item.clauses.begin() + static_cast<std::ptrdiff_t>(k));
      if (item.column.empty() && item.clauses.empty()) altered.items.erase(altered.items.begin() + static_cast<std::ptrdiff_t>(i));
      altered.anew = true;
      return;
    }
  }
  for (const auto& index : altered.relation->indexes) {
    if (index.name != name || !index.unique || !index.whole) continue;
    for (const auto& each : altered.relation->others) {
      if (std::set<std::string>(each.columns.begin(), each.columns.end()) ==
          std::set<std::string>(index.columns.begin(), index.columns.end()))
        depends("constraint " + name, altered.table);
    }
    altered.native.push_back("DROP INDEX " + quoted_name(name));
    altered.rebuild.lost_indexes.push_back(name);
    return;
  }
  if (!command.flag("missing_ok"))
    refuse_as("42704", "constraint \"" + name + "\" of relation \"" + altered.table + "\" does not exist", at);
  out_.notices.push_back("constraint \"" + name + "\" of relation \"" + altered.table + "\" does not exist, skipping");
}

void Writer::alter_null(Altered& altered, const std::string& column, bool nullable, Node at) {
  Relation::Item* item = item_of(altered.items, lowered(column));
  if (item == nullptr) no_column(column, altered.table, at);
  if (altered.made.contains(lowered(column))) refuse("ADD COLUMN and ALTER COLUMN of one column in one statement", at);
  if (nullable) {
    for (const std::size_t place : altered.relation->key) {
      if (lowered(altered.relation->columns[place].name) == lowered(column))
        refuse_as("42P16", "column \"" + column + "\" is in a primary key", at);
    }
  }
  std::erase_if(item->clauses, [](const Relation::Clause& each) { return each.kind == 'n' || each.kind == '0'; });
  if (!nullable) item->clauses.insert(item->clauses.begin(), {'n', {}, "NOT NULL", {}, {}});
  altered.anew = true;
}

void Writer::alter_default(Altered& altered, Node command, Node at) {
  const std::string column = command.text("name");
  Relation::Item* item = item_of(altered.items, lowered(column));
  if (item == nullptr) no_column(column, altered.table, at);
  if (altered.made.contains(lowered(column))) refuse("ADD COLUMN and ALTER COLUMN of one column in one statement", at);
  const Relation::Clause* key = clause_of(*item, 'p');
  const bool counted = key != nullptr && altered.relation->counted;
  const Node value = command["def"];
  if (counted) {
    // What counts is counted anyway.
    const Node called = value.as("FuncCall");
    if (called && last_name(called["funcname"]) == "nextval") return;
    refuse("another DEFAULT of a key that counts", at);
  }
  if (clause_of(*item, 'g') != nullptr)
    refuse_as("42601", "column \"" + column + "\" of relation \"" + altered.table + "\" is a generated column", at);
  std::erase_if(item->clauses, [](const Relation::Clause& each) { return each.kind == 'd'; });
  if (value) {
    const auto known = std::find_if(altered.relation->columns.begin(), altered.relation->columns.end(),
                                    [&](const auto& each) { return lowered(each.name) == lowered(column); });
    const Oid plain = known != altered.relation->columns.end() && known->typmod < 0 ? known->type : Oid{0};
    item->clauses.push_back({'d', {}, "DEFAULT (" + default_of(value, item->type, plain) + ")", {}, {}});
  }
  altered.anew = true;
}

void Writer::alter_type(Altered& altered, Node command, Node at) {
  const std::string column = command.text("name");
  Relation::Item* item = item_of(altered.items, lowered(column));
  const auto known = std::find_if(altered.relation->columns.begin(), altered.relation->columns.end(),
                                  [&](const auto& each) { return lowered(each.name) == lowered(column); });
  if (item == nullptr || known == altered.relation->columns.end()) no_column(column, altered.table, at);
  if (altered.made.contains(lowered(column))) refuse("ADD COLUMN and ALTER COLUMN of one column in one statement", at);
  const Node definition = command["def"].as("ColumnDef");
  const Node type_name = definition["typeName"];
  if (definition["collClause"]) refuse("ALTER COLUMN … COLLATE", at);
  if (is_serial(type_name)) refuse_as("42704", "type \"" + last_name(type_name["names"]) + "\" does not exist", at);
  const Typed typed(out_, sql_, *relations_, {}, false);
  const Oid type = type_of_name(type_name);
  const bool array = static_cast<bool>(type_name["arrayBounds"]);
  const Oid array_type = array ? type_in(type_name).array : type;
  const std::int32_t typmod = array ? -1 : typed.typmod_of(type_name, type);
  const Oid before = known->type;
  if (clause_of(*item, 'g') != nullptr) refuse("ALTER COLUMN … TYPE of a generated column", at);
  if (before != array_type || known->typmod != typmod) {
    for (const auto& [reader, names] : altered.relation->readers) {
      if (mentions(names, column)) refuse_as("0A000", "cannot alter type of a column used by a view or rule", at);
    }
  }
  if (before != array_type) {
    for (const Relation::Item& each : altered.items) {
      for (const Relation::Clause& clause : each.clauses) {
        if ((clause.kind == 'c' || clause.kind == 'g') && mentions(clause.names, column) && !stored_alike(before, array_type))
          refuse("ALTER COLUMN … TYPE of a column that a CHECK or a generated column mentions", at);
        if (clause.kind == 'f' && mentions(clause.columns, column) && !stored_alike(before, array_type))
          refuse("ALTER COLUMN … TYPE of a column of a foreign key", at);
      }
    }
    for (const auto& each : altered.relation->others) {
      if (mentions(each.columns, column) && !stored_alike(before, array_type))
        refuse("ALTER COLUMN … TYPE of a column that another table refers to", at);
    }
    for (const auto& index : altered.relation->indexes) {
      if (!index.whole && mentions(index.names, column) && !stored_alike(before, array_type))
        refuse("ALTER COLUMN … TYPE of a column that an index computes with", at);
    }
  }
  const Relations::RelationColumn to{known->name, array_type, typmod, false, known->not_null};
  Relation source = *altered.relation;
  altered.values[lowered(column)] =
      Typed(out_, sql_, *relations_, {}, false).converted_column(source, *known, to, definition["raw_default"]);
  if (Relation::Clause* key = clause_of(*item, 'p'); key != nullptr && altered.relation->counted) {
    if (array_type != oid::int4 && array_type != oid::int8) refuse("a key that counts and is no integer or bigint", at);
    const bool always = item->type == "INTegER" || item->type == "INTEGer";
    const bool serial = item->type == "INTegeR" || item->type == "INTEGEr";
    item->type = array_type == oid::int4 ? (always   ? "INTegER"
                                            : serial ? "INTegeR"
                                                     : "INTeger")
                                         : (always   ? "INTEGer"
                                            : serial ? "INTEGEr"
                                                     : "INTEGER");
  } else {
    item->type = declared(type_name);
  }
  std::erase_if(item->clauses, [](const Relation::Clause& each) { return each.kind == 's'; });
  if (std::string check = stored_check(item->column, array_type, typmod); !check.empty())
    item->clauses.insert(item->clauses.begin(), {'s', std::string(stored_check_name), std::move(check), {}, {}});
  if (Relation::Clause* held = clause_of(*item, 'd')) {
    if (before != array_type && lowered(held->text).find("null") == std::string::npos &&
        resolution::cast_path(before, array_type, resolution::Context::assignment).how == resolution::Path::How::none)
      refuse_as("42804", "default for column \"" + column + "\" cannot be cast automatically to type " + resolution::spoken(array_type),
                at);
    held->text = "DEFAULT (" + converted_default(held->text, item->type, before, array_type, at) + ")";
  }
  altered.anew = true;
}

// A default that the schema holds, for a column of another type.
std::string Writer::converted_default(const std::string& clause, const std::string& declared_text, Oid before, Oid type, Node at) const {
  std::string text = clause.substr(std::min<std::size_t>(clause.size(), 7));
  const auto bare = [](std::string held) {
    for (;;) {
      const auto begin = held.find_first_not_of(" \t\r\n");
      if (begin == std::string::npos) return std::string();
      held = held.substr(begin, held.find_last_not_of(" \t\r\n") - begin + 1);
      if (held.size() < 2 || held.front() != '(' || held.back() != ')') return held;
      held = held.substr(1, held.size() - 2);
    }
  };
  text = bare(text);
  if (lowered(text) == "null" || before == type) {
    if (lowered(text) == "null") return text;
  }
  std::string value = text;
  if (text.size() >= 2 && text.front() == '\'' && text.find('\'', 1) == text.size() - 1) value = text.substr(1, text.size() - 2);
  else if (text.find_first_not_of("+-.0123456789") != std::string::npos) {
    if (before == type) return text;
    refuse("ALTER COLUMN … TYPE of a column with this DEFAULT", at);
  }
  if (before == oid::boolean && type != oid::boolean) refuse("ALTER COLUMN … TYPE of a boolean with a DEFAULT", at);
  auto converted_text = relations_->stored_constant(value, declared_text, text.front() == '\'' ? Oid{0} : Oid{oid::numeric});
  if (auto* problem = std::get_if<SqlError>(&converted_text)) refuse_as(problem->sqlstate, problem->message, at);
  return std::get<std::string>(converted_text);
}

// Long: one case for each command.
void Writer::alter_command(Altered& altered, Node command, Node at) {
  const std::string_view what = command["subtype"].string();
  if (is_without_effect(what)) return;
  if (what == "AT_AddColumn") add_column(altered, command, at);
  else if (what == "AT_DropColumn") drop_column(altered, command, at);
  else if (what == "AT_AddConstraint") add_constraint(altered, command["def"].as("Constraint"), at);
  else if (what == "AT_DropConstraint") drop_constraint(altered, command.text("name"), command, at);
  else if (what == "AT_ColumnDefault") alter_default(altered, command, at);
  else if (what == "AT_SetNotNull") alter_null(altered, command.text("name"), false, at);
  else if (what == "AT_DropNotNull") alter_null(altered, command.text("name"), true, at);
  else if (what == "AT_AlterColumnType") alter_type(altered, command, at);
  else if (what == "AT_ValidateConstraint") {
    const std::string name = command.text("name");
    for (const auto& item : altered.items) {
      for (const auto& clause : item.clauses) {
        if (clause.name == name) return;
      }
    }
    refuse_as("42704", "constraint \"" + name + "\" of relation \"" + altered.table + "\" does not exist", at);
  } else refuse("this ALTER TABLE", at);
}

void Writer::rebuilt(Altered& altered, Node at) {
  const Relation& relation = *altered.relation;
  std::set<std::string> old;
  for (const Relation::Item& item : relation.items) {
    old.insert(item.type);
    for (const Relation::Clause& clause : item.clauses) old.insert(clause.text);
  }
  const auto spoilt = [&](const std::string& text) { return !old.contains(text) && has_comment(text); };
  for (const Relation::Item& item : altered.items) {
    if (spoilt(item.type) || std::any_of(item.clauses.begin(), item.clauses.end(), [&](const auto& each) { return spoilt(each.text); }))
      refuse_as("XX000", "this statement cannot be translated: two of its signs would begin a comment", at);
  }
  Rebuild& rebuild = altered.rebuild;
  rebuild.table = relation.name;
  rebuild.made = "pg_new_" + relation.name;
  if (relations_->find(rebuild.made) != nullptr) refuse_as("42P07", "relation \"" + rebuild.made + "\" already exists", at);
  std::vector<std::string> parts, columns, values;
  if (relation.rowid && !relation.counted && altered.keeps_rowid &&
      std::none_of(relation.columns.begin(), relation.columns.end(), [](const auto& each) { return lowered(each.name) == "rowid"; })) {
    columns.emplace_back("rowid");
    values.emplace_back("rowid");
  }
  for (const Relation::Item& item : altered.items) {
    std::vector<std::string> words;
    if (!item.column.empty()) words.push_back(quoted_name(item.column));
    if (!item.type.empty()) words.push_back(item.type);
    bool generated = false;
    for (const Relation::Clause& clause : item.clauses) {
      words.push_back(clause.text);
      generated = generated || clause.kind == 'g';
    }
    parts.push_back(joined(words, " "));
    if (item.column.empty() || generated || altered.made.contains(lowered(item.column))) continue;
    const auto value = altered.values.find(lowered(item.column));
    columns.push_back(quoted_name(item.column));
    values.push_back(value == altered.values.end() ? quoted_name(item.column) : value->second);
  }
  add("CREATE TABLE " + quoted_name(rebuild.made) + " (" + joined(parts, ", ") + ")" + (relation.tail.empty() ? "" : " " + relation.tail));
  if (!columns.empty())
    add("INSERT INTO " + quoted_name(rebuild.made) + " (" + joined(columns, ", ") + ") SELECT " + joined(values, ", ") + " FROM " +
        quoted_name(relation.name));
  out_.rebuild = std::move(rebuild);
}

// Where nothing is known of the file's tables.
void Writer::alter_plainly(Node body) {
  const Node relation_node = body["relation"];
  const std::string table = relation_node.text("relname");
  const std::string head = "ALTER TABLE " + relation_name(relation_node) + " ";
  std::set<std::string> used;
  for (const Node command_node : body["cmds"].items()) {
    const Node command = command_node.as("AlterTableCmd");
    const std::string_view what = command["subtype"].string();
    const Node definition = command["def"];
    const Node each = definition.as("Constraint");
    const std::string_view type = each["contype"].string();
    if (what == "AT_AddColumn" && !command.flag("missing_ok") && !counts(definition.as("ColumnDef")) &&
        plain_addition(definition.as("ColumnDef"))) {
      add(head + "ADD COLUMN " + column_definition(definition.as("ColumnDef"), table, false, false, used));
    } else if (what == "AT_DropColumn" && !command.flag("missing_ok")) {
      add(head + "DROP COLUMN " + quoted_name(command.text("name")));
    } else if (what == "AT_AddConstraint" && (type == "CONSTR_PRIMARY" || type == "CONSTR_UNIQUE") && !each["indexname"]) {
      std::string name = each.text("conname");
      if (name.empty()) name = type == "CONSTR_PRIMARY" ? table + "_pkey" : table + "_" + joined(strings(each["keys"]), "_") + "_key";
      add("CREATE UNIQUE INDEX " + quoted_name(name) + " ON " + relation_name(relation_node) + " " + in_list(strings(each["keys"])));
    } else if (!is_without_effect(what)) {
      refuse("this ALTER TABLE", relation_node);
    }
  }
  if (out_.sql.empty()) out_.effect = Effect::none;
}

void Writer::alter_table(Node body) {
  out_.effect = Effect::definition;
  out_.tag = "ALTER TABLE";
  const Node relation_node = body["relation"];
  if (body["objtype"].string() == "OBJECT_SEQUENCE" || body["objtype"].string() == "OBJECT_VIEW" ||
      body["objtype"].string() == "OBJECT_INDEX") {
    const bool owner = body["cmds"].size() == 1 && body["cmds"].at(0).as("AlterTableCmd")["subtype"].string() == "AT_ChangeOwner";
    if (owner) return accept(body["objtype"].string() == "OBJECT_SEQUENCE" ? "ALTER SEQUENCE" : "ALTER VIEW");
  }
  if (body["objtype"].string() != "OBJECT_TABLE") refuse("ALTER of this kind of object", relation_node);
  if (relations_ == nullptr) return alter_plainly(body);
  relation_name(relation_node);  // 3F000
  out_.typed = true;             // it is of the schema that it was written for
  const std::string table = relation_node.text("relname");
  const Relation* relation = relations_->find(table);
  if (relation == nullptr || relation->catalog) {
    if (!body.flag("missing_ok")) refuse_as("42P01", "relation \"" + table + "\" does not exist", relation_node);
    return accept("ALTER TABLE", "relation \"" + table + "\" does not exist, skipping");
  }
  if (relation->kind != 'r') refuse_as("42809", "\"" + table + "\" is not a table", relation_node);
  if (lowered(table).starts_with("termgate_")) refuse_as("42501", "permission denied for table " + table, relation_node);
  out_.temporary = relation->temporary;
  Altered altered;
  altered.relation = relation;
  altered.table = relation->name;
  altered.items = relation->items;
  if (altered.items.empty()) refuse("ALTER of a table that is virtual, or whose text is not understood", relation_node);
  for (const auto& item : altered.items) {
    for (const auto& clause : item.clauses) {
      if (!clause.name.empty()) altered.used.insert(clause.name);
    }
  }
  for (const auto& index : relation->indexes) altered.used.insert(index.name);
  defined_ = *relation;
  std::vector<Node> commands = body["cmds"].items();
  std::stable_sort(commands.begin(), commands.end(),
                   [](Node a, Node b) { return pass_of(a.as("AlterTableCmd")) < pass_of(b.as("AlterTableCmd")); });
  for (const Node command_node : commands) alter_command(altered, command_node.as("AlterTableCmd"), relation_node);
  if (altered.anew) {
    if (relation->temporary) refuse("this ALTER TABLE of a temporary table", relation_node);
    rebuilt(altered, relation_node);
  } else {
    for (std::string& each : altered.native) add(std::move(each));
  }
  if (out_.sql.empty()) out_.effect = Effect::none;
}

void Writer::rename_constraint(Node body) {
  const Node relation_node = body["relation"];
  out_.typed = relations_ != nullptr;
  const Relation* relation = relations_ != nullptr ? relations_->find(relation_node.text("relname")) : nullptr;
  if (relation == nullptr || relation->items.empty() || relation->temporary) refuse("RENAME CONSTRAINT here", relation_node);
  const std::string from = body.text("subname"), to = body.text("newname");
  Altered altered;
  altered.relation = relation;
  altered.table = relation->name;
  altered.items = relation->items;
  for (auto& item : altered.items) {
    for (auto& clause : item.clauses) {
      if (clause.name == to)
        refuse_as("42710", "constraint \"" + to + "\" for relation \"" + altered.table + "\" already exists", relation_node);
    }
  }
  for (auto& item : altered.items) {
    for (auto& clause : item.clauses) {
      if (clause.name != from) continue;
      // Its own name, if it has one, is its second word.
      const bool named = lowered(clause.text.substr(0, 11)) == "constraint " || lowered(clause.text.substr(0, 11)) == "constraint\"";
      if (named) {
        std::size_t at = clause.text.find_first_not_of(" \t\r\n", 10);
        if (at != std::string::npos && clause.text[at] == '"') {
          for (++at; at < clause.text.size(); ++at) {
            if (clause.text[at] == '"' && (++at == clause.text.size() || clause.text[at] != '"')) break;
          }
        } else {
          at = clause.text.find_first_of(" \t\r\n(", at);
        }
        clause.text = clause.text.substr(std::min(at, clause.text.size()));
      }
      clause.text = "CONSTRAINT " + quoted_name(to) + " " + clause.text;
      return rebuilt(altered, relation_node);
    }
  }
  for (const auto& index : relation->indexes) {
    if (index.name == from && index.unique) return rename_index(body);
  }
  refuse_as("42704", "constraint \"" + from + "\" for table \"" + altered.table + "\" does not exist", relation_node);
}

// An index that CREATE INDEX made is made again under the other name.
void Writer::rename_index(Node body) {
  const Node relation_node = body["relation"];
  const bool constraint_form = body["renameType"].string() == "OBJECT_TABCONSTRAINT";
  const std::string from = constraint_form ? body.text("subname") : relation_node.text("relname"), to = body.text("newname");
  if (relations_ == nullptr) refuse("RENAME of this kind of object", relation_node);
  out_.typed = true;
  const auto* found = relations_->find_index(from);
  if (found == nullptr) {
    if (relations_->owner_of_constraint(from)) refuse("ALTER INDEX of a constraint (use ALTER TABLE … RENAME CONSTRAINT)", relation_node);
    if (body.flag("missing_ok")) return accept("ALTER INDEX", "relation \"" + from + "\" does not exist, skipping");
    if (relations_->find(from) != nullptr) refuse("ALTER INDEX of what is no index", relation_node);
    refuse_as("42P01", "relation \"" + from + "\" does not exist", relation_node);
  }
  const auto on = lowered(found->sql).find(" on ");  // of CREATE [UNIQUE] INDEX [IF NOT EXISTS] name ON …
  if (on == std::string::npos) refuse("RENAME of this index", relation_node);
  add("DROP INDEX " + quoted_name(from));
  add(std::string("CREATE ") + (found->unique ? "UNIQUE " : "") + "INDEX " + quoted_name(to) +
      (found->is_constraint() ? std::string(added_constraint_mark) : std::string()) + found->sql.substr(on));
}

void Writer::rename(Node body) {
  out_.effect = Effect::definition;
  out_.tag = "ALTER TABLE";
  const std::string_view what = body["renameType"].string();
  const Node relation_node = body["relation"];
  const std::string table = relation_node.text("relname");
  if (what == "OBJECT_INDEX") {
    out_.tag = "ALTER INDEX";
    return rename_index(body);
  }
  if (body.flag("missing_ok") && relations_ != nullptr && relations_->find(table) == nullptr)
    return accept("ALTER TABLE", "relation \"" + table + "\" does not exist, skipping");
  if (body.flag("missing_ok") && relations_ == nullptr) refuse("ALTER … IF EXISTS", relation_node);
  out_.temporary = is_temporary_there(table);
  out_.temporary_name = table;
  const std::string head = "ALTER TABLE " + relation_name(relation_node) + " RENAME ";
  if (what == "OBJECT_TABCONSTRAINT") rename_constraint(body);
  else if (what == "OBJECT_COLUMN") add(head + "COLUMN " + quoted_name(body.text("subname")) + " TO " + quoted_name(body.text("newname")));
  else if (what == "OBJECT_TABLE") {
    out_.typed = relations_ != nullptr;
    if (relations_ != nullptr && relations_->find(body.text("newname")) != nullptr)
      refuse_as("42P07", "relation \"" + body.text("newname") + "\" already exists", relation_node);
    add(head + "TO " + quoted_name(body.text("newname")));
  } else refuse("RENAME of this kind of object", relation_node);
}

}  // namespace termgate::dialect
