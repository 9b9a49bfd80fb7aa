// The PostgreSQL driver: a pool of libpqxx connections and transactions whose BEGIN and COMMIT are ours.
//
// libpqxx's own transaction classes are not used: when a COMMIT's answer is lost they either guess or ask
// again, and this library's promise is to say "unknown" (F5). Each statement is sent by the extended
// protocol, which takes one statement only, so no text can smuggle a second one behind the check.
#include <termgate/detail/postgres_driver.hpp>

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <pqxx/pqxx>

#include <termgate/detail/connection_pool.hpp>
#include <termgate/detail/installer.hpp>
#include <termgate/error.hpp>

#include "conninfo.hpp"
#include "errors.hpp"
#include "pqxx_versions.hpp"
#include "redact.hpp"
#include <termgate/detail/schema.hpp>
#include "sql/statements.hpp"
#include "statement_text.hpp"
#include "watchdog.hpp"

namespace termgate::inline v0::detail {
namespace {

// Type OIDs of the result columns that are more than text (pg_type.dat; they never change).
constexpr pqxx::oid oid_bool = 16, oid_bytea = 17, oid_int8 = 20, oid_int2 = 21, oid_int4 = 23, oid_oid = 26, oid_float4 = 700,
                    oid_float8 = 701;

using std::chrono::milliseconds;

// Between the server's own end of a timeout and giving the connection up: its answer may be on its way.
constexpr milliseconds timeout_margin{1000};

constexpr std::size_t prepared_max = 256;  // a connection's cache of statements; then they are sent unprepared

void append_hex(std::string& text, std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::size_t at = text.size() + 2;
  text.resize(at + 2 * bytes.size());
  text[at - 2] = '\\';
  text[at - 1] = 'x';
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text[at++] = digits[value >> 4];
    text[at++] = digits[value & 15];
  }
}
std::string hex_bytea(std::string_view bytes) {
  std::string text;
  append_hex(text, bytes);
  return text;
}

// Either form of bytea_output: a role, a database or a pooler decides which one comes.
std::string bytes_of(std::string_view text) {
  std::string bytes;
  if (text.starts_with("\\x")) {
    auto digit = [](char character) { return character <= '9' ? character - '0' : (character | 0x20) - 'a' + 10; };
    bytes.resize(text.size() / 2 - 1);
    const char* from = text.data() + 2;
    for (char& byte : bytes) {
      byte = static_cast<char>(digit(from[0]) * 16 + digit(from[1]));
      from += 2;
    }
    return bytes;
  }
  bytes.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      bytes += text[at];
    } else if (at + 1 < text.size() && text[at + 1] == '\\') {
      bytes += text[++at];
    } else {
      if (at + 3 >= text.size()) throw DatabaseError("the server sent a bytea that is cut off");
      bytes += static_cast<char>((text[at + 1] - '0') * 64 + (text[at + 2] - '0') * 8 + (text[at + 3] - '0'));
      at += 3;
    }
  }
  return bytes;
}

// PostgreSQL's text form of an array; every element quoted, so that none of them can be taken for NULL.
template <class Range, class Text>
std::string array_literal(const Range& items, std::size_t bytes, Text text) {
  std::string literal;
  literal.reserve(bytes);
  literal += '{';
  for (const auto& item : items) {
    if (literal.size() > 1) literal += ',';
    text(literal, item);
  }
  literal += '}';
  return literal;
}

void append_quoted(std::string& literal, std::string_view text) {
  literal += '"';
  for (const char character : text) {
    if (character == '"' || character == '\\') literal += '\\';
    literal += character;
  }
  literal += '"';
}

// A large payload goes as its bytes: as text it would be twice as long, in three copies. Only our own calls have views, and say that theirs
// are bytea.
bool goes_binary(const Value& value) {
  const auto* view = std::get_if<BytesView>(&value.variant());
  return view != nullptr && view->data.size() > (std::size_t{1} << 20);
}

// The text form of one parameter, or nothing for NULL.
std::optional<std::string> parameter_text(const Value& value) {
  struct {
    std::optional<std::string> operator()(std::monostate) const { return std::nullopt; }
    std::optional<std::string> operator()(bool held) const { return held ? "true" : "false"; }
    std::optional<std::string> operator()(std::int64_t held) const { return std::to_string(held); }
    std::optional<std::string> operator()(double held) const { return fmt::format("{}", held); }
    std::optional<std::string> operator()(const std::string& held) const {
      if (held.find('\0') != std::string::npos) throw InvalidInput("TG005 malformed text: PostgreSQL takes no NUL in text; use Bytes");
      return held;
    }
    std::optional<std::string> operator()(const Bytes& held) const { return hex_bytea(held.data); }
    std::optional<std::string> operator()(const BytesView& held) const { return hex_bytea(held.data); }
    std::optional<std::string> operator()(const BytesArray& held) const { return (*this)(BytesArrayView{held}); }
    std::optional<std::string> operator()(const BytesArrayView& held) const {
      std::size_t bytes = 2;
      for (const std::string& item : held.items) bytes += 2 * item.size() + 6;
      return array_literal(held.items, bytes, [](std::string& literal, const std::string& item) {
        literal += "\"\\";  // the backslash of \x is escaped inside the quotes
        append_hex(literal, item);
        literal += '"';
      });
    }
    std::optional<std::string> operator()(const TextArray& held) const {
      return array_literal(held, 0, [](std::string& literal, const std::optional<std::string>& item) {
        if (item) append_quoted(literal, *item);
        else literal += "NULL";
      });
    }
  } to_text;
  return std::visit(to_text, value.variant());
}

Value value_of(const pqxx::field& field, pqxx::oid type) {
  if (field.is_null()) return {};
  const std::string_view text(field.c_str(), field.size());
  switch (type) {
    case oid_bool: return Value(text == "t");
    case oid_int2:
    case oid_int4:
    case oid_int8:
    case oid_oid: return Value(field.as<std::int64_t>());
    case oid_float4:
    case oid_float8: return Value(field.as<double>());
    case oid_bytea: return Value(Bytes{bytes_of(text)});
    default: return Value(text);
  }
}

Rows rows_of(const pqxx::result& result) {
  Rows rows;
  const auto columns = result.columns();
  std::vector<pqxx::oid> types;
  for (pqxx::row_size_type column = 0; column < columns; ++column) {
    rows.columns.emplace_back(result.column_name(column));
    types.push_back(result.column_type(column));
  }
  rows.affected = static_cast<std::int64_t>(result.affected_rows());
  rows.rows.reserve(result.size());
  for (const auto& row : result) {
    Row converted;
    converted.reserve(types.size());
    for (pqxx::row_size_type column = 0; column < columns; ++column) converted.push_back(value_of(row[column], types[column]));
    rows.rows.push_back(std::move(converted));
  }
  return rows;
}

// The transaction belongs to the library: a COMMIT in the middle would let what follows run unfenced.
void refuse_transaction_control(std::string_view sql) {
  if (!is_transaction_control(sql)) return;
  throw InvalidInput(fmt::format("TG005 {} inside a fenced transaction: the library begins and ends it; savepoints are free to use",
                                 first_words(sql, 1).front()));
}

// libpqxx 6 keeps its table of encodings in a static object, made with a process's first answer. A Database that is older
// than that and static too ends later than the table, and must not ask the server anything any more.
std::atomic<bool> process_ends{false};

void note_first_answer() {
  static const struct Mark {
    ~Mark() { process_ends = true; }
  } mark;
}

// One session and its prepared statements. One call, and so one thread, uses it at a time.
class Connection {
 public:
  explicit Connection(const std::string& url) : quiet_(url) {}

  pqxx::result run(std::string_view sql, std::span<const Value> parameters) {
    std::vector<std::optional<std::string>> texts;
    texts.reserve(parameters.size());  // so that the values stay where they are
    Parameters values;
    bool binary = false;
    for (const Value& value : parameters) {
      if (!binary && goes_binary(value)) {
        binary = true;
        values.add_binary(std::get<BytesView>(value.variant()).data);
      } else if (const auto& text = texts.emplace_back(parameter_text(value))) {
        values.add_text(*text);
      } else {
        values.add_null();
      }
    }
    pqxx::result result;
    try {
      const auto found = seen_.find(sql);
      const bool prepared = found != seen_.end() && !found->second.empty();
      result = prepared ? values.run_prepared(transaction_, found->second) : values.run(transaction_, std::string(sql));
    } catch (const pqxx::broken_connection&) {
      // The server refuses a wrong number of values with a code of the class that is for lost connections (08P01), in any language.
      const std::size_t wanted = highest_parameter(sql);
      if (!connection_.is_open() || wanted == parameters.size()) throw;
      note_first_answer();
      throw InvalidInput(fmt::format("TG005 the statement has {} parameters and {} values were given", wanted, parameters.size()));
    }
    note_first_answer();
    return result;
  }

  // The second time that a statement is seen it is prepared: a round trip of its own, in which nothing is written yet.
  void prepare(std::string_view sql) {
    const auto found = seen_.find(sql);
    if (found == seen_.end()) {
      if (seen_.size() < prepared_max) seen_.emplace(std::string(sql), std::string());
      return;
    }
    if (!found->second.empty()) return;
    // By the statement's text: behind a pooler that shares sessions, a name that counts would call another program's statement.
    std::uint64_t hash = 14695981039346656037ULL;
    for (const char c : sql) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    const std::string name = fmt::format("termgate_{:016x}", hash);
    prepare_now(connection_, name, found->first);
    found->second = name;
  }

  // Simple protocol: several statements in one text. Only for texts of our own.
  pqxx::result run_script(const std::string& sql) {
    auto result = transaction_.exec(sql);
    note_first_answer();
    return result;
  }

  // False when the server has closed the connection while it lay idle: asking costs no round trip, and a
  // write sent on a dead connection would end as "unknown" without need.
  bool looks_alive() const {
    pollfd descriptor{connection_.sock(), POLLIN, 0};
    return connection_.is_open() && poll(&descriptor, 1, 0) == 0;
  }

  // Before COMMIT: a session that has ended by now is found out without sending it, and its write is then surely
  // not there. What else lies in the socket (a notice, a changed parameter) is taken up on the way.
  void expect_alive() {
    // The server's last words are one read, and the end of the connection is the next.
    for (int reads = 0; reads < 100 && !looks_alive(); ++reads) {
      connection_.get_notifs();
      if (!connection_.is_open()) throw pqxx::broken_connection("the server ended the session");
    }
  }

  bool is_open() const { return connection_.is_open(); }
  int socket() const { return connection_.sock(); }

 private:
  QuietConnection quiet_;
  pqxx::connection& connection_ = quiet_.connection;
  pqxx::nontransaction transaction_{connection_};
  std::map<std::string, std::string, std::less<>> seen_;  // statements, and the names of those that are prepared
};

// How long an answer may take: forever, unless OpenOptions::answer_wait says otherwise.
struct Silence {
  Watchdog& watchdog;
  milliseconds answer_wait;

  // Runs `step`, which waits for answers on `connection`; its failure comes out as ours.
  template <class Step>
  auto bounded(Connection& connection, Phase phase, const std::string& url, Step step) const {
    std::optional<Watchdog::Watch> watch;
    try {
      if (answer_wait.count() > 0) watch.emplace(watchdog, connection.socket(), Watchdog::Clock::now() + answer_wait);
      return step();
    } catch (...) {
      if (watch && watch->over()) {
        throw_for_sqlstate("08006", fmt::format("no answer within {} ms: the connection was given up", answer_wait.count()), phase);
      }
      rethrow_as_ours(phase, url, connection.is_open());
    }
  }
};

class PostgresTransaction final : public OpenTransaction {
 public:
  using Clock = Watchdog::Clock;

  PostgresTransaction(Connection& connection, std::span<const std::string> calls, const std::string& url, Silence silence,
                      std::optional<milliseconds> timeout, Clock::time_point start)
      : connection_(connection), calls_(calls), url_(url), silence_(silence), timeout_(timeout), start_(start) {}

  Rows call(sql::Call call, std::span<const Value> parameters) override {
    keep_time();
    return send(calls_[static_cast<std::size_t>(call)], parameters);
  }

  Rows execute(std::string_view sql, std::span<const Value> parameters) override {
    refuse_transaction_control(sql);
    keep_time();
    return send(sql, parameters);
  }

  // statement_timeout counts each statement anew, so it is lowered as the time goes by.
  void keep_time() {
    if (!timeout_) return;
    const auto left = std::chrono::ceil<milliseconds>(start_ + *timeout_ - Clock::now());
    if (left.count() <= 0) throw Unavailable(fmt::format("the write's timeout of {} ms is over; nothing was written", timeout_->count()));
    if (left < limit_ - limit_ / 10) limit_statements(left);
  }
  void end_time() {
    if (!timeout_) return;
    keep_time();
    limit_statements(milliseconds(0));  // COMMIT takes as long as it takes
  }

 private:
  Rows send(std::string_view sql, std::span<const Value> parameters) {
    return silence_.bounded(connection_, Phase::before_commit, url_, [&] {
      connection_.prepare(sql);
      return rows_of(connection_.run(sql, parameters));
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
};

class PostgresDriver final : public Driver {
 public:
  PostgresDriver(std::string url, PostgresOptions options)
      : url_(std::move(url)),
        options_(std::move(options)),
        conninfo_(conninfo_of(url_, std::getenv("PGCONNECT_TIMEOUT") != nullptr)),
        pool_(options_.connections_max, {.connect = [this] { return connect(); },
                                         .is_alive = [](Connection& connection) { return connection.looks_alive(); },
                                         .is_reusable = [](Connection& connection) { return connection.is_open(); }}) {
    need_schema_name(options_.schema);
    for (const std::string_view text : sql::postgres_calls().texts) calls_.push_back(with_schema(text, options_.schema));
    notify_raised_ = with_schema("SELECT @schema@.notify_raised($1)", options_.schema);
  }

  std::string_view kind() const noexcept override { return "postgresql"; }
  PayloadLimits payload_limits() const noexcept override { return {std::size_t{256} << 20, std::size_t{16} << 20}; }

  void transact(const TransactOptions& options, const std::function<void(OpenTransaction&)>& work) override {
    const auto start = Watchdog::Clock::now();
    Pool::PooledConnection lent = lend(options.timeout);
    if (options.timeout && Watchdog::Clock::now() - start >= *options.timeout) {
      throw Unavailable(
          fmt::format("the write's timeout of {} ms ended before there was a connection; nothing was written", options.timeout->count()));
    }
    {
      // The server ends the work in time; where it has fallen silent, the connection is given up soon after.
      std::optional<Watchdog::Watch> watch;
      if (options.timeout) watch.emplace(watchdog_, lent->socket(), start + *options.timeout + timeout_margin);
      try {
        begin(lent, begin_text(options));
        PostgresTransaction session(*lent, calls_, url_, silence(), options.timeout, start);
        work(session);
        // The statements before are limited, COMMIT is not: a COMMIT that is broken off would leave the
        // outcome unknown.
        session.end_time();
        // The last moment at which a dead connection still means that nothing was written.
        step(*lent, Phase::before_commit, [&] { lent->expect_alive(); });
      } catch (const Unavailable&) {
        roll_back(lent);
        if (!watch || !watch->over()) throw;
        throw Unavailable(
            fmt::format("the write's timeout of {} ms is over and the server is silent: the connection was given up; nothing was written",
                        options.timeout->count()));
      } catch (...) {
        roll_back(lent);
        throw;
      }
    }
    commit(lent);
  }

  Rows call(sql::Call call, std::span<const Value> parameters, bool read_only, std::optional<milliseconds> timeout) override {
    Rows rows = run_alone(calls_[static_cast<std::size_t>(call)], parameters, read_only, timeout);
    if (may_raise(call)) notify_raised(parameters[0]);
    return rows;
  }

  // The user's own query: the database itself holds it to reading.
  Rows query(std::string_view sql, std::span<const Value> parameters) override {
    refuse_transaction_control(sql);
    Pool::PooledConnection lent = lend();
    begin(lent, "BEGIN READ ONLY");
    Rows rows;
    try {
      rows = silence().bounded(*lent, Phase::before_commit, url_, [&] { return rows_of(lent->run(sql, parameters)); });
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
    const std::unique_ptr<Connection> holder = connect(), other = connect();
    try {
      const auto taken = [&](std::string_view function) {
        const pqxx::result result = other->run_script(fmt::format("SELECT pg_catalog.{}({}) AS taken", function, key));
        return result.size() == 1 && std::string_view(result[0][0].c_str()) == "t";
      };
      // In transactions, so that a pooler keeps each on one session.
      holder->run_script("BEGIN");
      holder->run_script(fmt::format("SELECT pg_catalog.pg_advisory_xact_lock({})", key));
      other->run_script("BEGIN");
      std::string problem;
      if (taken("pg_try_advisory_xact_lock")) problem = "two sessions got the same exclusive lock";
      else if (taken("pg_try_advisory_xact_lock_shared")) problem = "a session got a shared lock that another held exclusively";
      holder->run_script("ROLLBACK");
      if (problem.empty() && !taken("pg_try_advisory_xact_lock")) problem = "a lock was still held after the end of its transaction";
      other->run_script("ROLLBACK");
      if (problem.empty()) return {};
      const pqxx::result version = other->run_script("SELECT version()");
      return fmt::format(
          "the advisory locks of this server do not exclude: {}. Layer 1 orders leaders and writers by them, so a stale leader "
          "could write. The server calls itself \"{}\"",
          problem, version.empty() ? "" : version[0][0].c_str());
    } catch (...) { rethrow_as_ours(Phase::before_commit, url_, holder->is_open() && other->is_open()); }
  }

  InstallReport install() override {
    if (const std::string problem = locks_problem(); !problem.empty())
      throw DatabaseError("nothing was installed: " + problem +
                          ". Use a PostgreSQL server; CockroachDB, for one, accepts these calls and does nothing");
    InstallReport report;
    Pool::PooledConnection lent = lend();
    Connection& connection = *lent;
    // Whatever the role's defaults are: the second of two installers must see what the first has done.
    begin(lent, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
    try {
      // Nothing of other roles' may be found by a name of ours.
      connection.run_script("SET LOCAL search_path = pg_catalog, pg_temp");
      // Two installers at once take turns; the second finds the work done. Any role can take that lock, so nobody waits for it for ever.
      connection.run_script(
          "SET LOCAL lock_timeout = '10s'; SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('termgate migrations', 0))");
      // All files run again, in order: each function has one home, and is made anew from there (sql/README.md).
      const auto run = [&](std::string_view script) { connection.run_script(with_schema(script, options_.schema)); };
      const auto note = [&](int version, std::string_view name) {
        run(fmt::format("INSERT INTO @schema@.migrations (version, name) VALUES ({}, '{}') ON CONFLICT DO NOTHING", version, name));
      };
      report = install_layer1(sql::postgres_migrations(), version_in(connection),
                              {.run = run,
                               .note = note,
                               .before = sql::postgres::before_install,
                               .after = sql::postgres::after_install,
                               .files_run_again = true});
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
    Pool::PooledConnection lent = lend();
    lent.begun();
    step(*lent, Phase::commit,
         [&] { lent->run_script("BEGIN;\n" + with_schema(sql::postgres::uninstall, options_.schema) + ";\nCOMMIT"); });
    lent.ended();
  }

  void grant(std::string_view role, std::string_view level) override {
    const Value values[] = {Value(role), Value(level)};
    run_alone(with_schema("SELECT @schema@._grant($1::name, $2)", options_.schema), values, false, std::nullopt);
  }

  Rows revoke(std::string_view role) override {
    const Value values[] = {Value(role)};
    return run_alone(with_schema("SELECT level, through FROM @schema@._revoke($1::name)", options_.schema), values, false, std::nullopt);
  }

 private:
  using Pool = ConnectionPool<Connection>;

  // The calls whose first parameter is a scope, and that may raise its fence or give its lease back.
  static bool may_raise(sql::Call call) {
    using sql::Call;
    switch (call) {
      case Call::check_term:
      case Call::seal:
      case Call::seal_with_reason:
      case Call::acquire_lease:
      case Call::release_lease:
      case Call::force_release:
      case Call::reset_fence:
      case Call::declare_restored: return true;
      default: return false;
    }
  }

  // Proxies and waiters look by themselves a little later. The server gives up after 50 ms where others notify, so nothing depends on it.
  void notify_raised(const Value& scope) {
    try {
      const Value values[] = {scope};
      run_alone(notify_raised_, values, true, milliseconds(1000));
    } catch (const Error&) {}
  }

  // A statement of ours as a transaction of its own.
  Rows run_alone(std::string_view sql, std::span<const Value> parameters, bool read_only, std::optional<milliseconds> timeout) {
    Pool::PooledConnection lent = lend(timeout);
    // A timeout of the server's own would need a transaction, and with it three more round trips.
    Silence limited = silence();
    if (timeout && (limited.answer_wait.count() == 0 || limited.answer_wait > *timeout)) limited.answer_wait = *timeout + timeout_margin;
    // A single statement is its own commit: once sent, a lost connection leaves a write unknown.
    const Phase phase = read_only ? Phase::before_commit : Phase::commit;
    limited.bounded(*lent, Phase::before_commit, url_, [&] { lent->prepare(sql); });
    return limited.bounded(*lent, phase, url_, [&] { return rows_of(lent->run(sql, parameters)); });
  }

  Pool::PooledConnection lend(std::optional<milliseconds> timeout = {}) {
    if (process_ends) throw Unavailable("the program is ending; nothing was written");
    return pool_.lend(std::min(timeout.value_or(options_.check_wait), options_.check_wait));
  }

  std::unique_ptr<Connection> connect() const {
    try {
      return std::make_unique<Connection>(conninfo_);
    } catch (...) { rethrow_as_ours(Phase::before_commit, url_); }
  }

  template <class Step>
  void step(Connection& connection, Phase phase, Step what) {
    try {
      what();
    } catch (...) { rethrow_as_ours(phase, url_, connection.is_open()); }
  }

  Silence silence() { return {watchdog_, options_.answer_wait}; }

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

  // Keeps the error that led here: a connection that cannot even roll back is closed and thrown away.
  void roll_back(Pool::PooledConnection& lent) noexcept {
    try {
      if (!lent->is_open()) return;
      silence().bounded(*lent, Phase::before_commit, url_, [&] { lent->run_script("ROLLBACK"); });
      lent.ended();
    } catch (...) {}
  }

  // Without the watch of the timeout: from here on only answer_wait bounds the wait.
  void commit(Pool::PooledConnection& lent) {
    silence().bounded(*lent, Phase::commit, url_, [&] { lent->run_script("COMMIT"); });
    lent.ended();
  }

  int version_in(Connection& connection) {
    const auto there = connection.run_script(
        with_schema("SELECT pg_catalog.to_regclass(@schema_lit@ || '.migrations') IS NOT NULL", quoted_schema_literal()));
    if (!there[0][0].as<bool>()) return 0;
    // The function, not the table: a role of level read may call it.
    const auto rows = connection.run_script(with_schema("SELECT coalesce(@schema@.schema_version(), 0)", options_.schema));
    return rows[0][0].as<int>();
  }

  // to_regclass parses its argument as an identifier, so the schema goes in quoted.
  std::string quoted_schema_literal() const { return quoted_with(options_.schema, '"'); }

  const std::string url_;
  const PostgresOptions options_;
  const std::string conninfo_;
  std::vector<std::string> calls_;  // by sql::Call, with the schema's name
  std::string notify_raised_;

  // The pool goes first, so no connection's watch outlives the watchdog.
  Watchdog watchdog_;
  Pool pool_;
};

}  // namespace

std::unique_ptr<Driver> open_postgres(std::string url, PostgresOptions options) {
  return std::make_unique<PostgresDriver>(std::move(url), std::move(options));
}

}  // namespace termgate::inline v0::detail
