// Session: one client's PostgreSQL session over the engine, bytes in and bytes out, without a socket. The client is mostly the proxy's
// own session/, which speaks for a client of the network; any other that speaks the protocol is served the same.
//
// Messages wait until a Sync, Flush or Query is there, or nothing comes for a while: then it is known how far an implicit transaction
// goes, and one that writes is a member of a group commit, whose answers leave after the flush. A block reads on a connection of its own
// and takes the baton at its first write. At READ COMMITTED each statement before that reads what is newest, as PostgreSQL does; from the
// first write on, and at the other levels, the transaction is SQLite's, which is serializable.
//
// One thread at a time; it may wait for the baton and for SQLite. Control is what other threads may use.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <termgate/sqlite_server/values.hpp>
#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/reader.hpp>
#include <termgate/pgwire/startup.hpp>

#include "session/copy_format.hpp"
#include "engine/engine.hpp"
#include "engine/scram.hpp"
#include "session/settings.hpp"

namespace termgate::sqlite_server {

struct SessionOptions {
  std::uint32_t pid = 0;
  std::string key;       // of cancel requests, 4 bytes
  std::string database;  // what current_database() says; any name is let in
  // The verifier of a user, empty where there is none. Without this everybody is let in.
  std::function<std::string(std::string_view user)> verifier_of = {};
  std::string nonce;  // for SCRAM: nobody can foresee it
  // Cancels the statement of the session with that pid, or ends the session. Without this there is no other session.
  enum class Signalled : std::uint8_t { heard, nobody, not_allowed };
  std::function<Signalled(std::uint32_t pid, bool terminate)> signal = {};
  std::function<void(const std::string& user)> on_login = {};
  std::size_t gathered_bytes_max = 64u << 20;  // of answers that wait for a commit
};

// How the refusal begins that ends a block, as a PREPARE TRANSACTION that fails does in PostgreSQL.
inline constexpr std::string_view ends_the_block = "PREPARE TRANSACTION ";

class Session final : private CatalogSession {
 public:
  using Sink = std::function<void(std::string_view)>;

  Session(Engine& engine, Control& control, SessionOptions options, Sink sink);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void feed(std::string_view bytes);
  // Whether messages wait for the Sync, Flush or Query that ends their pipeline. go_on() runs them as if a Flush had come: PostgreSQL
  // reports an error at once, so a client may wait for one without a Sync.
  bool waits_for_more() const noexcept { return started_ && !over_ && !copy_in_ && !pending_.empty(); }
  void go_on();
  // The same, but only of whole batches that read, at most of some tenths of a millisecond, and do not wait: for a thread that has other
  // sessions to serve. The answers are appended to `answer`, not given to the sink. False: nothing was done, and feed() has to.
  bool feed_quickly(std::string_view bytes, std::string& answer);
  // Sends the client the reason of the eviction, and rolls back.
  void end_evicted();
  bool over() const noexcept { return over_; }
  // For how long the client of an open block may say nothing; zero: for ever. Then end_idle().
  std::chrono::milliseconds idle_limit() const {
    return status_ == Status::block || status_ == Status::failed ? settings_.idle_in_transaction_timeout() : std::chrono::milliseconds(0);
  }
  void end_idle();
  // Asked for by a client that wants another session's statement cancelled.
  std::optional<std::pair<std::uint32_t, std::string>> cancel_request() const { return cancel_request_; }

 private:
  struct Message {
    char type;
    std::string body;
  };
  struct Prepared {
    Plans plans;
    std::vector<Oid> parameters;
    std::shared_ptr<const std::string> text{};
    std::int64_t made_us = 0;  // of one with a name
    bool by_sql = false;       // by PREPARE
    const Plan* plan() const { return plans->empty() ? nullptr : &plans->front(); }
  };
  struct Portal {
    std::shared_ptr<const Prepared> statement;
    const Plan* plan = nullptr;
    Plans fresh;           // of a statement that was typed again
    bool checked = false;  // it is of the schema that its transaction sees
    bool several = false;  // of a text of several statements
    std::vector<Stored> values;
    std::vector<std::string> steps;
    std::vector<Format> formats;  // none: text; one: of all columns
    bool described = false;       // its columns are known
    std::vector<OutColumn> columns;
    SqlConnection::Text text;
    std::int64_t changes_before = 0;
    bool peeked = false;  // is on a row that was not sent
    bool started = false;
    bool done = false;
    std::uint64_t rows = 0;  // given so far
    std::int64_t changed = 0;
    bool made = false;  // its rows were made here
    std::deque<std::vector<Stored>> made_rows;
    bool cursor = false;  // of DECLARE
    // Of DECLARE … SCROLL: all rows, and the place of the one that was fetched last; 0: in front of the first.
    bool scroll = false;
    std::vector<std::vector<Stored>> all_rows;
    std::int64_t place = 0;
    bool hold = false;
    bool kept = false;                            // … and its transaction has committed
    std::shared_ptr<const std::string> source{};  // of DECLARE
    std::int64_t made_us = 0;                     // of one with a name
  };
  struct Savepoint {
    std::string name;
    std::string inner;  // SQLite's
    std::size_t settings;
  };
  struct Transaction {
    bool started = false;
    bool read_only = false;
    bool deferrable = false;
    bool queried = false;
    bool read = false;      // … by more than its checks
    bool snapshot = false;  // REPEATABLE READ or SERIALIZABLE
    bool began = false;     // SQLite's BEGIN was given on the connection
    bool writer = false;
    bool lost = false;  // the snapshot that it reads is gone: only ROLLBACK is left
    bool turn = false;  // has the baton by itself
    bool grouped = false;
    SqlConnection* connection = nullptr;
    bool shared = false;
    std::unique_ptr<SqlConnection> own;
    std::vector<Savepoint> savepoints;
    bool wrote = false;        // more than its checks
    std::vector<Want> checks;  // that it has passed, under the lock
    std::vector<Want> passes;  // checks that a block has asked for and that its first write makes, under the lock
    std::int64_t began_us = 0;
    std::string isolation;
  };
  enum class Status : char { idle = 'I', block = 'T', failed = 'E' };

  // session.cpp: bytes, messages, transactions
  void start_up(std::string_view& bytes);
  void log_in(const pgwire::StartupMessage& startup);
  void authenticate(std::string_view body);
  void welcome();
  void work();
  bool whole_batch();
  bool batch_writes();
  Plans planned(const std::string& sql, const std::vector<Oid>& types);
  static std::vector<Oid> parse_types(const pgwire::Parse& parse, std::string_view body);
  static bool only_checks(const Plan& plan);
  bool wants_group(const Message& message);
  void run_group();
  void step(const Message& message);
  void dispatch(const Message& message);
  void fail(const PgError& fault, bool extended);
  void send_error(const PgError& fault);
  void ready();
  void flush_out();
  void begin_if_needed();
  SqlConnection& sql_connection();
  // From here on the session has a connection of its own, for its temporary tables.
  void use_own_connection();
  void drop_temporary() noexcept;
  void end_temporary();  // ON COMMIT
  // What the connection's own list says of its tables with ON COMMIT, which a rollback takes back like the tables: name, 'd' or 'r'.
  static std::vector<std::pair<std::string, std::string>> on_commit_of(SqlConnection& on);
  void use_connection(SqlConnection& connection, bool shared);
  void become_writer(const Want& want);
  void settle_portals(const Portal* but);
  void read_rest(Portal& portal, std::string_view what);
  void declare_to_law();
  void release_lane() noexcept;
  void release_idle_lane() noexcept;
  bool stands_on_row() const noexcept;
  void commit_lane();
  void commit();  // or rolls back, and throws
  void roll_back() noexcept;
  void end_implicit();
  void end_query();
  void close_portals(bool all) noexcept;

  // session_quick.cpp: on the thread that brings the bytes
  struct NotQuick {};  // thrown by what feed_quickly() may not do
  bool quick_batch(std::string_view bytes, std::vector<Plans>& plans);

  // session_run.cpp: statements and portals
  void parse(std::string_view name, const std::string& sql, const std::vector<Oid>& types);
  void bind(std::string_view body);
  void describe(std::string_view body);
  void close(std::string_view body);
  void execute(std::string_view body);
  void simple(const Plans& plans, bool& responded);
  std::shared_ptr<Prepared> prepare(const Plans& plans, std::vector<Oid> types);
  std::shared_ptr<Prepared> find_statement(std::string_view name);
  Portal& find_portal(std::string_view name);
  void infer_parameters(Prepared& prepared, const Plan& plan);
  // Types the statement again where the schema is another by now; throws what is wrong with it. `runs`: it is stepped before anything is
  // said of it, and what SQLite itself will ask then need not be asked before.
  void freshen(Portal& portal, bool runs = false);
  // The first step of a portal's text, which may have to be typed again for it, or a later one.
  int step_text(Portal& portal);
  bool plan_writes(const Plan& plan);
  void check_allowed(const Plan& plan);
  void start(Portal& portal);
  void start_sql(Portal& portal);
  void run_sql(Portal& portal);
  void define_temporary(Portal& portal, SqlConnection& on);
  // The statements of a text, by the schema that the session sees.
  Plans plans_of(const std::string& text, const std::vector<Oid>& types = {}, std::shared_ptr<const FileRelations> relations = nullptr);
  void give_notices(const Plan& plan);
  void notice_of(SqlConnection& on, const std::string& definition);
  // session_rebuild.cpp: ALTER TABLE by a new table.
  void rebuild_table(SqlConnection& on, const Plan& plan);
  static void check_foreign_keys(SqlConnection& on, const std::string& table);
  void know_columns(Portal& portal, bool peek);
  const std::vector<OutColumn>& columns_of(const Plan& plan, SqlConnection::Text& text) const;
  // True when the portal is done; false: suspended. `tag`: what CommandComplete says instead of the plan's.
  bool give_rows(Portal& portal, std::uint64_t rows_max);
  // misfit.cpp
  static std::string type_in_words(DeclaredType type);
  void check_stored(const Portal& portal, int column, Stored& value, std::size_t begin);
  void append_row(const Portal& portal);
  // A value as PostgreSQL shows one of that type; `on`: where it comes from, nullptr for one that was kept. Throws PgException.
  void append_field(std::string& out, SqlConnection* on, const Stored& value, Oid type, std::int32_t modifier, Format format);
  std::string tag_of(const Portal& portal) const;
  static const std::vector<std::uint32_t>& places_of(const Plan& plan, std::size_t sql);
  void bind_values(sqlite3_stmt* statement, const std::vector<Stored>& values, const std::vector<std::uint32_t>& places = {},
                   const std::vector<std::string>& steps = {});
  void run_steps(Portal& portal, SqlConnection& on);
  void describe_rows(const std::vector<OutColumn>& columns, const std::vector<Format>& formats);
  void make(Portal& portal, std::vector<OutColumn> columns, std::deque<std::vector<Stored>> rows);
  // statement_timeout counts from here.
  void start_clock();
  // What lock_timeout and statement_timeout leave of the waiting; nullopt: all of it.
  std::optional<std::chrono::milliseconds> patience() const;
  // Waits for the baton in `work`.
  template <class Work>
  void with_patience(const Work& work);
  // Ends the waiting for one of them, where it is one of them.
  void report_waiting(Engine::Clock::time_point since) const;
  PgError error_for_client(const std::exception& error) const;
  template <class Work>
  void at_work(SqlConnection& connection, const Work& work);

  // session_utility.cpp: what is carried out here
  // Gives the tag; empty: the answer is given already.
  std::string run_utility(Portal& portal, const Plan& plan);
  std::string run_control(const dialect::TransactionControl& control);
  void set_modes(const dialect::TransactionModes& modes);
  void set_read_only(bool on);
  void set_deferrable(bool on);
  std::string show(std::string_view name) const;
  void set_variable(const dialect::SetVariable& set);
  void run_vacuum(const dialect::Vacuum& vacuum);
  void run_explain(Portal& portal, const dialect::Explain& explain);
  std::string run_fetch(Portal& portal, const dialect::FetchCursor& fetch);
  static void scroll(Portal& cursor, const dialect::FetchCursor& fetch);
  std::string run_execute(Portal& portal, const dialect::ExecuteStatement& execute);

  // session_own.cpp: Termgate's functions
  void run_own(Portal& portal, const OwnCall& call);
  Want want_of(const Portal& portal) const;
  std::vector<std::optional<std::string>> arguments_of(const Portal& portal, const OwnCall& call) const;
  // TG002 unless both are there.
  static void need_declared(const std::string& scope, std::int64_t term);
  std::int64_t check(const std::string& scope, std::int64_t term);
  std::optional<std::int64_t> look_at_fence(const std::string& scope);
  std::int64_t check_or_defer(const std::string& scope, std::int64_t term);
  std::pair<std::string, std::int64_t> declared(const std::optional<std::string>& scope, const std::optional<std::string>& term) const;

  // session_copy.cpp
  std::string run_copy(Portal& portal, const Plan& plan);
  std::string copy_out(const dialect::Copy& copy);
  struct CopyColumn {
    std::string name;
    DeclaredType type;
  };
  // The columns that it names, or all; 42703 where there is none of the name.
  std::vector<CopyColumn> columns_of_copy(const dialect::Copy& copy);
  void begin_copy_in(const dialect::Copy& copy);
  void copy_bytes(std::string_view bytes);
  void insert_row(std::vector<std::optional<std::string>>& row);
  void end_copy_in();
  void abandon_copy() noexcept;

  static std::int64_t now_us();  // since 1970-01-01 UTC

  // CatalogSession
  std::string user() const override { return user_; }
  std::optional<std::string> database() const override { return options_.database; }
  std::int32_t process_id() const override { return static_cast<std::int32_t>(options_.pid); }
  std::string application_name() const override { return settings_.get("application_name").value_or(""); }
  std::int64_t transaction_began_us() const override { return tx_.began_us; }
  std::int64_t server_began_us() const override { return engine_.began_us(); }
  std::optional<std::string> setting(std::string_view name) const override;
  std::vector<Setting> settings() const override;
  std::vector<PreparedStatement> prepared_statements() const override;
  std::vector<OpenCursor> cursors() const override;
  std::variant<std::string, SqlError> set(std::string_view name, std::string_view value, bool local) override;
  // Only after the check, under the lock.
  bool may_write() const override { return tx_.writer && !tx_.read_only; }
  bool cancelled() const override;
  std::variant<bool, SqlError> signal(std::int32_t process_id, bool terminate) override;

  Engine& engine_;
  Control& control_;
  SessionOptions options_;
  Sink sink_;
  std::string user_;
  pgwire::StartupReader startup_{false};
  pgwire::Rules rules_;
  pgwire::Reader reader_;
  std::string part_;  // of a message that comes in parts
  bool started_ = false;
  std::optional<Scram> scram_;  // while the client has not shown who it is
  bool sasl_begun_ = false;
  bool over_ = false;
  std::optional<std::pair<std::uint32_t, std::string>> cancel_request_;

  std::deque<Message> pending_;
  std::size_t pending_bytes_ = 0;
  std::string out_;
  // The text of the plan that was begun last, for the place of what it fails on.
  struct AtPlan {
    std::shared_ptr<const std::string> text;
    std::size_t offset = 0, length = 0;
  } at_plan_;
  std::string last_;  // what a query gets when its implicit transaction has ended
  bool gathering_ = false;
  bool quick_ = false;             // in feed_quickly()
  mutable bool too_slow_ = false;  // … which cannot do this

  Status status_ = Status::idle;
  bool skipping_ = false;
  Transaction tx_;
  Settings settings_;
  std::unique_ptr<SqlConnection> temporary_;          // of a session with temporary tables
  std::unordered_map<std::string, Plans> own_plans_;  // by its own schema
  std::pair<std::string, Plans> last_plans_;          // of the query that is being answered
  std::map<std::string, std::shared_ptr<Prepared>, std::less<>> statements_;
  std::map<std::string, std::shared_ptr<Portal>, std::less<>> portals_;  // shared with what executes one that closes it
  // Long texts of the batch that is at work, and their plans; the engine keeps short ones.
  struct Recent {
    std::string sql;
    std::vector<Oid> types;
    Plans plans;
  };
  static constexpr std::size_t recent_max = 4, long_text_bytes = 8 * 1024;
  mutable std::vector<Recent> recent_;
  std::optional<Want> held_;  // of hold_session(): every transaction that writes passes it first

  struct CopyIn {
    std::unique_ptr<CopyReader> reader;
    std::vector<DeclaredType> types;
    SqlConnection::Text insert;
    std::int64_t rows = 0;
    bool binary = false;
    bool extended = false;
  };
  std::optional<CopyIn> copy_in_;
};

// While SQLite is at work, others may interrupt it.
template <class Work>
void Session::at_work(SqlConnection& connection, const Work& work) {
  struct During {
    Control& control;
    SqlConnection& connection;
    During(Control& of, SqlConnection& on, bool shared) : control(of), connection(on) {
      control.begins(connection.handle(), shared);
      connection.running_for = &control;
    }
    ~During() {
      connection.running_for = nullptr;
      control.ends();
    }
  } during(control_, connection, tx_.shared);
  work();
  if (!control_.interrupted()) return;
  if (control_.evicted()) throw PgException("57P01", control_.why());
  if (tx_.shared) throw PgException("57014", "canceling statement due to user request");
}

}  // namespace termgate::sqlite_server
