#include "shared_host.hpp"

#include <algorithm>

#include "connection.hpp"

namespace termgate::net {

void SharedHost::leave() {
  holds_gate({});
  fences_.reset();
}

// Called only once the server has admitted the client: before that a client must not make the proxy
// query a database.
conversation::Fences* SharedHost::fences() const {
  if (!fences_) fences_ = worker_.shared().authority.fences(connection_.who()->database);
  return fences_.get();
}

std::int64_t SharedHost::highest_fence(std::string_view scope) const {
  const conversation::Fences* known = fences();
  const std::int64_t fence = known != nullptr ? known->highest(scope) : 0;
  // A term that was never checked must not cause a refusal, so it counts only where nothing is
  // refused.
  return observed_ ? std::max(fence, worker_.shared().observed.highest(key_of(scope))) : fence;
}

void SharedHost::saw_fence(std::string_view scope, std::int64_t fence) {
  if (conversation::Fences* known = fences()) known->hint(scope, fence);
}

std::string SharedHost::untrusted(std::string_view scope) const {
  const conversation::Fences* known = fences();
  return known != nullptr ? known->untrusted(scope) : std::string();
}

void SharedHost::holds_gate(std::string_view scope) {
  if (gate_ == scope) return;
  conversation::Authority& authority = worker_.shared().authority;
  if (!gate_.empty()) authority.gate_left(gate_);
  gate_ = scope;
  if (!gate_.empty()) authority.gate_held(gate_);
}

conversation::SeatOffer SharedHost::seat_offer() const {
  const conversation::LoginRequest* who = connection_.who();
  return who != nullptr ? worker_.shared().authority.seat_offer(who->database)
                        : conversation::SeatOffer();
}

void SharedHost::saw_term(std::string_view scope, std::int64_t term) {
  worker_.shared().observed.saw(key_of(scope), term);
}

bool SharedHost::server_has_guard() const {
  return worker_.shared().guarded_logins.contains(login_key());
}

void SharedHost::saw_server_guard(bool there) {
  worker_.shared().guarded_logins.set(login_key(), there);
}

bool SharedHost::known_to_write(std::size_t text) const {
  return worker_.shared().writing_texts.contains(connection_.who()->database, text);
}

void SharedHost::saw_writing(std::size_t text) {
  worker_.shared().writing_texts.add(connection_.who()->database, text);
}

statements::Cache& SharedHost::statements() { return worker_.statements(); }

void SharedHost::happened(const conversation::Incident& incident) {
  worker_.happened(connection_, incident);
}

// NUL separates the two: no scope, user or database has one in its name.
std::string SharedHost::key_of(std::string_view scope) const {
  std::string key = connection_.who()->database;
  key += '\0';
  key += scope;
  return key;
}

std::string SharedHost::login_key() const {
  const conversation::LoginRequest& login = *connection_.who();
  return login.user + '\0' + login.database;
}

}  // namespace termgate::net
