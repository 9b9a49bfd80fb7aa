// What a session carries out itself instead of SQLite: settings, transactions, cursors, COPY and their like, parsed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace termgate::dialect {

struct Translated;

// SET, RESET. Without values: to the default. `name` "all" is RESET ALL. SET TRANSACTION and SET SESSION CHARACTERISTICS are
// BeginModes' business: see SetTransaction.
struct SetVariable {
  std::string name;
  std::vector<std::string> values;
  bool local = false;
};
struct ShowVariable {
  std::string name;
};  // "all": every one

struct TransactionModes {
  std::optional<std::string> isolation;  // "serializable", "read committed", …
  std::optional<bool> read_only;
  std::optional<bool> deferrable;
};
struct SetTransaction {
  TransactionModes modes;
  bool session = false;  // SESSION CHARACTERISTICS
};
struct TransactionControl {
  enum class What : std::uint8_t { begin, commit, rollback, savepoint, release, rollback_to };
  What what = What::begin;
  bool chain = false;
  std::string savepoint;
  TransactionModes modes;
};

struct Copy {
  bool from = false;                 // FROM STDIN; else TO STDOUT
  std::string table;                 // as SQLite text, quoted where need be; empty where there is a `query`
  std::string relation;              // the same as Relations::find() takes it
  std::vector<std::string> columns;  // their names, not quoted
  std::shared_ptr<Translated> query;
  std::string where;  // COPY … FROM … WHERE, as SQLite text
  enum class Format : std::uint8_t { text, csv, binary };
  Format format = Format::text;
  char delimiter = '\t';
  char quote = '"';
  char escape = '"';
  std::string null;
  bool header = false;
  bool header_match = false;
  std::optional<std::vector<std::string>> force_quote;  // empty vector: every column
  std::vector<std::string> force_not_null;
  std::vector<std::string> force_null;
  std::string encoding;
};

struct Explain {
  bool analyze = false;
  std::string format = "text";
  std::shared_ptr<Translated> statement;
};
struct Vacuum {
  bool analyze = false;
  bool vacuum = true;  // false: ANALYZE alone
  bool full = false;
  std::vector<std::string> tables;
};

struct DeclareCursor {
  std::string name;
  bool binary = false;
  bool scroll = false;
  bool hold = false;
  std::shared_ptr<Translated> query;
};
struct FetchCursor {
  enum class Direction : std::uint8_t { forward, backward, absolute, relative };
  std::string name;
  Direction direction = Direction::forward;
  std::int64_t count = 1;  // all: the largest value
  bool move = false;
};
struct CloseCursor {
  std::string name;
};  // empty: all

struct PrepareStatement {
  std::string name;
  std::shared_ptr<Translated> statement;  // its `parameters` are the types that were given
};
struct ExecuteStatement {
  std::string name;
  std::vector<std::string> arguments;  // SQLite expressions
};
struct Deallocate {
  std::string name;
};  // empty: all

struct Discard {
  enum class What : std::uint8_t { all, plans, sequences, temporary };
  What what = What::all;
};
struct Listen {
  std::string channel;
};
struct Unlisten {
  std::string channel;
};  // empty: all
struct Notify {
  std::string channel;
  std::string payload;
};
struct Checkpoint {};

using Utility =
    std::variant<std::monostate, SetVariable, ShowVariable, SetTransaction, TransactionControl, Copy, Explain, Vacuum, DeclareCursor,
                 FetchCursor, CloseCursor, PrepareStatement, ExecuteStatement, Deallocate, Discard, Listen, Unlisten, Notify, Checkpoint>;

}  // namespace termgate::dialect
