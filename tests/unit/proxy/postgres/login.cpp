// From the first byte to the first ReadyForQuery: encryption asked for on both sides, who is let
// in, what the server is told at the start, and the talk about the credential, which passes through
// but for channel binding; whole, cut everywhere, with either connection lost everywhere.
// Long: a script for each way in.
#include "script.hpp"

using namespace std::chrono_literals;
using namespace termgate::test::wire;
using termgate::pg_session::Action;
using termgate::pg_session::Admission;
using termgate::pg_session::Admitted;
using termgate::pg_session::ClientTls;
using termgate::pg_session::Drain;
using termgate::pg_session::Enforce;
using termgate::pg_session::Options;
using termgate::pg_session::ServerConnected;
using termgate::pg_session::ServerLost;
using termgate::pg_session::ServerTls;
using termgate::pg_session::Session;
using termgate::pg_session::Tick;
using termgate::pg_session::WithoutTerm;
using termgate::pgwire::Authentication;
using termgate::test::Script;
using Kind = Action::Kind;
using Parameters = std::vector<termgate::pgwire::StartupMessage::Parameter>;

namespace {

const std::string ssl_request = made([](auto& out) { termgate::pgwire::append_ssl_request(out); });
const std::string gssenc_request =
    made([](auto& out) { termgate::pgwire::append_gssenc_request(out); });
const std::string ok = authentication(Authentication::Type::ok);
const Parameters ann{{"user", "ann"}, {"database", "shop"}};

Script from_the_first_byte() {
  Script script;
  script.logged_in = false;
  return script;
}

// Admitted, and on its way to the server.
Script& admit(Script& script, const Parameters& asked = ann, const Admission& admission = {},
              std::uint16_t minor = 0) {
  script.client(startup(minor, asked)).acts({Kind::admit});
  return script.event(Admitted{admission}).acts({Kind::connect_server});
}

// Up to the server's first word, without TLS.
Script greeted(const Parameters& asked = ann, const Parameters& sent = ann, std::uint16_t minor = 0,
               const Admission& admission = {}) {
  Script script = from_the_first_byte();
  admit(script, asked, admission, minor);
  script.event(ServerConnected{}).to_server(startup(std::min<std::uint16_t>(minor, 2), sent));
  return script;
}

// The server's first ReadyForQuery, with what stands before it, is the client's once it is known
// what serves.
Script& asks_who_serves(Script& script, const std::string& from_server = ok,
                        const std::string& shown = ok) {
  return script.server(from_server + ready('I'))
      .to_client(shown)
      .to_server(who_serves(named("_termgate_default_on_", script.peer.cancel_key, 0)));
}
void ready_at_last(Script& script, const std::string& from_server = ok,
                   const std::string& shown = ok) {
  asks_who_serves(script, from_server, shown).server(who_serves_done("0")).to_client(ready('I'));
}

// SASLInitialResponse.
std::string sasl_initial(const std::string& mechanism, const std::string& first) {
  std::string body = mechanism + '\0';
  for (int shift = 24; shift >= 0; shift -= 8)
    body += static_cast<char>(first.size() >> shift & 0xff);
  return password(body + first);
}

}  // namespace

TEST_CASE(
    "session: a login hands on the server's parameters with the real PID and a key of our own",
    "[F7][proxy]") {
  Script script = greeted();
  const std::string parameters = status("server_version", "15.20") +
                                 status("client_encoding", "UTF8") +
                                 status("default_transaction_read_only", "off");
  script.server(ok + parameters + key(4711, "serv") + ready('I'))
      .to_client(ok + parameters + key(4711, "0123"))
      .acts({Kind::registered})
      .to_server(who_serves());
  script.server(who_serves_done()).to_client(ready('I')).is([](const Session& session) {
    CHECK(session.server_pid() == 4711);
    CHECK(session.server_key() == "serv");
    CHECK(session.login().user == "ann");
    CHECK(session.login().database == "shop");
    CHECK(session.phase() == Session::Phase::idle);
  });
  script.replay();
}

TEST_CASE("session: a client of 3.2 gets a long key of our own", "[F7][proxy]") {
  Script script = greeted(ann, ann, 2);
  const std::string shown = "0123456789abcdef0123456789abcdef";
  script.server(ok + key(4711, std::string(32, 's')) + ready('I'))
      .to_client(ok + key(4711, shown))
      .acts({Kind::registered})
      .to_server(who_serves(named("_termgate_default_on_", shown)));
  script.server(who_serves_done()).to_client(ready('I'));
  script.replay();
}

TEST_CASE("session: a newer minor version is negotiated down by the proxy and once",
          "[F7][proxy]") {
  const std::string negotiated =
      made([](auto& out) { termgate::pgwire::append_negotiate_protocol_version(out, 2, {}); });
  Script silent = greeted(ann, ann, 9999);
  ready_at_last(silent, ok, negotiated + ok);
  silent.replay();

  // A server that knows less says so itself.
  const std::string older =
      made([](auto& out) { termgate::pgwire::append_negotiate_protocol_version(out, 0, {}); });
  Script told = greeted(ann, ann, 9999);
  ready_at_last(told, older + ok, older + ok);
  told.replay();
}

TEST_CASE("session: what a client says about read-only at its start is the server's to hear",
          "[F6][F7][proxy]") {
  const Parameters asked{
      {"user", "ann"}, {"Default_Transaction_Read_Only", "on"}, {"options", "-c work_mem=1MB"}};
  Script script = greeted(asked, asked);
  ready_at_last(script, ok + status("default_transaction_read_only", "on"),
                ok + status("default_transaction_read_only", "on"));
  script.replay();
}

TEST_CASE("session: application_name declares in front of the options", "[F1][proxy]") {
  const std::string name = "termgate.scope=or%20ders;termgate.term=5;";
  Script script =
      greeted({{"user", "ann"}, {"application_name", name}, {"options", "-c termgate.term=6"}},
              {{"user", "ann"},
               {"application_name", name},
               {"options", "-c termgate.scope=or\\ ders -c termgate.term=5 -c termgate.term=6"}});
  script.replay();
}

TEST_CASE("session: a request for TLS is answered N where there is no certificate", "[proxy]") {
  Script script = from_the_first_byte();
  script.client(gssenc_request).to_client("N");
  script.client(ssl_request).to_client("N");
  script.client(startup(0, ann)).acts({Kind::admit});
  script.replay();
}

TEST_CASE("session: a request for TLS is answered S and the start-up comes encrypted", "[proxy]") {
  Script script = from_the_first_byte();
  script.options.client_tls = script.options.client_tls_required = true;
  script.peer.local = false;
  script.options.trust_backend = true;
  script.client(ssl_request).to_client("S").acts({Kind::start_client_tls});
  script.event(ClientTls{});
  admit(script).event(ServerConnected{}).to_server(startup(0, ann));
  script.replay();
}

TEST_CASE("session: who is not let in is told why and no server is asked", "[F6][proxy]") {
  const auto refused = [](Script script, std::string_view code, std::string_view message) {
    script.to_client(fatal(code, message)).acts({Kind::close_client});
    script.replay();
  };
  const Script fresh = from_the_first_byte();
  const Parameters cut_short{{"user", "ann"},
                             {"application_name", "termgate.scope=orders;termgate.term=5"}};
  refused(Script(fresh).client(startup(0, cut_short)), "TG005",
          "TG005 malformed declaration in application_name: a value is not closed by ; and may "
          "have been cut short");
  refused(Script(fresh).client(startup(0, {{"database", "shop"}})), "28000",
          "no PostgreSQL user name specified in startup packet");
  refused(Script(fresh).event(Drain{}), "57P03", "the proxy is shutting down");
  for (const auto& [request, name] :
       {std::pair(ssl_request, "SSLRequest"), std::pair(gssenc_request, "GSSENCRequest")}) {
    Script twice = fresh;
    twice.client(request).to_client("N");
    refused(twice.client(request), "08P01", std::string(name) + " twice");
  }
  Script remote = fresh;
  remote.options.client_tls = remote.options.client_tls_required = true;
  remote.peer.local = false;
  refused(remote.client(startup(0, ann)), "28000", "Termgate takes no connection without TLS here");
  Script too_many = fresh;
  Admission admission;
  admission.refused_sqlstate = "53300";
  admission.refused_message = "too many connections for role \"ann\"";
  too_many.client(startup(0, ann)).acts({Kind::admit});
  refused(too_many.event(Admitted{admission}), "53300", admission.refused_message);
}

TEST_CASE("session: clear text behind a request for encryption is refused", "[proxy]") {
  termgate::test::Neighbours neighbours;
  for (const std::string& request : {ssl_request, gssenc_request}) {
    for (const bool tls : {false, true}) {
      Options options;
      options.client_tls = tls;
      Session session(options, {}, neighbours, {});
      session.resume(termgate::pg_session::ClientBytes{request + startup(0, ann)}, {});
      CHECK(session.to_client() ==
            fatal("08P01", "unencrypted data after a request for encryption"));
      CHECK(session.to_server().empty());
      CHECK(session.phase() == Session::Phase::closing);
    }
  }
}

TEST_CASE("session: a cancel request is forwarded and nothing is said", "[F7][proxy]") {
  Script script = from_the_first_byte();
  script.client(made([](auto& out) { termgate::pgwire::append_cancel_request(out, 4711, "0123"); }))
      .acts({Kind::forward_cancel})
      .is([](const Session& session) {
        CHECK(session.cancel_pid() == 4711);
        CHECK(session.cancel_key() == "0123");
      });
  script.replay();
}

TEST_CASE("session: a start-up that cannot be read is refused", "[proxy]") {
  termgate::test::Neighbours neighbours;
  const std::string bad[] = {std::string("\0\0\0\4", 4), std::string("\0\0\x40\0", 4),
                             std::string("\0\0\0\x08\0\2\0\0", 8), std::string("\x16\3\1", 3),
                             "GET / HTTP/1.1\r\n"};
  for (const std::string& bytes : bad) {
    INFO(escaped(bytes));
    Options options;
    Session session(options,
                    {.local = true, .encrypted_already = true, .cancel_key = std::string(32, 'k')},
                    neighbours, {});
    for (const char byte : bytes)
      session.resume(termgate::pg_session::ClientBytes{std::string_view(&byte, 1)}, {});
    CHECK(session.phase() == Session::Phase::closing);
    CHECK(session.to_server().empty());
    // As PostgreSQL: what is no packet gets no answer, an older protocol one in its own form.
    CHECK(session.to_client().starts_with("EFATAL:  unsupported frontend protocol 2.0") ==
          (bytes.size() == 8));
    CHECK(session.to_client().empty() == (bytes.size() != 8));
  }
}

// Long: each kind of connection, with and without the rule.
TEST_CASE("session: replication is refused unless a rule lets it through", "[F6][proxy]") {
  Script script = from_the_first_byte();
  script.client(startup(0, {{"user", "ann"}, {"replication", "database"}})).acts({Kind::admit});
  script.event(Admitted{})
      .to_client(fatal("28000",
                       "replication connections are not let through: they read past every fence. "
                       "Connect to the server directly, or allow them by a rule"))
      .acts({Kind::close_client});
  script.replay();

  const Parameters asked{{"user", "ann"}, {"replication", "database"}};
  const auto allowed = [&](Enforce enforce) {
    Admission admission;
    admission.replication = true;
    admission.enforce = enforce;
    Parameters sent = asked;
    if (enforce == Enforce::on) sent.emplace_back("default_transaction_read_only", "on");
    return greeted(asked, sent, 0, admission).back(ok + ready('I'));
  };

  // What a subscription sends.
  Script reads = allowed(Enforce::on);
  for (const std::string& text : std::vector<std::string>{
           "SELECT pg_catalog.set_config('search_path', '', false);", "IDENTIFY_SYSTEM",
           " START_REPLICATION SLOT \"s\" LOGICAL 0/0 (proto_version '4')",
           "CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'use')",
           "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ", "COPY public.t TO STDOUT",
           "COPY (SELECT a FROM ONLY public.t WHERE a > 1) TO STDOUT", "COMMIT",
           "SHOW server_version",
           "SELECT DISTINCT n.nspname, c.relname, gpt.attrs FROM pg_class c JOIN pg_namespace n ON "
           "n.oid = c.relnamespace JOIN (SELECT (pg_get_publication_tables(VARIADIC "
           "array_agg(pubname::text))).* FROM pg_publication WHERE pubname IN ('p')) AS gpt ON "
           "gpt.relid = c.oid"}) {
    reads.runs(text, "SELECT 0", 'I');
  }
  reads.replay();

  // What would write, or make it possible. No check can stand in front of it, for there is no
  // extended protocol.
  for (const std::string& text :
       std::vector<std::string>{"INSERT INTO t VALUES (1)",
                                "SELECT 1; INSERT INTO t VALUES (1)",
                                "BEGIN READ WRITE",
                                "BEGIN; SET TRANSACTION READ WRITE",
                                "SELECT a FROM t; COMMIT; SELECT a FROM u",
                                "SET default_transaction_read_only = off",
                                "SET transaction_read_only = off",
                                "RESET default_transaction_read_only",
                                "RESET ALL",
                                "DISCARD ALL",
                                "SELECT f()",
                                "SELECT set_config('default_transaction_read_only', 'off', false)",
                                "SELECT pg_notify('c', 'x')",
                                "NOTIFY c",
                                "SELECT lo_create(1)",
                                "COPY t FROM STDIN",
                                "COPY t TO PROGRAM 'true'",
                                "DO $$BEGIN END$$",
                                "CALL p()",
                                "VACUUM t",
                                "PREPARE TRANSACTION 'x'",
                                "COMMIT PREPARED 'x'",
                                "start_replication",
                                "SHOWN",
                                "IDENTIFY_SYSTEM_ALL; INSERT INTO t VALUES (1)",
                                "/* */ INSERT INTO t VALUES (1)",
                                "SET standard_conforming_strings = off",
                                "PREPARE p AS INSERT INTO t VALUES (1)",
                                "EXECUTE p",
                                "CREATE TABLE u (a int)"}) {
    CAPTURE(text);
    Script refused = allowed(Enforce::on);
    refused.client(query(text))
        .ends("0A000",
              "Termgate lets a replication connection run replication commands and plain reads, "
              "without functions of the user's own: a check cannot stand in front of a write here. "
              "Use an ordinary connection for other SQL");
    refused.replay();
    Script observed = allowed(Enforce::observe);
    observed.through(query(text));
    observed.replay();
  }

  // The next query waits for the answer, which says whether something has changed the default.
  Script pipelined = allowed(Enforce::on);
  pipelined.through(query("SELECT a FROM t"));
  pipelined.client(query("SELECT b FROM t"))
      .ends("0A000",
            "Termgate takes one query at a time in a replication connection: send the next when "
            "the answer has come");
  pipelined.replay();

  // Something that the text does not show has changed the default.
  Script writable = allowed(Enforce::on);
  writable.server(status("default_transaction_read_only", "off"))
      .ends("0A000", "something has made this replication connection writable");
  writable.replay();
}

TEST_CASE("session: TLS to the server is asked for as it was chosen", "[proxy]") {
  const auto answered = [](const std::string& answer, bool required = false) {
    Script script = from_the_first_byte();
    script.options.server_is_local = false;
    if (required) script.options.server_tls = Options::ServerTls::require;
    admit(script).event(ServerConnected{}).to_server(ssl_request);
    return script.server(answer);
  };
  Script prefers = answered("N");
  prefers.to_server(startup(0, ann));
  prefers.replay();

  Script encrypted = answered("S");
  encrypted.acts({Kind::start_server_tls});
  encrypted.event(ServerTls{}).to_server(startup(0, ann));
  ready_at_last(encrypted);
  encrypted.replay();

  const auto fails = [](Script script, std::string_view message) {
    script.to_client(fatal("08006", message)).closes();
    script.replay();
  };
  fails(answered("S").acts({Kind::start_server_tls}).event(ServerLost{"certificate has expired"}),
        "the server cannot be reached: certificate has expired");
  fails(answered("N", true), "the server offers no TLS, which this proxy requires");
  fails(answered("H"),
        "the server answered the request for TLS with something else; is it a PostgreSQL server?");

  Script unreachable = from_the_first_byte();
  admit(unreachable).event(ServerLost{"connection refused"});
  unreachable.to_client(fatal("57P03", "the server cannot be reached: connection refused"));
  unreachable.closes();
  unreachable.replay();
}

TEST_CASE("session: clear text behind the server's consent to TLS is refused", "[proxy]") {
  termgate::test::Neighbours neighbours;
  Options options;
  Session session(options,
                  {.local = true, .encrypted_already = false, .cancel_key = std::string(32, 'k')},
                  neighbours, {});
  session.resume(termgate::pg_session::ClientBytes{startup(0, ann)}, {});
  session.resume(Admitted{}, {});
  session.resume(ServerConnected{}, {});
  session.resume(termgate::pg_session::ServerBytes{"S" + ok + ready('I')}, {});
  CHECK(session.to_client() == fatal("08006",
                                     "the server sent unencrypted data after it agreed to TLS: a "
                                     "third party may be in between"));
  CHECK(session.phase() == Session::Phase::closing);
}

TEST_CASE("session: a client that could bind its channel is told why the server would refuse",
          "[proxy]") {
  const std::string why =
      "channel binding cannot pass through a proxy that ends TLS on both sides, and the server "
      "insists on it where the client could: connect with channel_binding=disable, or let the "
      "proxy reach the server without TLS (a Unix socket, loopback)";
  Script script = greeted();
  script.server(sasl({"SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"})).to_client(sasl({"SCRAM-SHA-256"}));
  script.client(sasl_initial("SCRAM-SHA-256", "y,,n=,r=nonce")).ends("28000", why);
  script.replay();

  // Where the server did not offer it, it has no objection.
  Script plain = greeted();
  plain.back(sasl({"SCRAM-SHA-256"}));
  plain.through(sasl_initial("SCRAM-SHA-256", "y,,n=,r=nonce"));
  plain.replay();

  Script only = greeted();
  only.server(sasl({"SCRAM-SHA-256-PLUS"}))
      .ends("28000",
            "the server takes SCRAM with channel binding only, which cannot pass through a proxy");
  only.replay();
}

TEST_CASE("session: GSSAPI is refused with what to do instead", "[proxy]") {
  Script script = greeted();
  script.server(authentication(Authentication::Type::gss))
      .ends("28000",
            "GSSAPI names the server's host and cannot pass through a proxy: use SCRAM, or a "
            "certificate between client and proxy");
  script.replay();
}

TEST_CASE("session: a server that asks for no credential is offered to local clients only",
          "[F6][proxy]") {
  const std::string why =
      "the server requests no credential (its pg_hba.conf trusts this proxy), so anybody could log "
      "in: Termgate offers it to other machines only with --trust-backend";
  Script remote = greeted();
  remote.peer.local = false;
  remote.server(ok + ready('I')).ends("28000", why);
  remote.replay();

  Script asked = greeted();
  asked.peer.local = false;
  asked.back(authentication(Authentication::Type::cleartext_password));
  asked.through(password("secret"));
  ready_at_last(asked);
  asked.replay();

  Script trusted = greeted();
  trusted.peer.local = false;
  trusted.options.trust_backend = true;
  ready_at_last(trusted);
  trusted.replay();
}

TEST_CASE(
    "session: a server session that did not become read-only is made so before the client hears of "
    "it",
    "[F6][proxy]") {
  Script script = greeted();
  const std::string off = ok + status("default_transaction_read_only", "off");
  asks_who_serves(script, off, off);
  script.server(columns({"pg_backend_pid"}) + row({"0"}) + complete("SELECT 1") + ready('I'));
  script.back(set_done() + status("default_transaction_read_only", "on"), ready('I'));
  script.replay();

  Script failing = greeted();
  asks_who_serves(failing);
  failing
      .server(who_answered("0") + parse_complete() + bind_complete() +
              error("42501", "permission denied"))
      .ends("08006", "the server session could not be made read-only again");
  failing.replay();
}

TEST_CASE("session: what the client says before its login is over waits for who serves",
          "[F6][proxy]") {
  Script script = greeted();
  asks_who_serves(script).client(query("SELECT 1"));
  script.server(who_serves_done("0")).to_client(ready('I')).to_server(query("SELECT 1"));
  script.replay();
}

TEST_CASE("session: a pooler behind the proxy is refused unless it is announced", "[F6][proxy]") {
  const auto asked = [] {
    Script script = greeted();
    script.server(ok + key(4711, "serv") + ready('I'))
        .to_client(ok + key(4711, "0123"))
        .acts({Kind::registered})
        .to_server(who_serves());
    return script;
  };
  // Another process answers, or one that says nothing.
  for (const std::string& answer :
       {columns({"pg_backend_pid"}) + row({"4712"}), empty_query() + ready('I')}) {
    Script script = asked();
    script.server(answer).ends(
        "08006",
        "there is a pooler between the proxy and the server: put it in front of the proxy, or, if "
        "it keeps one server session for each client as long as that stays, start the proxy with "
        "--server-pooler session");
    script.replay();
  }
  Script announced = asked();
  announced.options.server_pooler = true;
  announced.server(who_serves_done("17")).to_client(ready('I'));
  announced.replay();
}

TEST_CASE(
    "session: under allow what ALTER ROLE declares is found at the login and holds the session to "
    "it",
    "[F2][F6][proxy]") {
  Admission admission;
  admission.without_term = WithoutTerm::allow;
  Script script = greeted(ann, ann, 0, admission);
  script.server(ok + ready('I')).to_client(ok).to_server(who_asked());
  // No session of its own kind from here on: READ ONLY by default, before the client may say a
  // word.
  script.server(who_answered("0", "orders", "5"))
      .to_client(ready('I'))
      .to_server(ours(named("_termgate_look_", "0123456789abcdef0123456789abcdef", 0),
                      "SHOW default_transaction_read_only", {}, {}, In::beginning) +
                 put_back(named("_termgate_default_on_", "0123456789abcdef0123456789abcdef", 0)));
  script.replay();
}

TEST_CASE("session: a query before the login is over is out of place", "[F6][proxy]") {
  Script script = greeted();
  script.client(query("DELETE FROM t"))
      .ends("08P01", "expected password response")
      .told({"malformed"});
  script.replay();
}

TEST_CASE("session: a login has a time of its own", "[proxy]") {
  Script script = from_the_first_byte();
  script.options.login_timeout = 5s;
  script.later(4s).client(startup(0, ann)).acts({Kind::admit});
  script.later(1s)
      .event(Tick{})
      .to_client(fatal("57014", "the login took longer than the proxy's login timeout"))
      .acts({Kind::close_client});
  script.replay();

  Script slow = greeted();
  slow.later(59999ms).event(Tick{});
  slow.later(1ms).event(Tick{}).ends("57014",
                                     "the login took longer than the proxy's login timeout");
  slow.replay();

  // Until it is known what serves the client is not let in.
  Script unanswered = greeted();
  asks_who_serves(unanswered).later(59999ms).event(Tick{});
  unanswered.later(1ms).event(Tick{}).ends("57014",
                                           "the login took longer than the proxy's login timeout");
  unanswered.replay();

  Script answered = greeted();
  ready_at_last(answered);
  answered.later(120s).event(Tick{});
  answered.replay();
}
