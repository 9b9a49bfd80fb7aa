// The parts of a session's state, one struct for each concern. Values only; README.md describes the
// files that use them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/pgwire/encode.hpp>
#include <termgate/pg_session/host.hpp>
#include <termgate/statements/declaration.hpp>
#include <termgate/statements/settings.hpp>

#include "batch.hpp"
#include "claims.hpp"
#include "effects.hpp"
#include "guard.hpp"
#include "names.hpp"
#include "replies.hpp"

namespace termgate::pg_session {

// What runs in the server and makes it uncertain how the client's next text is to be read. Cleared
// when every request is answered and no pipeline is open.
struct Outstanding {
  bool functions = false;     // something runs that may change settings
  bool unknown = false;       // a function of unknown effect runs
  bool unread = false;        // something runs that could not be parsed
  bool wait_for_all = false;  // the next unit waits until every request is answered
};

// The settings by which the server reads a text, as last reported.
struct Reading {
  statements::ConformingStrings strings = statements::ConformingStrings::on;
  std::string encoding;
  bool ascii_safe = true;
};

// How the client's next text is to be read.
struct Texts {
  statements::Settings settings;
  // What the server reported last; `settings` is more cautious while a change may be on its way.
  Reading reported;
  Outstanding outstanding;
};

// What the server has reported about itself and this session.
struct ServerFacts {
  // A standby takes no write until it is promoted, which may happen at any time.
  enum class Recovery : std::uint8_t { primary, standby } recovery = Recovery::primary;
  // The database has, or may have, rewrite rules of its users (CREATE RULE): a rewritten statement
  // may return rows of another one.
  bool has_rules = false;
  // The role of the last SET ROLE. Empty: the session's user.
  std::string role;
  // For a session that is only observed: the code of the error that a call of the check would end
  // with, whatever the claim. Empty: the session may call it.
  std::string check_problem;

  bool standby() const noexcept { return recovery == Recovery::standby; }
  const std::string& role_now(const std::string& user) const noexcept {
    return role.empty() || role == "none" ? user : role;
  }
};

// Whether `text` has, or may have, another meaning under `now` than under `before`. ASCII is the
// same in every client encoding.
bool reads_otherwise(std::string_view text, const Reading& before, const Reading& now) noexcept;

// A prepared statement or a portal of the client's.
struct Known {
  Effects effects;
  statements::Declaration declared{};  // in its comments
  std::string executes{};              // the statement that an EXECUTE runs
  std::size_t identity = 0;            // a hash of its whole text
  std::size_t hash = 0;  // a hash of its text without literals, if it is taken for a read
  std::size_t made = 0;  // portals_made when the portal was bound
  // Its Parse as the client sent it, if it may set READ WRITE.
  std::shared_ptr<const std::string> as_it_is{};
  // Its Parse, to be sent again before a Bind if the name must still mean the text that was judged.
  std::shared_ptr<const std::string> again{};
  // How its text was read, where that matters for `again`.
  std::optional<Reading> read{};
};

// The client's prepared statements and portals, by name.
struct ClientNames {
  std::map<std::string, Known, std::less<>> statements, portals;
  // How many times something may have replaced a portal by another cursor.
  std::size_t portals_made = 0;

  const Known* known(std::string_view name) const {
    const auto found = statements.find(cut(name));
    return found == statements.end() ? nullptr : &found->second;
  }
};

// The extended messages up to the next Sync; PipelineView has what the decision knows of them.
struct Pipeline : PipelineView {
  // Part of it was sent. The server need not answer that before a Sync or a Flush.
  bool sent = false;
  // A Bind of the client's was sent, so its unnamed portal may exist.
  bool bound = false;
  // It may change the session's default access mode, on a server that does not report that.
  bool suspect = false;
  Batch held;             // messages not sent yet
  Batch::Mark beginning;  // where in `held` the implicit transaction begins
  // A transaction ended in it, so the next one begins before its answers are here.
  bool ended_one = false;
  std::vector<Claim> named;  // claims in the comments of its statements
  std::optional<std::string>
      just_parsed;                  // the statement of a Parse, until another message follows
  std::vector<std::string> parsed;  // names of its Parses, forgotten if the group is refused
  Effects effects;                  // the effects of what runs under a lock at session level
  Claim claim;

  bool refused() const noexcept { return goes == Goes::refused; }
  void go_direct() noexcept {
    if (goes == Goes::held) goes = Goes::direct;
  }
  // The next message belongs to another transaction.
  void transaction_ended() noexcept {
    ended_one = true;
    executed_here = snapshot_here = acted_here = called = bound = false;
  }
  Batch take_held() {
    beginning = {};
    return std::exchange(held, {});
  }
};

// A text that is sent piece by piece, or between a BEGIN and a COMMIT of ours (a frame).
struct Script {
  bool running = false;
  std::string sql;
  Text text;
  Claim claim;
  std::size_t next = 0;    // index of the next statement
  bool frame = false;      // our BEGIN is open
  bool failed = false;     // nothing more of it runs
  bool ending = false;     // COMMIT or ROLLBACK of the frame is on its way
  std::size_t offset = 0;  // where the current piece is in the text
  std::size_t bytes = 0;
  std::size_t inserted = 0;  // how many bytes the proxy inserted into that piece
  // A BEGIN with modes was sent inside the frame: when it is answered, the frame becomes the
  // client's block.
  bool becomes_block = false;
  Reading read;  // the settings by which the whole text was read
};

// A statement that runs alone, under the check's lock at session level.
struct SessionLock {
  enum class Stage : std::uint8_t { none, requested, held, releasing } stage = Stage::none;
  bool failed = false;
  // A cancel request has interrupted the release, which is sent again.
  bool again = false;
  // The check failed, perhaps after it took the lock, which a rollback does not release.
  bool perhaps_held = false;
  // The scope of that lock. Empty: the scope that the session declares.
  std::string perhaps_scope;
  // The session declares nothing and need not: no lock is held.
  bool unclaimed = false;
  ScopedTerm pair;  // as the check returned it
  bool extended = false;
  std::string sql;  // the client's text that runs under it
  Batch messages;   // or its extended messages, up to the Sync
  Effects effects;
};

inline std::string role_problem(const std::string& role, std::string_view why) {
  return "role \"" + role + "\" may not call Termgate's check: " + std::string(why);
}

// The failure of a message of ours, as the client is to see it.
struct Explained {
  std::string code, message, hint, detail;
  std::string refused;     // for the log; empty: it is not a refusal
  ScopedTerm pair;         // that was refused
  std::int64_t fence = 0;  // 0: not known
};

// Arguments with which a check always fails, whatever the fence: a term is 1 or more.
inline constexpr std::array<pgwire::Field, 4> no_claim{pgwire::Field("-"), pgwire::Field("0"),
                                                       pgwire::Field(), pgwire::Field()};

// The check that was sent last.
struct Check {
  Instant sent{};
  ScopedTerm pair;     // as far as it was known then
  bool given = false;  // by the proxy, not by the session
};

}  // namespace termgate::pg_session
