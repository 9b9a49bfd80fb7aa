// Simple queries: what the check does to them, row by row of docs/decisions/0006, as bytes. Each
// script runs whole, cut everywhere, and with either connection lost everywhere (script.hpp). Long:
// byte scripts, one case after the other.
#include "script.hpp"

using namespace termgate::test::wire;
using termgate::pg_session::Enforce;
using termgate::pg_session::WithoutTerm;
using termgate::test::Script;

TEST_CASE("session: one plain write stands behind the check in one transaction",
          "[F5][F7][proxy]") {
  Script script;
  writes(script).told({"fenced orders 5/5"});
  // What is prepared once stays so.
  script.client(query("UPDATE t SET a = 2 RETURNING a"))
      .to_server(opening() + converted("UPDATE t SET a = 2 RETURNING a"));
  script
      .server(opening_done() + parse_complete() + bind_complete() + columns({"a"}) + row({"2"}) +
              complete("UPDATE 1") + close_complete() + ready('I'))
      .to_client(columns({"a"}) + row({"2"}) + complete("UPDATE 1") + ready('I'));
  script.replay();
}

TEST_CASE("session: a fence that a check has raised is known once its transaction has committed",
          "[F3][proxy]") {
  const std::string blocked = "TG006 raising scope \"orders\" to 5 is blocked by pid 7",
                    failed = error("42P01", "relation \"t\" does not exist");
  Script script;
  script.fences.clear();
  script.client(query(insert)).to_server(raise_in_advance() + opening_behind() + converted(insert));
  script
      .back(raise_in_advance_failed("TG006", blocked) + opening_behind_done() + parse_complete() +
                bind_complete() + no_data(),
            failed + ready('I'))
      .told({"fenced orders 5/5"});
  // The raise went with the write: it is tried again, and this time the commit of the raise itself
  // fails.
  script.client(query(insert))
      .to_server(writable() + own_mode() + check_left(check_declared()) + sync_message() +
                 opening_behind() + converted(insert));
  script
      .server(set_done() + own_mode_done() + left_done(check_done()) +
              error("40001", "could not commit") + ready('I') +
              opening_behind_failed("TG006", blocked) + ready('I'))
      .to_client(error("TG006", blocked) + ready('I'))
      .told({"refused TG006"});
  script.client(query(insert))
      .to_server(raise_in_advance() + writable_left() + check_opens_left() + converted(insert));
  script.server(raise_in_advance_done() + opening_left_done() + converted_done("INSERT 0 1"))
      .to_client(inserted())
      .told({"fenced orders 5/5"});
  writes(script);
  script.replay();
}

TEST_CASE("session: a stale term is refused from memory without a word to the server",
          "[F2][proxy]") {
  Script script;
  script.fences = {{"orders", 6}};
  script.client(query(insert))
      .to_client(error("TG001", stale) + ready('I'))
      .told({"refused TG001 from memory"});
  script.through(query("SELECT 1"),
                 columns({"?"}) + row({"1"}) + complete("SELECT 1") + ready('I'));
  script.replay();
}

TEST_CASE("session: an untrusted scope is refused from memory whatever the term", "[F3][proxy]") {
  const std::string message =
      "TG004 fence untrusted for scope \"orders\": the database shows 5, this proxy has seen 9";
  const std::string unknown =
      "The proxy does not know this session's scope beforehand, and so refuses it as long as any "
      "is untrusted: declare it by application_name, PGOPTIONS or a comment.";
  {
    Script script;
    script.fences = {{"orders", 9}};
    script.untrusted_scopes = {{"orders", message}};
    for (const std::string& text : {insert, std::string("COPY t FROM STDIN"),
                                    std::string("VACUUM t"), insert + "; " + insert}) {
      script.client(query(text))
          .to_client(error("TG004", message) + ready('I'))
          .told({"refused TG004 from memory"});
    }
    // Reads need no term; one that turns out to write is refused then.
    script.through(query("SELECT a FROM v"));
    script.server(error("25006", "cannot execute INSERT") + ready('I'))
        .to_client(error("TG004", message, {{'D', "The database said: cannot execute INSERT"}}) +
                   ready('I'));
    // What another scope's declaration writes is not untrusted.
    const std::string other = "/*termgate.scope='bills',termgate.term='3'*/ " + insert;
    script.client(query(other))
        .to_server(writable() + own_mode() + check("bills", "3") + sync_message() +
                   writable_left() + check_opens(In::beginning, "bills", "3") + converted(other));
    script.replay();
  }
  {
    // In a block.
    Script script;
    script.untrusted_scopes = {{"orders", message}};
    script.runs("BEGIN", 'T');
    script.through(query("SELECT a FROM t"), columns({"a"}) + complete("SELECT 0") + ready('T'));
    script.client(query(insert))
        .to_server(check("-", "0", block) + sync_message())
        .told({"refused TG004 from memory"});
    script.server(parse_complete() + bind_complete() + error("TG005", "no term") + ready('E'))
        .to_client(error("TG004", message) + ready('E'));
    script.replay();
  }
  {
    // A block that has failed gets the server's one answer to a text of several statements, and one
    // ReadyForQuery.
    Script script;
    script.untrusted_scopes = {{"orders", message}};
    const std::string aborted = error("25P02", "current transaction is aborted");
    script.runs("BEGIN", 'T');
    script.through(query("SELECT 1/0"), error("22012", "division by zero") + ready('E'));
    const std::string call = "SELECT termgate.check_term('orders', 7)";
    script.client(query(call + "; " + call)).to_server(query(call));
    script.back(aborted + ready('E'));
    script.client(query("SELECT 1; " + call)).to_server(query("SELECT 1"));
    script.back(aborted + ready('E'));
    script.replay();
  }
  {
    // A scope that only the server knows, and one that the text names itself, may be this one.
    Script script = undeclared();
    script.untrusted_scopes = {{"orders", message}};
    script.client(query(insert)).to_client(error("TG004", message, {{'H', unknown}}) + ready('I'));
    script.client(query("SELECT termgate.check_term('orders', 7)"))
        .to_client(error("TG004", message, {{'H', unknown}}) + ready('I'));
    // The way out of it.
    const std::string settle = "SELECT termgate.reset_fence('orders', 4, 'ann', 'restored')";
    script.client(query(settle)).to_server(writable() + own_mode() + converted(settle));
    script.replay();
  }
}

TEST_CASE("session: without layer 1 reads pass and writes name termgate init", "[F6][proxy]") {
  Script script;
  const std::string none =
      error("3F000",
            "Termgate is not installed in this database, and so nothing can be written through it",
            {{'H', "As the owner: termgate init --db postgresql://…/shop"}});
  script.client(query(insert)).to_server(opening() + converted(insert));
  script.server(set_done() + error("3F000", "schema \"termgate\" does not exist") + ready('I'))
      .to_client(none + ready('I'));
  // Not prepared, so it is tried again: by then somebody may have installed it.
  script.client(query(insert)).to_server(writable() + check_opens_left() + converted(insert));
  script.server(set_done() + left_done(check_done()) + converted_done("INSERT 0 1"))
      .to_client(inserted());
  script.replay();
}

TEST_CASE("session: a role without the privilege is told who may grant it", "[F6][proxy]") {
  Script script;
  script.client(query(insert)).to_server(opening() + converted(insert));
  script.server(set_done() + error("42501", "permission denied for schema termgate") + ready('I'))
      .to_client(
          error("42501",
                "role \"ann\" may not call Termgate's check: permission denied for schema termgate",
                {{'H', "As the owner: termgate init --grant ann=write"}}) +
          ready('I'));
  script.replay();
}

TEST_CASE("session: a declaration by SET is the server's to say and then known", "[F1][proxy]") {
  Script script = undeclared();
  for (const std::string set : {"SET termgate.scope = 'orders'", "SET termgate.term = '5'"}) {
    script.runs(set, "SET", 'I');
  }
  script.client(query(insert)).to_server(writable() + check_opens() + converted(insert));
  script.server(set_done() + check_declared_done("orders", "5", "5") + converted_done("INSERT 0 1"))
      .to_client(inserted())
      .told({"fenced orders 5/5"});
  writes(script);
  script.replay();
}

TEST_CASE("session: a comment declares for its statement", "[F1][proxy]") {
  // Empty statements before it do not end the place where it may stand.
  for (const std::string before : {"", "; ", "; /* x */ ; "}) {
    CAPTURE(before);
    Script script = undeclared();
    const std::string text = before + "/*termgate.scope='orders',termgate.term='5'*/ " + insert;
    script.client(query(text))
        .to_server(writable() + check_opens(In::beginning, "orders", "5") + converted(text));
    script.server(opening_done() + converted_done("INSERT 0 1")).to_client(inserted());
    const std::string bad = before + "/*termgate.scope='orders',termgate.term='five'*/ " + insert;
    script.client(query(bad))
        .to_client(error("TG005",
                         "TG005 malformed declaration in a comment: the term is not an integer "
                         "from 1 to 2^62") +
                   ready('I'));
    script.replay();
  }
}

TEST_CASE("session: a refusal in a block is one error and one ready", "[F2][F7][proxy]") {
  Script script;
  script.runs("BEGIN", 'T');
  script.behind(opening(block) + sync_message(), query(insert));
  const std::string aborted = error(
      "25P02", "current transaction is aborted, commands ignored until end of transaction block");
  script.server(opening_failed("TG001", stale, block) + ready('E') + aborted + ready('E'))
      .to_client(error("TG001", stale) + ready('E'))
      .told({"refused TG001"});
  script.through(query(insert), aborted + ready('E'));
  script.runs("ROLLBACK", 'I');
  script.replay();
}

TEST_CASE("session: ROLLBACK TO loses the check's lock and the next statement takes it again",
          "[F1][proxy]") {
  Script script = in_block();
  for (const std::string text : {"SAVEPOINT s", "ROLLBACK TO s"}) {
    const std::string tag = text.substr(0, text.find(" s") == 9 ? 9 : 8);
    script.runs(text, tag, 'T');
  }
  script.in_front(check_opens(block), check_done("5", block), insert, inserted('T'))
      .told({"fenced orders 5/5"});
  script.replay();
}

TEST_CASE("session: a COMMIT whose claim has become stale is one error and a rollback",
          "[F1][F2][proxy]") {
  Script script = in_block();
  script.through(query("SELECT f()"));
  const std::string rows = columns({"f"}) + row({""}) + complete("SELECT 1");
  script.back(rows + ready('T'));
  script.behind(check_again() + sync_message(), query("COMMIT"));
  script.server(check_failed() + ready('E') + complete("ROLLBACK") + ready('I'))
      .to_client(error("TG001", stale) + ready('I'))
      .told({"refused TG001"});
  script.through(query("SELECT a FROM t"));
  script.replay();
}

TEST_CASE(
    "session: scope and term declared one after the other behind a write are checked when both are "
    "there",
    "[F1][F2][proxy]") {
  const auto value = [](const std::string& to) {
    return columns({"set_config"}) + row({to}) + complete("SELECT 1");
  };
  Script script;
  script.runs("BEGIN", 'T');
  script.in_front(opening(block), opening_done(block), insert, inserted('T'))
      .told({"fenced orders 5/5"});
  // What was written is checked once more before another claim takes its place, and the half of the
  // next one is not.
  script.client(query("SELECT set_config('termgate.scope', 'bills', true)"))
      .to_server(check_again() + sync_message() +
                 query("SELECT pg_catalog.set_config('termgate.scope', 'bills', true)"));
  script.back(check_done("5", block) + ready('T'), value("bills") + ready('T'));
  script.client(query("SELECT set_config('termgate.term', '2', true)"))
      .to_server(query("SELECT pg_catalog.set_config('termgate.term', '2', true)"));
  script.back(value("2") + ready('T'));
  script.in_front(check_declared(block), check_done("2", block), insert, inserted('T'));
  script.through(query("COMMIT"));
  script.replay();
}

TEST_CASE("session: a check of another scope by its arguments spares nobody the declared one",
          "[F2][F6][proxy]") {
  Script script;
  const std::string call = "SELECT termgate.check_term('bills', 9)";
  script.runs("BEGIN", 'T');
  script.behind(writable(block) + own_mode(block) + sync_message(), query(call));
  const std::string rows = columns({"check_term"}) + row({"9"}) + complete("SELECT 1");
  script.back(set_done(block) + own_mode_done(block) + ready('T'), rows + ready('T'));
  script.behind(check_declared(block) + sync_message(), query(insert));
  script.server(check_failed() + ready('E') + error("25P02", "aborted") + ready('E'))
      .to_client(error("TG001", stale) + ready('E'))
      .told({"refused TG001"});
  script.replay();
}

TEST_CASE(
    "session: where the database has rules a simple write is framed so that their rows are seen",
    "[F7][proxy]") {
  Script script;
  script.has_rules = true;
  script.client(query(insert)).framed(insert);
  const std::string answer = columns({"a"}) + row({"of a rule"});
  script.server(opening_done(block) + ready('T') + answer + inserted('T'))
      .to_client(answer)
      .to_server(query("COMMIT"));
  script.server(complete("COMMIT") + ready('I')).to_client(inserted());
  script.replay();
}

TEST_CASE("session: what only reads behind a savepoint commits READ ONLY in all of its transaction",
          "[F1][F6][proxy]") {
  const std::string rows = columns({"f"}) + row({"1"}) + complete("SELECT 1"), read = "SELECT f()";
  const auto begun = [&](Script& script) {
    script.application_name.clear();
    mark_savepoint(script.runs("BEGIN", 'T'));
    script.in_front(locked(block), set_done(block), read, rows + ready('T'));
  };
  Script simple;
  begun(simple);
  simple.in_front(unmark() + locked(block), unmark_done() + set_done(block), "COMMIT",
                  complete("COMMIT") + ready('I'));
  simple.replay();
  Script extended;
  begun(extended);
  extended.client(once("COMMIT") + sync_message())
      .to_server(parse("", "COMMIT") + bind_message("", "") + unmark() + locked(block) + execute() +
                 sync_message());
  extended.replay();
  // What is released is READ ONLY no more, so the next read is locked again: behind the last
  // savepoint for all of the transaction.
  Script released;
  begun(released);
  released.runs("RELEASE s", "RELEASE", 'T');
  released.in_front(unmark() + locked(block), unmark_done() + set_done(block), read,
                    rows + ready('T'));
  released.through(query("COMMIT"));
  released.replay();
  // A transaction that has failed already writes nothing: the error is told, and the session goes
  // on.
  Script failed;
  begun(failed);
  const std::string aborted = error(
      "25P02", "current transaction is aborted, commands ignored until end of transaction block");
  failed.client(once("SELECT 1/0") + sync_message() + once("RELEASE s") + once(read) +
                sync_message());
  failed.to_server(once("SELECT 1/0") + sync_message() + once("RELEASE s") + parse("", read) +
                   locked(block) + bind_message("", "") + unmark() + locked(block) + execute() +
                   sync_message());
  failed.back(error("22012", "division by zero") + ready('E') + aborted + ready('E'));
  failed.replay();
}

TEST_CASE("session: the client never makes a transaction writable itself", "[F6][proxy]") {
  Script script;
  script.client(query("BEGIN ISOLATION LEVEL REPEATABLE READ, READ WRITE"))
      .to_server(query("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY "));
  script.back(complete("BEGIN") + ready('T'));
  script.in_front(writable(block) + check_declared(block), opening_done(block), insert,
                  inserted('T'));
  // What the server would say is what we have made of it.
  const auto shown = [](const char* name, const char* value, char state) {
    return columns({name}) + row({value}) + complete("SHOW") + ready(state);
  };
  script.through(query("SHOW transaction_read_only"));
  script.server(shown("transaction_read_only", "on", 'T'))
      .to_client(shown("transaction_read_only", "off", 'T'));
  script.runs("COMMIT", 'I');
  script.client(query("SET default_transaction_read_only = off"))
      .to_server(query("SET default_transaction_read_only TO on"));
  script.back(complete("SET") + ready('I'));
  script.through(query("SHOW default_transaction_read_only"));
  script.server(shown("default_transaction_read_only", "on", 'I'))
      .to_client(shown("default_transaction_read_only", "off", 'I'));
  script.replay();
}

TEST_CASE("session: a default is believed when the server has taken it", "[F7][proxy]") {
  const std::string on = "SET default_transaction_read_only = on",
                    show = "SHOW default_transaction_read_only";
  const auto shown = [](const char* value) {
    return columns({"default_transaction_read_only"}) + row({value}) + complete("SHOW") +
           ready('I');
  };
  const std::string believed_on =
      complete("SET") + status("default_transaction_read_only", "on") + ready('I');
  {
    // No value at all: the server's own error, and nothing that the server could misunderstand.
    Script script;
    script.through(query(on));
    script.server(complete("SET") + ready('I')).to_client(believed_on);
    const std::string refused =
        error("22023", "parameter \"default_transaction_read_only\" requires a Boolean value") +
        ready('I');
    script.client(query("SET default_transaction_read_only = 'perhaps'"))
        .to_server(query("SET default_transaction_read_only TO ''"));
    script.back(refused);
    script.through(query(show), shown("on"));
    script.replay();
  }
  {
    // Inside of a block it would end before it counts.
    Script script = in_block();
    script.runs("SET LOCAL default_transaction_read_only = on", "SET", 'T');
    script.runs("COMMIT", 'I');
    script.client(query(insert)).to_server(opening() + converted(insert));
    script.replay();
  }
  {
    // DISCARD ALL is refused in a block, and has done nothing.
    Script script;
    script.through(query(on));
    script.server(complete("SET") + ready('I')).to_client(believed_on);
    script.runs("BEGIN", 'T');
    script.through(query("DISCARD ALL"), error("25001", "cannot run") + ready('E'));
    script.runs("ROLLBACK", 'I').to_server(put_back());
    script.server(put_back_done());
    script.through(query(show), shown("on"));
    script.replay();
  }
}

TEST_CASE("session: a read that writes behind its first row is refused and known from then on",
          "[F6][proxy]") {
  Script script;
  const std::string text = "SELECT a FROM writing_view";
  script.through(query(text));
  script.server(columns({"a"}) + row({"1"}) + error("25006", read_only) + ready('I'))
      .to_client(columns({"a"}) + row({"1"}) + instead("TG002", known_now) + ready('I'))
      .told({"refused TG002"});
  script.client(query(text)).to_server(opening() + converted(text));
  script.replay();
}

TEST_CASE("session: a text of reads of which one writes is refused once and known from then on",
          "[F6][proxy]") {
  Script script;
  const std::string text = "SELECT a FROM t; SELECT a FROM writing_view";
  script.through(query(text));
  const std::string rows = columns({"a"}) + complete("SELECT 0");
  script.server(rows + error("25006", read_only) + ready('I'))
      .to_client(rows + instead("TG002", known_now) + ready('I'));
  script.client(query(text)).framed(text);
  script.server(opening_done(block) + ready('T') + rows + rows + ready('T'))
      .to_client(rows + columns({"a"}))
      .to_server(query("COMMIT"));
  script.server(complete("COMMIT") + ready('I')).to_client(complete("SELECT 0") + ready('I'));
  script.replay();
}

TEST_CASE("session: a stale session's block reads once that is known and its write says so",
          "[F2][F7][proxy]") {
  const std::string read = "SELECT a FROM t", rows = columns({"a"}) + complete("SELECT 0");
  const auto begin = [](Script& script) { script.runs("BEGIN", 'T'); };
  const auto reads = [&](Script& script) { script.through(query(read), rows + ready('T')); };
  {
    Script script;
    script.fences = {{"orders", 6}};
    begin(script);
    reads(script);
    script.client(query(insert))
        .to_server(check("-", "0", block) + sync_message())
        .told({"refused TG001 from memory"});
    script.server(parse_complete() + bind_complete() + error("TG005", "no term") + ready('E'))
        .to_client(error("TG001", stale) + ready('E'));
    script.replay();
  }
  {
    // Declared by SET: what the server said of it once is known behind the block too.
    Script script = undeclared();
    script.fences.clear();
    const std::string set = "SET termgate.term = '5'";
    script.runs(set, "SET", 'I');
    begin(script);
    script.behind(writable(block) + check_opens(block) + sync_message(), query(read));
    script
        .server(set_done(block) + check_failed() + ready('E') + error("25P02", "aborted") +
                ready('E'))
        .to_client(error("TG001", stale) + ready('E'));
    script.runs("ROLLBACK", 'I');
    begin(script);
    reads(script);
    script.replay();
  }
}

TEST_CASE("session: a COPY is refused before its frame's text runs", "[F2][proxy]") {
  Script script;
  const std::string text = "COPY t FROM STDIN";
  script.client(query(text)).framed(text);
  script
      .server(opening_failed("TG001", stale, block) + ready('E') +
              error("25P02", "current transaction is aborted") + ready('E'))
      .to_client(error("TG001", stale))
      .to_server(query("ROLLBACK"));
  script.back(complete("ROLLBACK"), ready('I'));
  script.replay();
}

TEST_CASE("session: an error in a script ends it with its position moved", "[F7][proxy]") {
  Script script;
  script.client(query("BEGIN; SELECT x; COMMIT")).to_server(query("BEGIN"));
  script.server(complete("BEGIN") + ready('T'))
      .to_client(complete("BEGIN"))
      .to_server(opening(block) + sync_message() + query("SELECT x"));
  script
      .server(opening_done(block) + ready('T') +
              error("42703", "column \"x\" does not exist", {{'P', "8"}}) + ready('E'))
      .to_client(error("42703", "column \"x\" does not exist", {{'P', "15"}}) + ready('E'));
  script.replay();
}

TEST_CASE("session: what must run alone runs under the lock of the session", "[F5][proxy]") {
  Script script;
  script.client(query("VACUUM t")).to_server(writable() + hold() + sync_message());
  script.server(set_done() + check_declared_done("orders", "5", "5") + ready('I'))
      .to_server(default_back() + query("VACUUM t"))
      .told({"fenced orders 5/5"});
  script
      .back(set_done() + status("default_transaction_read_only", "off") + ready('I'),
            complete("VACUUM") + ready('I'))
      .to_server(release("orders"));
  // The next word waits until the lock is given back.
  script.client(query("SELECT a FROM t"));
  script.server(status("default_transaction_read_only", "on") + release_done())
      .to_server(query("SELECT a FROM t"));
  script.replay();
}

TEST_CASE("session: what must run alone does not run where the lock is refused",
          "[F2][F5][proxy]") {
  Script script;
  script.client(query("VACUUM t")).to_server(writable() + hold() + sync_message());
  script.back(set_done() + parse_complete() + bind_complete(), error("TG001", stale) + ready('I'))
      .told({"refused TG001"});
  script.client(query("VACUUM t")).to_client(error("TG001", stale) + ready('I'));
  script.replay();
}

TEST_CASE(
    "session: what must run alone takes the claim that the server's session declares, if nobody "
    "has to declare one",
    "[F1][F5][F7][proxy]") {
  const auto nothing = [](In in) {
    return parse_complete() + bind_complete() + row({{}, {}, {}}) + complete("SELECT 1") +
           portal_closed(in);
  };
  const std::string one_row = columns({"f"}) + row({"1"}) + complete("SELECT 1"),
                    sql = "SELECT f()";
  for (const bool declares : {false, true}) {
    Script script = undeclared();
    script.admission.without_term = WithoutTerm::allow;
    script.client(query(sql))
        .to_server(check_again(In::beginning) + parse("", sql) + bind_message("", "") +
                   describe_portal("") + execute() + close_statement("") + check_again() +
                   sync_message());
    script
        .server(nothing(In::beginning) + parse_complete() + bind_complete() + one_row +
                close_complete() + nothing(block) + ready('I'))
        .to_client(one_row + ready('I'))
        .to_server(put_back());
    script.server(status("default_transaction_read_only", "on") + put_back_done());
    script.client(query("VACUUM t")).to_server(writable() + hold("f") + sync_message());
    script
        .server(set_done() +
                (declares ? check_declared_done("orders", "5", "5") : nothing(In::beginning)) +
                ready('I'))
        .to_server(default_back() + query("VACUUM t"));
    if (declares) script.told({"fenced orders 5/5"});
    script.server(set_done() + status("default_transaction_read_only", "off") + ready('I') +
                  complete("VACUUM") + ready('I'));
    script.to_client(complete("VACUUM") + ready('I')).to_server(release(declares ? "orders" : ""));
    script.replay();
  }
}

TEST_CASE(
    "session: behind AND CHAIN a transaction is what the model says, whatever an error or a "
    "savepoint has undone",
    "[F1][F6][proxy]") {
  const auto answered = [](Script& script, const std::string& sql, const std::string& tag,
                           char state) { script.runs(sql, tag, state); };
  const std::string rows = columns({"a"}) + row({"1"}) + complete("SELECT 1");
  const std::string read = "SELECT a FROM t";
  // Nothing is declared: READ ONLY was set inside the savepoint, whose end has undone it.
  Script none = undeclared();
  answered(none, "BEGIN", "BEGIN", 'T');
  mark_savepoint(none);
  none.in_front(locked(block), set_done(block), read, rows + ready('T'));
  answered(none, "ROLLBACK AND CHAIN", "ROLLBACK", 'T');
  none.behind(writable(block) + locked(block) + sync_message(), query(read));
  none.replay();
  // A claim that passes: the error has undone what made the block writable.
  Script failed;
  answered(failed, "BEGIN", "BEGIN", 'T');
  failed.in_front(opening(block), opening_done(block), insert,
                  error("23505", "duplicate") + ready('E'));
  answered(failed, "ROLLBACK AND CHAIN", "ROLLBACK", 'T');
  failed.behind(writable(block) + check_opens(block) + sync_message(), query(insert));
  failed.replay();
}

TEST_CASE("session: SET CONSTRAINTS in a block that has written is a statement that runs code",
          "[F1][F2][proxy]") {
  const std::string set = "SET LOCAL termgate.term = '4'", now = "SET CONSTRAINTS ALL IMMEDIATE";
  Script script;
  script.runs("BEGIN", 'T');
  script.in_front(opening(block), opening_done(block), insert, inserted('T'));
  script.in_front(check_again(), check_done("5", block), set, complete("SET") + ready('T'));
  script.behind(check_declared(block) + sync_message(), query(now));
  script.server(check_failed() + ready('E')).to_client(error("TG001", stale));
  script.replay();
}

TEST_CASE("session: a check that failed clears nobody of what was written before it",
          "[F1][F2][proxy]") {
  const std::string set = "SET LOCAL termgate.term = '6'", calls = "SELECT f()",
                    rows = columns({"f"}) + row({"1"}) + complete("SELECT 1");
  Script script;
  script.runs("BEGIN", 'T');
  script.in_front(opening(block), opening_done(block), calls, rows + ready('T'));
  script.runs("SAVEPOINT s", "SAVEPOINT", 'T');
  // It has declared something stale and written under it.
  script.behind(check_declared(block) + sync_message(), query(calls));
  const std::string aborted = error("25P02", "current transaction is aborted");
  script.server(check_failed() + ready('E') + aborted + ready('E'))
      .to_client(error("TG001", stale) + ready('E'));
  script.runs("ROLLBACK TO s", "ROLLBACK", 'T');
  // That is still there, and so must be the claim that it was written under.
  script.behind(own_mode(block) + check_again() + sync_message(), query(set));
  script.replay();
}

TEST_CASE("session: a failing statement that ran alone gives the lock back", "[F4][F5][proxy]") {
  Script script;
  script.client(query("CREATE INDEX CONCURRENTLY ON t (a)"))
      .to_server(writable() + hold() + sync_message());
  script.server(set_done() + check_declared_done("orders", "5", "5") + ready('I'))
      .to_server(default_back() + query("CREATE INDEX CONCURRENTLY ON t (a)"));
  const std::string failed = error("42703", "column \"a\" does not exist");
  script.back(set_done() + ready('I'), failed + ready('I')).to_server(release("orders"));
  script.replay();
}

TEST_CASE("session: without a term a block stays READ ONLY and its write is TG002", "[F6][proxy]") {
  Script script = undeclared();
  script.runs("BEGIN", 'T');
  script.through(query("SELECT a FROM t"), columns({"a"}) + complete("SELECT 0") + ready('T'));
  script.behind(writable(block) + check_opens(block) + sync_message(), query(insert));
  script
      .server(parse_complete() + bind_complete() +
              error("25001", "transaction read-write mode must be set before any query") +
              ready('E') + error("25P02", "aborted") + ready('E'))
      .to_client(error("TG002", "TG002 no term declared for a fenced write",
                       {{'H',
                         "A session declares by application_name, PGOPTIONS, SET termgate.scope "
                         "and termgate.term, or a comment; a "
                         "transaction that will write declares before its first query."}}) +
                 ready('E'))
      .told({"refused TG002"});
  script.replay();
}

TEST_CASE("session: reject lets not even a read through without a term", "[F6][proxy]") {
  Script script = undeclared();
  script.admission.without_term = WithoutTerm::reject;
  script.client(query("SELECT a FROM t"))
      .to_server(writable() + check_opens() + converted("SELECT a FROM t"));
  const std::string none =
      error("TG002", "TG002 no term declared: a write needs a scope and a term");
  script.back(set_done() + parse_complete() + bind_complete(), none + ready('I'));
  script.replay();
}

TEST_CASE("session: allow lets a session without a term write and fences one with a term",
          "[F6][proxy]") {
  Script free = undeclared();
  free.admission.without_term = WithoutTerm::allow;
  free.through(query(insert), inserted()).told({});
  free.through(function_call(957), function_result() + ready('I'));
  // Any other function may declare, and nothing checks behind it.
  free.client(function_call(16400))
      .to_client(
          error("TG002",
                "TG002 a fast-path function call that may write must be in a transaction block") +
          ready('I'))
      .told({"refused TG002 from memory"});
  free.replay();

  Script copies = undeclared();
  copies.admission.without_term = WithoutTerm::allow;
  copies.through(query("COPY t FROM STDIN"));
  copies.replay();

  Script declared;
  declared.admission.without_term = WithoutTerm::allow;
  writes(declared);
  declared.replay();
}

TEST_CASE("session: observe takes no lock and reports what it would have refused", "[F7][proxy]") {
  Script script;
  script.admission.enforce = Enforce::observe;
  script.fences = {{"orders", 6}};
  script.through(query(insert)).told({"would refuse TG001"});
  script.back(inserted());
  const std::string declared = "/*termgate.scope='orders',termgate.term='7'*/ " + insert;
  script.through(query(declared)).told({});
  script.back(inserted());
  script.through(query("SELECT a FROM t")).told({});
  script.replay();

  Script none = undeclared();
  none.admission.enforce = Enforce::observe;
  none.through(query(insert)).told({"would refuse TG002"});
  none.back(inserted());
  none.replay();
}

TEST_CASE("session: a fast-path call that may write needs a block", "[F6][proxy]") {
  Script script;
  script.client(function_call(957))
      .to_client(
          error("TG002",
                "TG002 a fast-path function call that may write must be in a transaction block") +
          ready('I'))
      .told({"refused TG002 from memory"});
  script.through(function_call(954), function_result() + ready('I'));
  script.runs("BEGIN", 'T');
  script.behind(opening(block) + sync_message(), function_call(957));
  script.back(opening_done(block) + ready('T'), function_result() + ready('T'));
  script.replay();
}

TEST_CASE(
    "session: a function may flip the default of a server that does not report it though the "
    "client wants READ ONLY",
    "[F6][proxy]") {
  Script script;
  script.server_version = "13.9";
  const std::string set = "SET default_transaction_read_only = on";
  script.runs(set, "SET", 'I');
  script.client(query("SELECT f()") + query(insert)).to_server(query("SELECT f()"));
  const std::string answer = columns({"f"}) + row({"1"}) + complete("SELECT 1") + ready('I');
  script.back(answer).to_server(look() + put_back());
  script.server(look_done("on") + put_back_done()).to_server(query(insert));
  const std::string refused = error("25006", read_only) + ready('I');
  script.back(refused).to_server(look() + put_back());
  script.replay();
}

TEST_CASE("session: a declaration in a text is in force for the write behind it",
          "[F1][F5][proxy]") {
  Script script = undeclared();
  const std::string scope = "SET termgate.scope = 'orders'", term = "SET termgate.term = '5'";
  script.client(query(scope + "; " + term + "; " + insert)).to_server(query("BEGIN"));
  script.server(complete("BEGIN") + ready('T')).to_server(query(scope));
  script.server(complete("SET") + ready('T')).to_client(complete("SET")).to_server(query(term));
  script.server(complete("SET") + ready('T'))
      .to_client(complete("SET"))
      .to_server(writable(block) + check_opens(block) + sync_message() + query(insert));
  script
      .server(set_done(block) + check_declared_done("orders", "5", "5", block) + ready('T') +
              inserted('T'))
      .to_server(query("COMMIT"))
      .told({"fenced orders 5/5"});
  script.server(complete("COMMIT") + ready('I')).to_client(inserted());
  script.replay();
}

TEST_CASE("session: PREPARE TRANSACTION behind a write of its text prepares it and warns",
          "[F5][F7][proxy]") {
  // As the server does without us, where the text's own transaction is no block.
  const std::string prepare = "PREPARE TRANSACTION 'p'",
                    warned = complete("INSERT 0 1") +
                             report('N', "WARNING", "25P01", "there is no transaction in progress");
  Script script;
  script.client(query(insert + "; " + prepare + "; " + insert)).framed(insert);
  script.server(opening_done(block) + ready('T') + inserted('T'))
      .to_client(warned)
      .to_server(query(prepare));
  // What follows is another transaction, with a check of its own. What was declared the server
  // knows.
  script.server(complete("PREPARE TRANSACTION") + ready('I'))
      .to_client(complete("PREPARE TRANSACTION"))
      .to_server(query("BEGIN"));
  script.server(complete("BEGIN") + ready('T'))
      .to_server(writable(block) + check_opens(block) + sync_message() + query(insert));
  script
      .server(set_done(block) + check_declared_done("orders", "5", "5", block) + ready('T') +
              inserted('T'))
      .to_server(query("COMMIT"));
  script.server(complete("COMMIT") + ready('I')).to_client(inserted());
  script.replay();
}

TEST_CASE("session: an unreadable text without a term is the server's to refuse and else ours",
          "[F6][F7][proxy]") {
  Script script = undeclared();
  const std::string asked = parse("", "FROB THE t") + check("-", "0") + sync_message();
  const std::string failed = error("42601", "syntax error at or near \"FROB\"", {{'P', "1"}});
  script.client(query("FROB THE t")).to_server(asked);
  script.back(failed + ready('I'));
  // A statement of a newer server: it is one, and does not run.
  script.client(query("FROB THE t"))
      .to_server(parse("", "FROB THE t") + check_left(check("-", "0")) + sync_message());
  script
      .server(parse_complete() + left_done(parse_complete()) + bind_complete() +
              error("TG005", "TG005 term 0") + ready('I'))
      .to_client(error("TG002", "TG002 no term declared, and Termgate cannot read this statement") +
                 ready('I'));
  script.replay();
}

TEST_CASE("session: a text that is sent in pieces ends where what it was read by has changed",
          "[F1][F6][proxy]") {
  const std::string message =
      "Termgate cannot run the rest of this text: client_encoding or standard_conforming_strings "
      "has changed in it, by which it was read; send the rest by itself";
  struct Case {
    std::string rest;
    std::string_view name, value;
    bool runs;
  };
  for (const Case& one :
       {Case{"SET search_path = '\\', ';--'", "standard_conforming_strings", "off", false},
        Case{"SET search_path = 'a'", "standard_conforming_strings", "off", true},
        Case{"SET search_path = '\u00e9'", "client_encoding", "SJIS", false},
        Case{"SET search_path = '\\'", "client_encoding", "LATIN1", true}}) {
    CAPTURE(one.rest, one.value);
    Script script;
    script.runs("BEGIN", 'T');
    script.client(query("COMMIT; " + one.rest)).to_server(query("COMMIT"));
    const std::string ended = complete("COMMIT") + status(one.name, one.value);
    if (one.runs) {
      script.server(ended + ready('I')).to_client(ended).to_server(query(one.rest));
      script.back(complete("SET") + ready('I'));
    } else {
      script.server(ended + ready('I')).to_client(ended + error("0A000", message) + ready('I'));
    }
    script.replay();
  }
}

TEST_CASE("session: a scope that is not ASCII is compared in UTF-8 only", "[F1][F3][F6][proxy]") {
  const std::string scope = "\u00e9",
                    named = "/*termgate.scope='" + scope + "',termgate.term='5'*/ " + insert;
  Script script;
  script.fences[scope] = 5;
  script.runs("BEGIN", 'T');
  script.in_front(writable(block) + check_opens(block, scope, "5"),
                  set_done(block) + check_done("5", block, scope), named, inserted('T'));
  // In UTF-8 the claim has passed.
  script.through(query(named), inserted('T'));
  // The same bytes are another scope in LATIN1: nothing is written under what has passed.
  script.through(query("SET LOCAL client_encoding = LATIN1"));
  const std::string set = complete("SET") + status("client_encoding", "LATIN1") + ready('T');
  script.back(set);
  script.client(query(named)).to_server(check("-", "0", block) + sync_message());
  script.replay();
}

TEST_CASE("session: a cancelled hold gives back the lock that it may have taken", "[F4][proxy]") {
  // A rollback keeps a lock at session level, and whose it is was in the answer that did not come.
  const std::string give_back =
      ours(named("_termgate_release_"), "SELECT \"termgate\".release_session($1)", {25},
           {std::nullopt}, In::beginning);
  Script script;
  script.client(query("VACUUM t")).to_server(writable() + hold() + sync_message());
  const std::string cancelled = error("57014", "canceling statement due to user request");
  script.server(set_done() + parse_complete() + bind_complete() + cancelled + ready('I'))
      .to_client(cancelled)
      .to_server(default_on() + give_back + sync_message());
  // A second cancel request meets the giving back: it is tried again.
  script.server(cancelled + ready('I'))
      .to_server(left("_termgate_default_on_", default_on()) +
                 left("_termgate_release_", give_back) + sync_message());
  script.back(left_done(set_done()) + left_done(parse_complete()) + bind_complete() + row({"t"}) +
                  complete("SELECT 1") + close_complete(),
              ready('I'));
  script.through(query("SELECT 1"));
  script.replay();

  // A refusal comes before any lock.
  Script refused;
  refused.client(query("VACUUM t")).to_server(writable() + hold() + sync_message());
  refused.back(set_done() + parse_complete() + bind_complete(), error("TG001", stale) + ready('I'));
  refused.replay();
}

TEST_CASE("session: nothing of a text runs where its BEGIN is cancelled", "[F2][F7][proxy]") {
  const std::string cancelled = error("57014", "canceling statement due to user request");
  for (const std::string& text : std::vector<std::string>{
           insert + "; NOTIFY c", "SELECT 1; NOTIFY c", insert + "; SELECT pg_notify('c', 'x')"}) {
    CAPTURE(text);
    Script script;
    script.client(query(text)).to_server(query("BEGIN"));
    script.server(cancelled + ready('I')).to_client(cancelled).to_server(query("ROLLBACK"));
    script.back(report('N', "WARNING", "25P01", "there is no transaction in progress") +
                    complete("ROLLBACK"),
                ready('I'));
    script.replay();
  }
}

TEST_CASE("session: a BEGIN with modes behind a statement of its text begins the client's block",
          "[F5][F7][proxy]") {
  for (const std::string begin : {"BEGIN READ ONLY", "BEGIN ISOLATION LEVEL READ COMMITTED"}) {
    CAPTURE(begin);
    Script script;
    script.client(query(insert + "; " + begin)).framed(insert);
    script.server(opening_done(block) + ready('T') + inserted('T'))
        .to_client(complete("INSERT 0 1"))
        .to_server(query(begin));
    // The warning is about our BEGIN: without us there is none.
    script.back(report('N', "WARNING", "25001", "there is already a transaction in progress"),
                complete("BEGIN") + ready('T'));
    script.runs("ROLLBACK", 'I');
    script.replay();
  }
  // Where the server refuses the modes, what stood before it is undone, as without us.
  Script refused;
  refused.client(query(insert + "; BEGIN DEFERRABLE")).framed(insert);
  refused.server(opening_done(block) + ready('T') + inserted('T'))
      .to_client(complete("INSERT 0 1"))
      .to_server(query("BEGIN DEFERRABLE"));
  const std::string late =
      error("25001", "SET TRANSACTION [NOT] DEFERRABLE must be called before any query");
  refused.server(late + ready('E')).to_client(late).to_server(query("ROLLBACK"));
  refused.back(complete("ROLLBACK"), ready('I'));
  refused.replay();
}

TEST_CASE("session: a second BEGIN sets the modes of the block", "[F7][proxy]") {
  Script script;
  script.runs("BEGIN", 'T');
  const std::string warning =
      report('N', "WARNING", "25001", "there is already a transaction in progress");
  script.through(query("BEGIN READ ONLY"), warning + complete("BEGIN") + ready('T'));
  script.through(query(insert));
  script.replay();
}

TEST_CASE("session: names of ours are nobody else's", "[F6][proxy]") {
  const std::string refused = error("42602", "names that begin with _termgate are Termgate's own");
  Script script;
  for (const std::string text :
       {"DEALLOCATE _termgate_check_0", "EXECUTE _termgate_check_0('orders', 5)",
        "PREPARE _termgate_check_0 AS SELECT 1", "DECLARE _termgate CURSOR FOR SELECT 1"}) {
    script.client(query(text)).to_client(refused + ready('I'));
  }
  script.client(parse("_termgate_check_0", "SELECT 1") + sync_message())
      .to_client(refused + ready('I'));
  script.client(bind_message("", "_termgate_check_0") + execute() + sync_message())
      .to_client(refused + ready('I'));
  script.client(bind_message("_termgate", "s") + execute("_termgate") + sync_message())
      .to_client(refused + ready('I'));
  script.client(close_statement("_termgate_check_0") + sync_message())
      .to_client(refused + ready('I'));
  script.client(close_portal("_termgate") + sync_message()).to_client(refused + ready('I'));
  script.client(once("DEALLOCATE _termgate_check_0") + sync_message())
      .to_client(refused + ready('I'));
  script.replay();
}

TEST_CASE("session: a default that cannot be put back ends the session", "[F6][proxy]") {
  Script script;
  script.client(query(insert)).to_server(opening() + converted(insert));
  script
      .server(opening_done() + parse_complete() + bind_complete() + no_data() +
              complete("INSERT 0 1") + close_complete() +
              status("default_transaction_read_only", "off") + ready('I'))
      .to_client(inserted())
      .to_server(put_back());
  script.server(parse_complete() + bind_complete() + error("42501", "permission denied"))
      .ends("08006", "the server session could not be made read-only again");
  script.replay();
}
