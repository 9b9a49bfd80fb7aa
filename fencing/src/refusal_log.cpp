#include <termgate/detail/refusal_log.hpp>

#include <algorithm>
#include <utility>

namespace termgate::inline v0::detail {

std::optional<Refusals> RefusalLog::note(const std::string& scope, std::int64_t term, std::int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= scopes_max && !entries_.contains(scope)) return Refusals{scope, term, 1, now_ms, now_ms};
  Entry& entry = entries_[scope];
  Refusals& gathered = entry.gathered;
  if (gathered.count == 0) gathered = {scope, term, 0, now_ms, now_ms};
  gathered.term = term;
  ++gathered.count;
  gathered.last_ms = now_ms;
  if (now_ms - entry.reported_ms < pause_ms && now_ms >= entry.reported_ms) return std::nullopt;
  entry.reported_ms = now_ms;
  return std::exchange(gathered, {});
}

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

}  // namespace termgate::inline v0::detail
