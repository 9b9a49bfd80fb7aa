// Conversions of Value, where databases disagree about a type.
#include <charconv>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/value.hpp>

namespace termgate {
inline namespace v0 {
namespace {

[[noreturn]] void unfit(const char* wanted) {
  throw DatabaseError(fmt::format("the database answered with a value that is not a {}", wanted));
}

}  // namespace

// SQLite returns integers; a driver that reads text returns "t" or "1".
bool Value::as_bool() const {
  if (auto* held = std::get_if<bool>(&held_)) return *held;
  if (auto* held = std::get_if<std::int64_t>(&held_)) return *held != 0;
  if (auto* held = std::get_if<std::string>(&held_)) {
    if (*held == "t" || *held == "true" || *held == "1") return true;
    if (*held == "f" || *held == "false" || *held == "0") return false;
  }
  unfit("boolean");
}

std::int64_t Value::as_int() const {
  if (auto* held = std::get_if<std::int64_t>(&held_)) return *held;
  if (auto* held = std::get_if<bool>(&held_)) return *held ? 1 : 0;
  if (auto* held = std::get_if<double>(&held_)) return static_cast<std::int64_t>(*held);
  if (auto* held = std::get_if<std::string>(&held_)) {
    std::int64_t value = 0;
    auto [end, failure] = std::from_chars(held->data(), held->data() + held->size(), value);
    if (failure == std::errc{} && end == held->data() + held->size()) return value;
  }
  unfit("integer");
}

std::string Value::as_text() const {
  if (auto* held = std::get_if<std::string>(&held_)) return *held;
  if (auto* held = std::get_if<std::int64_t>(&held_)) return fmt::format("{}", *held);
  if (auto* held = std::get_if<bool>(&held_)) return *held ? "true" : "false";
  if (auto* held = std::get_if<double>(&held_)) return fmt::format("{}", *held);
  if (auto* held = std::get_if<Bytes>(&held_)) return held->data;
  if (auto* held = std::get_if<BytesView>(&held_)) return std::string(held->data);
  if (is_null()) return {};
  unfit("text");
}

std::string Value::as_bytes() const { return as_text(); }

std::string Value::take_bytes() && {
  if (auto* held = std::get_if<Bytes>(&held_)) return std::move(held->data);
  if (auto* held = std::get_if<std::string>(&held_)) return std::move(*held);
  return as_text();
}

std::optional<std::int64_t> Value::as_optional_int() const {
  if (is_null()) return std::nullopt;
  return as_int();
}

std::optional<std::string> Value::as_optional_text() const {
  if (is_null()) return std::nullopt;
  return as_text();
}

const Row& Rows::one() const {
  if (rows.size() != 1)
    throw DatabaseError(
        fmt::format("the database answered with {} rows instead of one", rows.size()));
  return rows.front();
}

}  // namespace v0
}  // namespace termgate
