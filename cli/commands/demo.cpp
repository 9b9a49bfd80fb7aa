// demo: the classic test of a fence, with real processes. Two leaders share a scope. The first is
// stopped (SIGSTOP) until its lease has expired, and the second takes over. The first is resumed
// and writes, and the write is refused. verify finds all guarantees kept. The leaders are this
// program, started again with --as.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "command.hpp"
#include "output.hpp"
#include "commands/privileges.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

using std::chrono::milliseconds;

volatile std::sig_atomic_t stopped = 0;

// The first signal of a kind ends the demo in order, including leaders and folder; a second one of
// the same kind ends it at once.
void stop_in_order() {
  struct sigaction action {};
  action.sa_handler = [](int) { stopped = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

// The folder of the temporary database; removed however the demo ends.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "termgate-demo-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr)
      throw Error("no temporary folder for the demo's database");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string database() const { return path_ + "/demo.db"; }

 private:
  std::string path_;
};

constexpr milliseconds ttl{2000};
constexpr milliseconds between_writes{400};

// The scope's stream. On a server an earlier demo may have written to it; play() shows only the
// writes of this run.
Stream events(const Scope& scope) { return Stream(scope.name() + "-events"); }

// ---- a leader ----------------------------------------------------------------------------------

void say(std::string_view line) {
  print_line(line);
  std::fflush(stdout);
}

// Writes under its lease until it is refused. It renews only after each write, like a careless
// leader: the fence must stop it.
int lead(const Arguments& arguments) {
  const std::string name = arguments.text("as");
  const Scope scope = arguments.scope();
  Database database = arguments.open();
  LeaseOptions options;
  options.owner = fmt::format("leader {} (pid {})", name, getpid());
  Lease lease = database.acquire_lease(scope, ttl, options);
  say(fmt::format("leads {}", lease.term().value()));
  for (int number = 1;; ++number) {
    try {
      database.write(scope, lease.term(), [&](Transaction& transaction) {
        if (!arguments.flag("without-table"))
          transaction.exec("UPDATE demo_accounts SET balance = balance - $1 WHERE id = $2", 1, 42);
        transaction.append(events(scope),
                           fmt::format("leader {} debited 1, write {}", name, number));
      });
      say(fmt::format("wrote {}", number));
      database.renew_lease(lease);
    } catch (const StaleTerm& stale) {
      say(fmt::format("refused {}", stale.what()));
      return Exit::refused_stale;
    } catch (const LeaseLost&) {
      // The next write will meet the fence.
    }
    say("sleeps");
    std::this_thread::sleep_for(between_writes);
  }
}

// ---- the play ----------------------------------------------------------------------------------

class Child {
 public:
  explicit Child(const std::vector<std::string>& words) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error("no pipe for a leader");
    const pid_t player = getpid();
    pid_ = fork();
    if (pid_ < 0) throw Error("no process for a leader");
    if (pid_ == 0) {
      // If the demo is killed no leader may survive, least of all the stopped one.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != player) _exit(127);
      dup2(ends[1], STDOUT_FILENO);
      std::vector<char*> pointers;
      for (const auto& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
      pointers.push_back(nullptr);
      execv(program.c_str(), pointers.data());
      _exit(127);
    }
    close(ends[1]);
    out_ = ends[0];
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const { kill(pid_, signal); }

  // Waits for a line that starts with `word` and returns the rest of it. Throws Error if none comes
  // within `limit`, if the leader ends or reports a refusal instead, or after a signal. Other lines
  // are ignored.
  std::string wait_for(const std::string& word, milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    for (;;) {
      for (auto newline = buffer_.find('\n'); newline != std::string::npos;
           newline = buffer_.find('\n')) {
        const std::string line = buffer_.substr(0, newline);
        buffer_.erase(0, newline + 1);
        if (line.starts_with(word)) return line.substr(std::min(line.size(), word.size() + 1));
        if (line.starts_with("refused")) throw Error("a leader was refused out of turn: " + line);
      }
      const auto left =
          std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now()).count();
      if (stopped != 0) throw Error("interrupted");
      if (left <= 0)
        throw Error(
            fmt::format("a leader did not report \"{}\" within {}", word, length(limit.count())));
      // Polls in short steps, because a signal may arrive just before poll().
      pollfd descriptor{out_, POLLIN, 0};
      if (poll(&descriptor, 1, static_cast<int>(std::min<std::int64_t>(left, 100))) <= 0) continue;
      char bytes[512];
      const auto count = read(out_, bytes, sizeof bytes);
      if (count <= 0)
        throw Error(stopped != 0 ? "interrupted"
                                 : fmt::format("a leader ended before it reported \"{}\"", word));
      buffer_.append(bytes, static_cast<std::size_t>(count));
    }
  }

  int exit_status() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string buffer_;
};

// Installs layer 1 if it is missing; upgrades it if the role owns it. Any other role needs level
// lead.
void prepare_layer(Database& database, const std::string& schema, bool says) {
  const auto access = access_of(database, schema);
  if (access && access->installed && !access->owns)
    return need_level(database, schema, "lead", "demo");
  try {
    const auto [from, to] = Operator(database).install();
    if (from == 0 && says)
      print_line(
          fmt::format("Layer 1 was not in this database and has been installed (version {}); "
                      "`termgate uninstall` removes it.\n",
                      to));
  } catch (const DatabaseError& error) {
    if (!access || error.code() != "42501") throw;
    throw Error(
        fmt::format("demo: this database has no layer 1, and role {} cannot install it: {}. The "
                    "role that is to own layer 1 runs: {}",
                    access->role, error.what(), grant_command(schema, access->role, "lead")));
  }
}

int play(const Arguments& arguments) {
  std::string url;
  std::string scope_name = "billing";
  stop_in_order();
  std::optional<Folder> folder;
  if (arguments.maybe("db") || arguments.maybe("db-file") || std::getenv("TERMGATE_DB")) {
    url = arguments.database_url();
    // Always the same, so that repeated demos leave only one scope in a database.
    scope_name = "termgate-demo";
  } else {
    folder.emplace();
    url = "sqlite:" + folder->database();
  }
  OpenOptions options;
  options.schema = arguments.text_or("schema", options.schema);
  const Scope scope(scope_name);
  Database database = Database::open(url, options);
  prepare_layer(database, options.schema, !folder);
  // A role that cannot create tables runs the demo with the stream alone.
  const bool with_table = may_create_tables(database, options.schema);
  if (with_table)
    database.write(Scope(scope.name() + "-setup"), Term(1), [](Transaction& transaction) {
      transaction.exec("DROP TABLE IF EXISTS demo_accounts");
      transaction.exec(
          "CREATE TABLE demo_accounts (id integer PRIMARY KEY, balance bigint NOT NULL)");
      transaction.exec("INSERT INTO demo_accounts (id, balance) VALUES ($1, $2)", 42, 1000);
    });
  // The URL is passed in the environment, because a process list shows arguments.
  setenv("TERMGATE_DB", url.c_str(), 1);
  const auto leader = [&](const char* name) {
    std::vector<std::string> words{"termgate", "demo",       "--as",     name,
                                   "--scope",  scope.name(), "--schema", options.schema};
    if (!with_table) words.emplace_back("--without-table");
    return words;
  };

  print_line(fmt::format("A stale leader meets the fence, on a {} database. Lease: {}.\n",
                         database.kind(), length(ttl.count())));
  // Runs after the leaders have ended, however the demo ends, so that nobody has to wait for their
  // lease and no alert fires.
  struct GiveBack {
    Database& database;
    const Scope& scope;
    ~GiveBack() {
      try {
        const auto lease = Info(database).lease(scope);
        if (lease && !lease->released_at_ms)
          database.release_lease(scope, Term(lease->term), lease->owner);
      } catch (const Error&) {}  // the lease expires by itself
    }
  } give_back{database, scope};
  const auto stream = Info(database).stream(events(scope));
  const SequenceNo before(stream ? stream->last_no : 0);
  Child a(leader("A"));
  const std::string term_a = a.wait_for("leads", milliseconds(10'000));
  a.wait_for("wrote", milliseconds(10'000));
  print_line(fmt::format("1  Leader A (pid {}) holds the lease of \"{}\": term {}. It writes.",
                         a.pid(), scope.name(), term_a));
  a.wait_for("sleeps", milliseconds(10'000));
  a.wait_for("sleeps", milliseconds(10'000));
  a.send(SIGSTOP);
  print_line(
      "2  A is stopped (SIGSTOP): a long pause, as by a garbage collection or a stalled machine. "
      "Its lease runs out.");
  std::fflush(stdout);

  Child b(leader("B"));
  const std::string term_b = b.wait_for("leads", milliseconds(20'000));
  print_line(fmt::format(
      "3  Leader B (pid {}) takes over: term {}. From this moment every lower term is shut out.",
      b.pid(), term_b));
  b.wait_for("wrote", milliseconds(10'000));
  b.wait_for("wrote", milliseconds(10'000));
  print_line("4  B writes.");
  a.send(SIGCONT);
  print_line(
      fmt::format("5  A wakes up, believes that it still leads, and writes with term {}:", term_a));
  std::fflush(stdout);
  const std::string refusal = a.wait_for("refused", milliseconds(20'000));
  const int status = a.exit_status();
  print_line(fmt::format("\n      {}\n\n   A ended with status {}.", refusal, status));

  const auto writes = Info(database).read_stream(events(scope), before);
  const auto findings = Operator(database).verify();
  std::string terms;
  for (const StreamWrite& write : writes) terms += fmt::format(" {}", write.term.value());
  print_line(fmt::format("6  termgate verify: {}. Terms of the accepted writes, in order:{}",
                         findings.empty() ? "all guarantees kept" : "A GUARANTEE IS BROKEN",
                         terms));
  b.send(SIGKILL);
  b.exit_status();
  if (!folder && with_table)
    database.write(scope, Term(std::stoll(term_b)),
                   [](Transaction& transaction) { transaction.exec("DROP TABLE demo_accounts"); });
  return status == Exit::refused_stale && findings.empty() ? Exit::done : Exit::failed;
}

int run_demo(const Arguments& arguments) {
  return arguments.maybe("as") ? lead(arguments) : play(arguments);
}

}  // namespace

void add_demo_command(std::vector<Command>& commands) {
  commands.push_back({"demo",
                      "show how a stale leader is refused",
                      "Plays pause, takeover and stale write with real processes: on a temporary "
                      "SQLite file, or with --db on a server, "
                      "where it\ncreates and drops the table demo_accounts if the role may create "
                      "tables. On PostgreSQL the role needs "
                      "level lead:\ntermgate init --grant ROLE=lead.",
                      [](po::options_description& o) {
                        o.add_options()("as", po::value<std::string>(),
                                        "act as one of its leaders (used by the demo itself)")(
                            "scope", po::value<std::string>(), "that leader's scope")(
                            "without-table", po::bool_switch(),
                            "that leader writes only to its stream");
                      },
                      {},
                      run_demo});
}

}  // namespace termgate::cli
