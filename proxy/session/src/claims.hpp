// Which scope and term a session writes under: by the operator's rule, by what the session declares for itself, or by a comment. Whether
// its writes are checked, and its server session kept READ ONLY, follows from that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <termgate/conversation/rule_claim.hpp>
#include <termgate/session/host.hpp>
#include <termgate/statements/declaration.hpp>

#include "effects.hpp"
#include "guard.hpp"

namespace termgate::session {

using conversation::ScopedTerm;

// The scope and term that a unit is checked with, as far as the proxy knows them; empty: the server's session knows.
struct Claim {
  ScopedTerm pair;
  ScopedTerm given;  // what the check is given by us: of the statement's own comment, or of a rule that is final; else the session's own is
                     // checked
  ScopedTerm otherwise;  // … where the session declares nothing: of a rule that is overridable
  bool named = false;    // by the statement's own comment
  bool certain = false;
  std::string code, problem, hint;  // why there can be none
};

// Why a write is refused without a word to the database; without a code: it is not.
struct Refusal {
  std::string code, message, hint;
  std::int64_t fence = 0;  // as far as it is known
  explicit operator bool() const noexcept { return !code.empty(); }
};

// Owner: the session's State; its thread. Invariant: a claim of which only the server knows the scope and term is empty here, never
// guessed.
class Claims {
 public:
  // --- at the login ---
  // By application_name, the options or a start-up parameter; a later one counts, each half by itself.
  void declare(const statements::Declaration& at_start);
  void admit(const Admission& admission, bool replication);
  bool enforces() const noexcept;
  // From here on the server session is READ ONLY by default where it must be.
  void login_begins() { guarded_ = may_speak(); }
  // What the server's session declares from its start, ALTER ROLE and ALTER DATABASE included.
  void server_declares(std::string_view scope, std::string_view term);

  // --- a session that the server guards (termgate_guard) ---
  // Whether it can: what it declares is in the server's own settings, and a write without a term is what has to be refused.
  bool may_be_server_guarded() const noexcept;
  // From here on the server refuses every write without a passed check, so the session is not READ ONLY by default.
  void server_guards() noexcept { server_guarded_ = true; }
  bool server_guarded() const noexcept { return server_guarded_; }
  // While it is handed over, what the client sends goes to the server as it is.
  // The server has refused a term above the fence, which only a check of ours raises.
  void needs_a_raise() noexcept { to_be_raised_ = server_guarded_; }
  void has_passed() noexcept { to_be_raised_ = false; }
  bool to_be_raised() const noexcept { return to_be_raised_; }
  // Whether what is uncertain of its claim was said in its own words, so that a check of ours must find out, and raise the fence.
  bool declared_by_its_text() const noexcept { return by_its_text_; }
  void hand_over(bool on) noexcept { handed_over_ = on && (server_guarded_ || seated_); }
  bool handed_over() const noexcept { return handed_over_; }
  // The session has a seat (seat.hpp), and is not READ ONLY by default meanwhile.
  void seated(bool on) noexcept {
    seated_ = on;
    handed_over_ = handed_over_ && on;
  }

  // --- what is required of the session ---
  const Admission& admission() const noexcept { return admission_; }
  bool ends_when_stale() const noexcept { return admission_.on_stale == OnStale::disconnect && enforces(); }
  bool guards() const noexcept;                                 // the server session is READ ONLY by default
  bool active() const noexcept;                                 // writes go behind the check
  bool final_rule() const noexcept;                             // the operator's rule wins over what the session declares
  bool may_speak() const noexcept { return rule() || spoke_; }  // has, or may have, a scope and a term
  bool may_write() const noexcept;                              // or needs none
  // Whether to ask the server who serves, what the session declares already, and what it may do.
  bool asks_at_login(bool pooler) const noexcept;
  // Under `allow` a session that has declared is held to it: what it hides from us must not write either. True: it begins now.
  bool guard_from_here();

  // --- what is sent ---
  // No transaction is open.
  void transaction_begins();
  void learn(const Learned& learned);
  // Something goes to the server that may declare: until a check has passed only the server knows what counts.
  void may_declare(bool by_its_text);
  std::uint32_t declarations() const noexcept { return declarations_; }

  // --- what is answered ---
  // A check has passed for what the session declares, in a transaction that had not declared anything itself. `declarations`: how many had
  // been sent before it.
  void check_passed(const ScopedTerm& pair, std::uint32_t declarations);
  // DISCARD ALL: it declares what it did from its start.
  void discarded();
  void has_spoken() noexcept { spoke_ = true; }
  // … or failed.
  void check_refused(const ScopedTerm& pair, std::uint32_t declarations);

  // --- for a unit ---
  // With the declaration of its own comment, or none.
  Claim claim_of(const statements::Declaration* named) const;
  // `known`: what is remembered of fences against it.
  Standing standing_of(const Claim& claim, const Refusal& known) const;
  bool certain() const noexcept { return certain_; }

 private:
  bool rule() const noexcept { return admission_.rule != nullptr; }
  void none_by_rule(Claim& claim) const;

  Admission admission_;
  bool replication_ = false;
  bool guarded_ = false;  // under `allow`: has declared
  bool server_guarded_ = false;
  bool to_be_raised_ = false;
  bool by_its_text_ = false;  // what made it uncertain: a SET, RESET or set_config() of the client's, and not only code that it ran
  bool seated_ = false;
  bool handed_over_ = false;
  conversation::RuleClaim by_rule_;
  std::optional<ScopedTerm> at_login_;  // what the session has declared from its start; none: only the server knows
  ScopedTerm known_;                    // what the session has declared for itself, where that is certain
  bool certain_ = true;                 // `known_` is
  std::uint32_t declarations_ = 0;      // how often something was sent that may
  bool spoke_ = false;                  // a declaration of the client's own was seen
  bool perhaps_ = false;                // code ran that may have declared without a word of it in a text
};

}  // namespace termgate::session
