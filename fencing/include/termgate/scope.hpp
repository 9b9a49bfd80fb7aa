// Scope and Stream: names, validated once when made. Values; any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>

namespace termgate {
inline namespace v0 {

// Why `text` is not a valid name of a scope or stream, or nullptr if it is: 1 to 200 code points,
// at most 800 bytes, valid UTF-8, no NUL. Names are compared byte by byte and never normalised.
const char* name_problem(std::string_view text) noexcept;

// What one leader is responsible for: a group, shard, job or aggregate.
class Scope {
 public:
  static constexpr std::size_t code_points_max = 200;
  static constexpr std::size_t bytes_max = 800;

  // Throws InvalidInput (TG005) with the reason.
  explicit Scope(std::string name);

  const std::string& name() const noexcept { return name_; }
  friend auto operator<=>(const Scope&, const Scope&) = default;

 private:
  std::string name_;
};

// An append-only sequence of writes; its name follows the same rules as a scope's.
class Stream {
 public:
  // Throws as Scope does.
  explicit Stream(std::string name);

  const std::string& name() const noexcept { return name_; }
  friend auto operator<=>(const Stream&, const Stream&) = default;

 private:
  std::string name_;
};

}  // namespace v0
}  // namespace termgate
