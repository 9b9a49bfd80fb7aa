// A PROXY header given byte by byte, as a socket would, and at once: the same answer, and never a
// byte asked for that is not the header's.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <termgate/http/proxy_protocol.hpp>

using namespace termgate::http;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<char> held(data, data + size);
  const std::string_view all(held.data(), held.size());
  const ProxyHeader at_once = parse_proxy_header(all);
  if (at_once.used > size || at_once.needed > proxy_header_bytes_max) std::abort();
  ProxyHeader piecewise;
  std::size_t given = 0;
  for (piecewise = parse_proxy_header({});
       piecewise.kind == ProxyHeader::Kind::need_more && given < size;) {
    if (piecewise.needed <= given) std::abort();
    ++given;
    const std::vector<char> exact(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(given));
    piecewise = parse_proxy_header({exact.data(), exact.size()});
  }
  if (piecewise.kind != at_once.kind) std::abort();
  if (piecewise.kind == ProxyHeader::Kind::proxied &&
      (piecewise.used != at_once.used || piecewise.client.text() != at_once.client.text()))
    std::abort();
  return 0;
}
