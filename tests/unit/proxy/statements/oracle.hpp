// The full parse tree of PostgreSQL's grammar as the second opinion on what classify() says. For
// short texts only: the library's own walk of the tree is recursive, which is why no decision is
// made from it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
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

// What the grammar calls a statement of each kind.
inline std::string_view node_of(Kind kind) {
  static const std::pair<std::string_view, std::vector<Kind>> nodes[] = {
      {"SelectStmt", {Kind::provably_read}},
      {"TransactionStmt",
       {Kind::begin, Kind::commit, Kind::rollback, Kind::savepoint, Kind::rollback_to,
        Kind::release, Kind::prepare_transaction, Kind::commit_prepared, Kind::rollback_prepared}},
      {"VariableSetStmt",
       {Kind::set_transaction, Kind::set, Kind::set_local, Kind::reset, Kind::reset_all}},
      {"ConstraintsSetStmt", {Kind::set_constraints}},
      {"VariableShowStmt", {Kind::show}},
      {"DiscardStmt", {Kind::discard, Kind::discard_all}},
      {"PrepareStmt", {Kind::prepare}},
      {"ExecuteStmt", {Kind::execute}},
      {"DeallocateStmt", {Kind::deallocate}},
      {"DeclareCursorStmt", {Kind::declare_cursor}},
      {"FetchStmt", {Kind::fetch, Kind::move}},
      {"ClosePortalStmt", {Kind::close}},
      {"CopyStmt", {Kind::copy_in, Kind::copy_out, Kind::copy_program, Kind::copy_file}},
      {"CallStmt", {Kind::call}},
      {"DoStmt", {Kind::do_block}},
      {"ExplainStmt", {Kind::explain}},
      {"LockStmt", {Kind::lock_table}},
      {"ListenStmt", {Kind::listen}},
      {"UnlistenStmt", {Kind::unlisten}},
      {"NotifyStmt", {Kind::notify}},
  };
  for (const auto& [node, kinds] : nodes) {
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return node;
  }
  return {};
}

// What is wrong with one statement, whose node is the right one, or empty.
// Long: what each kind says besides.
inline std::string objection_to(const Statement& statement, std::string_view tree,
                                std::string_view top) {
  const auto has = [&](std::string_view text) { return tree.find(text) != std::string_view::npos; };
  const auto top_is = [&](std::initializer_list<std::string_view> nodes) {
    return std::find(nodes.begin(), nodes.end(), top) != nodes.end();
  };
  const bool modifies = has_node(tree, "InsertStmt") || has_node(tree, "UpdateStmt") ||
                        has_node(tree, "DeleteStmt") || has_node(tree, "MergeStmt") ||
                        has_node(tree, "intoClause") || has_node(tree, "lockingClause");
  switch (statement.kind) {
    case Kind::provably_read: {
      if (modifies) return "a read that modifies";
      bool named = false;
      for (const std::string& name : functions_of(tree, named)) {
        if (is_read_only_hole(name)) return "a read that calls " + name;
      }
      if (named && !statement.calls_functions) return "calls of functions were not seen";
      break;
    }
    case Kind::empty: return "an empty statement";
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
      for (const auto& [kind, name] : names) {
        if (kind == statement.kind && !has(name)) return "transaction control of another kind";
      }
      if (statement.kind == Kind::begin && !has("\"TRANS_STMT_BEGIN\"") &&
          !has("\"TRANS_STMT_START\""))
        return "a BEGIN that is none";
      if (statement.and_chain != has("\"chain\":true")) return "AND CHAIN was misread";
      break;
    }
    case Kind::set:
    case Kind::set_local:
    case Kind::reset:
    case Kind::reset_all:
      if ((statement.kind == Kind::set_local) != has("\"is_local\":true"))
        return "LOCAL was misread";
      if ((statement.kind == Kind::set || statement.kind == Kind::set_local) &&
          is_declared_setting(statement.name)) {
        // The library writes no integer below 1 into its JSON.
        const bool written = statement.value && !statement.value->empty() &&
                             statement.value->front() != '-' &&
                             statement.value->find_first_not_of('0') != std::string::npos;
        if (written && !has(*statement.value) &&
            statement.value->find_first_of("\"\\0") == std::string::npos &&
            std::all_of(statement.value->begin(), statement.value->end(), [](char character) {
              return static_cast<unsigned char>(character) >= 0x20 &&
                     static_cast<unsigned char>(character) < 0x7f;
            })) {
          return "a value that the grammar does not see";
        }
      }
      break;
    case Kind::prepare:
    case Kind::declare_cursor:
      if (statement.inner == Kind::provably_read && modifies) return "a read inside that modifies";
      break;
    case Kind::fetch:
    case Kind::move:
      if ((statement.kind == Kind::move) != has("\"ismove\":true")) return "MOVE was misread";
      break;
    case Kind::copy_in:
    case Kind::copy_out:
    case Kind::copy_program:
    case Kind::copy_file: {
      const bool from = has("\"is_from\":true"), program = has("\"is_program\":true"),
                 file = has_node(tree, "filename");
      if (statement.kind == Kind::copy_in && (!from || file)) return "COPY IN was misread";
      if (statement.kind == Kind::copy_out && (from || file || modifies))
        return "COPY OUT was misread";
      if (statement.kind == Kind::copy_program && !program) return "COPY PROGRAM was misread";
      if (statement.kind == Kind::copy_file && (!file || program))
        return "COPY of a file was misread";
      break;
    }
    case Kind::explain: {
      const bool analyze =
          has("\"defname\":\"analyze\"") &&
          !has("\"defname\":\"analyze\",\"arg\":{\"String\":{\"sval\":\"false\"}}") &&
          !has("\"defname\":\"analyze\",\"arg\":{\"String\":{\"sval\":\"off\"}}") &&
          !has("\"defname\":\"analyze\",\"arg\":{\"Integer\":{}}");
      if (analyze && modifies && statement.inner == Kind::provably_read)
        return "EXPLAIN ANALYZE that modifies";
      break;
    }
    case Kind::must_run_alone:
    case Kind::write:
      if (top_is({"TransactionStmt", "VariableSetStmt", "CallStmt", "DoStmt", "ExecuteStmt",
                  "DiscardStmt"}))
        return "a write";
      break;
    default: break;
  }
  // What must be seen of a statement whatever it was taken for.
  const bool alone = top_is({"CreatedbStmt", "DropdbStmt", "CreateTableSpaceStmt",
                             "DropTableSpaceStmt", "AlterSystemStmt"}) ||
                     (top == "VacuumStmt" && has("\"is_vacuumcmd\":true")) ||
                     (top_is({"IndexStmt", "DropStmt"}) && has("\"concurrent\":true"));
  return alone && statement.kind != Kind::must_run_alone ? "one that does not run alone" : "";
}

// Why `classified` cannot be right, or empty.
inline std::string objection(const std::string& sql, const Classified& classified) {
  const Trees trees = trees_of(sql);
  const bool unknown =
      classified.statements.size() == 1 && classified.statements[0].kind == Kind::unparsable;
  // Plain texts are not given to the grammar; in several statements, or with WITH, it must have
  // been asked.
  if (!trees.good)
    return classified.single || unknown ? "" : "several statements that the grammar refuses";
  if (unknown) return {};
  if (trees.trees.empty())
    return classified.statements.size() == 1 && classified.statements[0].kind == Kind::empty
               ? ""
               : "the grammar sees no statement";
  if (trees.trees.size() != classified.statements.size())
    return "the grammar sees " + std::to_string(trees.trees.size()) + " statements";
  for (std::size_t i = 0; i < trees.trees.size(); ++i) {
    const Statement& statement = classified.statements[i];
    if (statement.offset + statement.length > sql.size()) return "a statement beyond the text";
    if (statement.kind == Kind::unparsable) continue;
    const std::string top = top_node(trees.trees[i]);
    const std::string_view node = node_of(statement.kind);
    if (!node.empty() && node != top) return std::string(node) + " that is " + top;
    if (const std::string why = objection_to(statement, trees.trees[i], top); !why.empty())
      return why + " that is " + top;
  }
  return {};
}

}  // namespace termgate::statements
