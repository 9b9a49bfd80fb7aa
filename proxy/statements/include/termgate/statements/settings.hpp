// The settings of a session that decide how a text is read, and the limits on what is parsed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace termgate::statements {

// standard_conforming_strings as the server reported it. `unknown` while a change of it may be on
// its way. Unless it is `on`, a text that the two values read differently is unparsable.
enum class ConformingStrings : std::uint8_t { on, off, unknown };

struct Settings {
  ConformingStrings standard_conforming_strings = ConformingStrings::on;
  // Whether every byte below 0x80 is that ASCII character in the session's client_encoding
  // (encoding_is_ascii_safe). If not, 0x5c may be half of a character and hide where a string ends,
  // so a text with bytes above 0x7f is unparsable.
  bool ascii_safe_encoding = true;
  // Whether search_path finds the server's own functions, operators and types before others of the
  // same name. If not, they count as unknown, except types that are words of the grammar or follow
  // `pg_catalog.`.
  bool own_names_first = true;
  std::size_t parsed_bytes_max = 1u << 20;  // longer texts are not given to the grammar
  std::size_t lexed_bytes_max = 16u << 20;  // longer texts are not lexed
  // In a text with more tokens, only a plain INSERT, UPDATE, DELETE or MERGE is recognized.
  std::size_t tokens_max = 200'000;
  // The schema of layer 1 (`init --schema`), whose functions take scope and term as arguments.
  std::string_view schema = "termgate";
};

// False for SJIS, BIG5, GBK, UHC, GB18030, JOHAB and SHIFT_JIS_2004, which are client encodings
// only, and for unknown names.
bool encoding_is_ascii_safe(std::string_view client_encoding) noexcept;

}  // namespace termgate::statements
