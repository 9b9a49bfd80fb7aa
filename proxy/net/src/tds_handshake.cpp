#include "tds_handshake.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include <termgate/tds/packet.hpp>
#include <termgate/tds/types.hpp>

namespace termgate::net {
namespace {

constexpr std::size_t packet_bytes = 4096;  // before a login has negotiated another size
constexpr std::size_t unsent_max = 64u << 10;

bool would_block() noexcept { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

struct TdsHandshake::Callbacks {
  static TdsHandshake* of(BIO* bio) noexcept {
    return static_cast<TdsHandshake*>(BIO_get_data(bio));
  }
  static int write(BIO* bio, const char* from, int bytes) {
    return of(bio)->write(bio, from, bytes);
  }
  static int read(BIO* bio, char* into, int bytes) { return of(bio)->read(bio, into, bytes); }
  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  // Kept for the life of the program, as OpenSSL's own methods are.
  static const BIO_METHOD* method() noexcept {
    static const BIO_METHOD* const made = [] {
      BIO_METHOD* one = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "TDS handshake");
      if (one != nullptr) {
        BIO_meth_set_write(one, write);
        BIO_meth_set_read(one, read);
        BIO_meth_set_ctrl(one, control);
      }
      return one;
    }();
    return made;
  }
};

BIO* TdsHandshake::bio() noexcept {
  const BIO_METHOD* method = Callbacks::method();
  BIO* made = method == nullptr ? nullptr : BIO_new(method);
  if (made == nullptr) return nullptr;
  BIO_set_data(made, this);
  BIO_set_init(made, 1);
  return made;
}

int TdsHandshake::receive(char* into, std::size_t bytes) noexcept {
  ssize_t got = 0;
  do { got = recv(descriptor_, into, bytes, 0); } while (got < 0 && errno == EINTR);
  return static_cast<int>(got);
}

int TdsHandshake::read(BIO* bio, char* into, int bytes) noexcept {
  BIO_clear_retry_flags(bio);
  // The peer may be waiting for bytes that the socket has not accepted yet.
  if (!flush() && !would_block()) return -1;
  while (wrapped_ && left_ == 0) {
    const int got = receive(head_.data() + held_, head_.size() - held_);
    if (got <= 0) {
      if (got < 0 && would_block()) BIO_set_retry_read(bio);
      return got;
    }
    held_ += static_cast<std::size_t>(got);
    if (held_ < head_.size()) continue;
    held_ = 0;
    const std::size_t length = static_cast<std::size_t>(static_cast<unsigned char>(head_[2])) << 8 |
                               static_cast<unsigned char>(head_[3]);
    if (static_cast<std::uint8_t>(head_[0]) != tds::packet::prelogin ||
        length < tds::packet_header_bytes) {
      errno = EPROTO;
      return -1;
    }
    left_ = length - tds::packet_header_bytes;
  }
  const auto most = static_cast<std::size_t>(bytes);
  const int got = receive(into, wrapped_ ? std::min(left_, most) : most);
  if (got < 0 && would_block()) BIO_set_retry_read(bio);
  if (got > 0 && wrapped_) left_ -= static_cast<std::size_t>(got);
  return got;
}

int TdsHandshake::write(BIO* bio, const char* from, int bytes) noexcept {
  BIO_clear_retry_flags(bio);
  if (!wrapped_) {
    const ssize_t put = send(descriptor_, from, static_cast<std::size_t>(bytes), MSG_NOSIGNAL);
    if (put < 0 && would_block()) BIO_set_retry_write(bio);
    return static_cast<int>(put);
  }
  if (unsent_.size() > unsent_max) {
    errno = ENOBUFS;
    return -1;
  }
  try {
    tds::append_message(unsent_, tds::packet::prelogin, {from, static_cast<std::size_t>(bytes)},
                        packet_bytes);
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return -1;
  }
  if (!flush() && !would_block()) return -1;
  return bytes;
}

bool TdsHandshake::flush() noexcept {
  while (!unsent_.empty()) {
    const ssize_t put = send(descriptor_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    unsent_.erase(0, static_cast<std::size_t>(put));
  }
  return true;
}

bool TdsHandshake::unwrap() noexcept {
  if (!flush()) return false;
  wrapped_ = false;
  return true;
}

}  // namespace termgate::net
