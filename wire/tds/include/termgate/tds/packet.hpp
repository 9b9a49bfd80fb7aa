// Reads the packets of one direction from pieces of any size, and writes messages as packets. No
// body is stored here: each piece of a packet is passed on as it arrives.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <termgate/tds/malformed.hpp>

namespace termgate::tds {

inline constexpr std::size_t packet_header_bytes = 8;
inline constexpr std::size_t packet_bytes_min = 512;
inline constexpr std::size_t packet_bytes_max = 32767;

struct PacketHeader {
  std::uint8_t type = 0;
  std::uint8_t status = 0;
  std::uint16_t length = 0;  // of the packet, including these 8 bytes
  std::uint16_t spid = 0;
  std::uint8_t id = 0;
  std::uint8_t window = 0;
};

void append_packet_header(std::string& out, const PacketHeader& header);

// The next event in some bytes. `used`: how many bytes of the input it took. Views are valid as
// long as the input is; `raw` of a header until the next call.
struct PacketEvent {
  enum class Kind : std::uint8_t { need_more, header, payload, malformed };
  Kind kind = Kind::need_more;
  std::size_t used = 0;
  PacketHeader header{};      // of the event's packet
  bool first = false;         // the packet begins a message
  bool last = false;          // this event ends the packet
  bool ends_message = false;  // this event also ends the message
  std::string_view raw{};     // what to pass on
  Malformed problem{};
};

// A client and a server may send different types. A server sends its TLS handshake in packets of
// type PRELOGIN, so that type comes from both sides.
enum class Direction : std::uint8_t { from_client, from_server };

class PacketReader {
 public:
  explicit PacketReader(Direction direction) noexcept : direction_(direction) {}

  // Call again with the rest of the input until it returns need_more. After `malformed` it returns
  // nothing else. Malformed is, for example, a length below 8 or above 32767, a type that this side
  // does not send, or a packet of another type within a message; fault_of() has all reasons.
  PacketEvent next(std::string_view input) noexcept;

  bool between_messages() const noexcept {
    return held_ == 0 && left_ == 0 && !in_message_ && !broken_;
  }

 private:
  PacketEvent header_of(std::string_view input) noexcept;
  const char* fault_of(const PacketHeader& header) const noexcept;

  Direction direction_;
  std::array<char, packet_header_bytes> head_{};
  std::size_t held_ = 0;  // bytes in head_
  std::size_t left_ = 0;  // left of the packet's payload
  PacketHeader header_{};
  bool first_ = false;
  bool in_message_ = false;  // the last packet did not end its message
  bool broken_ = false;
  Malformed problem_{};
};

// Appends a whole message as packets of at most `packet_size` bytes, which counts as
// packet_bytes_min if it is lower, and as packet_bytes_max if it is higher. `first_status`: status
// bits for the first packet. `next_id`: the id of the first. Returns the id after the last.
std::uint8_t append_message(std::string& out, std::uint8_t type, std::string_view payload,
                            std::size_t packet_size, std::uint8_t first_status = 0,
                            std::uint16_t spid = 0, std::uint8_t next_id = 1);

}  // namespace termgate::tds
