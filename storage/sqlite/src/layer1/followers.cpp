// Followers: their runs and positions (sql/sqlite/install/0005_follower.sql). A start gives the
// name a new, higher run; only the newest run moves positions, so a follower that was replaced
// while it was paused cannot move them back.
#include <termgate/detail/sqlite/calls.hpp>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/error.hpp>

#include "common.hpp"
#include "unit.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlite {

namespace stmt = termgate::sql::sqlite_statements;

std::int64_t Followers::start(const std::string& name, const std::optional<std::string>& stream,
                              const std::optional<std::string>& scope, bool from_end) {
  require_name(name, "follower name");
  if (stream.has_value() == scope.has_value())
    throw InvalidInput(
        "TG005 a follower follows one stream or all streams of one scope: give one of the two");
  require_name(stream ? *stream : *scope, stream ? "stream" : "scope");
  Core::Unit unit(core_);
  std::int64_t run = 1;
  bool known = false;
  {
    Running read = core_.use(stmt::follower_read);
    known = read.bind(name).step();
    if (known && (read.optional_text(0) != stream || read.optional_text(1) != scope)) {
      throw InvalidInput(fmt::format(
          "TG005 follower \"{}\" follows {} \"{}\": give it another name, or remove it first", name,
          read.is_null(0) ? "scope" : "stream", read.text(read.is_null(0) ? 1 : 0)));
    }
    if (known) run = read.integer(2) + 1;
  }
  if (known) {
    core_.use(stmt::follower_take).bind(name).bind(core_.now()).run();
  } else {
    core_.use(stmt::follower_insert).bind(name).bind(stream).bind(scope).bind(core_.now()).run();
    if (from_end)
      core_.use(stmt::follower_from_end)
          .bind(name)
          .bind(stream)
          .bind(scope)
          .bind(core_.now())
          .run();
  }
  unit.commit();
  return run;
}

std::string_view Followers::advance(const std::string& name, std::int64_t run, const Stream& stream,
                                    std::int64_t from, std::int64_t to) {
  Core::Unit unit(core_);
  {
    Running read = core_.use(stmt::follower_read);
    if (!read.bind(name).step())
      throw InvalidInput(
          fmt::format("TG005 there is no follower \"{}\": termgate_follower_start makes it", name));
    const std::int64_t current = read.integer(2);
    if (current != run) return current > run ? "taken" : "elsewhere";
  }
  std::int64_t last_no = 0;
  {
    Running read = core_.use(stmt::stream_read);
    if (read.bind(stream.name()).step()) last_no = read.integer(1);
  }
  if (from < 0 || to < from || to > last_no) {
    throw InvalidInput(fmt::format(
        "TG005 a position of stream \"{}\" moves forward, and to {} at most, not from {} to {}",
        stream.name(), last_no, from, to));
  }
  bool moved = false;
  // A stream on which the follower has not reported has no row. If it does have one, the position
  // must match as for any other.
  if (from == 0) {
    core_.use(stmt::follower_first).bind(name).bind(stream.name()).bind(to).bind(core_.now()).run();
    moved = core_.changes() == 1;
  }
  if (!moved) {
    core_.use(stmt::follower_move)
        .bind(name)
        .bind(stream.name())
        .bind(from)
        .bind(to)
        .bind(core_.now())
        .run();
    moved = core_.changes() == 1;
  }
  unit.commit();
  return moved ? "moved" : "elsewhere";
}

bool Followers::remove(const std::string& name) {
  Core::Unit unit(core_);
  core_.use(stmt::follower_delete).bind(name).run();
  const bool removed = core_.changes() == 1;
  core_.use(stmt::follower_positions_delete).bind(name).run();
  unit.commit();
  return removed;
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
