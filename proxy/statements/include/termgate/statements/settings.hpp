// What a session's own settings make of a text before any grammar sees it, and the bounds of what is looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace termgate::statements {

// standard_conforming_strings as the server reported it. `unknown` while a change of it may be on its way: a text that the two
// read differently is then unparsable.
enum class ConformingStrings : std::uint8_t { on, off, unknown };

struct Settings {
  ConformingStrings standard_conforming_strings = ConformingStrings::on;
  // Whether every byte below 0x80 is that ASCII character in the session's client_encoding (encoding_is_ascii_safe). Where it is
  // not, 0x5c may be half of a letter and hide where a string ends, and a text with bytes above 0x7f is unparsable.
  bool ascii_safe_encoding = true;
  // Whether search_path finds the server's own functions, operators and types before others of the same name. Where it does not, none of
  // them is known.
  bool own_names_first = true;
  std::size_t parsed_bytes_max = 1u << 20;  // longer texts are not given to the grammar
  std::size_t lexed_bytes_max = 16u << 20;  // longer texts are not looked at
  std::size_t tokens_max = 200'000;         // of texts with more, only a plain INSERT, UPDATE, DELETE or MERGE is known as such
  // Where layer 1 lives (`init --schema`): whose functions carry their own scope and term.
  std::string_view schema = "termgate";
};

// False for SJIS, BIG5, GBK, UHC, GB18030, JOHAB and SHIFT_JIS_2004, which are client encodings only, and for unknown names.
bool encoding_is_ascii_safe(std::string_view client_encoding) noexcept;

}  // namespace termgate::statements
