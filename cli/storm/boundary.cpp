// storm: the naive boundaries. Each is code that people really write, with exactly one mistake.
// Apart from it the lease is right: taken and renewed by the database's clock under a row lock,
// with a term that grows.
#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "storm/storm.hpp"

namespace termgate::cli::storm {

const std::vector<Naive>& naive_boundaries() {
  static const std::vector<Naive> all = {
      {"max-term",
       "the writer reads the highest term, finds its own, and writes: nothing is locked between "
       "the two",
       true},
      {"where-exists",
       "INSERT … WHERE EXISTS (the term is still mine), without a lock: one statement is not "
       "atomic against other commits (PostgreSQL)",
       false},
      {"one-statement",
       "the lock is taken and the term read in one statement: its snapshot is older than the lock "
       "(PostgreSQL)",
       false},
      {"two-connections",
       "the check holds its lock on one connection, and the write goes through another", true},
      {"lock-only",
       "a lease without a term: whoever believes that it holds the lease writes, and nothing "
       "refuses the write",
       true},
      {"client-clock",
       "the lease is judged by the clients' own clocks, which are up to two TTLs apart here, or "
       "stepped if possible",
       true},
      {"deleted-row",
       "the token is in a lock row that is deleted on release, so that it starts again at 1", true},
  };
  return all;
}

const Naive* find_naive(std::string_view name) {
  const auto& all = naive_boundaries();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Naive& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

void write_unnumbered(const Run& run, const std::string& table, const std::string& id,
                      const std::string& scope, std::int64_t term, int rows) {
  for (int part = 0; part < rows; ++part) {
    run("INSERT INTO " + table +
            " (op, part, scope, term) VALUES ($1, CAST($2 AS bigint), $3, CAST($4 AS bigint))",
        {id, std::to_string(part), scope, std::to_string(term)});
  }
}

std::int64_t write_numbered(const Run& run, const Names& names, const std::string& table,
                            const Task& task, int from, const Run* beside) {
  const Table counter = (beside != nullptr ? *beside : run)(
      "UPDATE " + names.counters() + " SET n = n + CAST($2 AS bigint) WHERE scope = $1 RETURNING n",
      {beside != nullptr ? names.beside(task.scope) : task.scope, std::to_string(task.rows)});
  if (counter.rows.size() != 1)
    throw DatabaseError("storm: the counter of " + task.scope + " is gone");
  const std::int64_t last = std::stoll(counter.rows[0][0]);
  for (int part = 0; part < task.rows; ++part) {
    const std::int64_t number = last - task.rows + 1 + part;
    const std::string place = std::to_string(beside != nullptr ? -number : number);
    if (part < from)
      run("UPDATE " + table +
              " SET place = CAST($3 AS bigint) WHERE op = $1 AND part = CAST($2 AS bigint)",
          {task.id, std::to_string(part), place});
    else
      run("INSERT INTO " + table +
              " (op, part, scope, term, place) VALUES ($1, CAST($2 AS bigint), $3, CAST($4 AS "
              "bigint), CAST($5 AS bigint))",
          {task.id, std::to_string(part), task.scope, std::to_string(task.held.term), place});
  }
  return last;
}

namespace {

// A transaction that is rolled back on any exit, unless it was committed.
class Open {
 public:
  explicit Open(Sql& sql, const char* begin = "BEGIN") : sql_(sql) { sql_.run(begin); }
  ~Open() {
    if (!committed_) sql_.roll_back();
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
  void commit() {
    sql_.run("COMMIT");
    committed_ = true;
  }

 private:
  Sql& sql_;
  bool committed_ = false;
};

class NaiveBoundary final : public Boundary {
 public:
  NaiveBoundary(std::string_view name, std::string url, Names names, milliseconds skew)
      : name_(name),
        url_(std::move(url)),
        names_(std::move(names)),
        skew_(skew),
        sqlite_(is_sqlite(url_)) {}

  bool watches_its_lease() const override {
    return name_ == "lock-only" || name_ == "client-clock";
  }

  bool breaks_on_release() const override { return name_ == "deleted-row"; }

  std::optional<Held> acquire(const std::string& scope, const std::string& owner,
                              milliseconds ttl) override {
    const auto sent = std::chrono::steady_clock::now();
    Sql& sql = connection();
    Open open(sql, begin_to_write());
    if (name_ == "one-statement") sql.run("SELECT pg_advisory_xact_lock(hashtext($1))", {scope});
    const Table lease =
        sql.run("SELECT owner, term, expires_ms, " + now() + " FROM " + names_.leases() +
                    " WHERE scope = $1" + (sqlite_ ? "" : " FOR UPDATE"),
                {scope});
    const std::int64_t moment = clock_is_its_own()   ? wall_ms()
                                : lease.rows.empty() ? 0
                                                     : std::stoll(lease.rows[0][3]);
    Held held{1, sent + ttl, wall_ms() + ttl.count()};
    const std::string expires =
        clock_is_its_own() ? std::to_string(held.clock_ms)
                           : "CAST(" + now() + " AS bigint) + " + std::to_string(ttl.count());
    if (lease.rows.empty()) {
      // If two leaders insert at once, the primary key lets only one succeed.
      sql.run("INSERT INTO " + names_.leases() +
                  " (scope, owner, term, expires_ms) VALUES ($1, $2, 1, " + expires + ")",
              {scope, owner});
    } else {
      if (lease.rows[0][0] != owner && std::stoll(lease.rows[0][2]) > moment) return std::nullopt;
      held.term = std::stoll(lease.rows[0][1]) + 1;
      sql.run("UPDATE " + names_.leases() +
                  " SET owner = $2, term = term + 1, expires_ms = " + expires + " WHERE scope = $1",
              {scope, owner});
    }
    // Time for other work under the lock, such as reading where the last leader stopped.
    if (name_ == "one-statement") std::this_thread::sleep_for(milliseconds(20));
    open.commit();
    return held;
  }

  bool renew(const std::string& scope, const std::string& owner, Held& held,
             milliseconds ttl) override {
    const auto sent = std::chrono::steady_clock::now();
    const std::int64_t clock = wall_ms();
    const std::string moment =
        clock_is_its_own() ? std::to_string(clock) : "CAST(" + now() + " AS bigint)";
    const Table done = connection().run(
        "UPDATE " + names_.leases() + " SET expires_ms = " + moment + " + " +
            std::to_string(ttl.count()) +
            " WHERE scope = $1 AND owner = $2 AND term = CAST($3 AS bigint) AND expires_ms > " +
            moment,
        {scope, owner, std::to_string(held.term)});
    if (done.affected != 1) return false;
    held.until = sent + ttl;
    held.clock_ms = clock + ttl.count();
    return true;
  }

  void release(const std::string& scope, const std::string& owner, const Held& held) override {
    const std::string how = name_ == "deleted-row"
                                ? "DELETE FROM " + names_.leases()
                                : "UPDATE " + names_.leases() + " SET expires_ms = 0";
    connection().run(how + " WHERE scope = $1 AND owner = $2 AND term = CAST($3 AS bigint)",
                     {scope, owner, std::to_string(held.term)});
  }

  std::int64_t write(const Task& task) override {
    Sql& sql = connection();
    const Run run = [&](const std::string& statement, const std::vector<std::string>& values) {
      return sql.run(statement, values);
    };
    if (name_ == "where-exists") {
      Open open(sql);
      const Table first = sql.run(
          "INSERT INTO " + names_.rows() +
              " (op, part, scope, term) SELECT CAST($1 AS text), 0, CAST($2 AS text), CAST($3 AS "
              "bigint) WHERE EXISTS (SELECT 1 FROM " +
              names_.leases() + " WHERE scope = CAST($2 AS text) AND term = CAST($3 AS bigint))",
          {task.id, task.scope, std::to_string(task.held.term)});
      if (first.affected == 0) refuse(task);
      task.work();
      const std::int64_t place = write_numbered(run, names_, names_.rows(), task, 1);
      open.commit();
      return place;
    }
    if (name_ == "two-connections") {
      if (!other_ || other_->lost()) other_ = connect(url_);
      {
        Open check(*other_, begin_to_write());
        refuse_if_higher(*other_, task, sqlite_ ? "" : " FOR SHARE");
        check.commit();
      }
      task.work();
    } else if (name_ == "lock-only") {
      if (std::chrono::steady_clock::now() >= task.held.until) refuse(task);
      task.work();
    } else if (name_ == "client-clock") {
      if (wall_ms() >= task.held.clock_ms) refuse(task);
      task.work();
    } else if (name_ == "max-term" && sqlite_) {
      // Checks outside a transaction. Inside one, SQLite itself would refuse a write after an
      // outdated read.
      refuse_if_higher(sql, task, "");
      task.work();
    }
    Open open(sql, begin_to_write());
    if (name_ == "max-term" && !sqlite_) {
      refuse_if_higher(sql, task, "");
      task.work();
    } else if (name_ == "one-statement") {
      const Table seen = sql.run("SELECT term, pg_advisory_xact_lock_shared(hashtext($1)) FROM " +
                                     names_.leases() + " WHERE scope = $1",
                                 {task.scope});
      if (!seen.rows.empty() && std::stoll(seen.rows[0][0]) > task.held.term) refuse(task);
      task.work();
    } else if (name_ == "deleted-row") {
      refuse_if_higher(sql, task, sqlite_ ? "" : " FOR SHARE");
      task.work();
    }
    const std::int64_t place = write_numbered(run, names_, names_.rows(), task);
    open.commit();
    return place;
  }

 private:
  Sql& connection() {
    if (!sql_ || sql_->lost()) sql_ = connect(url_);
    return *sql_;
  }
  const char* begin_to_write() const { return sqlite_ ? "BEGIN IMMEDIATE" : "BEGIN"; }
  // SQL for milliseconds since 1970, by a database clock that advances within a transaction.
  std::string now() const {
    return sqlite_ ? "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)"
                   : "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)";
  }
  bool clock_is_its_own() const { return name_ == "client-clock"; }
  std::int64_t wall_ms() const {
    return std::chrono::duration_cast<milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
               .count() +
           skew_.count();
  }

  [[noreturn]] static void refuse(const Task& task) {
    throw StaleTerm(fmt::format("TG001 stale term {} for scope \"{}\"", task.held.term, task.scope),
                    task.scope, task.held.term, 0);
  }
  void refuse_if_higher(Sql& sql, const Task& task, const char* lock) {
    const Table seen =
        sql.run("SELECT term FROM " + names_.leases() + " WHERE scope = $1" + lock, {task.scope});
    if (!seen.rows.empty() && std::stoll(seen.rows[0][0]) > task.held.term) refuse(task);
  }

  const std::string name_, url_;
  const Names names_;
  const milliseconds skew_;
  const bool sqlite_;
  std::unique_ptr<Sql> sql_, other_;
};

}  // namespace

std::unique_ptr<Boundary> naive_boundary(std::string_view name, const std::string& url,
                                         const Names& names, milliseconds skew) {
  return std::make_unique<NaiveBoundary>(name, url, names, skew);
}

std::unique_ptr<Sql> connect(const std::string& url) {
#ifdef TERMGATE_WITH_SQLITE
  if (is_sqlite(url)) return connect_sqlite(url);
#endif
#ifdef TERMGATE_WITH_POSTGRES
  if (url.starts_with("postgres")) return connect_postgres(url);
#endif
#ifdef TERMGATE_WITH_ODBC
  if (is_odbc(url)) return connect_odbc(url);
#endif
  throw InvalidInput(
      "TG005 malformed URL: storm runs on sqlite:PATH, postgresql://…, sqlserver://… and odbc:…");
}

bool is_odbc(const std::string& url) {
  return url.starts_with("odbc:") || url.starts_with("sqlserver:");
}

Engine engine_of(const std::string& url) {
  if (is_sqlite(url)) return Engine::sqlite;
#ifdef TERMGATE_WITH_ODBC
  if (is_odbc(url)) return engine_of_odbc(url);
#endif
  return Engine::postgresql;
}

}  // namespace termgate::cli::storm
