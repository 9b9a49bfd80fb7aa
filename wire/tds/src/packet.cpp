// Every packet, in both directions ([MS-TDS] 2.2.3.1; length and SPID have their most significant
// byte first):
//
//   0      1        2                 4          6    7        8            length
//   +------+--------+-----------------+----------+----+--------+--------------+
//   | type | status | length : uint16 | SPID : 2 | id | window | payload      |
//   +------+--------+-----------------+----------+----+--------+--------------+
//
// A message is one packet or several of one type; the last one has status bit 0x01. An attention
// (type 6) has no payload.
#include <termgate/tds/packet.hpp>

#include <algorithm>

#include <termgate/tds/types.hpp>

#include "bytes.hpp"

namespace termgate::tds {

void append_packet_header(std::string& out, const PacketHeader& header) {
  out += static_cast<char>(header.type);
  out += static_cast<char>(header.status);
  append_big_u16(out, header.length);
  append_big_u16(out, header.spid);
  out += static_cast<char>(header.id);
  out += static_cast<char>(header.window);
}

PacketEvent PacketReader::next(std::string_view input) noexcept {
  PacketEvent event;
  if (broken_) {
    event.kind = PacketEvent::Kind::malformed;
    event.problem = problem_;
    return event;
  }
  if (input.empty()) return event;
  if (left_ == 0) return header_of(input);
  event.kind = PacketEvent::Kind::payload;
  event.used = std::min(left_, input.size());
  event.raw = input.substr(0, event.used);
  left_ -= event.used;
  event.header = header_;
  event.first = first_;
  event.last = left_ == 0;
  event.ends_message = event.last && !in_message_;
  return event;
}

PacketEvent PacketReader::header_of(std::string_view input) noexcept {
  PacketEvent event;
  const std::size_t taken = std::min(head_.size() - held_, input.size());
  std::copy_n(input.data(), taken, head_.data() + held_);
  held_ += taken;
  event.used = taken;
  if (held_ < head_.size()) return event;
  held_ = 0;
  PacketHeader header;
  header.type = static_cast<std::uint8_t>(head_[0]);
  header.status = static_cast<std::uint8_t>(head_[1]);
  header.length = read_big_u16(head_.data() + 2);
  header.spid = read_big_u16(head_.data() + 4);
  header.id = static_cast<std::uint8_t>(head_[6]);
  header.window = static_cast<std::uint8_t>(head_[7]);
  if (const char* fault = fault_of(header)) {
    broken_ = true;
    problem_ = malformed("packet of type 0x%02x, status 0x%02x, %u bytes: %s", header.type,
                         header.status, header.length, fault);
    event.kind = PacketEvent::Kind::malformed;
    event.problem = problem_;
    return event;
  }
  first_ = !in_message_;
  in_message_ = (header.status & status::end_of_message) == 0;
  header_ = header;
  left_ = header.length - packet_header_bytes;
  event.kind = PacketEvent::Kind::header;
  event.header = header_;
  event.first = first_;
  event.last = left_ == 0;
  event.ends_message = event.last && !in_message_;
  event.raw = {head_.data(), head_.size()};
  return event;
}

const char* PacketReader::fault_of(const PacketHeader& header) const noexcept {
  if (header.length < packet_header_bytes) return "a length counts its own 8 bytes";
  if (header.length > packet_bytes_max) return "longer than 32767 bytes";
  if (in_message_ && header.type != header_.type)
    return "it stands within a message of another type";
  if (direction_ == Direction::from_server) {
    return header.type == packet::reply || header.type == packet::prelogin
               ? nullptr
               : "a server does not send this type";
  }
  switch (header.type) {
    case packet::sql_batch:
    case packet::rpc:
    case packet::attention:
    case packet::bulk:
    case packet::federated_token:
    case packet::transaction:
    case packet::login7:
    case packet::sspi:
    case packet::prelogin: break;
    default: return "a client does not send this type";
  }
  constexpr auto known =
      static_cast<std::uint8_t>(status::end_of_message | status::ignore | status::any_reset);
  if ((header.status & ~known) != 0) return "status bits that mean nothing";
  if ((header.status & status::any_reset) != 0) {
    if (in_message_) return "a reset stands in a message's first packet only";
    if (header.type != packet::sql_batch && header.type != packet::rpc &&
        header.type != packet::transaction) {
      return "this type of message cannot reset a session";
    }
    if ((header.status & status::any_reset) == status::any_reset)
      return "two kinds of reset at once";
  }
  if ((header.status & status::ignore) != 0 && (header.status & status::end_of_message) == 0)
    return "a message is given up at its end only";
  if (header.type == packet::attention &&
      (header.length != packet_header_bytes || (header.status & status::end_of_message) == 0)) {
    return "an attention is one packet without a payload";
  }
  return nullptr;
}

std::uint8_t append_message(std::string& out, std::uint8_t type, std::string_view payload,
                            std::size_t packet_size, std::uint8_t first_status, std::uint16_t spid,
                            std::uint8_t next_id) {
  const std::size_t room =
      std::clamp(packet_size, packet_bytes_min, packet_bytes_max) - packet_header_bytes;
  bool first = true;
  do {
    const std::size_t taken = std::min(room, payload.size());
    PacketHeader header;
    header.type = type;
    header.status = first ? first_status : std::uint8_t{0};
    if (taken == payload.size()) header.status |= status::end_of_message;
    header.length = static_cast<std::uint16_t>(packet_header_bytes + taken);
    header.spid = spid;
    header.id = next_id++;
    append_packet_header(out, header);
    out.append(payload.substr(0, taken));
    payload.remove_prefix(taken);
    first = false;
  } while (!payload.empty());
  return next_id;
}

}  // namespace termgate::tds
