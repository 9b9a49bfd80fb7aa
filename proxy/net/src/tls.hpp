// OpenSSL's contexts: what we show to clients, and what we ask of the server. Values behind a shared pointer; any thread.
#pragma once

#include <string>

#include <openssl/ssl.h>

#include <termgate/net/options.hpp>

namespace termgate::net {

using http::tls_error;
using http::tls_to_client;
using http::TlsContext;

// Throw std::runtime_error with the file and OpenSSL's reason. nullptr: no TLS is configured (clients), or asked for (server).
// `tds`: whom we serve speaks TDS and not PostgreSQL, for ALPN.
TlsContext context_for_clients(const ClientTls& options, bool tds);
TlsContext context_for_server(const Backend& backend);

// Whether a host is named by its address, IPv4 or IPv6.
bool is_address(const std::string& name);

// A connection's own state towards the server. `server_name`: whose certificate is expected, where the mode wants that checked.
SSL* tls_to_server(const TlsContext& context, const Backend& backend, const std::string& server_name, int descriptor);

// Whether the client asked for PostgreSQL by ALPN, which direct TLS must (a browser led here must not be taken for a client).
bool alpn_is_postgresql(const SSL* ssl);
bool alpn_is_tds(const SSL* ssl);  // TDS 8.0

}  // namespace termgate::net
