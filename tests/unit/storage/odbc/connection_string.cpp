// URLs become connection strings: hostile values stay values, what is wrong is named by its part,
// and a password is never shown.
#include <catch2/catch.hpp>

#include <string>

#include <termgate/error.hpp>

#include <termgate/detail/odbc/connection_string.hpp>

using namespace termgate;
using namespace termgate::detail::odbc;

namespace {

std::string refusal(const std::string& url) {
  try {
    connection_string_of(url);
  } catch (const InvalidInput& error) { return error.what(); }
  return "accepted";
}

std::string value_of(const std::string& text, const std::string& key) {
  for (const auto& [name, value] : attributes_of(text)) {
    if (name == key) return value;
  }
  return "(none)";
}

}  // namespace

TEST_CASE("connection string: each part of a URL arrives as it was", "[odbc]") {
  const auto made = connection_string_of(
      "sqlserver://app:s%3Bcret%7D@db.example:1444/orders%20db?driver=FreeTDS&APP=my%20app");
  CHECK(made.maker == Maker::freetds);
  CHECK(value_of(made.text, "Server") == "db.example");
  CHECK(value_of(made.text, "Port") == "1444");
  CHECK(value_of(made.text, "Database") == "orders db");
  CHECK(value_of(made.text, "UID") == "app");
  CHECK(value_of(made.text, "PWD") == "s;cret}");
  CHECK(value_of(made.text, "APP") == "my app");
  CHECK(value_of(made.text, "ClientCharset") == "UTF-8");
  const auto microsoft = connection_string_of(
      "sqlserver://app:p@[::1]:1444/d?driver=ODBC%20Driver%2018%20for%20SQL%20Server");
  CHECK(microsoft.maker == Maker::microsoft);
  CHECK(value_of(microsoft.text, "Server") == "tcp:::1,1444");
  CHECK(value_of(microsoft.text, "ConnectRetryCount") == "0");
}

TEST_CASE("connection string: hostile values stay values", "[odbc]") {
  for (const std::string hostile : {"a;Server=evil", "}", "{", "}}", "a}b;PWD=x", " padded ",
                                    "=;{}[]", "a'b\"c", "\xF0\x9F\x94\x92"}) {
    INFO(hostile);
    const std::string quoted = quoted_value("PWD", hostile, Maker::freetds);
    CHECK(value_of("Driver={FreeTDS};PWD=" + quoted + ";UID=x", "PWD") == hostile);
    CHECK(value_of("Driver={FreeTDS};PWD=" + quoted + ";UID=x", "Server") == "(none)");
  }
  CHECK_THROWS_AS(quoted_value("PWD", std::string("a\0b", 3), Maker::freetds), InvalidInput);
  CHECK_THROWS_AS(quoted_value("PWD", "a}b", Maker::psqlodbc), InvalidInput);
}

TEST_CASE("connection string: what is wrong is named and never shown", "[odbc]") {
  struct {
    const char* url;
    const char* says;
  } const cases[] = {
      {"sqlserver://", "sqlserver://USER"},
      {"sqlserver://host:1433/db", "sqlserver://USER"},
      {"sqlserver://:s3cret@host/db", "user"},
      {"sqlserver://u:s3cret@host/"
       "db?driver=ODBC%20Driver%2018%20for%20SQL%20Server&MARS_Connection=yes",
       "MARS"},
      {"sqlserver://u:s3cret@/db", "host"},
      {"sqlserver://u:s3cret@host:0/db", "port"},
      {"sqlserver://u:s3cret@host:65536/db", "port"},
      {"sqlserver://u:s3cret@host:abc/db", "port"},
      {"sqlserver://u:s3cret@host:/db", "port"},
      {"sqlserver://u:s3cret@[::1/db", "["},
      {"sqlserver://u:s3cret@host%5Cinst/db", "named instance"},
      {"sqlserver://u:s3cret%@host/db", "password"},
      {"sqlserver://u:s3cret%4x@host/db?driver=FreeTDS", "password"},
      {"sqlserver://u:s3cret@host/db?driver", "KEY=VALUE"},
      {"sqlserver://u:s3cret@host/db?=x", "KEY=VALUE"},
      {"sqlserver://u:s3cret@host/db?a%3Bb=x&driver=FreeTDS", "key"},
      {"sqlserver://u:s3cret@host/db?driver=NoSuchDriver", "driver"},
      {"sqlserver://u:s3cret@host/db?driver=PostgreSQL%20Unicode", "not one for SQL Server"},
      {"sqlserver://u:s3cret%00@host/db?driver=FreeTDS", "NUL"},
      {"odbc:", "connection string"},
      {"odbc:Server=x;PWD=s3cret", "neither"},
      {"odbc:Driver={FreeTDS;PWD=s3cret", "brace"},
      {"odbc:Driver={FreeTDS}x;PWD=s3cret", "after the closing brace"},
      {"odbc:Driver=FreeTDS;PWD", "no ="},
      {"odbc:Driver=FreeTDS;=s3cret", "no key"},
      {"odbc:Driver=FreeTDS;PWD=s3cret;pwd=other", "twice"},
      {"odbc:Driver=NoSuchDriver;PWD=s3cret", "not one that Termgate knows"},
      {"odbc:DSN=no such source;PWD=s3cret", "odbc.ini"},
      {"mysql://x", "starts with"},
  };
  for (const auto& each : cases) {
    INFO(each.url);
    const std::string said = refusal(each.url);
    INFO(said);
    CHECK(said.find("TG005") == 0);
    CHECK(said.find(each.says) != std::string::npos);
    CHECK(said.find("s3cret") == std::string::npos);
  }
}

TEST_CASE("connection string: passwords are hidden wherever a driver shows them", "[odbc]") {
  const auto made = connection_string_of("odbc:Driver={FreeTDS};Server=h;UID=u;PWD={open;sesame}");
  CHECK(redacted("cannot connect with open;sesame", made.secrets) == "cannot connect with ***");
  CHECK(redacted("in " + made.text + " there", made.secrets) == "in *** there");
  const auto tiny = connection_string_of("odbc:Driver={FreeTDS};Server=h;UID=u;PWD=an");
  CHECK(redacted("an answer and PWD=an;", tiny.secrets) == "*** answer and PWD=***;");
}
