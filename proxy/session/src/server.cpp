// What the server's replies say of the session and its transaction. What the client sees of them is reply_router.hpp's, errors are
// server_error.cpp's.
#include <algorithm>
#include <cassert>
#include <utility>

#include "columns.hpp"
#include "numbers.hpp"
#include "state.hpp"

namespace termgate::session {

namespace backend = pgwire::backend;
using pgwire::Event;
using pgwire::TransactionStatus;
using statements::ConformingStrings;
using statements::Kind;

namespace {

constexpr std::size_t uuid_letters = 36;

constexpr std::string_view behind_a_pooler =
    "there is a pooler between the proxy and the server: put it in front of the proxy, or, if it keeps one server session for each client "
    "as long "
    "as that stays, start the proxy with --server-pooler session";

}  // namespace

// Cuts the server's bytes into messages. Those of the login are login.cpp's; rows that the client may see are
// forwarded in runs, without a look at each.
void Session::State::from_server(std::string_view bytes) {
  if (line_.stage == Stage::server_greeting) {
    if (bytes.empty()) return;
    login_.server_greeted(bytes);
    if (bytes.empty()) return;
  }
  if (line_.stage == Stage::replication) return replication_.from_server(bytes);
  while (!bytes.empty() && (line_.stage == Stage::login || line_.stage == Stage::ready)) {
    const Event event = line_.server_reader.next(bytes);
    bytes.remove_prefix(event.used);
    switch (event.kind) {
      case Event::Kind::need_more: return;
      case Event::Kind::announced: break;
      case Event::Kind::malformed:
        line_.host.happened({.kind = Incident::Kind::malformed, .message = event.problem.reason()});
        return line_.end("08P01", std::string("the server: ") + std::string(event.problem.reason()));
      case Event::Kind::message:
      case Event::Kind::part:
        if (line_.stage == Stage::login) {
          login_event(event);
        } else {
          server_event(event);
          if (event.last && line_.router.shows() && (event.type == backend::data_row || event.type == backend::copy_data) &&
              line_.stage == Stage::ready) {
            // Nothing changes from one shown row to the next.
            const std::string_view rows = line_.server_reader.run_of(event.type, bytes);
            line_.to_client.back() += rows;
            bytes.remove_prefix(rows.size());
          }
        }
        break;
    }
    if (line_.stage == Stage::replication) return replication_.from_server(bytes);
    if (pump_after_) {
      pump_after_ = false;
      pump();
    }
  }
}

void Session::State::parameter_status(const Event& event) {
  const auto status = pgwire::decode_parameter_status(event.body);
  if (!status) return line_.end("08P01", status.problem().reason());
  if (status->name == "default_transaction_read_only" && seat_.stage() != Seat::Stage::none) {
    // It is lent to the session with its seat, and ours again with the end of that. In between the server's own has changed; the client
    // hears of it with its next answer, as from the server.
    if (!seat_.held()) return;
    seat_.want();
    model_.by_default.own = status->value == "on";
    return;
  }
  if (status->name == "default_transaction_read_only" && claims_.guards()) {
    // Ours while the lock at session level is held; else something has changed it behind a check. While that lock is only asked for, it was
    // a statement before.
    model_.by_default.broken =
        status->value == "off" && (session_lock_.stage == SessionLock::Stage::none || session_lock_.stage == SessionLock::Stage::requested);
    if (line_.stage == Stage::ready && claims_.guards())
      model_.default_is(status->value == "on", session_lock_.stage == SessionLock::Stage::held && status->value == "on");
    // A transaction that began meanwhile is writable, and nothing but the check may come first in it.
    if (model_.by_default.broken && model_.tx.in_block && model_.status == TransactionStatus::idle) model_.tx.writable = true;
    if (line_.stage == Stage::login) {
      model_.by_default.own = model_.by_default.shown = status->value == "on";
      line_.to_client.back() += event.frame;
    }
    return;
  }
  if (status->name == "default_transaction_read_only") model_.by_default.shown = status->value == "on";
  if (status->name == "in_hot_standby")
    facts_.recovery = status->value == "on" ? ServerFacts::Recovery::standby : ServerFacts::Recovery::primary;
  if (status->name == "standard_conforming_strings") {
    texts_.reported.strings = status->value == "on" ? ConformingStrings::on : ConformingStrings::off;
    texts_.settings.standard_conforming_strings = texts_.reported.strings;
  } else if (status->name == "server_version") {
    model_.by_default.reported = number(status->value.substr(0, status->value.find_first_not_of("0123456789"))) >= 14;
  } else if (status->name == "search_path") {  // 18 and later
    texts_.settings.own_names_first &= puts_own_names_first(status->value);
  } else if (status->name == "client_encoding") {
    texts_.reported.encoding = status->value;
    texts_.settings.ascii_safe_encoding = texts_.reported.ascii_safe = statements::encoding_is_ascii_safe(status->value);
  }
  line_.to_client.back() += event.frame;
}

// The queue of replies and the server disagree. Nothing that follows could be attributed to a request, so the
// session ends: a wrong guess could show the client the reply of a check as that of its write.
void Session::State::out_of_step(const Event& event) {
  std::string message = "the server answered with message type '";
  message += event.type;
  message += line_.server.replies.empty() ? "' where nothing was asked" : "' to something else";
  line_.host.happened({.kind = Incident::Kind::malformed, .message = message});
  line_.end("08P01", message);
}

void Session::State::server_event(const Event& event) {
  if (!event.first) return line_.router.route_rest(event, line_.options.held_bytes_max);
  switch (event.type) {
    case backend::parameter_status: return parameter_status(event);
    case backend::notification_response:
      // Of a transaction that has committed, its own among them.
      line_.router.release_complete();
      if (script_.ending) line_.router.release_framed();
      return line_.router.forward(event);
    case backend::notice_response: return line_.router.forward_notice(event);
    case backend::error_response: return server_error(event);
    default: break;
  }
  if (!line_.router.fits(event.type)) return out_of_step(event);
  switch (event.type) {
    case backend::ready_for_query: return ready_for_query(event);
    case backend::data_row:
      line_.server.replies.head().row_seen = true;
      if (!row_of_ours(event)) return line_.end("08006", behind_a_pooler);
      if (row_shown(event)) return line_.router.hide(event);
      break;
    case backend::command_complete:
      if (command_completed(event)) {
        line_.router.hide(event);
        pump_after_ |= line_.server.replies.empty() && line_.deferred.has_value();
        return;
      }
      break;
    case backend::close_complete: own_.closed(line_.server.replies.head().closes, line_.server.replies.head().of); break;
    case backend::copy_in_response:
      in_copy_in_ = pump_after_ = line_.router.copy_in_begins();
      // It was sent before this answer, and would wait for the end of a copy that nobody ends.
      if (in_copy_in_ && line_.deferred && breaks_a_copy(line_.deferred->type)) return end_in_copy(line_.deferred->type);
      // The copy has swallowed the Sync behind which it waited, so its answers are not on their way.
      if (line_.deferred && !must_wait(line_.deferred->type)) pump_after_ = true;
      else if (line_.deferred && line_.server_awaits_sync()) pgwire::append_bare(line_.server.bytes.back(), pgwire::frontend::flush);
      break;
    default: break;
  }
  line_.router.route(event);
  if (line_.server.replies.empty() && line_.deferred) pump_after_ = true;
}

// False: the one who answers is not the server that we logged in to.
bool Session::State::row_of_ours(const Event& event) {
  const bool whole = event.kind == Event::Kind::message;
  switch (line_.server.replies.head().role) {
    case Purpose::who_serves: {
      std::string_view pid;
      if (!whole || !column(event.body, 0, pid)) return false;
      if (!line_.options.server_pooler && number(pid) != static_cast<std::int64_t>(line_.server_pid)) return false;
      login_.served_by(event.body);
      break;
    }
    case Purpose::check:
    case Purpose::in_advance:
    case Purpose::hold:
      if (whole) check_answered(event.body);
      break;
    case Purpose::seat:
      if (std::string_view nonce; seat_.held() && whole) check_answered(event.body);
      else if (whole && column(event.body, 0, nonce) && nonce.size() == uuid_letters) seat_.answered(nonce);
      break;
    case Purpose::writable:
    case Purpose::own:
    case Purpose::current:
    case Purpose::recovery: {
      std::string_view value;
      if (!column(event.body, 0, value)) break;
      const Purpose role = line_.server.replies.head().role;
      if (role == Purpose::recovery) facts_.recovery = value == "t" ? ServerFacts::Recovery::standby : ServerFacts::Recovery::primary;
      else if (role == Purpose::current) model_.default_is(value == "on", session_lock_.stage == SessionLock::Stage::releasing);
      else model_.by_default.own = value == "on";
      break;
    }
    default: break;
  }
  return true;
}

// A SHOW of what is ours to keep. True: the client has got another row than the server's.
bool Session::State::row_shown(const Event& event) {
  const Shows shows = line_.server.replies.head().shows;
  if (shows == Shows::none || line_.server.replies.head().hidden || event.kind != Event::Kind::message) return false;
  const bool read_only = shows == Shows::on || (shows == Shows::own && model_.by_default.own);
  const pgwire::Field value = read_only ? "on" : "off";
  pgwire::append_data_row(line_.to_client.back(), std::span(&value, 1));
  return true;
}

// True: the client is not to see it.
bool Session::State::command_completed(const Event& event) {
  PendingReply& head = line_.server.replies.head();
  const std::string_view tag = event.body;
  model_.on_command_complete(head.change, tag);
  if (head.role == Purpose::mode) model_.on_mode_done(tag, {});
  if (head.role == Purpose::lock) model_.on_mode_done(tag, head.of);
  if (model_.opening_refused && (head.role == Purpose::client || head.role == Purpose::framed) && tag.starts_with("ROLLBACK") &&
      head.change == Change::commit) {
    // The check in front of this COMMIT has failed, and the client knows why.
    model_.opening_refused = false;
    return true;
  }
  if (tag.starts_with("ROLLBACK") || tag.starts_with("PREPARE TRANSACTION")) fences_unsettled_.clear();
  if (texts_.outstanding.unread && (tag.starts_with("PREPARE") || tag.starts_with("DEALLOCATE") || tag.starts_with("DISCARD")))
    names_.statements.clear();
  if (tag.starts_with("DISCARD ALL") && !model_.tx.in_block) claims_.discarded();
  // Of our SET behind the client's, which has succeeded.
  return head.read_only_behind && std::exchange(head.row_seen, true);
}

void Session::State::check_answered(std::string_view row) {
  const PendingReply& head = line_.server.replies.head();
  ScopedTerm passed;
  std::int64_t fence = 0;
  std::string_view scope, term, height;
  if (!column(row, 0, scope)) return;
  if (!column(row, 2, height)) {
    // Of check_claim_text(): the three in one.
    const std::size_t behind_term = scope.find(' ');
    const std::size_t behind_fence = behind_term != std::string_view::npos ? scope.find(' ', behind_term + 1) : std::string_view::npos;
    if (behind_fence == std::string_view::npos) return;
    term = scope.substr(0, behind_term);
    height = scope.substr(behind_term + 1, behind_fence - behind_term - 1);
    scope.remove_prefix(behind_fence + 1);
    // Behind it, in a line of its own, what the server's own default is.
    if (const std::size_t line = scope.rfind('\n'); head.shows == Shows::own && line != std::string_view::npos) {
      model_.by_default.own = scope.substr(line + 1) == "on";
      scope = scope.substr(0, line);
    }
  } else if (!column(row, 1, term)) {
    return;
  }
  if (std::string_view now; column(row, 3, now)) model_.default_is(now == "on", true);
  passed.scope = scope;
  passed.term = number(term);
  if (head.role == Purpose::seat) {
    if (passed != seat_.pair()) seat_.want();
    return;
  }
  fence = number(height);
  // Of check_again(): without a fence the session declares nothing, or half a claim.
  if (head.role == Purpose::check) claims_.has_passed();
  if (!head.given && !model_.tx.in_block && head.role == Purpose::check) claims_.check_passed(passed, head.changes);
  if (!passed.complete() || fence == 0) {
    // Nothing is declared, where nobody has to: no lock is held.
    session_lock_.unclaimed |= head.role == Purpose::hold;
    return;
  }
  claims_.has_spoken();
  if (fence > judgement_.fence_of(passed.scope)) fences_unsettled_.emplace_back(passed.scope, fence);
  else judgement_.saw_fence(passed.scope, fence);
  if (head.role == Purpose::in_advance) return;
  model_.tx.last = passed;
  if (head.role == Purpose::hold) session_lock_.pair = passed;
  if (head.role == Purpose::check) seat_.passed(passed, own_.last_check().sent);
  line_.host.happened({.kind = Incident::Kind::fenced,
                       .scope = passed.scope,
                       .term = passed.term,
                       .fence = fence,
                       .took = line_.now - own_.last_check().sent});
}

void Session::State::ready_for_query(const Event& event) {
  assert(!line_.server.replies.empty() && "line_.router.fits() has found its request");
  const auto decoded = pgwire::decode_ready_for_query(event.body);
  if (!decoded) return line_.end("08P01", decoded.problem().reason());
  const TransactionStatus status = *decoded;
  const PendingReply head = std::move(line_.server.replies.head());
  line_.server.replies.pop();
  if (head.role == Purpose::who_serves && !head.row_seen) return line_.end("08006", behind_a_pooler);
  model_.on_ready(status, script_.running, script_.failed);
  if (head.role == Purpose::seat) seating_.seat_settled();
  if (status == TransactionStatus::idle) {
    // A raise counts for others once it is committed: before, a rollback could take it back, and the memory
    // would refuse terms that are not stale.
    for (const auto& [scope, fence] : fences_unsettled_) judgement_.saw_fence(scope, fence);
    fences_unsettled_.clear();
    line_.host.happened({.kind = Incident::Kind::transaction});
  }
  line_.router.release_complete();
  const bool show = !head.hidden && !script_.running;
  const bool read_only = model_.by_default.read_only(model_.by_default.answered);
  if (show && model_.by_default.reported && (claims_.guards() || seat_.held()) && model_.by_default.shown != read_only) {
    model_.by_default.shown = read_only;
    pgwire::append_parameter_status(line_.to_client.back(), "default_transaction_read_only", model_.by_default.shown ? "on" : "off");
  }
  if (show) line_.to_client.back() += event.frame;
  line_.router.give_made_replies();
  if (line_.server.replies.empty()) settle();
}

// Every request is answered: what the server says of the transaction is what it is.
void Session::State::settle() {
  if (line_.client_mid_frame) {
    settle_after_frame_ = true;
    return;
  }
  assert(line_.server.replies.empty() && "every request is answered");
  if (!pipeline_.begun) settle_transaction();
  line_.quiet_since = line_.now;
  if (login_.keeps_ready()) login_.give_ready();
  if (lone_.goes_on()) return;
  if (model_.status == TransactionStatus::idle && claims_.guard_from_here()) model_.by_default.broken = true;
  if (model_.by_default.broken && model_.status != TransactionStatus::failed) return own_.restore_default(true);
  if (script_.running) {
    next_piece();
    if (!line_.server.replies.empty() || script_.running) return;
  }
  idle_now();
  pump();
}

void Session::State::settle_transaction() {
  model_.settle();
  if (model_.status == TransactionStatus::idle) names_.portals.clear();
  texts_.outstanding.wait_for_all = texts_.outstanding.functions = texts_.outstanding.unknown = texts_.outstanding.unread =
      model_.opening_refused = false;
  texts_.settings.standard_conforming_strings = texts_.reported.strings;
  texts_.settings.ascii_safe_encoding = texts_.reported.ascii_safe;
}

}  // namespace termgate::session
