// HttpService: requests to a service that answers in JSON over HTTP/1.1, one at a time, over one connection that is kept. Beast frames the
// messages, Boost.JSON reads the bodies. One thread at a time.
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
  boost::json::value body;  // null where it is empty
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
  // Throws Unavailable where no connection was made; OutcomeUnknown where no complete answer came, or none that is JSON.
  HttpAnswer call(const Request& request, Deadline deadline);
  const std::string& name() const noexcept { return name_; }

 private:
  const std::string name_;
  Connection connection_;
};

// None for what is no JSON. Its nesting is bounded.
std::optional<boost::json::value> json_of(std::string_view text);
// An integer, whether it is written as a number or, as protobuf's JSON writes 64 bits, as a string. None: neither.
std::optional<std::int64_t> integer_at(const boost::json::value& object, std::string_view key);
// A text; empty where there is none.
std::string text_at(const boost::json::value& object, std::string_view key);
// The value; null where there is none.
const boost::json::value& value_at(const boost::json::value& object, std::string_view key);
// A segment of a path: all but letters, digits and -_~ as %XX. ("." is encoded too, so that no segment is "..".)
std::string path_segment(std::string_view text);
std::string base64(std::string_view text);
// For messages: one line, at most 200 bytes.
std::string shown(std::string_view text);

}  // namespace termgate::sources
