// PostgreSQL's parse tree, as libpg_query's JSON tells it, seen through a handle: whatever is absent is an empty node, so that a
// walk needs no checks. libpg_query leaves out what is zero, false or empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/value.hpp>

#include <termgate/dialect/translate.hpp>

namespace termgate::dialect {

// Valid while its Tree is.
class Node {
 public:
  Node() = default;
  explicit Node(const boost::json::value* value) noexcept : value_(value) {}

  explicit operator bool() const noexcept { return value_ != nullptr; }
  // A member of an object.
  Node operator[](std::string_view key) const noexcept;
  // What a wrapper {"Kind": {…}} holds: its kind and its body.
  std::string_view kind() const noexcept;
  Node body() const noexcept;
  bool is(std::string_view wanted) const noexcept { return kind() == wanted; }
  // The body, where it is of that kind.
  Node as(std::string_view wanted) const noexcept { return is(wanted) ? body() : Node(); }

  std::string text(std::string_view key) const { return std::string((*this)[key].string()); }
  bool flag(std::string_view key) const noexcept;
  std::int64_t integer(std::string_view key, std::int64_t otherwise = 0) const noexcept;
  std::string_view string() const noexcept;

  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }
  Node at(std::size_t index) const noexcept;
  std::vector<Node> items() const;
  // Whatever it holds: members of an object, elements of an array.
  void children(std::vector<Node>& out) const;
  // Whether both say the same, wherever in the text.
  bool same_as(Node other) const noexcept;

 private:
  const boost::json::value* value_ = nullptr;
};

// The strings of a list of String nodes.
std::vector<std::string> strings(Node list);
// The last of them: a name without its schema.
std::string last_name(Node list);

class Tree {
 public:
  Tree() = default;
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // Parses; what is too deep for the library's recursion is refused before it is asked (see tree.cpp).
  static std::optional<SqlError> parse(const std::string& sql, Tree& out);
  Node statements() const noexcept;

 private:
  boost::json::monotonic_resource memory_;
  std::optional<boost::json::value> value_;
};

// No syntax tree of `sql` is deeper than a small multiple of this.
std::size_t depth_bound(std::string_view sql) noexcept;

}  // namespace termgate::dialect
