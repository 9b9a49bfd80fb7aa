#include <termgate/admin/scopes.hpp>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include <termgate/info.hpp>
#include <termgate/text/ascii.hpp>

namespace termgate::admin {
namespace {

constexpr int page_rows = 1000;

template <class Page, class Use>
void each(Page page, Use use) {
  std::string after;
  for (;;) {
    auto items = page(after);
    if (!items.empty()) after = items.back().scope;
    for (auto& item : items) use(std::move(item));
    if (items.size() < page_rows) return;
  }
}

}  // namespace

const char* state_of(const LeaseInfo& lease) {
  return lease.released_at_ms ? "released" : lease.remaining_ms > 0 ? "held" : "expired";
}

bool found_in(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::any_of(all.begin(), all.end(), [&](std::string_view one) {
    return std::search(one.begin(), one.end(), text.begin(), text.end(),
                       [](char a, char b) { return text::lower(a) == text::lower(b); }) !=
               one.end() ||
           text.empty();
  });
}

std::int64_t Scopes::count(std::string_view state) const {
  return std::count_if(rows.begin(), rows.end(),
                       [&](const ScopeRow& row) { return row.state() == state; });
}

std::int64_t Scopes::untrusted() const {
  return std::count_if(rows.begin(), rows.end(),
                       [](const ScopeRow& row) { return row.fence && row.fence->untrusted; });
}

std::shared_ptr<const Scopes> ScopeBook::look() {
  const std::lock_guard lock(mutex_);
  const auto began = Clock::now();
  if (last_ && began < good_until_) return last_;
  auto read = std::make_shared<Scopes>();
  read->now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count();
  std::map<std::string, ScopeRow> rows;
  each([&](const std::string& after) { return Info(database_).leases(after, page_rows); },
       [&](LeaseInfo&& lease) {
         if (!lease.released_at_ms) read->now_ms = lease.expires_at_ms - lease.remaining_ms;
         rows[lease.scope].lease = std::move(lease);
       });
  each([&](const std::string& after) { return Info(database_).fences(after, page_rows); },
       [&](FenceInfo&& fence) { rows[fence.scope].fence = std::move(fence); });
  read->rows.reserve(rows.size());
  for (auto& [scope, row] : rows) {
    row.scope = scope;
    read->rows.push_back(std::move(row));
  }
  last_ = std::move(read);
  good_until_ = Clock::now() + 10 * (Clock::now() - began);
  return last_;
}

void ScopeBook::forget() {
  const std::lock_guard lock(mutex_);
  last_ = nullptr;
}

}  // namespace termgate::admin
