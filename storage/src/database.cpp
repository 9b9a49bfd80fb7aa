// Database sends the statements of sql/<database>/calls/ through the driver and turns rows into values.
// What it adds to them is only what a client can add: a raise committed by itself before the write that
// needs it, the memory of fences, retries where asked for, and the careful end of a lease's window.
// Long: the calls of Database, one after the other.
#include <termgate/database.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include <termgate/detail/driver.hpp>
#include <termgate/detail/fence_memory.hpp>
#include <termgate/detail/named_row.hpp>
#include <termgate/detail/open.hpp>
#include <termgate/detail/plant.hpp>
#include <termgate/detail/refusal_log.hpp>
#include <termgate/text/ascii.hpp>

#include "json_text.hpp"
#include "lease_keeper.hpp"

#include "sql/statements.hpp"

namespace termgate::inline v0 {

using sql::Call;
using std::chrono::milliseconds;

namespace detail {

struct DatabaseState {
  std::unique_ptr<Driver> driver;
  OpenOptions options;
  FenceMemory memory;
  RefusalLog refusals;
  StatsCounter stats;
  std::unique_ptr<LeaseHolding> holding;  // its threads call the driver, so it goes before that

  // The refusals that were gathered and not yet due. report() throws nothing, so a database that has gone
  // does not hold up the end.
  ~DatabaseState() {
    for (const Refusals& rest : refusals.take_all()) report(rest);
  }

  // Runs `attempt`; a refusal is written to the audit afterwards, where the database does not do it, and goes on its way.
  template <class Attempt>
  auto audited(Attempt attempt) -> decltype(attempt()) {
    try {
      return attempt();
    } catch (const StaleTerm& stale) {
      stats.stale_writes.fetch_add(1, std::memory_order_relaxed);
      const auto now = std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
      // PostgreSQL's layer 1 has noted who was refused, for the audit too. A message that was cut short or translated names no scope; an
      // audit entry needs one.
      if (driver->kind() != "postgresql" && name_problem(stale.scope()) == nullptr) {
        if (const auto due = refusals.note(stale.scope(), stale.term(), now)) report(*due);
      }
      throw;
    }
  }

  template <class... Arguments>
  Rows read(Call call, Arguments&&... arguments) {
    const Value values[] = {Value(), Value(std::forward<Arguments>(arguments))...};
    return driver->call(call, {values + 1, sizeof...(Arguments)}, true);
  }
  template <class... Arguments>
  Rows run(Call call, Arguments&&... arguments) {
    const Value values[] = {Value(), Value(std::forward<Arguments>(arguments))...};
    return audited([&] { return driver->call(call, {values + 1, sizeof...(Arguments)}, false); });
  }

  // Nothing hangs on it: a role that may not write to the audit, or a database that has gone, must not hide the refusal itself.
  void report(const Refusals& due) noexcept {
    try {
      const Value values[] = {Value(due.scope),    Value(due.term),    Value(due.count),
                              Value(due.first_ms), Value(due.last_ms), Value("library")};
      const Rows rows = driver->call(Call::record_refusal, values, false, milliseconds(1000));
      if (!rows.one()[0].as_bool()) refusals.put_back(due);
    } catch (const std::exception&) {}
  }

  // `remembered` is what this process had seen before it asked. A fence lower than that was forgotten by the
  // database (F3), unless an audited reset took it down: the database's own record of resets tells. `ask` runs
  // a call: inside an open transaction that is the transaction's own connection.
  void compare_with_memory(const std::string& scope, std::int64_t fence, std::int64_t remembered) {
    compare_with_memory(scope, fence, remembered, [&] { return read(Call::fence, scope); });
  }
  template <class Ask>
  void compare_with_memory(const std::string& scope, std::int64_t fence, std::int64_t remembered, Ask ask) {
    if (fence >= remembered) return;
    const Rows rows = ask();
    const auto reset_from =
        convert_first<std::optional<std::int64_t>>(rows, [](const auto& row) { return row["reset_from"].as_optional_int(); });
    if (reset_from && *reset_from && **reset_from >= remembered) {
      memory.forget(scope);
      return;
    }
    throw FenceUntrusted(
        fmt::format("TG004 fence untrusted for scope \"{}\": the database shows {}, this process has seen {}; was the database "
                    "restored? Then: termgate fence declare-restored --scope … --above …",
                    scope, fence, remembered));
  }

  // Commits the raise by itself where this process does not know the fence to stand at `term` already, so
  // that no exclusive lock lasts as long as a user's transaction.
  void raise_ahead(const Scope& scope, Term term, std::optional<milliseconds> timeout = {}) {
    if (memory.highest(scope.name()) < term.value()) check_ahead(scope, term, timeout);
  }

  // A check of its own before a write: whatever becomes of it, that write has not begun.
  void check_ahead(const Scope& scope, Term term, std::optional<milliseconds> timeout = {}) {
    try {
      check(scope, term, timeout);
    } catch (const OutcomeUnknown& unknown) {
      throw Unavailable(fmt::format("the check before the write was not answered ({}); nothing was written", unknown.what()),
                        std::string(unknown.code()));
    }
  }

  // Before an append. It is one statement and raises by itself, so nothing is raised ahead of it: such a raise would stand
  // even where the append is refused. But its answer is a number and no fence, so that only the scope's memory can tell
  // that the database has forgotten a raise; a term that is not below what is remembered does no harm there.
  void check_before_append(const Stream& stream, const std::optional<Scope>& named, Term term) {
    if (named) {
      if (memory.highest(named->name()) > term.value()) check_ahead(*named, term);
      return;
    }
    // Not named: a stream that has no other scope yet takes its own name.
    if (memory.highest(stream.name()) <= term.value()) return;
    const Rows rows = read(Call::stream, stream.name());
    const auto scope = convert_first<std::string>(rows, [](const auto& row) { return row["scope"].as_text(); });
    check_ahead(Scope(scope.value_or(stream.name())), term);
  }

  std::int64_t check(const Scope& scope, Term term, std::optional<milliseconds> timeout = {}) {
    const std::int64_t remembered = memory.highest(scope.name());
    const Value values[] = {Value(scope.name()), Value(term.value())};
    const std::int64_t fence = audited([&] { return driver->call(Call::check_term, values, false, timeout); }).one()[0].as_int();
    compare_with_memory(scope.name(), fence, remembered);
    memory.saw(scope.name(), fence);
    return fence;
  }
};

namespace {

FenceInfo to_fence(const NamedRow& row) {
  return {row["scope"].as_text(),
          row["term"].as_int(),
          row["raised_at_ms"].as_optional_int().value_or(0),
          row["raised_by"].as_text(),
          row["raise_by"].as_text(),
          row["untrusted"].as_bool(),
          row["reset_from"].as_optional_int()};
}

LeaseInfo to_lease(const NamedRow& row) {
  return {row["scope"].as_text(),
          row["owner_id"].as_text(),
          row["term"].as_int(),
          row["expires_at_ms"].as_int(),
          row["acquired_at_ms"].as_int(),
          row["renewed_at_ms"].as_optional_int().value_or(0),
          row["released_at_ms"].as_optional_int(),
          row["endpoint"].as_text(),
          row["remaining_ms"].as_int()};
}

HandOverInfo to_hand_over(const NamedRow& row) {
  return {row["scope"].as_text(),
          row["owner_id"].as_text(),
          row["term"].as_int(),
          row["successor"].as_optional_text(),
          row["requested_by"].as_text(),
          row["reason"].as_text(),
          row["requested_at_ms"].as_int(),
          row["leave_before_ms"].as_int(),
          row["left_at_ms"].as_optional_int(),
          row["next_owner"].as_optional_text(),
          row["next_term"].as_optional_int(),
          row["taken_at_ms"].as_optional_int(),
          row["gap_ms"].as_optional_int(),
          row["state"].as_text()};
}

// The first version of layer 1 that knows hand-overs.
int hand_overs_since(std::string_view kind) { return kind == "postgresql" ? 24 : kind == "sqlserver" ? 16 : 8; }

void need_lease(const Rows& rows, const Scope& scope, Term term, const std::string& owner) {
  const auto lease = convert_first<LeaseInfo>(rows, to_lease);
  if (lease && lease->owner == owner && lease->term == term.value() && !lease->released_at_ms && lease->remaining_ms > 0) return;
  throw LeaseLost(fmt::format("the lease of scope \"{}\" with term {} is no longer held by {}: nothing was written, stop leading",
                              scope.name(), term.value(), owner));
}

JobRunInfo to_job_run(const NamedRow& row) {
  return {row["run_id"].as_text(),
          row["job_name"].as_text(),
          row["scope"].as_text(),
          row["owner_id"].as_text(),
          row["term"].as_int(),
          row["started_at_ms"].as_int(),
          row["completed_at_ms"].as_optional_int(),
          row["status"].as_text(),
          row["last_heartbeat_ms"].as_optional_int(),
          row["exit_code"].as_optional_int(),
          row["checkpoint"].as_optional_text(),
          row["detail"].as_optional_text(),
          row["request"].as_optional_text(),
          row["now_ms"].as_int()};
}

std::optional<std::int64_t> milliseconds_of(const std::optional<milliseconds>& time) {
  if (!time) return std::nullopt;
  return time->count();
}

std::optional<std::int64_t> number_of(const std::optional<SequenceNo>& number) {
  if (!number) return std::nullopt;
  return number->value();
}

std::optional<std::string> name_of(const std::optional<Scope>& scope) {
  if (!scope) return std::nullopt;
  return scope->name();
}

// Said here, before gigabytes are sent in vain; the setting payload_bytes_max may be lower.
void check_payload(const DatabaseState& state, std::string_view payload) {
  const std::size_t limit = state.driver->payload_limits().bytes_max;
  if (payload.size() <= limit) return;
  throw InvalidInput(fmt::format("TG005 a payload of {} bytes is over the limit of {} (setting payload_bytes_max)", payload.size(), limit));
}

// A payload too large for a page, from the parts that the database gives of it, in a buffer of its own size. None: it was pruned before or
// meanwhile.
std::optional<std::string> payload_in_parts(DatabaseState& state, const std::string& stream, std::int64_t sequence_no, std::size_t bytes,
                                            std::size_t part_bytes) {
  std::string payload;
  if (bytes > part_bytes) payload.reserve(bytes);
  while (payload.size() < bytes) {
    const std::size_t due = std::min(part_bytes, bytes - payload.size());
    Rows rows = state.read(Call::read_payload, stream, sequence_no, payload.size(), due);
    if (rows.empty()) return std::nullopt;
    std::string part = std::move(rows.rows.front().front()).take_bytes();
    if (part.size() != due) {
      throw DatabaseError(fmt::format("the payload of write {} of stream \"{}\" is too short: {} bytes at {} instead of {}", sequence_no,
                                      stream, part.size(), payload.size(), due));
    }
    if (due == bytes) return part;
    payload += part;
  }
  return payload;
}

// Of a statement that succeeded: ROLLBACK TO a savepoint, for the rest is refused inside a transaction.
bool is_rollback(std::string_view sql) {
  const auto start = sql.find_first_not_of(" \t\r\n;");
  return start != std::string_view::npos && text::begins(sql.substr(start), "rollback");
}

// A run's name: a number on PostgreSQL and SQL Server, a UUID on SQLite. Anything else is refused here, with a clearer error than a failed
// conversion's.
class JobId {
 public:
  explicit JobId(const std::string& text) : text_(text) {}
  Value value(std::string_view kind) const {
    if (kind == "sqlite") return Value(text_);
    std::int64_t number = 0;
    const auto [end, failure] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
    if (failure != std::errc{} || end != text_.data() + text_.size())
      throw InvalidInput(fmt::format("TG005 malformed run id \"{}\": `termgate job list` shows them", text_));
    return Value(number);
  }

 private:
  const std::string& text_;
};

std::optional<std::string> text_of(const std::optional<WriteId>& write_id) {
  if (!write_id) return std::nullopt;
  return write_id->text();
}

}  // namespace

LeaseHolding& holding_of(DatabaseState& state) noexcept { return *state.holding; }

}  // namespace detail

using detail::convert_all;
using detail::convert_first;

// Remembers a failure: after it PostgreSQL answers COMMIT with ROLLBACK and reports no error, so write_once()
// has to know.
Rows Transaction::run(sql::Call call, const Value* values, std::size_t count) {
  try {
    return session_.call(call, {values, count});
  } catch (...) {
    failed_ = std::current_exception();
    throw;
  }
}

Rows Transaction::execute(std::string_view sql, const Value* values, std::size_t count) {
  try {
    Rows rows = session_.execute(sql, {values, count});
    // The transaction works again from its savepoint on.
    if (failed_ && detail::is_rollback(sql)) failed_ = nullptr;
    return rows;
  } catch (...) {
    failed_ = std::current_exception();
    throw;
  }
}

SequenceNo Transaction::append(const Stream& stream, std::string_view payload, std::optional<SequenceNo> expected) {
  detail::check_payload(state_, payload);
  return SequenceNo(
      call(Call::append, stream.name(), term_.value(), BytesView{payload}, detail::number_of(expected), scope_.name(), nullptr)
          .one()[0]
          .as_int());
}

void Transaction::require_lease(const std::string& owner) { call(Call::require_lease, scope_.name(), owner); }

Term Transaction::check(const Scope& scope, Term term) {
  const std::int64_t remembered = state_.memory.highest(scope.name());
  const Term fence(call(Call::check_term, scope.name(), term.value()).one()[0].as_int());
  try {
    state_.compare_with_memory(scope.name(), fence.value(), remembered, [&] { return call(Call::fence, scope.name()); });
  } catch (...) {
    failed_ = std::current_exception();
    throw;
  }
  return fence;
}

Database Database::open(std::string_view url, OpenOptions options) {
  auto state = std::make_shared<detail::DatabaseState>();
  state->driver = detail::open_driver(url, options);
  state->stats.log = options.lease_log;
  state->holding = std::make_unique<detail::LeaseHolding>(std::string(url), options, *state->driver, state->stats);
  state->options = std::move(options);
  return Database(std::move(state));
}

Database::Installed Database::install() {
  const auto report = state_->driver->install();
  return {report.from_version, report.to_version};
}
int Database::installed_version() { return state_->driver->installed_version(); }
void Database::uninstall() { state_->driver->uninstall(); }
void Database::grant(std::string_view role, std::string_view level) { state_->driver->grant(role, level); }
Rows Database::revoke(std::string_view role) { return state_->driver->revoke(role); }
std::string_view Database::kind() const noexcept { return state_->driver->kind(); }
std::size_t Database::payload_limit() const noexcept { return state_->driver->payload_limits().bytes_max; }

namespace {

// A checked transaction met a fence lower than this process has seen. Ends the transaction, and never leaves Database::write.
struct FenceBehind {
  std::int64_t fence, remembered;
};

}  // namespace

Wrote Database::write(const Scope& scope, Term term, const std::function<void(Transaction&)>& work, const WriteOptions& options) {
  detail::TransactOptions transact;
  transact.timeout = options.timeout;
  transact.isolation = options.isolation;
  if (!options.write_id) {
    state_->raise_ahead(scope, term, options.timeout);
  } else if (state_->memory.highest(scope.name()) < term.value() && !outcome(*options.write_id)) {
    // With a write id the id is looked up before the term is compared: the write may have happened meanwhile, so claim_write has the last
    // word.
    try {
      state_->raise_ahead(scope, term, options.timeout);
    } catch (const StaleTerm&) {}
  }
  // Each round is a transaction of its own. A conflict is repeated as often as the caller allows; a fence
  // that is lower than what this process has seen is repeated after an audited reset, because the memory of
  // it is forgotten then.
  for (int conflicts = 0;;) {
    try {
      return write_once(scope, term, work, options.write_id, options.lease_owner, transact);
    } catch (const FenceBehind& behind) {
      // Throws FenceUntrusted, unless the fence was reset: then the memory is forgotten and the write begins again.
      state_->compare_with_memory(scope.name(), behind.fence, behind.remembered);
    } catch (const Conflict&) {
      if (conflicts++ >= options.retries) throw;
    }
  }
}

// One attempt: the check (or the claim of the write id) first, so that it holds its lock before the work
// reads anything it relies on.
Wrote Database::write_once(const Scope& scope, Term term, const std::function<void(Transaction&)>& work,
                           const std::optional<WriteId>& write_id, const std::optional<std::string>& lease_owner,
                           const detail::TransactOptions& transact) {
  Wrote wrote = Wrote::now;
  std::int64_t fence = 0;
  const std::int64_t remembered = state_->memory.highest(scope.name());
  detail::TransactOptions with_claim = transact;
  // A term below what this process has seen needs the fence itself.
  if (!write_id && remembered <= term.value() && !TERMGATE_PLANTED(library_check)) with_claim.claim.emplace(detail::Claim{scope, term});
  const auto in_transaction = [&](detail::OpenTransaction& session) {
    Transaction transaction(*state_, session, scope, term);
    if (write_id) {
      const Rows claimed = transaction.call(Call::claim_write, scope.name(), term.value(), write_id->text());
      const auto claim = detail::only_row(claimed);
      fence = claim["fence"].as_int();
      if (!claim["fresh"].as_bool()) {
        wrote = Wrote::before;
        return;
      }
    } else {
      fence = TERMGATE_PLANTED(library_check) ? std::max(term.value(), remembered) : session.fence().value_or(0);
      if (fence == 0) fence = transaction.check(scope, term).value();
    }
    // Rolls back first: to learn why takes a call of its own.
    if (fence < remembered) throw FenceBehind{fence, remembered};
    work(transaction);
    // A callback that swallowed an error must not take its write for committed: PostgreSQL answers COMMIT with ROLLBACK
    // then, and reports no error.
    if (transaction.failed_) std::rethrow_exception(transaction.failed_);
    // The check's lock keeps every other holder out until the end of the transaction; a look is enough.
    if (lease_owner) detail::need_lease(transaction.call(Call::lease, scope.name()), scope, term, *lease_owner);
  };
  state_->audited([&] { state_->driver->transact(with_claim, in_transaction); });
  state_->memory.saw(scope.name(), fence);
  return wrote;
}

Rows Database::execute_one(const Scope& scope, Term term, std::string_view sql, std::span<const Value> values) {
  state_->raise_ahead(scope, term);
  if (state_->memory.highest(scope.name()) <= term.value()) {
    const auto attempt = [&] { return state_->driver->execute({scope, term}, sql, values); };
    if (auto rows = state_->audited(attempt)) return *std::move(rows);
  }
  Rows rows;
  write(scope, term, [&](Transaction& transaction) { rows = transaction.execute(sql, values.data(), values.size()); });
  return rows;
}

SequenceNo Database::append(const Stream& stream, Term term, std::string_view payload, const AppendOptions& options) {
  detail::check_payload(*state_, payload);
  // With a write id the id is looked up before the term is compared.
  if (!options.write_id) state_->check_before_append(stream, options.scope, term);
  const Rows rows = state_->run(Call::append, stream.name(), term.value(), BytesView{payload}, detail::number_of(options.expected),
                                detail::name_of(options.scope), detail::text_of(options.write_id));
  // With a write id the answer may be about a write of long ago.
  if (options.scope && !options.write_id) state_->memory.saw(options.scope->name(), term.value());
  return SequenceNo(rows.one()[0].as_int());
}

SequenceNo Database::append_many(const Stream& stream, Term term, const std::vector<std::string>& payloads, const AppendOptions& options,
                                 const std::vector<WriteId>& write_ids) {
  if (options.write_id) throw InvalidInput("TG005 a batch takes a write id for each of its writes, not one for all");
  if (payloads.empty()) throw InvalidInput("TG005 a batch needs at least one payload");
  std::size_t bytes = 0;
  for (const auto& payload : payloads) {
    detail::check_payload(*state_, payload);
    bytes += payload.size();
  }
  if (bytes > payload_limit()) {
    throw InvalidInput(fmt::format("TG005 a batch of {} bytes is over the limit of {}: append it in parts", bytes, payload_limit()));
  }
  if (!write_ids.empty() && write_ids.size() != payloads.size()) {
    throw InvalidInput(
        fmt::format("TG005 {} write ids for {} payloads: a batch takes one for each, or none", write_ids.size(), payloads.size()));
  }
  if (write_ids.empty()) state_->check_before_append(stream, options.scope, term);
  Value ids;
  if (!write_ids.empty()) {
    TextArray texts;
    for (const WriteId& id : write_ids) texts.emplace_back(id.text());
    ids = Value(std::move(texts));
  }
  const Rows rows = state_->run(Call::append_many, stream.name(), term.value(), BytesArrayView{payloads},
                                detail::number_of(options.expected), detail::name_of(options.scope), std::move(ids));
  if (options.scope && write_ids.empty()) state_->memory.saw(options.scope->name(), term.value());
  return SequenceNo(rows.one()[0].as_int());
}

Term Database::check(const Scope& scope, Term term) { return Term(state_->check(scope, term)); }

SealReceipt Database::seal(const Scope& scope, Term term, std::optional<milliseconds> grace, const std::optional<std::string>& actor,
                           const std::optional<std::string>& reason) {
  const std::int64_t remembered = state_->memory.highest(scope.name());
  // Without a reason as ever: a schema of the version before knows no other.
  const Rows rows = actor || reason
                        ? state_->run(Call::seal_with_reason, scope.name(), term.value(), detail::milliseconds_of(grace), actor, reason)
                        : state_->run(Call::seal, scope.name(), term.value(), detail::milliseconds_of(grace));
  const auto row = detail::only_row(rows);
  const std::int64_t fence = row["fence"].as_int();
  state_->compare_with_memory(scope.name(), fence, remembered);
  state_->memory.saw(scope.name(), fence);
  return {Term(fence), row["previous"].as_optional_int().value_or(0), static_cast<int>(row["evicted"].as_int()),
          row["sealed_at_ms"].as_int()};
}

// Host, process and eight random digits: a process that is restarted with the same number must not pass for
// the holder of its predecessor's lease.
const std::string& Database::default_owner() {
  static const std::string owner = [] {
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
    return fmt::format("{}:{}:{}", host[0] ? host.data() : "localhost", getpid(), WriteId::random().text().substr(0, 8));
  }();
  return owner;
}

std::optional<Lease> Database::try_acquire_lease(const Scope& scope, milliseconds ttl, const LeaseOptions& options) {
  const std::string& owner = options.owner.empty() ? default_owner() : options.owner;
  // The window runs from before the request was sent: the answer may have been long on its way.
  const auto sent = Lease::Clock::now();
  const std::int64_t remembered = state_->memory.highest(scope.name());
  const auto ask = [&] {
    // Where serializable is the default, two that acquire at once may meet a conflict: then nothing was done.
    for (int attempt = 1;; ++attempt) {
      try {
        return state_->run(Call::acquire_lease, scope.name(), owner, ttl.count(),
                           options.endpoint.empty() ? Value() : Value(options.endpoint), detail::milliseconds_of(options.grace));
      } catch (const Conflict&) {
        if (attempt == 10) throw;
      }
    }
  };
  const Rows rows = detail::counted(state_->stats, {.kind = LeaseCall::Kind::acquire, .scope = scope.name(), .owner = owner}, ask,
                                    [](const Rows& answer, LeaseCall& acquired) {
                                      const bool granted = answer.one()[0].as_bool();
                                      if (granted) acquired.term = detail::only_row(answer)["term"].as_int();
                                      return granted;
                                    });
  const auto row = detail::only_row(rows);
  if (!row["acquired"].as_bool()) {
    state_->stats.contention.note(scope.name(), 1, {});
    return std::nullopt;
  }
  const Term term(row["term"].as_int());
  // A term that was given before, or a lower one: the database has forgotten acquisitions (F3).
  state_->compare_with_memory(scope.name(), term.value() - 1, remembered);
  state_->memory.saw(scope.name(), term.value());
  return Lease(scope, term, owner, ttl, sent + ttl);
}

Lease Database::acquire_lease(const Scope& scope, milliseconds ttl, const LeaseOptions& options) {
  const auto give_up = Lease::Clock::now() + options.wait;
  const auto acquire = [&] { return try_acquire_lease(scope, ttl, options); };
  if (auto lease = detail::wait_for_lease(*this, *state_->holding, scope, give_up, detail::wait_times_of(kind()), options.stop, acquire))
    return *std::move(lease);
  throw detail::still_anothers(scope, this->lease(scope));
}

// Throws LeaseLost if the database does not renew it. The window is counted from before the request, as for
// an acquisition.
Lease Database::renew_lease(const Scope& scope, Term term, const std::string& owner, milliseconds ttl) {
  const auto sent = Lease::Clock::now();
  const Rows rows = detail::counted(
      state_->stats, {.kind = LeaseCall::Kind::renew, .scope = scope.name(), .owner = owner, .term = term.value()},
      [&] { return state_->run(Call::renew_lease, scope.name(), owner, term.value(), ttl.count()); },
      [](const Rows& answer, LeaseCall&) { return answer.one()[0].as_bool(); });
  const auto row = detail::only_row(rows);
  if (!row["renewed"].as_bool()) {
    throw LeaseLost(
        fmt::format("the lease of scope \"{}\" with term {} is no longer held by {}: stop leading", scope.name(), term.value(), owner));
  }
  std::optional<Lease::Clock::time_point> leave_before;
  if (const auto left = row.int_if_there("leave_in_ms")) leave_before = sent + milliseconds(*left);
  return Lease(scope, term, owner, ttl, sent + ttl, leave_before);
}

void Database::renew_lease(Lease& lease) { lease = renew_lease(lease.scope(), lease.term(), lease.owner(), lease.ttl()); }

bool Database::release_lease(const Scope& scope, Term term, const std::string& owner) {
  const bool released = detail::counted(
      state_->stats, {.kind = LeaseCall::Kind::release, .scope = scope.name(), .owner = owner, .term = term.value()},
      [&] { return state_->run(Call::release_lease, scope.name(), owner, term.value()).one()[0].as_bool(); },
      [](bool done, LeaseCall&) { return done; });
  if (released) state_->holding->waiters().hint(scope.name());
  return released;
}

bool Database::force_release(const Scope& scope, std::string_view actor, std::string_view reason) {
  const bool released = state_->run(Call::force_release, scope.name(), actor, reason).one()[0].as_bool();
  if (released) state_->holding->waiters().hint(scope.name());
  return released;
}

bool Database::request_hand_over(const Scope& scope, const HandOverOptions& options) {
  const auto text = [](const std::string& given) { return given.empty() ? Value() : Value(given); };
  const bool requested =
      state_->run(Call::request_hand_over, scope.name(), text(options.to), options.drain.count(), text(options.actor), text(options.reason))
          .one()[0]
          .as_bool();
  if (requested) state_->holding->waiters().hint(scope.name());
  return requested;
}

std::vector<HandOverInfo> Database::hand_overs(const std::optional<Scope>& scope, int limit) {
  try {
    return convert_all<HandOverInfo>(state_->read(Call::hand_overs, detail::name_of(scope), limit), detail::to_hand_over);
  } catch (const DatabaseError&) {
    if (installed_version() >= detail::hand_overs_since(kind())) throw;
    return {};
  }
}

std::shared_ptr<void> Database::watch_lease(const Scope& scope, std::function<void()> hinted) {
  return std::make_shared<detail::LeaseWaiters::Watch>(state_->holding->waiters(), scope.name(), std::move(hinted));
}

std::string Database::start_job(std::string_view job, const Scope& scope, Term term, const std::string& owner,
                                const std::optional<std::string>& detail) {
  return state_->run(Call::job_start, job, scope.name(), owner, term.value(), detail).one()[0].as_text();
}

JobRequest Database::request_job(std::string_view job, const Scope& scope, std::string_view kind, std::string_view actor,
                                 std::string_view reason) {
  const auto text = [](std::string_view given) { return given.empty() ? Value() : Value(std::string(given)); };
  const Rows rows = state_->run(Call::job_request, job, scope.name(), kind, text(actor), text(reason));
  const auto row = detail::only_row(rows);
  return {row["requested"].as_bool(), row["run_id"].as_text()};
}

std::optional<JobTaken> Database::take_job(std::string_view job, const Scope& scope, Term term, const std::string& owner) {
  const Rows rows = state_->run(Call::job_take, job, scope.name(), owner, term.value());
  const auto row = detail::only_row(rows);
  if (row["run_id"].is_null()) return std::nullopt;
  return JobTaken{row["run_id"].as_text(), row["kind"].as_text()};
}

// With `renew` the heartbeat and the renewal are one transaction: a heartbeat that is seen says that the
// lease was held.
bool Database::beat_job(const std::string& run_id, const std::optional<std::string>& checkpoint, Lease* renew) {
  const detail::JobId id(run_id);
  if (renew == nullptr) return state_->run(Call::job_heartbeat, id.value(kind()), checkpoint).one()[0].as_bool();
  bool alive = false;
  const auto sent = Lease::Clock::now();
  state_->audited([&] {
    state_->driver->transact({}, [&](detail::OpenTransaction& session) {
      const Value beat[] = {id.value(kind()), Value(checkpoint)};
      alive = session.call(Call::job_heartbeat, beat).one()[0].as_bool();
      const Value renewal[] = {Value(renew->scope().name()), Value(renew->owner()), Value(renew->term().value()),
                               Value(renew->ttl().count())};
      if (session.call(Call::renew_lease, renewal).one()[0].as_bool()) return;
      throw LeaseLost(fmt::format("the lease of scope \"{}\" with term {} is no longer held by {}: stop leading", renew->scope().name(),
                                  renew->term().value(), renew->owner()));
    });
  });
  *renew = Lease(renew->scope(), renew->term(), renew->owner(), renew->ttl(), sent + renew->ttl());
  return alive;
}

std::optional<Lease::Clock::time_point> Database::beat_job(const std::string& run_id, const std::optional<std::string>& checkpoint,
                                                           std::chrono::milliseconds ttl) {
  const detail::JobId id(run_id);
  bool open = false;
  // Counted from the sending, as everywhere: the lease cannot end before.
  const auto sent = Lease::Clock::now();
  state_->audited([&] {
    state_->driver->transact({}, [&](detail::OpenTransaction& session) {
      const Value beat[] = {id.value(kind()), Value(checkpoint), Value(ttl.count())};
      const Rows rows = session.call(Call::job_heartbeat_renew, beat);
      const auto row = detail::only_row(rows);
      open = row["beaten"].as_bool();
      if (open && !row["renewed"].as_bool())
        throw LeaseLost(fmt::format("the lease of job run {} is no longer held by the run's owner: stop", run_id));
    });
  });
  if (!open) return std::nullopt;
  return sent + ttl;
}

bool Database::finish_job(const std::string& run_id, std::string_view status, std::optional<std::int64_t> exit_code,
                          const std::optional<std::string>& detail, const std::optional<std::string>& checkpoint) {
  return state_->run(Call::job_finish, detail::JobId(run_id).value(kind()), status, exit_code, detail, checkpoint).one()[0].as_bool();
}

std::vector<JobRunInfo> Database::jobs(const JobFilter& filter, int limit) {
  Value run_id;
  if (filter.run_id) run_id = detail::JobId(*filter.run_id).value(kind());
  return convert_all<JobRunInfo>(state_->read(Call::jobs, filter.job, filter.scope, run_id, limit, filter.status), detail::to_job_run);
}

CompletedJob Database::completed_job(std::string_view job, const Scope& scope, std::chrono::milliseconds ahead) {
  const Rows rows = state_->read(Call::job_completed, job, scope.name(), ahead.count());
  const detail::NamedRow row = detail::only_row(rows);
  return {row["started_at_ms"].as_optional_int(), row["latest_ms"].as_optional_int(), row["now_ms"].as_int()};
}

DatabaseStats Database::stats() const {
  const detail::StatsCounter& all = state_->stats;
  const auto read = [](const std::atomic<std::int64_t>& number) { return number.load(std::memory_order_relaxed); };
  return {all.acquire.read(), all.renew.read(), all.release.read(), read(all.waits),        std::chrono::nanoseconds(read(all.waited_ns)),
          read(all.held),     read(all.lost),   read(all.expired),  read(all.stale_writes), all.contention.read()};
}

std::int64_t Database::start_follower(std::string_view name, const FollowedBy& followed, bool from_end) {
  return state_->run(Call::follower_start, name, followed.stream, followed.scope, from_end).one()[0].as_int();
}

FollowerBehind Database::follower_behind(std::string_view name, int limit) {
  FollowerBehind behind;
  const Rows rows = state_->read(Call::follower_behind, name, limit);
  for (const Row& held : rows.rows) {
    const detail::NamedRow row(rows, held);
    behind.run = row["run"].as_int();
    behind.behind = row["behind"].as_int();
    if (!row["stream"].is_null()) behind.streams.push_back({row["stream"].as_text(), row["position"].as_int(), row["last_no"].as_int()});
  }
  return behind;
}

FollowerMove Database::advance_follower(std::string_view name, std::int64_t run, const Stream& stream, SequenceNo from, SequenceNo to) {
  const Rows rows = state_->run(Call::follower_advance, name, run, stream.name(), from.value(), to.value());
  const std::string outcome = rows.one()[0].as_text();
  return outcome == "moved" ? FollowerMove::moved : outcome == "taken" ? FollowerMove::taken : FollowerMove::elsewhere;
}

bool Database::remove_follower(std::string_view name) { return state_->run(Call::follower_remove, name).one()[0].as_bool(); }

std::vector<FollowerInfo> Database::followers(std::string_view after, int limit) {
  return convert_all<FollowerInfo>(state_->read(Call::followers, after, limit), [](const auto& row) {
    return FollowerInfo{row["name"].as_text(),
                        {row["stream"].as_optional_text(), row["scope"].as_optional_text()},
                        row["run"].as_int(),
                        row["started_at_ms"].as_int(),
                        row["started_by"].as_text(),
                        row["behind"].as_int(),
                        row["behind_ms"].as_optional_int(),
                        row["moved_at_ms"].as_optional_int()};
  });
}

std::unique_ptr<detail::FenceFeed> Database::stream_feed() {
  if (kind() != "postgresql") return nullptr;
  // There no transaction may notify, for it might be prepared (0018_follower.sql).
  if (query("SELECT pg_catalog.current_setting('max_prepared_transactions')").one()[0].as_text() != "0") return nullptr;
  return state_->holding->feed("termgate_streams");
}

bool Database::record_refusals(const Scope& scope, Term term, std::int64_t count, std::int64_t first_ms, std::int64_t last_ms,
                               std::string_view client) {
  return state_->run(Call::record_refusal, scope.name(), term.value(), count, first_ms, last_ms, client).one()[0].as_bool();
}

std::vector<std::pair<std::string, std::int64_t>> Database::refusal_counts() {
  return convert_all<std::pair<std::string, std::int64_t>>(
      state_->read(Call::refusal_counts), [](const auto& row) { return std::pair(row["code"].as_text(), row["count"].as_int()); });
}

std::optional<FenceInfo> Database::fence(const Scope& scope) {
  return convert_first<FenceInfo>(state_->read(Call::fence, scope.name()), detail::to_fence);
}

std::vector<FenceInfo> Database::fences(std::string_view after, int limit) {
  return convert_all<FenceInfo>(state_->read(Call::fences, after, limit), detail::to_fence);
}

std::optional<LeaseInfo> Database::lease(const Scope& scope) {
  return convert_first<LeaseInfo>(state_->read(Call::lease, scope.name()), detail::to_lease);
}

std::vector<LeaseInfo> Database::leases(std::string_view after, int limit) {
  return convert_all<LeaseInfo>(state_->read(Call::leases, after, limit), detail::to_lease);
}

std::vector<StreamWrite> Database::read_stream(const Stream& stream, SequenceNo after, int limit, std::size_t bytes_max) {
  const std::size_t part_bytes = state_->driver->payload_limits().part_bytes;
  // What a page holds besides those that come in parts is bounded as well: many of them, or `bytes_max`.
  constexpr std::size_t small = std::size_t{64} << 10;
  const std::size_t in_page = std::min(part_bytes, std::max(bytes_max / static_cast<std::size_t>(std::max(limit, 1)), small));
  std::int64_t pruned = 0;
  for (int attempt = 0; attempt < 10; ++attempt) {
    Rows rows = state_->read(Call::read_stream, stream.name(), after.value(), limit, in_page);
    std::vector<StreamWrite> writes;
    writes.reserve(rows.rows.size());
    std::size_t total = 0;
    pruned = 0;
    const auto payload_at = std::find(rows.columns.begin(), rows.columns.end(), "payload") - rows.columns.begin();
    for (Row& held : rows.rows) {
      const detail::NamedRow row(rows, held);
      const auto bytes = static_cast<std::size_t>(row["payload_bytes"].as_int());
      if (!writes.empty() && (bytes > bytes_max || total > bytes_max - bytes)) break;
      total += bytes;
      const std::int64_t number = row["sequence_no"].as_int();
      std::optional<std::string> payload = bytes <= in_page
                                               ? std::optional(std::move(held.at(static_cast<std::size_t>(payload_at))).take_bytes())
                                               : detail::payload_in_parts(*state_, stream.name(), number, bytes, part_bytes);
      if (!payload) {
        // The writes read before it are returned; the next call reports what comes after.
        pruned = number;
        break;
      }
      writes.push_back({SequenceNo(number), row["scope"].as_text(), Term(row["term"].as_int()), *std::move(payload),
                        row["created_at_ms"].as_int(), row["write_id"].as_optional_text()});
    }
    // Where nothing came before it, the page is read anew, as it is by now.
    if (!writes.empty() || pruned == 0) return writes;
  }
  throw Conflict(fmt::format("write {} of stream \"{}\" was pruned while it was read, as were those before it: nothing was read", pruned,
                             stream.name()));
}

std::optional<StreamInfo> Database::stream(const Stream& stream) {
  return convert_first<StreamInfo>(state_->read(Call::stream, stream.name()), [&](const auto& row) {
    return StreamInfo{stream.name(), row["scope"].as_text(), row["last_no"].as_int(), row["first_no"].as_optional_int(),
                      row["created_at_ms"].as_int()};
  });
}

std::vector<StreamInfo> Database::streams(std::string_view after, int limit) {
  return convert_all<StreamInfo>(state_->read(Call::streams, after, limit), [](const auto& row) {
    return StreamInfo{row["stream"].as_text(), row["scope"].as_text(), row["last_no"].as_int(), std::nullopt,
                      row["created_at_ms"].as_int()};
  });
}

std::optional<WriteOutcome> Database::outcome(const WriteId& write_id) {
  return convert_first<WriteOutcome>(state_->read(Call::outcome, write_id.text()), [](const auto& row) {
    return WriteOutcome{row["scope"].as_text(), Term(row["term"].as_int()), row["stream"].as_optional_text(),
                        row["sequence_no"].as_optional_int(), row["created_at_ms"].as_int()};
  });
}

Rows Database::query(std::string_view sql, const std::vector<Value>& values) { return state_->driver->query(sql, values); }

std::int64_t Database::reset_fence(const Scope& scope, Term term, std::string_view actor, std::string_view reason) {
  const std::int64_t previous = state_->run(Call::reset_fence, scope.name(), term.value(), actor, reason).one()[0].as_int();
  state_->memory.forget(scope.name());
  return previous;
}

Term Database::declare_restored(const Scope& scope, Term above, std::string_view actor, std::string_view reason) {
  return Term(state_->run(Call::declare_restored, scope.name(), above.value(), actor, reason).one()[0].as_int());
}

std::int64_t Database::declare_nothing_lost(std::string_view actor, std::string_view reason) {
  return state_->run(Call::declare_nothing_lost, actor, reason).one()[0].as_int();
}

std::int64_t Database::declare_untrusted(std::string_view actor, std::string_view reason) {
  return state_->run(Call::declare_untrusted, actor, reason).one()[0].as_int();
}

void Database::set_raise_by(const Scope& scope, std::string_view mode) { state_->run(Call::set_raise_by, scope.name(), mode); }

std::int64_t Database::prune(const Stream& stream, SequenceNo before) {
  return state_->run(Call::prune, stream.name(), before.value()).one()[0].as_int();
}

std::int64_t Database::prune_history(milliseconds older_than) {
  return state_->run(Call::prune_history, older_than.count()).one()[0].as_int();
}

bool Database::move_stream(const Stream& stream, const Scope& scope, std::string_view actor, std::string_view reason) {
  return state_->run(Call::stream_move, stream.name(), scope.name(), actor, reason).one()[0].as_bool();
}

std::int64_t Database::protect(std::string_view table, const Protection& protection) {
  return state_->run(Call::protect, table, protection.scope_column, protection.scope, protection.mode, protection.prefix).one()[0].as_int();
}

bool Database::unprotect(std::string_view table) { return state_->run(Call::unprotect, table).one()[0].as_bool(); }

std::int64_t Database::adopt(std::string_view table, std::string_view scope_column, std::string_view term_column, std::string_view prefix) {
  return state_->run(Call::adopt, table, scope_column, term_column, prefix).one()[0].as_int();
}

bool Database::unadopt(std::string_view table) { return state_->run(Call::unadopt, table).one()[0].as_bool(); }

std::vector<Advice> Database::doctor() {
  auto found = convert_all<Advice>(state_->read(Call::doctor), [](const auto& row) {
    return Advice{row["severity"].as_text(), row["object"].as_text(), row["problem"].as_text(), row["remedy"].as_text()};
  });
  if (std::string problem = state_->driver->locks_problem(); !problem.empty())
    found.insert(found.begin(), Advice{"error", "advisory locks", std::move(problem), "Move the database to a PostgreSQL server"});
  return found;
}

std::vector<Breach> Database::verify(std::optional<std::int64_t> since_ms) {
  return convert_all<Breach>(state_->read(Call::verify, since_ms), [](const auto& row) {
    return Breach{row["kind"].as_text(), row["scope"].as_text(), row["object"].as_text(), row["detail"].as_text()};
  });
}

Rows Database::settings() { return state_->read(Call::settings); }
void Database::set_setting(std::string_view name, std::string_view value) { state_->run(Call::set_setting, name, value); }
// One call: on SQL Server settings cannot be changed inside a transaction, for every check reads them.
void Database::set_settings(const std::vector<std::pair<std::string, std::string>>& names_and_values) {
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
  state_->run(Call::set_settings, json);
}
std::vector<AuditEntry> Database::audit(const AuditFilter& filter, int limit) {
  return convert_all<AuditEntry>(state_->read(Call::audit, filter.scope, filter.above_id, limit), [](const auto& row) {
    return AuditEntry{row["id"].as_int(),      row["at_ms"].as_int(),           row["actor"].as_text(), row["client"].as_text(),
                      row["action"].as_text(), row["scope"].as_optional_text(), row["detail"].as_text()};
  });
}

Rows Database::explain(const Scope& scope, int limit) { return state_->read(Call::explain, scope.name(), limit); }

}  // namespace termgate::inline v0
