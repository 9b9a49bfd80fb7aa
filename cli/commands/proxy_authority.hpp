// The proxy's rules and fences, as its sockets ask for them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <termgate/net/log.hpp>
#include <termgate/conversation/authority.hpp>

namespace termgate::cli {

struct AuthoritySettings {
  std::string rules_path;   // empty: no rules
  std::string backend_url;  // with the proxy's own credentials
  std::string schema;
  conversation::WithoutTerm without_term = conversation::WithoutTerm::read_only;
  conversation::Enforce enforce = conversation::Enforce::on;
  bool replication = false;
  int seat_checks = conversation::SeatOffer().checks;
  std::size_t watched_databases_max = 20;  // beside the one that backend_url names
};

// Throws InvalidInput where the rules are wrong. `log` must outlive it.
std::unique_ptr<conversation::Authority> make_authority(const AuthoritySettings& settings, net::Log& log);

}  // namespace termgate::cli
