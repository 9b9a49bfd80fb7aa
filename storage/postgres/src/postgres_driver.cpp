// The PostgreSQL driver: a pool of sessions, transactions whose BEGIN and COMMIT the driver sends,
// and seats.
//
// The outcome of a COMMIT whose answer is lost is never guessed: the library promises to report
// "unknown" (F5).
// Long: the pool, its transactions and their seats share one session's state.
#include <termgate/detail/postgres_driver.hpp>

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <shared_mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <termgate/detail/connection_pool.hpp>
#include <termgate/detail/installer.hpp>
#include <termgate/error.hpp>

#include "connection.hpp"
#include "conninfo.hpp"
#include "errors.hpp"
#include <termgate/detail/schema.hpp>
#include <termgate/text/quote.hpp>
#include <termgate/text/scanner.hpp>
#include "sql/statements.hpp"
#include "seats.hpp"
#include "statement_text.hpp"
#include "watchdog.hpp"

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

using std::chrono::milliseconds;

// The time from the server's own timeout until the connection is given up: its answer may be on its
// way.
constexpr milliseconds timeout_margin{1000};

// The transaction belongs to the library: a COMMIT in the middle would let the following statements
// run unfenced.
void refuse_transaction_control(std::string_view sql) {
  if (!is_transaction_control(sql)) return;
  throw InvalidInput(
      fmt::format("TG005 {} inside a fenced transaction: the library begins and ends it; "
                  "savepoints are free to use",
                  text::first_pieces(sql, text::Dialect::postgresql, 1, true).front()));
}

// OpenSSL cleans up when the process ends. A static Database may be destroyed after that, and then
// neither it nor a keeper of seats may use the connection. This struct is never destroyed, because
// threads may still read it.
struct ProcessEnd {
  std::shared_mutex asking;  // shared by keepers during a request
  std::atomic<bool> came{false};
};
ProcessEnd& process_end() {
  static ProcessEnd& end = *new ProcessEnd;
  return end;
}

void note_first_connection() {
  static const struct Mark {
    ~Mark() {
      const std::unique_lock lock(process_end().asking);
      process_end().came = true;
    }
  } mark;
}

void need_process() {
  if (process_end().came) throw Unavailable("the program is ending; nothing was written");
}

// How long to wait for an answer about seats.
constexpr milliseconds seats_wait{3000};

// How long an answer may take: without limit, unless OpenOptions::answer_wait sets one.
struct Silence {
  Watchdog& watchdog;
  milliseconds answer_wait;

  // Runs `step`, which waits for answers on `connection`, and turns its failure into the library's
  // error.
  template <class Step>
  auto bounded(Connection& connection, Phase phase, const std::string& url, Step step) const {
    std::optional<Watchdog::Watch> watch;
    try {
      if (answer_wait.count() > 0)
        watch.emplace(watchdog, connection.socket(), Watchdog::Clock::now() + answer_wait);
      return step();
    } catch (...) {
      if (watch && watch->over()) {
        throw_for_sqlstate(
            "08006",
            fmt::format("no answer within {} ms: the connection was given up", answer_wait.count()),
            phase);
      }
      rethrow_as_ours(phase, url, connection.is_open());
    }
  }
};

class PostgresTransaction final : public OpenTransaction {
 public:
  using Clock = Watchdog::Clock;

  PostgresTransaction(Connection& connection, std::span<const std::string> calls,
                      const std::string& url, Silence silence, std::optional<milliseconds> timeout,
                      Clock::time_point start)
      : connection_(connection),
        calls_(calls),
        url_(url),
        silence_(silence),
        timeout_(timeout),
        start_(start) {}

  // The text that begins the transaction, which is sent with the first statement, in one round
  // trip.
  void begin_with(std::string text) { begin_ = std::move(text); }
  void let_pass(std::int64_t fence) { fence_ = fence; }
  Rows check(std::string_view sql, std::span<const Value> parameters) {
    keep_time();
    Rows rows = send(sql, parameters);
    let_pass(rows.one()[0].as_int());
    return rows;
  }
  std::optional<std::int64_t> fence() const override { return fence_; }
  bool has_begun() const { return begin_.empty(); }

  Rows call(sql::Call call, std::span<const Value> parameters) override {
    keep_time();
    return send(calls_[static_cast<std::size_t>(call)], parameters);
  }

  Rows execute(std::string_view sql, std::span<const Value> parameters) override {
    refuse_transaction_control(sql);
    keep_time();
    return send(sql, parameters);
  }

  // statement_timeout starts anew with each statement, so it is lowered as time passes.
  void keep_time() {
    if (!timeout_) return;
    const auto left = std::chrono::ceil<milliseconds>(start_ + *timeout_ - Clock::now());
    if (left.count() <= 0)
      throw Unavailable(fmt::format("the write's timeout of {} ms is over; nothing was written",
                                    timeout_->count()));
    if (left < limit_ - limit_ / 10) limit_statements(left);
  }
  void end_time() {
    if (!timeout_) return;
    keep_time();
    limit_statements(milliseconds(0));  // COMMIT has no time limit
  }

 private:
  Rows send(std::string_view sql, std::span<const Value> parameters) {
    const Statement statements[] = {{begin_}, {sql, parameters}};
    return silence_.bounded(connection_, Phase::before_commit, url_, [&] {
      connection_.prepare(sql);
      if (has_begun()) return connection_.run(statements[1]);
      connection_.prepare(begin_);
      try {
        Rows rows = std::move(connection_.run_all(statements)[1]);
        begin_.clear();
        return rows;
      } catch (...) {
        if (connection_.in_transaction()) begin_.clear();
        throw;
      }
    });
  }
  void limit_statements(milliseconds limit) {
    const Value text[] = {Value(std::to_string(limit.count()))};
    send("SELECT pg_catalog.set_config('statement_timeout', $1, true)", text);
    limit_ = limit;
  }

  Connection& connection_;
  const std::span<const std::string> calls_;
  const std::string& url_;
  const Silence silence_;
  const std::optional<milliseconds> timeout_;
  const Clock::time_point start_;
  milliseconds limit_ = milliseconds::max();
  std::string begin_;
  std::optional<std::int64_t> fence_;
};

class PostgresDriver final : public Driver {
 public:
  PostgresDriver(std::string url, PostgresOptions options)
      : url_(std::move(url)),
        options_(std::move(options)),
        conninfo_(conninfo_of(url_, ConninfoEnvironment::of_process())),
        pool_(options_.connections_max,
              {.connect = [this] { return connect(); },
               .is_alive = [](Session& session) { return session.looks_alive(); },
               .is_reusable =
                   [this](Session& session) {
                     seats_.returned(session);
                     return session.is_open();
                   }}),
        seats_(options_.schema, {.connect =
                                     [this] {
                                       const std::shared_lock asks(process_end().asking);
                                       need_process();
                                       return connect();
                                     },
                                 .run =
                                     [this](Connection& connection, const Statement& statement) {
                                       const std::shared_lock asks(process_end().asking);
                                       need_process();
                                       return silence_of(seats_wait)
                                           .bounded(connection, Phase::before_commit, url_,
                                                    [&] { return connection.run(statement); });
                                     },
                                 .each_idle =
                                     [this](const auto& which, const auto& use) {
                                       for (bool more = true; more;) {
                                         try {
                                           more = pool_.with_idle(which, use);
                                         } catch (const Error&) {
                                         }  // the session is closed, which ends its seats
                                       }
                                     }}) {
    need_schema_name(options_.schema);
    for (const std::string_view text : sql::postgres_calls().texts)
      calls_.push_back(with_schema(text, options_.schema));
    notify_raised_ = with_schema("SELECT @schema@.notify_raised($1)", options_.schema);
    check_alone_ = with_schema(
        "SELECT @schema@.check_term($1, $2::bigint) AS fence, "
        "(SELECT f.term FROM @schema@.fence_status f WHERE f.scope = $1) AS before",
        options_.schema);
  }

  std::string_view kind() const noexcept override { return "postgresql"; }
  PayloadLimits payload_limits() const noexcept override {
    return {std::size_t{256} << 20, std::size_t{16} << 20};
  }

  void transact(const TransactOptions& options,
                const std::function<void(OpenTransaction&)>& work) override {
    const auto start = Watchdog::Clock::now();
    Pool::PooledConnection lent = options.claim
                                      ? lend_for(options.claim->scope.name(), options.timeout)
                                      : lend_standing(options.timeout);
    if (options.timeout && Watchdog::Clock::now() - start >= *options.timeout) {
      throw Unavailable(fmt::format(
          "the write's timeout of {} ms ended before there was a connection; nothing was written",
          options.timeout->count()));
    }
    lent.begun();
    lent->last_thread = std::this_thread::get_id();
    PostgresTransaction transaction(*lent, calls_, url_, silence(), options.timeout, start);
    std::optional<Rows> sat;
    {
      // The server ends the work in time. If it is silent, the connection is given up soon after.
      std::optional<Watchdog::Watch> watch;
      if (options.timeout)
        watch.emplace(watchdog_, lent->socket(), start + *options.timeout + timeout_margin);
      try {
        if (options.claim) seats_.give_way(*lent, options.claim->scope, options.claim->term);
        else seats_.stand(*lent);
        transaction.begin_with(begin_text(options));
        if (options.claim) sat = enter(*lent, transaction, *options.claim, options.isolation);
        work(transaction);
        if (transaction.given_up()) return roll_back(lent);
        // Earlier statements have a time limit, but COMMIT has none: interrupting it would leave
        // the outcome unknown.
        transaction.end_time();
        // The last moment at which a dead connection still proves that nothing was written.
        step(*lent, Phase::before_commit, [&] { lent->expect_alive(); });
      } catch (const Unavailable&) {
        roll_back(lent);
        if (!watch || !watch->over()) throw;
        throw Unavailable(
            fmt::format("the write's timeout of {} ms is over and the server is silent: the "
                        "connection was given up; nothing was written",
                        options.timeout->count()));
      } catch (const Error& error) {
        if (error.code().starts_with("TG")) seats_.doubt(*lent);
        roll_back(lent);
        throw;
      } catch (...) {
        roll_back(lent);
        throw;
      }
    }
    if (transaction.has_begun()) commit(lent);
    lent.ended();
    if (sat) sit_down(lent, *options.claim, *sat);
  }

  std::optional<Rows> execute(const Claim& claim, std::string_view sql,
                              std::span<const Value> parameters) override {
    refuse_transaction_control(sql);
    return write_alone(claim, &calls_[static_cast<std::size_t>(sql::Call::check_term)], sql,
                       parameters, std::nullopt);
  }

  Rows call(sql::Call call, std::span<const Value> parameters, bool read_only,
            std::optional<milliseconds> timeout) override {
    const std::string& sql = calls_[static_cast<std::size_t>(call)];
    const auto scope = read_only ? std::nullopt : scope_of_append(call, parameters);
    // With a write id, the id is looked up before the term is compared.
    if (scope && parameters[5].is_null())
      return write_alone({*scope, Term(parameters[1].as_int())}, nullptr, sql, parameters, timeout);
    if (read_only || scope || may_sit(call)) {
      Pool::PooledConnection lent = lend(timeout);
      return run_alone(*lent, {sql, parameters}, read_only, timeout);
    }
    Rows rows;
    {
      Pool::PooledConnection lent = lend_standing(timeout);
      stand(lent);
      rows = run_alone(*lent, {call == sql::Call::check_term ? check_alone_ : sql, parameters},
                       read_only, timeout);
    }
    if (may_raise(call, rows)) notify_raised(parameters[0]);
    return rows;
  }

  // Runs the user's own query in a READ ONLY transaction, in which the server refuses writes.
  Rows query(std::string_view sql, std::span<const Value> parameters) override {
    refuse_transaction_control(sql);
    Pool::PooledConnection lent = lend_standing();
    stand(lent);
    begin(lent, "BEGIN READ ONLY");
    Rows rows;
    try {
      rows = silence().bounded(*lent, Phase::before_commit, url_, [&] {
        return lent->run({sql, parameters});
      });
    } catch (...) {
      roll_back(lent);
      throw;
    }
    silence().bounded(*lent, Phase::before_commit, url_, [&] { lent->run_script("COMMIT"); });
    lent.ended();
    return rows;
  }

  std::string locks_problem() override {
    std::random_device chance;
    const std::string key = std::to_string(std::uniform_int_distribution<std::int64_t>(1)(chance));
    const std::unique_ptr<Session> holder = connect(), other = connect();
    try {
      const auto taken = [&](std::string_view function) {
        return other->run_script(fmt::format("SELECT pg_catalog.{}({}) AS taken", function, key))
            .one()[0]
            .as_bool();
      };
      // Inside transactions, so that a pooler keeps each of them on one session.
      holder->run_script("BEGIN");
      holder->run_script(fmt::format("SELECT pg_catalog.pg_advisory_xact_lock({})", key));
      other->run_script("BEGIN");
      std::string problem;
      if (taken("pg_try_advisory_xact_lock")) problem = "two sessions got the same exclusive lock";
      else if (taken("pg_try_advisory_xact_lock_shared"))
        problem = "a session got a shared lock that another held exclusively";
      holder->run_script("ROLLBACK");
      if (problem.empty() && !taken("pg_try_advisory_xact_lock"))
        problem = "a lock was still held after the end of its transaction";
      other->run_script("ROLLBACK");
      if (problem.empty()) return {};
      const Rows version = other->run_script("SELECT version()");
      return fmt::format(
          "the advisory locks of this server do not exclude: {}. Layer 1 orders leaders and "
          "writers by them, so a stale leader "
          "could write. The server calls itself \"{}\"",
          problem, version.one()[0].as_text());
    } catch (...) {
      rethrow_as_ours(Phase::before_commit, url_, holder->is_open() && other->is_open());
    }
  }

  InstallReport install() override {
    if (const std::string problem = locks_problem(); !problem.empty())
      throw DatabaseError(
          "nothing was installed: " + problem +
          ". Use a PostgreSQL server; CockroachDB, for one, accepts these calls and does nothing");
    InstallReport report;
    Pool::PooledConnection lent = lend_standing();
    stand(lent);
    Connection& connection = *lent;
    // Independent of the role's defaults: the second of two installers must see what the first has
    // done.
    begin(lent, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
    try {
      // Keeps objects of other roles from being found under Termgate's names.
      connection.run_script("SET LOCAL search_path = pg_catalog, pg_temp");
      // Concurrent installers take turns; the second finds the work done. Any role can take this
      // lock, so the wait is limited.
      connection.run_script(
          "SET LOCAL lock_timeout = '10s'; SELECT "
          "pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('termgate migrations', "
          "0))");
      // All files run again, in order: each function is defined in one file, and is replaced from
      // there (sql/README.md).
      const auto run = [&](std::string_view script) {
        connection.run_script(with_schema(script, options_.schema));
      };
      const auto note = [&](int version, std::string_view name) {
        run(
            fmt::format("INSERT INTO @schema@.migrations (version, name) VALUES ({}, '{}') ON "
                        "CONFLICT DO NOTHING",
                        version, name));
      };
      report = install_layer1(sql::postgres_migrations(), version_in(connection),
                              {.run = run,
                               .note = note,
                               .before = sql::postgres::before_install,
                               .after = sql::postgres::after_install});
    } catch (...) {
      roll_back(lent);
      rethrow_as_ours(Phase::before_commit, url_, connection.is_open());
    }
    commit(lent);
    return report;
  }

  int installed_version() override {
    Pool::PooledConnection lent = lend();
    int version = 0;
    step(*lent, Phase::before_commit, [&] { version = version_in(*lent); });
    return version;
  }

  void uninstall() override {
    Pool::PooledConnection lent = lend_standing();
    stand(lent);
    lent.begun();
    step(*lent, Phase::commit, [&] {
      lent->run_script("BEGIN;\n" + with_schema(sql::postgres::uninstall, options_.schema) +
                       ";\nCOMMIT");
    });
    lent.ended();
  }

  void grant(std::string_view role, std::string_view level) override {
    const Value values[] = {Value(role), Value(level)};
    Pool::PooledConnection lent = lend();
    run_alone(*lent,
              {with_schema("SELECT @schema@.grant_level($1::name, $2)", options_.schema), values},
              false, std::nullopt);
  }

  Rows revoke(std::string_view role) override {
    const Value values[] = {Value(role)};
    Pool::PooledConnection lent = lend();
    return run_alone(
        *lent,
        {with_schema("SELECT level, through FROM @schema@.revoke_level($1::name)", options_.schema),
         values},
        false, std::nullopt);
  }

 private:
  using Pool = ConnectionPool<Session>;

  // Whether waiters, proxies or the holder are to be notified of the scope that is the call's first
  // parameter: by its answer, the call has raised the fence, released the lease or requested it, or
  // may have.
  static bool may_raise(sql::Call call, const Rows& answer) {
    using sql::Call;
    switch (call) {
      case Call::check_term: {
        const Row& row = answer.one();
        return row[1].is_null() || row[1].as_int() < row[0].as_int();
      }
      case Call::acquire_lease: return answer.one()[0].as_bool();
      case Call::seal:
      case Call::seal_with_reason:
      case Call::release_lease:
      case Call::force_release:
      case Call::request_hand_over:
      case Call::reset_fence:
      case Call::declare_restored: return true;
      default: return false;
    }
  }

  // The frequent calls, none of which takes a scope exclusively: they may run in a session that has
  // seats. All others that write need one without, because layer 1 refuses (TG005) to take a scope
  // exclusively in a session with a seat in that scope, and would give a new stream a seat's scope.
  static bool may_sit(sql::Call call) {
    using sql::Call;
    switch (call) {
      case Call::renew_lease:
      case Call::renew_leases:
      case Call::job_heartbeat:
      case Call::job_heartbeat_renew:
      case Call::record_refusal: return true;
      default: return false;
    }
  }

  // Errors are ignored: proxies and waiters also poll. One error is expected: PostgreSQL lets one
  // transaction at a time notify, and notify_raised() waits at most 50 ms for its turn.
  void notify_raised(const Value& scope) {
    try {
      const Value values[] = {scope};
      Pool::PooledConnection lent = lend(milliseconds(1000));
      run_alone(*lent, {notify_raised_, values}, true, milliseconds(1000));
    } catch (const Error&) {}
  }

  // Runs a statement of the library as a transaction of its own.
  Rows run_alone(Connection& connection, const Statement& statement, bool read_only,
                 std::optional<milliseconds> timeout) {
    // A single statement is its own commit: once it is sent, a lost connection leaves a write's
    // outcome unknown.
    const Phase phase = read_only ? Phase::before_commit : Phase::commit;
    const Silence limited = silence_of(timeout);
    limited.bounded(connection, Phase::before_commit, url_,
                    [&] { connection.prepare(statement.sql); });
    return limited.bounded(connection, phase, url_, [&] { return connection.run(statement); });
  }

  // Runs a statement that writes under the claim, as a transaction of its own, with `check` in
  // front of it; null: the statement checks by itself.
  Rows write_alone(const Claim& claim, const std::string* check, std::string_view sql,
                   std::span<const Value> parameters, std::optional<milliseconds> timeout) {
    Pool::PooledConnection lent = lend_for(claim.scope.name(), timeout);
    lent.begun();
    lent->last_thread = std::this_thread::get_id();
    seats_.give_way(*lent, claim.scope, claim.term);
    lent.ended();
    try {
      if (lent->sits(claim.scope.name(), claim.term)) {
        seats_.use(*lent, claim.scope);
        return run_alone(*lent, {sql, parameters}, false, timeout);
      }
      const auto sit = seats_.time_to_sit(*lent, claim.scope, claim.term);
      if (!sit && check == nullptr) return run_alone(*lent, {sql, parameters}, false, timeout);
      std::vector<Value> values{Value(claim.scope.name()), Value(claim.term.value())};
      if (sit) values = seats_.sit_values(claim.scope, claim.term);
      const Statement both[] = {{sit ? *sit : std::string_view(*check), values}, {sql, parameters}};
      const Silence limited = silence_of(timeout);
      limited.bounded(*lent, Phase::before_commit, url_, [&] {
        for (const Statement& one : both) lent->prepare(one.sql);
      });
      std::vector<Rows> rows =
          limited.bounded(*lent, Phase::commit, url_, [&] { return lent->run_all(both); });
      if (sit) sit_down(lent, claim, rows[0]);
      return std::move(rows[1]);
    } catch (const Error& error) {
      if (error.code().starts_with("TG")) seats_.doubt(*lent);
      throw;
    }
  }

  // Passes the claim by the session's seat, or by a check that is sent after BEGIN. Returns the
  // answer of a check that also takes a seat.
  std::optional<Rows> enter(Session& session, PostgresTransaction& transaction, const Claim& claim,
                            Isolation isolation) {
    // Above READ COMMITTED layer 1 itself does not use seats.
    const bool may_sit =
        isolation == Isolation::database_default || isolation == Isolation::read_committed;
    if (may_sit && session.sits(claim.scope.name(), claim.term)) {
      seats_.use(session, claim.scope);
      transaction.let_pass(claim.term.value());
      return std::nullopt;
    }
    const auto sit = may_sit ? seats_.time_to_sit(session, claim.scope, claim.term) : std::nullopt;
    if (sit) return transaction.check(*sit, seats_.sit_values(claim.scope, claim.term));
    const Value values[] = {Value(claim.scope.name()), Value(claim.term.value())};
    transaction.check(calls_[static_cast<std::size_t>(sql::Call::check_term)], values);
    return std::nullopt;
  }

  // The write is committed, whatever happens to the seat.
  void sit_down(Pool::PooledConnection& lent, const Claim& claim, const Rows& answer) noexcept {
    lent.begun();
    try {
      seats_.seated(*lent, claim.scope, claim.term, answer);
      lent.ended();
    } catch (...) {}
  }

  // Gives up the session's seats before a call that may take long, or raises.
  void stand(Pool::PooledConnection& lent) {
    lent.begun();
    seats_.stand(*lent);
    lent.ended();
  }

  // The scope that an append writes under; none: it is not an append, or the scope is unknown. An
  // append that names no scope uses the one that the stream's first write has fixed. So this reads
  // it from the database, with the eighth such append to the stream.
  std::optional<Scope> scope_of_append(sql::Call call, std::span<const Value> parameters) {
    if (call != sql::Call::append && call != sql::Call::append_many) return std::nullopt;
    if (!parameters[4].is_null()) return Scope(parameters[4].as_text());
    const std::string stream = parameters[0].as_text();
    {
      const std::lock_guard lock(streams_mutex_);
      if (streams_.size() >= streams_max && !streams_.contains(stream)) streams_.clear();
      Stream& known = streams_[stream];
      if (known.scope || ++known.appends != appends_before) return known.scope;
    }
    const Value values[] = {Value(stream)};
    Pool::PooledConnection lent = lend();
    const Rows rows = run_alone(
        *lent, {calls_[static_cast<std::size_t>(sql::Call::stream)], values}, true, std::nullopt);
    if (rows.empty()) return std::nullopt;
    const auto column =
        std::find(rows.columns.begin(), rows.columns.end(), "scope") - rows.columns.begin();
    const std::lock_guard lock(streams_mutex_);
    return streams_[stream].scope = Scope(rows.one()[static_cast<std::size_t>(column)].as_text());
  }

  using Fitness = Pool::Fitness;
  Pool::PooledConnection lend(std::optional<milliseconds> timeout = {},
                              const Fitness& fitness = {}) {
    need_process();
    return pool_.lend(std::min(timeout.value_or(options_.check_wait), options_.check_wait),
                      fitness);
  }
  // For a write it prefers a session with a seat in the scope, avoids those with seats elsewhere,
  // and prefers the one that this thread used last, which tends to run on the same processor.
  Pool::PooledConnection lend_for(const std::string& scope, std::optional<milliseconds> timeout) {
    const auto thread = std::this_thread::get_id();
    return lend(timeout, [&](const Session& session) {
      return (session.sits_in(scope)    ? 4
              : session.sits_anywhere() ? 0
                                        : 2) +
             (session.last_thread == thread ? 1 : 0);
    });
  }
  // For calls that must run in a session without seats.
  Pool::PooledConnection lend_standing(std::optional<milliseconds> timeout = {}) {
    return lend(timeout, [](const Session& session) { return session.sits_anywhere() ? -1 : 0; });
  }

  std::unique_ptr<Session> connect() const {
    try {
      auto session = std::make_unique<Session>(conninfo_);
      note_first_connection();
      return session;
    } catch (...) { rethrow_as_ours(Phase::before_commit, url_); }
  }

  template <class Step>
  void step(Connection& connection, Phase phase, Step what) {
    try {
      what();
    } catch (...) { rethrow_as_ours(phase, url_, connection.is_open()); }
  }

  Silence silence() { return {watchdog_, options_.answer_wait}; }
  // A timeout enforced by the server would need a transaction, and so more round trips.
  Silence silence_of(std::optional<milliseconds> timeout) {
    Silence limited = silence();
    if (timeout &&
        (limited.answer_wait.count() == 0 || limited.answer_wait > *timeout + timeout_margin))
      limited.answer_wait = *timeout + timeout_margin;
    return limited;
  }

  static std::string begin_text(const TransactOptions& options) {
    std::string text = "BEGIN";
    switch (options.isolation) {
      case Isolation::database_default: break;
      case Isolation::read_committed: text += " ISOLATION LEVEL READ COMMITTED"; break;
      case Isolation::repeatable_read: text += " ISOLATION LEVEL REPEATABLE READ"; break;
      case Isolation::serializable: text += " ISOLATION LEVEL SERIALIZABLE"; break;
    }
    return text + (options.read_only ? " READ ONLY" : "");
  }

  void begin(Pool::PooledConnection& lent, const std::string& text) {
    lent.begun();
    silence().bounded(*lent, Phase::before_commit, url_, [&] { lent->run_script(text); });
  }

  // Throws nothing, so that the error that led here is reported: a connection that cannot even roll
  // back is closed.
  void roll_back(Pool::PooledConnection& lent) noexcept {
    try {
      if (!lent->is_open()) return;
      if (!lent->in_transaction()) return lent.ended();
      silence().bounded(*lent, Phase::before_commit, url_, [&] { lent->run_script("ROLLBACK"); });
      lent.ended();
    } catch (...) {}
  }

  // The timeout's watch has ended: only answer_wait limits this wait.
  void commit(Pool::PooledConnection& lent) {
    silence().bounded(*lent, Phase::commit, url_, [&] { lent->run_script("COMMIT"); });
    lent.ended();
  }

  int version_in(Connection& connection) {
    const auto there = connection.run_script(
        with_schema("SELECT pg_catalog.to_regclass(@schema_lit@ || '.migrations') IS NOT NULL",
                    quoted_schema_literal()));
    if (!there.one()[0].as_bool()) return 0;
    // Uses the function instead of the table, because a role of level read may call it.
    const auto rows = connection.run_script(
        with_schema("SELECT coalesce(@schema@.schema_version(), 0)", options_.schema));
    return static_cast<int>(rows.one()[0].as_int());
  }

  // to_regclass parses its argument as an identifier, so the schema is passed quoted.
  std::string quoted_schema_literal() const { return text::quoted(options_.schema, '"'); }

  const std::string url_;
  const PostgresOptions options_;
  const std::string conninfo_;
  std::vector<std::string> calls_;  // by sql::Call, with the schema's name inserted
  std::string notify_raised_;
  std::string check_alone_;  // the check, and the fence before it

  static constexpr std::size_t streams_max = 4096;
  static constexpr int appends_before = 8;
  struct Stream {
    int appends = 0;
    std::optional<Scope> scope;
  };
  std::mutex streams_mutex_;
  std::map<std::string, Stream> streams_;  // streams in appends that named no scope

  // Destroyed from the last to the first: the keeper uses the pool, and no connection's watch may
  // outlive the watchdog.
  Watchdog watchdog_;
  Pool pool_;
  Seats seats_;
};

}  // namespace

std::unique_ptr<Driver> open_postgres(std::string url, PostgresOptions options) {
  return std::make_unique<PostgresDriver>(std::move(url), std::move(options));
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
