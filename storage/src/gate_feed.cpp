// Feeds of wanted gates on SQL Server (decision 0011) and of wanted seats on PostgreSQL (decision
// 0026). A build without ODBC lacks the former, one without PostgreSQL's driver the latter.
#include <termgate/detail/gate_feed.hpp>

#ifdef TERMGATE_WITH_POSTGRES
#include <termgate/detail/postgres_gate_feed.hpp>
#endif
#ifdef TERMGATE_WITH_ODBC
#include <termgate/detail/odbc_gate_feed.hpp>

#include "json_text.hpp"
#endif

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

#ifdef TERMGATE_WITH_POSTGRES
class WantedSeats final : public GateFeed {
 public:
  WantedSeats(std::string_view url, std::string_view schema) : feed_(std::string(url), schema) {}

  // The feed finds seats by its secret. If the URL leads to another database now, or if no session
  // may have a seat any more, all of them must be given back.
  std::vector<std::string> wanted(const std::vector<std::string>& scopes) override {
    PostgresGateFeed::Wanted wanted = feed_.wanted();
    return wanted.all ? scopes : std::move(wanted.scopes);
  }
  std::string_view secret() const noexcept override { return feed_.secret(); }
  bool code_prevents_seats() const noexcept override { return feed_.code_prevents_seats(); }
  bool runs_any_text() const noexcept override { return feed_.runs_any_text(); }

 private:
  PostgresGateFeed feed_;
};
#endif

#ifdef TERMGATE_WITH_ODBC
class OnSqlServer final : public GateFeed {
 public:
  OnSqlServer(std::string_view url, std::string_view schema) : feed_(url, schema) {}

  bool has_gates() const noexcept { return feed_.has_gates(); }
  std::vector<std::string> wanted(const std::vector<std::string>& scopes) override {
    std::vector<std::string> all;
    // In groups of scopes_max: one parameter carries the list, as a JSON array.
    std::size_t at = 0;
    do {
      std::string json = "[";
      for (const std::size_t end = at + scopes_max; at < scopes.size() && at < end; ++at) {
        if (json.size() > 1) json += ',';
        append_json(json, scopes[at]);
      }
      for (std::string& one : feed_.wanted(json + "]")) all.push_back(std::move(one));
    } while (at < scopes.size());
    return all;
  }

 private:
  OdbcGateFeed feed_;
};
#endif

}  // namespace

std::unique_ptr<GateFeed> open_gate_feed([[maybe_unused]] std::string_view url,
                                         [[maybe_unused]] std::string_view schema) {
#ifdef TERMGATE_WITH_POSTGRES
  if (url.starts_with("postgres:") || url.starts_with("postgresql:"))
    return std::make_unique<WantedSeats>(url, schema);
#endif
#ifdef TERMGATE_WITH_ODBC
  if (url.starts_with("sqlserver:") || url.starts_with("odbc:")) {
    auto feed = std::make_unique<OnSqlServer>(url, schema);
    if (feed->has_gates()) return feed;
  }
#endif
  return nullptr;
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
