// Scope and term as clients declare them without a statement:
//
//   comment            /*termgate.scope='billing',termgate.term='7'*/    sqlcommenter's form
//   application_name   …termgate.scope=billing;termgate.term=7;
//   options            -c termgate.scope=billing --termgate.term=7
//
// A declaration that cannot be read is a problem, and not ignored: otherwise a session would write
// without its check, or be refused for no visible reason.
#include <termgate/statements/declaration.hpp>
#include <termgate/text/ascii.hpp>
#include <termgate/text/hex.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include "lexer.hpp"
#include "lexer_of_thread.hpp"

namespace termgate::statements {
namespace {

constexpr std::string_view scope_key = "termgate.scope";
constexpr std::string_view term_key = "termgate.term";

bool same_but_case(std::string_view one, std::string_view other) noexcept {
  if (one.size() != other.size()) return false;
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (text::lower(one[i]) != text::lower(other[i])) return false;
  }
  return true;
}

// The next of our keys in `text` from `at` on, in any case, followed by `=` with only white space
// between them.
struct Found {
  std::size_t begin = std::string_view::npos;
  std::size_t equals = 0;
  std::string_view key;
};

Found find_key(std::string_view text, std::size_t at) noexcept {
  for (; at + term_key.size() < text.size(); ++at) {
    if (text::lower(text[at]) != 't') continue;
    for (const std::string_view key : {scope_key, term_key}) {
      if (!same_but_case(text.substr(at, key.size()), key)) continue;
      std::size_t equals = at + key.size();
      while (equals < text.size() && is_space(text[equals])) ++equals;
      if (equals < text.size() && text[equals] == '=') return {at, equals, key};
    }
  }
  return {};
}

void refuse(Declaration& declaration, std::string_view where, std::string_view why) {
  declaration.scope.reset();
  declaration.term.reset();
  if (declaration.problem.empty())
    ((declaration.problem = "TG005 malformed declaration in ") += where).append(": ").append(why);
}

std::optional<Term> term_of(std::string_view text) {
  std::int64_t value = 0;
  for (const char character : text) {
    if (character < '0' || character > '9') return std::nullopt;
    if (value > (Term::max_value - (character - '0')) / 10) return std::nullopt;
    value = value * 10 + (character - '0');
  }
  if (value < 1) return std::nullopt;
  return Term(value);
}

// Adds one value. `once`: a second, different value is malformed instead of replacing the first.
void put(Declaration& declaration, std::string_view key, std::string_view value,
         std::string_view where, bool once) {
  if (!declaration.problem.empty()) return;
  if (key == scope_key) {
    if (value.empty()) {
      if (!once) declaration.scope.reset();
      return;
    }
    if (const char* problem = name_problem(value))
      return refuse(declaration, where, std::string("the scope: ") + problem);
    if (once && declaration.scope && declaration.scope->name() != value)
      return refuse(declaration, where, "two scopes that differ");
    declaration.scope.emplace(std::string(value));
  } else {
    if (value.empty()) {
      if (!once) declaration.term.reset();
      return;
    }
    const std::optional<Term> term = term_of(value);
    if (!term) return refuse(declaration, where, "the term is not an integer from 1 to 2^62");
    if (once && declaration.term && *declaration.term != *term)
      return refuse(declaration, where, "two terms that differ");
    declaration.term = term;
  }
}

constexpr std::string_view in_comment = "a comment";

// Parses key='value', … from one comment without its marks. Comments without a key of ours are
// ignored.
void read_comment(Declaration& declaration, std::string_view text) {
  if (find_key(text, 0).begin == std::string_view::npos) return;
  std::size_t at = 0;
  const auto skip_space = [&] {
    while (at < text.size() && is_space(text[at])) ++at;
  };
  for (;;) {
    skip_space();
    const std::size_t equals = text.find('=', at);
    if (equals == std::string_view::npos)
      return refuse(declaration, in_comment, "must be key='value', separated by commas");
    std::string_view key = text.substr(at, equals - at);
    while (!key.empty() && is_space(key.back())) key.remove_suffix(1);
    at = equals + 1;
    skip_space();
    if (key.empty() || key.find_first_of("'\" ,;") != std::string_view::npos || at >= text.size() ||
        text[at] != '\'')
      return refuse(declaration, in_comment, "must be key='value', separated by commas");
    std::string value;
    for (++at;; ++at) {
      if (at >= text.size()) return refuse(declaration, in_comment, "a value has no closing quote");
      if (text[at] == '\\' && at + 1 < text.size() && text[at + 1] == '\'')
        ++at;  // sqlcommenter's own escape of a quote
      else if (text[at] == '\'') break;
      value += text[at];
    }
    ++at;
    const bool scope = key == scope_key;
    if (scope || key == term_key) {
      // sqlcommenter writes a space as %20 and does not encode +.
      const auto decoded = text::percent_decoded(value);
      if (!decoded) return refuse(declaration, in_comment, "a value is not URL-encoded");
      put(declaration, scope ? scope_key : term_key, *decoded, in_comment, true);
      if (!declaration.problem.empty()) return;
    } else if (same_but_case(key, scope_key) || same_but_case(key, term_key)) {
      return refuse(declaration, in_comment, "the keys are written in lower case");
    }
    skip_space();
    if (at >= text.size()) return;
    if (text[at] != ',')
      return refuse(declaration, in_comment, "must be key='value', separated by commas");
    ++at;
  }
}

}  // namespace

bool speaks_of_terms(std::string_view text) noexcept {
  for (std::size_t at = 0; at + term_key.size() <= text.size(); ++at) {
    if (text::lower(text[at]) != 't') continue;
    if (same_but_case(text.substr(at, term_key.size()), term_key) ||
        same_but_case(text.substr(at, scope_key.size()), scope_key))
      return true;
  }
  return false;
}

bool is_declared_setting(std::string_view setting) noexcept {
  return same_but_case(setting, scope_key) || same_but_case(setting, term_key);
}

void declare(Declaration& declaration, std::string_view setting, std::string_view value,
             std::string_view where) {
  put(declaration, same_but_case(setting, scope_key) ? scope_key : term_key, value, where, false);
}

void declared_around(Declaration& declaration, std::string_view sql, const Lexed& lexed) {
  const auto read = [&](std::size_t begin, std::size_t end) {
    read_comment(declaration, sql.substr(begin + 2, end - begin - 4));
  };
  if (lexed.problem == Lexed::Problem::too_long) {
    if (find_key(sql, 0).begin != std::string_view::npos)
      refuse(declaration, in_comment, "the text is too long to be looked at");
    return;
  }
  std::size_t lead = skip_trivia(sql, 0, read);
  while (lead < sql.size() && sql[lead] == ';')
    lead = skip_trivia(sql, lead + 1, read);  // skip empty statements
  if (lexed.problem == Lexed::Problem::none) {
    std::size_t at = lexed.last_token_end;
    if (at == lexed.first_token) return;  // no token at all: everything was read above
    while (at < sql.size()) {
      at = skip_trivia(sql, at, read);
      if (at < sql.size()) ++at;  // the `;`
    }
    return;
  }
  // The end of the last token is not known. What looks like a declaration at the end must not be
  // ignored.
  const std::size_t last = sql.rfind("/*");
  if (last != std::string_view::npos && last >= lead &&
      find_key(sql.substr(last), 0).begin != std::string_view::npos) {
    refuse(declaration, in_comment, "the text before it cannot be read");
  }
}

void declared_between(Declaration& former, Declaration& latter, std::string_view sql,
                      std::size_t begin, std::size_t end) {
  const std::string_view gap = sql.substr(0, end);
  Declaration* target = &former;
  const auto read = [&](std::size_t from, std::size_t to) {
    read_comment(*target, sql.substr(from + 2, to - from - 4));
  };
  for (std::size_t at = begin; at < gap.size();) {
    at = skip_trivia(gap, at, read);
    if (at < gap.size()) {
      target = &latter;
      ++at;  // the `;`
    }
  }
}

Declaration declared_in_comments(std::string_view sql, const Settings& settings) {
  Declaration declaration;
  // Most texts have none, and this is cheaper than parsing them.
  if (find_key(sql, 0).begin == std::string_view::npos) return declaration;
  Lexed& lexed = lexer_of_thread();
  lex(sql, settings, lexed);
  declared_around(declaration, sql, lexed);
  return declaration;
}

Declaration declared_in_application_name(std::string_view name) {
  constexpr std::string_view where = "application_name";
  Declaration declaration;
  std::size_t at = 0;
  for (Found found = find_key(name, at); found.begin != std::string_view::npos;
       found = find_key(name, at)) {
    const std::size_t end = name.find(';', found.equals);
    if (end == std::string_view::npos) {
      refuse(declaration, where, "a value is not closed by ; and may have been cut short");
      return declaration;
    }
    const std::string_view written = name.substr(found.begin, found.equals - found.begin);
    if (written != found.key) {
      refuse(declaration, where, "the keys are written in lower case and end at the =");
      return declaration;
    }
    const auto decoded =
        text::percent_decoded(name.substr(found.equals + 1, end - found.equals - 1));
    if (!decoded) {
      refuse(declaration, where, "a value is not URL-encoded");
      return declaration;
    }
    put(declaration, found.key, *decoded, where, true);
    if (!declaration.problem.empty()) return declaration;
    at = end + 1;
  }
  // A key that was cut at the end is malformed too. If nothing else is declared, the end must have
  // at least `termgate`; after a declaration any beginning of a key counts.
  const std::size_t enough = declaration.empty() ? std::string_view("termgate").size() : 1;
  const std::string_view rest = name.substr(at);
  for (const std::string_view key : {scope_key, term_key}) {
    for (std::size_t length = enough; length <= key.size(); ++length) {
      if (rest.size() < length ||
          !same_but_case(rest.substr(rest.size() - length), key.substr(0, length)))
        continue;
      // After another declaration the whole rest must match, because otherwise a word that ends in
      // `t` would count.
      if (declaration.empty() || rest.size() == length) {
        refuse(declaration, where, "it ends within a key and may have been cut short");
        return declaration;
      }
    }
  }
  return declaration;
}

Declaration declared_in_options(std::string_view options) {
  constexpr std::string_view where = "options";
  Declaration declaration;
  // pg_split_opts: white space separates words, a backslash quotes the next character.
  std::vector<std::string> words;
  const auto space = [](char character) { return is_space(character) || character == '\v'; };
  for (std::size_t at = 0;;) {
    while (at < options.size() && space(options[at])) ++at;
    if (at >= options.size()) break;
    std::string word;
    for (; at < options.size() && !space(options[at]); ++at) {
      if (options[at] == '\\' && ++at >= options.size()) break;
      word += options[at];
    }
    words.push_back(std::move(word));
  }
  const auto assign = [&](std::string_view assignment) {
    const std::size_t equals = assignment.find('=');
    std::string name(assignment.substr(0, equals));
    for (char& character : name) {
      if (character == '-') character = '_';  // ParseLongOption
    }
    if (!is_declared_setting(name)) return;
    if (equals == std::string_view::npos) {
      refuse(declaration, where, name + " has no value");
    } else {
      declare(declaration, name, assignment.substr(equals + 1), where);
    }
  };
  // As the server's getopt: the switches listed here take the rest of the word or the next word as
  // their value; `--name=value` is the switch `-` with a value.
  constexpr std::string_view with_value = "BCDNSWcdfhkprtv-";
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") break;
    if (word.size() < 2 || word[0] != '-') continue;
    for (std::size_t at = 1; at < word.size(); ++at) {
      if (with_value.find(word[at]) == std::string_view::npos) continue;
      const char what = word[at];
      std::string value = word.substr(at + 1);
      if (value.empty() && i + 1 < words.size()) value = words[++i];
      if (what == 'c' || what == '-') assign(value);
      break;
    }
  }
  return declaration;
}

}  // namespace termgate::statements
