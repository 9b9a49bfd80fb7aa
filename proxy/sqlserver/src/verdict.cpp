#include "verdict.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include <termgate/scope.hpp>
#include <termgate/tds/text.hpp>
#include <termgate/tds/token.hpp>
#include <termgate/tds_session/text.hpp>
#include <termgate/term.hpp>
#include <termgate/text/ascii.hpp>

#include "lexer.hpp"

namespace termgate::tds_session {
namespace {

using Way = Verdict::Way;
using Does = Verdict::Does;

constexpr std::size_t read_handles_max = 1000;

Verdict refused(std::string message, std::string statement = {}) {
  Verdict verdict;
  verdict.way = Way::refuse;
  verdict.code = "TG005";
  verdict.message = std::move(message);
  verdict.statement = std::move(statement);
  return verdict;
}

std::string text_in(const tds::Parameter& parameter) {
  return parameter.is_wide() ? tds::utf8_of(parameter.data) : parameter.data;
}

std::int64_t number_in(const tds::Parameter& parameter) {
  tds::ReturnValue value;
  value.type = parameter.type.type;
  value.null = parameter.null;
  value.data = parameter.data;
  if (const auto number = value.integer()) return *number;
  const std::string text = text_in(parameter);
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc{} && end == text.data() + text.size() && !text.empty() ? number : 0;
}

// The text of a UTF-16 parameter. A text in a code page is not used: it may have letters that look
// like others.
std::optional<std::string> text_that_is_plain(const tds::Parameter& parameter) {
  if (!parameter.is_wide() || !tds::is_utf16(parameter.data)) return std::nullopt;
  return tds::utf8_of(parameter.data);
}

// The parameter of this name, or else the one at this position.
const tds::Parameter* parameter_of(const tds::Call& call, std::string_view name,
                                   std::size_t place) {
  for (const tds::Parameter& one : call.parameters) {
    if (tds::utf8_of(one.name) == name) return &one;
  }
  if (place >= call.parameters.size() || !call.parameters[place].name.empty()) return nullptr;
  return &call.parameters[place];
}

// The verdict on a call of set_term with these values.
Verdict set_term(std::string scope, std::int64_t term, std::string statement) {
  if (const char* problem = name_problem(scope))
    return refused(std::string("TG005 the scope ") + problem, std::move(statement));
  if (term < 1 || term > Term::max_value)
    return refused("TG005 the term is no number from 1 to 4611686018427387904 (2^62)",
                   std::move(statement));
  Verdict verdict;
  verdict.way = Way::answer;
  verdict.sets = ScopedTerm{std::move(scope), term};
  verdict.statement = std::move(statement);
  return verdict;
}

// These procedures need no gate: they release a prepared statement or a cursor, and write nothing.
bool is_harmless(std::uint16_t procedure) noexcept {
  return procedure == tds::procedure::unprepare || procedure == tds::procedure::cursor_unprepare ||
         procedure == tds::procedure::cursor_close;
}

}  // namespace

Verdict MessageClassifier::verdict_of(const Message& message, std::uint32_t tds_version,
                                      bool takes_rows) {
  if (message.type == tds::packet::bulk) {
    Verdict verdict = refused("TG005 rows of a bulk load that no INSERT BULK has announced");
    if (takes_rows) verdict.way = Way::pass;
    verdict.does = Does::bulk_rows;
    return verdict;
  }
  const auto headers = tds::decode_headers(message.payload, tds_version);
  if (!headers) return refused("TG005 malformed: " + std::string(headers.problem().reason()));
  const std::string_view body = std::string_view(message.payload).substr(headers->bytes);
  const bool complete = message.complete();
  judge_.begin(message.type, tds_version);
  if (const char* problem = judge_.take(body, complete)) return refused(problem);
  switch (message.type) {
    case tds::packet::sql_batch: return batch(body, complete);
    case tds::packet::rpc: return calls(body, complete, tds_version);
    case tds::packet::transaction: return transaction(body, complete);
    default:
      return refused("TG005 a message of type " + std::to_string(message.type) +
                     " has no place after the login");
  }
}

Verdict MessageClassifier::batch(std::string_view body, bool complete) const {
  constexpr std::size_t statement_max = 2000;
  Verdict verdict;
  if (!tds::is_utf16(body) && complete) return verdict;
  const std::string text = tds::utf8_of(body.substr(0, body.size() - body.size() % 2));
  verdict.statement = text.substr(0, statement_max);
  TextVerdict found = classify(text, options_.schema);
  if (found.kind == TextVerdict::Kind::forbidden)
    return refused(std::move(found.problem), std::move(verdict.statement));
  if (found.kind == TextVerdict::Kind::bulk_insert) verdict.does = Does::announces_bulk;
  if (found.kind == TextVerdict::Kind::declares) verdict.does = Does::declares;
  // The rest of the message is not known yet.
  if (!complete) return verdict;
  switch (found.kind) {
    case TextVerdict::Kind::declares:
    case TextVerdict::Kind::settings: verdict.way = Way::pass; break;
    case TextVerdict::Kind::reads:
      verdict.does = Does::reads;
      if (reads_pass()) verdict.way = Way::pass;
      break;
    case TextVerdict::Kind::set_term:
      if (!found.problem.empty())
        return refused(std::move(found.problem), std::move(verdict.statement));
      return set_term(std::move(found.scope), found.term, std::move(verdict.statement));
    default: break;
  }
  return verdict;
}

Verdict MessageClassifier::calls(std::string_view body, bool complete,
                                 std::uint32_t tds_version) const {
  Verdict verdict;
  const tds::Calls calls = tds::decode_rpc(body, tds_version);
  if (!calls.whole || !complete || calls.all.empty()) return verdict;
  bool harmless = true;
  const bool alone = calls.all.size() == 1;
  for (const tds::Call& call : calls.all) {
    const std::string name = tds::utf8_of(call.name);
    if (verdict.statement.empty())
      verdict.statement =
          "EXEC " +
          (call.id == tds::procedure::none ? name : "procedure " + std::to_string(call.id));
    if (call.id != tds::procedure::none) {
      harmless = harmless && (is_harmless(call.id) || call_reads(call));
      if (alone &&
          (call.id == tds::procedure::prepare || call.id == tds::procedure::prepare_execute))
        verdict.does = Does::prepares_read;
    } else if (alone && names_procedure(name, options_.schema, "set_term")) {
      const tds::Parameter* scope = parameter_of(call, "@scope", 0);
      const tds::Parameter* term = parameter_of(call, "@term", 1);
      return set_term(scope == nullptr ? "" : text_in(*scope),
                      term == nullptr ? 0 : number_in(*term), std::move(verdict.statement));
    } else if (resets_session(name)) {
      verdict.does = Does::resets;
    } else if (names_procedure(name, "sys", "sp_set_session_context")) {
      const tds::Parameter* key = parameter_of(call, "@key", 0);
      const std::string text = key == nullptr ? "" : text_in(*key);
      // Ignores case: a key that is taken for ours by mistake only costs a call.
      if (verdict.does != Does::resets && lower(text).find("termgate.") != std::string::npos)
        verdict.does = Does::declares;
    } else {
      harmless = harmless && (is_harmless_procedure(name, reads_pass()) || call_reads(call));
    }
  }
  if (harmless) verdict.way = Way::pass;
  return verdict;
}

// Whether a call only reads, if reads may pass: by its text, or by the handle of such a text.
bool MessageClassifier::call_reads(const tds::Call& call) const {
  if (!reads_pass()) return false;
  std::size_t place = 0;
  switch (call.id) {
    case tds::procedure::none:
      if (!names_procedure(tds::utf8_of(call.name), "sys", "sp_executesql")) return false;
      break;
    case tds::procedure::execute_sql: break;
    case tds::procedure::prepare:
    case tds::procedure::prepare_execute: place = 2; break;
    case tds::procedure::cursor_open: place = 1; break;
    case tds::procedure::cursor_fetch:
    case tds::procedure::cursor_option: return true;
    case tds::procedure::execute: {
      if (call.parameters.empty()) return false;
      for (std::size_t i = 0; i < call.parameters.size(); ++i) {
        const std::string name = tds::utf8_of(call.parameters[i].name);
        const bool of_handle = text::same(name, "@handle");
        if (i == 0 ? !name.empty() && !of_handle : of_handle) return false;
      }
      return read_handles_.contains(number_in(call.parameters[0]));
    }
    default: return false;
  }
  // The text must be at its position, and no other parameter may be named like the text. The server
  // compares names without regard to case.
  if (place >= call.parameters.size()) return false;
  for (std::size_t i = 0; i < call.parameters.size(); ++i) {
    const std::string name = tds::utf8_of(call.parameters[i].name);
    if (std::any_of(name.begin(), name.end(),
                    [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
      return false;
    const bool of_text = text::same(name, "@stmt") || text::same(name, "@statement");
    if (i == place ? !of_text && !name.empty() : of_text) return false;
  }
  const std::size_t declared_at = call.id == tds::procedure::cursor_open ? 5 : 1;
  for (std::size_t i = 0; i < call.parameters.size(); ++i) {
    if (i != declared_at && text::same(tds::utf8_of(call.parameters[i].name), "@params"))
      return false;
  }
  if (declared_at < call.parameters.size()) {
    const auto declared = text_that_is_plain(call.parameters[declared_at]);
    if (!declared || !only_declares(*declared)) return false;
  }
  const auto text = text_that_is_plain(call.parameters[place]);
  if (!text || text->empty()) return false;
  return classify(*text, options_.schema).kind == TextVerdict::Kind::reads;
}

Verdict MessageClassifier::transaction(std::string_view body, bool complete) const {
  const auto request = tds::decode_transaction_request(body);
  if (!request || !complete) return refused("TG005 a malformed request to the transaction manager");
  Verdict verdict;
  switch (request->kind) {
    case tds::transaction_request::begin:
    case tds::transaction_request::commit:
    case tds::transaction_request::rollback:
    case tds::transaction_request::save: verdict.way = Way::pass; return verdict;
    default: break;
  }
  return refused(
      "TG005 a distributed transaction can be committed after its session has ended, and its gate "
      "with it: it is refused in a fenced "
      "session");
}

void MessageClassifier::prepared_read(std::int64_t handle) {
  if (read_handles_.size() < read_handles_max) read_handles_.insert(handle);
}

}  // namespace termgate::tds_session
