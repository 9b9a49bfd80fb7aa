// The messages that are put before, around and behind the client's (docs/decisions/0006). Ours use named statements and portals
// only and close them; the one exception stands in for a simple query, which drops the unnamed ones itself.
#include <array>
#include <functional>

#include <termgate/detail/plant.hpp>

#include "state.hpp"

namespace termgate::session {
namespace {

constexpr std::array<std::string_view, ours_count> names{"_termgate_writable_", "_termgate_locked_", "_termgate_default_on_", "_termgate_default_off_", "_termgate_check_", "_termgate_again_", "_termgate_prepared_", "_termgate_hold_", "_termgate_hold_declared_", "_termgate_release_"};
constexpr std::string_view portal = "_termgate";

std::string quoted(std::string_view name) {
  std::string result = "\"";
  for (const char letter : name) {
    if (letter == '"') result += '"';
    result += letter;
  }
  return result + '"';
}

// A query describes its rows before the first is made; INSERT … RETURNING and EXECUTE do not, if they fail.
bool looks_like_query(std::string_view sql) noexcept {
  const std::size_t at = sql.find_first_not_of(" \t\r\n(");
  if (at == std::string_view::npos) return false;
  const char letter = static_cast<char>(sql[at] | 0x20);
  return letter == 's' || letter == 'w' || letter == 'v' || letter == 't';
}

Expected ours(Asked asked, Role role, std::string_view told = {}) {
  Expected expected;
  expected.text = told;
  expected.asked = asked;
  expected.role = role;
  expected.hidden = true;
  return expected;
}

}  // namespace

std::string& Session::State::out() { return into_group_ ? group_.held : to_server_.back(); }

void Session::State::ask(Expected expected) {
  if (into_group_) {
    group_.asked.push_back(std::move(expected));
  } else {
    answers_.push(std::move(expected));
  }
}

void Session::State::send(std::string_view frame) { out() += frame; }

// Nothing rests on the name: code that runs in the session can look it up, and put something else in its place (prepare_ours). Clients are
// refused the prefix, so that none takes it by chance.
const std::string& Session::State::name_of(Ours which) {
  std::string& made = names_[which];
  if (!made.empty()) return made;
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string name(names[which]);
  std::size_t bits = std::hash<std::string>()(peer_.cancel_key) ^ (static_cast<std::size_t>(server_pid_) << 32);
  for (int i = 0; i < 16; ++i, bits >>= 4) name += digits[bits & 15];
  return made = name;
}

// Prepared anew each time, in the same pipeline in which it runs: a function, a trigger or a view of the client's could replace what is kept. And closed
// there, so that pg_prepared_statements has nothing but the client's own. A pipeline that failed may have left one of the name, hence the Close in front.
void Session::State::prepare_ours(Ours which, Role role, std::string_view told) {
  const std::array<std::uint32_t, 4> types{25, 20, 25, 20};  // text, bigint
  const std::string schema = quoted(options_.schema);
  std::string sql;
  std::size_t count = 0;
  switch (which) {
    case ours_writable: sql = "SET transaction_read_only TO off"; break;
    case ours_locked: sql = "SET transaction_read_only TO on"; break;
    case ours_default_on: sql = "SET default_transaction_read_only TO on"; break;
    case ours_default_off: sql = "SET default_transaction_read_only TO off"; break;
    case ours_check: sql = "SELECT * FROM " + schema + ".check_claim($1, $2, $3, $4)"; count = 4; break;
    case ours_again: sql = "SELECT * FROM " + schema + ".check_again($1, $2)"; count = 2; break;
    case ours_prepared: sql = "SELECT " + schema + ".check_prepared()"; break;
    case ours_hold: sql = "SELECT * FROM " + schema + ".hold_session($1, $2)"; count = 2; break;
    case ours_hold_declared:
      // No row where nothing is declared.
      sql = "SELECT h.* FROM " + schema + ".hold_session($1, $2) h WHERE pg_catalog.current_setting('termgate.scope', true) OPERATOR(pg_catalog.<>) ''"
            " AND pg_catalog.current_setting('termgate.term', true) OPERATOR(pg_catalog.<>) ''";
      count = 2;
      break;
    case ours_release: sql = "SELECT " + schema + ".release_session($1)"; count = 1; break;
    case ours_count: return;
  }
  const std::string& name = name_of(which);
  const auto parameters = std::span<const std::uint32_t>(types).first(count);
  pgwire::append_close_statement(out(), name);
  ask(ours(Asked::close, role, told));
  pgwire::append_parse(out(), name, sql, parameters);
  ask(ours(Asked::parse, role, told));
}

// Prepares, binds, executes and closes one of ours.
void Session::State::run_ours(Ours which, Role role, std::span<const pgwire::Field> values, std::string_view told) {
  prepare_ours(which, role, told);
  // At the beginning of an implicit transaction no unnamed portal of the client's can be alive; later it is not ours to touch.
  const bool beginning = !tx_.in_block && !tx_.writable && !group_.bound;
  const std::string_view through = beginning ? std::string_view() : portal;
  pgwire::append_bind(out(), through, name_of(which), values);
  ask(ours(Asked::bind, role, told));
  pgwire::append_execute(out(), through);
  Expected execute = ours(Asked::execute, role, told);
  execute.changes = declared_.changes;
  execute.given = check_.given || tx_.declared_inside;
  ask(std::move(execute));
  if (!beginning) {
    pgwire::append_close_portal(out(), portal);
    ask(ours(Asked::close, role, told));
  }
  pgwire::append_close_statement(out(), name_of(which));
  ask(ours(Asked::close, role, told));
}

void Session::State::add_writable(Role role) { run_ours(ours_writable, role, {}); }

namespace {

// A scope and a term as two parameters; what is missing is NULL.
struct Values {
  explicit Values(Pair&&) = delete;  // its scope is borrowed
  explicit Values(const Pair& pair) : term(std::to_string(pair.term)) {
    if (!pair.scope.empty()) fields[0] = pair.scope;
    if (pair.term != 0) fields[1] = term;
  }
  std::string term;
  std::array<pgwire::Field, 2> fields{};
};

}  // namespace

// The server's session knows what it declares; what it is not to say is given.
void Session::State::add_check(const Claim& claim, Role role) {
  Pair given = claim.given, otherwise = claim.otherwise;
  if (TERMGATE_PLANTED(proxy_one_behind) && surroundings_.highest_fence(claim.pair.scope) == claim.pair.term + 1) given = {claim.pair.scope, claim.pair.term + 1};
  if (role != Role::eviction) {
    check_.sent = now_;
    check_.pair = claim.pair;
    check_.given = given.complete();
  }
  const Values first(given), second(otherwise);
  // Nobody has to declare here; whoever has, is held to it.
  const bool if_declared = admission_.without_term == WithoutTerm::allow && !claim.certain && given.empty() && otherwise.empty();
  if (role == Role::hold && if_declared) {
    run_ours(ours_hold_declared, role, first.fields);
  } else if (role == Role::hold) {
    // A rule that is overridable speaks where the session does not.
    run_ours(ours_hold, role, given.empty() && claim.certain && !claim.otherwise.empty() ? Values(claim.pair).fields : first.fields);
  } else if (if_declared && role == Role::check) {
    run_ours(ours_again, role, {first.fields.data(), 2});
  } else {
    const std::array<pgwire::Field, 4> values{first.fields[0], first.fields[1], second.fields[0], second.fields[1]};
    run_ours(ours_check, role, values);
  }
  if (role != Role::check) return;
  // What a comment names says nothing of what the session has declared since.
  if (claim.named) {
    tx_.other_passed = true;
    if (claim.pair.complete()) tx_.passed.push_back(claim.pair);
  } else {
    tx_.redeclared = tx_.code_declared = false;
    tx_.session_passed = true;
    tx_.declared = claim.certain && !tx_.declared_inside && claim.given.empty() && claim.otherwise.empty() ? claim.pair : Pair();
  }
}

// Only where the session declares something else than it did when it was checked in this transaction. Where that is not known, whatever it declares.
void Session::State::add_recheck() {
  const Pair declared = tx_.session_passed ? tx_.declared : Pair();
  const Values known(declared);
  check_.sent = now_;
  check_.pair = Pair();
  check_.given = false;
  run_ours(ours_again, Role::check, known.fields);
  tx_.redeclared = tx_.code_declared = false;
  tx_.declared = Pair();
}

// SET takes no snapshot, so it comes first, before even the Parse of the check, which takes one.
void Session::State::add_opening(const Claim& claim, bool with_check) {
  if (!tx_.writable && guards()) add_writable(Role::writable);
  if (with_check) add_check(claim, Role::check);
  tx_.writable = true;
  tx_.locked = false;
}

void Session::State::add_sync(Role role) {
  pgwire::append_bare(out(), pgwire::frontend::sync);
  ask(ours(Asked::sync, role));
}

void Session::State::add_hidden_query(std::string_view sql, Role role) {
  pgwire::append_query(out(), sql);
  ask(ours(Asked::query, role));
}

// A raise is committed by itself, so that its exclusive lock does not last as long as a user's transaction. What stands in its way is
// told when the check itself meets it again.
void Session::State::raise_in_advance(const Claim& claim) {
  if (!claim.certain || surroundings_.highest_fence(claim.pair.scope) >= claim.pair.term) return;
  if (guards()) add_writable(Role::in_advance);
  add_check(claim, Role::in_advance);
  add_sync(Role::in_advance);
}

void Session::State::run_plain_query(std::string_view sql, Role role, Change change, std::size_t read_hash) {
  pgwire::append_query(to_server_.back(), sql);
  Expected expected;
  expected.asked = Asked::query;
  expected.role = role;
  expected.change = change;
  expected.read_hash = read_hash;
  answers_.push(std::move(expected));
}

// One statement of a simple query as Parse, Bind, Execute, in one transaction with the opening that stands before it, which the Sync
// commits. A simple query drops the unnamed statement and portal, so these may be used. Parse takes one statement only, whatever its grammar.
void Session::State::run_converted(std::string_view sql, Change change, std::size_t read_hash) {
  const auto add = [&](Asked asked, bool hidden) -> Expected {
    Expected expected;
    expected.asked = asked;
    expected.hidden = hidden;
    return expected;
  };
  // The opening before it is this transaction's, and what the client pipelines behind it begins another.
  outstanding_.wait_for_all = true;
  std::string& to = to_server_.back();
  pgwire::append_parse(to, "", sql);
  answers_.push(add(Asked::parse, true));
  pgwire::append_bind(to, "", "", {});
  answers_.push(add(Asked::bind, true));
  pgwire::append_describe_portal(to, "");
  Expected description = add(Asked::describe_portal, false);
  description.hide_no_data = true;
  description.late_description = !looks_like_query(sql);
  answers_.push(std::move(description));
  pgwire::append_execute(to, "");
  Expected execute = add(Asked::execute, false);
  execute.late_complete = true;
  execute.change = change;
  execute.read_hash = read_hash;
  answers_.push(std::move(execute));
  pgwire::append_close_statement(to, "");
  answers_.push(add(Asked::close, true));
  if (!tx_.in_block) add_before_commit();
  pgwire::append_bare(to, pgwire::frontend::sync);
  answers_.push(add(Asked::sync, false));
  if (!tx_.in_block) tx_ = Transaction();
}

// The check, and its lock at session level for what runs in no transaction of ours.
void Session::State::hold(const Claim& claim) {
  add_writable(Role::hold);
  // What was prepared before a restore or a promotion may be of a leader that has lost its term in what was forgotten (F3).
  if (hold_.effects.kind == statements::Kind::commit_prepared && options_.server_has_rules) run_ours(ours_prepared, Role::hold, {});
  add_check(claim, Role::hold);
  add_sync(Role::hold);
  hold_.stage = Hold::Stage::asked;
  hold_.failed = false;
}

void Session::State::release() {
  hold_.stage = Hold::Stage::releasing;
  if (guards()) run_ours(ours_default_on, Role::release, {});
  const std::array<pgwire::Field, 1> values{pgwire::Field(hold_.pair.scope)};
  run_ours(ours_release, Role::release, values);
  add_sync(Role::release);
}

// A pooler answers the login itself, with a PID of its own making. One that gives each transaction to another server session would
// take a declaration, and our READ ONLY, to other clients.
void Session::State::ask_who_serves() {
  if (options_.server_pooler) return;
  std::string sql = "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('termgate.scope', true), pg_catalog.current_setting('termgate.term', true)";
  if (options_.server_has_rules) sql += ", EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_type OPERATOR(pg_catalog.<>) '1' AND r.ev_class OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid)";
  add_hidden_query(sql, Role::who_serves);
}

// Something behind a check has made the session writable by default (set_config in a function): put back before the next word.
void Session::State::restore_default() {
  default_.broken = false;
  if (tx_.in_block) tx_.suspect = true;  // it is undone with the block
  // Not as a simple query, which would drop the client's unnamed statement and portal.
  run_ours(ours_default_on, Role::put_back, {});
  add_sync(Role::put_back);
  outstanding_.wait_for_all = true;
}

}  // namespace termgate::session
