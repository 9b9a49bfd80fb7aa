// Requests to `termgate admin` and its file of tokens: whatever comes, nobody without a token reads
// or changes anything, and every answer is one of HTTP's.
//
// Input: a line each of method, target, Authorization, Host, Origin and Content-Type; the rest is
// the body. "R", "L" and "O" as Authorization stand for good tokens of the three levels.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <termgate/admin/api.hpp>
#include <termgate/operator.hpp>

using namespace termgate::admin;

namespace {

const std::string read_token(20, 'r'), lead_token(20, 'l'), operate_token(20, 'o');

Api& api() {
  static Api one = [] {
    auto database = termgate::Database::open("sqlite::memory:");
    termgate::Operator(database).install();
    database.try_acquire_lease(termgate::Scope("held"), std::chrono::hours(1), {.owner = "owner"});
    return Api(database,
               Tokens::from_text("a read " + read_token + "\nb lead " + lead_token +
                                     "\nc operate " + operate_token,
                                 "tokens"),
               ApiOptions{});
  }();
  return one;
}

std::string line(std::string_view& text) {
  const auto end = text.find('\n');
  std::string first(text.substr(0, end));
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return first;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    Tokens::from_text(text, "tokens");
  } catch (const termgate::http::BadTokens&) {}
  Request request;
  request.method = line(text);
  request.target = line(text);
  const std::string authorization = line(text);
  request.authorization = authorization == "R"   ? "Bearer " + read_token
                          : authorization == "L" ? "Bearer " + lead_token
                          : authorization == "O" ? "Bearer " + operate_token
                                                 : authorization;
  request.host = line(text);
  request.origin = line(text);
  request.content_type = line(text);
  request.body = text;
  const Reply reply = api().answer(request);
  if (reply.status < 200 || reply.status > 599) std::abort();
  const bool known = authorization == "R" || authorization == "L" || authorization == "O" ||
                     request.authorization.find(read_token) != std::string::npos ||
                     request.authorization.find(lead_token) != std::string::npos ||
                     request.authorization.find(operate_token) != std::string::npos;
  // The page and /healthz alone.
  if (!known && reply.status < 400 && reply.type == "application/json") std::abort();
  if (!known && reply.events) std::abort();
  if (authorization == "R" && request.method != "GET" && reply.status < 400) std::abort();
  for (const auto& [name, value] : reply.headers) {
    if (value.find('\n') != std::string::npos || value.find('\r') != std::string::npos)
      std::abort();
  }
  return 0;
}
