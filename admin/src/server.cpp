#include <termgate/admin/server.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <fmt/format.h>

#include <termgate/http/server.hpp>

namespace termgate::admin {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t body_bytes_max = 16u << 10;
constexpr auto alive_every = 15s;
constexpr int waiting_max = 1024;             // requests that wait for the database
constexpr std::size_t connections_max = 256;  // besides those that follow the events

// Bounds the lines per second, because anyone can cause some.
class Log {
 public:
  explicit Log(std::function<void(const std::string&)> write) : write_(std::move(write)) {
    if (!write_)
      write_ = [](const std::string& text) { fmt::print(stderr, "termgate admin: {}\n", text); };
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

Reply plain(unsigned status, std::string_view text) {
  Reply reply;
  reply.status = status;
  reply.body = fmt::format("{{\"error\":{{\"code\":\"\",\"message\":\"{}\"}}}}", text);
  reply.note = fmt::format("{} before any path was looked at", status);
  return reply;
}

http::Reply with_headers(Reply reply) {
  http::Headers headers = {{"Referrer-Policy", "no-referrer"},
                           {"Cross-Origin-Resource-Policy", "same-origin"}};
  for (auto& header : reply.headers) headers.push_back(std::move(header));
  return {reply.status, std::move(reply.body), std::move(reply.type), std::move(headers)};
}

Request request_of(http::Request request) {
  const http::Head& head = request.head;
  const auto text = [&](std::string_view name) { return std::string(head.header(name)); };
  return {head.method,          head.target,
          text("Host"),         text("Authorization"),
          text("Origin"),       text("Sec-Fetch-Site"),
          text("Content-Type"), std::move(request.body)};
}

}  // namespace

// The server's loop brings requests, the pool's threads call Api, and a thread of its own reads the
// database for the events.
class Server::Inside : public http::Handler {
 public:
  Inside(const ServerOptions& the_options, Api& the_api)
      : options_(the_options),
        api_(the_api),
        log_(the_options.log),
        server_(http_options(the_options), *this) {
    server_.start();
    watcher_ = std::thread([this] { watch(); });
  }
  ~Inside() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    watcher_.join();
    pool_.join();
  }

  http::Decision decide(const http::Head&) override { return http::Take{body_bytes_max}; }
  void request(http::Request request, http::Answer answer) override;
  http::Reply refusal(const http::Peer& peer, unsigned status, std::string_view message) override {
    Reply reply = plain(status, message);
    reply.note = fmt::format("{} {}", status, message);
    return logged(std::move(reply), peer.address.host());
  }
  std::string address() const { return server_.addresses().front(); }

 private:
  struct Reader {
    std::unique_ptr<http::BodyWriter> writer;
    std::string authorization;
  };
  using Readers = std::list<Reader>;

  static http::ServerOptions http_options(const ServerOptions& options) {
    http::ServerOptions given;
    given.listeners.push_back(options.listener);
    given.hosts = options.hosts;
    given.limits.connections = connections_max + static_cast<std::size_t>(options.streams_max);
    return given;
  }
  http::Reply logged(Reply reply, const std::string& from) {
    if (!reply.note.empty()) log_.line(fmt::format("{} from {}", reply.note, from));
    return with_headers(std::move(reply));
  }
  void begin_events(http::Answer answer, std::string authorization, const std::string& from);
  void watch();
  void tell(const std::shared_ptr<const std::string>& text);

  const ServerOptions options_;
  Api& api_;
  Log log_;
  std::atomic<int> waiting_{0};

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool over_ = false;
  Readers readers_;
  std::shared_ptr<const std::string> latest_;  // the last event

  boost::asio::thread_pool pool_{2};
  std::thread watcher_;
  http::Server server_;  // destroyed first, because it calls what is above
};

void Server::Inside::request(http::Request request, http::Answer answer) {
  const std::string from = request.head.peer.address.host();
  if (waiting_ >= waiting_max)
    return answer.reply(logged(plain(503, "too many requests wait for the database"), from));
  ++waiting_;
  // The pool's tasks are copyable and an answer is not, so it is shared.
  auto owed = std::make_shared<http::Answer>(std::move(answer));
  boost::asio::post(pool_, [this, owed, from, asked = request_of(std::move(request))] {
    Reply reply = api_.answer(asked);
    --waiting_;
    if (reply.events) return begin_events(std::move(*owed), asked.authorization, from);
    owed->reply(logged(std::move(reply), from));
  });
}

void Server::Inside::begin_events(http::Answer answer, std::string authorization,
                                  const std::string& from) {
  Readers::iterator place;
  {
    const std::lock_guard lock(mutex_);
    if (static_cast<int>(readers_.size()) >= options_.streams_max)
      return answer.reply(logged(plain(503, "too many readers of events"), from));
    http::Reply head;
    head.type = "text/event-stream";
    head.close = true;
    readers_.push_front({answer.stream(std::move(head)), std::move(authorization)});
    place = readers_.begin();
    if (latest_) place->writer->latest(latest_);
    changed_.notify_all();
  }
  answer.on_gone([this, place] {
    const std::lock_guard lock(mutex_);
    readers_.erase(place);
  });
}

// All readers get the same bytes; for a slow reader only the latest event waits. A reader whose
// token was removed by a reload is cut off.
void Server::Inside::tell(const std::shared_ptr<const std::string>& text) {
  const std::lock_guard lock(mutex_);
  if (!text->starts_with(':')) latest_ = text;
  for (Reader& reader : readers_) {
    if (!api_.may_read(reader.authorization)) reader.writer.reset();
    if (reader.writer) reader.writer->latest(text);
  }
}

// Reads the database while an event stream is open.
void Server::Inside::watch() {
  std::string last;
  auto sent = std::chrono::steady_clock::now();
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return over_ || !readers_.empty(); });
      if (over_) return;
    }
    std::string kind = "state", clock, now;
    try {
      std::tie(clock, now) = api_.overview_and_clock();
    } catch (const std::exception& error) {
      kind = "failed";
      now = api_.failure(error).body;
    }
    const auto at = std::chrono::steady_clock::now();
    std::shared_ptr<const std::string> text;
    if (now != last) {
      text = std::make_shared<const std::string>(
          fmt::format("event: {}\ndata: {}{}\n\n", kind, clock, now));
      last = std::move(now);
    } else if (at - sent >= alive_every) {
      text = std::make_shared<const std::string>(": alive\n\n");
    }
    if (text) {
      sent = at;
      tell(text);
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, options_.poll, [&] { return over_; });
    if (over_) return;
    // The last reader has left: the next one begins with a reading of its own.
    if (readers_.empty()) {
      last.clear();
      latest_ = nullptr;
    }
  }
}

Server::Server(const ServerOptions& options, Api& api)
    : inside_(std::make_unique<Inside>(options, api)) {}
Server::~Server() = default;
std::string Server::address() const { return inside_->address(); }

}  // namespace termgate::admin
