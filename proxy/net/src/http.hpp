// The HTTP paths /healthz, /readyz, /metrics and /leader, on a loop of http/. No request bodies, no
// state, no cookies.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <termgate/net/server.hpp>

#include "blocking_pool.hpp"

namespace termgate::net {

// What the paths need to know. Each function may block.
struct HttpQuestions {
  // Why new clients cannot be served, in one word. Empty: they can.
  std::function<std::string()> obstacle;
  std::function<std::string()> metrics;
  std::function<bool(std::string_view scope)> leads;
};

// The answer to a request, independent of the socket.
struct HttpAnswer {
  unsigned status = 404;
  std::string body;
  const char* type = "text/plain; charset=utf-8";
};
// `host`: the Host header, with or without a port. A name that is not ours gets 421, so that a
// browser page whose DNS name was pointed here (DNS rebinding) learns nothing.
HttpAnswer answer_http(std::string_view method, std::string_view target, std::string_view host,
                       const HttpOptions& options, const HttpQuestions& questions);

class HttpServer {
 public:
  // Throws std::runtime_error if the address cannot be bound. `blocking_pool` must have ended
  // before this server ends.
  HttpServer(const HttpOptions& options, HttpQuestions questions, BlockingPool& blocking_pool);
  ~HttpServer();
  std::string address() const;

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::net
