// Transaction: one open fenced transaction, as the callback of Database::write() receives it. It
// has passed the check for its scope and term. Valid inside that callback and on its thread only.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <termgate/scope.hpp>
#include <termgate/term.hpp>
#include <termgate/value.hpp>

namespace termgate {
inline namespace v0 {

namespace detail {
struct TransactionState;
}

class Transaction {
 public:
  const Scope& scope() const noexcept;
  Term term() const noexcept;

  // Runs one statement; `$1`, `$2` … take the arguments, on every database. Throws DatabaseError,
  // Conflict, or a TG error of a trigger. After any of them the transaction is rolled back when the
  // callback ends. If the callback swallows the error, write() throws it. Only ROLLBACK TO a
  // savepoint makes the transaction usable again.
  template <class... Arguments>
  Rows exec(std::string_view sql, Arguments&&... arguments) {
    const std::array<Value, sizeof...(Arguments)> values{
        Value(std::forward<Arguments>(arguments))...};
    return exec_values(sql, values);
  }
  Rows exec_values(std::string_view sql, std::span<const Value> values);

  // Appends under this transaction's scope and term. The stream's writers take turns until commit.
  // The payload is as for Database::append(). This transaction has passed its check, so while a
  // large payload is sent a higher term waits, and evicts this session after the grace.
  SequenceNo append(const Stream& stream, std::string_view payload,
                    std::optional<SequenceNo> expected = {});

  // Lets COMMIT fail (LeaseLost, nothing was written) if `owner` does not hold the lease of this
  // transaction's scope at that moment, by the database's clock, even if nobody has taken over.
  // Throws LeaseLost at once if it does not hold the lease now. SQL Server checks only now, so call
  // it last there. On PostgreSQL it works at READ COMMITTED, its default, only.
  void require_lease(const std::string& owner);

  // Passes the check for another scope with its own term (F1). Raises only if this transaction
  // holds nothing of that scope yet.
  Term check(const Scope& scope, Term term);

 private:
  friend struct detail::TransactionState;
  explicit Transaction(detail::TransactionState& state) : state_(state) {}
  detail::TransactionState& state_;
};

}  // namespace v0
}  // namespace termgate
