// A connection's socket (http/stream.hpp), whose handshake may be wrapped in packets of TDS. One thread at a time.
#pragma once

#include <memory>

#include <termgate/http/stream.hpp>

#include "tds_handshake.hpp"

namespace termgate::net {

class Stream : public http::Stream {
 public:
  ~Stream() { close(); }

  // As start_tls(), with the handshake in packets of TDS (tds_handshake.hpp). False: no memory, and `ssl` is gone.
  bool start_wrapped_tls(SSL* ssl) noexcept;
  Io handshake() noexcept;
  void close() noexcept;

 private:
  std::unique_ptr<TdsHandshake> wrap_;  // beneath the stream's SSL, which does not own it
};

}  // namespace termgate::net
