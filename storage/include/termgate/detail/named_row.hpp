// Rows of a call, read by the names of their columns (sql/README.md), whose order may differ
// between databases.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/value.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

// A row of `rows`, which it refers to. Throws DatabaseError for a missing column, which means that
// layer 1 has another version.
class NamedRow {
 public:
  NamedRow(const Rows& rows, const Row& row) : rows_(rows), row_(row) {}

  const Value& operator[](std::string_view name) const {
    const auto found = std::find(rows_.columns.begin(), rows_.columns.end(), name);
    const auto at = static_cast<std::size_t>(found - rows_.columns.begin());
    if (at >= row_.size())
      throw DatabaseError(fmt::format("the database's answer has no column \"{}\"", name));
    return row_[at];
  }
  // For a column that the previous version of layer 1 does not have yet.
  std::optional<std::int64_t> int_if_there(std::string_view name) const {
    if (std::find(rows_.columns.begin(), rows_.columns.end(), name) == rows_.columns.end())
      return std::nullopt;
    return (*this)[name].as_optional_int();
  }

 private:
  const Rows& rows_;
  const Row& row_;
};

// The only row of a call that must return exactly one. `rows` must outlive it.
inline NamedRow only_row(const Rows& rows) { return {rows, rows.one()}; }

template <class Item, class Convert>
std::vector<Item> convert_all(const Rows& rows, Convert convert) {
  std::vector<Item> items;
  items.reserve(rows.rows.size());
  for (const Row& row : rows.rows) items.push_back(convert(NamedRow(rows, row)));
  return items;
}

template <class Item, class Convert>
std::optional<Item> convert_first(const Rows& rows, Convert convert) {
  if (rows.empty()) return std::nullopt;
  return convert(NamedRow(rows, rows.rows.front()));
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
