// PostgreSQL's feed of notifications: raised fences, released leases, appends. Internal; no libpqxx
// type appears here. One thread waits and reads; any thread may wake it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace termgate {
inline namespace v0 {
namespace detail {

class PostgresFenceFeed {
 public:
  struct Fence {
    std::string scope;
    std::int64_t term = 0;
    std::optional<std::int64_t> reset_from;
  };

  // `url` is libpq's URI; `database`, unless empty, replaces the one in the URL. Connects at first
  // use.
  PostgresFenceFeed(std::string url, std::string_view database, std::string schema,
                    std::string channel);
  ~PostgresFenceFeed();
  PostgresFenceFeed(const PostgresFenceFeed&) = delete;
  PostgresFenceFeed& operator=(const PostgresFenceFeed&) = delete;

  // Sets `payloads` to at most `payloads_max` payloads, drops further ones, and returns how many.
  // Sets `connected_anew` to whether it has connected, or begun to listen, in this call.
  std::size_t wait(std::chrono::milliseconds at_most, std::size_t payloads_max,
                   std::vector<std::string>& payloads, bool& connected_anew);
  void wake() noexcept;

  // These use the connection that wait() made. On the channel "termgate" the server cancels a query
  // after five seconds.
  std::vector<Fence> fences(std::string_view after, int limit);
  std::optional<Fence> fence(std::string_view scope);
  std::string owner();
  bool owner_is_trusted(std::string_view owner);

  std::string database() const;
  std::string host() const;
  std::string port() const;
  int descriptor() const noexcept;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace detail
}  // namespace v0
}  // namespace termgate
