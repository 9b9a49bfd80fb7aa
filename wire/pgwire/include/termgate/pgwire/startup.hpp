// A client's first packets, which have no type byte: StartupMessage, SSLRequest, GSSENCRequest,
// CancelRequest; also writes them for a server. One thread at a time; no I/O, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/pgwire/malformed.hpp>

namespace termgate::pgwire {

// PostgreSQL's own limit, MAX_STARTUP_PACKET_LENGTH (libpq/pqcomm.h); it includes the length field.
inline constexpr std::size_t startup_packet_bytes_max = 10'004;
inline constexpr std::size_t cancel_key_bytes_min = 4;
inline constexpr std::size_t cancel_key_bytes_max = 256;
// The newest minor version of protocol 3 that this codec speaks (PostgreSQL 18: longer cancel
// keys).
inline constexpr std::uint16_t protocol_minor_max = 2;

struct StartupMessage {
  using Parameter = std::pair<std::string_view, std::string_view>;

  // The minor version of protocol 3 that was requested; 9999 if libpq uses GREASE to test the
  // server's negotiation.
  std::uint16_t minor = 0;
  std::vector<Parameter>
      parameters;  // in the client's order, with duplicates; without `extensions`
  std::vector<Parameter> extensions;  // `_pq_.…`: protocol options, never settings

  // The last of duplicates counts, as in the server. nullopt: there is no such parameter.
  std::optional<std::string_view> find(std::string_view name) const noexcept;
};

struct StartupEvent {
  enum class Kind {
    need_more,
    startup,
    ssl_request,     // to be answered with one byte, S or N
    gssenc_request,  // to be answered with one byte, G or N
    cancel_request,  // must not be answered
    direct_tls,      // the first byte of a TLS handshake; no byte was used
    malformed,
  };

  Kind kind = Kind::need_more;
  // Bytes of the span that belong to this packet. After ssl_request and gssenc_request, bytes left
  // over in the span were sent before the answer: clear text that an attacker may have put ahead of
  // the encrypted session. They must be refused.
  std::size_t used = 0;
  StartupMessage startup;
  std::uint32_t pid = 0;  // for cancel_request
  std::string_view key;   // for cancel_request, 4 to 256 bytes
  Malformed problem;      // for malformed
  // How PostgreSQL answers a malformed packet. A packet with an impossible length gets no answer. A
  // packet of a protocol before 3.0 gets the error of that protocol: 'E', a text and NUL.
  bool unanswered = false;
  bool before_3 = false;
};

// Reads one packet after another from pieces of any size; holds at most startup_packet_bytes_max
// bytes.
class StartupReader {
 public:
  // Direct TLS is recognized only in the first packet, and only if the connection is not encrypted
  // yet.
  explicit StartupReader(bool direct_tls_possible) noexcept
      : first_byte_may_be_tls_(direct_tls_possible) {}

  // Views are valid until the next call. After malformed, direct_tls, startup and cancel_request
  // there must be no further call.
  StartupEvent next(std::string_view input) noexcept;

  std::size_t buffered() const noexcept { return given_ ? 0 : buffer_.size(); }

 private:
  bool first_byte_may_be_tls_;
  bool given_ = false;
  std::string buffer_;
};

// `minor`: of protocol 3. Names and values end at their first NUL.
void append_startup(std::string& out, std::uint16_t minor,
                    std::span<const StartupMessage::Parameter> parameters);
void append_ssl_request(std::string& out);
void append_gssenc_request(std::string& out);
// `key`: as in BackendKeyData.
void append_cancel_request(std::string& out, std::uint32_t pid, std::string_view key);

}  // namespace termgate::pgwire
