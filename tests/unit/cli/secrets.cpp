// No message shows a password, wherever a URL was given by mistake.
#include <catch2/catch.hpp>

#include "cli/command.hpp"
#include "cli/secrets.hpp"

using termgate::cli::without_passwords;

TEST_CASE("secrets: a message shows no password of a URL in it", "[issue-2][cli]") {
  struct Row {
    const char* name;
    const char* message;
    const char* shown;
  };
  const Row rows[] = {
      {"a URL", "there is no command \"postgresql://u:s3cret@h:1/db\"; see",
       "there is no command \"postgresql://u:***@h:1/db\"; see"},
      {"in an option", "unrecognised option '--dbb=postgresql://u:s3cret@h'",
       "unrecognised option '--dbb=postgresql://u:***@h'"},
      {"no user", "redis://:s3cret@h", "redis://:***@h"},
      {"an @ in it", "postgresql://u:s3c@s3cret@h/d", "postgresql://u:***@h/d"},
      {"two URLs", "a://u:s3cret@h b://v:s3cret@i", "a://u:***@h b://v:***@i"},
      {"a parameter", "postgresql://h/d?password=s3cret&x=1", "postgresql://h/d?password=***&x=1"},
      {"both", "postgresql://u:s3cret@h/d?sslpassword=s3cret",
       "postgresql://u:***@h/d?sslpassword=***"},
      {"one within the other", "x://u:password=s3cret@h", "x://u:***"},
      {"key words", "host=h PASSWORD='s3 cret' user=u", "host=h PASSWORD=*** user=u"},
      {"an ODBC string", "odbc:Driver=x;Pwd={s3;cret};Uid=u", "odbc:Driver=x;Pwd=***;Uid=u"},
      {"a port is none", "postgresql://h:5432/d refused", "postgresql://h:5432/d refused"},
      {"a user alone", "postgresql://u@h:5432/d refused", "postgresql://u@h:5432/d refused"},
      {"the usage", "write sqlserver://user:password@host:port/database",
       "write sqlserver://user:password@host:port/database"},
      {"a script of Redis'",
       "redis://127.0.0.1:7001: ERR value is not an integer or out of range script: 0f1e, on "
       "@user_script:7.",
       "redis://127.0.0.1:7001: ERR value is not an integer or out of range script: 0f1e, on "
       "@user_script:7."},
      {"an @ in a path", "http://h:8500/v1/kv/a@b: 404", "http://h:8500/v1/kv/a@b: 404"},
      {"an @ in the next word", "etcd at http://h:2379 said: x@y:1",
       "etcd at http://h:2379 said: x@y:1"},
      {"nothing to hide", "TG001 stale term 3 for scope \"a@b: c\"",
       "TG001 stale term 3 for scope \"a@b: c\""},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    CHECK(without_passwords(row.message, {}) == row.shown);
    CHECK(without_passwords(without_passwords(row.message, {}), {}) == row.shown);
  }
}

TEST_CASE("secrets: what was given is known whatever is in it", "[issue-2][cli]") {
  CHECK(without_passwords("no \"postgresql://u:a@b c@h\"", {"postgresql://u:a@b c@h"}) ==
        "no \"postgresql://u:***@h\"");
  CHECK(without_passwords("term \"x\" in u:s3 cret at", {"--db=postgresql://u:s3 cret@h"}) ==
        "term \"x\" in u:*** at");
  CHECK(without_passwords("a cat: sat", {"x://u:a@h", "pwd=t"}) == "a cat: sat");
  CHECK(without_passwords("PWD=a b", {"PWD=a b"}) == "PWD=***");
  CHECK(without_passwords("no \"postgresql://u:s3c/s3cret@h/d\"",
                          {"postgresql://u:s3c/s3cret@h/d"}) == "no \"postgresql://u:***@h/d\"");
  CHECK(without_passwords("no \"postgresql://u:s3c s3cret@h/d\"",
                          {"postgresql://u:s3c s3cret@h/d"}) == "no \"postgresql://u:***@h/d\"");
  CHECK(without_passwords("login with s3 cret! failed", {"postgresql://u:s3%20cret%21@h/d"}) ==
        "login with *** failed");
}

TEST_CASE("secrets: whatever a password holds, it is hidden and the error is not",
          "[issue-36][cli]") {
  const std::string error =
      "ERR value is not an integer or out of range script: 0f1e, on @user_script:7.";
  for (const char* password : {"p", "a@b", "a:b", "a b", "a/b?c#d", "@", "::", "a%40b",
                               "user_script", "'\"{}", "127", "p@h:6379", "\xc3\xa4@"}) {
    INFO(password);
    const std::string url = std::string("redis://u:") + password + "@127.0.0.1:6379";
    CHECK(without_passwords(url + ": " + error, {"--source=" + url}) ==
          "redis://u:***@127.0.0.1:6379: " + error);
  }
}

TEST_CASE("secrets: what was read from a file is known from then on", "[issue-36][cli]") {
  termgate::cli::know_secrets_of("odbc:Driver=x;Pwd={from a file};Uid=u");
  CHECK(without_passwords("cannot open odbc:Driver=x;Pwd={from a file};Uid=u", {}) ==
        "cannot open odbc:Driver=x;Pwd=***;Uid=u");
}

TEST_CASE("secrets: a bare token is hidden wherever it is", "[cli]") {
  termgate::cli::know_secret("tG7-bare.token");
  CHECK(without_passwords("401: \"Bearer tG7-bare.token\" of tG7-bare.token", {}) ==
        "401: \"Bearer ***\" of ***");
  // One that could be part of any word stays.
  termgate::cli::know_secret("at");
  CHECK(without_passwords("a cat sat", {}) == "a cat sat");
}

TEST_CASE("secrets: the place of a database is host and name alone", "[cli]") {
  using termgate::cli::place_of;
  CHECK(place_of("postgresql://u:s3cret@h:1/db?sslmode=require") == "h:1/db");
  CHECK(place_of("postgresql://u@h/db") == "h/db");
  CHECK(place_of("postgresql:///db") == "/db");
  CHECK(place_of("sqlite:app.db?x=1") == "app.db");
  CHECK(place_of("sqlserver://sa:s3cret@h:1433/db?driver=x") == "h:1433/db");
  for (const char* url :
       {"postgresql://u:s3c?ret@h/db", "postgresql://u:s3c@ret@h/db", "postgresql://u:s3c#ret@h/db",
        "sqlserver://u:s3c?ret@h/db", "postgresql://h/db?password=s3c@ret",
        "odbc:Driver=x;Server=h;Pwd=s3cret"}) {
    CAPTURE(url);
    const std::string place = place_of(url);
    CHECK(place.find("s3c") == std::string::npos);
    CHECK(place.find("ret") == std::string::npos);
  }
}
