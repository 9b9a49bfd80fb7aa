// The seats of a driver's sessions: who may write under a scope and term without a check (docs/reference/lock-protocol.md, seats).
//
// A session sits behind the eighth check of one scope and term within a second. It stands up when somebody wants the scope, when the seat
// was not used for ten seconds, and when the keeper has had no answer for a while. It stands up by itself, on its own connection and
// outside any transaction: so nothing of it is outstanding, and it is used again when that is answered. Where the answer stays away the
// connection is given up, and the server's word that the session has gone is the end of its seats.
//
// The keeper, a thread with a connection of its own, asks every 20 ms who is wanted, for as long as seats are used, and stands up for idle
// sessions. A session that is lent for a write stands up first where it must. A busy one that does not come back within a raise's grace is
// ended by the raise.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <termgate/scope.hpp>
#include <termgate/term.hpp>
#include <termgate/value.hpp>

#include "connection.hpp"

namespace termgate::inline v0::detail {

// The question of the holder of seats: bell, place, scope; a row for each wanted scope, or one with none.
inline constexpr std::string_view seats_wanted_sql =
    "SELECT w.bell, w.place, w.wanted[i.n] AS scope FROM @schema@.seats_wanted($1, $2) w LEFT JOIN LATERAL "
    "pg_catalog.generate_subscripts(w.wanted, 1) i (n) ON true";

// 256 bits of chance, which seats are given back by.
Bytes seat_secret();

// A session and its seats. One call, and so one thread, uses it at a time.
class Session final : public Connection {
 public:
  using Connection::Connection;

  // It writes under (scope, term) without a check.
  bool sits(std::string_view scope, Term term) const;
  bool sits_in(std::string_view scope) const;
  bool sits_anywhere() const { return seated_ > 0; }

  std::thread::id last_thread{};  // that has written on it

 private:
  friend class Seats;
  using Clock = std::chrono::steady_clock;
  struct Place {
    Term term;
    std::string nonce = {};  // of its seat; empty: it has none
    int checks = 0;          // since `since`, where it has none
    Clock::time_point since{}, used{};
  };
  std::map<std::string, Place, std::less<>> places_;  // by scope
  int seated_ = 0;
};

// Any thread, each with a session that it has lent.
class Seats {
 public:
  struct Hooks {
    std::function<std::unique_ptr<Session>()> connect;
    // Runs a statement of the keeper's or of a session that stands up. Throws the library's errors.
    std::function<Rows(Connection&, const Statement&)> run;
    // Calls `use` with one idle session after the other that `which` picks. What it throws closes the session.
    std::function<void(const std::function<bool(const Session&)>& which, const std::function<void(Session&)>& use)> each_idle;
  };
  Seats(const std::string& schema, Hooks hooks);
  // Before the pool of sessions ends.
  ~Seats();
  Seats(const Seats&) = delete;
  Seats& operator=(const Seats&) = delete;

  // Before a write under (scope, term): the session gives up what it must not use any more. What this throws is the end of the session.
  void give_way(Session& session, const Scope& scope, Term term);
  // Before what may take long, or raises. As give_way.
  void stand(Session& session);
  // A write under its seat begins.
  void use(Session& session, const Scope& scope);
  // Something was refused under the seat, so that a check has to tell: it is given up before the next write.
  void doubt(Session& session);

  // Counts a check. The statement that sits down and is sent instead; none: it is not the time. Its first column is the fence.
  std::optional<std::string_view> time_to_sit(Session& session, const Scope& scope, Term term);
  std::vector<Value> sit_values(const Scope& scope, Term term);
  // The statement was answered, and its transaction has been committed. As give_way.
  void seated(Session& session, const Scope& scope, Term term, const Rows& answer);

 private:
  using Clock = Session::Clock;

  void keep();
  void ask(Connection& connection);
  // The scopes whose seat the session must not use any more.
  std::set<std::string, std::less<>> due(const Session& session) const;
  void stand(Session& session, const std::set<std::string, std::less<>>& scopes);

  const Hooks hooks_;
  const std::string hash_sql_, wanted_sql_, sit_sql_, stand_sql_;
  const Bytes secret_;

  // What a write looks at, without the lock.
  std::atomic<Clock::time_point> heard_{};  // when the keeper sent the request whose answer it has
  std::atomic<Clock::time_point> used_{};   // any seat, or the wish for one
  std::atomic<Clock::time_point> gone_{};   // seats from before went with the database that they were in
  std::atomic<bool> any_wanted_{false};

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Bytes hash_;                         // of the secret
  Clock::time_point refused_until_{};  // the database gives none
  std::string place_;                  // which database that is
  std::optional<std::int64_t> bell_;
  std::set<std::string, std::less<>> wanted_;
  bool stop_ = false;
  std::thread keeper_;  // from the first wish for a seat on
};

}  // namespace termgate::inline v0::detail
