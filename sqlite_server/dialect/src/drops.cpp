// DROP, TRUNCATE, and what may only name things that are there: an object that others depend on stays, as in PostgreSQL.
#include <algorithm>

#include "names.hpp"
#include "writer.hpp"

namespace termgate::dialect {
namespace {

using Relation = Relations::Relation;

bool holds(const std::vector<const Relation*>& all, std::string_view name) {
  return std::any_of(all.begin(), all.end(), [&](const Relation* each) { return lowered(each->name) == lowered(name); });
}

// Views that mention it, by name.
std::vector<std::string> views_of(const Relation& relation) {
  std::vector<std::string> names;
  for (const auto& [reader, mentioned] : relation.readers) {
    if (reader.starts_with("view ")) names.push_back(reader.substr(5));
  }
  return names;
}

// Those first that the others are referred to by.
std::vector<const Relation*> referring_first(std::vector<const Relation*> open) {
  std::vector<const Relation*> done;
  while (!open.empty()) {
    const auto free = std::find_if(open.begin(), open.end(), [&](const Relation* each) {
      return std::all_of(each->others.begin(), each->others.end(),
                         [&](const auto& other) { return lowered(other.table) == lowered(each->name) || !holds(open, other.table); });
    });
    const auto next = free == open.end() ? open.begin() : free;
    done.push_back(*next);
    open.erase(next);
  }
  return done;
}

}  // namespace

// A relation of the file's that a statement names; 42P01 where there is none.
const Relations::Relation* Writer::existing(Node range_var) const {
  if (relations_ == nullptr) return nullptr;
  relation_name(range_var);  // 3F000
  const Relation* found = relations_->find(range_var.text("relname"));
  if (found == nullptr) refuse_as("42P01", "relation \"" + range_var.text("relname") + "\" does not exist", range_var);
  return found;
}

void Writer::truncate(Node body) {
  out_.effect = Effect::write;
  out_.tag = "TRUNCATE TABLE";
  if (relations_ == nullptr) {
    for (const Node relation_node : body["relations"].items()) add("DELETE FROM " + relation(relation_node.as("RangeVar")));
    return;
  }
  out_.typed = true;
  std::vector<const Relation*> all;
  for (const Node relation_node : body["relations"].items()) {
    const Relation* found = existing(relation_node.as("RangeVar"));
    if (found->kind != 'r' || found->catalog) refuse_as("42809", "\"" + found->name + "\" is not a table", relation_node.body());
    if (!holds(all, found->name)) all.push_back(found);
  }
  const bool cascade = body["behavior"].string() == "DROP_CASCADE";
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const auto& other : all[i]->others) {
      if (holds(all, other.table)) continue;
      if (!cascade) refuse_as("0A000", "cannot truncate a table referenced in a foreign key constraint");
      if (const Relation* found = relations_->find(other.table)) {
        all.push_back(found);
        out_.notices.push_back("truncate cascades to table \"" + found->name + "\"");
      }
    }
  }
  for (const Relation* each : referring_first(all)) {
    if (body.flag("restart_seqs") && each->counted) refuse("TRUNCATE … RESTART IDENTITY of a table whose key counts");
    add("DELETE FROM " + quoted_name(each->name));
  }
}

// DROP TABLE and DROP VIEW of what the schema has, with what depends on it where that is CASCADE.
void Writer::drop_relations(Node body, bool tables) {
  out_.typed = true;
  const bool cascade = body["behavior"].string() == "DROP_CASCADE";
  std::vector<const Relation*> all;
  for (const Node object : body["objects"].items()) {
    const std::vector<std::string> path = strings(object.as("List")["items"]);
    const Relation* found = relations_->find(path.back());
    const std::string kind = tables ? "table" : "view";
    if (found == nullptr || found->catalog) {
      if (found != nullptr) refuse_as("42501", "permission denied: \"" + path.back() + "\" is a system catalog");
      if (!body.flag("missing_ok")) refuse_as("42P01", kind + " \"" + path.back() + "\" does not exist");
      out_.notices.push_back(kind + " \"" + path.back() + "\" does not exist, skipping");
      continue;
    }
    if ((found->kind == 'v') == tables) refuse_as("42809", "\"" + path.back() + "\" is not a " + kind);
    if (!holds(all, found->name)) all.push_back(found);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string what = std::string(all[i]->kind == 'v' ? "view " : "table ") + all[i]->name;
    for (const auto& other : all[i]->others) {
      if (holds(all, other.table)) continue;
      if (!cascade) refuse_as("2BP01", "cannot drop " + what + " because other objects depend on it");
      refuse("DROP TABLE … CASCADE of a table that others refer to (drop their foreign keys first)");
    }
    for (const std::string& view : views_of(*all[i])) {
      const Relation* found = relations_->find(view);
      if (found == nullptr || holds(all, view)) continue;
      if (!cascade) refuse_as("2BP01", "cannot drop " + what + " because other objects depend on it");
      out_.notices.push_back("drop cascades to view " + view);
      all.push_back(found);
    }
  }
  for (const Relation* each : referring_first(all)) add((each->kind == 'v' ? "DROP VIEW " : "DROP TABLE ") + quoted_name(each->name));
  if (out_.sql.empty()) out_.effect = Effect::none;
}

void Writer::drop(Node body) {
  out_.effect = Effect::definition;
  const std::string_view what = body["removeType"].string();
  const std::string_view word = what == "OBJECT_TABLE" ? "TABLE" : what == "OBJECT_VIEW" ? "VIEW" : what == "OBJECT_INDEX" ? "INDEX" : "";
  if (word.empty()) refuse("DROP of this kind of object");
  out_.tag = "DROP " + std::string(word);
  if (body.flag("concurrent")) out_.alone = "DROP INDEX CONCURRENTLY";
  bool temporary = false;
  for (const Node object : body["objects"].items()) {
    const std::vector<std::string> path = strings(object.as("List")["items"]);
    if (path.empty() || path.size() > 2 || (path.size() == 2 && path[0] != "public" && path[0] != "pg_temp" && path[0] != "pg_catalog"))
      refuse_as("3F000", "schema \"" + (path.empty() ? std::string() : path[0]) + "\" does not exist");
    temporary = temporary || (path.size() == 2 && path[0] == "pg_temp");
  }
  if (relations_ != nullptr && what != "OBJECT_INDEX" && !temporary) return drop_relations(body, what == "OBJECT_TABLE");
  for (const Node object : body["objects"].items()) {
    const std::vector<std::string> path = strings(object.as("List")["items"]);
    if (what == "OBJECT_INDEX" && relations_ != nullptr) {
      out_.typed = true;
      if (const Relation* found = relations_->find(path.back()); found != nullptr && !found->catalog)
        refuse_as("42809", "\"" + path.back() + "\" is not an index");
      if (const auto* index = relations_->find_index(path.back()); index != nullptr && index->is_constraint())
        refuse_as("2BP01", "cannot drop index " + path.back() + " because a constraint of this name requires it");
    }
    add("DROP " + std::string(word) + " " + (body.flag("missing_ok") ? "IF EXISTS " : "") +
        (path.size() == 2 && path[0] == "pg_temp" ? "temp." : "") + quoted_name(path.back()));
  }
}

// Statements that do nothing here still fail where PostgreSQL finds nothing of that name.
void Writer::check_named(Node body) {
  if (relations_ == nullptr) return;
  out_.typed = true;
  for (const char* list : {"relations", "objects"}) {
    for (const Node item : body[list].items()) {
      if (const Node range_var = item.as("RangeVar")) existing(range_var);
    }
  }
  const std::string_view kind = body["objtype"].string();
  const bool column = kind == "OBJECT_COLUMN";
  if (!column && kind != "OBJECT_TABLE" && kind != "OBJECT_VIEW") return;
  std::vector<std::string> path = strings(body["object"].as("List")["items"]);
  const std::string part = column && !path.empty() ? path.back() : "";
  if (column && !path.empty()) path.pop_back();
  if (path.empty()) return;
  const Relation* found = relations_->find(path.back());
  if (found == nullptr) refuse_as("42P01", "relation \"" + path.back() + "\" does not exist");
  if (column && std::none_of(found->columns.begin(), found->columns.end(), [&](const auto& each) { return each.name == part; }))
    refuse_as("42703", "column \"" + part + "\" of relation \"" + found->name + "\" does not exist");
}

}  // namespace termgate::dialect
