// Several sessions may have the same PID, for example if --backend names several servers. So the
// key decides.
#include <termgate/net/cancel_registry.hpp>

#include <openssl/crypto.h>

#include <array>

namespace termgate::net {
namespace {

constexpr std::size_t client_key_bytes = 32;

// Takes a time that depends only on the lengths.
bool same(std::string_view held, std::string_view given) noexcept {
  return held.size() == given.size() && CRYPTO_memcmp(held.data(), given.data(), held.size()) == 0;
}

}  // namespace

CancelRegistry::Ticket CancelRegistry::add(const Target& target, std::string_view client_key) {
  const std::lock_guard lock(mutex_);
  const Ticket ticket = ++last_;
  // A server key of four bytes means protocol 3.0, so the client was given only four too.
  const std::size_t bytes = target.key.size() == 4 ? 4 : client_key_bytes;
  by_pid_.emplace(target.pid, Entry{target, std::string(client_key.substr(0, bytes)), ticket});
  pids_.emplace(ticket, target.pid);
  return ticket;
}

void CancelRegistry::remove(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  const auto pid = pids_.find(ticket);
  if (pid == pids_.end()) return;
  auto [entry, end] = by_pid_.equal_range(pid->second);
  for (; entry != end; ++entry) {
    if (entry->second.ticket != ticket) continue;
    by_pid_.erase(entry);
    break;
  }
  pids_.erase(pid);
}

std::optional<CancelRegistry::Target> CancelRegistry::find(std::uint32_t pid,
                                                           std::string_view key) const {
  static constexpr std::array<char, client_key_bytes> nobodys{};
  const std::lock_guard lock(mutex_);
  const Entry* found = nullptr;
  const auto [first, end] = by_pid_.equal_range(pid);
  // An unknown process must cost a comparison too.
  if (first == end)
    (void)same({nobodys.data(), std::min(key.size(), nobodys.size())},
               key.substr(0, nobodys.size()));
  for (auto entry = first; entry != end; ++entry) {
    if (same(entry->second.client_key, key)) found = &entry->second;
  }
  if (found == nullptr) return std::nullopt;
  return found->target;
}

std::size_t CancelRegistry::size() const {
  const std::lock_guard lock(mutex_);
  return by_pid_.size();
}

}  // namespace termgate::net
