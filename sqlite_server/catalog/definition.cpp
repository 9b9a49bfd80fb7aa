// What the text of a CREATE TABLE, INDEX or VIEW says and no pragma tells: names of constraints, CHECKs, expressions, conditions.
// SQLite has parsed the text already, so it is well formed; a reader that loses its way leaves something out and never fails.
#include <algorithm>
#include <span>
#include <utility>

#include <termgate/dialect/translate.hpp>

#include "catalog/data.hpp"
#include "catalog/schema.hpp"
#include "catalog/sql_reader.hpp"

namespace termgate::sqlite_server {
namespace {

std::string trimmed_copy(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string() : std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

// The names in "(a, b COLLATE nocase DESC)".
std::vector<std::string> names_in(std::string_view group) {
  SqlReader reader(group);
  std::vector<std::string> out;
  bool first = true;
  while (!reader.done()) {
    if (reader.is(SqlToken::Kind::comma)) {
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

bool begins_constraint(const SqlReader& reader) {
  return reader.is("constraint") || (reader.is("primary") && reader.is("key", 1)) || reader.is("unique") || reader.is("check") ||
         reader.is("foreign");
}

// From the "(" after CREATE TABLE name.
void read_body(std::string_view body, Definition& out) {
  SqlReader reader(body);
  while (!reader.done()) {
    std::string column;
    if (!begins_constraint(reader)) {
      column = reader.name();
      // SQLite itself tells the type in capitals only.
      const std::string_view type = body.substr(reader.position(), 8);
      if (type == "INTeger " || type == "INTegER " || type == "INTegeR ") out.integers.insert(lower(column));
      if (type == "INTegeR " || type == "INTEGEr ") out.serials.insert(lower(column));
      if (type == "INTegER " || type == "INTEGer ") out.always.insert(lower(column));
    }
    std::string constraint_name;
    while (!reader.done() && !reader.is(SqlToken::Kind::comma)) {
      if (reader.take("constraint")) {
        constraint_name = reader.name();
      } else if (reader.take("check")) {
        const std::string expression = trimmed_copy(reader.group());
        const std::string name = std::exchange(constraint_name, {});
        // Those of the columns' stored forms are the front's own.
        if (name != dialect::stored_check_name) out.checks.push_back({name, column, expression});
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
        if (reader.is(SqlToken::Kind::open)) reader.group();
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
        while (!reader.done() && !reader.is(SqlToken::Kind::open)) reader.skip();
        out.generated[lower(column)] = trimmed_copy(reader.group());
      } else if (reader.take("collate")) {
        const std::string collation = reader.name();
        if (!column.empty()) out.collations[lower(column)] = collation;
      } else if (reader.is(SqlToken::Kind::open)) {
        reader.group();
      } else {
        reader.skip();
      }
    }
    if (reader.is(SqlToken::Kind::comma)) reader.skip();
  }
}

// Behind a list's item: where COLLATE, ASC or DESC at its end begins.
std::string without_order(std::string_view part) {
  SqlReader reader(part);
  std::size_t depth = 0, cut = part.size();
  for (; !reader.done(); reader.skip()) {
    if (reader.is(SqlToken::Kind::open)) ++depth;
    else if (reader.is(SqlToken::Kind::close)) --depth;
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
  SqlReader reader(create_table);
  while (!reader.done() && !reader.is(SqlToken::Kind::open)) {
    if (reader.is("as") || reader.is("using")) return out;
    reader.skip();
  }
  read_body(reader.group(), out);
  return out;
}

IndexDefinition index_definition_of(std::string_view create_index) {
  IndexDefinition out;
  SqlReader reader(create_index);
  while (!reader.done() && !reader.is(SqlToken::Kind::open)) reader.skip();
  const std::string_view list = reader.group();
  if (reader.take("where")) out.condition = trimmed_copy(create_index.substr(reader.position()));
  SqlReader items(list);
  std::size_t depth = 0, begin = 0;
  for (; !items.done(); items.skip()) {
    if (items.is(SqlToken::Kind::open)) ++depth;
    else if (items.is(SqlToken::Kind::close)) --depth;
    else if (depth == 0 && items.is(SqlToken::Kind::comma)) {
      out.parts.push_back(without_order(list.substr(begin, items.position() - begin)));
      begin = items.position() + 1;
    }
  }
  out.parts.push_back(without_order(list.substr(begin)));
  return out;
}

// Every word and quoted name of it: more than the columns, for nobody here knows which is one.
std::vector<std::string> names_mentioned(std::string_view expression) {
  std::vector<std::string> out;
  for (const SqlToken& token : sql_tokens(expression)) {
    if (token.kind == SqlToken::Kind::word || token.kind == SqlToken::Kind::quoted) out.push_back(token.name);
  }
  return out;
}

std::string view_query(std::string_view create_view) {
  SqlReader reader(create_view);
  for (; !reader.done(); reader.skip()) {
    if (reader.is(SqlToken::Kind::open)) { reader.group(); }
    if (reader.is("as")) {
      reader.skip();
      return trimmed_copy(create_view.substr(reader.position()));
    }
  }
  return {};
}

std::string quoted_identifier(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  // Never destroyed: a thread may still be at work when the process ends.
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
