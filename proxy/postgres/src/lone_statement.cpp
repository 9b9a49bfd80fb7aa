#include "lone_statement.hpp"

#include <array>
#include <utility>

#include <termgate/pgwire/encode.hpp>

namespace termgate::pg_session {

using statements::Kind;

void LoneStatement::run_held(std::string_view sql, const Effects& effects, const Claim& claim) {
  session_lock_ = SessionLock();
  session_lock_.sql = sql;
  session_lock_.effects = effects;
  hold(claim);
}

// The pipeline has ended with its Sync, and is sent once the lock is held.
void LoneStatement::run_held(Pipeline& pipeline) {
  session_lock_ = SessionLock();
  session_lock_.extended = true;
  session_lock_.messages = pipeline.take_held();
  session_lock_.effects = pipeline.effects;
  const Claim claim = pipeline.claim;
  pipeline = Pipeline();
  hold(claim);
}

// Sends the check that takes its lock at session level, for what runs in no transaction of ours.
void LoneStatement::hold(const Claim& claim) {
  if (!facts_.standby()) own_.run(line_.server, ProxyStatement::writable, Purpose::hold);
  // What was prepared before a restore or a promotion may belong to a leader that has lost its term
  // in what was forgotten (F3).
  if (session_lock_.effects.kind == statements::Kind::commit_prepared)
    own_.run(line_.server, ProxyStatement::prepared, Purpose::hold);
  own_.add_check(line_.server, claim, Purpose::hold);
  own_.add_sync(Purpose::hold);
  session_lock_.stage = SessionLock::Stage::requested;
  session_lock_.failed = false;
  session_lock_.perhaps_scope =
      !claim.given.scope.empty() ? claim.given.scope : claim.otherwise.scope;
}

void LoneStatement::release() {
  session_lock_.stage = SessionLock::Stage::releasing;
  if (!model_.by_default.reported && claims_.guards())
    own_.run(line_.server, ProxyStatement::look, Purpose::current);
  if (claims_.guards()) own_.run(line_.server, ProxyStatement::default_on, Purpose::release);
  if (!session_lock_.perhaps_held) {
    const std::array<pgwire::Field, 1> values{pgwire::Field(session_lock_.pair.scope)};
    own_.run(line_.server, ProxyStatement::release, Purpose::release, values);
  } else {
    // The answer that would name the scope of the lock did not come.
    if (!session_lock_.perhaps_scope.empty() &&
        judgement_.is_known_by(session_lock_.perhaps_scope)) {
      const std::array<pgwire::Field, 1> values{pgwire::Field(session_lock_.perhaps_scope)};
      own_.run(line_.server, ProxyStatement::release, Purpose::release, values);
    }
    const std::array<pgwire::Field, 1> declared{pgwire::Field()};
    own_.run(line_.server, ProxyStatement::release, Purpose::release, declared);
  }
  own_.add_sync(Purpose::release);
}

bool LoneStatement::goes_on() {
  switch (session_lock_.stage) {
    case SessionLock::Stage::none: break;
    case SessionLock::Stage::requested:
      // Without its row the lock is not ours: after an error the server may have skipped both the
      // lock and what was to run.
      if (!session_lock_.failed && (session_lock_.pair.complete() || session_lock_.unclaimed))
        return run_under_hold(), true;
      if (session_lock_.perhaps_held) return release(), true;
      session_lock_ = SessionLock();
      pgwire::append_ready_for_query(line_.to_client.back(), model_.status);
      break;
    case SessionLock::Stage::held:
      if (model_.status != pgwire::TransactionStatus::idle)
        return line_.end("0A000", "a statement that runs alone left a transaction open"), true;
      return release(), true;
    case SessionLock::Stage::releasing:
      if (std::exchange(session_lock_.again, false)) return release(), true;
      if (session_lock_.perhaps_held)
        pgwire::append_ready_for_query(line_.to_client.back(), model_.status);
      session_lock_ = SessionLock();
      break;
  }
  return false;
}

void LoneStatement::run_under_hold() {
  session_lock_.stage = SessionLock::Stage::held;
  // The server begins and ends these transactions itself, each with the session's default access
  // mode.
  const bool own = model_.by_default.believed == Mode::servers && claims_.guards();
  if (claims_.guards()) {
    own_.run(line_.server, own ? ProxyStatement::default_back : ProxyStatement::default_off,
             Purpose::silent);
    own_.add_sync(Purpose::silent);
  }
  // DO and CALL may declare: the claim in force after their last transaction is checked before that
  // commits.
  model_.tx.writable = model_.tx.session_passed = true;
  if (claims_.guards()) model_.tx.mode = own ? Mode::asked : model_.by_default.believed;
  carrier_.note_sent(session_lock_.effects, false);
  if (session_lock_.effects.kind != Kind::call && session_lock_.effects.kind != Kind::do_block)
    model_.tx = Transaction();
  if (session_lock_.extended) {
    line_.server.append(std::move(session_lock_.messages));
    carrier_.add_before_commit();
    own_.add_client_sync();
    model_.tx = Transaction();
  } else if (model_.tx.acted) {
    carrier_.run_converted(session_lock_.sql, session_lock_.effects);
  } else {
    carrier_.run_plain_query(session_lock_.sql);
  }
  session_lock_.sql.clear();
}

}  // namespace termgate::pg_session
