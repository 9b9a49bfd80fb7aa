// A session that has a seat (decision 0026): what passes, what waits until the seat is given back,
// and when nothing of the client's is under way. Whether no write gets past the check is the
// simulation's (tests/sim/sessions.cpp).
#include <catch2/catch.hpp>

#include "script.hpp"

using namespace termgate::test;
using namespace termgate::test::wire;
using termgate::pg_session::GateWanted;
using termgate::pg_session::Tick;

namespace {

const std::string nonce = "4f1c7d2e-0000-4000-8000-00000000beef";

std::string sit() {
  return writable() + own_mode() +
         ours(named("_termgate_sit_"),
              "SELECT s.nonce, s.why, CASE WHEN s.nonce IS NOT NULL THEN "
              "pg_catalog.set_config('default_transaction_read_only', NULL, "
              "false) END "
              "FROM \"termgate\".sit($1, $2, pg_catalog.sha256(pg_catalog.decode($3, 'hex'))) s",
              {25, 20, 25}, {"orders", "5", "00ff"}, In::beginning) +
         sync_message();
}
std::string sit_done(std::string_view reported = "off") {
  return set_done() + own_mode_done() + parse_complete() + bind_complete() + row({nonce, "", ""}) +
         complete("SELECT 1") + close_complete() +
         status("default_transaction_read_only", reported) + ready('I');
}
std::string stand() {
  return writable() +
         ours(
             named("_termgate_stand_"),
             "SELECT \"termgate\".stand(ARRAY[$1::pg_catalog.uuid], pg_catalog.decode($2, 'hex')), "
             "pg_catalog.set_config('default_transaction_read_only', 'on', false)",
             {25, 25}, {nonce, "00ff"}, In::beginning) +
         sync_message();
}
std::string stand_done() {
  return set_done() + parse_complete() + bind_complete() + row({"{}", "on"}) +
         complete("SELECT 1") + close_complete() + status("default_transaction_read_only", "on") +
         ready('I');
}
// Its first check has passed, and it has asked for a seat.
Script asking() {
  Script script;
  script.seats = {.secret = "00ff", .checks = 1, .runs_any_text = true};
  writes(script).to_server(sit());
  return script;
}
Script seated() {
  Script script = asking();
  script.server(sit_done());
  return script;
}

}  // namespace

TEST_CASE("session: under a seat the client's bytes pass, and nothing of ours is seen",
          "[F1][F7][proxy]") {
  Script script = seated();
  script.through(query(insert), inserted()).told({});
  const std::string group =
      parse("", "UPDATE t SET a = $1") + bind_message("", "", {"2"}) + execute() + sync_message();
  const std::string done = parse_complete() + bind_complete() + complete("UPDATE 1") + ready('I');
  script.through(group, done);
  script.through(query("BEGIN; " + insert), complete("BEGIN") + inserted('T'));
  script.runs("COMMIT", 'I');
  script.replay();
}

TEST_CASE("session: the operator is told why there is no seat", "[F7][proxy]") {
  Script none = asking();
  none.server(set_done() + own_mode_done() + parse_complete() + bind_complete() +
              row({"", "the guard checks this session", ""}) + complete("SELECT 1") +
              close_complete() + ready('I'));
  none.told({"no seat: the guard checks this session"});
  none.replay();
  Script failed = asking();
  failed.server(set_done() + own_mode_done() +
                error("55P03", "canceling statement due to lock timeout") + ready('I'));
  failed.told({"no seat: canceling statement due to lock timeout"});
  failed.replay();
}

TEST_CASE("session: what comes while the seat is asked for waits for the answer", "[F1][proxy]") {
  Script script = asking();
  script.client(query(insert));
  script.server(sit_done()).to_server(query(insert));
  script.back(inserted());
  script.replay();
}

TEST_CASE("session: without a seat it goes on as before", "[F1][proxy]") {
  Script script = asking();
  script.server(set_done() + own_mode_done() + parse_complete() + bind_complete() +
                row({std::nullopt, std::nullopt}) + complete("SELECT 1") + close_complete() +
                ready('I'));
  writes(script);
  script.replay();
}

TEST_CASE("session: a raise that waits gets the seat when the session is at rest", "[F4][proxy]") {
  Script idle = seated();
  idle.event(GateWanted{"orders", true}).to_server(stand());
  idle.server(stand_done());
  idle.client(query(insert)).to_server(opening() + converted(insert));
  idle.replay();

  Script busy = seated();
  busy.through(query("BEGIN"));
  busy.event(GateWanted{"orders", true});
  busy.back(complete("BEGIN") + ready('T'));
  busy.event(GateWanted{"orders", false});
  busy.runs("COMMIT", 'I').to_server(stand());
  busy.replay();

  // An answer without a Sync is not the end.
  Script flushed = seated();
  const std::string group = once(insert) + flush();
  flushed.through(group, parse_complete() + bind_complete() + complete("INSERT 0 1"));
  flushed.event(GateWanted{"orders", true});
  flushed.through(sync_message(), ready('I')).to_server(stand());
  flushed.replay();

  Script other = seated();
  other.event(GateWanted{"invoices", true});
  other.replay();
}

TEST_CASE("session: what the seat does not cover waits until it is given back", "[F2][F6][proxy]") {
  const std::string texts[] = {"SET termgate.term = 6",
                               "DISCARD ALL",
                               "SET ROLE other",
                               "VACUUM t",
                               "DO $$BEGIN END$$",
                               "SELECT unknown_function()",
                               "FROB t",
                               "EXECUTE nothing",
                               "SELECT termgate.check_term('orders', 6)",
                               "SELECT set_config('termgate.term', '6', false)"};
  for (const std::string& text : texts) {
    INFO(text);
    Script script = seated();
    script.client(query(text)).to_server(stand());
    script.replay_whole();
    Script group = seated();
    group.client(once(text) + sync_message()).to_server(stand());
    group.replay_whole();
  }
  Script named_claim = seated();
  named_claim.client(parse("", "/*termgate.scope='orders',termgate.term='4'*/ " + insert))
      .to_server(stand());
  named_claim.replay_whole();
  Script unknown = seated();
  unknown.client(bind_message("", "never_parsed")).to_server(stand());
  unknown.replay_whole();
}

TEST_CASE("session: a prepared transaction passes the check that locks", "[F1][F4][proxy]") {
  Script script = seated();
  script.runs("BEGIN", 'T');
  script.through(query(insert), inserted('T'));
  script.behind(ours(named("_termgate_unseat_"), "SET LOCAL termgate.seat TO off", {}, {}, block) +
                    check("orders", "5", block) + sync_message(),
                query("PREPARE TRANSACTION 'x'"));
  script.replay_whole();
}

TEST_CASE("session: a call that the seat does not cover leaves its transaction fit to be prepared",
          "[F1][F7][proxy]") {
  Script script = seated();
  script.runs("BEGIN", 'T');
  script.through(query(insert), inserted('T'));
  // What it may have declared is checked, and the seat is kept: after a check this transaction
  // could not raise the scope anyway. A seat given back here would keep it from being prepared.
  script.runs("SELECT unknown_function()", 'T');
  script.behind(check_declared(block) + sync_message(), query(insert));
  script.replay_whole();
}

TEST_CASE("session: a seat that is not used is given back", "[F4][proxy]") {
  Script script = seated();
  script.later(std::chrono::milliseconds(900)).event(Tick{});
  script.later(std::chrono::milliseconds(200)).event(Tick{}).to_server(stand());
  script.server(stand_done());
  script.replay();
}

TEST_CASE("session: once a second the server is asked what a seated session declares",
          "[F2][proxy]") {
  Script script = seated();
  script.later(std::chrono::milliseconds(1500)).through(query(insert));
  script.back(inserted()).to_server(check_declared() + sync_message());
  // Code has declared something else.
  script
      .server(parse_complete() + bind_complete() + row({claim_text("orders", "4", "4")}) +
              complete("SELECT 1") + close_complete() + ready('I'))
      .to_server(stand());
  script.replay();
}

TEST_CASE("session: under a seat READ WRITE of an open transaction passes, however it is sent",
          "[F7][proxy]") {
  for (const std::string text : {"SET TRANSACTION READ WRITE", "SET transaction_read_only = off"}) {
    for (const bool simple : {true, false}) {
      CAPTURE(text, simple);
      Script script = seated();
      script.runs("BEGIN", 'T');
      if (simple) {
        script.runs(text, 'T');
      } else {
        script.through(parse("", text) + bind_message("", "") + execute() + sync_message(),
                       parse_complete() + bind_complete() + complete("SET") + ready('T'));
      }
      script.through(query(insert), inserted('T'));
      script.runs("COMMIT", 'I');
      script.replay();
    }
  }
}

// By whatever way its messages go, which replay() decides by cutting them everywhere.
TEST_CASE("session: a whole transaction under a seat goes through unread, errors and batches too",
          "[F1][F7][proxy]") {
  Script script = seated();
  const std::string prepare =
      parse("s", "UPDATE t SET a = $1 WHERE b = $2") + describe_statement("s") + sync_message();
  const std::string prepared = parse_complete() + parameters_none() + no_data() + ready('I');
  script.through(prepare, prepared);
  std::string batch, answers;
  for (int i = 0; i < 3; ++i) {
    batch += bind_message("", "s", {"1", "2"}) + describe_portal("") + execute();
    answers += bind_complete() + no_data() + complete("UPDATE 1");
  }
  script.through(batch + sync_message(), answers + notice("by a trigger") + ready('I'));

  // The first of a batch fails, and the server skips the rest of it.
  const std::string failed =
      bind_complete() + no_data() + error("23505", "duplicate key") + ready('I');
  script.through(batch + sync_message(), failed);
  const std::string wrong = error("42P01", "no such table") + ready('I');
  script.through(query("UPDATE nowhere SET a = 1"), wrong);

  // What the unnamed statement is by now is known: it needs no seat to be given back.
  const std::string unnamed = parse("", "SELECT a FROM t WHERE b = $1", {23}) +
                              bind_message("", "", {"2"}) + execute() + sync_message();
  const std::string found =
      parse_complete() + bind_complete() + row({"1"}) + complete("SELECT 1") + ready('I');
  script.through(unnamed, found);
  const std::string again = bind_message("", "", {"3"}) + execute() + sync_message();
  script.through(again, bind_complete() + complete("SELECT 0") + ready('I'));
  script.replay();
}

TEST_CASE("session: a raise waits for the end of what goes through unread", "[F4][proxy]") {
  Script script = seated();
  script.through(query(insert));
  script.event(GateWanted{"orders", true});
  script.back(inserted()).to_server(stand());
  script.replay();

  // What it has declared is another matter than what it wrote: the second half of a pipeline is
  // looked at.
  Script two = seated();
  const std::string write = once(insert) + sync_message();
  const std::string declare = once("SET termgate.term = 6") + sync_message();
  two.through(write, parse_complete() + bind_complete() + inserted());
  two.client(declare).to_server(stand());
  two.replay();
}
