// The rows of PostgreSQL's catalogs over an SQLite schema. A relation that is not named here is there and empty.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include <termgate/sqlite_server/catalog.hpp>

#include "catalog/schema.hpp"

namespace termgate::sqlite_server {

using Row = std::vector<Stored>;

struct Rows {
  std::vector<Row> rows;
  // By column: the places of each value (as text), made at the first look.
  std::unordered_map<int, std::unordered_multimap<std::string, std::size_t>> found_by;
};

// Fills rows by the names of columns. What is not given is NULL; in a table, false and 0 where it is a boolean or a whole number.
class RowWriter {
 public:
  RowWriter(const SystemRelation& relation, std::vector<Row>& out);
  RowWriter& row();
  RowWriter& set(std::string_view column, Stored value);
  RowWriter& set(std::string_view column, std::string_view value) { return set(column, Stored(std::string(value))); }
  RowWriter& set(std::string_view column, const std::string& value) { return set(column, Stored(value)); }
  RowWriter& set(std::string_view column, const char* value) { return set(column, Stored(std::string(value))); }
  template <class Integer>
  requires std::is_integral_v<Integer> RowWriter& set(std::string_view column, Integer value) {
    return set(column, Stored(static_cast<std::int64_t>(value)));
  }

 private:
  std::unordered_map<std::string_view, std::size_t> places_;
  Row empty_;
  std::vector<Row>& out_;
};

struct CatalogView {
  const Schema& schema;
  const CatalogSession& session;
  std::string database;
};

// Whether the rows depend on the session, and are made anew for each look.
bool of_the_session(std::string_view relation);
void write_rows(const SystemRelation& relation, const CatalogView& view, std::vector<Row>& out);
// information.cpp
void write_information_rows(const SystemRelation& relation, const CatalogView& view, std::vector<Row>& out);

std::int64_t database_oid(std::string_view name);
std::string space_name(std::int64_t space);
std::string array_text(const std::vector<std::int64_t>& values);

}  // namespace termgate::sqlite_server
