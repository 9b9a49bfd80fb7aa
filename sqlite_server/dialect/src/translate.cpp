#include <termgate/dialect/translate.hpp>

#include <algorithm>
#include <utility>

#include "names.hpp"
#include "tree.hpp"
#include "typed.hpp"
#include "writer.hpp"

namespace termgate::dialect {

void Writer::statement(Node node) {
  const Deeper deeper(*this);
  const std::string_view kind = node.kind();
  const Node body = node.body();
  if (typed(node)) return;
  if (kind == "SelectStmt") {
    Node first = body;
    while (first["larg"]) first = first["larg"];
    if (const Node into = first["intoClause"]) refuse("SELECT … INTO (use CREATE TABLE … AS)", into["rel"]);
    out_.effect = Effect::read;
    out_.tag = "SELECT";
    out_.returns_rows = true;
    add(query(body, {}, &out_.columns));
  } else if (kind == "InsertStmt") insert(body);
  else if (kind == "UpdateStmt") update(body);
  else if (kind == "DeleteStmt") remove(body);
  else if (kind == "TruncateStmt") truncate(body);
  else if (kind == "CreateStmt") create_table(body);
  else if (kind == "CreateTableAsStmt") create_table_as(body);
  else if (kind == "IndexStmt") create_index(body);
  else if (kind == "ViewStmt") create_view(body);
  else if (kind == "AlterTableStmt") alter_table(body);
  else if (kind == "RenameStmt") rename(body);
  else if (kind == "DropStmt") drop(body);
  else if (kind == "ReindexStmt" && body["relation"]) {
    out_.effect = Effect::definition;
    out_.tag = "REINDEX";
    add("REINDEX " + relation_name(body["relation"]));
  } else if (!utility(node)) {
    // CreateFunctionStmt -> "CREATE FUNCTION"
    std::string words;
    const std::string_view bare = kind.ends_with("Stmt") ? kind.substr(0, kind.size() - 4) : kind;
    for (const char c : bare) {
      if (c >= 'A' && c <= 'Z' && !words.empty()) words += ' ';
      words += c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    }
    refuse(words.empty() ? "this statement" : words);
  }
}

namespace {

constexpr std::size_t numbered_parameters_max = 100;

// SQLite keeps the numbers of ?1, ?2 in a list that it searches for each, so thousands of them are written as bare ?. `places`: which
// number each of these has; empty where they come in their order.
std::string unnumbered(std::string_view sql, std::vector<std::uint32_t>& places) {
  std::string out;
  out.reserve(sql.size());
  bool in_order = true;
  for (std::size_t at = 0; at < sql.size();) {
    if (sql[at] == '\'' || sql[at] == '"') {
      const auto end = sql.find(sql[at], at + 1);
      out += sql.substr(at, end == std::string_view::npos ? end : end - at + 1);
      if (end == std::string_view::npos) break;
      at = end + 1;
      continue;
    }
    if (sql[at] != '?') {
      out += sql[at++];
      continue;
    }
    std::uint32_t number = 0;
    std::size_t end = at + 1;
    while (end < sql.size() && sql[end] >= '0' && sql[end] <= '9') number = number * 10 + static_cast<std::uint32_t>(sql[end++] - '0');
    out += '?';
    places.push_back(number);
    in_order = in_order && number == places.size();
    at = end;
  }
  if (in_order) places.clear();
  return out;
}

// With $1 for ?1, which is a name to SQLite: beside :pg_step1, which takes the next number that is free, a number could be one of two
// things.
std::string named(std::string_view sql) {
  std::string out;
  out.reserve(sql.size());
  char quote = '\0';
  for (const char c : sql) {
    if (quote == '\0' && (c == '\'' || c == '"')) quote = c;
    else if (c == quote) quote = '\0';
    out += c == '?' && quote == '\0' ? '$' : c;
  }
  return out;
}

}  // namespace

// Nothing that is written here has comments: where one begins, an operator has met another one's sign, and SQLite would read what follows
// otherwise than the grammar has.
bool has_comment(std::string_view sql) {
  for (std::size_t at = 0; at + 1 < sql.size(); ++at) {
    if (sql[at] == '\'' || sql[at] == '"') {
      // A doubled quote is two texts side by side.
      at = sql.find(sql[at], at + 1);
      if (at == std::string_view::npos) return true;
    } else if ((sql[at] == '-' && sql[at + 1] == '-') || (sql[at] == '/' && sql[at + 1] == '*')) {
      return true;
    }
  }
  return false;
}

// By types, where the file's tables are known and this is about them.
bool Writer::typed(Node node) {
  const std::string_view kind = node.kind();
  if (relations_ == nullptr || (kind != "SelectStmt" && kind != "InsertStmt" && kind != "UpdateStmt" && kind != "DeleteStmt")) return false;
  const Typed::About about = Typed::about(node, *relations_);
  if (about == Typed::About::own) return false;
  if (about == Typed::About::catalog) return kind == "SelectStmt" && typed_if_possible(node);
  const std::vector<Oid> declared = std::exchange(out_.parameters, {});
  Typed(out_, sql_, *relations_, declared).statement(node);
  return true;
}

// About the catalog: by its text where the types stop at something. What PostgreSQL would refuse is refused.
bool Writer::typed_if_possible(Node node) {
  Translated attempt = out_;
  const std::vector<Oid> declared = std::exchange(attempt.parameters, {});
  try {
    Typed(attempt, sql_, *relations_, declared).statement(node);
  } catch (const Refused& refused) {
    static constexpr std::string_view believed[] = {"22012", "22P02", "42601", "42702", "42703",
                                                    "42803", "42804", "42883", "42P01", "42P10"};
    if (std::find(std::begin(believed), std::end(believed), refused.problem.sqlstate) == std::end(believed)) return false;
    // The typing knows no functions of these arrays, PostgreSQL does.
    for (const char* vector : {"int2vector", "oidvector"})
      if (refused.problem.message.find(vector) != std::string::npos) return false;
    out_.typed = true;
    throw;
  }
  out_ = std::move(attempt);
  return true;
}

std::variant<std::vector<Translated>, SqlError> translate(std::string_view text, const Limits& limits, const Relations* relations,
                                                          std::span<const Oid> declared) {
  if (text.size() > limits.text_bytes_max) return SqlError{"54000", "this text is longer than can be translated", 0};
  if (text.find('\0') != std::string_view::npos) return SqlError{"22021", "invalid byte sequence for encoding \"UTF8\": 0x00", 0};
  const std::string sql(text);
  Tree tree;
  if (auto problem = Tree::parse(sql, tree)) return *problem;
  std::vector<Translated> result;
  try {
    for (const Node raw : tree.statements().items()) {
      Translated& out = result.emplace_back();
      out.offset = static_cast<std::size_t>(raw.integer("stmt_location"));
      const std::int64_t length = raw.integer("stmt_len");
      out.length = length > 0 ? static_cast<std::size_t>(length) : sql.size() - out.offset;
      out.parameters.assign(declared.begin(), declared.end());
      out.lifts = limits.lift;
      Writer writer(out, sql, 0, relations);
      try {
        writer.statement(raw["stmt"]);
        for (const Translated::Step& step : out.steps) {
          for (const std::string& written : step.sql) {
            if (has_comment(written)) refuse_as("XX000", "this statement cannot be translated: two of its signs would begin a comment", {});
          }
        }
        for (std::string written : out.sql) {
          if (const auto mark = written.find(added_constraint_mark);
              written.starts_with("CREATE UNIQUE INDEX ") && mark != std::string::npos)
            written.erase(mark, added_constraint_mark.size());
          // A view's says its types; a table that is made anew has the old one's.
          if (has_comment(written) && !(out.typed && (written.starts_with("CREATE VIEW") || written.starts_with("CREATE TEMP VIEW"))) &&
              !out.rebuild)
            refuse_as("XX000", "this statement cannot be translated: two of its signs would begin a comment", {});
        }
        if (!out.steps.empty()) {
          for (std::string& written : out.sql) written = named(written);
          for (Translated::Step& step : out.steps) {
            for (std::string& written : step.sql) written = named(written);
          }
        } else if (out.parameters.size() > numbered_parameters_max) {
          for (std::string& written : out.sql) written = unnumbered(written, out.places.emplace_back());
        }
      } catch (Refused& refused) {
        if (!out.typed) throw;
        // The statements beside it may yet make what it misses.
        out.problem = std::move(refused.problem);
        out.sql.clear();
      }
    }
  } catch (const Refused& refused) { return refused.problem; }
  return result;
}

}  // namespace termgate::dialect
