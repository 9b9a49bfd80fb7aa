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
  // Conflict, InvalidInput, Unavailable, Blocked, or a TG error of a trigger. After an error the
  // transaction cannot commit, even if the callback swallows it: write() then rolls back and throws
  // the last such error. Only a successful ROLLBACK TO a savepoint makes it usable again; on SQL
  // Server nothing does.
  template <class... Arguments>
  Rows exec(std::string_view sql, Arguments&&... arguments) {
    const std::array<Value, sizeof...(Arguments)> values{
        Value(std::forward<Arguments>(arguments))...};
    return exec_values(sql, values);
  }
  Rows exec_values(std::string_view sql, std::span<const Value> values);

  // Appends under this transaction's scope and term. The stream's writers take turns until commit.
  // The payload is as for Database::append(). This transaction has passed its check, so while a
  // large payload is sent a higher term waits, and evicts this session after the grace. Throws as
  // exec() does, and SequenceConflict (`expected`).
  SequenceNo append(const Stream& stream, std::string_view payload,
                    std::optional<SequenceNo> expected = {});

  // Makes COMMIT fail (LeaseLost, nothing was written) if at that moment `owner` does not hold the
  // lease of this transaction's scope, by the database's clock, even if nobody has taken over.
  // Throws LeaseLost at once if `owner` does not hold it now. SQL Server checks only in this call,
  // so make it last there. PostgreSQL needs READ COMMITTED, its default: else InvalidInput.
  void require_lease(const std::string& owner);

  // Checks another scope under a term of its own (F1), and returns that scope's fence. A term above
  // it raises the fence, or is InvalidInput if this transaction already holds that scope's lock.
  // Throws as exec() does.
  Term check(const Scope& scope, Term term);

 private:
  friend struct detail::TransactionState;
  explicit Transaction(detail::TransactionState& state) : state_(state) {}
  detail::TransactionState& state_;
};

}  // namespace v0
}  // namespace termgate
