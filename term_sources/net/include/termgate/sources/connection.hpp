// Connection: a byte stream to one of a service's hosts, with or without TLS. Every call ends by
// its deadline. One thread at a time. It is a Beast SyncStream, so Beast's HTTP runs on it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/system/system_error.hpp>

#include <termgate/sources/url.hpp>

namespace termgate::sources {

using Deadline = std::chrono::steady_clock::time_point;

struct TlsSettings {
  bool on = false;
  std::string ca_file;    // empty: the system's CA certificates
  std::string cert_file;  // the client's certificate, together with key_file; empty: none
  std::string key_file;

  // Takes the options ca-file, cert-file and key-file. Throws InvalidInput for a certificate
  // without a key or the reverse, and for any of the three without TLS.
  static TlsSettings of(const SourceUrl& url, bool on);
};

class Connection {
 public:
  // `what` names the service in messages. The certificate must be valid for the host's name. Throws
  // InvalidInput where a file of `tls` cannot be read.
  Connection(std::string what, std::vector<HostPort> hosts, TlsSettings tls);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Connects to the first host that answers, beginning with the one that answered last. Each host
  // gets a share of the time to the deadline, so one that does not answer cannot use it all up.
  // Throws Unavailable. (Resolving a name may take as long as the system's resolver does.)
  void open(Deadline deadline);
  bool is_open() const noexcept;
  void close() noexcept;
  // From now on the next host is tried first.
  void avoid() noexcept;
  const std::string& host() const noexcept;  // of the open connection

  // Sets the deadline of the calls that follow.
  void set_deadline(Deadline deadline) noexcept;
  template <class Buffers>
  std::size_t write_some(const Buffers& buffers, boost::system::error_code& error) {
    for (auto at = boost::asio::buffer_sequence_begin(buffers);
         at != boost::asio::buffer_sequence_end(buffers); ++at) {
      const boost::asio::const_buffer one = *at;
      if (one.size() > 0) return send(one.data(), one.size(), error);
    }
    error = {};
    return 0;
  }
  template <class Buffers>
  std::size_t read_some(const Buffers& buffers, boost::system::error_code& error) {
    for (auto at = boost::asio::buffer_sequence_begin(buffers);
         at != boost::asio::buffer_sequence_end(buffers); ++at) {
      const boost::asio::mutable_buffer one = *at;
      if (one.size() > 0) return receive(one.data(), one.size(), error);
    }
    error = {};
    return 0;
  }
  template <class Buffers>
  std::size_t write_some(const Buffers& buffers) {
    boost::system::error_code error;
    const std::size_t done = write_some(buffers, error);
    if (error) throw boost::system::system_error(error);
    return done;
  }
  template <class Buffers>
  std::size_t read_some(const Buffers& buffers) {
    boost::system::error_code error;
    const std::size_t done = read_some(buffers, error);
    if (error) throw boost::system::system_error(error);
    return done;
  }

 private:
  std::size_t send(const void* data, std::size_t size, boost::system::error_code& error);
  std::size_t receive(void* data, std::size_t size, boost::system::error_code& error);
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::sources
