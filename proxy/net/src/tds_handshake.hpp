// TLS as TDS 7.x begins it: the records of the handshake travel in packets of type PRELOGIN, and when it has ended the same connection goes
// on in plain TLS
// ([MS-TDS] 3.2.5.2). Beneath OpenSSL, as a BIO over a socket that does not block. One thread at a time.
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

  // A new one, for SSL_set_bio, which owns it; this object must outlive it. nullptr: no memory.
  BIO* bio() noexcept;
  // The handshake is over: from here on bytes go as they are. False, with errno: its last packet is not sent yet.
  bool unwrap() noexcept;

 private:
  struct Callbacks;

  int read(BIO* bio, char* into, int bytes) noexcept;
  int write(BIO* bio, const char* from, int bytes) noexcept;
  bool flush() noexcept;
  int receive(char* into, std::size_t bytes) noexcept;

  const int descriptor_;
  bool wrapped_ = true;
  std::array<char, 8> head_{};  // of the packet that is read
  std::size_t held_ = 0;        // of it
  std::size_t left_ = 0;        // of its payload
  std::string unsent_;          // packets of ours that the socket did not take
};

}  // namespace termgate::net
