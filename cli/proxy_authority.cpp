#include "proxy_authority.hpp"

#include <termgate/authority/authority.hpp>

namespace termgate::cli {
namespace {

// A client's connection, as the leases look at it.
class Seen final : public authority::Presence {
 public:
  explicit Seen(std::shared_ptr<net::Presence> connection) : connection_(std::move(connection)) {}
  bool open() const override { return connection_->open(); }
  std::chrono::milliseconds silent_for() const override { return connection_->silent_for(); }
  void ask_within(std::chrono::milliseconds bound) override { connection_->ask_within(bound); }

 private:
  const std::shared_ptr<net::Presence> connection_;
};

class ProxyAuthority final : public net::Authority {
 public:
  explicit ProxyAuthority(authority::Settings settings) : rules_(std::move(settings)) {}

  session::Admission admit(std::uint64_t session, const net::Arrival& arrival) override {
    return rules_.admit(session, {{arrival.listener, arrival.client_host, arrival.applicant}, std::make_shared<Seen>(arrival.presence)});
  }
  void established(std::uint64_t session, std::function<void()> settled) override { rules_.established(session, std::move(settled)); }
  void ended(std::uint64_t session) override { rules_.ended(session); }

  std::int64_t highest_fence(std::string_view scope) const override { return rules_.highest_fence(scope); }
  void saw_fence(std::string_view scope, std::int64_t fence) override { rules_.saw_fence(scope, fence); }
  void happened(const session::Incident& incident) override {
    if (incident.kind == session::Incident::Kind::refused && incident.code == "TG001") rules_.refused(incident.scope, incident.term);
  }
  void subscribe(std::function<void(std::string_view, std::int64_t)> callback) override { rules_.subscribe(std::move(callback)); }

  bool leads(std::string_view scope) override { return rules_.leader(scope); }
  std::int64_t leases_held() const override { return rules_.leases_held(); }
  std::string reload() override { return rules_.reload(); }

 private:
  authority::Authority rules_;
};

}  // namespace

std::unique_ptr<net::Authority> make_authority(const AuthoritySettings& settings, net::Log& log) {
  authority::Settings chosen;
  chosen.rules_path = settings.rules_path;
  chosen.database_url = settings.backend_url;
  chosen.schema = settings.schema;
  chosen.without_term = settings.without_term;
  chosen.enforce = settings.enforce;
  chosen.replication = settings.replication;
  chosen.log = [&log](std::string_view message) { log.say_seldom(message, net::LogLevel::info, "authority", {{"message", message}}); };
  return std::make_unique<ProxyAuthority>(std::move(chosen));
}

}  // namespace termgate::cli
