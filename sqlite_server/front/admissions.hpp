// Admissions: what the operator's rules say about a client, by its listener, address, token name
// and application.
//
// HTTP has no sessions, so all clients that the rules cannot tell apart share one: it begins with
// their first request and ends when none of them has sent one for `kept_for`. A rule with a lease
// holds it for that long.
//
// Owner: the front. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include <termgate/conversation/authority.hpp>

#include "claim/claim.hpp"

namespace termgate::sqlite_front {

// What the rules look at.
struct RuleSubject {
  std::string listener, host, name, application;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 that it compares with for one
  auto operator<=>(const RuleSubject&) const = default;
};

class Admissions {
 public:
  using Answer = std::variant<claim::Standing, claim::Refusal>;

  explicit Admissions(conversation::Authority& authority) : authority_(authority) {}
  ~Admissions();
  Admissions(const Admissions&) = delete;
  Admissions& operator=(const Admissions&) = delete;

  // nullopt: call wait(), because the rule's answer is not there yet.
  std::optional<Answer> at_once(const RuleSubject& subject);
  // Blocks until the rule's lease is held, or it is known why not; the authority limits how long.
  // Refuses with 503 when there are sessions_max already.
  Answer wait(const RuleSubject& subject);
  // Ends sessions that have been silent for too long.
  void tick();
  // The rules were reloaded: each client is admitted again.
  void forget();

 private:
  struct Session {
    std::uint64_t id = 0;
    conversation::Admission admission;
    std::mutex mutex;  // guards the next member
    bool settled = false;
    std::condition_variable changed;
    std::chrono::steady_clock::time_point used{};  // guarded by the owner's mutex_
  };
  static Answer answer_of(const conversation::Admission& admission);
  std::shared_ptr<Session> find(const RuleSubject& subject);

  static constexpr std::chrono::seconds kept_for{15};
  static constexpr std::size_t sessions_max = 10'000;

  conversation::Authority& authority_;
  std::mutex mutex_;  // guards the members below
  std::map<RuleSubject, std::shared_ptr<Session>> sessions_;
  std::uint64_t last_id_ = 0;
};

}  // namespace termgate::sqlite_front
