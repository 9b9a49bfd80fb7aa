// The seat of a session: the database lets it write under one scope and term without a check, until the seat is given back or the
// session ends (docs/reference/lock-protocol.md, seats; decision 0026). Values and decisions; seating.hpp sends.
//
// A raise of the scope waits for the session that has the seat, and ends it when the grace is over. So a mistake here costs a takeover its
// time, and lets no stale write through as long as two things hold: the session is not READ ONLY by default only while the row of its seat
// is there (both change in one statement), and what passes without a check passes under the seat's own scope and term.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <termgate/session/host.hpp>

#include "claims.hpp"

namespace termgate::session {

// Owner: the session's State; its thread.
class Seat {
 public:
  enum class Stage : std::uint8_t {
    none,
    asked,  // sit() is on its way
    held,
    leaving,  // stand() is
  };

  Stage stage() const noexcept { return stage_; }
  bool held() const noexcept { return stage_ == Stage::held; }
  const ScopedTerm& pair() const noexcept { return pair_; }
  bool runs_any_text() const noexcept { return runs_any_text_; }
  const std::string& nonce() const noexcept { return nonce_; }
  const std::string& secret() const noexcept { return secret_; }

  bool may_be_wished(Instant now) const noexcept { return stage_ == Stage::none && checks_ > 0 && now >= not_before_; }
  // Many checks of one claim have passed in a short time.
  bool wished(const ScopedTerm& pair, int checks, Instant now) const noexcept {
    return may_be_wished(now) && checks_ >= checks && pair == counted_;
  }
  bool may_pass(const ScopedTerm& pair) const noexcept { return held() && !wanted_ && pair == pair_; }
  // It is to be given back as soon as no transaction is open. Where that has failed it is tried again after a while.
  bool due(Instant now) const noexcept { return held() && now >= due_at(); }
  Instant due_at() const noexcept { return std::max(wanted_ ? Instant() : used_ + unused_max, not_before_); }
  // Code that the client runs may have declared something else without a word of it in a text; the server is asked once a second.
  bool to_be_looked_at(Instant now) const noexcept { return held() && now - looked_at_ >= look_again; }

  // A check that was sent at that time has passed.
  void passed(const ScopedTerm& pair, Instant sent) {
    if (pair != counted_ || sent - since_ > checks_within) {
      counted_ = pair;
      since_ = sent;
      checks_ = 0;
    }
    ++checks_;
  }
  void used(Instant now) noexcept { used_ = now; }
  void want() noexcept { wanted_ = true; }
  // For a while it would be given back at once again.
  void not_for_a_while(Instant now) noexcept {
    wanted_ = true;
    not_again_before_ = now + refused_for;
  }

  void asks(const ScopedTerm& pair, const SeatOffer& offer, Instant now) {
    pair_ = pair;
    secret_ = offer.secret;
    runs_any_text_ = offer.runs_any_text;
    nonce_.clear();
    stage_ = Stage::asked;
    failed_ = wanted_ = false;
    looked_at_ = used_ = now;
    checks_ = 0;
  }
  void leaves() noexcept {
    stage_ = Stage::leaving;
    failed_ = false;
  }
  void looks(Instant now) noexcept {
    looked_at_ = now;
    failed_ = false;
  }
  // What sit() has answered.
  void answered(std::string_view nonce) {
    if (stage_ == Stage::asked) nonce_ = nonce;
  }
  void failed() noexcept { failed_ = true; }
  // The transaction of ours that concerned it is over.
  void settled(Instant now) noexcept {
    switch (stage_) {
      case Stage::none: break;
      case Stage::asked:
        stage_ = failed_ || nonce_.empty() ? Stage::none : Stage::held;
        not_before_ = stage_ == Stage::none ? now + (failed_ ? failed_for : refused_for) : now;
        break;
      case Stage::leaving:
        stage_ = failed_ ? Stage::held : Stage::none;
        wanted_ = failed_;
        not_before_ = failed_ ? now + refused_for : not_again_before_;
        break;
      case Stage::held: wanted_ |= failed_; break;
    }
  }

 private:
  static constexpr std::chrono::seconds checks_within{1}, look_again{1}, unused_max{10}, refused_for{5}, failed_for{60};

  Stage stage_ = Stage::none;
  bool wanted_ = false;  // somebody waits for it, or it is of no use any more
  bool failed_ = false;
  bool runs_any_text_ = true;
  ScopedTerm pair_;
  std::string nonce_, secret_;  // names the row; removes it
  Instant used_{}, looked_at_{}, not_before_{}, not_again_before_{};
  ScopedTerm counted_;  // checks of which have passed
  Instant since_{};
  int checks_ = 0;
};

}  // namespace termgate::session
