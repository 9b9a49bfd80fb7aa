#include "support/hrana_client.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include <termgate/detail/error_from_message.hpp>
#include <termgate/error.hpp>
#include <termgate/sources/http.hpp>
#include <termgate/text/scanner.hpp>

namespace termgate::cli {
namespace {

namespace http = boost::beast::http;
namespace json = boost::json;

// Shorter than the time after which the server closes an idle connection, which might otherwise
// happen while a request is under way.
constexpr std::chrono::seconds idle_max{60};
// How long close() waits for the answer. A stream that stays open ends by itself on the server.
constexpr std::chrono::seconds close_wait{2};

struct Place {
  std::string host;  // host and port
  sources::HostPort address;
  bool tls = false;
};

Place place_of(const std::string& url) {
  const auto refuse = [](std::string_view why) {
    return InvalidInput(
        fmt::format("TG005 --url must be http://HOST:PORT or https://HOST:PORT: {}", why));
  };
  Place place;
  const auto scheme_end = url.find("://");
  const std::string scheme = url.substr(0, scheme_end == std::string::npos ? 0 : scheme_end);
  if (scheme != "http" && scheme != "https" && scheme != "libsql")
    throw refuse("its scheme is another one");
  place.tls = scheme != "http";
  std::string_view rest = std::string_view(url).substr(scheme_end + 3);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?#@ \\") != std::string_view::npos)
    throw refuse("it has a path, a user or parameters");
  place.host = rest;
  const auto bracket = rest.rfind(']');
  const auto colon = rest.find(':', bracket == std::string_view::npos ? 0 : bracket);
  std::string_view name = rest.substr(0, colon);
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  if (name.empty()) throw refuse("its host is missing");
  place.address = {std::string(name), static_cast<std::uint16_t>(place.tls ? 443 : 80)};
  if (colon != std::string_view::npos) {
    const std::string_view port = rest.substr(colon + 1);
    const auto [stopped, error] =
        std::from_chars(port.data(), port.data() + port.size(), place.address.port);
    if (error != std::errc() || stopped != port.data() + port.size() || place.address.port == 0)
      throw refuse("its port is no number from 1 to 65535");
  }
  return place;
}

// ------------------------------------------------------------------------------------------------
// values

// Decodes base64. The server sends no padding, and invalid characters make OpenSSL report an error.
HranaBlob blob_of(std::string text) {
  while (text.ends_with('=')) text.pop_back();
  const std::size_t bytes = text.size() / 4 * 3 + (text.size() % 4 > 1 ? text.size() % 4 - 1 : 0);
  text.resize((text.size() + 3) / 4 * 4, '=');
  HranaBlob blob{std::string(text.size() / 4 * 3, '\0')};
  if (EVP_DecodeBlock(reinterpret_cast<unsigned char*>(blob.bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()),
                      static_cast<int>(text.size())) < 0)
    throw DatabaseError("a blob in the server's answer is not base64");
  blob.bytes.resize(bytes);
  return blob;
}

json::object sent(const HranaValue& value) {
  struct Sent {
    json::object operator()(std::monostate) const { return {{"type", "null"}}; }
    json::object operator()(std::int64_t number) const {
      return {{"type", "integer"}, {"value", std::to_string(number)}};
    }
    json::object operator()(double number) const { return {{"type", "float"}, {"value", number}}; }
    json::object operator()(const std::string& text) const {
      return {{"type", "text"}, {"value", text}};
    }
    json::object operator()(const HranaBlob& blob) const {
      std::string text = sources::base64(blob.bytes);
      while (text.ends_with('=')) text.pop_back();
      return {{"type", "blob"}, {"base64", text}};
    }
  };
  return std::visit(Sent(), value);
}

HranaValue received(const json::value& value) {
  const std::string type = sources::text_at(value, "type");
  if (type == "null") return std::monostate();
  if (type == "text") return sources::text_at(value, "value");
  if (type == "blob") return blob_of(sources::text_at(value, "base64"));
  if (type == "integer") {
    if (const auto number = sources::integer_at(value, "value")) return *number;
  }
  if (type == "float") {
    const json::value& number = sources::value_at(value, "value");
    if (number.is_null()) return std::numeric_limits<double>::quiet_NaN();  // JSON has no infinity
    if (number.is_number()) return number.to_number<double>();
  }
  throw DatabaseError("the server's answer holds a value that is none of Hrana's");
}

HranaRows rows_of(const json::value& result) {
  HranaRows table;
  const json::value& columns = sources::value_at(result, "cols");
  const json::value& rows = sources::value_at(result, "rows");
  if (!columns.is_array() || !rows.is_array())
    throw DatabaseError("the server's answer is no result: cols and rows are missing");
  for (const json::value& column : columns.get_array())
    table.columns.push_back(sources::text_at(column, "name"));
  for (const json::value& row : rows.get_array()) {
    if (!row.is_array() || row.get_array().size() != table.columns.size())
      throw DatabaseError(
          "a row in the server's answer has not as many values as there are columns");
    auto& values = table.rows.emplace_back();
    for (const json::value& value : row.get_array()) values.push_back(received(value));
  }
  table.affected = sources::integer_at(result, "affected_row_count").value_or(0);
  table.last_insert_rowid = sources::integer_at(result, "last_insert_rowid");
  return table;
}

// ------------------------------------------------------------------------------------------------
// errors

[[noreturn]] void fail(const json::value& error) {
  const std::string message = sources::text_at(error, "message"),
                    code = sources::text_at(error, "code");
  detail::throw_if_tg(message);
  if (code == "OUTCOME_UNKNOWN") throw OutcomeUnknown(message, code);
  if (code == "SERVER_BUSY") throw Unavailable(message, code);
  if (code.starts_with("SQLITE_BUSY")) throw Conflict(message, code);
  throw DatabaseError(
      message.empty() ? "the server refused the request and did not say why" : message, code);
}

// Whether the statement may end a transaction. If this returns true for another statement, a lost
// answer is reported as an unknown outcome though nothing was committed: that does no harm.
bool commits(std::string_view sql) {
  const auto words = text::first_pieces(sql, text::Dialect::sqlite, 1, true);
  return words.empty() || words[0] == "commit" || words[0] == "end" || words[0] == "release";
}

}  // namespace

HranaClient::HranaClient(Options options)
    : options_(std::move(options)),
      host_(place_of(options_.url).host),
      connection_("the server at " + host_, {place_of(options_.url).address},
                  sources::TlsSettings{place_of(options_.url).tls, options_.ca_file, {}, {}}) {}

HranaClient::~HranaClient() { close(); }

HranaRows HranaClient::execute(const std::string& sql, const std::vector<HranaValue>& parameters) {
  json::array arguments;
  for (const HranaValue& value : parameters) arguments.push_back(sent(value));
  json::object statement{{"sql", sql}, {"args", std::move(arguments)}, {"want_rows", true}};
  const json::value answer = pipeline({{"type", "execute"}, {"stmt", std::move(statement)}},
                                      !open() || commits(sql), options_.timeout);
  return rows_of(sources::value_at(answer, "result"));
}

void HranaClient::close() noexcept {
  if (!open()) return;
  try {
    pipeline({{"type", "close"}}, false, close_wait);
  } catch (const std::exception&) {
    // The server rolls back an open transaction after a timeout.
  }
  baton_.clear();
}

// Sends a pipeline with one request and returns its response. Afterwards baton_ has what the server
// keeps; after any status but 200 that is nothing.
json::value HranaClient::pipeline(json::object request, bool may_commit,
                                  std::chrono::milliseconds timeout) {
  json::object body{{"requests", json::array{std::move(request)}}};
  if (open()) body["baton"] = baton_;
  baton_.clear();
  const Answer answer = post(json::serialize(body), may_commit, timeout);
  if (answer.status != 200) fail(answer.body);
  baton_ = sources::text_at(answer.body, "baton");
  const json::value& results = sources::value_at(answer.body, "results");
  if (!results.is_array() || results.get_array().size() != 1)
    throw DatabaseError("the server's answer is no pipeline's: results are missing");
  const json::value& result = results.get_array().front();
  const std::string type = sources::text_at(result, "type");
  if (type == "error") fail(sources::value_at(result, "error"));
  if (type != "ok") throw DatabaseError("the server's answer is neither a result nor an error");
  return sources::value_at(result, "response");
}

HranaClient::Answer HranaClient::post(const std::string& body, bool may_commit,
                                      std::chrono::milliseconds timeout) {
  const auto now = std::chrono::steady_clock::now();
  if (connection_.is_open() && now - used_ > idle_max) connection_.close();
  if (connection_.is_open()) connection_.set_deadline(now + timeout);
  else connection_.open(now + timeout);
  http::request<http::string_body> request(http::verb::post, "/v2/pipeline", 11);
  request.set(http::field::host, host_);
  request.set(http::field::user_agent, "termgate");
  request.set(http::field::content_type, "application/json");
  if (!options_.token.empty()) request.set(http::field::authorization, "Bearer " + options_.token);
  if (!options_.scope.empty()) request.set("Termgate-Scope", sources::path_segment(options_.scope));
  if (options_.term > 0) request.set("Termgate-Term", std::to_string(options_.term));
  request.body() = body;
  request.prepare_payload();
  boost::system::error_code error;
  const auto give_up = [&](const std::string& why) {
    connection_.close();
    if (may_commit)
      throw OutcomeUnknown(fmt::format(
          "{} did not answer: {}; whether the statement committed is not known", host_, why));
    throw Unavailable(
        fmt::format("{} did not answer: {}; its transaction is rolled back", host_, why));
  };
  http::write(connection_, request, error);
  if (error) give_up(error.message());
  http::response_parser<http::string_body> parser;
  parser.body_limit(answer_bytes_max);
  boost::beast::flat_buffer buffer;
  http::read(connection_, buffer, parser, error);
  if (error) give_up(error.message());
  used_ = std::chrono::steady_clock::now();
  if (!parser.get().keep_alive()) connection_.close();
  Answer answer{parser.get().result_int(), nullptr};
  if (auto read = sources::json_of(parser.get().body())) answer.body = *std::move(read);
  else if (answer.status == 200) give_up("its answer is not JSON");
  // Probably the page of a load balancer, or a server of another kind.
  if (answer.status != 200 && sources::text_at(answer.body, "message").empty()) {
    if (answer.status >= 500) give_up(fmt::format("status {} and no reason", answer.status));
    const std::string why = fmt::format(
        "{} answered with status {} and no reason: is it a libSQL server?", host_, answer.status);
    answer.body = json::object{{"message", why}, {"code", fmt::format("HTTP_{}", answer.status)}};
  }
  return answer;
}

}  // namespace termgate::cli
