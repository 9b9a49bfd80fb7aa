// A client, the proxy's session and a model of PostgreSQL (postgres_model.hpp), between which bytes
// travel as far as an input says: what fuzz_pg_session and the simulation (tests/sim/) play. The
// program ends at a write without a check, at a ReadyForQuery too many or too few, at a state that
// is not the server's, at anything of ours that is shown.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/pgwire/startup.hpp>
#include <termgate/pg_session/session.hpp>
#include <termgate/statements/cache.hpp>

#include "postgres_model.hpp"
#include "unit/proxy/postgres/wire.hpp"

namespace termgate::test::game {

namespace pgwire = termgate::pgwire;
namespace pg_session = termgate::pg_session;

class Neighbours : public pg_session::SessionHost {
 public:
  std::int64_t highest_fence(std::string_view) const override { return fence; }
  void saw_fence(std::string_view, std::int64_t seen) override { fence = std::max(fence, seen); }
  termgate::statements::Cache& statements() override {
    static termgate::statements::Cache cache;  // answers do not depend on what was asked before
    return cache;
  }
  pg_session::SeatOffer seat_offer() const override { return offer; }
  void happened(const pg_session::Incident& incident) override {
    malformed |= incident.kind == pg_session::Incident::Kind::malformed;
  }

  std::int64_t fence = 0;
  pg_session::SeatOffer offer;
  bool malformed = false;
};

struct Input {
  const std::uint8_t* data;
  std::size_t size;
  bool empty() const { return size == 0; }
  std::uint8_t byte() {
    if (size == 0) return 0;
    --size;
    return *data++;
  }
  std::string_view bytes(std::size_t wanted) {
    const std::size_t count = std::min(wanted, size);
    const std::string_view taken(reinterpret_cast<const char*>(data), count);
    data += count;
    size -= count;
    return taken;
  }
};

inline const pg_session::Options& options() {
  static const pg_session::Options made = [] {
    pg_session::Options one;
    one.limits.statement_bytes_max = 8192;
    one.limits.message_bytes_max = 1 << 16;
    one.limits.bind_whole_bytes_max = 64;
    one.client_rules = pgwire::Rules::frontend(one.limits);
    one.outbox_bytes_max = 16u << 10;
    one.held_bytes_max = 512;
    one.server_is_local = true;
    one.idle_timeout = std::chrono::seconds(20);
    one.idle_in_transaction_timeout = std::chrono::seconds(10);
    return one;
  }();
  return made;
}

// TERMGATE_FUZZ_TELL=1: what goes where, for one input that is looked into.
inline std::string told_of;  // which of several games, where there are several
inline void tell(const char* where, std::string_view bytes) {
  static const bool told = std::getenv("TERMGATE_FUZZ_TELL") != nullptr;
  if (told && !bytes.empty())
    std::fprintf(stderr, "%s%s\n%s", told_of.c_str(), where,
                 termgate::test::wire::told(bytes).c_str());
}

inline pg_session::Admission admission(std::uint8_t rules) {
  pg_session::Admission one;
  one.without_term =
      rules & 1 ? pg_session::WithoutTerm::reject : pg_session::WithoutTerm::read_only;
  if ((rules & 12) == 12) one.without_term = pg_session::WithoutTerm::allow;
  if ((rules & 12) == 8) one.enforce = pg_session::Enforce::observe;
  return one;
}
inline bool declares(std::uint8_t rules) { return (rules & 2) == 0; }
// Whether there are seats, and from which check on.
inline pg_session::SeatOffer offer(std::uint8_t rules) {
  return {.secret = (rules & 32) != 0 ? "00ff" : "", .checks = 1, .runs_any_text = false};
}
inline bool old_server(std::uint8_t rules) { return (rules & 16) != 0; }

// Whether the server session is kept READ ONLY: where a term is needed, and where one is declared.
inline bool guarded(std::uint8_t rules) {
  return admission(rules).enforce == pg_session::Enforce::on &&
         (admission(rules).without_term != pg_session::WithoutTerm::allow || declares(rules));
}

// `asked`: gives the server's answers to what the session asks of it behind the login.
template <class Asked>
void log_in(pg_session::Session& one, std::uint8_t rules, std::int64_t term,
            pg_session::Instant now, Asked asked) {
  std::string bytes;
  std::vector<pgwire::StartupMessage::Parameter> parameters{{"user", "ann"}};
  const std::string declaration =
      "termgate.scope=orders;termgate.term=" + std::to_string(term) + ";";
  if (declares(rules)) parameters.emplace_back("application_name", declaration);
  pgwire::append_startup(bytes, 0, parameters);
  one.resume(pg_session::ClientBytes{bytes}, now);
  one.resume(pg_session::Admitted{admission(rules)}, now);
  one.resume(pg_session::ServerConnected{}, now);
  one.sent_to_server(one.to_server().size());
  bytes.clear();
  pgwire::append_authentication(bytes, pgwire::Authentication::Type::ok);
  pgwire::append_parameter_status(bytes, "server_version", old_server(rules) ? "13.9" : "15.20");
  pgwire::append_parameter_status(bytes, "client_encoding", "UTF8");
  pgwire::append_backend_key_data(bytes, PostgresModel::pid, "abcd");
  pgwire::append_ready_for_query(bytes, pgwire::TransactionStatus::idle);
  one.resume(pg_session::ServerBytes{bytes}, now);
  if (one.to_server().empty() || (one.to_server().find("SET default_transaction_read_only TO on") !=
                                  std::string_view::npos) != guarded(rules)) {
    broken("READ ONLY where it should not be, or not where it should", one.to_server());
  }
  const std::string question(one.to_server());
  one.sent_to_server(question.size());
  one.resume(pg_session::ServerBytes{asked(question)}, now);
  if (one.phase() != pg_session::Session::Phase::idle || !one.to_server().empty())
    broken("the login", termgate::test::wire::told(one.to_client()) + "to the server:\n" +
                            termgate::test::wire::told(one.to_server()));
  if (!one.to_client().ends_with(termgate::test::wire::ready('I')))
    broken("a login without its end", one.to_client());
  one.sent_to_client(one.to_client().size());
}

class Game {
 public:
  // `term`: that the client declares, where it declares one. Borrows both, which other games may
  // share: a proxy's memory, a server.
  Game(std::uint8_t rules, Input input, Neighbours& neighbours, PostgresWorld& world,
       std::int64_t term = 5, pg_session::Instant now = {})
      : rules_(rules),
        now_(now),
        input_(input),
        neighbours_(neighbours),
        session_(options(),
                 {.local = true, .encrypted_already = false, .cancel_key = std::string(32, 'k')},
                 neighbours_, now),
        server_(guarded(rules), !old_server(rules), declares(rules) ? "orders" : "",
                declares(rules) ? term : 0, &world),
        reader_(backend_rules()) {
    log_in(session_, rules, term, now, [this](std::string_view question) {
      tell("server gets", question);
      server_.receive(question);
      return std::exchange(server_.out, {});
    });
  }

  bool over() const { return over_; }
  bool spent() const { return over_ || input_.empty(); }

  void play() {
    for (int moves = 0; !spent() && moves < 200; ++moves) move();
    finish();
  }

  // A raise waits for the seat, or may.
  void want_gate() {
    if (over_) return;
    session_.resume(pg_session::GateWanted{"orders", true}, now_);
    look();
  }

  // The proxy has heard of a raise.
  void hear(std::int64_t fence) {
    if (over_) return;
    session_.resume(pg_session::FenceSeen{"orders", fence}, now_);
    look();
  }

  void time_passes(pg_session::Instant now) {
    now_ = now;
    const auto deadline = over_ ? std::nullopt : session_.deadline();
    if (!deadline || now < *deadline) return;
    session_.resume(pg_session::Tick{}, now_);
    look();
  }

  // The proxy is told to end: an idle session ends, a transaction goes on.
  void drain() {
    if (over_) return;
    session_.resume(pg_session::Drain{}, now_);
    look();
  }

  void finish() {
    settle();
    // A client that goes on behind a COPY without the Sync that the COPY swallowed waits for its
    // own.
    if (over() || server_.copying() || server_.swallowed > 0) return;
    if (!said_.empty() || !session_.wants_client()) broken("the session hangs", said_);
    if (!out_of_turn_ && seen_ < earned_)
      broken("a ReadyForQuery is missing", std::to_string(earned_ - seen_));
    if (earned_ > 0 && open_ == 0 && seen_ > 0 && last_state_ != server_.state())
      broken("another state than the server's", std::string_view(&last_state_, 1));
  }

 private:
  static const pgwire::Rules& backend_rules() {
    static const pgwire::Rules rules = pgwire::Rules::backend();
    return rules;
  }

  std::string_view text() {
    const std::uint8_t which = input_.byte();
    return PostgresModel::vocabulary[which % PostgresModel::vocabulary_client].sql;
  }
  std::string_view name() {
    constexpr std::string_view names[] = {"", "s", "x"};
    return names[input_.byte() % 3];
  }

 public:
  // The client says something, bytes travel, or a new leader takes over.
  void move() {
    switch (input_.byte() % 18) {
      case 0: return query(std::string(text()));
      case 1: return query(std::string(text()) + "; " + std::string(text()));
      case 2: {
        const std::string one(text()), two(text());
        return query(one + "; " + two + "; " + std::string(text()));
      }
      case 3: {
        const std::string_view as = name();
        pgwire::append_parse(said_, as, text());
        ++open_;
        break;
      }
      case 4: {
        const std::string_view of = name();
        pgwire::append_bind(said_, "", of, {});
        ++open_;
        break;
      }
      case 5:
        pgwire::append_execute(said_, "");
        ++open_;
        break;
      case 6: return sync();
      case 7:
        pgwire::append_bare(said_, pgwire::frontend::flush);
        ++open_;
        break;
      case 8:
      case 9: {
        const std::string_view as = name();
        if (!as.empty()) pgwire::append_close_statement(said_, as);
        pgwire::append_parse(said_, as, text());
        pgwire::append_bind(said_, "", as, {});
        if (input_.byte() % 2 == 0) pgwire::append_describe_portal(said_, "");
        pgwire::append_execute(said_, "");
        ++open_;
        if (input_.byte() % 4 != 0) sync();
        return;
      }
      case 10: {
        const std::uint8_t which = input_.byte();
        if (which % 3 == 0) pgwire::append_opaque(said_, pgwire::frontend::copy_data, "1\n");
        if (which % 3 == 1) pgwire::append_bare(said_, pgwire::frontend::copy_done);
        if (which % 3 == 2) pgwire::append_copy_fail(said_, "enough");
        break;
      }
      case 11: {
        pgwire::append_opaque(
            said_, pgwire::frontend::function_call,
            std::string_view(
                input_.byte() % 2 == 0 ? "\0\0\3\xba\0\0\0\0\0\0" : "\0\0\3\xbd\0\0\0\0\0\0", 10));
        ++earned_;
        out_of_turn_ |= open_ > 0;
        break;
      }
      case 12: {
        const std::string value(input_.byte() * 2u, 'v');
        const pgwire::Field field = value;
        pgwire::append_bind(said_, "", name(), std::span(&field, 1));
        ++open_;
        break;
      }
      case 13: client_speaks(1 + input_.byte()); break;
      case 14: to_server(1 + input_.byte()); break;
      case 15: to_client(1 + input_.byte()); break;
      case 16: settle(); break;
      case 17: {
        const std::uint8_t how = input_.byte();
        if (how >= 128) want_gate();
        const std::int64_t term = 4 + how % 3;
        server_.raise(term);
        if (input_.byte() % 2 == 0) {
          neighbours_.fence = std::max(neighbours_.fence, server_.fence());
          session_.resume(pg_session::FenceSeen{"orders", server_.fence()}, now_);
        }
        look();
        break;
      }
      default: break;
    }
  }

 private:
  void query(const std::string& sql) {
    out_of_turn_ |= open_ > 0;
    pgwire::append_query(said_, sql);
    ++earned_;
  }
  void sync() {
    pgwire::append_bare(said_, pgwire::frontend::sync);
    ++earned_;
    open_ = 0;
  }

  void client_speaks(std::size_t bytes) {
    if (said_.empty() || !session_.wants_client()) return;
    const std::string piece = said_.substr(0, bytes);
    said_.erase(0, piece.size());
    tell("client says", piece);
    session_.resume(pg_session::ClientBytes{piece}, now_);
    look();
  }
  void to_server(std::size_t bytes) {
    const std::string piece(session_.to_server().substr(0, bytes));
    session_.sent_to_server(piece.size());
    tell("server gets", piece);
    server_.receive(piece);
  }
  void to_client(std::size_t bytes) {
    if (server_.out.empty() || !session_.wants_server()) return;
    const std::string piece = server_.out.substr(0, bytes);
    server_.out.erase(0, piece.size());
    tell("server says", piece);
    session_.resume(pg_session::ServerBytes{piece}, now_);
    look();
  }

  // Until nothing moves.
  void settle() {
    for (int rounds = 0; !over(); ++rounds) {
      if (rounds > 10'000) broken("no end");
      if (!said_.empty() && session_.wants_client()) {
        client_speaks(said_.size());
      } else if (!session_.to_server().empty() && !server_.over) {
        to_server(session_.to_server().size());
      } else if (!server_.out.empty()) {
        to_client(server_.out.size());
      } else if (server_.over) {
        session_.resume(pg_session::ServerLost{""}, now_);
        look();
        over_ = true;
      } else {
        return;
      }
    }
  }

  // What the client sees.
  void look() {
    const std::string shown(session_.to_client());
    session_.sent_to_client(shown.size());
    tell("client gets", shown);
    if (neighbours_.malformed && server_.swallowed > 0) {
      // A Sync in the middle of a COPY, and then on as if it had counted: that is no well-behaved
      // client.
      neighbours_.malformed = false;
      over_ = true;
      return;
    }
    if (neighbours_.malformed)
      broken("one of two well-behaved peers is said to be malformed", shown);
    std::string_view rest = shown;
    while (!rest.empty()) {
      const pgwire::Event event = reader_.next(rest);
      rest.remove_prefix(event.used);
      if (event.kind == pgwire::Event::Kind::malformed)
        broken("the client got a frame that cannot be read", event.problem.reason());
      if (event.kind == pgwire::Event::Kind::need_more) break;
      if (event.frame.find("_termgate") != std::string_view::npos)
        broken("something of ours is shown", event.frame);
      if (event.kind == pgwire::Event::Kind::message &&
          event.type == pgwire::backend::ready_for_query) {
        last_state_ = event.body.front();
        if (++seen_ > earned_) broken("a ReadyForQuery that was not earned");
      }
    }
    if (session_.phase() == pg_session::Session::Phase::closing) over_ = true;
    if (session_.memory_bytes() > 256u << 10)
      broken("memory", std::to_string(session_.memory_bytes()));
  }

  std::uint8_t rules_;
  pg_session::Instant now_;
  Input input_;
  Neighbours& neighbours_;
  pg_session::Session session_;
  PostgresModel server_;
  pgwire::Reader reader_;
  std::string said_;  // by the client, and not on its way yet
  std::size_t earned_ = 0, seen_ = 0, open_ = 0;
  bool out_of_turn_ = false;  // a simple query before a Sync: behind an error the server skips it
  char last_state_ = 'I';
  bool over_ = false;
};

}  // namespace termgate::test::game
