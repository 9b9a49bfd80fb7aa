// The proxy's rules and fences, as its sockets ask for them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <termgate/net/log.hpp>
#include <termgate/session/authority.hpp>

namespace termgate::cli {

struct AuthoritySettings {
  std::string rules_path;   // empty: no rules
  std::string backend_url;  // with the proxy's own credentials
  std::string schema;
  session::WithoutTerm without_term = session::WithoutTerm::read_only;
  session::Enforce enforce = session::Enforce::on;
  bool replication = false;
  int seat_checks = session::SeatOffer().checks;
  std::size_t watched_databases_max = 20;  // beside the one that backend_url names
};

// Throws InvalidInput where the rules are wrong. `log` must outlive it.
std::unique_ptr<session::Authority> make_authority(const AuthoritySettings& settings, net::Log& log);

}  // namespace termgate::cli
