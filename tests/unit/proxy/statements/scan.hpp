// PostgreSQL's scanner (libpg_query's, of major 15) as the second opinion on our lexer.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <pg_query.h>

#include "lexer.hpp"

namespace termgate::statements {

// Tokens of pg_query_scan as (begin, end), comments left out; false where it refuses the text.
// Reads as much protobuf as the result has: field 2 is a token with fields 1 start, 2 end, 4 token,
// 5 kind of keyword.
inline bool scanned(const std::string& sql, std::vector<std::pair<std::size_t, std::size_t>>& out) {
  const PgQueryScanResult result = pg_query_scan(sql.c_str());
  const bool good = result.error == nullptr;
  out.clear();
  if (good) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(result.pbuf.data);
    std::size_t at = 0;
    const auto number = [&](std::size_t end) {
      std::uint64_t value = 0;
      for (unsigned shift = 0; at < end; shift += 7) {
        const unsigned char byte = bytes[at++];
        value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) break;
      }
      return value;
    };
    while (at < result.pbuf.len) {
      const std::uint64_t key = number(result.pbuf.len);
      if ((key & 7) == 0) {
        number(result.pbuf.len);
        continue;
      }
      const std::size_t length = number(result.pbuf.len);
      const std::size_t end = at + length;
      if (key >> 3 != 2) {
        at = end;
        continue;
      }
      std::size_t fields[6] = {};
      while (at < end) {
        const std::uint64_t field = number(end) >> 3;
        const std::uint64_t value = number(end);
        if (field < 6) fields[field] = value;
      }
      constexpr std::size_t sql_comment = 275;
      constexpr std::size_t c_comment = 276;
      if (fields[4] != sql_comment && fields[4] != c_comment)
        out.emplace_back(fields[1], fields[2]);
    }
  }
  pg_query_free_scan_result(result);
  return good;
}

// PostgreSQL goes on with a string after white space with a comment and a line's end in it. The
// library, which makes tokens of comments, does not, and so is no judge of such a text (a server of
// major 15 was asked: ours is the one that is right).
inline bool beyond_the_library(const std::string& sql) {
  Lexed lexed;
  lex(sql, {}, lexed);
  for (const Token& token : lexed.tokens) {
    const bool quoted = token.type == TokenType::string || token.type == TokenType::escape_string ||
                        token.type == TokenType::unicode_string ||
                        token.type == TokenType::bit_string;
    if (quoted && text_of(sql, token).find("--") != std::string_view::npos) return true;
  }
  return false;
}

// Why our tokens cannot be right, or empty. Ours may refuse more, and cut operators, `:=`, `::`,
// `..` and N'' otherwise. Ends are not compared: of strings in pieces and of U&'' theirs says the
// end of the first piece. Where the next token begins says it better.
inline std::string scanner_objection(const std::string& sql) {
  if (beyond_the_library(sql)) return {};
  Lexed lexed;
  lex(sql, {}, lexed);
  if (lexed.problem != Lexed::Problem::none) return {};
  std::vector<std::pair<std::size_t, std::size_t>> theirs;
  if (!scanned(sql, theirs)) return {};
  std::vector<char> starts(sql.size() + 1, 0);
  std::vector<char> within(sql.size() + 1, 0);  // of a token of theirs that begins with : or .
  for (const auto& [begin, end] : theirs) {
    if (begin > end || end > sql.size()) return "their token lies beyond the text";
    starts[begin] = 1;
    for (std::size_t i = begin; i < end && (sql[begin] == ':' || sql[begin] == '.'); ++i)
      within[i] = 1;
  }
  std::size_t last = 0;
  for (const Token& token : lexed.tokens) {
    for (std::size_t i = last; i < token.offset; ++i) {
      if (starts[i] != 0)
        return "a token of theirs at " + std::to_string(i) + " that is none of ours";
    }
    if (starts[token.offset] == 0 && within[token.offset] == 0)
      return "no token of theirs begins at " + std::to_string(token.offset);
    last = token.offset + token.length;
    const bool ours_is_larger = token.type == TokenType::operation ||
                                (token.type == TokenType::string && sql[token.offset] != '\'');
    for (std::size_t i = token.offset + 1; i < last && !ours_is_larger; ++i) {
      if (starts[i] != 0) return "a token of theirs at " + std::to_string(i) + " inside of ours";
    }
  }
  for (std::size_t i = last; i < sql.size(); ++i) {
    if (starts[i] != 0) return "a token of theirs at " + std::to_string(i) + " after our last";
  }
  return {};
}

}  // namespace termgate::statements
