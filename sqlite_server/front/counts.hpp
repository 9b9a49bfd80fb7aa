// The front's counters for /metrics. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace termgate::sqlite_front {

// Counters by a label whose values are all known; any other value counts as the last.
template <std::size_t size>
class Labelled {
 public:
  constexpr explicit Labelled(std::array<std::string_view, size> labels) : labels_(labels) {}
  void add(std::string_view label) noexcept {
    std::size_t index = 0;
    while (index + 1 < size && labels_[index] != label) ++index;
    values_[index].fetch_add(1, std::memory_order_relaxed);
  }
  template <typename Each>
  void each(const Each& call) const {
    for (std::size_t index = 0; index < size; ++index)
      call(labels_[index], values_[index].load(std::memory_order_relaxed));
  }

 private:
  const std::array<std::string_view, size> labels_;
  std::array<std::atomic<std::int64_t>, size> values_{};
};

struct Counts {
  Labelled<9> requests{{"/v2/pipeline", "/v3/pipeline", "/v3/cursor", "/v1/execute", "/v1/batch",
                        "/", "websocket", "replica", "other"}};
  Labelled<8> refusals{{"TG001", "TG002", "TG003", "TG004", "TG005", "TG006", "TG007", "other"}};
  Labelled<6> lost{
      {"TG001", "TRANSACTION_TIMEOUT", "DATABASE_MOVED", "CLIENT_GONE", "SERVER_ENDING", "other"}};
  Labelled<4> turned_away{
      {"token", "claim", "busy", "rule"}};  // requests that were refused as a whole
};

}  // namespace termgate::sqlite_front
