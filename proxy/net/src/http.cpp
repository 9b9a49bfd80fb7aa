#include "http.hpp"

#include <functional>
#include <list>
#include <optional>
#include <stdexcept>
#include <thread>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <fmt/format.h>

#include <termgate/detail/host_header.hpp>
#include <termgate/scope.hpp>

namespace termgate::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;

constexpr std::uint32_t header_bytes_max = 8u << 10;
constexpr std::chrono::seconds request_takes{10};
constexpr std::chrono::seconds errand_takes{10};
constexpr int connections_max = 64;  // past it the one that has been silent for longest goes
constexpr int leaving_max = 64;      // that have been given up and are not gone yet

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      plain += ' ';
    } else if (text[i] != '%') {
      plain += text[i];
    } else {
      if (i + 2 >= text.size() || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0) return std::nullopt;
      plain += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
      i += 2;
    }
  }
  return plain;
}

// What is wrong with the Host header; none: nothing.
std::optional<HttpAnswer> host_problem(std::string_view host, const HttpOptions& options) {
  const auto name = detail::host_name(host);
  if (!name && !host.empty()) return HttpAnswer{400, "the Host header is malformed\n"};
  if (!name || !detail::host_is_served(*name, options.hosts)) return HttpAnswer{421, "this name is not served here (--http-host)\n"};
  return std::nullopt;
}

}  // namespace

HttpAnswer answer_http(std::string_view method, std::string_view target, std::string_view host, const HttpOptions& options,
                       const HttpQuestions& questions) {
  if (auto problem = host_problem(host, options)) return *problem;
  const auto question = target.find('?');
  const std::string_view path = target.substr(0, question);
  const std::string_view query = question == std::string_view::npos ? std::string_view{} : target.substr(question + 1);
  const bool known = path == "/healthz" || path == "/readyz" || path == "/metrics" || path == "/leader";
  if (!known) return {404, "not found\n"};
  if (method != "GET" && method != "HEAD") return {405, "GET and HEAD only\n"};
  if (path == "/healthz") return {200, "ok\n"};
  if (path == "/readyz") {
    const std::string obstacle = questions.obstacle();
    return obstacle.empty() ? HttpAnswer{200, "ok\n"} : HttpAnswer{503, obstacle + "\n"};
  }
  if (path == "/metrics") return {200, questions.metrics(), "text/plain; version=0.0.4; charset=utf-8"};
  std::string_view rest = query;
  std::optional<std::string> scope;
  while (!rest.empty()) {
    const auto end = rest.find('&');
    const std::string_view part = rest.substr(0, end);
    if (part.starts_with("scope=")) {
      if (scope) return {400, "scope is given twice\n"};
      scope = decoded(part.substr(6));
      if (!scope) return {400, "scope: a % without two hexadecimal digits\n"};
    }
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  if (!scope || scope->empty()) return {400, "write /leader?scope=S\n"};
  if (const char* problem = name_problem(*scope)) return {400, fmt::format("scope: {}\n", problem)};
  return questions.leads(*scope) ? HttpAnswer{200, "leader\n"} : HttpAnswer{503, "not leader\n"};
}

// Outlives its connections, which are owned by operations of its loop.
class HttpServer::Inside {
 public:
  Inside(HttpOptions the_options, HttpQuestions the_questions, BlockingPool& the_errands)
      : options(std::move(the_options)), questions(std::move(the_questions)), blocking_pool(the_errands), acceptor(loop), pause(loop) {}

  void accept();

  const HttpOptions options;
  const HttpQuestions questions;
  BlockingPool& blocking_pool;
  // Those that are waited for, the one that has been silent for longest first; each takes itself out.
  std::list<std::function<void()>*> silent;
  int connections = 0;
  bool waiting = false;
  asio::io_context loop{1};
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  std::thread thread;
};

namespace {

// One connection, one request after another.
template <typename Owner>
class HttpConnection : public std::enable_shared_from_this<HttpConnection<Owner>> {
 public:
  HttpConnection(tcp::socket socket, Owner& owner) : stream_(std::move(socket)), owner_(owner) { ++owner_.connections; }
  ~HttpConnection() {
    heard();
    --owner_.connections;
    if (owner_.waiting) owner_.accept();
  }

  void read() {
    parser_.emplace();
    parser_->header_limit(header_bytes_max);
    parser_->body_limit(0);
    stream_.expires_after(request_takes);
    place_ = owner_.silent.insert(owner_.silent.end(), &give_up_);
    http::async_read(stream_, buffer_, *parser_,
                     [self = this->shared_from_this()](beast::error_code error, std::size_t) { self->got(error); });
  }

 private:
  void heard() {
    if (!place_) return;
    owner_.silent.erase(*place_);
    place_.reset();
  }

  void got(beast::error_code error) {
    heard();
    if (error == http::error::end_of_stream || error == beast::error::timeout) return;
    if (error == http::error::body_limit) return answer({413, "no bodies here\n"}, false);
    if (error == http::error::header_limit) return answer({431, "headers longer than 8 kB\n"}, false);
    if (error && error.category() == http::make_error_code(http::error::bad_method).category())
      return answer({400, "malformed request\n"}, false);
    if (error) return;
    const auto& request = parser_->get();
    // Of two the reader in front of us may have believed the other one.
    const auto hosts = request.count(http::field::host);
    if (hosts > 1 || (hosts == 0 && request.version() >= 11)) return answer({400, "exactly one Host header is required\n"}, false);
    // Whether the process lives is answered even where every thread of the blocking pool waits for a name server.
    if (request.target() == "/healthz" && request.method() == http::verb::get && !host_problem(request[http::field::host], owner_.options))
      return answer({200, "ok\n"}, request.keep_alive());
    // The answer may take its time, and the loop has others to serve.
    owner_.blocking_pool.run([self = this->shared_from_this(), method = std::string(request.method_string()),
                              target = std::string(request.target()), host = std::string(request[http::field::host]),
                              keep = request.keep_alive(), head = request.method() == http::verb::head] {
      HttpAnswer reply;
      try {
        reply = answer_http(method, target, host, self->owner_.options, self->owner_.questions);
      } catch (const std::exception&) { reply = {500, "failed\n"}; }
      asio::post(self->owner_.loop, [self, reply = std::move(reply), keep, head]() mutable { self->answer(std::move(reply), keep, head); });
    });
  }

  void answer(HttpAnswer reply, bool keep, bool head = false) {
    response_ = {};
    response_.version(11);
    response_.result(reply.status);
    response_.set(http::field::content_type, reply.type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    response_.keep_alive(keep);
    response_.body() = std::move(reply.body);
    response_.prepare_payload();
    if (head) response_.body().clear();
    stream_.expires_after(errand_takes);
    http::async_write(stream_, response_, [self = this->shared_from_this(), keep](beast::error_code error, std::size_t) {
      if (error) return;
      if (keep) return self->read();
      beast::error_code ignored;
      self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    });
  }

  beast::tcp_stream stream_;
  Owner& owner_;
  std::function<void()> give_up_ = [this] {
    heard();
    stream_.close();
  };
  std::optional<std::list<std::function<void()>*>::iterator> place_;
  beast::flat_buffer buffer_{header_bytes_max * 2};
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> response_;
};

}  // namespace

void HttpServer::Inside::accept() {
  if (connections >= connections_max && !silent.empty()) {
    // Its place is taken out at once, so that the next one takes another's; the rest of it ends in its own time.
    std::function<void()>* longest = silent.front();
    (*longest)();
  }
  waiting = connections >= connections_max + leaving_max;
  if (waiting) return;
  acceptor.async_accept([this](beast::error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {
      // No descriptor left, most likely: a moment later there may be one.
      pause.expires_after(std::chrono::milliseconds(100));
      pause.async_wait([this](beast::error_code stopped) {
        if (!stopped) accept();
      });
      return;
    }
    std::make_shared<HttpConnection<Inside>>(std::move(socket), *this)->read();
    accept();
  });
}

HttpServer::HttpServer(const HttpOptions& options, HttpQuestions questions, BlockingPool& blocking_pool)
    : inside_(std::make_unique<Inside>(options, std::move(questions), blocking_pool)) {
  beast::error_code error;
  tcp::resolver resolver(inside_->loop);
  const std::string host = options.address.host.empty() ? "0.0.0.0" : options.address.host;
  const auto found =
      resolver.resolve(host, std::to_string(options.address.port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  const std::string wanted = fmt::format("{}:{}", host, options.address.port);
  if (error || found.empty()) throw std::runtime_error(fmt::format("cannot serve HTTP on {}: {}", wanted, error.message()));
  const tcp::endpoint endpoint = found.begin()->endpoint();
  inside_->acceptor.open(endpoint.protocol(), error);
  if (!error) inside_->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) inside_->acceptor.bind(endpoint, error);
  if (!error) inside_->acceptor.listen(128, error);
  if (error) throw std::runtime_error(fmt::format("cannot serve HTTP on {}: {}", wanted, error.message()));
  inside_->accept();
  inside_->thread = std::thread([this] { inside_->loop.run(); });
}

HttpServer::~HttpServer() {
  inside_->loop.stop();
  inside_->thread.join();
  inside_->waiting = false;
}

std::string HttpServer::address() const {
  boost::system::error_code error;
  const auto endpoint = inside_->acceptor.local_endpoint(error);
  const std::string host = endpoint.address().to_string();
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, endpoint.port()) : fmt::format("[{}]:{}", host, endpoint.port());
}

}  // namespace termgate::net
