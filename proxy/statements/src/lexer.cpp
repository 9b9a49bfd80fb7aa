// PostgreSQL's tokens, as all versions from 13 to 18 read them. If versions differ in what matters
// here, or an unknown setting decides, the text has a problem, and its statements count as writes.
// Never reads past the end, and takes linear time.
#include "lexer.hpp"

#include <array>

#include <termgate/text/ascii.hpp>

namespace termgate::statements {
namespace {

enum : std::uint8_t { name_start = 1, name_part = 2, digit = 4, operation = 8, hex_digit = 16 };

constexpr std::array<std::uint8_t, 256> classes = [] {
  std::array<std::uint8_t, 256> result{};
  for (int byte = 0; byte < 256; ++byte) {
    std::uint8_t& of = result[static_cast<std::size_t>(byte)];
    const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    if (letter || byte == '_' || byte >= 0x80) of |= name_start | name_part;
    if (byte >= '0' && byte <= '9') of |= digit | name_part | hex_digit;
    if ((byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F')) of |= hex_digit;
    if (byte == '$') of |= name_part;
  }
  for (const char character : std::string_view("~!@#^&|`?+-*/%<>="))
    result[static_cast<unsigned char>(character)] |= operation;
  return result;
}();

bool is(char character, std::uint8_t what) noexcept {
  return (classes[static_cast<unsigned char>(character)] & what) != 0;
}

class Lexer {
 public:
  Lexer(std::string_view sql, const Settings& settings) noexcept : sql_(sql), settings_(settings) {}

  // Reads the token at at_, which is not white space, a comment or the end. False: problem() says
  // why.
  bool token(Token& out) noexcept {
    const std::size_t begin = at_;
    const char first = sql_[at_];
    TokenType type = TokenType::symbol;
    if (first == '.' && peek(1) == '.') {
      at_ += 2;  // a token of PL/pgSQL, not of SQL
    } else if (is(first, name_start)) {
      type = named();
    } else if (is(first, digit) || (first == '.' && is(peek(1), digit))) {
      type = TokenType::number;
      number();
    } else if (first == '\'') {
      type = TokenType::string;
      quoted('\'', settings_.standard_conforming_strings == ConformingStrings::on
                       ? Backslash::plain
                       : Backslash::unclear);
    } else if (first == '"') {
      type = TokenType::quoted_name;
      quoted('"', Backslash::plain);
      if (at_ - begin == 2) problem_ = Lexed::Problem::odd;  // a name cannot be empty
    } else if (first == '$') {
      type = dollar();
    } else if (is(first, operation)) {
      type = TokenType::operation;
      while (at_ < sql_.size() && is(sql_[at_], operation) && sql_.substr(at_, 2) != "--" &&
             sql_.substr(at_, 2) != "/*")
        ++at_;
    } else if (std::string_view("()[],;:.").find(first) != std::string_view::npos) {
      ++at_;
    } else {
      problem_ = Lexed::Problem::odd;  // control characters (\v is white space from 16 on),
                                       // backslash, braces
    }
    if (problem_ != Lexed::Problem::none) return false;
    out = {type, type == TokenType::word ? word_of(sql_.substr(begin, at_ - begin)) : Word::other,
           static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at_ - begin)};
    return true;
  }

  template <class Comment>
  bool trivia(Comment comment) {
    at_ = skip_trivia(sql_, at_, comment);
    if (at_ > sql_.size()) problem_ = Lexed::Problem::unterminated;
    return problem_ == Lexed::Problem::none;
  }

  std::size_t at() const noexcept { return at_; }
  Lexed::Problem problem() const noexcept { return problem_; }

 private:
  // What a backslash means in a string. In `bits` a doubled quote is not a quote but ends one
  // string and begins another.
  enum class Backslash { plain, escapes, unclear, bits };

  char peek(std::size_t ahead) const noexcept {
    return at_ + ahead < sql_.size() ? sql_[at_ + ahead] : '\0';
  }

  TokenType named() noexcept {
    const char first = sql_[at_];
    const char next = peek(1);
    if (next == '\'') {
      switch (first) {
        case 'e':
        case 'E':
          ++at_;
          quoted('\'', Backslash::escapes);
          return TokenType::escape_string;
        case 'b':
        case 'B':
        case 'x':
        case 'X':
          ++at_;
          quoted('\'', Backslash::bits);
          return TokenType::bit_string;
        case 'n':
        case 'N':  // the word NCHAR and a plain string
          ++at_;
          quoted('\'', settings_.standard_conforming_strings == ConformingStrings::on
                           ? Backslash::plain
                           : Backslash::unclear);
          return TokenType::string;
        default: break;
      }
    }
    if ((first == 'u' || first == 'U') && next == '&' && (peek(2) == '\'' || peek(2) == '"')) {
      const char quote = peek(2);
      at_ += 2;
      // With standard_conforming_strings off the server refuses U&'', so the lexer may too.
      quoted(quote, quote == '"' || settings_.standard_conforming_strings == ConformingStrings::on
                        ? Backslash::plain
                        : Backslash::unclear);
      return quote == '"' ? TokenType::unicode_name : TokenType::unicode_string;
    }
    while (at_ < sql_.size() && is(sql_[at_], name_part)) ++at_;
    return TokenType::word;
  }

  // Reads from a quote to its end, with the pieces that follow on later lines: they are of the same
  // kind as the first (scan.l, xqs), so E'a' ⏎ 'b\'' is one string.
  void quoted(char quote, Backslash backslash) noexcept {
    for (;;) {
      ++at_;
      for (;; ++at_) {
        if (at_ >= sql_.size()) {
          problem_ = Lexed::Problem::unterminated;
          return;
        }
        const char character = sql_[at_];
        if (character == '\\' && backslash == Backslash::escapes) {
          ++at_;
        } else if (character == '\\' && backslash == Backslash::unclear) {
          problem_ = Lexed::Problem::ambiguous;
          return;
        } else if (character == quote) {
          if (peek(1) != quote || backslash == Backslash::bits) break;
          ++at_;
        }
      }
      ++at_;
      if (quote == '"') return;
      const std::size_t next = continuation();
      if (next == 0) return;
      at_ = next;
    }
  }

  // Where a string continues after its quote: after white space with a line end, perhaps `--`
  // comments, and another quote. 0: it does not.
  std::size_t continuation() const noexcept {
    bool line_end = false;
    std::size_t at = at_;
    while (at < sql_.size()) {
      if (is_space(sql_[at])) {
        line_end = line_end || sql_[at] == '\n' || sql_[at] == '\r';
        ++at;
      } else if (sql_.substr(at, 2) == "--") {
        while (at < sql_.size() && sql_[at] != '\n' && sql_[at] != '\r') ++at;
      } else {
        return line_end && sql_[at] == '\'' ? at : 0;
      }
    }
    return 0;
  }

  void number() noexcept {
    const bool based = sql_[at_] == '0' && (peek(1) == 'x' || peek(1) == 'X' || peek(1) == 'o' ||
                                            peek(1) == 'O' || peek(1) == 'b' || peek(1) == 'B');
    if (based) {
      // A number from 16 on. Earlier versions read `0` and a name, and no such name is a keyword.
      at_ += 2;
      const std::size_t digits = at_;
      while (at_ < sql_.size() && (is(sql_[at_], hex_digit) || sql_[at_] == '_')) ++at_;
      if (at_ == digits) problem_ = Lexed::Problem::odd;
    } else {
      const auto digits = [this] {
        while (at_ < sql_.size() &&
               (is(sql_[at_], digit) || (sql_[at_] == '_' && is(peek(1), digit))))
          ++at_;
      };
      digits();
      if (at_ < sql_.size() && sql_[at_] == '.' && peek(1) != '.') {
        ++at_;
        digits();
      }
      if ((peek(0) == 'e' || peek(0) == 'E') &&
          (is(peek(1), digit) || ((peek(1) == '+' || peek(1) == '-') && is(peek(2), digit)))) {
        at_ += 2;
        digits();
      }
    }
    // 13 and 14 read `1FOR` as two tokens, later versions as an error.
    if (at_ < sql_.size() && is(sql_[at_], name_start)) problem_ = Lexed::Problem::odd;
  }

  TokenType dollar() noexcept {
    if (is(peek(1), digit)) {
      ++at_;
      while (at_ < sql_.size() && is(sql_[at_], digit)) ++at_;
      if (at_ < sql_.size() && is(sql_[at_], name_start)) problem_ = Lexed::Problem::odd;
      return TokenType::parameter;
    }
    std::size_t end = at_ + 1;
    if (end < sql_.size() && is(sql_[end], name_start)) {
      while (end < sql_.size() && is(sql_[end], name_start | digit)) ++end;
    }
    if (end >= sql_.size() || sql_[end] != '$') {
      problem_ = Lexed::Problem::odd;
      return TokenType::symbol;
    }
    const std::string_view mark = sql_.substr(at_, end + 1 - at_);
    const std::size_t close = sql_.find(mark, end + 1);
    if (close == std::string_view::npos) {
      problem_ = Lexed::Problem::unterminated;
      return TokenType::dollar_string;
    }
    at_ = close + mark.size();
    return TokenType::dollar_string;
  }

  std::string_view sql_;
  const Settings& settings_;
  std::size_t at_ = 0;
  Lexed::Problem problem_ = Lexed::Problem::none;
};

}  // namespace

bool encoding_is_ascii_safe(std::string_view client_encoding) noexcept {
  // Compared as the server does: letters and digits only, case ignored.
  std::array<char, 24> name{};
  std::size_t length = 0;
  for (char character : client_encoding) {
    character = text::lower(character);
    if (!text::is_letter(character) && !text::is_digit(character)) continue;
    if (length == name.size()) return false;
    name[length++] = character;
  }
  const std::string_view folded(name.data(), length);
  for (const std::string_view family :
       {"utf8", "unicode", "sqlascii", "latin", "iso8859", "win1", "win866", "win874", "windows",
        "koi8", "euc", "abc", "alt", "tcvn", "vscii"}) {
    if (folded.starts_with(family)) {
      // windows932, windows936, windows949 and windows950 are other names for SJIS, GBK, UHC and
      // BIG5.
      return !folded.starts_with("windows9");
    }
  }
  return folded == "muleinternal";
}

void lex(std::string_view sql, const Settings& settings, Lexed& out) {
  out.tokens.clear();
  out.complete = true;
  out.several = false;
  out.problem = Lexed::Problem::none;
  out.first_token = out.last_token_end = 0;
  if (sql.size() > settings.lexed_bytes_max) {
    out.problem = Lexed::Problem::too_long;
    return;
  }
  if (sql.find('\0') != std::string_view::npos ||
      (!settings.ascii_safe_encoding && text::has_high(sql))) {
    out.problem = Lexed::Problem::odd;
    return;
  }
  Lexer lexer(sql, settings);
  const auto ignore = [](std::size_t, std::size_t) {};
  bool ended = false;  // a `;` has come after another token
  bool any = false;
  if (!lexer.trivia(ignore)) {
    out.problem = lexer.problem();
    return;
  }
  out.first_token = out.last_token_end = lexer.at();
  while (lexer.at() < sql.size()) {
    Token token;
    if (!lexer.token(token)) break;
    if (token.type == TokenType::symbol && sql[token.offset] == ';') {
      ended = any;
    } else {
      out.several = out.several || ended;
      any = true;
      out.last_token_end = lexer.at();
    }
    if (out.tokens.size() < settings.tokens_max) {
      out.tokens.push_back(token);
    } else {
      out.complete = false;
    }
    if (!lexer.trivia(ignore)) break;
  }
  out.problem = lexer.problem();
}

}  // namespace termgate::statements
