// Each scope has one Lease object. The term is spec.leaseTransitions after the acquisition, which
// raises it by one. Every change names the metadata.resourceVersion that it is based on, and the
// API server refuses it (409) if another change came first. So no two acquisitions share a count,
// and a later one has a higher one, for as long as it is the same object, which metadata.uid shows:
// a Lease that was deleted and created again counts from 1. A process that has seen another uid
// refuses it; for all others the fence does.
//
// The server does not expire leases. A candidate takes over a lease that it has seen unchanged for
// its leaseDurationSeconds, by its own clock.
#include <termgate/sources/kubernetes.hpp>

#include <openssl/evp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/sources/http.hpp>

namespace termgate::sources {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr const char* account = "/var/run/secrets/kubernetes.io/serviceaccount";

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

// The current time in the API's format, MicroTime.
std::string now_text() {
  const auto now =
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  const auto whole = std::chrono::floor<std::chrono::seconds>(now);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(whole)),
                     (now - whole).count());
}

// The name of an object must be a DNS name of at most 253 characters.
std::string object_name(const std::string& prefix, const std::string& scope) {
  const bool plain = scope.size() <= 100 && scope.front() != '-' && scope.back() != '-' &&
                     std::all_of(scope.begin(), scope.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
                     });
  if (plain) return prefix + "-s-" + scope;
  unsigned char digest[32];
  unsigned int length = 0;
  EVP_Digest(scope.data(), scope.size(), digest, &length, EVP_sha256(), nullptr);
  std::string name = prefix + "-h-";
  for (unsigned int i = 0; i < length; ++i) name += fmt::format("{:02x}", digest[i]);
  return name;
}

class Kubernetes final : public LeaseSource {
 public:
  explicit Kubernetes(const SourceUrl& url)
      : prefix_(url.option("prefix", "termgate")),
        timeout_(url.timeout()),
        inside_(url.hosts.empty()),
        token_file_(
            url.option("password-file", inside_ ? std::string(account) + "/token" : std::string())),
        namespace_(url.path.size() > 1 ? url.path.substr(1)
                   : inside_           ? content_of(std::string(account) + "/namespace")
                                       : std::string()),
        url_(url),
        service_(name_of(url), hosts_of(url), tls_of(url)) {
    url.allow({"password-file", "ca-file", "cert-file", "key-file", "prefix", "tls"});
    if (namespace_.empty() || path_segment(namespace_) != namespace_)
      throw InvalidInput(
          "TG005 the URL of the term source: name the namespace, kubernetes://HOST/NAMESPACE or "
          "kubernetes:///NAMESPACE");
    if (!url.user.empty())
      throw InvalidInput(
          "TG005 the URL of the term source: kubernetes has no users; put a token into "
          "?password-file=");
    if (prefix_.empty() || prefix_.size() > 50 || object_name("x", prefix_) != "x-s-" + prefix_)
      throw InvalidInput(
          "TG005 the URL of the term source: prefix must be 1 to 50 of a-z, 0-9 and -");
  }

  std::string name() const override { return service_.name(); }

  std::optional<SourceLease> try_acquire(const Scope& scope, const std::string& owner,
                                         milliseconds ttl) override {
    const Deadline deadline = deadline_for(ttl);
    const auto found = look(scope, deadline);
    if (!found) return create(scope, owner, ttl, deadline);
    if (!found->holder.empty() && found->holder != owner && !is_over(scope, *found))
      return std::nullopt;
    if (found->transitions >= 2'147'483'647)
      throw DatabaseError(
          fmt::format("{}: leaseTransitions of {} cannot grow any more: 32 bits hold it", name(),
                      object(scope)));
    json::object spec = spec_of(owner, ttl, found->transitions + 1);
    spec["acquireTime"] = spec["renewTime"];
    const auto changed = change(scope, *found, std::move(spec), deadline);
    if (!changed) return std::nullopt;
    return lease_of(*changed);
  }

  bool renew(const Scope& scope, const SourceLease& lease, const std::string& owner,
             milliseconds ttl) override {
    const Deadline deadline = deadline_for(ttl);
    // Somebody else's change of a label is no reason to lose the lease.
    for (int attempt = 0; attempt < 3; ++attempt) {
      const auto found = look(scope, deadline);
      if (!found || !is_ours(*found, lease, owner)) return false;
      json::object spec = found->spec;
      spec["renewTime"] = now_text();
      spec["leaseDurationSeconds"] = seconds_of(ttl);
      if (change(scope, *found, std::move(spec), deadline)) return true;
    }
    throw Unavailable(fmt::format(
        "{}: {} was changed by others three times while it was renewed; it was not renewed", name(),
        object(scope)));
  }

  bool release(const Scope& scope, const SourceLease& lease, const std::string& owner) override {
    const Deadline deadline = std::chrono::steady_clock::now() + timeout_;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const auto found = look(scope, deadline);
      if (!found || !is_ours(*found, lease, owner)) return false;
      json::object spec = found->spec;
      spec["holderIdentity"] = "";
      spec["leaseDurationSeconds"] = 1;
      spec["renewTime"] = now_text();
      if (change(scope, *found, std::move(spec), deadline)) return true;
    }
    throw Unavailable(fmt::format(
        "{}: {} was changed by others three times while it was released; it was not released",
        name(), object(scope)));
  }

 private:
  struct Object {
    std::string uid, version, holder;
    std::int64_t transitions, duration;
    json::object metadata, spec;
  };
  struct Seen {
    std::string uid, version;
    std::chrono::steady_clock::time_point since;
  };

  static std::string name_of(const SourceUrl& url) {
    return url.hosts.empty() ? "kubernetes://(this cluster)" : url.name(443);
  }
  static std::vector<HostPort> hosts_of(const SourceUrl& url) {
    std::vector<HostPort> hosts = url.hosts;
    if (hosts.empty()) {
      const char *host = std::getenv("KUBERNETES_SERVICE_HOST"),
                 *port = std::getenv("KUBERNETES_SERVICE_PORT");
      if (host == nullptr)
        throw InvalidInput(
            "TG005 the URL of the term source: kubernetes:/// works in a pod only "
            "(KUBERNETES_SERVICE_HOST is not set); name a host");
      hosts.push_back({host, static_cast<std::uint16_t>(port == nullptr ? 443 : std::atoi(port))});
    }
    for (HostPort& one : hosts) {
      if (one.port == 0) one.port = 443;
    }
    return hosts;
  }
  static TlsSettings tls_of(const SourceUrl& url) {
    const std::string wanted = url.option("tls", "on");
    if (wanted != "on" && wanted != "off")
      throw InvalidInput("TG005 the URL of the term source: tls is on or off");
    TlsSettings tls = TlsSettings::of(url, wanted == "on");
    if (url.hosts.empty() && tls.on && tls.ca_file.empty())
      tls.ca_file = std::string(account) + "/ca.crt";
    return tls;
  }
  Deadline deadline_for(milliseconds ttl) const {
    return std::chrono::steady_clock::now() + std::min(timeout_, ttl / 3);
  }
  static std::int64_t seconds_of(milliseconds ttl) { return (ttl.count() + 999) / 1000; }

  static json::object spec_of(const std::string& owner, milliseconds ttl,
                              std::int64_t transitions) {
    return {{"holderIdentity", owner},
            {"leaseDurationSeconds", seconds_of(ttl)},
            {"renewTime", now_text()},
            {"leaseTransitions", transitions}};
  }
  static SourceLease lease_of(const Object& object) {
    return SourceLease{Term(object.transitions), {}, "uid " + shown(object.uid)};
  }
  static bool is_ours(const Object& found, const SourceLease& lease, const std::string& owner) {
    return found.holder == owner && found.transitions == lease.term.value() &&
           "uid " + shown(found.uid) == lease.identity;
  }

  // Measured by this process's clock, from when it first saw the object in this version: the clocks
  // of two machines are never compared.
  bool is_over(const Scope& scope, const Object& found) {
    const auto now = std::chrono::steady_clock::now();
    Seen& seen = seen_[scope.name()];
    if (seen.uid != found.uid || seen.version != found.version) {
      seen = {found.uid, found.version, now};
      return false;
    }
    return now - seen.since >= std::chrono::seconds(found.duration);
  }

  std::string collection() const {
    return "/apis/coordination.k8s.io/v1/namespaces/" + namespace_ + "/leases";
  }
  std::string object(const Scope& scope) const { return object_name(prefix_, scope.name()); }

  std::optional<Object> look(const Scope& scope, Deadline deadline) {
    const HttpAnswer answer = call("GET", collection() + "/" + object(scope), {}, deadline);
    if (answer.status == 404) return std::nullopt;
    return object_of(answer);
  }
  // None: somebody else has created it.
  std::optional<SourceLease> create(const Scope& scope, const std::string& owner, milliseconds ttl,
                                    Deadline deadline) {
    json::object spec = spec_of(owner, ttl, 1);
    spec["acquireTime"] = spec["renewTime"];
    const json::object wanted{{"apiVersion", "coordination.k8s.io/v1"},
                              {"kind", "Lease"},
                              {"metadata",
                               {{"name", object(scope)},
                                {"namespace", namespace_},
                                {"annotations", {{"termgate.dev/scope", scope.name()}}}}},
                              {"spec", std::move(spec)}};
    const HttpAnswer answer = call("POST", collection(), json::serialize(wanted), deadline);
    if (answer.status == 409) return std::nullopt;
    return lease_of(object_of(answer));
  }
  // None: another change came first.
  std::optional<Object> change(const Scope& scope, const Object& from, json::object spec,
                               Deadline deadline) {
    // The metadata contains the resourceVersion, which makes the server refuse a change that came
    // second.
    const json::object wanted{{"apiVersion", "coordination.k8s.io/v1"},
                              {"kind", "Lease"},
                              {"metadata", from.metadata},
                              {"spec", std::move(spec)}};
    const HttpAnswer answer =
        call("PUT", collection() + "/" + object(scope), json::serialize(wanted), deadline);
    if (answer.status == 409 || answer.status == 404) return std::nullopt;
    return object_of(answer);
  }
  Object object_of(const HttpAnswer& answer) const {
    const json::value &metadata = value_at(answer.body, "metadata"),
                      &spec = value_at(answer.body, "spec");
    Object found{text_at(metadata, "uid"),
                 text_at(metadata, "resourceVersion"),
                 text_at(spec, "holderIdentity"),
                 integer_at(spec, "leaseTransitions").value_or(0),
                 integer_at(spec, "leaseDurationSeconds").value_or(0),
                 {},
                 {}};
    if (found.uid.empty() || found.version.empty() || !spec.is_object() || found.transitions < 0 ||
        found.duration < 0 || found.duration > 1'000'000'000)
      throw OutcomeUnknown(fmt::format("{} answered with something that is no Lease", name()));
    found.metadata = metadata.get_object();
    found.spec = spec.get_object();
    return found;
  }

  HttpAnswer call(std::string_view method, const std::string& target, const std::string& body,
                  Deadline deadline) {
    HttpService::Request request{method, target, body, {}};
    // Read each time, because the kubelet replaces a pod's token.
    const std::string token = token_file_.empty() ? url_.password() : content_of(token_file_);
    if (token.empty() && !token_file_.empty())
      throw InvalidInput(
          fmt::format("TG005 the token file {} cannot be read or is empty", token_file_));
    if (!token.empty()) request.headers.emplace_back("Authorization", "Bearer " + token);
    HttpAnswer answer = service_.call(request, deadline);
    if (answer.status == 200 || answer.status == 201 || answer.status == 404 ||
        answer.status == 409)
      return answer;
    std::string why = fmt::format("{} answered {} {} with status {}: {}", name(), method, target,
                                  answer.status, shown(text_at(answer.body, "message")));
    if (answer.status == 401 || answer.status == 403)
      why += ". The account needs get, create and update of leases in this namespace";
    if (answer.status >= 500 || answer.status == 429) throw OutcomeUnknown(why);
    throw DatabaseError(why);
  }

  const std::string prefix_;
  const milliseconds timeout_;
  const bool inside_;
  const std::string token_file_, namespace_;
  const SourceUrl url_;
  HttpService service_;
  std::map<std::string, Seen> seen_;
};

}  // namespace

std::unique_ptr<LeaseSource> open_kubernetes(const SourceUrl& url) {
  return std::make_unique<Kubernetes>(url);
}

}  // namespace termgate::sources
