// The text of a CREATE TABLE in parts, named as the catalog names them, so that ALTER TABLE can write it anew.
#include <algorithm>
#include <set>

#include "catalog/relations.hpp"
#include "catalog/sql_reader.hpp"

namespace termgate::sqlite_server {
namespace {

using Relation = dialect::Relations::Relation;

std::vector<std::string> names_within(std::string_view text) {
  std::vector<std::string> names = names_mentioned(text);
  for (std::string& each : names) each = lower(each);
  return names;
}

// The clause that begins here, by a letter; 0: none that is known.
char kind_at(const SqlReader& reader) {
  if (reader.is("not")) return reader.is("null", 1) ? 'n' : 0;
  if (reader.is("null")) return '0';
  if (reader.is("default")) return 'd';
  if (reader.is("check")) return 'c';
  if (reader.is("unique")) return 'u';
  if (reader.is("primary")) return 'p';
  if (reader.is("references") || reader.is("foreign")) return 'f';
  if (reader.is("collate")) return 'o';
  if (reader.is("generated") || reader.is("as")) return 'g';
  return 0;
}

// Moves past one clause, whose first word is next.
void skip_clause(SqlReader& reader, char kind) {
  const auto group = [&] {
    if (reader.is(SqlToken::Kind::open)) reader.group();
  };
  const auto on_conflict = [&] {
    if (reader.is("on") && reader.is("conflict", 1)) reader.skip(3);
  };
  reader.skip();
  if (kind == 'n') {
    reader.skip();
    on_conflict();
  } else if (kind == 'd') {
    if (reader.is(SqlToken::Kind::open)) reader.group();
    else if (reader.is(SqlToken::Kind::other) && (reader.now().name == "-" || reader.now().name == "+")) reader.skip(2);
    else reader.skip();
  } else if (kind == 'c') {
    group();
    on_conflict();
  } else if (kind == 'u') {
    group();
    on_conflict();
  } else if (kind == 'p') {
    reader.take("key");
    group();
    if (!reader.take("asc")) reader.take("desc");
    on_conflict();
    reader.take("autoincrement");
  } else if (kind == 'o') {
    reader.skip();
  } else if (kind == 'g') {
    while (!reader.done() && !reader.is(SqlToken::Kind::open)) reader.skip();
    group();
    if (!reader.take("stored")) reader.take("virtual");
  } else if (kind == 'f') {
    if (reader.take("key")) {
      group();
      reader.take("references");
    }
    reader.skip();
    group();
    for (;;) {
      if (reader.is("on") && (reader.is("delete", 1) || reader.is("update", 1))) {
        reader.skip(2);
        reader.skip(reader.is("set") || reader.is("no") ? 2 : 1);
      } else if (reader.is("match")) {
        reader.skip(2);
      } else if (reader.is("deferrable") || (reader.is("not") && reader.is("deferrable", 1))) {
        reader.take("not");
        reader.skip();
        if (reader.take("initially")) reader.skip();
      } else {
        break;
      }
    }
  }
}

std::string bare_part(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string() : std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

// The clauses of an item; false: something in it is not understood.
bool read_clauses(SqlReader& reader, std::vector<Relation::Clause>& out) {
  while (!reader.done() && !reader.is(SqlToken::Kind::comma)) {
    const std::size_t begin = reader.position();
    Relation::Clause clause;
    if (reader.take("constraint")) clause.name = reader.name();
    clause.kind = reader.done() ? '\0' : kind_at(reader);
    if (clause.kind == 0) return false;
    skip_clause(reader, clause.kind);
    if (clause.kind == 'c' && clause.name == dialect::stored_check_name) clause.kind = 's';
    clause.text = bare_part(reader.sql().substr(begin, reader.behind() - begin));
    clause.names = names_within(clause.text);
    out.push_back(std::move(clause));
  }
  return true;
}

// The catalog's names for the constraints, in the order of the text.
void name_constraints(const SchemaRelation& schema, std::vector<Relation::Item>& items) {
  std::vector<const SchemaConstraint*> checks, foreign;
  for (const SchemaConstraint& each : schema.constraints) {
    if (each.kind == 'c') checks.push_back(&each);
    if (each.kind == 'f') foreign.push_back(&each);
  }
  // The catalog lists CHECKs and foreign keys in the order of the text, so they are matched by counting.
  std::size_t check = 0, reference = 0;
  for (Relation::Item& item : items) {
    for (Relation::Clause& clause : item.clauses) {
      if (clause.kind == 'c' && check < checks.size()) clause.name = checks[check++]->name;
      if (clause.kind == 'f' && reference < foreign.size()) clause.name = foreign[reference++]->name;
      if (clause.kind != 'u' && clause.kind != 'p' && clause.kind != 'f') continue;
      clause.columns = {lower(item.column)};
      if (item.column.empty()) {
        clause.columns.clear();
        SqlReader reader(clause.text);
        while (!reader.done() && !reader.is(SqlToken::Kind::open)) reader.skip();
        SqlReader list(reader.group());
        for (bool first = true; !list.done(); list.skip()) {
          if (list.is(SqlToken::Kind::comma)) first = true;
          else if (std::exchange(first, false)) clause.columns.push_back(lower(list.now().name));
        }
      }
      // Two foreign keys may have the same columns.
      if (clause.kind == 'f') continue;
      for (const SchemaConstraint& each : schema.constraints) {
        // One that ALTER TABLE has added is an index of its own, and not in this text.
        if (std::any_of(schema.indexes.begin(), schema.indexes.end(),
                        [&](const SchemaIndex& index) { return index.name == each.name && index.actual == each.name; }))
          continue;
        std::vector<std::string> own;
        for (const int attribute : each.columns) own.push_back(lower(schema.columns[static_cast<std::size_t>(attribute) - 1].name));
        if (each.kind == clause.kind && own == clause.columns) clause.name = each.name;
      }
    }
  }
}

}  // namespace

void read_table_text(const SchemaRelation& schema, dialect::Relations::Relation& out) {
  out.sql = schema.sql;
  SqlReader reader(schema.sql);
  while (!reader.done() && !reader.is(SqlToken::Kind::open)) {
    if (reader.is("as") || reader.is("using") || reader.is("virtual")) return;
    reader.skip();
  }
  const std::string_view body = reader.group();
  std::vector<Relation::Item> items;
  for (SqlReader each(body); !each.done(); each.is(SqlToken::Kind::comma) ? each.skip() : void()) {
    Relation::Item item;
    const bool own =
        each.is("constraint") || each.is("unique") || each.is("check") || each.is("foreign") || (each.is("primary") && each.is("key", 1));
    if (!own) {
      item.column = each.name();
      const std::size_t begin = each.position();
      while (!each.done() && !each.is(SqlToken::Kind::comma) && kind_at(each) == 0 && !each.is("constraint")) {
        if (each.is(SqlToken::Kind::open)) each.group();
        else each.skip();
      }
      item.type = each.behind() > begin ? bare_part(body.substr(begin, each.behind() - begin)) : "";
    }
    // The items stay empty: a text that was only half understood must not be written anew.
    if (!read_clauses(each, item.clauses) || (own && item.clauses.size() != 1)) return;
    items.push_back(std::move(item));
  }
  name_constraints(schema, items);
  out.tail = bare_part(std::string_view(schema.sql).substr(std::min(reader.behind(), schema.sql.size())));
  out.items = std::move(items);
}

Around::Around(const Schema& schema) : schema_(schema) {
  const auto mentions = [&](std::string what, std::string_view sql) {
    readers_.emplace_back(std::move(what), names_within(sql));
    for (const std::string& name : std::set<std::string>(readers_.back().second.begin(), readers_.back().second.end()))
      by_name_[name].push_back(readers_.size() - 1);
  };
  for (const SchemaRelation& other : schema.relations) {
    for (const SchemaConstraint& each : other.constraints) {
      const SchemaRelation* table = each.kind == 'f' && each.other_oid != other.oid ? schema.relation(each.other_oid) : nullptr;
      if (table == nullptr) continue;
      Relation::Foreign foreign{other.name, each.name, {}, each.on_update, each.on_delete};
      for (const int attribute : each.other_columns)
        foreign.columns.push_back(attribute > 0 ? lower(table->columns[static_cast<std::size_t>(attribute) - 1].name) : "");
      foreign_[each.other_oid].push_back(std::move(foreign));
    }
    if (other.kind == 'v') mentions("view " + other.name, other.sql);
    for (const SchemaTrigger& trigger : other.triggers) mentions("trigger " + trigger.name, trigger.sql);
  }
}

void Around::read(const SchemaRelation& table, dialect::Relations::Relation& out) const {
  for (const SchemaIndex& each : table.indexes) {
    const auto sql = schema_.index_texts.find(each.actual);
    if (sql == schema_.index_texts.end() || sql->second.empty()) continue;
    Relation::Index index{each.actual, sql->second, {}, each.unique, each.condition.empty(), names_within(sql->second)};
    for (const auto& part : each.parts) {
      index.whole = index.whole && part.attribute > 0;
      index.columns.push_back(part.attribute > 0 ? lower(table.columns[static_cast<std::size_t>(part.attribute) - 1].name) : "");
    }
    out.indexes.push_back(std::move(index));
  }
  if (const auto found = foreign_.find(table.oid); found != foreign_.end()) out.others = found->second;
  if (const auto found = by_name_.find(lower(table.name)); found != by_name_.end()) {
    for (const std::size_t at : found->second) out.readers.push_back(readers_[at]);
  }
}

}  // namespace termgate::sqlite_server
