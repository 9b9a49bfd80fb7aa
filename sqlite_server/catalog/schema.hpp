// An SQLite schema as PostgreSQL would tell it: relations, columns, constraints, indexes, triggers, with OIDs.
//
// OIDs are made of kind and name, so they are the same on every connection and after any change but a rename. Where two names meet
// (of 50,000 objects two do, at even odds), the later in the order of names takes the next number that is free.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <termgate/sqlite_server/catalog.hpp>

namespace termgate::sqlite_server {

namespace namespaces {
inline constexpr std::int64_t catalog = 11, toast = 99, user = 2200, information = 13000, temporary = 13100, termgate = 13200;
}
inline constexpr std::int64_t owner_oid = 10, btree_am = 403, heap_am = 2, first_user_oid = 16384;

struct SchemaColumn {
  std::string name;
  std::string declared;
  DeclaredType type{};
  bool not_null = false;
  bool counted = false;  // the row id: a value comes by itself
  bool generated = false;
  bool always = false;                      // counts, and takes no value of a client's
  bool serial = false;                      // counts, and a client declared it so
  bool hidden = false;                      // of a virtual table
  std::optional<std::string> default_text;  // or the expression of a generated one
  std::string collation;
};

struct SchemaIndex {
  std::int64_t oid = 0;
  std::string name;    // as PostgreSQL would have named it
  std::string actual;  // as SQLite calls it; empty: the row id, which needs none
  bool unique = false, primary = false, by_constraint = false, deferrable = false;
  struct Part {
    int attribute = 0;  // from 1; 0: an expression
    std::string text;   // the column, quoted, or the expression
    bool descending = false;
    std::string collation;
  };
  std::vector<Part> parts;
  std::string condition;
};

struct SchemaConstraint {
  std::int64_t oid = 0;
  std::string name;
  char kind = 'c';  // p u c f, as contype
  std::vector<int> columns;
  std::string expression;      // of a CHECK, without parentheses
  std::int64_t index = 0;      // of p, u; of f: that of the other side, 0 where it is not known
  std::string other;           // the other table's name
  std::int64_t other_oid = 0;  // 0: it is not there
  std::vector<int> other_columns;
  std::vector<std::string> other_names;
  char on_update = 'a', on_delete = 'a';
  bool deferrable = false, deferred = false;
};

struct SchemaTrigger {
  std::int64_t oid = 0;
  std::string name, sql;
};

struct SchemaRelation {
  std::int64_t oid = 0;
  std::string name;
  char kind = 'r';
  std::int64_t space = namespaces::user;
  std::string sql;
  bool without_rowid = false;
  bool referenced = false;
  std::vector<SchemaColumn> columns;
  std::vector<SchemaIndex> indexes;
  std::vector<SchemaConstraint> constraints;
  std::vector<SchemaTrigger> triggers;
  double rows = -1;        // of ANALYZE
  std::int64_t owner = 0;  // of a sequence (kind S): the table, and the column's place, from 1
  int owner_column = 0;
};

struct Schema {
  std::vector<SchemaRelation> relations;  // in the order of their names
  std::unordered_map<std::int64_t, std::size_t> by_oid;
  std::unordered_multimap<std::string, std::size_t> by_name;  // lower case
  struct IndexPlace {
    std::size_t relation, index;
  };
  std::unordered_map<std::int64_t, IndexPlace> indexes, constraints, triggers;
  std::map<std::string, std::string> index_texts;  // of CREATE INDEX, by SQLite's name

  const SchemaRelation* relation(std::int64_t oid) const;
  const SchemaRelation* named(std::string_view name, std::optional<std::int64_t> space = {}) const;
};

// Reads it through the connection, in its open transaction.
std::shared_ptr<const Schema> read_schema(sqlite3* connection);

// What the text of a CREATE TABLE says and no pragma does.
struct Definition {
  struct Check {
    std::string name, column, expression;
  };
  struct Key {
    std::string name;
    std::vector<std::string> columns;
    bool primary = false;
  };
  struct Foreign {
    std::string name;
    std::vector<std::string> columns;
    bool deferrable = false, deferred = false;
  };
  std::vector<Check> checks;
  std::vector<Key> keys;
  std::vector<Foreign> foreign;
  std::set<std::string> integers;  // columns (lower case) whose type is written INTeger: counted keys that a client declared integer
  std::set<std::string> always;    // INTegER, INTEGer: GENERATED ALWAYS AS IDENTITY
  std::set<std::string> serials;   // INTegeR, INTEGEr: serial, bigserial
  std::map<std::string, std::string> generated;   // column (lower case): expression
  std::map<std::string, std::string> collations;  // column (lower case): collation
};
Definition definition_of(std::string_view create_table);
// The expressions of an index, in order, and its WHERE.
struct IndexDefinition {
  std::vector<std::string> parts;  // with what follows (COLLATE, DESC) cut off
  std::string condition;
};
IndexDefinition index_definition_of(std::string_view create_index);
// What follows AS in a CREATE VIEW.
std::string view_query(std::string_view create_view);

// Every name in an expression, functions' too.
std::vector<std::string> names_mentioned(std::string_view expression);

// As PostgreSQL's quote_ident().
std::string quoted_identifier(std::string_view name);
std::string lower(std::string_view text);

// Types, as pg_type has them.
struct CatalogType {
  std::int64_t oid;
  std::string_view name;
  std::vector<std::string_view> fields;  // data::types
};
const CatalogType* catalog_type(std::int64_t oid);
const CatalogType* catalog_type_named(std::string_view name);
const std::vector<CatalogType>& catalog_types();
std::string format_type(std::int64_t oid, std::int32_t typmod);
std::vector<std::string_view> fields_of(std::string_view line, char separator = '|');
std::int64_t number_of(std::string_view text);

// The relations of PostgreSQL's own catalogs.
struct SystemRelation {
  std::string name;  // as the virtual table is called: information_schema_tables
  std::string shown;
  std::int64_t oid;
  std::int64_t space;
  char kind;
  struct Column {
    std::string name, type;  // pg_type's name
  };
  std::vector<Column> columns;
};
const std::vector<SystemRelation>& system_relations();

// Definitions as PostgreSQL prints them.
std::string index_text(const SchemaRelation& relation, const SchemaIndex& index, bool qualified);
std::string constraint_text(const Schema& schema, const SchemaRelation& relation, const SchemaConstraint& constraint, bool pretty);
std::string default_expression(const SchemaColumn& column);

}  // namespace termgate::sqlite_server
