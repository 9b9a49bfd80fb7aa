// What happens to a session besides its two peers' words: fences seen elsewhere, drain, an
// operator's cut, time, full outboxes; and peers that break the protocol.
#include "script.hpp"

using namespace std::chrono_literals;
using namespace termgate::test::wire;
using termgate::pg_session::Cut;
using termgate::pg_session::Drain;
using termgate::pg_session::FenceSeen;
using termgate::pg_session::Session;
using termgate::pg_session::Tick;
using termgate::test::Neighbours;
using termgate::test::Script;

namespace {

const std::string select_a = "SELECT a FROM t";
const std::string ended = stale + "; the open transaction was ended";
const std::string aborted = error(
    "25P02", "current transaction is aborted, commands ignored until end of transaction block");

// A session by hand: what a script cannot show is how much it holds.
struct ByHand {
  explicit ByHand(std::size_t outbox_bytes_max = 256 << 10)
      : options(options_of(outbox_bytes_max)),
        session(options,
                {.local = true, .encrypted_already = false, .cancel_key = std::string(32, 'k')},
                neighbours, now) {
    client(startup(0, {{"user", "ann"}}));
    session.resume(termgate::pg_session::Admitted{}, now);
    CHECK(!session.wants_client());
    CHECK(!session.wants_server());
    session.resume(termgate::pg_session::ServerConnected{}, now);
    server(authentication(termgate::pgwire::Authentication::Type::ok) + ready('I') +
           who_serves_done("0"));
    session.sent_to_client(session.to_client().size());
    session.sent_to_server(session.to_server().size());
  }
  void client(std::string_view bytes) {
    session.resume(termgate::pg_session::ClientBytes{bytes}, now);
  }
  void server(std::string_view bytes) {
    session.resume(termgate::pg_session::ServerBytes{bytes}, now);
  }

  static termgate::pg_session::Options options_of(std::size_t outbox_bytes_max) {
    termgate::pg_session::Options options;
    options.server_is_local = true;
    options.outbox_bytes_max = outbox_bytes_max;
    return options;
  }

  Neighbours neighbours;
  const termgate::pg_session::Options options;
  const termgate::pg_session::Instant now{1h};
  Session session;
};

}  // namespace

TEST_CASE("session: a higher fence ends an idle open transaction and the next word learns it once",
          "[F4][proxy]") {
  Script script = in_block();
  script.event(FenceSeen{"orders", 6})
      .to_server(check("orders", "5", block) + sync_message())
      .told({"evicted orders 5/6"});
  script.server(check_failed() + ready('E'));
  script.through(query(insert));
  script.server(aborted + ready('E')).to_client(error("TG001", ended) + ready('E'));
  script.through(query(insert), aborted + ready('E'));
  script.runs("ROLLBACK", 'I');
  script.replay();
}

TEST_CASE("session: a fence that is no higher or of another scope ends nothing", "[F4][proxy]") {
  Script script = in_block();
  script.event(FenceSeen{"orders", 5}).told({});
  script.event(FenceSeen{"billing", 9}).told({});
  script.runs("COMMIT", 'I');
  script.event(FenceSeen{"orders", 6}).told({});
  script.replay();
}

TEST_CASE("session: a drain ends an idle session at once and a transaction when it is over",
          "[F5][proxy]") {
  Script idle;
  idle.event(Drain{}).ends("57P01", "the proxy is shutting down");
  idle.replay();

  Script busy = in_block();
  busy.event(Drain{});
  busy.runs("COMMIT", 'I').ends("57P01", "the proxy is shutting down");
  busy.replay();

  Script frame;
  frame.client(query("COPY t FROM STDIN")).framed("COPY t FROM STDIN");
  frame.event(Drain{});
  frame.back(opening_done(block) + ready('T'), copy_in());
  frame.through(copy_done());
  frame.server(complete("COPY 0") + ready('T')).to_server(query("COMMIT"));
  frame.server(complete("COMMIT") + ready('I'))
      .to_client(complete("COPY 0") + ready('I'))
      .ends("57P01", "the proxy is shutting down");
  frame.replay();
}

TEST_CASE("session: a cut ends whatever is open with the operator's word", "[F5][proxy]") {
  Script script = in_block();
  script.event(Cut{"57P01", "the drain took too long"}).ends("57P01", "the drain took too long");
  script.replay();
}

TEST_CASE("session: idle and idle-in-transaction deadlines end a session in no time at all",
          "[proxy]") {
  Script script = in_block();
  script.options.idle_timeout = 60s;
  script.options.idle_in_transaction_timeout = 10s;
  script.is([](const Session& session) {
    CHECK(session.deadline() == termgate::pg_session::Instant{std::chrono::hours{1}} + 10s);
  });
  script.later(9999ms).event(Tick{});
  script.later(1ms).event(Tick{}).ends(
      "25P03", "terminating connection due to idle-in-transaction timeout of the proxy");
  script.replay();

  Script idle;
  idle.options.idle_timeout = 60s;
  idle.later(59s).through(query(select_a)).is([](const Session& session) {
    CHECK(!session.deadline());
  });
  idle.later(120s).event(Tick{});
  idle.back(columns({"a"}) + complete("SELECT 0") + ready('I'));
  idle.later(59s).event(Tick{});
  idle.later(1s).event(Tick{}).ends(
      "57P05", "terminating connection due to idle-session timeout of the proxy");
  idle.replay();
}

TEST_CASE("session: what is held goes to the server once the client says no more", "[F7][proxy]") {
  // A server reports an error at once, and a client may wait for it without a Sync.
  Script script;
  const std::string asked = parse("", select_a) + bind_message("", "", {}) + execute();
  script.through(query(select_a), columns({"a"}) + complete("SELECT 0") + ready('I'));
  script.is([](const Session& session) { CHECK(!session.deadline()); });
  script.client(asked);
  script.is([](const Session& session) {
    CHECK(session.deadline() == termgate::pg_session::Instant{std::chrono::hours{1}} + 100ms);
  });
  script.later(99ms).event(Tick{});
  script.later(1ms).event(Tick{}).to_server(opening() + asked + flush());
  script.is([](const Session& session) { CHECK(!session.deadline()); });
  script.back(opening_done(), parse_complete() + error("22012", "division by zero"));
  script.later(500ms).event(Tick{});
  script.through(sync_message(), ready('I'));
  script.replay();
}

TEST_CASE("session: what must run alone before a Sync waits for it, however long", "[F7][proxy]") {
  Script script;
  script.client(parse("", "VACUUM") + bind_message("", "", {}) + execute());
  script.later(10s).event(Tick{});
  script.is([](const Session& session) { CHECK(!session.deadline()); });
  script.replay();
}

TEST_CASE("session: a full outbox stops the reading of the other side", "[proxy]") {
  ByHand one(1000);
  Session& session = one.session;
  CHECK(session.wants_client());
  CHECK(session.wants_server());

  one.client(query("SELECT '" + std::string(2000, 'x') + "'"));
  CHECK(!session.wants_client());
  CHECK(session.wants_server());
  session.sent_to_server(session.to_server().size() - 999);
  CHECK(session.wants_client());
  session.sent_to_server(session.to_server().size());

  const std::string rows = columns({"a"}) + row({std::string(2000, 'x')});
  one.server(rows);
  CHECK(!session.wants_server());
  CHECK(session.wants_client());
  // What is given in spite of that is kept.
  one.server(complete("SELECT 1") + ready('I'));
  CHECK(session.to_client() == rows + complete("SELECT 1") + ready('I'));
  session.sent_to_client(session.to_client().size());
  CHECK(session.wants_server());
  CHECK(session.memory_bytes() < 20'000);

  // While a script runs the client is not read.
  one.client(query("BEGIN; SELECT a FROM t"));
  CHECK(!session.wants_client());
}

TEST_CASE("session: a client that never quite catches up costs no more than the outbox",
          "[proxy]") {
  ByHand one;
  one.client(query("SELECT a FROM t"));
  one.session.sent_to_server(one.session.to_server().size());
  one.server(columns({"a"}));
  std::string rows;
  for (int i = 0; i < 100; ++i) rows += row({std::string(500, 'x')});
  std::size_t most = 0;
  for (int i = 0; i < 200; ++i) {
    one.server(rows);
    one.session.sent_to_client(one.session.to_client().size() - 1);
    most = std::max(most, one.session.memory_bytes());
  }
  CHECK(most < 10 * rows.size());
  CHECK(one.session.to_client() == rows.substr(rows.size() - 1));
}

TEST_CASE("session: a server that is out of step ends both sides", "[F5][F7][proxy]") {
  struct Case {
    const char* name;
    std::string client, to_server, server, message;
  };
  const Case cases[] = {
      {"a row where nothing was asked", "", "", row({"1"}),
       "the server answered with message type 'D' where nothing was asked"},
      {"ready where nothing was asked", "", "", ready('I'),
       "the server answered with message type 'Z' where nothing was asked"},
      {"an error where nothing was asked", "", "", error("XX000", "what"),
       "the server answered with message type 'E' where nothing was asked"},
      {"BindComplete for a Parse", parse("", select_a) + sync_message(),
       parse("", select_a) + sync_message(), bind_complete(),
       "the server answered with message type '2' to something else"},
      {"ready before the Execute's answer", once(select_a) + sync_message(),
       once(select_a) + sync_message(), parse_complete() + bind_complete() + ready('I'),
       "the server answered with message type 'Z' to something else"},
      {"ParseComplete for a simple query", query(select_a), query(select_a), parse_complete(),
       "the server answered with message type '1' to something else"},
      {"the opening's answers out of order", query(insert), opening() + converted(insert),
       bind_complete(), "the server answered with message type '2' to something else"},
      {"a state that is none", query(select_a), query(select_a), complete("SELECT 0") + ready('X'),
       ""},
      {"a message of no known type", query(select_a), query(select_a), opaque('?', "x"), ""},
  };
  for (const Case& one : cases) {
    INFO(one.name);
    if (one.message.empty()) continue;
    Script script;
    if (!one.client.empty()) script.client(one.client).to_server(one.to_server);
    const std::string shown = one.name == std::string("ready before the Execute's answer")
                                  ? parse_complete() + bind_complete()
                                  : "";
    script.server(one.server).to_client(shown).ends("08P01", one.message).told({"malformed"});
    script.replay();
  }
  for (const Case& one : cases) {
    if (!one.message.empty()) continue;
    INFO(one.name);
    ByHand by_hand;
    by_hand.client(one.client);
    CHECK(by_hand.session.phase() == Session::Phase::active);
    by_hand.server(one.server);
    CHECK(by_hand.session.phase() == Session::Phase::closing);
    // Nobody knows where a frame ends that cannot be read, so nothing is said behind its header.
    CHECK((by_hand.session.to_client().find("08P01") != std::string_view::npos) ==
          (one.name == std::string("a state that is none")));
  }
}

TEST_CASE("session: a client's bad frame ends the session and reaches no server", "[F6][proxy]") {
  const std::string frames[] = {
      std::string("Q\0\0\0\3", 5),                          // a length below its own four bytes
      std::string("Q\xff\xff\xff\xff", 5),                  // beyond every bound
      opaque('Q', "no end"),                                // no NUL
      opaque('?', ""),                                      // no such message
      opaque('B', std::string("\0\0\0\1", 4)),              // a Bind that ends in its formats
      opaque('P', std::string("s\0SELECT 1\0\0\2\0", 14)),  // a Parse that ends in its types
      opaque('E', "portal"),
      password("secret"),
  };
  for (const std::string& frame : frames) {
    INFO(escaped(frame));
    for (const bool cut : {false, true}) {
      ByHand one;
      Session& session = one.session;
      const std::string bytes = frame + query(insert);
      for (std::size_t at = 0; at < bytes.size(); at += cut ? 1 : bytes.size()) {
        one.client(std::string_view(bytes).substr(at, cut ? 1 : bytes.size()));
      }
      CHECK(session.phase() == Session::Phase::closing);
      CHECK(session.to_server() == terminate());
      CHECK(session.to_client().find("FATAL") != std::string_view::npos);
      CHECK(session.to_client().find("secret") == std::string_view::npos);
    }
  }
}
