// TLS and the PROXY header in front of HTTP.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "served.hpp"

namespace termgate::http::testing {
namespace {

using namespace std::chrono_literals;

// A certificate that signs itself, with its key, in one file.
struct Certificate {
  explicit Certificate(const char* name)
      : path((std::filesystem::temp_directory_path() / ("termgate_http_XXXXXX")).string()) {
    const int descriptor = mkstemp(path.data());
    REQUIRE(descriptor >= 0);
    close(descriptor);
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* subject = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    X509_set_issuer_name(certificate, subject);
    X509_sign(certificate, key, EVP_sha256());
    FILE* file = std::fopen(path.c_str(), "w");
    REQUIRE(file != nullptr);
    PEM_write_X509(file, certificate);
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  ~Certificate() { unlink(path.c_str()); }
  std::string path;
};

// What a TLS client gets for `request`; empty: no handshake.
struct Asked {
  std::string answer, server_name, protocol;
};
struct Wish {
  int version = 0;
  const Certificate* own = nullptr;
  std::string alpn = {};  // with its length in front
  std::string before = {};
};
Asked ask(std::uint16_t port, const Wish& wish, const std::string& request) {
  Client client(port);
  client.send(wish.before);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_security_level(context, 0);
  if (wish.version != 0) {
    SSL_CTX_set_min_proto_version(context, wish.version);
    SSL_CTX_set_max_proto_version(context, wish.version);
  }
  if (wish.own != nullptr) {
    SSL_CTX_use_certificate_file(context, wish.own->path.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context, wish.own->path.c_str(), SSL_FILETYPE_PEM);
  }
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, client.descriptor());
  if (!wish.alpn.empty())
    SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(wish.alpn.data()),
                        static_cast<unsigned>(wish.alpn.size()));
  Asked asked;
  if (SSL_connect(ssl) == 1) {
    X509* server = SSL_get1_peer_certificate(ssl);
    char name[100] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(server), NID_commonName, name, sizeof name);
    asked.server_name = name;
    X509_free(server);
    const unsigned char* protocol = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl, &protocol, &size);
    asked.protocol.assign(reinterpret_cast<const char*>(protocol), size);
    SSL_write(ssl, request.data(), static_cast<int>(request.size()));
    char buffer[65536];
    for (int got = SSL_read(ssl, buffer, sizeof buffer); got > 0;
         got = SSL_read(ssl, buffer, sizeof buffer))
      asked.answer.append(buffer, static_cast<std::size_t>(got));
  }
  SSL_free(ssl);
  SSL_CTX_free(context);
  return asked;
}

const std::string get_once = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

TEST_CASE("http tls: a request of every size and a large answer", "[http]") {
  const Certificate certificate("first");
  ServerOptions options = options_for_tests();
  options.tls.certificate = certificate.path;
  Served served(std::move(options));
  served.handler.decides = [](const Head&) -> Decision { return Take{10u << 20}; };
  served.handler.answers = [](Request request, Answer answer) {
    answer.reply({200, request.body + (request.head.peer.tls ? "tls" : "clear")});
  };
  for (const std::size_t size : {1u, 16384u, 16385u, 100'000u, 3'000'000u}) {
    const std::string body(size, 'x');
    const Asked asked =
        ask(served.port(), {},
            "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
                std::to_string(size) + "\r\n\r\n" + body);
    CHECK(asked.answer.ends_with("\r\n\r\n" + body + "tls"));
  }
  Client clear(served.port());
  clear.send(get);
  CHECK(status_of(clear.rest()) == 0);
  CHECK(eventually([&] {
    const std::lock_guard lock(served.handler.mutex);
    return served.handler.last_failure.find("TLS: ") == 0;
  }));
}

TEST_CASE("http tls: versions older than the oldest and other protocols get no handshake",
          "[http]") {
  const Certificate certificate("first");
  ServerOptions options = options_for_tests();
  options.tls.certificate = certificate.path;
  Served served(std::move(options));
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION})
    CHECK(ask(served.port(), {version}, get_once).answer.empty());
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION})
    CHECK(status_of(ask(served.port(), {version}, get_once).answer) == 200);
  CHECK(ask(served.port(), {0, nullptr, "\x0apostgresql"}, get_once).answer.empty());
  const Asked chosen = ask(served.port(), {0, nullptr, "\x02h2\x08http/1.1"}, get_once);
  CHECK(chosen.protocol == "http/1.1");
  CHECK(status_of(chosen.answer) == 200);
  ServerOptions newer = options_for_tests();
  newer.tls.certificate = certificate.path;
  newer.tls.oldest = TlsVersion::v1_3;
  Served strict(std::move(newer));
  CHECK(ask(strict.port(), {TLS1_2_VERSION}, get_once).answer.empty());
  CHECK(status_of(ask(strict.port(), {TLS1_3_VERSION}, get_once).answer) == 200);
}

TEST_CASE("http tls: a client's certificate is asked for and its name is known", "[http]") {
  const Certificate certificate("server"), own("ann"), foreign("mallory");
  ServerOptions options = options_for_tests();
  options.tls.certificate = certificate.path;
  options.tls.client_ca = own.path;
  options.tls.client_certificate_required = true;
  Served served(std::move(options));
  served.handler.answers = [](Request request, Answer answer) {
    answer.reply({200, request.head.peer.certificate});
  };
  CHECK(ask(served.port(), {0, &own}, get_once).answer.ends_with("\r\n\r\nann"));
  CHECK(ask(served.port(), {0, nullptr}, get_once).answer.empty());
  CHECK(ask(served.port(), {0, &foreign}, get_once).answer.empty());
}

TEST_CASE("http tls: a reload shows the new certificate and a bad one changes nothing", "[http]") {
  const Certificate first("first"), second("second");
  ServerOptions options = options_for_tests();
  options.tls.certificate = first.path;
  Served served(std::move(options));
  CHECK(ask(served.port(), {}, get_once).server_name == "first");
  ClientTls next;
  next.certificate = second.path;
  CHECK(served.server.reload(next, [] { return std::string("wrong rules"); }) == "wrong rules");
  CHECK(ask(served.port(), {}, get_once).server_name == "first");
  CHECK(served.server.reload(next, [] { return std::string(); }).empty());
  CHECK(ask(served.port(), {}, get_once).server_name == "second");
  next.certificate = "/nonexistent";
  bool asked = false;
  const auto rest = [&] {
    asked = true;
    return std::string();
  };
  CHECK_THROWS_AS(served.server.reload(next, rest), std::runtime_error);
  CHECK(!asked);
  CHECK(ask(served.port(), {}, get_once).server_name == "second");
}

TEST_CASE("http proxy header: it names the client where the sender may say so", "[http]") {
  // PROXY over TCP/IPv4 from 192.0.2.7:1000 to 192.0.2.8:80.
  const std::string header(
      "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x08\x03\xe8\0\x50", 28);
  const Certificate certificate("server");
  for (const bool tls : {false, true}) {
    ServerOptions options = options_for_tests();
    options.listeners = {parse_listener("web=127.0.0.1:0,proxy")};
    options.proxy_protocol_from = {*Network::parse("127.0.0.0/8")};
    if (tls) options.tls.certificate = certificate.path;
    Served served(std::move(options));
    served.handler.answers = [](Request request, Answer answer) {
      answer.reply({200, request.head.peer.listener + " " + request.head.peer.address.text()});
    };
    if (tls) {
      CHECK(ask(served.port(), {0, nullptr, {}, header}, get_once)
                .answer.ends_with("web 192.0.2.7:1000"));
      continue;
    }
    for (std::size_t at = 0; at <= header.size(); ++at) {
      Client client(served.port());
      client.send(header.substr(0, at));
      std::this_thread::sleep_for(1ms);
      client.send(header.substr(at) + get_once);
      REQUIRE(client.rest().ends_with("web 192.0.2.7:1000"));
    }
    Client without(served.port());
    without.send(get_once);
    CHECK(without.rest().empty());
  }
  ServerOptions options = options_for_tests();
  options.listeners = {parse_listener("web=127.0.0.1:0,proxy")};
  Served served(std::move(options));
  Client untrusted(served.port());
  untrusted.send(header + get_once);
  CHECK(status_of(untrusted.rest()) == 400);
}

}  // namespace
}  // namespace termgate::http::testing
