// The header of PROXY protocol version 2, in which a load balancer names the client whose
// connection it forwards (haproxy's doc/proxy-protocol.txt, section 2.2). Bytes in, a result out;
// no I/O. Any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include <termgate/http/endpoint.hpp>

namespace termgate::http {

inline constexpr std::size_t proxy_header_bytes_max =
    2048;  // every receiver must accept 232; the rest is for TLVs

struct ProxyHeader {
  enum class Kind {
    need_more,  // at least `needed` bytes in all
    local,      // the balancer's own connection (a health check): its own address counts
    proxied,    // `client` is the client's address
    malformed,  // `problem` says why
  };
  Kind kind = Kind::need_more;
  std::size_t used = 0;  // bytes of the header, once it is complete
  std::size_t needed = 16;
  Endpoint client;
  const char* problem = "";
};

// `input` is what the connection has received so far. `needed` never goes beyond the header, so
// that what follows is left for TLS.
ProxyHeader parse_proxy_header(std::string_view input) noexcept;

}  // namespace termgate::http
