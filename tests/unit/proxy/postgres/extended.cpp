// Extended queries: what of a pipeline is held, what stands before its first write, what is
// skipped, and what is run again; as bytes, whole, cut everywhere and with either connection lost
// everywhere (script.hpp). Long: byte scripts, one case after the other.
#include "script.hpp"

using namespace termgate::test::wire;
using termgate::test::Script;

namespace {

const std::string insert_it = "INSERT INTO t VALUES ($1)";
const std::string select_a = "SELECT a FROM t WHERE a = $1";
const std::string unfenced =
    "TG002 this write follows a read of its pipeline that ran without a check: send a Sync between "
    "them";
const std::string declare_first =
    "Declare a scope and a term (termgate.scope, termgate.term) before the transaction.";

// One statement through the unnamed names.
std::string one(const std::string& sql, const std::string& value = "1") {
  return parse("", sql) + bind_message("", "", {value}) + execute();
}
std::string done(const std::string& tag) {
  return parse_complete() + bind_complete() + complete(tag);
}

}  // namespace

TEST_CASE("session: an extended write stands behind the check in its own transaction",
          "[F5][F7][proxy]") {
  Script script;
  script.behind(opening(), one(insert_it) + sync_message());
  script.back(opening_done(), done("INSERT 0 1") + ready('I')).told({"fenced orders 5/5"});
  // A statement prepared before, run again and again.
  script.through(parse("s", insert_it) + describe_statement("s") + sync_message(),
                 parse_complete() + parameters_none() + no_data() + ready('I'));
  const std::string run = bind_message("", "s", {"2"}) + execute() + sync_message();
  for (int i = 0; i < 2; ++i) {
    script.behind(opening(), run);
    script.back(opening_done(), bind_complete() + complete("INSERT 0 1") + ready('I'));
  }
  script.replay();
}

TEST_CASE(
    "session: a Parse of a write that is longer than what is held opens its pipeline, also the "
    "second of its name",
    "[F5][F7][proxy]") {
  Script script;
  script.options.held_bytes_max = 200;
  const std::string many = insert_it + ", ($1)" + std::string(300, ' ');
  const std::string answer = done("INSERT 0 1") + ready('I');
  for (const std::string& sql : {insert_it, many, many}) {
    const std::string asked =
        parse("", sql) + bind_message("", "", {std::string(300, '7')}) + execute() + sync_message();
    script.behind(opening(), asked);
    script.back(opening_done(), answer);
  }
  script.replay();
}

TEST_CASE("session: what a pipeline has read is checked before it declares anew",
          "[F1][F2][proxy]") {
  // A view, or a cast, may have declared and written in the transaction that is opened in front of
  // it.
  for (const std::string declares :
       {"SELECT set_config('termgate.scope', $1, true)", "SET LOCAL termgate.term = '7'"}) {
    CAPTURE(declares);
    const bool set = declares.starts_with("SET");
    const std::string sent =
        set ? declares : "SELECT pg_catalog.set_config('termgate.scope', $1, true)";
    Script script;
    const std::string bound = parse("", sent) + bind_message("", "", {"1"});
    script.client(one(select_a) + one(declares) + sync_message())
        .to_server(opening() + one(select_a) + bound + check_again(block, true) + execute() +
                   check_again(block, true) + sync_message());
    script.replay();
  }
}

TEST_CASE("session: DISCARD ALL is the only statement of a pipeline", "[F6][proxy]") {
  const std::string refused = error("0A000",
                                    "Termgate runs DISCARD ALL only as the one statement before a "
                                    "Sync: send a Sync before and after it");
  const std::string alone = one("DISCARD ALL") + sync_message();
  {
    Script script;
    script.through(alone);
    script.replay();
  }
  Script script = undeclared();
  script.client(one(select_a) + one("DISCARD ALL")).to_client(refused);
  script.replay();
}

TEST_CASE("session: a refused pipeline is skipped up to its Sync and the next one runs",
          "[F2][F7][proxy]") {
  Script script;
  script.fences = {{"orders", 6}};
  script.client(one(insert_it))
      .to_client(error("TG001", stale))
      .told({"refused TG001 from memory"});
  script.client(one(select_a) + describe_statement("") + close_portal("") + flush());
  script.client(sync_message()).to_client(ready('I'));
  script.through(one(select_a) + sync_message(), done("SELECT 0") + ready('I'));
  // Nothing of what was refused is prepared: its name is free.
  script.client(parse("s", insert_it) + bind_message("", "s", {"1"}) + sync_message())
      .to_client(error("TG001", stale) + ready('I'));
  script.through(parse("s", select_a) + bind_message("", "s", {"1"}) + execute() + sync_message());
  script.replay();
}

TEST_CASE("session: two pipelines without waiting are two transactions and two checks",
          "[F5][proxy]") {
  Script script;
  script.client(one(insert_it) + sync_message() + one(insert_it) + sync_message())
      .to_server(opening() + one(insert_it) + sync_message() + opening_left() + one(insert_it) +
                 sync_message());
  script.back(opening_done(), done("INSERT 0 1") + ready('I'));
  script.back(opening_left_done(), done("INSERT 0 1") + ready('I'));
  script.replay();
}

TEST_CASE(
    "session: a read in front of a refused write is made READ ONLY again, though a Flush came "
    "first",
    "[F6][proxy][fuzz]") {
  Script script = undeclared();
  script
      .client(one(select_a) + sync_message() + flush() + one(select_a) + one("frobnicate t") +
              sync_message())
      .to_server(one(select_a) + sync_message() + flush() + locked() + one(select_a) +
                 parse("", "frobnicate t") + bind_message("", "", {"1"}) + check("-", "0", block) +
                 execute() + sync_message())
      .told({"refused TG002 from memory"});
  script.replay();
}

TEST_CASE("session: a Parse that failed leaves no name behind", "[F6][proxy]") {
  Script script;
  script.through(parse("s", "SELECT nothing FROM t") + sync_message(),
                 error("42703", "column \"nothing\" does not exist") + ready('I'));
  // Unknown to the proxy, hence a write; unknown to the server, hence its error.
  script.client(bind_message("", "s") + execute() + sync_message())
      .to_server(opening() + bind_message("", "s") + execute() + check_declared(block) +
                 sync_message());
  const std::string failed = error("26000", "prepared statement \"s\" does not exist");
  script.back(opening_done(), failed + ready('I'));
  script.replay();
}

TEST_CASE("session: a write behind a flushed read is refused with its reason", "[F6][proxy]") {
  Script script;
  script.behind(opening(), one(select_a) + flush());
  script.back(opening_done(), done("SELECT 0"));
  script.through(one(insert_it) + sync_message(), done("INSERT 0 1") + ready('I'));
  script.replay();

  // A session that has no term to be opened with, and comes with one too late.
  Script late = undeclared();
  late.through(one(select_a) + flush(), done("SELECT 0"));
  late.client(parse("", "/*termgate.scope='orders',termgate.term='5'*/ " + insert_it) +
              bind_message("", "", {"1"}))
      .to_server(parse("", "/*termgate.scope='orders',termgate.term='5'*/ " + insert_it) +
                 check("-", "0", block) + bind_message("", "", {"1"}))
      .told({"refused TG002 from memory"});
  late.through(execute() + sync_message());
  late.server(parse_complete() + parse_complete() + bind_complete() +
              error("TG005", "TG005 term 0") + ready('I'))
      .to_client(parse_complete() + error("TG002", unfenced, {{'H', declare_first}}) + ready('I'));
  late.replay();
}

TEST_CASE("session: a pipeline of an untrusted scope is refused from memory whatever the term",
          "[F3][proxy]") {
  const std::string message =
      "TG004 fence untrusted for scope \"orders\": the database shows 5, this proxy has seen 9";
  Script script;
  script.untrusted_scopes = {{"orders", message}};
  script.client(one(insert_it) + sync_message())
      .to_client(error("TG004", message) + ready('I'))
      .told({"refused TG004 from memory"});
  script.client(one("VACUUM t") + sync_message()).to_client(error("TG004", message) + ready('I'));
  script.through(one(select_a) + sync_message(), done("SELECT 0") + ready('I'));
  script.replay();
}

TEST_CASE("session: a default that was set in a pipeline which fails is not believed",
          "[F7][proxy]") {
  Script script;
  const std::string on = "SET default_transaction_read_only = on";
  const std::string asked = once(on) + one("SELECT x") + sync_message();
  script.through(asked, done("SET") + error("42703", "no x") + ready('I'));
  script.behind(opening(), one(insert_it) + sync_message());
  script.back(opening_done(), done("INSERT 0 1") + ready('I'));
  script.replay();
}

TEST_CASE("session: a read that writes is refused once and never run twice", "[F6][F7][proxy]") {
  Script script;
  const std::string text = "SELECT a FROM writing_view";
  const std::string asked =
      parse("s", text) + bind_message("", "s") + describe_portal("") + execute() + sync_message();
  script.through(asked);
  script
      .server(parse_complete() + bind_complete() + columns({"a"}) + notice("seen once") +
              error("25006", read_only) + ready('I'))
      .to_client(parse_complete() + bind_complete() + columns({"a"}) + notice("seen once") +
                 instead("TG002", known_now) + ready('I'));
  // Known from now on, by its name and by its text.
  script.behind(opening(), bind_message("", "s") + execute() + sync_message());
  script.back(opening_done(), bind_complete() + complete("SELECT 0") + ready('I'));
  script.behind(opening(), once(text) + sync_message());
  script.replay();
}

TEST_CASE(
    "session: what another session was refused as a read that writes is checked at once, and read "
    "where there is no claim",
    "[F6][F7][proxy]") {
  const std::string rows = parse_complete() + bind_complete() + row({"1"}) + complete("SELECT 1");
  Script script;
  script.reads_are_known_to_write = true;
  script.client(one(select_a) + sync_message())
      .to_server(opening() + one(select_a) + check_again(block, true) + sync_message());
  script.server(opening_done() + rows + check_declared_done("orders", "5", "", block) + ready('I'))
      .to_client(rows + ready('I'));
  script.replay();

  Script without;
  without.reads_are_known_to_write = true;
  without.application_name.clear();
  without.through(one(select_a) + sync_message(), rows + ready('I'));
  without.replay();
}

TEST_CASE(
    "session: a read that calls functions is opened at once and checked again before its commit",
    "[F1][F2][F6][proxy]") {
  Script script;
  const std::string calls = "SELECT f($1)";
  script.client(one(calls) + sync_message())
      .to_server(opening() + one(calls) + check_again(block, true) + sync_message());
  script
      .server(opening_done() + done("SELECT 1") + check_declared_done("orders", "5", "", block) +
              ready('I'))
      .to_client(done("SELECT 1") + ready('I'));
  // It has declared something stale: what it wrote is undone. What the session declares is not
  // known by now, so the whole check is made.
  script.client(one(calls) + sync_message())
      .to_server(opening() + one(calls) + check_again(block, true) + sync_message());
  script.server(opening_done() + done("SELECT 1") + check_failed() + ready('I'))
      .to_client(done("SELECT 1") + error("TG001", stale) + ready('I'));
  // What it declared is undone too: the session is not taken for stale by it, and what it declares
  // is checked as before.
  script.client(one(calls) + sync_message())
      .to_server(opening() + one(calls) + left("_termgate_again_", check_again(block, true)) +
                 sync_message());
  script
      .server(opening_done() + done("SELECT 1") + left_done(parse_complete()) + bind_complete() +
              error("TG001", stale) + ready('I'))
      .to_client(done("SELECT 1") + error("TG001", stale) + ready('I'));
  script.replay();
}

TEST_CASE("session: what a Bind runs is checked whether or not it is executed", "[F1][F6][proxy]") {
  const auto begun = [](Script& script) { mark_savepoint(script.runs("BEGIN", 'T')); };
  const std::string planned = parse("", "SELECT f()") + bind_message("", ""),
                    domain = parse("", "SHOW work_mem", {16400}) + bind_message("", "", {"1"});
  // Without a claim it plans READ ONLY.
  for (const std::string& what : {planned, domain}) {
    Script none = undeclared();
    begun(none);
    const std::size_t at = what.find('B');
    none.client(what + sync_message())
        .to_server(what.substr(0, at) + locked(block) + what.substr(at) + sync_message());
    none.replay();
  }
  // With one it is checked before, and what it may have declared before the COMMIT. Parse, Bind and
  // Execute are one unit.
  Script script;
  begun(script);
  script.client(planned + sync_message())
      .to_server(parse("", "SELECT f()") + check_opens(block) + bind_message("", "") +
                 sync_message());
  script.server(parse_complete() + check_done("5", block) + bind_complete() + ready('T'))
      .to_client(parse_complete() + bind_complete() + ready('T'))
      .told({"fenced orders 5/5"});
  script.behind(check_again() + sync_message(), query("COMMIT"));
  script.replay();
}

TEST_CASE("session: an end of the block that the server skips has not ended it",
          "[F1][F6][proxy]") {
  for (const std::string end :
       {"COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "PREPARE TRANSACTION 'x'"}) {
    Script script = undeclared();
    mark_savepoint(script.runs("BEGIN", 'T'));
    const bool prepares = end.starts_with("PREPARE");
    const std::string failing = one("SHOW no.such");
    const std::string ending =
        prepares ? parse("", end) + bind_message("", "", {"1"}) + check_opens(block) + execute()
                 : one(end);
    // What follows waits for the answer.
    script.client(failing + one(end) + sync_message() + one("ROLLBACK TO s") + sync_message())
        .to_server(failing + ending + sync_message());
    script.back(error("42704", "unrecognized configuration parameter") + ready('E'))
        .to_server(one("ROLLBACK TO s") + sync_message());
    script.back(done("ROLLBACK") + ready('T'));
    script.behind((prepares ? check_opens_left(block) : locked(block)) + sync_message(),
                  query("SELECT f()"));
    script.replay();
  }
}

TEST_CASE("session: a portal whose name another cursor may have taken is no more what it was",
          "[F1][F6][proxy]") {
  Script script;
  script.runs("BEGIN", 'T');
  const std::string bound = parse("", "SHOW work_mem") + bind_message("p", "") + sync_message();
  script.through(bound, parse_complete() + bind_complete() + ready('T'));
  script
      .in_front(opening(block), opening_done(block), "CLOSE p",
                complete("CLOSE CURSOR") + ready('T'))
      .told({"fenced orders 5/5"});
  script.through(execute("p") + sync_message(), complete("SHOW") + ready('T'));
  // It may have been ROLLBACK TO, or code.
  script.behind(check_declared(block) + sync_message(), query("COMMIT"));
  script.replay();
}

TEST_CASE("session: Describe of a statement is a Parse once more, unless it comes right behind it",
          "[F1][F6][proxy]") {
  const std::string literal = "SELECT '{x}'::app.checked[]";
  Script script;
  script.through(parse("s", literal) + describe_statement("s") + sync_message(),
                 parse_complete() + parameters_none() + no_data() + ready('I'));
  script.runs("BEGIN", 'T');
  script.behind(opening(block), describe_statement("s") + sync_message());
  script.back(opening_done(block), parameters_none() + no_data() + ready('T'))
      .told({"fenced orders 5/5"});
  script.behind(check_again() + sync_message(), query("COMMIT"));
  script.replay();
}

TEST_CASE("session: what comes between a Bind and its Execute is no part of them",
          "[F1][F2][proxy]") {
  const std::string set = "SET LOCAL termgate.term = '4'";
  Script script;
  script.runs("BEGIN", 'T');
  script.behind(opening(block), parse("s", "SELECT f()") + bind_message("p", "s") + sync_message());
  script.back(opening_done(block), parse_complete() + bind_complete() + ready('T'))
      .told({"fenced orders 5/5"});
  script.in_front(check_again(), check_done("5", block), set, complete("SET") + ready('T'));
  script.behind(check_declared(block), execute("p") + sync_message());
  script.replay();
}

TEST_CASE(
    "session: a text that is read in another way by now counts as unknown when its name is bound",
    "[F1][F6][proxy]") {
  const std::string plain = "SELECT set_config('termgate.scope', 'or\\ders', true)",
                    sent = "SELECT pg_catalog.set_config('termgate.scope', 'or\\ders', true)";
  Script script;
  script.client(parse("s", plain) + sync_message()).to_server(parse("s", sent) + sync_message());
  script.back(parse_complete() + ready('I'));
  script.through(query("SET standard_conforming_strings = off"),
                 complete("SET") + status("standard_conforming_strings", "off") + ready('I'));
  script.runs("BEGIN", 'T');
  script.behind(opening(block), bind_message("", "s") + execute() + sync_message());
  script.replay();
}

TEST_CASE("session: behind an end in a pipeline nobody knows how a backslash is read",
          "[F1][F6][proxy]") {
  const std::string hidden = "SELECT '\\', ', set_config($$termgate.term$$, $$4$$, true) --'";
  for (const std::string end : {"COMMIT AND CHAIN", "ROLLBACK TO a"}) {
    Script script;
    script.runs("BEGIN", 'T');
    script.behind(opening(block), one(insert_it) + sync_message());
    script.back(opening_done(block), done("INSERT 0 1") + ready('T'));
    script.client(one(end) + one(hidden) + one(insert_it) + sync_message())
        .to_server(one(end) +
                   (end == "COMMIT AND CHAIN" ? check_declared(block) : check_opens(block)) +
                   one(hidden) + parse("", insert_it) + check_declared(block) +
                   bind_message("", "", {"1"}) + execute() + sync_message());
    script.replay();
  }
}

TEST_CASE("session: of a name that is not ASCII nothing is known", "[F1][F6][proxy]") {
  // In another client_encoding it is another's; and SQL cuts a long one between two letters, so
  // that it may be a shorter one's.
  const std::string letters(62, 'a');
  for (const std::string& name : {std::string("\u00e9"), letters + "\u00e9"}) {
    Script script;
    script.runs("BEGIN", 'T');
    script.through(parse(name, "SHOW work_mem") + sync_message(), parse_complete() + ready('T'));
    script.behind(opening(block), bind_message("", name) + execute() + sync_message());
    script.replay();
  }
  Script script;
  script.through(parse(letters, "SHOW work_mem") + sync_message(), parse_complete() + ready('I'));
  const std::string drops = "DEALLOCATE \"" + letters + "\u00e9\"";
  script.runs(drops, "DEALLOCATE", 'I');
  script.client(bind_message("", letters) + execute() + sync_message())
      .to_server(opening() + bind_message("", letters) + execute() + check_declared(block) +
                 sync_message());
  script.replay();
}

TEST_CASE("session: a name that stands for what runs no code is parsed anew before each Bind",
          "[F1][F6][proxy]") {
  for (const std::string sql : {"SHOW work_mem", "", "SAVEPOINT s",
                                "SELECT set_config('termgate.scope', 'orders', true)"}) {
    Script script;
    const bool declares = sql.starts_with("SELECT");
    const std::string sent =
        declares ? "SELECT pg_catalog.set_config('termgate.scope', 'orders', true)" : sql;
    script.client(parse("h", sql) + sync_message()).to_server(parse("h", sent) + sync_message());
    script.back(parse_complete() + ready('I'));
    script.runs("BEGIN", 'T');
    script.behind((declares ? writable(block) + own_mode(block) : std::string()) +
                      close_statement("h") + parse("h", sent),
                  bind_message("", "h"));
    script.back((declares ? set_done(block) + own_mode_done(block) : std::string()) +
                    close_complete() + parse_complete(),
                bind_complete());
    script.replay();
  }
  // By SQL it is not: what runs then is unknown.
  Script script;
  script.through(parse("h", "SHOW work_mem") + sync_message(), parse_complete() + ready('I'));
  script.runs("BEGIN", 'T');
  script.client(query("EXECUTE h"))
      .to_server(opening(block) + sync_message() + converted("EXECUTE h"));
  script.replay();
}

TEST_CASE("session: a read in a pipeline that writes is refused once and known from then on",
          "[F6][proxy]") {
  Script script;
  const std::string text = "SELECT a FROM writing_view";
  const std::string first = one(select_a) + sync_message(), second = one(text) + sync_message();
  script.client(first + second).to_server(first + locked() + second);
  const std::string told = instead("TG002", known_now);
  script
      .server(done("SELECT 0") + ready('I') + set_done() + parse_complete() + bind_complete() +
              error("25006", read_only) + ready('I'))
      .to_client(done("SELECT 0") + ready('I') + parse_complete() + bind_complete() + told +
                 ready('I'));
  script.behind(opening(), second);
  script.back(opening_done(), done("SELECT 1") + ready('I'));
  // What stood beside it is a read still.
  script.through(first, done("SELECT 0") + ready('I'));
  script.replay();
}

TEST_CASE(
    "session: a read before a BEGIN of its pipeline is locked with the block where something runs "
    "that may have made the session writable",
    "[F6][proxy]") {
  Script script = undeclared();
  const std::string first = one("SELECT flip()") + sync_message(),
                    second = one("SELECT a FROM writing_view") + one("BEGIN") + sync_message();
  script.client(first + second).to_server(first + locked(block) + second);
  script
      .server(done("SELECT 1") + ready('I') + set_done(block) + parse_complete() + bind_complete() +
              error("25006", read_only) + ready('I'))
      .to_client(done("SELECT 1") + ready('I') + parse_complete() + bind_complete() +
                 instead("TG002", "TG002 no term declared for a fenced write") + ready('I'));
  script.replay();
}

TEST_CASE("session: a statement without a term that writes is TG002", "[F6][proxy]") {
  Script script = undeclared();
  const std::string asked = one("SELECT a FROM writing_view") + sync_message();
  script.through(asked);
  script.server(parse_complete() + bind_complete() + error("25006", read_only) + ready('I'))
      .to_client(parse_complete() + bind_complete() +
                 instead("TG002", "TG002 no term declared for a fenced write") + ready('I'))
      .told({"refused TG002"});
  script.replay();
}

TEST_CASE("session: a CALL before its Sync runs under the lock of the session", "[F5][proxy]") {
  Script script;
  const std::string call_parsed = parse("", "CALL p()") + bind_message("", ""),
                    call = call_parsed + execute();
  script.client(call + sync_message()).to_server(writable() + hold() + sync_message());
  script.server(set_done() + check_declared_done("orders", "5", "5") + ready('I'))
      .to_server(default_back() + call + check_again(block, true) + sync_message());
  script
      .server(put_back_done() + done("CALL") + check_declared_done("orders", "5", "", block) +
              ready('I'))
      .to_client(done("CALL") + ready('I'))
      .to_server(release("orders"));
  script.server(release_done());
  // With company it is refused: up to 17 it could commit the check's lock away in the middle.
  script.client(one(insert_it) + call + sync_message())
      .to_server(opening() + one(insert_it) + call_parsed + check("-", "0", block) + execute() +
                 sync_message());
  script
      .server(set_done() + check_declared_done("orders", "5", "5") + done("INSERT 0 1") +
              parse_complete() + bind_complete() + parse_complete() + bind_complete() +
              error("TG005", "TG005 term 0") + ready('I'))
      .to_client(done("INSERT 0 1") + parse_complete() + bind_complete() +
                 error("0A000",
                       "Termgate runs CALL and DO only as the one statement before a Sync, or in a "
                       "transaction block") +
                 ready('I'));
  script.replay();
}

TEST_CASE("session: what must run alone is refused behind a Flush where the server would run it",
          "[F5][F6][proxy]") {
  Script script;
  script.through(flush());
  script.client(once("VACUUM t") + sync_message())
      .to_server(check("-", "0", block).insert(0, parse("", "VACUUM t") + bind_message("", "")) +
                 execute() + sync_message());
  script
      .server(parse_complete() + bind_complete() + parse_complete() + bind_complete() +
              error("TG005", "TG005 term 0") + ready('I'))
      .to_client(parse_complete() + bind_complete() +
                 error("0A000",
                       "Termgate runs what must run alone only as the one statement before a Sync, "
                       "with no Flush before it") +
                 ready('I'));
  script.replay();
}

TEST_CASE(
    "session: the lock that a Bind has put inside the proxy's savepoint is put again behind it",
    "[F6][proxy]") {
  for (const bool flushed : {true, false}) {
    CAPTURE(flushed);
    Script script = undeclared();
    script.through(parse("s", select_a) + sync_message(), parse_complete() + ready('I'));
    script.runs("BEGIN", 'T');
    script.in_front(writable(block) + mark(), set_done(block) + mark_done(), "SAVEPOINT a",
                    complete("SAVEPOINT") + ready('T'));
    script.runs("RELEASE a", "RELEASE", 'T');
    const std::string bind = bind_message("", "s", {"1"});
    if (flushed) {
      script.client(bind + execute() + flush())
          .to_server(locked(block) + bind + unmark() + locked(block) + execute() + flush());
    } else {
      script.behind(locked(block), bind + sync_message());
      script.back(set_done(block), bind_complete() + ready('T'));
      script.behind(unmark() + locked(block) + sync_message(), query("SELECT 1; SELECT f()"));
    }
    script.replay();
  }
}

TEST_CASE("session: a copy that swallows its Sync behind BEGIN is ended by the next one",
          "[F6][proxy]") {
  const std::string copy = one("BEGIN") + once("COPY t FROM STDIN") + sync_message();
  const std::string begun =
      one("BEGIN") + opening(block) + once("COPY t FROM STDIN") + sync_message();
  const std::string begins = done("BEGIN") + parse_complete() + bind_complete() + copy_in();
  for (const bool at_once : {true, false}) {
    for (const bool goes_on : {false, true}) {
      CAPTURE(at_once, goes_on);
      Script script;
      const std::string next = goes_on ? one(insert_it) + sync_message() : sync_message();
      const std::string data = copy_done();
      if (at_once) {
        script.client(copy + data + next).to_server(begun + data);
        script
            .server(done("BEGIN") + opening_done(block) + parse_complete() + bind_complete() +
                    copy_in())
            .to_client(begins)
            .to_server(goes_on ? flush() : sync_message());
      } else {
        script.client(copy).to_server(begun);
        script
            .server(done("BEGIN") + opening_done(block) + parse_complete() + bind_complete() +
                    copy_in())
            .to_client(begins);
        script.client(data + next).to_server(data + (goes_on ? flush() : sync_message()));
      }
      if (goes_on) script.back(complete("COPY 0")).to_server(one(insert_it) + sync_message());
      else script.back(complete("COPY 0") + ready('T'));
      script.replay();
    }
  }
}

TEST_CASE(
    "session: behind a COMMIT that ends an opened pipeline's transaction a write is checked anew",
    "[F1][F5][proxy]") {
  Script script;
  const std::string commit = once("COMMIT");
  script.client(one(insert_it) + commit + one(insert_it) + sync_message())
      .to_server(opening() + one(insert_it) + commit + opening() + one(insert_it) + sync_message());
  script.replay();
}

TEST_CASE("session: a write may follow a flushed Parse of a read or a flushed Close",
          "[F7][proxy]") {
  // A Parse fixes the access mode, so the pipeline is opened with it.
  const std::string parsed = parse("r", select_a) + describe_statement("r");
  Script read;
  read.behind(opening(), parsed + flush());
  read.through(one(insert_it) + sync_message());
  read.replay();
  // A Close fixes nothing.
  Script closed;
  closed.through(close_statement("r") + flush());
  closed.behind(opening(), one(insert_it) + sync_message());
  closed.replay();
  // Without a claim that could pass it reads, as before.
  Script stale_read;
  stale_read.fences = {{"orders", 6}};
  stale_read.through(parsed + flush());
  stale_read.through(bind_message("", "r") + execute() + sync_message());
  stale_read.replay();
}

TEST_CASE("session: a long Bind is streamed for a read", "[F7][proxy]") {
  Script script;
  const std::string value(9000, 'x');
  const std::string asked = one(select_a, value) + sync_message();
  script.through(asked, done("SELECT 0") + ready('I'));
  script.replay();
}

TEST_CASE("session: a long Bind is dropped where its write is refused", "[F2][proxy]") {
  Script script;
  script.fences = {{"orders", 6}};
  const std::string value(9000, 'x');
  script.client(one(insert_it, value) + sync_message())
      .to_client(error("TG001", stale) + ready('I'));
  script.through(one(select_a) + sync_message());
  script.replay();
}

TEST_CASE("session: a Bind of an unknown statement counts as a write", "[F6][proxy]") {
  Script script;
  const std::string asked = bind_message("", "from a pooler") + execute();
  // It may have been anything, so the claim is checked again before its commit.
  script.client(asked + sync_message())
      .to_server(opening() + asked + check_declared(block) + sync_message());
  script.replay();
}

TEST_CASE("session: SHOW by an extended query answers what the client believes", "[F7][proxy]") {
  Script script;
  script.client(one("SHOW default_transaction_read_only") + sync_message())
      .to_server(parse("", "SHOW default_transaction_read_only") + look_at_own() +
                 bind_message("", "", {"1"}) + execute() + sync_message());
  script.replay();
}

TEST_CASE("session: a simple query lets nothing through that a Flush would not",
          "[F5][F6][proxy]") {
  // READ ONLY does not stop VACUUM, so it does not reach the server without the lock of the
  // session.
  Script alone;
  alone.client(once("VACUUM t") + query("SELECT 1"))
      .to_client(error("0A000",
                       "Termgate runs CALL, DO and what must run alone only before a Sync that "
                       "follows at once"));
  alone.client(query("SELECT 1") + sync_message()).to_client(ready('I'));
  alone.through(query("SELECT 1"));
  alone.replay();

  // Nor of a pipeline that is refused already, while answers to one before are still to come.
  Script refused;
  const std::string commit = once("COMMIT"), call = once("CALL p()");
  refused.behind(opening(), one(insert_it) + sync_message());
  refused.client(commit + call + query("SELECT 1") + sync_message());
  refused.server(opening_done() + done("INSERT 0 1") + ready('I'))
      .to_client(done("INSERT 0 1") + ready('I') +
                 error("0A000",
                       "Termgate runs CALL and DO only as the one statement before a Sync, or in a "
                       "transaction block") +
                 ready('I'));
  refused.replay();

  // What runs yet may have made the session writable by default.
  Script unsettled = undeclared();
  const std::string function = one("SELECT f()") + sync_message(),
                    view = one("SELECT a FROM writing_view");
  unsettled.client(function + view + query("SELECT 1"))
      .to_server(function + locked() + view + flush());
  unsettled.replay();
}

TEST_CASE(
    "session: a simple query before the Sync of an extended one waits for its answers in a block",
    "[F5][F7][proxy]") {
  Script script;
  const std::string begin = once("BEGIN") + sync_message();
  script.through(begin, done("BEGIN") + ready('T'));
  script.client(one(insert_it) + query("SAVEPOINT s"))
      .to_server(opening(block) + one(insert_it) + flush());
  script.back(opening_done(block), done("INSERT 0 1")).to_server(query("SAVEPOINT s"));
  script.back(complete("SAVEPOINT") + ready('T'));
  script.through(one(insert_it) + sync_message(), done("INSERT 0 1") + ready('T'));
  script.replay();
}
