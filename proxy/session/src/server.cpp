// What the server's replies say of the session and its transaction. What the client sees of them is reply_router.hpp's, errors are
// server_error.cpp's.
#include <algorithm>
#include <cassert>
#include <utility>

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

// The position of a column's one text value in a DataRow: count, then a length and bytes each.
bool column(std::string_view row, std::size_t index, std::string_view& value) noexcept {
  if (row.size() < 2) return false;
  std::size_t at = 2;
  for (std::size_t i = 0;; ++i) {
    if (row.size() < at + 4) return false;
    std::uint32_t length = 0;
    for (std::size_t b = 0; b < 4; ++b) length = length << 8 | static_cast<unsigned char>(row[at + b]);
    at += 4;
    const bool null = length == 0xffffffffu;
    if (!null && row.size() - at < length) return false;
    if (i == index) {
      value = null ? std::string_view() : row.substr(at, length);
      return true;
    }
    if (!null) at += length;
  }
}

}  // namespace

// Cuts the server's bytes into messages. Those of the login go to login.cpp; rows that the client may see are
// forwarded in runs, without a look at each.
void Session::State::from_server(std::string_view bytes) {
  if (stage_ == Stage::server_greeting) {
    if (bytes.empty()) return;
    server_greeted(bytes);
    if (bytes.empty()) return;
  }
  if (stage_ == Stage::replication) return replication_from_server(bytes);
  while (!bytes.empty() && (stage_ == Stage::login || stage_ == Stage::ready)) {
    if (const std::string_view answers = answers_to_pass(bytes); !answers.empty()) {
      to_client_.back() += answers;
      bytes.remove_prefix(answers.size());
      if (bytes.empty()) return;
    }
    const Event event = server_reader_.next(bytes);
    bytes.remove_prefix(event.used);
    switch (event.kind) {
      case Event::Kind::need_more: return;
      case Event::Kind::announced: break;
      case Event::Kind::malformed:
        host_.happened({.kind = Incident::Kind::malformed, .message = event.problem.reason()});
        return end("08P01", std::string("the server: ") + std::string(event.problem.reason()));
      case Event::Kind::message:
      case Event::Kind::part:
        if (stage_ == Stage::login) {
          login_from_server(event);
        } else {
          server_event(event);
          if (event.last && router_.shows() && (event.type == backend::data_row || event.type == backend::copy_data) &&
              stage_ == Stage::ready) {
            // Nothing changes from one shown row to the next.
            const std::string_view rows = server_reader_.run_of(event.type, bytes);
            to_client_.back() += rows;
            bytes.remove_prefix(rows.size());
          }
        }
        break;
    }
    if (stage_ == Stage::replication) return replication_from_server(bytes);
    if (pump_after_) {
      pump_after_ = false;
      pump();
    }
  }
}

void Session::State::parameter_status(const Event& event) {
  const auto status = pgwire::decode_parameter_status(event.body);
  if (!status) return end("08P01", status.problem().reason());
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
    if (stage_ == Stage::ready && keeps_default())
      default_is(status->value == "on", session_lock_.stage == SessionLock::Stage::held && status->value == "on");
    // A transaction that began meanwhile is writable, and nothing but the check may come first in it.
    if (model_.by_default.broken && model_.tx.in_block && model_.status == TransactionStatus::idle) model_.tx.writable = true;
    if (stage_ == Stage::login) {
      model_.by_default.own = model_.by_default.shown = status->value == "on";
      to_client_.back() += event.frame;
    }
    return;
  }
  if (status->name == "default_transaction_read_only") model_.by_default.shown = status->value == "on";
  if (status->name == "in_hot_standby") recovery_ = status->value == "on" ? Recovery::standby : Recovery::primary;
  if (status->name == "standard_conforming_strings") {
    reported_.strings = status->value == "on" ? ConformingStrings::on : ConformingStrings::off;
    settings_.standard_conforming_strings = reported_.strings;
  } else if (status->name == "server_version") {
    model_.by_default.reported = number(status->value.substr(0, status->value.find_first_not_of("0123456789"))) >= 14;
  } else if (status->name == "search_path") {  // 18 and later
    settings_.own_names_first &= puts_own_names_first(status->value);
  } else if (status->name == "client_encoding") {
    reported_.encoding = status->value;
    settings_.ascii_safe_encoding = reported_.ascii_safe = statements::encoding_is_ascii_safe(status->value);
  }
  to_client_.back() += event.frame;
}

// The queue of replies and the server disagree. Nothing that follows could be attributed to a request, so the
// session ends: a wrong guess could show the client the reply of a check as that of its write.
void Session::State::out_of_step(const Event& event) {
  std::string message = "the server answered with message type '";
  message += event.type;
  message += server_.replies.empty() ? "' where nothing was asked" : "' to something else";
  host_.happened({.kind = Incident::Kind::malformed, .message = message});
  end("08P01", message);
}

void Session::State::server_event(const Event& event) {
  if (!event.first) return router_.route_rest(event, options_.held_bytes_max);
  switch (event.type) {
    case backend::parameter_status: return parameter_status(event);
    case backend::notification_response:
      // Of a transaction that has committed, its own among them.
      router_.release_complete();
      if (script_.ending) router_.release_framed();
      return router_.forward(event);
    case backend::notice_response: return router_.forward_notice(event);
    case backend::error_response: return server_error(event);
    default: break;
  }
  if (!router_.fits(event.type)) return out_of_step(event);
  switch (event.type) {
    case backend::ready_for_query: return ready_for_query(event);
    case backend::data_row:
      server_.replies.head().row_seen = true;
      if (!row_of_ours(event)) return end("08006", behind_a_pooler);
      if (row_shown(event)) return router_.hide(event);
      break;
    case backend::command_complete:
      if (command_completed(event)) {
        router_.hide(event);
        pump_after_ |= server_.replies.empty() && deferred_.has_value();
        return;
      }
      break;
    case backend::close_complete:
      if (const PendingReply& head = server_.replies.head(); head.closes != ProxyStatement::none && left_[index_of(head.closes)] == head.of)
        left_[index_of(head.closes)] = 0;
      break;
    case backend::copy_in_response:
      in_copy_in_ = pump_after_ = router_.copy_in_begins();
      // It was sent before this answer, and would wait for the end of a copy that nobody ends.
      if (in_copy_in_ && deferred_ && breaks_a_copy(deferred_->type)) return end_in_copy(deferred_->type);
      // The copy has swallowed the Sync behind which it waited, so its answers are not on their way.
      if (deferred_ && !must_wait(deferred_->type)) pump_after_ = true;
      else if (deferred_ && server_awaits_sync()) pgwire::append_bare(server_.bytes.back(), pgwire::frontend::flush);
      break;
    default: break;
  }
  router_.route(event);
  if (server_.replies.empty() && deferred_) pump_after_ = true;
}

// False: the one who answers is not the server that we logged in to.
bool Session::State::row_of_ours(const Event& event) {
  const bool whole = event.kind == Event::Kind::message;
  switch (server_.replies.head().role) {
    case Purpose::who_serves: {
      std::string_view pid;
      if (!whole || !column(event.body, 0, pid)) return false;
      if (!options_.server_pooler && number(pid) != static_cast<std::int64_t>(server_pid_)) return false;
      served_by(event.body);
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
      const Purpose role = server_.replies.head().role;
      if (role == Purpose::recovery) recovery_ = value == "t" ? Recovery::standby : Recovery::primary;
      else if (role == Purpose::current) default_is(value == "on", session_lock_.stage == SessionLock::Stage::releasing);
      else model_.by_default.own = value == "on";
      break;
    }
    default: break;
  }
  return true;
}

// What default_transaction_read_only is after code of the client's, which may have set it. `lent`: it was not ours meanwhile.
void Session::State::default_is(bool on, bool lent) {
  Default& by_default = model_.by_default;
  const bool before = lent ? by_default.read_only(by_default.answered) : true;
  // By RESET, which leads back to the server's own.
  if (on == before || (!lent && on == by_default.own)) return;
  by_default.answered = by_default.believed = on ? Mode::read_only : Mode::read_write;
}

// A SHOW of what is ours to keep. True: the client has got another row than the server's.
bool Session::State::row_shown(const Event& event) {
  const Shows shows = server_.replies.head().shows;
  if (shows == Shows::none || server_.replies.head().hidden || event.kind != Event::Kind::message) return false;
  const bool read_only = shows == Shows::on || (shows == Shows::own && model_.by_default.own);
  const pgwire::Field value = read_only ? "on" : "off";
  pgwire::append_data_row(to_client_.back(), std::span(&value, 1));
  return true;
}

// True: the client is not to see it.
bool Session::State::command_completed(const Event& event) {
  PendingReply& head = server_.replies.head();
  const std::string_view tag = event.body;
  model_.on_command_complete(head.change, tag);
  if (head.role == Purpose::mode) model_.on_mode_done(tag, {});
  if (head.role == Purpose::lock) model_.on_mode_done(tag, head.of);
  if (opening_refused_ && (head.role == Purpose::client || head.role == Purpose::framed) && tag.starts_with("ROLLBACK") &&
      head.change == Change::commit) {
    // The check in front of this COMMIT has failed, and the client knows why.
    opening_refused_ = false;
    return true;
  }
  if (tag.starts_with("ROLLBACK") || tag.starts_with("PREPARE TRANSACTION")) fences_unsettled_.clear();
  if (outstanding_.unread && (tag.starts_with("PREPARE") || tag.starts_with("DEALLOCATE") || tag.starts_with("DISCARD")))
    statements_.clear();
  if (tag.starts_with("DISCARD ALL") && !model_.tx.in_block) claims_.discarded();
  // Of our SET behind the client's, which has succeeded.
  return head.read_only_behind && std::exchange(head.row_seen, true);
}

// What the session declares from the start, ALTER ROLE and ALTER DATABASE included; whether rules may answer with rows of their own.
void Session::State::served_by(std::string_view row) {
  std::string_view scope, term, rules;
  if (!column(row, 1, scope)) return;
  if (!column(row, 2, term)) term = "?";
  // A pooler may have kept what the start-up message declares.
  if (!options_.server_pooler) claims_.server_declares(scope, term);
  if (column(row, 3, rules)) has_rules_ = rules == "t";
  if (std::string_view path; column(row, 4, path)) settings_.own_names_first &= puts_own_names_first(path);
  std::string_view recovers, now, own;
  if (column(row, 5, recovers) && column(row, 6, now) && column(row, 7, own)) {
    if (recovers == "t") recovery_ = Recovery::standby;
    Default& by_default = model_.by_default;
    by_default.own = own == "on";
    // A login trigger has set it.
    if (now != own) by_default.believed = by_default.answered = by_default.committed = now == "on" ? Mode::read_only : Mode::read_write;
  }
  if (std::string_view may; !claims_.enforces() && column(row, 8, may)) check_problem_ = may == "t" ? "" : may == "f" ? "42501" : "3F000";
  if (options_.server_guard == Options::ServerGuard::off || !claims_.may_be_server_guarded()) return;
  std::string_view guard;
  if (!column(row, 8, guard)) guard = {};
  host_.saw_server_guard(!guard.empty());
  if (claims_.server_guarded() && guard != "on") login_not_guarded();
}

void Session::State::check_answered(std::string_view row) {
  const PendingReply& head = server_.replies.head();
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
  if (std::string_view now; column(row, 3, now)) default_is(now == "on", true);
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
  if (fence > fence_of(passed.scope)) fences_unsettled_.emplace_back(passed.scope, fence);
  else saw_fence(passed.scope, fence);
  if (head.role == Purpose::in_advance) return;
  model_.tx.last = passed;
  if (head.role == Purpose::hold) session_lock_.pair = passed;
  if (head.role == Purpose::check) seat_.passed(passed, check_.sent);
  host_.happened({.kind = Incident::Kind::fenced, .scope = passed.scope, .term = passed.term, .fence = fence, .took = now_ - check_.sent});
}

void Session::State::ready_for_query(const Event& event) {
  assert(!server_.replies.empty() && "router_.fits() has found its request");
  const auto decoded = pgwire::decode_ready_for_query(event.body);
  if (!decoded) return end("08P01", decoded.problem().reason());
  const TransactionStatus status = *decoded;
  const PendingReply head = std::move(server_.replies.head());
  server_.replies.pop();
  if (head.role == Purpose::who_serves && !head.row_seen) return end("08006", behind_a_pooler);
  model_.on_ready(status, script_.running, script_.failed);
  if (head.role == Purpose::seat) seat_settled();
  if (status == TransactionStatus::idle) {
    // A raise counts for others once it is committed: before, a rollback could take it back, and the memory
    // would refuse terms that are not stale.
    for (const auto& [scope, fence] : fences_unsettled_) saw_fence(scope, fence);
    fences_unsettled_.clear();
    host_.happened({.kind = Incident::Kind::transaction});
  }
  router_.release_complete();
  const bool show = !head.hidden && !script_.running;
  const bool read_only = model_.by_default.read_only(model_.by_default.answered);
  if (show && model_.by_default.reported && (claims_.guards() || seat_.held()) && model_.by_default.shown != read_only) {
    model_.by_default.shown = read_only;
    pgwire::append_parameter_status(to_client_.back(), "default_transaction_read_only", model_.by_default.shown ? "on" : "off");
  }
  if (show) to_client_.back() += event.frame;
  router_.give_made_replies();
  if (server_.replies.empty()) settle();
}

// Every request is answered: what the server says of the transaction is what it is.
void Session::State::settle() {
  if (client_mid_frame_) {
    act_after_frame_ = true;
    return;
  }
  assert(server_.replies.empty() && "every request is answered");
  if (!pipeline_.begun) settle_transaction();
  quiet_since_ = now_;
  if (!login_.ready.empty()) {
    to_client_.back() += login_.ready;
    login_.ready = std::string();
  }
  switch (session_lock_.stage) {
    case SessionLock::Stage::none: break;
    case SessionLock::Stage::requested:
      // Without its row the lock is not ours: an error before it may have made the server skip it together with what was to run.
      if (!session_lock_.failed && (session_lock_.pair.complete() || session_lock_.unclaimed)) return run_under_hold();
      if (session_lock_.perhaps_held) return release();
      session_lock_ = SessionLock();
      pgwire::append_ready_for_query(to_client_.back(), model_.status);
      break;
    case SessionLock::Stage::held:
      if (model_.status != TransactionStatus::idle) return end("0A000", "a statement that runs alone left a transaction open");
      return release();
    case SessionLock::Stage::releasing:
      if (std::exchange(session_lock_.again, false)) return release();
      if (session_lock_.perhaps_held) pgwire::append_ready_for_query(to_client_.back(), model_.status);
      session_lock_ = SessionLock();
      break;
  }
  if (model_.status == TransactionStatus::idle && claims_.guard_from_here()) model_.by_default.broken = true;
  if (model_.by_default.broken && model_.status != TransactionStatus::failed) return restore_default();
  if (script_.running) {
    next_piece();
    if (!server_.replies.empty() || script_.running) return;
  }
  idle_now();
  pump();
}

void Session::State::settle_transaction() {
  model_.settle();
  if (model_.status == TransactionStatus::idle) portals_.clear();
  outstanding_.wait_for_all = outstanding_.functions = outstanding_.unknown = outstanding_.unread = opening_refused_ = false;
  settings_.standard_conforming_strings = reported_.strings;
  settings_.ascii_safe_encoding = reported_.ascii_safe;
}

// The check has passed and the session holds its lock: now what must run alone may run.
void Session::State::run_under_hold() {
  session_lock_.stage = SessionLock::Stage::held;
  // Its transactions are the server's own; each begins by the session's default.
  const bool own = model_.by_default.believed == Mode::servers && keeps_default();
  if (claims_.guards()) {
    run_ours(server_, own ? ProxyStatement::default_back : ProxyStatement::default_off, Purpose::silent, {});
    add_sync(Purpose::silent);
  }
  // DO and CALL may declare: what their last transaction leaves in force is checked before it commits.
  model_.tx.writable = model_.tx.session_passed = true;
  if (claims_.guards()) model_.tx.mode = own ? Mode::asked : model_.by_default.believed;
  note_sent(session_lock_.effects, false);
  if (session_lock_.effects.kind != Kind::call && session_lock_.effects.kind != Kind::do_block) model_.tx = Transaction();
  if (session_lock_.extended) {
    server_.append(std::move(session_lock_.messages));
    add_before_commit();
    add_client_sync();
    model_.tx = Transaction();
  } else if (model_.tx.acted) {
    run_converted(session_lock_.sql);
  } else {
    run_plain_query(session_lock_.sql);
  }
  session_lock_.sql.clear();
}

}  // namespace termgate::session
