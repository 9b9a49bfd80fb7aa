#include <termgate/sources/connection.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/ssl.hpp>
#include <fmt/format.h>

#include <termgate/error.hpp>

namespace termgate::sources {

namespace asio = boost::asio;
using boost::system::error_code;
using Tls = asio::ssl::stream<boost::beast::tcp_stream>;

TlsSettings TlsSettings::of(const SourceUrl& url, bool on) {
  TlsSettings tls{on, url.option("ca-file"), url.option("cert-file"), url.option("key-file")};
  if (!on && !(tls.ca_file.empty() && tls.cert_file.empty() && tls.key_file.empty()))
    throw InvalidInput(fmt::format(
        "TG005 the URL of the term source: {} does not use TLS, but a file for TLS is given",
        url.scheme));
  if (tls.cert_file.empty() != tls.key_file.empty())
    throw InvalidInput(
        "TG005 the URL of the term source: cert-file and key-file are given together or not at "
        "all");
  return tls;
}

struct Connection::Inside {
  std::string what;
  std::vector<HostPort> hosts;
  TlsSettings tls;
  std::size_t first = 0;
  asio::io_context context{1};
  asio::ssl::context tls_context{asio::ssl::context::tls_client};
  std::unique_ptr<boost::beast::tcp_stream> plain{};
  std::unique_ptr<Tls> secure{};
  Deadline deadline{};
  bool open = false;

  // Starts an asynchronous operation and runs it until it ends, at the deadline at the latest.
  template <class Start>
  void run(boost::beast::tcp_stream& stream, Start start) {
    stream.expires_at(deadline);
    start();
    context.restart();
    context.run();
  }
  void drop() noexcept {
    open = false;
    secure.reset();
    plain.reset();
  }

  error_code connect(const HostPort& to, Deadline until) {
    deadline = until;
    drop();
    error_code error;
    asio::ip::tcp::resolver resolver(context);
    const auto found = resolver.resolve(to.host, std::to_string(to.port), error);
    if (error) return error;
    if (tls.on) secure = std::make_unique<Tls>(context, tls_context);
    else plain = std::make_unique<boost::beast::tcp_stream>(context);
    auto& lowest = tls.on ? secure->next_layer() : *plain;
    run(lowest, [&] {
      lowest.async_connect(found, [&](error_code result, const auto&) { error = result; });
    });
    if (error) return error;
    lowest.socket().set_option(asio::ip::tcp::no_delay(true), error);
    if (tls.on) {
      error_code address;
      asio::ip::make_address(to.host, address);
      if (address && SSL_set_tlsext_host_name(secure->native_handle(), to.host.c_str()) != 1)
        return asio::error::make_error_code(asio::error::invalid_argument);
      secure->set_verify_callback(asio::ssl::host_name_verification(to.host));
      run(lowest, [&] {
        secure->async_handshake(asio::ssl::stream_base::client,
                                [&](error_code result) { error = result; });
      });
    }
    open = !error;
    return error;
  }
};

Connection::Connection(std::string what, std::vector<HostPort> hosts, TlsSettings tls)
    : inside_(std::make_unique<Inside>()) {
  inside_->what = std::move(what);
  inside_->hosts = std::move(hosts);
  inside_->tls = std::move(tls);
  const TlsSettings& wanted = inside_->tls;
  if (!wanted.on) return;
  auto& context = inside_->tls_context;
  error_code error;
  const auto check = [&](const std::string& path) {
    if (error)
      throw InvalidInput(
          fmt::format("TG005 the file {} cannot be used for TLS: {}", path, error.message()));
  };
  context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                      asio::ssl::context::no_tlsv1_1);
  context.set_verify_mode(asio::ssl::verify_peer);
  if (wanted.ca_file.empty()) context.set_default_verify_paths(error);
  else context.load_verify_file(wanted.ca_file, error);
  check(wanted.ca_file);
  if (wanted.cert_file.empty()) return;
  context.use_certificate_chain_file(wanted.cert_file, error);
  check(wanted.cert_file);
  context.use_private_key_file(wanted.key_file, asio::ssl::context::pem, error);
  check(wanted.key_file);
}

Connection::~Connection() = default;

void Connection::open(Deadline deadline) {
  std::string why;
  const std::size_t count = inside_->hosts.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = (inside_->first + i) % count;
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) break;
    const HostPort& to = inside_->hosts[index];
    const error_code error =
        inside_->connect(to, now + (deadline - now) / static_cast<int>(count - i));
    if (!error) {
      inside_->first = index;
      inside_->deadline = deadline;
      return;
    }
    inside_->drop();
    why += fmt::format("{}{}:{}: {}", why.empty() ? "" : "; ", to.host, to.port, error.message());
  }
  throw Unavailable(
      fmt::format("{} cannot be reached ({}); nothing was requested of it", inside_->what, why));
}

bool Connection::is_open() const noexcept { return inside_->open; }
void Connection::close() noexcept { inside_->drop(); }
void Connection::avoid() noexcept { inside_->first = (inside_->first + 1) % inside_->hosts.size(); }
const std::string& Connection::host() const noexcept { return inside_->hosts[inside_->first].host; }
void Connection::set_deadline(Deadline deadline) noexcept { inside_->deadline = deadline; }

std::size_t Connection::send(const void* data, std::size_t size, error_code& error) {
  std::size_t done = 0;
  if (!inside_->open) {
    error = asio::error::make_error_code(asio::error::not_connected);
    return 0;
  }
  const auto ended = [&](error_code result, std::size_t length) {
    error = result;
    done = length;
  };
  auto& lowest = inside_->tls.on ? inside_->secure->next_layer() : *inside_->plain;
  inside_->run(lowest, [&] {
    if (inside_->tls.on) inside_->secure->async_write_some(asio::const_buffer(data, size), ended);
    else inside_->plain->async_write_some(asio::const_buffer(data, size), ended);
  });
  return done;
}

std::size_t Connection::receive(void* data, std::size_t size, error_code& error) {
  std::size_t done = 0;
  if (!inside_->open) {
    error = asio::error::make_error_code(asio::error::not_connected);
    return 0;
  }
  const auto ended = [&](error_code result, std::size_t length) {
    error = result;
    done = length;
  };
  auto& lowest = inside_->tls.on ? inside_->secure->next_layer() : *inside_->plain;
  inside_->run(lowest, [&] {
    if (inside_->tls.on) inside_->secure->async_read_some(asio::mutable_buffer(data, size), ended);
    else inside_->plain->async_read_some(asio::mutable_buffer(data, size), ended);
  });
  return done;
}

}  // namespace termgate::sources
