// What the server's replies say of the session and its transaction. reply_router.hpp decides what
// the client sees of them; server_error.cpp handles errors.
#include <algorithm>
#include <cassert>
#include <utility>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/types.hpp>

#include "columns.hpp"
#include "numbers.hpp"
#include "server_replies.hpp"

namespace termgate::pg_session {

namespace backend = pgwire::backend;
using pgwire::Event;
using pgwire::TransactionStatus;
using statements::ConformingStrings;

namespace {

constexpr std::size_t uuid_letters = 36;

constexpr std::string_view behind_a_pooler =
    "there is a pooler between the proxy and the server: put it in front of the proxy, or, if it "
    "keeps one server session for each client "
    "as long "
    "as that stays, start the proxy with --server-pooler session";

}  // namespace

void ServerReplies::parameter_status(const Event& event) {
  const auto status = pgwire::decode_parameter_status(event.body);
  if (!status) return line_.end("08P01", status.problem().reason());
  if (status->name == "default_transaction_read_only" && seat_.stage() != Seat::Stage::none) {
    // The session has the server's own default together with its seat, and the proxy's default
    // again when it gives the seat back. A change in between is one of the server's own default;
    // the client sees it with its next answer, as it would from the server. If a transaction has
    // given the seat back inside, changes are ours until the session gives it back too.
    if (!seat_.held() || seat_.was_left_inside()) return;
    seat_.want();
    model_.by_default.own = status->value == "on";
    return;
  }
  if (status->name == "default_transaction_read_only" && claims_.guards()) {
    // While the lock at session level is held, the proxy has set the default itself. Otherwise, and
    // while that lock is only requested, an earlier statement has changed it.
    model_.by_default.broken =
        status->value == "off" && (session_lock_.stage == SessionLock::Stage::none ||
                                   session_lock_.stage == SessionLock::Stage::requested);
    if (line_.stage == Stage::ready && claims_.guards())
      model_.default_is(status->value == "on",
                        session_lock_.stage == SessionLock::Stage::held && status->value == "on");
    // A transaction that began meanwhile is writable, so the check must come first in it.
    if (model_.by_default.broken && model_.tx.in_block && model_.status == TransactionStatus::idle)
      model_.tx.writable = true;
    if (line_.stage == Stage::login) {
      model_.by_default.own = model_.by_default.shown = status->value == "on";
      line_.to_client.back() += event.frame;
    }
    return;
  }
  if (status->name == "default_transaction_read_only")
    model_.by_default.shown = status->value == "on";
  if (status->name == "in_hot_standby")
    facts_.recovery =
        status->value == "on" ? ServerFacts::Recovery::standby : ServerFacts::Recovery::primary;
  if (status->name == "standard_conforming_strings") {
    texts_.reported.strings =
        status->value == "on" ? ConformingStrings::on : ConformingStrings::off;
    texts_.settings.standard_conforming_strings = texts_.reported.strings;
  } else if (status->name == "server_version") {
    model_.by_default.reported =
        number(status->value.substr(0, status->value.find_first_not_of("0123456789"))) >= 14;
  } else if (status->name == "search_path") {  // reported by 18 and later
    if (texts_.settings.own_names_first && !puts_own_names_first(status->value))
      judgement_.own_names_hidden();
  } else if (status->name == "client_encoding") {
    texts_.reported.encoding = status->value;
    texts_.settings.ascii_safe_encoding = texts_.reported.ascii_safe =
        statements::encoding_is_ascii_safe(status->value);
  }
  line_.to_client.back() += event.frame;
}

// The queue of replies and the server disagree. Nothing that follows could be attributed to a
// request, so the session ends: a wrong guess could show the client the reply of a check as that of
// its write.
void ServerReplies::out_of_step(const Event& event) {
  std::string message = "the server answered with message type '";
  message += event.type;
  message += line_.server.replies.empty() ? "' where nothing was asked" : "' to something else";
  line_.host.happened({.kind = Incident::Kind::malformed, .message = message});
  line_.end("08P01", message);
}

bool ServerReplies::server_event(const Event& event) {
  if (event.type == backend::ready_for_query && event.first && line_.router.fits(event.type))
    return ready_for_query(event);
  other_event(event);
  return false;
}

void ServerReplies::other_event(const Event& event) {
  if (!event.first) return line_.router.route_rest(event, line_.options.held_bytes_max);
  switch (event.type) {
    case backend::parameter_status: return parameter_status(event);
    case backend::notification_response:
      // It may come from a transaction that has committed, even the client's own.
      line_.router.release_complete();
      if (script_.ending) line_.router.release_framed();
      return line_.router.forward(event);
    case backend::notice_response: return line_.router.forward_notice(event);
    case backend::error_response: return server_error(event);
    default: break;
  }
  if (!line_.router.fits(event.type)) return out_of_step(event);
  switch (event.type) {
    case backend::data_row:
      line_.server.replies.head().row_seen = true;
      if (!row_of_ours(event)) return line_.end("08006", behind_a_pooler);
      if (row_shown(event)) return line_.router.hide(event);
      break;
    case backend::command_complete:
      if (command_completed(event)) {
        line_.router.hide(event);
        pump_ |= line_.server.replies.empty() && line_.deferred.has_value();
        return;
      }
      break;
    case backend::close_complete:
      own_.closed(line_.server.replies.head().closes, line_.server.replies.head().of);
      break;
    case backend::copy_in_response:
      line_.in_copy_in = pump_ = line_.router.copy_in_begins();
      // The client sent the deferred message before this reply. Its waiting would never end,
      // because nobody would end the copy.
      if (line_.in_copy_in && line_.deferred && waiting_.breaks_a_copy(line_.deferred->type))
        return waiting_.end_in_copy(line_.deferred->type);
      // The copy has swallowed the Sync whose replies the message waits for, so they are not on
      // their way.
      if (line_.deferred && !waiting_.must_wait(line_.deferred->type)) pump_ = true;
      else if (line_.deferred && line_.server_awaits_sync())
        pgwire::append_bare(line_.server.bytes.back(), pgwire::frontend::flush);
      break;
    default: break;
  }
  line_.router.route(event);
  if (line_.server.replies.empty() && line_.deferred) pump_ = true;
}

// False: this is not the server session that we logged in to.
bool ServerReplies::row_of_ours(const Event& event) {
  const bool whole = event.kind == Event::Kind::message;
  switch (line_.server.replies.head().role) {
    case Purpose::who_serves: {
      std::string_view pid;
      if (!whole || !column(event.body, 0, pid)) return false;
      if (!line_.options.server_pooler &&
          number(pid) != static_cast<std::int64_t>(line_.server_pid))
        return false;
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
      else if (whole && column(event.body, 0, nonce) && nonce.size() == uuid_letters)
        seat_.answered(nonce);
      else if (std::string_view why;
               whole && seat_.stage() == Seat::Stage::asked && column(event.body, 1, why))
        seating_.not_given("", why);
      break;
    case Purpose::writable:
    case Purpose::own:
    case Purpose::current:
    case Purpose::recovery: {
      std::string_view value;
      if (!column(event.body, 0, value)) break;
      const Purpose role = line_.server.replies.head().role;
      if (role == Purpose::recovery)
        facts_.recovery =
            value == "t" ? ServerFacts::Recovery::standby : ServerFacts::Recovery::primary;
      else if (role == Purpose::current)
        model_.default_is(value == "on", session_lock_.stage == SessionLock::Stage::releasing);
      else model_.by_default.own = value == "on";
      break;
    }
    default: break;
  }
  return true;
}

// For a SHOW of an access mode. True: the client has got another row than the server's.
bool ServerReplies::row_shown(const Event& event) {
  const Shows shows = line_.server.replies.head().shows;
  if (shows == Shows::none || line_.server.replies.head().hidden ||
      event.kind != Event::Kind::message)
    return false;
  const bool read_only = shows == Shows::on || (shows == Shows::own && model_.by_default.own);
  const pgwire::Field value = read_only ? "on" : "off";
  pgwire::append_data_row(line_.to_client.back(), std::span(&value, 1));
  return true;
}

// True: the client must not see this CommandComplete.
bool ServerReplies::command_completed(const Event& event) {
  PendingReply& head = line_.server.replies.head();
  const std::string_view tag = event.body;
  model_.on_command_complete(head.change, tag);
  if (head.role == Purpose::mode) model_.on_mode_done(tag, {});
  if (head.role == Purpose::lock) model_.on_mode_done(tag, head.of);
  if (model_.opening_refused && (head.role == Purpose::client || head.role == Purpose::framed) &&
      tag.starts_with("ROLLBACK") && head.change == Change::commit) {
    // The check ahead of this COMMIT has failed, and the client has got that error.
    model_.opening_refused = false;
    return true;
  }
  if (tag.starts_with("ROLLBACK") || tag.starts_with("PREPARE TRANSACTION"))
    fences_unsettled_.clear();
  if (texts_.outstanding.unread &&
      (tag.starts_with("PREPARE") || tag.starts_with("DEALLOCATE") || tag.starts_with("DISCARD")))
    names_.statements.clear();
  if (tag.starts_with("DISCARD ALL") && !model_.tx.in_block) claims_.discarded();
  // The reply to our SET that follows the client's SET, which has succeeded.
  return head.read_only_behind && std::exchange(head.row_seen, true);
}

void ServerReplies::check_answered(std::string_view row) {
  const PendingReply& head = line_.server.replies.head();
  ScopedTerm passed;
  std::int64_t fence = 0;
  std::string_view scope, term, height;
  if (!column(row, 0, scope)) return;
  if (!column(row, 2, height)) {
    // check_claim_text() returns term, fence and scope in one text.
    const std::size_t behind_term = scope.find(' ');
    const std::size_t behind_fence = behind_term != std::string_view::npos
                                         ? scope.find(' ', behind_term + 1)
                                         : std::string_view::npos;
    if (behind_fence == std::string_view::npos) return;
    term = scope.substr(0, behind_term);
    height = scope.substr(behind_term + 1, behind_fence - behind_term - 1);
    scope.remove_prefix(behind_fence + 1);
    // After the scope, in a line of its own, comes the server's own default.
    if (const std::size_t line = scope.rfind('\n');
        head.shows == Shows::own && line != std::string_view::npos) {
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
  if (head.role == Purpose::check) claims_.has_passed();
  if (!head.given && !model_.tx.in_block && head.role == Purpose::check)
    claims_.check_passed(passed, head.changes);
  if (!passed.complete() || fence == 0) {
    // The session declares nothing, or only half a claim, and need not: no lock is held.
    session_lock_.unclaimed |= head.role == Purpose::hold;
    return;
  }
  claims_.has_spoken();
  if (fence > judgement_.fence_of(passed.scope))
    fences_unsettled_.emplace_back(passed.scope, fence);
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

bool ServerReplies::ready_for_query(const Event& event) {
  assert(!line_.server.replies.empty() && "line_.router.fits() has found its request");
  const auto decoded = pgwire::decode_ready_for_query(event.body);
  if (!decoded) return line_.end("08P01", decoded.problem().reason()), false;
  const TransactionStatus status = *decoded;
  const PendingReply head = std::move(line_.server.replies.head());
  line_.server.replies.pop();
  if (head.role == Purpose::who_serves && !head.row_seen)
    return line_.end("08006", behind_a_pooler), false;
  model_.on_ready(status, script_.running, script_.failed);
  if (head.role == Purpose::seat) seating_.seat_settled();
  if (status == TransactionStatus::idle) {
    // A raise counts for other sessions once it is committed: before that, a rollback could undo
    // it, and this proxy would refuse terms that are not stale.
    for (const auto& [scope, fence] : fences_unsettled_) judgement_.saw_fence(scope, fence);
    fences_unsettled_.clear();
    line_.host.happened({.kind = Incident::Kind::transaction});
  }
  line_.router.release_complete();
  const bool show = !head.hidden && !script_.running;
  const bool read_only = model_.by_default.read_only(model_.by_default.answered);
  if (show && model_.by_default.reported && (claims_.guards() || seat_.held()) &&
      model_.by_default.shown != read_only) {
    model_.by_default.shown = read_only;
    pgwire::append_parameter_status(line_.to_client.back(), "default_transaction_read_only",
                                    model_.by_default.shown ? "on" : "off");
  }
  if (show) line_.to_client.back() += event.frame;
  line_.router.give_made_replies();
  return line_.server.replies.empty();
}

void ServerReplies::settle_transaction() {
  model_.settle();
  if (model_.status == TransactionStatus::idle) names_.portals.clear();
  texts_.outstanding.wait_for_all = texts_.outstanding.functions = texts_.outstanding.unknown =
      texts_.outstanding.unread = model_.opening_refused = false;
  texts_.settings.standard_conforming_strings = texts_.reported.strings;
  texts_.settings.ascii_safe_encoding = texts_.reported.ascii_safe;
}

}  // namespace termgate::pg_session
