// PostgreSQL's SQL written out as SQLite's. A text goes through PostgreSQL 15's own grammar; each of its statements becomes the
// SQLite text that means the same, or a struct for what a session carries out itself, or an error that names what has no
// counterpart. README.md is the table of what becomes what.
//
// Pure: no I/O, no database, no clock; any thread, and a stack of 2 MB is enough for any text. What only the database knows (the
// columns of a table, their declared types) stays open here: `Column::star`, type 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <termgate/dialect/sql_error.hpp>
#include <termgate/dialect/utility.hpp>

namespace termgate::dialect {

// Of pg_type; 0 is unknown.
using Oid = std::uint32_t;

struct Column {
  bool star = false;  // `*` or `t.*`: as many columns as the relation has; name and type are empty
  std::string name;   // what PostgreSQL would call it
  Oid type = 0;       // where the text says it
  std::int32_t typmod = -1;
};

enum class Effect : std::uint8_t {
  read,        // rows, nothing written
  write,       // INSERT, UPDATE, DELETE, TRUNCATE
  definition,  // changes the schema
  utility,     // `utility` says what; no SQL
  none,        // accepted and without effect here (GRANT, COMMENT, LOCK TABLE)
};

// The name of the CHECKs that hold each column's values to its type's form. The catalog shows none of them.
inline constexpr std::string_view stored_check_name = "pg_stored";

// Within the text of a unique index that ALTER TABLE … ADD CONSTRAINT made, after its name: the catalog shows it as a constraint.
inline constexpr std::string_view added_constraint_mark = " /* constraint */";

// What translate() asks about the file. With it, statements about the file's own tables are typed by PostgreSQL's rules; without it,
// and for statements about the catalog alone, they are translated by their text.
class Relations {
 public:
  struct RelationColumn {
    std::string name;
    Oid type = 0;  // 0: a view's expression, whose type nothing tells
    std::int32_t typmod = -1;
    bool generated = false;  // only DEFAULT may be given for it
    bool not_null = false;
    bool computed = false;  // GENERATED ALWAYS AS (expression)
  };
  struct Relation {
    std::string name;
    bool catalog = false;  // of pg_catalog or information_schema
    bool rowid = false;    // has SQLite's own column of that name
    std::vector<RelationColumn> columns;
    std::vector<std::size_t> key;  // the primary key's, by place
    // Of a table of the file's: its text in parts, so that ALTER TABLE can write it anew.
    struct Clause {
      char kind = 0;     // n NOT NULL, 0 NULL, d DEFAULT, c CHECK, s the CHECK of the stored form, u UNIQUE, p PRIMARY KEY, f REFERENCES, o
                         // COLLATE, g GENERATED, ? other
      std::string name;  // of a constraint, as the catalog shows it
      std::string text;
      std::vector<std::string> names;    // what it mentions, lower case
      std::vector<std::string> columns;  // of UNIQUE, PRIMARY KEY and FOREIGN KEY, lower case
    };
    struct Item {
      std::string column;  // empty: a constraint of the table's own
      std::string type;    // as it is written
      std::vector<Clause> clauses;
    };
    struct Index {
      std::string name, sql;
      std::vector<std::string> columns;    // lower case; empty: an expression
      bool unique = false, whole = false;  // whole: of columns alone, and without a condition
      std::vector<std::string> names;      // what it mentions, lower case
      bool is_constraint() const { return unique && whole && sql.find(added_constraint_mark) != std::string::npos; }
    };
    struct Foreign {
      std::string table, constraint;
      std::vector<std::string> columns;  // of this table
      char on_update = 'a', on_delete = 'a';
    };
    char kind = 'r';
    bool temporary = false;                                                 // the session's own
    std::string sql;                                                        // of CREATE TABLE
    std::vector<Item> items;                                                // empty: the text could not be read
    std::string tail;                                                       // after the last parenthesis
    std::vector<Index> indexes;                                             // that CREATE INDEX made
    std::vector<Foreign> others;                                            // foreign keys that refer to it
    std::vector<std::pair<std::string, std::vector<std::string>>> readers;  // views and triggers that mention it, and what they mention
    bool counted = false;                                                   // its key counts
  };
  virtual ~Relations() = default;
  // By a name as SQLite calls it, any case; nullptr: there is none.
  virtual const Relation* find(std::string_view name) const = 0;
  // An index that CREATE INDEX made.
  virtual const Relation::Index* find_index(std::string_view) const { return nullptr; }
  // The table that has a constraint of that name; nullptr: none.
  virtual const Relation* owner_of_constraint(std::string_view) const { return nullptr; }
  // A constant of that type as SQLite text, converted as PostgreSQL's input function does.
  virtual std::variant<std::string, SqlError> constant(std::string_view text, Oid type, std::int32_t typmod = -1) const = 0;
  // A constant as a column stores it that is declared so (types.hpp), as SQLite text. `from`: its own type, 0 of a literal without one.
  virtual std::variant<std::string, SqlError> stored_constant(std::string_view text, std::string_view declared, Oid from) const = 0;
};

// A table that is made anew under another name, filled from the old one, and takes its place: what SQLite's ALTER TABLE cannot do.
// `sql` of the statement makes and fills it; then the session puts it in the old one's place, with its indexes and triggers.
struct Rebuild {
  std::string table, made;
  std::vector<std::string> lost_indexes;
  bool check_foreign = false;      // the rows must meet its foreign keys
  std::vector<std::string> after;  // run last
};

struct Translated {
  std::size_t offset = 0;  // where the statement begins in the text
  std::size_t length = 0;
  Effect effect = Effect::none;
  std::string tag;  // "SELECT", "INSERT", "CREATE TABLE"; the session adds counts
  // Statements of WITH that write, run before `sql` in this order. Each row of the last of `sql` of a step has one text; the texts of a
  // step joined by commas, within [ ], are the parameter :pg_step1 (then :pg_step2 …) of what is run after it.
  struct Step {
    std::vector<std::string> sql;
    bool rows = false;
  };
  std::vector<Step> steps;
  std::vector<std::string> sql;  // run in this order, all or none; rows come from the last
  // For each of `sql` the numbers of the parameters that its bare ? stand for, in their order; none where these are 1, 2, 3 …
  std::vector<std::vector<std::uint32_t>> places;
  bool returns_rows = false;
  std::vector<Column> columns;       // what the rows have; empty where returns_rows is false
  std::vector<Oid> parameters;       // by number from $1; 0: the text does not say
  Utility utility;                   // where effect is utility
  std::vector<std::string> notices;  // what was left out, one sentence each
  std::optional<Rebuild> rebuild;    // of a definition
  // Of a definition of a temporary table, view or index. `on_commit`: what becomes of the table that is named so: 'd' it is dropped, 'r' it
  // loses its rows; 0: it stays.
  bool temporary = false;
  char on_commit = 0;
  std::string temporary_name;
  std::string alone;   // what PostgreSQL calls it where it must not run in a block
  bool typed = false;  // every expression has a type: `columns` and `parameters` are complete
  // Integers of the text that the SQL has as ?1, ?2 … in this order, in the place of what they were written as (Limits::lift).
  struct Lifted {
    std::size_t at = 0;  // of the first digit
    bool negative = false;
  };
  bool lifts = false;
  std::vector<Lifted> lifted;
  std::optional<SqlError> problem;  // of a typed statement that cannot be written; the ones beside it can
};

struct Limits {
  std::size_t text_bytes_max = 1 << 20;
  // A typed statement without parameters has its integers (int4, at most nine digits) as parameters of that type, so that texts which
  // differ in them alone share one translation. What needs an integer's value (ORDER BY 1, a type's length) keeps it.
  bool lift = false;
};

// `declared`: the types that the client gave for the parameters; 0: it gave none.
std::variant<std::vector<Translated>, SqlError> translate(std::string_view text, const Limits& limits = {},
                                                          const Relations* relations = nullptr, std::span<const Oid> declared = {});

// The statements of a text, each from the end of the one before to its own: where the proxy's session sees them, for it asks the same
// grammar. Nothing where that grammar cannot read the text. The views are of `text`.
std::optional<std::vector<std::string_view>> statements_of(std::string_view text, const Limits& limits = {});

}  // namespace termgate::dialect
