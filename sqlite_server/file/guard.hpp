// What a text from the network may touch, asked of SQLite's authorizer while it is prepared, and what kind of statement it is. Closed are
// the file system, what changes the connection or the durability of its commits, and Termgate's own objects, but for what is listed in
// guard.cpp and pragmas.cpp.
//
// One Guard a connection; the connection's thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace termgate::sqlite_file {

// What a prepared statement is.
struct Facts {
  enum class Kind : std::uint8_t {
    plain,  // SQLite runs it
    begin,  // the next six are never stepped: the stream does them
    commit,
    rollback,
    savepoint,
    release,
    rollback_to,
    setting,  // a PRAGMA that the stream has for itself
    ignored,  // a PRAGMA that is accepted and does nothing
    vacuum
  };
  Kind kind = Kind::plain;
  std::string name;                  // of a savepoint, of a PRAGMA
  std::optional<std::string> value;  // of a PRAGMA
  bool read_only_begin = false;      // BEGIN READONLY, BEGIN TRANSACTION READONLY
  bool locks = false;                // BEGIN IMMEDIATE, BEGIN EXCLUSIVE
  bool writes = false;               // by itself, or through a function
  bool leads = false;                // seals, or takes, renews or gives back a lease
  bool names_claim = false;          // writes through functions alone that are given scope and term
  bool calls_termgate = false;       // a function of Termgate's that writes
  bool inserts = false;
  bool changes_indexes = false;  // which the triggers of protect() go by
  bool changes_schema = false;   // whether it may run depends on the checks that were passed
};

class Guard {
 public:
  // A text is prepared from here to judge(). The authorizer asks may() only in between.
  void begin(std::string_view sql);
  // As sqlite3_set_authorizer() has it: SQLITE_OK, SQLITE_DENY or SQLITE_IGNORE. The name of the trigger, view or common table expression
  // that asks is not among the arguments: anybody may choose it, so it says nothing.
  int may(int action, const char* first, const char* second);
  // What was found of the statement `sql`. `read_only`, `explains`: as SQLite says of it. A text of which SQLite made nothing may be BEGIN
  // READONLY: `failed`. False: it may not be run, because of refusal().
  bool judge(std::string_view sql, bool failed, bool read_only, bool explains);
  const Facts& facts() const noexcept { return facts_; }
  // Empty: nothing was refused.
  const std::string& refusal() const noexcept { return refusal_; }
  // Tables whose definition, triggers or indexes the statement changes. The file says whether one of them is protected.
  struct Change {
    enum class What : std::uint8_t { renames, drops, alters, adds_trigger, indexes } what;
    std::string table;
  };
  const std::vector<Change>& changes() const noexcept { return changes_; }

 private:
  bool pragma(const std::string& name, const char* value);
  void note_function(const std::string& name);
  void note(int action, const std::string& first, const std::string& second);
  bool judge_names(std::string_view sql);
  void judge_words(std::string_view sql);
  int refuse(std::string why);

  Facts facts_;
  std::string refusal_;
  std::vector<Change> changes_;
  bool renames_table_ = false, made_virtual_ = false, calls_other_writer_ = false, pragma_writes_ = false, all_tables_ = false;
};

}  // namespace termgate::sqlite_file
