// Opens PostgreSQL's feed of raised fences. Internal; no libpqxx type appears here. One thread waits; any thread may wake it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace termgate::inline v0::detail {

class PostgresFenceFeed {
 public:
  // `url` is libpq's URI. Connects on first use.
  explicit PostgresFenceFeed(std::string url);
  ~PostgresFenceFeed();
  PostgresFenceFeed(const PostgresFenceFeed&) = delete;
  PostgresFenceFeed& operator=(const PostgresFenceFeed&) = delete;

  // Appends at most `payloads_max` payloads; the rest is counted in the result. `connected_anew` is set where it connected.
  std::size_t wait(std::chrono::milliseconds at_most, std::size_t payloads_max, std::vector<std::string>& payloads, bool& connected_anew);
  void wake() noexcept;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::inline v0::detail
