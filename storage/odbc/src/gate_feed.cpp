// One connection that reads which gates a raise waits for (decision 0011). After any error it is
// closed, and the next request opens another.
#include <termgate/detail/odbc_gate_feed.hpp>

#include <chrono>
#include <optional>
#include <utility>

#include <termgate/detail/odbc/connection.hpp>
#include <termgate/detail/odbc/dialect.hpp>
#include <termgate/detail/odbc/errors.hpp>
#include <termgate/detail/odbc/statement_text.hpp>
#include <termgate/detail/schema.hpp>
#include "sql/statements.hpp"

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

constexpr std::chrono::seconds gates_login_wait{5};
// Longer than the first call of a session takes on a server that must compile it. The caller
// measures time itself.
constexpr std::chrono::milliseconds gates_answer_wait{10'000};

}  // namespace

struct OdbcGateFeed::State {
  odbc::ConnectionString text;
  const odbc::Dialect& dialect;
  std::string statement;
  std::optional<odbc::Connection> connection;
};

OdbcGateFeed::OdbcGateFeed(std::string_view url, std::string_view schema) {
  need_schema_name(schema);
  odbc::ConnectionString text = odbc::connection_string_of(url);
  const odbc::Dialect& dialect = odbc::dialect_of(odbc::family_of(text.maker));
  state_ = std::make_unique<State>(State{std::move(text), dialect,
                                         dialect.with_schema(sql::sqlserver_gate::wanted, schema),
                                         std::nullopt});
}
OdbcGateFeed::~OdbcGateFeed() = default;

bool OdbcGateFeed::has_gates() const noexcept {
  return state_->dialect.family == odbc::Family::sqlserver;
}

std::vector<std::string> OdbcGateFeed::wanted(const std::string& scopes) {
  State& state = *state_;
  std::vector<std::string> all;
  try {
    if (!state.connection) {
      state.connection.emplace(state.text, gates_login_wait);
      state.connection->run(state.dialect.on_connect, gates_answer_wait);
    }
    const Value values[] = {Value(scopes)};
    const Rows rows = state.connection->execute(
        odbc::marked(state.statement, 1, state.dialect.family), values, true, gates_answer_wait);
    for (const Row& row : rows.rows) all.push_back(row[0].as_text());
  } catch (odbc::OdbcError& failure) {
    const auto phase = state.connection ? odbc::Phase::before_commit : odbc::Phase::connect;
    state.connection.reset();
    for (auto& one : failure.diagnostics)
      one.message = odbc::redacted(std::move(one.message), state.text.secrets);
    odbc::throw_for(failure, phase, state.dialect.family);
  } catch (...) {
    state.connection.reset();
    throw;
  }
  return all;
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
