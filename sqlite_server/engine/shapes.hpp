// Texts that differ in their integers alone share one translation: a client that writes its values into the text (psql, pgbench, what
// builds SQL by hand) would otherwise have each text parsed, typed and prepared anew. The shape is the text with a mark in the place of
// each integer; a template is what the first such text was translated to, with parameters there (dialect::Limits::lift).
// Immutable or plain values; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "session/plan.hpp"

namespace termgate::sqlite_server {

struct Shape {
  std::string text;
  struct Number {
    std::size_t at = 0;  // in the text that it is the shape of
    std::int64_t value = 0;
  };
  std::vector<Number> numbers;
};

// Nothing where there is no integer of one to nine digits, or the text has what this lexer leaves to the grammar: comments, parameters,
// strings with a letter in front, dollar quotes, several statements.
std::optional<Shape> shape_of(std::string_view text);

class Template {
 public:
  // Nothing where the translation depends on an integer's value, or is of another kind than this can repeat.
  static std::shared_ptr<const Template> of(const Shape& shape, const Plans& lifted);
  // The plan of another text of the same shape.
  Plans plan(const std::string& text, const Shape& shape) const;
  std::uint64_t schema() const noexcept { return plan_.schema; }

 private:
  Plan plan_;
  struct Place {
    std::size_t number;  // of Shape::numbers
    bool negative;
  };
  std::vector<Place> places_;  // of ?1, ?2 …
};

}  // namespace termgate::sqlite_server
