// Names and constants as SQLite reads them.
#pragma once

#include <string>
#include <string_view>

namespace termgate::dialect {

// As it is where SQLite takes it so, else in double quotes.
std::string quoted_name(std::string_view name);
std::string quoted_text(std::string_view text);
std::string lowered(std::string_view text);
// Every word that SQLite's parser knows, lower case.
bool is_sqlite_keyword(std::string_view lower_case) noexcept;

}  // namespace termgate::dialect
