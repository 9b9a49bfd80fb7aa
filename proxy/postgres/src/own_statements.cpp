// The messages that the proxy sends ahead of, around and after the client's (docs/decisions/0006).
// They use named statements, and close them. The portal is the unnamed one at the beginning of an
// implicit transaction, where the client has none, and otherwise `_termgate`, which is closed too.
// What replaces a simple query is in carrier.cpp.
#include "own_statements.hpp"

#include <functional>

#include <termgate/detail/plant.hpp>
#include <termgate/pgwire/types.hpp>
#include <termgate/text/quote.hpp>

namespace termgate::pg_session {
namespace {

constexpr std::array<std::string_view, proxy_statement_count> names{
    "_termgate_writable_",     "_termgate_locked_",     "_termgate_mark_",
    "_termgate_unmark_",       "_termgate_default_on_", "_termgate_default_off_",
    "_termgate_default_back_", "_termgate_lend_",       "_termgate_look_",
    "_termgate_take_back_",    "_termgate_own_mode_",   "_termgate_recovery_",
    "_termgate_check_",        "_termgate_check_own_",  "_termgate_again_",
    "_termgate_prepared_",     "_termgate_hold_",       "_termgate_release_",
    "_termgate_declare_",      "_termgate_sit_",        "_termgate_stand_",
    "_termgate_unseat_"};
constexpr std::string_view portal = "_termgate";
// How many claims of comments are remembered to have passed in one transaction. Others are checked
// again.
constexpr std::size_t passed_max = 256;

// Sets the transaction's access mode to the server's own default, which set_config() to NULL
// restores, and returns that default. It takes a snapshot, so SET transaction_read_only TO off
// precedes it.
constexpr std::string_view own_mode =
    "pg_catalog.set_config('transaction_read_only', "
    "pg_catalog.set_config('default_transaction_read_only', NULL, true), true)";
// In a block the session's default is restored at once, because the server would report the change
// and code could rely on it. Elsewhere the transaction keeps the default, so that check_again can
// see what code makes of it.
constexpr std::string_view take_back =
    "pg_catalog.left(pg_catalog.set_config('default_transaction_read_only', 'on', true), 0)";

PendingReply ours(Request request, Purpose role, std::string_view error = {}) {
  PendingReply reply;
  reply.text = error;
  reply.request = request;
  reply.role = role;
  reply.hidden = true;
  return reply;
}

}  // namespace

// Nothing relies on the name: code that runs in the session can look it up and replace the
// statement (prepare). The prefix is refused to clients so that none uses it by chance.
const std::string& OwnStatements::name_of(ProxyStatement which) {
  std::string& made = names_[index_of(which)];
  if (!made.empty()) return made;
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string name(names[index_of(which)]);
  std::size_t bits = std::hash<std::string>()(line_.peer.cancel_key) ^
                     (static_cast<std::size_t>(line_.server_pid) << 32);
  for (int i = 0; i < 16; ++i, bits >>= 4) name += digits[bits & 15];
  return made = name;
}

// Each statement is prepared again in the pipeline in which it runs, because a function, a trigger
// or a view of the client's could replace one that is kept. It is closed there, so that
// pg_prepared_statements has only the client's own. If a failed pipeline may have left a statement
// of this name, a Close precedes it.
void OwnStatements::prepare(Batch& to, ProxyStatement which, Purpose role, std::string_view error) {
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
      // Two queries in one statement, because each statement costs time. The check comes first:
      // above READ COMMITTED it locks the fence's row.
      sql = "SELECT pg_catalog.concat(" + schema +
            ".check_claim_text($1, $2, $3, $4), pg_catalog.chr(10), " + std::string(own_mode);
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
          "SELECT pg_catalog.set_config('termgate.scope', $1, true), "
          "pg_catalog.set_config('termgate.term', $2::pg_catalog.text, "
          "true)";
      count = 2;
      break;
    case ProxyStatement::sit:
      // The seat and the server's own default come in one statement, so that neither exists without
      // the other.
      sql =
          "SELECT s.nonce, s.why, CASE WHEN s.nonce IS NOT NULL THEN "
          "pg_catalog.set_config('default_transaction_read_only', NULL, false) "
          "END "
          "FROM " +
          schema + ".sit($1, $2, pg_catalog.sha256(pg_catalog.decode($3, 'hex'))) s";
      count = 3;
      break;
    case ProxyStatement::stand:
      sql = "SELECT " + schema +
            ".stand(ARRAY[$1::pg_catalog.uuid], pg_catalog.decode($2, 'hex')), "
            "pg_catalog.set_config('default_transaction_read_only', "
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

void OwnStatements::run(Batch& to, ProxyStatement which, Purpose role,
                        std::span<const pgwire::Field> values, std::string_view error) {
  prepare(to, which, role, error);
  // At the beginning of an implicit transaction the client has no unnamed portal. Later it may have
  // one, which must not be replaced.
  const bool beginning =
      !model_.tx.in_block && !model_.tx.writable && !pipeline_.bound && &to != &pipeline_.held;
  const std::string_view through = beginning ? std::string_view() : portal;
  pgwire::append_bind(to.bytes.back(), through, name_of(which), values);
  to.replies.push(ours(Request::bind, role, error));
  pgwire::append_execute(to.bytes.back(), through);
  PendingReply execute = ours(Request::execute, role, error);
  execute.changes = claims_.declarations();
  execute.of = model_.ends_sent;
  if (which == ProxyStatement::check_in_own_mode) execute.shows = Shows::own;
  // The reply says nothing about the session if the claim may have been declared in this
  // transaction: a rollback takes it back, and SET LOCAL ends with a commit.
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

// A scope and a term as two parameters; a missing one is NULL.
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

// Whether the transaction was made writable and the server's own default, which may be READ ONLY,
// has not been applied to it yet.
bool OwnStatements::owes_mode(bool opens) const noexcept {
  const bool writable = opens || (model_.tx.writable && !model_.tx.locked);
  return writable && claims_.guards() && model_.mode_now() == Mode::servers;
}

bool OwnStatements::lends_default() const noexcept {
  return model_.tx.mode == Mode::asked && !model_.tx.in_block && claims_.guards();
}

void OwnStatements::settle_own_mode(Batch& to, bool opens) {
  if (!owes_mode(opens)) return;
  run(to, ProxyStatement::own_mode, Purpose::writable);
  model_.tx.mode = Mode::asked;
}

void OwnStatements::ask_recovery() {
  run(line_.server, ProxyStatement::recovery, Purpose::recovery);
  add_sync(Purpose::recovery);
}

// Ahead of a SHOW of the client's: reads what default_transaction_read_only would be without the
// proxy. None of the three statements takes a snapshot.
void OwnStatements::look_at_own(Batch& to) {
  run(to, ProxyStatement::lend, Purpose::mode);
  run(to, ProxyStatement::look, Purpose::own);
  run(to, ProxyStatement::take_back, Purpose::mode);
}

// The server's session supplies the claim that it declares; the proxy passes only what differs from
// that.
void OwnStatements::add_check(Batch& to, const Claim& claim, Purpose role, bool opens) {
  const bool may_raise =
      claim.certain ? claim.pair.scope == seat_.pair().scope && claim.pair.term != seat_.pair().term
                    : code_may_raise();
  if (role != Purpose::seat && may_raise) stand_before_raise(to);
  ScopedTerm given = claim.given, otherwise = claim.otherwise;
  if (TERMGATE_PLANTED(proxy_one_behind) &&
      line_.host.highest_fence(claim.pair.scope) == claim.pair.term + 1)
    given = {claim.pair.scope, claim.pair.term + 1};
  if (role != Purpose::eviction) {
    check_.sent = line_.now;
    check_.pair = claim.pair;
    check_.given = given.complete();
  }
  const Values first(given), second(otherwise);
  // No declaration is required here, but a session that has declared is checked.
  const bool if_declared = claims_.admission().without_term == WithoutTerm::allow &&
                           !claim.certain && given.empty() && otherwise.empty();
  if (role == Purpose::hold) {
    const std::array<pgwire::Field, 5> values{first.fields[0], first.fields[1], second.fields[0],
                                              second.fields[1],
                                              std::string_view(if_declared ? "f" : "t")};
    if (judgement_.is_known_by(given.scope) && judgement_.is_known_by(otherwise.scope))
      run(to, ProxyStatement::hold, role, values);
    else run(to, ProxyStatement::check, role, no_claim);
  } else if (if_declared && role == Purpose::check) {
    settle_own_mode(to, opens);
    run(to, ProxyStatement::again, role);
  } else {
    const std::array<pgwire::Field, 4> values{first.fields[0], first.fields[1], second.fields[0],
                                              second.fields[1]};
    const bool owes = owes_mode(opens) && role == Purpose::check;
    if (owes) model_.tx.mode = Mode::asked;
    run(to, owes ? ProxyStatement::check_in_own_mode : ProxyStatement::check, role,
        judgement_.is_known_by(given.scope) && judgement_.is_known_by(otherwise.scope) ? values
                                                                                       : no_claim);
  }
  if (role != Purpose::check) return;
  // A comment's claim says nothing about what the session has declared.
  if (claim.named) {
    model_.tx.other_passed = true;
    if (claim.pair.complete() && judgement_.is_known_by(claim.pair.scope)) {
      // The server's guard looks at what the session declares, so the claim of a comment is
      // declared there too; not inside a block of the client's, where it would outlast the
      // statement.
      const Values named(claim.pair);
      const bool alone =
          !model_.tx.in_block || (script_.frame && script_.text->statements.size() == 1);
      if (claims_.server_guarded() && alone)
        run(to, ProxyStatement::declare, Purpose::mode, named.fields);
      if (model_.tx.passed.size() >= passed_max) model_.tx.passed.erase(model_.tx.passed.begin());
      model_.tx.passed.push_back(claim.pair);
    }
  } else {
    model_.tx.checked();
    model_.tx.session_passed = true;
  }
}

// Checks whatever the session declares now, even if the same was checked before: only the server
// knows what that was.
void OwnStatements::add_recheck(Batch& to) {
  settle_own_mode(to, false);
  if (code_may_raise()) stand_before_raise(to);
  check_.sent = line_.now;
  const Claim claim = judgement_.claim_of(nullptr);
  check_.pair = claim.given;
  check_.given = claim.given.complete();
  if (claim.given.empty() && claim.otherwise.empty()) {
    run(to, ProxyStatement::again, Purpose::check);
  } else {
    // A rule takes the place of the session's declaration, or of a missing one.
    const Values first(claim.given), second(claim.otherwise);
    const std::array<pgwire::Field, 4> values{first.fields[0], first.fields[1], second.fields[0],
                                              second.fields[1]};
    run(to, ProxyStatement::check, Purpose::check,
        judgement_.is_known_by(claim.given.scope) && judgement_.is_known_by(claim.otherwise.scope)
            ? values
            : no_claim);
  }
  model_.tx.checked();
}

// SET takes no snapshot, so it comes first, even ahead of the Parse of the check, which takes one.
void OwnStatements::add_opening(Batch& to, const Claim& claim, bool with_check, bool settles) {
  if (!model_.tx.writable && claims_.guards()) run(to, ProxyStatement::writable, Purpose::writable);
  if (!model_.tx.in_block && !model_.tx.writable) model_.tx.mode = model_.by_default.believed;
  const bool opens = !model_.tx.writable;
  if (with_check) add_check(to, claim, Purpose::check, opens);
  else if (settles) settle_own_mode(to, opens);
  model_.tx.writable = true;
  model_.tx.locked = false;
}

void OwnStatements::add_sync(Purpose role) {
  parses_synced_ = parses_;
  pgwire::append_bare(line_.server.bytes.back(), pgwire::frontend::sync);
  line_.server.replies.push(ours(Request::sync, role));
}

void OwnStatements::add_client_sync() {
  parses_synced_ = parses_;
  pgwire::append_bare(line_.server.bytes.back(), pgwire::frontend::sync);
  line_.server.replies.push({.request = Request::sync});
}

void OwnStatements::add_hidden_query(std::string_view sql, Purpose role) {
  pgwire::append_query(line_.server.bytes.back(), sql);
  line_.server.replies.push(ours(Request::query, role));
}

// A raise is committed separately, so that its exclusive lock does not last as long as the client's
// transaction. If something prevents it, the check itself meets that again and reports it.
void OwnStatements::raise_in_advance(const Claim& claim) {
  if (!claim.certain || judgement_.fence_of(claim.pair.scope) >= claim.pair.term ||
      facts_.standby())
    return;
  if (claims_.guards()) run(line_.server, ProxyStatement::writable, Purpose::in_advance);
  // Nothing is raised if the session may not write.
  if (owes_mode(true)) run(line_.server, ProxyStatement::own_mode, Purpose::in_advance);
  add_check(line_.server, claim, Purpose::in_advance);
  add_sync(Purpose::in_advance);
}

// Makes the session READ ONLY by default: at the login, later under `allow`
// (Claims::guard_from_here), and after code or the client's RESET has changed the default. The
// client's next statement waits for that.
void OwnStatements::restore_default(bool looks) {
  model_.by_default.broken = false;
  if (model_.tx.in_block) model_.tx.suspect = true;  // the restore is undone with the block
  // Not as a simple query, which would drop the client's unnamed statement and portal.
  if (looks && !model_.by_default.reported && claims_.guards())
    run(line_.server, ProxyStatement::look, Purpose::current);
  run(line_.server, ProxyStatement::default_on, Purpose::put_back);
  add_sync(Purpose::put_back);
  texts_.outstanding.wait_for_all = true;
}

void OwnStatements::stand_here(Batch& to, Purpose role) {
  const std::array<pgwire::Field, 2> values{pgwire::Field(seat_.nonce()),
                                            pgwire::Field(seat_.secret())};
  run(to, ProxyStatement::stand, role, values);
}

// Whether a term that code has declared unseen could still raise the scope of the seat: not after a
// check of that scope in this transaction (TG005).
bool OwnStatements::code_may_raise() const {
  return !model_.tx.session_passed || model_.tx.last.scope != seat_.pair().scope;
}

// A session that has a seat cannot raise its scope (TG005), so it gives the seat back first. If the
// transaction is rolled back, the seat still exists and is given back again after it. In a READ
// ONLY transaction nothing is raised.
void OwnStatements::stand_before_raise(Batch& to) {
  if (!seat_.held() || model_.tx.stood || model_.tx.failed || model_.tx.locked ||
      model_.locked_for_good || model_.mode_now() == Mode::read_only)
    return;
  model_.tx.stood = true;
  seat_.left_inside();
  stand_here(to, Purpose::mode);
}

void OwnStatements::closed(ProxyStatement which, std::size_t parse) noexcept {
  if (which != ProxyStatement::none && left_[index_of(which)] == parse) left_[index_of(which)] = 0;
}

void OwnStatements::checks(const ScopedTerm& pair, bool given) {
  check_.sent = line_.now;
  check_.pair = pair;
  check_.given = given;
}

}  // namespace termgate::pg_session
