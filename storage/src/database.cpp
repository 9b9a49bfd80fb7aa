// Database sends the statements of sql/<database>/calls/ through the driver and turns rows into
// values: writes, with retries if the caller wants them, and leases, whose end is computed
// conservatively.
// Long: all calls of Database but hold() and try_hold(), which are in held_lease.cpp.
#include <termgate/database.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <termgate/detail/named_row.hpp>
#include <termgate/detail/open.hpp>
#include <termgate/detail/plant.hpp>
#include <termgate/info.hpp>

#include "database_state.hpp"
#include "sql/statements.hpp"

namespace termgate {
inline namespace v0 {

using detail::convert_first;
using detail::DatabaseState;
using detail::TransactionState;
using sql::Call;
using std::chrono::milliseconds;

namespace {

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

std::optional<std::string> text_of(const std::optional<WriteId>& write_id) {
  if (!write_id) return std::nullopt;
  return write_id->text();
}

// The check's lock keeps every other holder out until the end of the transaction, so reading is
// enough.
void need_lease(const Rows& rows, const Scope& scope, Term term, const std::string& owner) {
  const auto held = convert_first<bool>(rows, [&](const auto& row) {
    return row["owner_id"].as_text() == owner && row["term"].as_int() == term.value() &&
           !row["released_at_ms"].as_optional_int() && row["remaining_ms"].as_int() > 0;
  });
  if (held.value_or(false)) return;
  throw LeaseLost(
      fmt::format("the lease of scope \"{}\" with term {} is no longer held by {}: nothing was "
                  "written, stop leading",
                  scope.name(), term.value(), owner));
}

// How one attempt of a write ended. fence_behind: the database shows a fence lower than this
// process remembers; nothing was written.
struct Attempt {
  enum class End { committed, already, fence_behind } end;
  std::int64_t fence, remembered;
};

// The check (or the claim of the write id) comes first, so that it holds its lock before the work
// reads anything it relies on.
Attempt write_once(DatabaseState& state, const Scope& scope, Term term,
                   const std::function<void(Transaction&)>& work, const WriteOptions& options) {
  Attempt attempt{Attempt::End::committed, 0, state.memory.highest(scope.name())};
  detail::TransactOptions transact{.isolation = options.isolation, .timeout = options.timeout};
  // The driver may check a claim by a shortcut (a seat). A term below what this process remembers
  // must be compared with the fence itself.
  if (!options.write_id && attempt.remembered <= term.value() && !TERMGATE_PLANTED(library_check))
    transact.claim.emplace(detail::Claim{scope, term});
  const auto in_transaction = [&](detail::OpenTransaction& session) {
    TransactionState open{state, session, scope, term};
    Transaction transaction = open.handle();
    if (options.write_id) {
      const Rows claimed =
          open.call(Call::claim_write, scope.name(), term.value(), options.write_id->text());
      const auto claim = detail::only_row(claimed);
      attempt.fence = claim["fence"].as_int();
      if (!claim["fresh"].as_bool()) {
        attempt.end = Attempt::End::already;
        return;
      }
    } else {
      attempt.fence = TERMGATE_PLANTED(library_check) ? std::max(term.value(), attempt.remembered)
                                                      : session.fence().value_or(0);
      if (attempt.fence == 0) attempt.fence = transaction.check(scope, term).value();
    }
    // Why it is lower is found out by a separate call, after the rollback.
    if (attempt.fence < attempt.remembered) {
      attempt.end = Attempt::End::fence_behind;
      session.give_up();
      return;
    }
    work(transaction);
    // If a callback swallowed an error, its write must not count as committed: PostgreSQL then
    // answers COMMIT with ROLLBACK, without an error.
    if (open.failed) std::rethrow_exception(open.failed);
    if (options.lease_owner)
      need_lease(open.call(Call::lease, scope.name()), scope, term, *options.lease_owner);
  };
  state.audited([&] { state.driver->transact(transact, in_transaction); });
  return attempt;
}

}  // namespace

Database Database::open(std::string_view url, OpenOptions options) {
  auto state = std::make_shared<DatabaseState>();
  state->driver = detail::open_driver(url, options);
  state->stats.log = options.lease_log;
  state->holding = std::make_unique<detail::LeaseHolding>(std::string(url), options, *state->driver,
                                                          state->stats);
  state->options = std::move(options);
  return Database(std::move(state));
}

std::string_view Database::kind() const noexcept { return state_->driver->kind(); }
std::size_t Database::payload_limit() const noexcept {
  return state_->driver->payload_limits().bytes_max;
}

Wrote Database::write(const Scope& scope, Term term, const std::function<void(Transaction&)>& work,
                      const WriteOptions& options) {
  if (options.write_id) state_->try_raise(scope, term, *options.write_id, options.timeout);
  else state_->raise_ahead(scope, term, options.timeout);
  // Each round is a transaction of its own. Another one follows a conflict, as often as the caller
  // allows, and a fence that is lower than this process remembers, if an audited reset has lowered
  // it: the memory has been dropped then.
  for (int conflicts = 0;;) {
    try {
      const Attempt attempt = write_once(*state_, scope, term, work, options);
      if (attempt.end == Attempt::End::fence_behind) {
        state_->compare_with_memory(scope.name(), attempt.fence, attempt.remembered);
        continue;
      }
      state_->memory.saw(scope.name(), attempt.fence);
      return attempt.end == Attempt::End::already ? Wrote::before : Wrote::now;
    } catch (const Conflict&) {
      if (conflicts++ >= options.retries) throw;
    }
  }
}

Rows Database::execute_values(const Scope& scope, Term term, std::string_view sql,
                              std::span<const Value> values) {
  state_->raise_ahead(scope, term, {});
  if (state_->memory.highest(scope.name()) <= term.value()) {
    const auto attempt = [&] { return state_->driver->execute({scope, term}, sql, values); };
    if (auto rows = state_->audited(attempt)) return *std::move(rows);
  }
  Rows rows;
  write(scope, term,
        [&](Transaction& transaction) { rows = transaction.exec_values(sql, values); });
  return rows;
}

SequenceNo Database::append(const Stream& stream, Term term, std::string_view payload,
                            const AppendOptions& options) {
  state_->check_payload(payload);
  // With a write id, the id is looked up before the term is compared.
  if (!options.write_id) state_->check_before_append(stream, options.scope, term);
  const Rows rows =
      state_->run(Call::append, stream.name(), term.value(), BytesView{payload},
                  number_of(options.expected), name_of(options.scope), text_of(options.write_id));
  // With a write id, the answer may be about a write of long ago.
  if (options.scope && !options.write_id) state_->memory.saw(options.scope->name(), term.value());
  return SequenceNo(rows.one()[0].as_int());
}

SequenceNo Database::append_many(const Stream& stream, Term term,
                                 const std::vector<std::string>& payloads,
                                 const AppendOptions& options,
                                 const std::vector<WriteId>& write_ids) {
  if (options.write_id)
    throw InvalidInput("TG005 a batch takes a write id for each of its writes, not one for all");
  if (payloads.empty()) throw InvalidInput("TG005 a batch needs at least one payload");
  std::size_t bytes = 0;
  for (const auto& payload : payloads) {
    state_->check_payload(payload);
    bytes += payload.size();
  }
  if (bytes > payload_limit()) {
    throw InvalidInput(
        fmt::format("TG005 a batch of {} bytes is over the limit of {}: append it in parts", bytes,
                    payload_limit()));
  }
  if (!write_ids.empty() && write_ids.size() != payloads.size()) {
    throw InvalidInput(
        fmt::format("TG005 {} write ids for {} payloads: a batch takes one for each, or none",
                    write_ids.size(), payloads.size()));
  }
  if (write_ids.empty()) state_->check_before_append(stream, options.scope, term);
  Value ids;
  if (!write_ids.empty()) {
    TextArray texts;
    for (const WriteId& id : write_ids) texts.emplace_back(id.text());
    ids = Value(std::move(texts));
  }
  const Rows rows =
      state_->run(Call::append_many, stream.name(), term.value(), BytesArrayView{payloads},
                  number_of(options.expected), name_of(options.scope), std::move(ids));
  if (options.scope && write_ids.empty()) state_->memory.saw(options.scope->name(), term.value());
  return SequenceNo(rows.one()[0].as_int());
}

Term Database::check(const Scope& scope, Term term) { return Term(state_->check(scope, term)); }

SealReceipt Database::seal(const Scope& scope, Term term, std::optional<milliseconds> grace,
                           const std::optional<std::string>& actor,
                           const std::optional<std::string>& reason) {
  const std::int64_t remembered = state_->memory.highest(scope.name());
  // Without a reason it uses the old statement, because the previous version of the schema knows no
  // other.
  const Rows rows =
      actor || reason ? state_->run(Call::seal_with_reason, scope.name(), term.value(),
                                    milliseconds_of(grace), actor, reason)
                      : state_->run(Call::seal, scope.name(), term.value(), milliseconds_of(grace));
  const auto row = detail::only_row(rows);
  const std::int64_t fence = row["fence"].as_int();
  state_->compare_with_memory(scope.name(), fence, remembered);
  state_->memory.saw(scope.name(), fence);
  return {Term(fence), row["previous"].as_optional_int().value_or(0),
          static_cast<int>(row["evicted"].as_int()), row["sealed_at_ms"].as_int()};
}

// Host, process ID and eight random digits: a restarted process that gets the same process ID must
// not pass for the holder of its predecessor's lease.
const std::string& default_owner() {
  static const std::string owner = [] {
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
    return fmt::format("{}:{}:{}", host[0] ? host.data() : "localhost", getpid(),
                       WriteId::random().text().substr(0, 8));
  }();
  return owner;
}

std::optional<Lease> Database::try_acquire_lease(const Scope& scope, milliseconds ttl,
                                                 const LeaseOptions& options) {
  const std::string& owner = options.owner.empty() ? default_owner() : options.owner;
  // Measured from before the request was sent, because the answer may take long to arrive.
  const auto sent = Lease::Clock::now();
  const std::int64_t remembered = state_->memory.highest(scope.name());
  const auto ask = [&] {
    // If serializable is the default level, concurrent acquisitions may conflict; then nothing was
    // done.
    for (int attempt = 1;; ++attempt) {
      try {
        return state_->run(Call::acquire_lease, scope.name(), owner, ttl.count(),
                           options.endpoint.empty() ? Value() : Value(options.endpoint),
                           milliseconds_of(options.grace));
      } catch (const Conflict&) {
        if (attempt == 10) throw;
      }
    }
  };
  const Rows rows = detail::counted(
      state_->stats, {.kind = LeaseCall::Kind::acquire, .scope = scope.name(), .owner = owner}, ask,
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
  // A term that was issued before, or a lower one: the database has forgotten acquisitions (F3).
  state_->compare_with_memory(scope.name(), term.value() - 1, remembered);
  state_->memory.saw(scope.name(), term.value());
  return Lease(scope, term, owner, ttl, sent + ttl);
}

Lease Database::acquire_lease(const Scope& scope, milliseconds ttl, const LeaseOptions& options) {
  const auto give_up = Lease::Clock::now() + options.wait;
  const auto acquire = [&] { return try_acquire_lease(scope, ttl, options); };
  if (auto lease = detail::wait_for_lease(*this, *state_->holding, scope, give_up,
                                          detail::wait_times_of(kind()), options.stop, acquire))
    return *std::move(lease);
  throw detail::still_anothers(scope, Info(*this).lease(scope));
}

// Throws LeaseLost if the database does not renew it. The lease is measured from before the
// request, as for an acquisition.
Lease Database::renew_lease(const Scope& scope, Term term, const std::string& owner,
                            milliseconds ttl) {
  const auto sent = Lease::Clock::now();
  const Rows rows = detail::counted(
      state_->stats,
      {.kind = LeaseCall::Kind::renew, .scope = scope.name(), .owner = owner, .term = term.value()},
      [&] {
        return state_->run(Call::renew_lease, scope.name(), owner, term.value(), ttl.count());
      },
      [](const Rows& answer, LeaseCall&) { return answer.one()[0].as_bool(); });
  const auto row = detail::only_row(rows);
  if (!row["renewed"].as_bool()) {
    throw LeaseLost(
        fmt::format("the lease of scope \"{}\" with term {} is no longer held by {}: stop leading",
                    scope.name(), term.value(), owner));
  }
  std::optional<Lease::Clock::time_point> leave_before;
  if (const auto left = row.int_if_there("leave_in_ms")) leave_before = sent + milliseconds(*left);
  return Lease(scope, term, owner, ttl, sent + ttl, leave_before);
}

void Database::renew_lease(Lease& lease) {
  lease = renew_lease(lease.scope(), lease.term(), lease.owner(), lease.ttl());
}

bool Database::release_lease(const Scope& scope, Term term, const std::string& owner) {
  const bool released = detail::counted(
      state_->stats,
      {.kind = LeaseCall::Kind::release,
       .scope = scope.name(),
       .owner = owner,
       .term = term.value()},
      [&] {
        return state_->run(Call::release_lease, scope.name(), owner, term.value())
            .one()[0]
            .as_bool();
      },
      [](bool done, LeaseCall&) { return done; });
  if (released) state_->holding->waiters().hint(scope.name());
  return released;
}

std::optional<WriteOutcome> Database::outcome(const WriteId& write_id) {
  return convert_first<WriteOutcome>(
      state_->read(Call::outcome, write_id.text()), [](const auto& row) {
        return WriteOutcome{row["scope"].as_text(), Term(row["term"].as_int()),
                            row["stream"].as_optional_text(), row["sequence_no"].as_optional_int(),
                            row["created_at_ms"].as_int()};
      });
}

Rows Database::query(std::string_view sql, const std::vector<Value>& values) {
  return state_->driver->query(sql, values);
}

}  // namespace v0
}  // namespace termgate
