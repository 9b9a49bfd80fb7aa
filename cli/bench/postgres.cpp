// bench on PostgreSQL: every scenario but library-… is a few prepared statements on libpq itself,
// with one connection for each writer, so that client and round trips cost the same in all of them.
#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/text/hex.hpp>
#include <termgate/text/quote.hpp>

#include "bench/target.hpp"

namespace termgate::cli::bench {
namespace {

struct ResultDeleter {
  void operator()(PGresult* result) const { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, ResultDeleter>;

class Connection {
 public:
  explicit Connection(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
    if (PQstatus(connection_) != CONNECTION_OK) {
      const std::string why = PQerrorMessage(connection_);
      PQfinish(connection_);
      throw Unavailable("bench: no connection: " + why.substr(0, why.find('\n')));
    }
    PQsetNoticeProcessor(
        connection_, [](void*, const char*) {}, nullptr);
  }
  ~Connection() { PQfinish(connection_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Result run(const std::string& sql) { return checked(PQexec(connection_, sql.c_str())); }
  std::string one(const std::string& sql) {
    const Result result = run(sql);
    return PQntuples(result.get()) > 0 ? PQgetvalue(result.get(), 0, 0) : "";
  }

  // Prepares a statement and returns its name, which is valid as long as the connection.
  const char* prepare(const std::string& sql) {
    std::string& name = prepared_[sql];
    if (name.empty()) {
      const std::string wanted = fmt::format("bench_{}", prepared_.size());
      checked(PQprepare(connection_, wanted.c_str(), sql.c_str(), 0, nullptr));
      name = wanted;
    }
    return name.c_str();
  }

  // `binary`, if given, is one more parameter after the texts, in binary format (a bytea or an
  // array of them).
  Result run_prepared(const char* name, std::initializer_list<const char*> texts,
                      const std::string* binary = nullptr) {
    std::array<const char*, 8> values{};
    std::array<int, 8> lengths{};
    std::array<int, 8> formats{};
    int count = 0;
    for (const char* text : texts) values[static_cast<std::size_t>(count++)] = text;
    if (binary != nullptr) {
      values[static_cast<std::size_t>(count)] = binary->data();
      lengths[static_cast<std::size_t>(count)] = static_cast<int>(binary->size());
      formats[static_cast<std::size_t>(count++)] = 1;
    }
    return checked(
        PQexecPrepared(connection_, name, count, values.data(), lengths.data(), formats.data(), 0));
  }

  void set_durable(bool durable) {
    if (durable_ == durable) return;
    run(durable ? "SET synchronous_commit = on" : "SET synchronous_commit = off");
    durable_ = durable;
  }

 private:
  static Result checked(PGresult* raw) {
    Result result(raw);
    const ExecStatusType status = PQresultStatus(raw);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return result;
    const char* message =
        raw == nullptr ? nullptr : PQresultErrorField(raw, PG_DIAG_MESSAGE_PRIMARY);
    const char* code = raw == nullptr ? nullptr : PQresultErrorField(raw, PG_DIAG_SQLSTATE);
    throw DatabaseError(message != nullptr ? message : "the connection was lost",
                        code != nullptr ? code : "");
  }

  PGconn* connection_;
  std::map<std::string, std::string> prepared_;
  std::optional<bool> durable_;
};

// PostgreSQL's binary format of a bytea[]: dimensions, "has NULLs", element type, length, lower
// bound; then each element's length and bytes. Integers have 4 bytes, big endian.
std::string bytea_array(const std::vector<std::string>& items) {
  std::string bytes;
  auto put = [&](std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  };
  constexpr std::uint32_t oid_bytea = 17;
  put(1);
  put(0);
  put(oid_bytea);
  put(static_cast<std::uint32_t>(items.size()));
  put(1);
  for (const std::string& item : items) {
    put(static_cast<std::uint32_t>(item.size()));
    bytes += item;
  }
  return bytes;
}

// Adds an option to the URL's start-up options and keeps the others.
std::string with_option(const std::string& url, const std::string& option) {
  std::string options;
  if (PQconninfoOption* parsed = PQconninfoParse(url.c_str(), nullptr)) {
    for (PQconninfoOption* at = parsed; at->keyword != nullptr; ++at) {
      if (std::string_view(at->keyword) == "options" && at->val != nullptr)
        options = std::string(at->val) + " ";
    }
    PQconninfoFree(parsed);
  }
  // If a parameter occurs twice, the last one counts. A password may contain a question mark.
  const auto at = url.rfind('@');
  return url + (url.find('?', at == std::string::npos ? 0 : at) == std::string::npos ? "?" : "&") +
         "options=" + text::percent_encoded(options + option);
}

class PostgresTarget final : public Target {
 public:
  PostgresTarget(std::string url, std::string schema, const std::string& suffix)
      : url_(std::move(url)), schema_name_(std::move(schema)), control_(url_) {
    schema_ = text::quoted(schema_name_, '"');
    plain_ = "bench_" + suffix + "_plain";
    textbook_ = "bench_" + suffix + "_textbook";
    fence_ = "bench_" + suffix + "_fence";
    writes_ = "bench_" + suffix + "_writes";
    try {
      const std::string columns =
          "scope text NOT NULL, term bigint NOT NULL, payload bytea NOT NULL";
      control_.run("CREATE TABLE " + plain_ +
                   " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, " + columns + ")");
      // The textbook scenario reads MAX(term) of the scope, which would scan the table without this
      // index.
      control_.run("CREATE TABLE " + textbook_ +
                   " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, " + columns + ")");
      control_.run("CREATE INDEX ON " + textbook_ + " (scope, term)");
      control_.run("CREATE TABLE " + fence_ + " (scope text PRIMARY KEY, term bigint NOT NULL)");
      // A table like stream_writes, with its columns and indexes, but without the fence.
      control_.run(
          "CREATE TABLE " + writes_ +
          " (stream_id text COLLATE \"C\", sequence_no bigint, scope text COLLATE \"C\" NOT NULL, "
          "term bigint NOT NULL, payload "
          "bytea NOT NULL, "
          "created_at timestamptz NOT NULL, write_id uuid, PRIMARY KEY (stream_id, sequence_no))");
      control_.run("CREATE INDEX ON " + writes_ + " (scope, term)");
    } catch (...) {
      PostgresTarget::drop_tables();
      throw;
    }
  }
  ~PostgresTarget() override { PostgresTarget::drop_tables(); }

  std::vector<Scenario> scenarios() const override {
    return {{"unfenced", "INSERT, autocommit", true},
            {"textbook", "BEGIN; lock the fence row; MAX(term); INSERT; COMMIT", true},
            {"check-insert", "check and INSERT as one statement", true},
            {"append", "append, one stream for each scope", true},
            {"append-each", "append, a stream for each writer", true},
            {"unfenced-rows", "INSERT of the rows and indexes that append writes", false},
            {"library-execute", "Database::execute with an INSERT", false},
            {"library-write",
             "Database::write with an INSERT: BEGIN and check or seat; INSERT; COMMIT", false},
            {"library-append", "Database::append, a stream for each writer", false}};
  }

  void prepare(std::string_view scenario, const Load& load) override {
    const bool library = scenario.starts_with("library-");
    if (library) {
      // The library's pool and the writers' own connections together could exceed the server's
      // limit.
      connections_.clear();
      OpenOptions options;
      options.schema = schema_name_;
      options.connections_max = load.writers;
      library_.emplace(open_with_durability(url_, options, load.durable));
    } else {
      library_.reset();
    }
    if (scenario == "textbook" && fences_made_.insert({load.names, load.scopes}).second) {
      for (int index = 0; index < load.scopes; ++index) {
        control_.run_prepared(
            control_.prepare("INSERT INTO " + fence_ + " VALUES ($1, 1) ON CONFLICT DO NOTHING"),
            {load.scope(index).c_str()});
      }
    }
  }

  std::unique_ptr<Writer> writer(std::string_view scenario, const Load& load, int index,
                                 std::uint64_t seed) override {
    Choice choice(load, seed, index);
    const std::vector<std::string> payloads(static_cast<std::size_t>(load.batch),
                                            payload(load, seed, index));
    if (scenario.starts_with("library-"))
      return library_writer(scenario, load, index, choice, payloads);
    const std::shared_ptr<Connection> connection = connection_of(index);
    connection->set_durable(load.durable);
    const bool one = load.batch == 1;
    const std::string data = one ? payloads.front() : bytea_array(payloads);
    auto insert_into = [&](const std::string& table) {
      const std::string head = "INSERT INTO " + table + " (scope, term, payload) ";
      return head +
             (one ? "VALUES ($1::text, $2::bigint, $3::bytea)"
                  : "SELECT $1::text, $2::bigint, p FROM pg_catalog.unnest($3::bytea[]) AS p");
    };
    if (scenario == "unfenced") {
      return writer_of([=, insert = connection->prepare(insert_into(plain_))]() mutable {
        connection->run_prepared(insert, {load.scope(choice.scope()).c_str(), "1"}, &data);
      });
    }
    if (scenario == "unfenced-rows") {
      const std::string sql =
          "INSERT INTO " + writes_ + " SELECT $1::text, $4::bigint + n, $2::text, $3::bigint, " +
          (one ? "$5::bytea, pg_catalog.clock_timestamp(), NULL FROM (VALUES (1)) AS v (n)"
               : "p, pg_catalog.clock_timestamp(), NULL FROM pg_catalog.unnest($5::bytea[]) WITH "
                 "ORDINALITY AS v (p, n)");
      const std::string stream = fmt::format("{}-{}-{}", load.names, index, ++writers_made_);
      return writer_of([=, insert = connection->prepare(sql), last = std::int64_t{0}]() mutable {
        connection->run_prepared(
            insert,
            {stream.c_str(), load.scope(choice.scope()).c_str(), "1", std::to_string(last).c_str()},
            &data);
        last += load.batch;
      });
    }
    if (scenario == "textbook") {
      return writer_of([=,
                        lock = connection->prepare("SELECT term FROM " + fence_ +
                                                   " WHERE scope = $1 FOR UPDATE"),
                        highest = connection->prepare("SELECT max(term) FROM " + textbook_ +
                                                      " WHERE scope = $1"),
                        insert = connection->prepare(insert_into(textbook_))]() mutable {
        const std::string scope = load.scope(choice.scope());
        connection->run("BEGIN");
        const Result fence = connection->run_prepared(lock, {scope.c_str()});
        const Result rows = connection->run_prepared(highest, {scope.c_str()});
        if (std::atoll(PQgetvalue(fence.get(), 0, 0)) > 1 ||
            std::atoll(PQgetvalue(rows.get(), 0, 0)) > 1)
          throw DatabaseError("bench: the textbook's fence was raised");
        connection->run_prepared(insert, {scope.c_str(), "1"}, &data);
        connection->run("COMMIT");
      });
    }
    if (scenario == "check-insert") {
      // check_term() returns the fence, which is the row's term, so this INSERT is the shortest and
      // cheapest form. For a batch the check is in a subquery, so that it runs once and before the
      // first row.
      const std::string sql =
          "INSERT INTO " + plain_ + " (scope, term, payload) " +
          (one ? "VALUES ($1::text, " + schema_ + ".check_term($1::text, $2::bigint), $3::bytea)"
               : "SELECT $1::text, c.term, p FROM (SELECT " + schema_ +
                     ".check_term($1::text, $2::bigint) AS term OFFSET 0) AS c, "
                     "pg_catalog.unnest($3::bytea[]) AS p");
      return writer_of([=, fenced = connection->prepare(sql)]() mutable {
        connection->run_prepared(fenced, {load.scope(choice.scope()).c_str(), "1"}, &data);
      });
    }
    if (scenario == "append" || scenario == "append-each") {
      const bool each = scenario == "append-each";
      const std::string sql =
          one ? "SELECT " + schema_ + ".append($1, $2::bigint, $4::bytea, NULL, $3)"
              : "SELECT " + schema_ + ".append_many($1, $2::bigint, $4::bytea[], NULL, $3)";
      return writer_of([=, append = connection->prepare(sql)]() mutable {
        const int scope = choice.scope();
        const std::string stream = each ? load.stream(scope, index) : load.stream(scope);
        connection->run_prepared(append, {stream.c_str(), "1", load.scope(scope).c_str()}, &data);
      });
    }
    throw InvalidInput(fmt::format("bench: PostgreSQL has no scenario {}", scenario));
  }

  Flush flush_time() override {
    Load load;
    load.names = plain_;
    const auto durable = writer("unfenced", load, 0, 1);
    Latencies flushed, not_flushed;
    for (int round = 0; round < 3; ++round) {
      for (const bool wanted : {true, false}) {
        connection_of(0)->set_durable(wanted);
        for (int i = 0; i < 20 && !interrupted(); ++i) {
          const auto before = std::chrono::steady_clock::now();
          durable->write();
          (wanted ? flushed : not_flushed).count(std::chrono::steady_clock::now() - before);
        }
      }
    }
    return {std::max(flushed.percentile(0.5) - not_flushed.percentile(0.5),
                     std::chrono::nanoseconds(0)),
            "p50 of an INSERT with synchronous_commit on, less that of one with it off"};
  }

  bool can_be_durable() const override { return fsync_; }

  boost::json::object facts() override {
    boost::json::object facts;
    for (const char* name : {"server_version", "fsync", "full_page_writes", "wal_sync_method",
                             "commit_delay", "shared_buffers", "max_connections"}) {
      facts[name] = control_.one(fmt::format("SHOW {}", name));
    }
    fsync_ = facts["fsync"].as_string() == "on";
    return facts;
  }

  std::shared_ptr<void> frozen_writer(const Scope& scope, Term term) override {
    auto frozen = std::make_shared<Connection>(url_);
    const std::string number = std::to_string(term.value());
    frozen->run("BEGIN");
    frozen->run_prepared(frozen->prepare("SELECT " + schema_ + ".check_term($1, $2::bigint)"),
                         {scope.name().c_str(), number.c_str()});
    frozen->run_prepared(
        frozen->prepare("INSERT INTO " + plain_ +
                        " (scope, term, payload) VALUES ($1, $2::bigint, 'frozen')"),
        {scope.name().c_str(), number.c_str()});
    return frozen;
  }

  void drop_tables() noexcept override {
    try {
      connections_.clear();
      library_.reset();
      control_.run("DROP TABLE IF EXISTS " + plain_ + ", " + textbook_ + ", " + fence_ + ", " +
                   writes_);
    } catch (...) {
      // The caller is ending, perhaps because of an error that is more useful than this one.
    }
  }

 private:
  std::shared_ptr<Connection> connection_of(int index) {
    while (connections_.size() <= static_cast<std::size_t>(index))
      connections_.push_back(std::make_shared<Connection>(url_));
    return connections_[static_cast<std::size_t>(index)];
  }

  std::unique_ptr<Writer> library_writer(std::string_view scenario, const Load& load, int index,
                                         Choice choice, const std::vector<std::string>& payloads) {
    Database database = *library_;
    if (scenario == "library-append") {
      return writer_of([=]() mutable {
        const int scope = choice.scope();
        AppendOptions options;
        options.scope = Scope(load.scope(scope));
        const Stream stream(load.stream(scope, index));
        if (payloads.size() == 1) database.append(stream, Term(1), payloads.front(), options);
        else database.append_many(stream, Term(1), payloads, options);
      });
    }
    if (scenario == "library-execute" && payloads.size() == 1) {
      const std::string sql = "INSERT INTO " + plain_ +
                              " (scope, term, payload) VALUES ($1::text, $2::bigint, $3::bytea)";
      return writer_of([=]() mutable {
        const Scope scope(load.scope(choice.scope()));
        database.execute(scope, Term(1), sql, scope.name(), 1, Bytes{payloads.front()});
      });
    }
    const std::string sql = "INSERT INTO " + plain_ +
                            " (scope, term, payload) SELECT $1::text, $2::bigint, p FROM "
                            "pg_catalog.unnest($3::bytea[]) AS p";
    return writer_of([=, executes = scenario == "library-execute"]() mutable {
      const Scope scope(load.scope(choice.scope()));
      if (executes) database.execute(scope, Term(1), sql, scope.name(), 1, Value(payloads));
      else
        database.write(scope, Term(1), [&](Transaction& transaction) {
          transaction.exec(sql, scope.name(), 1, Value(payloads));
        });
    });
  }

  static std::string payload(const Load& load, std::uint64_t seed, int index) {
    // Random bytes, because the server would compress others.
    std::minstd_rand random(static_cast<std::uint32_t>(seed) + static_cast<std::uint32_t>(index));
    std::string bytes(load.payload_bytes, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() >> 8);
    return bytes;
  }

  const std::string url_;
  const std::string schema_name_;
  Connection control_;
  std::string schema_, plain_, textbook_, fence_, writes_;
  // The writers' connections, one for each; all scenarios share them.
  std::vector<std::shared_ptr<Connection>> connections_;
  std::optional<Database> library_;
  std::set<std::pair<std::string, int>> fences_made_;
  int writers_made_ = 0;
  bool fsync_ = true;
};

}  // namespace

std::unique_ptr<Target> postgres_target(const std::string& url, const std::string& schema,
                                        const std::string& suffix) {
  return std::make_unique<PostgresTarget>(url, schema, suffix);
}

std::string postgres_url(const std::string& url, bool durable) {
  return with_option(url, durable ? "-c synchronous_commit=on" : "-c synchronous_commit=off");
}

}  // namespace termgate::cli::bench
