// What the drill reads along of a SQL Server's answers: the refusal, wherever packets and reads are
// cut, and nothing else.
#include <catch2/catch.hpp>

#include "cli/drill/tds.hpp"

using namespace termgate::cli::drill;

namespace {

std::string wide(const std::string& text) {
  std::string result;
  for (const char letter : text) result += {letter, '\0'};
  return result;
}
std::string little(std::uint32_t number, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xFF);
  return bytes;
}
std::string error(std::uint32_t number, const std::string& text,
                  const std::string& procedure = "") {
  const std::string body = little(number, 4) + "\x01\x10" +
                           little(static_cast<std::uint32_t>(text.size()), 2) + wide(text) +
                           '\x03' + wide("srv") + static_cast<char>(procedure.size()) +
                           wide(procedure) + little(7, 4);
  return '\xAA' + little(static_cast<std::uint32_t>(body.size()), 2) + body;
}
// As packets of at most `most` bytes of payload.
std::string packets(const std::string& message, std::size_t most, char type = 0x04) {
  std::string bytes;
  for (std::size_t at = 0; at == 0 || at < message.size(); at += most) {
    const std::string payload = message.substr(at, most);
    const std::size_t length = payload.size() + 8;
    bytes += {type,
              static_cast<char>(at + most >= message.size() ? 1 : 0),
              static_cast<char>(length >> 8),
              static_cast<char>(length & 0xFF),
              0,
              0,
              1,
              0};
    bytes += payload;
  }
  return bytes;
}
const std::string stale = "TG001 stale term 4 for scope \"a\": the fence stands at 5";
const std::string done("\xFD\x02\x00\xC1\x00\x00\x00\x00\x00\x00\x00\x00\x00", 13);

}  // namespace

TEST_CASE("drill tds: a refusal is read wherever packets and reads are cut", "[cli]") {
  for (const std::size_t most : {1u, 7u, 40u, 4000u}) {
    const std::string bytes = packets("\xAA\xAA row bytes \xAA" + error(50001, stale) + done, most);
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      CAPTURE(most, cut);
      TdsConversation talk;
      const Moment asked{std::chrono::seconds(9)};
      talk.from_client("anything", asked);
      talk.from_server(bytes.substr(0, cut));
      talk.from_server(bytes.substr(cut));
      REQUIRE(talk.refusals.size() == 1);
      CHECK(talk.refusals[0].code == "TG001");
      CHECK(talk.refusals[0].message == stale);
      CHECK(talk.refusals[0].context == "");
      CHECK(talk.refusals[0].requested == asked);
    }
  }
}

TEST_CASE("drill tds: a refused seal is told apart by its procedure and by what was asked",
          "[cli]") {
  TdsConversation talk;
  talk.from_client("", Moment{});
  talk.from_server(packets(error(50001, stale, "termgate.seal") + done, 4000));
  talk.from_client(wide("EXEC termgate.seal @scope"), Moment{});
  talk.from_server(packets(error(50001, stale) + done, 4000));
  talk.from_client(wide("EXEC termgate.check_term"), Moment{});
  talk.from_server(packets(error(50001, stale, "check_term") + done, 4000));
  REQUIRE(talk.refusals.size() == 3);
  CHECK(talk.refusals[0].context == ".seal(");
  CHECK(talk.refusals[1].context == ".seal(");
  CHECK(talk.refusals[2].context == "");
}

TEST_CASE("drill tds: what only looks like a refusal is none", "[cli]") {
  const std::string whole = error(50001, stale);
  for (const auto& [name, message] : std::vector<std::pair<std::string, std::string>>{
           {"another's 50001", error(50001, "out of stock")},
           {"another number", error(50002, stale)},
           {"a number of the server's", error(8134, stale)},
           {"a length too short for its text", '\xAA' + little(20, 2) + whole.substr(3)},
           {"a length beyond the message", '\xAA' + little(8000, 2) + whole.substr(3)},
           {"the text alone", wide(stale)},
           {"half of it", whole.substr(0, whole.size() / 2)}}) {
    CAPTURE(name);
    TdsConversation talk;
    talk.from_server(packets(message, 4000));
    CHECK(talk.refusals.empty());
  }
  TdsConversation encrypted;
  encrypted.from_server("\x17\x03\x03 an encrypted record" + packets(error(50001, stale), 4000));
  CHECK(encrypted.refusals.empty());
}
