// The boundary, the leases and the operator's calls. What stands in sql/sqlite/statements/ is not repeated here: this
// file decides which statement runs and what its answer means.
#include <termgate/detail/sqlite/layer1.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/detail/plant.hpp>
#include <termgate/error.hpp>

#include <termgate/detail/sqlite/errors.hpp>
#include "json.hpp"
#include "unit.hpp"
#include <termgate/detail/sqlite/lock_wait.hpp>

namespace termgate::inline v0::sqlite {
namespace {

namespace stmt = termgate::sql::sqlite_statements;

constexpr std::int64_t ttl_ms_min = 100;
constexpr std::int64_t ttl_ms_max = 24LL * 60 * 60 * 1000;
// What an acquisition adds where the database may have forgotten terms that our own leases issued (F3).
// Above whatever was lost, and by chance never the same twice: a file that is copied back once more has lost the acquisition that jumped before.
std::int64_t doubt_jump() {
  std::uint32_t chance = 0;
  sqlite3_randomness(sizeof chance, &chance);
  return (std::int64_t{1} << 32) + chance;
}
// The setting is read only for payloads that could exceed it.
constexpr std::size_t payload_bytes_unasked = 1024 * 1024;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string process_name(long pid) {
  const std::string name = first_line(fmt::format("/proc/{}/comm", pid));
  return name.empty() ? fmt::format("process {}", pid) : fmt::format("process {} ({})", pid, name);
}

std::int64_t number_of(const std::string& text, const char* name, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
    throw InvalidInput(fmt::format("TG005 setting {} is an integer from {} to {}, not \"{}\"", name, low, high, text));
  }
  return value;
}

void require_name(const std::string& text, const char* what) {
  if (const char* problem = name_problem(text)) throw InvalidInput(fmt::format("TG005 malformed {}: {}", what, problem));
}

void require_said(const std::string& text, const char* what) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw InvalidInput(fmt::format("TG005 malformed {}: it is empty, and it goes into the audit", what));
  }
}

void require_ttl(std::int64_t ttl_ms) {
  if (ttl_ms < ttl_ms_min || ttl_ms > ttl_ms_max) {
    throw InvalidInput(fmt::format("TG005 malformed TTL of {} ms: 100 ms to 1 day", ttl_ms));
  }
}

[[noreturn]] void refuse_stale(std::string_view scope, std::int64_t term, std::int64_t fence) {
  throw StaleTerm(fmt::format("TG001 stale term {} for scope \"{}\": the fence stands at {}", term, scope, fence), std::string(scope), term,
                  fence);
}

// The law runs inside the writer's own process, so nobody outside sees what it refuses. A drill does (docs/use/drill.md): it names a file, and each refused write becomes a line
// of it, "TG001 term scope", each refused seal another, "seal term scope". An existing, regular file only; whatever goes wrong here changes nothing about the refusal.
void tell_witness(const char* kind, std::string_view scope, std::int64_t term) noexcept {
  const char* path = secure_getenv("TERMGATE_WITNESS");
  if (path == nullptr || *path == '\0') return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return;
  struct stat what {};
  std::array<char, 1024> line;
  const int size = std::snprintf(line.data(), line.size(), "%s %lld %.*s\n", kind, static_cast<long long>(term), static_cast<int>(scope.size()), scope.data());
  if (fstat(file, &what) == 0 && S_ISREG(what.st_mode) && size > 0 && size < static_cast<int>(line.size())) static_cast<void>(!write(file, line.data(), static_cast<std::size_t>(size)));
  close(file);
}

// What a raise adds to its audit row where the rows, and no caller, ask for it.
std::string from_evidence(std::string_view before) { return Json('{').key("evidence_before").value(before).members(); }

[[noreturn]] void refuse_stale_write(std::string_view scope, std::int64_t term, std::int64_t fence) {
  tell_witness("TG001", scope, term);
  refuse_stale(scope, term, fence);
}

[[noreturn]] void refuse_stale_seal(std::string_view scope, std::int64_t term, std::int64_t fence) {
  tell_witness("seal", scope, term);
  refuse_stale(scope, term, fence);
}

}  // namespace

// ---------------------------------------------------------------------------------------------- transactions

Layer1::Unit::Unit(Layer1& layer1) : layer1_(layer1) {
  if (sqlite3_get_autocommit(layer1.db_) != 0) {
    if (sqlite3_txn_state(layer1.db_, nullptr) == SQLITE_TXN_WRITE) {
      layer1.lock();
      return;
    }
    const bool reading = sqlite3_txn_state(layer1.db_, nullptr) == SQLITE_TXN_READ;
    layer1.waiting([&] { return layer1.use(stmt::begin).try_step(); }, "hold", !reading);
    if (layer1.file_.moved(true)) {
      sqlite3_exec(layer1.db_, "ROLLBACK", nullptr, nullptr, nullptr);
      throw_sqlite(layer1.db_, SQLITE_READONLY_DBMOVED);
    }
    kind_ = Kind::own;
    layer1.own_unit_ = true;
    return;
  }
  layer1.lock();
  // SQLITE_BUSY here means that a writing statement is at work, whose own atomicity then holds.
  const int code = layer1.use(stmt::savepoint).try_step();
  if (code == SQLITE_DONE) {
    kind_ = Kind::savepoint;
  } else if (code != SQLITE_BUSY) {
    throw_sqlite(layer1.db_, code);
  }
}

Layer1::Unit::~Unit() {
  layer1_.own_unit_ = false;
  if (kind_ == Kind::joined || sqlite3_get_autocommit(layer1_.db_) != 0) return;
  // Not from the cache: preparing there may throw, and this runs rarely.
  const char* undo = kind_ == Kind::own ? "ROLLBACK" : "ROLLBACK TO termgate_unit; RELEASE termgate_unit";
  sqlite3_exec(layer1_.db_, undo, nullptr, nullptr, nullptr);
}

void Layer1::Unit::commit() {
  if (kind_ == Kind::own) {
    const bool refusals = layer1_.write_refusals();
    // In rollback-journal mode a reader can hold up the commit: that is waited for like the lock.
    const auto attempt = [&] {
      const int code = layer1_.use(stmt::commit).try_step();
      const int extended = sqlite3_extended_errcode(layer1_.db_);
      if (code != SQLITE_DONE && commit_outcome_unknown(extended)) {
        const std::string name(code_name(extended));
        throw OutcomeUnknown(fmt::format("COMMIT was sent and its flush failed: {} ({}): it may or may not have been written",
                                         sqlite3_errmsg(layer1_.db_), name),
                             name);
      }
      return code;
    };
    layer1_.waiting(attempt, "read", true);
    if (refusals) layer1_.refused_.clear();
  } else if (kind_ == Kind::savepoint) {
    layer1_.use(stmt::release).run();
  }
  kind_ = Kind::joined;
  layer1_.own_unit_ = false;
}

Layer1::Snapshot::Snapshot(Layer1& layer1) {
  if (sqlite3_get_autocommit(layer1.db_) == 0 || sqlite3_txn_state(layer1.db_, "main") != SQLITE_TXN_NONE) return;
  layer1.execute("BEGIN");
  db_ = layer1.db_;
}

Layer1::Snapshot::~Snapshot() {
  if (db_ != nullptr) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

Layer1::Layer1(sqlite3* db) : db_(db) {
  client_ = fmt::format("{}[{}]", first_line("/proc/self/comm"), getpid());
  const char* user = std::getenv("USER");
  session_user_ = user != nullptr && *user != '\0' ? std::string(user) : fmt::format("uid {}", geteuid());
}

Moment Layer1::now() const noexcept {
  if (clock_) return clock_();
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::optional<std::string> Layer1::setting(std::string_view name) {
  Running read = use(stmt::setting_read);
  if (!read.bind(name).step()) return std::nullopt;
  return read.text(0);
}

std::chrono::milliseconds Layer1::check_wait() noexcept {
  if (check_wait_override_) return *check_wait_override_;
  // Only where reading leaves no snapshot behind, for an old snapshot could not become a writer.
  if (sqlite3_get_autocommit(db_) != 0 && sqlite3_txn_state(db_, nullptr) == SQLITE_TXN_NONE) {
    try {
      if (const auto value = setting("check_wait_ms")) {
        check_wait_seen_ = std::chrono::milliseconds(number_of(*value, "check_wait_ms", 0, 600'000));
      }
    } catch (const Error&) {
      // Locked or not installed: the last value seen, or the default, serves.
    }
  }
  return check_wait_seen_;
}

// Returns SQLITE_DONE or SQLITE_OK. Sleeps in small steps: SQLite has no queue to wait in.
int Layer1::waiting(const std::function<int()>& attempt, const char* what, bool may_wait) {
  using Clock = std::chrono::steady_clock;
  // SQLite's own waiting would sleep 100 ms between two tries and tell nobody: it is done here, for as long.
  struct Impatient {
    explicit Impatient(Layer1& layer1) : db(layer1.db_) {
      try {
        Running read = layer1.use(stmt::busy_timeout);
        if (read.step()) application_ms = static_cast<int>(read.integer(0));
      } catch (const Error&) {
        // An authorizer of the application's may forbid the question: then its handler stays.
      }
      if (application_ms > 0) sqlite3_busy_timeout(db, 0);
    }
    Impatient(const Impatient&) = delete;
    Impatient& operator=(const Impatient&) = delete;
    ~Impatient() {
      if (application_ms > 0) sqlite3_busy_timeout(db, application_ms);
    }
    sqlite3* const db;
    int application_ms = 0;
  } impatient(*this);
  const auto start = Clock::now();
  std::optional<std::chrono::milliseconds> wait;
  LockWait lock_wait(db_, wants_.first, wants_.second);
  while (true) {
    int code = SQLITE_BUSY;
    int extended = SQLITE_BUSY;
    try {
      code = attempt();
      if (code == SQLITE_OK || code == SQLITE_DONE) return code;
      extended = sqlite3_extended_errcode(db_);
    } catch (const BusyNow&) {
      // While the statement was prepared: the schema could not be read.
    }
    if ((code & 0xff) != SQLITE_BUSY || extended == SQLITE_BUSY_SNAPSHOT) throw_sqlite(db_, code);
    if (!wait) wait = may_wait ? std::max(check_wait(), std::chrono::milliseconds(impatient.application_ms)) : std::chrono::milliseconds(0);
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    if (waited >= *wait) {
      std::string message =
          fmt::format("TG006 blocked for {} ms: {} {}s the database; nothing was written", waited.count(), lock_holder(db_), what);
      if (!may_wait) message += "; this transaction has read already, so it cannot wait: begin it with BEGIN IMMEDIATE";
      throw Blocked(message);
    }
    lock_wait.pause(*wait - waited);
  }
}

void Layer1::connect() {
  connected_ = true;
  try {
    Statement connecting(db_, "SELECT 1 FROM main.termgate_connection");
  } catch (...) {
    connected_ = false;
    throw;
  }
}

void Layer1::patiently(const std::function<void()>& work) {
  if (sqlite3_txn_state(db_, nullptr) != SQLITE_TXN_NONE) return work();
  waiting(
      [&] {
        work();
        return SQLITE_OK;
      },
      "hold", true);
}

void Layer1::require_file() {
  if (file_.moved(sqlite3_txn_state(db_, "main") == SQLITE_TXN_WRITE)) throw_sqlite(db_, SQLITE_READONLY_DBMOVED);
}

void Layer1::lock() {
  const int state = sqlite3_txn_state(db_, "main");
  if (state != SQLITE_TXN_WRITE) waiting([&] { return use(stmt::lock).try_step(); }, "hold", state == SQLITE_TXN_NONE);
  // The driver asks where it begins and commits.
  if (!boundaries_known_) require_file();
}

void Layer1::execute(const std::string& sql) {
  Statement statement(db_, sql);
  Running(statement.get()).run();
}

void Layer1::audit(std::string_view action, std::optional<std::string_view> scope, std::string_view detail, std::string_view actor) {
  Running insert = use(stmt::audit_insert);
  insert.bind(now()).bind(actor.empty() ? std::string_view(client_) : actor).bind(session_user_).bind(client_).bind(action);
  if (scope) {
    insert.bind(*scope);
  } else {
    insert.bind_null();
  }
  insert.bind(detail).run();
}

// ---------------------------------------------------------------------------------------------------- the check

Layer1::Fence Layer1::read_fence(std::string_view scope) {
  Fence fence;
  {
    Running read = use(stmt::fence_read);
    if (read.bind(scope).step()) {
      fence.exists = true;
      fence.term = read.integer(0);
      fence.raise_by = read.optional_text(1);
      fence.in_doubt = read.integer(2) != 0;
      fence.was_reset = !read.is_null(3);
      return fence;
    }
  }
  // A scope that the restored file has never heard of may have had a fence all the same.
  Running read = use(stmt::incarnation_read);
  if (!read.step()) throw DatabaseError("termgate_incarnation has lost its row: run termgate init again");
  fence.in_doubt = read.integer(0) != 0;
  return fence;
}

unsigned Layer1::data_version() const noexcept {
  unsigned version = 0;
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_DATA_VERSION, &version);
  return version;
}

void Layer1::begin_transaction() noexcept {
  boundaries_known_ = true;
  // Asked of every transaction, also of one that will compare no fence: its commit vouches for all that is known. The write lock is held by now, so what is
  // seen here is what others have left.
  if (const unsigned version = data_version(); version != known_version_ && !TERMGATE_PLANTED(sqlite_memory)) {
    known_.clear();
    known_version_ = version;
  }
  passed_checks_.clear();
  declared_scope_.reset();
  declared_term_.reset();
}

Layer1::Fence Layer1::known_fence(const std::string& scope) {
  if (!boundaries_known_ || sqlite3_txn_state(db_, "main") != SQLITE_TXN_WRITE) return read_fence(scope);
  const unsigned version = data_version();
  if ((version != known_version_ && !TERMGATE_PLANTED(sqlite_memory)) || known_raises_ != passed_checks_.raises() || known_.size() >= known_max) {
    known_.clear();
    known_version_ = version;
    known_raises_ = passed_checks_.raises();
  }
  if (const auto found = known_.find(scope); found != known_.end()) return found->second;
  const Fence fence = read_fence(scope);
  if (fence.exists) known_.emplace(scope, fence);
  return fence;
}

std::optional<Layer1::LeaseRow> Layer1::read_lease(std::string_view scope) {
  Running read = use(stmt::lease_read);
  if (!read.bind(scope).step()) return std::nullopt;
  return LeaseRow{read.text(0), read.integer(1), read.integer(2), !read.is_null(5)};
}

std::int64_t Layer1::evidence(std::string_view scope, bool streams_only, bool was_reset) {
  std::vector<std::pair<std::int64_t, std::int64_t>> resets;  // (new, old]: no evidence in between
  std::int64_t highest = 0;
  if (was_reset) {
    Running read = use(stmt::resets_read);
    read.bind(scope);
    while (read.step()) {
      // The newest reset says where the fence stood, should its row be lost.
      if (resets.empty()) highest = read.integer(0);
      resets.emplace_back(read.integer(0), read.integer(1));
    }
  }
  auto fold = [&](const std::function<std::int64_t(std::int64_t)>& max_term) {
    std::int64_t believed_max = Term::max_value;
    while (true) {
      const std::int64_t term = max_term(believed_max);
      const auto reset =
          std::find_if(resets.begin(), resets.end(), [term](const auto& range) { return term > range.first && term <= range.second; });
      if (reset == resets.end()) {
        highest = std::max(highest, term);
        return;
      }
      believed_max = reset->first;
    }
  };
  fold([&](std::int64_t believed_max) {
    Running read = use(stmt::evidence_streams);
    return read.bind(scope).bind(believed_max).step() ? read.integer(0) : 0;
  });
  if (streams_only) return highest;
  struct Adopted {
    std::string table, scope_column, term_column;
  };
  std::vector<Adopted> adopted;
  {
    Running read = use(stmt::adopted_read);
    while (read.step()) adopted.push_back({read.text(0), read.text(1), read.text(2)});
  }
  for (const Adopted& table : adopted) {
    fold([&](std::int64_t believed_max) { return max_adopted(table.table, table.scope_column, table.term_column, scope, believed_max); });
  }
  return highest;
}

std::int64_t Layer1::height(std::string_view scope, const Fence& fence) { return fence.exists ? fence.term : evidence(scope, false, true); }

void Layer1::refuse_in_doubt(std::string_view scope, const Fence& fence) {
  if (!fence.in_doubt) return;
  throw FenceInDoubt(
      fmt::format("TG004 the fence of scope \"{}\" is in doubt: this database was declared an older copy that was put back. Acquire the "
                  "lease, or say termgate_declare_restored('{}', ABOVE, ACTOR, REASON) with the last term issued elsewhere",
                  scope, scope));
}

void Layer1::refuse_unissued(std::string_view scope, std::int64_t term) {
  const auto lease = read_lease(scope);
  if (lease && term > lease->term) {
    throw InvalidInput(
        fmt::format("TG005 term {} for scope \"{}\" was never issued: its lease's last term is {}", term, scope, lease->term));
  }
}

void Layer1::refuse_passed(std::string_view scope, const char* what) {
  if (const Pass* pass = passed_checks_.find(scope)) {
    throw InvalidInput(
        fmt::format("TG005 {} for scope \"{}\" inside a transaction that has passed it with term {}: a transaction keeps its first term",
                    what, scope, pass->term));
  }
}

Layer1::Verdict Layer1::judge(const std::string& scope, std::int64_t term, Raise raise, bool with_evidence) {
  Verdict verdict{known_fence(scope), false};
  const Fence& fence = verdict.fence;
  refuse_in_doubt(scope, fence);
  const std::int64_t stands_at = height(scope, fence);
  std::int64_t seen = stands_at;
  if (with_evidence && fence.exists) seen = std::max(seen, evidence(scope, true, fence.was_reset));
  if (const Pass* pass = passed_checks_.find(scope)) {
    if (term < pass->term) refuse_stale_write(scope, term, std::max(seen, pass->term));
    if (term > pass->term) refuse_passed(scope, fmt::format("term {}", term).c_str());
  }
  if (term < seen) refuse_stale_write(scope, term, seen);
  verdict.raises = !fence.exists || term > fence.term;
  if (!verdict.raises) return verdict;
  if (raise == Raise::refused) {
    throw InvalidInput(
        fmt::format("TG005 term {} for scope \"{}\" is above its fence, {}: triggers never raise, run SELECT termgate_seal('{}', {}) first",
                    term, scope, stands_at, scope, term));
  }
  if (term > stands_at) {
    const std::string raise_by = fence.raise_by ? *fence.raise_by : setting("default_raise_by").value_or("writer");
    if (raise_by == "seal") {
      throw InvalidInput(
          fmt::format("TG005 term {} for scope \"{}\" is above its fence, {}, which only a seal raises: run SELECT termgate_seal('{}', {})",
                      term, scope, stands_at, scope, term));
    }
    refuse_unissued(scope, term);
  }
  return verdict;
}

std::int64_t Layer1::admit(const std::string& scope, std::int64_t term, const Verdict& verdict) {
  if (verdict.raises) raise(scope, verdict.fence, term, verdict.fence.in_doubt, client_, "raise", "");
  pass(scope, term);
  return term;
}

void Layer1::raise(std::string_view scope, const Fence& fence, std::int64_t term, bool in_doubt, const std::string& actor,
                std::string_view action, std::string_view more) {
  {
    Running write = use(fence.exists ? stmt::fence_raise : stmt::fence_insert);
    write.bind(scope).bind(term).bind(now()).bind(actor).bind(std::int64_t{in_doubt}).run();
  }
  if (sqlite3_changes(db_) != 1) {
    throw DatabaseError(fmt::format("the fence of scope \"{}\" was not written: its row is gone", scope));
  }
  // `more`: further members, written already.
  audit(action, scope, fmt::format(R"({{"term":{},"previous":{}{}{}}})", term, fence.term, more.empty() ? "" : ",", more), actor);
}

void Layer1::track() {
  if (passed_checks_.tracking()) return;
  use(stmt::track).run();
  if (!passed_checks_.tracking()) {
    throw DatabaseError("a table named termgate_transaction hides Termgate's own: rename it");
  }
}

void Layer1::pass(const std::string& scope, std::int64_t term) {
  if (own_unit_ || passed_checks_.find(scope) != nullptr) return;
  // A raise has enlisted us by itself.
  if (!boundaries_known_) track();
  passed_checks_.record(scope, term);
}

std::int64_t Layer1::check_term(const Scope& scope, Term term) {
  // In autocommit a check guards nothing but itself, so nothing but a raise needs the lock. In a transaction
  // one that raises nothing writes nothing, so it needs no savepoint.
  const bool transaction = sqlite3_get_autocommit(db_) == 0 || sqlite3_txn_state(db_, nullptr) == SQLITE_TXN_WRITE;
  const Wants wants(*this, scope.name(), term.value());
  if (transaction) {
    lock();
  } else if (!boundaries_known_) {
    require_file();
  }
  const Verdict verdict = judge(scope.name(), term.value(), Raise::allowed, false);
  if (!verdict.raises) {
    if (transaction) pass(scope.name(), term.value());
    return term.value();
  }
  Unit unit(*this);
  const std::int64_t fence =
      admit(scope.name(), term.value(), transaction ? verdict : judge(scope.name(), term.value(), Raise::allowed, false));
  unit.commit();
  return fence;
}

Layer1::Receipt Layer1::seal(const Scope& scope, Term term) {
  const Wants wants(*this, scope.name(), term.value());
  Unit unit(*this);
  const std::string& name = scope.name();
  refuse_passed(name, "a seal");
  const Fence fence = read_fence(name);
  refuse_in_doubt(name, fence);
  const std::int64_t stands_at = height(name, fence);
  if (term.value() < stands_at) refuse_stale_seal(name, term.value(), stands_at);
  if (term.value() > stands_at) refuse_unissued(name, term.value());
  if (!fence.exists || term.value() > fence.term) {
    raise(name, fence, term.value(), fence.in_doubt, client_, "seal", R"("evicted":0)");
  }
  const Receipt receipt{term.value(), stands_at, 0, now()};
  unit.commit();
  return receipt;
}

void Layer1::declare(std::optional<Scope> scope, std::optional<Term> term) {
  declared_scope_ = std::move(scope);
  declared_term_ = term;
}

// ------------------------------------------------------------------------------------------------------- streams

Scope Layer1::scope_of(const Stream& stream, const std::optional<Scope>& named, const std::optional<std::string>& fixed) {
  if (fixed) {
    if (named && named->name() != *fixed) {
      throw InvalidInput(fmt::format("TG005 stream \"{}\" belongs to scope \"{}\", not \"{}\": its first write fixed it", stream.name(),
                                     *fixed, named->name()));
    }
    return Scope(*fixed);
  }
  if (named) return *named;
  if (declared_scope_) return *declared_scope_;
  if (passed_checks_.passes().size() == 1) return Scope(passed_checks_.passes().begin()->first);
  return Scope(stream.name());
}

// The last number of a batch that has happened already.
std::int64_t Layer1::repeated(const Stream& stream, const std::vector<Write>& writes, bool& found) {
  std::set<std::string_view> ids;
  std::int64_t first_no = 0;
  std::size_t seen = 0;
  for (std::size_t at = 0; at < writes.size(); ++at) {
    if (!writes[at].write_id) continue;
    const std::string& id = *writes[at].write_id;
    if (!ids.insert(id).second) throw InvalidInput(fmt::format("TG005 write id {} stands twice in the batch", id));
    Running read = use(stmt::write_id_read);
    if (!read.bind(id).step()) continue;
    if (read.optional_text(0) != stream.name()) {
      throw InvalidInput(fmt::format(
          "TG005 write id {} belongs to {}, not to stream \"{}\"", id,
          read.is_null(0) ? fmt::format("a claimed write of scope \"{}\"", read.text(2)) : fmt::format("stream \"{}\"", read.text(0)),
          stream.name()));
    }
    const std::int64_t number = read.integer(1) - static_cast<std::int64_t>(at);
    if (seen++ > 0 && number != first_no) {
      throw InvalidInput(fmt::format("TG005 write id {} happened at another place than its batch", id));
    }
    first_no = number;
  }
  found = seen > 0;
  if (found && seen != ids.size()) {
    throw InvalidInput(
        fmt::format("TG005 {} of the batch's {} write ids have happened and the others have not: send the "
                    "same batch again, or a new one with new ids",
                    seen, ids.size()));
  }
  return first_no + static_cast<std::int64_t>(writes.size()) - 1;
}

std::int64_t Layer1::append(const Stream& stream, Term term, const std::vector<Write>& writes, std::optional<std::int64_t> expected,
                         const std::optional<Scope>& named) {
  for (const Write& write : writes) {
    if (write.payload.size() <= payload_bytes_unasked) continue;
    const auto value = setting("payload_bytes_max");
    const std::int64_t bytes_max = value ? number_of(*value, "payload_bytes_max", 1, 268'435'456) : 256LL * 1024 * 1024;
    if (static_cast<std::int64_t>(write.payload.size()) > bytes_max) {
      throw InvalidInput(
          fmt::format("TG005 a payload of {} bytes is above payload_bytes_max, {} (a setting)", write.payload.size(), bytes_max));
    }
  }
  Unit unit(*this);
  bool found = false;
  const std::int64_t happened = repeated(stream, writes, found);
  if (found) {
    unit.commit();
    return happened;
  }
  std::optional<std::string> fixed;
  std::int64_t last_no = 0;
  {
    Running read = use(stmt::stream_read);
    if (read.bind(stream.name()).step()) {
      fixed = read.text(0);
      last_no = read.integer(1);
    }
  }
  const Scope scope = scope_of(stream, named, fixed);
  const Verdict verdict = judge(scope.name(), term.value(), Raise::allowed, true);
  if (expected && *expected != last_no) {
    throw SequenceConflict(
        fmt::format("TG003 sequence conflict on stream \"{}\": expected {}, the last number is {}", stream.name(), *expected, last_no));
  }
  admit(scope.name(), term.value(), verdict);
  const Moment moment = now();
  const std::int64_t new_last = last_no + static_cast<std::int64_t>(writes.size());
  if (!writes.empty()) {
    Running write = use(fixed ? stmt::stream_advance : stmt::stream_insert);
    write.bind(stream.name());
    if (fixed) {
      write.bind(new_last).run();
    } else {
      write.bind(scope.name()).bind(new_last).bind(moment).run();
    }
    if (sqlite3_changes(db_) != 1) throw DatabaseError(fmt::format("stream \"{}\" has lost its row", stream.name()));
  }
  std::int64_t number = last_no;
  for (const Write& write : writes) {
    ++number;
    use(stmt::stream_write_insert)
        .bind(stream.name())
        .bind(number)
        .bind(scope.name())
        .bind(term.value())
        .bind_blob(write.payload)
        .bind(moment)
        .bind(write.write_id)
        .run();
    if (write.write_id) {
      use(stmt::write_id_insert)
          .bind(*write.write_id)
          .bind(stream.name())
          .bind(number)
          .bind(scope.name())
          .bind(term.value())
          .bind(moment)
          .run();
    }
  }
  unit.commit();
  return new_last;
}

Layer1::Claim Layer1::claim_write(const Scope& scope, Term term, const WriteId& id) {
  Unit unit(*this);
  {
    Running read = use(stmt::write_id_read);
    if (read.bind(id.text()).step()) {
      if (!read.is_null(0) || read.text(2) != scope.name()) {
        throw InvalidInput(fmt::format("TG005 write id {} belongs to {} of scope \"{}\"", id.text(),
                                       read.is_null(0) ? std::string("a claimed write") : fmt::format("stream \"{}\"", read.text(0)),
                                       read.text(2)));
      }
      const Fence fence = read_fence(scope.name());
      const Claim claim{false, height(scope.name(), fence)};
      unit.commit();
      return claim;
    }
  }
  const std::int64_t fence = admit(scope.name(), term.value(), judge(scope.name(), term.value(), Raise::allowed, false));
  use(stmt::write_id_insert).bind(id.text()).bind_null().bind_null().bind(scope.name()).bind(term.value()).bind(now()).run();
  unit.commit();
  return {true, fence};
}

std::optional<Layer1::Outcome> Layer1::outcome(const WriteId& id) {
  Running read = use(stmt::write_id_read);
  if (!read.bind(id.text()).step()) return std::nullopt;
  return Outcome{read.optional_text(0), read.optional_integer(1), read.text(2), read.integer(3), read.integer(4)};
}

// -------------------------------------------------------------------------------------------------------- leases

Layer1::Acquisition Layer1::acquire_lease(const Scope& scope, const std::string& owner, std::int64_t ttl_ms,
                                    const std::optional<std::string>& endpoint) {
  require_name(owner, "owner");
  require_ttl(ttl_ms);
  const std::string& name = scope.name();
  auto others = [&](const std::optional<LeaseRow>& lease, Moment moment) {
    return lease && !lease->released && lease->expires_at > moment && lease->owner != owner;
  };
  auto refused = [](const LeaseRow& lease, Moment moment) {
    return Acquisition{false, lease.term, lease.expires_at, lease.owner, lease.expires_at - moment};
  };
  // Another's live lease is answered without the lock, so that waiting candidates cost the leader nothing.
  if (sqlite3_get_autocommit(db_) != 0) {
    const auto lease = read_lease(name);
    const Moment moment = now();
    if (others(lease, moment)) return refused(*lease, moment);
  }
  Unit unit(*this);
  const Fence fence = read_fence(name);
  const auto lease = read_lease(name);
  const Moment moment = now();
  if (others(lease, moment)) {
    unit.commit();
    return refused(*lease, moment);
  }
  // No predecessor can have slipped in since this transaction's first acquisition, so the same call issues no further term.
  if (const Acquired* first = passed_checks_.acquired(name); first != nullptr && lease && !lease->released && lease->expires_at > moment &&
                                                     lease->term == first->term && fence.exists && fence.term == first->term && !fence.in_doubt) {
    if (first->owner != owner || first->ttl_ms != ttl_ms || first->endpoint != endpoint) {
      throw InvalidInput(
          fmt::format("TG005 this transaction has acquired the lease of scope \"{}\" already, with another TTL or endpoint: use renew_lease", name));
    }
    unit.commit();
    return {true, first->term, lease->expires_at, owner, lease->expires_at - moment};
  }
  refuse_passed(name, "an acquisition");
  const std::int64_t base = std::max(height(name, fence), lease ? lease->term : 0);
  const std::int64_t term = base + (fence.in_doubt ? doubt_jump() : TERMGATE_PLANTED(sqlite_lease) && base > 0 ? 0 : 1);
  if (term > Term::max_value) {
    throw InvalidInput(fmt::format("TG005 scope \"{}\" has no terms left above {}: termgate_reset_fence lowers it", name, base));
  }
  Json detail('{');
  detail.key("owner").value(owner);
  if (lease) detail.key("previous_owner").value(lease->owner);
  detail.key("evicted").value(std::int64_t{0}).key("expires_at").value(moment + ttl_ms);
  if (endpoint) detail.key("endpoint").value(*endpoint);
  if (fence.in_doubt) detail.key("doubt_ended").value(true);
  raise(name, fence, term, false, owner, "acquire", detail.members());
  use(lease ? stmt::lease_take : stmt::lease_insert)
      .bind(name)
      .bind(owner)
      .bind(term)
      .bind(moment + ttl_ms)
      .bind(moment)
      .bind(endpoint)
      .run();
  end_runs(name, term);
  if (!own_unit_) passed_checks_.acquired(name, owner, ttl_ms, endpoint, term);
  unit.commit();
  return {true, term, moment + ttl_ms, owner, ttl_ms};
}

Layer1::Renewal Layer1::renew_lease(const Scope& scope, const std::string& owner, Term term, std::int64_t ttl_ms) {
  require_name(owner, "owner");
  require_ttl(ttl_ms);
  Unit unit(*this);
  const Fence fence = read_fence(scope.name());
  refuse_in_doubt(scope.name(), fence);
  const auto lease = read_lease(scope.name());
  const Moment moment = now();
  bool renewed = false;
  if (lease && height(scope.name(), fence) <= term.value()) {
    use(stmt::lease_renew).bind(scope.name()).bind(owner).bind(term.value()).bind(moment).bind(moment + ttl_ms).run();
    renewed = sqlite3_changes(db_) == 1;
  }
  unit.commit();
  if (renewed) return {true, moment + ttl_ms, ttl_ms};
  return {false, lease ? std::optional(lease->expires_at) : std::nullopt, lease ? lease->expires_at - moment : 0};
}

bool Layer1::release_lease(const Scope& scope, const std::string& owner, Term term) {
  require_name(owner, "owner");
  Unit unit(*this);
  use(stmt::lease_release).bind(scope.name()).bind(owner).bind(term.value()).bind(now()).run();
  const bool released = sqlite3_changes(db_) == 1;
  if (released) audit("release", scope.name(), Json('{').key("term").value(term.value()).key("owner").value(owner).close(), owner);
  unit.commit();
  return released;
}

bool Layer1::force_release(const Scope& scope, const std::string& actor, const std::string& reason) {
  require_said(actor, "actor");
  require_said(reason, "reason");
  Unit unit(*this);
  refuse_passed(scope.name(), "a forced release");
  const auto lease = read_lease(scope.name());
  if (!lease) {
    unit.commit();
    return false;
  }
  const Fence fence = read_fence(scope.name());
  const std::int64_t base = std::max(height(scope.name(), fence), lease->term);
  if (base >= Term::max_value) throw InvalidInput(fmt::format("TG005 scope \"{}\" has no terms left", scope.name()));
  raise(scope.name(), fence, base + 1, fence.in_doubt, actor, "force_release",
        Json('{').key("owner").value(lease->owner).key("reason").value(reason).key("evicted").value(std::int64_t{0}).members());
  use(stmt::lease_force).bind(scope.name()).bind(now()).run();
  end_runs(scope.name(), base + 1);
  unit.commit();
  return true;
}

// ------------------------------------------------------------------------------------------------- the operator

std::int64_t Layer1::reset_fence(const Scope& scope, Term term, const std::string& actor, const std::string& reason) {
  require_said(actor, "actor");
  require_said(reason, "reason");
  Unit unit(*this);
  const std::string& name = scope.name();
  refuse_passed(name, "a reset");
  const Fence fence = read_fence(name);
  const std::int64_t stands_at = height(name, fence);
  if (term.value() > stands_at) {
    throw InvalidInput(
        fmt::format("TG005 a reset lowers: the fence of scope \"{}\" stands at {}; termgate_seal raises it", name, stands_at));
  }
  if (!fence.exists) raise(name, fence, stands_at, fence.in_doubt, actor, "raise", from_evidence("a reset"));
  if (term.value() < stands_at) {
    use(stmt::reset_insert).bind(name).bind(stands_at).bind(term.value()).bind(now()).bind(actor).bind(reason).run();
    lowering_.emplace(name, term.value());
    try {
      use(stmt::fence_reset).bind(name).bind(term.value()).bind(now()).bind(actor).run();
    } catch (...) {
      lowering_.reset();
      throw;
    }
    lowering_.reset();
    use(stmt::lease_reset).bind(name).bind(term.value()).bind(now()).run();
  }
  audit("reset", name, Json('{').key("term").value(term.value()).key("previous").value(stands_at).key("reason").value(reason).close(), actor);
  unit.commit();
  return stands_at;
}

std::int64_t Layer1::declare_restored(const Scope& scope, Term above, const std::string& actor, const std::string& reason) {
  require_said(actor, "actor");
  require_said(reason, "reason");
  Unit unit(*this);
  refuse_passed(scope.name(), "a declaration");
  const Fence fence = read_fence(scope.name());
  const std::int64_t term = std::max(height(scope.name(), fence), above.value());
  raise(scope.name(), fence, term, false, actor, "declare_restored", Json('{').key("above").value(above.value()).key("reason").value(reason).members());
  unit.commit();
  return term;
}

std::int64_t Layer1::declare_nothing_lost(const std::string& actor, const std::string& reason) {
  return declare_doubt(false, "declare_nothing_lost", actor, reason);
}

std::int64_t Layer1::declare_in_doubt(const std::string& actor, const std::string& reason) {
  return declare_doubt(true, "declare_in_doubt", actor, reason);
}

std::int64_t Layer1::declare_doubt(bool in_doubt, std::string_view action, const std::string& actor, const std::string& reason) {
  require_said(actor, "actor");
  require_said(reason, "reason");
  Unit unit(*this);
  use(stmt::incarnation_doubt).bind(std::int64_t{in_doubt}).run();
  use(stmt::fences_doubt).bind(std::int64_t{in_doubt}).run();
  const std::int64_t scopes = sqlite3_changes(db_);
  fence_changed();
  audit(action, std::nullopt, Json('{').key("reason").value(reason).key("scopes").value(scopes).close(), actor);
  unit.commit();
  return scopes;
}

std::string Layer1::set_raise_by(const Scope& scope, const std::string& mode) {
  if (mode != "writer" && mode != "seal") {
    throw InvalidInput(fmt::format("TG005 raise_by is writer or seal, not \"{}\"", mode));
  }
  Unit unit(*this);
  const Fence fence = read_fence(scope.name());
  if (!fence.exists) {
    raise(scope.name(), fence, height(scope.name(), fence), fence.in_doubt, client_, "raise", from_evidence("raise_by"));
  }
  use(stmt::fence_raise_by).bind(scope.name()).bind(mode).run();
  audit("set_raise_by", scope.name(), Json('{').key("raise_by").value(mode).close());
  unit.commit();
  return mode;
}

std::int64_t Layer1::prune(const Stream& stream, std::int64_t before) {
  Unit unit(*this);
  std::vector<std::string> scopes;
  {
    Running read = use(stmt::prune_scopes);
    read.bind(stream.name()).bind(before);
    while (read.step()) scopes.push_back(read.text(0));
  }
  // The rows may be the only evidence left of a fence whose row was lost: it is folded in before they go.
  for (const std::string& scope : scopes) {
    const Fence fence = read_fence(scope);
    const std::int64_t known = evidence(scope, fence.exists, !fence.exists || fence.was_reset);
    if (!fence.exists || known > fence.term) {
      raise(scope, fence, std::max(known, fence.term), fence.in_doubt, client_, "raise", from_evidence("pruning"));
    }
  }
  use(stmt::prune).bind(stream.name()).bind(before).run();
  const std::int64_t pruned = sqlite3_changes(db_);
  if (pruned > 0) audit("prune", std::nullopt, Json('{').key("stream").value(stream.name()).key("before").value(before).key("deleted").value(pruned).close());
  unit.commit();
  return pruned;
}

std::int64_t Layer1::prune_history(std::int64_t older_than_ms) {
  // What is collected elsewhere each hour misses nothing so.
  if (older_than_ms < 3'600'000) {
    throw InvalidInput(fmt::format("TG005 prune_history needs an age of 1 hour or more, not {} ms", older_than_ms));
  }
  Unit unit(*this);
  const Moment moment = now() - older_than_ms;
  use(stmt::prune_audit).bind(moment).run();
  std::int64_t pruned = sqlite3_changes(db_);
  use(stmt::prune_jobs).bind(moment).run();
  pruned += sqlite3_changes(db_);
  audit("prune_history", std::nullopt, fmt::format(R"({{"older_than_ms":{},"deleted":{}}})", older_than_ms, pruned));
  unit.commit();
  return pruned;
}

bool Layer1::stream_move(const Stream& stream, const Scope& scope, const std::string& actor, const std::string& reason) {
  require_said(actor, "actor");
  require_said(reason, "reason");
  Unit unit(*this);
  std::string from;
  {
    Running read = use(stmt::stream_read);
    if (!read.bind(stream.name()).step()) throw InvalidInput(fmt::format("TG005 there is no stream \"{}\"", stream.name()));
    from = read.text(0);
  }
  const bool moved = from != scope.name();
  if (moved) {
    use(stmt::stream_move).bind(stream.name()).bind(scope.name()).run();
    if (sqlite3_changes(db_) != 1) throw DatabaseError(fmt::format("stream \"{}\" has lost its row", stream.name()));
    audit("stream_move", scope.name(), Json('{').key("stream").value(stream.name()).key("from").value(from).key("reason").value(reason).close(), actor);
  }
  unit.commit();
  return moved;
}

void Layer1::set_setting(const std::string& name, const std::string& value) {
  if (name == "check_wait_ms") {
    number_of(value, "check_wait_ms", 0, 600'000);
  } else if (name == "eviction_grace_ms") {
    number_of(value, "eviction_grace_ms", 0, 600'000);
  } else if (name == "payload_bytes_max") {
    number_of(value, "payload_bytes_max", 1, 268'435'456);
  } else if (name == "default_raise_by") {
    if (value != "writer" && value != "seal") {
      throw InvalidInput(fmt::format("TG005 setting default_raise_by is writer or seal, not \"{}\"", value));
    }
  } else {
    throw InvalidInput(fmt::format(
        "TG005 there is no setting \"{}\": check_wait_ms, default_raise_by, eviction_grace_ms and payload_bytes_max are all", name));
  }
  Unit unit(*this);
  const auto before = setting(name);
  use(stmt::setting_write).bind(name).bind(value).run();
  if (sqlite3_changes(db_) != 1) throw DatabaseError(fmt::format("the setting {} has lost its row: run termgate init again", name));
  audit("setting", std::nullopt, Json('{').key("name").value(name).key("value").value(value).key("previous").value(before).close());
  unit.commit();
}

void Layer1::count_refusal(const std::string& scope, std::int64_t term) {
  // The driver counts its own.
  if (boundaries_known_ || (refused_.size() >= refused_max && !refused_.contains(scope))) return;
  const Moment moment = now();
  const auto [entry, fresh] = refused_.try_emplace(scope, Refused{term, 0, moment, moment});
  entry->second.count += 1;
  entry->second.term = term;
  entry->second.last = moment;
}

bool Layer1::write_refusals() {
  if (refused_.empty()) return false;
  const Moment moment = now();
  if (moment >= refusals_written_ && moment - refusals_written_ < 1000) return false;
  try {
    for (const auto& [scope, refused] : refused_) {
      audit("refuse", scope,
            Json('{').key("term").value(refused.term).key("count").value(refused.count).key("first").value(refused.first).key("last").value(refused.last).key("client").value(client_).close());
    }
    refusals_written_ = moment;
    return true;
  } catch (const DatabaseError&) {
    return false;  // layer 1 is being taken away: there is no audit to write to
  }
}

void Layer1::record_refusal(const std::string& scope, std::int64_t term, std::int64_t count, Moment first, Moment last,
                         const std::string& client) {
  Unit unit(*this);
  use(stmt::audit_insert)
      .bind(now())
      .bind(client_)
      .bind(session_user_)
      .bind(client)
      .bind("refuse")
      .bind(scope)
      .bind(fmt::format(R"({{"term":{},"count":{},"first":{},"last":{}}})", term, count, first, last))
      .run();
  unit.commit();
}

// --------------------------------------------------------------------------------------------------- job history

// The lease was taken or force-released: its runs can neither be beaten nor completed any more.
void Layer1::end_runs(std::string_view scope, std::int64_t below) { use(stmt::runs_over).bind(scope).bind(below).bind(now()).run(); }

std::string Layer1::job_start(const std::string& job_name, const Scope& scope, const std::string& owner, Term term,
                           const std::optional<std::string>& detail) {
  require_name(job_name, "job name");
  require_name(owner, "owner");
  Unit unit(*this);
  admit(scope.name(), term.value(), judge(scope.name(), term.value(), Raise::allowed, false));
  const std::string run_id = WriteId::random().text();
  const Moment moment = now();
  use(stmt::jobs_lost).bind(scope.name()).bind(term.value()).bind(moment).bind(job_name).run();
  {
    Running open = use(stmt::job_open);
    if (open.bind(scope.name()).bind(job_name).step()) {
      throw InvalidInput(fmt::format("TG005 job \"{}\" of scope \"{}\" has an open run already, {}: finish it first", job_name, scope.name(), open.text(0)));
    }
  }
  use(stmt::job_insert).bind(run_id).bind(job_name).bind(scope.name()).bind(owner).bind(term.value()).bind(moment).bind(detail).run();
  unit.commit();
  return run_id;
}

// The scope and term of an open run pass the check, or TG001; false: the run is no longer open.
bool Layer1::job_checked(const std::string& run_id) {
  std::string scope;
  std::int64_t term = 0;
  {
    Running read = use(stmt::job_read);
    if (!read.bind(run_id).step()) return false;
    scope = read.text(0);
    term = read.integer(1);
  }
  admit(scope, term, judge(scope, term, Raise::allowed, false));
  return true;
}

bool Layer1::job_heartbeat(const std::string& run_id, const std::optional<std::string>& checkpoint) {
  Unit unit(*this);
  if (!job_checked(run_id)) return false;
  use(stmt::job_beat).bind(run_id).bind(now()).bind(checkpoint).run();
  const bool beaten = sqlite3_changes(db_) == 1;
  unit.commit();
  return beaten;
}

bool Layer1::job_finish(const std::string& run_id, const std::string& status, std::optional<std::int64_t> exit_code,
                     const std::optional<std::string>& detail, const std::optional<std::string>& checkpoint) {
  constexpr std::array<std::string_view, 4> ends = {"completed", "failed", "cancelled", "lost"};
  if (std::find(ends.begin(), ends.end(), status) == ends.end()) {
    throw InvalidInput(fmt::format("TG005 a job ends completed, failed, cancelled or lost, not \"{}\"", status));
  }
  Unit unit(*this);
  // Failed, cancelled and lost may be said by whoever has lost the lead.
  if (status == "completed" && !job_checked(run_id)) return false;
  use(stmt::job_finish).bind(run_id).bind(status).bind(now()).bind(exit_code).bind(detail).bind(checkpoint).run();
  const bool finished = sqlite3_changes(db_) == 1;
  unit.commit();
  return finished;
}

// ------------------------------------------------------------------------------------------------------- guards

bool Layer1::attached() {
#if SQLITE_VERSION_NUMBER >= 3039000
  if (sqlite3_libversion_number() >= 3039000) return sqlite3_db_name(db_, 2) != nullptr;
#endif
  return use(stmt::attached).step();
}

bool Layer1::guard_arm() {
  if (!attached()) return false;
  // A trigger at work in the main database means that this holds its write lock.
  if (sqlite3_txn_state(db_, "main") != SQLITE_TXN_WRITE) return true;
  try {
    {
      // A ROLLBACK TO takes the mark back.
      Running read = use(stmt::here_read);
      if (!read.step()) throw DatabaseError("termgate_here has lost its row: run termgate init again");
      if (mark_ && read.integer(0) == *mark_) return true;
    }
    mark_.reset();
    track();
    std::int64_t mark = 0;
    sqlite3_randomness(sizeof mark, &mark);
    marking_ = true;
    Running write = use(stmt::here_write);
    write.bind(mark).run();
    marking_ = false;
    if (sqlite3_changes(db_) == 1) mark_ = mark;
  } catch (const DatabaseError&) {
    // No layer 1 in the main database, or an earlier version's: then the trigger that asks is not the main database's.
    marking_ = false;
    mark_.reset();
  }
  return true;
}

void Layer1::require_here(std::string_view table, const std::optional<Handed>& handed) {
  if (!attached()) return;
  if (!handed) {
    throw InvalidInput(
        fmt::format("TG005 the triggers of table \"{}\" were made by an earlier version of Termgate and do not say which file they belong "
                    "to, and a file is attached to this connection: run termgate init on each file, or DETACH",
                    table));
  }
  if (sqlite3_txn_state(db_, "main") == SQLITE_TXN_WRITE && mark_ && handed->mark == mark_) return;
  throw InvalidInput(
      fmt::format("TG005 table \"{}\" belongs to an attached file, whose fences this connection does not compare with: open that file as "
                  "the main database of a connection to write to it",
                  table));
}

void Layer1::guard_row(std::string_view table, const RowScope& row) {
  if (row.kind == RowScope::Kind::null) {
    throw InvalidInput(fmt::format("TG005 a row of table \"{}\" has no scope: its scope column is NULL", table));
  }
  if (row.kind == RowScope::Kind::unfit) {
    throw InvalidInput(fmt::format("TG005 a row of table \"{}\" has a scope that is neither text nor an integer", table));
  }
  if (Pass* pass = passed_checks_.find(row.text)) {
    // Nobody else can raise while this transaction writes; what it raised itself has been counted.
    if (pass->raises == passed_checks_.raises()) return;
    const Fence fence = read_fence(row.text);
    refuse_in_doubt(row.text, fence);
    if (fence.term > pass->term) refuse_stale_write(row.text, pass->term, fence.term);
    pass->raises = passed_checks_.raises();
    return;
  }
  if (const char* problem = name_problem(row.text)) {
    throw InvalidInput(fmt::format("TG005 a row of table \"{}\" has a malformed scope: {}", table, problem));
  }
  if (!declared_scope_ || declared_scope_->name() != row.text || !declared_term_) {
    throw TermRequired(
        fmt::format("TG002 no term declared for scope \"{}\": table \"{}\" is protected; run SELECT termgate_check_term('{}', TERM) in "
                    "this transaction, or SELECT termgate_declare('{}', TERM) on this connection",
                    row.text, table, row.text, row.text));
  }
  lock();
  admit(row.text, declared_term_->value(), judge(row.text, declared_term_->value(), Raise::refused, false));
}

void Layer1::guard_any(std::string_view table) {
  for (const auto& [scope, pass] : passed_checks_.passes()) {
    if (pass.raises == passed_checks_.raises()) return;
    const Fence fence = read_fence(scope);
    if (!fence.in_doubt && fence.term <= pass.term) return;
  }
  if (!declared_scope_ || !declared_term_) {
    throw TermRequired(
        fmt::format("TG002 no term declared: table \"{}\" is protected for any scope; run SELECT termgate_check_term(SCOPE, TERM) in this "
                    "transaction, or SELECT termgate_declare(SCOPE, TERM) on this connection",
                    table));
  }
  const std::string scope = declared_scope_->name();
  lock();
  admit(scope, declared_term_->value(), judge(scope, declared_term_->value(), Raise::refused, false));
}

void Layer1::observe_row(std::string_view table, const std::optional<RowScope>& row, const std::optional<Handed>& handed) noexcept {
  try {
    try {
      require_here(table, handed);
    } catch (const InvalidInput&) {
      return;  // of an attached file, whose fences are not known here: what would be refused cannot be counted
    }
    std::string reason;
    try {
      if (row) {
        guard_row(table, *row);
      } else {
        guard_any(table);
      }
      return;
    } catch (const Error& refusal) {
      reason = std::string(refusal.code());
    }
    require_trigger();
    use(stmt::observed_count).bind(table).bind(row ? row->text : std::string("*")).bind(reason).bind(now()).run();
  } catch (const std::exception&) {
    // Mode observe lets everything pass, its own troubles included; doctor shows what was counted.
  }
}

// That a statement is at work which writes, as the one whose trigger calls us does.
void Layer1::require_trigger() {
  if (sqlite3_txn_state(db_, "main") == SQLITE_TXN_WRITE) {
    for (sqlite3_stmt* at = sqlite3_next_stmt(db_, nullptr); at != nullptr; at = sqlite3_next_stmt(db_, at)) {
      if (sqlite3_stmt_busy(at) != 0 && sqlite3_stmt_readonly(at) == 0) return;
    }
  }
  throw InvalidInput("TG005 a guard is called by the triggers of Termgate alone");
}

void Layer1::require_adopted(std::string_view table) {
  Running read = use(stmt::adopted_find);
  if (!read.bind(table).step()) throw InvalidInput(fmt::format("TG005 table \"{}\" is not adopted, and its guard was called", table));
}

void Layer1::guard_adopted(std::string_view table, const RowScope& row, std::optional<std::int64_t> term) {
  if (row.kind == RowScope::Kind::null || !term) return;
  if (row.kind == RowScope::Kind::unfit) {
    throw InvalidInput(fmt::format("TG005 a row of the adopted table \"{}\" has a scope that is neither text nor an integer", table));
  }
  const Scope scope(row.text);
  const Term row_term(*term);
  const Fence fence = read_fence(scope.name());
  if (fence.exists && row_term.value() <= fence.term) return;
  refuse_in_doubt(scope.name(), fence);
  // The guard is callable from views, for triggers must call it under trusted_schema = OFF: a mere reading of one
  // raises nothing.
  require_trigger();
  require_adopted(table);
  const std::int64_t stands_at = height(scope.name(), fence);
  if (row_term.value() > stands_at) {
    const std::string raise_by = fence.raise_by ? *fence.raise_by : setting("default_raise_by").value_or("writer");
    if (raise_by == "seal") {
      throw InvalidInput(
          fmt::format("TG005 a row of term {} in the adopted table \"{}\" is above the fence of scope \"{}\", {}, "
                      "which only a seal raises",
                      row_term.value(), table, scope.name(), stands_at));
    }
    refuse_unissued(scope.name(), row_term.value());
  }
  raise(scope.name(), fence, std::max(stands_at, row_term.value()), fence.in_doubt, client_, "raise", Json('{').key("table").value(table).members());
}

std::string Layer1::flush_problem(bool* folder) {
  const char* path = sqlite3_db_filename(db_, "main");
  if (path == nullptr || *path == '\0') return {};  // in memory: nothing outlives the process
  // A PRAGMA's answer is fixed when it is prepared, so these two are prepared anew each time.
  Statement synchronous(db_, "PRAGMA main.synchronous");
  Running level(synchronous.get());
  if (!level.step() || level.integer(0) < 2) {
    return fmt::format("PRAGMA synchronous is {}: set it to FULL, outside a transaction", level.integer(0) == 0 ? "OFF" : "NORMAL");
  }
  Statement journal(db_, "PRAGMA main.journal_mode");
  Running mode(journal.get());
  if (!mode.step() || mode.text(0) == "off") return "PRAGMA journal_mode is OFF, so nothing can be rolled back";
  if (folder != nullptr) *folder = mode.text(0) == "delete" && level.integer(0) == 2;
  return {};
}

void Layer1::guard_raise(std::string_view scope, std::int64_t term) {
  fence_changed();
  // The table has a CHECK, which PRAGMA ignore_check_constraints switches off.
  if (term < 0 || term > Term::max_value) {
    throw InvalidInput(fmt::format("TG005 {} is no term for the fence of scope \"{}\": a term is an integer from 1 to 2^62", term, scope));
  }
  if (term == 0) return;
  bool folder = false;
  if (const std::string problem = flush_problem(&folder); !problem.empty()) {
    wants_flush_ = true;
    throw InvalidInput(
        fmt::format("TG005 the fence of scope \"{}\" cannot be raised to {}, for a crash could take it back: {}", scope, term, problem));
  }
  if (!folder) return;
  // A commit in mode DELETE is the removal of the journal, and FULL, unlike EXTRA, does not flush the folder
  // that it is removed from: after a power cut the journal may be back, and undo the raise (F3). So we do.
  flush_folder_ = true;
}

void Layer1::transaction_ended(bool committed) noexcept {
  passed_checks_.ended();
  mark_.reset();
  if (!std::exchange(flush_folder_, false) || !committed) return;
  try {
    const std::string folder = std::filesystem::path(sqlite3_db_filename(db_, "main")).parent_path();
    const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    if (fsync(descriptor) == 0) ++folder_flushes_;
    close(descriptor);
  } catch (const std::exception&) {
    // Out of memory for a path: the commit stands, as durable as FULL makes it.
  }
}

bool Layer1::guard_lower(std::string_view scope, std::int64_t term) {
  fence_changed();
  return lowering_ && lowering_->first == scope && lowering_->second == term;
}

void Layer1::guard_replace(std::string_view table) {
  Statement pragma(db_, "PRAGMA recursive_triggers");
  Running value(pragma.get());
  if (value.step() && value.integer(0) != 0) return;
  throw InvalidInput(
      fmt::format("TG005 table \"{}\" has a unique index over an expression, or a key that REPLACE would fill with a default's, so the "
                  "rows that REPLACE would remove can only be seen with PRAGMA recursive_triggers = ON on this connection",
                  table));
}

// --------------------------------------------------------------------------------------------------- lock holder

// The kernel lists who holds which byte of which file; nothing is opened, for closing a descriptor of the
// database would drop this process's own locks on it.
long lock_owner(std::istream& locks, const std::vector<std::string>& files, long long first_byte, long long last_byte) {
  std::string line;
  while (std::getline(locks, line)) {
    std::istringstream fields(line);
    std::string number, kind, advice, mode, pid_text, file, first, last;
    fields >> number >> kind;
    if (kind == "->") continue;
    fields >> advice >> mode >> pid_text >> file >> first >> last;
    if (std::find(files.begin(), files.end(), file) == files.end()) continue;
    const long long low = std::atoll(first.c_str());
    const long long high = last == "EOF" ? low : std::atoll(last.c_str());
    if (high < first_byte || low > last_byte) continue;
    if (const long pid = std::atol(pid_text.c_str()); pid > 0) return pid;
  }
  return 0;
}

namespace {

// What the kernel calls the file in that list, "08:01:4711": device and inode, for other file systems count their
// inodes from 1 as well. The device is the file system's own, which on btrfs and overlays is not what stat() gives:
// there the mount tells.
std::vector<std::string> lock_names(const std::string& path) {
  struct statx status {};
  if (statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC, STATX_INO | STATX_MNT_ID, &status) != 0) return {};
  std::vector<std::string> names{fmt::format("{:02x}:{:02x}:{}", status.stx_dev_major, status.stx_dev_minor, status.stx_ino)};
  if ((status.stx_mask & STATX_MNT_ID) == 0) return names;
  std::ifstream mounts("/proc/self/mountinfo");
  std::string line;
  while (std::getline(mounts, line)) {
    unsigned long long id = 0;
    unsigned major = 0, minor = 0;
    if (std::sscanf(line.c_str(), "%llu %*d %u:%u", &id, &major, &minor) == 3 && id == status.stx_mnt_id) {
      names.push_back(fmt::format("{:02x}:{:02x}:{}", major, minor, status.stx_ino));
      break;
    }
  }
  return names;
}

}  // namespace

int lock_holder_pid(sqlite3* db) {
  const char* path = sqlite3_db_filename(db, "main");
  if (path == nullptr || *path == '\0') return 0;
  struct Wanted {
    std::string path;
    long long first, last;
  };
  // SQLite's file format, "locking": the WAL's write lock is byte 120 of the -shm file; in a rollback
  // journal the pending, reserved and shared bytes stand from 2^30 on.
  const Wanted places[] = {{std::string(path) + "-shm", 120, 120}, {path, 0x40000000, 0x40000001 + 510}};
  for (const Wanted& place : places) {
    std::ifstream locks("/proc/locks");
    const long pid = lock_owner(locks, lock_names(place.path), place.first, place.last);
    if (pid > 0) return static_cast<int>(pid);
  }
  return 0;
}

std::string lock_holder(sqlite3* db) {
  const int pid = lock_holder_pid(db);
  if (pid == 0) return "another connection";
  return pid == getpid() ? "another connection of this process" : process_name(pid);
}

}  // namespace termgate::inline v0::sqlite
