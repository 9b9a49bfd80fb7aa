// The parts of a session's state, one struct a concern. Values only; the code that uses them is in the files that state.hpp lists.
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
#include <termgate/session/host.hpp>
#include <termgate/statements/declaration.hpp>
#include <termgate/statements/settings.hpp>

#include "batch.hpp"
#include "claims.hpp"
#include "effects.hpp"
#include "names.hpp"
#include "replies.hpp"

namespace termgate::session {

// What runs in the server and makes uncertain how the client's next words are to be read. Over when all is answered.
struct Outstanding {
  bool functions = false;     // something runs that may change settings
  bool unknown = false;       // a function runs whose name says nothing
  bool unread = false;        // something runs that could not be read
  bool wait_for_all = false;  // the next unit cannot be judged before all answers are here
};

// By what the server reads a text, as it has reported it last.
struct Reading {
  statements::ConformingStrings strings = statements::ConformingStrings::on;
  std::string encoding;
  bool ascii_safe = true;
};

// How the client's next text is to be read.
struct Texts {
  statements::Settings settings;
  // `settings` may know less: a change may be on its way.
  Reading reported;
  Outstanding outstanding;
};

// What the server has said of itself, and of this session.
struct ServerFacts {
  // A standby cannot be written until it is promoted, which may be at any time.
  enum class Recovery : std::uint8_t { primary, standby } recovery = Recovery::primary;
  // The database has rules: a rewritten statement may answer with rows of another.
  bool has_rules = false;
  // As SET ROLE said last; empty: the user.
  std::string role;
  // Of a session that is observed: the code that its check would fail with; empty: it would not.
  std::string check_problem;

  bool standby() const noexcept { return recovery == Recovery::standby; }
  const std::string& role_now(const std::string& user) const noexcept { return role.empty() || role == "none" ? user : role; }
};

// Whether `text` means something else under `now` than under `before`, or may. ASCII is the same in every client encoding.
bool reads_otherwise(std::string_view text, const Reading& before, const Reading& now) noexcept;

// A prepared statement or a portal of the client's.
struct Known {
  Effects effects;
  statements::Declaration declared{};             // by its comments
  std::string executes{};                         // of EXECUTE: the name of what it runs
  std::size_t identity = 0;                       // of its whole text
  std::size_t hash = 0;                           // of its text without its values, where it is taken for a read
  std::size_t made = 0;                           // of a portal: portals_made_ when it was bound
  std::shared_ptr<const std::string> as_it_is{};  // its Parse, where READ WRITE may be asked for
  std::shared_ptr<const std::string> again{};     // its Parse, where the name must not stand for anything else
  std::optional<Reading> read{};                  // … and how its text was read, where that matters
};

// The client's prepared statements and portals, by name.
struct ClientNames {
  std::map<std::string, Known, std::less<>> statements, portals;
  // How often something may have put another cursor in the place of a portal.
  std::size_t portals_made = 0;

  const Known* known(std::string_view name) const {
    const auto found = statements.find(cut(name));
    return found == statements.end() ? nullptr : &found->second;
  }
};

// The extended messages up to the next Sync.
struct Pipeline {
  bool begun = false;
  bool handed_over = false;     // it goes as it is to a server that guards the session
  bool direct = false;          // messages go straight to the server
  bool refused = false;         // everything up to Sync is dropped
  bool sent = false;            // something of it was sent: the server answers that no sooner than at a Sync or a Flush
  bool touched_server = false;  // … something that may begin its transaction
  bool bound = false;           // a Bind of the client's was sent: its unnamed portal may be alive
  bool executed = false;
  bool planned = false;        // something was parsed or bound that may run code then
  bool discarded = false;      // DISCARD ALL ran in it
  bool executed_here = false;  // since the last transaction that ended in it
  bool snapshot_here = false;  // … something that fixes the access mode was parsed or bound
  bool acted_here = false;     // … something other than SET and plain declarations: it may run code
  bool suspect = false;        // may change the session's default, on a server that does not report it
  bool called = false;         // something that is not surely a read was executed READ ONLY
  bool needs_hold = false;
  Batch held;             // messages not sent yet
  Batch::Mark beginning;  // where in `held` the implicit transaction begins
  bool opening_possible = true;
  bool ended_one = false;                  // a transaction ended in it, so what follows begins another before its answers are here
  std::vector<Claim> named;                // claims that its members name themselves
  std::optional<std::string> just_parsed;  // nothing has come since
  std::vector<std::string> parsed;         // names, to be forgotten where the group is refused
  Effects effects;                         // of what runs under a lock at session level
  Claim claim;

  Batch take_held() {
    beginning = {};
    return std::exchange(held, {});
  }
};

// A text that goes a piece at a time, or in a frame of BEGIN and COMMIT.
struct Script {
  bool running = false;
  std::string sql;
  Text text;
  Claim claim;
  std::size_t next = 0;    // statement
  bool frame = false;      // our BEGIN is open
  bool failed = false;     // nothing more of it runs
  bool ending = false;     // COMMIT or ROLLBACK of the frame is on its way
  std::size_t offset = 0;  // of the piece that runs, in the text
  std::size_t bytes = 0;
  std::size_t inserted = 0;    // letters of ours in front of it
  bool becomes_block = false;  // a BEGIN with modes was sent inside the frame: with its answer the frame is the client's block
  Reading read;                // how all of it was read
};

// A statement that runs alone, under the check's lock at session level.
struct SessionLock {
  enum class Stage : std::uint8_t { none, requested, held, releasing } stage = Stage::none;
  bool failed = false;
  bool again = false;         // a cancel request has met the giving back
  bool perhaps_held = false;  // it failed, perhaps after the lock had been taken: a rollback does not give it back
  std::string perhaps_scope;  // … which is that of this scope, or of what the session declares
  bool unclaimed = false;     // the session declares nothing, and need not: no lock is held
  ScopedTerm pair;            // as answered
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
  std::string refused;     // for the log; empty: it is no refusal
  ScopedTerm pair;         // that it was refused with
  std::int64_t fence = 0;  // that refuses it; 0: not known
};

// A check with this term fails, whatever the fence: no term is 0.
inline constexpr std::array<pgwire::Field, 4> no_claim{pgwire::Field("-"), pgwire::Field("0"), pgwire::Field(), pgwire::Field()};

// The check that was sent last.
struct Check {
  Instant sent{};
  ScopedTerm pair;     // as far as it was known then
  bool given = false;  // by us, not by the session
};

}  // namespace termgate::session
