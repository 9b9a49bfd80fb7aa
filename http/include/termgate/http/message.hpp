// HTTP/1.1 requests and answers. Values; no sockets.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/http/endpoint.hpp>

namespace termgate::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

// The sender of a request, and the listener that it came in on.
struct Peer {
  Endpoint address;      // of the client itself if a PROXY header named it
  std::string listener;  // the listener's name
  bool tls = false;
  // The common name of the client's certificate, which the client CA has signed. Empty: the client
  // showed none, or its name is missing or contains control characters.
  std::string certificate;
};

// The head of a request, after these checks: one Host header whose name is served here; Origin only
// together with Authorization; Authorization, Origin and Content-Type at most once each; a body of
// unambiguous length.
struct Head {
  std::string method;  // as it was sent: GET
  std::string target;  // as it was sent: /path?query
  Headers headers;
  Peer peer;

  std::string_view path() const noexcept;
  std::string_view query() const noexcept;  // without the question mark
  // The value of a header; names are compared without regard to case. Empty: there is no such
  // header. If there are several, the first.
  std::string_view header(std::string_view name) const noexcept;
  std::size_t count(std::string_view name) const noexcept;
};

// A share of a memory budget, returned when this is destroyed. One thread at a time.
class Room {
 public:
  virtual ~Room() = default;
  // Sets the share to so many bytes. False: the budget has too little left, and the share stays as
  // it was.
  virtual bool hold(std::size_t bytes) = 0;
};

struct Request {
  Head head;
  std::string body;
  std::unique_ptr<Room> room = {};  // Take::room, which holds the memory of the body
};

// A complete answer. The server adds Content-Length, Connection, X-Content-Type-Options: nosniff
// and, without a Cache-Control in `headers`, no-store. A header with a control character is left
// out.
struct Reply {
  unsigned status = 200;  // 200 to 599
  std::string body = {};
  std::string type = "application/json";
  Headers headers = {};
  bool close = false;  // close the connection after the answer
  // Kept alive as long as the body, for example a share of a memory budget. May be destroyed on any
  // thread.
  std::shared_ptr<void> keeps = {};
};

}  // namespace termgate::http
