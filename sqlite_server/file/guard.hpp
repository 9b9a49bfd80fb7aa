// Decides what a text from the network may touch, through SQLite's authorizer while it is prepared,
// and finds out what kind of statement it is. Forbidden are the file system, changes of the
// connection or of the durability of its commits, and Termgate's own objects, with the exceptions
// listed in guard.cpp and pragmas.cpp.
//
// There is one Guard for each connection, used on the connection's thread.
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
    begin,  // SQLite never runs this or the next five: the session does
    commit,
    rollback,
    savepoint,
    release,
    rollback_to,
    setting,  // a PRAGMA that the stream keeps for itself
    ignored,  // a PRAGMA that is accepted and does nothing
    vacuum
  };
  Kind kind = Kind::plain;
  std::string name;                  // of a savepoint or a PRAGMA
  std::optional<std::string> value;  // of a PRAGMA
  bool read_only_begin = false;      // BEGIN READONLY, BEGIN TRANSACTION READONLY
  bool locks = false;                // BEGIN IMMEDIATE, BEGIN EXCLUSIVE
  bool writes = false;               // by itself, or through a function
  bool leads = false;                // seals, or does something to a lease
  bool names_claim = false;          // writes only through functions that take scope and term
  bool calls_termgate = false;       // calls one of Termgate's functions that write
  bool inserts = false;
  bool changes_indexes = false;  // the triggers of protect() depend on indexes
  bool changes_schema = false;   // whether it may run depends on the checks that were passed
};

class Guard {
 public:
  // Starts the preparation of a text, which ends with judge(). SQLite calls may() in between.
  void begin(std::string_view sql);
  // The callback for sqlite3_set_authorizer(): SQLITE_OK, SQLITE_DENY or SQLITE_IGNORE. The name of
  // the trigger, view or common table expression that causes the access is not used: anybody may
  // choose it, so it proves nothing.
  int may(int action, const char* first, const char* second);
  // Judges the statement `sql` by what the authorizer saw. `read_only` and `explains` come from
  // SQLite. `failed`: SQLite could not prepare the text, which may be BEGIN READONLY. False: it
  // must not run, for the reason in refusal(), or for SQLite's own if that is empty.
  bool judge(std::string_view sql, bool failed, bool read_only, bool explains);
  const Facts& facts() const noexcept { return facts_; }
  // Empty: nothing was refused.
  const std::string& refusal() const noexcept { return refusal_; }
  // Tables whose definition, triggers or indexes the statement changes. Whether one of them is
  // protected must be read from the file.
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
  bool renames_table_ = false, made_virtual_ = false, calls_other_writer_ = false,
       pragma_writes_ = false, all_tables_ = false;
};

}  // namespace termgate::sqlite_file
