// A task queue: the service hands out leases, and its database refuses a worker that has lost its
// lease (README.md).
//
// task_queue serve URL PORT: the service.
//
// task_queue add PORT COUNT: the generator.
//
// task_queue work PORT NAME CRASH STALL SEED: one worker, until no task is left; it dies in CRASH %
// and stalls in STALL % of its tasks.
//
// task_queue play URL TASKS WORKERS CRASH STALL SEED: runs service, generator and workers, and then
// `check`.
//
// task_queue check URL TASKS: was every task completed exactly once in effect?
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <boost/json/src.hpp>

#include <termgate/database.hpp>
#include <termgate/error.hpp>
#include <termgate/held_lease.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "../support/http.hpp"
#include "generator.hpp"

using namespace termgate;
using namespace std::chrono_literals;

namespace json = boost::json;

namespace {

constexpr auto lease_lasts = 400ms;
constexpr int crashed = 42;  // the exit status of a worker that crashed on purpose

Scope scope_of(std::int64_t task) { return Scope("task/" + std::to_string(task)); }

// Statements for both PostgreSQL and SQLite. `results` has no unique key on purpose, so that
// `check` can find a second completion.
void create_tables(Database& db) {
  const Scope scope("tables");
  Lease lease = db.acquire_lease(scope, 10s);
  db.write(scope, lease.term(), [](Transaction& tx) {
    tx.exec(
        "CREATE TABLE IF NOT EXISTS tasks (id bigint PRIMARY KEY, data text NOT NULL, scheduled_at "
        "bigint NOT NULL DEFAULT 0, "
        "done integer NOT NULL DEFAULT 0, busy_until bigint NOT NULL DEFAULT 0, processor text, "
        "started_at bigint, last_heartbeat bigint, "
        "processed_at bigint)");
    tx.exec(
        "CREATE INDEX IF NOT EXISTS tasks_open ON tasks (busy_until DESC, scheduled_at, id) WHERE "
        "done = 0");
    tx.exec(
        "CREATE TABLE IF NOT EXISTS results (task bigint NOT NULL, term bigint NOT NULL, worker "
        "text NOT NULL, output text)");
  });
  db.release_lease(lease);
}

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Parses a text that must be a number as a whole. Throws std::invalid_argument or
// std::out_of_range, for which answer() returns a 400.
std::int64_t number(const std::string& text) {
  std::size_t used = 0;
  const long long value = std::stoll(text, &used);
  if (used != text.size()) throw std::invalid_argument(text);
  return value;
}

struct NotJson : std::runtime_error {
  using std::runtime_error::runtime_error;
};

json::value json_in(const std::string& text) {
  boost::system::error_code failed;
  json::value value = json::parse(text, failed);
  if (failed) throw NotJson("the body is no JSON: " + failed.message());
  return value;
}

class Service {
 public:
  Service(Database db, std::string endpoint)
      : db_(std::move(db)),
        generator_(db_, std::move(endpoint),
                   [this](const Scope& scope, Term term, const std::string& data) {
                     add(scope, term, {{data, now_ms()}});
                   }) {}

  example::Reply answer(const example::Request& request) {
    try {
      if (request.method == "POST" && request.path == "/tasks") return add(json_in(request.body));
      if (request.method == "GET" &&
          (request.path == "/tasks" || request.path.starts_with("/tasks?state="))) {
        return list(request.path.size() > 13 ? request.path.substr(13) : "all");
      }
      if (request.method == "GET" && request.path.starts_with("/tasks/"))
        return one(number(request.path.substr(7)));
      if (request.method == "POST" && request.path == "/generator/start")
        return generator_.start(json_in(request.body));
      if (request.method == "POST" && request.path == "/generator/stop") return generator_.stop();
      if (request.method == "GET" && request.path == "/generator") return generator_.status();
      if (request.method == "POST" && request.path == "/claim") return claim(request.body);
      if (request.method == "POST" && request.path.starts_with("/complete/")) {
        return complete(number(request.path.substr(10)), request.header("Termgate-Term"),
                        request.body);
      }
      if (request.method == "PUT" && request.path.starts_with("/tasks/") &&
          request.path.ends_with("/heartbeat")) {
        return heartbeat(number(request.path.substr(7, request.path.size() - 17)),
                         request.header("Termgate-Term"));
      }
      if (request.method == "GET" && request.path == "/refused")
        return {200, std::to_string(refused_)};
      return {404, "no such path"};
    } catch (const NotJson& wrong) {
      return {400, wrong.what()};
    } catch (const std::logic_error&) {  // number()
      return {400, "not a number"};
    } catch (const InvalidInput& wrong) {
      return {400, wrong.what()};
    } catch (const StaleTerm& stale) {
      ++refused_;
      // The worker lost its lease, and another has the task: discard the work.
      return {409, stale.what()};
    } catch (const LeaseLost& lost) { return {409, lost.what()}; } catch (const Error& busy) {
      return {503, busy.what()};
    }
  }

 private:
  struct New {
    std::string data;
    std::int64_t scheduled_at = 0;
  };

  // Adds one task for {"data": …, "scheduled_at_ms": …} and returns its id; for a number, adds that
  // many tasks.
  example::Reply add(const json::value& body) {
    std::vector<New> tasks;
    if (const json::object* task = body.if_object()) {
      if (!task->contains("data")) return {400, "\"data\" is missing"};
      const json::value* at = task->if_contains("scheduled_at_ms");
      if (at != nullptr && !at->is_int64()) return {400, "\"scheduled_at_ms\" is no whole number"};
      tasks.push_back(
          {json::serialize(task->at("data")), at == nullptr ? now_ms() : at->as_int64()});
    } else if (body.is_int64() && body.as_int64() > 0 && body.as_int64() <= 1'000'000) {
      for (std::int64_t i = 0; i < body.as_int64(); ++i)
        tasks.push_back({json::serialize(json::object{{"work", i + 1}})});
    } else {
      return {400, "a task is an object with \"data\"; a number adds so many"};
    }
    const Scope scope("tasks");
    Lease lease = db_.acquire_lease(scope, 10s);
    std::int64_t last = 0;
    for (std::size_t done = 0; done < tasks.size(); done += 1000) {
      last = add(scope, lease.term(),
                 {tasks.begin() + done, tasks.begin() + std::min(done + 1000, tasks.size())});
      db_.renew_lease(lease);
    }
    db_.release_lease(lease);
    return {201, std::to_string(body.is_object() ? last : body.as_int64())};
  }

  // Gives the tasks the next free ids; tries again if another instance has taken one of them.
  std::int64_t add(const Scope& scope, Term term, const std::vector<New>& tasks) {
    for (int attempt = 1;; ++attempt) {
      try {
        std::int64_t last = db_.query("SELECT COALESCE(MAX(id), 0) FROM tasks").one()[0].as_int();
        db_.write(scope, term, [&](Transaction& tx) {
          std::int64_t next = last;
          for (const New& task : tasks)
            tx.exec("INSERT INTO tasks (id, data, scheduled_at) VALUES ($1, $2, $3)", ++next,
                    task.data, task.scheduled_at);
        });
        return last + static_cast<std::int64_t>(tasks.size());
      } catch (const DatabaseError&) {
        if (attempt == 20) throw;
      }
    }
  }

  static constexpr const char* columns =
      "SELECT id, data, scheduled_at, done, processor, started_at, last_heartbeat, processed_at, "
      "(SELECT MAX(output) FROM results r WHERE r.task = t.id) FROM tasks t ";

  static json::object json_of(const Row& row) {
    const auto text = [&](int at) {
      return row[at].is_null() ? json::value() : json::value(row[at].as_text());
    };
    const auto moment = [&](int at) {
      return row[at].is_null() ? json::value() : json::value(row[at].as_int());
    };
    return {{"id", row[0].as_int()},
            {"data", json::parse(row[1].as_text())},
            {"scheduled_at_ms", moment(2)},
            {"processed", row[3].as_int() == 1},
            {"processor", text(4)},
            {"started_at_ms", moment(5)},
            {"last_heartbeat_ms", moment(6)},
            {"processed_at_ms", moment(7)},
            {"output", row[8].is_null() ? json::value() : json::parse(row[8].as_text())}};
  }

  example::Reply one(std::int64_t task) {
    const Rows rows = db_.query(std::string(columns) + "WHERE id = $1", {task});
    if (rows.empty()) return {404, "there is no such task"};
    return {200, json::serialize(json_of(rows.rows[0]))};
  }

  example::Reply list(const std::string& state) {
    const std::string where = state == "all"         ? ""
                              : state == "processed" ? "WHERE done = 1 "
                              : state == "started"   ? "WHERE done = 0 AND started_at IS NOT NULL "
                              : state == "open"      ? "WHERE done = 0 AND started_at IS NULL "
                                                     : "?";
    if (where == "?") return {400, "state is open, started or processed"};
    json::array all;
    for (const Row& row : db_.query(std::string(columns) + where + "ORDER BY id LIMIT 1000").rows)
      all.push_back(json_of(row));
    return {200, json::serialize(all)};
  }

  // Answers "TASK TERM" for a task that the worker may have, 202 if every open task is another
  // worker's or scheduled for later, 410 if none is open. busy_until only saves attempts: the lease
  // decides. Tasks whose worker was lost come first, so that they do not wait behind a long queue;
  // then the oldest. Concurrent claims start at different tasks. A task that is scheduled for later
  // is skipped until then.
  example::Reply claim(const std::string& worker) {
    const std::shared_ptr<void> one_less(nullptr, [this](void*) { --claims_; });
    const std::size_t start = claims_++;
    const Rows open = db_.query(
        "SELECT id FROM tasks WHERE done = 0 AND busy_until <= $1 AND scheduled_at <= $2 "
        "ORDER BY busy_until DESC, scheduled_at, id LIMIT 40",
        {now_ms(), now_ms()});
    if (open.empty()) {
      const bool left =
          db_.query("SELECT COUNT(*) FROM tasks WHERE done = 0").one()[0].as_int() > 0;
      return {left ? 202u : 410u, ""};
    }
    for (std::size_t i = 0; i < open.rows.size(); ++i) {
      const std::int64_t task = open.rows[(start + i) % open.rows.size()][0].as_int();
      LeaseOptions options;
      // Each attempt has an owner name of its own.
      options.owner = worker + "/" + std::to_string(next_++);
      const auto lease = db_.try_acquire_lease(scope_of(task), lease_lasts, options);
      if (!lease) continue;
      bool mine = false;
      // Since the acquisition an earlier holder cannot write any more. If it completed the task
      // before, this UPDATE finds no row.
      db_.write(lease->scope(), lease->term(), [&](Transaction& tx) {
        const Rows rows = tx.exec(
            "UPDATE tasks SET busy_until = $1, processor = $2, started_at = $3, last_heartbeat = "
            "$4 WHERE id = $5 AND done = 0 RETURNING "
            "id",
            now_ms() + lease_lasts.count(), worker, now_ms(), now_ms(), task);
        mine = !rows.empty();
      });
      if (mine) return {200, std::to_string(task) + " " + std::to_string(lease->term().value())};
      db_.release_lease(*lease);
    }
    return {202, ""};
  }

  // The worker is still at work: extends its lease and the task's deadline in one transaction.
  // Throws LeaseLost or StaleTerm if the worker has lost the task.
  example::Reply heartbeat(std::int64_t task, const std::string& term) {
    if (term.empty()) return {400, "Termgate-Term is missing"};
    const Term held(number(term));
    const auto lease = Info(db_).lease(scope_of(task));
    if (!lease) return {409, "nobody has claimed this task"};
    const char* renew = db_.kind() == "sqlite"
                            ? "SELECT termgate_renew_lease($1, $2, $3, $4) ->> '$.renewed'"
                            : "SELECT renewed::int FROM termgate.renew_lease($1, $2, $3::bigint, "
                              "$4::bigint * interval '1 millisecond')";
    db_.write(scope_of(task), held, [&](Transaction& tx) {
      const Rows renewed =
          tx.exec(renew, scope_of(task).name(), lease->owner, held.value(), lease_lasts.count());
      if (renewed.one()[0].as_int() != 1) throw LeaseLost("the lease of this task is over: stop");
      tx.exec("UPDATE tasks SET busy_until = $1, last_heartbeat = $2 WHERE id = $3 AND done = 0",
              now_ms() + lease_lasts.count(), now_ms(), task);
    });
    return {200, std::to_string(lease_lasts.count())};
  }

  // Completes a task. The body is its output, any JSON.
  example::Reply complete(std::int64_t task, const std::string& term, const std::string& body) {
    if (term.empty()) return {400, "Termgate-Term is missing"};
    const std::string output = body.empty() ? "null" : json::serialize(json_in(body));
    bool first = false;
    const std::int64_t held = number(term);
    db_.write(scope_of(task), Term(held), [&](Transaction& tx) {
      const Rows rows = tx.exec(
          "UPDATE tasks SET done = 1, processed_at = $1 WHERE id = $2 AND done = 0 RETURNING "
          "processor",
          now_ms(), task);
      first = !rows.empty();
      if (first)
        tx.exec("INSERT INTO results (task, term, worker, output) VALUES ($1, $2, $3, $4)", task,
                held, rows.one()[0].as_text(), output);
    });
    // If not first, the same worker sent it again because the first answer was lost.
    return {200, first ? "completed" : "was completed before"};
  }

  Database db_;
  std::atomic<std::size_t> next_{0}, claims_{0};
  std::atomic<std::int64_t> refused_{0};
  example::Generator generator_;
};

int work(std::uint16_t port, const std::string& name, int crash, int stall, unsigned seed) {
  example::Client client(port);
  std::mt19937 random(seed);
  const auto percent = [&] { return static_cast<int>(random() % 100); };
  for (;;) {
    const auto claimed = client.send("POST", "/claim", name);
    if (claimed.status == 410) return 0;
    if (claimed.status != 200) {
      std::this_thread::sleep_for(10ms);
      continue;
    }
    const auto blank = claimed.body.find(' ');
    const std::string task = claimed.body.substr(0, blank), term = claimed.body.substr(blank + 1);
    const auto takes = std::chrono::microseconds(random() % 2000);
    std::this_thread::sleep_for(takes / 2);  // the work
    if (takes > 1500us &&
        client.send("PUT", "/tasks/" + task + "/heartbeat", name, term).status == 409)
      continue;
    std::this_thread::sleep_for(takes / 2);
    const std::string output = json::serialize(json::object{{"took_us", takes.count()}});
    const int fate = percent();
    // It crashes before it completes the task.
    if (fate < crash / 2) _exit(crashed);
    // A long pause, in which its lease expires.
    if (fate >= 100 - stall) std::this_thread::sleep_for(lease_lasts + lease_lasts / 2);
    if (fate < crash) {
      client.send("POST", "/complete/" + task, output, term);
      _exit(crashed);  // the task is completed, but the worker crashes
    }
    // On a 409 the completion was refused, and the work is discarded.
    client.send("POST", "/complete/" + task, output, term);
  }
}

int check(Database& db, std::int64_t tasks) {
  const auto count = [&](const char* sql) { return db.query(sql).one()[0].as_int(); };
  const std::int64_t all = count("SELECT COUNT(*) FROM tasks"),
                     done = count("SELECT COUNT(*) FROM tasks WHERE done = 1");
  const std::int64_t once = count(
      "SELECT COUNT(*) FROM (SELECT task FROM results GROUP BY task HAVING COUNT(*) = 1) one");
  const std::int64_t rows = count("SELECT COUNT(*) FROM results");
  const std::int64_t strange = count(
      "SELECT COUNT(*) FROM results r WHERE NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = r.task "
      "AND t.done = 1)");
  const auto breaches = Operator(db).verify();
  std::printf(
      "%lld tasks, %lld done, %lld with one result, %lld results, %zu breaches of a guarantee\n",
      static_cast<long long>(all), static_cast<long long>(done), static_cast<long long>(once),
      static_cast<long long>(rows), breaches.size());
  const bool good = all == tasks && done == tasks && once == tasks && rows == tasks &&
                    strange == 0 && breaches.empty();
  std::puts(good ? "every task was completed exactly once in effect" : "WRONG");
  return good ? 0 : 1;
}

int serve(const char* url, std::uint16_t port, int ready_pipe) {
  Database db = Database::open(url);
  Operator(db).install();
  create_tables(db);
  std::unique_ptr<Service> service;
  example::serve(
      port,
      [&](std::uint16_t bound) {
        service =
            std::make_unique<Service>(std::move(db), "http://127.0.0.1:" + std::to_string(bound));
        std::printf("listening on 127.0.0.1:%u\n", bound);
        std::fflush(stdout);
        if (ready_pipe >= 0 && write(ready_pipe, &bound, sizeof bound) != sizeof bound)
          std::abort();
      },
      [&](const example::Request& request) { return service->answer(request); });
}

int play(const char* url, std::int64_t tasks, int workers, int crash, int stall, unsigned seed) {
  int ready[2];
  if (pipe(ready) != 0) return 1;
  const pid_t service = fork();
  if (service == 0) {
    try {
      _exit(serve(url, 0, ready[1]));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "task_queue: %s\n", error.what());
      _exit(1);
    }
  }
  close(ready[1]);
  std::uint16_t port = 0;
  if (read(ready[0], &port, sizeof port) != sizeof port) return 1;
  example::Client client(port);
  const auto start = std::chrono::steady_clock::now();
  if (client.send("POST", "/tasks", std::to_string(tasks)).status != 201) return 1;
  int running = 0, crashes = 0, failures = 0;
  unsigned number = 0;
  const auto hire = [&] {
    ++number;
    if (fork() == 0) {
      try {
        _exit(work(port, "worker-" + std::to_string(number), crash, stall,
                   seed * 1'000'003u + number));
      } catch (const std::exception& error) {
        std::fprintf(stderr, "worker: %s\n", error.what());
        _exit(1);
      }
    }
    ++running;
  };
  for (int i = 0; i < workers; ++i) hire();
  while (running > 0) {
    int status = 0;
    const pid_t ended = wait(&status);
    if (ended == service) return 1;
    --running;
    if (WIFEXITED(status) && WEXITSTATUS(status) == crashed) {
      ++crashes;
      hire();
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      ++failures;
    }
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string refused = client.send("GET", "/refused").body;
  kill(service, SIGKILL);  // no worker is left, so nothing is under way
  waitpid(service, nullptr, 0);
  std::printf("%d workers, %d crashes, %s completions refused as stale, %.1f s\n", workers, crashes,
              refused.c_str(), seconds);
  Database db = Database::open(url);
  const int result = check(db, tasks);
  if (failures > 0) std::printf("WRONG: %d workers failed\n", failures);
  return failures > 0 ? 1 : result;
}

std::uint16_t port_of(const char* text) {
  const int port = std::atoi(text);
  if (port < 0 || port > 65535 || text[0] < '0' || text[0] > '9')
    throw std::runtime_error(std::string(text) + " is no port");
  return static_cast<std::uint16_t>(port);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    if (what == "serve" && argc == 4) return serve(argv[2], port_of(argv[3]), -1);
    if (what == "add" && argc == 4)
      return example::Client(port_of(argv[2])).send("POST", "/tasks", argv[3]).status == 201 ? 0
                                                                                             : 1;
    if (what == "work" && argc == 7)
      return work(port_of(argv[2]), argv[3], std::atoi(argv[4]), std::atoi(argv[5]),
                  static_cast<unsigned>(std::atoi(argv[6])));
    if (what == "play" && argc == 8)
      return play(argv[2], std::atoll(argv[3]), std::atoi(argv[4]), std::atoi(argv[5]),
                  std::atoi(argv[6]), static_cast<unsigned>(std::atoi(argv[7])));
    if (what == "check" && argc == 4) {
      Database db = Database::open(argv[2]);
      return check(db, std::atoll(argv[3]));
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "task_queue: %s\n", error.what());
    return 1;
  }
  std::fputs(
      "usage: task_queue serve URL PORT | add PORT COUNT | work PORT NAME CRASH STALL SEED | play "
      "URL TASKS WORKERS CRASH STALL SEED | "
      "check URL TASKS\n",
      stderr);
  return 2;
}
