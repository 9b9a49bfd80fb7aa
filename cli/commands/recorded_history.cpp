#include "commands/recorded_history.hpp"

#include <limits>
#include <optional>

#include <fmt/format.h>

#include <termgate/term.hpp>

#include "output.hpp"

namespace termgate::cli {

namespace json = boost::json;
using testkit::Moment;
using testkit::Operation;
using testkit::Outcome;

namespace {

std::string text_of(const json::value& value) {
  if (value.is_string()) return std::string(value.as_string());
  return json::serialize(value);
}

std::optional<std::int64_t> whole_number(const json::value& value) {
  if (value.is_int64()) return value.as_int64();
  if (value.is_uint64() &&
      value.as_uint64() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return static_cast<std::int64_t>(value.as_uint64());
  return std::nullopt;
}

}  // namespace

void RecordedHistory::fail(const std::string& what) const {
  throw BadHistory(fmt::format("line {}: {}", line_, what));
}

void RecordedHistory::put(Operation& one, Known& known, std::string_view name,
                          const json::value& value) const {
  const auto number = [&](std::int64_t low) {
    const auto found = whole_number(value);
    if (!found || *found < low)
      fail(fmt::format("\"{}\" is a whole number from {}, not {}", name, low,
                       printable(json::serialize(value))));
    return *found;
  };
  const auto text = [&] {
    if (!value.is_string() || value.as_string().empty())
      fail(fmt::format("\"{}\" is a text, not {}", name, printable(json::serialize(value))));
    return std::string(value.as_string());
  };
  const auto once = [&](bool& was, const auto& before, const auto& now) {
    if (was && before != now)
      fail(fmt::format("\"{}\" of this operation was another one on line {} or after it", name,
                       known.line));
    was = true;
  };
  if (name == "kind") {
    const std::string kind = text();
    Operation::Kind what = Operation::Kind::write;
    bool acquisition = false;
    if (kind == "acquire" || kind == "seal")
      what = Operation::Kind::raise, acquisition = kind == "acquire";
    else if (kind == "look") what = Operation::Kind::look;
    else if (kind != "write")
      fail(fmt::format("\"kind\" is one of write, acquire, seal, look, not {}", printable(kind)));
    once(known.kind, std::pair(one.kind, one.acquisition), std::pair(what, acquisition));
    one.kind = what;
    one.acquisition = acquisition;
  } else if (name == "scope") {
    std::string scope = text();
    once(known.scope, one.scope, scope);
    one.scope = std::move(scope);
  } else if (name == "term") {
    const std::int64_t term = number(0);
    once(known.term, one.term, term);
    one.term = term;
  } else if (name == "id") {
    std::string id = printable(text());
    once(known.id, one.id, id);
    one.id = std::move(id);
  } else if (name == "rows") {
    const std::int64_t rows = number(0);
    if (rows > std::numeric_limits<int>::max()) fail("\"rows\" is too many");
    one.rows = static_cast<int>(rows);
  } else if (name == "place") {
    one.place = number(0);
  } else if (name == "begun_ns") {
    const Moment begun(number(0));
    once(known.begun, one.invoked, begun);
    one.invoked = begun;
  } else if (name == "ended_ns") {
    const Moment ended(number(0));
    once(known.ended, one.answered, ended);
    one.answered = ended;
  } else if (name == "outcome") {
    const std::string outcome = text();
    Outcome how = Outcome::unknown;
    if (outcome == "committed") how = Outcome::committed;
    else if (outcome == "refused") how = Outcome::refused;
    else if (outcome != "unknown")
      fail(fmt::format("\"outcome\" is one of committed, refused, unknown, not {}",
                       printable(outcome)));
    once(known.outcome, one.outcome, how);
    one.outcome = how;
  } else if (name != "client" && name != "op" && name != "stream" && name != "note") {
    fail(fmt::format("unknown key \"{}\"", printable(name)));
  }
}

void RecordedHistory::take(std::string_view line) {
  ++line_;
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  if (line.size() > line_bytes_max) fail(fmt::format("longer than {} bytes", line_bytes_max));
  boost::system::error_code error;
  const json::value document = json::parse(json::string_view(line.data(), line.size()), error);
  if (error || !document.is_object())
    fail(fmt::format("no JSON object{}", error ? ": " + error.message() : ""));
  const json::object& object = document.as_object();
  const json::value *client = object.if_contains("client"), *op = object.if_contains("op");
  if (client == nullptr || !client->is_string()) fail("\"client\", a text, is missing");
  if (op == nullptr || (!op->is_string() && !whole_number(*op)))
    fail("\"op\", a text or a whole number, is missing");
  const auto [found, fresh] =
      by_name_.try_emplace({std::string(client->as_string()), text_of(*op)}, operations_.size());
  if (fresh) {
    Operation& one = operations_.emplace_back();
    one.outcome = Outcome::unknown;
    one.client =
        printable(std::string_view(client->as_string().data(), client->as_string().size()));
    known_.push_back({.line = line_});
  }
  for (const auto& member : object)
    put(operations_[found->second], known_[found->second],
        std::string_view(member.key().data(), member.key().size()), member.value());
  if (const json::value* stream = object.if_contains("stream")) {
    if (!stream->is_string() || stream->as_string().empty()) fail("\"stream\" is a text");
    streams_.emplace(stream->as_string());
  }
}

void RecordedHistory::end() const {
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const Operation& one = operations_[i];
    const Known& known = known_[i];
    const auto wanted = [&](bool there, const char* name) {
      if (!there)
        throw BadHistory(fmt::format("line {}: the operation that begins there has no \"{}\"",
                                     known.line, name));
    };
    wanted(known.kind, "kind");
    wanted(known.scope, "scope");
    wanted(known.begun, "begun_ns");
    if (one.kind == Operation::Kind::write) wanted(known.id, "id");
    // The term is required only where it is known: a look or an acquisition without an answer has
    // none.
    if (one.kind == Operation::Kind::write || one.outcome == Outcome::committed)
      wanted(known.term, "term");
    if (known.outcome && one.outcome != Outcome::unknown) wanted(known.ended, "ended_ns");
    if (known.ended) wanted(known.outcome, "outcome");
    if (one.answered < one.invoked)
      throw BadHistory(fmt::format("line {}: the operation that begins there ended before it began",
                                   known.line));
    if (one.kind == Operation::Kind::write && one.term < 1)
      throw BadHistory(fmt::format("line {}: the term of a write is from 1", known.line));
    if (one.term > Term::max_value)
      throw BadHistory(fmt::format("line {}: a term is at most {}", known.line, Term::max_value));
  }
}

}  // namespace termgate::cli
