// libpg_query writes its tree out recursively: some 30,000 levels overflow a stack of 2 MB. So a text's depth is bounded from its
// tokens first: a tree grows deeper only by a token, and a comma, inside its brackets, ends what grows (set operations aside).
#include "tree.hpp"

#include <algorithm>

#include <boost/json/parser.hpp>
#include <pg_query.h>

namespace termgate::dialect {
namespace {

constexpr std::size_t depth_max = 2000;
constexpr std::size_t json_depth_max = 64 * depth_max;

bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::size_t past_string(std::string_view sql, std::size_t at, bool escapes) noexcept {
  for (++at; at < sql.size(); ++at) {
    if (escapes && sql[at] == '\\') {
      ++at;
    } else if (sql[at] == '\'') {
      if (at + 1 < sql.size() && sql[at + 1] == '\'') {
        ++at;
        continue;
      }
      // Pieces across lines are one string, and keep its escapes.
      std::size_t next = at + 1;
      bool line = false;
      for (; next < sql.size() && is_space(sql[next]); ++next) line = line || sql[next] == '\n' || sql[next] == '\r';
      if (!line || next >= sql.size() || sql[next] != '\'') return at + 1;
      at = next;
    }
  }
  return sql.size();
}

std::size_t past_comment(std::string_view sql, std::size_t at) noexcept {
  std::size_t depth = 0;
  while (at < sql.size()) {
    if (sql.substr(at, 2) == "/*") {
      ++depth;
      at += 2;
    } else if (sql.substr(at, 2) == "*/") {
      at += 2;
      if (--depth == 0) return at;
    } else {
      ++at;
    }
  }
  return at;
}

bool same_word(std::string_view word, std::string_view wanted) noexcept {
  return word.size() == wanted.size() &&
         std::equal(word.begin(), word.end(), wanted.begin(), [](char a, char b) { return (a | 0x20) == b; });
}

}  // namespace

std::size_t depth_bound(std::string_view sql) noexcept {
  struct Depth {
    std::size_t here = 0;   // tokens since the last comma
    std::size_t inner = 0;  // the deepest bracket among them
    std::size_t most = 0;   // of the pieces between commas
    std::size_t sets = 0;   // set operations, joins: commas do not end them
  };
  std::vector<Depth> levels(1);
  std::size_t bound = 0;
  const auto total = [](const Depth& level) { return std::max(level.most, level.here + level.inner) + level.sets; };
  const auto close = [&] {
    const std::size_t inside = total(levels.back()) + 1;
    levels.pop_back();
    if (levels.empty()) levels.emplace_back();
    levels.back().inner = std::max(levels.back().inner, inside);
  };
  const auto piece_ends = [&] {
    Depth& level = levels.back();
    level.most = std::max(level.most, level.here + level.inner);
    level.here = level.inner = 0;
  };
  std::size_t at = 0;
  char before = 0;  // the last token's last character
  while (at < sql.size()) {
    const char c = sql[at];
    if (at > 0 && !is_space(sql[at - 1])) before = sql[at - 1];
    if (is_space(c)) {
      ++at;
    } else if (sql.substr(at, 2) == "--") {
      while (at < sql.size() && sql[at] != '\n' && sql[at] != '\r') ++at;
    } else if (sql.substr(at, 2) == "/*") {
      at = past_comment(sql, at);
    } else if (c == '\'') {
      const bool escapes = at > 0 && (sql[at - 1] | 0x20) == 'e' && (at < 2 || !is_word(sql[at - 2]));
      at = past_string(sql, at, escapes);
      ++levels.back().here;
    } else if (c == '"') {
      const std::size_t end = sql.find('"', at + 1);
      at = end == std::string_view::npos ? sql.size() : end + 1;
      ++levels.back().here;
    } else if (c == '$' && at + 1 < sql.size() &&
               (sql[at + 1] == '$' || (is_word(sql[at + 1]) && !(sql[at + 1] >= '0' && sql[at + 1] <= '9')))) {
      std::size_t end = at + 1;
      while (end < sql.size() && is_word(sql[end])) ++end;
      ++levels.back().here;
      if (end < sql.size() && sql[end] == '$') {
        const std::string_view mark = sql.substr(at, end + 1 - at);
        const std::size_t closing = sql.find(mark, end + 1);
        at = closing == std::string_view::npos ? sql.size() : closing + mark.size();
      } else {
        ++at;
      }
    } else if (is_word(c)) {
      const std::size_t begin = at;
      while (at < sql.size() && (is_word(sql[at]) || sql[at] == '$')) ++at;
      const std::string_view word = sql.substr(begin, at - begin);
      ++levels.back().here;
      for (const std::string_view set : {"union", "except", "intersect", "join"}) {
        if (same_word(word, set)) ++levels.back().sets;
      }
      // CASE … END is a bracket whose arms are beside each other; after a dot these are names.
      if (before == '.') continue;
      if (same_word(word, "case")) levels.emplace_back();
      else if (same_word(word, "end") && levels.size() > 1) close();
      else if (same_word(word, "when")) piece_ends();
    } else {
      ++at;
      if (c == '(' || c == '[') {
        ++levels.back().here;
        levels.emplace_back();
      } else if (c == ')' || c == ']') {
        close();
      } else if (c == ',') {
        piece_ends();
      } else if (c == ';') {
        while (levels.size() > 1) close();
        bound = std::max(bound, total(levels.back()));
        levels.back() = Depth();
      } else {
        ++levels.back().here;
      }
    }
  }
  while (levels.size() > 1) close();
  return std::max(bound, total(levels.back()));
}

Node Node::operator[](std::string_view key) const noexcept {
  if (value_ == nullptr || !value_->is_object()) return Node();
  return Node(value_->get_object().if_contains(key));
}

std::string_view Node::kind() const noexcept {
  if (value_ == nullptr || !value_->is_object() || value_->get_object().size() != 1) return {};
  return value_->get_object().begin()->key();
}

Node Node::body() const noexcept { return kind().empty() ? Node() : Node(&value_->get_object().begin()->value()); }

bool Node::flag(std::string_view key) const noexcept {
  const Node member = (*this)[key];
  return member.value_ != nullptr && member.value_->is_bool() && member.value_->get_bool();
}

std::int64_t Node::integer(std::string_view key, std::int64_t otherwise) const noexcept {
  const Node member = (*this)[key];
  return member.value_ != nullptr && member.value_->is_int64() ? member.value_->get_int64() : otherwise;
}

std::string_view Node::string() const noexcept {
  return value_ != nullptr && value_->is_string() ? std::string_view(value_->get_string().data(), value_->get_string().size())
                                                  : std::string_view();
}

std::size_t Node::size() const noexcept { return value_ != nullptr && value_->is_array() ? value_->get_array().size() : 0; }
Node Node::at(std::size_t index) const noexcept { return index < size() ? Node(&value_->get_array()[index]) : Node(); }

std::vector<Node> Node::items() const {
  std::vector<Node> result;
  for (std::size_t i = 0; i < size(); ++i) result.push_back(at(i));
  return result;
}

bool Node::same_as(Node other) const noexcept {
  if (value_ == nullptr || other.value_ == nullptr) return value_ == other.value_;
  if (value_->is_object() && other.value_->is_object()) {
    const auto places = [](const boost::json::object& of) { return of.contains("location") ? 1U : 0U; };
    const boost::json::object &mine = value_->get_object(), &others = other.value_->get_object();
    if (mine.size() - places(mine) != others.size() - places(others)) return false;
    return std::all_of(mine.begin(), mine.end(), [&](const auto& member) {
      return member.key() == "location" || Node(&member.value()).same_as(other[member.key()]);
    });
  }
  if (value_->is_array() && other.value_->is_array()) {
    const boost::json::array &mine = value_->get_array(), &others = other.value_->get_array();
    return std::equal(mine.begin(), mine.end(), others.begin(), others.end(),
                      [](const auto& a, const auto& b) { return Node(&a).same_as(Node(&b)); });
  }
  return *value_ == *other.value_;
}

void Node::children(std::vector<Node>& out) const {
  if (value_ == nullptr) return;
  if (value_->is_object()) {
    for (const auto& member : value_->get_object()) out.push_back(Node(&member.value()));
  } else if (value_->is_array()) {
    for (const auto& element : value_->get_array()) out.push_back(Node(&element));
  }
}

std::vector<std::string> strings(Node list) {
  std::vector<std::string> result;
  for (const Node item : list.items()) result.push_back(item.as("String").text("sval"));
  return result;
}

std::string last_name(Node list) { return list.empty() ? std::string() : list.at(list.size() - 1).as("String").text("sval"); }

std::optional<SqlError> Tree::parse(const std::string& sql, Tree& out) {
  if (depth_bound(sql) > depth_max) return SqlError{"54001", "this text nests deeper than can be read here", 0};
  struct Result {
    PgQueryParseResult held;
    ~Result() { pg_query_free_parse_result(held); }
  } result{pg_query_parse(sql.c_str())};
  if (result.held.error != nullptr) {
    const std::string message = result.held.error->message;
    const bool deep = message.find("memory exhausted") != std::string::npos || message.find("stack depth") != std::string::npos;
    // The grammar counts characters, where every other position here counts bytes.
    std::size_t position = 0;
    if (result.held.error->cursorpos > 0) {
      for (int left = result.held.error->cursorpos - 1; left > 0 && position < sql.size(); --left) {
        ++position;
        while (position < sql.size() && (static_cast<unsigned char>(sql[position]) & 0xC0) == 0x80) ++position;
      }
      ++position;
    }
    return SqlError{deep ? "54001" : "42601", message, position};
  }
  boost::json::parse_options options;
  options.max_depth = json_depth_max;
  options.allow_invalid_utf8 = true;
  boost::json::parser parser({}, options);
  parser.reset(&out.memory_);
  boost::json::error_code error;
  parser.write(result.held.parse_tree, error);
  if (error) return SqlError{"42601", "the statement holds characters that cannot be read here", 0};
  // It lives in out.memory_: nothing is copied, and nothing is destroyed level by level.
  out.value_.emplace(parser.release());
  return std::nullopt;
}

// As in statements/: this entry keeps no tree, so any depth is fit for any stack.
std::optional<std::vector<std::string_view>> statements_of(std::string_view text, const Limits& limits) {
  if (text.size() > limits.text_bytes_max || text.find('\0') != std::string_view::npos) return std::nullopt;
  const std::string sql(text);
  struct Result {
    PgQuerySplitResult held;
    ~Result() { pg_query_free_split_result(held); }
  } result{pg_query_split_with_parser(sql.c_str())};
  if (result.held.error != nullptr) return std::nullopt;
  std::vector<std::string_view> found;
  for (int i = 0; i < result.held.n_stmts; ++i) {
    const auto begin = static_cast<std::size_t>(result.held.stmts[i]->stmt_location);
    const auto length = static_cast<std::size_t>(result.held.stmts[i]->stmt_len);
    if (begin > text.size() || length > text.size() - begin) return std::nullopt;
    found.push_back(text.substr(begin, length));
  }
  return found;
}

Node Tree::statements() const noexcept { return value_ ? Node(&*value_)["stmts"] : Node(); }

}  // namespace termgate::dialect
