// Layer 1 over the owners' own tables: the triggers that guard them, and whether all is as it was
// made. Each class is owned by the connection's Layer1 and used by that connection's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/detail/sqlite/core.hpp>
#include <termgate/detail/sqlite/fences.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

// What the triggers call: those of protect and adopt for each row, and those of layer 1's own
// tables. It runs inside the application's writing statement; a refusal is an exception that fails
// that statement. Its mark, and what it has noted, belong to the open transaction.
class Guards {
 public:
  Guards(Core& core, Fences& fences) : core_(core), fences_(fences) {}

  // The row's value in the scope column, as SQLite passed it.
  struct RowScope {
    enum class Kind { null, text, unfit } kind;
    std::string text;
  };
  // The mark that the trigger read in its own file, so that an attached file's trigger is not taken
  // for the main database's. nullopt from a trigger of an earlier version, which passes nothing.
  struct Handed {
    std::optional<std::int64_t> mark;  // NULL if no file is attached
  };
  // Called by the trigger first: true if it must read the mark. Writes a mark of this transaction
  // into the main database.
  bool arm();
  // Throws TG005 unless the trigger belongs to the main database. `table`: for the message.
  void require_here(std::string_view table, const std::optional<Handed>& handed);
  void row(std::string_view table, const RowScope& row);
  void any(std::string_view table);  // '*': any scope that the transaction has passed
  void observe_row(std::string_view table, const std::optional<RowScope>& row,
                   const std::optional<Handed>& handed) noexcept;
  void adopted(std::string_view table, const RowScope& row, std::optional<std::int64_t> term);
  // These three are called by the triggers of the fences.
  void changed() { fences_.changed(); }
  void raise(std::string_view scope, std::int64_t term);
  bool lower(std::string_view scope, std::int64_t term);
  void replace(std::string_view table);
  // Called BEFORE INSERT if a row with the rowid -1 exists. The trigger cannot know whether the new
  // row really has that rowid, because SQLite also shows -1 for one that it is about to choose. The
  // AFTER INSERT trigger knows it, and calls noted().
  void note_perhaps(std::string_view table, const RowScope& row) {
    perhaps_.insert_or_assign(std::string(table), row);
  }
  void noted(std::string_view table);

  void begin_transaction() noexcept { perhaps_.clear(); }
  void transaction_ended() noexcept {
    mark_.reset();
    perhaps_.clear();
  }

 private:
  bool attached();
  void require_trigger();
  void require_adopted(std::string_view table);

  Core& core_;
  Fences& fences_;
  std::optional<std::int64_t> mark_;  // what the open transaction has written into termgate_here
  std::map<std::string, RowScope, std::less<>> perhaps_;  // by protected table
};

// protect and adopt: makes the triggers of the owners' tables.
class Tables {
 public:
  using Triggers = std::vector<std::pair<std::string, std::string>>;  // names and texts
  // What the names of the triggers begin with.
  static constexpr std::string_view protect_prefix = "termgate_protect_";
  static constexpr std::string_view adopt_prefix = "termgate_adopt_";

  Tables(Core& core, Fences& fences) : core_(core), fences_(fences) {}

  std::int64_t protect(const std::string& target, const std::optional<std::string>& scope_column,
                       const std::optional<std::string>& scope, const std::string& mode,
                       const std::string& prefix = {});
  bool unprotect(const std::string& target);
  std::int64_t adopt(const std::string& target, const std::string& scope_column,
                     const std::string& term_column, const std::string& prefix = {});
  bool unadopt(const std::string& target);

  struct Column {
    std::string name, type;
    bool key, generated, not_null;
    std::optional<std::string> default_text;  // as SQL
  };
  struct Table {
    std::string name, sql;
    std::vector<Column> columns;
    bool without_rowid;
  };
  // Throws InvalidInput if it is no ordinary table; `what`: for the message.
  Table find(const std::string& target, const char* what);
  Triggers protect_triggers(const Table& table, const std::optional<std::string>& scope_column,
                            const std::optional<std::string>& scope, const std::string& mode);
  Triggers adopt_triggers(const Table& table, const std::string& scope_column,
                          const std::string& term_column);
  // made_by is 'adopt' or 'protect'.
  std::string scope_prefix(std::string_view made_by, std::string_view table);
  // The tables whose triggers do not match their columns and indexes; with `mend` these are
  // recreated, in the caller's transaction.
  std::vector<std::string> outdated_triggers(bool mend);

 private:
  static bool filled_late(const Column& column);
  bool changed_beneath(const Table& table);
  static std::string enters(const Table& table, const std::string& condition,
                            const std::string& rowid);
  const Column& find_column(const Table& table, const std::string& name);
  void set_scope_prefix(std::string_view made_by, std::string_view table, std::string_view prefix);
  void drop_triggers(const std::string& table, std::string_view prefix);
  // Throws if the tables are of an earlier version, which lacks a table that our triggers read.
  void require_version(const char* what);

  Core& core_;
  Fences& fences_;
};

// Installs and removes layer 1: numbered migrations.
class Setup {
 public:
  Setup(Core& core, Fences& fences, Tables& tables)
      : core_(core), fences_(fences), tables_(tables) {}

  struct Installed {
    int from_version, to_version;
  };
  Installed install();
  void uninstall();
  // Refused inside a transaction.
  void uninstall(const std::string& actor, const std::string& reason);
  // A part that this version's migrations would create and that this database lacks.
  struct Part {
    std::string name;
    bool table;
  };
  std::vector<Part> missing_parts();

 private:
  void alter_columns();

  Core& core_;
  Fences& fences_;
  Tables& tables_;
};

// Whether the database is as layer 1 made it, and what stale writers have left in it.
class Doctor {
 public:
  Doctor(Core& core, Tables& tables, Setup& setup) : core_(core), tables_(tables), setup_(setup) {}

  struct Advice {
    std::string severity, object, problem, remedy;
  };
  std::vector<Advice> look();
  struct Breach {
    std::string kind, scope, object, detail;
  };
  std::vector<Breach> verify(Moment since);

 private:
  using Findings = std::vector<Advice>;
  // The parts of look() by subject; each adds to the findings.
  void untrusted(Findings& findings);
  void triggers(Findings& findings, const std::string& table, std::string_view prefix,
                Tables::Triggers wanted, const std::string& again);
  void protected_tables(Findings& findings);
  void adopted_tables(Findings& findings);
  void uncovered_tables(Findings& findings);
  void leases(Findings& findings);
  void attached_files(Findings& findings);
  void connection(Findings& findings);
  std::vector<std::optional<std::string>> with_prefix(
      std::string_view made_by, std::string_view table,
      std::vector<std::optional<std::string>> arguments);

  Core& core_;
  Tables& tables_;
  Setup& setup_;
};

// `name` as a quoted identifier: the only way that a name gets into a statement's text.
std::string quoted_identifier(std::string_view name);
std::string quoted_literal(std::string_view text);

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
