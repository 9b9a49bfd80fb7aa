// PostgreSQL's own rules for which operator, function or cast an expression means (its manual, chapter "Type Conversion"; parse_oper.c,
// parse_func.c, parse_coerce.c), over PostgreSQL 15's own tables. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/dialect/translate.hpp>

namespace termgate::dialect::resolution {

// resolution_data.cpp: a row a line, its cells between tabs.
extern const std::string_view types_text, operators_text, casts_text, functions_text;

struct TypeRow {
  Oid oid = 0;
  std::string_view name;
  char category = 'U';
  bool preferred = false;
  Oid element = 0, array = 0;
  char kind = 'b';
  int length = -1;
};
struct OperatorRow {
  std::string_view name;
  Oid left = 0, right = 0, result = 0;
  std::string_view function;
};
struct FunctionRow {
  std::string_view name;
  std::vector<Oid> arguments;
  Oid result = 0;
  char kind = 'f';  // f, a (aggregate), w (window)
  bool set = false;
  Oid variadic = 0;
  int defaults = 0;
};

const TypeRow* type_row(Oid type) noexcept;
const TypeRow* type_row_named(std::string_view name) noexcept;
bool is_array(Oid type) noexcept;  // of elements: not int2vector and oidvector
// As format_type() prints it, for messages.
std::string spoken(Oid type);

enum class Context { implicit, assignment, explicitly };
struct Path {
  enum class How { none, relabel, function, text, elements } how = How::none;
  std::string_view function;
};
Path cast_path(Oid source, Oid target, Context context);
bool can_coerce(Oid source, Oid target, Context context = Context::implicit);

// What was found, with polymorphic types replaced. `state` tells why there is none.
struct Operator {
  enum class State { found, none, ambiguous } state = State::none;
  const OperatorRow* row = nullptr;
  Oid left = 0, right = 0, result = 0;
};
// A prefix operator where `prefix`; an operand without a type is `unknown` (705).
Operator find_operator(std::string_view name, Oid left, Oid right, bool prefix);

// Whether any function of that name is an aggregate.
bool is_aggregate(std::string_view name);

struct Function {
  enum class State { found, cast, none, no_such_name, ambiguous, polymorphic } state = State::none;
  const FunctionRow* row = nullptr;
  std::vector<Oid> arguments;  // one for each that was given
  Oid result = 0;              // of `cast`: the type that the name means
};
// `constant`: the only argument is a constant, which a type's name converts.
Function find_function(std::string_view name, std::span<const Oid> given, bool constant = false);

// The type of CASE, COALESCE, UNION …; nullopt: `left` and `right` are what cannot be matched.
struct Common {
  std::optional<Oid> type;
  Oid left = 0, right = 0;
};
Common common_type(std::span<const Oid> types);

}  // namespace termgate::dialect::resolution
