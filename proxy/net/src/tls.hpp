// OpenSSL contexts: which certificate clients see, and what is required of the server. Any thread;
// a finished context is shared.
#pragma once

#include <string>

#include <openssl/ssl.h>

#include <termgate/net/options.hpp>

namespace termgate::net {

using http::tls_error;
using http::tls_to_client;
using http::TlsContext;

// These throw std::runtime_error with the file and OpenSSL's reason. nullptr: TLS is not
// configured. `tds`: the proxy serves TDS and not PostgreSQL, which matters for ALPN.
TlsContext context_for_clients(const ClientTls& options, bool tds);
TlsContext context_for_server(const Backend& backend);

// Whether the name is an IP address, IPv4 or IPv6.
bool is_address(const std::string& name);

// The TLS state of one connection to the server. `server_name`: the name that the certificate must
// have, if the mode checks that. nullptr: out of memory, or that check has no usable name.
SSL* tls_to_server(const TlsContext& context, const Backend& backend,
                   const std::string& server_name, int descriptor);

// Whether the client requested PostgreSQL by ALPN. Direct TLS requires that, so that a browser
// directed here is not taken for a client.
bool alpn_is_postgresql(const SSL* ssl);
bool alpn_is_tds(const SSL* ssl);  // TDS 8.0

}  // namespace termgate::net
