// Which server session a cancel request is for, found by the server's process id, as sent to the
// client, and a secret of the proxy's own. Any thread.
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
  // Where a cancel request goes, and what it must contain.
  struct Target {
    http::Endpoint server;
    std::string server_name;  // for the check of the certificate
    bool tls = false;
    std::uint32_t pid = 0;
    std::string key;  // the server's own cancel key
  };

  using Ticket = std::uint64_t;

  // `client_key`: 32 bytes. A client of protocol 3.0, recognized by a server key of 4 bytes, was
  // given only the first 4 of them.
  Ticket add(const Target& target, std::string_view client_key);
  void remove(Ticket ticket);

  // An unknown process costs a comparison too, so that the time does not show whether it exists.
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
