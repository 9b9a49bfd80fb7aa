// A read that READ ONLY refused before its first row: run once more, behind the check, without what the client has seen of it already
// (docs/decisions/0005).
#include "state.hpp"

namespace termgate::session {

namespace backend = pgwire::backend;
using pgwire::Event;

// For a unit that may have to be run again: what the client has of it already.
void Session::State::shown(const Expected& expected, char type) {
  if (!again_.possible || expected.hidden) return;
  switch (type) {
    case backend::parse_complete: ++again_.parses; break;
    case backend::bind_complete: ++again_.binds; break;
    case backend::close_complete: ++again_.closes; break;
    case backend::row_description:
    case backend::no_data:
    case backend::parameter_description: ++again_.descriptions; break;
    default: break;
  }
}

void Session::State::run_again() {
  const Again again = std::move(again_);
  again_ = Again();
  const Claim& claim = again.claim;
  const Refusal refusal = claim.problem.empty() ? refusal_from_memory(claim) : Refusal{claim.code, claim.problem, claim.hint};
  if (refusal) {
    report_refusal(refusal.code, refusal.message, claim.pair, refusal.fence, true);
    to_client_.back() += error_text(refusal.code, refusal.message, refusal.hint);
    pgwire::append_ready_for_query(to_client_.back(), status_);
    idle_now();
    return pump();
  }
  raise_in_advance(claim.pair);
  if (!again.extended) {
    remember_writer(again.bytes);
    add_opening(claim.pair, true);
    return run_converted(again.bytes, again.descriptions > 0);
  }
  remember_writer_hash(again.hash);
  add_opening(claim.pair, true);
  outstanding_.wait_for_all = true;  // of this transaction; what follows begins another
  std::size_t parses = again.parses, binds = again.binds, descriptions = again.descriptions, closes = again.closes;
  pgwire::Rules rules = pgwire::Rules::frontend(options_.limits);
  rules[pgwire::frontend::bind].whole_max = options_.limits.message_bytes_max;
  pgwire::Reader reader(rules);
  std::string_view rest = again.bytes;
  const auto counted = [](std::size_t& left) {
    if (left == 0) return false;
    --left;
    return true;
  };
  while (!rest.empty()) {
    const Event event = reader.next(rest);
    rest.remove_prefix(event.used);
    if (event.kind != Event::Kind::message) break;
    Expected expected;
    switch (event.type) {
      case pgwire::frontend::parse:
        // What was parsed stays so, whatever became of the transaction.
        if (counted(parses)) continue;
        expected.asked = Asked::parse;
        if (const auto parse = pgwire::decode_parse(event.body)) expected.text = parse->statement;
        break;
      case pgwire::frontend::bind:
        expected.asked = Asked::bind;
        expected.hidden = counted(binds);
        break;
      case pgwire::frontend::describe: {
        const auto named = pgwire::decode_describe(event.body);
        expected.asked = named && named->portal ? Asked::describe_portal : Asked::describe_statement;
        expected.hidden = counted(descriptions);
        if (expected.hidden && expected.asked == Asked::describe_statement) counted(descriptions);
        break;
      }
      case pgwire::frontend::close:
        expected.asked = Asked::close;
        expected.hidden = counted(closes);
        break;
      case pgwire::frontend::execute: expected.asked = Asked::execute; break;
      case pgwire::frontend::sync: expected.asked = Asked::sync; break;
      default: continue;
    }
    to_server_.back() += event.frame;
    answers_.push(std::move(expected));
  }
}

}  // namespace termgate::session
