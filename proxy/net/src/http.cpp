#include "http.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <termgate/detail/host_header.hpp>
#include <termgate/http/server.hpp>
#include <termgate/scope.hpp>
#include <termgate/text/hex.hpp>

namespace termgate::net {
namespace {

// Above this number, the connection that has been idle longest is closed, or, if none is idle, the
// new one.
constexpr std::size_t http_connections_max = 64;

std::optional<std::string> decoded(std::string_view text) {
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  return text::percent_decoded(spaced);
}

// The answer to a wrong Host header. Empty: the header is right.
std::optional<HttpAnswer> host_problem(std::string_view host, const HttpOptions& options) {
  const auto name = detail::host_name(host);
  if (!name && !host.empty()) return HttpAnswer{400, "the Host header is malformed\n"};
  if (!name || !detail::host_is_served(*name, options.hosts))
    return HttpAnswer{421, "this name is not served here (--http-host)\n"};
  return std::nullopt;
}

}  // namespace

HttpAnswer answer_http(std::string_view method, std::string_view target, std::string_view host,
                       const HttpOptions& options, const HttpQuestions& questions) {
  if (auto problem = host_problem(host, options)) return *problem;
  const auto question = target.find('?');
  const std::string_view path = target.substr(0, question);
  const std::string_view query =
      question == std::string_view::npos ? std::string_view{} : target.substr(question + 1);
  const bool known =
      path == "/healthz" || path == "/readyz" || path == "/metrics" || path == "/leader";
  if (!known) return {404, "not found\n"};
  if (method != "GET" && method != "HEAD") return {405, "GET and HEAD only\n"};
  if (path == "/healthz") return {200, "ok\n"};
  if (path == "/readyz") {
    const std::string obstacle = questions.obstacle();
    return obstacle.empty() ? HttpAnswer{200, "ok\n"} : HttpAnswer{503, obstacle + "\n"};
  }
  if (path == "/metrics")
    return {200, questions.metrics(), "text/plain; version=0.0.4; charset=utf-8"};
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

class HttpServer::Inside : public http::Handler {
 public:
  Inside(const HttpOptions& options, HttpQuestions questions, BlockingPool& blocking_pool)
      : options_(options),
        questions_(std::move(questions)),
        blocking_pool_(blocking_pool),
        server_(server_options(options), *this) {
    server_.start();
  }

  http::Decision decide(const http::Head&) override { return http::Take{}; }

  void request(http::Request request, http::Answer answer) override {
    // Answered here, so that it works even if every thread of the blocking pool waits for a name
    // server.
    if (request.head.target == "/healthz" && request.head.method == "GET")
      return answer.reply(reply_of({200, "ok\n"}));
    // Finding the answer may block, and this loop has other requests to serve.
    auto owed = std::make_shared<http::Answer>(std::move(answer));
    blocking_pool_.run([this, owed, head = std::move(request.head)] {
      HttpAnswer reply;
      try {
        reply = answer_http(head.method, head.target, head.header("Host"), options_, questions_);
      } catch (const std::exception&) { reply = {500, "failed\n"}; }
      owed->reply(reply_of(std::move(reply)));
    });
  }

  std::string address() const { return server_.addresses().front(); }

 private:
  static http::Reply reply_of(HttpAnswer answer) {
    return {answer.status, std::move(answer.body), answer.type};
  }
  static http::ServerOptions server_options(const HttpOptions& options) {
    http::ServerOptions given;
    http::ListenerOptions listener;
    listener.name = "http";
    listener.host = options.address.host.empty() ? "0.0.0.0" : options.address.host;
    listener.port = options.address.port;
    given.listeners.push_back(std::move(listener));
    given.hosts = options.hosts;
    given.limits.connections = http_connections_max;
    return given;
  }

  const HttpOptions options_;
  const HttpQuestions questions_;
  BlockingPool& blocking_pool_;
  http::Server server_;
};

HttpServer::HttpServer(const HttpOptions& options, HttpQuestions questions,
                       BlockingPool& blocking_pool)
    : inside_(std::make_unique<Inside>(options, std::move(questions), blocking_pool)) {}
HttpServer::~HttpServer() = default;
std::string HttpServer::address() const { return inside_->address(); }

}  // namespace termgate::net
