// Packets: what cannot be one is refused, and what is refused is not passed on. That they come to
// the same in any pieces is fuzz_tds_client's, on its corpus.
#include <catch2/catch.hpp>

#include <termgate/tds/packet.hpp>

#include "support.hpp"

using namespace termgate::tds;

namespace {

std::string packet_of(std::uint8_t type, std::uint8_t status, std::string_view payload,
                      int length = -1) {
  std::string out;
  PacketHeader header;
  header.type = type;
  header.status = status;
  header.length = static_cast<std::uint16_t>(length < 0 ? packet_header_bytes + payload.size()
                                                        : static_cast<std::size_t>(length));
  append_packet_header(out, header);
  return out + std::string(payload);
}

}  // namespace

TEST_CASE("packets: ids run on and sizes are kept", "[wire][tds]") {
  std::string stream;
  CHECK(append_message(stream, packet::reply, std::string(504 * 2, 'x'), 512, 0, 77, 255) == 1);
  CHECK(stream.size() == 1024);
  CHECK(static_cast<unsigned char>(stream[6]) == 255);
  CHECK(stream[512 + 6] == 0);
  CHECK(stream[5] == 77);
  CHECK(stream[1] == 0);
  CHECK(stream[512 + 1] == 1);
}

TEST_CASE("packets: what cannot be one is malformed", "[wire][tds]") {
  struct Row {
    const char* name;
    Direction direction;
    std::string bytes;
    const char* says;
  };
  const std::string open = packet_of(packet::sql_batch, 0, "x");
  const Row rows[] = {
      {"length below the header", Direction::from_client, packet_of(1, 1, "", 7),
       "counts its own 8 bytes"},
      {"length above the limit", Direction::from_client, packet_of(1, 1, "", 32768),
       "longer than 32767"},
      {"no type of a client", Direction::from_client, packet_of(4, 1, "x"),
       "a client does not send"},
      {"multiplexed", Direction::from_client, packet_of(0x53, 1, "x"), "a client does not send"},
      {"login of TDS 4", Direction::from_client, packet_of(2, 1, "x"), "a client does not send"},
      {"no type of a server", Direction::from_server, packet_of(1, 1, "x"),
       "a server does not send"},
      {"another type within", Direction::from_client, open + packet_of(3, 1, "x"),
       "message of another type"},
      {"attention within", Direction::from_client, open + packet_of(6, 1, ""),
       "message of another type"},
      {"reset in the second packet", Direction::from_client, open + packet_of(1, 9, "x"),
       "first packet only"},
      {"reset of a bulk load", Direction::from_client, packet_of(7, 9, "x"), "cannot reset"},
      {"reset of an attention", Direction::from_client, packet_of(6, 9, ""), "cannot reset"},
      {"two resets", Direction::from_client, packet_of(1, 0x19, "x"), "two kinds"},
      {"unknown status", Direction::from_client, packet_of(1, 0x41, "x"), "mean nothing"},
      {"given up before its end", Direction::from_client, packet_of(1, 2, "x"), "at its end only"},
      {"attention with a payload", Direction::from_client, packet_of(6, 1, "x"),
       "without a payload"},
      {"attention without an end", Direction::from_client, packet_of(6, 0, ""),
       "without a payload"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Read read = read_whole(row.direction, row.bytes + "more");
    CHECK(read.problem.find(row.says) != std::string::npos);
    for (std::size_t cut = 1; cut < row.bytes.size(); ++cut)
      CHECK(read_in_pieces(row.direction, row.bytes, {cut}).problem == read.problem);
  }
}
