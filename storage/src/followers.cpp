// Followers over the statements of sql/<database>/calls/follower*.
#include <termgate/followers.hpp>

#include <termgate/detail/named_row.hpp>

#include "database_state.hpp"
#include "sql/statements.hpp"

namespace termgate {
inline namespace v0 {

using detail::convert_all;
using detail::state_of;
using sql::Call;

std::int64_t Followers::start(std::string_view name, const FollowedBy& followed, bool from_end) {
  return state_of(database_)
      .run(Call::follower_start, name, followed.stream, followed.scope, from_end)
      .one()[0]
      .as_int();
}

FollowerBehind Followers::behind(std::string_view name, int limit) {
  FollowerBehind behind;
  const Rows rows = state_of(database_).read(Call::follower_behind, name, limit);
  for (const Row& held : rows.rows) {
    const detail::NamedRow row(rows, held);
    behind.run = row["run"].as_int();
    behind.behind = row["behind"].as_int();
    if (!row["stream"].is_null())
      behind.streams.push_back(
          {row["stream"].as_text(), row["position"].as_int(), row["last_no"].as_int()});
  }
  return behind;
}

FollowerMove Followers::advance(std::string_view name, std::int64_t run, const Stream& stream,
                                SequenceNo from, SequenceNo to) {
  const Rows rows = state_of(database_).run(Call::follower_advance, name, run, stream.name(),
                                            from.value(), to.value());
  const std::string outcome = rows.one()[0].as_text();
  return outcome == "moved"   ? FollowerMove::moved
         : outcome == "taken" ? FollowerMove::taken
                              : FollowerMove::elsewhere;
}

bool Followers::remove(std::string_view name) {
  return state_of(database_).run(Call::follower_remove, name).one()[0].as_bool();
}

std::vector<FollowerInfo> Followers::list(std::string_view after, int limit) {
  return convert_all<FollowerInfo>(
      state_of(database_).read(Call::followers, after, limit), [](const auto& row) {
        return FollowerInfo{row["name"].as_text(),
                            {row["stream"].as_optional_text(), row["scope"].as_optional_text()},
                            row["run"].as_int(),
                            row["started_at_ms"].as_int(),
                            row["started_by"].as_text(),
                            row["behind"].as_int(),
                            row["behind_ms"].as_optional_int(),
                            row["moved_at_ms"].as_optional_int()};
      });
}

}  // namespace v0
}  // namespace termgate
