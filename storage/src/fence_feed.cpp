// Chooses the feed for a database URL. Only PostgreSQL notifies (LISTEN); for the others there is
// none and the caller polls.
#include <termgate/detail/fence_feed.hpp>
#include <termgate/info.hpp>

#include <termgate/error.hpp>
#ifdef TERMGATE_WITH_POSTGRES
#include <termgate/detail/postgres_fence_feed.hpp>
#endif
#ifdef TERMGATE_DRIVERS_ON_DEMAND
#include "driver_library.hpp"
#endif

namespace termgate {
inline namespace v0 {
namespace detail {

#ifdef TERMGATE_WITH_POSTGRES
namespace {

class OnPostgres final : public FenceFeed {
 public:
  OnPostgres(std::string_view url, std::string_view schema, std::string_view database,
             std::string_view channel)
      : feed_(std::string(url), database, std::string(schema), std::string(channel)) {}
  Heard wait(std::chrono::milliseconds at_most) override {
    Heard heard;
    heard.missed = feed_.wait(at_most, payloads_max, heard.payloads, heard.connected_anew) > 0;
    return heard;
  }
  std::vector<FenceInfo> fences(std::string_view after, int limit) override {
    std::vector<FenceInfo> all;
    for (auto& fence : feed_.fences(after, limit)) all.push_back(info(std::move(fence)));
    return all;
  }
  std::optional<FenceInfo> fence(std::string_view scope) override {
    auto fence = feed_.fence(scope);
    if (!fence) return std::nullopt;
    return info(*std::move(fence));
  }
  std::string owner() override { return feed_.owner(); }
  bool owner_is_trusted(std::string_view owner) override { return feed_.owner_is_trusted(owner); }
  std::string database() const override { return feed_.database(); }
  Place place() const override { return {feed_.host(), feed_.port()}; }
  int descriptor() const noexcept override { return feed_.descriptor(); }
  void wake() noexcept override { feed_.wake(); }

 private:
  static FenceInfo info(PostgresFenceFeed::Fence&& fence) {
    FenceInfo info;
    info.scope = std::move(fence.scope);
    info.term = fence.term;
    info.reset_from = fence.reset_from;
    return info;
  }

  PostgresFenceFeed feed_;
};

}  // namespace
#endif

std::unique_ptr<FenceFeed> open_fence_feed(std::string_view url,
                                           [[maybe_unused]] std::string_view schema,
                                           [[maybe_unused]] std::string_view database,
                                           [[maybe_unused]] std::string_view channel) {
  // These databases do not notify.
  for (const std::string_view silent : {"sqlite:", "sqlserver:", "odbc:"}) {
    if (url.starts_with(silent)) return nullptr;
  }
#ifdef TERMGATE_WITH_POSTGRES
  if (url.starts_with("postgresql:") || url.starts_with("postgres:"))
    return std::make_unique<OnPostgres>(url, schema, database, channel);
#endif
#ifdef TERMGATE_DRIVERS_ON_DEMAND
  if (url.starts_with("postgresql:") || url.starts_with("postgres:"))
    return driver_library("postgresql").open_fence_feed(url, schema, database, channel);
#endif
  throw InvalidInput("TG005 unknown kind of database URL: it starts with postgresql:");
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
