// The PROXY protocol v2 header: each family, LOCAL, every wrong byte, and every split.
#include <catch2/catch.hpp>

#include <string>

#include <termgate/http/proxy_protocol.hpp>

using namespace termgate::http;

namespace {

const std::string signature("\x0D\x0A\x0D\x0A\x00\x0D\x0A\x51\x55\x49\x54\x0A", 12);

std::string header(char version_and_command, char family, const std::string& body) {
  return signature + version_and_command + family + static_cast<char>(body.size() >> 8) +
         static_cast<char>(body.size() & 0xff) + body;
}

const std::string v4("\xC0\x00\x02\x07\x0A\x00\x00\x01\x30\x39\x15\x38",
                     12);  // 192.0.2.7:12345 -> 10.0.0.1:5432

std::string v6() {
  std::string body("\x20\x01\x0d\xb8", 4);
  body += std::string(11, '\0') + '\x07';
  body += std::string(15, '\0') + '\x01';
  return body + std::string("\x30\x39\x15\x38", 4);
}

}  // namespace

TEST_CASE("PROXY header: tells the client's own address", "[F6][net]") {
  const auto four = parse_proxy_header(header(0x21, 0x11, v4) + "next");
  REQUIRE(four.kind == ProxyHeader::Kind::proxied);
  CHECK(four.client.text() == "192.0.2.7:12345");
  CHECK(four.used == 28);
  const auto six = parse_proxy_header(header(0x21, 0x21, v6()));
  REQUIRE(six.kind == ProxyHeader::Kind::proxied);
  CHECK(six.client.text() == "[2001:db8::7]:12345");
  const auto unix_socket = parse_proxy_header(header(0x21, 0x31, std::string(216, 'x')));
  REQUIRE(unix_socket.kind == ProxyHeader::Kind::proxied);
  CHECK(unix_socket.client.host() == "local");
}

TEST_CASE("PROXY header: skips what follows the addresses", "[net]") {
  const auto with_tlv =
      parse_proxy_header(header(0x21, 0x11, v4 + std::string("\x04\x00\x03xyz", 6)));
  REQUIRE(with_tlv.kind == ProxyHeader::Kind::proxied);
  CHECK(with_tlv.used == 34);
  CHECK(with_tlv.client.host() == "192.0.2.7");
}

TEST_CASE("PROXY header: a balancer's own connection keeps its own address", "[net]") {
  CHECK(parse_proxy_header(header(0x20, 0x00, "")).kind == ProxyHeader::Kind::local);
  CHECK(parse_proxy_header(header(0x20, 0x11, v4)).kind == ProxyHeader::Kind::local);
  CHECK(parse_proxy_header(header(0x21, 0x00, "")).kind == ProxyHeader::Kind::local);
}

TEST_CASE("PROXY header: what is none is refused", "[net]") {
  struct Row {
    const char* name;
    std::string bytes;
  };
  for (const Row& row :
       {Row{"a start-up packet", std::string("\x00\x00\x00\x08\x04\xd2\x16\x2f", 8)},
        Row{"version 1", "PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\n"},
        Row{"version 3", header(0x31, 0x11, v4)}, Row{"command 2", header(0x22, 0x11, v4)},
        Row{"IPv4 cut short", header(0x21, 0x11, v4.substr(1))},
        Row{"IPv6 cut short", header(0x21, 0x21, v6().substr(1))},
        Row{"Unix cut short", header(0x21, 0x31, std::string(215, 'x'))},
        Row{"datagrams", header(0x21, 0x12, v4)},
        Row{"too long", header(0x21, 0x11, v4 + std::string(2048, '\0'))}}) {
    CAPTURE(row.name);
    const auto answer = parse_proxy_header(row.bytes);
    CHECK(answer.kind == ProxyHeader::Kind::malformed);
    CHECK(std::string(answer.problem).size() > 10);
  }
}

TEST_CASE("PROXY header: asks for no byte behind itself at any split", "[net]") {
  for (const std::string& whole :
       {header(0x21, 0x11, v4), header(0x21, 0x21, v6()), header(0x20, 0x00, ""),
        header(0x21, 0x11, v4 + std::string(100, 'x'))}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const auto part = parse_proxy_header(whole.substr(0, length));
      CAPTURE(length, whole.size());
      REQUIRE(part.kind == ProxyHeader::Kind::need_more);
      CHECK(part.needed > length);
      CHECK(part.needed <= whole.size());
    }
    CHECK(parse_proxy_header(whole).used == whole.size());
  }
}
