#include "batch.hpp"

#include <algorithm>
#include <array>

#include <termgate/text/scanner.hpp>

namespace termgate::hrana {

namespace {

using Kind = Condition::Kind;

bool is_ok_of(const Condition& condition, std::size_t step) {
  return condition.kind == Kind::ok && condition.step == step;
}

bool is_not(const Condition& condition, const std::function<bool(const Condition&)>& inner) {
  return condition.kind == Kind::no && inner(condition.inner.front());
}

// Whether the condition is "the step before was ok", perhaps with "and not in autocommit", which
// adds nothing inside a transaction.
bool follows(const std::optional<Condition>& condition, std::size_t before) {
  if (!condition) return false;
  if (condition->kind != Kind::all) return is_ok_of(*condition, before);
  const auto is_in_transaction = [](const Condition& part) {
    return is_not(part, [](const Condition& inner) { return inner.kind == Kind::is_autocommit; });
  };
  const auto& parts = condition->inner;
  return std::any_of(parts.begin(), parts.end(),
                     [&](const Condition& part) { return is_ok_of(part, before); }) &&
         std::all_of(parts.begin(), parts.end(), [&](const Condition& part) {
           return is_ok_of(part, before) || is_in_transaction(part);
         });
}

// Whether the condition is "COMMIT was not ok", perhaps with "and BEGIN was ok".
bool undoes(const std::optional<Condition>& condition, std::size_t commit) {
  if (!condition) return false;
  const auto failed = [&](const Condition& part) {
    return is_not(part, [&](const Condition& inner) { return is_ok_of(inner, commit); });
  };
  if (condition->kind != Kind::all) return failed(*condition);
  const auto& parts = condition->inner;
  return parts.size() == 2 && std::any_of(parts.begin(), parts.end(), failed) &&
         std::any_of(parts.begin(), parts.end(),
                     [](const Condition& part) { return is_ok_of(part, 0); });
}

}  // namespace

bool holds(const Condition& condition, std::span<const Ran> ran,
           const std::function<bool()>& is_autocommit) {
  const auto inner_holds = [&](const Condition& inner) { return holds(inner, ran, is_autocommit); };
  const auto& inner = condition.inner;
  switch (condition.kind) {
    case Kind::ok: return ran[condition.step] == Ran::ok;
    case Kind::error: return ran[condition.step] != Ran::ok;
    case Kind::no: return !inner_holds(inner.front());
    case Kind::all: return std::all_of(inner.begin(), inner.end(), inner_holds);
    case Kind::any: return std::any_of(inner.begin(), inner.end(), inner_holds);
    case Kind::is_autocommit: return is_autocommit();
  }
  return false;
}

std::string first_word(std::string_view sql) {
  auto words = text::first_pieces(sql, text::Dialect::sqlite, 1, true);
  return words.empty() ? std::string() : std::move(words[0]);
}

bool is_transaction_word(std::string_view word) {
  constexpr std::array<std::string_view, 6> words = {"begin",    "commit",    "end",
                                                     "rollback", "savepoint", "release"};
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_one_transaction(const Batch& batch, std::span<const std::string_view> texts) {
  const auto& steps = batch.steps;
  if (steps.size() < 2 || steps.front().condition || first_word(texts.front()) != "begin")
    return false;
  std::size_t commit = steps.size() - 1;
  if (first_word(texts[commit]) == "rollback") {
    if (--commit == 0 || !undoes(steps[commit + 1].condition, commit)) return false;
  }
  const std::string last = first_word(texts[commit]);
  if (last != "commit" && last != "end") return false;
  for (std::size_t step = 1; step <= commit; ++step) {
    if (!follows(steps[step].condition, step - 1)) return false;
    if (step < commit && is_transaction_word(first_word(texts[step]))) return false;
  }
  return true;
}

}  // namespace termgate::hrana
