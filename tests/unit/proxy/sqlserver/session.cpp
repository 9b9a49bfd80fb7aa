// Long: scripts of one conversation, which share their table of frozen clients and the ways to
// send.
//
// The conversation of a TDS client with its server, with a model of that server: what reaches it,
// when the gate is held, and what the client is told. Each script runs whole, a byte at a time and
// in odd pieces, which must come to the same.
#include <catch2/catch.hpp>

#include "support/tds_game.hpp"

using namespace termgate;
using namespace termgate::test;
using namespace std::chrono_literals;
using namespace std::string_literals;
using Kind = conversation::Incident::Kind;

namespace {

// Runs `script` for pieces of each size.
template <class Script>
void in_pieces(Script script) {
  for (const std::size_t piece : {0, 1, 2, 3, 7, 8, 9, 64}) {
    CAPTURE(piece);
    TdsGame game(piece);
    script(game);
    CHECK(game.model.unfenced == 0);
    CHECK(game.model.malformed.empty());
  }
}

const std::string execute_sql = "\xFF\xFF\x0A\0\0\0"s;
const std::string unprepare = "\xFF\xFF\x0F\0\0\0"s;

std::string text_parameter(std::string_view text) {
  std::string out("\0\0\xE7\x40\x1F\x09\x04\xD0\0\x34", 10);
  const std::string wide = tds::utf16_of(text);
  out += static_cast<char>(wide.size() & 0xFF);
  out += static_cast<char>(wide.size() >> 8);
  return out + wide;
}
std::string named(std::string_view name, std::string parameter) {
  const std::string wide = tds::utf16_of(name);
  return static_cast<char>(wide.size() / 2) + wide + parameter.substr(1);
}
std::string handle_parameter(std::uint8_t handle) {
  return std::string("\0\0\x26\4\4", 5) + static_cast<char>(handle) + std::string(3, '\0');
}
const std::string no_handle("\0\1\x26\4\0", 5);

std::string call_named(std::string_view name) {
  const std::string wide = tds::utf16_of(name);
  return std::string{static_cast<char>(wide.size() / 2), '\0'} + wide + std::string(2, '\0');
}

}  // namespace

TEST_CASE("tds session: a write waits for the gate and the next one rides on it",
          "[F1][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login_with_term(5);
    CHECK(game.session->phase() == conversation::Conversation::Phase::idle);
    CHECK(game.model.login_application == "termgate.scope=s;termgate.term=5;");
    CHECK(game.after_batch("write 1") == "done 16;");
    CHECK(game.model.gate);
    game.batch("write 2");
    game.rpc(execute_sql);
    CHECK(game.model.writes == 3);
    CHECK(game.model.enters == 1);
    CHECK(game.host.count(Kind::fenced) == 1);
    CHECK(game.host.gate == "s");
    // Nobody used it for a while.
    game.pass(9999ms);
    CHECK(game.model.gate);
    game.pass(2ms);
    CHECK_FALSE(game.model.gate);
    CHECK(game.host.gate.empty());
    game.batch("write 3");
    CHECK(game.model.enters == 2);
  });
}

TEST_CASE("tds session: a busy session enters once and leaves when a raise wants the gate",
          "[F4][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login_with_term(5);
    for (int i = 0; i < 1000; ++i) {
      game.batch("write");
      game.pass(10ms);
    }
    CHECK(game.model.enters == 1);
    CHECK(game.model.leaves == 0);
    game.want();
    CHECK_FALSE(game.model.gate);
    CHECK(game.model.raise(6));
    game.heard();
    CHECK(game.after_batch("write") == "error 50001 done 2;");
  });
}

namespace {

// What a client may be doing when it freezes, with the gate held, and what becomes of it when a
// raise wants that gate.
struct Frozen {
  const char* name;
  void (*freeze)(TdsGame&);
  bool gives_back;  // at once, and the session goes on; else it ends with the grace
};

std::string half_of(const std::string& message) { return message.substr(0, message.size() / 2); }
std::string message_of(TdsGame& game, const std::string& text) {
  std::string bytes;
  tds::append_message(bytes, tds::packet::sql_batch,
                      game.request(tds::utf16_of(text), game.descriptor), 512);
  return bytes;
}

const Frozen frozen[] = {
    {"between two messages", [](TdsGame&) {}, true},
    {"in the header of a packet",
     [](TdsGame& game) { game.give(message_of(game, "write").substr(0, 3)); }, true},
    {"in a short message", [](TdsGame& game) { game.give(half_of(message_of(game, "write"))); },
     true},
    {"in the rest of a message that was refused",
     [](TdsGame& game) {
       game.batch("EXEC termgate.set_term N's', 4");
       game.host.fence = 5;
       game.give(half_of(message_of(game, "write " + std::string(200'000, 'x'))));
       game.host.fence = 0;
     },
     true},
    {"in a transaction", [](TdsGame& game) { game.batch("begin write"); }, false},
    {"in a transaction that was not announced",
     [](TdsGame& game) { game.batch("begin quietly write"); }, false},
    {"in a transaction of the driver's", [](TdsGame& game) { game.manage("\5\0\0\0"s); }, false},
    {"in a message of a transaction",
     [](TdsGame& game) {
       game.batch("begin write");
       game.give(half_of(message_of(game, "write")));
     },
     false},
    {"in a long message that goes on as it comes",
     [](TdsGame& game) {
       game.give(half_of(message_of(game, "write " + std::string(200'000, 'x'))));
     },
     false},
    {"while its statement runs",
     [](TdsGame& game) {
       game.stalled = true;
       game.batch("write");
     },
     false},
    {"after an attention that is not acknowledged",
     [](TdsGame& game) {
       game.stalled = true;
       game.batch("write");
       game.attention();
     },
     false},
    {"before the rows of a bulk load", [](TdsGame& game) { game.batch("insert bulk t (a int)"); },
     false},
    {"in the rows of a bulk load",
     [](TdsGame& game) {
       game.batch("insert bulk t (a int)");
       std::string bytes;
       tds::append_message(bytes, tds::packet::bulk, std::string(200'000, 'r'), 512);
       game.give(half_of(bytes));
     },
     false},
    {"while the gate is entered",
     [](TdsGame& game) {
       game.pass(11s);
       game.stalled = true;
       game.batch("write");
     },
     false},
};

}  // namespace

TEST_CASE("tds session: a raise waits for no frozen client longer than the grace",
          "[F4][proxy][tds]") {
  for (const Frozen& one : frozen) {
    DYNAMIC_SECTION(one.name) {
      in_pieces([&](TdsGame& game) {
        if (game.piece == 1) return;
        game.model.grace_ms = 700;
        game.login_with_term(5);
        game.batch("write");
        one.freeze(game);
        game.want(600ms);
        CHECK(game.client_open);
        CHECK(game.server_open);
        if (one.gives_back) CHECK_FALSE(game.model.gate);
        game.want(600ms);
        CHECK(game.client_open == one.gives_back);
        CHECK(game.server_open == one.gives_back);
        if (one.gives_back) CHECK(game.host.gate.empty());
        CHECK(game.host.count(Kind::evicted) == (one.gives_back ? 0 : 1));
      });
      // A raise that has given up ends nobody, nor does the doubt whether there is one.
      in_pieces([&](TdsGame& game) {
        if (game.piece == 1) return;
        game.login_with_term(5);
        game.batch("write");
        one.freeze(game);
        game.want(300ms);
        game.pass(1500ms);
        game.pass(1500ms);
        CHECK(game.client_open);
        game.want(5s, false);
        CHECK(game.client_open);
        CHECK(game.server_open);
      });
    }
  }
}

TEST_CASE("tds session: without a term only settings and transaction control pass",
          "[F1][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login("plain");
    for (const char* text : {"SET NOCOUNT ON", "SELECT @@SPID", "USE [app]", "BEGIN TRAN",
                             "COMMIT TRANSACTION", "IF @@TRANCOUNT > 0 ROLLBACK TRAN"}) {
      CAPTURE(text);
      CHECK(game.after_batch(text).ends_with("done 16;"));
    }
    const std::size_t ran = game.model.ran.size();
    CHECK(game.after_batch("write") == "error 50002 done 2;");
    CHECK(game.after_rpc(execute_sql) == "error 50002 done 2;");
    CHECK(game.after_rpc(unprepare) == "token 121 done 0;");
    CHECK(game.after_rows() == "error 50005 done 2;");
    CHECK(game.after_manage("\1\0"s) == "error 50005 done 2;");
    CHECK(game.after_manage("\5\0\0\0"s) == "env 8 done 0;");
    CHECK(game.model.ran.size() == ran + 2);
    CHECK(game.model.writes == 0);
    CHECK(game.model.enters == 0);
    CHECK(game.host.count(Kind::refused) == 4);
  });
}

TEST_CASE("tds session: a stale term is refused by the server and then from memory",
          "[F1][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login_with_term(4);
    CHECK(game.after_batch("write") == "error 50001 done 2;");
    CHECK(game.model.enters == 1);
    CHECK_FALSE(game.model.gate);
    game.host.fence = 5;
    CHECK(game.after_batch("write") == "error 50001 done 2;");
    CHECK(game.model.enters == 1);
    game.host.fence = 0;
    game.host.doubt = "TG004 untrusted";
    CHECK(game.after_batch("write") == "error 50004 done 2;");
    CHECK(game.model.writes == 0);
  });
}

TEST_CASE("tds session: a term above the fence is raised elsewhere first", "[F2][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login_with_term(9);
    CHECK(game.after_batch("write") == "done 16;");
    CHECK(game.raises == 1);
    CHECK(game.model.fence == 9);
    CHECK(game.model.enters == 2);
  });
  TdsGame failed;
  failed.raise_fails = true;
  failed.login_with_term(9);
  CHECK(failed.after_batch("write") == "error 50001 done 2;");
  CHECK(failed.model.writes == 0);
}

TEST_CASE("tds session: declarations of its own", "[proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login("plain");
    CHECK(game.after_batch("EXEC termgate.set_term N's', 5") == "done 0;");
    CHECK(game.model.ran.empty());
    CHECK(game.after_batch("write") == "done 16;");
    // Another term, outside of a transaction: the gate is left and entered anew.
    game.batch("EXEC [termgate].[set_term] @scope = 's', @term = '6';");
    game.batch("write");
    CHECK(game.model.fence == 6);
    CHECK(game.model.leaves == 1);
    game.heard();
    for (const char* text :
         {"EXEC termgate.set_term N's'", "EXEC termgate.set_term '', 5",
          "EXEC termgate.set_term 's', 0", "EXEC termgate.set_term 's', 5 write"}) {
      CAPTURE(text);
      CHECK(game.after_batch(text) == "error 50005 done 2;");
    }
    // A reset takes it away.
    CHECK(game.after_batch("write", tds::status::reset) == "error 50002 done 2;");
    CHECK(game.model.writes == 2);
    // What only the server knows.
    game.model.declared = {"s", 6};
    CHECK(game.after_batch("EXEC sp_set_session_context N'termgate.scope', N's'") ==
          "env 18 done 16;");
    CHECK(game.after_batch("write") == "done 16;");
  });
}

TEST_CASE("tds session: in a transaction the gate is kept until it has ended", "[F1][proxy][tds]") {
  for (const bool announced : {true, false}) {
    in_pieces([&](TdsGame& game) {
      const std::string quietly = announced ? "" : " quietly";
      game.login_with_term(5);
      game.batch("begin write" + quietly);
      game.pass(1s);
      CHECK(game.model.gate);
      game.pass(1s);
      CHECK(game.model.gate);
      game.batch("write");
      game.batch("EXEC termgate.set_term N'other', 5");
      game.heard();
      CHECK(game.after_batch("write") == "error 50005 done 2;");
      game.batch("EXEC termgate.set_term N's', 5");
      game.want();
      CHECK(game.model.gate);
      game.batch("rollback write" + quietly);
      CHECK(game.model.writes == 3);
      CHECK_FALSE(game.model.gate);
    });
  }
}

TEST_CASE("tds session: a driver that is always in a transaction", "[F1][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login_with_term(5);
    game.manage("\5\0\0\0"s);
    game.batch("write");
    CHECK(game.after_manage("\7\0\0\1\0\0"s) == "env 8 done 0; done 16; env 9 env 8 done 0;");
    game.batch("write");
    game.pass(1s);
    CHECK(game.model.gate);
    game.want();
    CHECK(game.model.gate);
    game.manage("\x08\0\0\0"s);
    CHECK_FALSE(game.model.gate);
  });
}

TEST_CASE("tds session: resets go to the server with the first message that does",
          "[F1][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login_with_term(5);
    game.batch("write");
    CHECK(game.model.enters == 1);
    game.heard();
    CHECK(game.after_batch("write", tds::status::reset) == "env 18 done 16;");
    CHECK(game.model.enters == 2);
    CHECK(game.after_batch("SET NOCOUNT ON", tds::status::reset) == "env 18 done 16;");
    CHECK_FALSE(game.model.gate);
    game.batch("write");
    CHECK(game.model.enters == 3);
    // A transaction that outlives the reset goes on behind the gate only, its COMMIT as well.
    game.batch("begin write");
    game.batch("COMMIT TRAN", tds::status::reset_keep_transaction);
    CHECK(game.model.enters == 4);
    CHECK(game.model.ran.back() == "COMMIT TRAN");
    game.batch("begin write");
    game.model.fence = 6;
    game.heard();
    CHECK(game.after_batch("COMMIT TRAN", tds::status::reset_keep_transaction) ==
          "env 18 error 50001 done 2;");
    CHECK_FALSE(game.client_open);
    CHECK_FALSE(game.server_open);
  });
}

TEST_CASE("tds session: a reset that is called by its name gives the gate back",
          "[F1][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login_with_term(5);
    game.batch("write");
    CHECK(game.model.enters == 1);
    game.heard();
    game.rpc(call_named("sp_reset_connection"));
    CHECK_FALSE(game.model.gate);
    game.model.fence = 6;
    game.heard();
    CHECK(game.after_batch("write") == "error 50001 done 2;");
  });
  // Behind what is looked at, a long text is ended before the server has all of it.
  TdsGame game;
  game.login_with_term(5);
  game.batch("write " + std::string(80'000, 'x'));
  CHECK(game.model.writes == 1);
  for (const std::size_t before : {80'000u, 131'060u, 131'072u}) {
    TdsGame long_one;
    long_one.login_with_term(5);
    long_one.heard();
    long_one.batch("write " + std::string(before, ' ') + " EXEC sp_reset_connection");
    CHECK(long_one.model.writes == 0);
    CHECK_FALSE(long_one.client_open);
    CHECK_FALSE(long_one.server_open);
  }
}

TEST_CASE("tds session: a reset that only the server tells of makes the gate be entered again",
          "[F1][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login_with_term(5);
    game.batch("write");
    game.batch("write, then a hidden reset");
    CHECK(game.model.enters == 1);
    game.batch("write");
    CHECK(game.model.enters == 2);
    game.batch("a hidden reset");
    game.model.fence = 6;
    game.heard();
    CHECK(game.after_batch("write") == "error 50001 done 2;");
  });
}

TEST_CASE("tds session: attentions are acknowledged once, whoever is asked", "[F7][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login_with_term(5);
    game.attention();
    CHECK(game.heard() == "done 32;");
    // While the server is busy with the client's own.
    game.batch("write");
    game.heard();
    game.stalled = true;
    game.batch("write");
    game.attention();
    CHECK(game.heard().empty());
    game.stalled = false;
    game.pump();
    CHECK(game.heard() == "done 16; done 32;");
    // While the gate is asked: the message is dropped.
    game.want();
    CHECK_FALSE(game.model.gate);
    game.stalled = true;
    game.batch("write dropped");
    game.attention();
    game.stalled = false;
    game.pump();
    CHECK(game.heard() == "done 32;");
    CHECK(game.model.ran.back() == "write");
    CHECK(game.after_batch("write") == "done 16;");
  });
}

TEST_CASE("tds session: without a proof nothing is run", "[F1][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login_with_term(5);
    game.batch("SET NOEXEC ON");
    game.batch("SELECT 1 -- noexec\n");
    game.heard();
    CHECK(game.after_batch("write") == "error 50006 done 2;");
    CHECK_FALSE(game.client_open);
    CHECK(game.model.writes == 0);
  });
  in_pieces([](TdsGame& game) {
    game.model.has_layer1 = false;
    game.login_with_term(5);
    CHECK(game.after_batch("SET NOCOUNT ON") == "done 16;");
    CHECK(game.after_batch("write") == "error 50006 done 2;");
    CHECK(game.host.messages.back().find("termgate init") != std::string::npos);
    CHECK(game.client_open);
  });
}

TEST_CASE("tds session: a bulk load keeps the gate until its rows are in", "[F1][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login_with_term(5);
    game.batch("insert bulk t (a int)");
    game.pass(1s);
    CHECK(game.model.gate);
    game.send(tds::packet::bulk, std::string(3000, 'r'));
    CHECK(game.heard() == "done 16; done 16;");
    CHECK(game.model.ran.back() == "rows");
    game.want();
    CHECK_FALSE(game.model.gate);
    // Without an announcement, or after it was refused, rows are none.
    CHECK(game.after_rows() == "error 50005 done 2;");
    game.batch("insert bulk fail");
    game.heard();
    CHECK(game.after_rows() == "error 50005 done 2;");
    CHECK(game.model.writes == 1);
  });
}

TEST_CASE("tds session: long messages go through the gate and on as they come",
          "[F1][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    if (game.piece == 1) return;
    game.login_with_term(5);
    CHECK(game.after_batch("write " + std::string(100'000, 'x')) == "done 16;");
    CHECK(game.model.ran.back().size() == 100'006);
    if (game.piece == 64) CHECK(game.session->memory_bytes() < 300'000);
    game.batch("SET NOCOUNT ON --" + std::string(100'000, 'x') + "\n write");
    CHECK(game.model.writes == 2);
    game.want();
    game.model.fence = 6;
    game.heard();
    CHECK(game.after_batch("write " + std::string(100'000, 'x')) == "error 50001 done 2;");
    CHECK(game.after_batch("SET NOCOUNT ON") == "done 16;");
    CHECK(game.model.writes == 2);
  });
}

TEST_CASE("tds session: a long text is no declaration whatever it begins with",
          "[F1][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    if (game.piece == 1) return;
    game.login("plain");
    for (const char* begins :
         {"EXEC termgate.set_term N's', 5", "SET NOCOUNT ON", "EXEC termgate.set_term N's', 0"}) {
      CAPTURE(begins);
      CHECK(game.after_batch(begins + std::string(50'000, ' ') + "; write") ==
            "error 50002 done 2;");
    }
    CHECK(game.model.ran.empty());
  });
}

TEST_CASE("tds session: a message that its client gives up reaches nobody", "[proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.login_with_term(5);
    std::string bytes;
    tds::append_message(bytes, tds::packet::sql_batch, game.request(tds::utf16_of("write"), 0),
                        512);
    bytes[1] = static_cast<char>(tds::status::end_of_message | tds::status::ignore);
    game.give(bytes);
    CHECK(game.heard() == "done 2;");
    CHECK(game.model.ran.empty());
  });
}

TEST_CASE("tds session: what would lead past the proxy is refused", "[proxy][tds]") {
  {
    TdsGame game;
    game.model.routes = true;
    game.offers({});
    CHECK(game.heard() == "error 18456 done 2;");
    CHECK_FALSE(game.client_open);
  }
  {
    TdsGame game;
    game.offers({.features = {{tds::feature::federated_authentication, "x"}}});
    CHECK(game.heard() == "error 18456 done 2;");
    CHECK_FALSE(game.server_open);
  }
  {
    TdsGame game;
    game.login("termgate.scope=s;termgate.term=x;");
    CHECK_FALSE(game.client_open);
  }
  for (const std::string& first : {std::string("GET / HTTP/1.1\r\n\r\n"), "\x16\3\1\2\0\1\0\1"s,
                                   std::string(8, '\0'), "\x53\1\0\x10\0\0\0\0"s}) {
    TdsGame game;
    game.give(first);
    CHECK_FALSE(game.client_open);
    CHECK(game.host.count(Kind::malformed) == 1);
  }
}

TEST_CASE("tds session: where TLS is required a login in clear text is refused", "[proxy][tds]") {
  tds_session::Options options;
  options.client_tls = options.client_tls_required = true;
  TdsGame game(0, options);
  game.login_with_term(5);
  CHECK_FALSE(game.client_open);
  CHECK_FALSE(game.server_open);
  CHECK(game.host.count(Kind::login_refused) == 1);
}

TEST_CASE("tds session: TDS 8.0 is spoken to the client and 7.4 to the server", "[proxy][tds]") {
  tds_session::Options options;
  options.client_tls = options.client_tls_required = true;
  TdsGame game(0, options, true);
  game.offers(
      {.application = "termgate.scope=s;termgate.term=5;", .tds_version = tds::version::v8_0});
  CHECK(game.model.login_version == tds::version::v7_4);
  // LOGINACK: its length, the interface, the version.
  CHECK(game.answers.find("\x01\x08\0\0\0"s) != std::string::npos);
  game.answers.clear();
  CHECK(game.after_batch("write") == "done 16;");
  CHECK(game.model.unfenced == 0);

  TdsGame without;
  without.offers({.tds_version = tds::version::v8_0});
  CHECK(without.heard() == "error 18456 done 2;");
  CHECK_FALSE(without.server_open);
}

TEST_CASE("tds session: to a server of TDS 8.0 TLS comes first and PRELOGIN in it",
          "[proxy][tds]") {
  tds_session::Options options;
  options.server_tls = tds_session::Options::ServerTls::strict;
  for (const bool strict_client : {false, true}) {
    TdsGame game(0, options, strict_client);
    game.model.acks = tds::version::v8_0;
    game.prelogin();
    game.answers.clear();
    const std::uint32_t asked = strict_client ? tds::version::v8_0 : tds::version::v7_4;
    game.send(tds::packet::login7,
              tds::test_login7(
                  {.application = "termgate.scope=s;termgate.term=5;", .tds_version = asked}),
              0, 4096);
    CHECK(game.tls_to_server == 1);
    CHECK(game.model.login_version == tds::version::v8_0);
    CHECK((game.answers.find("\x01\x08\0\0\0"s) != std::string::npos) == strict_client);
    CHECK((game.answers.find("\x01\x74\0\0\x04"s) != std::string::npos) != strict_client);
    game.answers.clear();
    CHECK(game.after_batch("write") == "done 16;");
    CHECK(game.model.unfenced == 0);
  }
  TdsGame old(0, options);
  old.offers({.tds_version = tds::version::v7_3b});
  CHECK(old.heard() == "error 18456 done 2;");
  CHECK_FALSE(old.server_open);
}

TEST_CASE("tds session: a login without PRELOGIN is one in clear text", "[proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.send(tds::packet::login7,
              tds::test_login7({.application = "termgate.scope=s;termgate.term=5;",
                                .tds_version = tds::version::v7_1}),
              0, 4096);
    game.heard();
    CHECK(game.after_batch("write") == "done 16;");
    CHECK(game.model.enters == 1);
  });
  tds_session::Options options;
  options.client_tls = options.client_tls_required = true;
  TdsGame game(0, options);
  game.send(tds::packet::login7, tds::test_login7({}), 0, 4096);
  CHECK(game.heard() == "error 18456 done 2;");
  CHECK_FALSE(game.client_open);
  CHECK_FALSE(game.server_open);
}

TEST_CASE("tds session: a login that would write is refused", "[F6][proxy][tds]") {
  tds::TestLogin7 attaches, changes;
  attaches.attach_file = "C:\\data.mdf";
  changes.change_password = "new";
  for (const tds::TestLogin7& login : {attaches, changes}) {
    for (const bool enforced : {true, false}) {
      TdsGame game;
      if (!enforced) game.admission.enforce = conversation::Enforce::observe;
      game.offers(login);
      CHECK(game.server_open != enforced);
      CHECK((game.heard() == "error 18456 done 2;") == enforced);
    }
  }
}

TEST_CASE("tds session: logins that end otherwise", "[proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.model.refuses_login = true;
    game.offers({});
    CHECK(game.heard() == "error 18456 done 2;");
    CHECK_FALSE(game.client_open);
  });
  in_pieces([](TdsGame& game) {
    game.model.wants_sspi = true;
    game.login_with_term(5);
    game.send(tds::packet::sspi, "token");
    game.heard();
    CHECK(game.after_batch("write") == "done 16;");
  });
  // A Windows login that the server refuses is told what a proxy in the way has to do with it,
  // behind the server's own words.
  in_pieces([](TdsGame& game) {
    game.model.refuses_login = true;
    game.offers({.flags_2 = 0x80});
    CHECK(game.heard() == "error 18456 error 18456 done 2;");
    CHECK(game.host.messages.back().find("service principal name") != std::string::npos);
    CHECK_FALSE(game.client_open);
  });
  in_pieces([](TdsGame& game) {
    game.admission.refused_sqlstate = "53300";
    game.admission.refused_message = "too many";
    game.offers({});
    CHECK(game.heard() == "error 18456 done 2;");
  });
  in_pieces([](TdsGame& game) {
    game.reachable = false;
    game.offers({});
    CHECK(game.heard() == "error 50006 done 2;");
  });
  in_pieces([](TdsGame& game) {
    game.model.declared = {"s", 5};
    game.login("plain");
    CHECK(game.after_batch("write") == "done 16;");
  });
  in_pieces([](TdsGame& game) {
    game.model.tds_version = tds::version::v7_1;
    game.login_with_term(5);
    CHECK(game.after_batch("write") == "done 16;");
  });
}

TEST_CASE("tds session: the ends", "[F4][proxy][tds]") {
  TdsGame idle;
  idle.login_with_term(5);
  idle.batch("write");
  idle.session->resume(conversation::Drain{}, idle.now);
  idle.pump();
  CHECK_FALSE(idle.model.gate);
  CHECK_FALSE(idle.client_open);

  TdsGame busy;
  busy.login_with_term(5);
  busy.batch("begin write");
  busy.session->resume(conversation::Drain{}, busy.now);
  busy.pump();
  CHECK(busy.client_open);
  busy.batch("commit write");
  CHECK_FALSE(busy.client_open);
  CHECK(busy.model.unfenced == 0);

  TdsGame evicted;
  evicted.login_with_term(5);
  evicted.batch("write");
  evicted.session->resume(conversation::FenceSeen{"s", 6}, evicted.now);
  evicted.pump();
  CHECK_FALSE(evicted.client_open);
  CHECK_FALSE(evicted.server_open);
  CHECK(evicted.host.count(Kind::evicted) == 1);

  TdsGame lost;
  lost.login_with_term(5);
  lost.stalled = true;
  lost.batch("write");
  lost.heard();
  lost.session->resume(conversation::ServerLost{"reset"}, lost.now);
  lost.pump();
  CHECK(lost.heard() == "error 50006 done 2;");
  CHECK_FALSE(lost.client_open);

  TdsGame slow;
  slow.prelogin();
  slow.pass(61s);
  CHECK_FALSE(slow.client_open);

  TdsGame silent;
  silent.login_with_term(5);
  silent.stalled = true;
  silent.batch("write");
  silent.pass(61s);
  CHECK_FALSE(silent.client_open);
}

TEST_CASE("tds session: observe lets everything pass and tells", "[proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.admission.enforce = conversation::Enforce::observe;
    game.login("plain");
    CHECK(game.after_batch("select 1 from t") == "done 16;");
    CHECK(game.host.count(Kind::would_refuse) == 1);
    CHECK(game.model.enters == 0);
  });
}

TEST_CASE("tds session: reads pass without a term where the operator says so", "[F1][proxy][tds]") {
  in_pieces([](TdsGame& game) {
    game.admission.without_term = conversation::WithoutTerm::read_only;
    game.login("plain");
    const std::string prepare_execute = "\xFF\xFF\x0D\0\0\0"s, execute = "\xFF\xFF\x0C\0\0\0"s,
                      prepare = "\xFF\xFF\x0B\0\0\0"s;
    const std::string read = text_parameter("SELECT a FROM t WHERE b = @p0"),
                      write = text_parameter("SELECT a FROM t UPDATE t SET a = 1");
    CHECK(game.after_batch("SELECT a FROM t") == "done 16;");
    CHECK(game.after_batch("SELECT a FROM t UPDATE t SET a = 1 -- write") == "error 50002 done 2;");
    CHECK(game.host.messages.back().find("may only read") != std::string::npos);
    CHECK(game.after_rpc(execute_sql + read).ends_with("done 0;"));
    CHECK(game.after_rpc(execute_sql + write) == "error 50002 done 2;");
    // Which of two texts runs, the server decides.
    CHECK(game.after_rpc(execute_sql + write + named("@stmt", read)) == "error 50002 done 2;");
    CHECK(game.after_rpc(execute_sql + read + named("@stmt", write)) == "error 50002 done 2;");
    for (const char* name : {"@STMT", "@Statement", "@\xEF\xBD\x93tmt"}) {
      CHECK(game.after_rpc(execute_sql + read + named(name, write)) == "error 50002 done 2;");
    }
    // What declares the parameters is looked at, too.
    CHECK(game.after_rpc(execute_sql + read + text_parameter("@p0 int")).ends_with("done 0;"));
    CHECK(game.after_rpc(execute_sql + read + text_parameter("@p0 dbo.point")) ==
          "error 50002 done 2;");
    // A handle that was not given for a read is none.
    CHECK(game.after_rpc(execute + handle_parameter(1)) == "error 50002 done 2;");
    game.model.next_handle = 1;
    CHECK(game.after_rpc(prepare_execute + no_handle + text_parameter("") + read)
              .ends_with("done 0;"));
    CHECK(game.after_rpc(execute + handle_parameter(1)).ends_with("done 0;"));
    CHECK(game.after_rpc(prepare + no_handle + text_parameter("") + write) ==
          "error 50002 done 2;");
    CHECK(game.after_rpc(execute + handle_parameter(2)) == "error 50002 done 2;");
    // What a statement gives back itself is no handle, wherever it stands.
    game.model.gives_back = 7;
    CHECK(game.after_rpc(prepare_execute + no_handle + text_parameter("@p0 int OUTPUT") +
                         text_parameter("SELECT @p0 = 7"))
              .ends_with("done 0;"));
    CHECK(game.after_rpc(execute + handle_parameter(7)) == "error 50002 done 2;");
    game.model.gives_back = 0;
    // With a reset all handles are gone.
    game.batch("SELECT a FROM t", tds::status::reset);
    game.heard();
    CHECK(game.after_rpc(execute + handle_parameter(1)) == "error 50002 done 2;");
    CHECK(game.model.enters == 0);
    // What runs under a term may prepare a write under the number of a read.
    game.rpc(prepare_execute + no_handle + text_parameter("") + read);
    game.batch("EXEC termgate.set_term N's', 5");
    game.batch("write");
    game.model.fence = 6;
    game.model.gate = false;
    game.batch("SET NOCOUNT ON", tds::status::reset);
    game.heard();
    CHECK(game.after_rpc(execute + handle_parameter(2)) == "error 50002 done 2;");
  });
}
