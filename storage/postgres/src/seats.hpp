// The seats of a driver's sessions: a session with a seat may write under a scope and term without
// a check (docs/reference/lock-protocol.md, seats).
//
// A session takes a seat with the eighth check of one scope and term within a second. It gives the
// seat up, above all, when a raise wants the scope, when the seat was not used for a second,
// and when the keeper has had no answer for a while. It does so on its own connection and outside
// any transaction, so that none of its writes is under way, and is used again once the server has
// answered. If no answer comes, the connection is closed; its seats end when the server notices
// that.
//
// The keeper, a thread with a connection of its own, reads every 20 ms which seats are wanted, as
// long as seats are used, and gives up seats for idle sessions. A session that is lent for a
// write gives up seats first if it must. If a busy session does not return within a raise's grace,
// the raise ends it.
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

namespace termgate {
inline namespace v0 {
namespace detail {

// The request of the keeper, and of a proxy's feed: returns bell, place and scope; a row for each
// wanted scope, or one row without a scope.
inline constexpr std::string_view seats_wanted_sql =
    "SELECT w.bell, w.place, w.wanted[i.n] AS scope FROM @schema@.seats_wanted($1, $2) w LEFT JOIN "
    "LATERAL "
    "pg_catalog.generate_subscripts(w.wanted, 1) i (n) ON true";

// 256 random bits by which seats are given back.
Bytes seat_secret();

// A session and its seats. Used by one call, and so by one thread, at a time.
class Session final : public Connection {
 public:
  using Connection::Connection;

  // Whether it may write under (scope, term) without a check.
  bool sits(std::string_view scope, Term term) const;
  bool sits_in(std::string_view scope) const;
  bool sits_anywhere() const { return seated_ > 0; }

  std::thread::id last_thread{};  // the last thread that wrote on it

 private:
  friend class Seats;
  using Clock = std::chrono::steady_clock;
  struct Place {
    Term term;
    std::string nonce = {};  // of its seat; empty: no seat
    int checks = 0;          // while it has no seat: checks since `since`
    Clock::time_point since{}, used{};
  };
  std::map<std::string, Place, std::less<>> places_;  // by scope
  int seated_ = 0;
};

// Any thread, each with a session that it has borrowed.
class Seats {
 public:
  struct Hooks {
    std::function<std::unique_ptr<Session>()> connect;
    // Runs a statement for the keeper or for a session that gives up seats. Throws the library's
    // errors.
    std::function<Rows(Connection&, const Statement&)> run;
    // Calls `use` with each idle session that `which` picks. If `use` throws, the session is
    // closed.
    std::function<void(const std::function<bool(const Session&)>& which,
                       const std::function<void(Session&)>& use)>
        each_idle;
  };
  Seats(const std::string& schema, Hooks hooks);
  // Must be destroyed before the pool of sessions.
  ~Seats();
  Seats(const Seats&) = delete;
  Seats& operator=(const Seats&) = delete;

  // Call it before a write under (scope, term): the session gives up seats that it must not use any
  // more. If it throws, the session must be closed.
  void give_way(Session& session, const Scope& scope, Term term);
  // Gives up all seats, before a call that may take long, or may raise. Throws like give_way().
  void stand(Session& session);
  // A write under the session's seat begins.
  void use(Session& session, const Scope& scope);
  // The session is idle again. If it has seats, the keeper sends requests for some time.
  void returned(const Session& session);
  // Something was refused under the seat, so a check must decide: the seat is given up before the
  // next write.
  void doubt(Session& session);

  // Counts a check. Returns the statement to send in its place, which also takes a seat; none: it
  // is too early. Its first column is the fence.
  std::optional<std::string_view> time_to_sit(Session& session, const Scope& scope, Term term);
  std::vector<Value> sit_values(const Scope& scope, Term term);
  // That statement was answered, and its transaction has committed. Throws like give_way().
  void seated(Session& session, const Scope& scope, Term term, const Rows& answer);

 private:
  using Clock = Session::Clock;

  void keep();
  void ask(Connection& connection);
  // The scopes whose seats the session must not use any more.
  std::set<std::string, std::less<>> due(const Session& session) const;
  void stand(Session& session, const std::set<std::string, std::less<>>& scopes);

  const Hooks hooks_;
  const std::string hash_sql_, wanted_sql_, sit_sql_, stand_sql_;
  const Bytes secret_;

  // Read by writes, without the lock.
  std::atomic<Clock::time_point>
      heard_{};  // when the keeper sent the last request that was answered
  std::atomic<Clock::time_point>
      used_{};  // when a session with seats last became idle, or one wished for a seat
  std::atomic<Clock::time_point>
      gone_{};  // seats from before this moment are void: their database has changed
  std::atomic<bool> any_wanted_{false};

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  Bytes hash_;                         // of the secret
  Clock::time_point refused_until_{};  // until then the database grants no seats
  std::string place_;                  // identifies that database
  std::optional<std::int64_t> bell_;
  std::set<std::string, std::less<>> wanted_;
  bool stop_ = false;
  std::thread keeper_;  // runs from the first wish for a seat on
};

}  // namespace detail
}  // namespace v0
}  // namespace termgate
