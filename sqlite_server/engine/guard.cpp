// What a text from the network may do to the file, as SQLite's authorizer asks it: an action and up to two
// names. PRAGMAs, modules and Termgate's own functions are allowed by list, so a newer version adds none by
// itself. Pure, any thread.
#include "engine/guard.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "values/forms.hpp"

namespace termgate::sqlite_server {
namespace {

// PRAGMAs that tell something of the schema or the file's content, with whatever argument.
constexpr std::array<std::string_view, 11> readable = {"table_info",      "table_xinfo", "table_list",       "index_list",
                                                       "index_info",      "index_xinfo", "foreign_key_list", "foreign_key_check",
                                                       "integrity_check", "quick_check", "collation_list"};
// Those that tell where they have no argument, and would change something with one.
constexpr std::array<std::string_view, 13> without_argument = {
    "data_version", "journal_mode", "synchronous",    "encoding",       "foreign_keys",    "user_version", "application_id",
    "page_size",    "page_count",   "freelist_count", "schema_version", "compile_options", "function_list"};
// Functions that reach beyond the database, should a build of SQLite have them.
constexpr std::array<std::string_view, 9> outside = {"load_extension", "readfile",      "writefile",       "edit", "fsdir", "lsmode",
                                                     "fts3_tokenizer", "sqlite_offset", "shell_add_schema"};
// Termgate's functions that a user of EXECUTE has on PostgreSQL: the check, writes of its own, leases, reading. Not the operator's.
// The guard is what the triggers of protect() and the fences call; it grants nothing by itself.
constexpr std::array<std::string_view, 18> our_functions = {"termgate_guard_load_termgate_extension_first",
                                                            "termgate_check_term",
                                                            "termgate_seal",
                                                            "termgate_append",
                                                            "termgate_append_many",
                                                            "termgate_claim_write",
                                                            "termgate_acquire_lease",
                                                            "termgate_renew_lease",
                                                            "termgate_renew_leases",
                                                            "termgate_release_lease",
                                                            "termgate_fence",
                                                            "termgate_lease",
                                                            "termgate_outcome",
                                                            "termgate_now",
                                                            "termgate_version",
                                                            "termgate_job_start",
                                                            "termgate_job_heartbeat",
                                                            "termgate_job_finish"};
constexpr std::array<std::string_view, 11> our_readable = {"termgate_fences",         "termgate_leases",   "termgate_streams",
                                                           "termgate_stream_writes",  "termgate_adopted",  "termgate_adopted_terms",
                                                           "termgate_scope_prefixes", "termgate_job_runs", "termgate_audit",
                                                           "termgate_read_stream",    "termgate_here"};
constexpr std::array<std::string_view, 6> modules = {"fts5", "fts4", "fts3", "rtree", "rtree_i32", "geopoly"};
constexpr std::array<std::string_view, 6> closed_tables = {"sqlite_dbpage", "dbstat", "sqlite_stmt", "sqlite_memstat", "fsdir", "csv"};

// SQLite gives NULL for a name that an action has not.
std::string lowered_name(const char* text) { return text == nullptr ? std::string() : lowered(text); }

template <std::size_t Size>
bool among(const std::array<std::string_view, Size>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool is_ours(std::string_view name) { return name.starts_with("termgate_"); }

constexpr std::array<std::string_view, 5> our_reading_functions = {"termgate_fence", "termgate_lease", "termgate_outcome", "termgate_now",
                                                                   "termgate_version"};

}  // namespace

bool function_writes(const char* given) {
  const std::string name = lowered_name(given);
  return name == "nextval" || name == "setval" || (is_ours(name) && !among(our_reading_functions, name));
}

void Named::ask(int action, const char* second) {
  if (action == SQLITE_CREATE_VTABLE) made_virtual_ = true;
  if (action == SQLITE_FUNCTION && second != nullptr && lowered_name(second) == "sqlite_rename_table") renamed_ = true;
}

// What the authorizer is not asked about, because SQLite makes the names later: judged by the text, and
// rather too strictly.
bool Named::may(std::string_view sql, std::string& why) {
  const bool made_virtual = std::exchange(made_virtual_, false), renamed = std::exchange(renamed_, false);
  if (!made_virtual && !renamed) return true;
  const std::string text = lowered(sql);
  // A full-text table prepares statements of its own later, with the names of its arguments in them, past any guard.
  if (made_virtual && (text.find("compress=") != std::string::npos || text.find("termgate") != std::string::npos)) {
    why = "permission denied: a virtual table may name neither a function that compresses nor what is Termgate's";
  } else if (renamed && text.find("termgate_") != std::string::npos) {
    why = "permission denied: names that begin with termgate_ are Termgate's";
  } else {
    return true;
  }
  return false;
}

bool may(int action, const char* first_given, const char* second_given, std::string& why, bool temporary) {
  const std::string first = lowered_name(first_given), second = lowered_name(second_given);
  const auto no = [&](std::string message) {
    why = std::move(message);
    return false;
  };
  switch (action) {
    case SQLITE_ATTACH:
    case SQLITE_DETACH: return no("permission denied: ATTACH, DETACH and VACUUM INTO name files");
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT: return no("permission denied: a transaction is begun and ended by the statements of PostgreSQL");
    case SQLITE_PRAGMA:
      if (among(readable, first) || (second_given == nullptr && among(without_argument, first))) return true;
      return no("permission denied for PRAGMA " + first);
    case SQLITE_FUNCTION:
      if (among(outside, second) || (is_ours(second) && !among(our_functions, second)))
        return no("permission denied for function " + second);
      return true;
    case SQLITE_READ:
      if (first.starts_with("pragma_")) {
        const std::string_view pragma = std::string_view(first).substr(7);
        if (!among(readable, pragma) && !among(without_argument, pragma)) return no("permission denied for table " + first);
        return true;
      }
      if (among(closed_tables, first) || (is_ours(first) && !among(our_readable, first))) return no("permission denied for table " + first);
      return true;
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
      if (is_ours(first)) return no("permission denied for table " + first);
      return true;
    case SQLITE_CREATE_TEMP_TABLE:
    case SQLITE_CREATE_TEMP_VIEW:
    case SQLITE_CREATE_TEMP_INDEX:
      if (!temporary) return no("temporary objects have no place here: sessions share the connections to the file");
      // An index's second name is its table.
      if (is_ours(first) || is_ours(second)) return no("permission denied for " + (is_ours(first) ? first : second));
      return true;
    case SQLITE_CREATE_TEMP_TRIGGER: return no("permission denied: there are no temporary triggers");
    case SQLITE_CREATE_VTABLE:
    case SQLITE_DROP_VTABLE:
      if (!among(modules, second)) return no("permission denied for module " + second);
      // Its own tables are named after it.
      return first.starts_with("termgate") ? no("permission denied for " + first) : true;
    case SQLITE_ALTER_TABLE:
      if (is_ours(second)) return no("permission denied for table " + second);
      return true;
    case SQLITE_CREATE_INDEX:
    case SQLITE_CREATE_TRIGGER:
    case SQLITE_CREATE_TABLE:
    case SQLITE_CREATE_VIEW:
    case SQLITE_DROP_INDEX:
    case SQLITE_DROP_TEMP_INDEX:
    case SQLITE_DROP_TEMP_TABLE:
    case SQLITE_DROP_TABLE:
    case SQLITE_DROP_TRIGGER:
    case SQLITE_DROP_VIEW:
    case SQLITE_ANALYZE:
    case SQLITE_REINDEX:
      // A trigger's or an index's second name is its table.
      if (is_ours(first) || is_ours(second)) return no("permission denied for " + (is_ours(first) ? first : second));
      return true;
    default: return true;
  }
}

}  // namespace termgate::sqlite_server
