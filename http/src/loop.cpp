#include "loop.hpp"

#include <unistd.h>

#include <utility>

#include <boost/asio/post.hpp>

#include "connection.hpp"

namespace termgate::http {

TlsContext Shared::tls() const {
  const std::lock_guard lock(mutex_);
  return tls_;
}

void Shared::set_tls(TlsContext context) {
  const std::lock_guard lock(mutex_);
  tls_ = std::move(context);
}

void Shared::failed(const Endpoint& peer, std::string_view why) {
  {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < std::chrono::seconds(1)) return;
    told_ = now;
  }
  handler.failed(peer, why);
}

Loop::Loop(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

void Loop::start() {
  sweep();
  thread_ = std::thread([this] {
    thread_id_ = std::this_thread::get_id();
    context_.run();
    thread_id_ = std::thread::id();
  });
}

void Loop::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
  }
  boost::asio::post(context_, [this] {
    for (const auto& connection : std::vector(connections_.begin(), connections_.end()))
      connection->close();
    context_.stop();
  });
  if (thread_.joinable()) thread_.join();
}

void Loop::post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (!ended_) boost::asio::post(context_, std::move(task));
}

void Loop::take(int descriptor, const Endpoint& peer, const ListenerOptions& listener) {
  ++load_;
  ++shared_->connections;
  const std::lock_guard lock(mutex_);
  if (!ended_)
    return boost::asio::post(
        context_, [this, descriptor, peer, &listener] { begin(descriptor, peer, listener); });
  --load_;
  --shared_->connections;
  ::close(descriptor);
}

void Loop::begin(int descriptor, const Endpoint& peer, const ListenerOptions& listener) {
  const auto refused = [&] {
    --load_;
    --shared_->connections;
    ++shared_->refused;
    ::close(descriptor);
  };
  if (shared_->connections > shared_->options.limits.connections) {
    if (silent_.empty()) return refused();
    silent_.front()->close();
  }
  std::shared_ptr<Connection> connection;
  try {
    connection = std::make_shared<Connection>(*this, descriptor, peer, listener);
  } catch (const std::exception&) { return refused(); }
  tune(descriptor, peer.family(), std::chrono::seconds(15));
  connections_.insert(connection);
  connection->start();
}

void Loop::drain() {
  post([this] {
    for (const auto& connection : std::vector(connections_.begin(), connections_.end()))
      connection->drain();
  });
}

Loop::Place Loop::silent(Connection& connection) {
  ++silent_count_;
  return silent_.insert(silent_.end(), &connection);
}

void Loop::heard(Place place) {
  --silent_count_;
  silent_.erase(place);
}

void Loop::forget(Connection& connection) {
  const auto found = connections_.find(connection.weak_from_this().lock());
  if (found == connections_.end()) return;
  connections_.erase(found);
  --load_;
  --shared_->connections;
}

void Loop::sweep() {
  const auto now = Clock::now();
  for (const auto& connection : std::vector(connections_.begin(), connections_.end()))
    connection->sweep(now);
  timer_.expires_after(sweep_every);
  timer_.async_wait([this](boost::system::error_code error) {
    const auto self = shared_from_this();
    if (!error) sweep();
  });
}

}  // namespace termgate::http
