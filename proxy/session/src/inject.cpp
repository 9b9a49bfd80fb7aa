// The messages that are sent ahead of, around and after the client's (docs/decisions/0006). Ours use named statements and portals
// only and close them; the one exception replaces a simple query, which drops the unnamed ones itself.
#include <array>
#include <functional>

#include <termgate/detail/plant.hpp>
#include <termgate/text/quote.hpp>

#include "state.hpp"

namespace termgate::session {
namespace {

constexpr std::array<std::string_view, proxy_statement_count> names{
    "_termgate_writable_",    "_termgate_locked_",       "_termgate_mark_",    "_termgate_unmark_",    "_termgate_default_on_",
    "_termgate_default_off_", "_termgate_default_back_", "_termgate_lend_",    "_termgate_look_",      "_termgate_take_back_",
    "_termgate_own_mode_",    "_termgate_recovery_",     "_termgate_check_",   "_termgate_check_own_", "_termgate_again_",
    "_termgate_prepared_",    "_termgate_hold_",         "_termgate_release_", "_termgate_declare_",   "_termgate_sit_",
    "_termgate_stand_",       "_termgate_unseat_"};
constexpr std::string_view portal = "_termgate";
constexpr std::size_t passed_max = 256;  // claims of comments that are remembered to have passed in a transaction; others are checked again

// A query describes its rows before the first is made; INSERT … RETURNING and EXECUTE do not, if they fail.
bool looks_like_query(std::string_view sql) noexcept {
  const std::size_t at = sql.find_first_not_of(" \t\r\n(");
  if (at == std::string_view::npos) return false;
  const char letter = static_cast<char>(sql[at] | 0x20);
  return letter == 's' || letter == 'w' || letter == 'v' || letter == 't';
}

// Makes a transaction READ ONLY or not as the server's own default says, which is what set_config() to NULL comes back to, and answers
// that. It takes a snapshot, so SET transaction_read_only TO off precedes it.
constexpr std::string_view own_mode =
    "pg_catalog.set_config('transaction_read_only', pg_catalog.set_config('default_transaction_read_only', NULL, true), true)";
// In a block the session's default is ours again at once: the server would report it, and code could keep it. Elsewhere it is lent to the
// transaction, so that what code makes of it can be seen (check_again).
constexpr std::string_view take_back = "pg_catalog.left(pg_catalog.set_config('default_transaction_read_only', 'on', true), 0)";

PendingReply ours(Request request, Purpose role, std::string_view error = {}) {
  PendingReply reply;
  reply.text = error;
  reply.request = request;
  reply.role = role;
  reply.hidden = true;
  return reply;
}

}  // namespace

// Nothing rests on the name: code that runs in the session can look it up, and put something else in its place (prepare_ours). Clients are
// refused the prefix, so that none takes it by chance.
const std::string& Session::State::name_of(ProxyStatement which) {
  std::string& made = own_names_[index_of(which)];
  if (!made.empty()) return made;
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string name(names[index_of(which)]);
  std::size_t bits = std::hash<std::string>()(line_.peer.cancel_key) ^ (static_cast<std::size_t>(line_.server_pid) << 32);
  for (int i = 0; i < 16; ++i, bits >>= 4) name += digits[bits & 15];
  return made = name;
}

// Prepared anew each time, in the same pipeline in which it runs: a function, a trigger or a view of the client's could replace what is
// kept. And closed there, so that pg_prepared_statements has nothing but the client's own. A pipeline that failed may have left one of the
// name: then a Close precedes it.
void Session::State::prepare_ours(Batch& to, ProxyStatement which, Purpose role, std::string_view error) {
  std::array<std::uint32_t, 5> types{25, 20, 25, 20, 16};  // text, bigint, boolean
  const std::string schema = text::quoted(line_.options.schema, '"');
  std::string sql;
  std::size_t count = 0;
  switch (which) {
    case ProxyStatement::writable: sql = "SET transaction_read_only TO off"; break;
    case ProxyStatement::locked: sql = "SET transaction_read_only TO on"; break;
    case ProxyStatement::mark: sql = "SAVEPOINT _termgate_first"; break;
    case ProxyStatement::unmark: sql = "RELEASE SAVEPOINT _termgate_first"; break;
    case ProxyStatement::default_on: sql = "SET default_transaction_read_only TO on"; break;
    case ProxyStatement::default_off: sql = "SET default_transaction_read_only TO off"; break;
    case ProxyStatement::default_back: sql = "SET default_transaction_read_only TO DEFAULT"; break;
    case ProxyStatement::lend: sql = "SET LOCAL default_transaction_read_only TO DEFAULT"; break;
    case ProxyStatement::look: sql = "SHOW default_transaction_read_only"; break;
    case ProxyStatement::take_back: sql = "SET LOCAL default_transaction_read_only TO on"; break;
    case ProxyStatement::own_mode:
      sql = "SELECT " + std::string(own_mode);
      if (model_.tx.in_block) sql += ", " + std::string(take_back);
      break;
    case ProxyStatement::recovery: sql = "SELECT pg_catalog.pg_is_in_recovery()"; break;
    case ProxyStatement::check:
      sql = "SELECT " + schema + ".check_claim_text($1, $2, $3, $4)";
      count = 4;
      break;
    case ProxyStatement::check_in_own_mode:
      // Two in one, for each statement costs. The check comes first: above READ COMMITTED it locks the fence's row.
      sql = "SELECT pg_catalog.concat(" + schema + ".check_claim_text($1, $2, $3, $4), pg_catalog.chr(10), " + std::string(own_mode);
      if (model_.tx.in_block) sql += ", " + std::string(take_back);
      sql += ")";
      count = 4;
      break;
    case ProxyStatement::again:
      sql = "SELECT *";
      if (lends_default()) sql += ", pg_catalog.current_setting('default_transaction_read_only')";
      sql += " FROM " + schema + ".check_again()";
      break;
    case ProxyStatement::prepared: sql = "SELECT " + schema + ".check_prepared()"; break;
    case ProxyStatement::hold:
      sql = "SELECT * FROM " + schema + ".hold_claim($1, $2, $3, $4, $5)";
      count = 5;
      break;
    case ProxyStatement::release:
      sql = "SELECT " + schema + ".release_session($1)";
      count = 1;
      break;
    case ProxyStatement::declare:
      sql =
          "SELECT pg_catalog.set_config('termgate.scope', $1, true), pg_catalog.set_config('termgate.term', $2::pg_catalog.text, "
          "true)";
      count = 2;
      break;
    case ProxyStatement::sit:
      // With the seat the session's default is the server's own; both or neither.
      sql =
          "SELECT s.nonce, CASE WHEN s.nonce IS NOT NULL THEN pg_catalog.set_config('default_transaction_read_only', NULL, false) END "
          "FROM " +
          schema + ".sit($1, $2, pg_catalog.sha256(pg_catalog.decode($3, 'hex'))) s";
      count = 3;
      break;
    case ProxyStatement::stand:
      sql = "SELECT " + schema +
            ".stand(ARRAY[$1::pg_catalog.uuid], pg_catalog.decode($2, 'hex')), pg_catalog.set_config('default_transaction_read_only', "
            "'on', false)";
      types[1] = types[0];
      count = 2;
      break;
    case ProxyStatement::unseat: sql = "SET LOCAL termgate.seat TO off"; break;
    case ProxyStatement::none: return;
  }
  const std::string& name = name_of(which);
  const auto parameters = std::span<const std::uint32_t>(types).first(count);
  if (left_[index_of(which)] != 0 && left_[index_of(which)] <= parses_synced_) {
    pgwire::append_close_statement(to.bytes.back(), name);
    to.replies.push(ours(Request::close, role, error));
  }
  left_[index_of(which)] = ++parses_;
  pgwire::append_parse(to.bytes.back(), name, sql, parameters);
  to.replies.push(ours(Request::parse, role, error));
}

// Prepares, binds, executes and closes one of ours.
void Session::State::run_ours(Batch& to, ProxyStatement which, Purpose role, std::span<const pgwire::Field> values,
                              std::string_view error) {
  prepare_ours(to, which, role, error);
  // At the beginning of an implicit transaction no unnamed portal of the client's can be alive; later it is not ours to touch.
  const bool beginning = !model_.tx.in_block && !model_.tx.writable && !pipeline_.bound && &to != &pipeline_.held;
  const std::string_view through = beginning ? std::string_view() : portal;
  pgwire::append_bind(to.bytes.back(), through, name_of(which), values);
  to.replies.push(ours(Request::bind, role, error));
  pgwire::append_execute(to.bytes.back(), through);
  PendingReply execute = ours(Request::execute, role, error);
  execute.changes = claims_.declarations();
  execute.of = model_.ends_sent;
  if (which == ProxyStatement::check_in_own_mode) execute.shows = Shows::own;
  // What it answers says nothing of the session, if this transaction may have declared it: a rollback takes that back, and SET LOCAL ends
  // with a commit.
  execute.given = check_.given || model_.tx.declared_inside || model_.tx.acted;
  to.replies.push(std::move(execute));
  if (!beginning) {
    pgwire::append_close_portal(to.bytes.back(), portal);
    to.replies.push(ours(Request::close, role, error));
  }
  pgwire::append_close_statement(to.bytes.back(), name_of(which));
  PendingReply closed = ours(Request::close, role, error);
  closed.closes = which;
  closed.of = parses_;
  to.replies.push(std::move(closed));
}

namespace {

// A scope and a term as two parameters; what is missing is NULL.
struct Values {
  explicit Values(ScopedTerm&&) = delete;  // its scope is borrowed
  explicit Values(const ScopedTerm& pair) : term(std::to_string(pair.term)) {
    if (!pair.scope.empty()) fields[0] = pair.scope;
    if (pair.term != 0) fields[1] = term;
  }
  std::string term;
  std::array<pgwire::Field, 2> fields{};
};

}  // namespace

// The transaction was made writable, and whether it would have been without us nobody has asked yet.
bool Session::State::owes_mode(bool opens) const noexcept {
  const bool writable = opens || (model_.tx.writable && !model_.tx.locked);
  return writable && keeps_default() && mode_now() == Mode::servers;
}

Mode Session::State::mode_now() const noexcept {
  return model_.tx.in_block || model_.tx.writable ? model_.tx.mode : model_.by_default.believed;
}

bool Session::State::lends_default() const noexcept { return model_.tx.mode == Mode::asked && !model_.tx.in_block && keeps_default(); }

void Session::State::settle_own_mode(Batch& to, bool opens) {
  if (!owes_mode(opens)) return;
  run_ours(to, ProxyStatement::own_mode, Purpose::writable, {});
  model_.tx.mode = Mode::asked;
}

void Session::State::ask_recovery() {
  run_ours(line_.server, ProxyStatement::recovery, Purpose::recovery, {});
  add_sync(Purpose::recovery);
}

// What default_transaction_read_only is without us, in front of a SHOW of the client's. None of the three takes a snapshot.
void Session::State::look_at_own(Batch& to) {
  run_ours(to, ProxyStatement::lend, Purpose::mode, {});
  run_ours(to, ProxyStatement::look, Purpose::own, {});
  run_ours(to, ProxyStatement::take_back, Purpose::mode, {});
}

// The server's session knows what it declares; what it is not to say is given.
void Session::State::add_check(Batch& to, const Claim& claim, Purpose role, bool opens) {
  if (role != Purpose::seat && (!claim.certain || (claim.pair.scope == seat_.pair().scope && claim.pair.term != seat_.pair().term)))
    stand_before_raise(to);
  ScopedTerm given = claim.given, otherwise = claim.otherwise;
  if (TERMGATE_PLANTED(proxy_one_behind) && line_.host.highest_fence(claim.pair.scope) == claim.pair.term + 1)
    given = {claim.pair.scope, claim.pair.term + 1};
  if (role != Purpose::eviction) {
    check_.sent = line_.now;
    check_.pair = claim.pair;
    check_.given = given.complete();
  }
  const Values first(given), second(otherwise);
  // Nobody has to declare here; whoever has, is held to it.
  const bool if_declared = claims_.admission().without_term == WithoutTerm::allow && !claim.certain && given.empty() && otherwise.empty();
  if (role == Purpose::hold) {
    const std::array<pgwire::Field, 5> values{first.fields[0], first.fields[1], second.fields[0], second.fields[1],
                                              std::string_view(if_declared ? "f" : "t")};
    if (is_known_by(given.scope) && is_known_by(otherwise.scope)) run_ours(to, ProxyStatement::hold, role, values);
    else run_ours(to, ProxyStatement::check, role, no_claim);
  } else if (if_declared && role == Purpose::check) {
    settle_own_mode(to, opens);
    run_ours(to, ProxyStatement::again, role, {});
  } else {
    const std::array<pgwire::Field, 4> values{first.fields[0], first.fields[1], second.fields[0], second.fields[1]};
    const bool owes = owes_mode(opens) && role == Purpose::check;
    if (owes) model_.tx.mode = Mode::asked;
    run_ours(to, owes ? ProxyStatement::check_in_own_mode : ProxyStatement::check, role,
             is_known_by(given.scope) && is_known_by(otherwise.scope) ? values : no_claim);
  }
  if (role != Purpose::check) return;
  // What a comment names says nothing of what the session has declared since.
  if (claim.named) {
    model_.tx.other_passed = true;
    if (claim.pair.complete() && is_known_by(claim.pair.scope)) {
      // The server's guard looks at what the session declares. Inside a block of the client's it would go on doing so afterwards.
      const Values named(claim.pair);
      const bool alone = !model_.tx.in_block || (script_.frame && script_.text->statements.size() == 1);
      if (claims_.server_guarded() && alone) run_ours(to, ProxyStatement::declare, Purpose::mode, named.fields);
      if (model_.tx.passed.size() >= passed_max) model_.tx.passed.erase(model_.tx.passed.begin());
      model_.tx.passed.push_back(claim.pair);
    }
  } else {
    model_.tx.checked();
    model_.tx.session_passed = true;
  }
}

// Whatever the session declares by now. It is not spared where that is what was checked before: only the server knows what that was.
void Session::State::add_recheck(Batch& to) {
  settle_own_mode(to, false);
  stand_before_raise(to);
  check_.sent = line_.now;
  const Claim claim = claim_of(nullptr);
  check_.pair = claim.given;
  check_.given = claim.given.complete();
  if (claim.given.empty() && claim.otherwise.empty()) {
    run_ours(to, ProxyStatement::again, Purpose::check, {});
  } else {
    // A rule speaks for the session, or where it is silent.
    const Values first(claim.given), second(claim.otherwise);
    const std::array<pgwire::Field, 4> values{first.fields[0], first.fields[1], second.fields[0], second.fields[1]};
    run_ours(to, ProxyStatement::check, Purpose::check,
             is_known_by(claim.given.scope) && is_known_by(claim.otherwise.scope) ? values : no_claim);
  }
  model_.tx.checked();
}

// SET takes no snapshot, so it comes first, before even the Parse of the check, which takes one.
void Session::State::add_opening(Batch& to, const Claim& claim, bool with_check, bool settles) {
  if (!model_.tx.writable && claims_.guards()) run_ours(to, ProxyStatement::writable, Purpose::writable, {});
  if (!model_.tx.in_block && !model_.tx.writable) model_.tx.mode = model_.by_default.believed;
  const bool opens = !model_.tx.writable;
  if (with_check) add_check(to, claim, Purpose::check, opens);
  else if (settles) settle_own_mode(to, opens);
  model_.tx.writable = true;
  model_.tx.locked = false;
}

void Session::State::add_sync(Purpose role) {
  parses_synced_ = parses_;
  pgwire::append_bare(line_.server.bytes.back(), pgwire::frontend::sync);
  line_.server.replies.push(ours(Request::sync, role));
}

void Session::State::add_client_sync() {
  parses_synced_ = parses_;
  pgwire::append_bare(line_.server.bytes.back(), pgwire::frontend::sync);
  line_.server.replies.push({.request = Request::sync});
}

void Session::State::add_hidden_query(std::string_view sql, Purpose role) {
  pgwire::append_query(line_.server.bytes.back(), sql);
  line_.server.replies.push(ours(Request::query, role));
}

// A raise is committed by itself, so that its exclusive lock does not last as long as a user's transaction. What stands in its way is
// told when the check itself meets it again.
void Session::State::raise_in_advance(const Claim& claim) {
  if (!claim.certain || fence_of(claim.pair.scope) >= claim.pair.term || facts_.standby()) return;
  if (claims_.guards()) run_ours(line_.server, ProxyStatement::writable, Purpose::in_advance, {});
  // Nothing is raised where the session may not write.
  if (owes_mode(true)) run_ours(line_.server, ProxyStatement::own_mode, Purpose::in_advance, {});
  add_check(line_.server, claim, Purpose::in_advance);
  add_sync(Purpose::in_advance);
}

void Session::State::run_plain_query(std::string_view sql, Purpose role, Change change, std::size_t read_hash) {
  pgwire::append_query(line_.server.bytes.back(), sql);
  line_.server.replies.push({.request = Request::query, .role = role, .change = change, .read_hash = read_hash});
}

// One statement of a simple query as Parse, Bind, Execute, in one transaction with the opening ahead of it, which the Sync
// commits. A simple query drops the unnamed statement and portal, so these may be used. Parse takes one statement only, whatever its
// grammar.
void Session::State::run_converted(std::string_view sql, Change change, std::size_t read_hash) {
  // The opening before it is this transaction's, and what the client pipelines behind it begins another.
  texts_.outstanding.wait_for_all = true;
  std::string& bytes = line_.server.bytes.back();
  PendingReplies& replies = line_.server.replies;
  pgwire::append_parse(bytes, "", sql);
  replies.push({.request = Request::parse, .hidden = true});
  pgwire::append_bind(bytes, "", "", {});
  replies.push({.request = Request::bind, .hidden = true});
  pgwire::append_describe_portal(bytes, "");
  replies.push({.request = Request::describe_portal, .hide_no_data = true, .late_description = !looks_like_query(sql)});
  pgwire::append_execute(bytes, "");
  replies.push({.request = Request::execute, .change = change, .read_hash = read_hash, .late_complete = true});
  pgwire::append_close_statement(bytes, "");
  replies.push({.request = Request::close, .hidden = true});
  if (!model_.tx.in_block) add_before_commit();
  add_client_sync();
  model_.end_implicit();
}

// The check, and its lock at session level for what runs in no transaction of ours.
void Session::State::hold(const Claim& claim) {
  if (!facts_.standby()) run_ours(line_.server, ProxyStatement::writable, Purpose::hold, {});
  // What was prepared before a restore or a promotion may be of a leader that has lost its term in what was forgotten (F3).
  if (session_lock_.effects.kind == statements::Kind::commit_prepared) run_ours(line_.server, ProxyStatement::prepared, Purpose::hold, {});
  add_check(line_.server, claim, Purpose::hold);
  add_sync(Purpose::hold);
  session_lock_.stage = SessionLock::Stage::requested;
  session_lock_.failed = false;
  session_lock_.perhaps_scope = !claim.given.scope.empty() ? claim.given.scope : claim.otherwise.scope;
}

void Session::State::release() {
  session_lock_.stage = SessionLock::Stage::releasing;
  if (!model_.by_default.reported && keeps_default()) run_ours(line_.server, ProxyStatement::look, Purpose::current, {});
  if (claims_.guards()) run_ours(line_.server, ProxyStatement::default_on, Purpose::release, {});
  if (!session_lock_.perhaps_held) {
    const std::array<pgwire::Field, 1> values{pgwire::Field(session_lock_.pair.scope)};
    run_ours(line_.server, ProxyStatement::release, Purpose::release, values);
  } else {
    // Whose lock it took was in the answer that did not come.
    if (!session_lock_.perhaps_scope.empty() && is_known_by(session_lock_.perhaps_scope)) {
      const std::array<pgwire::Field, 1> values{pgwire::Field(session_lock_.perhaps_scope)};
      run_ours(line_.server, ProxyStatement::release, Purpose::release, values);
    }
    const std::array<pgwire::Field, 1> declared{pgwire::Field()};
    run_ours(line_.server, ProxyStatement::release, Purpose::release, declared);
  }
  add_sync(Purpose::release);
}

// Something behind a check has made the session writable by default (set_config in a function): put back before the next word.
void Session::State::restore_default() {
  model_.by_default.broken = false;
  if (model_.tx.in_block) model_.tx.suspect = true;  // it is undone with the block
  // Not as a simple query, which would drop the client's unnamed statement and portal.
  if (!model_.by_default.reported && keeps_default() && !login_.keeps_ready())
    run_ours(line_.server, ProxyStatement::look, Purpose::current, {});
  run_ours(line_.server, ProxyStatement::default_on, Purpose::put_back, {});
  add_sync(Purpose::put_back);
  texts_.outstanding.wait_for_all = true;
}

}  // namespace termgate::session
