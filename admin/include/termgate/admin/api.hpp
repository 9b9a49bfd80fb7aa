// The answers of `termgate admin`, without a socket: a request goes in, a reply comes out.
// docs/reference/admin-api.yaml describes every path.
//
// Any thread may call it. Terms and ids are strings in JSON, because a browser's numbers are exact
// only up to 2^53.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/http/tokens.hpp>

#include <termgate/admin/metrics.hpp>
#include <termgate/admin/scopes.hpp>

namespace termgate::admin {

using http::Caller;
using http::Level;
using http::Tokens;

struct Request {
  std::string method, target, host;
  std::string authorization, origin, fetch_site, content_type;
  std::string body;
};

struct Reply {
  unsigned status = 200;
  std::string body;
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  bool events = false;    // the reply is the stream of events; body is empty
  std::string note = {};  // for the log: who, and what was refused or changed
};

struct ApiOptions {
  std::vector<std::string>
      hosts;  // host names that requests may use besides the loopback names; "*": any
  bool open_leader = false;  // /leader needs no token
  bool open_metrics = false;
  bool redirect_leader = false;  // /leader redirects (307) to the holder's endpoint, if it is a URL
  std::function<std::string(std::string)> hide = {};  // removes passwords from an error's text
  std::string where;  // the database, for the page: host and name, without a secret
  // Called first, after the checks of Host and Origin, for the paths of another part of the process
  // (the proxy). nullopt: the Api answers.
  std::function<std::optional<Reply>(const Request&)> first = {};
};

class Api {
 public:
  Api(Database database, Tokens tokens, ApiOptions options)
      : database_(database),
        scopes_(database),
        metrics_(std::move(database), scopes_),
        tokens_(std::make_shared<const Tokens>(std::move(tokens))),
        options_(std::move(options)) {}

  // Blocks while it uses the database. Errors become replies.
  Reply answer(const Request& request);
  // Used from the next request on. The event streams of a token that is gone end instead of their
  // next event, or of the sign of life that comes after 15 s without one.
  void use(Tokens tokens);
  // Whether this token may read now, which an event stream needs to stay open.
  bool may_read(const std::string& authorization) const;
  // Leases, fences, hand-overs, jobs, followers and the newest audit entries as one JSON document,
  // for the page and the events. Throws what Database throws.
  std::string overview();
  // The same in two parts, so that a caller can see whether anything but the clock has changed:
  // {"now_ms": …, and the rest.
  std::pair<std::string, std::string> overview_and_clock();
  // The reply for an exception: {"error": …} and the status.
  Reply failure(const std::exception& error) const;

 private:
  struct Call;
  Reply route(const Call& call);
  Reply leases(const Call& call);
  Reply scopes_or_fences(const Call& call);
  Reply jobs(const Call& call);
  Reply change_job(const Call& call);
  Reply request_job(const Call& call);
  Reply audit(const Call& call);
  Reply lease(const Call& call);
  Reply hand_over(const Call& call, const Scope& scope);
  Reply change(const Call& call);
  Reply leader(const Call& call);

  Database database_;
  ScopeBook scopes_;
  DatabaseMetrics metrics_;
  std::shared_ptr<const Tokens> tokens() const;

  mutable std::mutex tokens_mutex_;  // guards tokens_
  std::shared_ptr<const Tokens> tokens_;
  const ApiOptions options_;
};

// The parts of a request's path, each decoded by itself: a %2F in a scope is part of the scope's
// name. nullopt: malformed.
std::optional<std::vector<std::string>> path_parts(std::string_view path);
// The query's names and values, decoded. nullopt: malformed, or a name that appears twice.
std::optional<std::vector<std::pair<std::string, std::string>>> query_parts(std::string_view query);

}  // namespace termgate::admin
