// The functions that a session registers with SQLite before it runs what translate() wrote: those that SQLite lacks and those of
// PostgreSQL's that mean something else there. Names of PostgreSQL's own keep their name; what is ours begins with pg_.
#pragma once

#include <span>
#include <string_view>

namespace termgate::dialect {

struct Function {
  std::string_view name;
  int arguments_min;
  int arguments_max;  // -1: any number
  enum class Kind : unsigned char { scalar, aggregate } kind;
  std::string_view result;  // pg_type's name; empty: that of the first argument
  std::string_view what;    // one line: the meaning where it is not PostgreSQL's function of that name
};

// What translate() may write and plain SQLite 3.40 with its mathematical functions does not have. pg_catalog's own, which tools
// ask for, are among them.
std::span<const Function> functions_to_supply() noexcept;

}  // namespace termgate::dialect
