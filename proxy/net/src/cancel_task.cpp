// The server closes once it has sent the signal, so `done` is called after that. A failure or the
// timeout calls it too: the protocol has no answer to a cancel that could report it.
#include "cancel_task.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include <termgate/pgwire/startup.hpp>

namespace termgate::net {

CancelTask::CancelTask(Worker& worker, const CancelRegistry::Target& target,
                       std::shared_ptr<const Settings> settings, std::function<void()> done)
    : worker_(worker),
      target_(target),
      settings_(std::move(settings)),
      done_(std::move(done)),
      deadline_(std::chrono::steady_clock::now() + settings_->options.cancel_timeout) {}

void CancelTask::begin() {
  const int descriptor =
      socket(target_.server.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return end();
  stream_.open(descriptor);
  http::tune(descriptor, target_.server.family(), settings_->options.keepalive);
  if (connect(descriptor, target_.server.address(), target_.server.size()) == 0) return connected();
  if (errno == EAGAIN) return stream_.close();  // a Unix socket whose queue is full: tried again
  if (errno != EINPROGRESS) return end();
  worker_.watch(descriptor, this, EPOLLOUT, watched_);
}

void CancelTask::connected() {
  if (target_.tls) {
    pgwire::append_ssl_request(out_);
    stage_ = Stage::tls_answer;
  } else {
    pgwire::append_cancel_request(out_, target_.pid, target_.key);
    stage_ = Stage::sending;
  }
  send_some();
}

void CancelTask::send_some() {
  while (!out_.empty()) {
    std::size_t bytes = 0;
    switch (stream_.write(out_, bytes)) {
      case Stream::Io::done: out_.erase(0, bytes); break;
      case Stream::Io::wait_write:
        return worker_.watch(stream_.descriptor(), this, EPOLLOUT, watched_);
      case Stream::Io::wait_read:
        return worker_.watch(stream_.descriptor(), this, EPOLLIN, watched_);
      default: return end();
    }
  }
  if (stage_ == Stage::sending) stage_ = Stage::closing;
  worker_.watch(stream_.descriptor(), this, EPOLLIN, watched_);
}

void CancelTask::go_on() {
  switch (stream_.handshake()) {
    case Stream::Io::done:
      stage_ = Stage::sending;
      pgwire::append_cancel_request(out_, target_.pid, target_.key);
      return send_some();
    case Stream::Io::wait_read: return worker_.watch(stream_.descriptor(), this, EPOLLIN, watched_);
    case Stream::Io::wait_write:
      return worker_.watch(stream_.descriptor(), this, EPOLLOUT, watched_);
    default: return end();
  }
}

void CancelTask::ready(std::uint32_t) {
  switch (stage_) {
    case Stage::connecting: {
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(stream_.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
      return error != 0 ? end() : connected();
    }
    case Stage::tls_answer: {
      if (!out_.empty()) return send_some();
      char answer = 0;
      std::size_t bytes = 0;
      const auto outcome = stream_.read(&answer, 1, bytes);
      if (outcome == Stream::Io::wait_read) return;
      // The session has TLS. Without it here, others on the network could read the key.
      if (outcome != Stream::Io::done || answer != 'S' || !settings_->server_tls) return end();
      SSL* ssl = tls_to_server(settings_->server_tls, worker_.shared().backend, target_.server_name,
                               stream_.descriptor());
      if (ssl == nullptr) return end();
      stream_.start_tls(ssl);
      stage_ = Stage::handshake;
      return go_on();
    }
    case Stage::handshake: return go_on();
    case Stage::sending: return send_some();
    case Stage::closing: {
      std::array<char, 256> scratch;
      std::size_t bytes = 0;
      const auto outcome = stream_.read(scratch.data(), scratch.size(), bytes);
      if (outcome != Stream::Io::wait_read && outcome != Stream::Io::done) end();
      return;
    }
    case Stage::over: return;
  }
}

void CancelTask::look_at_clock(conversation::Instant now) {
  if (now >= deadline_) end();
  else if (stage_ == Stage::connecting && !stream_.is_open()) begin();
}

void CancelTask::end() {
  if (stage_ == Stage::over) return;
  stage_ = Stage::over;
  stream_.close();
  worker_.bury(*this);
  if (done_) std::exchange(done_, nullptr)();
}

}  // namespace termgate::net
