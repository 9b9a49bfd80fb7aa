// Shapes of PostgreSQL's tree that several files ask for.
#pragma once

#include <cstdint>

#include <termgate/dialect/types.hpp>

#include "tree.hpp"

namespace termgate::dialect {

// Bits of WindowDef.frameOptions (parsenodes.h).
enum Frame : std::int64_t {
  nondefault = 0x1,
  range = 0x2,
  rows = 0x4,
  groups = 0x8,
  start_unbounded = 0x20,
  end_unbounded = 0x100,
  start_current = 0x200,
  end_current = 0x400,
  start_preceding = 0x800,
  end_preceding = 0x1000,
  start_following = 0x2000,
  end_following = 0x4000,
  exclude_current = 0x8000,
  exclude_group = 0x10000,
  exclude_ties = 0x20000
};

inline bool has_tail(Node body) { return body["sortClause"] || body["limitCount"] || body["limitOffset"] || body["withClause"]; }
inline bool is_set(Node body) { return body["larg"] || body["rarg"]; }
constexpr std::int64_t exclusions = exclude_current | exclude_group | exclude_ties;
inline bool is_default(Node node) { return node.is("SetToDefault"); }
inline bool is_whole(Oid type) { return type == oid::int2 || type == oid::int4 || type == oid::int8; }

}  // namespace termgate::dialect
