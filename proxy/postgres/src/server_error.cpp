// The server's errors: which request they belong to, what the client sees of them, and what of the
// pipeline is lost with them.
#include <algorithm>
#include <cctype>

#include <termgate/pgwire/encode.hpp>
#include <termgate/text/ascii.hpp>

#include "names.hpp"
#include "numbers.hpp"
#include "server_replies.hpp"

namespace termgate::pg_session {

using pgwire::Event;
using pgwire::TransactionStatus;

namespace {

std::size_t characters(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  }));
}

}  // namespace

void ServerReplies::server_error(const Event& event) {
  if (event.kind == Event::Kind::part) {
    // A part of an error that is too long to be parsed.
    line_.router.forward_unless_hidden(event);
    if (!line_.server.replies.empty() && is_extended(line_.server.replies.head().request))
      drop_until_sync();
    return;
  }
  const auto report = pgwire::decode_report(event.body);
  if (!report) return line_.end("08P01", report.problem().reason());
  line_.in_copy_in = false;
  // A FATAL error, for example 57P01 when the session was evicted.
  if (report->ends_connection()) {
    line_.server_leaves = true;
    return line_.router.forward(event);
  }
  if (line_.server.replies.empty()) return out_of_step(event);

  model_.on_error();
  if (report->sqlstate().starts_with("TG"))
    seat_.not_for_a_while(line_.now);  // the next checks report what is wrong
  fences_unsettled_.clear();
  line_.router.drop_converted();
  const PendingReply& head = line_.server.replies.head();
  const Purpose role = head.role;
  const bool extended = is_extended(head.request);
  if (role == Purpose::client || role == Purpose::framed) {
    line_.router.release_framed();  // replies of earlier statements, which have succeeded
    client_failed(event, *report);
  } else {
    ours_failed(event, *report);
  }
  if (line_.stage != Stage::ready) return;
  const bool of_the_text = role != Purpose::in_advance && role != Purpose::seat &&
                           role != Purpose::silent && role != Purpose::eviction;
  if (script_.running && of_the_text) script_.failed = true;
  if (extended) drop_until_sync();  // otherwise its ReadyForQuery comes next
}

// A statement of the client's has failed. The error goes to the client, unless a message of ours
// ahead of it is the cause.
void ServerReplies::client_failed(const Event& event, const pgwire::ReportFields& report) {
  if (report.sqlstate() == "25P02" && model_.opening_refused) {
    model_.opening_refused = false;
    return;
  }
  if (report.sqlstate() == "25P02" && !evicted_message_.empty()) {
    line_.to_client.back() += refusals_.error_text("TG001", evicted_message_, "");
    evicted_message_.clear();
    return;
  }
  // A trigger, or the guard inside the server, has refused the write.
  if (report.sqlstate() == "TG001" && claims_.ends_when_stale())
    return line_.end(stale_ends, report.message());
  const bool refused_as_read_only = report.sqlstate() == "25006" && claims_.active() &&
                                    !facts_.standby() && model_.mode_now() != Mode::read_only &&
                                    model_.by_default.believed != Mode::read_only &&
                                    model_.status != TransactionStatus::failed;
  if (refused_as_read_only && !model_.tx.writable &&
      session_lock_.stage == SessionLock::Stage::none)
    return read_has_written(report);
  // Code has declared a term above the fence. If the client tries again, our check raises the fence
  // first.
  if (report.sqlstate() == "TG005" && report['n'] == "termgate_to_be_raised")
    claims_.needs_a_raise();
  const PendingReply& head = line_.server.replies.head();
  if (head.read_only_behind) model_.tx.mode = Mode::read_only;
  if (head.late_complete && !texts_.outstanding.unread &&
      model_.status == TransactionStatus::idle && report.sqlstate() == "25001") {
    // The client sent a simple query outside of a block. A statement that may not run in a block is
    // sent as one too, so the error is about something that a function ran.
    for (const std::string_view ending :
         {" cannot be executed within a pipeline",
          " cannot run inside a transaction block"}) {  // the second on 18
      if (!report.message().ends_with(ending)) continue;
      const std::string message =
          std::string(report.message().substr(0, report.message().size() - ending.size())) +
          " cannot be executed from a function";
      pgwire::ReportFields fields = report;
      fields.set('M', message);
      return pgwire::append_error_response(line_.to_client.back(), fields);
    }
  }
  if (script_.running && script_.offset > 0 && !report['P'].empty()) {
    pgwire::ReportFields fields = report;
    const std::string position =
        std::to_string(number(report['P']) +
                       static_cast<std::int64_t>(
                           characters(std::string_view(script_.sql).substr(0, script_.offset))) -
                       static_cast<std::int64_t>(script_.inserted));
    fields.set('P', position);
    pgwire::append_error_response(line_.to_client.back(), fields);
    return;
  }
  line_.router.forward(event);
}

// The text is not run again, so that the client sees nothing twice. From now on it counts as a
// write.
void ServerReplies::read_has_written(const pgwire::ReportFields& report) {
  const PendingReply& head = line_.server.replies.head();
  if (script_.running) remember_writers_of_piece();
  else if (head.read_hash != 0) judgement_.remember_writer(head.read_hash);
  // Without the proxy it would have been refused too.
  if (model_.by_default.read_only(model_.mode_now())) {
    pgwire::append_error_response(line_.to_client.back(), report);
    return;
  }
  const Claim claim = judgement_.claim_of(nullptr);
  const Refusal known = claim.problem.empty() ? judgement_.refusal_from_memory(claim)
                                              : Refusal{claim.code, claim.problem, claim.hint};
  const std::string message =
      known ? known.message
      : claims_.may_write()
          ? "TG002 this looked like a read and writes; Termgate knows it now: send it again"
          : "TG002 no term declared for a fenced write";
  const std::string code = known ? known.code : "TG002";
  refusals_.report_refusal(code, message, claim.pair, known.fence, false);
  pgwire::ReportFields fields = report;
  const std::string detail = "The database said: " + std::string(report.message());
  fields.set('C', code);
  fields.set('M', message);
  fields.set('D', detail);
  pgwire::append_error_response(line_.to_client.back(), fields);
}

// After 25006 it is not known which statement of the piece has written.
void ServerReplies::remember_writers_of_piece() {
  for (const auto& statement : script_.text->statements) {
    if (statement.offset < script_.offset || statement.offset >= script_.offset + script_.bytes)
      continue;
    // A statement that names no table and calls nothing has not written.
    if (!statement.calls_functions && !statement.names_tables) continue;
    judgement_.remember_writer(judgement_.hash_of(
        std::string_view(script_.sql).substr(statement.offset, statement.length)));
  }
}

void ServerReplies::ours_failed(const Event& event, const pgwire::ReportFields& report) {
  const PendingReply& head = line_.server.replies.head();
  switch (head.role) {
    case Purpose::writable:
    case Purpose::check:
      refusals_.ours_refused(report, head.role);
      model_.opening_refused = true;
      model_.tx.forget_checks();
      if (head.role == Purpose::writable) model_.tx.writable = false;
      if (script_.ending) line_.router.drop_framed();
      break;
    case Purpose::hold:
      refusals_.ours_refused(report, head.role);
      session_lock_.failed = true;
      session_lock_.perhaps_held = !report.sqlstate().starts_with("TG");
      break;
    case Purpose::refusal:
      line_.to_client.back() += head.text;
      model_.opening_refused = true;
      break;
    case Purpose::commit:
    case Purpose::begin:
      line_.router.drop_framed();
      line_.router.forward(event);
      break;
    case Purpose::lock:
    case Purpose::own:
    case Purpose::mode:
      // What follows of the client's fails, is skipped, or is a SHOW, so it writes nothing.
      refusals_.ours_refused(report, head.role);
      model_.opening_refused = true;
      model_.tx.forget_checks();
      if (script_.ending) line_.router.drop_framed();
      break;
    case Purpose::current:
    case Purpose::put_back:
      // A cancel request of the client's came late.
      if (report.sqlstate() == "57014") {
        model_.by_default.broken = true;
        break;
      }
      return line_.end("08006", "the server session could not be made read-only again");
    case Purpose::who_serves:
      return line_.end("08006",
                       "the server did not say who it is: " + std::string(report.message()));
    case Purpose::release:
      if (report.sqlstate() == "57014") {
        session_lock_.again = true;
        break;
      }
      return line_.end("08006", "the lock of a statement that ran alone could not be given back");
    case Purpose::seat:
      if (seat_.stage() == Seat::Stage::asked)
        seating_.not_given(report.sqlstate(), report.message());
      seat_.failed();
      break;
    case Purpose::in_advance: {
      // If it fails, the check itself fails again later. Only a stale term is recorded now.
      ScopedTerm stale;
      std::int64_t fence = 0;
      if (refusals_.stale_report(report.message(), stale, fence))
        judgement_.saw_fence(stale.scope, fence);
      break;
    }
    case Purpose::recovery:
    case Purpose::silent:
    case Purpose::rollback:
    case Purpose::eviction:
    case Purpose::client:
    case Purpose::framed: break;
  }
}

// After an error the server skips everything up to the next Sync.
void ServerReplies::drop_until_sync() {
  while (!line_.server.replies.empty() && line_.server.replies.head().request != Request::sync) {
    const PendingReply& head = line_.server.replies.head();
    if (head.request == Request::parse) {
      if (!head.hidden && !head.existed) names_.statements.erase(head.text);
    } else if (head.request == Request::bind && !head.hidden) {
      names_.portals.erase(head.text);  // the server may have another portal of that name
    }
    line_.server.replies.pop();
  }
  if (line_.server.replies.empty()) {
    // The Sync is still to come, and the server ignores everything before it.
    line_.server_skips = true;
    pump_ = line_.deferred.has_value();
    pipeline_.take_held();
  }
}

}  // namespace termgate::pg_session
