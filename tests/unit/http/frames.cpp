// WebSocket frames without a socket.
#include "frames.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace termgate::http {
namespace {

// As a client sends it.
std::string masked(unsigned first, std::string_view payload, bool mask = true) {
  std::string frame = frame_head(Opcode::text, payload.size());
  frame[0] = static_cast<char>(first);
  if (!mask) return frame + std::string(payload);
  frame[1] = static_cast<char>(static_cast<unsigned char>(frame[1]) | 0x80);
  const std::string key = "\x11\x22\xfe\x07";
  frame += key;
  for (std::size_t i = 0; i < payload.size(); ++i)
    frame += static_cast<char>(payload[i] ^ key[i % 4]);
  return frame;
}

std::vector<FrameReader::Event> read(const std::string& bytes, std::size_t step,
                                     std::size_t message_bytes_max = 100'000) {
  FrameReader reader(message_bytes_max);
  std::vector<FrameReader::Event> events;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    reader.put(std::string_view(bytes).substr(at, step));
    for (;;) {
      events.push_back(reader.next());
      if (events.back().what == FrameReader::What::need_more) break;
      if (events.back().what == FrameReader::What::broken ||
          events.back().what == FrameReader::What::close)
        return events;
    }
    events.pop_back();
  }
  return events;
}

using What = FrameReader::What;

TEST_CASE("http frames: messages of every length come whole however they are cut", "[http]") {
  for (const std::size_t size : {0u, 1u, 125u, 126u, 127u, 65535u, 65536u}) {
    const std::string payload(size, 'x');
    const std::string bytes = masked(0x82, payload) + masked(0x81, "next");
    for (const std::size_t step : {std::size_t(1), std::size_t(2), std::size_t(7), bytes.size()}) {
      const auto events = read(bytes, step);
      REQUIRE(events.size() == 2);
      CHECK(events[0].what == What::message);
      CHECK(events[0].kind == Kind::binary);
      CHECK(events[0].bytes == payload);
      CHECK(events[1].kind == Kind::text);
      CHECK(events[1].bytes == "next");
    }
  }
}

TEST_CASE("http frames: fragments are joined and control frames come between them", "[http]") {
  const std::string bytes = masked(0x01, "\xe2\x82") + masked(0x89, "p") + masked(0x00, "\xac") +
                            masked(0x8a, "") + masked(0x80, "!");
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    const auto events = read(bytes, step);
    REQUIRE(events.size() == 3);
    CHECK(events[0].what == What::ping);
    CHECK(events[0].bytes == "p");
    CHECK(events[1].what == What::pong);
    CHECK(events[2].what == What::message);
    CHECK(events[2].bytes == "\xe2\x82\xac!");
  }
}

TEST_CASE("http frames: a close frame brings its code and reason", "[http]") {
  const auto plain = read(masked(0x88, ""), 1);
  REQUIRE(plain.size() == 1);
  CHECK(plain[0].what == What::close);
  CHECK(plain[0].code == 1005);
  const auto coded = read(masked(0x88, std::string("\x03\xe9", 2) + "bye"), 1);
  CHECK(coded[0].code == 1001);
  CHECK(coded[0].bytes == "bye");
}

TEST_CASE("http frames: what is not allowed ends the connection with its code", "[http]") {
  struct Row {
    const char* name;
    std::string bytes;
    std::uint16_t code;
  };
  const std::vector<Row> rows = {
      {"not masked", masked(0x81, "x", false), 1002},
      {"a reserved bit", masked(0xc1, "x"), 1002},
      {"opcode 3", masked(0x83, "x"), 1002},
      {"opcode 11", masked(0x8b, "x"), 1002},
      {"a continuation of nothing", masked(0x80, "x"), 1002},
      {"a message in a message", masked(0x01, "x") + masked(0x81, "y"), 1002},
      {"a fragmented ping", masked(0x09, "x"), 1002},
      {"a long ping", masked(0x89, std::string(126, 'x')), 1002},
      {"half a close code", masked(0x88, "x"), 1002},
      {"a close code that is none", masked(0x88, std::string("\x03\xed", 2)), 1002},
      {"a close code below 1000", masked(0x88, std::string("\x00\x01", 2)), 1002},
      {"a close reason that is no text", masked(0x88, std::string("\x03\xe8\xff", 3)), 1007},
      {"text that is no text", masked(0x81, "\xc0\xaf"), 1007},
      {"text that ends within a letter", masked(0x01, "\xe2\x82") + masked(0x80, ""), 1007},
      {"a surrogate", masked(0x81, "\xed\xa0\x80"), 1007},
      {"past U+10FFFF", masked(0x81, "\xf4\x90\x80\x80"), 1007},
      {"too large", masked(0x82, std::string(1001, 'x')), 1009},
      {"too large in parts",
       masked(0x02, std::string(600, 'x')) + masked(0x80, std::string(600, 'x')), 1009},
      {"2^63 bytes", std::string("\x82\xff\x80\0\0\0\0\0\0\0abcd", 14), 1009},
      {"2^64 - 1 bytes",
       std::string("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff"
                   "abcd",
                   14),
       1009},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    for (const std::size_t step : {std::size_t(1), row.bytes.size()}) {
      const auto events = read(row.bytes, step, 1000);
      REQUIRE(!events.empty());
      CHECK(events.back().what == What::broken);
      CHECK(events.back().code == row.code);
    }
  }
}

TEST_CASE("http frames: a reason is cut between two characters", "[http]") {
  std::string reason(122, 'x');
  reason += "\xe2\x82\xac";
  const std::string frame = close_frame(1000, reason);
  CHECK(frame.size() == 2 + 2 + 122);
  CHECK(close_frame(1000, "").size() == 4);
}

TEST_CASE("http frames: a head has the shortest length", "[http]") {
  CHECK(frame_head(Opcode::text, 125).size() == 2);
  CHECK(frame_head(Opcode::text, 126).size() == 4);
  CHECK(frame_head(Opcode::text, 65536).size() == 10);
}

}  // namespace
}  // namespace termgate::http
