#include "refusals.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "names.hpp"
#include "numbers.hpp"

namespace termgate::pg_session {

std::string Refusals::error_text(std::string_view code, std::string_view message,
                                 std::string_view hint) {
  pgwire::ReportFields fields = pgwire::report("ERROR", code, message);
  if (!hint.empty()) fields.set('H', hint);
  std::string text;
  pgwire::append_error_response(text, fields);
  return text;
}

// The client's statement is refused here, and the transaction around it, if any, fails too.
void Refusals::refuse(std::string_view code, std::string_view message, std::string_view hint) {
  const std::string error = error_text(code, message, hint);
  if (pipeline_.begun()) {
    // Nothing of the pipeline was sent, so the server need not know of it: the names that it would
    // have made are forgotten, and the rest up to the Sync is dropped. But the server must get the
    // Sync if it still waits for one, because a COPY has swallowed the one before.
    if (!pipeline_.sent && !model_.tx.in_block &&
        (line_.server.replies.empty() || !line_.server_awaits_sync())) {
      for (const std::string& name : pipeline_.parsed) names_.statements.erase(name);
      pipeline_.take_held();
      pipeline_.goes = Goes::refused;
      line_.server.replies.push({.request = Request::nothing, .text = error});
      return line_.router.give_made_replies();
    }
    // The server already has part of the pipeline, so the pipeline must fail there.
    held_.lock_reads();
    held_.flush_group();
    pipeline_.go_direct();
    fail_in_server(error);
    return;
  }
  if (!model_.tx.in_block) {
    line_.to_client.back() += error;
    if (!script_.running)
      pgwire::append_ready_for_query(line_.to_client.back(), pgwire::TransactionStatus::idle);
    line_.quiet_since = line_.now;
    return;
  }
  fail_in_server(error);
  own_.add_client_sync();
}

// Sends a check that must fail; if layer 1 has none, its Parse fails.
void Refusals::fail_in_server(const std::string& error) {
  own_.run(line_.server, ProxyStatement::check, Purpose::refusal, no_claim, error);
  model_.tx.failed = true;
  texts_.outstanding.wait_for_all = true;
}

// Lets the server report a malformed statement, with the position, and an EXECUTE of an unknown
// name. Otherwise refuses.
void Refusals::refuse_unless_unknown(std::string_view sql, const statements::Statement& statement,
                                     const Refusal& refusal, const ScopedTerm& pair) {
  report_refusal(refusal.code, refusal.message, pair, refusal.fence, true);
  if (refusal.code == "TG001" && claims_.ends_when_stale()) return end_as_stale(refusal.message);
  const bool by_name =
      statement.kind == statements::Kind::execute || statement.inner == statements::Kind::execute;
  if (by_name) pgwire::append_describe_statement(line_.server.bytes.back(), cut(statement.name));
  else pgwire::append_parse(line_.server.bytes.back(), "", sql);
  line_.server.replies.push(
      {.request = by_name ? Request::describe_statement : Request::parse, .hidden = true});
  const bool in_block = model_.tx.in_block;
  fail_in_server(error_text(refusal.code, refusal.message, refusal.hint));
  model_.tx.failed = in_block;
  own_.add_client_sync();
}

void Refusals::refuse_reserved() {
  refuse("42602", "names that begin with _termgate are Termgate's own", "");
}

// Ends the session: the client gets FATAL with this message, and what it has sent after the refused
// statement is discarded.
void Refusals::end_as_stale(std::string_view message) {
  line_.end(stale_ends, message);
  model_.tx.failed = true;
}

namespace {

struct Words {
  Act act;
  std::string_view code, message;
};
constexpr Words words_of_refusals[] = {
    {Act::refuse_no_term, "TG002",
     "TG002 this transaction is READ ONLY, which would not stop this statement: it needs a "
     "transaction that may write, a scope and a term"},
    {Act::refuse_own_word, "TG002",
     "TG002 this session is READ ONLY by its own word, which would not stop this statement: send "
     "it in a transaction block, with a scope "
     "and a term"},
    {Act::refuse_unread, "TG002",
     "TG002 no term declared, and Termgate cannot read this statement"},
    {Act::refuse_unread_read_only, "TG002",
     "TG002 Termgate cannot read this statement, and READ ONLY may not stop it"},
    {Act::refuse_call, "TG002",
     "TG002 a fast-path function call that may write must be in a transaction block"},
    {Act::refuse_unlocks, "0A000",
     "Termgate cannot run this: it names pg_advisory_unlock, and would give up the lock that "
     "fences it"},
    {Act::refuse_code_after, "0A000",
     "Termgate runs CALL and DO only as the one statement before a Sync, or in a transaction "
     "block"},
    {Act::refuse_alone_after, "0A000",
     "Termgate runs what must run alone only as the one statement before a Sync, with no Flush "
     "before it"},
    {Act::refuse_after_held, "0A000",
     "Termgate runs CALL, DO and what must run alone only as the one statement before a Sync"},
    {Act::refuse_flush, "0A000",
     "Termgate runs CALL, DO and what must run alone only before a Sync that follows at once"},
    {Act::refuse_discard, "0A000",
     "Termgate runs DISCARD ALL only as the one statement before a Sync: send a Sync before and "
     "after it"},
    {Act::refuse_own_after_call, "TG002",
     "TG002 a call of Termgate's own functions after other calls in one pipeline: send a Sync "
     "between them"},
    {Act::refuse_after_call, "TG002",
     "TG002 this write follows a call of a function in a pipeline, which had no claim to run "
     "under: send a Sync between them"},
    {Act::refuse_after_read, "TG002",
     "TG002 this write follows a read of its pipeline that ran without a check: send a Sync "
     "between them"},
};

}  // namespace

Refusal Refusals::refusal_of(Act act, const Effects& effects, const Claim& claim) const {
  if (act == Act::refuse_claim) return {claim.code, claim.problem, claim.hint};
  if (act == Act::refuse_known) return judgement_.refusal_from_memory(claim);
  if (act == Act::refuse_own) return judgement_.refusal_of_own(effects);
  const auto* const found = std::find_if(std::begin(words_of_refusals), std::end(words_of_refusals),
                                         [&](const Words& one) { return one.act == act; });
  assert(found != std::end(words_of_refusals) && "a refusal without words");
  Refusal refusal{std::string(found->code), std::string(found->message), ""};
  if (act == Act::refuse_call && !claim.problem.empty()) refusal.code = claim.code;
  if (act == Act::refuse_after_read && !claims_.may_speak())
    refusal.message = "TG002 no term declared for a fenced write";
  if (act == Act::refuse_after_call || act == Act::refuse_after_read)
    refusal.hint =
        "Declare a scope and a term (termgate.scope, termgate.term) before the transaction.";
  return refusal;
}

// Some refusals are also reported to the host, a few in shorter words than the client gets.
void Refusals::refuse(Act act, const Effects& effects, const Claim& claim) {
  if (act == Act::refuse_member) {
    const auto refused = [&](const Claim& member) {
      return judgement_.standing_of(member) > Standing::current;
    };
    const Claim member = *std::find_if(pipeline_.named.begin(), pipeline_.named.end(), refused);
    return refuse(
        judgement_.standing_of(member) == Standing::problem ? Act::refuse_claim : Act::refuse_known,
        effects, member);
  }
  const Refusal refusal = refusal_of(act, effects, claim);
  switch (act) {
    case Act::refuse_claim:
    case Act::refuse_known:
    case Act::refuse_own: return refuse_from_memory(refusal, claim.pair);
    case Act::refuse_no_term: return refuse_from_memory(refusal, {});
    case Act::refuse_unread:
      held_.send_first();
      report_refusal("TG002", "TG002 no term declared", {}, 0, true);
      return fail_in_server(error_text(refusal.code, refusal.message, refusal.hint));
    case Act::refuse_call:
      report_refusal("TG002", "TG002 a function call outside of a transaction block", claim.pair, 0,
                     true);
      break;
    case Act::refuse_after_call:
      report_refusal("TG002", "TG002 a write after a call in one pipeline", claim.pair, 0, true);
      break;
    case Act::refuse_after_read:
      report_refusal("TG002", "TG002 a write after a read that ran without a check", claim.pair, 0,
                     true);
      break;
    default: break;
  }
  refuse(refusal.code, refusal.message, refusal.hint);
}

void Refusals::refuse_from_memory(const Refusal& refusal, const ScopedTerm& pair) {
  report_refusal(refusal.code, refusal.message, pair, refusal.fence, true);
  if (refusal.code == "TG001" && claims_.ends_when_stale()) return end_as_stale(refusal.message);
  refuse(refusal.code, refusal.message, refusal.hint);
}

// Parses `TG001 stale term 3 for scope "billing": the fence stands at 5`. False: it is another
// message.
bool Refusals::stale_report(std::string_view message, ScopedTerm& pair,
                            std::int64_t& fence) noexcept {
  constexpr std::string_view begin = "TG001 stale term ", middle = " for scope \"",
                             end = "\": the fence stands at ";
  if (!message.starts_with(begin)) return false;
  message.remove_prefix(begin.size());
  const std::size_t quote = message.find(middle);
  const std::size_t last = message.rfind(end);
  if (quote == std::string_view::npos || last == std::string_view::npos ||
      last < quote + middle.size())
    return false;
  std::string_view height = message.substr(last + end.size());
  height = height.substr(0, height.find_first_not_of("0123456789"));
  pair.term = number(message.substr(0, quote));
  pair.scope = message.substr(quote + middle.size(), last - quote - middle.size());
  fence = number(height);
  return pair.complete() && fence > 0;
}

void Refusals::report_refusal(std::string_view code, std::string_view message,
                              const ScopedTerm& pair, std::int64_t fence, bool from_memory) {
  line_.host.happened({.kind = Incident::Kind::refused,
                       .scope = pair.scope,
                       .term = pair.term,
                       .fence = fence,
                       .code = code,
                       .message = message,
                       .statement = judgement_.unit_text(),
                       .from_memory = from_memory});
}

// Turns the server's error about a message of ours into one about the client's statement. `refused`
// is set if the error counts as a refusal by Termgate, which is then reported to the host. Changes
// nothing.
Explained Refusals::explained(const pgwire::ReportFields& report, Purpose role) const {
  Explained it{.code = std::string(report.sqlstate()),
               .message = std::string(report.message()),
               .hint = std::string(report['H']),
               .detail = std::string(report['D']),
               .refused = {},
               .pair = own_.last_check().pair};
  // 25001, active_sql_transaction: SET transaction_read_only = off came after the first query.
  if (role == Purpose::writable && it.code == "25001") {
    it.code = "TG002";
    it.message = claims_.may_speak() ? "TG002 no check before the first query of this transaction, "
                                       "and now it is too late: declare scope and term before it"
                                     : "TG002 no term declared for a fenced write";
    it.hint =
        "A session declares by application_name, PGOPTIONS, SET termgate.scope and termgate.term, "
        "or a comment; a transaction that will "
        "write declares before its first query.";
    // invalid_schema_name, undefined_function, undefined_table: layer 1 is not installed.
  } else if (it.code == "3F000" || it.code == "42883" || it.code == "42P01") {
    it.code = "3F000";
    it.refused = it.message;
    it.message =
        "Termgate is not installed in this database, and so nothing can be written through it";
    it.hint = "As the owner: termgate init --db postgresql://…/" + line_.login_request.database;
    // insufficient_privilege: the check runs as the client's role.
  } else if (it.code == "42501") {
    it.message = role_problem(facts_.role_now(line_.login_request.user), it.message);
    it.hint = "As the owner: termgate init --grant " + facts_.role_now(line_.login_request.user) +
              "=write";
    it.refused = it.message;
  } else if (it.code == "TG001") {
    ScopedTerm stale;
    if (stale_report(it.message, stale, it.fence)) it.pair = stale;
    else it.fence = 0;
  }
  if (it.code.starts_with("TG")) it.refused = it.message;
  return it;
}

// A message of ours has failed, and the client's statement with it.
void Refusals::ours_refused(const pgwire::ReportFields& report, Purpose role) {
  const Explained it = explained(report, role);
  if (it.fence != 0) {
    judgement_.saw_fence(it.pair.scope, it.fence);
    const PendingReply& head = line_.server.replies.head();
    if (head.request == Request::execute && !head.given)
      claims_.check_refused(it.pair, head.changes);
  }
  if (!it.refused.empty()) report_refusal(it.code, it.refused, it.pair, it.fence, false);
  if (it.code == "TG001" && claims_.ends_when_stale()) return end_as_stale(it.message);
  pgwire::ReportFields fields = pgwire::report("ERROR", it.code, it.message);
  fields.set('H', it.hint);
  fields.set('D', it.detail);
  pgwire::append_error_response(line_.to_client.back(), fields);
}

}  // namespace termgate::pg_session
