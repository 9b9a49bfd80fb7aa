// What is added to a user's URL before libpq sees it: so that no wait is for ever, and never
// against the user's word.
#include <catch2/catch.hpp>

#include <termgate/error.hpp>

#include "conninfo.hpp"

using Catch::Contains;
using termgate::detail::conninfo_of;

TEST_CASE("conninfo: a plain URL gets limits on every wait for the network", "[F5][postgres]") {
  CHECK(conninfo_of("postgresql://u@h/d", {}) ==
        "postgresql://u@h/"
        "d?client_encoding=UTF8&fallback_application_name=termgate&connect_timeout=10&keepalives_"
        "idle=30"
        "&keepalives_interval=10&keepalives_count=3&tcp_user_timeout=60000");
}

TEST_CASE("conninfo: what the URL or the environment sets is left alone", "[postgres]") {
  const auto own = conninfo_of("postgresql://u@h/d?connect_timeout=3&tcp_user_timeout=0", {});
  CHECK_THAT(own, Contains("connect_timeout=3") && !Contains("connect_timeout=10") &&
                      !Contains("tcp_user_timeout=60000"));
  CHECK_THAT(own, Contains("&keepalives_idle=30"));
  CHECK_THAT(conninfo_of("postgresql://u@h/d", {.connect_timeout = true}),
             !Contains("connect_timeout"));
  CHECK_THAT(conninfo_of("postgresql:///?service=app", {}),
             !Contains("connect_timeout") && Contains("&client_encoding=UTF8"));
  CHECK_THAT(conninfo_of("postgresql://u@h/d", {.service = true}),
             !Contains("connect_timeout") && !Contains("keepalives") &&
                 !Contains("tcp_user_timeout") && Contains("?client_encoding=UTF8"));
  // A name that only ends alike is another one.
  CHECK_THAT(conninfo_of("postgresql://u@h/d?my_connect_timeout=3", {}),
             Contains("&connect_timeout=10"));
}

TEST_CASE("conninfo: parameters begin where libpq finds them", "[postgres]") {
  CHECK_THAT(conninfo_of("postgresql://u:a?b@h/d", {}),
             Catch::StartsWith("postgresql://u:a?b@h/d?client_encoding"));
  CHECK_THAT(conninfo_of("postgresql://h/d?", {}),
             Catch::StartsWith("postgresql://h/d?client_encoding"));
  CHECK_THAT(conninfo_of("postgresql://h/d?sslmode=disable&", {}),
             Catch::StartsWith("postgresql://h/d?sslmode=disable&client_encoding"));
  CHECK_THAT(conninfo_of("postgresql://", {}), Catch::StartsWith("postgresql://?client_encoding"));
  CHECK_THAT(conninfo_of("postgresql:///d?user=a@b", {}),
             Catch::StartsWith("postgresql:///d?user=a@b&client_encoding"));
}

TEST_CASE("conninfo: a password that libpq would cut is refused unseen", "[issue-2][postgres]") {
  for (const char* url : {"postgresql://u:s3c/ret@h", "postgresql://u:s3c/r?et@h/d",
                          "postgresql://us/er:s3cret@h", "postgresql://u:1/2@h/d?x=1",
                          "postgresql://u:s3c@ret@h/d", "postgresql://u:s3c@r/et@h/d"}) {
    CAPTURE(url);
    CHECK_THROWS_WITH(conninfo_of(url, {}),
                      Contains("TG005") && Contains("%2F") && !Contains("ret") && !Contains("s3c"));
    CHECK_THROWS_AS(conninfo_of(url, {}), termgate::InvalidInput);
  }
  for (const char* url :
       {"postgresql://u:s3c%2Fret@h/d", "postgresql://h/d@x", "postgresql://h:5432/d?user=a@b",
        "postgresql:///d?user=a:b@c", "postgresql://u:p@h:5432/d?user=a@b"}) {
    CAPTURE(url);
    CHECK_NOTHROW(conninfo_of(url, {}));
  }
}
