// What is refused in every fenced session: each text by each carrier, in each form that a value may
// have, however long the request. And what is not refused, though it looks alike.
#include <catch2/catch.hpp>

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/tds_session/text.hpp>

#include "support/tds_game.hpp"

using namespace termgate;
using namespace termgate::test;
using namespace std::string_literals;
using tds_session::TextVerdict;

namespace {

const std::pair<const char*, const char*> refused[] = {
    {"a reset", "EXEC sp_reset_connection"},
    {"a reset without EXEC", "sp_reset_connection"},
    {"a reset by its schema", "EXEC sys . [SP_Reset_Connection]"},
    {"a reset in a string that runs", "EXEC (N'EXEC sp_reset_connection')"},
    {"a reset in a string of a string", "EXEC (N'EXEC (N''EXEC sp_reset_connection'')')"},
    {"a reset in a variable that runs",
     "DECLARE @t nvarchar(99) = N'EXEC sp_reset_connection' EXEC (@t)"},
    {"a reset in a line that goes on", "EXEC (N'EXEC sp_reset_\\\r\nconnection')"},
    {"a reset in double quotes", "EXEC (\"EXEC sp_reset_connection\")"},
    {"a reset with a wide letter", "EXEC \xEF\xBD\x93p_reset_connection"},
    {"a reset with a letter of no width",
     "EXEC sp_reset_\xE2\x80\x8B"
     "connection"},
    {"a reset behind a comment that may have ended", "-- x\rEXEC sp_reset_connection"},
    {"a reset behind one that separates lines",
     "SELECT 1 -- '\xE2\x80\xA8 EXEC sp_reset_connection"},
    {"a procedure's name and a text", "sp_executesql N'EXEC sp_reset_connection'"},
    {"a lock that is given back", "EXEC sp_releaseapplock @Resource = N'x'"},
    {"a lock by a variable", "DECLARE @n nvarchar(99) = N'SP_ReleaseAppLock'; EXEC @n 'x'"},
    {"a distributed transaction", "BEGIN DISTRIBUTED TRAN"},
    {"one with comments", "SELECT 1; BEGIN /* a /* b */ */ DISTRIBUTED -- c\n TRANSACTION"},
    {"one glued to a number", "SELECT 1BEGIN DISTRIBUTED TRAN"},
    {"one in a string that runs", "EXEC (N'BEGIN DISTRIBUTED TRAN')"},
    {"one behind letters of others",
     "SELECT {fn user()}, $1, gr\xC3\xB6\xC3\x9F"
     "e FROM t; BEGIN DISTRIBUTED TRAN"},
    {"a bound session", "EXEC sp_bindsession N'token'"},
    {"a token for one", "DECLARE @t varchar(255); EXEC sp_getbindtoken @t OUTPUT"},
    {"a token, in dynamic SQL",
     "EXEC sp_executesql N'EXEC sp_getbindtoken @t OUTPUT', N'@t varchar(255) OUTPUT', @t = NULL"},
    {"a linked server's table", "INSERT srv.app.dbo.t VALUES (1)"},
    {"one with INTO", "INSERT TOP (1) INTO [srv] . [app] . [dbo] . [t] (a) VALUES (1)"},
    {"one in double quotes", "UPDATE \"srv\".\"app\".\"dbo\".\"t\" SET a = 1"},
    {"one that is read", "SELECT a FROM srv.app.dbo.t"},
    {"one with no database", "SELECT a FROM srv...t"},
    {"one behind a comma", "SELECT a FROM t, srv.app.dbo.u WHERE t.a = u.a"},
    {"one behind a join and its condition",
     "SELECT 1 FROM t JOIN u ON (app.dbo.t.a = app.dbo.u.a), srv.app.dbo.v"},
    {"one in parentheses", "SELECT 1 FROM (srv.app.dbo.t t JOIN u ON t.a = u.a)"},
    {"one of a subquery", "SELECT 1 WHERE EXISTS (SELECT 1 FROM srv.app.dbo.t)"},
    {"one that is deleted from", "DELETE TOP (5) srv.app.dbo.t"},
    {"one that is merged",
     "MERGE t USING srv.app.dbo.u AS u ON t.a = u.a WHEN MATCHED THEN DELETE;"},
    {"its procedure", "EXEC @rc = srv.app.dbo.p @a = 1"},
    {"its procedure without EXEC", "srv.app.dbo.p"},
    {"a synonym for it", "CREATE SYNONYM dbo.s FOR srv.app.dbo.t"},
    {"a text at a server", "EXEC ('DELETE t') AT srv"},
    {"a text at a server, later", "INSERT t EXECUTE (N'SELECT ' + N'1', 5) AT [srv]"},
    {"OPENQUERY", "INSERT OPENQUERY(srv, 'SELECT a FROM t') VALUES (1)"},
    {"OPENROWSET", "SELECT * FROM OPENROWSET('MSOLEDBSQL', 'Server=x', 'SELECT 1')"},
    {"OPENDATASOURCE", "SELECT * FROM OPENDATASOURCE('MSOLEDBSQL', 'Server=x').app.dbo.t"},
    {"a linked server in a string that runs", "EXEC (N'INSERT srv.app.dbo.t VALUES (1)')"},
    {"one in sp_executesql", "EXEC sp_executesql @stmt = N'DELETE FROM srv.app.dbo.t'"},
};

const std::pair<const char*, const char*> harmless[] = {
    {"a text that speaks of it", "INSERT trace (text) VALUES (N'EXEC sp_reset_connection')"},
    {"a comment that speaks of it",
     "INSERT t VALUES (1) /* sp_reset_connection, BEGIN DISTRIBUTED TRAN */ -- sp_releaseapplock, "
     "fu\xC3\x9F"
     "end\n"},
    {"a name like it", "EXEC dbo.sp_reset_connection_2"},
    {"letters like Latin ones",
     "SELECT "
     "\xC3\xA4\xC3\xB6\xC3\xBC\xC3\x9F\xC3\xA4\xC3\xB6\xC3\xBC\xC3\x9F\xC3\xA4\xC3\xB6\xC3\xBC "
     "FROM t"},
    {"a column of four parts",
     "SELECT app.dbo.t.a, app.dbo.t.b FROM app.dbo.t WHERE app.dbo.t.a IN (1, 2) ORDER BY "
     "app.dbo.t.b"},
    {"such columns in a condition",
     "UPDATE t SET t.a = 1 FROM app.dbo.t AS t JOIN app.dbo.u ON (app.dbo.u.a = app.dbo.u.b)"},
    {"such columns in a function", "SELECT 1 FROM t CROSS APPLY f(app.dbo.t.a, app.dbo.t.b) AS f"},
    {"a column's XML", "SELECT 1 FROM app.dbo.t CROSS APPLY dbo.t.x.nodes('/a') AS n (c)"},
    {"a host's name as data", "EXEC dbo.note N'mail from www.shop.example.com', N'10.0.0.1'"},
    {"a file", "INSERT t SELECT * FROM OPENROWSET(BULK 'C:\\\\a.txt', SINGLE_BLOB) AS f"},
    {"a time zone", "SELECT (a) AT TIME ZONE 'UTC' FROM t"},
    {"the word", "SELECT distributed, [at] FROM t"},
    {"an ODBC escape and a label", "there: INSERT t VALUES ({d '2020-01-01'}, $1.5, 0xAB)"},
};

// --- forms of a value ---

std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i & 0xFF);
  return out;
}
const std::string collation = "\x09\x04\xD0\0\x34"s;
std::string named(std::string_view name) {
  const std::string wide = tds::utf16_of(name);
  return static_cast<char>(wide.size() / 2) + wide + '\0';
}
std::string in_chunks(const std::string& data, std::size_t chunk, bool known = true) {
  std::string out =
      "\xE7\xFF\xFF"s + collation + little(known ? data.size() : ~std::uint64_t{0} - 1, 8);
  for (std::size_t at = 0; at < data.size(); at += chunk) {
    const std::string some = data.substr(at, chunk);
    out += little(some.size(), 4) + some;
  }
  return out + little(0, 4);
}
using Form = std::function<std::string(const std::string&)>;  // of UTF-16
const std::pair<const char*, Form> forms[] = {
    {"nvarchar",
     [](const std::string& data) {
       return data.size() > 8000 ? in_chunks(data, data.size())
                                 : "\xE7\x40\x1F"s + collation + little(data.size(), 2) + data;
     }},
    {"one chunk", [](const std::string& data) { return in_chunks(data, data.size()); }},
    {"two chunks",
     [](const std::string& data) { return in_chunks(data, data.size() / 4 * 2 + 2); }},
    {"chunks of a letter and a half", [](const std::string& data) { return in_chunks(data, 3); }},
    {"chunks of a length that is not known",
     [](const std::string& data) { return in_chunks(data, 1000, false); }},
    {"ntext",
     [](const std::string& data) {
       return "\x63"s + little(0x7FFFFFFE, 4) + collation + little(data.size(), 4) + data;
     }},
};

// --- carriers ---

const std::string no_handle_yet("\0\1\x26\4\0", 5), number("\0\0\x26\4\4\1\0\0\0", 9);
std::string by_id(int id) {
  return "\xFF\xFF"s + little(static_cast<std::uint64_t>(id), 2) + little(0, 2);
}
std::string by_name(std::string_view name) {
  const std::string wide = tds::utf16_of(name);
  return little(wide.size() / 2, 2) + wide + little(0, 2);
}
std::string text_of(std::string_view name, const std::string& value) { return named(name) + value; }
const std::string no_text = "\0\0\xE7\x40\x1F"s + "\x09\x04\xD0\0\x34"s + "\0\0"s;

using Carrier = std::function<std::string(const std::string&)>;  // of a value, the calls of an RPC
const std::pair<const char*, Carrier> carriers[] = {
    {"sp_executesql", [](const std::string& value) { return by_id(10) + text_of("", value); }},
    {"sp_executesql by its name",
     [](const std::string& value) { return by_name("sp_executesql") + text_of("@stmt", value); }},
    {"sp_executesql in brackets",
     [](const std::string& value) {
       return by_name("[sys].[SP_ExecuteSql]") + text_of("", value);
     }},
    {"sp_executesql of another database",
     [](const std::string& value) {
       return by_name("master..sp_executesql") + text_of("", value);
     }},
    {"sp_executesql with its parameters first",
     [](const std::string& value) {
       return by_id(10) + text_of("@params", no_text.substr(2)) + text_of("@stmt", value);
     }},
    {"sp_prepare",
     [](const std::string& value) {
       return by_id(11) + no_handle_yet + no_text + text_of("", value) + number;
     }},
    {"sp_prepare by its name",
     [](const std::string& value) {
       return by_name("sp_prepare") + no_handle_yet + no_text + text_of("", value);
     }},
    {"sp_prepexec",
     [](const std::string& value) {
       return by_id(13) + no_handle_yet + no_text + text_of("", value);
     }},
    {"sp_cursoropen",
     [](const std::string& value) {
       return by_id(2) + no_handle_yet + text_of("", value) + number + number + number;
     }},
    {"sp_cursorprepare",
     [](const std::string& value) {
       return by_id(3) + no_handle_yet + no_text + text_of("", value) + number;
     }},
    {"sp_cursorprepexec",
     [](const std::string& value) {
       return by_id(5) + no_handle_yet + no_handle_yet + no_text + text_of("", value) + number;
     }},
    {"behind another call",
     [](const std::string& value) {
       return by_id(15) + number + "\xFF" + by_id(10) + text_of("", value);
     }},
    {"in front of another call",
     [](const std::string& value) {
       return by_id(10) + text_of("", value) + "\xFF" + by_id(10) + no_text;
     }},
};

struct Mode {
  const char* name;
  conversation::WithoutTerm without_term;
  bool with_term;
};
const Mode modes[] = {
    {"with a term", conversation::WithoutTerm::reject, true},
    {"without one", conversation::WithoutTerm::reject, false},
    {"where reads pass", conversation::WithoutTerm::read_only, false},
    {"where silence is allowed", conversation::WithoutTerm::allow, false},
    {"with a term where silence is allowed", conversation::WithoutTerm::allow, true},
};

void check_refused(const Mode& mode, const std::function<void(TdsGame&)>& send) {
  CAPTURE(mode.name);
  TdsGame game;
  game.admission.without_term = mode.without_term;
  if (mode.with_term) game.login_with_term(5);
  else game.login("plain");
  const auto ran = game.model.ran.size();
  game.answers.clear();
  send(game);
  CHECK(game.answers.find(tds::utf16_of("TG005")) != std::string::npos);
  // A request of which the beginning was sent on ends with its session.
  CHECK((game.model.ran.size() == ran || !game.server_open));
  CHECK(game.model.writes == 0);
}

}  // namespace

TEST_CASE("tds carriers: what is always refused is refused in each", "[F1][F2][proxy][tds]") {
  std::size_t turn = 0;
  for (const auto& [name, text] : refused) {
    CAPTURE(name, text);
    CHECK(tds_session::classify(text, "termgate").kind == TextVerdict::Kind::forbidden);
    for (const Mode& mode : modes)
      check_refused(mode, [text = text](TdsGame& game) { game.batch(text); });
    for (const auto& [carrier, rpc] : carriers) {
      CAPTURE(carrier);
      for (const auto& [form, value] : forms) {
        CAPTURE(form);
        const std::string body = rpc(value(tds::utf16_of(text)));
        check_refused(modes[++turn % std::size(modes)], [&](TdsGame& game) { game.rpc(body); });
      }
    }
  }
}

TEST_CASE("tds carriers: however long the request is", "[F1][F2][proxy][tds]") {
  std::size_t turn = 0;
  // Without a term the beginning of a long one is refused already, for want of it.
  const auto next_mode = [&]() -> const Mode& { return modes[std::array{0, 3, 4}[++turn % 3]]; };
  for (const auto& [name, text] : refused) {
    CAPTURE(name);
    const std::size_t before = turn % 2 == 0 ? 40'000 : 70'000;
    const std::string whole = "/*" + std::string(before, 'x') + "*/ " + text;
    check_refused(next_mode(), [&](TdsGame& game) { game.batch(whole); });
    const auto& [carrier, rpc] = carriers[turn % std::size(carriers)];
    const auto& [form, value] = forms[std::array{0, 1, 2, 4, 5}[turn % 5]];
    CAPTURE(carrier, form);
    const std::string body = rpc(value(tds::utf16_of(whole)));
    check_refused(next_mode(), [&](TdsGame& game) { game.rpc(body); });
    // Behind a value of another call.
    const std::string large = by_id(10) + no_text + no_text +
                              text_of("", in_chunks(std::string(before * 2, 'd'), 5000)) + "\xFF";
    const std::string behind = large + rpc(forms[0].second(tds::utf16_of(text)));
    check_refused(next_mode(), [&](TdsGame& game) { game.rpc(behind); });
  }
}

TEST_CASE("tds carriers: a table of more columns than any type has is refused by name",
          "[proxy][tds]") {
  TdsGame game;
  game.login_with_term(5);
  game.answers.clear();
  game.rpc(by_id(10) + no_text + no_text + "\0\0\xF3\0\1d\0\1t\0\1\4"s);
  CHECK(game.answers.find(tds::utf16_of("more than 1024 columns")) != std::string::npos);
}

TEST_CASE("tds carriers: calls by their names", "[F1][F2][proxy][tds]") {
  const std::string reset = forms[2].second(tds::utf16_of("EXEC sp_reset_connection"));
  const std::string calls[] = {
      by_name("sp_getbindtoken") + no_handle_yet,
      by_name("sys.sp_bindsession") + no_text,
      by_name("[sp_bindsession]") + no_text,
      by_name("sp_releaseapplock") + no_text,
      by_name("master..xp_userlock") + number,
      by_name("srv.app.dbo.p") + number,
      by_name("[srv].[app]..[p]") + number,
      by_name("sp_reset_connection") + "\xFF" + by_id(15) + number,
      by_id(15) + number + "\xFF" + by_name("sp_reset_connection"),
      by_name("sp_reset_connection") + text_of("", in_chunks(std::string(70'000, 'x'), 5000)),
      by_name("sp_MSforeachtable") + text_of("@command1", reset),
      by_name("dbo.run") + text_of("@text", reset),
      by_id(1) + no_handle_yet + number + number + no_text + text_of("", reset),
      by_id(14) + no_handle_yet + text_of("", reset),
      by_id(99) + text_of("", reset),
      // A value that the text runs.
      by_id(10) + text_of("", forms[0].second(tds::utf16_of("EXEC (@t)"))) +
          text_of("", forms[0].second(tds::utf16_of("@t nvarchar(max)"))) + text_of("@t", reset),
      // Not to be read: of a code page, of a type that is none, with chunks that do not add up.
      by_id(10) + "\0\0\xA7\x40\x1F"s + collation + little(3, 2) + "a\x83["s,
      by_id(10) + "\0\0\xF8"s,
      by_id(10) + "\0\0\xE7\xFF\xFF"s + collation + little(9, 8) + little(2, 4) + "a\0"s +
          little(0, 4),
      by_id(10) + "\0\0\xA5\x40\x1F"s + little(2, 2) + "a\0"s,
      by_id(10) + no_text.substr(0, 7),
  };
  for (std::size_t i = 0; i < std::size(calls); ++i) {
    CAPTURE(i);
    for (const Mode& mode : modes) check_refused(mode, [&](TdsGame& game) { game.rpc(calls[i]); });
  }
}

TEST_CASE("tds carriers: a prepared statement that runs what it is given", "[F1][F2][proxy][tds]") {
  const auto wide = [](std::string_view text) { return forms[0].second(tds::utf16_of(text)); };
  const std::string reset = text_of("", forms[2].second(tds::utf16_of("EXEC sp_reset_connection")));
  const std::string runs = text_of("", wide("EXEC (@t)")),
                    declares = text_of("", wide("@t nvarchar(max)"));
  const std::string inserts = text_of("", wide("INSERT t VALUES (@t)"));
  const std::function<void(TdsGame&)> prepares[] = {
      [&](TdsGame& game) { game.rpc(by_id(11) + no_handle_yet + declares + runs); },
      [&](TdsGame& game) { game.rpc(by_name("sp_prepare") + no_handle_yet + declares + runs); },
      [&](TdsGame& game) { game.rpc(by_id(3) + no_handle_yet + declares + runs + number); },
      [&](TdsGame& game) {
        game.rpc(by_id(13) + no_handle_yet + declares + runs + text_of("@t", wide("SELECT 1")));
      },
      [&](TdsGame& game) {
        game.batch("DECLARE @h int EXEC sp_prepare @h OUTPUT, N'@t nvarchar(max)', N'EXEC (@t)'");
      },
  };
  for (const auto& prepare : prepares) {
    for (const std::string& execute : {by_id(12), by_id(4), by_name("sp_execute")}) {
      TdsGame game;
      game.login_with_term(5);
      prepare(game);
      CHECK(game.heard().find("error") == std::string::npos);
      const auto ran = game.model.ran.size();
      CHECK(game.after_rpc(execute + number + reset) == "error 50005 done 2;");
      CHECK(game.model.ran.size() == ran);
    }
  }
  // Its value before its text; and one that only stores what it is given.
  check_refused(modes[0], [&](TdsGame& game) {
    game.rpc(by_id(10) + text_of("@params", wide("@x int, @t nvarchar(max)")) + named("@x") +
             number.substr(2) + text_of("@t", reset.substr(2)) + text_of("@stmt", runs.substr(2)));
  });
  TdsGame game;
  game.login_with_term(5);
  game.rpc(by_id(11) + no_handle_yet + declares + inserts);
  CHECK(game.after_rpc(by_id(12) + number + reset).find("error") == std::string::npos);
}

TEST_CASE("tds carriers: what only looks alike passes with a term", "[F7][proxy][tds]") {
  for (const auto& [name, text] : harmless) {
    CAPTURE(name, text);
    CHECK(tds_session::classify(text, "termgate").kind != TextVerdict::Kind::forbidden);
    for (const std::size_t before : {0u, 40'000u}) {
      const std::string whole = (before == 0 ? "" : "/*" + std::string(before, 'x') + "*/ ") + text;
      TdsGame game;
      game.login_with_term(5);
      CHECK(game.after_batch(whole) == "done 16;");
      std::size_t turn = 0;
      for (const auto& [carrier, rpc] : carriers) {
        CAPTURE(carrier);
        for (const auto& [form, value] : forms) {
          CAPTURE(form);
          if (before != 0 &&
              (std::string_view(form).starts_with("chunks of a letter") || ++turn % 9 != 0))
            continue;
          CHECK(game.after_rpc(rpc(value(tds::utf16_of(whole)))).find("error") ==
                std::string::npos);
        }
      }
      CHECK(game.client_open);
      CHECK(game.model.unfenced == 0);
    }
  }
  // As data, in any form and size; a table; an encrypted value.
  const std::string insert = by_id(10) +
                             text_of("", forms[0].second(tds::utf16_of("INSERT t VALUES (@p)"))) +
                             text_of("", forms[0].second(tds::utf16_of("@p nvarchar(max)")));
  TdsGame game;
  game.login_with_term(5);
  for (const std::size_t before : {0u, 60'000u}) {
    for (const auto& [form, value] : forms) {
      CAPTURE(form);
      if (before != 0 && std::string_view(form).starts_with("chunks of a letter")) continue;
      game.heard();
      game.rpc(insert + text_of("@p", value(tds::utf16_of(std::string(before, 'x') +
                                                          " EXEC sp_reset_connection"))));
      CHECK(game.heard().find("error") == std::string::npos);
    }
  }
  CHECK(game.after_rpc(insert + "\0\0\xF3\0\1d\0\1t\0\1\0\0\0\0\0\0\0\x26\4\0\0\1\4\1\0\0\0\0"s +
                       number)
            .find("error") == std::string::npos);
  CHECK(game.model.unfenced == 0);
  CHECK(game.client_open);
}

TEST_CASE("tds carriers: a stale term that is declared otherwise than by a literal is checked",
          "[F1][F2][proxy][tds]") {
  const std::pair<const char*, std::function<void(TdsGame&)>> ways[] = {
      {"literals, each in a batch of its own",
       [](TdsGame& game) {
         game.batch("EXEC sp_set_session_context N'termgate.scope', N'declare'");
       }},
      {"a variable",
       [](TdsGame& game) {
         game.batch("DECLARE @k nvarchar(50) = N'x' EXEC sp_set_session_context @k, N'declare'");
       }},
      {"beside other statements",
       [](TdsGame& game) {
         game.batch("SELECT a FROM t; EXEC sp_set_session_context N'k', N'declare'");
       }},
      {"a procedure", [](TdsGame& game) { game.batch("EXEC dbo.declare_it"); }},
      {"a trigger", [](TdsGame& game) { game.batch("INSERT t VALUES (N'declare')"); }},
      {"a procedure by RPC", [](TdsGame& game) { game.rpc(by_name("dbo.declare_it") + number); }},
      {"sp_executesql",
       [](TdsGame& game) {
         game.rpc(by_id(10) + text_of("", forms[0].second(tds::utf16_of("EXEC declare"))));
       }},
      {"sp_executesql in chunks",
       [](TdsGame& game) {
         game.rpc(by_id(10) + text_of("", forms[3].second(tds::utf16_of("EXEC declare"))));
       }},
      {"sp_prepexec",
       [](TdsGame& game) {
         game.rpc(by_id(13) + no_handle_yet + no_text +
                  text_of("", forms[0].second(tds::utf16_of("declare"))));
       }},
      {"a long batch",
       [](TdsGame& game) { game.batch("EXEC declare --" + std::string(100'000, 'x')); }},
      {"sp_set_session_context with its key in chunks",
       [](TdsGame& game) {
         game.rpc(by_name("sp_set_session_context") +
                  text_of("@key", forms[2].second(tds::utf16_of("declare.scope"))));
       }},
      {"in a transaction", [](TdsGame& game) { game.batch("begin declare"); }},
  };
  for (const auto& [name, declare] : ways) {
    for (const bool current : {false, true}) {
      CAPTURE(name, current);
      TdsGame game;
      game.admission.without_term = conversation::WithoutTerm::allow;
      game.login("plain");
      // Silent, it is not checked, and is asked again only after something that can have declared.
      game.batch("write");
      const int before = game.model.enters;
      game.batch("SELECT a FROM t");
      game.batch("SELECT a FROM t");
      CHECK(game.model.enters == before + 1);
      game.batch("write");
      CHECK(game.model.writes == 2);
      game.model.declares = {"s", current ? 5 : 4};
      game.heard();
      declare(game);
      CHECK(game.heard().find("error") == std::string::npos);
      const int writes = game.model.writes, unfenced = game.model.unfenced;
      game.batch("write");
      CHECK((game.heard().find("error 50001") == std::string::npos) == current);
      CHECK(game.model.writes == writes + (current ? 1 : 0));
      CHECK(game.model.unfenced == unfenced);
      game.rpc(by_id(10) + text_of("", forms[0].second(tds::utf16_of("INSERT t VALUES (1)"))));
      CHECK((game.heard().find("error 50001") == std::string::npos) == current);
      CHECK(game.client_open);
      // Silent again.
      if (std::string_view(name) == "in a transaction") continue;
      game.model.declared = {"", 0};
      CHECK(game.after_batch("write", tds::status::reset).find("error") == std::string::npos);
    }
  }
  // Rows of a bulk load that was announced in silence.
  TdsGame bulk;
  bulk.admission.without_term = conversation::WithoutTerm::allow;
  bulk.login("plain");
  bulk.batch("write");
  bulk.batch("insert bulk t (a int)");
  bulk.heard();
  CHECK(bulk.after_rows() == "done 16;");
  // Where nothing runs nothing can be asked: refused, and the session goes on.
  TdsGame mute;
  mute.admission.without_term = conversation::WithoutTerm::allow;
  mute.login("plain");
  mute.batch("write");
  mute.batch("SET NOEXEC ON");
  mute.batch("SELECT 1 -- noexec\n");
  mute.heard();
  CHECK(mute.after_batch("write") == "error 50006 done 2;");
  CHECK(mute.client_open);
}

TEST_CASE(
    "tds session: the server's name goes with the login and routing is refused by its address",
    "[proxy][tds]") {
  tds_session::Options options;
  options.server_name = "logical.database.windows.net";
  TdsGame game(0, options);
  game.login_with_term(5);
  CHECK(game.model.login_server == "logical.database.windows.net");
  CHECK(game.model.login_application == "termgate.scope=s;termgate.term=5;");
  TdsGame as_it_came;
  as_it_came.login_with_term(5);
  CHECK(as_it_came.model.login_server == "server");
  TdsGame routed;
  routed.model.routes = true;
  routed.offers({});
  for (const char* part : {"x:1433", "connection policy to Proxy", "ApplicationIntent"})
    CHECK(routed.answers.find(tds::utf16_of(part)) != std::string::npos);
}
