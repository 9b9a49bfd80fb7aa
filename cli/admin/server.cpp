#include "server.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <fmt/format.h>

#include "output.hpp"

namespace termgate::cli::admin {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using namespace std::chrono_literals;

constexpr std::uint32_t header_bytes_max = 8u << 10;
constexpr std::uint64_t body_bytes_max = 16u << 10;
constexpr auto request_takes = 10s;
constexpr auto answer_takes = 30s;
constexpr auto event_takes = 30s;  // to be read by its reader; else the reader goes
constexpr auto alive_every = 15s;
constexpr int waiting_max = 1024;  // requests that the database has not answered
constexpr int readers_max = 256;   // connections that have not sent a whole request; past it the one that has been silent for longest goes

// At most so many lines a second, for anybody can make us write one.
class Log {
 public:
  explicit Log(std::function<void(const std::string&)> write) : write_(std::move(write)) {
    if (!write_) write_ = [](const std::string& text) { fmt::print(stderr, "termgate admin: {}\n", text); };
  }
  void line(const std::string& text) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now - since_ > 1s) {
      if (left_out_ > 0) write_(fmt::format("{} more lines in that second", left_out_));
      since_ = now;
      written_ = left_out_ = 0;
    }
    if (++written_ > 50) {
      ++left_out_;
      return;
    }
    write_(text);
  }

 private:
  std::function<void(const std::string&)> write_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point since_{};
  int written_ = 0, left_out_ = 0;
};

class EventReader {
 public:
  virtual ~EventReader() = default;
  virtual void offer(const std::shared_ptr<const std::string>& text) = 0;
};

}  // namespace

// The loop's thread runs everything but the calls of Api, which the pool's threads run, and the look at the database, which is a thread's
// own.
class Server::Inside {
 public:
  Inside(const ServerOptions& the_options, Api& the_api)
      : options(the_options), api(the_api), log(the_options.log), acceptor(loop), pause(loop) {}
  void listen();
  void accept();
  void watch();
  void stop();

  const ServerOptions options;
  Api& api;
  Log log;
  // Before the loop, and so gone after it: the connections that it still owns when it ends take their leave of these.
  std::list<std::function<void()>*> silent;  // those that have not sent a whole request
  std::list<EventReader*> readers;
  std::shared_ptr<const std::string> latest;  // the last event; the loop's
  std::atomic<int> waiting{0};

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool over = false;
  int watched = 0;  // readers of events

  asio::io_context loop{1};
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  asio::thread_pool pool{2};
  std::thread thread, watcher;
};

namespace {

template <typename Owner>
class Connection : public EventReader, public std::enable_shared_from_this<Connection<Owner>> {
 public:
  Connection(tcp::socket socket, Owner& owner) : stream_(std::move(socket)), owner_(owner) {
    beast::error_code ignored;
    const auto peer = stream_.socket().remote_endpoint(ignored);
    if (!ignored) from_ = peer.address().to_string();
  }
  ~Connection() override {
    heard();
    if (reader_) leave();
  }

  void read() {
    parser_.emplace();
    parser_->header_limit(header_bytes_max);
    parser_->body_limit(body_bytes_max);
    stream_.expires_after(request_takes);
    place_ = owner_.silent.insert(owner_.silent.end(), &give_up_);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = this->shared_from_this()](beast::error_code error, std::size_t) { self->got_header(error); });
  }

  void offer(const std::shared_ptr<const std::string>& text) override {
    // The tokens may have been read again since.
    if (!owner_.api.may_read(authorization_)) return stream_.close();
    next_ = text;
    if (!writing_) write_event();
  }

 private:
  void heard() {
    if (!place_) return;
    owner_.silent.erase(*place_);
    place_.reset();
  }

  void leave() {
    owner_.readers.remove(this);
    const std::lock_guard lock(owner_.mutex);
    --owner_.watched;
    reader_ = false;
  }

  static Reply plain(unsigned status, const char* text) {
    Reply reply;
    reply.status = status;
    reply.body = fmt::format("{{\"error\":{{\"code\":\"\",\"message\":\"{}\"}}}}", text);
    reply.note = fmt::format("{} before any path was looked at", status);
    return reply;
  }

  // A client with a body may wait to hear that it is wanted (RFC 9110, section 10.1.1).
  void got_header(beast::error_code error) {
    if (error || parser_->get()[http::field::expect].empty()) return read_body(error);
    if (!beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
      heard();
      return answer(plain(417, "Expect is 100-continue or absent"), false);
    }
    static constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(stream_, asio::buffer(go_on),
                      [self = this->shared_from_this()](beast::error_code failed, std::size_t) { self->read_body(failed); });
  }
  void read_body(beast::error_code error) {
    if (error || parser_->is_done()) return got(error);
    http::async_read(stream_, buffer_, *parser_,
                     [self = this->shared_from_this()](beast::error_code failed, std::size_t) { self->got(failed); });
  }

  void got(beast::error_code error) {
    heard();
    if (error == http::error::end_of_stream || error == beast::error::timeout) return;
    if (error == http::error::body_limit) return answer(plain(413, "a body has 16 KiB at most"), false);
    if (error == http::error::header_limit) return answer(plain(431, "headers have 8 KiB at most"), false);
    if (error && error.category() == http::make_error_code(http::error::bad_method).category())
      return answer(plain(400, "a malformed request"), false);
    if (error) return;
    const auto& message = parser_->get();
    // Of two, a reader in front of us may have believed the other one.
    for (const auto field : {http::field::host, http::field::authorization, http::field::origin, http::field::content_type}) {
      if (message.count(field) > 1) return answer(plain(400, "a header is there twice"), false);
    }
    if (message.count(http::field::host) == 0) return answer(plain(400, "one Host header is wanted"), false);
    if (owner_.waiting >= waiting_max) return answer(plain(503, "too many requests wait for the database"), false);
    Request request{std::string(message.method_string()),
                    std::string(message.target()),
                    std::string(message[http::field::host]),
                    std::string(message[http::field::authorization]),
                    std::string(message[http::field::origin]),
                    std::string(message["Sec-Fetch-Site"]),
                    std::string(message[http::field::content_type]),
                    message.body()};
    const bool keep = message.keep_alive();
    authorization_ = request.authorization;
    ++owner_.waiting;
    stream_.expires_never();
    asio::post(owner_.pool, [self = this->shared_from_this(), request = std::move(request), keep] {
      Reply reply = self->owner_.api.answer(request);
      asio::post(self->owner_.loop, [self, reply = std::move(reply), keep]() mutable {
        --self->owner_.waiting;
        self->answer(std::move(reply), keep);
      });
    });
  }

  void answer(Reply reply, bool keep) {
    if (!reply.note.empty()) owner_.log.line(fmt::format("{} from {}", reply.note, from_));
    if (reply.events) return begin_events();
    response_ = {};
    response_.version(11);
    response_.result(reply.status);
    response_.set(http::field::content_type, reply.type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    response_.set("Referrer-Policy", "no-referrer");
    response_.set("Cross-Origin-Resource-Policy", "same-origin");
    for (const auto& [name, value] : reply.headers) response_.set(name, value);
    response_.keep_alive(keep);
    response_.body() = std::move(reply.body);
    response_.prepare_payload();
    stream_.expires_after(answer_takes);
    http::async_write(stream_, response_, [self = this->shared_from_this(), keep](beast::error_code error, std::size_t) {
      if (error) return;
      if (keep) return self->read();
      beast::error_code ignored;
      self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    });
  }

  // No length and no chunks: it ends with the connection.
  void begin_events() {
    if (static_cast<int>(owner_.readers.size()) >= owner_.options.streams_max)
      return answer(plain(503, "too many readers of events"), false);
    // A thousand of these stay open: of the request only the token is kept.
    parser_.reset();
    response_ = {};
    buffer_ = beast::flat_buffer();
    reader_ = true;
    owner_.readers.push_back(this);
    {
      const std::lock_guard lock(owner_.mutex);
      ++owner_.watched;
      owner_.changed.notify_all();
    }
    static const auto head = std::make_shared<const std::string>(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: "
        "close\r\n\r\n");
    next_ = head;
    after_head_ = true;
    write_event();
    // Whatever it still sends is no request: then it goes, as it does when it closes.
    stream_.socket().async_wait(tcp::socket::wait_read, [self = this->shared_from_this()](beast::error_code) { self->stream_.close(); });
  }

  void write_event() {
    writing_ = std::exchange(next_, nullptr);
    stream_.expires_after(event_takes);
    asio::async_write(stream_, asio::buffer(*writing_), [self = this->shared_from_this()](beast::error_code error, std::size_t) {
      self->writing_ = nullptr;
      if (error) return self->stream_.close();
      if (std::exchange(self->after_head_, false) && self->owner_.latest && !self->next_) self->next_ = self->owner_.latest;
      if (self->next_) return self->write_event();
      self->stream_.expires_never();
    });
  }

  beast::tcp_stream stream_;
  Owner& owner_;
  std::string from_, authorization_;
  std::function<void()> give_up_ = [this] {
    heard();
    stream_.close();
  };
  std::optional<std::list<std::function<void()>*>::iterator> place_;
  beast::flat_buffer buffer_{header_bytes_max + body_bytes_max};
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  bool reader_ = false, after_head_ = false;
  std::shared_ptr<const std::string> writing_, next_;  // of events: only the latest one waits
};

}  // namespace

void Server::Inside::listen() {
  beast::error_code error;
  if (options.inherited >= 0) {
    acceptor.assign(options.ipv6 ? tcp::v6() : tcp::v4(), options.inherited, error);
    if (error) throw std::runtime_error(fmt::format("cannot serve HTTP on the inherited socket: {}", error.message()));
    return;
  }
  tcp::resolver resolver(loop);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  const auto cannot = [&] {
    return std::runtime_error(fmt::format("cannot serve HTTP on {}:{}: {}", options.host, options.port, error.message()));
  };
  if (error || found.empty()) throw cannot();
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(1024, error);
  if (error) throw cannot();
}

void Server::Inside::accept() {
  acceptor.async_accept([this](beast::error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {
      // No descriptor left, most likely: a moment later there may be one.
      pause.expires_after(100ms);
      pause.async_wait([this](beast::error_code stopped) {
        if (!stopped) accept();
      });
      return;
    }
    if (silent.size() >= readers_max) (*silent.front())();
    std::make_shared<Connection<Inside>>(std::move(socket), *this)->read();
    accept();
  });
}

// Looks at the database while somebody reads events; all readers get the same bytes.
void Server::Inside::watch() {
  std::string last;
  auto sent = std::chrono::steady_clock::now();
  for (;;) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return over || watched > 0; });
      if (over) return;
    }
    std::string kind = "state", clock, now;
    try {
      std::tie(clock, now) = api.overview_and_clock();
    } catch (const std::exception& error) {
      kind = "failed";
      now = api.failure(error).body;
    }
    const auto at = std::chrono::steady_clock::now();
    std::shared_ptr<const std::string> text;
    if (now != last) {
      text = std::make_shared<const std::string>(fmt::format("event: {}\ndata: {}{}\n\n", kind, clock, now));
      last = std::move(now);
    } else if (at - sent >= alive_every) {
      text = std::make_shared<const std::string>(": alive\n\n");
    }
    if (text) {
      sent = at;
      asio::post(loop, [this, text] {
        if (!text->starts_with(':')) latest = text;
        for (EventReader* reader : std::vector<EventReader*>(readers.begin(), readers.end())) reader->offer(text);
      });
    }
    std::unique_lock lock(mutex);
    changed.wait_for(lock, options.poll, [&] { return over; });
    if (over) return;
    // Nobody there any more: whoever comes next begins with a look of its own.
    if (watched == 0) {
      last.clear();
      asio::post(loop, [this] { latest = nullptr; });
    }
  }
}

void Server::Inside::stop() {
  {
    const std::lock_guard lock(mutex);
    over = true;
    changed.notify_all();
  }
  if (watcher.joinable()) watcher.join();
  pool.join();
  loop.stop();
  if (thread.joinable()) thread.join();
}

Server::Server(const ServerOptions& options, Api& api) : inside_(std::make_unique<Inside>(options, api)) {
  inside_->listen();
  inside_->accept();
  inside_->thread = std::thread([this] { inside_->loop.run(); });
  inside_->watcher = std::thread([this] { inside_->watch(); });
}

Server::~Server() { inside_->stop(); }

std::string Server::address() const {
  boost::system::error_code error;
  const auto endpoint = inside_->acceptor.local_endpoint(error);
  const std::string host = endpoint.address().to_string();
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, endpoint.port()) : fmt::format("[{}]:{}", host, endpoint.port());
}

}  // namespace termgate::cli::admin
