// A matcher for Catch2, versions 2 and 3, so that a test says which refusal it means:
//
//   REQUIRE_THROWS_MATCHES(stale.finish(), StaleTerm, StaleTermMatcher("billing", lease.term()));
//
// Include it where Catch2 is at hand; without it this header declares is_refusal() alone, for other
// frameworks. Values; any thread.
#pragma once

#if __has_include(<catch2/matchers/catch_matchers.hpp>)
#include <catch2/matchers/catch_matchers.hpp>
#define TERMGATE_TESTKIT_MATCHER_BASE ::Catch::Matchers::MatcherBase
#elif __has_include(<catch2/catch.hpp>)
#include <catch2/catch.hpp>
#define TERMGATE_TESTKIT_MATCHER_BASE ::Catch::MatcherBase
#endif

#include <optional>
#include <string>
#include <utility>

#include <termgate/error.hpp>
#include <termgate/term.hpp>

namespace termgate {
inline namespace v0 {
namespace testkit {

// Whether `error` refused `term` of `scope`, and, where a fence is given, because of that fence.
inline bool is_refusal(const StaleTerm& error, const std::string& scope, Term term,
                       std::optional<Term> fence = {}) {
  return error.scope() == scope && error.term() == term.value() &&
         (!fence || error.fence() == fence->value());
}

#ifdef TERMGATE_TESTKIT_MATCHER_BASE
class StaleTermMatcher final : public TERMGATE_TESTKIT_MATCHER_BASE<StaleTerm> {
 public:
  StaleTermMatcher(std::string scope, Term term, std::optional<Term> fence = {})
      : scope_(std::move(scope)), term_(term), fence_(fence) {}
  bool match(const StaleTerm& error) const override {
    return is_refusal(error, scope_, term_, fence_);
  }
  std::string describe() const override {
    return "refuses term " + std::to_string(term_.value()) + " of scope \"" + scope_ + "\"" +
           (fence_ ? " behind the fence " + std::to_string(fence_->value()) : std::string());
  }

 private:
  std::string scope_;
  Term term_;
  std::optional<Term> fence_;
};
#endif

}  // namespace testkit
}  // namespace v0
}  // namespace termgate
