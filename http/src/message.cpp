#include <termgate/http/message.hpp>

#include <algorithm>

#include <termgate/http/handler.hpp>
#include <termgate/text/ascii.hpp>

namespace termgate::http {
namespace {

// Calls `visit` with each element of a list-valued header, across all its lines, until it returns
// true.
template <typename Visit>
bool any_part(const Head& head, std::string_view name, Visit visit) {
  for (const auto& [header, value] : head.headers) {
    if (!text::same(header, name)) continue;
    std::string_view rest = value;
    for (;;) {
      const auto comma = rest.find(',');
      std::string_view part = rest.substr(0, comma);
      while (!part.empty() && (part.front() == ' ' || part.front() == '\t')) part.remove_prefix(1);
      while (!part.empty() && (part.back() == ' ' || part.back() == '\t')) part.remove_suffix(1);
      if (visit(part)) return true;
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return false;
}

}  // namespace

std::string_view Head::path() const noexcept {
  return std::string_view(target).substr(0, target.find('?'));
}

std::string_view Head::query() const noexcept {
  const auto question = target.find('?');
  return question == std::string::npos ? std::string_view{}
                                       : std::string_view(target).substr(question + 1);
}

std::string_view Head::header(std::string_view name) const noexcept {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const auto& one) { return text::same(one.first, name); });
  return found == headers.end() ? std::string_view{} : std::string_view(found->second);
}

std::size_t Head::count(std::string_view name) const noexcept {
  return static_cast<std::size_t>(
      std::count_if(headers.begin(), headers.end(),
                    [&](const auto& one) { return text::same(one.first, name); }));
}

bool wants_socket(const Head& head) noexcept {
  return head.method == "GET" &&
         any_part(head, "Upgrade",
                  [](std::string_view part) { return text::same(part, "websocket"); }) &&
         any_part(head, "Connection",
                  [](std::string_view part) { return text::same(part, "upgrade"); }) &&
         head.header("Sec-WebSocket-Version") == "13" && head.count("Sec-WebSocket-Key") == 1 &&
         head.header("Sec-WebSocket-Key").size() == 24;
}

Reply Handler::refusal(const Peer&, unsigned status, std::string_view message) {
  Reply reply;
  reply.status = status;
  reply.body = std::string(message) + "\n";
  reply.type = "text/plain; charset=utf-8";
  return reply;
}

}  // namespace termgate::http
