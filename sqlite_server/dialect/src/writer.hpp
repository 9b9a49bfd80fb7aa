// One statement's walk from PostgreSQL's tree to SQLite's text. A file a concern: expressions, calls (functions in expressions),
// selects, from, modify (INSERT, UPDATE, DELETE), definitions (DDL), utility. What has no counterpart throws Refused, which
// translate() turns into a SqlError.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/dialect/translate.hpp>
#include <termgate/dialect/types.hpp>

#include "tree.hpp"

namespace termgate::dialect {

struct Refused {
  SqlError problem;
};
[[noreturn]] void refuse(std::string_view what, Node at = {});  // 0A000
[[noreturn]] void refuse_as(std::string_view sqlstate, std::string message, Node at = {});

// SQLite looks at them at once.
inline constexpr std::string_view deferrable_key = "a UNIQUE or PRIMARY KEY constraint that is deferrable";

// How tightly SQLite binds what is written; an operand that binds less goes into parentheses.
enum Level : int {
  lowest = 0,
  disjunction = 10,
  conjunction = 20,
  negation = 30,
  equality = 40,
  comparison = 50,
  bits = 55,
  sum = 60,
  product = 70,
  concatenation = 80,
  collation = 90,
  unary = 95,
  primary = 100
};

struct Sql {
  std::string text;
  Level level = primary;
  Oid type = 0;  // where it is known
};

// An expression that the schema keeps, over the columns of its table.
enum class Kept { check, index, predicate, generated, default_value };

class Writer {
 public:
  Writer(Translated& out, std::string_view sql, std::size_t depth = 0, const Relations* relations = nullptr)
      : out_(out), sql_(sql), depth_(depth), relations_(relations) {}

  void statement(Node node);
  // An integer of the text: the parser's JSON has 0 for negative ones.
  std::int64_t whole(Node constant) const;

 private:
  friend class Typed;
  // Counts how deep the walk is.
  class Deeper {
   public:
    explicit Deeper(Writer& writer);
    ~Deeper() { --writer_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Writer& writer_;
  };
  // A column in FROM that SQLite calls otherwise; `sql` is empty where only its type is known.
  struct Renamed {
    std::string relation;
    std::string column;
    std::string sql;
    Oid type;
  };
  struct Target {
    Sql sql;
    std::string name;
    bool named = false;  // by AS
    bool star = false;
    bool plain = false;  // a column, whose name SQLite gives by itself
  };
  struct OutputNames {
    std::vector<std::string> names;  // instead of the targets' own, from the left
  };

  // translate.cpp
  bool typed(Node node);
  bool typed_if_possible(Node node);

  // definitions.cpp
  bool is_temporary(Node relation_node);
  bool is_temporary_there(std::string_view name) const;
  bool reads_temporary(Node query) const;
  void on_commit(Node relation_node, Node what);

  // expressions.cpp
  Sql expression(Node node);
  std::string operand(Node node, Level least);
  std::string wrapped(const Sql& sql, Level least) const;
  std::string boolean_text(const Sql& sql) const;
  std::string list_of(Node list);
  Sql constant(Node body) const;
  Sql column(Node body);
  Sql parameter(Node body, Oid type = 0);
  Sql operation(Node body);
  Sql binary(std::string_view symbol, Node left, Node right, Node at);
  Sql pattern(Node body, bool ignore_case, bool negated);
  Sql any_or_all(Node body, bool all);
  Sql boolean(Node body);
  Sql link(Node body);
  Sql indirection(Node body);
  Sql choice(Node body);
  Sql value_function(Node body);
  std::string array_rows(Node array);

  // casts.cpp
  Sql cast(Node body);
  Sql constant_as(const Type& type, Node constant, Node type_name, Node at);
  Oid type_of_name(Node type_name) const;
  const Type& type_in(Node type_name) const;

  // calls.cpp
  Sql call(Node body);
  Sql special_call(const std::string& name, Node body, bool& done);
  std::string arguments(Node body);
  std::string over(Node window);
  Sql supplied(std::string_view name, const std::string& arguments, Oid type);
  void left_to_the_session(std::string_view name);

  // selects.cpp
  std::string query(Node body, const OutputNames& names = {}, std::vector<Column>* columns = nullptr);
  std::string core(Node body, const OutputNames& names, std::vector<Column>* columns);
  std::string distinct_on(Node body, const OutputNames& names, std::vector<Column>* columns);
  std::string values(Node body, const OutputNames& names, std::vector<Column>* columns);
  std::string with(Node clause);
  std::string order(Node clause);
  std::string order_item(Node item);
  std::string limit(Node body);
  std::string window_definition(Node body);
  std::vector<Target> targets(Node list, const OutputNames& names, Node from_clause = {});
  std::vector<Target> star_of(Node from_clause, const std::string& only);
  std::string target_text(const std::vector<Target>& list) const;
  static void describe(const std::vector<Target>& list, std::vector<Column>* columns);
  std::string group(Node clause);

  // from.cpp
  std::string from(Node list);
  std::string from_item(Node node);
  std::string relation(Node range_var, bool with_alias = true);
  std::string relation_name(Node range_var) const;
  std::string subselect(Node body);
  std::string function(Node body);
  std::string join(Node body);

  // modify.cpp
  void insert(Node body);
  void update(Node body);
  void remove(Node body);
  void truncate(Node body);
  std::string returning(Node list, Node relation_node);
  std::string conflict(Node clause);
  std::string assignments(Node list);

  // definitions.cpp
  void create_table(Node body);
  void create_table_as(Node body);
  void define(Node relation_node, const std::vector<Node>& elements);
  void create_table_typed(Node body);
  void create_index(Node body);
  void create_view(Node body);
  void check_replaced(Node relation_node, const std::vector<Column>& columns) const;

  // drops.cpp
  const Relations::Relation* existing(Node range_var) const;
  void drop(Node body);
  void drop_relations(Node body, bool tables);
  void check_named(Node body);
  std::string declared(Node type_name) const;
  std::string column_check(const std::string& name, Node type_name) const;
  std::string column_definition(Node body, const std::string& table, bool key, bool counted, std::set<std::string>& used);
  std::string constraint(Node body, const std::string& table, const std::string& column, std::set<std::string>& used);
  void check_key(const std::string& column, Node at) const;
  std::string default_value(Node expression_node, Node type_name);
  std::string default_of(Node expression_node, const std::string& declared_text, Oid plain);
  std::string deferral(const std::vector<Node>& constraints, std::size_t after) const;
  std::string collation_name(Node names);
  std::string stored(Node expression_node, Kept what);
  std::string written(Node expression_node);

  // alter.cpp
  struct Altered;
  void alter_table(Node body);
  void alter_plainly(Node body);
  void alter_command(Altered& altered, Node command, Node at);
  void add_column(Altered& altered, Node command, Node at);
  void drop_column(Altered& altered, Node command, Node at);
  void add_constraint(Altered& altered, Node each, Node at);
  void drop_constraint(Altered& altered, const std::string& name, Node command, Node at);
  void alter_type(Altered& altered, Node command, Node at);
  void alter_default(Altered& altered, Node command, Node at);
  void alter_null(Altered& altered, const std::string& column, bool nullable, Node at);
  std::string converted_default(const std::string& clause, const std::string& declared_text, Oid before, Oid type, Node at) const;
  void check_reference(Node body, const std::vector<std::string>& own, const std::string& table, Node at) const;
  void define_column(Node column_node);
  void rebuilt(Altered& altered, Node at);
  void rename(Node body);
  void rename_index(Node body);
  void rename_constraint(Node body);

  // utility.cpp
  bool utility(Node node);
  void set_variable(Node body);
  void transaction(Node body);
  void copy(Node body);
  void explain(Node body);
  void vacuum(Node body);
  void cursor(Node body);
  void prepare(Node body);
  std::shared_ptr<Translated> inner(Node node);
  std::string setting_text(Node node) const;

  void add(std::string sql) { out_.sql.push_back(std::move(sql)); }
  void accept(std::string_view tag, std::string_view notice = {});

  Translated& out_;
  std::string_view sql_;  // the whole text: positions point into it
  std::size_t depth_;
  const Relations* relations_ = nullptr;
  bool only_faster_ = false;                    // what is written decides no answer
  std::optional<Relations::Relation> defined_;  // whose columns CHECK, DEFAULT and indexes speak of
  std::string returned_;                        // what RETURNING is about: SQLite knows no qualified names there
  bool name_all_ = false;                       // SQLite would make names of its own
  bool indexed_ = false;                        // of an index's expression
  bool stored_ = false;                         // what is written stays in the schema, and other programs read it
  std::vector<std::vector<Renamed>> scopes_;
  // Set-returning functions of the target list being written, as items for its FROM; null where they are not allowed.
  std::vector<std::string>* rows_of_targets_ = nullptr;
  std::vector<Column> subselect_;  // what the subquery in FROM that was written last has; empty where that is not known
  std::size_t made_ = 0;           // names made up so far
};

// result_names.cpp: what PostgreSQL calls an expression without AS.
std::string result_name(Node expression);
// from.cpp: does the tree refer to a column (of the relations in `of`, where given)?
bool mentions_column(Node node, const std::set<std::string>* of = nullptr);

std::string joined(const std::vector<std::string>& parts, std::string_view separator);
// A call with any number of arguments; of more than SQLite takes, calls of `of_several` of calls.
std::string call_of(std::string_view function, std::string_view of_several, std::vector<std::string> parts);
// translate.cpp: whether SQLite would find a comment in it.
bool has_comment(std::string_view sql);
// stored_form.cpp: the constraint of a column whose values have the type's form; empty: the type has none that SQLite could check.
std::string stored_check(const std::string& name, Oid type, std::int32_t typmod);
// definitions.cpp: serial and its kin.
bool is_serial(Node type_name);

}  // namespace termgate::dialect
