// Long: one run of the drill, from its start to its verdict.
// Only a refusal that was seen counts. These witnesses can see it, the best one first:
//
//   wire     the relay between instance and server: what the server answered, statement by statement (PostgreSQL and SQL Server,
//            unencrypted)
//   layer1   layer 1 itself, which on SQLite runs in the instance's process: it writes each refused write into the file
//            TERMGATE_WITNESS
//   audit    layer 1's audit: what the library or the proxy has written down
//   output   what the command prints, where the user believes it (--expect-refusal) and the drill cannot read along
#include "drill/run.hpp"

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
#include <memory>
#include <tuple>

#include <fmt/format.h>

#include "drill/instance.hpp"
#include "drill/wire.hpp"
#include "output.hpp"
#include "secrets.hpp"
#include "storm/sql.hpp"
#ifdef TERMGATE_WITH_POSTGRES
#include "drill/relay.hpp"
#endif

namespace termgate::cli::drill {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<int> interrupted{0};
static_assert(std::atomic<int>::is_always_lock_free);
struct Interrupted {};

// One witness file for each instance, in a folder that is removed with this object.
class WitnessFiles {
 public:
  WitnessFiles()
      : folder_((std::filesystem::temp_directory_path() / "termgate-drill-XXXXXX").string()) {
    if (mkdtemp(folder_.data()) == nullptr) throw Error("drill: no temporary folder");
    // The instance may run as another user.
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

// One run. One thread; owns both instances, their relays and their files; borrows the plan and the
// ground. The member functions are in the order of the run.
class Run {
 public:
  Run(const Plan& plan, Ground& ground, int number) : plan_(plan), ground_(ground) {
    result_.run = number;
  }

  Result go();

 private:
  double since() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }

  void step(std::string what);
  bool fail(Verdict verdict, std::string detail);
  void on_line(int number, const std::string& line);
  void start(int number);

  // Finds where the command's connections lead. Throws Error, before anything is started, if they
  // are encrypted, so that the drill cannot read them, and --expect-refusal is not given.
  void find_the_way();

  // Notes it if the role lacks Termgate's privileges. Not an error: a service that takes terms from
  // elsewhere needs none.
  void tell_what_the_role_lacks(const std::string& role);

#if defined(TERMGATE_WITH_POSTGRES) && defined(TERMGATE_WITH_ODBC)
  // Puts a relay between the instance's ODBC driver and its server, if that connection can be read.
  void relay_odbc(int number, std::vector<std::string>& settings);
#endif

  std::vector<Instance*> all();
  void tick();

  // Waits until `what` returns true; returns false if `patience` ends first.
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

  bool both_run();
  std::string last_lines(const Instance& one) const;

  std::string trouble() const {
    return ground_.why_not().empty()
               ? ""
               : fmt::format("; the database reported: {}", ground_.why_not());
  }

  bool play();

  // Starts instance 1 and waits until the fence rises: no other instance runs yet. Then starts
  // instance 2 and checks that instance 1 still leads after --lead-for.
  bool lead();

  // Whether the fence is still at a term of instance 1. It may have risen since, if instance 1
  // acquires again instead of renewing its lease; result_.term is then the newer one.
  bool first_still_leads(std::int64_t fence);
  bool take_over();
  bool resume();

  bool refused() const { return !result_.witness.empty(); }

  void judge();

  // --- what was seen ---

  // Looks at all witnesses once more after the processes have ended, for buffered output, the
  // library's last report, and a write that was under way.
  void last_look();
  void look_at_output();
  void look_at_layer1();
  bool reads_along();
  void look_at_database();
  void evidence(std::string text);
  void saw(std::string witness, std::string what);

  // Takes what the relays have recorded. Statements sent before instance 1 was resumed do not
  // count.
  void gather();
  void end_instances();
  void tell_refusals();
  void note_refusals(int number, const std::vector<Refusal>& refusals);
  void give_back();

  const Plan& plan_;
  Ground& ground_;
  Result result_;
  const Clock::time_point begun_ = Clock::now();
  std::deque<std::string> output_;
  std::ofstream files_[2];
  WitnessFiles witness_files_;
#ifdef TERMGATE_WITH_POSTGRES
  std::optional<RelayTarget> target_;
  std::unique_ptr<Relay> relays_[2];
#endif
  // After the relays, so that the instances end first.
  std::array<std::unique_ptr<Instance>, 2> instances_;
  std::size_t connections_ = 0;
  std::map<std::string, std::int64_t> rows_before_;
  std::int64_t audited_before_ = 0, lines_before_ = 0, lines_seen_ = 0;
  // Refusals in the audit that were not refused writes after the resumption: seals, and those that
  // the relay saw earlier. `seals_in_layer1_` counts seals that layer 1 reported.
  std::int64_t no_writes_ = 0, seals_in_layer1_ = 0;
  bool lines_show_it_ = false, resumed_once_ = false, moved_on_ = false;
  // The lease's owner under instance 1 and under instance 2. The latter is empty if the two cannot
  // be distinguished.
  std::string owner_, next_owner_;
  Clock::time_point resumed_{};
  std::vector<Write> writes_;
  std::vector<std::string> endings_, other_refusals_;
  std::vector<std::string> refused_;  // refusals of either instance, with their hints
  // Whether instance 1 had ended before the drill ended both.
  std::optional<bool> first_ended_;
};

Result Run::go() {
  const auto judged = [this](const auto& part) {
    try {
      part();
    } catch (const Error& error) {
      result_.verdict = Verdict::not_judged;
      result_.detail = without_passwords(error.what(), plan_.secrets);
    } catch (const Interrupted&) {
      result_.verdict = Verdict::interrupted;
      result_.detail = fmt::format("by signal {}; both instances were ended", interrupted.load());
    }
  };
  judged([this] { play(); });
  end_instances();
  if (result_.verdict == Verdict::passed || result_.verdict == Verdict::did_not_try)
    judged([this] { last_look(); });
  tell_refusals();
  give_back();
  result_.seconds = since();
  const std::size_t some = 200;
  for (const auto& line : output_) result_.output.push_back(line);
  if (result_.output.size() > some)
    result_.output.erase(result_.output.begin(), result_.output.end() - some);
  return std::move(result_);
}

// Adds the refusals to the result: they say why a service did not lead or write, and their hints
// say what to do.
void Run::tell_refusals() {
#ifdef TERMGATE_WITH_POSTGRES
  gather();
  if (relays_[1]) note_refusals(2, relays_[1]->take().refusals);
#endif
  for (const auto& refusal : refused_) {
    if (result_.verdict == Verdict::passed) result_.notes.push_back(refusal);
    else result_.detail += ". " + refusal;
  }
}

// Notes refusals other than the one that the drill waits for. Each is noted once, because a service
// tries again and again.
void Run::note_refusals(int number, const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    if (refusal.code == "TG001") continue;
    const std::string text =
        fmt::format("Instance {} was refused: {}{}{}", number,
                    without_passwords(printable(refusal.message), plan_.secrets),
                    refusal.hint.empty() ? "" : " Hint: ", printable(refusal.hint));
    if (refused_.size() < 10 && std::find(refused_.begin(), refused_.end(), text) == refused_.end())
      refused_.push_back(text);
  }
}

// Releases the lease that an instance left, so that nobody has to wait until it expires and no
// alert fires.
void Run::give_back() {
  if (result_.term == 0) return;
  try {
    const auto lease = ground_.lease();
    if (lease && !lease->released_at_ms && lease->term >= result_.term) ground_.give_back(*lease);
  } catch (const Error& error) {
    result_.notes.push_back(fmt::format("the lease of \"{}\" is left to run out: {}",
                                        plan_.scope.name(),
                                        without_passwords(error.what(), plan_.secrets)));
  }
}

void Run::step(std::string what) {
  result_.steps.push_back({since(), what});
  if (plan_.json) return;
  print_line(fmt::format("{:6.1f} s  {}", since(), printable(what)));
  std::fflush(stdout);
}

bool Run::fail(Verdict verdict, std::string detail) {
  result_.verdict = verdict;
  result_.detail = std::move(detail);
  return false;
}

void Run::on_line(int number, const std::string& line) {
  const std::string shown = without_passwords(line, plan_.secrets);
  output_.push_back(fmt::format("{}| {}", number, printable(shown)));
  if (output_.size() > 1000) output_.pop_front();
  if (!plan_.quiet) fmt::print(stderr, "{}\n", output_.back());
  std::ofstream& file = files_[number - 1];
  if (file.is_open()) file << shown << std::endl;
}

void Run::start(int number) {
  if (!plan_.output_folder.empty())
    files_[number - 1].open(
        fmt::format("{}/run{}.instance{}.log", plan_.output_folder, result_.run, number));
  std::vector<std::string> settings = {"TERMGATE_SCOPE=" + plan_.scope.name(),
                                       fmt::format("TERMGATE_DRILL={}", result_.run),
                                       fmt::format("TERMGATE_DRILL_INSTANCE={}", number)};
  if (storm::is_sqlite(plan_.url)) {
    const std::string rest = plan_.url.substr(plan_.url.find(':') + 1);
    const auto query = std::min(rest.find('?'), rest.size());
    const std::string path = std::filesystem::absolute(rest.substr(0, query)).string();
    settings.push_back("TERMGATE_DB=sqlite:" + path + rest.substr(query));
    settings.push_back("DATABASE_URL=sqlite:///" + path);
    settings.push_back("TERMGATE_WITNESS=" + witness_files_.path(number));
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
        for (std::string& setting : relays_[number - 1]->settings())
          settings.push_back(std::move(setting));
      }
    }
#endif
  }
  instances_[number - 1] =
      std::make_unique<Instance>(number, plan_.command, settings,
                                 [this](int who, const std::string& line) { on_line(who, line); });
  step(fmt::format("instance {} started (pid {})", number, instances_[number - 1]->pid()));
}

void Run::find_the_way() {
#ifdef TERMGATE_WITH_POSTGRES
  if (storm::is_sqlite(plan_.url) || target_) return;
  std::string why, cure;
  RelayTarget target;
#ifdef TERMGATE_WITH_ODBC
  if (storm::is_odbc(plan_.through)) {
    try {
      std::tie(target.host, target.port) = storm::place_of_odbc(plan_.through);
    } catch (const Unavailable&) { throw; } catch (const TermRequired& error) {
      throw Error(
          fmt::format("--through is a proxy that refuses the drill's own look at it ({}): start it "
                      "with --without-term allow. "
                      "A command that declares its term is checked all the same",
                      error.what()));
    } catch (const Error& error) {
      target.encrypted = true;
      why = error.what();
      cure = storm::engine_of(plan_.through) == storm::Engine::sqlserver
                 ? "put Encrypt=no into the connection string"
                 : "put SSLmode=disable into the connection string";
    }
  } else
#endif
  {
    target = locate(plan_.through);
    why = target.demanded.empty() ? "the server takes encrypted connections only"
                                  : "the URL demands " + target.demanded;
    cure =
        "put sslmode=disable into the URL of --through or --db, for a server that takes plain "
        "connections";
    tell_what_the_role_lacks(target.user);
  }
  if (target.encrypted) {
    if (!plan_.expect_refusal)
      throw Error(
          fmt::format("the command's connections are encrypted ({}), so that the drill cannot see "
                      "what the server refuses: {}; or give "
                      "--expect-refusal, what the command prints when it is refused",
                      why, cure));
    result_.notes.push_back(
        fmt::format("the command's connections are encrypted ({}), so that the drill cannot read "
                    "along: it believes what the command "
                    "prints (--expect-refusal). To see for itself: {}",
                    why, cure));
  }
  target_ = std::move(target);
#endif
}

void Run::tell_what_the_role_lacks(const std::string& role) {
  const auto access = ground_.access(role);
  if (!access || access->level >= 3) return;
  std::string note = fmt::format(
      "the command connects as role {}, which has {}; if it takes leases it needs level lead: {}",
      role, access->level_name(), grant_command(plan_.schema, role, "lead"));
  step(note);
  result_.notes.push_back(std::move(note));
}

#if defined(TERMGATE_WITH_POSTGRES) && defined(TERMGATE_WITH_ODBC)
void Run::relay_odbc(int number, std::vector<std::string>& settings) {
  if (target_->encrypted) return;
  relays_[number - 1] =
      std::make_unique<Relay>(*target_, storm::engine_of(plan_.through) == storm::Engine::sqlserver
                                            ? Relay::Speaks::tds
                                            : Relay::Speaks::postgresql);
  const std::string url = storm::beside(plan_.through, relays_[number - 1]->port());
  settings.erase(settings.end() - 2, settings.end());
  settings.push_back("TERMGATE_DB=" + url);
  settings.push_back("DATABASE_URL=" + url);
}
#endif

std::vector<Instance*> Run::all() {
  std::vector<Instance*> those;
  for (const auto& one : instances_) {
    if (one) those.push_back(one.get());
  }
  return those;
}

void Run::tick() {
  Instance::pump(all(), milliseconds(20));
  gather();
  if (interrupted != 0) throw Interrupted{};
}

bool Run::both_run() {
  for (Instance* one : all()) {
    if (one->running()) continue;
    fail(Verdict::ended_by_itself,
         fmt::format("instance {} ended {} before it was stopped; its last lines: {}",
                     one->number(), one->how_it_ended(), last_lines(*one)));
    return false;
  }
  return true;
}

std::string Run::last_lines(const Instance& one) const {
  std::string text;
  const auto& lines = one.lines();
  for (std::size_t i = lines.size() < 3 ? 0 : lines.size() - 3; i < lines.size(); ++i)
    text +=
        (text.empty() ? "" : " / ") + without_passwords(printable(lines[i].text), plan_.secrets);
  return text.empty() ? "(it printed nothing)" : text;
}

bool Run::play() {
  find_the_way();
  return lead() && take_over() && resume();
}

bool Run::lead() {
  const std::int64_t before = ground_.fence_now();
  if (const auto lease = ground_.lease(); lease && lease->remaining_ms > 0) {
    const auto seen = lease->renewed_at_ms;
    const auto owner = lease->owner;
    step(fmt::format("the lease is {}'s for another {}", owner, length(lease->remaining_ms)));
    const bool over = wait(plan_.timeout, milliseconds(50), [&] {
      const auto now = ground_.lease();
      if (now && now->remaining_ms > 0 && (now->renewed_at_ms != seen || now->owner != owner))
        throw UsageError(
            fmt::format("{} leads scope \"{}\" and renews its lease: a drill needs a scope that "
                        "has no other leader",
                        now->owner, plan_.scope.name()));
      return !now || now->remaining_ms <= 0;
    });
    if (!over)
      return fail(
          Verdict::nobody_led,
          fmt::format("the lease left behind by {} does not end within {}; --timeout waits longer",
                      owner, length(plan_.timeout.count())));
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
                fmt::format("the fence of scope \"{}\" did not rise above {} within {}{}. Instance "
                            "1 printed last: {}",
                            plan_.scope.name(), before, length(plan_.timeout.count()), trouble(),
                            last_lines(*instances_[0])));
  step(fmt::format("it leads \"{}\" under term {}", plan_.scope.name(), result_.term));
  if (const auto lease = ground_.lease(); lease && lease->term >= result_.term)
    owner_ = lease->owner;
  start(2);
  wait(plan_.lead_for, milliseconds(20), [&] {
    alive = both_run();
    return !alive;
  });
  if (!alive) return false;
  const std::int64_t led_first = result_.term;
  if (const std::int64_t now = ground_.fence_now(); !first_still_leads(now))
    return fail(
        Verdict::nobody_led,
        fmt::format(
            "nobody led for {}: the fence rose from {} to {} while instance 1 was running. A "
            "drill needs a command whose second instance waits while the first one leads",
            length(plan_.lead_for.count()), led_first, now));
  return true;
}

bool Run::first_still_leads(std::int64_t fence) {
  if (fence == result_.term) return true;
  const auto lease = ground_.lease();
  if (owner_.empty() || !lease || lease->owner != owner_ || lease->term < fence) return false;
  result_.term = lease->term;
  return true;
}

bool Run::take_over() {
  Instance& first = *instances_[0];
  first.stop();
  for (int again = 0; ground_.locked(); ++again) {
    if (again == 50)
      return fail(Verdict::no_takeover,
                  "instance 1 was stopped fifty times, and each time in the middle of a write "
                  "transaction, which on SQLite keeps "
                  "everybody else out. It should not keep one open");
    first.resume();
    wait(milliseconds(20 + 7 * again), milliseconds(20), [] { return false; });
    first.stop();
  }
  if (!first.running()) return !both_run() && false;
  const std::int64_t led = result_.term;
  // If the lease already belongs to instance 2, the takeover has happened: the old leader is
  // stopped and does not know.
  const auto taken_over = [&] {
    const auto lease = ground_.lease();
    return !owner_.empty() && lease && lease->owner != owner_;
  };
  if (const std::int64_t now = ground_.fence_now(); !first_still_leads(now) && !taken_over())
    return fail(Verdict::nobody_led,
                fmt::format("the fence rose from {} to {} in the moment in which instance 1 was "
                            "stopped: run the drill again",
                            led, now));
  step("instance 1 stopped (SIGSTOP), with all that it has started");
  bool alive = true;
  const bool taken = wait(plan_.timeout, milliseconds(20), [&] {
    const auto now = ground_.fence();
    if (now && *now > result_.term) result_.next_term = *now;
    alive = instances_[1]->running();
    return result_.next_term > 0 || !alive;
  });
  if (result_.next_term == 0 && !alive)
    return fail(Verdict::ended_by_itself,
                fmt::format("instance 2 ended {} instead of taking over; its last lines: {}",
                            instances_[1]->how_it_ended(), last_lines(*instances_[1])));
  if (!taken || result_.next_term == 0) {
    std::string lease;
    if (const auto info = ground_.lease(); info && info->remaining_ms > 0)
      lease = fmt::format(" The lease is {}'s for another {}.", info->owner,
                          length(info->remaining_ms));
    return fail(Verdict::no_takeover, fmt::format("the fence stayed at {} for {} after instance 1 "
                                                  "was stopped{}.{} Instance 2 printed last: {}",
                                                  result_.term, length(plan_.timeout.count()),
                                                  trouble(), lease, last_lines(*instances_[1])));
  }
  step(fmt::format("instance 2 took over: term {}", result_.next_term));
  if (const auto now = ground_.lease();
      now && now->term >= result_.next_term && now->owner != owner_)
    next_owner_ = now->owner;
  return true;
}

bool Run::resume() {
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
    look_at_layer1();
    if (Clock::now() >= next_look) {
      look_at_database();
      next_look = Clock::now() + milliseconds(200);
    }
    breached = !result_.evidence.empty();
    return breached || refused() || !first.running();
  });
  if (refused() && !breached) {
    step(fmt::format("instance 1 refused (seen by {}): {}", result_.witness, result_.refusal));
    // Wait a little: it may go on to write where nothing refuses it.
    wait(milliseconds(500), milliseconds(100), [&] {
      look_at_database();
      return !result_.evidence.empty();
    });
  }
  judge();
  return true;
}

void Run::judge() {
  Instance& first = *instances_[0];
  if (!result_.evidence.empty()) {
    fail(Verdict::stale_write_committed,
         fmt::format("instance 1 wrote under term {} after instance 2 had taken over with term {}, "
                     "and nothing refused it. Protect the "
                     "table that it writes to (`termgate protect TABLE --scope-column COLUMN`, or "
                     "--scope), or call check_term in the "
                     "transaction that writes",
                     result_.term, result_.next_term));
    return;
  }
  if (refused()) {
    fail(Verdict::passed, "");
    return;
  }
  // Once the drill has ended both instances, only first_ended_ says whether this one ended by
  // itself.
  std::string why = first_ended_.value_or(!first.running())
                        ? fmt::format("it ended {} instead", first.how_it_ended())
                        : fmt::format("for {} after it was resumed", length(plan_.timeout.count()));
  if (!endings_.empty())
    why += fmt::format(
        ". The server had ended its session while it was stopped ({}), and it did not try again: "
        "that is the fence's work too, but no "
        "refused write",
        endings_.back());
  if (!other_refusals_.empty())
    why += fmt::format(". It got the error {}: that is not a refusal as stale",
                       other_refusals_.back());
#ifdef TERMGATE_WITH_POSTGRES
  if (relays_[0] && connections_ == 0)
    why +=
        ". It has made no connection by way of the drill: it has to take its server from "
        "TERMGATE_DB, DATABASE_URL or PGHOST and PGPORT";
#endif
  if (lines_show_it_) why += ". It reported a refusal, but nothing else confirms it";
  if (storm::is_sqlite(plan_.url) && !plan_.evidence)
    why += ". A write to a table that nothing guards is not seen on SQLite, but for --evidence";
  why +=
      ". If it looks at its own clock before it writes, let it write without that look when "
      "TERMGATE_DRILL is set: the fence is what is "
      "tested";
  fail(Verdict::did_not_try,
       fmt::format("no refused write was seen: {}. It printed last: {}", why, last_lines(first)));
}

void Run::last_look() {
  if (!resumed_once_) return;
  look_at_output();
  look_at_layer1();
  gather();
  look_at_database();
  judge();
}

void Run::look_at_output() {
  Instance& first = *instances_[0];
  const std::string ours =
      fmt::format("TG001 stale term {} for scope \"{}\"", result_.term, plan_.scope.name());
  for (const Line& line : first.lines()) {
    if (line.number < std::max(lines_before_, lines_seen_)) continue;
    lines_seen_ = line.number + 1;
    const bool shows = plan_.expect_refusal ? matches(*plan_.expect_refusal, line.text)
                                            : line.text.find(ours) != std::string::npos;
    if (!shows) continue;
    lines_show_it_ = true;
    if (!refused() && plan_.expect_refusal && !reads_along())
      saw("output", without_passwords(printable(line.text), plan_.secrets));
  }
}

void Run::look_at_layer1() {
  if (refused()) return;
  std::ifstream file(witness_files_.path(1));
  const std::string all = "\n" + std::string(std::istreambuf_iterator<char>(file), {});
  // Search for the whole entry, not line by line: a scope's name may contain line breaks.
  if (all.find(fmt::format("\nTG001 {} {}\n", result_.term, plan_.scope.name())) !=
      std::string::npos)
    saw("layer1",
        fmt::format("TG001 stale term {} for scope \"{}\"", result_.term, plan_.scope.name()));
  const std::string seal = fmt::format("\nseal {} {}\n", result_.term, plan_.scope.name());
  seals_in_layer1_ = 0;
  for (auto at = all.find(seal); at != std::string::npos; at = all.find(seal, at + seal.size() - 1))
    ++seals_in_layer1_;
}

bool Run::reads_along() {
#ifdef TERMGATE_WITH_POSTGRES
  return relays_[0] && connections_ > 0;
#else
  return false;
#endif
}

void Run::look_at_database() {
  const std::int64_t audited =
      refused() ? 0 : ground_.audited_refusals(result_.term) - audited_before_;
  if (audited > 0) {
    // The refusal was sent before the audit was written, so the better witnesses have it by now.
    gather();
    look_at_layer1();
  }
  if (!refused() && audited > no_writes_ + seals_in_layer1_)
    saw("audit",
        fmt::format("term {} of scope \"{}\" was refused", result_.term, plan_.scope.name()));
  // Read after gather(): a write by instance 1 under a later term of its own is not stale.
  const auto fence = ground_.fence();
  for (const auto& [what, count] : ground_.rows_under(result_.term)) {
    const auto before = rows_before_.find(what);
    if (before == rows_before_.end() || count <= before->second) continue;
    evidence(fmt::format("{}: {} under term {} when instance 2 took over, {} now", what,
                         before->second, result_.term, count));
  }
  // A write whose term cannot be seen is stale if instance 1 no longer leads: while the fence is at
  // instance 2's term, or the lease is still instance 2's.
  if (writes_.empty() || !fence) return;
  bool second_leads = *fence == result_.next_term;
  if (!second_leads && !next_owner_.empty()) {
    const auto lease = ground_.lease();
    second_leads = lease && lease->owner == next_owner_ && lease->term >= *fence;
  }
  if (!second_leads) {
    if (!moved_on_)
      result_.notes.push_back(
          fmt::format("the fence rose on to {} while instance 1 was writing, so that the drill "
                      "cannot say of all its writes whether they "
                      "were stale; --evidence can",
                      *fence));
    moved_on_ = true;
    writes_.clear();
    return;
  }
  for (const Write& write : writes_) {
    const bool allowed =
        std::any_of(plan_.allowed_writes.begin(), plan_.allowed_writes.end(),
                    [&](const std::regex& pattern) { return matches(pattern, write.statement); });
    if (!allowed)
      evidence(
          fmt::format("committed by instance 1, {:.1f} s after it was resumed, while the fence "
                      "stood at {}: {} ({})",
                      std::chrono::duration<double>(write.requested - resumed_).count(), *fence,
                      without_passwords(printable(write.statement), plan_.secrets), write.tag));
  }
  writes_.clear();
}

void Run::evidence(std::string text) {
  if (result_.evidence.size() < 20 &&
      std::find(result_.evidence.begin(), result_.evidence.end(), text) == result_.evidence.end())
    result_.evidence.push_back(std::move(text));
}

void Run::saw(std::string witness, std::string what) {
  result_.witness = std::move(witness);
  result_.refusal = std::move(what);
}

void Run::gather() {
#ifdef TERMGATE_WITH_POSTGRES
  if (!relays_[0]) return;
  Seen seen = relays_[0]->take();
  note_refusals(1, seen.refusals);
  connections_ = seen.connections;
  const std::string ours =
      fmt::format("TG001 stale term {} for scope \"{}\": ", result_.term, plan_.scope.name());
  if (!resumed_once_) {
    if (result_.term == 0) return;
    no_writes_ +=
        std::count_if(seen.refusals.begin(), seen.refusals.end(),
                      [&](const Refusal& refusal) { return refusal.message.starts_with(ours); });
    endings_.insert(endings_.end(), seen.endings.begin(), seen.endings.end());
    return;
  }
  for (const Refusal& refusal : seen.refusals) {
    if (refusal.requested < resumed_) {
      if (refusal.message.starts_with(ours)) ++no_writes_;
      continue;
    }
    // A refused seal is not a refused write.
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

void Run::end_instances() {
  first_ended_ = instances_[0] && !instances_[0]->running();
  // Instance 1 first: if instance 2 released its lease first, instance 1 would take it over.
  for (const auto& one : instances_) {
    if (one && !one->end(plan_.stop_timeout))
      result_.notes.push_back(
          fmt::format("instance {} did not end within {} of SIGTERM and was killed", one->number(),
                      length(plan_.stop_timeout.count())));
  }
}

}  // namespace

void end_in_order_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { interrupted = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

bool is_interrupted() noexcept { return interrupted != 0; }

Result play(const Plan& plan, Ground& ground, int number) { return Run(plan, ground, number).go(); }

}  // namespace termgate::cli::drill
