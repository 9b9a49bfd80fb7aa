// Counts connections by user, database and address. Any thread, under one mutex. enter() checks all
// limits before it counts anything, so a refusal changes nothing.
#include <termgate/net/limit_book.hpp>

#include <algorithm>

#include <fmt/format.h>

namespace termgate::net {
namespace {

std::size_t count_of(const std::unordered_map<std::string, std::size_t>& counts,
                     const std::string& name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

void take_one(std::unordered_map<std::string, std::size_t>& counts, const std::string& name) {
  const auto found = counts.find(name);
  if (found == counts.end()) return;
  if (--found->second == 0) counts.erase(found);
}

}  // namespace

LimitBook::Verdict LimitBook::enter(const std::string& user, const std::string& database,
                                    const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (connections_ >= limits_.connections) return Verdict::connections;
  if (limits_.per_user != 0 && count_of(users_, user) >= limits_.per_user) return Verdict::user;
  if (limits_.per_database != 0 && count_of(databases_, database) >= limits_.per_database)
    return Verdict::database;
  if (limits_.per_address != 0 && count_of(addresses_, address) >= limits_.per_address)
    return Verdict::address;
  peak_ = std::max(peak_, ++connections_);
  ++users_[user];
  ++databases_[database];
  ++addresses_[address];
  return Verdict::in;
}

void LimitBook::leave(const std::string& user, const std::string& database,
                      const std::string& address) {
  const std::lock_guard lock(mutex_);
  --connections_;
  take_one(users_, user);
  take_one(databases_, database);
  take_one(addresses_, address);
}

std::string LimitBook::message(Verdict verdict) const {
  const std::lock_guard lock(mutex_);
  switch (verdict) {
    case Verdict::in: break;
    case Verdict::connections:
      return fmt::format("too many connections: the proxy's limit is {} (--max-connections)",
                         limits_.connections);
    case Verdict::user:
      return fmt::format(
          "too many connections for this user: the proxy's limit is {} "
          "(--max-connections-per-user)",
          limits_.per_user);
    case Verdict::database:
      return fmt::format(
          "too many connections for this database: the proxy's limit is {} "
          "(--max-connections-per-database)",
          limits_.per_database);
    case Verdict::address:
      return fmt::format(
          "too many connections from this address: the proxy's limit is {} "
          "(--max-connections-per-address)",
          limits_.per_address);
  }
  return {};
}

void LimitBook::set(const Limits& limits) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
}

std::size_t LimitBook::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_;
}

std::size_t LimitBook::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

std::size_t LimitBook::limit() const {
  const std::lock_guard lock(mutex_);
  return limits_.connections;
}

}  // namespace termgate::net
