// Connection: bytes to and from one of a service's hosts, with or without TLS, where every call ends by its deadline. One thread at a time.
// It is a Beast SyncStream, so Beast's HTTP runs on it.
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
  std::string ca_file;    // empty: the system's
  std::string cert_file;  // of the client, with key_file; empty: none
  std::string key_file;

  // Reads ca-file, cert-file and key-file. Throws InvalidInput for one without the other, and for any of them without TLS.
  static TlsSettings of(const SourceUrl& url, bool on);
};

class Connection {
 public:
  // `what` names the service in messages. The certificate must be valid for the host's name. Throws InvalidInput where a file of `tls`
  // cannot be read.
  Connection(std::string what, std::vector<HostPort> hosts, TlsSettings tls);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Connects to the first host that answers, beginning with the one that answered last. Throws Unavailable. No more than a deadline is left
  // for a host that does not answer: each gets its share. (Looking up a name may take as long as the system's resolver does.)
  void open(Deadline deadline);
  bool is_open() const noexcept;
  void close() noexcept;
  // The next host is tried first from now on.
  void avoid() noexcept;
  const std::string& host() const noexcept;  // of the open connection

  // For the calls that follow.
  void set_deadline(Deadline deadline) noexcept;
  template <class Buffers>
  std::size_t write_some(const Buffers& buffers, boost::system::error_code& error) {
    for (auto at = boost::asio::buffer_sequence_begin(buffers); at != boost::asio::buffer_sequence_end(buffers); ++at) {
      const boost::asio::const_buffer one = *at;
      if (one.size() > 0) return send(one.data(), one.size(), error);
    }
    error = {};
    return 0;
  }
  template <class Buffers>
  std::size_t read_some(const Buffers& buffers, boost::system::error_code& error) {
    for (auto at = boost::asio::buffer_sequence_begin(buffers); at != boost::asio::buffer_sequence_end(buffers); ++at) {
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
