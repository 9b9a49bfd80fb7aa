// Two contexts, one towards clients and one towards the server, are created at the start and at
// each reload. A connection keeps those that it began with.
#include "tls.hpp"

#include <arpa/inet.h>

#include <openssl/x509v3.h>

#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

namespace termgate::net {
namespace {

// The protocol's name after its length, as ALPN encodes it.
constexpr unsigned char alpn[] = {10, 'p', 'o', 's', 't', 'g', 'r', 'e', 's', 'q', 'l'};
constexpr unsigned char alpn_tds[] = {7, 't', 'd', 's', '/', '8', '.', '0'};

// `tds`: not null if the proxy serves TDS.
int choose_alpn(SSL*, const unsigned char** out, unsigned char* out_bytes, const unsigned char* in,
                unsigned int in_bytes, void* tds) {
  unsigned char* chosen = nullptr;
  const unsigned char* ours = tds != nullptr ? alpn_tds : alpn;
  const unsigned int size = tds != nullptr ? sizeof alpn_tds : sizeof alpn;
  if (SSL_select_next_proto(&chosen, out_bytes, ours, size, in, in_bytes) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", what, tls_error()));
}

}  // namespace

bool is_address(const std::string& name) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, name.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, name.c_str(), bytes) == 1;
}

TlsContext context_for_clients(const ClientTls& options, bool tds) {
  TlsContext context = http::context_for_clients(options);
  // Only whether the argument is null matters.
  if (context)
    SSL_CTX_set_alpn_select_cb(context.get(), choose_alpn, tds ? context.get() : nullptr);
  return context;
}

TlsContext context_for_server(const Backend& backend) {
  if (backend.ssl_mode == SslMode::disable) return nullptr;
  TlsContext context = http::new_context(TLS_client_method(), backend.ssl_oldest);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  if (!backend.ssl_certificate.empty())
    http::load_pair(context.get(), backend.ssl_certificate,
                    backend.ssl_key.empty() ? backend.ssl_certificate : backend.ssl_key);
  // As in libpq: with a root certificate, `require` checks the chain too.
  if (backend.ssl_mode >= SslMode::verify_ca ||
      (backend.ssl_mode == SslMode::require && !backend.ssl_root_certificate.empty())) {
    const bool loaded =
        backend.ssl_root_certificate == "system"
            ? SSL_CTX_set_default_verify_paths(context.get()) == 1
            : SSL_CTX_load_verify_locations(context.get(), backend.ssl_root_certificate.c_str(),
                                            nullptr) == 1;
    if (!loaded) fail(fmt::format("sslrootcert {}", backend.ssl_root_certificate));
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  return context;
}

SSL* tls_to_server(const TlsContext& context, const Backend& backend,
                   const std::string& server_name, int descriptor) {
  SSL* ssl = SSL_new(context.get());
  if (ssl == nullptr) return nullptr;
  SSL_set_fd(ssl, descriptor);
  SSL_set_connect_state(ssl);
  const bool address = is_address(server_name);
  if (backend.ssl_sni && !address && !server_name.empty())
    SSL_set_tlsext_host_name(ssl, server_name.c_str());
  if (backend.ssl_mode == SslMode::verify_full) {
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    const int expected =
        address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), server_name.c_str())
                : SSL_set1_host(ssl, server_name.c_str());
    // Without a name to compare, verify_full must fail.
    if (expected != 1 || server_name.empty()) {
      SSL_free(ssl);
      return nullptr;
    }
  }
  if (backend.protocol == Backend::Protocol::postgresql)
    SSL_set_alpn_protos(ssl, alpn, sizeof alpn);
  if (backend.tds_strict) SSL_set_alpn_protos(ssl, alpn_tds, sizeof alpn_tds);
  return ssl;
}

bool alpn_is_tds(const SSL* ssl) {
  const unsigned char* name = nullptr;
  unsigned int bytes = 0;
  SSL_get0_alpn_selected(ssl, &name, &bytes);
  return bytes == sizeof alpn_tds - 1 && std::memcmp(name, alpn_tds + 1, bytes) == 0;
}

bool alpn_is_postgresql(const SSL* ssl) {
  const unsigned char* name = nullptr;
  unsigned int bytes = 0;
  SSL_get0_alpn_selected(ssl, &name, &bytes);
  return bytes == sizeof alpn - 1 && std::memcmp(name, alpn + 1, bytes) == 0;
}

}  // namespace termgate::net
