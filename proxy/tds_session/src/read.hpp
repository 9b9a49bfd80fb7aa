// Whether a T-SQL text surely only reads (--without-term read-only). SQL Server has no read-only transaction that would stop what is
// wrongly taken for a read, so every rule here refuses what it does not know.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lexer.hpp"

namespace termgate::tds_session {

// `tokens`: from the first word that is no setting to the end. They are one or more SELECTs, each perhaps behind DECLARE or WITH.
bool surely_reads(std::span<const Token> tokens) noexcept;
// Whether they are variables of the server's own types, with a comma between two, and perhaps with values that are no calls.
bool declares_values(std::span<const Token> tokens) noexcept;

// Whether a word, in small letters, is reserved in T-SQL.
bool is_reserved(std::string_view word) noexcept;

}  // namespace termgate::tds_session
