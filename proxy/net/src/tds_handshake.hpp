// How TDS 7.x begins TLS: the records of the handshake are sent in packets of type PRELOGIN; after
// it, the same connection continues with plain TLS ([MS-TDS] 3.2.5.2). Implemented as an OpenSSL
// BIO over a non-blocking socket. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include <openssl/bio.h>

namespace termgate::net {

class TdsHandshake {
 public:
  explicit TdsHandshake(int descriptor) noexcept : descriptor_(descriptor) {}
  TdsHandshake(const TdsHandshake&) = delete;
  TdsHandshake& operator=(const TdsHandshake&) = delete;

  // A new BIO for SSL_set_bio, which owns it; this object must outlive it. nullptr: out of memory.
  BIO* bio() noexcept;
  // Called after the handshake: from here on bytes go unchanged. False, with errno: the last packet
  // is not sent (EAGAIN: not yet).
  bool unwrap() noexcept;

 private:
  struct Callbacks;

  int read(BIO* bio, char* into, int bytes) noexcept;
  int write(BIO* bio, const char* from, int bytes) noexcept;
  bool flush() noexcept;
  int receive(char* into, std::size_t bytes) noexcept;

  const int descriptor_;
  bool wrapped_ = true;
  std::array<char, 8> head_{};  // the header of the packet that is read
  std::size_t held_ = 0;        // how much of the header has arrived
  std::size_t left_ = 0;        // how much of the payload is left to read
  std::string unsent_;          // our packets that the socket has not accepted
};

}  // namespace termgate::net
