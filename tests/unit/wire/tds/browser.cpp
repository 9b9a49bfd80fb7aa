// Named instances: what the Browser answers, and to what it answers nothing.
#include <catch2/catch.hpp>

#include <array>
#include <string>
#include <vector>

#include <termgate/tds/browser.hpp>

using namespace termgate::tds;
using namespace std::string_literals;

TEST_CASE("tds browser: the port of a named instance", "[tds]") {
  const std::array<BrowsedInstance, 2> instances{BrowsedInstance{"BILLING", 14331},
                                                 BrowsedInstance{"reports", 14332}};
  const std::string billing =
      "ServerName;box;InstanceName;BILLING;IsClustered;No;Version;16.0.1000.6;tcp;14331;;";
  const std::string reports =
      "ServerName;box;InstanceName;reports;IsClustered;No;Version;16.0.1000.6;tcp;14332;;";
  const auto framed = [](const std::string& text) {
    return std::string{'\5', static_cast<char>(text.size() & 0xFF),
                       static_cast<char>(text.size() >> 8)} +
           text;
  };
  CHECK(browser_answer("\4billing\0"s, "box", instances) == framed(billing));
  CHECK(browser_answer("\4BILLING", "box", instances) == framed(billing));
  CHECK(browser_answer("\4Reports\0"s, "box", instances) == framed(reports));
  CHECK(browser_answer("\2", "box", instances) == framed(billing + reports));
  CHECK(browser_answer("\3", "box", instances) == framed(billing + reports));
  for (const std::string& request :
       {""s, "\4"s, "\4\0"s, "\4other\0"s, "\4billing2\0"s, "\4billin\0"s, "\x0F\1billing\0"s,
        "\5"s, "\0"s, "\4"s + std::string(40, 'b')}) {
    CAPTURE(request);
    CHECK(browser_answer(request, "box", instances).empty());
  }
  CHECK(browser_answer("\2", "box", {}).empty());
}

TEST_CASE("tds browser: an answer is bounded however many instances there are", "[tds]") {
  std::vector<BrowsedInstance> many(100, BrowsedInstance{std::string(32, 'x'), 65535});
  CHECK(browser_answer("\3", std::string(1000, 's'), many).size() <= browser_answer_bytes_max);
  many.back().name = "last";
  CHECK(browser_answer("\4last\0"s, "box", many).size() > 3);
}

TEST_CASE("tds browser: names of instances", "[tds]") {
  for (const char* name : {"A", "SQLEXPRESS", "inst_1$", "0123456789abcdef0123456789ABCDEF"})
    CHECK(is_instance_name(name));
  for (const char* name : {"", "a;b", "a b", "a\\b", "\xC3\xA9", "127.0.0.1:1433",
                           "0123456789abcdef0123456789ABCDEFx"})
    CHECK_FALSE(is_instance_name(name));
}
