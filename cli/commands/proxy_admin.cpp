#include "commands/proxy_admin.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include <termgate/admin/server.hpp>
#include <termgate/database.hpp>

#include "command.hpp"
#include "secrets.hpp"
#include "support/tokens.hpp"

namespace termgate::cli {
namespace {

using namespace std::chrono_literals;

admin::ServerOptions server_options(const ProxyAdminSettings& settings, net::Log& log) {
  admin::ServerOptions options;
  options.listener.host = settings.http.address.host;
  options.listener.port = settings.http.address.port;
  options.hosts = settings.http.hosts;
  options.log = [&log](const std::string& text) {
    log.say(net::LogLevel::info, "admin", {{"request", text}});
  };
  return options;
}

Database open(const ProxyAdminSettings& settings) {
  OpenOptions options;
  options.schema = settings.schema;
  options.answer_wait = 20s;
  options.connections_max = 8;
  return Database::open(settings.backend_url, options);
}

}  // namespace

class ProxyAdmin::Inside {
 public:
  Inside(ProxyAdminSettings the_settings, net::Server& server, net::Log& log)
      : settings(std::move(the_settings)),
        api(open(settings), cli::read_tokens(settings.tokens_path), api_options(server)),
        http(server_options(settings, log), api) {}

  admin::ApiOptions api_options(net::Server& server) {
    admin::ApiOptions options;
    options.hosts = settings.http.hosts;
    options.hide = [this](std::string text) {
      return without_passwords(std::move(text), {settings.backend_url});
    };
    options.where = place_of(settings.backend_url);
    // The proxy's own paths need no token. A request for /leader with a token goes to the API,
    // which reads the database and so knows every lease, not only the proxy's.
    options.first = [this, &server](const admin::Request& request) -> std::optional<admin::Reply> {
      if (!request.authorization.empty() && request.target.starts_with("/leader"))
        return std::nullopt;
      auto reply = server.answer(request.method, request.target, request.host, settings.http);
      if (!reply) return std::nullopt;
      if (request.method == "HEAD") reply->body.clear();
      return admin::Reply{reply->status, std::move(reply->body), std::move(reply->type)};
    };
    return options;
  }

  const ProxyAdminSettings settings;
  admin::Api api;
  admin::Server http;
};

ProxyAdmin::ProxyAdmin(ProxyAdminSettings settings, net::Server& server, net::Log& log)
    : inside_(std::make_unique<Inside>(std::move(settings), server, log)) {}

ProxyAdmin::~ProxyAdmin() = default;

http::Tokens ProxyAdmin::read_tokens() const {
  return cli::read_tokens(inside_->settings.tokens_path);
}
void ProxyAdmin::use(http::Tokens tokens) { inside_->api.use(std::move(tokens)); }
std::string ProxyAdmin::address() const { return inside_->http.address(); }

}  // namespace termgate::cli
