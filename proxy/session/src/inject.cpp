// The messages that are sent ahead of, around and after the client's (docs/decisions/0006). Ours use named statements and portals
// only and close them; the one exception replaces a simple query, which drops the unnamed ones itself.
#include <array>
#include <functional>

#include <termgate/detail/plant.hpp>

#include "state.hpp"

namespace termgate::session {
namespace {

constexpr std::array<std::string_view, proxy_statement_count> names{
    "_termgate_writable_",   "_termgate_locked_",      "_termgate_mark_",    "_termgate_unmark_",
    "_termgate_default_on_", "_termgate_default_off_", "_termgate_check_",   "_termgate_again_",
    "_termgate_prepared_",   "_termgate_hold_",        "_termgate_release_", "_termgate_declare_"};
constexpr std::string_view portal = "_termgate";
constexpr std::size_t passed_max = 256;  // claims of comments that are remembered to have passed in a transaction; others are checked again

std::string in_quotes(std::string_view name) {
  std::string result = "\"";
  for (const char letter : name) {
    if (letter == '"') result += '"';
    result += letter;
  }
  return result + '"';
}

// The same whatever standard_conforming_strings says.
std::string literal(std::string_view text) {
  std::string result = "E'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') result += letter;
    result += letter;
  }
  return result + "'";
}

// A query describes its rows before the first is made; INSERT … RETURNING and EXECUTE do not, if they fail.
bool looks_like_query(std::string_view sql) noexcept {
  const std::size_t at = sql.find_first_not_of(" \t\r\n(");
  if (at == std::string_view::npos) return false;
  const char letter = static_cast<char>(sql[at] | 0x20);
  return letter == 's' || letter == 'w' || letter == 'v' || letter == 't';
}

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
  std::string& made = names_[index_of(which)];
  if (!made.empty()) return made;
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string name(names[index_of(which)]);
  std::size_t bits = std::hash<std::string>()(peer_.cancel_key) ^ (static_cast<std::size_t>(server_pid_) << 32);
  for (int i = 0; i < 16; ++i, bits >>= 4) name += digits[bits & 15];
  return made = name;
}

// Prepared anew each time, in the same pipeline in which it runs: a function, a trigger or a view of the client's could replace what is
// kept. And closed there, so that pg_prepared_statements has nothing but the client's own. A pipeline that failed may have left one of the
// name: then a Close precedes it.
void Session::State::prepare_ours(Batch& to, ProxyStatement which, Purpose role, std::string_view error) {
  const std::array<std::uint32_t, 5> types{25, 20, 25, 20, 16};  // text, bigint, boolean
  const std::string schema = in_quotes(options_.schema);
  std::string sql;
  std::size_t count = 0;
  switch (which) {
    case ProxyStatement::writable: sql = "SET transaction_read_only TO off"; break;
    case ProxyStatement::locked: sql = "SET transaction_read_only TO on"; break;
    case ProxyStatement::mark: sql = "SAVEPOINT _termgate_first"; break;
    case ProxyStatement::unmark: sql = "RELEASE SAVEPOINT _termgate_first"; break;
    case ProxyStatement::default_on: sql = "SET default_transaction_read_only TO on"; break;
    case ProxyStatement::default_off: sql = "SET default_transaction_read_only TO off"; break;
    case ProxyStatement::check:
      sql = "SELECT " + schema + ".check_claim_text($1, $2, $3, $4)";
      count = 4;
      break;
    case ProxyStatement::again: sql = "SELECT * FROM " + schema + ".check_again()"; break;
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
  const bool beginning = !model_.tx.in_block && !model_.tx.writable && !pipeline_.bound;
  const std::string_view through = beginning ? std::string_view() : portal;
  pgwire::append_bind(to.bytes.back(), through, name_of(which), values);
  to.replies.push(ours(Request::bind, role, error));
  pgwire::append_execute(to.bytes.back(), through);
  PendingReply execute = ours(Request::execute, role, error);
  execute.changes = claims_.declarations();
  execute.of = model_.ends_sent;
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

// The server's session knows what it declares; what it is not to say is given.
void Session::State::add_check(Batch& to, const Claim& claim, Purpose role) {
  ScopedTerm given = claim.given, otherwise = claim.otherwise;
  if (TERMGATE_PLANTED(proxy_one_behind) && host_.highest_fence(claim.pair.scope) == claim.pair.term + 1)
    given = {claim.pair.scope, claim.pair.term + 1};
  if (role != Purpose::eviction) {
    check_.sent = now_;
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
    run_ours(to, ProxyStatement::again, role, {});
  } else {
    const std::array<pgwire::Field, 4> values{first.fields[0], first.fields[1], second.fields[0], second.fields[1]};
    run_ours(to, ProxyStatement::check, role, is_known_by(given.scope) && is_known_by(otherwise.scope) ? values : no_claim);
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
  check_.sent = now_;
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
void Session::State::add_opening(Batch& to, const Claim& claim, bool with_check) {
  if (!model_.tx.writable && claims_.guards()) run_ours(to, ProxyStatement::writable, Purpose::writable, {});
  if (with_check) add_check(to, claim, Purpose::check);
  model_.tx.writable = true;
  model_.tx.locked = false;
}

void Session::State::add_sync(Purpose role) {
  parses_synced_ = parses_;
  pgwire::append_bare(server_.bytes.back(), pgwire::frontend::sync);
  server_.replies.push(ours(Request::sync, role));
}

void Session::State::add_client_sync() {
  parses_synced_ = parses_;
  pgwire::append_bare(server_.bytes.back(), pgwire::frontend::sync);
  server_.replies.push({.request = Request::sync});
}

void Session::State::add_hidden_query(std::string_view sql, Purpose role) {
  pgwire::append_query(server_.bytes.back(), sql);
  server_.replies.push(ours(Request::query, role));
}

// A raise is committed by itself, so that its exclusive lock does not last as long as a user's transaction. What stands in its way is
// told when the check itself meets it again.
void Session::State::raise_in_advance(const Claim& claim) {
  if (!claim.certain || fence_of(claim.pair.scope) >= claim.pair.term) return;
  if (claims_.guards()) run_ours(server_, ProxyStatement::writable, Purpose::in_advance, {});
  add_check(server_, claim, Purpose::in_advance);
  add_sync(Purpose::in_advance);
}

void Session::State::run_plain_query(std::string_view sql, Purpose role, Change change, std::size_t read_hash) {
  pgwire::append_query(server_.bytes.back(), sql);
  server_.replies.push({.request = Request::query, .role = role, .change = change, .read_hash = read_hash});
}

// One statement of a simple query as Parse, Bind, Execute, in one transaction with the opening ahead of it, which the Sync
// commits. A simple query drops the unnamed statement and portal, so these may be used. Parse takes one statement only, whatever its
// grammar.
void Session::State::run_converted(std::string_view sql, Change change, std::size_t read_hash) {
  // The opening before it is this transaction's, and what the client pipelines behind it begins another.
  outstanding_.wait_for_all = true;
  std::string& bytes = server_.bytes.back();
  PendingReplies& replies = server_.replies;
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
  run_ours(server_, ProxyStatement::writable, Purpose::hold, {});
  // What was prepared before a restore or a promotion may be of a leader that has lost its term in what was forgotten (F3).
  if (session_lock_.effects.kind == statements::Kind::commit_prepared && options_.server_has_rules)
    run_ours(server_, ProxyStatement::prepared, Purpose::hold, {});
  add_check(server_, claim, Purpose::hold);
  add_sync(Purpose::hold);
  session_lock_.stage = SessionLock::Stage::requested;
  session_lock_.failed = false;
  session_lock_.perhaps_scope = !claim.given.scope.empty() ? claim.given.scope : claim.otherwise.scope;
}

void Session::State::release() {
  session_lock_.stage = SessionLock::Stage::releasing;
  if (claims_.guards()) run_ours(server_, ProxyStatement::default_on, Purpose::release, {});
  if (!session_lock_.perhaps_held) {
    const std::array<pgwire::Field, 1> values{pgwire::Field(session_lock_.pair.scope)};
    run_ours(server_, ProxyStatement::release, Purpose::release, values);
  } else {
    // Whose lock it took was in the answer that did not come.
    if (!session_lock_.perhaps_scope.empty() && is_known_by(session_lock_.perhaps_scope)) {
      const std::array<pgwire::Field, 1> values{pgwire::Field(session_lock_.perhaps_scope)};
      run_ours(server_, ProxyStatement::release, Purpose::release, values);
    }
    const std::array<pgwire::Field, 1> declared{pgwire::Field()};
    run_ours(server_, ProxyStatement::release, Purpose::release, declared);
  }
  add_sync(Purpose::release);
}

// "on" where the server guards this session, "off" where it could; NULL where no guard is loaded that uses our layer 1. Only a setting that
// a library has registered is in pg_settings with that context, so no client can make it up, and every role may look. A session that may
// act as the owner of layer 1 is refused every write by the guard, so where it may choose the proxy keeps such a session.
std::string Session::State::guard_of_session() const {
  std::string sql =
      "(SELECT s.setting FROM pg_catalog.pg_settings s WHERE s.name OPERATOR(pg_catalog.=) 'termgate.guarded' AND s.context "
      "OPERATOR(pg_catalog.=) 'internal' AND EXISTS (SELECT FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid "
      "OPERATOR(pg_catalog.=) e.extnamespace WHERE e.extname OPERATOR(pg_catalog.=) 'termgate_guard' AND n.nspname "
      "OPERATOR(pg_catalog.=) " +
      literal(options_.schema);
  if (options_.server_guard == Options::ServerGuard::when_there) sql += " AND NOT pg_catalog.pg_has_role(n.nspowner, 'MEMBER')";
  return sql + "))";
}

// A pooler answers the login itself, with a PID of its own making. One that gives each transaction to another server session would
// take a declaration, and our READ ONLY, to other clients.
void Session::State::ask_who_serves() {
  if (options_.server_pooler) return;
  std::string sql =
      "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('termgate.scope', true), pg_catalog.current_setting('termgate.term', "
      "true)";
  if (options_.server_has_rules)
    sql +=
        ", EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_type OPERATOR(pg_catalog.<>) '1' AND r.ev_class OPERATOR(pg_catalog.>=) "
        "16384::pg_catalog.oid), pg_catalog.current_setting('search_path', true)";
  else sql += ", false, ''";
  if (options_.server_guard != Options::ServerGuard::off && claims_.may_be_server_guarded()) sql += ", " + guard_of_session();
  add_hidden_query(sql, Purpose::who_serves);
}

// Something behind a check has made the session writable by default (set_config in a function): put back before the next word.
void Session::State::restore_default() {
  model_.by_default.broken = false;
  if (model_.tx.in_block) model_.tx.suspect = true;  // it is undone with the block
  // Not as a simple query, which would drop the client's unnamed statement and portal.
  run_ours(server_, ProxyStatement::default_on, Purpose::put_back, {});
  add_sync(Purpose::put_back);
  outstanding_.wait_for_all = true;
}

}  // namespace termgate::session
