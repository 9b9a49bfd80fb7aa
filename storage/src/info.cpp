// Info: turns the rows of the reading statements of sql/<database>/calls/ into values.
#include <termgate/info.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <termgate/detail/named_row.hpp>

#include "database_state.hpp"
#include "sql/statements.hpp"

namespace termgate {
inline namespace v0 {

using detail::convert_all;
using detail::convert_first;
using detail::NamedRow;
using detail::state_of;
using sql::Call;

namespace {

FenceInfo to_fence(const NamedRow& row) {
  return {row["scope"].as_text(),
          row["term"].as_int(),
          row["raised_at_ms"].as_optional_int().value_or(0),
          row["raised_by"].as_text(),
          row["raise_by"].as_text(),
          row["untrusted"].as_bool(),
          row["reset_from"].as_optional_int()};
}

LeaseInfo to_lease(const NamedRow& row) {
  return {row["scope"].as_text(),
          row["owner_id"].as_text(),
          row["term"].as_int(),
          row["expires_at_ms"].as_int(),
          row["acquired_at_ms"].as_int(),
          row["renewed_at_ms"].as_optional_int().value_or(0),
          row["released_at_ms"].as_optional_int(),
          row["endpoint"].as_text(),
          row["remaining_ms"].as_int()};
}

HandOverInfo to_hand_over(const NamedRow& row) {
  return {row["scope"].as_text(),
          row["owner_id"].as_text(),
          row["term"].as_int(),
          row["successor"].as_optional_text(),
          row["requested_by"].as_text(),
          row["reason"].as_text(),
          row["requested_at_ms"].as_int(),
          row["leave_before_ms"].as_int(),
          row["left_at_ms"].as_optional_int(),
          row["next_owner"].as_optional_text(),
          row["next_term"].as_optional_int(),
          row["taken_at_ms"].as_optional_int(),
          row["gap_ms"].as_optional_int(),
          row["state"].as_text()};
}

// The first version of layer 1 with hand-overs.
int hand_overs_since(std::string_view kind) {
  return kind == "postgresql" ? 24 : kind == "sqlserver" ? 16 : 8;
}

// A payload that is too large for a page, assembled from the parts that the database returns. None:
// it was pruned before or meanwhile.
std::optional<std::string> payload_in_parts(detail::DatabaseState& state, const std::string& stream,
                                            std::int64_t sequence_no, std::size_t bytes,
                                            std::size_t part_bytes) {
  std::string payload;
  if (bytes > part_bytes) payload.reserve(bytes);
  while (payload.size() < bytes) {
    const std::size_t due = std::min(part_bytes, bytes - payload.size());
    Rows rows = state.read(Call::read_payload, stream, sequence_no, payload.size(), due);
    if (rows.empty()) return std::nullopt;
    std::string part = std::move(rows.rows.front().front()).take_bytes();
    if (part.size() != due) {
      throw DatabaseError(fmt::format(
          "the payload of write {} of stream \"{}\" is too short: {} bytes at {} instead of {}",
          sequence_no, stream, part.size(), payload.size(), due));
    }
    if (due == bytes) return part;
    payload += part;
  }
  return payload;
}

}  // namespace

std::vector<std::pair<std::string, std::int64_t>> Info::refusal_counts() {
  return convert_all<std::pair<std::string, std::int64_t>>(
      state_of(database_).read(Call::refusal_counts),
      [](const auto& row) { return std::pair(row["code"].as_text(), row["count"].as_int()); });
}

std::optional<FenceInfo> Info::fence(const Scope& scope) {
  return convert_first<FenceInfo>(state_of(database_).read(Call::fence, scope.name()), to_fence);
}

std::vector<FenceInfo> Info::fences(std::string_view after, int limit) {
  return convert_all<FenceInfo>(state_of(database_).read(Call::fences, after, limit), to_fence);
}

std::optional<LeaseInfo> Info::lease(const Scope& scope) {
  return convert_first<LeaseInfo>(state_of(database_).read(Call::lease, scope.name()), to_lease);
}

std::vector<LeaseInfo> Info::leases(std::string_view after, int limit) {
  return convert_all<LeaseInfo>(state_of(database_).read(Call::leases, after, limit), to_lease);
}

std::vector<StreamWrite> Info::read_stream(const Stream& stream, SequenceNo after, int limit,
                                           std::size_t bytes_max) {
  const std::size_t part_bytes = state_of(database_).driver->payload_limits().part_bytes;
  // Payloads of at most `in_page` bytes come with the page itself. So the page has at most
  // `bytes_max` bytes of them, or 64 KiB for each write.
  constexpr std::size_t small = std::size_t{64} << 10;
  const std::size_t in_page = std::min(
      part_bytes, std::max(bytes_max / static_cast<std::size_t>(std::max(limit, 1)), small));
  std::int64_t pruned = 0;
  for (int attempt = 0; attempt < 10; ++attempt) {
    Rows rows =
        state_of(database_).read(Call::read_stream, stream.name(), after.value(), limit, in_page);
    std::vector<StreamWrite> writes;
    writes.reserve(rows.rows.size());
    std::size_t total = 0;
    pruned = 0;
    const auto payload_at =
        std::find(rows.columns.begin(), rows.columns.end(), "payload") - rows.columns.begin();
    for (Row& held : rows.rows) {
      const detail::NamedRow row(rows, held);
      const auto bytes = static_cast<std::size_t>(row["payload_bytes"].as_int());
      if (!writes.empty() && (bytes > bytes_max || total > bytes_max - bytes)) break;
      total += bytes;
      const std::int64_t number = row["sequence_no"].as_int();
      std::optional<std::string> payload =
          bytes <= in_page
              ? std::optional(std::move(held.at(static_cast<std::size_t>(payload_at))).take_bytes())
              : payload_in_parts(state_of(database_), stream.name(), number, bytes, part_bytes);
      if (!payload) {
        // The earlier writes are returned; the next call reports what follows.
        pruned = number;
        break;
      }
      writes.push_back({SequenceNo(number), row["scope"].as_text(), Term(row["term"].as_int()),
                        *std::move(payload), row["created_at_ms"].as_int(),
                        row["write_id"].as_optional_text()});
    }
    // If nothing came before it, the page is read again in its current state.
    if (!writes.empty() || pruned == 0) return writes;
  }
  throw Conflict(
      fmt::format("write {} of stream \"{}\" was pruned while it was read, as were those before "
                  "it: nothing was read",
                  pruned, stream.name()));
}

std::optional<StreamInfo> Info::stream(const Stream& stream) {
  return convert_first<StreamInfo>(
      state_of(database_).read(Call::stream, stream.name()), [&](const auto& row) {
        return StreamInfo{stream.name(), row["scope"].as_text(), row["last_no"].as_int(),
                          row["first_no"].as_optional_int(), row["created_at_ms"].as_int()};
      });
}

std::vector<StreamInfo> Info::streams(std::string_view after, int limit) {
  return convert_all<StreamInfo>(
      state_of(database_).read(Call::streams, after, limit), [](const auto& row) {
        return StreamInfo{row["stream"].as_text(), row["scope"].as_text(), row["last_no"].as_int(),
                          std::nullopt, row["created_at_ms"].as_int()};
      });
}

std::vector<HandOverInfo> Info::hand_overs(const std::optional<Scope>& scope, int limit) {
  try {
    return convert_all<HandOverInfo>(
        state_of(database_).read(Call::hand_overs, scope ? Value(scope->name()) : Value(), limit),
        to_hand_over);
  } catch (const DatabaseError&) {
    if (state_of(database_).driver->installed_version() >= hand_overs_since(database_.kind()))
      throw;
    return {};
  }
}

DatabaseStats Info::stats() const {
  const detail::StatsCounter& all = state_of(database_).stats;
  const auto read = [](const std::atomic<std::int64_t>& number) {
    return number.load(std::memory_order_relaxed);
  };
  return {all.acquire.read(),
          all.renew.read(),
          all.release.read(),
          read(all.waits),
          std::chrono::nanoseconds(read(all.waited_ns)),
          read(all.held),
          read(all.lost),
          read(all.expired),
          read(all.stale_writes),
          all.contention.read()};
}

}  // namespace v0
}  // namespace termgate
