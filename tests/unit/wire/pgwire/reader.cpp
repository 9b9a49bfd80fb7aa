// Framing: what is streamed and what is held, and what cannot be a message is refused before a byte
// is stored. That the same messages come out whatever the pieces is fuzz_pgwire_frontend's and
// fuzz_pgwire_backend's, on each message of their corpora.
#include <catch2/catch.hpp>

#include <string>

#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/types.hpp>

#include "support.hpp"

using namespace termgate::pgwire;

namespace {

std::string header(char type, std::uint32_t length) {
  std::string out(1, type);
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(length >> shift & 0xff);
  return out;
}

}  // namespace

TEST_CASE("reader: what is streamed is never held and what is whole comes in one span",
          "[proxy][pgwire]") {
  const Rules rules = Rules::frontend();
  std::string copy;
  append_opaque(copy, frontend::copy_data, std::string(1 << 20, 'x'));
  const Read read = read_in_pieces(rules, copy, every_byte(copy.size()));
  CHECK(read.buffered_max <= 5);
  REQUIRE(read.messages.size() == 1);
  CHECK_FALSE(read.messages[0].whole);

  std::string query;
  append_query(query, std::string(100'000, ' ') + "SELECT 1");
  const Read statement = read_in_pieces(rules, query, every_byte(query.size()));
  REQUIRE(statement.messages.size() == 1);
  CHECK(statement.messages[0].whole);
}

TEST_CASE("reader: a long Bind is streamed after a head that holds its names", "[proxy][pgwire]") {
  const Rules rules = Rules::frontend();
  std::string stream;
  const std::string big(100'000, 'v');
  append_bind(stream, "portal", "statement", std::vector<Field>{big});
  for (const std::size_t piece : {std::size_t{1}, std::size_t{4096}, std::size_t{8192 + 4},
                                  std::size_t{8192 + 5}, stream.size()}) {
    CAPTURE(piece);
    Reader reader(rules);
    std::size_t at = 0;
    std::size_t frames = 0;
    std::size_t firsts = 0;
    while (at < stream.size()) {
      std::string_view left = std::string_view(stream).substr(at, piece);
      at += left.size();
      for (;;) {
        const Event event = reader.next(left);
        left.remove_prefix(event.used);
        frames += event.frame.size();
        if (event.kind == Event::Kind::need_more) break;
        REQUIRE(event.kind != Event::Kind::malformed);
        if (!event.first) continue;
        ++firsts;
        CHECK(event.body.size() >= 8192);
        const auto names = decode_bind_names(event.body);
        REQUIRE(names);
        CHECK(names->portal == "portal");
        CHECK(names->statement == "statement");
      }
      CHECK(reader.buffered() <= 8192 + 5);
    }
    CHECK(firsts == 1);
    CHECK(frames == stream.size());
    CHECK(reader.between_messages());
  }
}

TEST_CASE("reader: a header is announced as soon as its five bytes are there", "[proxy][pgwire]") {
  const Rules rules = Rules::frontend();
  Reader reader(rules);
  const std::string bytes = header('Q', 1004);
  const Event event = reader.next(bytes);
  CHECK(event.kind == Event::Kind::announced);
  CHECK(event.type == 'Q');
  CHECK(event.body_bytes == 1000);
  CHECK(event.frame.empty());
  CHECK_FALSE(reader.between_messages());
  Reader streaming(rules);
  const std::string data = header('d', 1004);
  const Event part = streaming.next(data);
  CHECK(part.kind == Event::Kind::part);
  CHECK(part.first);
  CHECK_FALSE(part.last);
  CHECK(part.frame == data);
}

TEST_CASE("reader: what cannot be a message is malformed and stays so", "[proxy][pgwire]") {
  struct Row {
    const char* name;
    bool from_client;
    std::string bytes;
    const char* reason;
  };
  Limits limits;
  limits.statement_bytes_max = 1000;
  limits.message_bytes_max = 5000;
  const Row rows[] = {
      {"a length of 0", true, header('Q', 0), "its own 4 bytes"},
      {"a length of 3", true, header('S', 3), "its own 4 bytes"},
      {"a negative length", true, header('Q', 0xffffffff), "at most 1000"},
      {"the largest length", true, header('d', 0x7fffffff), "at most 5000"},
      {"the most negative length", true, header('B', 0x80000000), "at most 5000"},
      {"a Sync with a body", true, header('S', 5), "at most 0"},
      {"a Flush with a body", true, header('H', 8), "at most 0"},
      {"a Terminate with a body", true, header('X', 10'000), "at most 0"},
      {"a Query over its limit", true, header('Q', 1005), "at most 1000"},
      {"a Parse over its limit", true, header('P', 1005), "at most 1000"},
      {"a Bind over its limit", true, header('B', 5005), "at most 5000"},
      {"a Describe of a megabyte", true, header('D', 1 << 20), "at most 10000"},
      {"a password of a megabyte", true, header('p', 1 << 20), "at most 65535"},
      {"a Query without its NUL", true, header('Q', 4), "at least 1"},
      {"a Bind too short for its counts", true, header('B', 11), "at least 8"},
      {"an unknown type", true, "m", "unknown message type 0x6d"},
      {"a NUL for a type", true, std::string(1, '\0'), "unknown message type 0x00"},
      {"HTTP", true, "GET / HTTP/1.1\r\n", "unknown message type 0x47"},
      {"TLS again", true, "\x16\x03\x01", "unknown message type 0x16"},
      {"a server's type from a client", true, "Z", "unknown message type 0x5a"},
      {"a client's type from a server", false, "Q", "unknown message type 0x51"},
      {"a ReadyForQuery of two bytes", false, header('Z', 6), "at most 1"},
      {"a ReadyForQuery of none", false, header('Z', 4), "at least 1"},
      {"a key of 257 bytes", false, header('K', 4 + 4 + 257), "at most 260"},
      {"a key of 3 bytes", false, header('K', 4 + 4 + 3), "at least 8"},
      {"a BindComplete with a body", false, header('2', 5), "at most 0"},
      {"a row over its limit", false, header('D', 5005), "at most 5000"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const Rules rules = row.from_client ? Rules::frontend(limits) : Rules::backend(limits);
    const Read at_once = read_in_pieces(rules, row.bytes + "more", {});
    CHECK_THAT(at_once.problem, Catch::Contains(row.reason));
    CHECK(at_once.messages.empty());
    CHECK(at_once.frames.empty());
    for (std::size_t cut = 0; cut <= row.bytes.size(); ++cut)
      CHECK(read_in_pieces(rules, row.bytes, {cut}).problem == at_once.problem);
    Reader reader(rules);
    const Event first = reader.next(row.bytes);
    REQUIRE(first.kind == Event::Kind::malformed);
    CHECK(std::string(first.problem.sqlstate) == "08P01");
    const Event again = reader.next("S");
    CHECK(again.kind == Event::Kind::malformed);
    CHECK(again.problem.reason() == first.problem.reason());
    CHECK(reader.buffered() <= 5);
  }
}

TEST_CASE("reader: messages before a malformed one still come", "[proxy][pgwire]") {
  std::string stream;
  append_query(stream, "SELECT 1");
  append_bare(stream, frontend::sync);
  const std::string bad = stream + "m";
  for (std::size_t cut = 0; cut <= bad.size(); ++cut) {
    const Read read = read_in_pieces(Rules::frontend(), bad, {cut});
    CHECK(read.messages.size() == 2);
    CHECK(read.frames == stream);
    CHECK_FALSE(read.problem.empty());
  }
}

TEST_CASE("reader: a description of more parameters than its count can say passes",
          "[F7][proxy][pgwire]") {
  std::string stream;
  // 65,536 of them: the count wraps to 0.
  append_opaque(stream, backend::parameter_description,
                std::string(2, '\0') + std::string(4 * 65'536, '\x19'));
  append_bare(stream, backend::no_data);
  const Read read = read_in_pieces(Rules::backend(), stream, {100, 70'000});
  CHECK(read.problem.empty());
  CHECK(read.frames == stream);
}

TEST_CASE("reader: a promise of a gigabyte costs nothing until it comes", "[proxy][pgwire]") {
  Limits limits;
  limits.statement_bytes_max = 1 << 30;
  const Rules rules = Rules::frontend(limits);
  Reader reader(rules);
  const std::string promise = header('Q', (1 << 30) + 4) + "SELECT";
  std::string_view left = promise;
  Event event = reader.next(left);
  CHECK(event.kind == Event::Kind::announced);
  left.remove_prefix(event.used);
  event = reader.next(left);
  CHECK(event.kind == Event::Kind::need_more);
  CHECK(reader.buffered() == promise.size());
}

TEST_CASE("reader: a run of rows ends where anything else comes", "[proxy][pgwire]") {
  const Rules rules = Rules::backend();
  std::string rows;
  for (const char* value : {"1", "", "a longer one"})
    append_data_row(rows, std::vector<Field>{value});
  std::string other;
  append_command_complete(other, "SELECT 3");
  Reader reader(rules);
  CHECK(reader.run_of(backend::data_row, rows + other) == rows);
  CHECK(reader.run_of(backend::copy_data, rows + other).empty());
  CHECK(reader.run_of(backend::data_row, other + rows).empty());
  CHECK(reader.run_of(backend::data_row, "").empty());
  const std::string first = rows.substr(0, 12);
  REQUIRE(reader.run_of(backend::data_row, first) == first);
  for (std::size_t size = 0; size < first.size(); ++size)
    CHECK(reader.run_of(backend::data_row, first.substr(0, size)).empty());
  // What the rules refuse is left to next().
  for (const std::uint32_t length : {0u, 3u, 5u, 0xffffffffu})
    CHECK(reader.run_of(backend::data_row, first + header('D', length) + std::string(64, '\0')) ==
          first);
  // Nothing in the middle of a message.
  CHECK(reader.next("D").kind == Event::Kind::need_more);
  CHECK(reader.run_of(backend::data_row, rows).empty());
}
