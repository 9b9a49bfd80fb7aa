// OpenSSL's contexts: what a server shows to its clients, and what it wants to see of them. Values behind a shared pointer; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <openssl/ssl.h>

namespace termgate::http {

using TlsContext = std::shared_ptr<SSL_CTX>;

// The oldest version of TLS that is spoken. TLS 1.0 and 1.1 are broken: their ciphers rest on SHA-1, which OpenSSL uses at its lowest
// security level only.
enum class TlsVersion : std::uint8_t { v1_0, v1_1, v1_2, v1_3 };
std::optional<TlsVersion> tls_version_of(std::string_view text) noexcept;  // as libpq writes it ("TLSv1", "TLSv1.2"), or "1.0" to "1.3"

struct ClientTls {
  std::string certificate = {};  // PEM, with its chain; empty: no TLS to clients
  std::string key = {};          // empty: it is in the certificate's file
  std::string client_ca = {};    // whose certificates clients must have; empty: none is needed
  bool client_certificate_required = false;
  bool required = false;  // clear text is refused, where both are spoken at one port
  TlsVersion oldest = TlsVersion::v1_2;
};

// These throw std::runtime_error with the file and OpenSSL's reason.

// nullptr: no TLS is configured. Application protocols (ALPN) are the caller's to set.
TlsContext context_for_clients(const ClientTls& options);

// A context of either side with what all have in common: no renegotiation, no compression, writes in part.
TlsContext new_context(const SSL_METHOD* method, TlsVersion oldest);
void load_pair(SSL_CTX* context, const std::string& certificate, const std::string& key);

// A connection's own state on the accepting side. nullptr: no memory.
SSL* tls_to_client(const TlsContext& context, int descriptor);

// OpenSSL's last error, and its queue emptied.
std::string tls_error();

}  // namespace termgate::http
