// Streams: appends with their check, write ids and pages (F1, F5).
#include <termgate/detail/sqlite/calls.hpp>

#include <set>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/detail/sqlite/errors.hpp>
#include <termgate/error.hpp>

#include "common.hpp"
#include "unit.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlite {
namespace {

namespace stmt = termgate::sql::sqlite_statements;

// The setting is read only for payloads that could exceed it.
constexpr std::size_t payload_bytes_unasked = 1024 * 1024;

}  // namespace

// The scope of a stream: fixed by its first write; before that the caller's, else the declared one,
// else the only one that the transaction has passed, else the stream's own name.
Scope Streams::scope_of(const Stream& stream, const std::optional<Scope>& named,
                        const std::optional<std::string>& fixed) {
  if (fixed) {
    if (named && named->name() != *fixed) {
      throw InvalidInput(fmt::format("TG005 stream \"{}\" belongs to scope \"{}\", not \"{}\"",
                                     stream.name(), *fixed, named->name()));
    }
    return Scope(*fixed);
  }
  if (named) return *named;
  if (core_.declared_scope()) return *core_.declared_scope();
  if (core_.passed_checks().passes().size() == 1)
    return Scope(core_.passed_checks().passes().begin()->first);
  return Scope(stream.name());
}

// The last number of a batch that was already written.
std::int64_t Streams::repeated(const Stream& stream, const std::vector<Write>& writes,
                               bool& found) {
  std::set<std::string_view> ids;
  std::int64_t first_no = 0;
  std::size_t seen = 0;
  for (std::size_t at = 0; at < writes.size(); ++at) {
    if (!writes[at].write_id) continue;
    const std::string& id = *writes[at].write_id;
    // The set also counts the ids, to compare with the number of those already written.
    if (!ids.insert(id).second) throw InvalidInput("TG005 a write id stands twice in the batch");
    Running read = core_.use(stmt::write_id_read);
    if (!read.bind(id).step()) continue;
    if (read.optional_text(0) != stream.name()) {
      throw InvalidInput(fmt::format("TG005 write id {} was used for {} before", id,
                                     read.is_null(0) ? std::string("a write outside streams")
                                                     : fmt::format("stream \"{}\"", read.text(0))));
    }
    // The number at which the batch began, according to this write. All writes must agree.
    const std::int64_t number = read.integer(1) - static_cast<std::int64_t>(at);
    if (seen++ > 0 && number != first_no) {
      throw InvalidInput(
          fmt::format("TG005 write id {} happened at another place than its batch", id));
    }
    first_no = number;
  }
  found = seen > 0;
  if (found && seen != ids.size()) {
    throw InvalidInput(
        fmt::format("TG005 {} of the {} write ids of this batch were used before, and not for this "
                    "same batch; hint: send the same batch "
                    "again, or a new one with new ids",
                    seen, ids.size()));
  }
  return first_no + static_cast<std::int64_t>(writes.size()) - 1;
}

std::int64_t Streams::append(const Stream& stream, Term term, const std::vector<Write>& writes,
                             std::optional<std::int64_t> expected,
                             const std::optional<Scope>& named) {
  for (const Write& write : writes) {
    if (write.payload.size() <= payload_bytes_unasked) continue;
    const auto value = core_.setting("payload_bytes_max");
    const std::int64_t bytes_max =
        value ? number_of(*value, "payload_bytes_max", 1, 268'435'456) : 256LL * 1024 * 1024;
    if (static_cast<std::int64_t>(write.payload.size()) > bytes_max) {
      throw InvalidInput(
          fmt::format("TG005 the payload has {} bytes: the setting payload_bytes_max allows {}",
                      write.payload.size(), bytes_max));
    }
  }
  Core::Unit unit(core_);
  bool found = false;
  // Looked up before the check: a repeated write returns its number even if the term is stale by
  // now, because it was accepted (F5).
  const std::int64_t happened = repeated(stream, writes, found);
  if (found) {
    unit.commit();
    return happened;
  }
  std::optional<std::string> fixed;
  std::int64_t last_no = 0;
  {
    Running read = core_.use(stmt::stream_read);
    if (read.bind(stream.name()).step()) {
      fixed = read.text(0);
      last_no = read.integer(1);
    }
  }
  const Scope scope = scope_of(stream, named, fixed);
  const Fences::Verdict verdict =
      fences_.judge(scope.name(), term.value(), Fences::Raise::allowed, true);
  // Compared after the check: a stale writer gets TG001 and learns nothing about the stream.
  if (expected && *expected != last_no) {
    throw SequenceConflict(fmt::format("TG003 stream \"{}\" stands at {}, not at the expected {}",
                                       stream.name(), last_no, *expected));
  }
  fences_.admit(scope.name(), term.value(), verdict);
  const Moment moment = core_.now();
  const std::int64_t new_last = last_no + static_cast<std::int64_t>(writes.size());
  if (!writes.empty()) {
    Running write = core_.use(fixed ? stmt::stream_advance : stmt::stream_insert);
    write.bind(stream.name());
    if (fixed) {
      write.bind(new_last).run();
    } else {
      write.bind(scope.name()).bind(new_last).bind(moment).run();
    }
    // A trigger or an authorizer of the application may have prevented the row from being written.
    if (core_.changes() != 1)
      throw DatabaseError(fmt::format("stream \"{}\" has lost its row", stream.name()));
  }
  std::int64_t number = last_no;
  for (const Write& write : writes) {
    ++number;
    core_.use(stmt::stream_write_insert)
        .bind(stream.name())
        .bind(number)
        .bind(scope.name())
        .bind(term.value())
        .bind_blob(write.payload)
        .bind(moment)
        .bind(write.write_id)
        .run();
    if (write.write_id) {
      core_.use(stmt::write_id_insert)
          .bind(*write.write_id)
          .bind(stream.name())
          .bind(number)
          .bind(scope.name())
          .bind(term.value())
          .bind(moment)
          .run();
    }
  }
  unit.commit();
  return new_last;
}

Streams::Claim Streams::claim_write(const Scope& scope, Term term, const WriteId& id) {
  Core::Unit unit(core_);
  {
    Running read = core_.use(stmt::write_id_read);
    if (read.bind(id.text()).step()) {
      if (!read.is_null(0) || read.text(2) != scope.name()) {
        throw InvalidInput(fmt::format("TG005 write id {} was used for scope \"{}\" before",
                                       id.text(), read.text(2)));
      }
      const Fences::Fence fence = fences_.read(scope.name());
      const Claim claim{false, fences_.height(scope.name(), fence)};
      unit.commit();
      return claim;
    }
  }
  const std::int64_t fence = fences_.pass_check(scope.name(), term.value());
  core_.use(stmt::write_id_insert)
      .bind(id.text())
      .bind_null()
      .bind_null()
      .bind(scope.name())
      .bind(term.value())
      .bind(core_.now())
      .run();
  unit.commit();
  return {true, fence};
}

std::optional<Streams::Outcome> Streams::outcome(const WriteId& id) {
  Running read = core_.use(stmt::write_id_read);
  if (!read.bind(id.text()).step()) return std::nullopt;
  return Outcome{read.optional_text(0), read.optional_integer(1), read.text(2), read.integer(3),
                 read.integer(4)};
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
