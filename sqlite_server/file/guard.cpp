// What a text from the network may do to the file. SQLite's authorizer presents it as an action and
// up to two names. Modules and Termgate's own functions are allowed by list, so a newer version
// does not allow more by itself.
#include "file/guard.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <termgate/text/ascii.hpp>
#include <termgate/text/scanner.hpp>

#include "file/pragmas.hpp"

namespace termgate::sqlite_file {
namespace {

// Functions that reach beyond the database, in case a build of SQLite has them.
constexpr std::array<std::string_view, 9> outside = {
    "load_extension", "readfile",      "writefile",       "edit", "fsdir", "lsmode",
    "fts3_tokenizer", "sqlite_offset", "shell_add_schema"};
constexpr std::array<std::string_view, 6> modules = {"fts5",  "fts4",      "fts3",
                                                     "rtree", "rtree_i32", "geopoly"};
constexpr std::array<std::string_view, 6> closed_tables = {
    "sqlite_dbpage", "dbstat", "sqlite_stmt", "sqlite_memstat", "fsdir", "csv"};
constexpr std::array<std::string_view, 12> our_readable = {
    "termgate_fences",         "termgate_leases",   "termgate_streams",
    "termgate_stream_writes",  "termgate_adopted",  "termgate_adopted_terms",
    "termgate_scope_prefixes", "termgate_job_runs", "termgate_audit",
    "termgate_read_stream",    "termgate_here",     "termgate_hand_overs"};

// The four lists below have the functions that a user with EXECUTE has on PostgreSQL: the check,
// Termgate's writes, leases, jobs, reading; not those for operators. The first list has those that
// write nothing.
constexpr std::array<std::string_view, 7> our_reading = {
    "termgate_fence",   "termgate_lease",   "termgate_outcome", "termgate_now",
    "termgate_version", "termgate_declare", "termgate_leave_in"};
// Functions that take scope and term, or check by themselves.
constexpr std::array<std::string_view, 10> our_claiming = {
    "termgate_check_term",       "termgate_seal",         "termgate_append",
    "termgate_append_many",      "termgate_claim_write",  "termgate_acquire_lease",
    "termgate_renew_lease",      "termgate_renew_leases", "termgate_release_lease",
    "termgate_request_hand_over"};
// Functions that change who leads.
constexpr std::array<std::string_view, 6> our_leading = {
    "termgate_seal",         "termgate_acquire_lease", "termgate_renew_lease",
    "termgate_renew_leases", "termgate_release_lease", "termgate_request_hand_over"};
// Called by the triggers of protect() and of the fences; it grants nothing by itself.
constexpr std::string_view guard_function = "termgate_guard_load_termgate_extension_first";
constexpr std::array<std::string_view, 6> our_others = {
    guard_function,        "termgate_job_start",   "termgate_job_heartbeat",
    "termgate_job_finish", "termgate_job_request", "termgate_job_take"};

template <std::size_t Size>
bool among(const std::array<std::string_view, Size>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// SQLite passes NULL for a name that an action does not have.
std::string lowered_name(const char* text) {
  return text == nullptr ? std::string() : text::lower(text);
}

bool is_ours(std::string_view name) { return name.starts_with("termgate_"); }
bool is_our_function(std::string_view name) {
  return among(our_reading, name) || among(our_claiming, name) || among(our_others, name);
}

}  // namespace

// ANALYZE and REINDEX of all tables include Termgate's, and SQLite calls the authorizer for each.
void Guard::begin(std::string_view sql) {
  *this = Guard();
  const auto words = text::first_pieces(sql, text::Dialect::sqlite, 2, false);
  all_tables_ = words.size() == 1 && (words[0] == "analyze" || words[0] == "reindex");
}

int Guard::refuse(std::string why) {
  if (refusal_.empty()) refusal_ = std::move(why);
  return SQLITE_DENY;
}

bool Guard::pragma(const std::string& name, const char* value) {
  switch (pragma_kind(name, value != nullptr)) {
    case Pragma::tells: return true;
    case Pragma::writes: pragma_writes_ = true; return true;
    case Pragma::setting: facts_.kind = Facts::Kind::setting; break;
    case Pragma::ignored: facts_.kind = Facts::Kind::ignored; break;
    case Pragma::refused:
      refuse("not authorized: PRAGMA " + name + (value != nullptr ? " with a value" : ""));
      return false;
  }
  facts_.name = name;
  if (value != nullptr) facts_.value = value;
  return true;
}

void Guard::note_function(const std::string& name) {
  if (name == "sqlite_rename_table") renames_table_ = true;
  if (!is_ours(name) || among(our_reading, name)) return;
  // The triggers of protect() call the guard function, so it says nothing about the statement.
  if (name != guard_function) facts_.calls_termgate = true;
  if (among(our_leading, name)) facts_.leads = true;
  if (!among(our_claiming, name)) calls_other_writer_ = true;
}

void Guard::note(int action, const std::string& first, const std::string& second) {
  using What = Change::What;
  switch (action) {
    case SQLITE_INSERT: facts_.inserts = true; break;
    case SQLITE_CREATE_VTABLE: made_virtual_ = true; break;
    case SQLITE_ALTER_TABLE:
      changes_.push_back({What::alters, second});
      facts_.changes_indexes = true;
      break;
    case SQLITE_DROP_TABLE: changes_.push_back({What::drops, first}); break;
    case SQLITE_CREATE_TRIGGER:
    case SQLITE_DROP_TRIGGER: changes_.push_back({What::adds_trigger, second}); break;
    case SQLITE_CREATE_INDEX:
    case SQLITE_DROP_INDEX:
      changes_.push_back({What::indexes, second});
      facts_.changes_indexes = true;
      break;
    default: break;
  }
}

// Long: the authorizer's table of actions.
int Guard::may(int action, const char* first_given, const char* second_given) {
  using Kind = Facts::Kind;
  const std::string first = lowered_name(first_given), second = lowered_name(second_given);
  note(action, first, second);
  switch (action) {
    case SQLITE_ATTACH:
    case SQLITE_DETACH: return refuse("not authorized: ATTACH, DETACH and VACUUM INTO name files");
    case SQLITE_TRANSACTION:
      facts_.kind = first == "begin"    ? Kind::begin
                    : first == "commit" ? Kind::commit
                                        : Kind::rollback;
      return SQLITE_OK;
    case SQLITE_SAVEPOINT:
      facts_.kind = first == "begin"     ? Kind::savepoint
                    : first == "release" ? Kind::release
                                         : Kind::rollback_to;
      facts_.name = second_given != nullptr ? second_given : "";
      return SQLITE_OK;
    case SQLITE_PRAGMA:
      if (!pragma(first, second_given)) return SQLITE_DENY;
      // A PRAGMA that sets a flag takes effect while it is prepared, unless it is ignored here.
      return facts_.kind == Kind::plain ? SQLITE_OK : SQLITE_IGNORE;
    case SQLITE_FUNCTION:
      note_function(second);
      if (among(outside, second) || (is_ours(second) && !is_our_function(second)))
        return refuse("not authorized to use function: " + second);
      return SQLITE_OK;
    case SQLITE_READ:
      if (first.starts_with("pragma_") && !pragma_is_table(std::string_view(first).substr(7)))
        return refuse("not authorized to read " + first);
      if (among(closed_tables, first) || (is_ours(first) && !among(our_readable, first)))
        return refuse("not authorized to read " + first);
      return SQLITE_OK;
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
      return is_ours(first) ? refuse("not authorized to write to " + first +
                                     ": it is written by Termgate alone")
                            : SQLITE_OK;
    case SQLITE_CREATE_TEMP_TABLE:
    case SQLITE_CREATE_TEMP_VIEW:
    case SQLITE_CREATE_TEMP_INDEX:
    case SQLITE_CREATE_TEMP_TRIGGER:
      return refuse(
          "not authorized: temporary tables, views, indexes and triggers, because streams share "
          "the connections to the file");
    case SQLITE_CREATE_VTABLE:
    case SQLITE_DROP_VTABLE:
      if (!among(modules, second)) return refuse("not authorized to use module: " + second);
      // The shadow tables of a virtual table are named after it.
      return first.starts_with("termgate")
                 ? refuse("not authorized: names that begin with termgate are Termgate's")
                 : SQLITE_OK;
    case SQLITE_ALTER_TABLE:
      return is_ours(second) ? refuse("not authorized to alter " + second) : SQLITE_OK;
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
      // For a trigger or an index, the second name is its table.
      if (is_ours(first) || is_ours(second))
        return refuse("not authorized: " + (is_ours(first) ? first : second) + " is Termgate's");
      return SQLITE_OK;
    case SQLITE_ANALYZE:
    case SQLITE_REINDEX:
      if (all_tables_ || (!is_ours(first) && !is_ours(second))) return SQLITE_OK;
      return refuse("not authorized: " + (is_ours(first) ? first : second) + " is Termgate's");
    default: return SQLITE_OK;
  }
}

// Judges names that SQLite makes later, for which the authorizer is not called. It searches the
// text, and refuses too much rather than too little.
bool Guard::judge_names(std::string_view sql) {
  if (!made_virtual_ && !renames_table_) return true;
  const std::string text = text::lower(sql);
  // A full-text table later prepares statements that contain the names of its arguments, without
  // any guard.
  if (made_virtual_ &&
      (text.find("compress=") != std::string::npos || text.find("termgate") != std::string::npos)) {
    refuse(
        "not authorized: a virtual table may name neither a function that compresses nor what is "
        "Termgate's");
  } else if (renames_table_ && text.find("termgate_") != std::string::npos) {
    refuse("not authorized: names that begin with termgate_ are Termgate's");
  } else {
    return true;
  }
  return false;
}

// Judges the words of BEGIN and of VACUUM, for which the authorizer gets no details.
void Guard::judge_words(std::string_view sql) {
  using Kind = Facts::Kind;
  const auto words = text::first_pieces(sql, text::Dialect::sqlite, 5, false);
  if (facts_.kind == Kind::begin) {
    facts_.read_only_begin = words.size() >= 2 && words.size() <= 3 && words.back() == "readonly";
  } else if (!words.empty() && words[0] == "vacuum") {
    facts_.kind = Kind::vacuum;
    if (words.size() > 2 || (words.size() == 2 && words[1] != "main" && words[1] != "\"main\""))
      refuse("not authorized: VACUUM INTO names a file, and there is no schema but main");
  }
}

bool Guard::judge(std::string_view sql, bool failed, bool read_only, bool explains) {
  using Kind = Facts::Kind;
  if (!refusal_.empty()) return false;
  if (failed) {
    if (facts_.kind != Kind::begin) return false;
    judge_words(sql);
    const auto words = text::first_pieces(sql, text::Dialect::sqlite, 2, false);
    if (words.size() == 2 && words[1] == "concurrent")
      refuse(
          "BEGIN CONCURRENT is not supported: SQLite has one writer at a time; use BEGIN or BEGIN "
          "IMMEDIATE");
    return facts_.read_only_begin;
  }
  if (explains) {
    facts_ = Facts();
    return true;
  }
  if (facts_.kind == Kind::plain || facts_.kind == Kind::begin) {
    if (facts_.kind == Kind::begin || !read_only) judge_words(sql);
    facts_.locks = facts_.kind == Kind::begin && !read_only;
    facts_.writes = facts_.kind != Kind::begin &&
                    (!read_only || facts_.calls_termgate || calls_other_writer_ || pragma_writes_);
    facts_.names_claim =
        read_only && facts_.calls_termgate && !calls_other_writer_ && !pragma_writes_;
  }
  if (renames_table_) {
    for (Change& each : changes_) each.what = Change::What::renames;
  }
  facts_.changes_schema = !changes_.empty();
  return refusal_.empty() && judge_names(sql);
}

}  // namespace termgate::sqlite_file
