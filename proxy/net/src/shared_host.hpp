// What one session shares with others: fences, gates, seats, and what its database has shown.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <termgate/conversation/session_host.hpp>

#include "worker.hpp"

namespace termgate::net {

// Owned by the session's Relay; the session calls it on its worker's thread. It keeps the scope
// whose gate the session holds, until leave().
class SharedHost final : public conversation::SessionHost {
 public:
  SharedHost(const Connection& connection, Worker& worker)
      : connection_(connection), worker_(worker) {}

  // Whether refusals of this session are only recorded (--enforce observe).
  void set_observed(bool observed) noexcept { observed_ = observed; }
  const std::string& gate() const noexcept { return gate_; }
  // The fences of the session's database, once it has needed them.
  const conversation::Fences* known_fences() const noexcept { return fences_.get(); }
  void leave();

  std::int64_t highest_fence(std::string_view scope) const override;
  void saw_fence(std::string_view scope, std::int64_t fence) override;
  std::string untrusted(std::string_view scope) const override;
  void holds_gate(std::string_view scope) override;
  conversation::SeatOffer seat_offer() const override;
  void saw_term(std::string_view scope, std::int64_t term) override;
  bool server_has_guard() const override;
  void saw_server_guard(bool there) override;
  bool known_to_write(std::size_t text) const override;
  void saw_writing(std::size_t text) override;
  statements::Cache& statements() override;
  void happened(const conversation::Incident& incident) override;

 private:
  conversation::Fences* fences() const;  // nullptr: no fence is known
  std::string key_of(std::string_view scope) const;
  std::string login_key() const;

  const Connection& connection_;
  Worker& worker_;
  bool observed_ = false;
  mutable std::shared_ptr<conversation::Fences> fences_;
  std::string gate_;  // the scope whose gate the session holds; empty: none
};

}  // namespace termgate::net
