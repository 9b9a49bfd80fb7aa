// The ODBC driver: a pool of connections, and transactions whose BEGIN and COMMIT are sent as
// texts, with autocommit on. A driver's own commit call begins the next transaction at once, which
// leaves idle sessions in a transaction (docs/use/sqlserver.md).
#include <termgate/detail/odbc_driver.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <termgate/detail/connection_pool.hpp>
#include <termgate/detail/installer.hpp>
#include <termgate/detail/schema.hpp>
#include <termgate/error.hpp>

#include <termgate/detail/odbc/connection.hpp>
#include <termgate/detail/odbc/dialect.hpp>
#include <termgate/detail/odbc/errors.hpp>
#include "payload_pieces.hpp"
#include <termgate/detail/odbc/statement_text.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

using odbc::Connection;
using odbc::ConnectionString;
using odbc::Family;
using odbc::OdbcError;
using odbc::Phase;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds login_wait{10};
// A connection that was idle for longer is tested first: a write sent on a dead one would
// needlessly have an unknown outcome.
constexpr milliseconds idle_trusted{100};

// How long the answers of one call may take, each and in total.
struct Patience {
  milliseconds each{0};                    // 0: no limit
  std::optional<Clock::time_point> until;  // none: no limit
  milliseconds whole{0};                   // the timeout that `until` was computed from

  // The limit for the next statement. Throws Unavailable if the time is over; the statement is then
  // not sent.
  milliseconds next() const {
    if (!until) return each;
    const auto rest = std::chrono::ceil<milliseconds>(*until - Clock::now());
    if (rest.count() <= 0)
      throw Unavailable(
          fmt::format("the write's timeout of {} ms is over; nothing was written", whole.count()));
    return each.count() == 0 ? rest : std::min(each, rest);
  }
};

class OdbcDriver;

// One open transaction. On a database where any error ends the transaction, `over_` refuses later
// statements: in autocommit they would run, and commit, without the check.
class OdbcTransaction final : public OpenTransaction {
 public:
  OdbcTransaction(const OdbcDriver& driver, Connection& connection, const Patience& patience)
      : driver_(driver), connection_(connection), patience_(patience) {}

  Rows call(sql::Call call, std::span<const Value> parameters) override;
  Rows execute(std::string_view sql, std::span<const Value> parameters) override;

 private:
  Rows send(std::string_view sql, std::span<const Value> parameters, bool ours);

  const OdbcDriver& driver_;
  Connection& connection_;
  const Patience patience_;
  bool over_ = false;  // the server has ended the transaction
};

class OdbcDriver final : public Driver {
 public:
  OdbcDriver(ConnectionString text, OdbcOptions options)
      : text_(std::move(text)),
        options_(std::move(options)),
        dialect_(odbc::dialect_of(odbc::family_of(text_.maker))),
        pool_(options_.connections_max, {.connect = [this] { return connect(); },
                                         .is_alive = is_alive,
                                         .is_reusable = is_reusable}) {
    need_schema_name(options_.schema);
    for (const std::string_view one : dialect_.calls().texts) calls_.push_back(with_schema(one));
  }

  std::string_view kind() const noexcept override { return dialect_.kind; }
  // Only SQL Server gets a large payload in pieces; a driver for PostgreSQL turns it into one text
  // of twice the length.
  PayloadLimits payload_limits() const noexcept override {
    return {dialect_.family == Family::sqlserver ? std::size_t{1} << 30 : std::size_t{256} << 20,
            odbc::payload_piece_bytes};
  }

  void transact(const TransactOptions& options,
                const std::function<void(OpenTransaction&)>& work) override {
    const auto start = Clock::now();
    Pool::PooledConnection lent = lend(options.timeout);
    if (options.timeout && Clock::now() - start >= *options.timeout) {
      throw Unavailable(fmt::format(
          "the write's timeout of {} ms ended before there was a connection; nothing was written",
          options.timeout->count()));
    }
    begin(lent, dialect_.begin(options));
    try {
      const Patience patience = patience_of(options.timeout, start);
      OdbcTransaction session(*this, *lent, patience);
      work(session);
      if (session.given_up()) return roll_back(lent);
      static_cast<void>(patience.next());
      if (lent->looks_dead())
        throw Unavailable("the server ended the session; nothing was written");
    } catch (...) {
      roll_back(lent);
      throw;
    }
    commit(lent);
  }

  Rows call(sql::Call call, std::span<const Value> parameters, bool read_only,
            std::optional<milliseconds> timeout) override {
    return run_alone(text_of(call), parameters, read_only, timeout, true);
  }

  // Runs the user's own query. PostgreSQL refuses everything but reading by itself; SQL Server does
  // not, so need_query() looks at the text.
  Rows query(std::string_view sql, std::span<const Value> parameters) override {
    if (dialect_.family == Family::sqlserver) odbc::need_query(sql);
    odbc::need_one_statement(sql, dialect_.family);
    Pool::PooledConnection lent = lend(std::nullopt);
    TransactOptions options;
    options.read_only = true;
    begin(lent, dialect_.begin(options));
    Rows rows;
    try {
      rows = send(*lent, sql, parameters, patience_of(std::nullopt, Clock::now()),
                  Phase::before_commit, false);
    } catch (...) {
      roll_back(lent);
      throw;
    }
    roll_back(lent);
    return rows;
  }

  InstallReport install() override {
    InstallReport report;
    Pool::PooledConnection lent = lend(std::nullopt);
    begin(lent, {});
    Connection& connection = *lent;
    try {
      guarded(Phase::before_commit, [&] {
        run_script(connection, dialect_.install_begin);
        // Babelfish does not support EXECUTE AS for a module; procedures there run as their caller.
        const bool as_guard =
            dialect_.family != Family::sqlserver ||
            !connection
                 .run("SELECT CASE WHEN SERVERPROPERTY('Babelfish') IS NULL THEN 0 ELSE 1 END")
                 .one()[0]
                 .as_bool();
        const auto run = [&](std::string_view script) {
          run_script(connection, as_guard ? std::string(script) : without_guard(script));
        };
        const auto note = [&](int version, std::string_view name) {
          const Value values[] = {Value(version), Value(name)};
          connection.execute(odbc::marked(with_schema(dialect_.note_migration), 2, dialect_.family),
                             values, false, milliseconds(0));
        };
        report = install_layer1(dialect_.migrations(), version_in(connection),
                                {.run = run,
                                 .note = note,
                                 .before = dialect_.before_install,
                                 .after = dialect_.after_install});
      });
    } catch (...) {
      roll_back(lent);
      // On SQL Server the session keeps the installation's settings, so it is not reused.
      if (dialect_.family == Family::sqlserver) lent.begun();
      throw;
    }
    commit(lent);
    if (dialect_.family == Family::sqlserver) lent.begun();
    return report;
  }

  int installed_version() override {
    Pool::PooledConnection lent = lend(std::nullopt);
    int version = 0;
    guarded(Phase::before_commit, [&] { version = version_in(*lent); });
    return version;
  }

  void uninstall() override {
    Pool::PooledConnection lent = lend(std::nullopt);
    begin(lent, dialect_.begin({}));
    try {
      guarded(Phase::before_commit, [&] { run_script(*lent, dialect_.uninstall); });
    } catch (...) {
      roll_back(lent);
      throw;
    }
    commit(lent);
  }

  void grant(std::string_view role, std::string_view level) override {
    const Value values[] = {Value(role), Value(level)};
    run_alone(with_schema(dialect_.grant), values, false, std::nullopt, false);
  }

  Rows revoke(std::string_view role) override {
    if (dialect_.revoke.empty()) {
      throw InvalidInput(
          fmt::format("TG005 on SQL Server a level is membership in a role: ALTER ROLE [{}_write] "
                      "DROP MEMBER [{}], and so for read, lead and operate",
                      options_.schema, role));
    }
    const Value values[] = {Value(role)};
    return run_alone(with_schema(dialect_.revoke), values, false, std::nullopt, false);
  }

  // Runs `step`, and turns ODBC's errors into the library's, without the password.
  template <class Step>
  void guarded(Phase phase, Step step) const {
    try {
      step();
    } catch (OdbcError& failure) {
      for (auto& one : failure.diagnostics)
        one.message = odbc::redacted(std::move(one.message), text_.secrets);
      odbc::throw_for(failure, phase, dialect_.family);
    }
  }

  // ODBC binds values to markers, and would not notice a value without one.
  static void need_all_used(const odbc::Marked& text, std::size_t given) {
    std::size_t wanted = 0;
    for (const std::size_t one : text.order) wanted = std::max(wanted, one + 1);
    if (wanted != given)
      throw InvalidInput(fmt::format(
          "TG005 the statement has {} parameters and {} values were given", wanted, given));
  }

  // `ours`: a statement of sql/, which stays prepared.
  Rows send(Connection& connection, std::string_view sql, std::span<const Value> parameters,
            const Patience& patience, Phase phase, bool ours) const {
    if (!ours) odbc::need_one_statement(sql, dialect_.family);
    const auto is_batch = [](const Value& value) { return batch_of(value).has_value(); };
    if (dialect_.family == Family::sqlserver && ours &&
        (is_large(parameters) || std::any_of(parameters.begin(), parameters.end(), is_batch))) {
      return send_brought(connection, sql, parameters, patience, phase);
    }
    const odbc::Marked text = odbc::marked(sql, parameters.size(), dialect_.family);
    if (!ours) need_all_used(text, parameters.size());
    const milliseconds limit = patience.next();
    Rows rows;
    guarded(phase, [&] { rows = connection.execute(text, parameters, ours, limit); });
    return rows;
  }

  milliseconds answer_wait() const { return options_.answer_wait; }
  Patience patience_of(std::optional<milliseconds> timeout, Clock::time_point start) const {
    Patience patience;
    patience.each = options_.answer_wait;
    if (timeout) patience.until = start + *timeout, patience.whole = *timeout;
    return patience;
  }
  const std::string& text_of(sql::Call call) const {
    return calls_[static_cast<std::size_t>(call)];
  }
  bool error_ends_transaction() const { return dialect_.error_ends_transaction; }

 private:
  using Pool = ConnectionPool<Connection>;

  Pool::PooledConnection lend(std::optional<milliseconds> timeout) {
    return pool_.lend(std::min(timeout.value_or(options_.check_wait), options_.check_wait));
  }

  // Runs a statement of the library as a transaction of its own.
  Rows run_alone(std::string_view sql, std::span<const Value> parameters, bool read_only,
                 std::optional<milliseconds> timeout, bool ours) {
    Pool::PooledConnection lent = lend(timeout);
    // Once it is sent, a lost connection leaves a write's outcome unknown.
    return send(*lent, sql, parameters, patience_of(timeout, Clock::now()),
                read_only ? Phase::before_commit : Phase::commit, ours);
  }

  std::string with_schema(std::string_view text) const {
    return dialect_.with_schema(text, options_.schema);
  }

  // If the server has closed the connection in the meantime, nothing was sent before BEGIN, so
  // another connection is as good. An empty text only tests the connection.
  void begin(Pool::PooledConnection& lent, const std::string& text) {
    const auto ask = [&] {
      lent->run(text.empty() ? std::string_view("SELECT 1") : text, options_.answer_wait);
    };
    lent.begun();
    guarded(Phase::before_commit, [&] {
      try {
        ask();
      } catch (const OdbcError&) {
        if (!lent->broken() || !lent.renew()) throw;
        ask();
      }
    });
  }

  void commit(Pool::PooledConnection& lent) {
    guarded(Phase::commit, [&] { lent->run(dialect_.commit, options_.answer_wait); });
    lent.ended();
  }

  // SQL Server takes no array as a parameter, and the driver would hold several copies of a large
  // payload. So both go into a temporary table of the session first. If that fails, nothing was
  // written. `clear`: empty the table afterwards, because outside a transaction nothing else does.
  Rows send_brought(Connection& connection, std::string_view sql, std::span<const Value> parameters,
                    const Patience& patience, Phase phase) const {
    const bool clear = phase == Phase::commit && is_large(parameters);
    std::vector<Value> values(parameters.begin(), parameters.end());
    std::string text(sql);
    try {
      guarded(Phase::before_commit, [&] {
        const auto limit = [&] { return patience.next(); };
        const TextArray* ids = nullptr;
        for (const Value& value : parameters) {
          if (const auto* texts = std::get_if<TextArray>(&value.variant())) ids = texts;
        }
        for (std::size_t at = 0; at < values.size(); ++at) {
          if (const auto batch = batch_of(parameters[at])) {
            for (const std::string& payload : *batch)
              check_setting(connection, payload.size(), patience);
            odbc::bring_batch(connection, *batch, ids, limit);
          } else if (const auto payload = bytes_of(parameters[at]);
                     payload && payload->size() > odbc::payload_piece_bytes) {
            check_setting(connection, payload->size(), patience);
            odbc::bring_pieces(connection, *payload, limit);
            text = odbc::joining_text(at + 1) +
                   odbc::with_parameter(text, at + 1, "@termgate_payload");
            values[at] = Value(payload->size());
          }
        }
      });
      Rows rows;
      const odbc::Marked marked = odbc::marked(text, values.size(), dialect_.family);
      const milliseconds limit = patience.next();
      guarded(phase, [&] { rows = connection.execute(marked, values, text == sql, limit); });
      if (clear) odbc::clear_pieces(connection, answer_wait());
      return rows;
    } catch (...) {
      if (clear) odbc::clear_pieces(connection, answer_wait());
      throw;
    }
  }

  static std::optional<std::string_view> bytes_of(const Value& value) {
    if (const auto* held = std::get_if<Bytes>(&value.variant())) return held->data;
    if (const auto* view = std::get_if<BytesView>(&value.variant())) return view->data;
    return std::nullopt;
  }
  static std::optional<std::span<const std::string>> batch_of(const Value& value) {
    if (const auto* held = std::get_if<BytesArray>(&value.variant())) return *held;
    if (const auto* view = std::get_if<BytesArrayView>(&value.variant())) return view->items;
    return std::nullopt;
  }
  // Whether the payloads together are longer than one piece.
  static bool is_large(std::span<const Value> parameters) {
    std::size_t bytes = 0;
    for (const Value& value : parameters) {
      if (const auto payload = bytes_of(value)) bytes += payload->size();
      if (const auto batch = batch_of(value)) {
        for (const std::string& payload : *batch) bytes += payload.size();
      }
    }
    return bytes > odbc::payload_piece_bytes;
  }

  // Refuses a payload before many pieces are sent in vain; the server checks it again.
  void check_setting(Connection& connection, std::size_t bytes, const Patience& patience) const {
    if (bytes <= odbc::payload_piece_bytes) return;
    const Rows rows = connection.run(with_schema(sql::sqlserver_pieces::limit), patience.next());
    if (rows.empty() || static_cast<std::int64_t>(bytes) <= rows.rows[0][0].as_int()) return;
    throw InvalidInput(
        fmt::format("TG005 the payload has {} bytes: the setting payload_bytes_max allows {}",
                    bytes, rows.rows[0][0].as_int()));
  }

  // Throws nothing, so that the error that led here is reported: a connection that cannot even roll
  // back is closed.
  void roll_back(Pool::PooledConnection& lent) noexcept {
    try {
      if (lent->broken()) return;
      lent->run(dialect_.roll_back, options_.answer_wait);
      lent.ended();
    } catch (...) { lent->give_up(); }
  }

  static std::string without_guard(std::string_view script) {
    constexpr std::string_view clause = "WITH EXECUTE AS 'termgate_guard' ";
    std::string text(script);
    for (auto at = text.find(clause); at != std::string::npos; at = text.find(clause, at))
      text.erase(at, clause.size());
    return text;
  }

  void run_script(Connection& connection, std::string_view script) {
    for (const std::string& piece : dialect_.pieces(with_schema(script))) connection.run(piece);
  }

  int version_in(Connection& connection) {
    if (!connection.run(with_schema(dialect_.is_installed)).one()[0].as_bool()) return 0;
    return static_cast<int>(connection.run(with_schema(dialect_.version)).one()[0].as_int());
  }

  std::unique_ptr<Connection> connect() const {
    std::unique_ptr<Connection> connection;
    guarded(Phase::connect, [&] {
      connection = std::make_unique<Connection>(text_, login_wait);
      connection->run(dialect_.on_connect);
    });
    return connection;
  }

  static bool is_alive(Connection& connection) {
    if (connection.looks_dead()) return false;
    if (Clock::now() - connection.idle_since < idle_trusted) return true;
    try {
      connection.run("SELECT 1", login_wait);
      return true;
    } catch (const OdbcError&) { return false; }
  }
  static bool is_reusable(Connection& connection) {
    connection.idle_since = Clock::now();
    return !connection.broken() && !connection.looks_dead();
  }

  const ConnectionString text_;
  const OdbcOptions options_;
  const odbc::Dialect& dialect_;
  std::vector<std::string> calls_;  // by sql::Call, with the schema's name inserted
  Pool pool_;
};

Rows OdbcTransaction::call(sql::Call call, std::span<const Value> parameters) {
  return send(driver_.text_of(call), parameters, true);
}
Rows OdbcTransaction::execute(std::string_view sql, std::span<const Value> parameters) {
  return send(sql, parameters, false);
}

Rows OdbcTransaction::send(std::string_view sql, std::span<const Value> parameters, bool ours) {
  if (over_)
    throw DatabaseError("an error before has ended this transaction: nothing can follow it");
  static_cast<void>(
      patience_.next());  // an error before anything was sent does not end the transaction
  try {
    return driver_.send(connection_, sql, parameters, patience_, Phase::before_commit, ours);
  } catch (...) {
    over_ = driver_.error_ends_transaction();
    throw;
  }
}

}  // namespace

std::unique_ptr<Driver> open_odbc(std::string_view url, OdbcOptions options) {
  return std::make_unique<OdbcDriver>(odbc::connection_string_of(url), std::move(options));
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
