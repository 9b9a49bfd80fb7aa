// What cannot stand in a block of ours runs alone, while the session holds the check's lock.
#include <array>

#include "state.hpp"

namespace termgate::session {

// The check, and its lock at session level for what runs in no transaction of ours.
void Session::State::hold(const Claim& claim) {
  if (!facts_.standby()) own_.run(line_.server, ProxyStatement::writable, Purpose::hold);
  // What was prepared before a restore or a promotion may be of a leader that has lost its term in what was forgotten (F3).
  if (session_lock_.effects.kind == statements::Kind::commit_prepared) own_.run(line_.server, ProxyStatement::prepared, Purpose::hold);
  own_.add_check(line_.server, claim, Purpose::hold);
  own_.add_sync(Purpose::hold);
  session_lock_.stage = SessionLock::Stage::requested;
  session_lock_.failed = false;
  session_lock_.perhaps_scope = !claim.given.scope.empty() ? claim.given.scope : claim.otherwise.scope;
}

void Session::State::release() {
  session_lock_.stage = SessionLock::Stage::releasing;
  if (!model_.by_default.reported && claims_.guards()) own_.run(line_.server, ProxyStatement::look, Purpose::current);
  if (claims_.guards()) own_.run(line_.server, ProxyStatement::default_on, Purpose::release);
  if (!session_lock_.perhaps_held) {
    const std::array<pgwire::Field, 1> values{pgwire::Field(session_lock_.pair.scope)};
    own_.run(line_.server, ProxyStatement::release, Purpose::release, values);
  } else {
    // Whose lock it took was in the answer that did not come.
    if (!session_lock_.perhaps_scope.empty() && judgement_.is_known_by(session_lock_.perhaps_scope)) {
      const std::array<pgwire::Field, 1> values{pgwire::Field(session_lock_.perhaps_scope)};
      own_.run(line_.server, ProxyStatement::release, Purpose::release, values);
    }
    const std::array<pgwire::Field, 1> declared{pgwire::Field()};
    own_.run(line_.server, ProxyStatement::release, Purpose::release, declared);
  }
  own_.add_sync(Purpose::release);
}

}  // namespace termgate::session
