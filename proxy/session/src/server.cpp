// What the server answers, and to whom.
#include <algorithm>
#include <utility>

#include "numbers.hpp"
#include "state.hpp"

namespace termgate::session {

namespace backend = pgwire::backend;
using pgwire::Event;
using pgwire::TransactionStatus;
using statements::Kind;
using statements::ConformingStrings;

namespace {

constexpr std::string_view behind_a_pooler =
    "a pooler stands between the proxy and the server: put it before the proxy, or, if it keeps one server session for each client as long as that stays, start the proxy with --server-pooler session";

// Where the one text value of a column stands in a DataRow: count, then a length and bytes each.
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

std::size_t characters(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

}  // namespace

void Session::State::from_server(std::string_view bytes) {
  if (stage_ == Stage::server_greeting) {
    if (bytes.empty()) return;
    server_greeted(bytes);
    if (bytes.empty()) return;
  }
  if (stage_ == Stage::replication) {
    to_client_.back() += bytes;
    return;
  }
  while (!bytes.empty() && (stage_ == Stage::login || stage_ == Stage::ready)) {
    const Event event = server_reader_.next(bytes);
    bytes.remove_prefix(event.used);
    switch (event.kind) {
      case Event::Kind::need_more: return;
      case Event::Kind::announced: break;
      case Event::Kind::malformed:
        surroundings_.happened({.kind = Incident::Kind::malformed, .message = event.problem.reason()});
        return end("08P01", std::string("the server: ") + std::string(event.problem.reason()));
      case Event::Kind::message:
      case Event::Kind::part:
        if (stage_ == Stage::login) {
          login_from_server(event);
        } else {
          server_event(event);
          if (event.last && show_parts_ && (event.type == backend::data_row || event.type == backend::copy_data) && stage_ == Stage::ready) {
            // Nothing changes from one shown row to the next.
            const std::string_view rows = server_reader_.run_of(event.type, bytes);
            to_client_.back() += rows;
            bytes.remove_prefix(rows.size());
          }
        }
        break;
    }
    if (stage_ == Stage::replication) {
      to_client_.back() += bytes;
      return;
    }
    if (pump_after_) {
      pump_after_ = false;
      pump();
    }
  }
}

void Session::State::parameter_status(const Event& event) {
  const auto status = pgwire::decode_parameter_status(event.body);
  if (!status) return end("08P01", status.problem().reason());
  if (status->name == "default_transaction_read_only" && guards()) {
    // Ours while the lock at session level is held; else something has changed it behind a check. While that lock is only asked for, it was a statement before.
    default_.broken = status->value == "off" && (hold_.stage == Hold::Stage::none || hold_.stage == Hold::Stage::asked);
    // A transaction that began meanwhile is writable, and nothing but the check may come first in it.
    if (default_.broken && tx_.in_block && status_ == TransactionStatus::idle) tx_.writable = true;
    if (stage_ == Stage::login) {
      default_.told = default_.believed;
      pgwire::append_parameter_status(to_client_.back(), status->name, default_.told ? "on" : "off");
    }
    return;
  }
  if (status->name == "default_transaction_read_only") default_.told = status->value == "on";
  if (status->name == "standard_conforming_strings") {
    reported_conforming_ = status->value == "on" ? ConformingStrings::on : ConformingStrings::off;
    settings_.standard_conforming_strings = reported_conforming_;
  } else if (status->name == "server_version") {
    default_.reported = number(status->value.substr(0, status->value.find_first_not_of("0123456789"))) >= 14;
  } else if (status->name == "client_encoding") {
    settings_.ascii_safe_encoding = statements::encoding_is_ascii_safe(status->value);
  }
  to_client_.back() += event.frame;
}

// Answers that no message of the server's belongs to, as soon as all before them are given.
void Session::State::flush_made_answers() {
  while (!answers_.empty() && answers_.head().asked == Asked::nothing) {
    to_client_.back() += answers_.head().text;
    answers_.pop();
  }
}

void Session::State::out_of_step(const Event& event) {
  std::string message = "the server answered with message type '";
  message += event.type;
  message += answers_.empty() ? "' where nothing was asked" : "' to something else";
  surroundings_.happened({.kind = Incident::Kind::malformed, .message = message});
  end("08P01", message);
}

void Session::State::server_event(const Event& event) {
  if (!event.first) {
    if (late_.parts) {
      late_.description += event.frame;
      late_.parts = !event.last;
      if (late_.parts && late_.description.size() > options_.held_bytes_max) {
        // So many columns are not waited for.
        to_client_.back() += late_.description;
        late_.description.clear();
        late_.parts = false;
      }
      return;
    }
    if (show_parts_) to_client_.back() += event.frame;
    return;
  }
  show_parts_ = true;
  switch (event.type) {
    case backend::parameter_status: return parameter_status(event);
    case backend::notification_response:
      // Of a transaction that has committed, its own among them.
      to_client_.back() += late_.complete;
      late_.complete.clear();
      if (script_.ending) release_complete();
      to_client_.back() += event.frame;
      return;
    case backend::notice_response:
      // Of our own statements: nobody's business but the server's log. What stands in for a simple query is hidden and the client's all the same, and
      // the COMMIT of a frame runs its deferred triggers.
      show_parts_ = answers_.empty() || !answers_.head().hidden || answers_.head().role == Role::client || answers_.head().role == Role::commit;
      if (show_parts_) to_client_.back() += event.frame;
      return;
    case backend::error_response: return server_error(event);
    default: break;
  }
  if (answers_.empty()) return out_of_step(event);
  Expected& head = answers_.head();
  bool last = false;
  bool fits = false;
  switch (head.asked) {
    case Asked::parse: fits = last = event.type == backend::parse_complete; break;
    case Asked::bind: fits = last = event.type == backend::bind_complete; break;
    case Asked::close: fits = last = event.type == backend::close_complete; break;
    case Asked::describe_statement:
      last = event.type == backend::row_description || event.type == backend::no_data;
      fits = last || event.type == backend::parameter_description;
      break;
    case Asked::describe_portal: fits = last = event.type == backend::row_description || event.type == backend::no_data; break;
    case Asked::execute:
      switch (event.type) {
        case backend::command_complete:
        case backend::empty_query_response:
        case backend::portal_suspended: last = fits = true; break;
        case backend::data_row:
        case backend::copy_in_response:
        case backend::copy_out_response:
        case backend::copy_both_response:
        case backend::copy_data:
        case backend::copy_done: fits = true; break;
        default: break;
      }
      break;
    case Asked::sync: fits = last = event.type == backend::ready_for_query; break;
    case Asked::query:
      switch (event.type) {
        case backend::ready_for_query: last = fits = true; break;
        case backend::row_description:
        case backend::data_row:
        case backend::command_complete:
        case backend::empty_query_response:
        case backend::copy_in_response:
        case backend::copy_out_response:
        case backend::copy_both_response:
        case backend::copy_data:
        case backend::copy_done: fits = true; break;
        default: break;
      }
      break;
    case Asked::function_call:
      last = event.type == backend::ready_for_query;
      fits = last || event.type == backend::function_call_response;
      break;
    case Asked::nothing: break;
  }
  if (!fits) return out_of_step(event);

  switch (event.type) {
    case backend::ready_for_query: {
      const auto status = pgwire::decode_ready_for_query(event.body);
      if (!status) return end("08P01", status.problem().reason());
      return ready_for_query(*status, event);
    }
    case backend::data_row:
      head.row_seen = true;
      if (head.role == Role::who_serves) {
        std::string_view pid;
        if (event.kind != Event::Kind::message || !column(event.body, 0, pid) || number(pid) != static_cast<std::int64_t>(server_pid_)) {
          return end("08006", behind_a_pooler);
        }
        served_by(event.body);
        show_parts_ = false;
        return;
      }
      if (head.role == Role::check || head.role == Role::in_advance || head.role == Role::hold) {
        if (event.kind == Event::Kind::message) check_answered(event.body);
        show_parts_ = false;
        return;
      }
      break;
    case backend::command_complete:
      default_answered(head.change, event.body);
      if (opening_refused_ && (head.role == Role::client || head.role == Role::framed) && event.body.starts_with("ROLLBACK") && head.change == Change::commit) {
        // The check in front of this COMMIT has failed, and the client knows why.
        opening_refused_ = false;
        show_parts_ = false;
        if (head.asked != Asked::query) answers_.pop();
        return;
      }
      if (event.body.starts_with("ROLLBACK") || event.body.starts_with("PREPARE TRANSACTION")) fences_unsettled_.clear();
      if (outstanding_.unread && (event.body.starts_with("PREPARE") || event.body.starts_with("DEALLOCATE") || event.body.starts_with("DISCARD"))) statements_.clear();
      // Nothing is declared, where nobody has to.
      if (head.role == Role::hold && event.body.starts_with("SELECT 0")) hold_.unclaimed = true;
      // Of our SET behind the client's, which has succeeded.
      if (head.read_only_behind && std::exchange(head.row_seen, true)) {
        show_parts_ = false;
        return;
      }
      if (head.asked == Asked::query && head.role == Role::framed) {
        // The last one of a frame waits for the COMMIT, which may yet fail.
        release_complete();
        script_.complete = event.frame;
        return;
      }
      break;
    case backend::copy_in_response:
      in_copy_in_ = !head.copy_ends;
      head.copy_ends = false;  // a text may hold another COPY
      // What stands behind it in the pipeline is swallowed by the server until the copy ends.
      for (std::size_t i = 1; in_copy_in_ && i < answers_.size();) {
        in_copy_in_ = !answers_.at(i).copy_ends;
        if (answers_.at(i).asked == Asked::sync) {
          answers_.remove(i);
        } else {
          ++i;
        }
      }
      pump_after_ = in_copy_in_;
      break;
    default: break;
  }
  if (head.role == Role::framed && event.type != backend::command_complete) release_complete();

  if (head.asked == Asked::execute && !late_.description.empty()) {
    to_client_.back() += late_.description;
    late_.description.clear();
  }
  if (head.late_complete && event.type == backend::command_complete && event.kind == Event::Kind::message) {
    late_.complete = event.frame;
    answers_.pop();
    return;
  }
  if (head.late_description && !head.hidden && event.type == backend::row_description) {
    late_.description = event.frame;
    late_.parts = !event.last;
    answers_.pop();
    return;
  }
  bool show = !head.hidden;
  if (head.hide_no_data && event.type == backend::no_data) show = false;
  show_parts_ = show;
  if (show) {
    to_client_.back() += event.frame;
  }
  if (!last) return;
  answers_.pop();
  flush_made_answers();
  if (answers_.empty() && deferred_) pump_after_ = true;
}

// What the session declares from the start, ALTER ROLE and ALTER DATABASE included; whether rules may answer with rows of their own.
void Session::State::served_by(std::string_view row) {
  std::string_view value;
  Pair declared;
  if (!column(row, 1, value)) return;
  declared.scope = value;
  const bool read = column(row, 2, value);
  const std::string_view written = value;
  declared.term = read ? number(written) : 0;
  if (!written.empty() && declared.term < 1) {
    declared_.certain = false;  // malformed: the server says so at the check
    declared_.spoke = true;
  } else {
    declared_.known = declared;
    declared_.spoke |= !declared.empty();
  }
  if (column(row, 3, value)) has_rules_ = value == "t";
}

// After 25006 nobody knows which statement of the piece it was.
void Session::State::remember_writers_of_piece() {
  for (const auto& statement : script_.text->statements) {
    if (statement.offset < script_.offset || statement.offset >= script_.offset + script_.bytes) continue;
    remember_writer(hash_of(std::string_view(script_.sql).substr(statement.offset, statement.length)));
  }
}

void Session::State::check_answered(std::string_view row) {
  const Expected& head = answers_.head();
  Pair passed;
  std::int64_t fence = 0;
  std::string_view scope, term, height;
  if (!column(row, 0, scope) || !column(row, 1, term) || !column(row, 2, height)) return;
  passed.scope = scope;
  passed.term = number(term);
  fence = number(height);
  // Of check_again(): without a fence the session declares what it did before, or nothing.
  if (!head.given && !tx_.in_block && head.changes == declared_.changes && head.role == Role::check) {
    declared_.known = passed;
    declared_.certain = true;
  }
  if (!passed.complete() || fence == 0) return;
  declared_.spoke = true;
  if (fence > surroundings_.highest_fence(passed.scope)) fences_unsettled_.emplace_back(passed.scope, fence);
  else surroundings_.saw_fence(passed.scope, fence);
  if (head.role == Role::in_advance) return;
  tx_.last = passed;
  if (head.role == Role::hold) hold_.pair = passed;
  surroundings_.happened({.kind = Incident::Kind::fenced, .scope = passed.scope, .term = passed.term, .fence = fence, .took = now_ - check_.sent});
}

// A SET is believed when it has succeeded, and for good when its transaction has.
void Session::State::default_answered(Change change, std::string_view tag) {
  switch (change) {
    case Change::none: break;
    case Change::on:
    case Change::off: default_.answered = change == Change::on; break;
    case Change::commit:
    case Change::rollback:
      // COMMIT of a block that has failed says ROLLBACK.
      if (tag.starts_with("COMMIT")) default_.committed = default_.answered;
      else default_.answered = default_.committed;
      break;
  }
}

// After an error the server skips everything up to the next Sync.
void Session::State::drop_until_sync() {
  while (!answers_.empty() && answers_.head().asked != Asked::sync) {
    Expected& head = answers_.head();
    if (head.asked == Asked::parse) {
      if (!head.hidden && !head.existed) statements_.erase(head.text);
    } else if (head.asked == Asked::bind && !head.hidden) {
      portals_.erase(head.text);  // the server may have another of the name
    }
    answers_.pop();
  }
  if (answers_.empty()) {
    // The Sync is yet to come: what comes before it the server will not even look at.
    server_skips_ = true;
    pump_after_ = deferred_.has_value();
    group_.held.clear();
    group_.asked.clear();
    group_.opening_at = group_.opening_asked = 0;
  }
}

void Session::State::server_error(const Event& event) {
  if (event.kind == Event::Kind::part) {
    // Too long to be looked at; it is the client's, or the end of what we asked.
    show_parts_ = answers_.empty() || !answers_.head().hidden;
    if (show_parts_) to_client_.back() += event.frame;
    if (!answers_.empty() && answers_.head().asked != Asked::query && answers_.head().asked != Asked::function_call && answers_.head().asked != Asked::sync) drop_until_sync();
    return;
  }
  const auto report = pgwire::decode_report(event.body);
  if (!report) return end("08P01", report.problem().reason());
  in_copy_in_ = false;
  if (report->ends_connection()) {
    // 57P01 among them: the session was evicted.
    to_client_.back() += event.frame;
    return;
  }
  if (answers_.empty()) return out_of_step(event);

  default_.unit_failed = true;
  fences_unsettled_.clear();
  late_.description.clear();
  late_.complete.clear();
  Expected& head = answers_.head();
  const Role role = head.role;
  if (role == Role::framed) release_complete();
  const bool extended = head.asked != Asked::query && head.asked != Asked::function_call && head.asked != Asked::sync;
  switch (role) {
    case Role::client:
    case Role::framed: {
      release_complete();  // of the statement before, which is done
      if (report->sqlstate() == "25P02" && opening_refused_) {
        opening_refused_ = false;
        break;
      }
      if (report->sqlstate() == "25P02" && !evicted_message_.empty()) {
        to_client_.back() += error_text("TG001", evicted_message_, "");
        evicted_message_.clear();
        break;
      }
      const bool refused_as_read_only = report->sqlstate() == "25006" && active() && !tx_.client_read_only && !default_.believed && status_ != TransactionStatus::failed;
      if (refused_as_read_only && !tx_.writable && hold_.stage == Hold::Stage::none) {
        // It is not run again: the client sees nothing twice. From now on its text is known as a writer's.
        if (script_.running) remember_writers_of_piece();
        else if (head.read_hash != 0) remember_writer(head.read_hash);
        const Claim claim = claim_of(nullptr);
        const Refusal known = claim.problem.empty() ? refusal_from_memory(claim) : Refusal{claim.code, claim.problem, claim.hint};
        const std::string message = known ? known.message : may_write() ? "TG002 this looked like a read and writes; Termgate knows it now: send it again" : "TG002 no term declared for a fenced write";
        const std::string code = known ? known.code : "TG002";
        report_refusal(code, message, claim.pair, known.fence, false);
        pgwire::ReportFields fields = *report;
        const std::string detail = "The database said: " + std::string(report->message());
        fields.set('C', code);
        fields.set('M', message);
        fields.set('D', detail);
        pgwire::append_error_response(to_client_.back(), fields);
        break;
      }
      if (head.read_only_behind) tx_.client_read_only = true;
      constexpr std::string_view in_pipeline = " cannot be executed within a pipeline", in_block = " cannot run inside a transaction block";  // the second on 18
      const std::string_view standing = !head.late_complete || outstanding_.unread || status_ != TransactionStatus::idle || report->sqlstate() != "25001" ? std::string_view()
                                        : report->message().ends_with(in_pipeline)                                           ? in_pipeline
                                        : report->message().ends_with(in_block)                                              ? in_block
                                                                                                                             : std::string_view();
      if (!standing.empty()) {
        // The client sent a simple query outside of a block. What may not stand in one is sent as such, so this is about something that a function ran.
        const std::string message = std::string(report->message().substr(0, report->message().size() - standing.size())) + " cannot be executed from a function";
        pgwire::ReportFields fields = *report;
        fields.set('M', message);
        pgwire::append_error_response(to_client_.back(), fields);
        break;
      }
      if (script_.running && script_.offset > 0 && !(*report)['P'].empty()) {
        pgwire::ReportFields fields = *report;
        const std::string position = std::to_string(number((*report)['P']) + static_cast<std::int64_t>(characters(std::string_view(script_.sql).substr(0, script_.offset))) - static_cast<std::int64_t>(script_.inserted));
        fields.set('P', position);
        pgwire::append_error_response(to_client_.back(), fields);
        break;
      }
      to_client_.back() += event.frame;
      break;
    }
    case Role::writable:
    case Role::check:
      to_client_.back() += explained(*report, role);
      opening_refused_ = true;
      tx_.forget_checks();
      if (role == Role::writable) tx_.writable = false;
      if (script_.ending) script_.complete.clear();
      break;
    case Role::hold:
      to_client_.back() += explained(*report, role);
      hold_.failed = true;
      break;
    case Role::refusal:
      to_client_.back() += head.text;
      opening_refused_ = true;
      break;
    case Role::commit:
    case Role::begin:
      script_.complete.clear();
      to_client_.back() += event.frame;
      break;
    case Role::who_serves:
    case Role::put_back: return end("08006", "the server session could not be made read-only again");
    case Role::release: return end("08006", "the lock of a statement that ran alone could not be given back");
    case Role::in_advance: {
      // Whatever it is, the check itself meets it again; that the term is stale is worth knowing before.
      Pair told;
      std::int64_t fence = 0;
      if (stale_report(report->message(), told, fence)) surroundings_.saw_fence(told.scope, fence);
      break;
    }
    case Role::silent:
    case Role::rollback:
    case Role::eviction: break;
  }
  const bool of_the_text = role != Role::in_advance && role != Role::silent && role != Role::eviction;
  if (script_.running && of_the_text) script_.failed = true;
  if (!extended) return;  // its ReadyForQuery comes next
  drop_until_sync();
}

void Session::State::ready_for_query(TransactionStatus status, const Event& event) {
  const Expected head = std::move(answers_.head());
  answers_.pop();
  if (head.role == Role::who_serves && !head.row_seen) return end("08006", behind_a_pooler);
  status_ = status;
  if (status == TransactionStatus::idle) {
    // A text is one transaction, in whatever pieces it goes, unless it ends one itself.
    if (script_.running ? script_.failed : default_.unit_failed) default_.answered = default_.committed;
    if (!script_.running) default_.committed = default_.answered;
  }
  default_.unit_failed = false;
  if (status == TransactionStatus::idle) {
    for (const auto& [scope, fence] : fences_unsettled_) surroundings_.saw_fence(scope, fence);
    fences_unsettled_.clear();
    surroundings_.happened({.kind = Incident::Kind::transaction});
  }
  to_client_.back() += late_.complete;
  late_.complete.clear();
  const bool show = !head.hidden && !script_.running;
  if (show && default_.reported && guards() && default_.told != default_.answered) {
    default_.told = default_.answered;
    pgwire::append_parameter_status(to_client_.back(), "default_transaction_read_only", default_.told ? "on" : "off");
  }
  if (show) to_client_.back() += event.frame;
  flush_made_answers();
  if (answers_.empty()) settle();
}

// All that was asked is answered: what the server says of the transaction is what it is.
void Session::State::settle() {
  if (client_mid_frame_) {
    act_after_frame_ = true;
    return;
  }
  if (!group_.begun) {
    if (status_ == TransactionStatus::idle) {
      tx_ = Transaction();
      portals_.clear();
    } else {
      tx_.in_block = true;
      tx_.failed = status_ == TransactionStatus::failed;
    }
    default_.believed = default_.answered;
    outstanding_.wait_for_all = outstanding_.functions = outstanding_.unknown = outstanding_.unread = opening_refused_ = false;
    if (settings_.standard_conforming_strings == ConformingStrings::unknown) settings_.standard_conforming_strings = reported_conforming_;
  }
  quiet_since_ = now_;
  if (!login_.ready.empty()) {
    to_client_.back() += login_.ready;
    login_.ready = std::string();
  }
  switch (hold_.stage) {
    case Hold::Stage::none: break;
    case Hold::Stage::asked:
      // Without its row the lock is not ours: an error before it may have made the server skip it together with what was to run.
      if (hold_.failed || (!hold_.pair.complete() && !hold_.unclaimed)) {
        hold_ = Hold();
        pgwire::append_ready_for_query(to_client_.back(), status_);
        break;
      }
      hold_.stage = Hold::Stage::held;
      // Its transactions are the server's own; each begins by the session's default.
      if (guards()) {
        run_ours(ours_default_off, Role::silent, {});
        add_sync(Role::silent);
      }
      // DO and CALL may declare: what their last transaction leaves in force is checked before it commits.
      tx_.writable = tx_.session_passed = true;
      note_sent(hold_.effects);
      if (hold_.effects.kind != Kind::call && hold_.effects.kind != Kind::do_block) tx_ = Transaction();
      if (hold_.extended) {
        const std::string_view waiting = hold_.waiting;
        constexpr std::size_t sync_bytes = 5;
        to_server_.back() += waiting.substr(0, waiting.size() - sync_bytes);
        const Expected sync = hold_.asked.back();
        hold_.asked.pop_back();
        for (Expected& expected : hold_.asked) answers_.push(std::move(expected));
        add_before_commit();
        to_server_.back() += waiting.substr(waiting.size() - sync_bytes);
        answers_.push(sync);
        tx_ = Transaction();
      } else if (tx_.acted) {
        run_converted(hold_.waiting);
      } else {
        run_plain_query(hold_.waiting);
      }
      hold_.waiting.clear();
      return;
    case Hold::Stage::held:
      if (status_ != TransactionStatus::idle) return end("0A000", "a statement that runs alone left a transaction open");
      return release();
    case Hold::Stage::releasing:
      hold_ = Hold();
      break;
  }
  if (!guarded_ && (declared_.spoke || declared_.perhaps) && admission_.without_term == WithoutTerm::allow && status_ == TransactionStatus::idle && active()) guarded_ = default_.broken = true;
  if (default_.broken && status_ != TransactionStatus::failed) return restore_default();
  if (script_.running) {
    next_piece();
    if (!answers_.empty() || script_.running) return;
  }
  idle_now();
  pump();
}

}  // namespace termgate::session
