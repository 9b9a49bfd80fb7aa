// Stages: proxy_header -> first_byte -> (direct_tls) -> session -> farewell -> over.
#include "connection.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <termgate/http/proxy_protocol.hpp>
#include <termgate/pgwire/encode.hpp>

namespace termgate::net {
namespace {

// How many buffers are read in a farewell before other connections get their turn.
constexpr int drained_at_once = 4;
constexpr std::chrono::seconds farewell_takes{1};  // until a client has closed its side
constexpr std::chrono::seconds greeting_in_drain{
    1};  // for clients that are still in their greeting when the proxy drains
constexpr std::string_view shutting_down = "the proxy is shutting down";
constexpr char tls_handshake = 0x16;

}  // namespace

Connection::Connection(Worker& worker, std::uint64_t id, int descriptor, const Endpoint& peer,
                       const http::OpenListener& listener, std::shared_ptr<const Settings> settings)
    : worker_(worker),
      id_(id),
      listener_(listener),
      settings_(std::move(settings)),
      peer_(peer),
      began_(std::chrono::steady_clock::now()),
      deadline_(began_ + settings_->options.greeting_timeout),
      client_(*this, true),
      relay_(*this, worker, client_) {
  client_.open(descriptor);
  client_.set_connected();
}

Connection::~Connection() {
  if (stage_ != Stage::over) end("the proxy ends");
}

void Connection::begin() {
  http::tune(client_.stream().descriptor(), peer_.family(), settings_->options.keepalive);
  // A peer that is not trusted to send headers is handled as an ordinary client.
  if (listener_.options.proxy_protocol &&
      any_contains(settings_->options.proxy_protocol_from, peer_))
    stage_ = Stage::proxy_header;
  client_.watch(worker_, EPOLLIN);
}

bool Connection::silent() const noexcept {
  if (stage_ != Stage::proxy_header && stage_ != Stage::first_byte) return false;
  // Bytes that have arrived but are not read yet count too.
  char first = 0;
  return recv(client_.stream().descriptor(), &first, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

void Connection::ready(End& end, std::uint32_t events) {
  if (!end.stream().is_open()) return;
  switch (stage_) {
    case Stage::proxy_header: return read_proxy_header();
    case Stage::first_byte: return read_first_byte();
    case Stage::direct_tls: return step_direct_tls();
    case Stage::session: return relay_.ready(end, events);
    case Stage::farewell: return drain_farewell();
    case Stage::over: return;
  }
}

// --- the greeting

void Connection::read_proxy_header() {
  for (;;) {
    const http::ProxyHeader header = http::parse_proxy_header(header_);
    if (header.kind == http::ProxyHeader::Kind::malformed) {
      conversation::Incident incident;
      incident.kind = conversation::Incident::Kind::malformed;
      incident.message = header.problem;
      worker_.happened(*this, incident);
      return end("malformed PROXY header");
    }
    if (header.kind != http::ProxyHeader::Kind::need_more) {
      if (header.kind == http::ProxyHeader::Kind::proxied) peer_ = header.client;
      header_.clear();
      stage_ = Stage::first_byte;
      return client_.watch(worker_, EPOLLIN);
    }
    // Reads exactly the header, because what follows belongs to TLS or to the session.
    const std::size_t had = header_.size();
    header_.resize(header.needed);
    std::size_t bytes = 0;
    const auto outcome = client_.read(header_.data() + had, header.needed - had, bytes);
    header_.resize(had + (outcome == Stream::Io::done ? bytes : 0));
    if (outcome == Stream::Io::wait_read) return;
    if (outcome != Stream::Io::done) return end("hung up before its greeting");
  }
}

void Connection::read_first_byte() {
  // Direct TLS begins at once, without SSLRequest. Anything else is for the session.
  char first = 0;
  // The byte is left in the socket, for OpenSSL or the session to read.
  const ssize_t got = recv(client_.stream().descriptor(), &first, 1, MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return end("hung up before its greeting");
  if (first != tls_handshake) return begin_session(false);
  if (!settings_->client_tls) {
    if (worker_.shared().speaks_tds())
      return end("TDS 8.0 (Encrypt=strict) needs --client-tls-cert");
    return begin_session(false);
  }
  SSL* ssl = tls_to_client(settings_->client_tls, client_.stream().descriptor());
  if (ssl == nullptr) return end("TLS: no memory");
  client_.start_tls(ssl, false);
  stage_ = Stage::direct_tls;
  step_direct_tls();
}

void Connection::step_direct_tls() {
  const bool tds = worker_.shared().speaks_tds();
  switch (client_.handshake()) {
    case Stream::Io::wait_read:
    case Stream::Io::wait_write: return client_.watch(worker_, client_.interest(false));
    case Stream::Io::done:
      if (tds && !alpn_is_tds(client_.stream().ssl()))
        return end("direct TLS without ALPN tds/8.0");
      if (!tds && !alpn_is_postgresql(client_.stream().ssl()))
        return end("direct TLS without ALPN postgresql");
      return begin_session(true);
    case Stream::Io::end:
    case Stream::Io::failed: tls_failed(client_); return end("TLS handshake failed");
  }
}

std::string Connection::tls_failed(const End& end) {
  worker_.counters().tls_failures.add();
  std::string why = end.stream().why().empty() ? "the peer hung up" : end.stream().why();
  worker_.shared().log.say_seldom(end.client ? "tls/" + peer_.host() : "tls", LogLevel::warning,
                                  "tls_failed",
                                  {{"connection", id_},
                                   {"with", end.client ? "client" : "server"},
                                   {"client", peer_.text()},
                                   {"reason", why}});
  return why;
}

void Connection::begin_session(bool encrypted) {
  stage_ = Stage::session;
  relay_.begin(encrypted);
}

// --- the clock, other threads

void Connection::look_at_clock(conversation::Instant now) {
  if (stage_ == Stage::session) return relay_.look_at_clock(now);
  if (stage_ == Stage::over || now < deadline_) return;
  if (stage_ == Stage::farewell) return end(why_);
  if (worker_.draining()) return give_up("57P03", shutting_down, "the proxy drains");
  worker_.counters().greeting_timeouts.add();
  end("sent nothing within the greeting timeout (--greeting-timeout)");
}

void Connection::drain() {
  if (stage_ == Stage::session) relay_.tell(conversation::Drain{});
  if (greets())
    deadline_ = std::min(deadline_, std::chrono::steady_clock::now() + greeting_in_drain);
}

bool Connection::hung_up() const {
  pollfd one{client_.stream().descriptor(), POLLRDHUP, 0};
  return stage_ == Stage::session && poll(&one, 1, 0) == 1;
}

void Connection::cut(std::string_view sqlstate, std::string_view message) {
  if (stage_ == Stage::session) relay_.cut(sqlstate, message);
  else end("cut");
}

void Connection::give_up(std::string_view sqlstate, std::string_view message,
                         std::string_view why) {
  if (stage_ == Stage::session) return relay_.cut(sqlstate, message);
  if (!client_.stream().is_tls() && !worker_.shared().speaks_tds() && silent()) {
    std::string report;
    pgwire::append_error_response(report, pgwire::report("FATAL", sqlstate, message));
    std::size_t bytes = 0;
    (void)client_.write(report, bytes);
  }
  end(why);
}

// --- the end

// Shuts our side down, then gives the client a moment to close. Closing with unread bytes would
// send a reset, which can overtake the last message.
void Connection::farewell(std::string_view why) {
  why_ = why;
  stage_ = Stage::farewell;
  relay_.finish();
  client_.finish();
  deadline_ = std::chrono::steady_clock::now() + farewell_takes;
  client_.watch(worker_, EPOLLIN);
  drain_farewell();
}

void Connection::drain_farewell() {
  for (int i = 0; i < drained_at_once; ++i) {
    // Reads below TLS, because the content no longer matters.
    const ssize_t got =
        recv(client_.stream().descriptor(), worker_.buffer(), Worker::buffer_bytes, MSG_DONTWAIT);
    if (got > 0) continue;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    return end(why_);
  }
}

void Connection::end(std::string_view why) {
  if (stage_ == Stage::over) return;
  const bool was_silent = silent();
  stage_ = Stage::over;
  relay_.close();
  worker_.counters().closed.add();
  worker_.shared().log.say(relay_.opened() ? LogLevel::info : LogLevel::debug, "connection_closed",
                           {{"connection", id_},
                            {"client", peer_.text()},
                            {"reason", why.empty() ? std::string_view("closed") : why},
                            {"silent", was_silent},
                            {"ms", std::chrono::duration_cast<std::chrono::milliseconds>(
                                       std::chrono::steady_clock::now() - began_)
                                       .count()}});
  client_.close();
  // Last: the worker takes the object out of its lists, and destroys it after the current events.
  worker_.bury(*this);
}

}  // namespace termgate::net
