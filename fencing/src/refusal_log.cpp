// Gathers refusals by scope, so that the audit gets at most one entry a second for each
// (refusal_log.hpp).
#include <termgate/detail/refusal_log.hpp>

#include <algorithm>
#include <utility>

namespace termgate {
inline namespace v0 {
namespace detail {

std::optional<Refusals> RefusalLog::note(const std::string& scope, std::int64_t term,
                                         std::int64_t now_ms, std::string client) {
  const std::lock_guard lock(mutex_);
  // A full map gathers no more scopes: these refusals are reported one by one, so that none is
  // lost.
  if (entries_.size() >= scopes_max && !entries_.contains(scope))
    return Refusals{scope, term, 1, now_ms, now_ms, std::move(client)};
  Entry& entry = entries_[scope];
  Refusals& gathered = entry.gathered;
  if (gathered.count == 0) gathered = {scope, term, 0, now_ms, now_ms, {}};
  gathered.term = term;
  gathered.client = std::move(client);
  ++gathered.count;
  gathered.last_ms = now_ms;
  // A wall clock that was set back must not silence a scope until it has caught up.
  if (now_ms - entry.reported_ms < pause_ms && now_ms >= entry.reported_ms) return std::nullopt;
  entry.reported_ms = now_ms;
  return std::exchange(gathered, {});
}

// The report was not written. Other refusals may have been gathered meanwhile; their later term is
// kept.
void RefusalLog::put_back(const Refusals& refusals) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(refusals.scope);
  if (found == entries_.end()) return;
  Refusals& gathered = found->second.gathered;
  if (gathered.count == 0) {
    gathered = refusals;
    return;
  }
  gathered.count += refusals.count;
  gathered.first_ms = std::min(gathered.first_ms, refusals.first_ms);
}

std::vector<Refusals> RefusalLog::take_all() {
  const std::lock_guard lock(mutex_);
  std::vector<Refusals> all;
  for (auto& [scope, entry] : entries_) {
    if (entry.gathered.count > 0) all.push_back(std::exchange(entry.gathered, {}));
  }
  return all;
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
