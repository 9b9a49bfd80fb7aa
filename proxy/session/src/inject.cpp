// The messages that are put before, around and behind the client's (docs/decisions/0006). Ours use named statements and portals
// only and close them; the one exception stands in for a simple query, which drops the unnamed ones itself.
#include <array>
#include <functional>

#include "state.hpp"

namespace termgate::session {
namespace {

constexpr std::string_view writable_statement = "_termgate_writable";
constexpr std::string_view check_statement = "_termgate_check";
constexpr std::string_view session_statement = "_termgate_session";
constexpr std::string_view portal = "_termgate";

std::string quoted(std::string_view name) {
  std::string result = "\"";
  for (const char letter : name) {
    if (letter == '"') result += '"';
    result += letter;
  }
  return result + '"';
}

Expected ours(Asked asked, Role role) {
  Expected expected;
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

void Session::State::prepare_ours(Role role, std::string_view told) {
  if (prepared_) return;
  const std::array<std::uint32_t, 2> types{25, 20};  // text, bigint
  const auto prepare = [&](std::string_view name, const std::string& sql, bool typed) {
    // One of the name may be left: a DISCARD that failed, a failed pipeline.
    pgwire::append_close_statement(out(), name);
    ask(ours(Asked::close, role));
    pgwire::append_parse(out(), name, sql, typed ? std::span<const std::uint32_t>(types) : std::span<const std::uint32_t>());
    Expected expected = ours(Asked::parse, role);
    expected.text = told;
    ask(std::move(expected));
  };
  const std::string schema = quoted(options_.schema);
  prepare(writable_statement, "SET transaction_read_only TO off", false);
  prepare(check_statement, "SELECT " + schema + ".check_term($1, $2)", true);
  prepare(session_statement, "SELECT * FROM " + schema + ".check_session($1, $2)", true);
  prepared_ = true;
}

void Session::State::add_writable(Role role) {
  pgwire::append_bind(out(), portal, writable_statement, {});
  ask(ours(Asked::bind, role));
  pgwire::append_execute(out(), portal);
  ask(ours(Asked::execute, role));
  pgwire::append_close_portal(out(), portal);
  ask(ours(Asked::close, role));
}

void Session::State::add_check(const Pair& pair, Role role, std::string_view told) {
  const std::string term = std::to_string(pair.term);
  std::array<pgwire::Field, 2> values{};
  if (!pair.scope.empty()) values[0] = pair.scope;
  if (pair.term != 0) values[1] = term;
  pgwire::append_bind(out(), portal, pair.complete() ? check_statement : session_statement, values);
  Expected bound = ours(Asked::bind, role);
  bound.text = told;
  ask(std::move(bound));
  pgwire::append_execute(out(), portal);
  Expected executed = ours(Asked::execute, role);
  executed.text = told;
  ask(std::move(executed));
  pgwire::append_close_portal(out(), portal);
  ask(ours(Asked::close, role));
  if (role == Role::check || role == Role::in_advance) {
    check_sent_ = now_;
    check_pair_ = pair;
  }
}

// SET takes no snapshot, so it may come first; the check is the first statement that does.
void Session::State::add_opening(const Pair& pair, bool with_check) {
  prepare_ours(Role::check);
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
  prepare_ours(Role::in_advance);
  add_writable(Role::in_advance);
  add_check(pair, Role::in_advance);
  add_sync(Role::in_advance);
}

void Session::State::run_plain_query(std::string_view sql, bool reads, Role role) {
  pgwire::append_query(to_server_.back(), sql);
  Expected expected;
  expected.asked = Asked::query;
  expected.role = role;
  expected.reads = reads;
  answers_.push(std::move(expected));
}

// One statement of a simple query as Parse, Bind, Execute behind the opening, in one transaction that the Sync commits. A
// simple query drops the unnamed statement and portal, so these may be used.
void Session::State::run_converted(std::string_view sql, const Pair& pair, bool with_check, bool description_shown) {
  add_opening(pair, with_check);
  const auto add = [&](Asked asked, bool hidden) -> Expected {
    Expected expected;
    expected.asked = asked;
    expected.hidden = hidden;
    return expected;
  };
  std::string& to = to_server_.back();
  pgwire::append_parse(to, "", sql);
  answers_.push(add(Asked::parse, true));
  pgwire::append_bind(to, "", "", {});
  answers_.push(add(Asked::bind, true));
  pgwire::append_describe_portal(to, "");
  Expected description = add(Asked::describe_portal, description_shown);
  description.hide_no_data = true;
  answers_.push(std::move(description));
  pgwire::append_execute(to, "");
  answers_.push(add(Asked::execute, false));
  pgwire::append_close_statement(to, "");
  answers_.push(add(Asked::close, true));
  pgwire::append_bare(to, pgwire::frontend::sync);
  answers_.push(add(Asked::sync, false));
}

// The opening goes where the group's implicit transaction begins, before anything of it that takes a snapshot.
void Session::State::open_group(const Pair& pair, bool with_check) {
  std::string behind = group_.held.substr(group_.opening_at);
  group_.held.resize(group_.opening_at);
  std::vector<Expected> asked_behind(std::make_move_iterator(group_.asked.begin() + static_cast<std::ptrdiff_t>(group_.opening_asked)), std::make_move_iterator(group_.asked.end()));
  group_.asked.resize(group_.opening_asked);
  into_group_ = true;
  add_opening(pair, with_check);
  into_group_ = false;
  group_.held += behind;
  for (Expected& expected : asked_behind) group_.asked.push_back(std::move(expected));
  flush_group();
  group_.direct = true;
}

void Session::State::flush_group() {
  if (group_.held.empty()) return;
  to_server_.back() += group_.held;
  for (Expected& expected : group_.asked) answers_.push(std::move(expected));
  group_.held.clear();
  group_.asked.clear();
  group_.opening_at = group_.opening_asked = 0;
  group_.touched_server = true;
}

std::string Session::State::error_text(std::string_view code, std::string_view message, std::string_view hint) {
  pgwire::ReportFields fields = pgwire::report("ERROR", code, message);
  if (!hint.empty()) fields.set('H', hint);
  std::string text;
  pgwire::append_error_response(text, fields);
  return text;
}

// The client's statement fails here, and whatever transaction it stands in fails with it.
void Session::State::refuse(std::string_view code, std::string_view message, std::string_view hint) {
  const std::string told = error_text(code, message, hint);
  if (group_.begun) {
    if (!group_.touched_server && !tx_.in_block) {
      for (const std::string& name : group_.parsed) statements_.erase(name);
      group_.held.clear();
      group_.asked.clear();
      group_.refused = true;
      Expected expected;
      expected.asked = Asked::nothing;
      expected.text = told;
      answers_.push(std::move(expected));
      return flush_made_answers();
    }
    // Part of the transaction is with the server already: there it must fail.
    flush_group();
    group_.direct = true;
    fail_in_server(told);
    return;
  }
  if (!tx_.in_block) {
    to_client_.back() += told;
    if (!script_.running) pgwire::append_ready_for_query(to_client_.back(), pgwire::TransactionStatus::idle);
    quiet_since_ = now_;
    return;
  }
  fail_in_server(told);
  Expected expected;
  expected.asked = Asked::sync;
  pgwire::append_bare(to_server_.back(), pgwire::frontend::sync);
  answers_.push(std::move(expected));
}

// No term is 0: the check fails, whatever the fence, or there is none and its preparation fails.
void Session::State::fail_in_server(const std::string& told) {
  prepare_ours(Role::refusal, told);
  const std::string scope = "-";
  std::array<pgwire::Field, 2> values{pgwire::Field(scope), pgwire::Field("0")};
  pgwire::append_bind(to_server_.back(), portal, check_statement, values);
  Expected expected = ours(Asked::bind, Role::refusal);
  expected.text = told;
  ask(expected);
  pgwire::append_execute(to_server_.back(), portal);
  expected.asked = Asked::execute;
  ask(expected);
  tx_.failed = true;
  wait_for_all_ = true;
}

void Session::State::refuse_stale(const Pair& pair, std::int64_t fence) {
  const std::string message = "TG001 stale term " + std::to_string(pair.term) + " for scope \"" + pair.scope + "\": the fence stands at " + std::to_string(fence);
  report_refusal("TG001", message, pair, fence, true);
  refuse("TG001", message, "");
}

// The check, and its lock at session level for what runs in no transaction of ours.
void Session::State::hold(const Pair& pair) {
  const std::array<std::uint32_t, 2> types{25, 20};
  prepare_ours(Role::hold);
  add_writable(Role::hold);
  pgwire::append_close_statement(to_server_.back(), "_termgate_hold");
  ask(ours(Asked::close, Role::hold));
  pgwire::append_parse(to_server_.back(), "_termgate_hold", "SELECT * FROM " + quoted(options_.schema) + ".hold_session($1, $2)", types);
  ask(ours(Asked::parse, Role::hold));
  const std::string term = std::to_string(pair.term);
  std::array<pgwire::Field, 2> values{};
  if (!pair.scope.empty()) values[0] = pair.scope;
  if (pair.term != 0) values[1] = term;
  pgwire::append_bind(to_server_.back(), portal, "_termgate_hold", values);
  ask(ours(Asked::bind, Role::hold));
  pgwire::append_execute(to_server_.back(), portal);
  ask(ours(Asked::execute, Role::hold));
  pgwire::append_close_portal(to_server_.back(), portal);
  ask(ours(Asked::close, Role::hold));
  pgwire::append_close_statement(to_server_.back(), "_termgate_hold");
  ask(ours(Asked::close, Role::hold));
  add_sync(Role::hold);
  hold_.stage = Hold::Stage::asked;
  hold_.failed = false;
  check_sent_ = now_;
  check_pair_ = pair;
}

void Session::State::release() {
  hold_.stage = Hold::Stage::releasing;
  if (guards()) add_hidden_query("SET default_transaction_read_only TO on", Role::release);
  const std::array<std::uint32_t, 1> types{25};
  pgwire::append_close_statement(to_server_.back(), "_termgate_release");
  ask(ours(Asked::close, Role::release));
  pgwire::append_parse(to_server_.back(), "_termgate_release", "SELECT " + quoted(options_.schema) + ".release_session($1)", types);
  ask(ours(Asked::parse, Role::release));
  const std::array<pgwire::Field, 1> values{pgwire::Field(hold_.pair.scope)};
  pgwire::append_bind(to_server_.back(), portal, "_termgate_release", values);
  ask(ours(Asked::bind, Role::release));
  pgwire::append_execute(to_server_.back(), portal);
  ask(ours(Asked::execute, Role::release));
  pgwire::append_close_portal(to_server_.back(), portal);
  ask(ours(Asked::close, Role::release));
  pgwire::append_close_statement(to_server_.back(), "_termgate_release");
  ask(ours(Asked::close, Role::release));
  add_sync(Role::release);
}

// Something behind a check has made the session writable by default (set_config in a function): put back before the next word.
void Session::State::restore_default() {
  default_broken_ = false;
  add_hidden_query("SET default_transaction_read_only TO on", Role::silent);
}

}  // namespace termgate::session
