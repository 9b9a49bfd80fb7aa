#include "end.hpp"

#include <sys/epoll.h>

#include "connection.hpp"

namespace termgate::net {

void End::ready(std::uint32_t events) { owner_.ready(*this, events); }

void End::set_gone() noexcept {
  gone_ = true;
  handshaking_ = false;
}

void End::close() noexcept {
  stream_.close();
  watched_ = 0;
}

void End::reset(Worker& worker) noexcept {
  if (stream_.is_open()) {
    worker.watch(stream_.descriptor(), this, 0, watched_);
    stream_.finish_writing();
  }
  close();
  connected_ = handshaking_ = blocked_ = write_reads_ = read_writes_ = deaf_ = unheard_ = spoke_ =
      false;
  gone_ = true;
}

void End::finish() noexcept {
  handshaking_ = blocked_ = write_reads_ = false;
  stream_.finish_writing();
}

bool End::start_tls(SSL* ssl, bool wrapped) noexcept {
  if (!wrapped) stream_.start_tls(ssl);
  else if (!stream_.start_wrapped_tls(ssl)) return false;
  handshaking_ = true;
  return true;
}

Stream::Io End::handshake() noexcept {
  const Stream::Io outcome = stream_.handshake();
  switch (outcome) {
    case Stream::Io::wait_read: handshake_wants_ = EPOLLIN; break;
    case Stream::Io::wait_write: handshake_wants_ = EPOLLOUT; break;
    case Stream::Io::done: spoke_ = false; [[fallthrough]];
    case Stream::Io::end:
    case Stream::Io::failed: handshaking_ = false;
  }
  return outcome;
}

Stream::Io End::read(char* into, std::size_t size, std::size_t& bytes) noexcept {
  const Stream::Io outcome = stream_.read(into, size, bytes);
  if (outcome == Stream::Io::done) spoke_ = true;
  else if (outcome == Stream::Io::wait_write) read_writes_ = true;
  return outcome;
}

Stream::Io End::write(std::string_view from, std::size_t& bytes) noexcept {
  const Stream::Io outcome = stream_.write(from, bytes);
  write_reads_ = outcome == Stream::Io::wait_read;
  // A partial write to a socket without TLS means that it is full.
  blocked_ = write_reads_ || outcome == Stream::Io::wait_write ||
             (outcome == Stream::Io::done && bytes < from.size() && !stream_.is_tls());
  return outcome;
}

// Under TLS a write may have to read first, and a read to write. Each remembers which event it
// waits for.
bool End::wake(std::uint32_t events) noexcept {
  if ((events & EPOLLOUT) != 0 || ((events & EPOLLIN) != 0 && write_reads_))
    blocked_ = write_reads_ = false;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0 &&
      ((events & EPOLLOUT) == 0 || !read_writes_))
    return false;
  read_writes_ = false;
  return true;
}

std::uint32_t End::interest(bool wants_bytes) noexcept {
  if (handshaking_) return handshake_wants_;
  if (gone_) return 0;
  std::uint32_t wanted = 0;
  if (wants_bytes) wanted |= read_writes_ ? EPOLLOUT : EPOLLIN;
  if (blocked_) wanted |= write_reads_ ? EPOLLIN : EPOLLOUT;
  // Only a socket that is not watched at all stops reporting a hang-up again and again.
  if (wanted == EPOLLIN) deaf_ = false;
  // epoll adds this and EPOLLHUP anyway.
  return wanted == 0 && !deaf_ ? EPOLLERR : wanted;
}

void End::watch(Worker& worker, std::uint32_t wanted) {
  if (stream_.is_open()) worker.watch(stream_.descriptor(), this, wanted, watched_);
}

}  // namespace termgate::net
