// What the proxy knows besides the bytes of its sessions: rules, term files, leases of hosts,
// fences.
//
// Owner: the command. Threads: any may call. The comment of each mutex says what it guards. None is
// held while a subscriber's callback runs, except `calling`, which lets subscribe(nullptr) return
// only after the last call. Members are destroyed from the last to the first: the threads of
// `watches`, `watch` and `gate_watch` use those above them.
#include <termgate/authority/authority.hpp>

#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include <termgate/authority/term_file.hpp>
#include <termgate/database.hpp>
#include <termgate/detail/gate_feed.hpp>
#include <termgate/detail/refusal_log.hpp>
#include <termgate/error.hpp>
#include <termgate/operator.hpp>

#include "fence_book.hpp"
#include "fence_watch.hpp"
#include "gate_watch.hpp"
#include "host_lease.hpp"
#include "watches.hpp"
#include "workers.hpp"

namespace termgate::authority {

using std::chrono::milliseconds;

namespace {

constexpr int worker_threads = 8;  // renewals and takeovers that may wait for the database at once
constexpr std::size_t leases_max =
    1000;  // holders at once; a holder's name can come from the client
constexpr milliseconds refusals_pause{1000};
constexpr milliseconds polled_pause{1000};  // between two readings of all fences, if polls()
// How often the database is queried for raises that wait for a seat or a gate, and after how long
// without an answer every gate counts as wanted. Seats are queried more often, because that query
// is cheap.
constexpr milliseconds seats_pause{20}, gates_pause{50}, gate_answer_max{300};

class Constant final : public conversation::TermSource {
 public:
  explicit Constant(Standing standing) : standing_(std::move(standing)) {}
  Standing now() const override { return standing_; }

 private:
  const Standing standing_;
};

std::shared_ptr<const conversation::TermSource> without(std::string why,
                                                        const char* code = "TG002") {
  conversation::TermSource::Standing standing;
  standing.why_not = std::move(why);
  standing.problem_code = code;
  return std::make_shared<Constant>(std::move(standing));
}

std::string name_of_machine() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

// Whether a text, which may come from the network, is a valid scope.
bool is_scope(std::string_view scope) { return name_problem(scope) == nullptr; }

std::int64_t milliseconds_since_1970() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A lock service takes two processes with the same name for one owner, so each process appends a
// random text.
std::string mark_of_process() {
  std::random_device chance;
  return fmt::format(" by proxy {:08x}{:08x}", chance(), chance());
}

}  // namespace

struct Authority::Inside {
  // A session under a lease rule, from its admission to its end.
  struct Known {
    std::shared_ptr<HostLease> lease;
    std::shared_ptr<PeerLiveness> liveness;
    bool open = false;
    std::string database;
  };

  explicit Inside(Settings given) : settings(std::move(given)) {
    if (!settings.log) settings.log = [](Settings::Weight, std::string_view) {};
    if (settings.machine.empty()) settings.machine = name_of_machine();
    if (!settings.rules_path.empty()) rules = std::make_shared<const Rules>(rules_of_file());
    const auto opened = open_sources(*rules);
    if (!settings.database_url.empty()) use_database();
    pass_on_warnings(opened);
    // Last: the destructor ends this thread, and does not run if something above has thrown.
    watch_files(*rules);
  }

  Rules rules_of_file() const {
    Rules read = read_rules(settings.rules_path);
    for (const Rule& rule : read.all) {
      if (rule.on_stale == conversation::OnStale::disconnect && polls())
        throw WrongRules(
            fmt::format("{}:{}: rule \"{}\": on-stale = disconnect is for PostgreSQL only; in "
                        "front of SQL Server write "
                        "on-stale = error, or leave it out",
                        settings.rules_path, rule.line, rule.name));
    }
    return read;
  }

  // A database without notifications is polled for the fences that others raise.
  bool polls() const {
    return settings.database_url.starts_with("sqlserver:") ||
           settings.database_url.starts_with("odbc:");
  }

  void use_database() {
    OpenOptions options;
    options.schema = settings.schema;
    // One connection for each worker, one for the watch and one spare, so that no renewal waits for
    // a connection.
    options.connections_max = worker_threads + 2;
    options.answer_wait =
        milliseconds(20'000);  // longer than an acquisition may take: grace and check_wait
    database.emplace(Database::open(settings.database_url, options));
    auto feed = detail::open_fence_feed(settings.database_url, settings.schema);
    workers.emplace(worker_threads);
    const auto log_as = [this](Settings::Weight weight) {
      return [this, weight](const std::string& line) { settings.log(weight, line); };
    };
    common.emplace(HostLease::Common{
        *workers, *database, settings.settle_wait,
        [this](const std::string& scope, std::int64_t fence) { own->believe(scope, fence); },
        log_as(Settings::Weight::info)});
    if (feed) {
      Watches::Options others;
      others.url = settings.database_url;
      others.schema = settings.schema;
      others.databases_max = settings.watched_databases_max;
      others.pause = settings.fences_pause;
      others.idle_pause = settings.watch_idle_pause;
      others.keep_pause = settings.watch_keep_pause;
      others.rose = [this](const FenceBook& book, std::string_view scope, std::int64_t fence) {
        rose(book, scope, fence);
      };
      others.failed = log_as(Settings::Weight::warning);
      others.recovered = log_as(Settings::Weight::info);
      watches.emplace(std::move(others));
    } else {
      one_for_all = true;
    }
    FenceWatch::Events events;
    events.known = [this](const std::string& name, const std::string& owner) {
      {
        const std::lock_guard lock(own_name_mutex);
        own_name = name;
      }
      watches->begin(owner);
    };
    events.failed = log_as(Settings::Weight::error);
    events.recovered = log_as(Settings::Weight::info);
    const milliseconds pause =
        polls() ? std::min(settings.fences_pause, polled_pause) : settings.fences_pause;
    watch.emplace(*own, *database, std::move(feed), settings.schema, pause, std::move(events));
    watch_for_hints = &*watch;
    const bool seats = settings.database_url.starts_with("postgres");
    if (auto gates = seats && settings.seat_checks == 0
                         ? nullptr
                         : detail::open_gate_feed(settings.database_url, settings.schema)) {
      // While the proxy cannot reach its database, the watch of the fences logs the reason, and a
      // second line would add nothing.
      const auto noted = [this, log = log_as(Settings::Weight::info)](const std::string& message) {
        const bool watched = own->watched();
        if (watched) log(message);
        return watched;
      };
      gate_watch.emplace(std::move(gates), seats ? seats_pause : gates_pause, gate_answer_max,
                         GateWatch::Events{[this](std::string_view scope, bool certain) {
                                             gate_wanted(scope, certain);
                                           },
                                           log_as(Settings::Weight::error), noted});
    }
    report_later();
  }

  void gate_wanted(std::string_view scope, bool certain) {
    const std::lock_guard lock(calling);
    if (gate_callback) gate_callback(scope, certain);
  }

  void rose(const FenceBook& book, std::string_view scope, std::int64_t fence) {
    if (&book == own.get()) {
      for (const auto& lease : all_leases()) {
        if (lease->scope().name() == scope) lease->fence_rose(fence);
      }
    }
    const std::lock_guard lock(calling);
    if (callback) callback(book.id(), scope, fence);
  }

  // Whether the database that a start-up message names is that of database_url. nullopt: not known
  // yet.
  std::optional<bool> is_own(std::string_view name) const {
    if (one_for_all) return true;
    const std::lock_guard lock(own_name_mutex);
    if (!own_name) return std::nullopt;
    return *own_name == name;
  }

  ~Inside() {
    {
      const std::lock_guard lock(stop_mutex);
      stopping = true;
    }
    stopped.notify_all();
    watch_for_hints = nullptr;
    if (looker.joinable()) looker.join();
    // Taken before the workers drop their tasks, because a task may hold the last reference to a
    // lease whose last session has just ended.
    const auto held = all_leases();
    if (workers) workers->stop();
    for (const auto& lease : held) {
      // An unreachable database is tried once, not once for each lease, because the end must not
      // take minutes.
      if (!lease->give_back_now()) break;
    }
  }

  // A new TermFile reads its file. That may hang, so it is made without the lock.
  std::shared_ptr<TermFile> watched(const std::string& path) {
    {
      const std::lock_guard lock(files_mutex);
      if (auto file = files[path].lock()) return file;
    }
    auto made = std::make_shared<TermFile>(path, highest_terms);
    const std::lock_guard lock(files_mutex);
    if (auto file = files[path].lock()) return file;
    files[path] = made;
    return made;
  }

  // A file that is watched already is kept, because sessions may hold it. look_at_files() drops one
  // that no rule and no session uses any more.
  void watch_files(const Rules& of) {
    std::map<std::string, std::shared_ptr<TermFile>> kept;
    for (const Rule& rule : of.all) {
      if (const auto* source = std::get_if<FileTerm>(&rule.source))
        kept[source->path] = watched(source->path);
    }
    const std::lock_guard lock(files_mutex);
    files_of_rules = std::move(kept);
    if (!files_of_rules.empty() && !looker.joinable())
      looker = std::thread([this] { look_at_files(); });
  }

  // Opens the lock services of the rules and returns the new ones. Throws InvalidInput, and then
  // nothing has changed. Rules that name the same service share one object, which remembers the
  // terms that it has seen, even across a reload.
  std::vector<std::shared_ptr<LeaseSource>> open_sources(const Rules& of) {
    std::map<std::string, std::shared_ptr<LeaseSource>> opened;
    std::vector<std::shared_ptr<LeaseSource>> fresh;
    for (const Rule& rule : of.all) {
      const auto* lease = std::get_if<LeaseTerm>(&rule.source);
      if (lease == nullptr || lease->url.empty() || opened.contains(lease->url)) continue;
      const auto fail = [&](const std::string& why) {
        return WrongRules(
            fmt::format("{}:{}: rule \"{}\": {}", settings.rules_path, rule.line, rule.name, why));
      };
      if (!settings.open_source) throw fail("this program was built without term sources");
      const std::lock_guard lock(mutex);
      const auto known = sources.find(lease->url);
      auto& source = opened[lease->url];
      if (known != sources.end()) {
        source = known->second;
        continue;
      }
      try {
        source = settings.open_source(lease->url);
      } catch (const Error& error) { throw fail(error.what()); }
      fresh.push_back(source);
    }
    const std::lock_guard lock(mutex);
    sources.merge(opened);
    return fresh;
  }

  void pass_on_warnings(std::vector<std::shared_ptr<LeaseSource>> of) {
    if (!workers || of.empty()) return;
    workers->at(Workers::Clock::now(), [this, of = std::move(of)] {
      for (const auto& source : of) {
        try {
          for (const std::string& warning : source->warnings())
            settings.log(Settings::Weight::warning, warning);
        } catch (const std::exception&) {}  // the error appears when a lease is taken there
      }
    });
  }

  // The files are checked without the locks of this class, because stat() on a network file system
  // may hang.
  void look_at_files() {
    std::unique_lock lock(stop_mutex);
    while (!stopped.wait_for(lock, settings.file_pause, [this] { return stopping; })) {
      lock.unlock();
      std::vector<std::shared_ptr<TermFile>> alive;
      {
        const std::lock_guard files_lock(files_mutex);
        for (auto file = files.begin(); file != files.end();) {
          if (auto held = file->second.lock()) {
            alive.push_back(std::move(held));
            ++file;
          } else {
            file = files.erase(file);
          }
        }
      }
      for (const auto& file : alive) file->look();
      lock.lock();
    }
  }

  std::shared_ptr<const conversation::TermSource> source_of(const Rule& rule, std::uint64_t session,
                                                            const ConnectRequest& request) {
    if (const auto* fixed = std::get_if<FixedTerm>(&rule.source)) {
      conversation::TermSource::Standing standing;
      standing.scope = fixed->scope;
      standing.term = fixed->term;
      if (!fixed->term)
        standing.why_not = fmt::format("no term declared for scope \"{}\", which rule \"{}\" gives",
                                       fixed->scope.name(), rule.name);
      return std::make_shared<Constant>(std::move(standing));
    }
    // A reload may just have dropped the file; this request still uses the former rules.
    if (const auto* file = std::get_if<FileTerm>(&rule.source)) return watched(file->path);
    if (const auto* lease = std::get_if<LeaseTerm>(&rule.source))
      return lease_of(rule, *lease, session, request);
    return nullptr;
  }

  std::shared_ptr<const conversation::TermSource> lease_of(const Rule& rule, const LeaseTerm& term,
                                                           std::uint64_t session,
                                                           const ConnectRequest& request) {
    if (!database)
      return without(fmt::format(
          "no term for scope \"{}\": this proxy knows no database that could hold its lease",
          term.scope.name()));
    const std::string holder = holder_of(term.holder, request, settings.machine);
    if (const char* problem = name_problem(holder))
      return without(fmt::format("the holder of the lease of scope \"{}\" would be malformed: {}",
                                 term.scope.name(), problem),
                     "TG005");
    const std::lock_guard lock(mutex);
    const auto key = std::make_tuple(term.scope.name(), holder, term.url);
    const auto known = leases.find(key);
    auto lease = known == leases.end() ? nullptr : known->second.lock();
    if (!lease) {
      // A client may choose the holder's name, so the size of the map must have a limit.
      if (leases.size() >= leases_max)
        std::erase_if(leases, [](const auto& entry) { return entry.second.expired(); });
      if (leases.size() >= leases_max) {
        return without(
            fmt::format("no term for scope \"{}\": {} holders of leases are known already, the "
                        "most that this proxy keeps",
                        term.scope.name(), leases_max));
      }
      auto origin =
          term.url.empty()
              ? lease_of_database(
                    *database, term.scope, holder,
                    fmt::format("rule \"{}\" has takeover = newest, and {} has connected",
                                rule.name, holder))
              : lease_of_source(sources.at(term.url), *database, term.scope, holder + own_mark);
      lease = std::make_shared<HostLease>(*common, term.scope, holder, std::move(origin));
      leases[key] = lease;
    }
    lease->set(term.ttl, term.takeover);
    sessions[session] = {lease, request.liveness, false, request.login.database};
    return std::make_shared<LeaseHere>(*this, lease, request.login.database);
  }

  // A lease orders the writers of the database that keeps it. Sessions of another database get no
  // term from it, because it would seal nothing there.
  class LeaseHere final : public conversation::TermSource {
   public:
    LeaseHere(const Inside& inside, std::shared_ptr<const HostLease> lease, std::string database)
        : inside_(inside), lease_(std::move(lease)), database_(std::move(database)) {}
    Standing now() const override {
      if (inside_.is_own(database_).value_or(true)) return lease_->now();
      Standing standing;
      standing.why_not = fmt::format(
          "no term for scope \"{}\": its lease is kept in the database of --backend, and this "
          "session is in \"{}\"; a proxy of its own can "
          "hold a lease there",
          lease_->scope().name(), database_);
      return standing;
    }

   private:
    const Inside& inside_;
    const std::shared_ptr<const HostLease> lease_;
    const std::string database_;
  };

  std::vector<std::shared_ptr<HostLease>> all_leases() const {
    std::vector<std::shared_ptr<HostLease>> all;
    const std::lock_guard lock(mutex);
    for (const auto& [key, lease] : leases) {
      if (auto held = lease.lock()) all.push_back(std::move(held));
    }
    return all;
  }

  void report_later() {
    workers->at(Workers::Clock::now() + refusals_pause, [this] {
      report();
      report_later();
    });
  }
  void report() {
    for (const auto& due : refusals.take_all()) {
      try {
        if (!Operator(*database).record_refusals(
                Scope(due.scope), Term(due.term), due.count, due.first_ms, due.last_ms,
                due.client.empty() ? "proxy" : "proxy for " + due.client))
          refusals.put_back(due);
      } catch (const Unavailable&) { refusals.put_back(due); } catch (const std::exception&) {
        // A role that may not write to the audit must not hide the refusal itself.
      }
    }
  }

  Settings settings;
  std::shared_ptr<HighestTerms> highest_terms = std::make_shared<HighestTerms>();
  const std::string own_mark = mark_of_process();

  mutable std::mutex mutex;  // guards rules, leases, sources, sessions
  std::shared_ptr<const Rules> rules = std::make_shared<const Rules>();
  std::map<std::tuple<std::string, std::string, std::string>, std::weak_ptr<HostLease>>
      leases;                                                   // by scope, holder, lock service
  std::map<std::string, std::shared_ptr<LeaseSource>> sources;  // by URL; never removed
  std::map<std::uint64_t, Known> sessions;                      // only those of lease rules

  std::mutex files_mutex;  // guards files, files_of_rules
  std::map<std::string, std::weak_ptr<TermFile>> files;
  std::map<std::string, std::shared_ptr<TermFile>> files_of_rules;
  std::mutex reloading;  // one reload at a time

  std::mutex stop_mutex;  // guards stopping
  std::condition_variable stopped;
  bool stopping = false;
  std::thread looker;

  detail::RefusalLog refusals;
  std::optional<Database> database;
  std::optional<Workers> workers;
  std::optional<HostLease::Common> common;

  std::mutex calling;  // guards callback and gate_callback, also while they are called
  std::function<void(std::uint64_t, std::string_view, std::int64_t)> callback;
  std::function<void(std::string_view, bool)> gate_callback;

  mutable std::mutex own_name_mutex;    // guards own_name
  std::optional<std::string> own_name;  // the database of database_url
  bool one_for_all = false;  // all clients use the same database, whatever name they give
  std::atomic<FenceWatch*> watch_for_hints{nullptr};
  const std::shared_ptr<FenceBook> own = std::make_shared<FenceBook>(
      std::string(), detail::FenceMemory::scopes_max,
      FenceBook::Events{[this](const FenceBook& book, std::string_view scope, std::int64_t fence) {
                          rose(book, scope, fence);
                        },
                        [this](FenceBook&) {
                          if (FenceWatch* reads = watch_for_hints) reads->wake();
                        }});
  std::optional<Watches> watches;
  std::optional<FenceWatch>
      watch;  // its thread uses the members above, and so do the threads of gate_watch
  std::optional<GateWatch> gate_watch;  // only where layer 1 has gates or seats
};

Authority::Authority(Settings settings) : inside_(std::make_unique<Inside>(std::move(settings))) {}
Authority::~Authority() = default;

conversation::Admission Authority::admit(std::uint64_t session, const ConnectRequest& request) {
  Inside& in = *inside_;
  conversation::Admission admission;
  admission.without_term = in.settings.without_term;
  admission.enforce = in.settings.enforce;
  admission.replication = in.settings.replication;
  // Without a matching rule, the client may declare scope and term.
  admission.overridable = true;
  std::shared_ptr<const Rules> rules;
  {
    const std::lock_guard lock(in.mutex);
    rules = in.rules;
  }
  const Rule* rule = rules->of(request);
  if (rule == nullptr) return admission;
  if (!rule->refuse.empty()) {
    admission.refused_sqlstate = "28000";
    admission.refused_message = rule->refuse;
    return admission;
  }
  admission.without_term = rule->without_term.value_or(admission.without_term);
  admission.enforce = rule->enforce.value_or(admission.enforce);
  admission.replication = rule->replication.value_or(admission.replication);
  const bool lease = std::holds_alternative<LeaseTerm>(rule->source);
  admission.on_stale = rule->on_stale.value_or(lease ? conversation::OnStale::disconnect
                                                     : conversation::OnStale::error);
  // An observed session must not take a lease from others.
  admission.rule = lease && admission.enforce == conversation::Enforce::observe
                       ? without("--enforce observe takes no lease",
                                 conversation::TermSource::Standing::none_taken)
                       : in.source_of(*rule, session, request);
  admission.overridable = rule->overridable || admission.rule == nullptr;
  return admission;
}

void Authority::established(std::uint64_t session, std::function<void()> settled) {
  std::shared_ptr<HostLease> lease;
  std::shared_ptr<PeerLiveness> liveness;
  {
    const std::lock_guard lock(inside_->mutex);
    const auto found = inside_->sessions.find(session);
    if (found != inside_->sessions.end() && !found->second.open &&
        inside_->is_own(found->second.database).value_or(true)) {
      found->second.open = true;
      lease = found->second.lease;
      liveness = found->second.liveness;
    }
  }
  if (lease) lease->opened(session, std::move(liveness), std::move(settled));
  else if (settled) settled();
}

// Every admitted session ends here once, whether or not established() was called for it.
void Authority::ended(std::uint64_t session) {
  Inside::Known known;
  {
    const std::lock_guard lock(inside_->mutex);
    const auto found = inside_->sessions.find(session);
    if (found == inside_->sessions.end()) return;
    known = std::move(found->second);
    inside_->sessions.erase(found);
  }
  // Without the lock: the call may take the lease's own lock and call back.
  if (known.open) known.lease->closed(session);
}

std::string Authority::reload() {
  Inside& in = *inside_;
  if (in.settings.rules_path.empty()) return {};
  const std::lock_guard one(in.reloading);
  try {
    auto rules = std::make_shared<const Rules>(in.rules_of_file());
    in.pass_on_warnings(in.open_sources(*rules));
    in.watch_files(*rules);
    const std::lock_guard lock(in.mutex);
    in.rules = std::move(rules);
    return {};
  } catch (const Error& error) { return error.what(); }
}

std::shared_ptr<conversation::Fences> Authority::fences(std::string_view database) {
  const auto own = inside_->is_own(database);
  if (!own) return nullptr;
  if (*own) return inside_->own;
  return inside_->watches->fences(std::string(database));
}

void Authority::subscribe(
    std::function<void(std::uint64_t, std::string_view, std::int64_t)> callback) {
  const std::lock_guard lock(inside_->calling);
  inside_->callback = std::move(callback);
}

void Authority::subscribe_gates(std::function<void(std::string_view, bool)> callback) {
  const std::lock_guard lock(inside_->calling);
  inside_->gate_callback = std::move(callback);
}

void Authority::gate_held(std::string_view scope) {
  if (inside_->gate_watch) inside_->gate_watch->held(scope);
}

void Authority::gate_left(std::string_view scope) {
  if (inside_->gate_watch) inside_->gate_watch->left(scope);
}

conversation::SeatOffer Authority::seat_offer(std::string_view database) const {
  conversation::SeatOffer offer;
  if (!inside_->gate_watch || !inside_->is_own(database).value_or(false)) return offer;
  offer.secret = inside_->gate_watch->feed().secret();
  offer.checks = inside_->settings.seat_checks;
  offer.runs_any_text = inside_->gate_watch->feed().runs_any_text();
  return offer;
}

void Authority::raise(std::string_view scope, std::int64_t term,
                      std::function<void(std::string_view, std::string_view)> done) {
  Inside& in = *inside_;
  if (!in.database || !is_scope(scope) || term < 1 || term > Term::max_value)
    // Calls done() with the reason: no fence can be raised here.
    return conversation::Authority::raise(scope, term, std::move(done));
  // Sessions of this proxy give the gate back at once, not only when the database shows the raise.
  in.gate_wanted(scope, true);
  in.workers->at(Workers::Clock::now(), [&in, scope = Scope(std::string(scope)), term = Term(term),
                                         done = std::move(done)] {
    std::string code, message;
    try {
      in.database->write(scope, term, [](Transaction&) {});
      in.own->believe(scope.name(), term.value());
    } catch (const std::exception& error) {
      message = error.what();
      code = message.starts_with("TG00") ? message.substr(0, 5) : "TG006";
      if (!message.starts_with("TG00")) message = "TG006 the fence could not be raised: " + message;
    }
    done(code, message);
  });
}

conversation::Obstacle Authority::obstacle() const {
  return inside_->watch ? inside_->watch->obstacle() : conversation::Obstacle::none;
}

conversation::ServedBy Authority::served_by() const {
  return inside_->watch ? inside_->watch->served_by() : conversation::ServedBy();
}

conversation::Watching Authority::watching() const {
  const Inside& in = *inside_;
  conversation::Watching watching;
  watching.backend = in.own->watched();
  if (in.watch) watching.failures = in.watch->failures();
  if (in.watches) {
    watching.failures += in.watches->failures();
    watching.databases = in.watches->watched();
    watching.databases_limit = static_cast<std::int64_t>(in.settings.watched_databases_max);
  }
  return watching;
}

void Authority::happened(std::string_view database, const conversation::Incident& incident) {
  Inside& in = *inside_;
  if (incident.kind != conversation::Incident::Kind::refused || incident.code != "TG001") return;
  // The proxy must not write to another database's audit.
  if (!in.database || !in.is_own(database).value_or(false) || !is_scope(incident.scope) ||
      incident.term < 1 || incident.term > Term::max_value)
    return;
  // Refusals by PostgreSQL are written to the audit by layer 1, with the client's role and
  // application.
  if (!incident.from_memory && in.database->kind() == "postgresql") return;
  // Only collected here; a worker writes them once a second.
  if (const auto due = in.refusals.note(std::string(incident.scope), incident.term,
                                        milliseconds_since_1970(), std::string(incident.client)))
    in.refusals.put_back(*due);
}

bool Authority::leads(std::string_view scope) const {
  const auto leases = inside_->all_leases();
  return std::any_of(leases.begin(), leases.end(), [&](const auto& lease) {
    return lease->scope().name() == scope && lease->held();
  });
}

std::int64_t Authority::leases_held() const {
  const auto leases = inside_->all_leases();
  return std::count_if(leases.begin(), leases.end(),
                       [](const auto& lease) { return lease->held(); });
}

}  // namespace termgate::authority
