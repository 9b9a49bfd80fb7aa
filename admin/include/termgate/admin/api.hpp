// What `termgate admin` answers, without a socket: a request goes in, a reply comes out. docs/reference/admin-api.yaml describes every
// path.
//
// Any thread may call answer() and overview(). Terms and ids are strings in JSON: a browser's numbers end at 2^53.
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
  bool events = false;    // what comes is the stream of events; body is empty
  std::string note = {};  // for the log: who, and what was refused or changed
};

struct ApiOptions {
  std::vector<std::string> hosts;  // names that requests may use beside the loopback's; "*": any
  bool open_leader = false;        // /leader without a token
  bool open_metrics = false;
  bool redirect_leader = false;
  std::function<std::string(std::string)> hide = {};  // takes passwords out of an error's text
  std::string where;                                  // which database it is, for the page: host and name, without a secret
  // Asked first, after the checks of Host and Origin: what another part of the process answers (the proxy's own paths). None: this one
  // does.
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

  Reply answer(const Request& request);
  // From the next request on. Open event streams of a token that is gone end within a look.
  void use(Tokens tokens);
  // Whether this token may read now; what keeps an event stream open.
  bool may_read(const std::string& authorization) const;
  // Leases, fences, jobs, followers and the last of the audit, as one JSON document; what the page shows and the events bring. Throws what
  // Database throws.
  std::string overview();
  // The same in two parts, for who wants to know whether anything but the clock has changed: {"now_ms": …, and the rest.
  std::pair<std::string, std::string> overview_and_clock();
  // {"error": …} of an exception, and its status.
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

  mutable std::mutex tokens_mutex_;  // guards what follows
  std::shared_ptr<const Tokens> tokens_;
  const ApiOptions options_;
};

// A request's path, in parts that are decoded one by one: a %2F in a scope is a letter of the scope. None: malformed.
std::optional<std::vector<std::string>> path_parts(std::string_view path);
// The query's names and values, decoded. None: malformed, or a name that is there twice.
std::optional<std::vector<std::pair<std::string, std::string>>> query_parts(std::string_view query);

}  // namespace termgate::admin
