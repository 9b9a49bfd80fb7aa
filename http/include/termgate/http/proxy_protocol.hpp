// The header of PROXY protocol version 2, by which a load balancer says whose connection it brings
// (haproxy's doc/proxy-protocol.txt, section 2.2). Bytes in, an answer out; no I/O. Any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include <termgate/http/endpoint.hpp>

namespace termgate::http {

inline constexpr std::size_t proxy_header_bytes_max = 2048;  // 232 is what everybody must take; the rest is for TLVs

struct ProxyHeader {
  enum class Kind {
    need_more,  // `needed` bytes in all, at the least
    local,      // the balancer's own connection (a health check): its own address counts
    proxied,    // `client` is who it is
    malformed,  // `problem` says why
  };
  Kind kind = Kind::need_more;
  std::size_t used = 0;  // bytes of the header, where it is complete
  std::size_t needed = 16;
  Endpoint client;
  const char* problem = "";
};

// `input` begins where the connection begins. Asks for no byte that is not the header's, so that what follows is left to TLS.
ProxyHeader parse_proxy_header(std::string_view input) noexcept;

}  // namespace termgate::http
