// A text from the network into what is to be run of it: PostgreSQL's SQL as sqlite_server/dialect writes it for SQLite, SQLite's own SQL
// where PostgreSQL's grammar does not know it, or a call of Termgate's functions, which SQLite has no schema for. Pure; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <termgate/dialect/translate.hpp>

#include "session/pg_error.hpp"
#include "catalog/relations.hpp"

namespace termgate::sqlite_server {

// SELECT [* FROM] termgate.name(arguments) and nothing else. An argument is a parameter's number or a constant; nullopt is NULL.
struct OwnCall {
  std::string name;
  bool from = false;
  struct Argument {
    int parameter = 0;
    std::optional<std::string> text;
  };
  std::vector<Argument> arguments;
};

// A parameter without a type that is compared with a column: `column = $1`, or in VALUES at the place of one. The column may be any of
// the tables'; where `column` is empty, it is the first table's by `place`.
struct Beside {
  std::size_t parameter = 0;
  std::string column;
  std::size_t place = 0;
};

struct Plan {
  std::uint64_t id = next_id();  // no other's
  dialect::Translated does;
  bool native = false;            // SQLite's text; what it does, SQLite says when it is prepared
  std::optional<PgError> better;  // what to say should SQLite not know the text either
  std::optional<OwnCall> own;
  std::shared_ptr<const std::string> text;  // the whole, where `does.offset` counts in it; else null
  std::vector<std::string> tables;          // of `beside`
  std::vector<Beside> beside;
  // How often Session::feed_quickly() will not try it, for it was too slow; -N: it was late N times in a row. Any thread; a count that is
  // lost among others does no harm.
  std::shared_ptr<std::atomic<int>> skips = std::make_shared<std::atomic<int>>(0);

  static std::uint64_t next_id() noexcept;
  std::shared_ptr<const std::string> source;  // of a typed statement: its own text, to type it again
  std::uint64_t schema = 0;                   // FileRelations::id() of what a typed statement was typed with
  std::vector<dialect::Oid> declared;         // parameters' types that came with the text
  std::vector<std::int64_t> literals;         // what ?1, ?2 … of its SQL are: integers of the text (engine/shapes.hpp)
  bool empty() const noexcept { return !own && !native && !does.problem && does.effect == dialect::Effect::read && does.sql.empty(); }
  template <class Utility>
  const Utility* utility() const noexcept {
    return std::get_if<Utility>(&does.utility);
  }
};

using Plans = std::shared_ptr<const std::vector<Plan>>;

// The place in the client's text of what a fault says is missing (a relation, a column, a function): characters from 1; 0: not found.
std::size_t place_of(const PgError& fault, std::string_view text, std::size_t offset, std::size_t length);

// Throws PgException. An empty list: an empty query.
// `lift`: see dialect::Limits.
Plans plan_text(const std::string& text, const FileRelations* relations = nullptr, const std::vector<dialect::Oid>& declared = {},
                bool lift = false);

}  // namespace termgate::sqlite_server
