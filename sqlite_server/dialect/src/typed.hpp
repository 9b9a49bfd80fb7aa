// SELECT, INSERT, UPDATE and DELETE with types: each expression is analysed as PostgreSQL analyses it, from the columns' types up, and
// written by the operator or function that its rules choose. What is not listed in typed_functions.cpp is refused by its name.
//
// Values within a statement: integers, booleans (0, 1), doubles (NaN is the text 'NaN'), text; a numeric is the text that PostgreSQL
// would print, compared under the collation pg_numeric; times are text in ISO form; an interval is text under pg_interval.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "resolution.hpp"
#include "writer.hpp"

namespace termgate::dialect {

struct Value {
  Value() = default;
  Value(std::string written, Level binds, Oid of, std::int32_t modifier = -1, bool as_stored = false)
      : text(std::move(written)), level(binds), type(of), typmod(modifier), stored(as_stored) {}
  std::string text;
  Level level = primary;
  Oid type = 0;
  std::int32_t typmod = -1;
  bool stored = false;                  // numeric, real, char(n): as the file holds it, which exact() makes what PostgreSQL has
  std::optional<std::string> constant;  // of a string constant whose type is still open
  bool null = false;                    // NULL, whose type is still open
  std::size_t parameter = 0;            // $n, whose type is still open
  Node at = {};
  bool open() const { return constant || null || parameter != 0; }
};

class Typed {
 public:
  Typed(Translated& out, std::string_view sql, const Relations& relations, std::span<const Oid> declared, bool mark = true);
  // SelectStmt, InsertStmt, UpdateStmt or DeleteStmt.
  void statement(Node node);
  // The query of a CREATE VIEW; `types`: of its columns, "oid:typmod" apart by commas.
  std::string view(Node select, std::string& types, std::vector<Column>& columns);
  // An expression of a CHECK, an index or a generated column, over the columns of one table by their bare names.
  std::string over_columns(const Relations::Relation& relation, Node node, Kept what);
  // The query of a CREATE TABLE AS, as a SELECT of what the columns store.
  std::string copied(Node select, const std::vector<std::string>& names, std::vector<Column>& columns, std::vector<std::string>& values);
  std::int32_t typmod_of(Node type_name, Oid type) const;
  Oid type_in_words(Node type_name) const { return type_of_name(type_name); }
  // What a column's values become in a column of another type; `with`: the expression of USING, or none.
  std::string converted_column(const Relations::Relation& relation, const Relations::RelationColumn& from,
                               const Relations::RelationColumn& to, Node with);
  // What a statement is about: a table of the file's, or no relation at all; the catalog alone; a function of Termgate's.
  enum class About { file, catalog, own };
  static About about(Node node, const Relations& relations);
  // Whether this statement is for this class.
  static bool wants(Node node, const Relations& relations) { return about(node, relations) == About::file; }

 private:
  struct ScopeColumn {
    std::string name;
    Value value;
    std::string relation;   // as the statement calls it
    std::size_t owner = 0;  // which of the scope's relations; npos: none
    std::size_t place = 0;
    bool unseen = false;  // SQLite knows it not where it would be written: another table's in RETURNING
  };
  struct Relation {
    std::string name;
    std::vector<ScopeColumn> columns;
    std::vector<std::size_t> key;
  };
  struct Loose {  // a column outside aggregates
    std::string column;
    std::string relation;
    std::size_t place = 0;
    Node at;
  };
  struct Scope {
    std::vector<Relation> relations;
    std::vector<ScopeColumn> visible;  // by unqualified name
    std::vector<Loose> loose;
    std::vector<std::string> groups;  // written expressions of GROUP BY
    std::vector<Node> group_nodes;    // … as the text has them: what is written may have names that were made for it
    std::set<std::string> windows;    // names of WINDOW
    bool aggregates = false;
    bool ctes_only = false;
  };
  struct Cte {
    std::string name;
    std::vector<ScopeColumn> columns;
    bool silent = false;  // it writes, and has no RETURNING
  };
  struct From {
    std::string text;
    std::vector<Relation> relations;
    std::vector<ScopeColumn> visible;
  };
  struct Target {
    Value value;
    std::string name;
    bool named = false;
    Node node;
  };
  struct Out {
    std::string name;
    Oid type = 0;
    std::int32_t typmod = -1;
    bool stored = false;
  };
  // One SELECT or VALUES whose columns can still be converted.
  struct Core {
    bool values = false;
    std::vector<std::vector<Value>> rows;  // one, but of VALUES
    std::vector<std::string> names;
    bool distinct = false;
    bool expands = false;  // a set-returning function multiplies its rows
    std::string tail;      // from FROM on
    std::vector<Out> outs;
  };
  struct Query {
    std::string text;
    std::vector<Out> outs;
    bool one_row = false;
  };
  // Set-returning functions of the select list that is being read: one item of FROM.
  struct Expansions {
    std::string as;
    std::vector<std::string> lists;
    bool several = false;
  };
  enum class Place { plain, where, from, group, values, returning, update, check, index, predicate, generated, default_value, transform };
  // Of the schema: what it computes, it computes from its row alone.
  static bool is_schemas(Place place) noexcept { return place >= Place::check; }
  static std::string words_of(Place place);  // of one; of several with an s at the end

  // While it lives, the columns that are read are an aggregate's, which belongs to the innermost query that has one of them.
  class HomeOfAggregate {
   public:
    HomeOfAggregate(Typed& typed, bool aggregate)
        : typed_(typed), level_(aggregate ? typed.scopes_.size() : 0), around_(std::exchange(typed.home_, this)) {}
    ~HomeOfAggregate() { typed_.home_ = around_; }
    HomeOfAggregate(const HomeOfAggregate&) = delete;
    HomeOfAggregate& operator=(const HomeOfAggregate&) = delete;
    // A column of the query at that place in scopes_.
    void reads(std::size_t scope) noexcept {
      if (scope < level_) found_ = std::max(found_, scope + 1);
      if (around_ != nullptr) around_->reads(scope);
    }
    bool is_outer() const noexcept { return found_ != 0 && found_ < level_; }

   private:
    Typed& typed_;
    std::size_t level_;      // its query's place, from 1; 0: it is no aggregate
    std::size_t found_ = 0;  // the innermost one's up to that; 0: none yet
    HomeOfAggregate* around_;
  };

  class Deeper {
   public:
    explicit Deeper(Typed& typed);
    ~Deeper() { --typed_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Typed& typed_;
  };

  // typed_expressions.cpp
  Value expression(Node node);
  Value analysed(Node node);
  Value constant(Node body);
  void lift(Value& value, std::int64_t number, Node at);
  Value parameter(Node body);
  Value column(Node body);
  const ScopeColumn* look_up(Scope& scope, const std::vector<std::string>& names, Node at) const;
  Value a_expr(Node body, bool rows_may_come = false);
  Value rows_compared(Node body, const std::string& symbol);
  Value like_pattern(Node args);
  Value glob(const Value& left, const std::string& pattern, bool negated, Node at);
  Value operation(std::string_view symbol, const Value* left, const Value& right, Node at);
  Value written_operator(const resolution::Operator& found, std::string_view symbol, const Value* left, const Value& right, Node at);
  Value comparison(std::string_view symbol, const resolution::Operator& found, const Value& left, const Value& right, Node at);
  Value membership(Node body, std::string_view symbol);
  Value any_or_all(Node body, bool all);
  Value between(Node body, std::string_view kind);
  Value boolean(Node body);
  Value condition(Node node, std::string_view of);
  Value choice(Node body);
  Value common(std::vector<Value>& values, std::string_view of, Node at);
  Value link(Node body);
  Value value_function(Node body);
  Value null_if(Node body);
  Value array(Node body, Oid element = 0);
  Value element(Node body);
  Value distinct_from(Node body, bool negated);
  // array_append() and its kin, also as ||; nothing where `name` is none of them.
  std::optional<Value> array_call(std::string_view name, const std::vector<Value>& args, Oid result, Node at);
  std::string array_rows(const Value& array);
  std::string array_list(const Value& array);
  std::string element_text(const Value& value);
  std::string json_text(const Value& value);

  // typed_casts.cpp
  Value cast(Node body);
  Value coerce(const Value& value, Oid type, resolution::Context context = resolution::Context::implicit);
  Value converted(const Value& value, Oid type, const resolution::Path& path, resolution::Context context);
  Value as_text(const Value& value, Oid type);
  Value number_cast(const Value& value, Oid type);
  Value time_cast(const Value& value, Oid type);
  Value from_text(const Value& value, Oid type);
  Value sized(const Value& value, std::int32_t typmod, bool explicitly, Node at);
  Value assigned(const Value& value, const Relations::RelationColumn& column, Node at);
  Oid type_of_name(Node type_name) const;
  Value decided(const Value& value);  // an open one is text
  std::string exact(const Value& value) const;
  std::string sortable(const Value& value, bool order) const;
  std::string wrapped(const Value& value, Level least) const;

  // typed_calls.cpp
  Value call(Node body, bool rows_may_come = false);
  // A set-returning function of a select list, as an item of FROM.
  Value expansion(const resolution::Function& found, std::vector<Value>& args, Node body, bool may);
  // The rows of such a function as a JSON list, and its columns, by the element `cell` of that list; they have a name where the function
  // names them. Empty: it is not translated.
  struct RowColumn {
    std::string name;
    Value value;
  };
  std::string rows_of(const resolution::Function& found, const std::vector<Value>& args, const std::string& cell,
                      std::vector<RowColumn>& columns);
  Value special_call(const std::string& name, Node body, std::vector<Value>& args, bool& done);
  void check_place(const resolution::Function& found, bool windowed, std::size_t before, Node body);
  bool sum_of(std::string_view name, const Value& arg, bool distinct, bool windowed, std::string& written,
              std::vector<std::string>& parts) const;
  Value aggregate(const resolution::Function& found, std::vector<Value>& args, Node body);
  // By pg_ordered(): DISTINCT or ORDER BY within string_agg(), array_agg() and their kin. Empty: it is none of these.
  std::string ordered_aggregate(const resolution::Function& found, std::vector<Value>& args, Node body);
  std::string sort_letters(const Value& key, bool descending, bool nulls_last);
  std::string over(Node window, bool aggregate);
  void known_window(Node body, std::string_view key) const;
  Value supplied(std::string_view name, const std::string& arguments, Oid type, Node at);
  Value templated(std::string_view sql, const std::vector<Value>& args, Oid type, Node at) const;
  Value written_call(const resolution::Function& found, const std::vector<Value>& args, Node at);

  // typed_queries.cpp
  void own_scope(const Relations::Relation& relation);
  Query query(Node body, const std::vector<std::string>& names = {});
  Query simple(Node body, const std::vector<std::string>& names, const std::vector<const Relations::RelationColumn*>* assign = nullptr,
               bool plain = false);
  Core core(Node body, std::string& order_text);
  Core values(Node body);
  void group_by(Node clause, const std::vector<Node>& targets, std::string& tail);
  std::vector<Target> targets(Node list);
  std::vector<Target> expanded_targets(Node list, Expansions& expansions);
  void star(Node fields, std::vector<Target>& out, Node at);
  std::string order(Node clause, const std::vector<Target>& list, bool distinct);
  struct Sorted {
    std::string key, tail;
    Value value;
  };
  std::vector<Sorted> sorted(Node clause, const std::vector<Target>& list, bool distinct);
  void distinct_on(Node body, std::vector<Target>& list, std::string& tail, std::string& order_text);
  std::string order_tail(Node body, bool& descending) const;
  std::string limit(Node body);
  void settle(Core& core);
  std::string assembled(const Core& core, const std::vector<std::string>& names, bool unique, bool plain = false) const;
  Query set_operation(Node body, const std::vector<std::string>& names);
  void collect_set(Node body, std::vector<Core>& leaves, std::string& text, std::vector<std::pair<std::size_t, std::size_t>>& spans,
                   bool& unique);
  void agree(const std::vector<Core>& leaves, std::vector<Value>& column);
  std::string with(Node clause);
  std::string window(Node body);
  void check_groups(Scope& scope);
  From from(Node list);
  From from_item(Node node);
  From join(Node body);
  From relation(Node body);
  From subselect(Node body);
  From function(Node body);
  void bring(From&& from);

  // typed_with.cpp: statements of WITH that write
  std::string step(Node cte_body, Cte& cte, const std::vector<std::string>& parts);
  void check_steps(Node body) const;

  // typed_modify.cpp
  struct Line {
    std::vector<std::string> names, values;
  };
  std::string default_of(const Relations::Relation& relation, const std::string& column, bool counts_too, Node at) const;
  std::vector<Line> lines_of(const Relations::Relation& relation, Node lists, const std::vector<const Relations::RelationColumn*>& columns,
                             bool named, bool overriding);
  void insert_lines(const std::string& head, const std::vector<Line>& lines, const std::string& tail, Node body);
  std::string insert_query(Node select, const std::vector<const Relations::RelationColumn*>& columns, bool named, bool conflicts);
  void insert(Node body);
  void update(Node body);
  void remove(Node body);
  const Relations::Relation& target(Node range_var);
  std::string target_scope(Node range_var, const Relations::Relation& relation);
  std::string returning(Node list, Node range_var, const Relations::Relation& relation);
  std::string conflict(Node clause, Node range_var, const Relations::Relation& relation, bool many);
  std::string once(Node range_var, const Relations::Relation& relation) const;
  std::string assignments(Node list, const Relations::Relation& relation);
  const Relations::RelationColumn& target_column(const Relations::Relation& relation, const std::string& name, Node at) const;

  std::string relation_name(Node body) const;
  void set_parameter(std::size_t number, Oid type, Node at);
  void left_open(const Value& value) {
    if (value.parameter != 0) left_open_.insert(value.parameter);
  }
  void add(std::string sql) { out_.sql.push_back(std::move(sql)); }
  std::string made(std::string_view prefix) { return "pg_" + std::string(prefix) + std::to_string(++made_); }

  Translated& out_;
  std::string_view sql_;
  const Relations& relations_;
  std::size_t depth_ = 0, steps_ = 0;
  std::size_t made_ = 0;
  Place place_ = Place::plain;
  HomeOfAggregate* home_ = nullptr;  // of the call that is being read
  bool in_aggregate_ = false;
  std::set<std::size_t> left_open_;  // parameters that some expression uses without a type
  bool plain_names_ = false;         // the next query is a view's, and people read it
  std::vector<Scope> scopes_;
  std::vector<Cte> ctes_;
  bool top_with_ = false;                  // the next WITH is the statement's own
  std::vector<Out>* step_outs_ = nullptr;  // RETURNING is of a statement of WITH: one text a row
  Expansions* expansions_ = nullptr;
  bool rows_may_come_ = false;    // the next expression is an item of that list
  std::vector<Node> steps_done_;  // the CommonTableExpr of each
  // Both sides of the comparison that was written last.
  struct Compared {
    std::string left, right;
    std::string function;  // instead of SQLite's own comparison: < 0, 0, > 0
  };
  std::optional<Compared> compared_;
};

// typed_functions.cpp: how a function of PostgreSQL's is written, by name and argument types; nullptr: it is not.
struct Written {
  std::string_view signature;  // "lower(text)"
  std::string_view sql;        // "lower($1)"; empty: a call by its own name
  Level level = primary;
};
const Written* written_function(std::string_view signature);
std::string signature_of(std::string_view name, std::span<const Oid> arguments);

}  // namespace termgate::dialect
