// Creates the proxy's authority: its rules and its knowledge of fences.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <termgate/net/log.hpp>
#include <termgate/conversation/authority.hpp>

namespace termgate::cli {

struct AuthoritySettings {
  std::string rules_path;   // empty: no rules
  std::string backend_url;  // has the proxy's own credentials
  std::string schema;
  conversation::WithoutTerm without_term = conversation::WithoutTerm::read_only;
  conversation::Enforce enforce = conversation::Enforce::on;
  bool replication = false;
  int seat_checks = conversation::SeatOffer().checks;
  // Databases watched in addition to the one in backend_url.
  std::size_t watched_databases_max = 20;
};

// Throws InvalidInput if the rules are invalid. `log` must outlive the result.
std::unique_ptr<conversation::Authority> make_authority(const AuthoritySettings& settings,
                                                        net::Log& log);

}  // namespace termgate::cli
