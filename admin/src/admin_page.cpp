#include "admin_page.hpp"

#include <random>

#include <fmt/format.h>

namespace termgate::admin {

extern const std::string_view page_html;  // generated from page.html

Reply admin_page() {
  std::random_device chance;
  const std::string nonce =
      fmt::format("{:08x}{:08x}{:08x}{:08x}", chance(), chance(), chance(), chance());
  Reply reply;
  reply.type = "text/html; charset=utf-8";
  reply.body = page_html;
  constexpr std::string_view place = "@nonce@";
  for (auto at = reply.body.find(place); at != std::string::npos; at = reply.body.find(place, at))
    reply.body.replace(at, place.size(), nonce);
  reply.headers.emplace_back(
      "Content-Security-Policy",
      fmt::format("default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src "
                  "'self'; img-src "
                  "'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                  nonce));
  reply.headers.emplace_back("X-Frame-Options", "DENY");
  return reply;
}

}  // namespace termgate::admin
