// drill: the classic test of a fence, for a service in any language.
//
//   instance 1 leads ─ SIGSTOP ─▶ instance 2 takes over ─▶ SIGCONT ─▶ instance 1 writes under its old term ─▶ refused: passed
//
// Only a refusal that was seen counts. Who sees it, the best there is first:
//   wire     the relay between instance and server: what the server answered, statement by statement. PostgreSQL and SQL Server,
//   unencrypted layer1   layer 1 itself, which on SQLite runs in the instance's process: it writes each refused write into the file
//   TERMGATE_WITNESS audit    layer 1's audit: what the library or the proxy has written down output   what the command says, where the
//   user believes it (--expect-refusal) and the drill cannot read along
// Long: one drill from its options to its verdict; what it measures with is in files of its own.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <thread>
#include <tuple>

#include <fmt/format.h>

#include "drill/drill.hpp"
#include "drill/instance.hpp"
#include "drill/wire.hpp"
#include "output.hpp"
#include "commands/privileges.hpp"
#include "secrets.hpp"
#include "storm/sql.hpp"
#ifdef TERMGATE_WITH_POSTGRES
#include "drill/relay.hpp"
#endif

namespace po = boost::program_options;

namespace termgate::cli {
namespace drill {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<int> interrupted{0};
static_assert(std::atomic<int>::is_always_lock_free);
struct Interrupted {};

// The first signal ends the drill in order; a second one at once, and then the keepers end what is left.
void end_in_order() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { interrupted = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

// One file for each instance, in a folder that goes with the run.
class WitnessFiles {
 public:
  WitnessFiles() : folder_((std::filesystem::temp_directory_path() / "termgate-drill-XXXXXX").string()) {
    if (mkdtemp(folder_.data()) == nullptr) throw Error("drill: no temporary folder");
    // An instance may run as another user.
    std::filesystem::permissions(folder_, std::filesystem::perms(0711));
    for (int number : {1, 2}) {
      std::ofstream(path(number)).flush();
      std::filesystem::permissions(path(number), std::filesystem::perms(0622));
    }
  }
  ~WitnessFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  WitnessFiles(const WitnessFiles&) = delete;
  WitnessFiles& operator=(const WitnessFiles&) = delete;
  std::string path(int number) const { return fmt::format("{}/{}", folder_, number); }

 private:
  std::string folder_;
};

struct Plan {
  std::string url;      // the drill's own way to the database
  std::string through;  // the command's; empty: the same
  std::string schema;
  Scope scope;
  std::vector<std::string> command;
  int runs;
  milliseconds timeout, lead_for, stop_timeout;
  std::optional<std::regex> expect_refusal;
  std::vector<std::regex> allowed_writes;
  std::optional<std::string> evidence;
  std::string output_folder;
  bool quiet, json;
  std::vector<std::string> secrets;  // texts that may hold a password
};

std::regex regex_of(const char* option, const std::string& text) {
  try {
    return std::regex(text, std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    throw UsageError(fmt::format("--{} {}: no regular expression: {}", option, text, error.what()));
  }
}

// std::regex takes stack with the length of what it looks at.
bool matches(const std::regex& pattern, std::string_view text) { return std::regex_search(std::string(text.substr(0, 2048)), pattern); }

Plan plan_of(const Arguments& arguments) {
  Plan plan{.url = "",
            .through = "",
            .schema = arguments.text_or("schema", "termgate"),
            .scope = arguments.scope(),
            .command = arguments.list("command"),
            .runs = 1,
            .timeout = {},
            .lead_for = {},
            .stop_timeout = {},
            .expect_refusal = {},
            .allowed_writes = {},
            .evidence = arguments.maybe("evidence"),
            .output_folder = arguments.text_or("output", ""),
            .quiet = arguments.flag("quiet"),
            .json = arguments.json(),
            .secrets = {}};
  if (plan.command.empty()) throw UsageError("which command? `termgate drill --scope S -- COMMAND …`");
  plan.url = arguments.database_url();
  if (storm::is_sqlite(plan.url)) {
    if (plan.url.find(":memory:") != std::string::npos)
      throw UsageError("drill: an SQLite database in memory has one process; give a file");
    if (arguments.maybe("through")) throw UsageError("--through: only for a server's URL, not for an SQLite file");
#ifdef TERMGATE_WITH_ODBC
  } else if (storm::is_odbc(plan.url)) {
    storm::engine_of(plan.url);  // or it is no string of ours
#endif
  } else if (!plan.url.starts_with("postgres")) {
    throw UsageError("drill runs on sqlite:PATH, postgresql://…, sqlserver://… and odbc:…");
  }
  plan.through = arguments.text_or("through", plan.url);
  plan.secrets = {plan.url, plan.through};
  plan.runs = static_cast<int>(arguments.integer_or("runs", 1, 1, 1000));
  plan.timeout = arguments.duration_or("timeout", milliseconds(30'000));
  plan.lead_for = arguments.duration_or("lead-for", milliseconds(1000));
  plan.stop_timeout = arguments.duration_or("stop-timeout", milliseconds(5000));
  if (plan.timeout < milliseconds(100)) throw UsageError("--timeout: 100ms or more");
  if (const auto text = arguments.maybe("expect-refusal")) plan.expect_refusal = regex_of("expect-refusal", *text);
  for (const std::string& text : arguments.list("allow-write")) plan.allowed_writes.push_back(regex_of("allow-write", text));
  if (plan.evidence && plan.evidence->find("$2") != std::string::npos && plan.evidence->find("$1") == std::string::npos)
    throw UsageError("--evidence: $1 is the term, $2 the scope; a query that has $2 needs $1");
  return plan;
}

std::string identifier(std::string_view name) {
  std::string all = "\"";
  for (const char letter : name) all += letter == '"' ? "\"\"" : std::string(1, letter);
  return all + "\"";
}
std::string in_brackets(std::string_view name) {
  std::string all = "[";
  for (const char letter : name) all += letter == ']' ? "]]" : std::string(1, letter);
  return all + "]";
}

// ---- what the database shows -----------------------------------------------------------------------

class Ground {
 public:
  explicit Ground(const Plan& plan) : plan_(plan) {
    OpenOptions options;
    options.schema = plan.schema;
    options.connections_max = 4;
    database_ = Database::open(plan.url, options);
    need_level(*database_, plan.schema, "read", "drill");
    const bool sqlite = storm::is_sqlite(plan.url), tsql = storm::engine_of(plan.url) == storm::Engine::sqlserver;
    const std::string schema = (tsql ? in_brackets(plan.schema) : identifier(plan.schema)) + ".";
    counts_.push_back({"stream writes",
                       fmt::format("SELECT count(*) FROM {} WHERE term = $1 AND scope = $2",
                                   sqlite ? "termgate_stream_writes" : schema + "stream_writes"),
                       false});
    try {
      const auto adopted =
          database_->query(sqlite ? "SELECT table_name, scope_column, term_column FROM termgate_adopted"
                           : tsql ? "SELECT QUOTENAME(OBJECT_SCHEMA_NAME(table_id)) + N'.' + QUOTENAME(OBJECT_NAME(table_id)), "
                                    "scope_column, term_column FROM " +
                                        schema + "adopted"
                                  : "SELECT table_oid::regclass::text, scope_column, term_column FROM " + schema + "adopted_tables");
      for (const auto& row : adopted.rows) {
        const std::string table = sqlite ? identifier(row[0].as_text()) : row[0].as_text();
        counts_.push_back(
            {"rows of " + row[0].as_text(),
             fmt::format("SELECT count(*) FROM {} WHERE {} = $1 AND CAST({} AS {}) = $2", table,
                         tsql ? in_brackets(row[2].as_text()) : identifier(row[2].as_text()),
                         tsql ? in_brackets(row[1].as_text()) : identifier(row[1].as_text()), tsql ? "nvarchar(400)" : "text"),
             false});
      }
    } catch (const DatabaseError&) {
      // A role that may not read the list has less evidence, and the same witnesses.
    }
    if (plan.evidence) counts_.push_back({"--evidence", *plan.evidence, true});
  }

  // The scope's fence, 0 for none. None: it could not be read just now; why_not() says why.
  std::optional<std::int64_t> fence() {
    try {
      const auto found = database_->fence(plan_.scope);
      return found ? found->term : 0;
    } catch (const Unavailable& error) { why_not_ = error.what(); } catch (const Blocked& error) {
      why_not_ = error.what();
    } catch (const Conflict& error) { why_not_ = error.what(); }
    return std::nullopt;
  }
  std::int64_t fence_now() {  // throws
    const auto found = database_->fence(plan_.scope);
    return found ? found->term : 0;
  }
  std::optional<LeaseInfo> lease() { return database_->lease(plan_.scope); }
  std::optional<Access> access(const std::string& role) { return access_of(*database_, plan_.schema, role); }
  const std::string& why_not() const { return why_not_; }

  // Rows that carry the term, by what they were found by. What cannot be counted is left out, but for the user's own query: UsageError.
  std::map<std::string, std::int64_t> rows_under(std::int64_t term) {
    std::map<std::string, std::int64_t> found;
    for (const Count& one : counts_) {
      std::vector<Value> values;
      if (one.sql.find("$1") != std::string::npos) values.emplace_back(term);
      if (one.sql.find("$2") != std::string::npos) values.emplace_back(plan_.scope.name());
      try {
        const Rows rows = database_->query(one.sql, values);
        if (rows.rows.size() == 1 && rows.rows[0].size() == 1) found[one.what] = std::stoll(rows.rows[0][0].as_text());
        else if (one.users) throw UsageError("--evidence: must be a query of one row and one column, the number of writes under a term");
      } catch (const DatabaseError& error) {
        if (one.users) throw UsageError(fmt::format("--evidence: {}", error.what()));
      } catch (const std::logic_error&) { throw UsageError(fmt::format("{}: no number", one.what)); } catch (const Unavailable&) {
        // Locked just now, or away: what is away at the end as well is told by fence().
      } catch (const Blocked&) {}
    }
    return found;
  }

  // Refusals of this term that the audit knows of.
  std::int64_t audited_refusals(std::int64_t term) {
    std::int64_t all = 0;
    try {
      for (const auto& row : database_->explain(plan_.scope, 1000).rows) {
        if (row[3].as_text() != "refuse") continue;
        const auto detail = boost::json::parse(row[4].as_text());
        if (detail.at("term").to_number<std::int64_t>() == term) all += detail.at("count").to_number<std::int64_t>();
      }
    } catch (const std::exception&) {
      // A role that may not read the audit, or a database that is busy: no witness.
    }
    return all;
  }

  // Whether somebody keeps everybody from writing: on SQLite a process that was stopped in the middle of a transaction.
  bool locked() {
    if (!storm::is_sqlite(plan_.url)) return false;
    try {
      const auto sql = storm::connect(plan_.url);
      sql->run("PRAGMA busy_timeout = 100");  // an instance that stays stopped for long here loses its lease
      sql->run("BEGIN IMMEDIATE");
      sql->roll_back();
      return false;
    } catch (const Error&) { return true; }
  }

 private:
  struct Count {
    std::string what, sql;
    bool users;
  };
  const Plan& plan_;
  std::optional<Database> database_;
  std::vector<Count> counts_;
  std::string why_not_;
};

// ---- one run ---------------------------------------------------------------------------------------

class Run {
 public:
  Run(const Plan& plan, Ground& ground, int number) : plan_(plan), ground_(ground) { result_.run = number; }

  Result go() {
    try {
      play();
    } catch (const Error& error) {
      result_.verdict = Verdict::not_judged;
      result_.detail = without_passwords(error.what(), plan_.secrets);
    } catch (const Interrupted&) {
      result_.verdict = Verdict::interrupted;
      result_.detail = fmt::format("by signal {}; both instances were ended", interrupted.load());
    }
    end_instances();
    if (result_.verdict == Verdict::passed || result_.verdict == Verdict::did_not_try) last_look();
    result_.seconds = since();
    const std::size_t some = 200;
    for (const auto& line : output_) result_.output.push_back(line);
    if (result_.output.size() > some) result_.output.erase(result_.output.begin(), result_.output.end() - some);
    return std::move(result_);
  }

 private:
  double since() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }

  void step(std::string what) {
    result_.steps.push_back({since(), what});
    if (plan_.json) return;
    print_line(fmt::format("{:6.1f} s  {}", since(), printable(what)));
    std::fflush(stdout);
  }

  bool fail(Verdict verdict, std::string detail) {
    result_.verdict = verdict;
    result_.detail = std::move(detail);
    return false;
  }

  void on_line(int number, const std::string& line) {
    const std::string shown = without_passwords(line, plan_.secrets);
    output_.push_back(fmt::format("{}| {}", number, printable(shown)));
    if (output_.size() > 1000) output_.pop_front();
    if (!plan_.quiet) fmt::print(stderr, "{}\n", output_.back());
    std::ofstream& file = files_[number - 1];
    if (file.is_open()) file << shown << std::endl;
  }

  void start(int number) {
    if (!plan_.output_folder.empty())
      files_[number - 1].open(fmt::format("{}/run{}.instance{}.log", plan_.output_folder, result_.run, number));
    std::vector<std::string> settings = {"TERMGATE_SCOPE=" + plan_.scope.name(), fmt::format("TERMGATE_DRILL={}", result_.run),
                                         fmt::format("TERMGATE_DRILL_INSTANCE={}", number)};
    if (storm::is_sqlite(plan_.url)) {
      const std::string rest = plan_.url.substr(plan_.url.find(':') + 1);
      const auto query = std::min(rest.find('?'), rest.size());
      const std::string path = std::filesystem::absolute(rest.substr(0, query)).string();
      settings.push_back("TERMGATE_DB=sqlite:" + path + rest.substr(query));
      settings.push_back("DATABASE_URL=sqlite:///" + path);
      settings.push_back("TERMGATE_WITNESS=" + files_of_law_.path(number));
    } else {
      settings.push_back("TERMGATE_DB=" + plan_.through);
      settings.push_back("DATABASE_URL=" + plan_.through);
#if defined(TERMGATE_WITH_POSTGRES) && defined(TERMGATE_WITH_ODBC)
      if (storm::is_odbc(plan_.through)) relay_odbc(number, settings);
      else
#endif
#ifdef TERMGATE_WITH_POSTGRES
      {
        if (!target_->encrypted) {
          relays_[number - 1] = std::make_unique<Relay>(*target_);
          settings.erase(settings.end() - 2, settings.end());
          for (std::string& setting : relays_[number - 1]->settings()) settings.push_back(std::move(setting));
        }
      }
#endif
    }
    instances_[number - 1] =
        std::make_unique<Instance>(number, plan_.command, settings, [this](int who, const std::string& line) { on_line(who, line); });
    step(fmt::format("instance {} started (pid {})", number, instances_[number - 1]->pid()));
  }

  // Where the command's connections lead. What the drill could not see is said before anything is started: throws Error.
  void find_the_way() {
#ifdef TERMGATE_WITH_POSTGRES
    if (storm::is_sqlite(plan_.url) || target_) return;
    std::string why, cure;
    RelayTarget target;
#ifdef TERMGATE_WITH_ODBC
    if (storm::is_odbc(plan_.through)) {
      try {
        std::tie(target.host, target.port) = storm::place_of_odbc(plan_.through);
      } catch (const Unavailable&) { throw; } catch (const Error& error) {
        target.encrypted = true;
        why = error.what();
        cure = storm::engine_of(plan_.through) == storm::Engine::sqlserver ? "put Encrypt=no into the connection string"
                                                                           : "put SSLmode=disable into the connection string";
      }
    } else
#endif
    {
      target = locate(plan_.through);
      why = target.demanded.empty() ? "the server takes encrypted connections only" : "the URL demands " + target.demanded;
      cure = "put sslmode=disable into the URL of --through or --db, for a server that takes plain connections";
      tell_what_the_role_lacks(target.user);
    }
    if (target.encrypted) {
      if (!plan_.expect_refusal)
        throw Error(
            fmt::format("the command's connections are encrypted ({}), so that the drill cannot see what the server refuses: {}; or give "
                        "--expect-refusal, what the command prints when it is refused",
                        why, cure));
      result_.notes.push_back(
          fmt::format("the command's connections are encrypted ({}), so that the drill cannot read along: it believes what the command "
                      "prints (--expect-refusal). To see for itself: {}",
                      why, cure));
    }
    target_ = std::move(target);
#endif
  }

  // A service that takes terms from elsewhere needs no level, so this is a note and no end.
  void tell_what_the_role_lacks(const std::string& role) {
    const auto access = ground_.access(role);
    if (!access || access->level >= 3) return;
    std::string note = fmt::format("the command connects as role {}, which has {}; if it takes leases it needs level lead: {}", role,
                                   access->level_name(), grant_command(plan_.schema, role, "lead"));
    step(note);
    result_.notes.push_back(std::move(note));
  }

#if defined(TERMGATE_WITH_POSTGRES) && defined(TERMGATE_WITH_ODBC)
  // A relay between the instance's ODBC driver and its server, where that can be read along.
  void relay_odbc(int number, std::vector<std::string>& settings) {
    if (target_->encrypted) return;
    relays_[number - 1] = std::make_unique<Relay>(
        *target_, storm::engine_of(plan_.through) == storm::Engine::sqlserver ? Relay::Speaks::tds : Relay::Speaks::postgresql);
    const std::string url = storm::beside(plan_.through, relays_[number - 1]->port());
    settings.erase(settings.end() - 2, settings.end());
    settings.push_back("TERMGATE_DB=" + url);
    settings.push_back("DATABASE_URL=" + url);
  }
#endif

  std::vector<Instance*> all() {
    std::vector<Instance*> those;
    for (const auto& one : instances_) {
      if (one) those.push_back(one.get());
    }
    return those;
  }

  void tick() {
    Instance::pump(all(), milliseconds(20));
    // With nothing open any more poll() would not wait.
    if (std::none_of(instances_.begin(), instances_.end(), [](const auto& one) { return one && one->running(); }))
      std::this_thread::sleep_for(milliseconds(5));
    gather();
    if (interrupted != 0) throw Interrupted{};
  }

  // Until `what` says so; false: not within `patience`.
  template <typename What>
  bool wait(milliseconds patience, milliseconds every, What what) {
    const auto end = Clock::now() + patience;
    for (;;) {
      if (what()) return true;
      const auto next = std::min(end, Clock::now() + every);
      while (Clock::now() < next) tick();
      if (Clock::now() >= end) return what();
    }
  }

  bool both_run() {
    for (Instance* one : all()) {
      if (one->running()) continue;
      fail(Verdict::ended_by_itself, fmt::format("instance {} ended {} before it was stopped; its last lines: {}", one->number(),
                                                 one->how_it_ended(), last_lines(*one)));
      return false;
    }
    return true;
  }

  std::string last_lines(const Instance& one) const {
    std::string text;
    const auto& lines = one.lines();
    for (std::size_t i = lines.size() < 3 ? 0 : lines.size() - 3; i < lines.size(); ++i)
      text += (text.empty() ? "" : " / ") + without_passwords(printable(lines[i].text), plan_.secrets);
    return text.empty() ? "(it printed nothing)" : text;
  }

  std::string trouble() const { return ground_.why_not().empty() ? "" : fmt::format("; the database reported: {}", ground_.why_not()); }

  bool play() {
    find_the_way();
    return lead() && take_over() && resume();
  }

  // Somebody leads, and it is instance 1, for it was alone.
  bool lead() {
    const std::int64_t before = ground_.fence_now();
    if (const auto lease = ground_.lease(); lease && lease->remaining_ms > 0) {
      const auto seen = lease->renewed_at_ms;
      const auto owner = lease->owner;
      step(fmt::format("the lease is {}'s for another {}", owner, length(lease->remaining_ms)));
      const bool over = wait(plan_.timeout, milliseconds(50), [&] {
        const auto now = ground_.lease();
        if (now && now->remaining_ms > 0 && (now->renewed_at_ms != seen || now->owner != owner))
          throw UsageError(fmt::format("{} leads scope \"{}\" and renews its lease: a drill needs a scope that has no other leader",
                                       now->owner, plan_.scope.name()));
        return !now || now->remaining_ms <= 0;
      });
      if (!over)
        return fail(Verdict::nobody_led, fmt::format("the lease left behind by {} does not end within {}; --timeout waits longer", owner,
                                                     length(plan_.timeout.count())));
    }
    start(1);
    bool alive = true;
    const bool led = wait(plan_.timeout, milliseconds(20), [&] {
      const auto now = ground_.fence();
      if (now && *now > before) result_.term = *now;
      alive = both_run();
      return result_.term > 0 || !alive;
    });
    if (!alive) return false;
    if (!led)
      return fail(Verdict::nobody_led,
                  fmt::format("the fence of scope \"{}\" did not rise above {} within {}{}. Instance 1 printed last: {}",
                              plan_.scope.name(), before, length(plan_.timeout.count()), trouble(), last_lines(*instances_[0])));
    step(fmt::format("it leads \"{}\" under term {}", plan_.scope.name(), result_.term));
    if (const auto lease = ground_.lease(); lease && lease->term >= result_.term) owner_ = lease->owner;
    start(2);
    wait(plan_.lead_for, milliseconds(20), [&] {
      alive = both_run();
      return !alive;
    });
    if (!alive) return false;
    const std::int64_t led_first = result_.term;
    if (const std::int64_t now = ground_.fence_now(); !first_still_leads(now))
      return fail(Verdict::nobody_led, fmt::format("nobody led for {}: the fence rose from {} to {} while instance 1 was running. A "
                                                   "drill needs a command whose second instance waits while the first one leads",
                                                   length(plan_.lead_for.count()), led_first, now));
    return true;
  }

  // Whether the fence stands at instance 1's term: where it was, or where that one's own lease has taken it since, as leaders do that
  // acquire in the place of renewing.
  bool first_still_leads(std::int64_t fence) {
    if (fence == result_.term) return true;
    const auto lease = ground_.lease();
    if (owner_.empty() || !lease || lease->owner != owner_ || lease->term < fence) return false;
    result_.term = lease->term;
    return true;
  }

  bool take_over() {
    Instance& first = *instances_[0];
    first.stop();
    for (int again = 0; ground_.locked(); ++again) {
      if (again == 50)
        return fail(Verdict::no_takeover,
                    "instance 1 was stopped fifty times, and each time in the middle of a write transaction, which on SQLite keeps "
                    "everybody else out. It should not keep one open");
      first.resume();
      wait(milliseconds(20 + 7 * again), milliseconds(20), [] { return false; });
      first.stop();
    }
    if (!first.running()) return !both_run() && false;
    const std::int64_t led = result_.term;
    // Where the lease says that it was instance 2, that is the takeover already: the old leader is stopped, and has not been told.
    const auto taken_over = [&] {
      const auto lease = ground_.lease();
      return !owner_.empty() && lease && lease->owner != owner_;
    };
    if (const std::int64_t now = ground_.fence_now(); !first_still_leads(now) && !taken_over())
      return fail(Verdict::nobody_led,
                  fmt::format("the fence rose from {} to {} in the moment in which instance 1 was stopped: run the drill again", led, now));
    step("instance 1 stopped (SIGSTOP), with all that it has started");
    bool alive = true;
    const bool taken = wait(plan_.timeout, milliseconds(20), [&] {
      const auto now = ground_.fence();
      if (now && *now > result_.term) result_.next_term = *now;
      alive = instances_[1]->running();
      return result_.next_term > 0 || !alive;
    });
    if (result_.next_term == 0 && !alive)
      return fail(Verdict::ended_by_itself, fmt::format("instance 2 ended {} instead of taking over; its last lines: {}",
                                                        instances_[1]->how_it_ended(), last_lines(*instances_[1])));
    if (!taken || result_.next_term == 0) {
      std::string lease;
      if (const auto info = ground_.lease(); info && info->remaining_ms > 0)
        lease = fmt::format(" The lease is {}'s for another {}.", info->owner, length(info->remaining_ms));
      return fail(Verdict::no_takeover,
                  fmt::format("the fence stayed at {} for {} after instance 1 was stopped{}.{} Instance 2 printed last: {}", result_.term,
                              length(plan_.timeout.count()), trouble(), lease, last_lines(*instances_[1])));
    }
    step(fmt::format("instance 2 took over: term {}", result_.next_term));
    if (const auto now = ground_.lease(); now && now->term >= result_.next_term && now->owner != owner_) next_owner_ = now->owner;
    return true;
  }

  bool resume() {
    Instance& first = *instances_[0];
    rows_before_ = ground_.rows_under(result_.term);
    audited_before_ = ground_.audited_refusals(result_.term);
    lines_before_ = first.lines_so_far();
    gather();
    resumed_ = Clock::now();
    resumed_once_ = true;
    first.resume();
    step("instance 1 resumed (SIGCONT)");
    auto next_look = Clock::now();
    bool breached = false;
    wait(plan_.timeout, milliseconds(20), [&] {
      look_at_output();
      look_at_law();
      if (Clock::now() >= next_look) {
        look_at_database();
        next_look = Clock::now() + milliseconds(200);
      }
      breached = !result_.evidence.empty();
      return breached || refused() || !first.running();
    });
    if (refused() && !breached) {
      step(fmt::format("instance 1 refused (seen by {}): {}", result_.witness, result_.refusal));
      // It may go on to write where nothing refuses it.
      wait(milliseconds(500), milliseconds(100), [&] {
        look_at_database();
        return !result_.evidence.empty();
      });
    }
    judge();
    return true;
  }

  bool refused() const { return !result_.witness.empty(); }

  void judge() {
    Instance& first = *instances_[0];
    if (!result_.evidence.empty()) {
      fail(Verdict::stale_write_committed,
           fmt::format("instance 1 wrote under term {} after instance 2 had taken over with term {}, and nothing refused it. Protect the "
                       "table that it writes to (`termgate protect TABLE --scope-column COLUMN`, or --scope), or call check_term in the "
                       "transaction that writes",
                       result_.term, result_.next_term));
      return;
    }
    if (refused()) {
      fail(Verdict::passed, "");
      return;
    }
    std::string why = first.running() ? fmt::format("for {} after it was resumed", length(plan_.timeout.count()))
                                      : fmt::format("it ended {} instead", first.how_it_ended());
    if (!endings_.empty())
      why += fmt::format(
          ". The server had ended its session while it was stopped ({}), and it did not try again: that is the fence's work too, but no "
          "refused write",
          endings_.back());
    if (!other_refusals_.empty()) why += fmt::format(". It got the error {}: that is not a refusal as stale", other_refusals_.back());
#ifdef TERMGATE_WITH_POSTGRES
    if (relays_[0] && connections_ == 0)
      why +=
          ". It has made no connection by way of the drill: it has to take its server from TERMGATE_DB, DATABASE_URL or PGHOST and PGPORT";
#endif
    if (lines_show_it_) why += ". It reported a refusal, but nothing else confirms it";
    if (storm::is_sqlite(plan_.url) && !plan_.evidence)
      why += ". A write to a table that nothing guards is not seen on SQLite, but for --evidence";
    fail(Verdict::did_not_try, fmt::format("no refused write was seen: {}. It printed last: {}", why, last_lines(first)));
  }

  // What came with the end of the processes: buffered output, the library's last report, a write on its way.
  void last_look() {
    if (!resumed_once_) return;
    look_at_output();
    look_at_law();
    gather();
    look_at_database();
    judge();
  }

  void look_at_output() {
    Instance& first = *instances_[0];
    const std::string ours = fmt::format("TG001 stale term {} for scope \"{}\"", result_.term, plan_.scope.name());
    for (const Line& line : first.lines()) {
      if (line.number < std::max(lines_before_, lines_seen_)) continue;
      lines_seen_ = line.number + 1;
      const bool shows = plan_.expect_refusal ? matches(*plan_.expect_refusal, line.text) : line.text.find(ours) != std::string::npos;
      if (!shows) continue;
      lines_show_it_ = true;
      if (!refused() && plan_.expect_refusal && !reads_along()) saw("output", without_passwords(printable(line.text), plan_.secrets));
    }
  }

  void look_at_law() {
    if (refused()) return;
    std::ifstream file(files_of_law_.path(1));
    const std::string all = "\n" + std::string(std::istreambuf_iterator<char>(file), {});
    // A scope may hold line breaks of its own.
    if (all.find(fmt::format("\nTG001 {} {}\n", result_.term, plan_.scope.name())) != std::string::npos)
      saw("layer1", fmt::format("TG001 stale term {} for scope \"{}\"", result_.term, plan_.scope.name()));
    const std::string seal = fmt::format("\nseal {} {}\n", result_.term, plan_.scope.name());
    seals_of_law_ = 0;
    for (auto at = all.find(seal); at != std::string::npos; at = all.find(seal, at + seal.size() - 1)) ++seals_of_law_;
  }

  bool reads_along() {
#ifdef TERMGATE_WITH_POSTGRES
    return relays_[0] && connections_ > 0;
#else
    return false;
#endif
  }

  void look_at_database() {
    const std::int64_t audited = refused() ? 0 : ground_.audited_refusals(result_.term) - audited_before_;
    if (audited > 0) {
      // Whoever wrote it down had its answer before, so the better witnesses know of it by now.
      gather();
      look_at_law();
    }
    if (!refused() && audited > no_writes_ + seals_of_law_)
      saw("audit", fmt::format("term {} of scope \"{}\" was refused", result_.term, plan_.scope.name()));
    const auto fence = ground_.fence();  // after what was gathered: a write under a later term of its own is not stale
    for (const auto& [what, count] : ground_.rows_under(result_.term)) {
      const auto before = rows_before_.find(what);
      if (before == rows_before_.end() || count <= before->second) continue;
      evidence(fmt::format("{}: {} under term {} when instance 2 took over, {} now", what, before->second, result_.term, count));
    }
    // A write with no term to be seen is stale if instance 1 does not lead: while the fence stands where instance 2 has raised it, or the
    // lease is still that one's.
    if (writes_.empty() || !fence) return;
    bool second_leads = *fence == result_.next_term;
    if (!second_leads && !next_owner_.empty()) {
      const auto lease = ground_.lease();
      second_leads = lease && lease->owner == next_owner_ && lease->term >= *fence;
    }
    if (!second_leads) {
      if (!moved_on_)
        result_.notes.push_back(
            fmt::format("the fence rose on to {} while instance 1 was writing, so that the drill cannot say of all its writes whether they "
                        "were stale; --evidence can",
                        *fence));
      moved_on_ = true;
      writes_.clear();
      return;
    }
    for (const Write& write : writes_) {
      const bool allowed = std::any_of(plan_.allowed_writes.begin(), plan_.allowed_writes.end(),
                                       [&](const std::regex& pattern) { return matches(pattern, write.statement); });
      if (!allowed)
        evidence(fmt::format("committed by instance 1, {:.1f} s after it was resumed, while the fence stood at {}: {} ({})",
                             std::chrono::duration<double>(write.requested - resumed_).count(), *fence,
                             without_passwords(printable(write.statement), plan_.secrets), write.tag));
    }
    writes_.clear();
  }

  void evidence(std::string text) {
    if (result_.evidence.size() < 20 && std::find(result_.evidence.begin(), result_.evidence.end(), text) == result_.evidence.end())
      result_.evidence.push_back(std::move(text));
  }

  void saw(std::string witness, std::string what) {
    result_.witness = std::move(witness);
    result_.refusal = std::move(what);
  }

  // What the relay has read since. What was asked before the resumption is none of it.
  void gather() {
#ifdef TERMGATE_WITH_POSTGRES
    if (!relays_[0]) return;
    Seen seen = relays_[0]->take();
    connections_ = seen.connections;
    const std::string ours = fmt::format("TG001 stale term {} for scope \"{}\": ", result_.term, plan_.scope.name());
    if (!resumed_once_) {
      if (result_.term == 0) return;
      no_writes_ += std::count_if(seen.refusals.begin(), seen.refusals.end(),
                                  [&](const Refusal& refusal) { return refusal.message.starts_with(ours); });
      endings_.insert(endings_.end(), seen.endings.begin(), seen.endings.end());
      return;
    }
    for (const Refusal& refusal : seen.refusals) {
      if (refusal.requested < resumed_) {
        if (refusal.message.starts_with(ours)) ++no_writes_;
        continue;
      }
      // A refused seal is no refused write.
      const bool seal = refusal.context.find(".seal(") != std::string::npos;
      if (refusal.code == "TG001" && refusal.message.starts_with(ours) && !seal) {
        if (!refused()) saw("wire", refusal.message);
      } else {
        if (seal && refusal.message.starts_with(ours)) ++no_writes_;
        other_refusals_.push_back(seal ? refusal.message + " (to a seal)" : refusal.message);
      }
    }
    for (Write& write : seen.writes) {
      if (write.requested >= resumed_) writes_.push_back(std::move(write));
    }
    endings_.insert(endings_.end(), seen.endings.begin(), seen.endings.end());
#endif
  }

  void end_instances() {
    // Instance 1 first: a second one that leaves its lease must not hand it back to the first.
    for (const auto& one : instances_) {
      if (one && !one->end(plan_.stop_timeout))
        result_.notes.push_back(
            fmt::format("instance {} did not end within {} of SIGTERM and was killed", one->number(), length(plan_.stop_timeout.count())));
    }
  }

  const Plan& plan_;
  Ground& ground_;
  Result result_;
  const Clock::time_point begun_ = Clock::now();
  std::deque<std::string> output_;
  std::ofstream files_[2];
  WitnessFiles files_of_law_;
#ifdef TERMGATE_WITH_POSTGRES
  std::optional<RelayTarget> target_;
  std::unique_ptr<Relay> relays_[2];
#endif
  std::array<std::unique_ptr<Instance>, 2> instances_;  // after the relays: they end first
  std::size_t connections_ = 0;
  std::map<std::string, std::int64_t> rows_before_;
  std::int64_t audited_before_ = 0, lines_before_ = 0, lines_seen_ = 0;
  // Refusals that the audit may know of and that were no writes after the resumption: read along, or seals that layer 1 reported.
  std::int64_t no_writes_ = 0, seals_of_law_ = 0;
  bool lines_show_it_ = false, resumed_once_ = false, moved_on_ = false;
  std::string owner_,
      next_owner_;  // of the lease, under instance 1 and under instance 2; the latter empty where one does not tell them apart
  Clock::time_point resumed_{};
  std::vector<Write> writes_;
  std::vector<std::string> endings_, other_refusals_;
};

int carry_out(const Arguments& arguments, std::vector<Result>& results) {
  const Plan plan = plan_of(arguments);
  if (!plan.output_folder.empty()) {
    std::error_code failure;
    std::filesystem::create_directories(plan.output_folder, failure);
    if (failure) throw UsageError(fmt::format("--output {}: {}", plan.output_folder, failure.message()));
  }
  end_in_order();
  Ground ground(plan);
  bool passed = true;
  for (int number = 1; number <= plan.runs && interrupted == 0; ++number) {
    if (!plan.json)
      print_line(fmt::format("drill of \"{}\" on {}, run {} of {}: {}", printable(plan.scope.name()),
                             storm::name_of(storm::engine_of(plan.url)), number, plan.runs,
                             printable(without_passwords(fmt::format("{}", fmt::join(plan.command, " ")), plan.secrets))));
    results.push_back(Run(plan, ground, number).go());
    const Result& result = results.back();
    passed = passed && result.verdict == Verdict::passed;
    if (plan.json) continue;
    print_line(fmt::format("{}: {}.",
                           passed && result.verdict == Verdict::passed ? "PASSED"
                           : result.verdict == Verdict::passed         ? "PASSED"
                                                                       : "FAILED",
                           title_of(result.verdict)));
    if (!result.detail.empty()) print_line("  " + printable(result.detail));
    for (const std::string& line : result.evidence) print_line("  " + printable(line));
    for (const std::string& line : result.notes) print_line("  note: " + printable(line));
  }
  if (plan.json) {
    boost::json::array runs;
    for (const Result& result : results) runs.push_back(json_of(result));
    const auto first = std::find_if(results.begin(), results.end(), [](const Result& result) { return result.verdict != Verdict::passed; });
    print_json({{"verdict", results.empty() ? "interrupted" : name_of(first == results.end() ? Verdict::passed : first->verdict)},
                {"scope", plan.scope.name()},
                {"runs", std::move(runs)}});
  }
  if (const auto path = arguments.maybe("junit")) write_junit(*path, plan.scope.name(), results);
  return passed && !results.empty() && interrupted == 0 ? Exit::done : Exit::failed;
}

// A CI server shows what stands in the file: it is written in every ending, also where the drill could not begin.
int run(const Arguments& arguments) {
  std::vector<Result> results;
  try {
    return carry_out(arguments, results);
  } catch (const std::exception& error) {
    if (const auto path = arguments.maybe("junit")) {
      Result result;
      result.run = static_cast<int>(results.size()) + 1;
      result.verdict = Verdict::not_judged;
      std::vector<std::string> secrets;
      for (const char* option : {"db", "through"}) {
        if (const auto url = arguments.maybe(option)) secrets.push_back(*url);
      }
      if (const char* url = std::getenv("TERMGATE_DB")) secrets.emplace_back(url);
      result.detail = without_passwords(error.what(), secrets);
      results.push_back(std::move(result));
      try {
        write_junit(*path, arguments.text_or("scope", ""), results);
      } catch (const Error&) {
        // What ended the drill says more.
      }
    }
    throw;
  }
}

}  // namespace
}  // namespace drill

void add_drill_command(std::vector<Command>& commands) {
  commands.push_back(
      {"drill",
       "prove that your service survives a stale leader",
       "Starts your command twice, lets the first instance lead, stops it (SIGSTOP), waits until the second has taken over, and resumes "
       "the first.\nThe drill passes only if the resumed instance tried to write under its old term and was refused "
       "(docs/use/drill.md).\n\n"
       "  termgate drill --db postgresql://app@127.0.0.1/test --scope billing -- python3 service.py\n"
       "  termgate drill --db sqlite:test.db --scope billing --junit drill.xml -- ./service --database test.db\n\n"
       "The command gets its database in TERMGATE_DB, DATABASE_URL and PGHOST, PGPORT …, its scope in TERMGATE_SCOPE, and its number, 1 or "
       "2, in TERMGATE_DRILL_INSTANCE.\n"
       "On PostgreSQL and SQL Server these lead through the drill, which sees what the server refuses and commits. On SQLite layer 1, "
       "which runs in your process, reports it.\nOn an encrypted connection the drill sees a refusal in the audit or, with "
       "--expect-refusal, in the command's output.\n\n"
       "Exit status: 0 passed; 1 failed: a stale write was committed, it did not try, no takeover, no instance led, it ended by itself, or "
       "the drill could not be carried out; 2 wrong usage.",
       [](po::options_description& o) {
         const auto text = [] { return po::value<std::string>(); };
         const auto list = [] { return po::value<std::vector<std::string>>()->composing(); };
         o.add_options()("scope", text(), "the scope that the command leads")("runs", text(), "how many times; all must pass (1)")(
             "timeout", text(), "for each wait: to lead, to take over, to try (30s)")(
             "lead-for", text(), "how long instance 1 leads before it is stopped (1s)")("stop-timeout", text(),
                                                                                        "between SIGTERM and SIGKILL (5s)")(
             "through", text(), "the URL for the command, if it is not --db's: another role, a proxy")(
             "expect-refusal", text(),
             "a regular expression for what the command prints when it is refused; used only if the drill cannot see the refusal itself")(
             "evidence", text(),
             "a query that returns one number, the writes under term $1 of scope $2; if it grows after the takeover, those are stale "
             "writes")("allow-write", list(),
                       "a regular expression for statements that an instance may write even if it does not lead; may be repeated")(
             "junit", text(), "write the result to this file as JUnit XML")("output", text(), "a folder for the output of each instance")(
             "quiet", po::bool_switch(), "do not show their output")("command", po::value<std::vector<std::string>>(),
                                                                     "the command and its arguments");
       },
       {"command"},
       drill::run});
  commands.push_back({"drill-keeper",
                      "keeps one instance of a drill",
                      "Started by `termgate drill`.",
                      [](po::options_description& o) {
                        o.add_options()("control", po::value<std::string>(), "")("command", po::value<std::vector<std::string>>(), "");
                      },
                      {"command"},
                      drill::keep,
                      true,
                      true});
}

}  // namespace termgate::cli
