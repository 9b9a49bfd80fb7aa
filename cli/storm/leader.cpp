// storm: one leader process. Each scope has a thread that acquires and keeps the lease, and threads
// that write as long as they believe that they lead. Their belief may be wrong: a leader that has
// lost its lease goes on until the database refuses it, because the storm tests exactly that.
// Long: one process, whose threads share its belief.
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include <termgate/info.hpp>

#include "storm/storm.hpp"
#include "storm/log.hpp"

namespace termgate::cli::storm {
namespace {

std::atomic<bool> stopping{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void nap(milliseconds time) {
  // Sleeps in short steps, so that a leader ends soon after a stop request.
  const auto end = std::chrono::steady_clock::now() + time;
  while (!stopping && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(
        end - std::chrono::steady_clock::now(), milliseconds(20)));
}

struct Setting {
  std::string url, schema, naive, who;
  // URLs through each proxy; empty: writes go directly to the database.
  std::vector<std::string> through;
  Names names;
  std::uint64_t seed;
  int scopes, writers;
  milliseconds ttl;
  // Hardly any pause between writes and inside them.
  bool full_pace;
  // `client-clock` without libfaketime: the process computes a wrong wall clock itself.
  bool skewed;
  bool high_levels = true;  // whether the server has REPEATABLE READ and SERIALIZABLE
};

// What this process believes about one scope: the lease that it holds, if any.
class Belief {
 public:
  std::optional<Held> get() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  void set(const Held& held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
  }
  // Drops the belief only if it is of that term: the refusal of an old term says nothing about a
  // newer one.
  void drop(std::int64_t term) {
    const std::lock_guard lock(mutex_);
    if (held_ && held_->term == term) held_.reset();
  }

 private:
  mutable std::mutex mutex_;  // guards held_
  std::optional<Held> held_;
};

// How a logged step ended.
struct Ended {
  Outcome outcome = Outcome::refused;
  std::string code;
  bool stale = false;
};
// Runs `what`, which returns the term and the place, and logs the end of step `number`.
template <class What>
Ended logged(Log& log, std::int64_t number, std::int64_t term, What what) {
  Ended ended;
  try {
    const auto [committed_term, place] = what();
    ended.outcome = Outcome::committed;
    log.end(number, Outcome::committed, committed_term, place);
    return ended;
  } catch (const OutcomeUnknown& error) {
    ended.outcome = Outcome::unknown;
    ended.code = error.code();
  } catch (const StaleTerm& error) {
    ended.stale = true;
    ended.code = error.code();
  } catch (const Conflict& error) { ended.code = "conflict"; } catch (const Unavailable& error) {
    ended.code = "unavailable";
  } catch (const Error& error) {
    ended.code = error.code().empty() ? "error" : std::string(error.code());
  }
  log.end(number, ended.outcome, term, {}, ended.code);
  return ended;
}
using Done = std::pair<std::int64_t, std::optional<std::int64_t>>;

// Converts the lease's end to the monotonic clock, because all boundaries that a storm compares use
// that one.
std::chrono::steady_clock::time_point by_steady_clock(const Lease& lease) {
  return std::chrono::steady_clock::now() + (lease.held_until() - Lease::Clock::now());
}

// ---- Termgate's own boundary -------------------------------------------------------------------

class Ours final : public Boundary {
 public:
  explicit Ours(Database database) : database_(std::move(database)) {}

  std::optional<Held> acquire(const std::string& scope, const std::string& owner,
                              milliseconds ttl) override {
    LeaseOptions options;
    options.owner = owner;
    options.grace = std::min(ttl, milliseconds(500));
    const auto lease = database_.try_acquire_lease(Scope(scope), ttl, options);
    if (!lease) return std::nullopt;
    return Held{lease->term().value(), by_steady_clock(*lease)};
  }
  bool renew(const std::string& scope, const std::string& owner, Held& held,
             milliseconds ttl) override {
    try {
      const Lease renewed = database_.renew_lease(Scope(scope), Term(held.term), owner, ttl);
      held.until = by_steady_clock(renewed);
      held.asked = renewed.leave_before().has_value();
      return true;
    } catch (const LeaseLost&) { return false; }
  }
  void release(const std::string& scope, const std::string& owner, const Held& held) override {
    database_.release_lease(Scope(scope), Term(held.term), owner);
  }
  std::int64_t write(const Task&) override {
    throw Error("storm: Termgate's writes are the writer's own");
  }

 private:
  Database database_;
};

// ---- the threads -------------------------------------------------------------------------------

std::unique_ptr<Boundary> boundary_of(const Setting& setting,
                                      const std::optional<Database>& database) {
  if (setting.naive.empty()) return std::make_unique<Ours>(*database);
  Choice choice(setting.seed, setting.who + "-clock");
  return naive_boundary(setting.naive, setting.url, setting.names,
                        setting.skewed ? choice.span(-setting.ttl, setting.ttl) : milliseconds(0));
}

// Until the process is stopped: acquires the lease of one scope, keeps it for a while, and ends its
// lead in one of the ways that occur in practice.
void elect(const Setting& setting, Log& log, const std::optional<Database>& database,
           int scope_index, Belief& belief) {
  const std::string scope = setting.names.scope(scope_index);
  const auto boundary = boundary_of(setting, database);
  Choice choice(setting.seed, fmt::format("{}-elect-{}", setting.who, scope_index));
  const milliseconds ttl = setting.ttl;
  const auto acquire = [&] {
    const std::int64_t number = log.begin('a', scope);
    std::optional<Held> held;
    const Ended ended = logged(log, number, 0, [&]() -> Done {
      held = boundary->acquire(scope, setting.who, ttl);
      if (!held) throw LeaseLost("another's");
      return {held->term, std::nullopt};
    });
    if (held && ended.outcome == Outcome::committed) belief.set(*held);
    return ended.outcome == Outcome::committed;
  };
  while (!stopping) {
    if (!acquire()) {
      nap(choice.span(ttl / 16, ttl / 4));
      continue;
    }
    auto over = std::chrono::steady_clock::now() + choice.span(ttl / 2, 4 * ttl);
    while (!stopping) {
      nap(ttl / 4);
      auto held = belief.get();
      if (!held) break;  // a writer was refused
      if (std::chrono::steady_clock::now() >= over) {
        const std::int64_t way = choice.number(1, 10);
        // Releases the lease; writes that were admitted before may still be under way.
        if (way <= (boundary->breaks_on_release() ? 8 : 2)) {
          belief.drop(held->term);
          try {
            boundary->release(scope, setting.who, *held);
          } catch (const Error&) {
            // Then the lease expires.
          }
          nap(choice.span(ttl / 4, ttl));
          break;
        }
        // Acquires once more although it still leads, for a new term. Writes that were admitted
        // under the old term must not use the new one.
        if (way <= 4 && !boundary->watches_its_lease()) {
          acquire();
          over = std::chrono::steady_clock::now() + choice.span(ttl / 2, 4 * ttl);
          continue;
        }
        // Stop renewing without noticing, like a process that hangs.
        const auto enough = std::chrono::steady_clock::now() + 8 * ttl;
        while (!stopping && belief.get() && std::chrono::steady_clock::now() < enough) nap(ttl / 8);
        belief.drop(held->term);
        break;
      }
      try {
        if (boundary->renew(scope, setting.who, *held, ttl)) {
          const auto now = belief.get();
          if (now && now->term == held->term) belief.set(*held);
          // When somebody requests the lease, some leaders release it; the others lose it at the
          // end of the drain.
          if (held->asked && choice.in(70)) {
            belief.drop(held->term);
            boundary->release(scope, setting.who, *held);
            nap(choice.span(ttl / 4, ttl));
            break;
          }
        } else if (boundary->watches_its_lease()) {
          belief.drop(held->term);
        }
        // If the lease is lost, the next write will meet the fence.
      } catch (const Error&) {
        // The renewal did not get through, so the lease may expire.
      }
    }
  }
}

class Writer {
 public:
  Writer(const Setting& setting, Log& log, const std::optional<Database>& database, int scope_index,
         int index, Belief& belief)
      : setting_(setting),
        log_(log),
        database_(database),
        scope_(setting.names.scope(scope_index)),
        own_scope_(setting.names.scope_of_one(setting.who.substr(0, setting.who.find('.')),
                                              scope_index, index)),
        name_(fmt::format("{}.{}.{}", setting.who, scope_index, index)),
        belief_(belief),
        choice_(setting.seed, name_),
        engine_(engine_of(setting.url)),
        sqlite_(engine_ == Engine::sqlite) {
    if (!setting.naive.empty()) boundary_ = boundary_of(setting, database);
  }

  void run() {
    while (!stopping) {
      const auto held = belief_.get();
      if (!held) {
        nap(milliseconds(2));
        continue;
      }
      // The write stays under this term, whatever the process holds by the time it is sent.
      if (choice_.in(2) && !hurried()) nap(choice_.span(milliseconds(1), setting_.ttl));
      const Ended ended = !setting_.naive.empty()    ? write_naive(*held)
                          : setting_.through.empty() ? write_ours(*held)
                                                     : write_through(*held);
      if (ended.stale) belief_.drop(held->term);
      else if (ended.outcome != Outcome::committed) nap(milliseconds(10));
      if (!hurried())
        nap(std::chrono::duration_cast<milliseconds>(
            choice_.span(milliseconds(0), milliseconds(sqlite_ ? 12 : 4))));
    }
  }

 private:
  bool hurried() { return setting_.full_pace && !choice_.in(2); }

  std::string next_id() { return fmt::format("{}.{}", name_, ++count_); }

  // What a program does inside its transaction: often nothing, sometimes something that takes a
  // while.
  void work() {
    if (hurried()) return;
    const std::int64_t luck = choice_.number(1, 100);
    if (luck <= 40) return;
    // Short on SQLite, because all other writers wait for this one.
    if (sqlite_ && setting_.naive.empty())
      std::this_thread::sleep_for(std::chrono::microseconds(choice_.number(100, 1000)));
    else if (luck <= 75)
      std::this_thread::sleep_for(std::chrono::microseconds(choice_.number(100, 5000)));
    else if (luck <= 98)
      std::this_thread::sleep_for(choice_.span(milliseconds(5), milliseconds(30)));
    else std::this_thread::sleep_for(choice_.span(milliseconds(5), setting_.ttl / 2));
  }

  // A pause while no lock is held, so that nobody waits for it; sometimes long enough for a
  // takeover.
  void think() {
    if (choice_.in(setting_.full_pace ? 5 : 30))
      nap(choice_.span(setting_.ttl / 2, 3 * setting_.ttl));
    else work();
  }

  Ended write_naive(const Held& held) {
    const Task task{next_id(), scope_, held, static_cast<int>(choice_.number(1, 3)),
                    [this] { work(); }};
    const std::int64_t number = log_.begin('w', scope_, held.term, task.id, task.rows);
    return logged(log_, number, held.term, [&]() -> Done {
      return {held.term, boundary_->write(task)};
    });
  }

  // Sends a write. If no answer came and the write has an id, sends it again under the same term.
  template <class What>
  Ended send(std::int64_t term, const std::string& id, int rows, bool again, What what) {
    Ended ended;
    for (int attempt = 0; attempt < 6 && !(attempt > 0 && stopping); ++attempt) {
      const std::int64_t number = log_.begin('w', scope_, term, id, rows);
      ended = logged(log_, number, term, what);
      if (!again) break;
      const bool settled = ended.outcome == Outcome::committed || ended.stale;
      if (settled || (attempt == 0 && ended.outcome == Outcome::refused)) break;
      nap(milliseconds(20 << attempt));
    }
    return ended;
  }

  Ended write_ours(const Held& held) {
    const std::int64_t term = held.term;
    const std::string id = next_id();
    const int rows = static_cast<int>(choice_.number(1, 3));
    const std::int64_t luck = choice_.number(1, 100);
    if (luck <= 15) return append(term, id, 1);
    if (luck <= 25) return append(term, id, rows + 1);
    if (luck <= 35 && !sqlite_) return plain_sql(held, id, rows);
    if (luck <= 38) return look(term);
    const bool numbered = luck <= 80;
    // Numbers are in commit order. The later a write takes its number, the better the checker can
    // show that it committed too late.
    const bool late = numbered && choice_.in(50);
    const std::string table = choice_.in(70) ? setting_.names.rows() : setting_.names.guarded();
    const bool with_savepoint = choice_.in(20);
    const bool with_append = !numbered && choice_.in(30);
    const bool again = choice_.in(70);
    const Stream stream(
        setting_.names.stream(scope_, static_cast<int>(choice_.number(0, streams_a_scope - 1))));
    WriteOptions options;
    if (again) options.write_id = WriteId::random();
    const std::int64_t level = choice_.number(1, 10);
    if (level > 6 && setting_.high_levels)
      options.isolation = level > 8 ? Isolation::serializable : Isolation::repeatable_read;
    // At these isolation levels a number taken since the snapshot is a conflict, whatever the fence
    // says. Numbers that another connection takes while the check's lock is held are still in
    // order.
    const bool beside = numbered && engine_ == Engine::postgresql &&
                        choice_.in(options.isolation == Isolation::database_default ? 25 : 60);
    const Task task{id, scope_, held, rows, {}};
    return send(term, id, rows + (with_append ? 1 : 0), again, [&]() -> Done {
      std::optional<std::int64_t> place;
      const auto begun = std::chrono::steady_clock::now();
      const Wrote wrote = database_->write(
          Scope(scope_), Term(term),
          [&](Transaction& transaction) {
            const Run run = [&](const std::string& statement,
                                const std::vector<std::string>& values) {
              const Rows done = transaction.exec_values(
                  spoken(engine_, statement), std::vector<Value>(values.begin(), values.end()));
              Table result;
              result.affected = done.affected;
              for (const auto& row : done.rows) {
                auto& cells = result.rows.emplace_back();
                for (const Value& value : row) cells.push_back(value.as_text());
              }
              return result;
            };
            run("SELECT n FROM " + setting_.names.counters() + " WHERE scope = $1",
                {scope_});  // on the transaction's snapshot, where it has one
            // A writer that waited at the fence may have waited for a raise. If the check passed it
            // by mistake, others that write meanwhile make the wrong order visible.
            if (!sqlite_ && std::chrono::steady_clock::now() - begun > setting_.ttl / 10 &&
                choice_.in(setting_.full_pace ? 5 : 50))
              nap(choice_.span(setting_.ttl / 4, setting_.ttl));
            else work();
            if (with_savepoint) {
              run("SAVEPOINT before_a_mistake", {});
              write_unnumbered(run, table, id + "-undone", scope_, term, 1);
              run("ROLLBACK TO SAVEPOINT before_a_mistake", {});
            }
            if (!numbered || late) write_unnumbered(run, table, id, scope_, term, rows);
            if (late || beside) work();
            if (beside) {
              if (!sql_ || sql_->lost()) sql_ = connect(setting_.url);
              const Run other = [&](const std::string& statement,
                                    const std::vector<std::string>& values) {
                return sql_->run(statement, values);
              };
              place = write_numbered(run, setting_.names, table, task, late ? rows : 0, &other);
            } else if (numbered) {
              place = write_numbered(run, setting_.names, table, task, late ? rows : 0);
            }
            if (with_append) transaction.append(stream, id + "/0");
            work();
          },
          options);
      return {term, wrote == Wrote::now ? place : std::nullopt};
    });
  }

  Ended append(std::int64_t term, const std::string& id, int rows) {
    const Stream stream(
        setting_.names.stream(scope_, static_cast<int>(choice_.number(0, streams_a_scope - 1))));
    AppendOptions options;
    options.scope = Scope(scope_);
    std::vector<std::string> payloads;
    std::vector<WriteId> ids;
    for (int part = 0; part < rows; ++part) {
      payloads.push_back(fmt::format("{}/{}", id, part));
      ids.push_back(WriteId::random());
    }
    if (rows == 1) options.write_id = ids[0];
    return send(term, id, rows, true, [&]() -> Done {
      if (rows == 1)
        return {term, database_->append(stream, Term(term), payloads[0], options).value()};
      return {term, database_->append_many(stream, Term(term), payloads, options, ids).value()};
    });
  }

  // Writes like a program without the library: the table is protected, so declaring the term is
  // enough. Sometimes the check runs first inside a savepoint that is rolled back, which also
  // releases the check's lock.
  Ended plain_sql(const Held& held, const std::string& id, int rows) {
    const Task task{id, scope_, held, rows, {}};
    const bool with_savepoint = choice_.in(50);
    return send(held.term, id, rows, false, [&]() -> Done {
      if (!sql_ || sql_->lost()) sql_ = connect(setting_.url);
      const Run run = [&](const std::string& statement, const std::vector<std::string>& values) {
        return sql_->run(statement, values);
      };
      try {
        run("BEGIN", {});
        run("SELECT set_config('termgate.scope', $1, true), set_config('termgate.term', $2, true)",
            {scope_, std::to_string(held.term)});
        if (with_savepoint) {
          run("SAVEPOINT before_a_mistake", {});
          write_unnumbered(run, setting_.names.guarded(), id + "-undone", scope_, held.term, 1);
          run("ROLLBACK TO SAVEPOINT before_a_mistake", {});
          think();
        }
        const std::int64_t place =
            write_numbered(run, setting_.names, setting_.names.guarded(), task);
        work();
        run("COMMIT", {});
        return {held.term, place};
      } catch (...) {
        sql_->roll_back();
        throw;
      }
    });
  }

  // ---- through a proxy ----

  // How a session declares scope and term to the proxy: start-up options, application_name, SET,
  // SET LOCAL or a comment. On SQL Server: by its application name, by termgate.set_term, or by
  // sp_set_session_context before each transaction (`local`).
  enum class Way { options, name, set, local, comment };
  static constexpr std::array<const char*, 5> way_names{"options", "name", "set", "local",
                                                        "comment"};
  struct Session {
    std::unique_ptr<Sql> sql;
    Way way = Way::set;
    std::int64_t term = 0;  // the term declared for the whole session
    int left = 0;           // writes until the session is replaced
  };

  // The URL that declares the term. The server's list of sessions shows the name too, and the storm
  // finds its own sessions by the first word.
  std::string url_to_declare(Way way, const std::string& url, std::int64_t term) const {
    if (way == Way::options)
      return url + fmt::format("&options=-c%20termgate.scope%3D{}%20-c%20termgate.term%3D{}",
                               scope_, term);
    // PostgreSQL truncates a long name, and would send a notice each time.
    if (way == Way::name && engine_ == Engine::sqlserver)
      return named(url, fmt::format("{} termgate.scope={};termgate.term={};",
                                    setting_.names.application(), scope_, term));
    if (way == Way::name)
      return named(url + "&options=-c%20client_min_messages%3Derror",
                   fmt::format("{}%20termgate.scope%3D{}%3Btermgate.term%3D{}%3B",
                               setting_.names.application(), scope_, term));
    return url;
  }

  void open_session(std::int64_t term) {
    const bool at_start = session_.way == Way::options || session_.way == Way::name;
    if (session_.sql && !session_.sql->lost() && session_.left > 0 &&
        (!at_start || session_.term == term))
      return;
    session_.sql.reset();
    session_.way = static_cast<Way>(engine_ == Engine::sqlserver ? choice_.number(1, 3)
                                                                 : choice_.number(0, 4));
    session_.left = static_cast<int>(choice_.number(1, 30));
    session_.term = 0;
    const std::string& url = setting_.through[static_cast<std::size_t>(
        choice_.number(0, static_cast<std::int64_t>(setting_.through.size()) - 1))];
    session_.sql = connect(url_to_declare(session_.way, url, term));
    if (session_.way == Way::options || session_.way == Way::name) session_.term = term;
  }

  // Writes like a program that does not know of Termgate's check: plain SQL to a table that only
  // the proxy guards. The session declares its term and nothing else.
  Ended write_through(const Held& held) {
    try {
      open_session(held.term);
    } catch (const Unavailable&) {
      // Nothing was sent, so there is no outcome to log.
      Ended ended;
      ended.code = "unavailable";
      return ended;
    }
    --session_.left;
    Sql& sql = *session_.sql;
    const Way way = session_.way;
    const std::string id = next_id() + "-" + way_names[static_cast<std::size_t>(way)];
    const std::string term = std::to_string(held.term), table = setting_.names.rows();
    const std::int64_t shape = choice_.number(1, 100);
    const bool tsql = engine_ == Engine::sqlserver;
    const bool alone = shape <= 15 && way != Way::local,
               one_text = !alone && shape <= 35 && way != Way::comment && !tsql;
    const Task task{id, scope_, held, alone ? 1 : static_cast<int>(choice_.number(1, 3)),
                    [this] { work(); }};
    const std::int64_t number = log_.begin('w', scope_, held.term, id, task.rows);
    return logged(log_, number, held.term, [&]() -> Done {
      const std::string comment =
          way == Way::comment
              ? fmt::format("/*termgate.scope='{}',termgate.term='{}'*/", scope_, term)
              : "";
      const bool ahead = choice_.in(50);
      const Run run = [&](const std::string& statement, const std::vector<std::string>& values) {
        return sql.run(comment.empty() ? statement
                       : ahead         ? comment + " " + statement
                                       : statement + " " + comment,
                       values);
      };
      try {
        if (way == Way::set && session_.term != held.term) {
          session_.term = 0;  // not valid until both are declared
          if (tsql) {
            run(fmt::format("EXEC termgate.set_term N'{}', {}", scope_, term), {});
          } else {
            run(fmt::format("SET termgate.scope = '{}'", scope_), {});
            run(fmt::format("SET termgate.term = '{}'", term), {});
          }
          session_.term = held.term;
        }
        if (!tsql && session_.term != 0 && choice_.in(3)) forget(held.term);
        if (tsql && way == Way::local) {
          run(fmt::format("EXEC sp_set_session_context N'termgate.scope', N'{}'", scope_), {});
          run(fmt::format("EXEC sp_set_session_context N'termgate.term', N'{}'", term), {});
        }
        if (alone) {
          unknown_if_lost([&] { write_unnumbered(run, table, id, scope_, held.term, 1); });
          return {held.term, std::nullopt};
        }
        if (one_text) {
          unknown_if_lost([&] { sql.run_text(whole_text(way, task)); });
          return {held.term, std::nullopt};
        }
        const std::int64_t level = choice_.number(1, 10);
        run(level <= 7 || tsql ? "BEGIN"
            : level == 8       ? "BEGIN ISOLATION LEVEL SERIALIZABLE"
                               : "BEGIN ISOLATION LEVEL REPEATABLE READ",
            {});
        if (way == Way::local && !tsql) {
          sql.run(fmt::format("SET LOCAL termgate.scope = '{}'", scope_));
          sql.run(fmt::format("SET LOCAL termgate.term = '{}'", term));
        }
        if (choice_.in(30))
          run("SELECT n FROM " + setting_.names.counters() + " WHERE scope = $1",
              {scope_});  // on the transaction's snapshot, where it has one
        work();
        if (choice_.in(way == Way::comment ? 40 : 20)) {
          // The proxy checks the term that is declared with the SAVEPOINT statement, before it.
          // With the writer's own scope there, the check of scope_ comes only with the INSERT:
          // inside the savepoint, and ROLLBACK TO undoes it.
          if (way == Way::comment)
            sql.run(
                fmt::format("SAVEPOINT before_a_mistake /*termgate.scope='{}',termgate.term='1'*/",
                            own_scope_));
          else run("SAVEPOINT before_a_mistake", {});
          write_unnumbered(run, table, id + "-undone", scope_, held.term, 1);
          run("ROLLBACK TO SAVEPOINT before_a_mistake", {});
          think();
        }
        const bool numbered = choice_.in(60), late = numbered && choice_.in(50);
        std::optional<std::int64_t> place;
        if (!numbered || late) write_unnumbered(run, table, id, scope_, held.term, task.rows);
        if (late) work();
        if (numbered)
          place = write_numbered(run, setting_.names, table, task, late ? task.rows : 0);
        work();
        sql.run("COMMIT");
        return {held.term, place};
      } catch (...) {
        sql.roll_back();
        throw;
      }
    });
  }

  // Sends what a pooler or a careless program sends between two transactions. It drops what the
  // session holds, a seat or a lock, and the proxy must notice.
  void forget(std::int64_t term) {
    if (choice_.in(50)) {
      session_.sql->run("SELECT pg_advisory_unlock_all()");
    } else {
      session_.sql->run("DISCARD ALL");  // the settings from the connection's start come back
      if (session_.way != Way::set) return;
      session_.term = 0;
      session_.sql->run(fmt::format("SET termgate.scope = '{}'", scope_));
      session_.sql->run(fmt::format("SET termgate.term = '{}'", term));
      session_.term = term;
    }
  }

  // The whole write in one simple query, with its number. The answer does not contain the number,
  // but the rows do.
  std::string whole_text(Way way, const Task& task) const {
    std::string text = "BEGIN; ";
    if (way == Way::local)
      text += fmt::format("SET LOCAL termgate.scope = '{}'; SET LOCAL termgate.term = '{}'; ",
                          scope_, task.held.term);
    text += fmt::format("UPDATE {} SET n = n + {} WHERE scope = '{}'; ", setting_.names.counters(),
                        task.rows, scope_);
    for (int part = 0; part < task.rows; ++part)
      text += fmt::format(
          "INSERT INTO {} (op, part, scope, term, place) SELECT '{}', {}, scope, {}, n - {} FROM "
          "{} WHERE scope = '{}'; ",
          setting_.names.rows(), task.id, part, task.held.term, task.rows - 1 - part,
          setting_.names.counters(), scope_);
    return text + "COMMIT";
  }

  // Runs what commits by itself, or at the end of its text: its outcome is unknown if no answer
  // came.
  template <class What>
  static void unknown_if_lost(What what) {
    try {
      what();
    } catch (const Unavailable& error) {
      throw OutcomeUnknown(error.what(), std::string(error.code()));
    }
  }

  Ended look(std::int64_t term) {
    const std::int64_t number = log_.begin('l', scope_, term);
    Ended ended = logged(log_, number, 0, [&]() -> Done {
      const auto fence = Info(*database_).fence(Scope(scope_));
      return {fence ? fence->term : 0, std::nullopt};
    });
    ended.outcome = Outcome::committed;
    return ended;
  }

  const Setting& setting_;
  Log& log_;
  std::optional<Database> database_;  // copies share its connections
  const std::string scope_, own_scope_, name_;
  Belief& belief_;
  Choice choice_;
  const Engine engine_;
  const bool sqlite_;
  std::unique_ptr<Boundary> boundary_;
  std::unique_ptr<Sql> sql_;
  Session session_;
  std::int64_t count_ = 0;
};

}  // namespace

int lead(const Arguments& arguments) {
  std::signal(SIGTERM, [](int) { stopping = true; });
  // The terminal's SIGINT is for the director, which ends the storm in order.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  Setting setting;
  setting.url = arguments.database_url();
  setting.schema = arguments.text_or("schema", "termgate");
  setting.naive = arguments.text_or("naive", "");
  setting.who = arguments.text("who");
  setting.names.run = arguments.text("run");
  setting.seed = static_cast<std::uint64_t>(arguments.integer("seed", 0, INT64_MAX));
  setting.scopes = static_cast<int>(arguments.integer("scopes", 1, 1000));
  setting.writers = static_cast<int>(arguments.integer("writers", 1, 1000));
  setting.ttl = arguments.duration_or("ttl", milliseconds(400));
  setting.full_pace = arguments.text_or("pace", "") == "full";
  setting.skewed = arguments.text_or("skew", "") != "0";
  const std::string ports = arguments.text_or("proxies", "");
  for (std::size_t at = 0; at < ports.size();) {
    const std::size_t comma = std::min(ports.find(',', at), ports.size());
    // A stopped proxy accepts a connection but does not answer, hence the timeout.
    const std::string url = through(setting.url, std::stoi(ports.substr(at, comma - at)));
    setting.through.push_back(is_odbc(setting.url) ? url : url + "&connect_timeout=2");
    at = comma + 1;
  }
  Log log(arguments.text("log"));
  std::optional<Database> database;
  if (setting.naive.empty()) {
    OpenOptions options;
    options.schema = setting.schema;
    options.connections_max = setting.scopes * (setting.writers + 1) + 2;
    database = Database::open(setting.url, options);
  }
#ifdef TERMGATE_WITH_ODBC
  if (engine_of(setting.url) == Engine::sqlserver) {
    try {
      setting.high_levels = has_high_levels(setting.url);
    } catch (const Unavailable&) {
      setting.high_levels = false;  // the leader started while its connection is cut
    }
  }
#endif
  std::vector<Belief> beliefs(static_cast<std::size_t>(setting.scopes));
  {
    // An error that is not the database's (a full disk, or a bug) ends the process. The director
    // counts it, and then does not report that the guarantees were kept.
    const auto guarded = [&](const std::function<void()>& work) {
      try {
        work();
      } catch (const std::exception& error) {
        fmt::print(stderr, "termgate: {}: {}\n", setting.who, error.what());
        _exit(Exit::failed);
      }
    };
    std::vector<std::jthread> threads;
    for (int scope = 0; scope < setting.scopes; ++scope) {
      Belief& belief = beliefs[static_cast<std::size_t>(scope)];
      threads.emplace_back(
          [&, scope] { guarded([&] { elect(setting, log, database, scope, belief); }); });
      for (int index = 0; index < setting.writers; ++index)
        threads.emplace_back([&, scope, index] {
          guarded([&] { Writer(setting, log, database, scope, index, belief).run(); });
        });
    }
  }
  return Exit::done;
}

}  // namespace termgate::cli::storm
