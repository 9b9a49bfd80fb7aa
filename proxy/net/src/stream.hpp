// A connection's socket (http/stream.hpp) whose TLS handshake may be wrapped in TDS packets. One
// thread at a time.
#pragma once

#include <memory>

#include <termgate/http/stream.hpp>

#include "tds_handshake.hpp"

namespace termgate::net {

class Stream : public http::Stream {
 public:
  ~Stream() { close(); }

  // Like start_tls(), with the handshake in TDS packets (tds_handshake.hpp). False: out of memory;
  // the stream owns `ssl` all the same.
  bool start_wrapped_tls(SSL* ssl) noexcept;
  Io handshake() noexcept;
  void close() noexcept;

 private:
  std::unique_ptr<TdsHandshake> wrap_;  // used by the stream's SSL, which does not own it
};

}  // namespace termgate::net
