// The operator's rules, as the file of --rules has them (docs/reference/rules.md): who is meant, and where scope and term come from.
// Values; any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <termgate/authority/address.hpp>
#include <termgate/error.hpp>
#include <termgate/scope.hpp>
#include <termgate/conversation/admission.hpp>
#include <termgate/conversation/authority.hpp>
#include <termgate/term.hpp>

namespace termgate::authority {

enum class Takeover { wait, newest };

struct FixedTerm {
  Scope scope;
  std::optional<Term> term;  // none: the client declares it
};
struct FileTerm {
  std::string path;
};
struct LeaseTerm {
  Scope scope;
  std::string url = {};  // of the lock service; empty: the leases of the proxy's own database
  std::chrono::milliseconds ttl{10'000};
  std::string holder = "%client_host";
  Takeover takeover = Takeover::wait;
};

using conversation::ConnectRequest;

struct Rule {
  std::string name;
  std::size_t line = 0;

  // An empty list matches everybody; all that are given must match.
  std::vector<std::string> listeners, users, databases, applications;  // `*` matches any characters
  std::vector<AddressRange> clients;

  std::variant<std::monostate, FixedTerm, FileTerm, LeaseTerm> source;
  bool overridable = false;
  std::optional<conversation::WithoutTerm> without_term;
  std::optional<conversation::Enforce> enforce;
  std::optional<bool> replication;
  std::optional<conversation::OnStale> on_stale;
  std::string refuse;  // not let in, and this is why

  bool matches(const ConnectRequest& request) const;
};

struct Rules {
  std::vector<Rule> all;
  // The first that matches; nullptr: none speaks of this request.
  const Rule* of(const ConnectRequest& request) const;
};

inline constexpr std::size_t rules_bytes_max = 1u << 20;
inline constexpr std::size_t rules_max = 1000;

// What the operator has written is wrong. The message begins with the place, not with a code.
class WrongRules : public InvalidInput {
 public:
  using InvalidInput::InvalidInput;
};

// Throws WrongRules whose message begins with `FILE:LINE: `.
Rules parse_rules(std::string_view text, const std::string& file);
// The same of a file; where it cannot be read the message begins with `FILE: ` and says why.
Rules read_rules(const std::string& path);

// The holder's name for a request: %client_host, %user, %database, %application_name, %listener, and %% for one %. A client of this very
// machine (a Unix socket, a loopback or link-local address) gets @ and `machine` added to its host: through another proxy on another
// machine the same address would be somebody else.
std::string holder_of(std::string_view pattern, const ConnectRequest& request, std::string_view machine);

}  // namespace termgate::authority
