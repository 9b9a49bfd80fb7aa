#include "reader.hpp"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <termgate/detail/host_header.hpp>

namespace termgate::http {
namespace {

namespace beast = boost::beast;
namespace bhttp = boost::beast::http;

constexpr std::size_t chunk_head_bytes_max =
    16u << 10;  // for the size line of a chunk with its extensions, and for the trailers

std::string_view view(beast::string_view text) noexcept { return {text.data(), text.size()}; }

}  // namespace

struct RequestReader::Parser : bhttp::request_parser<bhttp::string_body> {};

std::optional<Refusal> refusal_of(const Head& head, const std::vector<std::string>& hosts) {
  // With two of these headers, a proxy in front of us may have used the other one.
  for (const char* name : {"Host", "Authorization", "Origin", "Content-Type"}) {
    if (head.count(name) > 1) return Refusal{400, "a header is there twice that may be there once"};
  }
  const std::string_view host = head.header("Host");
  const auto name = detail::host_name(host);
  if (!name && !host.empty()) return Refusal{400, "the Host header is malformed"};
  if (!name || !detail::host_is_served(*name, hosts))
    return Refusal{421, "this name is not served here (--http-host)"};
  // A web page's request has an Origin, and cannot have a token of ours.
  if (head.count("Origin") > 0 && head.header("Authorization").empty())
    return Refusal{403, "a page of a browser needs a token"};
  return std::nullopt;
}

RequestReader::RequestReader(std::size_t head_bytes_max) : head_bytes_max_(head_bytes_max) {
  restart();
}
RequestReader::~RequestReader() = default;

void RequestReader::restart() {
  parser_ = nullptr;
  head_ = {};
  begun_ = in_body_ = false;
}

bool RequestReader::has_body() const noexcept { return parser_ && !parser_->is_done(); }

RequestReader::Step RequestReader::refuse(unsigned status, const char* message) noexcept {
  refusal_ = {status, message};
  return Step::refused;
}

RequestReader::Step RequestReader::failed(int error) noexcept {
  switch (static_cast<bhttp::error>(error)) {
    case bhttp::error::header_limit: return refuse(431, "the head is too large");
    case bhttp::error::body_limit:
    case bhttp::error::buffer_overflow: return refuse(413, "the body is too large");
    case bhttp::error::bad_version: return refuse(505, "HTTP/1.1 and HTTP/1.0 are spoken here");
    default: return refuse(400, "malformed request");
  }
}

RequestReader::Step RequestReader::put(std::string_view bytes, std::size_t& used) {
  used = 0;
  if (!parser_) {
    // Empty lines in front of a request are skipped (RFC 9112, section 2.2).
    while (used < bytes.size() && (bytes[used] == '\r' || bytes[used] == '\n')) ++used;
    if (used == bytes.size()) return Step::need_more;
    parser_ = std::make_unique<Parser>();
    parser_->header_limit(static_cast<std::uint32_t>(head_bytes_max_));
    parser_->body_limit(boost::none);
    begun_ = true;
  }
  for (;;) {
    const std::string_view rest = bytes.substr(used);
    if (rest.empty()) return Step::need_more;
    beast::error_code error;
    used += parser_->put(boost::asio::buffer(rest.data(), rest.size()), error);
    if (error == bhttp::error::need_more) {
      if (in_body_ && bytes.size() - used > chunk_head_bytes_max)
        return refuse(400, "a chunk's head or the trailers are too large");
      return Step::need_more;
    }
    if (error)
      return failed(error.category() == bhttp::make_error_code(bhttp::error::need_more).category()
                        ? error.value()
                        : 0);
    if (!in_body_ && parser_->is_header_done()) return take_head();
    if (parser_->is_done()) return Step::body;
  }
}

RequestReader::Step RequestReader::take_head() {
  begun_ = false;
  const auto& message = parser_->get();
  head_.method = view(message.method_string());
  head_.target = view(message.target());
  for (const auto& field : message)
    head_.headers.emplace_back(view(field.name_string()), view(field.value()));
  version_1_1_ = message.version() >= 11;
  keep_alive_ = parser_->keep_alive();
  // Beast reads "gzip" as no body at all, and "gzip, chunked" as chunked.
  const auto encodings = head_.count("Transfer-Encoding");
  if (encodings > 0 &&
      (encodings > 1 || !beast::iequals(head_.header("Transfer-Encoding"), "chunked") ||
       !version_1_1_))
    return refuse(400, "a Transfer-Encoding that is not chunked, once, in HTTP/1.1");
  if (head_.count("Content-Length") > 1 || (encodings > 0 && head_.count("Content-Length") > 0))
    return refuse(400, "the body's length is given twice");
  if (head_.header("Content-Length").find_first_not_of("0123456789") != std::string_view::npos)
    return refuse(400, "Content-Length is not a number");
  if (const auto hosts = head_.count("Host"); hosts > 1 || (hosts == 0 && version_1_1_))
    return refuse(400, "exactly one Host header is required");
  wants_continue_ = head_.count("Expect") > 0;
  if (wants_continue_ && !beast::iequals(head_.header("Expect"), "100-continue"))
    return refuse(417, "Expect is 100-continue or absent");
  return Step::head;
}

RequestReader::Step RequestReader::go_on(std::size_t body_bytes_max) {
  in_body_ = true;
  if (parser_->is_done()) return Step::body;
  if (const auto length = parser_->content_length(); length && *length > body_bytes_max)
    return refuse(413, "the body is too large");
  parser_->body_limit(body_bytes_max);
  return Step::need_more;
}

std::size_t RequestReader::body_bytes() const noexcept {
  return parser_ ? parser_->get().body().size() : 0;
}
std::string RequestReader::take_body() { return std::move(parser_->get().body()); }

}  // namespace termgate::http
