// Layout (section 2.2), big-endian:
//
//   0        12           13              14          16
//   | signature | ver<<4|cmd | family<<4|type | length u16 | addresses | TLVs |
//
//   addresses: TCP over IPv4: src 4, dst 4, ports 2 + 2; over IPv6: 16, 16, 2 + 2; Unix: 108, 108
#include <termgate/http/proxy_protocol.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace termgate::http {
namespace {

constexpr std::string_view signature("\x0D\x0A\x0D\x0A\x00\x0D\x0A\x51\x55\x49\x54\x0A", 12);
constexpr std::size_t fixed_bytes = 16;

ProxyHeader malformed(const char* problem) noexcept {
  ProxyHeader header;
  header.kind = ProxyHeader::Kind::malformed;
  header.problem = problem;
  return header;
}

unsigned byte(std::string_view input, std::size_t at) noexcept {
  return static_cast<unsigned char>(input[at]);
}

}  // namespace

ProxyHeader parse_proxy_header(std::string_view input) noexcept {
  const auto common = std::min(input.size(), signature.size());
  if (input.substr(0, common) != signature.substr(0, common))
    return malformed("no PROXY protocol v2 signature");
  ProxyHeader header;
  if (input.size() < fixed_bytes) return header;
  if (byte(input, 12) >> 4 != 2) return malformed("its version is not 2");
  const unsigned command = byte(input, 12) & 15;
  if (command > 1) return malformed("its command is neither LOCAL nor PROXY");
  const std::size_t length = byte(input, 14) << 8 | byte(input, 15);
  if (length > proxy_header_bytes_max - fixed_bytes)
    return malformed("it is longer than 2048 bytes");
  header.needed = fixed_bytes + length;
  if (input.size() < header.needed) return header;
  header.used = header.needed;
  const unsigned family = byte(input, 13);
  if (command == 0) {
    header.kind = ProxyHeader::Kind::local;
    return header;
  }
  const char* addresses = input.data() + fixed_bytes;
  header.kind = ProxyHeader::Kind::proxied;
  if (family == 0x11) {
    if (length < 12) return malformed("its addresses are cut short");
    sockaddr_in client{};
    client.sin_family = AF_INET;
    std::memcpy(&client.sin_addr, addresses, 4);
    std::memcpy(&client.sin_port, addresses + 8, 2);
    header.client = Endpoint(reinterpret_cast<const sockaddr*>(&client), sizeof client);
  } else if (family == 0x21) {
    if (length < 36) return malformed("its addresses are cut short");
    sockaddr_in6 client{};
    client.sin6_family = AF_INET6;
    std::memcpy(&client.sin6_addr, addresses, 16);
    std::memcpy(&client.sin6_port, addresses + 32, 2);
    header.client = Endpoint(reinterpret_cast<const sockaddr*>(&client), sizeof client);
  } else if (family == 0x31) {
    if (length < 216) return malformed("its addresses are cut short");
    header.client = *Endpoint::unix_socket("");
  } else if (family == 0x00) {
    header.kind = ProxyHeader::Kind::local;  // "unspecified": the connection's own address counts
  } else {
    return malformed("its address family is not one that a connection can have");
  }
  return header;
}

}  // namespace termgate::http
