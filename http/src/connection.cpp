#include "connection.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/beast/http/status.hpp>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <termgate/http/proxy_protocol.hpp>
#include <termgate/http/tls.hpp>

#include "owed.hpp"

namespace termgate::http {
namespace {

using namespace std::chrono_literals;
using boost::asio::posix::stream_descriptor;

constexpr int reads_at_once = 16;  // then other connections of the loop get their turn
constexpr std::size_t joined_bytes_max = 32u << 10;
constexpr std::size_t thrown_away_max = 1u << 20;
constexpr std::chrono::milliseconds leaving_takes = 2s, goodbye_takes = 5s;

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return (c >= 0x20 && c != 0x7f) || c == '\t'; });
}

// The common name of the client's certificate, which OpenSSL has verified.
std::string certificate_name(const SSL* ssl) {
  X509* certificate = SSL_get1_peer_certificate(ssl);
  if (certificate == nullptr) return {};
  std::string name;
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  unsigned char* text = nullptr;
  const int size = at < 0 ? -1
                          : ASN1_STRING_to_UTF8(
                                &text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size > 0) name.assign(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  OPENSSL_free(text);
  X509_free(certificate);
  return is_plain(name) ? name : std::string();
}

// The value of Sec-WebSocket-Accept (RFC 6455, section 4.2.2): it proves that the key was read as a
// WebSocket's.
std::string accept_value(std::string_view key) {
  const std::string text = std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  EVP_Digest(text.data(), text.size(), digest, &bytes, EVP_sha1(), nullptr);
  unsigned char base64[32];
  const int size = EVP_EncodeBlock(base64, digest, static_cast<int>(bytes));
  return {reinterpret_cast<const char*>(base64), static_cast<std::size_t>(size)};
}

struct Form {
  bool keep, streamed, version_1_1;
  std::chrono::seconds keeps_for;
};

std::string head_of(const Reply& reply, const Form& form) {
  const auto status = static_cast<boost::beast::http::status>(reply.status);
  const auto reason = boost::beast::http::obsolete_reason(status);
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", reply.status,
                                 std::string_view(reason.data(), reason.size()));
  bool caches = false;
  for (const auto& [name, value] : reply.headers) {
    if (!is_plain(name) || !is_plain(value)) continue;
    caches = caches || name == "Cache-Control";
    head += fmt::format("{}: {}\r\n", name, value);
  }
  const bool no_body = reply.status == 204 || reply.status == 304;
  if (!no_body && is_plain(reply.type)) head += fmt::format("Content-Type: {}\r\n", reply.type);
  if (form.streamed && form.version_1_1) head += "Transfer-Encoding: chunked\r\n";
  if (!form.streamed && !no_body) head += fmt::format("Content-Length: {}\r\n", reply.body.size());
  if (!caches) head += "Cache-Control: no-store\r\n";
  head += "X-Content-Type-Options: nosniff\r\n";
  // The client should drop an idle connection before we do; otherwise its next request may reach a
  // connection that is being closed.
  if (form.keep && form.keeps_for > 10s)
    head += fmt::format("Keep-Alive: timeout={}\r\n", (form.keeps_for - 5s).count());
  if (!form.keep) head += "Connection: close\r\n";
  if (form.keep && !form.version_1_1) head += "Connection: keep-alive\r\n";
  return head += "\r\n";
}

}  // namespace

Connection::Connection(Loop& loop, int descriptor, const Endpoint& peer,
                       const ListenerOptions& listener)
    : loop_(loop),
      waiter_(loop.context(), descriptor),
      peer_{peer, listener.name, false, {}},
      tls_(loop.shared().tls()),
      proxied_(listener.proxy_protocol &&
               any_contains(loop.shared().options.proxy_protocol_from, peer)),
      reader_(loop.shared().options.limits.head_bytes) {
  stream_.open(descriptor);
  place_ = loop_.silent(*this);
}

Connection::~Connection() { close(); }

void Connection::start() {
  if (!proxied_) return greet();
  enter(Stage::proxy_header, loop_.shared().options.limits.head_takes);
  wait_readable();
}

// --- waiting and reading ---

void Connection::wait_readable() {
  if (reading_waits_ || stage_ == Stage::closed || !may_read()) return;
  reading_waits_ = true;
  waiter_.async_wait(stream_descriptor::wait_read,
                     [self = shared_from_this()](boost::system::error_code error) {
                       self->reading_waits_ = false;
                       if (!error && self->stage_ != Stage::closed) self->readable();
                     });
}

void Connection::wait_writable() {
  if (writing_waits_ || stage_ == Stage::closed) return;
  writing_waits_ = true;
  waiter_.async_wait(stream_descriptor::wait_write,
                     [self = shared_from_this()](boost::system::error_code error) {
                       self->writing_waits_ = false;
                       if (error || self->stage_ == Stage::closed) return;
                       if (self->stage_ == Stage::handshake) return self->shake_hands();
                       self->flush();
                       self->wait_readable();
                     });
}

bool Connection::may_read() const {
  if (peer_has_ended_) return false;
  if (stage_ == Stage::working || stage_ == Stage::answering) return in_.size() < ahead_bytes_max;
  if (stage_ != Stage::socket) return true;
  return socket_->state != OpenSocket::State::paused &&
         outlet_->waiting_bytes() <= Socket::waiting_bytes_max;
}

void Connection::readable() {
  if (stage_ == Stage::proxy_header) return read_proxy_header();
  if (stage_ == Stage::handshake) return shake_hands();
  // TLS may have had to read before it could write.
  if (!out_.empty() && !writing_waits_) flush();
  for (int i = 0; i < reads_at_once; ++i) {
    if (stage_ == Stage::closed || !may_read()) return;
    if (!read_once()) return wait_readable();
  }
  // OpenSSL may hold decrypted bytes, for which the socket will not become readable again.
  reading_waits_ = true;
  boost::asio::post(loop_.context(), [self = shared_from_this()] {
    self->reading_waits_ = false;
    if (self->stage_ != Stage::closed) self->readable();
  });
}

bool Connection::read_once() {
  std::size_t bytes = 0;
  switch (stream_.read(loop_.buffer(), Loop::buffer_bytes, bytes)) {
    case Io::done:
      got({loop_.buffer(), bytes});
      return stage_ != Stage::closed && (stream_.is_tls() || bytes == Loop::buffer_bytes);
    case Io::wait_read: return false;
    case Io::wait_write: wait_writable(); return false;
    case Io::end: peer_ended(); return false;
    case Io::failed: close(); return false;
  }
  return false;
}

void Connection::got(std::string_view bytes) {
  if (stage_ == Stage::leaving) {
    thrown_away_ += bytes.size();
    if (thrown_away_ > thrown_away_max) close();
    return;
  }
  if (stage_ == Stage::socket) {
    heard_at_ = Loop::Clock::now();
    socket_->pinged = false;
    socket_->frames.put(bytes);
    return process_frames();
  }
  in_ += bytes;
  process();
}

// The peer has stopped sending. An answer in progress is still sent; a stream and a WebSocket end.
void Connection::peer_ended() {
  peer_has_ended_ = true;
  if (owed_) owed_->client_gone();
  const bool answers = (stage_ == Stage::working || stage_ == Stage::answering) && !outlet_;
  if (!answers) close();
}

// --- the start of a connection ---

void Connection::read_proxy_header() {
  for (;;) {
    const ProxyHeader header = parse_proxy_header(in_);
    if (header.kind == ProxyHeader::Kind::malformed) {
      loop_.shared().failed(peer_.address, fmt::format("PROXY header: {}", header.problem));
      return close();
    }
    if (header.kind != ProxyHeader::Kind::need_more) {
      if (header.kind == ProxyHeader::Kind::proxied) peer_.address = header.client;
      in_.clear();
      return greet();
    }
    // Reads no byte beyond the header: what follows belongs to TLS.
    std::size_t bytes = 0;
    const Io outcome = stream_.read(loop_.buffer(), header.needed - in_.size(), bytes);
    if (outcome == Io::wait_read) return wait_readable();
    if (outcome != Io::done) return close();
    in_.append(loop_.buffer(), bytes);
  }
}

void Connection::greet() {
  if (!tls_) {
    expect_request();
    return readable();
  }
  SSL* ssl = tls_to_client(tls_, stream_.descriptor());
  if (ssl == nullptr) return close();
  stream_.start_tls(ssl);
  enter(Stage::handshake, loop_.shared().options.limits.head_takes);
  shake_hands();
}

void Connection::shake_hands() {
  switch (stream_.handshake()) {
    case Io::done:
      peer_.tls = true;
      peer_.certificate = certificate_name(stream_.ssl());
      expect_request();
      return readable();
    case Io::wait_read: return wait_readable();
    case Io::wait_write: return wait_writable();
    case Io::failed:
      loop_.shared().failed(peer_.address, fmt::format("TLS: {}", stream_.why()));
      return close();
    case Io::end: return close();
  }
}

// --- requests ---

void Connection::expect_request() {
  enter(Stage::reading, loop_.shared().options.limits.keep_alive);
  if (!place_) place_ = loop_.silent(*this);
}

void Connection::process() {
  if (std::exchange(processing_, true)) return;
  bool first = !reader_.begun();
  while ((stage_ == Stage::reading || stage_ == Stage::body) && !in_.empty()) {
    std::size_t used = 0;
    const auto step = reader_.put(in_, used);
    in_.erase(0, used);
    if (room_ && step != RequestReader::Step::refused && !room_->hold(reader_.body_bytes())) {
      refuse({503, "the server's memory for requests and answers is used up: send it again later"});
      break;
    }
    if (step == RequestReader::Step::need_more) {
      if (first && reader_.begun()) enter(Stage::reading, loop_.shared().options.limits.head_takes);
      break;
    }
    first = true;
    if (step == RequestReader::Step::head) got_head();
    if (step == RequestReader::Step::body) got_request();
    if (step == RequestReader::Step::refused) refuse(reader_.refusal());
  }
  processing_ = false;
  if (in_.empty() && in_.capacity() > 4096) in_.shrink_to_fit();
}

void Connection::got_head() {
  Shared& shared = loop_.shared();
  Head& head = reader_.head();
  head.peer = peer_;
  keep_ = reader_.keeps_alive();
  head_only_ = head.method == "HEAD";
  version_1_1_ = reader_.version_1_1();
  if (const auto refusal = refusal_of(head, shared.options.hosts)) return refuse(*refusal);
  Decision decision = Take{};
  try {
    decision = shared.handler.decide(head);
  } catch (const std::exception&) { return refuse({500, "the request could not be looked at"}); }
  if (Reply* reply = std::get_if<Reply>(&decision)) {
    heard();
    keep_ = keep_ && !reader_.has_body();
    stage_ = Stage::working;
    return send_reply(std::move(*reply), false);
  }
  if (Upgrade* upgrade = std::get_if<Upgrade>(&decision)) {
    if (!wants_socket(head) || reader_.has_body() || !version_1_1_ || !upgrade->events)
      return refuse({400, "this is for a WebSocket of version 13"});
    return open_socket(std::move(*upgrade));
  }
  take_body(std::move(std::get<Take>(decision)));
}

void Connection::take_body(Take take) {
  const auto step = reader_.go_on(take.body_bytes_max);
  room_ = std::move(take.room);
  if (step == RequestReader::Step::refused) return refuse(reader_.refusal());
  if (step == RequestReader::Step::body) return got_request();
  enter(Stage::body, loop_.shared().options.limits.body_takes);
  // A client may wait for permission to send its body (RFC 9110, section 10.1.1).
  if (reader_.wants_continue() && in_.empty() && version_1_1_)
    send("HTTP/1.1 100 Continue\r\n\r\n");
}

void Connection::got_request() {
  heard();
  ++loop_.shared().requests;
  stage_ = Stage::working;
  deadline_ = Loop::Clock::time_point::max();
  owed_ = std::make_shared<Answer::Owed>(loop_.shared_from_this(), weak_from_this(),
                                         Answer::Owed::Form{head_only_, version_1_1_});
  Request request{std::move(reader_.head()), reader_.take_body(), std::move(room_)};
  reader_.restart();
  Answer answer(owed_);
  try {
    loop_.shared().handler.request(std::move(request), std::move(answer));
  } catch (const std::exception&) {
    // An Answer that was destroyed on the way has replied 500.
  }
}

void Connection::refuse(const Refusal& refusal) {
  heard();
  ++loop_.shared().refused;
  keep_ = false;
  room_.reset();
  stage_ = Stage::working;
  Reply reply;
  try {
    reply = loop_.shared().handler.refusal(peer_, refusal.status, refusal.message);
  } catch (const std::exception&) { reply.status = refusal.status; }
  send_reply(std::move(reply), false);
}

// --- answers ---

void Connection::reply(const Answer::Owed& owed, Reply reply) {
  if (stage_ != Stage::working || owed_.get() != &owed) return;
  send_reply(std::move(reply), false);
}

void Connection::stream(const Answer::Owed& owed, Reply head, std::shared_ptr<Outlet> outlet) {
  if (stage_ != Stage::working || owed_.get() != &owed) return outlet->end();
  if (peer_has_ended_) {
    outlet->end();
    return close();
  }
  outlet_ = std::move(outlet);
  keep_ = keep_ && version_1_1_;
  head.body.clear();
  send_reply(std::move(head), true);
}

void Connection::send_reply(Reply reply, bool streamed) {
  if (reply.status < 200 || reply.status > 599) reply.status = 500;
  keep_ = keep_ && !reply.close && !peer_has_ended_ && !loop_.shared().draining;
  const auto keeps_for =
      std::chrono::duration_cast<std::chrono::seconds>(loop_.shared().options.limits.keep_alive);
  std::string head = head_of(reply, {keep_, streamed, version_1_1_, keeps_for});
  stage_ = Stage::answering;
  deadline_ = Loop::Clock::time_point::max();
  const bool with_body =
      !head_only_ && reply.status != 204 && reply.status != 304 && !reply.body.empty();
  if (with_body && reply.body.size() <= joined_bytes_max) {
    head += reply.body;
  } else if (with_body) {
    own_bytes_ += head.size() + reply.body.size();
    out_.push_back(std::make_shared<const std::string>(std::move(head)));
    const auto kept = std::make_shared<const Reply>(std::move(reply));
    out_.emplace_back(kept, &kept->body);
    return flush();
  }
  send(std::move(head));
}

void Connection::send(std::string bytes) {
  own_bytes_ += bytes.size();
  out_.push_back(std::make_shared<const std::string>(std::move(bytes)));
  flush();
}

void Connection::pump(const Outlet& outlet) {
  if (outlet_.get() == &outlet && out_.empty()) flush();
}

void Connection::flush() {
  for (;;) {
    while (!out_.empty()) {
      std::size_t bytes = 0;
      const Io outcome = stream_.write(std::string_view(*out_.front()).substr(out_at_), bytes);
      if (outcome == Io::wait_write || outcome == Io::wait_read) {
        if (write_deadline_ == Loop::Clock::time_point::max())
          write_deadline_ = Loop::Clock::now() + loop_.shared().options.limits.write_stalls;
        return outcome == Io::wait_write ? wait_writable() : wait_readable();
      }
      if (outcome != Io::done) return close();
      write_deadline_ = Loop::Clock::time_point::max();
      const std::size_t own = std::min(own_bytes_, bytes);
      own_bytes_ -= own;
      if (outlet_ && bytes > own) outlet_->sent(bytes - own);
      out_at_ += bytes;
      if (out_at_ < out_.front()->size()) continue;
      out_.pop_front();
      out_at_ = 0;
    }
    if (!outlet_) return flushed();
    Outlet::Taken taken = outlet_->take();
    out_ = std::move(taken.pieces);
    if (!out_.empty()) continue;
    if (!taken.finished) return wait_readable();
    if (stage_ == Stage::socket) return flushed();
    if (!taken.whole) return close();
    return flushed();
  }
}

// Everything that was to be sent is out.
void Connection::flushed() {
  if (stage_ == Stage::answering) return answered();
  if (stage_ != Stage::socket) return;
  if (socket_->peer_has_closed) return leave();
  // The peer's close frame has not arrived yet.
  deadline_ = std::min(deadline_, Loop::Clock::now() + goodbye_takes);
  wait_readable();
}

void Connection::answered() {
  if (owed_) owed_->complete();
  owed_.reset();
  outlet_.reset();
  if (!keep_) return leave();
  if (peer_has_ended_) return close();
  reader_.restart();
  expect_request();
  process();
  wait_readable();
}

void Connection::leave() {
  if (stage_ == Stage::closed) return;
  if (peer_has_ended_) return close();
  heard();
  if (socket_ && socket_->state != OpenSocket::State::closed) {
    socket_->state = OpenSocket::State::closed;
    --loop_.shared().sockets;
    if (socket_->opened) socket_->events->closed(socket_->code);
  }
  stream_.finish_writing();
  in_.clear();
  enter(Stage::leaving, leaving_takes);
  wait_readable();
}

void Connection::close() noexcept {
  if (std::exchange(stage_, Stage::closed) == Stage::closed) return;
  heard();
  if (outlet_) outlet_->end();
  if (owed_) owed_->client_gone();
  if (socket_ && socket_->state != OpenSocket::State::closed) {
    socket_->state = OpenSocket::State::closed;
    --loop_.shared().sockets;
    if (socket_->opened) socket_->events->closed(socket_->code);
  }
  outlet_.reset();
  owed_.reset();
  out_.clear();
  waiter_.release();
  stream_.close();
  loop_.forget(*this);
}

// --- a WebSocket ---

void Connection::open_socket(Upgrade upgrade) {
  heard();
  const std::string key(reader_.head().header("Sec-WebSocket-Key"));
  std::string head = fmt::format(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: "
      "Upgrade\r\nSec-WebSocket-Accept: {}\r\n",
      accept_value(key));
  if (!upgrade.subprotocol.empty() && is_plain(upgrade.subprotocol))
    head += fmt::format("Sec-WebSocket-Protocol: {}\r\n", upgrade.subprotocol);
  ++loop_.shared().requests;
  ++loop_.shared().sockets;
  stage_ = Stage::socket;
  deadline_ = Loop::Clock::time_point::max();
  heard_at_ = Loop::Clock::now();
  outlet_ = outlet_of(loop_.shared_from_this(), weak_from_this());
  socket_ = std::make_unique<OpenSocket>(std::move(upgrade));
  socket_->frames.put(std::exchange(in_, {}));
  reader_.restart();
  send(head + "\r\n");
  // The peer may have gone already.
  if (stage_ != Stage::socket) return;
  socket_->opened = true;
  socket_->events->opened(socket_of(loop_.shared_from_this(), weak_from_this(), outlet_));
  process_frames();
}

void Connection::process_frames() {
  // A message may close this connection; it must live until the loop below ends.
  const auto self = shared_from_this();
  while (stage_ == Stage::socket && !socket_->peer_has_closed &&
         socket_->state != OpenSocket::State::paused) {
    FrameReader::Event event = socket_->frames.next();
    if (event.what == FrameReader::What::need_more) break;
    got_frame(std::move(event));
  }
  if (!socket_ || !socket_->room || socket_->room->hold(socket_->frames.held_bytes())) return;
  socket_->peer_has_closed = true;
  if (socket_->state == OpenSocket::State::open)
    finish_socket(1013, "the server's memory for requests and answers is used up");
}

void Connection::got_frame(FrameReader::Event event) {
  const bool open = socket_->state == OpenSocket::State::open;
  switch (event.what) {
    case FrameReader::What::message:
      if (open && !socket_->events->message(std::move(event.bytes), event.kind) &&
          socket_->state == OpenSocket::State::open)
        socket_->state = OpenSocket::State::paused;
      return;
    case FrameReader::What::ping:
      if (open)
        outlet_->push({std::make_shared<const std::string>(
            frame_head(Opcode::pong, event.bytes.size()) + event.bytes)});
      return;
    case FrameReader::What::close:
      socket_->peer_has_closed = true;
      if (open) socket_->code = event.code;
      // Our own close frame is on its way, or has been sent.
      if (!open) return pump(*outlet_);
      return finish_socket(event.code == 1005 ? 1000 : event.code, "");
    case FrameReader::What::broken:
      socket_->peer_has_closed = true;
      if (open) finish_socket(event.code, event.problem);
      socket_->code = event.code;
      return;
    default: return;
  }
}

void Connection::finish_socket(std::uint16_t code, std::string_view reason) {
  socket_->state = OpenSocket::State::closing;
  outlet_->push({std::make_shared<const std::string>(close_frame(code, reason))});
  outlet_->finish(true);
}

void Connection::resume_socket() {
  if (stage_ != Stage::socket || socket_->state != OpenSocket::State::paused) return;
  socket_->state = OpenSocket::State::open;
  heard_at_ = Loop::Clock::now();
  process_frames();
  wait_readable();
}

void Connection::close_socket(std::uint16_t code, std::string_view reason) {
  if (stage_ != Stage::socket || socket_->state == OpenSocket::State::closing ||
      socket_->state == OpenSocket::State::closed)
    return;
  socket_->code = code;
  finish_socket(code, reason);
  // Even if the socket was paused, we wait for the peer's close frame.
  process_frames();
  wait_readable();
}

// --- time ---

void Connection::enter(Stage stage, std::chrono::milliseconds takes) {
  stage_ = stage;
  deadline_ = Loop::Clock::now() + takes;
}

void Connection::heard() {
  if (place_) loop_.heard(*place_);
  place_.reset();
}

void Connection::sweep(Loop::Clock::time_point now) {
  if (now >= write_deadline_) return close();
  if (now >= deadline_) return late();
  if (stage_ != Stage::socket || socket_->state != OpenSocket::State::open) return;
  const auto silent = now - heard_at_;
  const auto ping_after = loop_.shared().options.limits.ping_after;
  if (silent >= 2 * ping_after) return close();
  if (silent >= ping_after && !std::exchange(socket_->pinged, true))
    outlet_->push({std::make_shared<const std::string>(frame_head(Opcode::ping, 0))});
}

void Connection::late() {
  if (stage_ == Stage::body) return refuse({408, "the body has not arrived in time"});
  if (stage_ == Stage::reading && reader_.begun())
    return refuse({408, "the head has not arrived in time"});
  close();
}

void Connection::drain() {
  if (stage_ == Stage::socket) return close_socket(1001, "the server ends");
  const bool idle = stage_ == Stage::reading && !reader_.begun();
  if (idle || stage_ == Stage::proxy_header || stage_ == Stage::handshake) close();
}

}  // namespace termgate::http
