// A JSON document from the network, and access to its values. Private to messages.cpp.
//
// Boost.JSON parses it. Only floats are parsed again, because Boost 1.81 may get their last digit
// wrong, and a value must reach the file as its client wrote it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "budget.hpp"

namespace termgate::hrana {

// A value of the document and its path, for messages: "requests[3].stmt.sql". A node refers to its
// parent, which must outlive it. Each accessor throws Failure (400, PROTOCOL_ERROR) if the value
// has another type.
class Node {
 public:
  explicit Node(const boost::json::value& value) : value_(&value) {}

  // A member of an object. nullopt: absent or null.
  std::optional<Node> find(std::string_view key) const;
  Node at(std::string_view key) const;
  std::string_view text() const;
  std::int64_t integer() const;
  std::int32_t id() const;  // must fit into 32 bits
  double number() const;    // may also be written as an integer
  bool flag() const;
  // The number of an array's elements. Beyond `limit`, whose name is `limit_name`, it throws
  // REQUEST_TOO_LARGE.
  std::size_t size(std::size_t limit, std::string_view limit_name) const;
  Node item(std::size_t index) const;
  Node member(std::string_view key, const boost::json::value& value) const {
    return Node(value, this, key, not_in_array);
  }

  const boost::json::value& json() const noexcept { return *value_; }
  [[noreturn]] void fail(std::string_view what) const;
  [[noreturn]] void too_large(std::string_view what) const;

 private:
  static constexpr std::size_t not_in_array = static_cast<std::size_t>(-1);
  Node(const boost::json::value& value, const Node* parent, std::string_view key, std::size_t index)
      : value_(&value), parent_(parent), key_(key), index_(index) {}
  std::string place() const;

  const boost::json::value* value_;
  const Node* parent_ = nullptr;
  std::string_view key_;
  std::size_t index_ = not_in_array;
};

class Document {
 public:
  // Throws Failure: 400 if the text is not JSON, nested too deeply or not UTF-8; 503 if `charge`
  // cannot grow by the memory that it takes.
  Document(std::string_view text, Charge& charge);
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;
  Node root() const { return Node(root_); }

 private:
  boost::json::monotonic_resource memory_;
  boost::json::value root_;
};

}  // namespace termgate::hrana
