// Each scope has one key, PREFIX/SCOPE. Its value is the owner, and a session with a TTL locks it.
// The term is the key's ModifyIndex right after it was locked: the index of Consul's Raft log,
// which grows with every change of the catalogue or of any key, so no two locks of a key share it.
// LockIndex would not do: it counts the locks of one key and starts again at 1 once the key has
// been deleted. A foreign write to the key between lock and read makes the term higher, never
// lower, and it is still lower than the next lock's.
//
// The index restarts only with the data: a new data directory, or a restored snapshot. Terms
// that are issued after that may be below the fence, and the database refuses them.
#include <termgate/sources/consul.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/sources/http.hpp>

namespace termgate::sources {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

// The key of a scope, below the prefix. Consul redirects a path that contains "//", "." or "..",
// even escaped, to another key, and refuses unprintable characters. So these are escaped within the
// key itself. Two scopes never share a key.
std::string key_name(const std::string& scope) {
  std::string name;
  const bool dots = scope == "." || scope == "..";
  for (const char c : scope) {
    if (c < ' ' || c > '~' || c == '/' || c == '%' || (dots && c == '.'))
      name += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else name += c;
  }
  return name;
}

bool clean_path(std::string_view path) {
  for (std::size_t at = 0; at <= path.size();) {
    const auto end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    at = end + 1;
  }
  return true;
}

class Consul final : public LeaseSource {
 public:
  explicit Consul(const SourceUrl& url)
      : token_(url.password()),
        prefix_(url.option("prefix", "termgate")),
        timeout_(url.timeout()),
        service_(url.name(8500), hosts_of(url), TlsSettings::of(url, url.scheme == "consuls")) {
    url.allow({"password-file", "ca-file", "cert-file", "key-file", "prefix"});
    if (!url.path.empty() && url.path != "/")
      throw InvalidInput("TG005 the URL of the term source: consul has no path; use ?prefix=");
    if (!url.user.empty())
      throw InvalidInput(
          "TG005 the URL of the term source: consul has no users; put its token into "
          "?password-file=");
    if (!clean_path(prefix_))
      throw InvalidInput(
          "TG005 the URL of the term source: prefix must not have an empty part, . or ..");
  }

  std::string name() const override { return service_.name(); }

  std::optional<SourceLease> try_acquire(const Scope& scope, const std::string& owner,
                                         milliseconds ttl) override {
    const Deadline deadline = deadline_for(ttl);
    const std::string key = key_of(scope);
    if (const auto held = look(key, deadline); held && !held->session.empty()) {
      if (held->value != base64(owner)) return std::nullopt;
      end_session(held->session, deadline);
    }
    // The bounds that Consul allows. A session may last longer than its TTL, never shorter.
    const auto seconds = std::clamp<std::int64_t>((ttl.count() + 999) / 1000, 10, 86'400);
    const json::object wanted{
        {"Name", "termgate " + shown(scope.name())},
        {"TTL", fmt::format("{}s", seconds)},
        {"LockDelay", "0s"},  // the fence protects against late writes, so no delay is needed
        {"Behavior", "release"}};
    const HttpAnswer created = call("PUT", "/v1/session/create", json::serialize(wanted), deadline);
    const std::string session = text_at(created.body, "ID");
    if (session.empty() || path_segment(session) != session) throw strange("session/create");
    const HttpAnswer locked = call("PUT", key + "?acquire=" + session, owner, deadline);
    if (!locked.body.is_bool()) throw strange("kv?acquire");
    const auto held = locked.body.get_bool() ? look(key, deadline) : std::nullopt;
    if (!held || held->session != session) {
      end_session(session, deadline);
      return std::nullopt;
    }
    if (held->index < 1 || held->index > Term::max_value) throw strange("kv");
    return SourceLease{Term(held->index), session};
  }

  bool renew(const Scope& scope, const SourceLease& lease, const std::string&,
             milliseconds ttl) override {
    const Deadline deadline = deadline_for(ttl);
    const HttpAnswer renewed = call("PUT", "/v1/session/renew/" + lease.handle, "", deadline, true);
    if (renewed.status == 404) return false;
    const auto held = look(key_of(scope), deadline);
    return held && held->session == lease.handle;
  }

  bool release(const Scope& scope, const SourceLease& lease, const std::string&) override {
    const Deadline deadline = std::chrono::steady_clock::now() + timeout_;
    const auto held = look(key_of(scope), deadline);
    const bool was_ours = held && held->session == lease.handle;
    end_session(lease.handle, deadline);
    return was_ours;
  }

 private:
  struct Held {
    std::string value, session;
    std::int64_t index;
  };

  static std::vector<HostPort> hosts_of(const SourceUrl& url) {
    if (url.hosts.empty())
      throw InvalidInput("TG005 the URL of the term source: consul needs the host of an agent");
    std::vector<HostPort> hosts = url.hosts;
    for (HostPort& one : hosts) {
      if (one.port == 0) one.port = 8500;
    }
    return hosts;
  }
  std::string key_of(const Scope& scope) const {
    return "/v1/kv/" + path_segment(prefix_) + "/" + path_segment(key_name(scope.name()));
  }
  Deadline deadline_for(milliseconds ttl) const {
    return std::chrono::steady_clock::now() + std::min(timeout_, ttl / 3);
  }
  OutcomeUnknown strange(std::string_view what) const {
    return OutcomeUnknown(
        fmt::format("{} answered {} with something that Consul's API does not have", name(), what));
  }

  // Reads with consistency "consistent": the leader confirms with a quorum that it still leads.
  std::optional<Held> look(const std::string& key, Deadline deadline) {
    const HttpAnswer answer = call("GET", key + "?consistent", "", deadline, true);
    if (answer.status == 404) return std::nullopt;
    if (!answer.body.is_array() || answer.body.get_array().empty()) throw strange("kv");
    const json::value& one = answer.body.get_array()[0];
    const auto index = integer_at(one, "ModifyIndex");
    if (!index) throw strange("kv");
    return Held{text_at(one, "Value"), text_at(one, "Session"), *index};
  }
  void end_session(const std::string& session, Deadline deadline) {
    if (path_segment(session) != session) throw strange("kv");
    call("PUT", "/v1/session/destroy/" + session, "", deadline);
  }

  HttpAnswer call(std::string_view method, const std::string& target, const std::string& body,
                  Deadline deadline, bool may_miss = false) {
    HttpService::Request request{method, target, body, {}};
    if (!token_.empty()) request.headers.emplace_back("X-Consul-Token", token_);
    HttpAnswer answer = service_.call(request, deadline);
    if (answer.status == 200 || (may_miss && answer.status == 404)) return answer;
    const std::string why =
        fmt::format("{} answered {} {} with status {}: {}", name(), method, target, answer.status,
                    shown(text_at(answer.body, "message")));
    if (answer.status >= 500) throw OutcomeUnknown(why);
    throw DatabaseError(why);
  }

  const std::string token_, prefix_;
  const milliseconds timeout_;
  HttpService service_;
};

}  // namespace

std::unique_ptr<LeaseSource> open_consul(const SourceUrl& url) {
  return std::make_unique<Consul>(url);
}

}  // namespace termgate::sources
