// Value, Rows: the parameters and results of statements, on every database. Values own their bytes,
// except the views, which borrow theirs. One thread at a time, like any container.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace termgate {
inline namespace v0 {

// Bytes as they are: bytea, BLOB, varbinary.
struct Bytes {
  std::string data;
  friend bool operator==(const Bytes&, const Bytes&) = default;
};

// Like Bytes, but borrowed: a parameter that is not copied. The memory must not change until the
// call returns. Results never contain it.
struct BytesView {
  std::string_view data;
  friend bool operator==(const BytesView&, const BytesView&) = default;
};

// Arrays exist for batches only (append_many): each driver has its own way to carry them. The view
// borrows as BytesView does.
using BytesArray = std::vector<std::string>;
struct BytesArrayView {
  std::span<const std::string> items;
};
using TextArray = std::vector<std::optional<std::string>>;

class Value {
 public:
  using Variant = std::variant<std::monostate, bool, std::int64_t, double, std::string, Bytes,
                               BytesArray, TextArray, BytesView, BytesArrayView>;

  Value() = default;
  Value(std::nullptr_t) {}
  Value(std::nullopt_t) {}
  Value(bool value) : held_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Value(T value) : held_(static_cast<std::int64_t>(value)) {}
  template <std::floating_point T>
  Value(T value) : held_(static_cast<double>(value)) {}
  Value(const char* value) : held_(std::string(value)) {}
  Value(std::string_view value) : held_(std::string(value)) {}
  Value(std::string value) : held_(std::move(value)) {}
  Value(Bytes value) : held_(std::move(value)) {}
  Value(BytesArray value) : held_(std::move(value)) {}
  Value(TextArray value) : held_(std::move(value)) {}
  Value(BytesView value) : held_(value) {}
  Value(BytesArrayView value) : held_(value) {}
  template <class T>
  Value(std::optional<T> value) {
    if (value) *this = Value(*std::move(value));
  }

  const Variant& variant() const noexcept { return held_; }
  bool is_null() const noexcept { return held_.index() == 0; }

  // These convert between the databases' forms (a bool is 0 or 1 on SQLite, an integer can be text)
  // and throw DatabaseError if the value cannot be converted. Text of a NULL is "".
  bool as_bool() const;
  std::int64_t as_int() const;
  std::string as_text() const;
  std::string as_bytes() const;
  std::string take_bytes() &&;  // as as_bytes(), without a copy if the value holds bytes or text
  std::optional<std::int64_t> as_optional_int() const;
  std::optional<std::string> as_optional_text() const;

 private:
  Variant held_;
};

using Row = std::vector<Value>;

struct Rows {
  std::vector<std::string> columns;
  std::vector<Row> rows;
  // Rows changed by an INSERT, UPDATE or DELETE. For a query: 0 on SQLite, elsewhere the number of
  // its rows.
  std::int64_t affected = 0;

  bool empty() const noexcept { return rows.empty(); }
  // The row of a statement that must return exactly one; throws DatabaseError otherwise.
  const Row& one() const;
};

}  // namespace v0
}  // namespace termgate
