#include "engine/shapes.hpp"

#include <algorithm>

namespace termgate::sqlite_server {
namespace {

constexpr std::size_t shape_bytes_max = 2048, numbers_max = 32, digits_max = 9;
constexpr char mark = '\1';

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_word(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || (c & 0x80) != 0; }
bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

std::optional<Shape> shape_of(std::string_view text) {
  if (text.size() > shape_bytes_max) return std::nullopt;
  Shape shape;
  shape.text.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    const char next = at + 1 < text.size() ? text[at + 1] : ' ';
    std::size_t end = at + 1;
    if (c == mark || c == '\0' || c == '$' || c == '\\' || (c == '-' && next == '-') || (c == '/' && next == '*')) return std::nullopt;
    if (c == ';' &&
        !std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), [](char each) { return each == ';' || is_space(each); }))
      return std::nullopt;
    if (c == '\'' || c == '"') {
      // E'…', B'…', U&"…": the letter says how to read it.
      if (at > 0 && (is_word(text[at - 1]) || text[at - 1] == '&')) return std::nullopt;
      // A doubled quote is two texts side by side.
      end = text.find(c, end);
      if (end == std::string_view::npos) return std::nullopt;
      ++end;
    } else if (is_digit(c)) {
      while (end < text.size() && is_digit(text[end])) ++end;
      const char behind = end < text.size() ? text[end] : ' ';
      const char before = at > 0 ? text[at - 1] : ' ';
      if (end - at <= digits_max && before != '.' && behind != '.' && !is_word(behind)) {
        if (shape.numbers.size() == numbers_max) return std::nullopt;
        std::int64_t value = 0;
        for (std::size_t i = at; i < end; ++i) value = value * 10 + (text[i] - '0');
        shape.numbers.push_back({at, value});
        shape.text += mark;
        at = end;
        continue;
      }
      while (end < text.size() && (is_word(text[end]) || text[end] == '.')) ++end;
    } else if (is_word(c)) {
      while (end < text.size() && is_word(text[end])) ++end;
    }
    shape.text += text.substr(at, end - at);
    at = end;
  }
  if (shape.numbers.empty()) return std::nullopt;
  return shape;
}

std::shared_ptr<const Template> Template::of(const Shape& shape, const Plans& lifted) {
  if (lifted->size() != 1) return nullptr;
  const Plan& plan = lifted->front();
  const dialect::Translated& does = plan.does;
  const bool plain = does.effect == dialect::Effect::read || does.effect == dialect::Effect::write;
  if (!plain || !does.typed || does.problem || does.sql.size() != 1 || !does.steps.empty() || !does.parameters.empty() || plan.native ||
      plan.own || plan.better || does.lifted.size() != shape.numbers.size())
    return nullptr;
  auto made = std::make_shared<Template>();
  for (const dialect::Translated::Lifted& each : does.lifted) {
    const auto found =
        std::find_if(shape.numbers.begin(), shape.numbers.end(), [&](const Shape::Number& one) { return one.at == each.at; });
    if (found == shape.numbers.end()) return nullptr;
    made->places_.push_back({static_cast<std::size_t>(found - shape.numbers.begin()), each.negative});
  }
  made->plan_ = plan;
  made->plan_.text.reset();
  made->plan_.source.reset();
  return made;
}

Plans Template::plan(const std::string& text, const Shape& shape) const {
  auto plans = std::make_shared<std::vector<Plan>>(1, plan_);
  Plan& plan = plans->front();
  plan.literals.reserve(places_.size());
  for (const Place& each : places_) {
    const std::int64_t value = shape.numbers[each.number].value;
    plan.literals.push_back(each.negative ? -value : value);
  }
  plan.text = std::make_shared<const std::string>(text);
  // A single statement: what surrounds it is spaces and semicolons.
  plan.source = plan.text;
  plan.does.offset = 0;
  plan.does.length = text.size();
  return plans;
}

}  // namespace termgate::sqlite_server
