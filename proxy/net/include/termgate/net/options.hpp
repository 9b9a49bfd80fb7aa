// What the operator chose, and how options of one word become values. Values; no I/O. A malformed one throws
// std::invalid_argument, whose message quotes no password.
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
#include <termgate/session/session.hpp>
#include <termgate/tds_session/tds_session.hpp>

namespace termgate::net {

// Addresses, listeners and TLS towards clients are those of any server.
using http::ClientTls;
using http::Endpoint;
using http::HostPort;
using http::ListenerOptions;
using http::Network;
using http::TlsVersion;

enum class SslMode : std::uint8_t { disable, prefer, require, verify_ca, verify_full };

// Where the server is: of a postgresql:// or sqlserver:// URL what concerns the relay. User, password and database in it are not kept: they
// are the proxy's own, for reading fences, and a client brings its own.
struct Backend {
  enum class Protocol : std::uint8_t { postgresql, tds };
  Protocol protocol = Protocol::postgresql;
  std::string database;     // TDS: where layer 1 is
  bool tds_strict = false;  // TDS 8.0: TLS from the first byte, and the certificate is verified

  struct Host {
    std::string name;     // for the certificate's check and for messages
    std::string address;  // hostaddr, or the same as name
    std::uint16_t port = 5432;
    std::string path;  // of a Unix socket
  };
  std::vector<Host> hosts;  // tried in this order
  bool follows = false;     // target_session_attrs, load_balance_hosts: libpq chooses for the proxy's own connection, and clients go there
  SslMode ssl_mode = SslMode::prefer;
  std::string ssl_root_certificate;  // "system": what OpenSSL trusts
  std::string ssl_certificate;       // of the proxy itself, shown to the server
  std::string ssl_key;
  bool ssl_sni = true;
  TlsVersion ssl_oldest = TlsVersion::v1_2;  // ssl_min_protocol_version
};
Backend parse_backend(std::string_view url);
// The URL for the proxy's own connection: of a sqlserver:// URL without what concerns the relay alone (sslmode, sslrootcert).
std::string own_url(std::string_view url);

struct Limits {
  std::size_t connections = 1000;  // that have said who they are
  std::size_t greeting = 1000;     // that have not yet; past it the ones that were silent longest go first
  std::size_t per_user = 0;        // 0: none
  std::size_t per_database = 0;
  std::size_t per_address = 0;
  std::size_t cancels = 64;  // cancel requests under way
};

struct Options {
  std::vector<ListenerOptions> listeners;
  std::vector<Network> proxy_protocol_from;  // who may send a PROXY header; others on such a listener are taken as they come
  Backend backend;
  ClientTls client_tls;
  // SQL Server: the UDP port that answers which TCP port a named instance has. Instances are the listeners whose names can be one's.
  std::optional<HostPort> browser;
  Limits limits;
  session::Options session;
  tds_session::Options tds;
  unsigned threads = 0;  // 0: one a core
  bool reuse_port = false;
  bool enforcing = true;  // --enforce on: for the metrics
  unsigned unix_mode = 0777;
  std::chrono::milliseconds greeting_timeout{std::chrono::seconds{10}};  // to the first packet, where a client has said nothing
  std::chrono::milliseconds connect_timeout{std::chrono::seconds{10}};
  std::chrono::milliseconds cancel_timeout{std::chrono::seconds{10}};
  std::chrono::milliseconds drain_timeout{std::chrono::seconds{30}};
  std::chrono::seconds keepalive{15};  // a peer that is silent for so long gets a probe
};

}  // namespace termgate::net
