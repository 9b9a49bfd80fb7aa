#include <termgate/tds_session/text.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <termgate/tds/text.hpp>

#include "lexer.hpp"
#include "read.hpp"
#include "watch.hpp"

namespace termgate::tds_session {
namespace {

// Options of SET that take one value, or ON or OFF.
constexpr std::array options_of_one_value{
    "ansi_defaults",
    "ansi_nulls",
    "ansi_null_dflt_off",
    "ansi_null_dflt_on",
    "ansi_padding",
    "ansi_warnings",
    "arithabort",
    "arithignore",
    "context_info",
    "concat_null_yields_null",
    "cursor_close_on_commit",
    "datefirst",
    "dateformat",
    "deadlock_priority",
    "fmtonly",
    "implicit_transactions",
    "language",
    "lock_timeout",
    "noexec",
    "nocount",
    "no_browsetable",
    "numeric_roundabort",
    "parseonly",
    "quoted_identifier",
    "rowcount",
    "showplan_all",
    "showplan_text",
    "showplan_xml",
    "textsize",
    "xact_abort",
};
constexpr std::array functions_of_the_server{"serverproperty",
                                             "db_name",
                                             "app_name",
                                             "host_name",
                                             "suser_sname",
                                             "user_name",
                                             "databasepropertyex",
                                             "sessionproperty",
                                             "connectionproperty",
                                             "db_id",
                                             "has_dbaccess",
                                             "schema_name",
                                             "isnull",
                                             "is_srvrolemember"};
constexpr std::array procedures_of_the_server{"sp_datatype_info", "sp_datatype_info_90",
                                              "sp_datatype_info_100", "sp_server_info"};

// Procedures that read the catalogue. SQL Server looks up a name that begins with sp_ among its own
// procedures first.
constexpr std::array procedures_of_the_catalogue{"sp_tables",
                                                 "sp_columns",
                                                 "sp_columns_90",
                                                 "sp_columns_100",
                                                 "sp_pkeys",
                                                 "sp_fkeys",
                                                 "sp_statistics",
                                                 "sp_statistics_100",
                                                 "sp_special_columns",
                                                 "sp_special_columns_90",
                                                 "sp_special_columns_100",
                                                 "sp_stored_procedures",
                                                 "sp_sproc_columns",
                                                 "sp_sproc_columns_90",
                                                 "sp_sproc_columns_100",
                                                 "sp_databases",
                                                 "sp_describe_first_result_set",
                                                 "sp_describe_undeclared_parameters"};

// Parses statements of the allow-list, one after the other.
class Parser {
 public:
  Parser(const std::vector<Token>& tokens, std::string_view schema)
      : tokens_(tokens), schema_(schema) {}

  // Whether the whole text is harmless. declares() returns whether it also declares something.
  bool harmless() {
    while (take_sign(';')) {}
    if (done()) return true;
    while (!done()) {
      if (!statement()) return false;
      while (take_sign(';')) {}
    }
    return true;
  }
  bool declares() const noexcept { return declares_; }

  // The tokens after the settings, from the first word that may begin a read.
  std::span<const Token> behind_settings() {
    for (;;) {
      while (take_sign(';')) {}
      if (done() || is_word("select") || is_word("with") || is_word("declare")) break;
      if (is_word("exec") || is_word("execute") || !statement()) return {};
    }
    return std::span(tokens_).subspan(std::min(at_, tokens_.size()));
  }

  // Parses EXEC termgate.set_term 'scope', term, as the only statement.
  std::optional<TextVerdict> set_term() {
    if (!take_word("exec") && !take_word("execute")) return std::nullopt;
    const auto name = dotted();
    if (!name || !names_procedure(*name, schema_, "set_term")) return std::nullopt;
    TextVerdict verdict;
    verdict.kind = TextVerdict::Kind::set_term;
    take_parameter("@scope");
    const Token* scope = take(Token::Kind::string);
    const bool comma = take_sign(',');
    take_parameter("@term");
    const Token* term = take(Token::Kind::number);
    if (term == nullptr) term = take(Token::Kind::string);
    while (take_sign(';')) {}
    if (scope != nullptr) verdict.scope = scope->text;
    const bool number = term != nullptr && number_of(term->text, verdict.term);
    if (scope == nullptr || !comma || !number || !done()) {
      verdict.problem = "TG005 write it as EXEC " + std::string(schema_) +
                        ".set_term @scope = N'…', @term = …, in a batch of its own";
    }
    return verdict;
  }

 private:
  bool done() const noexcept { return at_ >= tokens_.size(); }
  const Token* here() const noexcept { return done() ? nullptr : &tokens_[at_]; }
  const Token* take(Token::Kind kind) noexcept {
    return !done() && tokens_[at_].kind == kind ? &tokens_[at_++] : nullptr;
  }
  bool is_word(std::string_view word) const noexcept {
    return !done() && tokens_[at_].kind == Token::Kind::word && tokens_[at_].text == word;
  }
  bool take_word(std::string_view word) noexcept { return is_word(word) && ++at_ > 0; }
  bool take_sign(char sign) noexcept {
    return !done() && tokens_[at_].kind == Token::Kind::sign && tokens_[at_].text[0] == sign &&
           ++at_ > 0;
  }

  static bool number_of(std::string_view text, std::int64_t& number) noexcept {
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    return failure == std::errc{} && end == text.data() + text.size();
  }

  bool take_parameter(std::string_view name) noexcept {
    const std::size_t before = at_;
    if (take_word(name) && take_sign('=')) return true;
    at_ = before;
    return false;
  }

  std::optional<std::string> dotted() {
    std::string name;
    for (;;) {
      const Token* part = take(Token::Kind::word);
      if (part == nullptr) part = take(Token::Kind::name);
      if (part == nullptr || part->text.find_first_of(".[]") != std::string::npos)
        return std::nullopt;
      name += part->text;
      if (!take_sign('.')) return name;
      name += '.';
    }
  }

  bool literal() noexcept {
    take_sign('-');
    return take(Token::Kind::number) != nullptr || take(Token::Kind::string) != nullptr ||
           take_word("null");
  }

  bool statement() {
    if (take_word("set")) return set();
    if (take_word("use"))
      return take(Token::Kind::word) != nullptr || take(Token::Kind::name) != nullptr;
    if (take_word("select")) return select();
    if (take_word("print")) return take(Token::Kind::string) != nullptr;
    if (take_word("exec") || take_word("execute")) return execute();
    if (take_word("if")) {
      return take_word("@@trancount") && take_sign('>') && take(Token::Kind::number) != nullptr &&
             (is_word("commit") || is_word("rollback")) && transaction();
    }
    return transaction();
  }

  bool transaction() noexcept {
    const bool begin = take_word("begin");
    if (begin) return take_word("tran") || take_word("transaction");
    if (take_word("save")) {
      return (take_word("tran") || take_word("transaction")) &&
             (take(Token::Kind::word) != nullptr || take(Token::Kind::name) != nullptr);
    }
    if (!take_word("commit") && !take_word("rollback")) return false;
    if (!take_word("tran") && !take_word("transaction")) take_word("work");
    return true;
  }

  bool set() {
    if (take_word("transaction")) {
      if (!take_word("isolation") || !take_word("level")) return false;
      if (take_word("read")) return take_word("committed") || take_word("uncommitted");
      if (take_word("repeatable")) return take_word("read");
      return take_word("snapshot") || take_word("serializable");
    }
    if (take_word("statistics"))
      return (take_word("io") || take_word("time")) && (take_word("on") || take_word("off"));
    const Token* option = take(Token::Kind::word);
    if (option == nullptr || !contains(options_of_one_value, option->text)) return false;
    while (take_sign(',')) {
      option = take(Token::Kind::word);
      if (option == nullptr || !contains(options_of_one_value, option->text)) return false;
    }
    const Token* value = here();
    if (value != nullptr && value->kind == Token::Kind::word &&
        (value->text.starts_with('@') || is_statement(value->text)))
      return false;
    return take(Token::Kind::word) != nullptr || take(Token::Kind::name) != nullptr || literal();
  }

  static bool is_statement(std::string_view word) noexcept {
    return contains(std::array{"set", "select", "insert", "update", "delete", "exec", "execute",
                               "use", "begin", "commit", "rollback"},
                    word);
  }

  // A SELECT of values of the server and the session, without FROM.
  bool select() {
    do {
      if (!value()) return false;
      if (take_word("as")) {
        if (take(Token::Kind::word) == nullptr && take(Token::Kind::name) == nullptr &&
            take(Token::Kind::string) == nullptr)
          return false;
      } else {
        take(Token::Kind::name);
      }
    } while (take_sign(','));
    return true;
  }

  bool value() {
    const Token* token = here();
    if (token == nullptr) return false;
    if (token->kind != Token::Kind::word) return literal();
    if (token->text.starts_with("@@")) return ++at_ > 0;
    if (token->text == "null" || token->text == "system_user" || token->text == "current_timestamp")
      return ++at_ > 0;
    if (!contains(functions_of_the_server, token->text)) return false;
    ++at_;
    if (!take_sign('(')) return false;
    if (take_sign(')')) return true;
    do {
      if (!value()) return false;
    } while (take_sign(','));
    return take_sign(')');
  }

  bool execute() {
    const auto name = dotted();
    if (!name) return false;
    if (names_procedure(*name, "sys", "sp_set_session_context")) return session_context();
    if (!is_harmless_procedure(*name)) return false;
    if (here() == nullptr || here()->text == ";") return true;
    do {
      if (here() != nullptr && here()->kind == Token::Kind::word && here()->text.starts_with('@') &&
          !take_parameter(here()->text))
        return false;
      if (!literal()) return false;
    } while (take_sign(','));
    return true;
  }

  bool session_context() {
    take_parameter("@key");
    const Token* key = take(Token::Kind::string);
    if (key == nullptr || !take_sign(',')) return false;
    const std::string name = lower(key->text);
    declares_ |= name == "termgate.scope" || name == "termgate.term";
    take_parameter("@value");
    if (!literal()) return false;
    if (!take_sign(',')) return true;
    take_parameter("@read_only");
    return literal();
  }

  const std::vector<Token>& tokens_;
  const std::string_view schema_;
  std::size_t at_ = 0;
  bool declares_ = false;
};

}  // namespace

TextVerdict classify(std::string_view text, std::string_view schema) {
  TextVerdict verdict;
  Watch watch;
  watch.text(tds::utf16_of(text), Watch::Letters::wide);
  watch.text_ends();
  if (const char* problem = watch.problem()) {
    verdict.kind = TextVerdict::Kind::forbidden;
    verdict.problem = problem;
    return verdict;
  }
  const std::vector<Token> tokens = Lexer(text).all();
  if (auto set_term = Parser(tokens, schema).set_term()) return *std::move(set_term);
  Parser parser(tokens, schema);
  if (parser.harmless()) {
    verdict.kind = parser.declares() ? TextVerdict::Kind::declares : TextVerdict::Kind::settings;
  } else if (surely_reads(Parser(tokens, schema).behind_settings())) {
    verdict.kind = TextVerdict::Kind::reads;
  } else if (tokens.size() > 2 && tokens[0].text == "insert" && tokens[1].text == "bulk" &&
             tokens[1].kind == Token::Kind::word) {
    verdict.kind = TextVerdict::Kind::bulk_insert;
  }
  return verdict;
}

bool is_harmless_procedure(std::string_view name, bool reads) {
  const auto is_named = [&](std::string_view one) { return names_procedure(name, "sys", one); };
  return std::any_of(procedures_of_the_server.begin(), procedures_of_the_server.end(), is_named) ||
         (reads && std::any_of(procedures_of_the_catalogue.begin(),
                               procedures_of_the_catalogue.end(), is_named));
}

// [a.b] is one part, and the server looks for a procedure of exactly that name.
std::vector<std::string> parts_of_name(std::string_view name) {
  std::vector<std::string> parts;
  for (std::size_t at = 0;;) {
    const char open = at < name.size() ? name[at] : '\0';
    std::string part;
    if (open == '[' || open == '"') {
      const char close = open == '[' ? ']' : '"';
      bool closed = false;
      for (++at; at < name.size() && !closed; ++at) {
        if (name[at] != close) part += name[at];
        else if (at + 1 < name.size() && name[at + 1] == close) part += name[at++];
        else closed = true;
      }
      if (!closed) return {};
    } else {
      while (at < name.size() && in_word(name[at])) part += name[at++];
      if (is_digit(open)) return {};
    }
    if (part.empty()) return {};
    parts.push_back(lower(part));
    if (at == name.size()) return parts;
    if (name[at++] != '.') return {};
  }
}

bool names_procedure(std::string_view name, std::string_view schema, std::string_view last) {
  const std::vector<std::string> parts = parts_of_name(name);
  if (parts.empty() || parts.size() > 3 || parts.back() != lower(last)) return false;
  return parts.size() == 1 || parts[parts.size() - 2] == lower(schema);
}

bool only_declares(std::string_view text) {
  const std::vector<Token> tokens = Lexer(text).all();
  return declares_values(tokens);
}

bool resets_session(std::string_view name) {
  std::string plain = lower(name);
  std::erase_if(plain, [](char c) { return c == '[' || c == ']' || c == '"' || c == ' '; });
  plain.erase(std::min(plain.find(';'), plain.size()));
  return plain == "sp_reset_connection" || plain.ends_with(".sp_reset_connection");
}

}  // namespace termgate::tds_session
