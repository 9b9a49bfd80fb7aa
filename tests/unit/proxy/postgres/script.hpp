// A session as a script: what the client sends, what the server must get of it, what the server
// answers, what the client must see.
//
//   Script script;                       // logged in, with scope "orders" and term 5 declared by application_name
//   script.client(query("INSERT …")).to_server(opening() + converted("INSERT …"));
//   script.server(…).to_client(…);
//   script.replay();
//
// What is not expected must not come: each step is compared whole. replay() runs the script in one
// piece, a byte at a time, each step cut in two at each of its bytes, and with either connection
// lost after each step, behind which nobody may hear anything more.
#pragma once

#include <catch2/catch.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/pg_session/session.hpp>
#include <termgate/statements/cache.hpp>

#include "wire.hpp"

namespace termgate::test {

using pg_session::Action;

// Neighbours that remember: fences of this process, and what was told to them.
class Neighbours : public pg_session::SessionHost {
 public:
  std::int64_t highest_fence(std::string_view scope) const override {
    const auto found = fences.find(scope);
    return found == fences.end() ? 0 : found->second;
  }
  void saw_fence(std::string_view scope, std::int64_t fence) override {
    fences[std::string(scope)] = std::max(fences[std::string(scope)], fence);
  }
  std::string untrusted(std::string_view scope) const override {
    const auto found = scope.empty() ? untrusted_scopes.begin() : untrusted_scopes.find(scope);
    return found == untrusted_scopes.end() ? std::string() : found->second;
  }
  void saw_term(std::string_view scope, std::int64_t term) override { saw_fence(scope, term); }
  bool server_has_guard() const override { return guard; }
  void saw_server_guard(bool there) override { guard = there; }
  bool known_to_write(std::size_t) const override { return reads_are_known_to_write; }
  pg_session::SeatOffer seat_offer() const override { return seats; }
  statements::Cache& statements() override { return cache; }
  void happened(const pg_session::Incident& incident) override {
    using Kind = pg_session::Incident::Kind;
    const auto who = [&] {
      return std::string(incident.scope) + " " + std::to_string(incident.term) + "/" +
             std::to_string(incident.fence);
    };
    switch (incident.kind) {
      case Kind::fenced: incidents.push_back("fenced " + who()); break;
      case Kind::refused:
        incidents.push_back("refused " + std::string(incident.code) +
                            (incident.from_memory ? " from memory" : ""));
        break;
      case Kind::would_refuse:
        incidents.push_back("would refuse " + std::string(incident.code));
        break;
      case Kind::evicted: incidents.push_back("evicted " + who()); break;
      case Kind::transaction: ++transactions; break;
      case Kind::malformed: incidents.push_back("malformed"); break;
      case Kind::login_refused:
        incidents.push_back("login refused " + std::string(incident.code));
        break;
      case Kind::no_seat: incidents.push_back("no seat: " + std::string(incident.message)); break;
    }
  }

  std::map<std::string, std::int64_t, std::less<>> fences;
  std::map<std::string, std::string, std::less<>> untrusted_scopes;
  bool reads_are_known_to_write = false;
  pg_session::SeatOffer seats;
  bool guard = false;  // the server's
  statements::Cache cache;
  std::vector<std::string> incidents;
  int transactions = 0;
};

class Script {
 public:
  pg_session::Options options;
  pg_session::Peer peer{
      .local = true, .encrypted_already = false, .cancel_key = "0123456789abcdef0123456789abcdef"};
  pg_session::Admission admission;
  // Fences that this process knows already. With orders at 5 no raise is committed in advance.
  std::map<std::string, std::int64_t, std::less<>> fences{{"orders", 5}};
  std::map<std::string, std::string, std::less<>>
      untrusted_scopes;  // of untrusted scopes, the message of TG004
  std::string application_name = "termgate.scope=orders;termgate.term=5;";
  std::string server_version = "15.20";
  pgwire::Field declared_scope = "orders",
                declared_term = "5";  // as the server's session says after the login
  bool has_rules = false;
  pgwire::Field may_check =
      "t";  // of a session that is observed: whether its role may call the check
  bool reads_are_known_to_write = false;  // by what another session was told
  pg_session::SeatOffer seats;
  bool logged_in = true;  // false: the script begins with the client's first byte

  Script() { options.server_is_local = true; }

  using Where = std::source_location;
  Script& client(std::string bytes, Where where = Where::current()) {
    return step(Step::Kind::client, std::move(bytes), where);
  }
  Script& server(std::string bytes, Where where = Where::current()) {
    return step(Step::Kind::server, std::move(bytes), where);
  }
  // Any other event.
  template <class Event>
  Script& event(Event event, Where where = Where::current()) {
    step(Step::Kind::event, {}, where);
    steps_.back().event = [event](pg_session::Session& session, pg_session::Instant now) {
      session.resume(event, now);
    };
    return *this;
  }
  // Time passes before the next step.
  Script& later(std::chrono::milliseconds time) {
    later_ += time;
    return *this;
  }

  // What must have come of the last step, all of it.
  Script& to_server(std::string bytes) { return steps_.back().to_server += bytes, *this; }
  Script& to_client(std::string bytes) { return steps_.back().to_client += bytes, *this; }
  Script& acts(std::initializer_list<Action::Kind> actions) {
    return steps_.back().actions.insert(steps_.back().actions.end(), actions), *this;
  }
  // What was reported to the neighbours. Checked where it is said only.
  Script& told(std::vector<std::string> incidents) {
    return steps_.back().incidents = std::move(incidents), steps_.back().incidents_matter = true,
           *this;
  }
  Script& closes() { return acts({Action::Kind::close_server, Action::Kind::close_client}); }
  // The session is over with this word to the client, and a goodbye to the server.
  Script& ends(std::string_view code, std::string_view message) {
    return to_client(wire::fatal(code, message)).to_server(wire::terminate()).closes();
  }

  // What the client says goes to the server untouched, and the answer back.
  Script& through(std::string bytes, Where where = Where::current()) {
    return client(bytes, where).to_server(std::move(bytes));
  }
  Script& through(std::string bytes, std::string answer, Where where = Where::current()) {
    return through(std::move(bytes), where).back(std::move(answer), where);
  }
  Script& back(std::string answer, Where where = Where::current()) {
    return server(answer, where).to_client(std::move(answer));
  }
  // The same with ours in front of it.
  Script& behind(std::string ours, std::string bytes, Where where = Where::current()) {
    return client(bytes, where).to_server(std::move(ours) + std::move(bytes));
  }
  Script& back(const std::string& ours, std::string answer, Where where = Where::current()) {
    return server(ours + answer, where).to_client(std::move(answer));
  }
  // Ours in front of a query of a block, which goes on.
  Script& in_front(const std::string& ours, const std::string& ours_done, const std::string& sql,
                   std::string answer, Where where = Where::current()) {
    return behind(ours + wire::sync_message(), wire::query(sql), where)
        .back(ours_done + wire::ready('T'), std::move(answer), where);
  }
  // A simple query that goes through, the tag of its answer and the state behind it.
  Script& runs(const std::string& sql, std::string_view tag, char state,
               Where where = Where::current()) {
    return through(wire::query(sql), wire::complete(tag) + wire::ready(state), where);
  }
  Script& runs(const std::string& sql, char state, Where where = Where::current()) {
    return runs(sql, sql, state, where);
  }
  // What was said is framed by BEGIN and COMMIT, and this comes first in the frame.
  Script& framed(std::string_view sql, Where where = Where::current()) {
    to_server(wire::query("BEGIN"));
    return server(wire::complete("BEGIN") + wire::ready('T'), where)
        .to_server(wire::opening(wire::block) + wire::sync_message() + wire::query(sql));
  }

  // Any look at the session behind the last step.
  Script& is(std::function<void(const pg_session::Session&)> look) {
    return steps_.back().look = std::move(look), *this;
  }

  void replay_whole() {
    run("in one piece", [](std::size_t, std::size_t) { return std::vector<std::size_t>{}; });
  }

  void replay() {
    replay_whole();
    run("a byte at a time", [](std::size_t, std::size_t size) {
      std::vector<std::size_t> cuts;
      for (std::size_t at = 1; at < size; ++at) cuts.push_back(at);
      return cuts;
    });
    for (std::size_t index = 0; index < steps_.size(); ++index) {
      const std::size_t size = steps_[index].bytes.size();
      // What is long is cut every so many bytes.
      for (std::size_t at = 1; at < size; at += 1 + size / 400) {
        if (!run("step cut in two", [&](std::size_t one, std::size_t) {
              return one == index ? std::vector<std::size_t>{at} : std::vector<std::size_t>{};
            }))
          return;
      }
    }
    for (std::size_t index = 0; index <= steps_.size(); ++index) {
      lose(index, true);
      lose(index, false);
    }
  }

 private:
  struct Step {
    enum class Kind { client, server, event } kind;
    std::string bytes;
    std::function<void(pg_session::Session&, pg_session::Instant)> event;
    std::function<void(const pg_session::Session&)> look;
    std::chrono::milliseconds later{};
    std::string to_server, to_client;
    std::vector<Action::Kind> actions;
    std::vector<std::string> incidents;
    bool incidents_matter = false;
    unsigned line = 0;
  };

  struct Life {
    Neighbours neighbours;
    std::unique_ptr<pg_session::Session> session;
    pg_session::Instant now{std::chrono::hours{1}};
    std::string to_server, to_client;
    std::vector<Action::Kind> actions;

    void collect() {
      to_server += session->to_server();
      session->sent_to_server(session->to_server().size());
      to_client += session->to_client();
      session->sent_to_client(session->to_client().size());
      for (const Action& action : session->take_actions()) actions.push_back(action.kind);
    }
    void clear() {
      to_server.clear();
      to_client.clear();
      actions.clear();
      neighbours.incidents.clear();
    }
  };

  Script& step(Step::Kind kind, std::string bytes, Where where) {
    Step one{};
    one.kind = kind;
    one.bytes = std::move(bytes);
    one.later = std::exchange(later_, {});
    one.line = where.line();
    steps_.push_back(std::move(one));
    return *this;
  }

  std::unique_ptr<Life> begin() const {
    auto life = std::make_unique<Life>();
    life->neighbours.fences = fences;
    life->neighbours.untrusted_scopes = untrusted_scopes;
    life->neighbours.reads_are_known_to_write = reads_are_known_to_write;
    life->neighbours.seats = seats;
    life->session =
        std::make_unique<pg_session::Session>(options, peer, life->neighbours, life->now);
    if (logged_in) {
      pg_session::Session& session = *life->session;
      std::vector<pgwire::StartupMessage::Parameter> parameters{{"user", "ann"},
                                                                {"database", "shop"}};
      if (!application_name.empty()) parameters.emplace_back("application_name", application_name);
      session.resume(pg_session::ClientBytes{wire::startup(0, parameters)}, life->now);
      session.resume(pg_session::Admitted{admission}, life->now);
      session.resume(pg_session::ServerConnected{}, life->now);
      const bool by_server = options.server_guard == pg_session::Options::ServerGuard::required;
      session.resume(
          pg_session::ServerBytes{wire::authentication(pgwire::Authentication::Type::ok) +
                                  wire::status("server_version", server_version) +
                                  wire::status("standard_conforming_strings", "on") +
                                  wire::status("client_encoding", "UTF8") +
                                  wire::status("default_transaction_read_only", "off") +
                                  wire::key(4711, "abcd") + wire::ready('I')},
          life->now);
      life->collect();
      const bool declares = !application_name.empty();
      if (by_server) {
        session.resume(
            pg_session::ServerBytes{wire::who_answered(
                "4711", declares ? declared_scope : pgwire::Field(),
                declares ? declared_term : pgwire::Field(), has_rules ? "t" : "f", "on")},
            life->now);
      } else if (life->to_server.find("pg_backend_pid") != std::string::npos) {
        const auto answered = life->to_server.ends_with(wire::put_back()) ? wire::who_serves_done
                                                                          : wire::who_answered;
        session.resume(
            pg_session::ServerBytes{answered(
                "4711", declares ? declared_scope : pgwire::Field(),
                declares ? declared_term : pgwire::Field(), has_rules ? "t" : "f",
                admission.enforce == pg_session::Enforce::observe ? may_check : pgwire::Field())},
            life->now);
      }
      life->collect();
      life->clear();
      REQUIRE(session.phase() == pg_session::Session::Phase::idle);
    }
    return life;
  }

  template <class Cuts>
  void give(Life& life, const Step& step, const Cuts& cuts) const {
    life.now += step.later;
    if (step.kind == Step::Kind::event) {
      step.event(*life.session, life.now);
      return life.collect();
    }
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= cuts.size(); ++i) {
      const std::size_t end = i < cuts.size() ? cuts[i] : step.bytes.size();
      // In memory of its own, so that a view that outlives its piece is seen by a sanitizer.
      const std::vector<char> piece(step.bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                                    step.bytes.begin() + static_cast<std::ptrdiff_t>(end));
      const std::string_view bytes(piece.data(), piece.size());
      if (step.kind == Step::Kind::client) {
        life.session->resume(pg_session::ClientBytes{bytes}, life.now);
      } else {
        life.session->resume(pg_session::ServerBytes{bytes}, life.now);
      }
      life.collect();
      begin = end;
    }
  }

  template <class CutsOf>
  bool run(const char* how, CutsOf cuts_of) const {
    const auto life = begin();
    for (std::size_t index = 0; index < steps_.size(); ++index) {
      const Step& step = steps_[index];
      life->clear();
      const std::vector<std::size_t> cuts = cuts_of(index, step.bytes.size());
      give(*life, step, cuts);
      INFO("step of line " << step.line << ", " << how
                           << (cuts.size() == 1 ? " at " + std::to_string(cuts[0]) : ""));
      if (step.to_server != life->to_server) {
        FAIL_CHECK("the server should get\n"
                   << wire::told(step.to_server) << "  and got\n"
                   << wire::told(life->to_server) << "  while the client got\n"
                   << wire::told(life->to_client));
        return false;
      }
      if (step.to_client != life->to_client) {
        FAIL_CHECK("the client should get\n"
                   << wire::told(step.to_client) << "  and got\n"
                   << wire::told(life->to_client));
        return false;
      }
      if (step.actions != life->actions) {
        FAIL_CHECK("other actions than expected: "
                   << life->actions.size() << " instead of " << step.actions.size()
                   << (life->actions.empty() ? "" : ", first ")
                   << (life->actions.empty() ? 0 : static_cast<int>(life->actions.front())));
        return false;
      }
      if (step.incidents_matter) CHECK(life->neighbours.incidents == step.incidents);
      if (step.look) step.look(*life->session);
    }
    SUCCEED();
    return true;
  }

  // Behind a loss both connections are closed, and whatever still arrives moves nothing.
  void lose(std::size_t behind, bool client) const {
    const auto life = begin();
    for (std::size_t index = 0; index < behind; ++index)
      give(*life, steps_[index], std::vector<std::size_t>{});
    INFO((client ? "client" : "server")
         << " lost before the step of line " << (behind < steps_.size() ? steps_[behind].line : 0));
    const bool over = life->session->phase() == pg_session::Session::Phase::closing;
    const bool connected = life->session->phase() != pg_session::Session::Phase::greeting;
    life->clear();
    if (client) {
      life->session->resume(pg_session::ClientGone{}, life->now);
    } else {
      if (!connected) return;  // there is none to be lost
      life->session->resume(pg_session::ServerLost{"reset"}, life->now);
    }
    life->collect();
    CHECK(life->session->phase() == pg_session::Session::Phase::closing);
    CHECK(!life->session->wants_client());
    CHECK(!life->session->wants_server());
    if (over) {
      CHECK(life->actions.empty());
    } else {
      CHECK(life->actions ==
            (connected ? std::vector{Action::Kind::close_server, Action::Kind::close_client}
                       : std::vector{Action::Kind::close_client}));
    }
    CHECK((life->to_server.empty() || life->to_server == wire::terminate()));
    if (!life->to_client.empty()) {
      // The one word that may be left: that the server was never reached.
      const std::string why = "the server cannot be reached: reset";
      CHECK((life->to_client == wire::fatal("57P03", why) ||
             life->to_client == wire::fatal("08006", why)));
    }
    life->clear();
    for (std::size_t index = behind; index < steps_.size(); ++index)
      give(*life, steps_[index], std::vector<std::size_t>{});
    life->session->resume(pg_session::Tick{}, life->now + std::chrono::hours{24});
    life->collect();
    CHECK(life->to_server.empty());
    CHECK(life->to_client.empty());
    CHECK(life->actions.empty());
    CHECK(!life->session->deadline());
  }

  std::vector<Step> steps_;
  std::chrono::milliseconds later_{};
};

}  // namespace termgate::test

namespace termgate::test::wire {

// What scripts begin with, and one plain write in each of its places.
inline const std::string insert = "INSERT INTO t VALUES (1)";
inline const std::string stale = "TG001 stale term 5 for scope \"orders\": the fence stands at 6";

// A read that writes: what the server says, and what the client is told instead.
inline const std::string read_only = "cannot execute INSERT in a read-only transaction";
inline const std::string known_now =
    "TG002 this looked like a read and writes; Termgate knows it now: send it again";
inline std::string instead(std::string_view code, std::string_view message) {
  return error(code, message, {{'D', "The database said: " + read_only}});
}

inline std::string inserted(char state = 'I') { return complete("INSERT 0 1") + ready(state); }

inline Script undeclared() {
  Script script;
  script.application_name.clear();
  return script;
}
inline Script& writes(Script& script) {
  script.client(query(insert)).to_server(opening() + converted(insert));
  return script.server(opening_done() + converted_done("INSERT 0 1")).to_client(inserted());
}
// A block that has passed the check.
inline Script in_block() {
  Script script;
  script.runs("BEGIN", 'T').behind(opening(block) + sync_message(), query(insert));
  script.back(opening_done(block) + ready('T'), inserted('T')).told({"fenced orders 5/5"});
  return script;
}
// The first savepoint of a block that nothing has passed in.
inline Script& mark_savepoint(Script& script) {
  script.behind(writable(block) + mark() + sync_message(), query("SAVEPOINT s"));
  return script.back(set_done(block) + mark_done() + ready('T'),
                     complete("SAVEPOINT") + ready('T'));
}

}  // namespace termgate::test::wire
