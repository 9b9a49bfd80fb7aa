// The operator's rules, as the file of --rules has them (docs/reference/rules.md): which clients
// they match, and where scope and term come from. Values; any thread.
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
  std::optional<Term> term;  // empty: the client declares it
};
struct FileTerm {
  std::string path;
};
struct LeaseTerm {
  Scope scope;
  // The URL of the lock service. Empty: the leases of the proxy's own database.
  std::string url = {};
  std::chrono::milliseconds ttl{10'000};
  std::string holder = "%client_host";
  Takeover takeover = Takeover::wait;
};

using conversation::ConnectRequest;

struct Rule {
  std::string name;
  std::size_t line = 0;

  // An empty list matches everything; all lists must match.
  std::vector<std::string> listeners, users, databases, applications;  // `*` matches any characters
  std::vector<AddressRange> clients;

  std::variant<std::monostate, FixedTerm, FileTerm, LeaseTerm> source;
  bool overridable = false;
  std::optional<conversation::WithoutTerm> without_term;
  std::optional<conversation::Enforce> enforce;
  std::optional<bool> replication;
  std::optional<conversation::OnStale> on_stale;
  std::string refuse;  // why matching clients are refused; empty: they are not

  bool matches(const ConnectRequest& request) const;
};

struct Rules {
  std::vector<Rule> all;
  // The first rule that matches; nullptr: none does.
  const Rule* of(const ConnectRequest& request) const;
};

inline constexpr std::size_t rules_bytes_max = 1u << 20;
inline constexpr std::size_t rules_max = 1000;

// The operator's rules are wrong. The message begins with the place, not with a code.
class WrongRules : public InvalidInput {
 public:
  using InvalidInput::InvalidInput;
};

// Throws WrongRules. Its message begins with `FILE:LINE: `, or with `FILE: ` if the text is too
// long or contains a NUL.
Rules parse_rules(std::string_view text, const std::string& file);
// The same for a file. If it cannot be read, the message begins with `FILE: ` and has the reason.
Rules read_rules(const std::string& path);

// The holder's name for a request: replaces %client_host, %user, %database, %application_name,
// %listener, and %% by one %. For a client on this machine (a Unix socket, a loopback or link-local
// address), @ and `machine` follow its host, because on another machine the same address would be a
// different client.
std::string holder_of(std::string_view pattern, const ConnectRequest& request,
                      std::string_view machine);

}  // namespace termgate::authority
