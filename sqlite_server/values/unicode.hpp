// Letters beyond ASCII, as a PostgreSQL with the locale C.UTF-8 has them: by glibc's tables, one character for one.
#pragma once

#include <string>
#include <string_view>

namespace termgate::sqlite_server {

bool is_ascii(std::string_view text) noexcept;
// Characters of a UTF-8 text and back; a byte that is none is taken for the character of its number.
std::wstring wide(std::string_view text);
std::string narrow(std::wstring_view text);
// 0A000 where the system does not have the locale.
std::string upper_text(std::string_view text);
std::string lower_text(std::string_view text);
std::string initcap_text(std::string_view text);

}  // namespace termgate::sqlite_server
