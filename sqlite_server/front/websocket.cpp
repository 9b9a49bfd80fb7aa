#include "front/websocket.hpp"

#include <chrono>
#include <utility>

namespace termgate::sqlite_front {
namespace {

// Bounds the answers that the loop's thread makes itself, for a client that does not read them.
constexpr std::size_t unread_bytes_max = std::size_t{4} << 20;

constexpr std::uint16_t unsupported_data = 1003, policy = 1008, try_again_later = 1013;

}  // namespace

WebSocket::WebSocket(Core& core, const http::Head& head, hrana::Version version)
    : core_(core),
      head_(head),
      session_(core.streams, version,
               [this](const std::optional<std::string>& token) { return login(token); }) {}

void WebSocket::opened(std::shared_ptr<http::Socket> socket) { socket_ = std::move(socket); }

// Called within take(). Under rules it may wait; then message() has moved the message to a worker.
std::variant<hrana::Identity, hrana::Refused> WebSocket::login(
    const std::optional<std::string>& token) {
  auto sender = core_.sender(head_, token ? std::optional<std::string_view>(*token) : std::nullopt);
  if (const auto* refusal = std::get_if<claim::Refusal>(&sender)) {
    core_.counts.turned_away.add("token");
    return hrana::Refused(refusal->code, refusal->message);
  }
  const auto& known = std::get<Sender>(sender);
  auto permit = core_.permit(known);
  if (const auto* refusal = std::get_if<claim::Refusal>(&permit))
    return hrana::Refused(refusal->code, refusal->message);
  expires_ = known.caller.expires;
  {
    const std::lock_guard lock(running_mutex_);
    whose_ = known.whose;
  }
  return hrana::Identity{known.caller.name, std::get<hrana::Permit>(std::move(permit))};
}

bool WebSocket::message(std::string bytes, http::Kind kind) {
  if (kind != http::Kind::text) {
    close(unsupported_data, "messages are JSON in text");
    return false;
  }
  // Under rules a `hello` may wait for a lease.
  if (core_.admissions && bytes.find("hello") != std::string::npos) {
    const bool accepted =
        core_.workers.run(Lane::admissions, [self = shared_from_this(), bytes = std::move(bytes)] {
          if (self->take(bytes)) self->socket_->resume();
        });
    if (!accepted) close(try_again_later, "too many requests wait: connect again");
    return false;
  }
  return take(bytes);
}

// Returns whether the next message may come.
bool WebSocket::take(const std::string& message) {
  hrana::Socket::Output output;
  bool more = true;
  {
    const std::lock_guard lock(mutex_);
    output = session_.take(message);
    more = session_.may_read();
    paused_ = !more;
  }
  send(std::move(output));
  return more;
}

void WebSocket::send(hrana::Socket::Output output) {
  for (std::string& answer : output.answers) socket_->post(std::move(answer), http::Kind::text);
  for (auto& job : output.jobs) start(std::move(job));
  if (output.violation)
    close(static_cast<std::uint16_t>(output.violation->close_code), output.violation->reason);
  else if (socket_->waiting() > unread_bytes_max) close(policy, "answers are not read");
}

void WebSocket::start(hrana::Socket::Job job) {
  const Lane lane = job.in_transaction() || gone_ ? Lane::transactions : Lane::writers;
  auto shared = std::make_shared<hrana::Socket::Job>(std::move(job));
  if (core_.workers.run(lane, [self = shared_from_this(), shared] { self->run(*shared); })) return;
  core_.counts.turned_away.add("busy");
  close(try_again_later, "too many requests are at work: connect again");
}

void WebSocket::run(hrana::Socket::Job& job) {
  for (bool more = true; more;) {
    auto done = run_once(job);
    more = done.more;
    if (done.answer)
      socket_->send(std::move(*done.answer), http::Kind::text,
                    std::make_shared<hrana::Charge>(std::move(done.charge)));
    const std::lock_guard lock(mutex_);
    if (!paused_ || !session_.may_read()) continue;
    paused_ = false;
    socket_->resume();
  }
}

hrana::Socket::Job::Done WebSocket::run_once(hrana::Socket::Job& job) {
  std::optional<Running> running;
  {
    const std::lock_guard lock(running_mutex_);
    running.emplace(whose_, core_.files.draining());
    running_.insert(&*running);
  }
  // Once the client has gone, none of its requests begins; ending its transactions is not affected.
  if (gone_) running->cancel();
  const Running::Here here(*running);
  auto done = job.run();
  const std::lock_guard lock(running_mutex_);
  running_.erase(&*running);
  return done;
}

void WebSocket::closed(std::uint16_t) {
  gone_ = true;
  {
    const std::lock_guard lock(running_mutex_);
    for (Running* running : running_) running->cancel();
  }
  // Runs on a worker, because a `hello` may hold the mutex.
  (void)core_.workers.run(Lane::transactions, [self = shared_from_this()] {
    hrana::Socket::Output output;
    {
      const std::lock_guard lock(self->mutex_);
      output = self->session_.close();
    }
    for (auto& job : output.jobs) self->run(job);
  });
}

void WebSocket::close(std::uint16_t code, std::string_view reason) {
  if (socket_) socket_->close(code, reason);
}

void WebSocket::tick() {
  if (gone_ || !socket_) return;
  hrana::Socket::Output output;
  {
    // A `hello` that waits for a lease holds the mutex; the next tick tries again.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    output = session_.tick();
    const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    if (expires_ && now > *expires_ + claim::jwt_grace_seconds) {
      expires_.reset();
      close(policy, "the token has expired");
    }
  }
  send(std::move(output));
}

void WebSocket::lose(const hrana::Lost& why) {
  if (gone_ || !socket_) return;
  (void)core_.workers.run(Lane::transactions, [self = shared_from_this(), why] {
    hrana::Socket::Output output;
    {
      const std::lock_guard lock(self->mutex_);
      output = self->session_.lose(why);
    }
    self->send(std::move(output));
  });
}

}  // namespace termgate::sqlite_front
