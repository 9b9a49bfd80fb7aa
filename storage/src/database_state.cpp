// What Database adds to the driver's calls: the memory of fences, raises ahead of writes, and
// records of refusals.
#include "database_state.hpp"

#include <chrono>

#include <fmt/format.h>

#include <termgate/detail/named_row.hpp>

#include "sql/statements.hpp"

namespace termgate {
inline namespace v0 {
namespace detail {

using sql::Call;
using std::chrono::milliseconds;

constexpr milliseconds last_reports_take{2000};

// Reports refusals that were gathered and are not yet due: to the first failure, and for a limited
// time, so that a lost database or many scopes do not delay the destructor.
DatabaseState::~DatabaseState() {
  const auto end = std::chrono::steady_clock::now() + last_reports_take;
  for (const Refusals& rest : refusals.take_all())
    if (!report(rest) || std::chrono::steady_clock::now() >= end) break;
}

void DatabaseState::note(const StaleTerm& stale) {
  stats.stale_writes.fetch_add(1, std::memory_order_relaxed);
  const auto now =
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  // PostgreSQL's layer 1 has recorded the refused client itself. A message that was cut short or
  // translated has no scope, which an audit entry needs.
  if (driver->kind() != "postgresql" && name_problem(stale.scope()) == nullptr) {
    if (const auto due = refusals.note(stale.scope(), stale.term(), now)) report(*due);
  }
}

// Errors are ignored: a role that may not write to the audit, or a lost database, must not hide the
// refusal itself.
bool DatabaseState::report(const Refusals& due) noexcept {
  try {
    const Value values[] = {Value(due.scope),    Value(due.term),    Value(due.count),
                            Value(due.first_ms), Value(due.last_ms), Value("library")};
    const Rows rows = driver->call(Call::record_refusal, values, false, milliseconds(1000));
    if (!rows.one()[0].as_bool()) refusals.put_back(due);
    return true;
  } catch (const std::exception&) { return false; }
}

void DatabaseState::compare_with_memory(const std::string& scope, std::int64_t fence,
                                        std::int64_t remembered) {
  compare_with_memory(scope, fence, remembered, [&] { return read(Call::fence, scope); });
}

void DatabaseState::compare_with_memory(const std::string& scope, std::int64_t fence,
                                        std::int64_t remembered,
                                        const std::function<Rows()>& look) {
  if (fence >= remembered) return;
  // The database's own record of resets decides.
  const Rows rows = look();
  const auto reset_from = convert_first<std::optional<std::int64_t>>(
      rows, [](const auto& row) { return row["reset_from"].as_optional_int(); });
  if (reset_from && *reset_from && **reset_from >= remembered) {
    memory.forget(scope);
    return;
  }
  throw FenceUntrusted(
      fmt::format("TG004 fence untrusted for scope \"{}\": the database shows {}, this process has "
                  "seen {}; was the database "
                  "restored? Then: termgate fence declare-restored --scope … --above …",
                  scope, fence, remembered));
}

std::int64_t DatabaseState::check_uncounted(const Scope& scope, Term term,
                                            std::optional<milliseconds> timeout) {
  const std::int64_t remembered = memory.highest(scope.name());
  const Value values[] = {Value(scope.name()), Value(term.value())};
  const std::int64_t fence =
      driver->call(Call::check_term, values, false, timeout).one()[0].as_int();
  compare_with_memory(scope.name(), fence, remembered);
  memory.saw(scope.name(), fence);
  return fence;
}

std::int64_t DatabaseState::check(const Scope& scope, Term term,
                                  std::optional<milliseconds> timeout) {
  return audited([&] { return check_uncounted(scope, term, timeout); });
}

namespace {

// Runs a separate check before a write; if it fails, that write has not begun.
template <class Check>
void ahead(Check check) {
  try {
    check();
  } catch (const OutcomeUnknown& unknown) {
    throw Unavailable(
        fmt::format("the check before the write was not answered ({}); nothing was written",
                    unknown.what()),
        std::string(unknown.code()));
  }
}

}  // namespace

void DatabaseState::raise_ahead(const Scope& scope, Term term,
                                std::optional<milliseconds> timeout) {
  if (memory.highest(scope.name()) < term.value()) ahead([&] { check(scope, term, timeout); });
}

void DatabaseState::try_raise(const Scope& scope, Term term, const WriteId& write_id,
                              std::optional<milliseconds> timeout) {
  if (memory.highest(scope.name()) >= term.value()) return;
  // Layer 1 counts every refused check, so a check is made only if it is likely to pass.
  const auto fence = convert_first<std::int64_t>(
      read(Call::fence, scope.name()), [](const auto& row) { return row["term"].as_int(); });
  if (fence && *fence >= term.value()) return;
  if (!read(Call::outcome, write_id.text()).empty()) return;
  try {
    ahead([&] { check_uncounted(scope, term, timeout); });
  } catch (const StaleTerm&) {}
}

void DatabaseState::check_before_append(const Stream& stream, const std::optional<Scope>& named,
                                        Term term) {
  if (named) {
    if (memory.highest(named->name()) > term.value()) ahead([&] { check(*named, term); });
    return;
  }
  // No scope given: a new stream takes its own name as its scope.
  if (memory.highest(stream.name()) <= term.value()) return;
  const Rows rows = read(Call::stream, stream.name());
  const auto scope =
      convert_first<std::string>(rows, [](const auto& row) { return row["scope"].as_text(); });
  ahead([&] { check(Scope(scope.value_or(stream.name())), term); });
}

void DatabaseState::check_payload(std::string_view payload) const {
  const std::size_t limit = driver->payload_limits().bytes_max;
  if (payload.size() <= limit) return;
  throw InvalidInput(
      fmt::format("TG005 a payload of {} bytes is over the limit of {} (setting payload_bytes_max)",
                  payload.size(), limit));
}

std::shared_ptr<void> DatabaseState::watch_lease(const Scope& scope, std::function<void()> hinted) {
  return std::make_shared<LeaseWaiters::Watch>(holding->waiters(), scope.name(), std::move(hinted));
}

std::unique_ptr<FenceFeed> DatabaseState::stream_feed() {
  if (driver->kind() != "postgresql") return nullptr;
  // With prepared transactions enabled, no transaction may notify, because it might be prepared
  // (0018_follower.sql).
  if (driver->query("SELECT pg_catalog.current_setting('max_prepared_transactions')", {})
          .one()[0]
          .as_text() != "0")
    return nullptr;
  return holding->feed("termgate_streams");
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
