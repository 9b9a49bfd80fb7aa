// No message shows a password, wherever a URL was given by mistake.
#include <catch2/catch.hpp>

#include "cli/secrets.hpp"

using termgate::cli::without_passwords;

TEST_CASE("secrets: a message shows no password of a URL in it", "[issue-2][cli]") {
  struct Row {
    const char* name;
    const char* message;
    const char* shown;
  };
  const Row rows[] = {
      {"a URL", "there is no command \"postgresql://u:s3cret@h:1/db\"; see", "there is no command \"postgresql://u:***@h:1/db\"; see"},
      {"in an option", "unrecognised option '--dbb=postgresql://u:s3cret@h'", "unrecognised option '--dbb=postgresql://u:***@h'"},
      {"no user", "redis://:s3cret@h", "redis://:***@h"},
      {"an @ in it", "postgresql://u:s3c@s3cret@h/d", "postgresql://u:***@h/d"},
      {"a slash in it", "postgresql://u:s3c/s3cret@h/d", "postgresql://u:***@h/d"},
      {"a blank in it", "no \"postgresql://u:s3c s3cret@h/d\"", "no \"postgresql://u:***@h/d\""},
      {"two URLs", "a://u:s3cret@h b://v:s3cret@i", "a://u:***@h b://v:***@i"},
      {"a parameter", "postgresql://h/d?password=s3cret&x=1", "postgresql://h/d?password=***&x=1"},
      {"both", "postgresql://u:s3cret@h/d?sslpassword=s3cret", "postgresql://u:***@h/d?sslpassword=***"},
      {"one within the other", "x://u:password=s3cret@h", "x://u:***"},
      {"key words", "host=h PASSWORD='s3 cret' user=u", "host=h PASSWORD=*** user=u"},
      {"an ODBC string", "odbc:Driver=x;Pwd={s3;cret};Uid=u", "odbc:Driver=x;Pwd=***;Uid=u"},
      {"a port is none", "postgresql://h:5432/d refused", "postgresql://h:5432/d refused"},
      {"a user alone", "postgresql://u@h:5432/d refused", "postgresql://u@h:5432/d refused"},
      {"nothing to hide", "TG001 stale term 3 for scope \"a@b: c\"", "TG001 stale term 3 for scope \"a@b: c\""},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    CHECK(without_passwords(row.message, {}) == row.shown);
    CHECK(without_passwords(without_passwords(row.message, {}), {}) == row.shown);
  }
}

TEST_CASE("secrets: what was given is known whatever is in it", "[issue-2][cli]") {
  CHECK(without_passwords("no \"postgresql://u:a@b c@h\"", {"postgresql://u:a@b c@h"}) == "no \"postgresql://u:***@h\"");
  CHECK(without_passwords("term \"x\" in u:s3 cret at", {"--db=postgresql://u:s3 cret@h"}) == "term \"x\" in u:*** at");
  CHECK(without_passwords("a cat: sat", {"x://u:a@h", "pwd=t"}) == "a cat: sat");
  CHECK(without_passwords("PWD=a b", {"PWD=a b"}) == "PWD=***");
}
