// What a Redis server may answer, in any pieces.
#include <catch2/catch.hpp>

#include <string>

#include "reply.hpp"

using termgate::sources::RedisReader;
using termgate::sources::RedisReply;

TEST_CASE("redis reply: split at every byte", "[sources]") {
  const std::string text = "*4\r\n:1\r\n$3\r\n4 2\r\n$-1\r\n-ERR no\tway\r\n";
  for (std::size_t at = 0; at <= text.size(); ++at) {
    RedisReader reader;
    REQUIRE(reader.feed(std::string_view(text).substr(0, at)));
    auto [state, reply] = reader.next();
    if (state == RedisReader::State::more) {
      REQUIRE(reader.feed(std::string_view(text).substr(at)));
      std::tie(state, reply) = reader.next();
    }
    REQUIRE(state == RedisReader::State::complete);
    REQUIRE(reply.elements.size() == 4);
    CHECK(reply.elements[0].number == 1);
    CHECK(reply.elements[1].text == "4 2");
    CHECK(reply.elements[2].kind == RedisReply::Kind::nil);
    CHECK(reply.elements[3].kind == RedisReply::Kind::error);
    CHECK(reply.elements[3].text == "ERR no way");
  }
}

TEST_CASE("redis reply: what is not its protocol and what never ends", "[sources]") {
  for (const char* text : {"HTTP/1.1 400 Bad Request\r\n\r\n", "\r\n", "*x\r\n", "$-2\r\n", ":\r\n",
                           "*999999999\r\n", "*1025\r\n"}) {
    CAPTURE(text);
    RedisReader reader;
    reader.feed(text);
    CHECK(reader.next().first == RedisReader::State::malformed);
  }
  RedisReader reader;
  reader.feed("$10000000\r\n");
  CHECK(reader.next().first == RedisReader::State::more);
  CHECK_FALSE(reader.feed(std::string(RedisReader::answer_bytes_max, 'x')));
}
