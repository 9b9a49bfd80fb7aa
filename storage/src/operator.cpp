// Operator, built on the statements of sql/<database>/calls/ and on the driver's own statements for
// layer 1 and its roles.
#include <termgate/operator.hpp>

#include <termgate/detail/named_row.hpp>

#include "database_state.hpp"
#include "json_text.hpp"
#include "sql/statements.hpp"

namespace termgate {
inline namespace v0 {

using detail::convert_all;
using detail::state_of;
using sql::Call;
using std::chrono::milliseconds;

Operator::Installed Operator::install() {
  const auto report = state_of(database_).driver->install();
  return {report.from_version, report.to_version};
}
int Operator::installed_version() { return state_of(database_).driver->installed_version(); }
void Operator::uninstall() { state_of(database_).driver->uninstall(); }
void Operator::grant(std::string_view role, std::string_view level) {
  state_of(database_).driver->grant(role, level);
}
Rows Operator::revoke(std::string_view role) { return state_of(database_).driver->revoke(role); }
bool Operator::force_release(const Scope& scope, std::string_view actor, std::string_view reason) {
  const bool released =
      state_of(database_).run(Call::force_release, scope.name(), actor, reason).one()[0].as_bool();
  if (released) state_of(database_).holding->waiters().hint(scope.name());
  return released;
}

bool Operator::request_hand_over(const Scope& scope, const HandOverOptions& options) {
  const auto text = [](const std::string& given) { return given.empty() ? Value() : Value(given); };
  const bool requested = state_of(database_)
                             .run(Call::request_hand_over, scope.name(), text(options.to),
                                  options.drain.count(), text(options.actor), text(options.reason))
                             .one()[0]
                             .as_bool();
  if (requested) state_of(database_).holding->waiters().hint(scope.name());
  return requested;
}

std::int64_t Operator::reset_fence(const Scope& scope, Term term, std::string_view actor,
                                   std::string_view reason) {
  const std::int64_t previous =
      state_of(database_)
          .run(Call::reset_fence, scope.name(), term.value(), actor, reason)
          .one()[0]
          .as_int();
  state_of(database_).memory.forget(scope.name());
  return previous;
}

Term Operator::declare_restored(const Scope& scope, Term above, std::string_view actor,
                                std::string_view reason) {
  return Term(state_of(database_)
                  .run(Call::declare_restored, scope.name(), above.value(), actor, reason)
                  .one()[0]
                  .as_int());
}

std::int64_t Operator::declare_nothing_lost(std::string_view actor, std::string_view reason) {
  return state_of(database_).run(Call::declare_nothing_lost, actor, reason).one()[0].as_int();
}

std::int64_t Operator::declare_untrusted(std::string_view actor, std::string_view reason) {
  return state_of(database_).run(Call::declare_untrusted, actor, reason).one()[0].as_int();
}

void Operator::set_raise_by(const Scope& scope, std::string_view mode) {
  state_of(database_).run(Call::set_raise_by, scope.name(), mode);
}

std::int64_t Operator::prune(const Stream& stream, SequenceNo before) {
  return state_of(database_).run(Call::prune, stream.name(), before.value()).one()[0].as_int();
}

std::int64_t Operator::prune_history(milliseconds older_than) {
  return state_of(database_).run(Call::prune_history, older_than.count()).one()[0].as_int();
}

bool Operator::move_stream(const Stream& stream, const Scope& scope, std::string_view actor,
                           std::string_view reason) {
  return state_of(database_)
      .run(Call::stream_move, stream.name(), scope.name(), actor, reason)
      .one()[0]
      .as_bool();
}

std::int64_t Operator::protect(std::string_view table, const Protection& protection) {
  return state_of(database_)
      .run(Call::protect, table, protection.scope_column, protection.scope, protection.mode,
           protection.prefix)
      .one()[0]
      .as_int();
}

bool Operator::unprotect(std::string_view table) {
  return state_of(database_).run(Call::unprotect, table).one()[0].as_bool();
}

std::int64_t Operator::adopt(std::string_view table, std::string_view scope_column,
                             std::string_view term_column, std::string_view prefix) {
  return state_of(database_)
      .run(Call::adopt, table, scope_column, term_column, prefix)
      .one()[0]
      .as_int();
}

bool Operator::unadopt(std::string_view table) {
  return state_of(database_).run(Call::unadopt, table).one()[0].as_bool();
}

std::vector<Advice> Operator::doctor() {
  auto found = convert_all<Advice>(state_of(database_).read(Call::doctor), [](const auto& row) {
    return Advice{row["severity"].as_text(), row["object"].as_text(), row["problem"].as_text(),
                  row["remedy"].as_text()};
  });
  if (std::string problem = state_of(database_).driver->locks_problem(); !problem.empty())
    found.insert(found.begin(), Advice{"error", "advisory locks", std::move(problem),
                                       "Move the database to a PostgreSQL server"});
  return found;
}

std::vector<Breach> Operator::verify(std::optional<std::int64_t> since_ms) {
  return convert_all<Breach>(state_of(database_).read(Call::verify, since_ms), [](const auto& row) {
    return Breach{row["kind"].as_text(), row["scope"].as_text(), row["object"].as_text(),
                  row["detail"].as_text()};
  });
}

Rows Operator::settings() { return state_of(database_).read(Call::settings); }
void Operator::set_setting(std::string_view name, std::string_view value) {
  state_of(database_).run(Call::set_setting, name, value);
}
// One call for all, because on SQL Server settings cannot be changed inside a transaction: every
// check reads them.
void Operator::set_settings(
    const std::vector<std::pair<std::string, std::string>>& names_and_values) {
  std::string json = "[";
  for (const auto& [name, value] : names_and_values) {
    if (json.size() > 1) json += ',';
    json += "{\"name\":";
    detail::append_json(json, name);
    json += ",\"value\":";
    detail::append_json(json, value);
    json += '}';
  }
  json += ']';
  state_of(database_).run(Call::set_settings, json);
}
std::vector<AuditEntry> Operator::audit(const AuditFilter& filter, int limit) {
  return convert_all<AuditEntry>(
      state_of(database_).read(Call::audit, filter.scope, filter.above_id, limit),
      [](const auto& row) {
        return AuditEntry{row["id"].as_int(),      row["at_ms"].as_int(),
                          row["actor"].as_text(),  row["client"].as_text(),
                          row["action"].as_text(), row["scope"].as_optional_text(),
                          row["detail"].as_text()};
      });
}

Rows Operator::explain(const Scope& scope, int limit) {
  return state_of(database_).read(Call::explain, scope.name(), limit);
}

bool Operator::record_refusals(const Scope& scope, Term term, std::int64_t count,
                               std::int64_t first_ms, std::int64_t last_ms,
                               std::string_view client) {
  return state_of(database_)
      .run(Call::record_refusal, scope.name(), term.value(), count, first_ms, last_ms, client)
      .one()[0]
      .as_bool();
}

}  // namespace v0
}  // namespace termgate
