#include "commands/proxy_authority.hpp"

#include <termgate/authority/authority.hpp>
#ifdef TERMGATE_WITH_SOURCES
#include <termgate/sources.hpp>
#endif

namespace termgate::cli {

std::unique_ptr<conversation::Authority> make_authority(const AuthoritySettings& settings,
                                                        net::Log& log) {
  authority::Settings chosen;
  chosen.rules_path = settings.rules_path;
  chosen.database_url = settings.backend_url;
  chosen.schema = settings.schema;
  chosen.without_term = settings.without_term;
  chosen.enforce = settings.enforce;
  chosen.replication = settings.replication;
  chosen.seat_checks = settings.seat_checks;
  chosen.watched_databases_max = settings.watched_databases_max;
#ifdef TERMGATE_WITH_SOURCES
  chosen.open_source = [](const std::string& url) { return open_lease_source(url); };
#endif
  chosen.log = [&log](authority::Settings::Weight weight, std::string_view message) {
    using Weight = authority::Settings::Weight;
    const auto level = weight == Weight::error     ? net::LogLevel::error
                       : weight == Weight::warning ? net::LogLevel::warning
                                                   : net::LogLevel::info;
    log.say_seldom(message, level, "authority", {{"message", message}});
  };
  return std::make_unique<authority::Authority>(std::move(chosen));
}

}  // namespace termgate::cli
