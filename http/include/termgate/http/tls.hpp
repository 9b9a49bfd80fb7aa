// OpenSSL contexts: the certificate that a server shows to its clients, and the one that it
// requires of them. Any thread; a finished context is shared.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <openssl/ssl.h>

namespace termgate::http {

using TlsContext = std::shared_ptr<SSL_CTX>;

// The oldest version of TLS that is accepted. TLS 1.0 and 1.1 are broken: their handshakes rest on
// SHA-1, which OpenSSL allows at its lowest security level only.
enum class TlsVersion : std::uint8_t { v1_0, v1_1, v1_2, v1_3 };
std::optional<TlsVersion> tls_version_of(
    std::string_view text) noexcept;  // as libpq writes it ("TLSv1", "TLSv1.2"), or "1.0" to "1.3"

struct ClientTls {
  std::string certificate = {};  // PEM, with its chain; empty: clients get no TLS
  std::string key = {};          // empty: the key is in the certificate's file
  std::string client_ca =
      {};  // the CA that must have signed clients' certificates; empty: clients need none
  bool client_certificate_required = false;
  bool required = false;  // refuse clear text where a port speaks both
  TlsVersion oldest = TlsVersion::v1_2;
};

// The next three functions throw std::runtime_error with OpenSSL's reason and, if it is about one,
// the file.

// nullptr: no TLS is configured. The caller sets the application protocols (ALPN).
TlsContext context_for_clients(const ClientTls& options);

// A context for either side with the common settings: no renegotiation, no compression, partial
// writes.
TlsContext new_context(const SSL_METHOD* method, TlsVersion oldest);
void load_pair(SSL_CTX* context, const std::string& certificate, const std::string& key);

// The TLS state of one accepted connection, which the caller owns. nullptr: out of memory.
SSL* tls_to_client(const TlsContext& context, int descriptor);

// Returns the oldest error in this thread's queue of OpenSSL, and empties the queue.
std::string tls_error();

}  // namespace termgate::http
