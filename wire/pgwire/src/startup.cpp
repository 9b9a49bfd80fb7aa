// PostgreSQL documentation, "Message Formats" (protocol-message-formats.html: StartupMessage,
// SSLRequest, GSSENCRequest, CancelRequest) and "Message Flow" (protocol-flow.html); integers
// big-endian:
//
//   0                4              8
//   +----------------+--------------+------------------------------------------+
//   | length : int32 | code : int32 | what the code says                        |
//   +----------------+--------------+------------------------------------------+
//                      3 << 16 | minor   (name NUL value NUL)* NUL        StartupMessage
//                      1234 << 16 | 5679                                  SSLRequest, length 8
//                      1234 << 16 | 5680                                  GSSENCRequest, length 8
//                      1234 << 16 | 5678  pid : int32, key : 4 … 256 bytes  CancelRequest
//
// The length includes itself. TLS without SSLRequest (PostgreSQL 17) begins with the byte 0x16,
// which as the first byte of a length would be far beyond the limit.
#include <termgate/pgwire/startup.hpp>

#include <algorithm>
#include <new>

#include "bytes.hpp"

namespace termgate::pgwire {
namespace {

constexpr std::uint32_t cancel_code = 1234u << 16 | 5678;
constexpr std::uint32_t ssl_code = 1234u << 16 | 5679;
constexpr std::uint32_t gssenc_code = 1234u << 16 | 5680;
constexpr std::size_t cancel_fixed_bytes = 12;
constexpr char tls_handshake = 0x16;

StartupEvent refused(const Malformed& why, std::size_t used) noexcept {
  StartupEvent event;
  event.kind = StartupEvent::Kind::malformed;
  event.problem = why;
  event.used = used;
  return event;
}

StartupEvent no_packet(const Malformed& why, std::size_t used) noexcept {
  StartupEvent event = refused(why, used);
  event.unanswered = true;
  return event;
}

// Words that other protocols begin with, so that the error can name the protocol.
const char* other_protocol(std::string_view four) noexcept {
  for (const char* word :
       {"GET ", "POST", "PUT ", "HEAD", "OPTI", "DELE", "CONN", "PRI ", "PATC", "TRAC"}) {
    if (four == word) return "HTTP";
  }
  if (four == "SSH-") return "SSH";
  if (four == "PROX") return "the PROXY protocol";
  return nullptr;
}

Malformed no_terminator() noexcept {
  return malformed("invalid startup packet layout: expected terminator as last byte");
}

}  // namespace

std::optional<std::string_view> StartupMessage::find(std::string_view name) const noexcept {
  std::optional<std::string_view> found;
  for (const auto& [key, value] : parameters) {
    if (key == name) found = value;
  }
  return found;
}

// Long: one packet, a check for each field in turn.
StartupEvent StartupReader::next(std::string_view input) noexcept try {
  if (given_) {
    given_ = false;
    buffer_.clear();
  }
  StartupEvent event;
  if (input.empty()) return event;
  if (first_byte_may_be_tls_ && buffer_.empty() && input[0] == tls_handshake) {
    event.kind = StartupEvent::Kind::direct_tls;
    return event;
  }
  first_byte_may_be_tls_ = false;

  // These packets are small and few, so each is copied, and every check sees it in one piece. No
  // byte beyond it is taken, so that the caller sees what follows.
  const auto take_up_to = [&](std::size_t wanted) {
    const std::size_t taken =
        std::min(wanted - std::min(wanted, buffer_.size()), input.size() - event.used);
    buffer_.append(input.data() + event.used, taken);
    event.used += taken;
    return buffer_.size() >= wanted;
  };
  if (!take_up_to(4)) {
    // The first byte of a length is 0. Anything else is another protocol, and waiting for more of
    // it might never end.
    if (buffer_[0] != 0)
      return no_packet(malformed("invalid length of startup packet: its first byte is 0x%02x",
                                 static_cast<unsigned char>(buffer_[0])),
                       event.used);
    return event;
  }
  const std::uint32_t length = read_u32(buffer_.data());
  if (length < 8 || length > startup_packet_bytes_max) {
    if (const char* protocol = other_protocol({buffer_.data(), 4}))
      return no_packet(
          malformed("this is a PostgreSQL port, and what came looks like %s", protocol),
          event.used);
    return no_packet(malformed("invalid length of startup packet: %lu bytes, 8 to %zu are allowed",
                               static_cast<unsigned long>(length), startup_packet_bytes_max),
                     event.used);
  }
  if (!take_up_to(8)) return event;
  const std::uint32_t code = read_u32(buffer_.data() + 4);
  if (code == ssl_code || code == gssenc_code) {
    if (length != 8)
      return no_packet(malformed("invalid length of an encryption request: %lu bytes, 8 are needed",
                                 static_cast<unsigned long>(length)),
                       event.used);
    event.kind =
        code == ssl_code ? StartupEvent::Kind::ssl_request : StartupEvent::Kind::gssenc_request;
    given_ = true;
    return event;
  }
  if (code == cancel_code) {
    if (length < cancel_fixed_bytes + cancel_key_bytes_min ||
        length > cancel_fixed_bytes + cancel_key_bytes_max) {
      return no_packet(
          malformed("invalid length of cancel request: %lu bytes, 16 to 268 are allowed",
                    static_cast<unsigned long>(length)),
          event.used);
    }
    if (!take_up_to(length)) return event;
    event.kind = StartupEvent::Kind::cancel_request;
    event.pid = read_u32(buffer_.data() + 8);
    event.key = std::string_view(buffer_).substr(cancel_fixed_bytes);
    given_ = true;
    return event;
  }
  if (code >> 16 != 3) {
    StartupEvent unknown = refused(
        malformed_as("0A000", "unsupported frontend protocol %lu.%lu: 3.0 to 3.%u are spoken here",
                     static_cast<unsigned long>(code >> 16),
                     static_cast<unsigned long>(code & 0xffff), protocol_minor_max),
        event.used);
    unknown.before_3 = code >> 16 < 3;
    return unknown;
  }
  if (!take_up_to(length)) return event;

  event.startup.minor = static_cast<std::uint16_t>(code & 0xffff);
  Cursor cursor(std::string_view(buffer_).substr(8));
  for (;;) {
    const std::string_view name = cursor.text();
    if (!cursor.good()) return refused(no_terminator(), event.used);
    if (name.empty()) break;
    const std::string_view value = cursor.text();
    if (!cursor.good()) return refused(no_terminator(), event.used);
    (name.starts_with("_pq_.") ? event.startup.extensions : event.startup.parameters)
        .emplace_back(name, value);
  }
  if (!cursor.at_end()) return refused(no_terminator(), event.used);
  event.kind = StartupEvent::Kind::startup;
  given_ = true;
  return event;
} catch (const std::bad_alloc&) { return refused(malformed_as("53200", "out of memory"), 0); }

void append_startup(std::string& out, std::uint16_t minor,
                    std::span<const StartupMessage::Parameter> parameters) {
  std::string body;
  append_u32(body, 3u << 16 | minor);
  for (const auto& [name, value] : parameters) {
    body.append(name.substr(0, name.find('\0'))) += '\0';
    body.append(value.substr(0, value.find('\0'))) += '\0';
  }
  body += '\0';
  append_u32(out, static_cast<std::uint32_t>(body.size() + 4));
  out += body;
}

void append_ssl_request(std::string& out) {
  append_u32(out, 8);
  append_u32(out, ssl_code);
}

void append_gssenc_request(std::string& out) {
  append_u32(out, 8);
  append_u32(out, gssenc_code);
}

void append_cancel_request(std::string& out, std::uint32_t pid, std::string_view key) {
  append_u32(out, static_cast<std::uint32_t>(cancel_fixed_bytes + key.size()));
  append_u32(out, cancel_code);
  append_u32(out, pid);
  out += key;
}

}  // namespace termgate::pgwire
