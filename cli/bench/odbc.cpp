// bench through ODBC: SQL Server, and PostgreSQL by its ODBC driver. Each writer has its own
// connection and prepared statements; append and library-write use the library, whose driver
// prepares statements the same way.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <termgate/error.hpp>

#include "bench/target.hpp"
#include "command.hpp"
#include "support/odbc_client.hpp"

namespace termgate::cli::bench {
namespace {

namespace odbc = termgate::detail::odbc;
using odbc::Family;

class Connection : public OdbcClient {
 public:
  using OdbcClient::OdbcClient;

  std::string one(const std::string& sql) {
    const Rows rows = run(sql);
    return rows.rows.empty() ? "" : rows.rows[0][0].as_text();
  }
  Rows run_prepared(const odbc::Marked& statement, const std::vector<Value>& values) {
    return execute(statement, values, true);
  }
};

class OdbcTarget final : public Target {
 public:
  OdbcTarget(std::string url, std::string schema, const std::string& suffix)
      : url_(std::move(url)),
        schema_(std::move(schema)),
        control_(url_),
        tsql_(control_.family() == Family::sqlserver) {
    plain_ = "bench_" + suffix + "_plain";
    textbook_ = "bench_" + suffix + "_textbook";
    fence_ = "bench_" + suffix + "_fence";
    writes_ = "bench_" + suffix + "_writes";
    call_ = "bench_" + suffix + "_call";
    // Babelfish ignores locking hints. There, an UPDATE that changes nothing locks the row.
    honours_hints_ =
        tsql_ &&
        control_.one("SELECT CASE WHEN SERVERPROPERTY('Babelfish') IS NULL THEN 1 ELSE 0 END") ==
            "1";
    sees_locks_ =
        tsql_ &&
        control_.one(
            "SELECT CASE WHEN OBJECT_ID(N'sys.dm_tran_locks') IS NULL THEN 0 ELSE 1 END") == "1";
    const std::string name = tsql_ ? "nvarchar(200)" : "text",
                      bytes = tsql_ ? "varbinary(max)" : "bytea",
                      id = tsql_ ? "bigint IDENTITY(1, 1)" : "bigint GENERATED ALWAYS AS IDENTITY";
    try {
      const std::string columns =
          "scope " + name + " NOT NULL, term bigint NOT NULL, payload " + bytes + " NOT NULL";
      control_.run("CREATE TABLE " + plain_ + " (id " + id + " PRIMARY KEY, " + columns + ")");
      control_.run("CREATE TABLE " + textbook_ + " (id " + id + " PRIMARY KEY, " + columns + ")");
      control_.run("CREATE INDEX " + textbook_ + "_by_term ON " + textbook_ + " (scope, term)");
      control_.run("CREATE TABLE " + fence_ + " (scope " + name +
                   " NOT NULL PRIMARY KEY, term bigint NOT NULL)");
      // A table like stream_writes, with its columns and indexes, but without the fence.
      control_.run("CREATE TABLE " + writes_ + " (stream_id " + name +
                   " NOT NULL, sequence_no bigint NOT NULL, scope " + name +
                   " NOT NULL, term bigint NOT NULL, payload " + bytes + " NOT NULL, created_at " +
                   (tsql_ ? "datetime2(6)" : "timestamptz") + " NOT NULL, write_id " +
                   (tsql_ ? "uniqueidentifier" : "uuid") +
                   " NULL, PRIMARY KEY (stream_id, sequence_no))");
      control_.run("CREATE INDEX " + writes_ + "_by_term ON " + writes_ + " (scope, term)");
      if (tsql_) {
        control_.run("CREATE PROCEDURE " + call_ +
                     " @scope nvarchar(200), @term bigint, @payload varbinary(max), @id bigint "
                     "OUTPUT AS BEGIN SET NOCOUNT ON; SET "
                     "XACT_ABORT ON; INSERT INTO " +
                     plain_ +
                     " (scope, term, payload) VALUES (@scope, @term, @payload); SET @id = "
                     "SCOPE_IDENTITY(); END");
      }
    } catch (...) {
      OdbcTarget::drop_tables();
      throw;
    }
  }
  ~OdbcTarget() override { OdbcTarget::drop_tables(); }

  std::vector<Scenario> scenarios() const override {
    std::vector<Scenario> all = {
        {"unfenced", "INSERT, autocommit, prepared", true},
        {"unfenced-begin", "BEGIN; INSERT; COMMIT, as library-write sends them", true},
        {"unfenced-rows", "INSERT of the rows and indexes that append writes", true},
        {"textbook", "BEGIN; lock the fence row; MAX(term); INSERT; COMMIT", true},
        {"check-insert", "check and INSERT in one round trip", true},
        {"append", "Database::append, one stream for each scope", true},
        {"append-each", "Database::append, a stream for each writer", true},
        {"library-write", "Database::write with an INSERT: BEGIN; check; INSERT; COMMIT", true}};
    if (tsql_) {
      all.push_back({"textbook-batch", "textbook in one round trip", true});
      all.push_back({"unfenced-call", "INSERT by a procedure, called as append is", true});
    }
    return all;
  }

  void prepare(std::string_view scenario, const Load& load) override {
    if (scenario.starts_with("append") || scenario == "library-write") {
      // The library's pool and the writers' own connections together could exceed the server's
      // limit.
      if (!tsql_) connections_.clear();
      if (!library_ || pool_ < load.writers) {
        OpenOptions options;
        options.schema = schema_;
        options.connections_max = pool_ = load.writers;
        library_.emplace(Database::open(url_, options));
      }
    } else if (!tsql_) {
      library_.reset();
    }
    if (scenario.starts_with("textbook") && fences_made_.insert({load.names, load.scopes}).second) {
      for (int index = 0; index < load.scopes; ++index) {
        if (control_
                .run_prepared(marked("SELECT term FROM " + fence_ + " WHERE scope = $1", 1),
                              {Value(load.scope(index))})
                .rows.empty())
          control_.run_prepared(
              marked("INSERT INTO " + fence_ + " (scope, term) VALUES ($1, 1)", 1),
              {Value(load.scope(index))});
      }
    }
  }

  // Long: one case for each scenario.
  std::unique_ptr<Writer> writer(std::string_view scenario, const Load& load, int index,
                                 std::uint64_t seed) override {
    Choice choice(load, seed, index);
    const std::vector<std::string> payloads(static_cast<std::size_t>(load.batch),
                                            payload(load, seed, index));
    if (load.batch > 300)
      throw UsageError(
          "--batches: at most 300 rows through ODBC, because of its limit of parameters");
    if (scenario.starts_with("append"))
      return append_writer(load, index, choice, scenario == "append-each", payloads);
    // Parameters: $1 scope, $2 term, $3 … payloads.
    std::vector<Value> rows{Value(std::string()), Value(std::int64_t{1})};
    for (const std::string& one : payloads) rows.emplace_back(Bytes{one});
    const auto insert_into = [&](const std::string& table) {
      std::string text = "INSERT INTO " + table + " (scope, term, payload) VALUES ";
      for (std::size_t at = 0; at < payloads.size(); ++at)
        text += fmt::format("{}($1, $2, ${})", at == 0 ? "" : ", ", at + 3);
      return text;
    };
    const auto with_scope = [load, rows](Choice& from) {
      std::vector<Value> values = rows;
      values[0] = Value(load.scope(from.scope()));
      return values;
    };
    if (scenario == "library-write") {
      Database database = *library_;
      return writer_of([=, insert = insert_into(plain_)]() mutable {
        const std::vector<Value> values = with_scope(choice);
        database.write(Scope(values[0].as_text()), Term(1),
                       [&](Transaction& transaction) { transaction.exec_values(insert, values); });
      });
    }
    const std::shared_ptr<Connection> connection = connection_of(index);
    const std::string begin = tsql_ ? "BEGIN TRANSACTION" : "BEGIN",
                      commit = tsql_ ? "COMMIT TRANSACTION" : "COMMIT";
    if (scenario == "unfenced") {
      return writer_of([=, insert = marked(insert_into(plain_), rows.size())]() mutable {
        connection->run_prepared(insert, with_scope(choice));
      });
    }
    if (scenario == "unfenced-call" && tsql_) {
      std::string text = "DECLARE @id bigint; ";
      for (std::size_t at = 0; at < payloads.size(); ++at)
        text += fmt::format("EXEC {} @scope = $1, @term = $2, @payload = ${}, @id = @id OUTPUT; ",
                            call_, at + 3);
      return writer_of([=, call = marked(text + "SELECT @id AS id", rows.size())]() mutable {
        connection->run_prepared(call, with_scope(choice));
      });
    }
    if (scenario == "unfenced-begin") {
      // In the library the INSERT is the user's own statement and is not kept prepared; here it is.
      return writer_of([=, insert = marked(insert_into(plain_), rows.size())]() mutable {
        connection->run(begin);
        connection->run_prepared(insert, with_scope(choice));
        connection->run(commit);
      });
    }
    if (scenario == "unfenced-rows") {
      std::string text =
          "INSERT INTO " + writes_ +
          " (stream_id, sequence_no, scope, term, payload, created_at, write_id) VALUES ";
      for (std::size_t at = 0; at < payloads.size(); ++at)
        text += fmt::format("{}($1, CAST(${} AS bigint) + {}, $2, $3, ${}, {}, NULL)",
                            at == 0 ? "" : ", ", payloads.size() + 4, at + 1, at + 4,
                            tsql_ ? "SYSUTCDATETIME()" : "clock_timestamp()");
      std::vector<Value> values{Value(fmt::format("{}-{}-{}", load.names, index, ++writers_made_))};
      values.insert(values.end(), rows.begin(), rows.end());
      values.emplace_back(std::int64_t{0});
      return writer_of([=, insert = marked(text, values.size()), last = std::int64_t{0}]() mutable {
        values[1] = Value(load.scope(choice.scope()));
        values.back() = Value(last);
        connection->run_prepared(insert, values);
        last += load.batch;
      });
    }
    const std::string lock =
        tsql_ && !honours_hints_
            ? "UPDATE " + fence_ + " SET term = term OUTPUT inserted.term WHERE scope = $1"
        : tsql_
            ? "SELECT term FROM " + fence_ + " WITH (UPDLOCK, ROWLOCK, HOLDLOCK) WHERE scope = $1"
            : "SELECT term FROM " + fence_ + " WHERE scope = $1 FOR UPDATE";
    const std::string highest = "SELECT max(term) FROM " + textbook_ + " WHERE scope = $1";
    if (scenario == "textbook") {
      return writer_of([=, locks = marked(lock, 1), reads = marked(highest, 1),
                        insert = marked(insert_into(textbook_), rows.size())]() mutable {
        const std::vector<Value> values = with_scope(choice), scope{values[0]};
        connection->run(begin);
        const Rows fence = connection->run_prepared(locks, scope),
                   most = connection->run_prepared(reads, scope);
        const Value& seen = most.rows.at(0).at(0);
        if (fence.rows.at(0).at(0).as_int() > 1 || (!seen.is_null() && seen.as_int() > 1))
          throw DatabaseError("bench: the textbook's fence was raised");
        connection->run_prepared(insert, values);
        connection->run(commit);
      });
    }
    if (scenario == "textbook-batch" && tsql_) {
      const std::string held =
          honours_hints_ ? "DECLARE @term bigint = (" + lock + "); "
                         : "DECLARE @term bigint; UPDATE " + fence_ +
                               " SET term = term WHERE scope = $1; SELECT @term = term FROM " +
                               fence_ + " WHERE scope = $1; ";
      const std::string text = "SET NOCOUNT ON; BEGIN TRANSACTION; " + held + "IF @term > $2 OR (" +
                               highest + ") > $2 THROW 50000, 'bench: the fence was raised', 1; " +
                               insert_into(textbook_) + "; COMMIT TRANSACTION";
      return writer_of([=, batch = marked(text, rows.size())]() mutable {
        connection->run_prepared(batch, with_scope(choice));
      });
    }
    if (scenario == "check-insert") {
      const std::string schema = tsql_ ? "[" + schema_ + "]" : "\"" + schema_ + "\"";
      std::string text = "SET NOCOUNT ON; BEGIN TRANSACTION; DECLARE @fence bigint; EXEC " +
                         schema + ".check_term @scope = $1, @term = $2, @fence = @fence OUTPUT; " +
                         insert_into(plain_) + "; COMMIT TRANSACTION";
      if (!tsql_) {
        text = "INSERT INTO " + plain_ +
               " (scope, term, payload) SELECT CAST($1 AS text), c.term, p FROM (SELECT " + schema +
               ".check_term(CAST($1 AS text), CAST($2 AS bigint)) AS term OFFSET 0) AS c, (VALUES ";
        for (std::size_t at = 0; at < payloads.size(); ++at)
          text += fmt::format("{}(CAST(${} AS bytea))", at == 0 ? "" : ", ", at + 3);
        text += ") AS v (p)";
      }
      return writer_of([=, batch = marked(text, rows.size())]() mutable {
        connection->run_prepared(batch, with_scope(choice));
      });
    }
    throw UsageError(fmt::format("bench: no scenario {} through this ODBC driver", scenario));
  }

  Flush flush_time() override {
    Load load;
    load.names = plain_;
    const auto insert = writer("unfenced", load, 0, 1);
    const std::shared_ptr<Connection> connection = connection_of(0);
    Latencies inserted, selected;
    for (int i = 0; i < 60 && !interrupted(); ++i) {
      const auto before = std::chrono::steady_clock::now();
      insert->write();
      const auto between = std::chrono::steady_clock::now();
      connection->run("SELECT 1");
      inserted.count(between - before);
      selected.count(std::chrono::steady_clock::now() - between);
    }
    return {
        std::max(inserted.percentile(0.5) - selected.percentile(0.5), std::chrono::nanoseconds(0)),
        "p50 of an INSERT, less that of SELECT 1: an upper bound"};
  }

  bool can_be_durable() const override { return true; }
  bool can_be_not_durable() const override { return false; }

  boost::json::object facts() override {
    boost::json::object facts;
    facts["driver"] = control_.maker() == odbc::Maker::freetds     ? "FreeTDS"
                      : control_.maker() == odbc::Maker::microsoft ? "Microsoft's"
                                                                   : "psqlodbc";
    std::string version =
        control_.one(tsql_ ? "SELECT CAST(@@VERSION AS nvarchar(4000))" : "SELECT version()");
    facts["server"] = version.substr(0, version.find('\n'));
    if (!tsql_) facts["fsync"] = control_.one("SHOW fsync");
    return facts;
  }

  std::shared_ptr<void> frozen_writer(const Scope& scope, Term term) override {
    // Without sys.dm_tran_locks nobody can see who holds a lock, so nobody can evict the holder.
    if (tsql_ && !sees_locks_) return nullptr;
    auto frozen = std::make_shared<Connection>(url_);
    frozen->run(tsql_ ? "BEGIN TRANSACTION" : "BEGIN");
    const odbc::Dialect& dialect = odbc::dialect_of(control_.family());
    frozen->run_prepared(
        marked(dialect.with_schema(dialect.calls()[sql::Call::check_term], schema_), 2),
        {Value(scope.name()), Value(term.value())});
    frozen->run_prepared(
        marked("INSERT INTO " + plain_ + " (scope, term, payload) VALUES ($1, $2, $3)", 3),
        {Value(scope.name()), Value(term.value()), Value(Bytes{"frozen"})});
    return frozen;
  }

  void drop_tables() noexcept override {
    try {
      connections_.clear();
      library_.reset();
      if (tsql_) control_.run("DROP PROCEDURE IF EXISTS " + call_);
      for (const std::string& table : {plain_, textbook_, fence_, writes_})
        control_.run("DROP TABLE IF EXISTS " + table);
    } catch (...) {
      // The caller is ending, perhaps because of an error that is more useful than this one.
    }
  }

 private:
  odbc::Marked marked(const std::string& text, std::size_t parameters) const {
    return odbc::marked(text, parameters, control_.family());
  }

  std::shared_ptr<Connection> connection_of(int index) {
    while (connections_.size() <= static_cast<std::size_t>(index))
      connections_.push_back(std::make_shared<Connection>(url_));
    return connections_[static_cast<std::size_t>(index)];
  }

  std::unique_ptr<Writer> append_writer(const Load& load, int index, Choice choice, bool each,
                                        const std::vector<std::string>& payloads) {
    Database database = *library_;
    return writer_of([=]() mutable {
      const int scope = choice.scope();
      AppendOptions options;
      options.scope = Scope(load.scope(scope));
      const Stream stream(each ? load.stream(scope, index) : load.stream(scope));
      if (payloads.size() == 1) database.append(stream, Term(1), payloads.front(), options);
      else database.append_many(stream, Term(1), payloads, options);
    });
  }

  static std::string payload(const Load& load, std::uint64_t seed, int index) {
    // Random bytes, because the server would compress others.
    std::minstd_rand random(static_cast<std::uint32_t>(seed) + static_cast<std::uint32_t>(index));
    std::string bytes(load.payload_bytes, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() >> 8);
    return bytes;
  }

  const std::string url_, schema_;
  Connection control_;
  const bool tsql_;
  bool honours_hints_ = false, sees_locks_ = false;
  std::string plain_, textbook_, fence_, writes_, call_;
  // The writers' connections, one for each; all scenarios share them.
  std::vector<std::shared_ptr<Connection>> connections_;
  std::optional<Database> library_;
  int pool_ = 0;
  std::set<std::pair<std::string, int>> fences_made_;
  int writers_made_ = 0;
};

}  // namespace

std::unique_ptr<Target> odbc_target(const std::string& url, const std::string& schema,
                                    const std::string& suffix) {
  return std::make_unique<OdbcTarget>(url, schema, suffix);
}

}  // namespace termgate::cli::bench
