// What the driver sends by itself, for each database: how a transaction begins and ends, and how
// layer 1 is installed and found.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/detail/driver.hpp>

#include "sql/statements.hpp"
#include <termgate/detail/odbc/traits.hpp>

namespace termgate {
inline namespace v0 {
namespace detail::odbc {

struct Dialect {
  Family family;
  std::string_view kind;
  const sql::Calls& (*calls)() noexcept;
  std::span<const sql::Migration> (*migrations)() noexcept;
  std::string_view uninstall;
  std::string_view on_connect;  // settings that the rules for texts in this folder rely on
  std::string_view commit;
  std::string_view roll_back;       // harmless if the server has already rolled back
  std::string_view install_begin;   // a transaction in which installers take turns
  std::string_view before_install;  // runs before the files if any is pending; may be empty
  std::string_view after_install;
  std::string_view
      is_installed;          // returns one row and column: whether the table of migrations exists
  std::string_view version;  // the highest installed version
  std::string_view note_migration;  // $1 version, $2 name
  std::string_view grant;           // $1 role, $2 level
  std::string_view revoke;          // $1 role; empty: not supported
  // An error ends the transaction: with XACT_ABORT the server has rolled back, and the next
  // statement would run outside of it.
  bool error_ends_transaction;

  std::string begin(const TransactOptions& options) const;
  // Inserts the schema's name, as an identifier (@schema@) and as a literal (@schema_lit@).
  std::string with_schema(std::string_view text, std::string_view schema) const;
  // Splits a script of sql/ into the pieces that are sent one by one.
  std::vector<std::string> pieces(std::string_view script) const;
};

// Throws InvalidInput for a database for which Termgate has no layer 1 through ODBC.
const Dialect& dialect_of(Family family);

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
