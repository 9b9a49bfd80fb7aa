// Layer 1's gate for this session's writes: whether it is held, and our own calls that enter and
// leave it. calls.cpp decides when to call. Owner: one session; its thread.
//
// Invariant: the host is notified of every change, and the gate counts as held only after an answer
// that proves it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <termgate/tds/token.hpp>

#include "channel.hpp"
#include "claims.hpp"

namespace termgate::tds_session {

class Gate {
 public:
  // `unsure`: something that may have entered or released the gate has run, or is under way.
  enum class Is : std::uint8_t { open, held, unsure };

  // What a call of ours has returned so far.
  struct Answer {
    // The procedure of layer 1 has run: it returned the value that it computes from the call's
    // number.
    bool proven = false;
    // The fence must be raised first.
    bool raise = false;
    std::int64_t code = -1;
    std::int64_t trancount = 0;
    std::int64_t fence = 0;
    std::int64_t declared = 0, term = 0, grace_ms = 0;
    std::string scope, message;
    // The first error from the server.
    std::string error;
    std::uint32_t error_number = 0;
  };

  explicit Gate(Channel& channel) : channel_(channel) {}

  Is is() const noexcept { return is_; }
  bool held() const noexcept { return is_ == Is::held; }
  void becomes(Is is);
  // The pair that the gate is held with, or is being entered with.
  const ScopedTerm& pair() const noexcept { return pair_; }

  // --- our calls ---
  std::string hello(Instant now);
  std::string enter(const ScopedTerm& pair, std::uint64_t transaction, Instant now);
  std::string leave(std::uint64_t transaction, Instant now);
  Instant called_at() const noexcept { return called_at_; }
  // --- the answers to our calls ---
  void take(const tds::ReturnValue& value);
  void failed(const tds::Report& report);
  const Answer& answer() const noexcept { return answer_; }
  // Takes over the pair that the session has declared, if none was passed and the answer has it.
  void learn_pair();

  // --- how long it is held ---
  void used(Instant now) noexcept { used_at_ = now; }
  Instant used_at() const noexcept { return used_at_; }
  void set_grace(std::chrono::milliseconds grace) noexcept { grace_ = grace; }
  // A raise waits for the gate, or may (`certain` is false): the gate is to be left as soon as
  // possible.
  void wanted(bool certain, Instant now);
  bool is_wanted() const noexcept { return wanted_; }
  // A raise is known to have waited for the grace of the database and a margin.
  bool grace_is_over(Instant now) const noexcept;

 private:
  std::string name_of(std::string_view procedure) const;
  void begin_call(Instant now);

  Channel& channel_;
  Is is_ = Is::open;
  ScopedTerm pair_;
  std::int64_t proof_ = 0;
  Answer answer_;
  Instant called_at_{}, used_at_{};
  bool wanted_ = false;
  std::optional<Instant> raise_waits_;  // since when a raise is known to wait
  Instant raise_seen_{};                // when that was last reported
  // The eviction grace that the database reported at the login.
  std::chrono::milliseconds grace_{1000};
};

}  // namespace termgate::tds_session
