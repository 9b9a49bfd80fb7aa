// Scans a statement by its database's rules for quotes and comments, to replace $1 by ODBC's ? and
// to refuse a second statement. An unterminated quote or comment is an error here: a driver could
// read on into the next text.
#include <termgate/detail/odbc/statement_text.hpp>

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/text/scanner.hpp>

namespace termgate {
inline namespace v0 {
namespace detail::odbc {
namespace {

using text::lower;
using text::Token;
using Kind = Token::Kind;

text::Dialect text_dialect_of(Family family) {
  switch (family) {
    case Family::postgresql: return text::Dialect::postgresql;
    case Family::sqlserver: return text::Dialect::sqlserver;
    case Family::sqlite: return text::Dialect::sqlite;
  }
  return text::Dialect::sqlserver;
}

// The next token; throws TG005 if it is unterminated.
bool next(text::Scanner& scanner, Token& token) {
  if (!scanner.next(token)) return false;
  if (!token.ends) {
    const char* what = token.kind == Kind::blank     ? "a comment"
                       : token.text.starts_with('$') ? "a dollar quote"
                                                     : "a quote";
    throw InvalidInput(fmt::format("TG005 malformed statement: {} that does not end", what));
  }
  return true;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

[[noreturn]] void refuse_control(std::string_view word) {
  throw InvalidInput(
      fmt::format("TG005 {} inside a fenced transaction: the library begins and ends it; "
                  "savepoints are free to use",
                  word));
}

[[noreturn]] void refuse_session(std::string_view what) {
  throw InvalidInput(
      fmt::format("TG005 {} would change the session for whoever uses this connection next: open "
                  "another Database for it",
                  what));
}

bool begins_statement(std::string_view word) {
  return is_one_of(
      word, {"insert",   "update",    "delete",     "merge",   "select",  "with",   "exec",
             "execute",  "declare",   "set",        "if",      "else",    "while",  "begin",
             "commit",   "rollback",  "save",       "throw",   "print",   "create", "alter",
             "drop",     "truncate",  "grant",      "revoke",  "deny",    "use",    "return",
             "goto",     "waitfor",   "raiserror",  "open",    "fetch",   "close",  "deallocate",
             "bulk",     "dbcc",      "kill",       "backup",  "restore", "end",    "break",
             "continue", "writetext", "updatetext", "receive", "send"});
}

// Looks at every word of a T-SQL text: COMMIT, ROLLBACK without a savepoint's name and BEGIN
// TRANSACTION may be anywhere in it.
void refuse_tsql_control(std::string_view sql) {
  text::Scanner scanner(sql, text::Dialect::sqlserver);
  std::vector<std::string> words;
  for (Token token; next(scanner, token);) {
    if (token.kind == Kind::word) words.push_back(lower(token.text));
    else if (token.kind == Kind::quoted) words.emplace_back("\"");  // may be a savepoint's name
    else if (token.kind == Kind::semicolon) words.emplace_back(";");
  }
  const auto word_at = [&](std::size_t at) {
    return at < words.size() ? std::string_view(words[at]) : std::string_view();
  };
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string_view word = words[at], second = word_at(at + 1), third = word_at(at + 2);
    const bool transaction = is_one_of(second, {"tran", "transaction", "distributed"});
    if (word == "commit" || (word == "begin" && transaction) ||
        (word == "set" && second == "implicit_transactions") ||
        (word == "set" && second == "xact_abort"))
      refuse_control(word);
    // ROLLBACK TRANSACTION name returns to a savepoint; if there is none of that name, SQL Server
    // reports it. A word that begins a statement is not a name.
    if (word == "rollback" && !(is_one_of(second, {"tran", "transaction"}) && !third.empty() &&
                                third != ";" && !begins_statement(third)))
      refuse_control(word);
    // Refuses what would affect the next user of the pooled session, or send its next append to
    // another database's fences.
    if (word == "use" && !is_one_of(second, {"hint", "plan"})) refuse_session("USE");
    if ((word == "execute" || word == "exec") && second == "as") refuse_session("EXECUTE AS");
    if (word == "set" && second == "ansi_defaults") refuse_session("SET ANSI_DEFAULTS");
  }
}

}  // namespace

Marked marked(std::string_view sql, std::size_t parameters, Family family) {
  Marked result;
  result.text.reserve(sql.size());
  text::Scanner scanner(sql, text_dialect_of(family));
  for (Token token; next(scanner, token);) {
    if (token.kind == Kind::marker) {
      throw InvalidInput(
          "TG005 a ? outside quotes would be a parameter to ODBC: parameters are $1, $2 …, and an "
          "operator of that name has a function");
    }
    if (token.kind != Kind::parameter) {
      result.text += token.text;
      continue;
    }
    std::size_t number = 0;
    for (const char digit : token.text.substr(1))
      number = std::min<std::size_t>(number * 10 + static_cast<std::size_t>(digit - '0'), 1000);
    if (number < 1 || number > 999)
      throw InvalidInput(fmt::format("TG005 parameter {}: they run from $1 to $999", token.text));
    if (number > parameters)
      throw InvalidInput(fmt::format("TG005 the statement needs parameter ${} and {} were given",
                                     number, parameters));
    result.order.push_back(number - 1);
    result.text += '?';
  }
  return result;
}

std::vector<std::string> statements_of(std::string_view script, Family family) {
  std::vector<std::string> statements;
  std::string text;
  bool blank = true;
  const auto end = [&] {
    if (!blank) statements.push_back(text);
    text.clear();
    blank = true;
  };
  text::Scanner scanner(script, text_dialect_of(family));
  for (Token token; next(scanner, token);) {
    if (token.kind == Kind::semicolon) {
      end();
      continue;
    }
    text += token.text;
    blank = blank && token.kind == Kind::blank;
  }
  end();
  return statements;
}

std::vector<std::string> batches_of(std::string_view script) {
  std::vector<std::string> batches;
  std::string text;
  bool blank = true;
  while (!script.empty()) {
    const auto end = script.find('\n');
    const std::string_view line = script.substr(0, end);
    script = end == std::string_view::npos ? std::string_view{} : script.substr(end + 1);
    const bool go = line == "GO" || line == "GO\r";
    if (!go) {
      text.append(line).append("\n");
      blank = blank &&
              (line.find_first_not_of(" \t\r") == std::string_view::npos || line.starts_with("--"));
    }
    if (go || script.empty()) {
      if (!blank) batches.push_back(text);
      text.clear();
      blank = true;
    }
  }
  return batches;
}

void need_one_statement(std::string_view sql, Family family) {
  if (family == Family::sqlserver) {
    refuse_tsql_control(sql);
    return;
  }
  std::vector<std::string> words;
  bool only_words = true, ended = false, begun = false;
  text::Scanner scanner(sql, text_dialect_of(family));
  for (Token token; next(scanner, token);) {
    if (token.kind == Kind::blank) continue;
    if (token.kind == Kind::semicolon) {
      ended = begun;
      continue;
    }
    if (ended)
      throw DatabaseError("two statements in one text; give each statement as a separate argument",
                          "42601");
    begun = true;
    only_words = only_words && token.kind == Kind::word;
    if (only_words && words.size() < 3) words.push_back(lower(token.text));
  }
  if (words.empty()) return;
  const std::string_view first = words[0],
                         second = words.size() > 1 ? std::string_view(words[1]) : "",
                         third = words.size() > 2 ? std::string_view(words[2]) : "";
  if (is_one_of(first, {"begin", "start", "commit", "end", "abort"})) refuse_control(first);
  if (first == "rollback" && second != "to" &&
      !(is_one_of(second, {"work", "transaction"}) && third == "to"))
    refuse_control(first);
  if (first == "prepare" && second == "transaction") refuse_control("prepare transaction");
}

void need_query(std::string_view sql) {
  text::Scanner scanner(sql, text::Dialect::sqlserver);
  bool first = true;
  for (Token token; next(scanner, token);) {
    if (token.kind == Kind::blank || token.kind == Kind::semicolon) continue;
    const std::string word = token.kind == Kind::word ? lower(token.text) : std::string();
    if (first && !is_one_of(word, {"select", "with"}))
      throw InvalidInput(
          "TG005 a query starts with SELECT or WITH; what writes goes through write()");
    first = false;
    if (is_one_of(word,
                  {"insert",  "update",   "delete",     "merge",       "into",           "exec",
                   "execute", "truncate", "create",     "alter",       "drop",           "grant",
                   "revoke",  "deny",     "set",        "declare",     "commit",         "rollback",
                   "begin",   "save",     "openrowset", "openquery",   "opendatasource", "kill",
                   "backup",  "restore",  "use",        "reconfigure", "shutdown",       "bulk"})) {
      throw InvalidInput(
          fmt::format("TG005 {} in a query: what writes goes through write(); a column of that "
                      "name goes into [brackets]",
                      word));
    }
  }
  if (first) throw InvalidInput("TG005 the query is empty");
}

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
