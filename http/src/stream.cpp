// OpenSSL keeps its errors in a queue for each thread, so the queue is cleared before every call:
// an earlier call's error would be taken for this one's.
#include <termgate/http/stream.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <cerrno>
#include <cstring>

#include <termgate/http/tls.hpp>

namespace termgate::http {

Stream::Io Stream::tls_outcome(int result) noexcept {
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ: return Io::wait_read;
    case SSL_ERROR_WANT_WRITE: return Io::wait_write;
    case SSL_ERROR_ZERO_RETURN: return Io::end;
    case SSL_ERROR_SYSCALL:
      if (errno == 0) return Io::end;
      why_ = std::strerror(errno);
      ERR_clear_error();
      return Io::failed;
    default: {
      const long verdict = SSL_get_verify_result(ssl_);
      why_ = tls_error();
      // Adds why the peer's certificate was refused, if it was.
      if (verdict != X509_V_OK && (SSL_get_verify_mode(ssl_) & SSL_VERIFY_PEER) != 0)
        why_ += std::string(": ") + X509_verify_cert_error_string(verdict);
      return Io::failed;
    }
  }
}

Stream::Io Stream::handshake() noexcept {
  errno = 0;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  return result == 1 ? Io::done : tls_outcome(result);
}

Stream::Io Stream::read(char* into, std::size_t size, std::size_t& bytes) noexcept {
  if (ssl_ != nullptr) {
    errno = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_, into, size, &bytes);
    return result == 1 ? Io::done : tls_outcome(result);
  }
  for (;;) {
    const ssize_t got = recv(descriptor_, into, size, 0);
    if (got > 0) {
      bytes = static_cast<std::size_t>(got);
      return Io::done;
    }
    if (got == 0) return Io::end;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Io::wait_read;
    why_ = std::strerror(errno);
    return Io::failed;
  }
}

Stream::Io Stream::write(std::string_view from, std::size_t& bytes) noexcept {
  if (ssl_ != nullptr) {
    errno = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(ssl_, from.data(), from.size(), &bytes);
    return result == 1 ? Io::done : tls_outcome(result);
  }
  for (;;) {
    const ssize_t put = send(descriptor_, from.data(), from.size(), MSG_NOSIGNAL);
    if (put >= 0) {
      bytes = static_cast<std::size_t>(put);
      return Io::done;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Io::wait_write;
    why_ = std::strerror(errno);
    return Io::failed;
  }
}

void Stream::finish_writing() noexcept {
  if (descriptor_ < 0) return;
  // SSL_shutdown is an error during a handshake.
  if (ssl_ != nullptr && SSL_is_init_finished(ssl_)) {
    ERR_clear_error();
    SSL_shutdown(ssl_);
    ERR_clear_error();
  }
  shutdown(descriptor_, SHUT_WR);
}

void Stream::close() noexcept {
  if (ssl_ != nullptr) SSL_free(ssl_);
  ssl_ = nullptr;
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace termgate::http
