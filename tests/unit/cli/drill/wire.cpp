// What a drill reads along of a conversation with PostgreSQL: refusals with the moment of their
// statement, and writes once they are committed. Every case runs again with its bytes one by one.
#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "cli/drill/wire.hpp"

using namespace termgate::cli::drill;

namespace {

std::string message(char type, const std::string& body) {
  std::string text;
  if (type != '\0') text += type;
  const auto length = static_cast<std::uint32_t>(body.size() + 4);
  for (int shift : {24, 16, 8, 0}) text += static_cast<char>(length >> shift & 0xff);
  return text + body;
}

std::string zero(const std::string& text) { return text + '\0'; }
std::string startup() {
  return message('\0', std::string("\0\3\0\0", 4) + zero("user") + zero("app") + '\0');
}
std::string query(const std::string& sql) { return message('Q', zero(sql)); }
std::string parse(const std::string& name, const std::string& sql) {
  return message('P', zero(name) + zero(sql) + std::string(2, '\0'));
}
std::string bind(const std::string& portal, const std::string& name) {
  return message('B', zero(portal) + zero(name) + std::string(6, '\0'));
}
std::string execute(const std::string& portal) {
  return message('E', zero(portal) + std::string(4, '\0'));
}
std::string sync_message() { return message('S', ""); }
std::string done(const std::string& tag) { return message('C', zero(tag)); }
std::string ready(char status) { return message('Z', std::string(1, status)); }
std::string error(const std::string& code, const std::string& text, const std::string& context = "",
                  const std::string& severity = "ERROR") {
  return message('E', "S" + zero(severity) + "V" + zero(severity) + "C" + zero(code) + "M" +
                          zero(text) + (context.empty() ? "" : "W" + zero(context)) + '\0');
}

struct Part {
  bool client;
  std::string bytes;
};
Part c(std::string bytes) { return {true, std::move(bytes)}; }
Part s(std::string bytes) { return {false, std::move(bytes)}; }

// Part i is sent at second i.
Moment at(int second) { return Moment(std::chrono::seconds(second)); }

Conversation played(const std::vector<Part>& parts, bool byte_by_byte) {
  Conversation talk;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t step = byte_by_byte ? 1 : std::max<std::size_t>(parts[i].bytes.size(), 1);
    for (std::size_t from = 0; from < parts[i].bytes.size(); from += step) {
      const std::string_view piece = std::string_view(parts[i].bytes).substr(from, step);
      if (parts[i].client) talk.from_client(piece, at(static_cast<int>(i)));
      else talk.from_server(piece);
    }
  }
  return talk;
}

template <typename Check>
void both_ways(const std::vector<Part>& parts, Check check) {
  for (bool byte_by_byte : {false, true}) {
    CAPTURE(byte_by_byte);
    check(played(parts, byte_by_byte));
  }
}

const std::string insert = "INSERT INTO t VALUES (1)";

}  // namespace

TEST_CASE("drill wire: a simple write counts when its transaction is over", "[cli]") {
  both_ways({c(startup()), s(message('R', std::string(4, '\0')) + ready('I')), c(query(insert)),
             s(done("INSERT 0 1") + ready('I'))},
            [](const Conversation& talk) {
              REQUIRE(talk.writes.size() == 1);
              CHECK(talk.writes[0].tag == "INSERT 0 1");
              CHECK(talk.writes[0].statement == insert);
              CHECK(talk.writes[0].requested == at(2));
              CHECK(talk.refusals.empty());
            });
}

TEST_CASE("drill wire: a block's writes count from its COMMIT on", "[cli]") {
  both_ways(
      {c(startup()), c(query("BEGIN")), s(done("BEGIN") + ready('T')), c(query(insert)),
       s(done("INSERT 0 1") + ready('T')), c(query("COMMIT")), s(done("COMMIT") + ready('I'))},
      [](const Conversation& talk) {
        REQUIRE(talk.writes.size() == 1);
        CHECK(talk.writes[0].statement == insert);
        CHECK(talk.writes[0].requested == at(5));
      });
}

TEST_CASE("drill wire: what is not committed is no write", "[cli]") {
  const auto begin = [](std::vector<Part> rest) {
    std::vector<Part> all = {c(startup()), c(query("BEGIN") + query(insert)),
                             s(done("BEGIN") + ready('T') + done("INSERT 0 1") + ready('T'))};
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  };
  const auto none = [](const Conversation& talk) { CHECK(talk.writes.empty()); };
  SECTION("an open block") { both_ways(begin({}), none); }
  SECTION("a rollback") {
    both_ways(begin({c(query("ROLLBACK")), s(done("ROLLBACK") + ready('I'))}), none);
  }
  SECTION("a COMMIT of a failed block") {
    both_ways(begin({c(query("nonsense")), s(error("42601", "syntax error") + ready('E')),
                     c(query("COMMIT")), s(done("ROLLBACK") + ready('I'))}),
              none);
  }
  SECTION("a script that fails after it") {
    both_ways({c(startup()), c(query(insert + "; nonsense")),
               s(done("INSERT 0 1") + error("42601", "syntax error") + ready('I'))},
              none);
  }
  SECTION("no rows") {
    both_ways({c(startup()), c(query("UPDATE t SET v = 1")), s(done("UPDATE 0") + ready('I'))},
              none);
  }
  SECTION("reading") {
    both_ways({c(startup()), c(query("SELECT 1")), s(done("SELECT 1") + ready('I'))}, none);
  }
  SECTION("COPY TO") {
    both_ways({c(startup()), c(query("COPY t TO STDOUT")),
               s(message('H', std::string(3, '\0')) + done("COPY 3") + ready('I'))},
              none);
  }
  SECTION("prepared for a second phase") {
    both_ways(
        begin({c(query("PREPARE TRANSACTION 'x'")), s(done("PREPARE TRANSACTION") + ready('I'))}),
        none);
  }
}

TEST_CASE("drill wire: ROLLBACK TO takes back what came after the savepoint alone", "[cli]") {
  both_ways({c(startup()), c(query("BEGIN; INSERT INTO kept VALUES (1); SAVEPOINT s")),
             s(done("BEGIN") + done("INSERT 0 1") + done("SAVEPOINT") + ready('T')),
             c(query("INSERT INTO lost VALUES (1)")), s(done("INSERT 0 1") + ready('T')),
             c(query("nonsense")), s(error("42601", "syntax error") + ready('E')),
             c(query("rollback to s")), s(done("ROLLBACK") + ready('T')), c(query("COMMIT")),
             s(done("COMMIT") + ready('I'))},
            [](const Conversation& talk) {
              REQUIRE(talk.writes.size() == 1);
              CHECK(talk.writes[0].statement.find("kept") != std::string::npos);
            });
}

TEST_CASE("drill wire: an extended query's write has its statement's text", "[cli]") {
  both_ways(
      {c(startup()), c(parse("s1", insert) + sync_message()), s(message('1', "") + ready('I')),
       c(bind("", "s1") + execute("") + bind("", "s1") + execute("") + sync_message()),
       s(message('2', "") + done("INSERT 0 1") + message('2', "") + done("INSERT 0 1") +
         ready('I'))},
      [](const Conversation& talk) {
        REQUIRE(talk.writes.size() == 2);
        CHECK(talk.writes[1].statement == insert);
        CHECK(talk.writes[1].requested == at(3));
      });
}

TEST_CASE("drill wire: a refusal has its code and message and the moment of its statement",
          "[cli]") {
  const std::string said = "TG001 stale term 1 for scope \"billing\": the fence stands at 2";
  both_ways({c(startup()),
             c(parse("", "SELECT termgate.check_term($1, $2)") + bind("", "") + execute("") +
               parse("", insert) + bind("", "") + execute("") + sync_message()),
             s(message('1', "") + message('2', "") +
               error("TG001", said,
                     "PL/pgSQL function termgate.check_term(text,bigint) line 9 at RAISE") +
               ready('I')),
             c(query(insert)), s(done("INSERT 0 1") + ready('I'))},
            [&](const Conversation& talk) {
              REQUIRE(talk.refusals.size() == 1);
              CHECK(talk.refusals[0].code == "TG001");
              CHECK(talk.refusals[0].message == said);
              CHECK(talk.refusals[0].context.find("check_term") != std::string::npos);
              CHECK(talk.refusals[0].requested == at(1));
              REQUIRE(talk.writes.size() ==
                      1);  // the later one: what was pipelined behind the refusal was skipped
              CHECK(talk.writes[0].requested == at(3));
            });
}

TEST_CASE("drill wire: other errors are no refusals, and a session's end is told", "[cli]") {
  both_ways({c(startup()), c(query("nonsense")),
             s(error("42601", "syntax error") + ready('I') +
               error("57P01", "terminating connection", "", "FATAL"))},
            [](const Conversation& talk) {
              CHECK(talk.refusals.empty());
              CHECK(talk.endings == std::vector<std::string>{"57P01 terminating connection"});
            });
}

TEST_CASE("drill wire: long messages are passed over and foreign bytes end the reading", "[cli]") {
  const std::string long_text(3 * Messages::message_bytes_kept, 'x');
  both_ways({c(startup()), c(query("INSERT INTO t VALUES ('" + long_text + "')")),
             s(message('D', long_text) + done("INSERT 0 1") + ready('I'))},
            [](const Conversation& talk) {
              REQUIRE(talk.writes.size() == 1);
              CHECK(talk.writes[0].statement.size() <= 400);
            });
  both_ways({c(startup()), c(query(insert)),
             s(std::string("H\0\0\0\1", 5) + done("INSERT 0 1") + ready('I'))},
            [](const Conversation& talk) { CHECK(talk.writes.empty()); });
}
