// An error as PostgreSQL would report it: what translation, conversions and functions fail with.
#pragma once

#include <cstddef>
#include <string>

namespace termgate::dialect {

struct SqlError {
  std::string sqlstate;  // five characters: 42601 syntax, 0A000 no counterpart, 54001 too deep or too long, 22P02 and kin for values
  std::string message;
  std::size_t position = 0;  // in the statement's text, in bytes from 1; 0: none
};

}  // namespace termgate::dialect
