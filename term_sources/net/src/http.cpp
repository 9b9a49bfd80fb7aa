#include <termgate/sources/http.hpp>

#include <openssl/evp.h>

#include <charconv>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/text/hex.hpp>

namespace termgate::sources {

namespace http = boost::beast::http;
namespace json = boost::json;

HttpService::HttpService(std::string name, std::vector<HostPort> hosts, TlsSettings tls)
    : name_(std::move(name)), connection_(name_, std::move(hosts), std::move(tls)) {}
HttpService::~HttpService() = default;

HttpAnswer HttpService::call(const Request& request, Deadline deadline) {
  if (connection_.is_open()) connection_.set_deadline(deadline);
  else connection_.open(deadline);
  http::request<http::string_body> message(
      http::string_to_verb({request.method.data(), request.method.size()}), request.target, 11);
  message.set(http::field::host, connection_.host());
  message.set(http::field::user_agent, "termgate");
  message.set(http::field::accept, "application/json");
  if (!request.body.empty()) message.set(http::field::content_type, "application/json");
  for (const auto& [key, value] : request.headers) message.set(key, value);
  message.body() = request.body;
  message.prepare_payload();
  boost::system::error_code error;
  const auto broken = [&](const std::string& why) {
    connection_.close();
    connection_.avoid();
    return OutcomeUnknown(fmt::format(
        "{} did not answer: {}; whether it did what was requested is not known", name_, why));
  };
  http::write(connection_, message, error);
  if (error) throw broken(error.message());
  http::response_parser<http::string_body> parser;
  parser.body_limit(body_bytes_max);
  boost::beast::flat_buffer buffer(body_bytes_max);
  http::read(connection_, buffer, parser, error);
  if (error) throw broken(error.message());
  if (!parser.get().keep_alive()) connection_.close();
  const std::string& text = parser.get().body();
  HttpAnswer answer{parser.get().result_int(), nullptr};
  if (text.empty()) return answer;
  auto body = json_of(text);
  if (body) answer.body = *std::move(body);
  // An error may have plain text; a successful answer must be JSON.
  else if (answer.status < 300) throw broken("its answer is not JSON");
  else answer.body = json::object{{"message", shown(text)}};
  return answer;
}

std::optional<json::value> json_of(std::string_view text) {
  json::error_code error;
  json::parse_options options;
  options.max_depth = 32;
  json::value value = json::parse({text.data(), text.size()}, error, {}, options);
  if (error) return std::nullopt;
  return value;
}

const json::value& value_at(const json::value& object, std::string_view key) {
  static const json::value none;
  if (!object.is_object()) return none;
  const json::value* found = object.get_object().if_contains({key.data(), key.size()});
  return found == nullptr ? none : *found;
}

std::optional<std::int64_t> integer_at(const json::value& object, std::string_view key) {
  const json::value& value = value_at(object, key);
  if (value.is_int64()) return value.get_int64();
  if (!value.is_string()) return std::nullopt;
  const json::string& text = value.get_string();
  std::int64_t number = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stopped != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string text_at(const json::value& object, std::string_view key) {
  const json::value& value = value_at(object, key);
  return value.is_string() ? std::string(value.get_string().data(), value.get_string().size())
                           : std::string();
}

std::string path_segment(std::string_view text) { return text::percent_encoded(text, "-_~"); }

std::string base64(std::string_view text) {
  std::string result(4 * ((text.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(result.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
  result.resize(static_cast<std::size_t>(length));
  return result;
}

std::string shown(std::string_view text) {
  std::string result(text.substr(0, 200));
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  }
  while (result.ends_with(' ')) result.pop_back();
  return result;
}

}  // namespace termgate::sources
