// What the operator chose, and the parser of --backend. Values; no I/O. parse_backend() takes from
// libpq's environment what a postgresql:// URL leaves out. A malformed URL or value throws
// std::invalid_argument, whose message contains no password.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/http/endpoint.hpp>
#include <termgate/http/listen.hpp>
#include <termgate/http/tls.hpp>
#include <termgate/pg_session/session.hpp>
#include <termgate/tds_session/tds_session.hpp>

namespace termgate::net {

// Addresses, listeners and TLS towards clients are the same for every server.
using http::ClientTls;
using http::Endpoint;
using http::HostPort;
using http::ListenerOptions;
using http::Network;
using http::TlsVersion;

enum class SslMode : std::uint8_t { disable, prefer, require, verify_ca, verify_full };

// Where the server is: those parts of a postgresql:// or sqlserver:// URL that concern relayed
// connections. The user, the password and a PostgreSQL database are not stored: they are for the
// proxy's own connection, and each client brings its own.
struct Backend {
  enum class Protocol : std::uint8_t { postgresql, tds };
  Protocol protocol = Protocol::postgresql;
  std::string database;     // TDS: the database of layer 1
  bool tds_strict = false;  // TDS 8.0: TLS from the first byte, and the certificate is verified

  struct Host {
    std::string name;     // for the check of the certificate and for messages
    std::string address;  // hostaddr, or the same as name
    std::uint16_t port = 5432;
    std::string path;  // for a Unix socket
  };
  std::vector<Host> hosts;  // tried in this order
  // With target_session_attrs or load_balance_hosts, libpq chooses the server of the proxy's own
  // connection, and clients are sent to the same one.
  bool follows = false;
  SslMode ssl_mode = SslMode::prefer;
  std::string ssl_root_certificate;  // "system": the certificates that OpenSSL trusts
  std::string ssl_certificate;       // the proxy's own, shown to the server
  std::string ssl_key;
  bool ssl_sni = true;
  TlsVersion ssl_oldest = TlsVersion::v1_2;  // ssl_min_protocol_version
};
Backend parse_backend(std::string_view url);
// The URL for the proxy's own connection: a sqlserver:// URL loses the parameters that concern only
// relayed connections (sslmode, sslrootcert, ssl_min_protocol_version); any other stays as it is.
std::string own_url(std::string_view url);

struct Limits {
  std::size_t connections = 1000;  // clients that have sent a login
  // Clients that have not sent one yet. At this limit, a new one takes the place of one that has
  // sent nothing or has needed more than a second; if there is none, the new one is turned away.
  std::size_t greeting = 1000;
  std::size_t per_user = 0;  // 0: no limit
  std::size_t per_database = 0;
  std::size_t per_address = 0;
  std::size_t cancels = 64;  // cancel requests under way
};

struct Options {
  std::vector<ListenerOptions> listeners;
  // The peers that may send a PROXY header to a listener that accepts them. Others are handled as
  // on an ordinary listener.
  std::vector<Network> proxy_protocol_from;
  Backend backend;
  ClientTls client_tls;
  // SQL Server: the UDP port where clients learn which TCP port a named instance has. The instances
  // are the TCP listeners whose names can be instance names.
  std::optional<HostPort> browser;
  Limits limits;
  pg_session::Options session;
  tds_session::Options tds;
  unsigned threads = 0;  // 0: one for each core
  bool reuse_port = false;
  bool enforcing = true;  // --enforce on: for the metrics
  unsigned unix_mode = 0777;
  std::chrono::milliseconds greeting_timeout{
      std::chrono::seconds{10}};  // for a PROXY header, and the first byte or direct TLS
  std::chrono::milliseconds connect_timeout{std::chrono::seconds{10}};
  std::chrono::milliseconds cancel_timeout{std::chrono::seconds{10}};
  std::chrono::milliseconds drain_timeout{std::chrono::seconds{30}};
  std::chrono::seconds keepalive{15};  // after this silence a peer is probed
};

}  // namespace termgate::net
