// Host as RFC 9110 has it: what is served is never decided by a part of it that another reader
// would take for something else.
#include <catch2/catch.hpp>

#include <string>

#include <termgate/detail/host_header.hpp>

using termgate::detail::host_is_served;
using termgate::detail::host_name;

TEST_CASE("host header: a host and perhaps a port", "[fencing]") {
  struct Row {
    const char* header;
    const char* host;  // nullptr: malformed
  };
  const Row rows[] = {
      {"localhost", "localhost"},
      {"LocalHost:80", "localhost"},
      {"localhost:", "localhost"},
      {"127.0.0.1:65535", "127.0.0.1"},
      {"[::1]", "[::1]"},
      {"[::FFFF:10.0.0.1]:9091", "[::ffff:10.0.0.1]"},
      {"a-b.example:1", "a-b.example"},
      {"", nullptr},
      {":80", nullptr},
      {"localhost:80@evil", nullptr},
      {"localhost@evil", nullptr},
      {"u:p@localhost", nullptr},
      {"localhost:8x", nullptr},
      {"localhost:65536", nullptr},
      {"localhost:000080", nullptr},
      {"localhost:80:80", nullptr},
      {"localhost/evil", nullptr},
      {"localhost?evil", nullptr},
      {"localhost#evil", nullptr},
      {"local host", nullptr},
      {" localhost", nullptr},
      {"localhost,evil:80@x", nullptr},
      {"[::1", nullptr},
      {"::1]", nullptr},
      {"[::1]evil", nullptr},
      {"[::1]:80@evil", nullptr},
      {"[localhost]", nullptr},
      {"[]", nullptr},
      {"[1]", nullptr},
      {"local\\host", nullptr},
      {"localhost\n", nullptr},
      {"localh\xc3\xb6st", nullptr},
  };
  for (const Row& row : rows) {
    INFO(row.header);
    const auto host = host_name(row.header);
    if (row.host == nullptr) CHECK_FALSE(host);
    else CHECK(host == std::string(row.host));
  }
}

TEST_CASE("host header: served are the loopback and what was named", "[fencing]") {
  CHECK(host_is_served("[::1]", {}));
  CHECK(host_is_served("db.example", {"DB.example"}));
  CHECK_FALSE(host_is_served("evil.example", {"db.example"}));
  CHECK_FALSE(host_is_served("localhost.evil", {}));
  CHECK(host_is_served("whatever", {"*"}));
}
