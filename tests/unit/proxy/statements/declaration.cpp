// Scope and term in each form that carries them; what is malformed is said, never passed over.
#include <catch2/catch.hpp>

#include <string>

#include <termgate/statements/classify.hpp>
#include <termgate/statements/declaration.hpp>

using namespace termgate::statements;

namespace {

struct Row {
  std::string text;
  const char* scope;  // "": none
  long term;          // 0: none
  const char* problem = "";
};

void check(const Row& row, const Declaration& declaration) {
  INFO(row.text);
  CHECK((declaration.scope ? declaration.scope->name() : "") == row.scope);
  CHECK((declaration.term ? declaration.term->value() : 0) == row.term);
  if (*row.problem == '\0') {
    CHECK(declaration.problem.empty());
  } else {
    CHECK_THAT(declaration.problem, Catch::StartsWith("TG005 malformed declaration in ") &&
                                        Catch::Contains(row.problem));
  }
}

}  // namespace

TEST_CASE("declaration: in a comment before the first or after the last token",
          "[proxy][statements]") {
  const Row rows[] = {
      {"/*termgate.scope='order-7',termgate.term='42'*/ SELECT 1", "order-7", 42},
      {"SELECT 1 /*termgate.scope='order-7',termgate.term='42'*/", "order-7", 42},
      {"SELECT 1 /*termgate.scope='order-7',termgate.term='42'*/;", "order-7", 42},
      {"SELECT 1; /*termgate.scope='order-7',termgate.term='42'*/", "order-7", 42},
      {"-- note\n /* other */ /* termgate.term = '42' , termgate.scope = 'a' */ SELECT 1", "a", 42},
      {"/*termgate.scope='a'*/ SELECT 1 /*termgate.term='5'*/", "a", 5},
      {"/*termgate.scope='a',termgate.term='5'*/ SELECT 1 /*termgate.scope='a',termgate.term='5'*/",
       "a", 5},
      {"SELECT 1 "
       "/*action='index',controller='x%20y',termgate.scope='a',db_driver='d',termgate.term='7'*/",
       "a", 7},
      {"/*termgate.scope='%E6%97%A5%2F%2A%27%25'*/ SELECT 1", "\xe6\x97\xa5/*'%", 0},
      {"/*termgate.scope='it\\'s'*/ SELECT 1", "it's", 0},
      {"/*termgate.scope='a+b'*/ SELECT 1", "a+b", 0},
      {"/*termgate.scope='',termgate.term=''*/ SELECT 1", "", 0},
      {"/*termgate.term='4611686018427387904'*/ SELECT 1", "", 4611686018427387904},
      {"/*termgate.scope='only'*/", "only", 0},
      // Empty statements before it do not end where it may stand.
      {"; /*termgate.scope='order-7',termgate.term='42'*/ SELECT 1", "order-7", 42},
      {" ; -- x\n ;; /* x */ ; /*termgate.scope='order-7',termgate.term='42'*/ SELECT 1;",
       "order-7", 42},
      {";/*termgate.scope='a'*/;/*termgate.term='5'*/", "a", 5},
      // Not a place for it, or not meant as one.
      {"SELECT /*termgate.scope='a'*/ 1", "", 0},
      {"SELECT '/*termgate.scope=''a''*/'", "", 0},
      {"SELECT $$/*termgate.scope='a'*/$$", "", 0},
      {"SELECT 1 --/*termgate.scope='a'*/", "", 0},
      {"/* sets nothing of termgate.scope, see there */ SELECT termgate.append('a', 1, 'x')", "",
       0},
      {"SELECT 1; /*termgate.scope='a'*/ SELECT 2", "", 0},
      // Malformed.
      {"/*termgate.scope='a'*/ SELECT 1 /*termgate.scope='b'*/", "", 0, "two scopes that differ"},
      {"; /*termgate.scope='a'*/ ; /*termgate.scope='b'*/ SELECT 1", "", 0,
       "two scopes that differ"},
      {"/*termgate.term='1',termgate.term='2'*/ SELECT 1", "", 0, "two terms that differ"},
      {"/*termgate.scope='a*/ SELECT 1", "", 0, "no closing quote"},
      {"/*termgate.scope=a*/ SELECT 1", "", 0, "key='value'"},
      {"/*termgate.scope='a' termgate.term='1'*/ SELECT 1", "", 0, "key='value'"},
      {"/*termgate.scope='a',*/ SELECT 1", "", 0, "key='value'"},
      {"/*please termgate.scope='a'*/ SELECT 1", "", 0, "key='value'"},
      {"/*Termgate.Scope='a'*/ SELECT 1", "", 0, "lower case"},
      {"/*termgate.scope='%4'*/ SELECT 1", "", 0, "URL-encoded"},
      {"/*termgate.scope='%zz'*/ SELECT 1", "", 0, "URL-encoded"},
      {"/*termgate.scope='%00'*/ SELECT 1", "", 0, "NUL"},
      {"/*termgate.scope='%ff'*/ SELECT 1", "", 0, "UTF-8"},
      {"/*termgate.scope='" + std::string(201, 'x') + "'*/ SELECT 1", "", 0, "200 code points"},
      {"/*termgate.term='0'*/ SELECT 1", "", 0, "1 to 2^62"},
      {"/*termgate.term='-1'*/ SELECT 1", "", 0, "1 to 2^62"},
      {"/*termgate.term='4611686018427387905'*/ SELECT 1", "", 0, "1 to 2^62"},
      {"/*termgate.term='99999999999999999999999'*/ SELECT 1", "", 0, "1 to 2^62"},
      {"/*termgate.term='4 2'*/ SELECT 1", "", 0, "1 to 2^62"},
      {"/*termgate.term='0x10'*/ SELECT 1", "", 0, "1 to 2^62"},
      // The text cannot be read, so that its end is nowhere.
      {"SELECT 'x /*termgate.term='5'*/", "", 0, "cannot be read"},
      {"/*termgate.term='5'*/ SELECT 'x", "", 5},
      {"SELECT 1 /*termgate.term='5'", "", 0, "cannot be read"},
  };
  for (const Row& row : rows) {
    check(row, declared_in_comments(row.text));
    check(row, classify(row.text).declared);
  }
}

TEST_CASE("declaration: in application_name", "[proxy][statements]") {
  const Row rows[] = {
      {"", "", 0},
      {"psql", "", 0},
      {"report", "", 0},
      {"billing termgate.scope=order-7;termgate.term=42;", "order-7", 42},
      {"termgate.term=42;termgate.scope=order-7;", "order-7", 42},
      {"termgate.scope=a;and more", "a", 0},
      {"termgate.scope=a%3Bb%20c;", "a;b c", 0},
      {"termgate.scope=;termgate.term=;", "", 0},
      {"termgate.scope=a;termgate.scope=a;", "a", 0},
      {"termgate client", "", 0},
      {"termgate.scope=a", "", 0, "not closed"},
      {"termgate.scope=a;termgate.term=4", "", 0, "not closed"},
      {"termgate.scope=a;termgate.term=", "", 0, "not closed"},
      {"termgate.scope=a;termgate.term", "", 0, "cut short"},
      {"termgate.scope=a;termg", "", 0, "cut short"},
      {"termgate.scope=a;t", "", 0, "cut short"},
      {"my app termgate.sco", "", 0, "cut short"},
      {"termgate.scope =a;", "", 0, "lower case"},
      {"TERMGATE.SCOPE=a;", "", 0, "lower case"},
      {"termgate.scope=a;termgate.scope=b;", "", 0, "two scopes that differ"},
      {"termgate.scope=%;", "", 0, "URL-encoded"},
      {"termgate.term=x;", "", 0, "1 to 2^62"},
  };
  for (const Row& row : rows) check(row, declared_in_application_name(row.text));
}

TEST_CASE("declaration: in options as the server splits them", "[proxy][statements]") {
  const Row rows[] = {
      {"", "", 0},
      {"-c termgate.scope=billing -c termgate.term=42", "billing", 42},
      {"-ctermgate.scope=billing -ctermgate.term=42", "billing", 42},
      {"--termgate.scope=billing --termgate.term=42", "billing", 42},
      {"-c TermGate.Scope=x", "x", 0},
      {"\t-c  termgate.scope=a\\ b\\\\c ", "a b\\c", 0},
      {"-c termgate.scope=a=b", "a=b", 0},
      {"-c termgate.term=1 -c termgate.term=2", "", 2},
      {"-c termgate.term=1 -c termgate.term=", "", 0},
      {"-c search_path=termgate.scope=x", "", 0},
      {"-c geqo=off -B 10 -ec termgate.term=3", "", 3},
      {"-S termgate.term=3", "", 0},
      {"-S -c termgate.term=3", "", 0},  // -S takes the next word, as getopt does
      {"-d 1 -c termgate.term=4", "", 4},
      {"-- -c termgate.term=3", "", 0},
      {"-c termgate.scope", "", 0, "no value"},
      {"--termgate.term", "", 0, "no value"},
      {"-c termgate.term=x", "", 0, "1 to 2^62"},
      {"-c termgate.scope=\xff", "", 0, "UTF-8"},
      {"-c", "", 0},
      {"\\", "", 0},
      {"-c termgate.scope=a\\", "a", 0},
  };
  for (const Row& row : rows) check(row, declared_in_options(row.text));
}

TEST_CASE("declaration: settings replace and take away", "[proxy][statements]") {
  Declaration declaration;
  declare(declaration, "TERMGATE.SCOPE", "a", "SET");
  declare(declaration, "termgate.term", "5", "SET");
  CHECK(declaration.scope->name() == "a");
  declare(declaration, "termgate.scope", "b", "SET");
  declare(declaration, "termgate.term", "", "SET");
  CHECK(declaration.scope->name() == "b");
  CHECK_FALSE(declaration.term);
  declare(declaration, "termgate.term", "many", "SET");
  CHECK_THAT(declaration.problem, Catch::Contains("TG005 malformed declaration in SET"));
  CHECK_FALSE(declaration.scope);
  CHECK(is_declared_setting("Termgate.TERM"));
  CHECK_FALSE(is_declared_setting("termgate.terms"));
}
