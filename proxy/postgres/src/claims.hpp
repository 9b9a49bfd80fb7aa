// Which scope and term a session writes under: by the operator's rule, by what the session
// declares, or by a comment of the statement. That decides whether its writes are checked and its
// server session is kept READ ONLY.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <termgate/conversation/rule_claim.hpp>
#include <termgate/pg_session/host.hpp>
#include <termgate/statements/declaration.hpp>

#include "effects.hpp"
#include "guard.hpp"

namespace termgate::pg_session {

using conversation::ScopedTerm;

// The scope and term that a unit (guard.hpp) is checked with, as far as the proxy knows them.
// Empty: nothing is declared, or only the server's session knows what is.
struct Claim {
  ScopedTerm pair;
  // What the proxy passes to the check: the pair of the statement's own comment, or of a final
  // rule. Empty: the check uses what the session declares.
  ScopedTerm given;
  // What the check uses where the session declares nothing: the pair of an overridable rule.
  ScopedTerm otherwise;
  // The statement's own comment names the claim.
  bool named = false;
  bool certain = false;
  // Why there can be no claim.
  std::string code, problem, hint;
};

// Why a write is refused without asking the database. An empty code means that it is not refused.
struct Refusal {
  std::string code, message, hint;
  // The fence, if it is known.
  std::int64_t fence = 0;
  explicit operator bool() const noexcept { return !code.empty(); }
};

// Owner: the session's State; its thread. Invariant: a claim whose scope and term only the server
// knows is empty here, never guessed.
class Claims {
 public:
  // --- at the login ---
  // Declared by application_name, the options or a start-up parameter. Of two declarations the
  // later one counts, separately for scope and term.
  void declare(const statements::Declaration& at_start);
  void admit(const Admission& admission, bool replication);
  bool enforces() const noexcept;
  // Decides, for the policy `allow`, whether the session is READ ONLY by default from its login on.
  void login_begins() { guarded_ = may_speak(); }
  // What the server's session declares from its start, including by ALTER ROLE and ALTER DATABASE.
  void server_declares(std::string_view scope, std::string_view term);

  // --- a session that the server guards (termgate_guard) ---
  // Whether the guard in the server suffices: the session's claim can only be in the server's own
  // settings, and a write without a term must be refused.
  bool may_be_server_guarded() const noexcept;
  // From here on the server refuses every write without a passed check, so the session is not READ
  // ONLY by default.
  void server_guards() noexcept { server_guarded_ = true; }
  bool server_guarded() const noexcept { return server_guarded_; }
  // The server has refused a term above the fence: only a check of the proxy can raise the fence.
  void needs_a_raise() noexcept { to_be_raised_ = server_guarded_; }
  void has_passed() noexcept { to_be_raised_ = false; }
  bool to_be_raised() const noexcept { return to_be_raised_; }
  // Whether an uncertain claim was declared in the client's own text. A check of ours must then
  // find out what it is, and raise the fence.
  bool declared_by_its_text() const noexcept { return by_its_text_; }
  // While the session is handed over, the client's messages go to the server unchanged.
  void hand_over(bool on) noexcept { handed_over_ = on && (server_guarded_ || seated_); }
  bool handed_over() const noexcept { return handed_over_; }
  // The session has a seat (seat.hpp), and is not READ ONLY by default meanwhile.
  void seated(bool on) noexcept {
    seated_ = on;
    handed_over_ = handed_over_ && on;
  }

  // --- what is required of the session ---
  const Admission& admission() const noexcept { return admission_; }
  bool ends_when_stale() const noexcept {
    return admission_.on_stale == OnStale::disconnect && enforces();
  }
  // The server session is READ ONLY by default.
  bool guards() const noexcept;
  // Writes need a check first.
  bool active() const noexcept;
  // The operator's rule wins over what the session declares.
  bool final_rule() const noexcept;
  // Whether the session has, or may have, a scope and a term.
  bool may_speak() const noexcept { return rule() || spoke_; }
  // Whether the session may have the claim that a write needs, or needs none.
  bool may_write() const noexcept;
  // Whether to query the server at the login (Login::question).
  bool asks_at_login(bool pooler) const noexcept;
  // With the policy `allow`, a session that has declared a claim, or may have, is held to it from
  // then on: its hidden writes must be checked too. True: that begins now.
  bool guard_from_here();

  // --- when messages are sent ---
  // Queries the rule for its pair. Called when no transaction is open.
  void transaction_begins();
  void learn(const Learned& learned);
  // A message that may declare is sent: until a check has passed, only the server knows which claim
  // is in force.
  void may_declare(bool by_its_text);
  std::uint32_t declarations() const noexcept { return declarations_; }

  // --- when replies come ---
  // A check of what the session declares has passed, in a transaction that had not itself declared
  // anything. `declarations`: how many had been sent before the check.
  void check_passed(const ScopedTerm& pair, std::uint32_t declarations);
  // After DISCARD ALL the session declares what it did at its start.
  void discarded();
  void has_spoken() noexcept { spoke_ = true; }
  // As check_passed(), for a check that was refused.
  void check_refused(const ScopedTerm& pair, std::uint32_t declarations);

  // --- of one unit ---
  // `named`: the declaration of the unit's own comment, or nullptr.
  Claim claim_of(const statements::Declaration* named) const;
  // `known`: why remembered fences refuse the claim, if they do.
  Standing standing_of(const Claim& claim, const Refusal& known) const;
  bool certain() const noexcept { return certain_; }

 private:
  bool rule() const noexcept { return admission_.rule != nullptr; }
  void none_by_rule(Claim& claim) const;

  Admission admission_;
  bool replication_ = false;
  // With the policy `allow`: the session has declared or has a rule, or code that it ran may have
  // declared.
  bool guarded_ = false;
  bool server_guarded_ = false;
  bool to_be_raised_ = false;
  // The client's own SET, RESET or set_config() made the claim uncertain, not only code that it
  // ran.
  bool by_its_text_ = false;
  bool seated_ = false;
  bool handed_over_ = false;
  conversation::RuleClaim by_rule_;
  // What the session declared at its start. Empty: only the server knows.
  std::optional<ScopedTerm> at_login_;
  // What the session has declared, where that is certain.
  ScopedTerm known_;
  bool certain_ = true;  // whether `known_` is certain
  // How many messages were sent that may declare.
  std::uint32_t declarations_ = 0;
  // A declaration was seen: in what the client sent, in the server's settings at the login, or in
  // the reply to a check.
  bool spoke_ = false;
  // Code has run that may have declared although no text shows it.
  bool perhaps_ = false;
};

}  // namespace termgate::pg_session
