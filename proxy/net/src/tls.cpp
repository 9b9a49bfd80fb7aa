// TLS towards clients and towards the server: two contexts, made at the start and at each reload. A session
// keeps the one that it began with.
#include "tls.hpp"

#include <arpa/inet.h>
#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

namespace termgate::net {
namespace {

// The protocol's name with its length in front, as ALPN writes it.
constexpr unsigned char alpn[] = {10, 'p', 'o', 's', 't', 'g', 'r', 'e', 's', 'q', 'l'};
constexpr unsigned char alpn_tds[] = {7, 't', 'd', 's', '/', '8', '.', '0'};

// `tds`: not null where that is spoken.
int choose_alpn(SSL*, const unsigned char** out, unsigned char* out_bytes, const unsigned char* in, unsigned int in_bytes, void* tds) {
  unsigned char* chosen = nullptr;
  const unsigned char* ours = tds != nullptr ? alpn_tds : alpn;
  const unsigned int size = tds != nullptr ? sizeof alpn_tds : sizeof alpn;
  if (SSL_select_next_proto(&chosen, out_bytes, ours, size, in, in_bytes) != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(fmt::format("{}: {}", what, tls_error())); }

int number_of(TlsVersion version) noexcept {
  switch (version) {
    case TlsVersion::v1_0: return TLS1_VERSION;
    case TlsVersion::v1_1: return TLS1_1_VERSION;
    case TlsVersion::v1_2: break;
    case TlsVersion::v1_3: return TLS1_3_VERSION;
  }
  return TLS1_2_VERSION;
}

TlsContext context_of(const SSL_METHOD* method, TlsVersion oldest) {
  TlsContext context(SSL_CTX_new(method), SSL_CTX_free);
  if (!context) fail("TLS");
  if (SSL_CTX_set_min_proto_version(context.get(), number_of(oldest)) != 1) fail("TLS");
  // The handshakes of TLS 1.0 and 1.1 are signed with SHA-1, which OpenSSL 3 does at this level only.
  if (oldest < TlsVersion::v1_2) SSL_CTX_set_security_level(context.get(), 0);
  // RELEASE_BUFFERS: an idle connection keeps none. MOVING_WRITE_BUFFER: a write that is repeated comes from
  // an outbox that may have moved.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // A peer that hangs up without TLS's own goodbye is an end like any other: PostgreSQL's clients do it all the time.
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  return context;
}

void load_pair(SSL_CTX* context, const std::string& certificate, const std::string& key) {
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) fail(fmt::format("certificate {}", certificate));
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) fail(fmt::format("key {}", key));
  if (SSL_CTX_check_private_key(context) != 1) fail(fmt::format("key {} does not belong to certificate {}", key, certificate));
}

}  // namespace

bool is_address(const std::string& name) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, name.c_str(), bytes) == 1 || inet_pton(AF_INET6, name.c_str(), bytes) == 1;
}

std::string tls_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "no further reason given";
  const char* reason = ERR_reason_error_string(code);
  if (ERR_SYSTEM_ERROR(code)) return std::strerror(ERR_GET_REASON(code));
  return reason != nullptr ? reason : fmt::format("error {:x}", code);
}

TlsContext context_for_clients(const ClientTls& options, bool tds) {
  if (options.certificate.empty()) return nullptr;
  TlsContext context = context_of(TLS_server_method(), options.oldest);
  load_pair(context.get(), options.certificate, options.key.empty() ? options.certificate : options.key);
  // Any pointer that is none says yes.
  SSL_CTX_set_alpn_select_cb(context.get(), choose_alpn, tds ? context.get() : nullptr);
  // No tickets and no cache: PostgreSQL's clients resume nothing, and a ticket key would have to be rolled.
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  if (!options.client_ca.empty()) {
    if (SSL_CTX_load_verify_locations(context.get(), options.client_ca.c_str(), nullptr) != 1)
      fail(fmt::format("client CA {}", options.client_ca));
    if (STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(options.client_ca.c_str())) SSL_CTX_set_client_CA_list(context.get(), names);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | (options.client_certificate_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                       nullptr);
  }
  return context;
}

TlsContext context_for_server(const Backend& backend) {
  if (backend.ssl_mode == SslMode::disable) return nullptr;
  TlsContext context = context_of(TLS_client_method(), backend.ssl_oldest);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  if (!backend.ssl_certificate.empty())
    load_pair(context.get(), backend.ssl_certificate, backend.ssl_key.empty() ? backend.ssl_certificate : backend.ssl_key);
  // As libpq has it: with a root certificate, `require` checks the chain too.
  if (backend.ssl_mode >= SslMode::verify_ca || (backend.ssl_mode == SslMode::require && !backend.ssl_root_certificate.empty())) {
    const bool loaded = backend.ssl_root_certificate == "system"
                            ? SSL_CTX_set_default_verify_paths(context.get()) == 1
                            : SSL_CTX_load_verify_locations(context.get(), backend.ssl_root_certificate.c_str(), nullptr) == 1;
    if (!loaded) fail(fmt::format("sslrootcert {}", backend.ssl_root_certificate));
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  return context;
}

SSL* tls_to_client(const TlsContext& context, int descriptor) {
  SSL* ssl = SSL_new(context.get());
  if (ssl == nullptr) return nullptr;
  SSL_set_fd(ssl, descriptor);
  SSL_set_accept_state(ssl);
  return ssl;
}

SSL* tls_to_server(const TlsContext& context, const Backend& backend, const std::string& server_name, int descriptor) {
  SSL* ssl = SSL_new(context.get());
  if (ssl == nullptr) return nullptr;
  SSL_set_fd(ssl, descriptor);
  SSL_set_connect_state(ssl);
  const bool address = is_address(server_name);
  if (backend.ssl_sni && !address && !server_name.empty()) SSL_set_tlsext_host_name(ssl, server_name.c_str());
  if (backend.ssl_mode == SslMode::verify_full) {
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    const int expected =
        address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), server_name.c_str()) : SSL_set1_host(ssl, server_name.c_str());
    // Without a name to compare, verify_full must fail and not pass.
    if (expected != 1 || server_name.empty()) {
      SSL_free(ssl);
      return nullptr;
    }
  }
  if (backend.protocol == Backend::Protocol::postgresql) SSL_set_alpn_protos(ssl, alpn, sizeof alpn);
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
