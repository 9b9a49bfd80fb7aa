// A socket that does not block, in clear text or under TLS, with one set of outcomes for both. One
// thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <openssl/ssl.h>

namespace termgate::http {

class Stream {
 public:
  enum class Io { done, wait_read, wait_write, end, failed };

  Stream() = default;
  ~Stream() { close(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void open(int descriptor) noexcept { descriptor_ = descriptor; }
  void start_tls(SSL* ssl) noexcept { ssl_ = ssl; }  // takes ownership; the handshake is next
  bool is_open() const noexcept { return descriptor_ >= 0; }
  bool is_tls() const noexcept { return ssl_ != nullptr; }
  int descriptor() const noexcept { return descriptor_; }
  const SSL* ssl() const noexcept { return ssl_; }

  Io handshake() noexcept;
  // After `done`, `bytes` is at least one.
  Io read(char* into, std::size_t size, std::size_t& bytes) noexcept;
  Io write(std::string_view from, std::size_t& bytes) noexcept;

  // Ends our side of the stream; the other direction stays open.
  void finish_writing() noexcept;
  void close() noexcept;

  // The reason for the last `failed`.
  const std::string& why() const noexcept { return why_; }

 protected:
  SSL* ssl_ = nullptr;
  std::string why_;

 private:
  Io tls_outcome(int result) noexcept;

  int descriptor_ = -1;
};

}  // namespace termgate::http
