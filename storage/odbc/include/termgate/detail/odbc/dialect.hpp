// What the driver sends by itself, for each database: how a transaction begins and ends, and how layer 1 is installed and found.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/detail/driver.hpp>

#include "sql/statements.hpp"
#include <termgate/detail/odbc/traits.hpp>

namespace termgate::inline v0::detail::odbc {

struct Dialect {
  Family family;
  std::string_view kind;
  const sql::Calls& (*calls)() noexcept;
  std::span<const sql::Migration> (*migrations)() noexcept;
  std::string_view uninstall;
  std::string_view on_connect;  // settings that the text rules of this folder rely on
  std::string_view commit;
  std::string_view roll_back;       // harmless where the server has rolled back already
  std::string_view install_begin;   // a transaction in which installers take turns
  std::string_view before_install;  // in front of the files, where any is pending; may be empty
  std::string_view after_install;
  bool files_run_again;             // all files where one is pending, or the pending ones alone
  std::string_view is_installed;    // one row, one column: whether there is a table of migrations
  std::string_view version;         // its highest
  std::string_view note_migration;  // $1 version, $2 name
  std::string_view grant;           // $1 role, $2 level
  std::string_view revoke;          // $1 role; empty: no such thing
  // An error ends the transaction: with XACT_ABORT the server has rolled back, and what is sent next would stand outside.
  bool error_ends_transaction;

  std::string begin(const TransactOptions& options) const;
  // The schema's name put in, as an identifier (@schema@) and as a literal (@schema_lit@).
  std::string with_schema(std::string_view text, std::string_view schema) const;
  // The pieces of a script of ours that are sent one by one.
  std::vector<std::string> pieces(std::string_view script) const;
};

// Throws InvalidInput where Termgate has no layer 1 that is reached through ODBC.
const Dialect& dialect_of(Family family);

}  // namespace termgate::inline v0::detail::odbc
