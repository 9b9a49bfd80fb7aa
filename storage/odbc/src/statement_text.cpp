// Scans a statement as its database does, as far as quotes and comments go, to replace $1 by ODBC's ? and to
// refuse a second statement. What does not end is an error here: a driver could read on into the next text.
#include <termgate/detail/odbc/statement_text.hpp>

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include <termgate/error.hpp>

namespace termgate::inline v0::detail::odbc {
namespace {

enum class Kind { blank, quoted, word, parameter, marker, semicolon, other };

struct Token {
  Kind kind;
  std::string_view text;
};

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80; }
bool is_word(char c) { return starts_word(c) || is_digit(c) || c == '$'; }

class Scanner {
 public:
  Scanner(std::string_view sql, Family family) : rest_(sql), family_(family) {}

  bool next(Token& token) {
    if (rest_.empty()) return false;
    const char c = rest_.front();
    if (is_space(c)) return give(token, Kind::blank, length_while([](char each) { return is_space(each); }));
    if (rest_.starts_with("--")) return give(token, Kind::blank, std::min(rest_.find('\n'), rest_.size()));
    if (rest_.starts_with("/*")) return give(token, Kind::blank, comment());
    if (c == '\'' || c == '"' || (c == '`' && family_ == Family::sqlite)) return give(token, Kind::quoted, quoted(0, c, false));
    if (c == '[' && family_ != Family::postgresql) return give(token, Kind::quoted, quoted(0, ']', false));
    if ((c == 'e' || c == 'E') && family_ == Family::postgresql && rest_.size() > 1 && rest_[1] == '\'')
      return give(token, Kind::quoted, quoted(1, '\'', true));
    if (c == '$' && rest_.size() > 1 && is_digit(rest_[1])) return give(token, Kind::parameter, 1 + number_length(rest_.substr(1)));
    if (c == '$' && family_ == Family::postgresql) {
      if (const std::size_t length = dollar_quoted(); length > 0) return give(token, Kind::quoted, length);
    }
    if (starts_word(c) || (family_ == Family::sqlserver && (c == '@' || c == '#'))) {
      return give(token, Kind::word,
                  length_while([&](char each) { return is_word(each) || (family_ == Family::sqlserver && (each == '@' || each == '#')); }));
    }
    if (is_digit(c)) return give(token, Kind::other, length_while([](char each) { return is_word(each) || each == '.'; }));
    if (c == ';') return give(token, Kind::semicolon, 1);
    if (c == '?') return give(token, Kind::marker, 1);
    return give(token, Kind::other, 1);
  }

 private:
  bool give(Token& token, Kind kind, std::size_t length) {
    token = {kind, rest_.substr(0, length)};
    rest_.remove_prefix(length);
    return true;
  }
  template <class Test>
  std::size_t length_while(Test test) const {
    std::size_t length = 0;
    while (length < rest_.size() && test(rest_[length])) ++length;
    return length;
  }
  static std::size_t number_length(std::string_view text) {
    std::size_t length = 0;
    while (length < text.size() && is_digit(text[length])) ++length;
    return length;
  }
  [[noreturn]] static void unended(std::string_view what) {
    throw InvalidInput(fmt::format("TG005 malformed statement: {} that does not end", what));
  }

  // Comments nest in PostgreSQL and T-SQL, and not in SQLite.
  std::size_t comment() const {
    std::size_t depth = 1;
    for (std::size_t at = 2; at + 1 < rest_.size(); ++at) {
      if (rest_[at] == '*' && rest_[at + 1] == '/') {
        ++at;
        if (--depth == 0 || family_ == Family::sqlite) return at + 1;
      } else if (rest_[at] == '/' && rest_[at + 1] == '*') {
        ++at;
        ++depth;
      }
    }
    unended("a comment");
  }
  // `open`: the position of the opening quote. A closing quote written twice is part of the text.
  std::size_t quoted(std::size_t open, char end, bool escapes) const {
    for (std::size_t at = open + 1; at < rest_.size(); ++at) {
      if (escapes && rest_[at] == '\\') ++at;
      else if (rest_[at] == end) {
        if (at + 1 < rest_.size() && rest_[at + 1] == end) ++at;
        else return at + 1;
      }
    }
    unended("a quote");
  }
  // $tag$ … $tag$, or 0 where the dollar starts none.
  std::size_t dollar_quoted() const {
    std::size_t at = 1;
    if (at < rest_.size() && starts_word(rest_[at])) {
      while (at < rest_.size() && (starts_word(rest_[at]) || is_digit(rest_[at]))) ++at;
    }
    if (at >= rest_.size() || rest_[at] != '$') return 0;
    const std::string_view tag = rest_.substr(0, at + 1);
    const auto end = rest_.find(tag, tag.size());
    if (end == std::string_view::npos) unended("a dollar quote");
    return end + tag.size();
  }

  std::string_view rest_;
  Family family_;
};

std::string lowered(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return small;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

[[noreturn]] void refuse_control(std::string_view word) {
  throw InvalidInput(fmt::format("TG005 {} inside a fenced transaction: the library begins and ends it; savepoints are free to use", word));
}

[[noreturn]] void refuse_session(std::string_view what) {
  throw InvalidInput(
      fmt::format("TG005 {} would change the session for whoever uses this connection next: open another Database for it", what));
}

bool begins_statement(std::string_view word) {
  return is_one_of(word, {"insert",    "update", "delete",   "merge",     "select",     "with",     "exec", "execute", "declare", "set",
                          "if",        "else",   "while",    "begin",     "commit",     "rollback", "save", "throw",   "print",   "create",
                          "alter",     "drop",   "truncate", "grant",     "revoke",     "deny",     "use",  "return",  "goto",    "waitfor",
                          "raiserror", "open",   "fetch",    "close",     "deallocate", "bulk",     "dbcc", "kill",    "backup",  "restore",
                          "end",       "break",  "continue", "writetext", "updatetext", "receive",  "send"});
}

// Every word of a T-SQL text: COMMIT, ROLLBACK without a savepoint's name, BEGIN TRANSACTION may stand anywhere in it.
void refuse_tsql_control(std::string_view sql) {
  Scanner scanner(sql, Family::sqlserver);
  std::vector<std::string> words;
  for (Token token{}; scanner.next(token);) {
    if (token.kind == Kind::word) words.push_back(lowered(token.text));
    else if (token.kind == Kind::quoted) words.emplace_back("\"");  // may be a savepoint's name
    else if (token.kind == Kind::semicolon) words.emplace_back(";");
  }
  const auto word_at = [&](std::size_t at) { return at < words.size() ? std::string_view(words[at]) : std::string_view(); };
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string_view word = words[at], second = word_at(at + 1), third = word_at(at + 2);
    const bool transaction = is_one_of(second, {"tran", "transaction", "distributed"});
    if (word == "commit" || (word == "begin" && transaction) || (word == "set" && second == "implicit_transactions") ||
        (word == "set" && second == "xact_abort"))
      refuse_control(word);
    // ROLLBACK TRANSACTION name goes back to a savepoint; where there is none of that name, SQL Server says so. A word that begins a
    // statement is no name.
    if (word == "rollback" && !(is_one_of(second, {"tran", "transaction"}) && !third.empty() && third != ";" && !begins_statement(third)))
      refuse_control(word);
    // What would stay in the session for the next user of the pool, or send its next append to another database's fences.
    if (word == "use" && !is_one_of(second, {"hint", "plan"})) refuse_session("USE");
    if ((word == "execute" || word == "exec") && second == "as") refuse_session("EXECUTE AS");
    if (word == "set" && second == "ansi_defaults") refuse_session("SET ANSI_DEFAULTS");
  }
}

}  // namespace

Marked marked(std::string_view sql, std::size_t parameters, Family family) {
  Marked result;
  result.text.reserve(sql.size());
  Scanner scanner(sql, family);
  for (Token token{}; scanner.next(token);) {
    if (token.kind == Kind::marker) {
      throw InvalidInput(
          "TG005 a ? outside quotes would be a parameter to ODBC: parameters are $1, $2 …, and an operator of that name has a function");
    }
    if (token.kind != Kind::parameter) {
      result.text += token.text;
      continue;
    }
    std::size_t number = 0;
    for (const char digit : token.text.substr(1)) number = std::min<std::size_t>(number * 10 + static_cast<std::size_t>(digit - '0'), 1000);
    if (number < 1 || number > 999) throw InvalidInput(fmt::format("TG005 parameter {}: they run from $1 to $999", token.text));
    if (number > parameters)
      throw InvalidInput(fmt::format("TG005 the statement needs parameter ${} and {} were given", number, parameters));
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
  Scanner scanner(script, family);
  for (Token token{}; scanner.next(token);) {
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
      blank = blank && (line.find_first_not_of(" \t\r") == std::string_view::npos || line.starts_with("--"));
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
  Scanner scanner(sql, family);
  for (Token token{}; scanner.next(token);) {
    if (token.kind == Kind::blank) continue;
    if (token.kind == Kind::semicolon) {
      ended = begun;
      continue;
    }
    if (ended) throw DatabaseError("two statements in one text; give each statement as a separate argument", "42601");
    begun = true;
    only_words = only_words && token.kind == Kind::word;
    if (only_words && words.size() < 3) words.push_back(lowered(token.text));
  }
  if (words.empty()) return;
  const std::string_view first = words[0], second = words.size() > 1 ? std::string_view(words[1]) : "",
                         third = words.size() > 2 ? std::string_view(words[2]) : "";
  if (is_one_of(first, {"begin", "start", "commit", "end", "abort"})) refuse_control(first);
  if (first == "rollback" && second != "to" && !(is_one_of(second, {"work", "transaction"}) && third == "to")) refuse_control(first);
  if (first == "prepare" && second == "transaction") refuse_control("prepare transaction");
}

void need_query(std::string_view sql) {
  Scanner scanner(sql, Family::sqlserver);
  bool first = true;
  for (Token token{}; scanner.next(token);) {
    if (token.kind == Kind::blank || token.kind == Kind::semicolon) continue;
    const std::string word = token.kind == Kind::word ? lowered(token.text) : std::string();
    if (first && !is_one_of(word, {"select", "with"}))
      throw InvalidInput("TG005 a query starts with SELECT or WITH; what writes goes through write()");
    first = false;
    if (is_one_of(word, {"insert",      "update",   "delete",     "merge",     "into",           "exec", "execute", "truncate", "create",
                         "alter",       "drop",     "grant",      "revoke",    "deny",           "set",  "declare", "commit",   "rollback",
                         "begin",       "save",     "openrowset", "openquery", "opendatasource", "kill", "backup",  "restore",  "use",
                         "reconfigure", "shutdown", "bulk"})) {
      throw InvalidInput(
          fmt::format("TG005 {} in a query: what writes goes through write(); a column of that name goes into [brackets]", word));
    }
  }
  if (first) throw InvalidInput("TG005 the query is empty");
}

}  // namespace termgate::inline v0::detail::odbc
