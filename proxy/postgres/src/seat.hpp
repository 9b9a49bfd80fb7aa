// The seat of a session: with it, the database lets the session write under one scope and term
// without a check, until the seat is given back or the session ends
// (docs/reference/lock-protocol.md, seats; docs/decisions/0026). Values and decisions; seating.hpp
// sends the messages.
//
// A raise of the scope waits for the session that has the seat, and ends that session after a grace
// period. So a mistake here delays a takeover, but lets no stale write through as long as two
// things hold: a seat turns the session's READ ONLY default off only while the row of that seat
// exists (both change in one statement), and what passes without a check passes under the seat's
// own scope and term.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <termgate/pg_session/host.hpp>

#include "claims.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread.
class Seat {
 public:
  enum class Stage : std::uint8_t {
    none,
    asked,  // sit() is on its way
    held,
    leaving,  // stand() is on its way
  };

  Stage stage() const noexcept { return stage_; }
  bool held() const noexcept { return stage_ == Stage::held; }
  const ScopedTerm& pair() const noexcept { return pair_; }
  bool runs_any_text() const noexcept { return runs_any_text_; }
  const std::string& nonce() const noexcept { return nonce_; }
  const std::string& secret() const noexcept { return secret_; }

  bool may_be_wished(Instant now) const noexcept {
    return stage_ == Stage::none && checks_ > 0 && now >= not_before_;
  }
  // Many checks of one claim have passed in a short time, so a seat would pay off.
  bool wished(const ScopedTerm& pair, int checks, Instant now) const noexcept {
    return may_be_wished(now) && checks_ >= checks && pair == counted_;
  }
  bool may_pass(const ScopedTerm& pair) const noexcept {
    return held() && !wanted_ && pair == pair_;
  }
  // The seat must be given back as soon as no transaction is open. If that fails, it is tried again
  // after a while.
  bool due(Instant now) const noexcept { return held() && now >= due_at(); }
  Instant due_at() const noexcept {
    return std::max(wanted_ ? Instant() : used_ + unused_max, not_before_);
  }
  // Code that the client runs may have changed the declaration without showing it in a text, so the
  // server is queried between two transactions, at most once a second.
  bool to_be_looked_at(Instant now) const noexcept {
    return held() && now - looked_at_ >= look_again;
  }

  // A check that was sent at `sent` has passed.
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
  // A transaction that goes on has given the seat back. The session gives it back once more after
  // that transaction, which may be rolled back.
  void left_inside() noexcept { left_inside_ = wanted_ = true; }
  bool was_left_inside() const noexcept { return left_inside_; }
  // A new seat would have to be given back at once, so none is taken for a while.
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
    failed_ = wanted_ = left_inside_ = false;
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
  // The row that sit() returned.
  void answered(std::string_view nonce) {
    if (stage_ == Stage::asked) nonce_ = nonce;
  }
  void failed() noexcept { failed_ = true; }
  // Our transaction that took, checked or gave back the seat is over.
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
  static constexpr std::chrono::seconds checks_within{1}, look_again{1}, unused_max{1},
      refused_for{5}, failed_for{60};

  Stage stage_ = Stage::none;
  // A raise waits for the seat, or may; or the seat is no longer of use.
  bool wanted_ = false;
  bool failed_ = false;
  bool left_inside_ = false;
  bool runs_any_text_ = true;
  ScopedTerm pair_;
  std::string nonce_, secret_;  // the nonce names the row, the secret removes it
  Instant used_{}, looked_at_{}, not_before_{}, not_again_before_{};
  ScopedTerm counted_;  // the claim whose passed checks are counted
  Instant since_{};
  int checks_ = 0;
};

}  // namespace termgate::pg_session
