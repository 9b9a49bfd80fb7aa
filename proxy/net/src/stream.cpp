#include "stream.hpp"

#include <cerrno>
#include <cstring>

namespace termgate::net {

Stream::Io Stream::handshake() noexcept {
  const Io outcome = http::Stream::handshake();
  if (outcome != Io::done || !wrap_ || wrap_->unwrap()) return outcome;
  if (errno == EAGAIN || errno == EWOULDBLOCK) return Io::wait_write;
  why_ = std::strerror(errno);
  return Io::failed;
}

bool Stream::start_wrapped_tls(SSL* ssl) noexcept {
  start_tls(ssl);
  wrap_ = std::make_unique<TdsHandshake>(descriptor());
  BIO* bio = wrap_->bio();
  if (bio == nullptr) return false;
  SSL_set_bio(ssl_, bio, bio);
  return true;
}

void Stream::close() noexcept {
  http::Stream::close();
  wrap_.reset();
}

}  // namespace termgate::net
