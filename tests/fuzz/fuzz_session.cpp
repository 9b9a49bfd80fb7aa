// A session between a client and a server, both driven by the input. The first byte chooses the rules it was let in by, and one of two games:
//   noise   bytes of the input go to the session as the client's and as the server's. It must not crash, hold more than was given to it, or say
//           anything but goodbye to the server once a peer has broken the protocol.
//   model   the input says what a client says next, how far what was said travels, and when a new leader takes over; the server is a model of
//           PostgreSQL (tests/support/postgres_model.hpp) that ends the program at a write without a check before it in its transaction (F1, F6).
//           Besides, every ReadyForQuery that the client sees is one it earned, none is missing in the end, its state is the server's, and
//           nothing of ours is shown (F7).
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <termgate/pgwire/startup.hpp>
#include <termgate/session/session.hpp>

#include "support/postgres_model.hpp"
#include "unit/proxy/session_wire.hpp"

using termgate::test::broken;
using termgate::test::PostgresModel;
namespace pgwire = termgate::pgwire;
namespace session = termgate::session;

namespace {

class Neighbours : public session::Surroundings {
 public:
  std::int64_t highest_fence(std::string_view) const override { return fence; }
  void saw_fence(std::string_view, std::int64_t seen) override { fence = std::max(fence, seen); }
  termgate::statements::Cache& statements() override {
    static termgate::statements::Cache cache;  // answers do not depend on what was asked before
    return cache;
  }
  void happened(const session::Incident& incident) override { malformed |= incident.kind == session::Incident::Kind::malformed; }

  std::int64_t fence = 0;
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

const session::Options& options() {
  static const session::Options made = [] {
    session::Options one;
    one.limits.statement_bytes_max = 8192;
    one.limits.message_bytes_max = 1 << 16;
    one.limits.bind_whole_bytes_max = 64;
    one.client_rules = pgwire::Rules::frontend(one.limits);
    one.outbox_bytes_max = 16u << 10;
    one.held_bytes_max = 512;
    one.server_is_local = true;
    return one;
  }();
  return made;
}

constexpr session::Instant now{};

// TERMGATE_FUZZ_TELL=1: what goes where, for one input that is looked into.
void tell(const char* where, std::string_view bytes) {
  static const bool told = std::getenv("TERMGATE_FUZZ_TELL") != nullptr;
  if (told && !bytes.empty()) std::fprintf(stderr, "%s\n%s", where, termgate::test::wire::told(bytes).c_str());
}

session::Admission admission(std::uint8_t rules) {
  session::Admission one;
  one.without_term = rules & 1 ? session::WithoutTerm::reject : session::WithoutTerm::read_only;
  if ((rules & 12) == 12) one.without_term = session::WithoutTerm::allow;
  if ((rules & 12) == 8) one.enforce = session::Enforce::observe;
  return one;
}
bool declares(std::uint8_t rules) { return (rules & 2) == 0; }
bool old_server(std::uint8_t rules) { return (rules & 16) != 0; }

// Whether the server session is kept READ ONLY: where a term is needed, and where one is declared.
bool guarded(std::uint8_t rules) { return admission(rules).enforce == session::Enforce::on && (admission(rules).without_term != session::WithoutTerm::allow || declares(rules)); }

// `asked`: gives the server's answers to what the session asks of it behind the login.
template <class Asked>
void log_in(session::Session& one, std::uint8_t rules, Asked asked) {
  std::string bytes;
  std::vector<pgwire::StartupMessage::Parameter> parameters{{"user", "ann"}};
  if (declares(rules)) parameters.emplace_back("application_name", "termgate.scope=orders;termgate.term=5;");
  pgwire::append_startup(bytes, 0, parameters);
  one.resume(session::ClientBytes{bytes}, now);
  one.resume(session::Admitted{admission(rules)}, now);
  one.resume(session::ServerConnected{}, now);
  one.sent_to_server(one.to_server().size());
  bytes.clear();
  pgwire::append_authentication(bytes, pgwire::Authentication::Type::ok);
  pgwire::append_parameter_status(bytes, "server_version", old_server(rules) ? "13.9" : "15.20");
  pgwire::append_parameter_status(bytes, "client_encoding", "UTF8");
  pgwire::append_backend_key_data(bytes, PostgresModel::pid, "abcd");
  pgwire::append_ready_for_query(bytes, pgwire::TransactionStatus::idle);
  one.resume(session::ServerBytes{bytes}, now);
  if (one.to_server().empty() == guarded(rules)) broken("READ ONLY where it should not be, or not where it should", one.to_server());
  if (guarded(rules)) {
    const std::string question(one.to_server());
    one.sent_to_server(question.size());
    one.resume(session::ServerBytes{asked(question)}, now);
  }
  if (one.phase() != session::Session::Phase::idle || !one.to_server().empty()) broken("the login", one.to_client());
  if (!one.to_client().ends_with(termgate::test::wire::ready('I'))) broken("a login without its end", one.to_client());
  one.sent_to_client(one.to_client().size());
}

void noise(std::uint8_t rules, Input input) {
  Neighbours neighbours;
  session::Session one(options(), {.local = true, .encrypted_already = false, .cancel_key = std::string(32, 'k')}, neighbours, now);
  if ((rules & 32) != 0) log_in(one, rules, [](std::string_view) { return termgate::test::wire::who_serves_done(); });
  const std::size_t given = input.size;
  std::string goodbye;
  pgwire::append_bare(goodbye, pgwire::frontend::terminate);
  while (!input.empty()) {
    const std::uint8_t what = input.byte();
    const bool over = neighbours.malformed || one.phase() == session::Session::Phase::closing;
    const std::string piece(input.bytes(what & 0x3f));
    if (what & 0x80) {
      if (one.wants_server()) one.resume(session::ServerBytes{piece}, now);
    } else if (one.wants_client()) {
      one.resume(session::ClientBytes{piece}, now);
    }
    for (const session::Action& action : one.take_actions()) {
      using Kind = session::Action::Kind;
      if (action.kind == Kind::admit) one.resume(session::Admitted{admission(rules)}, now);
      if (action.kind == Kind::connect_server) one.resume(session::ServerConnected{}, now);
      if (action.kind == Kind::start_client_tls) one.resume(session::ClientTls{}, now);
    }
    if (over && !one.to_server().empty()) broken("a word to the server behind the end", one.to_server());
    if (neighbours.malformed && one.phase() != session::Session::Phase::closing) broken("malformed, and it goes on");
    // Everything of one event that ends the session, less what was said before it: a goodbye stands last.
    if (neighbours.malformed && !one.to_server().empty() && !one.to_server().ends_with(goodbye)) broken("no goodbye at the end", one.to_server());
    one.sent_to_client(one.to_client().size());
    one.sent_to_server(one.to_server().size());
    if (one.memory_bytes() > (64u << 10) + 4 * given) broken("memory", std::to_string(one.memory_bytes()));
  }
}

class Game {
 public:
  Game(std::uint8_t rules, Input input)
      : rules_(rules),
        input_(input),
        session_(options(), {.local = true, .encrypted_already = false, .cancel_key = std::string(32, 'k')}, neighbours_, now),
        server_(guarded(rules), !old_server(rules), declares(rules) ? "orders" : "", declares(rules) ? 5 : 0),
        reader_(backend_rules()) {
    if ((rules & 64) != 0) neighbours_.fence = 5;
    log_in(session_, rules, [this](std::string_view question) {
      tell("server gets", question);
      server_.receive(question);
      return std::exchange(server_.out, {});
    });
  }

  void play() {
    for (int moves = 0; !input_.empty() && moves < 200 && !over(); ++moves) move();
    settle();
    // A client that goes on behind a COPY without the Sync that the COPY swallowed waits for its own.
    if (over() || server_.copying() || server_.swallowed > 0) return;
    if (!said_.empty() || !session_.wants_client()) broken("the session hangs", said_);
    if (!out_of_turn_ && seen_ < earned_) broken("a ReadyForQuery is missing", std::to_string(earned_ - seen_));
    if (earned_ > 0 && open_ == 0 && seen_ > 0 && last_state_ != server_.state()) broken("another state than the server's", std::string_view(&last_state_, 1));
  }

 private:
  static const pgwire::Rules& backend_rules() {
    static const pgwire::Rules rules = pgwire::Rules::backend();
    return rules;
  }

  bool over() const { return over_; }

  std::string_view text() {
    const std::uint8_t which = input_.byte();
    return PostgresModel::vocabulary[which % PostgresModel::vocabulary_client].sql;
  }
  std::string_view name() {
    constexpr std::string_view names[] = {"", "s", "x"};
    return names[input_.byte() % 3];
  }

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
      case 5: pgwire::append_execute(said_, ""); ++open_; break;
      case 6: return sync();
      case 7: pgwire::append_bare(said_, pgwire::frontend::flush); ++open_; break;
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
        pgwire::append_opaque(said_, pgwire::frontend::function_call, std::string_view(input_.byte() % 2 == 0 ? "\0\0\3\xba\0\0\0\0\0\0" : "\0\0\3\xbd\0\0\0\0\0\0", 10));
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
        const std::int64_t term = 4 + input_.byte() % 3;
        server_.raise(term);
        if (input_.byte() % 2 == 0) {
          neighbours_.fence = std::max(neighbours_.fence, server_.fence);
          session_.resume(session::FenceSeen{"orders", server_.fence}, now);
        }
        look();
        break;
      }
      default: break;
    }
  }

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
    session_.resume(session::ClientBytes{piece}, now);
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
    session_.resume(session::ServerBytes{piece}, now);
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
        session_.resume(session::ServerLost{""}, now);
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
    if (neighbours_.malformed) broken("one of two well-behaved peers is said to be malformed", shown);
    std::string_view rest = shown;
    while (!rest.empty()) {
      const pgwire::Event event = reader_.next(rest);
      rest.remove_prefix(event.used);
      if (event.kind == pgwire::Event::Kind::malformed) broken("the client got a frame that cannot be read", event.problem.reason());
      if (event.kind == pgwire::Event::Kind::need_more) break;
      if (event.frame.find("_termgate") != std::string_view::npos) broken("something of ours is shown", event.frame);
      if (event.kind == pgwire::Event::Kind::message && event.type == pgwire::backend::ready_for_query) {
        last_state_ = event.body.front();
        if (++seen_ > earned_) broken("a ReadyForQuery that was not earned");
      }
    }
    if (session_.phase() == session::Session::Phase::closing) over_ = true;
    if (session_.memory_bytes() > 256u << 10) broken("memory", std::to_string(session_.memory_bytes()));
  }

  std::uint8_t rules_;
  Input input_;
  Neighbours neighbours_;
  session::Session session_;
  PostgresModel server_;
  pgwire::Reader reader_;
  std::string said_;            // by the client, and not on its way yet
  std::size_t earned_ = 0, seen_ = 0, open_ = 0;
  bool out_of_turn_ = false;    // a simple query before a Sync: behind an error the server skips it
  char last_state_ = 'I';
  bool over_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 4096) return 0;
  const std::uint8_t rules = data[0];
  if ((rules & 128) != 0) {
    noise(rules, {data + 1, size - 1});
  } else {
    Game(rules, {data + 1, size - 1}).play();
  }
  return 0;
}
