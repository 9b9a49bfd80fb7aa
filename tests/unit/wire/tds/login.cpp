// PRELOGIN and LOGIN7: read, written, cut short at every byte, and with every field pointing
// outside.
#include <catch2/catch.hpp>

#include <termgate/tds/login.hpp>
#include <termgate/tds/text.hpp>

#include "login7.hpp"
#include "support.hpp"

using namespace termgate::tds;

TEST_CASE("prelogin: what is written is read again", "[wire][tds]") {
  Prelogin made;
  made.version = std::string_view("\x10\x00\x03\xE8\x00\x00", 6);
  made.encryption = Encryption::required;
  made.mars = 0;
  made.federated_required = 1;
  made.instance = std::string_view("x\0", 2);
  std::string payload;
  append_prelogin(payload, made);
  const auto read = decode_prelogin(payload);
  REQUIRE(read);
  CHECK(read->version == made.version);
  CHECK(read->encryption == Encryption::required);
  CHECK(read->mars == 0);
  CHECK(read->federated_required == 1);
  CHECK(read->instance == made.instance);
  for (std::size_t size = 0; size < payload.size(); ++size)
    CHECK_FALSE(decode_prelogin(payload.substr(0, size)));
}

TEST_CASE("prelogin: what cannot be one is malformed", "[wire][tds]") {
  using namespace std::string_literals;
  const std::string version = "\0\0\x10\0\6"s, value = "\1\2\3\4\5\6\7\7\7\7"s;
  struct Row {
    const char* name;
    std::string payload;
  };
  const Row rows[] = {
      {"empty", ""},
      {"no version", "\xFF"s},
      {"version not first", "\1\0\x0B\0\1\0\0\x0C\0\6\xFF"s + value},
      {"version too short", "\0\0\6\0\5\xFF"s + value},
      {"outside", "\0\0\x06\0\6\xFF"s + "\1\2\3"},
      {"far outside", "\0\xFF\xFF\0\6\xFF"s + value},
      {"twice", "\0\0\x0B\0\6\0\0\x0B\0\6\xFF"s + value},
      {"encryption of two bytes", "\0\0\x0B\0\6\1\0\x0B\0\2\xFF"s + value},
      {"encryption out of range", "\0\0\x0B\0\6\1\0\x11\0\1\xFF"s + value},
      {"no end", version},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK_FALSE(decode_prelogin(row.payload));
  }
}

TEST_CASE("login7: fields and features are read", "[wire][tds]") {
  const std::string payload = test_login7({.user = "sa",
                                           .application = "termgate.scope=a termgate.term=5",
                                           .database = "app",
                                           .features = {{1, "abc"}, {10, "\1"}}});
  const auto login = decode_login7(payload);
  REQUIRE(login);
  CHECK(utf8_of(login->user) == "sa");
  CHECK(utf8_of(login->application) == "termgate.scope=a termgate.term=5");
  CHECK(utf8_of(login->database) == "app");
  CHECK(login->tds_version == version::v7_4);
  REQUIRE(login->features.size() == 2);
  CHECK(login->features[0].data == "abc");
  for (std::size_t size = 0; size < payload.size(); ++size)
    CHECK_FALSE(decode_login7(payload.substr(0, size)));
  CHECK_FALSE(decode_login7(payload + "x"));
}

namespace {

void check_same(const Login7& made, const Login7& of) {
  CHECK(made.host == of.host);
  CHECK(made.user == of.user);
  CHECK(made.password == of.password);
  CHECK(made.application == of.application);
  CHECK(made.library == of.library);
  CHECK(made.language == of.language);
  CHECK(made.database == of.database);
  CHECK(made.attach_file == of.attach_file);
  CHECK(made.change_password == of.change_password);
  CHECK(made.sspi == of.sspi);
  CHECK(made.tds_version == of.tds_version);
  CHECK(made.packet_size == of.packet_size);
  CHECK(made.option_flags_2 == of.option_flags_2);
}

}  // namespace

TEST_CASE("login7: features are taken out and the server is named otherwise", "[wire][tds]") {
  TestLogin7 plain{.user = "sa", .database = "app"},
      everything{.user = "app@server",
                 .application = "termgate.scope=a;termgate.term=5;",
                 .database = "app",
                 .attach_file = "C:\\a.mdf",
                 .change_password = "other",
                 .features = {{1, "recovery"}, {2, "federated"}, {10, "\1"}}};
  TestLogin7 old{.user = "sa", .tds_version = version::v7_1};
  for (const TestLogin7& one : {plain, everything, old}) {
    const std::string payload = test_login7(one);
    const auto login = decode_login7(payload);
    REQUIRE(login);
    for (const std::string& server :
         {std::string(), std::string("x"), std::string("logical.database.windows.net"),
          std::string(200, 'y')}) {
      for (const std::string_view without :
           {std::string_view(), std::string_view("\1\2", 2), std::string_view("\1\2\x0A", 3)}) {
        CAPTURE(server.size(), without.size());
        const auto made = changed_login7(payload, *login, {without, server});
        REQUIRE(made);
        const auto again = decode_login7(*made);
        REQUIRE(again);
        check_same(*again, *login);
        CHECK(utf8_of(again->server) == (server.empty() ? utf8_of(login->server) : server));
        CHECK(again->features.size() == (login->features.empty() ? 0 : 3 - without.size()));
        if (again->features.size() == 1) CHECK(again->features[0].data == "\1");
      }
    }
    // What no longer fits the lengths of two bytes.
    CHECK_FALSE(changed_login7(payload, *login, {"", std::string(40'000, 'z')}));
  }
}

TEST_CASE("routing: where a server sends its clients", "[wire][tds]") {
  const std::string value = std::string("\0\x99\5\2\0", 5) + utf16_of("db");
  const auto routing = decode_routing(value);
  REQUIRE(routing);
  CHECK(routing->server == "db");
  CHECK(routing->port == 1433);
  for (std::size_t size = 0; size < value.size(); ++size)
    CHECK_FALSE(decode_routing(value.substr(0, size)));
}

TEST_CASE("login7: a field outside of it is malformed", "[wire][tds]") {
  const std::string payload =
      test_login7({.user = "sa", .database = "app", .features = {{1, "abc"}}});
  for (const std::size_t at : {36, 40, 44, 48, 52, 56, 60, 64, 68, 78, 82, 86}) {
    CAPTURE(at);
    std::string outside = payload, into_head = payload, long_one = payload;
    for (std::string* one : {&outside, &into_head, &long_one})
      one->replace(at + 2, 2, std::string("\4\0", 2));
    outside.replace(at, 2, "\xFF\xFF");
    into_head.replace(at, 2, std::string("\x08\0", 2));
    long_one.replace(at + 2, 2, "\xFF\xFF");
    long_one.replace(at, 2, std::string("\x5E\0", 2));
    CHECK_FALSE(decode_login7(outside));
    CHECK_FALSE(decode_login7(into_head));
    if (at != 78) CHECK_FALSE(decode_login7(long_one));
  }
}
