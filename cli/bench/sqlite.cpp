// bench on an SQLite file. The unfenced and the textbook writer are what programs usually have: one
// connection that a mutex guards, each write a commit of its own. Termgate's writers are
// Database's, whose threads commit together.
#include <sqlite3.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include <termgate/error.hpp>

#include "bench/target.hpp"

namespace termgate::cli::bench {
namespace {

// One connection and its prepared statements. One thread at a time may call run().
class FileConnection {
 public:
  FileConnection(const std::string& path, bool durable) {
    if (sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr) !=
        SQLITE_OK) {
      const std::string why = sqlite3_errmsg(db_);
      sqlite3_close(db_);
      throw Unavailable("bench: " + why);
    }
    sqlite3_busy_timeout(db_, 10'000);
    run(durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = OFF");
  }
  ~FileConnection() {
    for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
    sqlite3_close(db_);
  }
  FileConnection(const FileConnection&) = delete;
  FileConnection& operator=(const FileConnection&) = delete;

  // Prepares a statement, which is valid as long as the connection.
  sqlite3_stmt* prepare(const std::string& sql) {
    sqlite3_stmt*& statement = statements_[sql];
    if (statement == nullptr && sqlite3_prepare_v3(db_, sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT,
                                                   &statement, nullptr) != SQLITE_OK)
      fail();
    return statement;
  }

  // Runs a statement. Texts and blobs are bound without a copy. Returns the first column of the
  // first row, or 0.
  std::int64_t run(sqlite3_stmt* statement, const std::string* scope = nullptr,
                   const std::string* payload = nullptr, int payloads = 0) {
    if (scope != nullptr)
      sqlite3_bind_text(statement, 1, scope->data(), static_cast<int>(scope->size()),
                        SQLITE_STATIC);
    for (int at = 0; at < payloads; ++at)
      sqlite3_bind_blob(statement, 2 + at, payload->data(), static_cast<int>(payload->size()),
                        SQLITE_STATIC);
    const int status = sqlite3_step(statement);
    const std::int64_t value = status == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    if (sqlite3_reset(statement) != SQLITE_OK) fail();
    return value;
  }
  std::int64_t run(const std::string& sql) { return run(prepare(sql)); }

 private:
  [[noreturn]] void fail() {
    const std::string why = sqlite3_errmsg(db_);
    const int code = sqlite3_extended_errcode(db_);
    if (sqlite3_get_autocommit(db_) == 0) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
    throw DatabaseError("bench: " + why, std::to_string(code));
  }

  sqlite3* db_ = nullptr;
  std::map<std::string, sqlite3_stmt*> statements_;
};

struct Shared {
  Shared(const std::string& path, bool durable) : connection(path, durable) {}
  std::mutex mutex;  // guards connection
  FileConnection connection;
};

class SqliteTarget final : public Target {
 public:
  SqliteTarget(std::string url, const std::string& suffix)
      : url_(std::move(url)), path_(sqlite_path(url_)) {
    if (path_.empty() || path_.find(":memory:") != std::string::npos)
      throw InvalidInput(
          "bench: an SQLite database in memory has nothing to compare with; give a file");
    plain_ = "bench_" + suffix + "_plain";
    textbook_ = "bench_" + suffix + "_textbook";
    fence_ = "bench_" + suffix + "_fence";
    try {
      FileConnection connection(path_, false);
      connection.run("BEGIN IMMEDIATE");
      const std::string columns =
          "(id INTEGER PRIMARY KEY, scope TEXT NOT NULL, term INTEGER NOT NULL, payload BLOB NOT "
          "NULL)";
      connection.run("CREATE TABLE " + plain_ + " " + columns);
      // The textbook scenario reads MAX(term) of the scope, which would scan the table without this
      // index.
      connection.run("CREATE TABLE " + textbook_ + " " + columns);
      connection.run("CREATE INDEX " + textbook_ + "_by_scope ON " + textbook_ + " (scope, term)");
      connection.run("CREATE TABLE " + fence_ +
                     " (scope TEXT PRIMARY KEY, term INTEGER NOT NULL) WITHOUT ROWID");
      connection.run("COMMIT");
    } catch (...) {
      SqliteTarget::drop_tables();
      throw;
    }
  }
  ~SqliteTarget() override { SqliteTarget::drop_tables(); }

  std::vector<Scenario> scenarios() const override {
    return {{"unfenced", "INSERT, one commit each, the writers share a connection", true},
            {"textbook", "BEGIN IMMEDIATE; read the fence row; MAX(term); INSERT; COMMIT", true},
            {"check-insert", "Database::write with an INSERT", true},
            {"append", "Database::append, one stream for each scope", true},
            {"append-each", "Database::append, a stream for each writer", true}};
  }

  void prepare(std::string_view scenario, const Load& load) override {
    if (!raw_ || durable_ != load.durable) {
      raw_.reset();
      ours_.reset();
      raw_ = std::make_shared<Shared>(path_, load.durable);
      ours_.emplace(open_with_durability(url_, {}, load.durable));
      durable_ = load.durable;
    }
    if (scenario == "textbook" && fences_made_.insert({load.names, load.scopes}).second) {
      const std::lock_guard lock(raw_->mutex);
      raw_->connection.run("BEGIN IMMEDIATE");
      for (int index = 0; index < load.scopes; ++index) {
        const std::string scope = load.scope(index);
        raw_->connection.run(
            raw_->connection.prepare("INSERT OR IGNORE INTO " + fence_ + " VALUES ($1, 1)"),
            &scope);
      }
      raw_->connection.run("COMMIT");
    }
  }

  std::unique_ptr<Writer> writer(std::string_view scenario, const Load& load, int index,
                                 std::uint64_t seed) override {
    Choice choice(load, seed, index);
    const std::string payload(load.payload_bytes, static_cast<char>('a' + index % 26));
    auto insert_into = [&](const std::string& table) {
      std::string sql = "INSERT INTO " + table + " (scope, term, payload) VALUES ";
      for (int row = 0; row < load.batch; ++row)
        sql += fmt::format("{}($1, 1, ${})", row > 0 ? ", " : "", row + 2);
      return sql;
    };
    if (scenario == "unfenced") {
      return writer_of([=, shared = raw_, insert = raw_->connection.prepare(insert_into(plain_)),
                        rows = load.batch]() mutable {
        const std::string scope = load.scope(choice.scope());
        const std::lock_guard lock(shared->mutex);
        shared->connection.run(insert, &scope, &payload, rows);
      });
    }
    if (scenario == "textbook") {
      FileConnection& connection = raw_->connection;
      return writer_of(
          [=, shared = raw_, &connection, begin = connection.prepare("BEGIN IMMEDIATE"),
           commit = connection.prepare("COMMIT"),
           fence = connection.prepare("SELECT term FROM " + fence_ + " WHERE scope = $1"),
           highest = connection.prepare("SELECT max(term) FROM " + textbook_ + " WHERE scope = $1"),
           insert = connection.prepare(insert_into(textbook_)), rows = load.batch]() mutable {
            const std::string scope = load.scope(choice.scope());
            const std::lock_guard lock(shared->mutex);
            connection.run(begin);
            if (connection.run(fence, &scope) > 1 || connection.run(highest, &scope) > 1) {
              connection.run("ROLLBACK");
              throw DatabaseError("bench: the textbook's fence was raised");
            }
            connection.run(insert, &scope, &payload, rows);
            connection.run(commit);
          });
    }
    Database database = *ours_;
    if (scenario == "check-insert") {
      std::vector<Value> values{Value()};
      for (int row = 0; row < load.batch; ++row) values.emplace_back(Bytes{payload});
      return writer_of([=, sql = insert_into(plain_)]() mutable {
        const Scope scope(load.scope(choice.scope()));
        values.front() = Value(scope.name());
        database.write(scope, Term(1),
                       [&](Transaction& transaction) { transaction.exec_values(sql, values); });
      });
    }
    if (scenario == "append" || scenario == "append-each") {
      const bool each = scenario == "append-each";
      return writer_of([=, payloads = std::vector<std::string>(static_cast<std::size_t>(load.batch),
                                                               payload)]() mutable {
        const int scope = choice.scope();
        const Stream stream(each ? load.stream(scope, index) : load.stream(scope));
        AppendOptions options;
        options.scope = Scope(load.scope(scope));
        if (payloads.size() == 1) database.append(stream, Term(1), payloads.front(), options);
        else database.append_many(stream, Term(1), payloads, options);
      });
    }
    throw InvalidInput(fmt::format("bench: SQLite has no scenario {}", scenario));
  }

  Flush flush_time() override {
    const std::filesystem::path folder = std::filesystem::absolute(path_).parent_path();
    std::string name = (folder / "bench-flush-XXXXXX").string();
    const int file = mkostemp(name.data(), O_CLOEXEC);
    if (file < 0)
      throw Unavailable(fmt::format("bench: no file could be made in {}", folder.string()));
    unlink(name.c_str());
    const std::string page(4096, 'x');
    Latencies latencies;
    for (int i = 0; i < 60 && !interrupted(); ++i) {
      const auto before = std::chrono::steady_clock::now();
      if (write(file, page.data(), page.size()) != static_cast<ssize_t>(page.size()) ||
          fdatasync(file) != 0)
        break;
      latencies.count(std::chrono::steady_clock::now() - before);
    }
    close(file);
    return {latencies.percentile(0.5),
            "p50 of fdatasync after each 4 KiB appended to a file beside the database"};
  }

  bool can_be_durable() const override { return true; }

  boost::json::object facts() override {
    sqlite3* reader = nullptr;
    std::string mode;
    if (sqlite3_open_v2(path_.c_str(), &reader, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK) {
      sqlite3_exec(
          reader, "PRAGMA journal_mode",
          [](void* into, int, char** values, char**) {
            *static_cast<std::string*>(into) = values[0];
            return 0;
          },
          &mode, nullptr);
    }
    sqlite3_close(reader);
    return {{"sqlite_version", sqlite3_libversion()},
            {"journal_mode", mode},
            {"synchronous", "FULL where durable, else OFF"}};
  }

  // On SQLite a frozen transaction holds the application's own lock on the file, and cannot be
  // evicted.
  std::shared_ptr<void> frozen_writer(const Scope&, Term) override { return nullptr; }

  void drop_tables() noexcept override {
    try {
      raw_.reset();
      ours_.reset();
      FileConnection connection(path_, false);
      for (const std::string& table : {plain_, textbook_, fence_})
        connection.run("DROP TABLE IF EXISTS " + table);
    } catch (...) {
      // The caller is ending, perhaps because of an error that is more useful than this one.
    }
  }

 private:
  const std::string url_;
  const std::string path_;
  std::string plain_, textbook_, fence_;
  std::shared_ptr<Shared> raw_;
  std::optional<Database> ours_;
  bool durable_ = true;
  std::set<std::pair<std::string, int>> fences_made_;
};

}  // namespace

std::unique_ptr<Target> sqlite_target(const std::string& url, const std::string& suffix) {
  return std::make_unique<SqliteTarget>(url, suffix);
}

std::string sqlite_path(const std::string& url) {
  const std::string rest = url.substr(url.find(':') + 1);
  std::string path;
  const std::string raw = rest.substr(0, rest.find('?'));
  for (std::size_t at = 0; at < raw.size(); ++at) {
    if (raw[at] == '%' && at + 2 < raw.size() &&
        std::isxdigit(static_cast<unsigned char>(raw[at + 1])) &&
        std::isxdigit(static_cast<unsigned char>(raw[at + 2]))) {
      path += static_cast<char>(std::stoi(raw.substr(at + 1, 2), nullptr, 16));
      at += 2;
    } else {
      path += raw[at];
    }
  }
  return path;
}

std::string sqlite_url(const std::string& url, bool durable) {
  std::string result = url.substr(0, url.find('?'));
  char before = '?';
  for (std::size_t at = result.size() + 1; at < url.size();) {
    const std::size_t end = std::min(url.find('&', at), url.size());
    const std::string option = url.substr(at, end - at);
    if (!option.starts_with("synchronous=")) {
      result += before + option;
      before = '&';
    }
    at = end + 1;
  }
  return result + before + (durable ? "synchronous=FULL" : "synchronous=OFF");
}

}  // namespace termgate::cli::bench
