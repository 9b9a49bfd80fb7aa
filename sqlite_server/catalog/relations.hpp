// The tables of a file as dialect::translate() asks about them: columns with their types, constants by the input functions of types.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <termgate/dialect/translate.hpp>

#include "catalog/schema.hpp"

namespace termgate::sqlite_server {

// Immutable; any thread.
class FileRelations final : public dialect::Relations {
 public:
  // `id` is no other schema's.
  FileRelations(const Schema& schema, std::uint64_t id);
  const Relation* find(std::string_view name) const override;
  const Relation::Index* find_index(std::string_view name) const override;
  const Relation* owner_of_constraint(std::string_view name) const override;
  std::variant<std::string, SqlError> constant(std::string_view text, dialect::Oid type, std::int32_t typmod = -1) const override;
  std::variant<std::string, SqlError> stored_constant(std::string_view text, std::string_view declared, dialect::Oid from) const override;
  std::uint64_t id() const noexcept { return id_; }
  // Every index is of columns alone. SQLite finds an index of expressions, or with a condition, by the constants of a statement.
  bool plain_indexes() const noexcept { return plain_indexes_; }

 private:
  std::uint64_t id_;
  bool plain_indexes_ = true;
  std::unordered_map<std::string, Relation> own_;  // by lower-case name
};

// table_text.cpp: what ALTER TABLE has to know of a table.
void read_table_text(const SchemaRelation& schema, dialect::Relations::Relation& out);
// What else of a schema has to do with a table: its indexes, the keys that refer to it, views and triggers that mention it.
class Around {
 public:
  explicit Around(const Schema& schema);
  void read(const SchemaRelation& table, dialect::Relations::Relation& out) const;

 private:
  const Schema& schema_;
  std::vector<std::pair<std::string, std::vector<std::string>>> readers_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_name_;
  std::unordered_map<std::int64_t, std::vector<dialect::Relations::Relation::Foreign>> foreign_;
};

}  // namespace termgate::sqlite_server
