// The messages that are put before, around and behind the client's (docs/decisions/0006). Ours use named statements and portals
// only and close them; the one exception stands in for a simple query, which drops the unnamed ones itself.
#include <array>
#include <functional>

#include <termgate/detail/plant.hpp>

#include "state.hpp"

namespace termgate::session {
namespace {

constexpr std::array<std::string_view, ours_count> names{"_termgate_writable_", "_termgate_locked_", "_termgate_default_on_", "_termgate_default_off_", "_termgate_check_", "_termgate_session_", "_termgate_hold_", "_termgate_release_"};
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

// Not to be guessed, so that nothing else is prepared in its place; and never looked up by the client, which is refused the prefix.
const std::string& Session::State::name_of(Ours which) {
  std::string& made = names_[which];
  if (!made.empty()) return made;
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string name(names[which]);
  std::size_t bits = std::hash<std::string>()(peer_.cancel_key) ^ (static_cast<std::size_t>(server_pid_) << 32);
  for (int i = 0; i < 16; ++i, bits >>= 4) name += digits[bits & 15];
  return made = name;
}

// Prepared where they are first needed. One of the name may be left by a DISCARD or a pipeline that failed.
void Session::State::prepare_ours(Ours which, Role role, std::string_view told) {
  if (prepared_[which]) return;
  prepared_[which] = true;
  const std::array<std::uint32_t, 2> types{25, 20};  // text, bigint
  const std::string schema = quoted(options_.schema);
  std::string sql;
  switch (which) {
    case ours_writable: sql = "SET transaction_read_only TO off"; break;
    case ours_locked: sql = "SET transaction_read_only TO on"; break;
    case ours_default_on: sql = "SET default_transaction_read_only TO on"; break;
    case ours_default_off: sql = "SET default_transaction_read_only TO off"; break;
    case ours_check: sql = "SELECT " + schema + ".check_term($1, $2)"; break;
    case ours_session: sql = "SELECT * FROM " + schema + ".check_session($1, $2)"; break;
    case ours_hold: sql = "SELECT * FROM " + schema + ".hold_session($1, $2)"; break;
    case ours_release: sql = "SELECT " + schema + ".release_session($1)"; break;
    case ours_count: return;
  }
  const std::string& name = name_of(which);
  std::span<const std::uint32_t> parameters(types);
  if (which < ours_check) parameters = {};
  if (which == ours_release) parameters = parameters.first(1);
  pgwire::append_close_statement(out(), name);
  ask(ours(Asked::close, role, told));
  pgwire::append_parse(out(), name, sql, parameters);
  Expected expected = ours(Asked::parse, role, told);
  expected.ours = which;
  ask(std::move(expected));
}

// Binds, executes and closes one of ours.
void Session::State::run_ours(Ours which, Role role, std::span<const pgwire::Field> values, std::string_view told) {
  prepare_ours(which, role, told);
  // At the beginning of an implicit transaction no unnamed portal of the client's can be alive; later it is not ours to touch.
  const bool beginning = !tx_.in_block && !tx_.writable;
  const std::string_view through = beginning ? std::string_view() : portal;
  pgwire::append_bind(out(), through, name_of(which), values);
  ask(ours(Asked::bind, role, told));
  pgwire::append_execute(out(), through);
  ask(ours(Asked::execute, role, told));
  if (beginning) return;
  pgwire::append_close_portal(out(), portal);
  ask(ours(Asked::close, role, told));
}

void Session::State::add_writable(Role role) { run_ours(ours_writable, role, {}); }

void Session::State::add_check(const Pair& pair, Role role) {
  const bool one_behind = TERMGATE_PLANTED(proxy_one_behind) && surroundings_.highest_fence(pair.scope) == pair.term + 1;
  const std::string term = std::to_string(pair.term + (one_behind ? 1 : 0));
  std::array<pgwire::Field, 2> values{};
  if (!pair.scope.empty()) values[0] = pair.scope;
  if (pair.term != 0) values[1] = term;
  if (role != Role::eviction) {
    check_.sent = now_;
    check_.pair = pair;
  }
  run_ours(role == Role::hold ? ours_hold : pair.complete() ? ours_check : ours_session, role, values);
}

// SET takes no snapshot, so it comes first, before even the Parse of the check, which takes one.
void Session::State::add_opening(const Pair& pair, bool with_check) {
  if (!tx_.writable) add_writable(Role::writable);
  if (with_check) add_check(pair, Role::check);
  tx_.writable = true;
  if (with_check) {
    tx_.fenced = true;
    if (pair.complete()) tx_.passed.push_back(pair);
  }
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
void Session::State::raise_in_advance(const Pair& pair) {
  if (!pair.complete() || surroundings_.highest_fence(pair.scope) >= pair.term) return;
  add_writable(Role::in_advance);
  add_check(pair, Role::in_advance);
  add_sync(Role::in_advance);
}

void Session::State::run_plain_query(std::string_view sql, Role role, Change change) {
  pgwire::append_query(to_server_.back(), sql);
  Expected expected;
  expected.asked = Asked::query;
  expected.role = role;
  expected.change = change;
  answers_.push(std::move(expected));
}

// One statement of a simple query as Parse, Bind, Execute, in one transaction with the opening that stands before it, which the Sync
// commits. A simple query drops the unnamed statement and portal, so these may be used. Parse takes one statement only, whatever its grammar.
void Session::State::run_converted(std::string_view sql, bool description_shown) {
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
  Expected description = add(Asked::describe_portal, description_shown);
  description.hide_no_data = true;
  description.late_description = !looks_like_query(sql);
  answers_.push(std::move(description));
  pgwire::append_execute(to, "");
  Expected execute = add(Asked::execute, false);
  execute.late_complete = true;
  answers_.push(std::move(execute));
  pgwire::append_close_statement(to, "");
  answers_.push(add(Asked::close, true));
  pgwire::append_bare(to, pgwire::frontend::sync);
  answers_.push(add(Asked::sync, false));
  if (!tx_.in_block) tx_ = Transaction();
}

// The check, and its lock at session level for what runs in no transaction of ours.
void Session::State::hold(const Pair& pair) {
  add_writable(Role::hold);
  add_check(pair, Role::hold);
  add_sync(Role::hold);
  hold_.stage = Hold::Stage::asked;
  hold_.failed = false;
}

void Session::State::release() {
  hold_.stage = Hold::Stage::releasing;
  prepared_[ours_default_on] = prepared_[ours_release] = false;
  if (guards()) run_ours(ours_default_on, Role::release, {});
  const std::array<pgwire::Field, 1> values{pgwire::Field(hold_.pair.scope)};
  run_ours(ours_release, Role::release, values);
  add_sync(Role::release);
}

// A pooler answers the login itself, with a PID of its own making. One that gives each transaction to another server session would
// take a declaration, and our READ ONLY, to other clients.
void Session::State::ask_who_serves() {
  if (options_.server_pooler) return;
  add_hidden_query("SELECT pg_catalog.pg_backend_pid()", Role::who_serves);
}

// Something behind a check has made the session writable by default (set_config in a function): put back before the next word.
void Session::State::restore_default() {
  default_.broken = false;
  if (tx_.in_block) tx_.suspect = true;  // it is undone with the block
  // Not as a simple query, which would drop the client's unnamed statement and portal.
  prepared_[ours_default_on] = false;
  run_ours(ours_default_on, Role::put_back, {});
  add_sync(Role::put_back);
  outstanding_.wait_for_all = true;
}

}  // namespace termgate::session
