// A socket that does not block, in clear text or under TLS. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <openssl/ssl.h>

#include "tds_handshake.hpp"

namespace termgate::net {

class Stream {
 public:
  enum class Io { done, wait_read, wait_write, end, failed };

  Stream() = default;
  ~Stream() { close(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void open(int descriptor) noexcept { descriptor_ = descriptor; }
  void start_tls(SSL* ssl) noexcept { ssl_ = ssl; }  // owns it; the handshake is the next thing
  // The same, with the handshake in packets of TDS (tds_handshake.hpp). False: no memory, and `ssl` is gone.
  bool start_wrapped_tls(SSL* ssl) noexcept;
  bool is_open() const noexcept { return descriptor_ >= 0; }
  bool is_tls() const noexcept { return ssl_ != nullptr; }
  int descriptor() const noexcept { return descriptor_; }
  const SSL* ssl() const noexcept { return ssl_; }

  Io handshake() noexcept;
  // At least one byte where `done`; `bytes` says how many.
  Io read(char* into, std::size_t size, std::size_t& bytes) noexcept;
  Io write(std::string_view from, std::size_t& bytes) noexcept;

  // The end of what we send; the other direction stays open.
  void finish_writing() noexcept;
  void close() noexcept;

  // Of the last `failed`.
  const std::string& why() const noexcept { return why_; }

 private:
  Io tls_outcome(int result) noexcept;

  int descriptor_ = -1;
  SSL* ssl_ = nullptr;
  std::unique_ptr<TdsHandshake> wrap_;  // beneath ssl_, which does not own it
  std::string why_;
};

}  // namespace termgate::net
