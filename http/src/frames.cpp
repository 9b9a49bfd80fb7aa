#include "frames.hpp"

#include <algorithm>
#include <utility>

namespace termgate::http {
namespace {

constexpr std::size_t control_bytes_max = 125;

bool is_control(Opcode opcode) noexcept { return opcode >= Opcode::close; }

}  // namespace

std::string frame_head(Opcode opcode, std::size_t payload_bytes) {
  std::string head(1, static_cast<char>(0x80 | static_cast<unsigned>(opcode)));
  if (payload_bytes < 126) return head += static_cast<char>(payload_bytes);
  const int length_bytes = payload_bytes <= 0xffff ? 2 : 8;
  head += static_cast<char>(length_bytes == 2 ? 126 : 127);
  for (int at = length_bytes - 1; at >= 0; --at)
    head += static_cast<char>(static_cast<std::uint64_t>(payload_bytes) >> (8 * at) & 0xff);
  return head;
}

std::string close_frame(std::uint16_t code, std::string_view reason) {
  reason = reason.substr(0, control_bytes_max - 2);
  // The cut must not split a character.
  while (!is_utf8_text(reason)) reason.remove_suffix(1);
  std::string frame = frame_head(Opcode::close, reason.size() + 2);
  frame += static_cast<char>(code >> 8);
  frame += static_cast<char>(code & 0xff);
  return frame += reason;
}

bool is_close_code(unsigned code) noexcept {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
         (code >= 3000 && code <= 4999);
}

// Follows RFC 3629: no overlong form, no surrogate, nothing above U+10FFFF.
bool is_utf8_text(std::string_view text) noexcept {
  std::size_t at = 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  while (at < text.size()) {
    const unsigned first = byte(at);
    const std::size_t size = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
    if (size == 0 || text.size() - at < size) return false;
    for (std::size_t i = 1; i < size; ++i) {
      if ((byte(at + i) & 0xc0) != 0x80) return false;
    }
    const unsigned second = size > 1 ? byte(at + 1) : 0;
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
      return false;
    at += size;
  }
  return true;
}

FrameReader::Event FrameReader::broken(std::uint16_t code, const char* problem) const {
  Event event;
  event.what = What::broken;
  event.code = code;
  event.problem = problem;
  return event;
}

const char* FrameReader::header_problem(bool fin, unsigned reserved, bool masked,
                                        std::uint64_t length) const noexcept {
  if (reserved != 0) return "a reserved bit is set";
  if (!masked) return "a client's frame is not masked";
  const auto known = {Opcode::more,  Opcode::text, Opcode::binary,
                      Opcode::close, Opcode::ping, Opcode::pong};
  if (std::find(known.begin(), known.end(), opcode_) == known.end()) return "unknown opcode";
  if (is_control(opcode_)) {
    if (!fin) return "a control frame is fragmented";
    return length > control_bytes_max ? "a control frame has more than 125 bytes" : nullptr;
  }
  if (opcode_ == Opcode::more && !in_message_) return "a continuation of nothing";
  if (opcode_ != Opcode::more && in_message_) return "a message begins within another";
  return nullptr;
}

FrameReader::Event FrameReader::next() {
  for (;;) {
    if (!in_payload_) {
      const auto byte = [&](std::size_t i) {
        return static_cast<unsigned char>(waiting_[at_ + i]);
      };
      const std::size_t here = waiting_bytes();
      if (here < 2) break;
      const unsigned short_length = byte(1) & 0x7f;
      const std::size_t length_bytes = short_length == 126 ? 2 : short_length == 127 ? 8 : 0;
      const bool masked = (byte(1) & 0x80) != 0;
      opcode_ = static_cast<Opcode>(byte(0) & 0x0f);
      fin_ = (byte(0) & 0x80) != 0;
      // Checked before the rest of the header arrives: a frame that is refused anyway must not be
      // waited for.
      if (const char* problem = header_problem(fin_, byte(0) & 0x70, masked, short_length))
        return broken(1002, problem);
      if (here < 2 + length_bytes + 4) break;
      std::uint64_t length = length_bytes == 0 ? short_length : 0;
      for (std::size_t i = 0; i < length_bytes; ++i) length = length << 8 | byte(2 + i);
      if (!is_control(opcode_) &&
          length > message_bytes_max_ - std::min(message_.size(), message_bytes_max_))
        return broken(1009, "the message is too large");
      for (std::size_t i = 0; i < 4; ++i) mask_[i] = byte(2 + length_bytes + i);
      at_ += 2 + length_bytes + 4;
      left_ = length;
      mask_at_ = 0;
      in_payload_ = true;
      if (opcode_ == Opcode::text || opcode_ == Opcode::binary) {
        in_message_ = true;
        kind_ = opcode_ == Opcode::text ? Kind::text : Kind::binary;
      }
    }
    take_payload();
    if (left_ > 0) break;
    in_payload_ = false;
    Event event = whole();
    if (event.what != What::need_more) return event;
  }
  waiting_.erase(0, at_);
  at_ = 0;
  return {};
}

void FrameReader::take_payload() {
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left_, waiting_bytes()));
  std::string& into = is_control(opcode_) ? control_ : message_;
  const std::size_t from = into.size();
  into.append(waiting_, at_, bytes);
  for (std::size_t i = from; i < into.size(); ++i)
    into[i] = static_cast<char>(static_cast<unsigned char>(into[i]) ^ mask_[mask_at_++ & 3]);
  at_ += bytes;
  left_ -= bytes;
}

// What a complete frame means; need_more for a fragment of a message.
FrameReader::Event FrameReader::whole() {
  Event event;
  if (is_control(opcode_)) {
    event.bytes = std::exchange(control_, {});
    event.what = opcode_ == Opcode::ping   ? What::ping
                 : opcode_ == Opcode::pong ? What::pong
                                           : What::close;
    if (event.what != What::close) return event;
    event.code = 1005;
    if (event.bytes.empty()) return event;
    if (event.bytes.size() == 1) return broken(1002, "a close frame with half a code");
    const unsigned code = static_cast<unsigned>(static_cast<unsigned char>(event.bytes[0])) << 8 |
                          static_cast<unsigned char>(event.bytes[1]);
    event.bytes.erase(0, 2);
    if (!is_close_code(code)) return broken(1002, "a close frame with a code that is none");
    if (!is_utf8_text(event.bytes)) return broken(1007, "a close frame whose reason is not UTF-8");
    event.code = static_cast<std::uint16_t>(code);
    return event;
  }
  if (!fin_) return event;
  in_message_ = false;
  event.what = What::message;
  event.kind = kind_;
  event.bytes = std::exchange(message_, {});
  if (kind_ == Kind::text && !is_utf8_text(event.bytes))
    return broken(1007, "a text message is not UTF-8");
  return event;
}

}  // namespace termgate::http
