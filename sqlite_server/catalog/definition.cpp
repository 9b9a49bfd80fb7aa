// What the text of a CREATE TABLE, INDEX or VIEW says and no pragma tells: names of constraints, CHECKs, expressions, conditions.
// SQLite has parsed the text already, so it is well formed; a reader that loses its way leaves something out and never fails.
#include <algorithm>
#include <span>
#include <utility>

#include "catalog/data.hpp"
#include "catalog/schema.hpp"

namespace termgate::sqlite_server {
namespace {

struct Token {
  enum class Kind : std::uint8_t { word, quoted, text, open, close, comma, other } kind;
  std::size_t at, end;
  std::string name;  // of a word in lower case, of a quoted one without its quotes
};

bool word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0; }
bool word_part(char c) { return word_start(c) || (c >= '0' && c <= '9') || c == '$'; }

std::vector<Token> tokens_of(std::string_view sql) {
  std::vector<Token> out;
  std::size_t at = 0;
  while (at < sql.size()) {
    const char c = sql[at];
    const std::size_t start = at;
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      ++at;
    } else if (sql.substr(at, 2) == "--") {
      at = std::min(sql.find('\n', at), sql.size());
    } else if (sql.substr(at, 2) == "/*") {
      const auto end = sql.find("*/", at + 2);
      at = end == std::string_view::npos ? sql.size() : end + 2;
    } else if (c == '"' || c == '`' || c == '[' || c == '\'') {
      const char close = c == '[' ? ']' : c;
      std::string name;
      for (++at; at < sql.size(); ++at) {
        if (sql[at] != close) name += sql[at];
        else if (c != '[' && at + 1 < sql.size() && sql[at + 1] == close) name += sql[at++];
        else break;
      }
      at = std::min(at + 1, sql.size());
      out.push_back({c == '\'' ? Token::Kind::text : Token::Kind::quoted, start, at, name});
    } else if (word_start(c)) {
      while (at < sql.size() && word_part(sql[at])) ++at;
      out.push_back({Token::Kind::word, start, at, lower(sql.substr(start, at - start))});
    } else if (c >= '0' && c <= '9') {
      while (at < sql.size() && (word_part(sql[at]) || sql[at] == '.')) ++at;
      out.push_back({Token::Kind::other, start, at, {}});
    } else {
      ++at;
      out.push_back({c == '('   ? Token::Kind::open
                     : c == ')' ? Token::Kind::close
                     : c == ',' ? Token::Kind::comma
                                : Token::Kind::other,
                     start, at, std::string(1, c)});
    }
  }
  return out;
}

class Reader {
 public:
  explicit Reader(std::string_view sql) : sql_(sql), tokens_(tokens_of(sql)) {}

  bool done() const { return at_ >= tokens_.size(); }
  const Token& now() const { return tokens_[at_]; }
  bool is(std::string_view word, std::size_t ahead = 0) const {
    return at_ + ahead < tokens_.size() && tokens_[at_ + ahead].kind == Token::Kind::word && tokens_[at_ + ahead].name == word;
  }
  bool is(Token::Kind kind) const { return !done() && now().kind == kind; }
  void skip(std::size_t count = 1) { at_ += count; }
  bool take(std::string_view word) {
    if (!is(word)) return false;
    skip();
    return true;
  }
  // A name as it was written; of a plain word too, whose case counts for display.
  std::string name() {
    if (done()) return {};
    const Token& token = now();
    skip();
    return token.kind == Token::Kind::word ? std::string(sql_.substr(token.at, token.end - token.at)) : token.name;
  }
  // At "(": what stands within, and moves behind its ")".
  std::string_view group() {
    if (!is(Token::Kind::open)) return {};
    const std::size_t begin = now().end;
    std::size_t depth = 0, end = begin;
    for (; !done(); skip()) {
      if (is(Token::Kind::open)) ++depth;
      else if (is(Token::Kind::close) && --depth == 0) {
        end = now().at;
        skip();
        break;
      }
    }
    return end < begin ? std::string_view() : sql_.substr(begin, end - begin);
  }
  std::size_t position() const { return done() ? sql_.size() : now().at; }
  std::string_view sql() const { return sql_; }

 private:
  std::string_view sql_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

std::string trimmed_copy(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string() : std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

// The names in "(a, b COLLATE nocase DESC)".
std::vector<std::string> names_in(std::string_view group) {
  Reader reader(group);
  std::vector<std::string> out;
  bool first = true;
  while (!reader.done()) {
    if (reader.is(Token::Kind::comma)) {
      first = true;
      reader.skip();
    } else if (first) {
      out.push_back(reader.name());
      first = false;
    } else {
      reader.skip();
    }
  }
  return out;
}

bool begins_constraint(const Reader& reader) {
  return reader.is("constraint") || (reader.is("primary") && reader.is("key", 1)) || reader.is("unique") || reader.is("check") ||
         reader.is("foreign");
}

// From "(" on behind CREATE TABLE name.
void read_body(std::string_view body, Definition& out) {
  Reader reader(body);
  while (!reader.done()) {
    std::string column;
    if (!begins_constraint(reader)) {
      column = reader.name();
      // SQLite itself tells the type in capitals only.
      const std::string_view type = body.substr(reader.position(), 8);
      if (type == "INTeger " || type == "INTegER ") out.integers.insert(lower(column));
      if (type == "INTegER " || type == "INTEGer ") out.always.insert(lower(column));
    }
    std::string constraint_name;
    while (!reader.done() && !reader.is(Token::Kind::comma)) {
      if (reader.take("constraint")) {
        constraint_name = reader.name();
      } else if (reader.take("check")) {
        out.checks.push_back({std::exchange(constraint_name, {}), column, trimmed_copy(reader.group())});
      } else if (reader.is("primary") || reader.is("unique")) {
        const bool primary = reader.is("primary");
        reader.skip(primary ? 2 : 1);
        Definition::Key key{std::exchange(constraint_name, {}), {}, primary};
        if (column.empty()) key.columns = names_in(reader.group());
        else key.columns = {column};
        out.keys.push_back(std::move(key));
      } else if (reader.is("foreign") || reader.is("references")) {
        Definition::Foreign foreign{std::exchange(constraint_name, {}), {}, false, false};
        if (reader.take("foreign")) {
          reader.take("key");
          foreign.columns = names_in(reader.group());
          reader.take("references");
        } else {
          reader.skip();
          foreign.columns = {column};
        }
        reader.name();
        if (reader.is(Token::Kind::open)) reader.group();
        while (reader.is("on") || reader.is("match") || reader.is("deferrable") || (reader.is("not") && reader.is("deferrable", 1))) {
          if (reader.is("on")) {
            reader.skip(2);
            if (reader.is("set") || reader.is("no")) reader.skip();
            reader.skip();
          } else if (reader.is("match")) {
            reader.skip(2);
          } else {
            const bool no = reader.take("not");
            reader.skip();
            foreign.deferrable = !no;
            if (reader.take("initially")) {
              foreign.deferred = !no && reader.is("deferred");
              reader.skip();
            }
          }
        }
        out.foreign.push_back(std::move(foreign));
      } else if (reader.is("generated") || (reader.is("as") && !column.empty())) {
        while (!reader.done() && !reader.is(Token::Kind::open)) reader.skip();
        out.generated[lower(column)] = trimmed_copy(reader.group());
      } else if (reader.take("collate")) {
        const std::string collation = reader.name();
        if (!column.empty()) out.collations[lower(column)] = collation;
      } else if (reader.is(Token::Kind::open)) {
        reader.group();
      } else {
        reader.skip();
      }
    }
    if (reader.is(Token::Kind::comma)) reader.skip();
  }
}

// Behind a list's item: where COLLATE, ASC or DESC at its end begins.
std::string without_order(std::string_view part) {
  Reader reader(part);
  std::size_t depth = 0, cut = part.size();
  for (; !reader.done(); reader.skip()) {
    if (reader.is(Token::Kind::open)) ++depth;
    else if (reader.is(Token::Kind::close)) --depth;
    else if (depth == 0 && (reader.is("collate") || reader.is("asc") || reader.is("desc"))) {
      cut = reader.position();
      break;
    }
  }
  return trimmed_copy(part.substr(0, cut));
}

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

Definition definition_of(std::string_view create_table) {
  Definition out;
  Reader reader(create_table);
  while (!reader.done() && !reader.is(Token::Kind::open)) {
    if (reader.is("as") || reader.is("using")) return out;
    reader.skip();
  }
  read_body(reader.group(), out);
  return out;
}

IndexDefinition index_definition_of(std::string_view create_index) {
  IndexDefinition out;
  Reader reader(create_index);
  while (!reader.done() && !reader.is(Token::Kind::open)) reader.skip();
  const std::string_view list = reader.group();
  if (reader.take("where")) out.condition = trimmed_copy(create_index.substr(reader.position()));
  Reader items(list);
  std::size_t depth = 0, begin = 0;
  for (; !items.done(); items.skip()) {
    if (items.is(Token::Kind::open)) ++depth;
    else if (items.is(Token::Kind::close)) --depth;
    else if (depth == 0 && items.is(Token::Kind::comma)) {
      out.parts.push_back(without_order(list.substr(begin, items.position() - begin)));
      begin = items.position() + 1;
    }
  }
  out.parts.push_back(without_order(list.substr(begin)));
  return out;
}

std::vector<std::string> names_mentioned(std::string_view expression) {
  std::vector<std::string> out;
  for (const Token& token : tokens_of(expression)) {
    if (token.kind == Token::Kind::word || token.kind == Token::Kind::quoted) out.push_back(token.name);
  }
  return out;
}

std::string view_query(std::string_view create_view) {
  Reader reader(create_view);
  for (; !reader.done(); reader.skip()) {
    if (reader.is(Token::Kind::open)) { reader.group(); }
    if (reader.is("as")) {
      reader.skip();
      return trimmed_copy(create_view.substr(reader.position()));
    }
  }
  return {};
}

std::string quoted_identifier(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  static const auto& reserved = *new std::map<std::string_view, bool>([] {
    std::map<std::string_view, bool> words;
    for (const auto line : std::span(data::keywords, data::keywords_count)) {
      const auto fields = fields_of(line);
      words[fields[0]] = fields[1] != "U";
    }
    return words;
  }());
  const bool digit_first = !name.empty() && name[0] >= '0' && name[0] <= '9';
  const auto found = reserved.find(name);
  if (!name.empty() && !digit_first && std::all_of(name.begin(), name.end(), plain) && (found == reserved.end() || !found->second))
    return std::string(name);
  std::string out = "\"";
  for (const char c : name) {
    out += c;
    if (c == '"') out += c;
  }
  return out + '"';
}

}  // namespace termgate::sqlite_server
