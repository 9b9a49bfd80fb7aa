#include <termgate/detail/fence_feed.hpp>

#include <termgate/error.hpp>
#ifdef TERMGATE_WITH_POSTGRES
#include <termgate/detail/postgres_fence_feed.hpp>
#endif

namespace termgate::inline v0::detail {

#ifdef TERMGATE_WITH_POSTGRES
namespace {

class OnPostgres final : public FenceFeed {
 public:
  explicit OnPostgres(std::string url) : feed_(std::move(url)) {}
  Heard wait(std::chrono::milliseconds at_most) override {
    Heard heard;
    heard.missed = feed_.wait(at_most, payloads_max, heard.payloads, heard.connected_anew) > 0;
    return heard;
  }
  void wake() noexcept override { feed_.wake(); }

 private:
  PostgresFenceFeed feed_;
};

}  // namespace
#endif

std::unique_ptr<FenceFeed> open_fence_feed(std::string_view url) {
  if (url.starts_with("sqlite:")) return nullptr;
#ifdef TERMGATE_WITH_POSTGRES
  if (url.starts_with("postgresql:") || url.starts_with("postgres:")) return std::make_unique<OnPostgres>(std::string(url));
#endif
  throw InvalidInput("TG005 unknown kind of database URL: it starts with postgresql:");
}

}  // namespace termgate::inline v0::detail
