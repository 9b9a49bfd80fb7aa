// Whether a T-SQL text certainly only reads (--without-term read-only). SQL Server has no read-only
// transaction that would stop a write taken for a read, so whatever is not known here counts as a
// write.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lexer.hpp"

namespace termgate::tds_session {

// `tokens`: from the first word that does not belong to a setting to the end. True: they are one or
// more SELECTs, each perhaps after DECLARE or WITH.
bool surely_reads(std::span<const Token> tokens) noexcept;
// Whether the tokens declare variables of built-in types, separated by commas, perhaps with values
// that call nothing.
bool declares_values(std::span<const Token> tokens) noexcept;

// Whether a word, in lower case, is reserved in T-SQL.
bool is_reserved(std::string_view word) noexcept;

}  // namespace termgate::tds_session
