// Which server session a cancel request means: the server's process id, as sent to the client, and a secret of our own.
// Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <termgate/http/endpoint.hpp>

namespace termgate::net {

class CancelRegistry {
 public:
  // Where a cancel request goes, and in what dress.
  struct Target {
    http::Endpoint server;
    std::string server_name;  // for the certificate's check
    bool tls = false;
    std::uint32_t pid = 0;
    std::string key;  // the server's own
  };

  using Ticket = std::uint64_t;

  // `client_key`: the 32 bytes that the client may have been given. One of protocol 3.0 got the first 4 of them, which is so where
  // the server's own key has 4 bytes.
  Ticket add(const Target& target, std::string_view client_key);
  void remove(Ticket ticket);

  // Takes as long for a key that is wrong as for a process that is not there.
  std::optional<Target> find(std::uint32_t pid, std::string_view key) const;
  std::size_t size() const;

 private:
  struct Entry {
    Target target;
    std::string client_key;
    Ticket ticket = 0;
  };
  mutable std::mutex mutex_;  // guards all below
  std::unordered_multimap<std::uint32_t, Entry> by_pid_;
  std::unordered_map<Ticket, std::uint32_t> pids_;
  Ticket last_ = 0;
};

}  // namespace termgate::net
