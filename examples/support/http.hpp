// The HTTP that the examples need, on Boost.Beast: a server with a thread for each connection, and
// a client that keeps its connection.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace example {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = boost::asio::ip::tcp;

struct Request {
  std::string method, path, body;
  // Termgate-Scope and Termgate-Term, if the request has them.
  std::map<std::string, std::string> headers;
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};
struct Reply {
  unsigned status = 200;
  std::string body;
};
using Handler = std::function<Reply(const Request&)>;

// Answers the requests of one connection until its client closes it. If the handler throws, the
// answer is a 500 and the service goes on.
inline void serve_connection(tcp::socket socket, const Handler& handler) {
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer(64 << 10);
  for (beast::error_code error;;) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(8 << 10);
    parser.body_limit(64 << 10);
    http::read(stream, buffer, parser, error);
    if (error) return;
    const auto& message = parser.get();
    Request request{
        std::string(message.method_string()), std::string(message.target()), message.body(), {}};
    for (const char* name : {"Termgate-Scope", "Termgate-Term"}) {
      if (message.count(name) > 0) request.headers[name] = message[name];
    }
    Reply reply;
    try {
      reply = message.count("Termgate-Term") > 1 ? Reply{400, "more than one Termgate-Term"}
                                                 : handler(request);
    } catch (const std::exception& failure) { reply = {500, failure.what()}; }
    http::response<http::string_body> response(static_cast<http::status>(reply.status),
                                               message.version());
    response.body() = reply.body + "\n";
    response.keep_alive(message.keep_alive());
    response.prepare_payload();
    http::write(stream, response, error);
    if (error || !message.keep_alive()) return;
  }
}

// Listens on loopback and calls `ready` with the port (0: any free port). Does not return.
[[noreturn]] inline void serve(std::uint16_t port, const std::function<void(std::uint16_t)>& ready,
                               const Handler& handler) {
  boost::asio::io_context context;
  tcp::acceptor acceptor(context, {boost::asio::ip::address_v4::loopback(), port});
  ready(acceptor.local_endpoint().port());
  for (;;) std::thread(serve_connection, acceptor.accept(), handler).detach();
}

class Client {
 public:
  explicit Client(std::uint16_t port) : port_(port) {}

  // Throws if there is no answer; the server may have executed the request even so.
  Reply send(const std::string& method, const std::string& path, const std::string& body = "",
             const std::string& term = "") {
    try {
      if (!stream_) {
        stream_ = std::make_unique<beast::tcp_stream>(context_);
        stream_->connect({boost::asio::ip::address_v4::loopback(), port_});
      }
      http::request<http::string_body> request(http::string_to_verb(method), path, 11);
      request.set(http::field::host, "localhost");
      if (!term.empty()) request.set("Termgate-Term", term);
      request.body() = body;
      request.prepare_payload();
      http::write(*stream_, request);
      http::response<http::string_body> response;
      http::read(*stream_, buffer_, response);
      std::string text = response.body();
      if (!text.empty()) text.pop_back();
      return {response.result_int(), std::move(text)};
    } catch (...) {
      stream_.reset();
      buffer_.clear();
      throw;
    }
  }

 private:
  std::uint16_t port_;
  boost::asio::io_context context_;
  std::unique_ptr<beast::tcp_stream> stream_;
  beast::flat_buffer buffer_;
};

}  // namespace example
