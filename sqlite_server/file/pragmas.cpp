// Lists of PRAGMAs. Any other but `optimize` is refused, so a newer version of SQLite does not
// allow more by itself.
#include "file/pragmas.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

namespace termgate::sqlite_file {
namespace {

// These read the schema or the file's content, with any argument.
constexpr std::array<std::string_view, 11> readable = {
    "table_info",      "table_xinfo", "table_list",       "index_list",
    "index_info",      "index_xinfo", "foreign_key_list", "foreign_key_check",
    "integrity_check", "quick_check", "collation_list"};
// These are allowed without an argument, and then read something. With one, most would change it.
constexpr std::array<std::string_view, 22> without_argument = {
    "application_id",     "auto_vacuum",       "busy_timeout",   "cache_size",    "compile_options",
    "data_version",       "encoding",          "freelist_count", "function_list", "journal_mode",
    "journal_size_limit", "max_page_count",    "mmap_size",      "module_list",   "page_count",
    "page_size",          "pragma_list",       "schema_version", "synchronous",   "temp_store",
    "user_version",       "wal_autocheckpoint"};
constexpr std::array<std::string_view, 3> settings = {"foreign_keys", "defer_foreign_keys",
                                                      "query_only"};
constexpr std::array<std::string_view, 2> written = {"user_version", "application_id"};
// Drivers send these when they connect. They are ignored, because the server decides about
// durability (F3), memory and waiting.
constexpr std::array<std::string_view, 8> ignored = {
    "busy_timeout", "journal_mode", "synchronous",        "cache_size",
    "temp_store",   "mmap_size",    "journal_size_limit", "wal_autocheckpoint"};
constexpr std::array<std::string_view, 5> answering = {"busy_timeout", "journal_mode", "mmap_size",
                                                       "journal_size_limit", "wal_autocheckpoint"};

template <std::size_t Size>
bool listed(const std::array<std::string_view, Size>& list, std::string_view name) noexcept {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool is(std::string_view text, std::string_view word) noexcept {
  return text.size() == word.size() &&
         sqlite3_strnicmp(text.data(), word.data(), static_cast<int>(word.size())) == 0;
}

}  // namespace

Pragma pragma_kind(std::string_view name, bool has_value) noexcept {
  if (listed(readable, name)) return Pragma::tells;
  if (listed(settings, name)) return Pragma::setting;
  if (name == "optimize") return Pragma::writes;
  if (!has_value) return listed(without_argument, name) ? Pragma::tells : Pragma::refused;
  if (listed(written, name)) return Pragma::writes;
  return listed(ignored, name) ? Pragma::ignored : Pragma::refused;
}

bool pragma_is_table(std::string_view name) noexcept {
  return listed(readable, name) || listed(without_argument, name);
}

bool pragma_answers(std::string_view name) noexcept { return listed(answering, name); }

bool pragma_truth(std::string_view value) noexcept {
  if (is(value, "on") || is(value, "yes") || is(value, "true")) return true;
  int number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number != 0;
}

}  // namespace termgate::sqlite_file
