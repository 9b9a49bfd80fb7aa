#include "seats.hpp"

#include <random>

#include <termgate/detail/schema.hpp>
#include <termgate/error.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

using namespace std::chrono_literals;

// Taking a seat costs as much as about five checks.
constexpr int checks_before = 8;
constexpr auto checks_within = 1s;
constexpr int seats_max = 128;           // of one session
constexpr std::size_t places_max = 256;  // scopes that a session remembers
constexpr auto unused_after = 1s;
constexpr auto poll_every = 20ms;
constexpr auto deaf_after = 300ms;
constexpr auto refused_for = 5s;
// For how long after the last use of a seat the keeper sends requests, and then keeps its
// connection.
constexpr auto asked_for = unused_after + 500ms;
constexpr auto keeper_stays = 12s;

}  // namespace

Bytes seat_secret() {
  std::random_device chance;
  std::string bytes;
  while (bytes.size() < 32) {
    const auto word = chance();
    for (int at = 0; at < 4; ++at) bytes += static_cast<char>(word >> (8 * at));
  }
  return {bytes};
}

bool Session::sits(std::string_view scope, Term term) const {
  const auto found = places_.find(scope);
  return found != places_.end() && !found->second.nonce.empty() && found->second.term == term;
}

bool Session::sits_in(std::string_view scope) const {
  const auto found = places_.find(scope);
  return found != places_.end() && !found->second.nonce.empty();
}

Seats::Seats(const std::string& schema, Hooks hooks)
    : hooks_(std::move(hooks)),
      hash_sql_("SELECT pg_catalog.sha256($1)"),
      wanted_sql_(with_schema(seats_wanted_sql, schema)),
      sit_sql_(with_schema("SELECT s.fence, s.nonce::text AS nonce, s.why, "
                           "pg_catalog.pg_backend_pid() AS pid FROM @schema@.sit($1, $2, $3) s",
                           schema)),
      stand_sql_(with_schema("SELECT @schema@.stand($1, $2)", schema)),
      secret_(seat_secret()) {}

Seats::~Seats() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (keeper_.joinable()) keeper_.join();
}

std::set<std::string, std::less<>> Seats::due(const Session& session) const {
  std::set<std::string, std::less<>> due;
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  const bool all = now - heard_.load() > deaf_after;
  for (const auto& [scope, place] : session.places_) {
    if (place.nonce.empty()) continue;
    if (all || place.since <= gone_.load() || now - place.used > unused_after ||
        wanted_.contains(scope))
      due.insert(scope);
  }
  return due;
}

void Seats::stand(Session& session, const std::set<std::string, std::less<>>& scopes) {
  if (scopes.empty()) return;
  TextArray nonces;
  for (const std::string& scope : scopes) nonces.emplace_back(session.places_.at(scope).nonce);
  const Value values[] = {Value(std::move(nonces)), Value(secret_)};
  hooks_.run(session, {stand_sql_, values});
  for (const std::string& scope : scopes) session.places_.erase(scope);
  session.seated_ -= static_cast<int>(scopes.size());
}

void Seats::give_way(Session& session, const Scope& scope, Term term) {
  if (!session.sits_anywhere()) return;
  const auto now = Clock::now();
  const auto found = session.places_.find(scope.name());
  const bool here = found != session.places_.end() && !found->second.nonce.empty();
  const bool quiet = !any_wanted_.load() && now - heard_.load() <= deaf_after;
  // The keeper takes care of other seats that the session has and does not use.
  if (quiet && (!here || (found->second.term == term && found->second.since > gone_.load() &&
                          now - found->second.used <= unused_after)))
    return;
  auto due_now = due(session);
  if (here && found->second.term != term) due_now.insert(scope.name());
  stand(session, due_now);
}

void Seats::stand(Session& session) {
  std::set<std::string, std::less<>> all;
  for (const auto& [scope, place] : session.places_) {
    if (!place.nonce.empty()) all.insert(scope);
  }
  stand(session, all);
}

void Seats::use(Session& session, const Scope& scope) {
  session.places_.find(scope.name())->second.used = Clock::now();
}

void Seats::returned(const Session& session) {
  if (!session.sits_anywhere()) return;
  const auto now = Clock::now();
  used_.store(now);
  if (now - heard_.load() <= deaf_after) return;
  // The keeper may be asleep. Under the lock the notice cannot come just before it starts to wait.
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Seats::doubt(Session& session) {
  for (auto& [scope, place] : session.places_) place.used = {};
}

std::optional<std::string_view> Seats::time_to_sit(Session& session, const Scope& scope,
                                                   Term term) {
  const auto now = Clock::now();
  if (session.places_.size() >= places_max)
    std::erase_if(session.places_, [](const auto& one) { return one.second.nonce.empty(); });
  auto& place = session.places_.try_emplace(scope.name(), Session::Place{term}).first->second;
  if (!place.nonce.empty()) return std::nullopt;
  if (place.term != term || now - place.since > checks_within) place = {term, {}, 0, now, {}};
  if (++place.checks < checks_before || session.seated_ >= seats_max) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (now < refused_until_ || wanted_.contains(scope.name())) return std::nullopt;
  used_.store(now);
  if (!keeper_.joinable()) keeper_ = std::thread([this] { keep(); });
  if (now - heard_.load() > deaf_after) {
    changed_.notify_all();
    return std::nullopt;
  }
  return sit_sql_;
}

std::vector<Value> Seats::sit_values(const Scope& scope, Term term) {
  const std::lock_guard lock(mutex_);
  return {Value(scope.name()), Value(term.value()), Value(hash_)};
}

void Seats::seated(Session& session, const Scope& scope, Term term, const Rows& answer) {
  const auto now = Clock::now();
  const Row& row = answer.one();
  if (row[1].is_null()) {
    const std::lock_guard lock(mutex_);
    refused_until_ = now + refused_for;
    return;
  }
  session.places_.insert_or_assign(scope.name(),
                                   Session::Place{term, row[1].as_text(), 0, now, now});
  ++session.seated_;
  // Through a pooler the next statement may reach another session.
  if (row[3].as_int() == session.pid()) return;
  {
    const std::lock_guard lock(mutex_);
    refused_until_ = Clock::time_point::max();
  }
  stand(session);
}

void Seats::ask(Connection& connection) {
  std::optional<std::int64_t> bell;
  {
    const std::lock_guard lock(mutex_);
    // Each raise moves the bell; a request with a bell that has not moved returns no scopes. While
    // a raise waits no bell is sent, so that the next answer shows whether it is over.
    if (wanted_.empty()) bell = bell_;
  }
  const auto asked = Clock::now();
  const Value values[] = {Value(secret_), bell ? Value(*bell) : Value()};
  const Rows rows = hooks_.run(connection, {wanted_sql_, values});
  const Row& first = rows.rows.front();
  std::set<std::string, std::less<>> wanted;
  for (const Row& row : rows.rows) {
    if (!row[2].is_null()) wanted.insert(row[2].as_text());
  }
  const std::lock_guard lock(mutex_);
  if (place_ != first[1].as_text()) {
    place_ = first[1].as_text();
    gone_.store(Clock::now());
  }
  bell_ = first[0].as_int();
  wanted_ = std::move(wanted);
  any_wanted_.store(!wanted_.empty());
  heard_.store(asked);
}

void Seats::keep() {
  std::unique_ptr<Session> connection;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const auto in_use = [&] { return stop_ || Clock::now() - used_.load() <= asked_for; };
    if (!in_use()) {
      if (connection && changed_.wait_until(lock, used_.load() + keeper_stays, in_use)) continue;
      lock.unlock();
      connection.reset();
      lock.lock();
      changed_.wait(lock, in_use);
      continue;
    }
    lock.unlock();
    try {
      if (!connection) {
        auto made = hooks_.connect();
        const Value values[] = {Value(secret_)};
        const Rows hash = hooks_.run(*made, {hash_sql_, values});
        const std::lock_guard locked(mutex_);
        hash_.data = hash.one()[0].as_bytes();
        bell_.reset();
        connection = std::move(made);
      }
      ask(*connection);
      hooks_.each_idle([this](const Session& session) { return !due(session).empty(); },
                       [this](Session& session) { stand(session, due(session)); });
      lock.lock();
    } catch (const std::exception&) {
      // There is no such function, no right to call it, or no connection: checks go on as before.
      connection.reset();
      lock.lock();
      refused_until_ = std::max(refused_until_, Clock::now() + refused_for);
      changed_.wait_for(lock, std::chrono::milliseconds(refused_for), [&] { return stop_; });
    }
    changed_.wait_for(lock, poll_every, [&] { return stop_; });
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
