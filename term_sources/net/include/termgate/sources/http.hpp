// HttpService: requests to a service that answers in JSON over HTTP/1.1, one at a time, over one
// persistent connection. Beast frames the messages, Boost.JSON reads the bodies. One thread at a
// time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json.hpp>

#include <termgate/sources/connection.hpp>

namespace termgate::sources {

struct HttpAnswer {
  unsigned status = 0;
  boost::json::value body;  // null if it is empty; {"message": …} for an error in plain text
};

class HttpService {
 public:
  static constexpr std::size_t body_bytes_max = 1024 * 1024;

  HttpService(std::string name, std::vector<HostPort> hosts, TlsSettings tls);
  ~HttpService();

  struct Request {
    std::string_view method;  // GET, POST, PUT, DELETE
    std::string target;
    std::string body = {};
    std::vector<std::pair<std::string, std::string>> headers = {};
  };
  // Throws Unavailable if no connection was made, OutcomeUnknown if no complete answer came, or a
  // successful one that is not JSON.
  HttpAnswer call(const Request& request, Deadline deadline);
  const std::string& name() const noexcept { return name_; }

 private:
  const std::string name_;
  Connection connection_;
};

// None if the text is not JSON. The depth of nesting is bounded.
std::optional<boost::json::value> json_of(std::string_view text);
// A member as an integer, written as a number or, as protobuf's JSON writes 64 bits, as a string.
// None: neither.
std::optional<std::int64_t> integer_at(const boost::json::value& object, std::string_view key);
// A member as text; empty if there is none.
std::string text_at(const boost::json::value& object, std::string_view key);
// A member; null if there is none.
const boost::json::value& value_at(const boost::json::value& object, std::string_view key);
// Encodes a segment of a path: everything but letters, digits and -_~ becomes %XX. ("." is encoded
// too, so that no segment is "..".)
std::string path_segment(std::string_view text);
std::string base64(std::string_view text);
// For messages: one line, at most 200 bytes.
std::string shown(std::string_view text);

}  // namespace termgate::sources
