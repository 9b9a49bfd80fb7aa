// A session that the guard inside the server covers (docs/use/guard.md, --guard): what the proxy
// leaves to it, and what it does not.
#include <catch2/catch.hpp>

#include "script.hpp"

using namespace termgate::test;
using namespace termgate::test::wire;
using termgate::pg_session::FenceSeen;
using termgate::pg_session::Options;

namespace {

Script guarded(std::string application_name = "termgate.scope=orders;termgate.term=5;") {
  Script script;
  script.options.server_guard = Options::ServerGuard::required;
  script.application_name = std::move(application_name);
  return script;
}

std::string declare(std::string_view scope, std::string_view term) {
  return ours(named("_termgate_declare_"),
              "SELECT pg_catalog.set_config('termgate.scope', $1, true), "
              "pg_catalog.set_config('termgate.term', $2::pg_catalog.text, true)",
              {25, 20}, {scope, term}, In::beginning);
}
std::string declare_done(std::string_view scope, std::string_view term) {
  return parse_complete() + bind_complete() + row({scope, term}) + complete("SELECT 1") +
         portal_closed(In::beginning);
}

}  // namespace

TEST_CASE("session: what the server guards goes to it as the client sends it", "[F6][F7][proxy]") {
  Script script = guarded();
  script.runs(insert, "INSERT 0 1", 'I');
  const std::string group = once(insert) + sync_message();
  script.through(group);
  const std::string done = parse_complete() + bind_complete() + complete("INSERT 0 1") + ready('I');
  script.back(done);
  script.through(group, done);
  const std::string two = "BEGIN; " + insert + "; SELECT 1/0; COMMIT";
  script.through(query(two), complete("BEGIN") + error("22012", "division by zero") + ready('E'));
  script.runs("ROLLBACK", 'I');
  script.replay();
}

TEST_CASE("session: a comment's claim is checked by the proxy and declared for the server's guard",
          "[F1][proxy]") {
  Script script = guarded("");
  const std::string text = "/* termgate.scope='orders', termgate.term='5' */ " + insert;
  script.client(query(text))
      .to_server(check("orders", "5") + declare("orders", "5") + converted(text));
  script.server(check_done() + declare_done("orders", "5") + converted_done("INSERT 0 1"))
      .to_client(complete("INSERT 0 1") + ready('I'));
  script.through(query(insert));
  script.replay();
}

TEST_CASE("session: a stale comment in a pipeline that has reached the server's guard fails there",
          "[F1][F6][proxy]") {
  // With a literal, which its Parse reads.
  const std::string stale =
      "/* termgate.scope='orders', termgate.term='4' */ INSERT INTO t VALUES ('1')";
  const std::string rest =
      parse("", stale) + bind_message("", "") + flush() + execute() + sync_message();
  const std::string refusal =
      error("TG001", "TG001 stale term 4 for scope \"orders\": the fence stands at 5");
  const auto after = [&](const std::string& first, const std::string& answer,
                         In in = In::beginning) {
    Script script = guarded("");
    script.through(first);
    script.behind(check_claim("-", "0", in), rest);
    script
        .server(answer + parse_complete() + bind_complete() + error("22023", "no term is 0") +
                ready('I'))
        .to_client(answer + refusal + ready('I'));
    script.through(query(insert));
    script.replay_whole();
  };
  after(close_statement("s"), close_complete());
  after(close_portal("p") + flush(), close_complete());
  after(parse("s", "SELECT 1") + describe_statement("s"),
        parse_complete() + parameters_none() + no_data());
  after(once("SELECT 1"), parse_complete() + bind_complete() + row({"1"}) + complete("SELECT 1"),
        In::block);
}

TEST_CASE(
    "session: a declaration of the session's is checked once, and then left to the server's guard",
    "[F1][F2][proxy]") {
  Script script = guarded("");
  const std::string set = "SET termgate.scope = 'orders'";
  script.runs(set, "SET", 'I');
  script.runs("SET termgate.term = 5", "SET", 'I');
  script.client(query(insert)).to_server(check_declared() + converted(insert));
  script.server(check_done() + converted_done("INSERT 0 1"))
      .to_client(complete("INSERT 0 1") + ready('I'));
  script.through(query(insert));
  script.replay();
}

TEST_CASE("session: a block that the server's guard checks is ended when a higher term is seen",
          "[F4][proxy]") {
  Script script = guarded();
  script.runs("BEGIN", 'T');
  script.runs(insert, "INSERT 0 1", 'T');
  script.event(FenceSeen{"orders", 6})
      .to_server(check("orders", "5", In::block) + sync_message())
      .told({"evicted orders 5/6"});
  script.replay_whole();
}
