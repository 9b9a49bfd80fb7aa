// The full parse tree of PostgreSQL's grammar as the second opinion on what classify() says. For
// short texts only: the library's own walk of the tree is recursive, which is why no decision is
// made from it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <pg_query.h>

#include <termgate/statements/classify.hpp>

#include "functions.hpp"

namespace termgate::statements {

// Each statement's tree as JSON; `good` false where the grammar refuses the text.
struct Trees {
  bool good = false;
  std::vector<std::string> trees;
};

inline Trees trees_of(const std::string& sql) {
  Trees result;
  const PgQueryParseResult parsed = pg_query_parse(sql.c_str());
  if (parsed.error == nullptr) {
    result.good = true;
    const std::string_view json(parsed.parse_tree);
    // Quotes inside of strings are escaped, so that this can only be a key.
    for (std::size_t at = json.find("{\"stmt\":{"); at != std::string_view::npos;) {
      const std::size_t next = json.find("{\"stmt\":{", at + 1);
      result.trees.emplace_back(json.substr(at, next == std::string_view::npos ? next : next - at));
      at = next;
    }
  }
  pg_query_free_parse_result(parsed);
  return result;
}

inline bool has_node(std::string_view tree, std::string_view node) {
  return tree.find("\"" + std::string(node) + "\":") != std::string_view::npos;
}

inline std::string top_node(std::string_view tree) {
  constexpr std::string_view begin = "{\"stmt\":{\"";
  return std::string(tree.substr(begin.size(), tree.find('"', begin.size()) - begin.size()));
}

// The last part of the name of each function that the tree calls; and whether one stands there that
// the text itself names.
inline std::vector<std::string> functions_of(std::string_view tree, bool& named_by_text) {
  std::vector<std::string> names;
  constexpr std::string_view call = "\"FuncCall\":{\"funcname\":[";
  for (std::size_t at = tree.find(call); at != std::string_view::npos;
       at = tree.find(call, at + 1)) {
    const std::string_view list = tree.substr(at, tree.find(']', at) - at);
    const std::size_t last = list.rfind("\"sval\":\"");
    if (last == std::string_view::npos) continue;
    const std::string_view name = list.substr(last + 8);
    names.emplace_back(name.substr(0, name.find('"')));
    // EXTRACT, AT TIME ZONE, LIKE … ESCAPE and the like become calls of pg_catalog's.
    if (list.find("\"pg_catalog\"") == std::string_view::npos) named_by_text = true;
  }
  return names;
}

// Why `classified` cannot be right, or empty.
// Long: one case for each kind of statement.
inline std::string objection(const std::string& sql, const Classified& classified) {
  const Trees trees = trees_of(sql);
  if (!trees.good) {
    // Plain texts are not given to the grammar; in several statements, or with WITH, it must have
    // been asked.
    if (!classified.single &&
        (classified.statements.size() != 1 || classified.statements[0].kind != Kind::unparsable))
      return "several statements that the grammar refuses";
    return {};
  }
  const bool unknown =
      classified.statements.size() == 1 && classified.statements[0].kind == Kind::unparsable;
  if (unknown) return {};
  if (trees.trees.empty())
    return classified.statements.size() == 1 && classified.statements[0].kind == Kind::empty
               ? ""
               : "the grammar sees no statement";
  if (trees.trees.size() != classified.statements.size())
    return "the grammar sees " + std::to_string(trees.trees.size()) + " statements";
  for (std::size_t i = 0; i < trees.trees.size(); ++i) {
    const std::string& tree = trees.trees[i];
    const Statement& statement = classified.statements[i];
    const std::string top = top_node(tree);
    const auto top_is = [&](std::initializer_list<std::string_view> nodes) {
      return std::find(nodes.begin(), nodes.end(), top) != nodes.end();
    };
    const bool modifies = has_node(tree, "InsertStmt") || has_node(tree, "UpdateStmt") ||
                          has_node(tree, "DeleteStmt") || has_node(tree, "MergeStmt") ||
                          has_node(tree, "intoClause") || has_node(tree, "lockingClause");
    if (statement.offset + statement.length > sql.size()) return "a statement beyond the text";
    switch (statement.kind) {
      case Kind::provably_read: {
        if (!top_is({"SelectStmt"})) return "a read that is " + top;
        if (modifies) return "a read that modifies";
        bool named = false;
        for (const std::string& name : functions_of(tree, named)) {
          if (is_read_only_hole(name)) return "a read that calls " + name;
        }
        if (named && !statement.calls_functions) return "calls of functions were not seen";
        break;
      }
      case Kind::empty: return "an empty statement that is " + top;
      case Kind::begin:
      case Kind::commit:
      case Kind::rollback:
      case Kind::savepoint:
      case Kind::rollback_to:
      case Kind::release:
      case Kind::prepare_transaction:
      case Kind::commit_prepared:
      case Kind::rollback_prepared: {
        constexpr std::pair<Kind, std::string_view> names[] = {
            {Kind::commit, "\"TRANS_STMT_COMMIT\""},
            {Kind::rollback, "\"TRANS_STMT_ROLLBACK\""},
            {Kind::savepoint, "\"TRANS_STMT_SAVEPOINT\""},
            {Kind::rollback_to, "\"TRANS_STMT_ROLLBACK_TO\""},
            {Kind::release, "\"TRANS_STMT_RELEASE\""},
            {Kind::prepare_transaction, "\"TRANS_STMT_PREPARE\""},
            {Kind::commit_prepared, "\"TRANS_STMT_COMMIT_PREPARED\""},
            {Kind::rollback_prepared, "\"TRANS_STMT_ROLLBACK_PREPARED\""},
        };
        if (!top_is({"TransactionStmt"})) return "transaction control that is " + top;
        for (const auto& [kind, name] : names) {
          if (kind == statement.kind && tree.find(name) == std::string::npos)
            return "transaction control of another kind";
        }
        if (statement.kind == Kind::begin &&
            tree.find("\"TRANS_STMT_BEGIN\"") == std::string::npos &&
            tree.find("\"TRANS_STMT_START\"") == std::string::npos)
          return "a BEGIN that is none";
        if (statement.and_chain != (tree.find("\"chain\":true") != std::string::npos))
          return "AND CHAIN was misread";
        break;
      }
      case Kind::set_transaction:
      case Kind::set:
      case Kind::set_local:
      case Kind::reset:
      case Kind::reset_all:
        if (!top_is({"VariableSetStmt"})) return "a setting that is " + top;
        if ((statement.kind == Kind::set_local) !=
                (tree.find("\"is_local\":true") != std::string::npos) &&
            statement.kind != Kind::set_transaction)
          return "LOCAL was misread";
        if ((statement.kind == Kind::set || statement.kind == Kind::set_local) &&
            is_declared_setting(statement.name)) {
          // The library writes no integer below 1 into its JSON.
          const bool written = statement.value && !statement.value->empty() &&
                               statement.value->front() != '-' &&
                               statement.value->find_first_not_of('0') != std::string::npos;
          if (written && tree.find(*statement.value) == std::string::npos &&
              statement.value->find_first_of("\"\\0\b\f\n\r\t") == std::string::npos &&
              std::all_of(statement.value->begin(), statement.value->end(), [](char character) {
                return static_cast<unsigned char>(character) >= 0x20 &&
                       static_cast<unsigned char>(character) < 0x7f;
              })) {
            return "a value that the grammar does not see";
          }
        }
        break;
      case Kind::set_constraints:
        if (!top_is({"ConstraintsSetStmt"})) return "SET CONSTRAINTS that is " + top;
        break;
      case Kind::show:
        if (!top_is({"VariableShowStmt"})) return "SHOW that is " + top;
        break;
      case Kind::discard:
      case Kind::discard_all:
        if (!top_is({"DiscardStmt"})) return "DISCARD that is " + top;
        break;
      case Kind::prepare:
        if (!top_is({"PrepareStmt"})) return "PREPARE that is " + top;
        if (statement.inner == Kind::provably_read && modifies)
          return "PREPARE of a read that modifies";
        break;
      case Kind::execute:
        if (!top_is({"ExecuteStmt"})) return "EXECUTE that is " + top;
        break;
      case Kind::deallocate:
        if (!top_is({"DeallocateStmt"})) return "DEALLOCATE that is " + top;
        break;
      case Kind::declare_cursor:
        if (!top_is({"DeclareCursorStmt"})) return "DECLARE that is " + top;
        if (statement.inner == Kind::provably_read && modifies) return "a cursor that modifies";
        break;
      case Kind::fetch:
      case Kind::move:
        if (!top_is({"FetchStmt"})) return "FETCH that is " + top;
        if ((statement.kind == Kind::move) != (tree.find("\"ismove\":true") != std::string::npos))
          return "MOVE was misread";
        break;
      case Kind::close:
        if (!top_is({"ClosePortalStmt"})) return "CLOSE that is " + top;
        break;
      case Kind::copy_in:
      case Kind::copy_out:
      case Kind::copy_program:
      case Kind::copy_file: {
        if (!top_is({"CopyStmt"})) return "COPY that is " + top;
        const bool from = tree.find("\"is_from\":true") != std::string::npos;
        const bool program = tree.find("\"is_program\":true") != std::string::npos;
        const bool file = has_node(tree, "filename");
        if (statement.kind == Kind::copy_in && (!from || file)) return "COPY IN was misread";
        if (statement.kind == Kind::copy_out && (from || file || modifies))
          return "COPY OUT was misread";
        if (statement.kind == Kind::copy_program && !program) return "COPY PROGRAM was misread";
        if (statement.kind == Kind::copy_file && (!file || program))
          return "COPY of a file was misread";
        break;
      }
      case Kind::call:
        if (!top_is({"CallStmt"})) return "CALL that is " + top;
        break;
      case Kind::do_block:
        if (!top_is({"DoStmt"})) return "DO that is " + top;
        break;
      case Kind::explain: {
        if (!top_is({"ExplainStmt"})) return "EXPLAIN that is " + top;
        const bool analyze =
            tree.find("\"defname\":\"analyze\"") != std::string::npos &&
            tree.find("\"defname\":\"analyze\",\"arg\":{\"String\":{\"sval\":\"false\"}}") ==
                std::string::npos &&
            tree.find("\"defname\":\"analyze\",\"arg\":{\"String\":{\"sval\":\"off\"}}") ==
                std::string::npos &&
            tree.find("\"defname\":\"analyze\",\"arg\":{\"Integer\":{}}") == std::string::npos;
        if (analyze && modifies && statement.inner == Kind::provably_read)
          return "EXPLAIN ANALYZE that modifies";
        break;
      }
      case Kind::lock_table:
        if (!top_is({"LockStmt"})) return "LOCK that is " + top;
        break;
      case Kind::listen:
        if (!top_is({"ListenStmt"})) return "LISTEN that is " + top;
        break;
      case Kind::unlisten:
        if (!top_is({"UnlistenStmt"})) return "UNLISTEN that is " + top;
        break;
      case Kind::notify:
        if (!top_is({"NotifyStmt"})) return "NOTIFY that is " + top;
        break;
      case Kind::must_run_alone:
      case Kind::write:
        if (top_is({"TransactionStmt", "VariableSetStmt", "CallStmt", "DoStmt", "ExecuteStmt",
                    "DiscardStmt"}))
          return "a write that is " + top;
        break;
      case Kind::unparsable: break;
    }
    // What must be seen of a statement whatever it was taken for.
    if (top_is({"VacuumStmt"}) && tree.find("\"is_vacuumcmd\":true") != std::string::npos &&
        !runs_alone(statement) && statement.kind != Kind::unparsable)
      return "VACUUM does not run alone";
    if (top_is({"CreatedbStmt", "DropdbStmt", "CreateTableSpaceStmt", "DropTableSpaceStmt",
                "AlterSystemStmt"}) &&
        !runs_alone(statement))
      return top + " does not run alone";
    if (top_is({"IndexStmt"}) && tree.find("\"concurrent\":true") != std::string::npos &&
        !runs_alone(statement))
      return "CREATE INDEX CONCURRENTLY does not run alone";
    if (top_is({"DropStmt"}) && tree.find("\"concurrent\":true") != std::string::npos &&
        !runs_alone(statement))
      return "DROP INDEX CONCURRENTLY does not run alone";
  }
  return {};
}

}  // namespace termgate::statements
