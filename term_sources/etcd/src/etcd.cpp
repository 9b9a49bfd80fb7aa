// Each scope has one key, PREFIX/SCOPE. Its value is the owner, and it is attached to an etcd
// lease. A transaction creates it, on the condition that it does not exist. The term is the
// revision at which it was created: etcd raises its revision with every change of any key, also
// with deletions, and agrees on it by Raft. So no two creations share a revision, and a later one
// has a higher one.
//
// The revision restarts only with the data: a new data directory, or a restored snapshot. Then the
// fence refuses the old terms.
#include <termgate/sources/etcd.hpp>

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

class Etcd final : public LeaseSource {
 public:
  explicit Etcd(const SourceUrl& url)
      : user_(url.user),
        password_(url.password()),
        prefix_(url.option("prefix", "termgate")),
        timeout_(url.timeout()),
        service_(url.name(2379), hosts_of(url), TlsSettings::of(url, url.scheme == "etcds")) {
    url.allow({"password-file", "ca-file", "cert-file", "key-file", "prefix"});
    if (!url.path.empty() && url.path != "/")
      throw InvalidInput("TG005 the URL of the term source: etcd has no path; use ?prefix=");
    if (!user_.empty() && password_.empty())
      throw InvalidInput("TG005 the URL of the term source has a user, but no password was given");
  }

  std::string name() const override { return service_.name(); }

  std::optional<SourceLease> try_acquire(const Scope& scope, const std::string& owner,
                                         milliseconds ttl) override {
    const Deadline deadline = deadline_for(ttl);
    const std::string key = key_of(scope), value = base64(owner);
    // Reads first, so that candidates do not create an etcd lease at every attempt.
    if (const auto held = look(key, deadline)) {
      if (held->value != value) return std::nullopt;
      remove(key, held->created, deadline);
      revoke(held->lease, deadline);
    }
    const auto seconds = (ttl.count() + 999) / 1000;
    const json::value granted =
        call("/v3/lease/grant", {{"TTL", std::to_string(seconds)}}, deadline);
    const auto lease = integer_at(granted, "ID"), length = integer_at(granted, "TTL");
    if (!lease || *lease == 0 || !length || *length < seconds) throw strange("lease/grant");
    const json::value created = call(
        "/v3/kv/txn",
        {{"compare",
          {{{"key", key}, {"target", "CREATE"}, {"result", "EQUAL"}, {"create_revision", "0"}}}},
         {"success",
          {{{"request_put",
             {{"key", key}, {"value", value}, {"lease", std::to_string(*lease)}}}}}}},
        deadline);
    if (!succeeded(created)) {
      revoke(*lease, deadline);
      return std::nullopt;
    }
    const json::value& header = value_at(created, "header");
    const auto revision = integer_at(header, "revision");
    if (!revision || *revision < 1 || *revision > Term::max_value) throw strange("kv/txn");
    return SourceLease{Term(*revision), std::to_string(*lease),
                       "cluster " + shown(text_at(header, "cluster_id"))};
  }

  bool renew(const Scope& scope, const SourceLease& lease, const std::string&,
             milliseconds ttl) override {
    const Deadline deadline = deadline_for(ttl);
    const json::value kept = call("/v3/lease/keepalive", {{"ID", lease.handle}}, deadline);
    // The answer for a lease that has ended has no TTL.
    if (integer_at(value_at(kept, "result"), "TTL").value_or(0) <= 0) return false;
    const auto held = look(key_of(scope), deadline);
    return held && held->created == lease.term.value();
  }

  bool release(const Scope& scope, const SourceLease& lease, const std::string&) override {
    const Deadline deadline = std::chrono::steady_clock::now() + timeout_;
    const bool was_ours = remove(key_of(scope), lease.term.value(), deadline);
    if (was_ours) revoke(std::stoll(lease.handle), deadline);
    return was_ours;
  }

 private:
  struct Held {
    std::string value;
    std::int64_t created, lease;
  };

  static std::vector<HostPort> hosts_of(const SourceUrl& url) {
    if (url.hosts.empty())
      throw InvalidInput("TG005 the URL of the term source: etcd needs a host");
    std::vector<HostPort> hosts = url.hosts;
    for (HostPort& one : hosts) {
      if (one.port == 0) one.port = 2379;
    }
    return hosts;
  }
  std::string key_of(const Scope& scope) const { return base64(prefix_ + "/" + scope.name()); }
  Deadline deadline_for(milliseconds ttl) const {
    return std::chrono::steady_clock::now() + std::min(timeout_, ttl / 3);
  }
  OutcomeUnknown strange(std::string_view what) const {
    return OutcomeUnknown(
        fmt::format("{} answered {} with something that etcd's API does not have", name(), what));
  }
  static bool succeeded(const json::value& answer) {
    const json::value& value = value_at(answer, "succeeded");
    return value.is_bool() && value.get_bool();
  }

  // A linearizable read: the answer of the cluster, not of one member.
  std::optional<Held> look(const std::string& key, Deadline deadline) {
    const json::value answer = call("/v3/kv/range", {{"key", key}}, deadline);
    const json::value& found = value_at(answer, "kvs");
    if (!found.is_array() || found.get_array().empty()) return std::nullopt;
    const json::value& one = found.get_array()[0];
    const auto created = integer_at(one, "create_revision");
    if (!created) throw strange("kv/range");
    return Held{text_at(one, "value"), *created, integer_at(one, "lease").value_or(0)};
  }
  bool remove(const std::string& key, std::int64_t created, Deadline deadline) {
    return succeeded(call("/v3/kv/txn",
                          {{"compare",
                            {{{"key", key},
                              {"target", "CREATE"},
                              {"result", "EQUAL"},
                              {"create_revision", std::to_string(created)}}}},
                           {"success", {{{"request_delete_range", {{"key", key}}}}}}},
                          deadline));
  }
  void revoke(std::int64_t lease, Deadline deadline) {
    if (lease == 0) return;
    try {
      call("/v3/lease/revoke", {{"ID", std::to_string(lease)}}, deadline);
    } catch (const Error&) {}  // the etcd lease has no key, and ends by itself
  }

  json::value call(const char* target, const json::object& body, Deadline deadline) {
    for (int attempt = 0;; ++attempt) {
      HttpService::Request request{"POST", target, json::serialize(body), {}};
      if (!user_.empty()) request.headers.emplace_back("Authorization", token(deadline));
      const HttpAnswer answer = service_.call(request, deadline);
      if (answer.status == 200) return answer.body;
      std::string why = shown(text_at(answer.body, "message"));
      if (why.empty()) why = shown(text_at(answer.body, "error"));
      const bool old_token = why.find("invalid auth token") != std::string::npos ||
                             why.find("revision of auth store is old") != std::string::npos;
      token_.clear();
      if (old_token && attempt == 0 && !user_.empty()) continue;
      // keepalive and revoke return 404 for a lease that has ended.
      if (why.find("requested lease not found") != std::string::npos) return nullptr;
      why = fmt::format("{} answered {} with status {}: {}", name(), target, answer.status, why);
      if (answer.status >= 500) throw OutcomeUnknown(why);
      throw DatabaseError(why);
    }
  }
  const std::string& token(Deadline deadline) {
    if (!token_.empty()) return token_;
    const HttpAnswer answer =
        service_.call({"POST",
                       "/v3/auth/authenticate",
                       json::serialize(json::object{{"name", user_}, {"password", password_}}),
                       {}},
                      deadline);
    token_ = text_at(answer.body, "token");
    if (answer.status != 200 || token_.empty())
      throw DatabaseError(fmt::format("{} refused the user or the password: {}", name(),
                                      shown(text_at(answer.body, "message"))));
    return token_;
  }

  const std::string user_, password_, prefix_;
  const milliseconds timeout_;
  HttpService service_;
  std::string token_;
};

}  // namespace

std::unique_ptr<LeaseSource> open_etcd(const SourceUrl& url) { return std::make_unique<Etcd>(url); }

}  // namespace termgate::sources
