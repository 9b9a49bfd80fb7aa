// Transaction over the open transaction of the driver.
#include <termgate/transaction.hpp>

#include <termgate/text/scanner.hpp>

#include "database_state.hpp"
#include "sql/statements.hpp"

namespace termgate {
inline namespace v0 {

using sql::Call;

namespace {

// Whether a successful statement was ROLLBACK TO a savepoint; other rollbacks are refused inside a
// transaction.
bool is_rollback(std::string_view sql) {
  return text::first_pieces(sql, text::Dialect::postgresql, 1, true) ==
         std::vector<std::string>{"rollback"};
}

}  // namespace

const Scope& Transaction::scope() const noexcept { return state_.scope; }
Term Transaction::term() const noexcept { return state_.term; }

Rows Transaction::exec_values(std::string_view sql, std::span<const Value> values) {
  Rows rows = state_.kept([&] { return state_.session.execute(sql, values); });
  // The transaction is usable again from its savepoint on.
  if (state_.failed && is_rollback(sql)) state_.failed = nullptr;
  return rows;
}

SequenceNo Transaction::append(const Stream& stream, std::string_view payload,
                               std::optional<SequenceNo> expected) {
  state_.database.check_payload(payload);
  const auto number = expected ? std::optional(expected->value()) : std::nullopt;
  return SequenceNo(state_
                        .call(Call::append, stream.name(), state_.term.value(), BytesView{payload},
                              number, state_.scope.name(), nullptr)
                        .one()[0]
                        .as_int());
}

void Transaction::require_lease(const std::string& owner) {
  state_.call(Call::require_lease, state_.scope.name(), owner);
}

Term Transaction::check(const Scope& scope, Term term) {
  const std::int64_t remembered = state_.database.memory.highest(scope.name());
  const Term fence(state_.call(Call::check_term, scope.name(), term.value()).one()[0].as_int());
  state_.kept([&] {
    state_.database.compare_with_memory(scope.name(), fence.value(), remembered,
                                        [&] { return state_.call(Call::fence, scope.name()); });
  });
  return fence;
}

}  // namespace v0
}  // namespace termgate
