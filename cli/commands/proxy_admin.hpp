// The API and page of `termgate admin`, which the proxy serves at its --http address if it has
// --tokens.
#pragma once

#include <memory>
#include <string>

#include <termgate/http/tokens.hpp>
#include <termgate/net/log.hpp>
#include <termgate/net/server.hpp>

namespace termgate::cli {

struct ProxyAdminSettings {
  net::HttpOptions http;
  std::string tokens_path;
  std::string backend_url;  // has the proxy's own credentials
  std::string schema;
};

class ProxyAdmin {
 public:
  // Reads the tokens and listens. `server` and `log` must outlive it. Throws UsageError and
  // std::runtime_error.
  ProxyAdmin(ProxyAdminSettings settings, net::Server& server, net::Log& log);
  ~ProxyAdmin();
  ProxyAdmin(const ProxyAdmin&) = delete;
  ProxyAdmin& operator=(const ProxyAdmin&) = delete;

  // A reload replaces the tokens in two steps, so that it applies everything or nothing. The first
  // step throws UsageError if the file is wrong.
  http::Tokens read_tokens() const;
  void use(http::Tokens tokens);
  std::string address() const;

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::cli
