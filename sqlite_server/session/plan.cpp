#include "session/plan.hpp"
#include "values/forms.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace termgate::sqlite_server {
namespace {

// Whose comments they are: PostgreSQL's nest, and a carriage return ends a line of theirs. Who reads a text differently from the proxy's
// session runs what that has never judged.
enum class Comments : bool { postgresql, sqlite };

// Reads tokens of the few forms that a call of ours has; anything else ends it.
class Words {
 public:
  explicit Words(std::string_view text, Comments comments) : text_(text), comments_(comments) {}
  void space() {
    for (;;) {
      while (!text_.empty() && std::isspace(static_cast<unsigned char>(text_.front())) != 0) text_.remove_prefix(1);
      if (text_.starts_with("--")) {
        text_.remove_prefix(std::min(text_.find_first_of(comments_ == Comments::postgresql ? "\n\r" : "\n"), text_.size()));
      } else if (text_.starts_with("/*")) {
        const std::size_t end = past_comment();
        if (end == std::string_view::npos && comments_ == Comments::postgresql) return;  // an error of the grammar's
        text_.remove_prefix(std::min(end, text_.size()));
      } else {
        return;
      }
    }
  }
  bool take(char letter) {
    space();
    if (text_.empty() || text_.front() != letter) return false;
    text_.remove_prefix(1);
    return true;
  }
  // Without case; "quoted" as it is.
  std::string name() {
    space();
    std::string result;
    if (text_.starts_with('"')) {
      const auto end = text_.find('"', 1);
      if (end == std::string_view::npos) return {};
      result = text_.substr(1, end - 1);
      text_.remove_prefix(end + 1);
      return result;
    }
    while (!text_.empty() && (std::isalnum(static_cast<unsigned char>(text_.front())) != 0 || text_.front() == '_')) {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(text_.front())));
      text_.remove_prefix(1);
    }
    return result;
  }
  bool word(std::string_view wanted) {
    const std::string_view before = text_;
    if (name() == wanted) return true;
    text_ = before;
    return false;
  }
  std::optional<OwnCall::Argument> argument() {
    space();
    OwnCall::Argument argument;
    if (take('$')) {
      const std::string number = name();
      if (number.empty() || number.size() > 5 ||
          !std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
        return std::nullopt;
      argument.parameter = std::stoi(number);
      if (argument.parameter == 0) return std::nullopt;
    } else if (take('\'')) {
      std::string value;
      for (;;) {
        const auto end = text_.find('\'');
        if (end == std::string_view::npos) return std::nullopt;
        value += text_.substr(0, end);
        text_.remove_prefix(end + 1);
        if (!text_.starts_with('\'')) break;
        value += '\'';
        text_.remove_prefix(1);
      }
      argument.text = value;
    } else if (word("null")) {
    } else {
      std::string value = take('-') ? "-" : "";
      const std::string digits = name();
      if (digits.empty() || !std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
        return std::nullopt;
      argument.text = value + digits;
    }
    // A cast says nothing that the function does not know.
    while (text_.starts_with("::")) {
      text_.remove_prefix(2);
      if (name().empty()) return std::nullopt;
    }
    return argument;
  }
  bool at_end() {
    while (take(';')) {}
    space();
    return text_.empty();
  }

 private:
  std::size_t past_comment() const {
    std::size_t depth = 1, at = 2;
    while (at + 1 < text_.size()) {
      const std::string_view two = text_.substr(at, 2);
      if (two == "*/") {
        at += 2;
        if (--depth == 0) return at;
      } else if (two == "/*" && comments_ == Comments::postgresql) {
        ++depth;
        at += 2;
      } else {
        ++at;
      }
    }
    return std::string_view::npos;
  }

  std::string_view text_;
  Comments comments_;
};

std::optional<OwnCall> own_call(std::string_view text) {
  Words words(text, Comments::postgresql);
  OwnCall call;
  if (!words.word("select")) return std::nullopt;
  if (words.take('*')) {
    if (!words.word("from")) return std::nullopt;
    call.from = true;
  }
  if (words.name() != "termgate" || !words.take('.')) return std::nullopt;
  call.name = words.name();
  if (call.name.empty() || !words.take('(')) return std::nullopt;
  if (!words.take(')')) {
    do {
      auto argument = words.argument();
      if (!argument) return std::nullopt;
      call.arguments.push_back(std::move(*argument));
    } while (words.take(','));
    if (!words.take(')')) return std::nullopt;
  }
  if (!words.at_end()) return std::nullopt;
  return call;
}

// Where SQLite would end each statement; triggers have semicolons of their own.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> pieces;
  std::size_t begin = 0;
  for (std::size_t at = text.find(';'); at != std::string::npos; at = text.find(';', at + 1)) {
    std::string piece = text.substr(begin, at + 1 - begin);
    if (sqlite3_complete(piece.c_str()) == 0) continue;
    pieces.push_back(std::move(piece));
    begin = at + 1;
  }
  if (begin < text.size()) pieces.push_back(text.substr(begin));
  std::erase_if(pieces, [](const std::string& piece) { return Words(piece, Comments::sqlite).at_end(); });
  return pieces;
}

// What the statement's first words say, for its tag.
std::string tag_of(std::string_view text) {
  Words words(text, Comments::sqlite);
  std::string first = words.name();
  const auto upper = [](std::string word) {
    std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return word;
  };
  if (first == "replace") return "INSERT";
  if (first == "with" || first == "values" || first == "pragma") return "SELECT";
  if (first == "create" || first == "drop" || first == "alter") {
    std::string second = words.name();
    if (second == "unique" || second == "virtual" || second == "temp" || second == "temporary") second = words.name();
    return upper(first) + " " + upper(second);
  }
  return upper(first);
}

bool names_pragma(std::string_view text) {
  static constexpr std::string_view wanted = "pragma_";
  return std::search(text.begin(), text.end(), wanted.begin(), wanted.end(),
                     [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; }) != text.end();
}

std::optional<Plan> native_begin(std::string_view text) {
  Words words(text, Comments::sqlite);
  if (!words.word("begin")) return std::nullopt;
  if (!words.word("immediate") && !words.word("exclusive") && !words.word("deferred")) return std::nullopt;
  words.word("transaction");
  if (!words.at_end()) return std::nullopt;
  Plan plan;
  plan.does.effect = dialect::Effect::utility;
  plan.does.tag = "BEGIN";
  plan.does.utility = dialect::TransactionControl{};
  return plan;
}

// PostgreSQL's parser would know the type of such a parameter from the column. Tokens are enough for the two forms that matter; what
// is not recognised stays text.
struct Token {
  enum class Kind : unsigned char { word, parameter, symbol, other } kind;
  std::string text;  // a word in lower case unless it was quoted
};

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  for (std::size_t at = 0; at < text.size();) {
    const auto letter = static_cast<unsigned char>(text[at]);
    if (std::isspace(letter) != 0) {
      ++at;
    } else if (text.substr(at, 2) == "--") {
      at = std::min(text.find('\n', at), text.size());
    } else if (text.substr(at, 2) == "/*") {
      const auto end = text.find("*/", at + 2);
      at = end == std::string_view::npos ? text.size() : end + 2;
    } else if (letter == '\'' || letter == '"') {
      std::string held;
      for (++at; at < text.size(); ++at) {
        if (text[at] != static_cast<char>(letter)) held += text[at];
        else if (at + 1 < text.size() && text[at + 1] == static_cast<char>(letter)) held += text[++at];
        else break;
      }
      ++at;
      tokens.push_back({letter == '"' ? Token::Kind::word : Token::Kind::other, std::move(held)});
    } else if (letter == '$' && at + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 1])) != 0) {
      std::size_t end = at + 1;
      while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
      tokens.push_back({Token::Kind::parameter, std::string(text.substr(at + 1, end - at - 1))});
      at = end;
    } else if (std::isalpha(letter) != 0 || letter == '_' || letter >= 0x80) {
      std::string word;
      while (at < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_' || static_cast<unsigned char>(text[at]) >= 0x80))
        word += static_cast<char>(std::tolower(static_cast<unsigned char>(text[at++])));
      tokens.push_back({Token::Kind::word, std::move(word)});
    } else if (std::isdigit(letter) != 0) {
      while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '.')) ++at;
      tokens.push_back({Token::Kind::other, {}});
    } else {
      std::string symbol(1, text[at++]);
      if ((symbol == "<" || symbol == ">" || symbol == "!") && at < text.size() && (text[at] == '=' || text[at] == '>'))
        symbol += text[at++];
      tokens.push_back({Token::Kind::symbol, std::move(symbol)});
    }
  }
  return tokens;
}

void find_beside(Plan& plan, std::string_view text) {
  const std::vector<Token> tokens = tokens_of(text);
  const auto is = [&](std::size_t at, std::string_view wanted) {
    return at < tokens.size() && tokens[at].kind != Token::Kind::other && tokens[at].kind != Token::Kind::parameter &&
           tokens[at].text == wanted;
  };
  const auto parameter = [&](std::size_t at) -> std::size_t {
    if (at >= tokens.size() || tokens[at].kind != Token::Kind::parameter || tokens[at].text.size() > 5 || is(at + 1, ":")) return 0;
    return std::stoul(tokens[at].text);
  };
  const auto table_at = [&](std::size_t at) {
    if (is(at, "only")) ++at;
    if (is(at + 1, ".")) at += 2;
    if (at < tokens.size() && tokens[at].kind == Token::Kind::word) plan.tables.push_back(tokens[at].text);
    return at + 1;
  };
  static constexpr std::array<std::string_view, 8> compares = {"=", "<", ">", "<=", ">=", "<>", "!=", "is"};
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    if (is(at, "insert") && is(at + 1, "into")) {
      std::size_t next = table_at(at + 2);
      std::vector<std::string> columns;
      if (is(next, "(")) {
        for (++next; next < tokens.size() && !is(next, ")"); ++next) {
          if (tokens[next].kind == Token::Kind::word) columns.push_back(tokens[next].text);
        }
        ++next;
      }
      if (!is(next, "values")) continue;
      for (++next; is(next, "("); ++next) {
        std::size_t place = 0;
        int depth = 1;
        for (++next; next < tokens.size() && depth > 0; ++next) {
          if (is(next, "(")) ++depth;
          else if (is(next, ")")) --depth;
          else if (depth == 1 && is(next, ",")) ++place;
          else if (const std::size_t number = parameter(next);
                   depth == 1 && number != 0 && (is(next - 1, "(") || is(next - 1, ",")) && (is(next + 1, ")") || is(next + 1, ","))) {
            if (columns.empty()) plan.beside.push_back({number, {}, place});
            else if (place < columns.size()) plan.beside.push_back({number, columns[place], 0});
          }
        }
        if (!is(next, ",")) break;
      }
    } else if (is(at, "from") || is(at, "join") || is(at, "update")) {
      table_at(at + 1);
    } else if (const std::size_t number = parameter(at);
               number != 0 && at >= 2 && tokens[at - 2].kind == Token::Kind::word && tokens[at - 1].kind != Token::Kind::other &&
               std::find(compares.begin(), compares.end(), tokens[at - 1].text) != compares.end()) {
      plan.beside.push_back({number, tokens[at - 2].text, 0});
    }
  }
}

// Whether the text is one of SQLite's own statements, which PostgreSQL has no word for. All else that PostgreSQL's grammar cannot read is
// an error, as it is there: SQLite would run `LIMIT 1, 2` and `x IS 1` without PostgreSQL's types.
bool is_sqlites(std::string_view text) {
  const std::vector<Token> tokens = tokens_of(text);
  const auto is = [&](std::size_t at, std::string_view wanted) {
    return at < tokens.size() && tokens[at].kind == Token::Kind::word && tokens[at].text == wanted;
  };
  if (is(0, "pragma") || is(0, "replace") || is(0, "attach") || is(0, "detach")) return true;
  if ((is(0, "insert") || is(0, "update")) && is(1, "or")) return true;
  if (is(0, "explain") && is(1, "query")) return true;
  if (is(0, "vacuum") && std::any_of(tokens.begin(), tokens.end(), [](const Token& each) { return each.text == "into"; })) return true;
  const std::size_t what = is(1, "temp") || is(1, "temporary") ? 2 : 1;
  if (is(0, "create") && (is(what, "trigger") || is(what, "virtual"))) return true;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    if (is(at, "glob") || is(at, "match") || is(at, "autoincrement") || (is(at, "without") && is(at + 1, "rowid"))) return true;
    if (is(at, "or") && (is(at + 1, "replace") || is(at + 1, "ignore") || is(at + 1, "rollback")) && is(at + 2, "into")) return true;
    if (is(0, "create") && is(at, "strict")) return true;
  }
  return names_pragma(text);
}

// Of UTF-8.
std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::uint64_t Plan::next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::size_t place_of(const PgError& fault, std::string_view text, std::size_t offset, std::size_t length) {
  const bool relation = fault.sqlstate == "42P01", function = fault.sqlstate == "42883";
  if (!relation && !function && fault.sqlstate != "42703") return 0;
  // "name", or name up to a space; t.name is found by its first part.
  std::string_view name = fault.message;
  name.remove_prefix(std::min(name.size(), name.find(' ') + 1));
  name = name.starts_with('"') ? name.substr(1, name.find('"', 1) - 1) : name.substr(0, name.find_first_of(" ("));
  std::string_view owner;
  if (const auto dot = name.rfind('.'); dot != std::string_view::npos) {
    owner = name.substr(0, dot);
    name.remove_prefix(dot + 1);
  }
  const auto same = [](std::string_view word, std::string_view wanted) {
    return word.size() == wanted.size() && !word.empty() &&
           sqlite3_strnicmp(word.data(), wanted.data(), static_cast<int>(word.size())) == 0;
  };
  const auto before_relation = [&](std::string_view word) {
    for (const std::string_view each : {"from", "join", "into", "update", "table", "only", "exists", ","}) {
      if (same(word, each)) return true;
    }
    return false;
  };
  const std::size_t end = std::min(text.size(), length == 0 ? text.size() : offset + length);
  std::string_view last, two_ago;  // tokens
  std::size_t last_at = 0;
  for (std::size_t at = std::min(offset, end); at < end;) {
    const std::size_t begin = at;
    const char c = text[at++];
    std::string_view word;
    if (std::isspace(static_cast<unsigned char>(c)) != 0) continue;
    if (c == '-' && at < end && text[at] == '-') {
      at = std::min(text.find('\n', at), end);
      continue;
    }
    if (c == '/' && at < end && text[at] == '*') {
      const auto close = text.find("*/", at + 1);
      at = close == std::string_view::npos ? end : close + 2;
      continue;
    }
    if (c == '\'' || c == '"') {
      at = std::min(text.find(c, at), end - 1) + 1;
      word = c == '"' ? text.substr(begin + 1, at - begin - 2) : std::string_view("'");
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || (c & 0x80) != 0) {
      while (at < end && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_' || (text[at] & 0x80) != 0)) ++at;
      word = text.substr(begin, at - begin);
    } else {
      word = text.substr(begin, 1);
    }
    if (same(word, name)) {
      const bool qualified = last == "." && (owner.empty() || same(two_ago, owner));
      std::size_t found = std::string_view::npos;
      if (function) {
        std::size_t next = at;
        while (next < end && std::isspace(static_cast<unsigned char>(text[next])) != 0) ++next;
        if (next < end && text[next] == '(') found = begin;
      } else if (relation ? before_relation(last) : owner.empty() ? last != "." : qualified) {
        found = qualified ? last_at : begin;
      }
      if (found != std::string_view::npos)
        return static_cast<std::size_t>(std::count_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(found),
                                                      [](char each) { return (static_cast<unsigned char>(each) & 0xC0) != 0x80; })) +
               1;
    }
    if (word != ".") last_at = begin;
    two_ago = last;
    last = word;
  }
  return 0;
}

// What PostgreSQL's grammar has read: one plan for each statement.
static void add_translated(std::vector<Plan>& plans, const std::string& text, std::vector<dialect::Translated>& all,
                           const FileRelations* relations, const std::vector<dialect::Oid>& declared) {
  const auto whole = std::make_shared<const std::string>(text);
  for (dialect::Translated& each : all) {
    Plan plan;
    plan.text = whole;
    plan.does = std::move(each);
    plan.declared = declared;
    if (plan.does.typed && relations != nullptr) {
      plan.schema = relations->id();
      plan.source = std::make_shared<const std::string>(text.substr(std::min(plan.does.offset, text.size()), plan.does.length));
    }
    if (plan.does.problem && plan.does.problem->position > 0)
      plan.does.problem->position = character_count(std::string_view(text).substr(0, plan.does.problem->position - 1)) + 1;
    if (!plan.does.typed &&
        std::find(plan.does.parameters.begin(), plan.does.parameters.end(), dialect::Oid{0}) != plan.does.parameters.end())
      find_beside(plan, std::string_view(text).substr(std::min(plan.does.offset, text.size()), plan.does.length));
    plans.push_back(std::move(plan));
  }
}

Plans plan_text(const std::string& text, const FileRelations* relations, const std::vector<dialect::Oid>& declared, bool lift) {
  auto plans = std::make_shared<std::vector<Plan>>();
  if (const auto problem = encoding_problem(text)) throw PgException(problem->sqlstate, problem->message);
  if (Words(text, Comments::postgresql).at_end()) return plans;
  if (auto call = own_call(text)) {
    Plan plan;
    plan.own = std::move(*call);
    plan.does.tag = "SELECT";
    plan.does.returns_rows = true;
    plans->push_back(std::move(plan));
    return plans;
  }
  // Piece by piece, where PostgreSQL's grammar says where each ends.
  const auto each_by_itself = [&](const std::vector<std::string_view>& pieces) {
    for (const std::string_view piece : pieces) {
      const auto before = character_count(std::string_view(text).substr(0, static_cast<std::size_t>(piece.data() - text.data())));
      try {
        const Plans made = plan_text(std::string(piece), relations, declared);
        for (Plan plan : *made) {
          plan.text.reset();
          if (plan.better && plan.better->position != 0) plan.better->position += before;
          plans->push_back(std::move(plan));
        }
      } catch (const PgException& failed) {
        PgError fault = failed.fault();
        if (fault.position != 0) fault.position += before;
        throw PgException(fault);
      }
    }
    return plans;
  };
  if (text.find("ermgate") != std::string::npos) {
    // Calls of ours among other statements.
    const auto pieces = dialect::statements_of(text);
    if (pieces && pieces->size() > 1 &&
        std::any_of(pieces->begin(), pieces->end(), [](std::string_view piece) { return own_call(piece).has_value(); }))
      return each_by_itself(*pieces);
  }
  auto translated = dialect::translate(text, {.lift = lift}, relations, declared);
  // To PostgreSQL's grammar SQLite's table-valued pragmas are functions that it does not know.
  if (auto* made = std::get_if<std::vector<dialect::Translated>>(&translated); made != nullptr && names_pragma(text)) {
    const auto unknown = [](const dialect::Translated& each) {
      return !each.typed || (each.problem && (each.problem->sqlstate == "42883" || each.problem->sqlstate == "42P01"));
    };
    if (std::any_of(made->begin(), made->end(), unknown)) translated = dialect::SqlError{"42883", "there is no such function", 0};
  }
  if (auto* all = std::get_if<std::vector<dialect::Translated>>(&translated)) {
    add_translated(*plans, text, *all, relations, declared);
    return plans;
  }
  const auto& problem = std::get<dialect::SqlError>(translated);
  PgError better{problem.sqlstate, problem.message};
  if (problem.position > 0) { better.position = character_count(std::string_view(text).substr(0, problem.position - 1)) + 1; }
  // What PostgreSQL's grammar can read is PostgreSQL's: a refusal of it must not become another answer of SQLite's.
  static constexpr std::array<std::string_view, 2> perhaps_sqlite = {"42601", "42883"};
  // Termgate's functions by SQLite's names take SQLite's constants (x'00').
  const bool ours =
      problem.sqlstate == "0A000" && Words(text, Comments::postgresql).word("select") && text.find("termgate_") != std::string::npos;
  if ((!ours && std::find(perhaps_sqlite.begin(), perhaps_sqlite.end(), problem.sqlstate) == perhaps_sqlite.end()) ||
      text.find('\0') != std::string::npos)
    throw PgException(better);
  // What PostgreSQL's grammar can read has the statements that it sees: SQLite's would find others in PostgreSQL's comments and strings.
  const auto seen = dialect::statements_of(text);
  if (seen && seen->size() > 1) return each_by_itself(*seen);
  // A definition that is refused for what SQLite would make of it is not given to SQLite all the same.
  if (seen && problem.sqlstate == "0A000" && (tag_of(text).starts_with("CREATE") || tag_of(text).starts_with("ALTER")))
    throw PgException(better);
  const std::vector<std::string> pieces = seen ? std::vector<std::string>{text} : split(text);
  for (const std::string& piece : pieces) {
    if (auto begin = native_begin(piece)) {
      plans->push_back(std::move(*begin));
      continue;
    }
    if (pieces.size() > 1 && dialect::statements_of(piece)) {
      // Beside one of SQLite's, a statement that PostgreSQL's grammar can read means what it means there.
      const Plans made = plan_text(piece, relations, declared);
      if (std::all_of(made->begin(), made->end(), [](const Plan& each) { return each.does.typed || each.does.problem; })) {
        for (Plan plan : *made) {
          plan.text.reset();
          plans->push_back(std::move(plan));
        }
        continue;
      }
    } else if (!ours && !is_sqlites(piece)) {
      throw PgException(better);
    }
    Plan plan;
    plan.native = true;
    plan.better = better;
    plan.does.tag = tag_of(piece);
    if (plan.does.tag == "VACUUM") throw PgException("42501", "permission denied: VACUUM INTO names a file");
    plan.does.effect = dialect::Effect::read;
    plan.does.sql = {piece};
    plans->push_back(std::move(plan));
  }
  return plans;
}

}  // namespace termgate::sqlite_server
