// Requests and answers of HTTP/1.1. Values; no sockets.
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

// Who has sent a request, and to where.
struct Peer {
  Endpoint address;      // of the client itself, where a PROXY header named it
  std::string listener;  // its name
  bool tls = false;
  std::string certificate;  // the common name of the client's certificate, which the client CA has signed; empty: it showed none
};

// The first part of a request. It has passed these checks: one Host header, whose name is served here; Origin only with Authorization; none
// of Authorization, Origin and Content-Type twice; a body whose length is beyond doubt.
struct Head {
  std::string method;  // as it was sent: GET
  std::string target;  // as it was sent: /path?query
  Headers headers;
  Peer peer;

  std::string_view path() const noexcept;
  std::string_view query() const noexcept;  // without its question mark
  // The value of a header, whose name is compared without regard to case. Empty: it is absent. Of several, the first.
  std::string_view header(std::string_view name) const noexcept;
  std::size_t count(std::string_view name) const noexcept;
};

// A share of a memory budget, given back when it goes. One thread at a time.
class Room {
 public:
  virtual ~Room() = default;
  // So many bytes from now on. False: there are not so many, and the share is what it was.
  virtual bool hold(std::size_t bytes) = 0;
};

struct Request {
  Head head;
  std::string body;
  std::unique_ptr<Room> room = {};  // what Take had for the body
};

// The whole of an answer. Content-Length, Connection, Cache-Control: no-store and X-Content-Type-Options: nosniff are set for it.
// A header with a line break in it is left out.
struct Reply {
  unsigned status = 200;  // 200 to 599
  std::string body = {};
  std::string type = "application/json";
  Headers headers = {};
  bool close = false;  // the connection ends with it
  // Lives as long as the body: a share of a memory budget, say. Destroyed on any thread.
  std::shared_ptr<void> keeps = {};
};

}  // namespace termgate::http
