// Contexts are made at the start and at each reload. A connection keeps the one that it began with.
#include <termgate/http/tls.hpp>

#include <openssl/err.h>

#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

namespace termgate::http {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", what, tls_error()));
}

int number_of(TlsVersion version) noexcept {
  switch (version) {
    case TlsVersion::v1_0: return TLS1_VERSION;
    case TlsVersion::v1_1: return TLS1_1_VERSION;
    case TlsVersion::v1_2: break;
    case TlsVersion::v1_3: return TLS1_3_VERSION;
  }
  return TLS1_2_VERSION;
}

}  // namespace

std::optional<TlsVersion> tls_version_of(std::string_view text) noexcept {
  if (text == "1.0" || text == "TLSv1") return TlsVersion::v1_0;
  if (text == "1.1" || text == "TLSv1.1") return TlsVersion::v1_1;
  if (text == "1.2" || text == "TLSv1.2") return TlsVersion::v1_2;
  if (text == "1.3" || text == "TLSv1.3") return TlsVersion::v1_3;
  return std::nullopt;
}

std::string tls_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "no further reason given";
  const char* reason = ERR_reason_error_string(code);
  if (ERR_SYSTEM_ERROR(code)) return std::strerror(ERR_GET_REASON(code));
  return reason != nullptr ? reason : fmt::format("error {:x}", code);
}

TlsContext new_context(const SSL_METHOD* method, TlsVersion oldest) {
  TlsContext context(SSL_CTX_new(method), SSL_CTX_free);
  if (!context) fail("TLS");
  if (SSL_CTX_set_min_proto_version(context.get(), number_of(oldest)) != 1) fail("TLS");
  // The handshakes of TLS 1.0 and 1.1 are signed with SHA-1, which OpenSSL 3 allows at this level
  // only.
  if (oldest < TlsVersion::v1_2) SSL_CTX_set_security_level(context.get(), 0);
  // RELEASE_BUFFERS: an idle connection keeps no buffers. MOVING_WRITE_BUFFER: a repeated write
  // comes from an outbox that may have moved.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // A peer that hangs up without TLS's close_notify is an end like any other: PostgreSQL's clients
  // do it all the time.
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                         SSL_OP_IGNORE_UNEXPECTED_EOF);
  return context;
}

void load_pair(SSL_CTX* context, const std::string& certificate, const std::string& key) {
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1)
    fail(fmt::format("certificate {}", certificate));
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1)
    fail(fmt::format("key {}", key));
  if (SSL_CTX_check_private_key(context) != 1)
    fail(fmt::format("key {} does not belong to certificate {}", key, certificate));
}

TlsContext context_for_clients(const ClientTls& options) {
  if (options.certificate.empty()) return nullptr;
  TlsContext context = new_context(TLS_server_method(), options.oldest);
  load_pair(context.get(), options.certificate,
            options.key.empty() ? options.certificate : options.key);
  // No tickets and no cache: clients resume few sessions, and a ticket key would have to be
  // rotated.
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  if (!options.client_ca.empty()) {
    if (SSL_CTX_load_verify_locations(context.get(), options.client_ca.c_str(), nullptr) != 1)
      fail(fmt::format("client CA {}", options.client_ca));
    if (STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(options.client_ca.c_str()))
      SSL_CTX_set_client_CA_list(context.get(), names);
    SSL_CTX_set_verify(
        context.get(),
        SSL_VERIFY_PEER |
            (options.client_certificate_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
        nullptr);
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

}  // namespace termgate::http
