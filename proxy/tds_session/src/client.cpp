// The client's messages: gathered as far as they are looked at, judged, and forwarded, refused or answered here.
#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <termgate/scope.hpp>
#include <termgate/tds/text.hpp>
#include <termgate/term.hpp>
#include <termgate/text/ascii.hpp>

#include "lexer.hpp"
#include "state.hpp"

namespace termgate::tds_session {
namespace {

constexpr std::size_t status_at = 1;  // of a packet
constexpr std::uint8_t refusal_severity = 16;

std::string_view part(std::string_view text, std::size_t bytes) { return text.substr(0, std::min(text.size(), bytes)); }

std::string text_in(const tds::Parameter& parameter) { return parameter.is_wide() ? tds::utf8_of(parameter.data) : parameter.data; }

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

// A text of a code page is none here: it may have letters that look like others.
std::optional<std::string> text_that_is_plain(const tds::Parameter& parameter) {
  if (!parameter.is_wide() || !tds::is_utf16(parameter.data)) return std::nullopt;
  return tds::utf8_of(parameter.data);
}

// The one that is named, or that stands at this place.
const tds::Parameter* parameter_of(const tds::Call& call, std::string_view name, std::size_t place) {
  for (const tds::Parameter& one : call.parameters) {
    if (tds::utf8_of(one.name) == name) return &one;
  }
  if (place >= call.parameters.size() || !call.parameters[place].name.empty()) return nullptr;
  return &call.parameters[place];
}

void check_pair(Verdict& verdict, std::string scope, std::int64_t term) {
  verdict.way = Verdict::Way::answer;
  if (const char* problem = name_problem(scope)) {
    verdict.way = Verdict::Way::refuse;
    verdict.code = "TG005";
    verdict.message = std::string("TG005 the scope ") + problem;
  } else if (term < 1 || term > Term::max_value) {
    verdict.way = Verdict::Way::refuse;
    verdict.code = "TG005";
    verdict.message = "TG005 the term is no number from 1 to 4611686018427387904 (2^62)";
  } else {
    verdict.sets = ScopedTerm{std::move(scope), term};
  }
}

// Ungated by their numbers: they end something, and write nothing.
bool is_harmless(std::uint16_t procedure) noexcept {
  return procedure == tds::procedure::unprepare || procedure == tds::procedure::cursor_unprepare ||
         procedure == tds::procedure::cursor_close;
}

}  // namespace

std::uint32_t number_of(std::string_view code) noexcept {
  if (code.size() == 5 && code.starts_with("TG00") && code[4] >= '1' && code[4] <= '6')
    return 50000 + static_cast<std::uint32_t>(code[4] - '0');
  return 50006;
}

// --- bytes ---

void TdsSession::State::take_client(std::string_view bytes, Instant now) {
  if (stage_ == Stage::closing) return;
  input_.append(bytes);
  pump_client(now);
}

// Whether the next packet of the client's is looked at now.
bool TdsSession::State::reads_packets() const noexcept {
  switch (stage_) {
    case Stage::client_prelogin:
    case Stage::client_login:
    case Stage::client_sspi:
    case Stage::ready: return true;
    case Stage::relaying: return streaming_;
    default: return false;
  }
}

void TdsSession::State::pump_client(Instant now) {
  std::size_t at = 0;
  const auto drop = [&] {
    input_.erase(0, at);
    at = 0;
  };
  while (stage_ != Stage::closing) {
    if (!reads_packets()) {
      drop();
      if (!take_attention(now)) return;
      continue;
    }
    const tds::PacketEvent event = client_reader_.next(std::string_view(input_).substr(at));
    at += event.used;
    if (event.kind == tds::PacketEvent::Kind::need_more) break;
    if (event.kind == tds::PacketEvent::Kind::malformed) {
      drop();
      return malformed_peer("client", event.problem.reason());
    }
    // What is called here may lead back here only after `input_` is in order again.
    const std::string raw(event.raw);
    tds::PacketEvent kept = event;
    kept.raw = raw;
    drop();
    on_client_event(kept, now);
    if (input_.empty()) return;
  }
  drop();
  if (stage_ == Stage::closing) std::string().swap(input_);
}

// While something of the client's runs, or a call of ours, only an attention is for now; anything else waits.
bool TdsSession::State::take_attention(Instant now) {
  if (input_.empty() || !client_reader_.between_messages()) return false;
  const bool waits = stage_ == Stage::entering || stage_ == Stage::raising || stage_ == Stage::leaving || stage_ == Stage::relaying;
  if (!waits || static_cast<std::uint8_t>(input_[0]) != tds::packet::attention || input_.size() < tds::packet_header_bytes) return false;
  const tds::PacketEvent event = client_reader_.next(std::string_view(input_).substr(0, tds::packet_header_bytes));
  if (event.kind != tds::PacketEvent::Kind::header) {
    malformed_peer("client", event.problem.reason());
    return false;
  }
  const std::string raw(event.raw);
  input_.erase(0, tds::packet_header_bytes);
  if (stage_ == Stage::relaying) {
    server_out_.back().append(raw);
    ++attentions_;
  } else if (stage_ == Stage::leaving && message_.raw.empty()) {
    // Nothing of the client's runs: it came too late.
    answer_attention();
  } else {
    cancelled_ = true;
  }
  latest_ = now;
  return true;
}

void TdsSession::State::on_client_event(const tds::PacketEvent& event, Instant now) {
  latest_ = now;
  if (stage_ == Stage::relaying) {
    const bool payload = event.kind == tds::PacketEvent::Kind::payload;
    if (judges_ && (payload || event.ends_message)) {
      // The server runs a text when all of it is there.
      if (const char* problem = judge_.take(payload ? event.raw : std::string_view{}, event.ends_message)) return end(50005, problem);
    }
    server_out_.back().append(event.raw);
    if (!event.ends_message) return;
    streaming_ = false;
    if (response_done_) back_to_ready(now);
    return;
  }
  if (event.kind == tds::PacketEvent::Kind::header && event.first) {
    message_ = {};
    message_.type = event.header.type;
    message_.resets = event.header.status & tds::status::any_reset;
  }
  if (event.ends_message) {
    message_.complete = true;
    message_.given_up = (event.header.status & tds::status::ignore) != 0;
  }
  if (swallowing_) {
    if (!event.ends_message) return;
    swallowing_ = false;
    return answer_refusal();
  }
  const std::size_t before = message_.raw.size();
  message_.raw.append(event.raw);
  if (event.kind == tds::PacketEvent::Kind::header) {
    if (event.first) message_.raw[before + status_at] = static_cast<char>(event.header.status & ~tds::status::any_reset);
  } else {
    message_.payload.append(event.raw);
  }
  const bool login = stage_ != Stage::ready;
  const bool greets = stage_ == Stage::client_prelogin && message_.type != tds::packet::login7;
  const std::size_t most = greets ? tds::prelogin_bytes_max : login ? tds::login7_bytes_max : options_.held_bytes_max;
  if (!message_.complete && message_.payload.size() <= most) return;
  if (login && !message_.complete) return malformed_peer("client", "a message of the login is too long");
  switch (stage_) {
    case Stage::client_prelogin:
      // jTDS in clear text leaves PRELOGIN out, as clients of SQL Server 7 did.
      if (message_.type == tds::packet::login7 && !peer_.encrypted_already) return on_client_login(now);
      if (message_.type != tds::packet::prelogin) return malformed_peer("client", "it does not begin with PRELOGIN");
      return on_client_prelogin(now);
    case Stage::client_login:
      if (message_.type != tds::packet::login7) return malformed_peer("client", "a LOGIN7 was expected");
      return on_client_login(now);
    case Stage::client_sspi:
      if (message_.type != tds::packet::sspi) return malformed_peer("client", "the answer of an integrated login was expected");
      server_out_.back().append(message_.raw);
      message_ = {};
      stage_ = Stage::server_login;
      return;
    default: break;
  }
  // The last packet is looked at when its payload is there.
  if (message_.complete || event.last) return on_message(now);
}

// --- a message ---

void TdsSession::State::on_message(Instant now) {
  if (message_.type == tds::packet::attention) {
    message_ = {};
    return answer_attention();
  }
  raised_ = cancelled_ = outlived_reset_ = false;
  resets_ |= message_.resets;
  if (message_.resets != 0) {
    claims_.reset();
    bulk_expected_ = false;
  }
  if ((resets_ & tds::status::reset) != 0) resets_ = tds::status::reset;
  if (message_.given_up) {
    // The server has seen nothing of it.
    std::string payload;
    tds::append_done(payload, {done_token(), tds::done_status::error, 0, 0}, tds_version_);
    message_ = {};
    return say_to_client(payload);
  }
  const Verdict verdict = verdict_of(message_);
  if (stage_ == Stage::closing) return;
  if (verdict.resets) {
    // As by the bit in a packet, which is sent with it: what was open is rolled back, and the gate is open.
    claims_.reset();
    bulk_expected_ = false;
    resets_ = tds::status::reset;
    return forward(verdict, now);
  }
  if (verdict.declares) claims_.server_knows();
  if (!claims_.enforces() && verdict.way != Verdict::Way::answer) {
    observe(verdict);
    return forward(verdict, now);
  }
  switch (verdict.way) {
    case Verdict::Way::refuse: return refuse(verdict.code, verdict.message, true, now);
    case Verdict::Way::answer: return answer_locally(verdict);
    case Verdict::Way::pass:
      // A transaction that has outlived a reset is gone on with only behind the gate.
      if (gate_ == Gate::unsure || resets_ == tds::status::reset_keep_transaction) return through_gate(verdict, now);
      return forward(verdict, now);
    case Verdict::Way::gate: return through_gate(verdict, now);
  }
}

Verdict TdsSession::State::verdict_of(const Message& message) {
  Verdict verdict;
  if (message.type == tds::packet::bulk) {
    verdict.way =
        bulk_expected_ && (gate_ == Gate::held || claims_.is_silent() || !claims_.enforces()) ? Verdict::Way::pass : Verdict::Way::refuse;
    verdict.bulk_rows = true;
    verdict.code = "TG005";
    verdict.message = "TG005 rows of a bulk load that no INSERT BULK has announced";
    return verdict;
  }
  const auto headers = tds::decode_headers(message.payload, tds_version_);
  if (!headers) {
    verdict.way = Verdict::Way::refuse;
    verdict.code = "TG005";
    verdict.message = "TG005 malformed: " + std::string(headers.problem().reason());
    return verdict;
  }
  const std::string_view body = std::string_view(message.payload).substr(headers->bytes);
  judge_.begin(message.type, tds_version_);
  if (const char* problem = judge_.take(body, message.complete)) {
    verdict.way = Verdict::Way::refuse;
    verdict.code = "TG005";
    verdict.message = problem;
    return verdict;
  }
  switch (message.type) {
    case tds::packet::sql_batch: return verdict_of_batch(body);
    case tds::packet::rpc: return verdict_of_calls(body);
    case tds::packet::transaction: return verdict_of_transaction(body);
    default: break;
  }
  verdict.way = Verdict::Way::refuse;
  verdict.code = "TG005";
  verdict.message = "TG005 a message of type " + std::to_string(message.type) + " has no place after the login";
  return verdict;
}

Verdict TdsSession::State::verdict_of_batch(std::string_view body) const {
  constexpr std::size_t statement_max = 2000;
  Verdict verdict;
  if (!tds::is_utf16(body) && message_.complete) return verdict;
  const std::string text = tds::utf8_of(body.substr(0, body.size() - body.size() % 2));
  verdict.statement = part(text, statement_max);
  TextVerdict said = classify(text, options_.schema);
  switch (said.kind) {
    case TextVerdict::Kind::forbidden:
      verdict.way = Verdict::Way::refuse;
      verdict.code = "TG005";
      verdict.message = std::move(said.problem);
      return verdict;
    case TextVerdict::Kind::declares: verdict.declares = true; [[fallthrough]];
    case TextVerdict::Kind::settings:
      if (message_.complete) verdict.way = Verdict::Way::pass;
      return verdict;
    case TextVerdict::Kind::reads:
      verdict.only_reads = message_.complete;
      if (message_.complete && reads_pass()) verdict.way = Verdict::Way::pass;
      return verdict;
    case TextVerdict::Kind::set_term:
      // What follows it is not known yet.
      if (!message_.complete) return verdict;
      if (said.problem.empty()) {
        check_pair(verdict, std::move(said.scope), said.term);
      } else {
        verdict.way = Verdict::Way::refuse;
        verdict.code = "TG005";
        verdict.message = std::move(said.problem);
      }
      return verdict;
    case TextVerdict::Kind::bulk_insert: verdict.bulk = true; return verdict;
    case TextVerdict::Kind::other: return verdict;
  }
  return verdict;
}

Verdict TdsSession::State::verdict_of_calls(std::string_view body) const {
  Verdict verdict;
  const tds::Calls calls = tds::decode_rpc(body, tds_version_);
  if (!calls.whole || !message_.complete || calls.all.empty()) return verdict;
  bool harmless = true;
  for (const tds::Call& call : calls.all) {
    const std::string name = tds::utf8_of(call.name);
    if (verdict.statement.empty())
      verdict.statement = "EXEC " + (call.id == tds::procedure::none ? name : "procedure " + std::to_string(call.id));
    const bool alone = calls.all.size() == 1;
    if (call.id != tds::procedure::none) {
      harmless = harmless && (is_harmless(call.id) || call_reads(call, verdict));
      if (!alone) verdict.prepares_read = false;
    } else if (alone && names_procedure(name, options_.schema, "set_term")) {
      const tds::Parameter* scope = parameter_of(call, "@scope", 0);
      const tds::Parameter* term = parameter_of(call, "@term", 1);
      check_pair(verdict, scope == nullptr ? "" : text_in(*scope), term == nullptr ? 0 : number_in(*term));
      return verdict;
    } else if (resets_session(name)) {
      verdict.resets = true;
    } else if (names_procedure(name, "sys", "sp_set_session_context")) {
      const tds::Parameter* key = parameter_of(call, "@key", 0);
      const std::string text = key == nullptr ? "" : text_in(*key);
      // Whatever the case of its letters: a key that is taken for ours without need costs a question.
      verdict.declares = verdict.declares || lower(text).find("termgate.") != std::string::npos;
    } else {
      harmless = harmless && (is_harmless_procedure(name, reads_pass()) || call_reads(call, verdict));
    }
  }
  if (harmless) verdict.way = Verdict::Way::pass;
  return verdict;
}

// Whether a call only reads, where reads may pass: by its text, or by the handle of such a text.
bool TdsSession::State::call_reads(const tds::Call& call, Verdict& verdict) const {
  if (!reads_pass()) return false;
  std::size_t place = 0;
  switch (call.id) {
    case tds::procedure::none:
      if (!names_procedure(tds::utf8_of(call.name), "sys", "sp_executesql")) return false;
      break;
    case tds::procedure::execute_sql: break;
    case tds::procedure::prepare:
    case tds::procedure::prepare_execute:
      place = 2;
      verdict.prepares_read = true;
      break;
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
  // The text is at its place, and no other parameter says by its name that it is the text. The server compares names without regard to
  // case.
  if (place >= call.parameters.size()) return false;
  for (std::size_t i = 0; i < call.parameters.size(); ++i) {
    const std::string name = tds::utf8_of(call.parameters[i].name);
    if (std::any_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) return false;
    const bool of_text = text::same(name, "@stmt") || text::same(name, "@statement");
    if (i == place ? !of_text && !name.empty() : of_text) return false;
  }
  const std::size_t declared_at = call.id == tds::procedure::cursor_open ? 5 : 1;
  for (std::size_t i = 0; i < call.parameters.size(); ++i) {
    if (i != declared_at && text::same(tds::utf8_of(call.parameters[i].name), "@params")) return false;
  }
  if (declared_at < call.parameters.size()) {
    const auto declared = text_that_is_plain(call.parameters[declared_at]);
    if (!declared || !only_declares(*declared)) return false;
  }
  const auto text = text_that_is_plain(call.parameters[place]);
  if (!text || text->empty()) return false;
  const TextVerdict said = classify(*text, options_.schema);
  return said.kind == TextVerdict::Kind::reads;
}

Verdict TdsSession::State::verdict_of_transaction(std::string_view body) const {
  Verdict verdict;
  const auto request = tds::decode_transaction_request(body);
  verdict.way = Verdict::Way::refuse;
  verdict.code = "TG005";
  if (!request || !message_.complete) {
    verdict.message = "TG005 a malformed request to the transaction manager";
    return verdict;
  }
  switch (request->kind) {
    case tds::transaction_request::begin:
    case tds::transaction_request::commit:
    case tds::transaction_request::rollback:
    case tds::transaction_request::save: verdict.way = Verdict::Way::pass; return verdict;
    default: break;
  }
  verdict.message =
      "TG005 a distributed transaction can be committed after its session has ended, and its gate with it: it is refused in a fenced "
      "session";
  return verdict;
}

// --- what is done with it ---

void TdsSession::State::through_gate(const Verdict& verdict, Instant now) {
  // Where nothing has been declared that we know of, and no gate is there to be asked, nothing is checked.
  if (verdict.bulk_rows || claims_.may_go_without() || (claims_.is_silent() && !has_layer1_)) return forward(verdict, now);
  Claim claim = claims_.now();
  const bool kept = gate_ == Gate::held && resets_ == 0;
  // In a transaction that writes under the gate already its pair stands, unless the session has declared another.
  if (kept && in_transaction() && claims_.final_rule()) claim = Claim{pair_, {}, {}};
  if (!claim.code.empty()) return refuse(claim.code, claim.message, true, now);
  if (!has_layer1_) {
    return refuse("TG006",
                  "TG006 the gate of layer 1 cannot be called in database \"" + options_.database + "\" (" + no_layer1_ +
                      "): " + options_.install_hint,
                  true, now);
  }
  if (claim.pair.complete()) {
    const std::int64_t fence = host_.highest_fence(claim.pair.scope);
    if (fence > claim.pair.term) {
      return refuse("TG001",
                    "TG001 stale term " + std::to_string(claim.pair.term) + " for scope \"" + claim.pair.scope +
                        "\": the fence stands at " + std::to_string(fence),
                    true, now, fence);
    }
    if (const std::string untrusted = host_.untrusted(claim.pair.scope); !untrusted.empty()) return refuse("TG004", untrusted, true, now);
  }
  if (kept && (!claim.pair.complete() || claim.pair == pair_)) return forward(verdict, now);
  bulk_sent_ = verdict.bulk;
  reads_sent_ = verdict.only_reads;
  if (!kept) return send_enter(claim.pair, now);
  if (in_transaction()) {
    return refuse("TG005",
                  "TG005 this transaction writes under term " + std::to_string(pair_.term) + " of scope \"" + pair_.scope +
                      "\": its claim is fixed until it ends",
                  true, now);
  }
  wanted_ = claim.pair;
  send_leave(AfterLeave::enter, now);
}

void TdsSession::State::observe(const Verdict& verdict) {
  if (verdict.way != Verdict::Way::gate && verdict.way != Verdict::Way::refuse) return;
  conversation::Incident incident;
  incident.kind = conversation::Incident::Kind::would_refuse;
  incident.statement = verdict.statement;
  incident.from_memory = true;
  Claim claim = claims_.now();
  std::string message;
  if (verdict.way == Verdict::Way::refuse) {
    incident.code = verdict.code;
    incident.message = verdict.message;
  } else if (!claim.code.empty()) {
    incident.code = claim.code;
    incident.message = claim.message;
  } else if (claim.pair.complete()) {
    const std::int64_t fence = host_.highest_fence(claim.pair.scope);
    host_.saw_term(claim.pair.scope, claim.pair.term);
    if (fence <= claim.pair.term) return;
    message = "TG001 stale term " + std::to_string(claim.pair.term) + " for scope \"" + claim.pair.scope + "\": the fence stands at " +
              std::to_string(fence);
    incident.code = "TG001";
    incident.message = message;
    incident.scope = claim.pair.scope;
    incident.term = claim.pair.term;
    incident.fence = fence;
  } else {
    return;
  }
  happened(incident);
}

// The message goes to the server as it came, with the reset that it, or one before it, has asked for.
void TdsSession::State::forward(const Verdict& verdict, Instant now) {
  message_.raw[status_at] = static_cast<char>(static_cast<std::uint8_t>(message_.raw[status_at]) | resets_);
  if (resets_ != 0) read_handles_.clear();
  if ((resets_ & tds::status::reset) != 0) {
    gate_is(Gate::open);
    transaction_ = 0;
    server_inside_ = false;
  } else if (resets_ != 0) {
    gate_is(Gate::unsure);
  }
  resets_ = 0;
  server_out_.back().append(message_.raw);
  streaming_ = !message_.complete;
  judges_ = streaming_ && claims_.enforces();
  bulk_sent_ = verdict.bulk;
  message_ = {};
  stage_ = Stage::relaying;
  relayed_any_ = response_done_ = response_failed_ = false;
  bulk_expected_ = false;
  used_ = now;
  // What goes through the gate may have prepared a statement under a number that stood for a read.
  if (verdict.way != Verdict::Way::pass) read_handles_.clear();
  prepares_read_ = verdict.way == Verdict::Way::pass && verdict.prepares_read;
  if (verdict.way != Verdict::Way::pass && !verdict.only_reads) claims_.server_may_know();
}

void TdsSession::State::answer_locally(const Verdict& verdict) {
  claims_.set(*verdict.sets);
  std::string payload;
  if (message_.type == tds::packet::rpc) payload += std::string("\x79\0\0\0\0", 5);
  tds::append_done(payload, {done_token(), 0, 0, 0}, tds_version_);
  message_ = {};
  say_to_client(payload);
}

void TdsSession::State::refuse(std::string_view code, std::string_view message, bool from_memory, Instant, std::int64_t fence) {
  conversation::Incident incident;
  incident.kind = conversation::Incident::Kind::refused;
  incident.code = code;
  incident.message = message;
  incident.from_memory = from_memory;
  incident.fence = fence;
  incident.scope = pair_.scope;
  incident.term = pair_.term;
  const std::string statement = message_.type == tds::packet::sql_batch && message_.payload.size() > 22
                                    ? tds::utf8_of(part(message_.payload.substr(22), 400))
                                    : std::string();
  incident.statement = statement;
  happened(incident);
  refusal_ = std::move(carry_);
  carry_.clear();
  tds::append_report(refusal_, tds::token::error, number_of(code), refusal_severity, message, "termgate", tds_version_);
  tds::append_done(refusal_, {done_token(), tds::done_status::error, 0, 0}, tds_version_);
  stage_ = Stage::ready;
  const bool whole = message_.complete;
  message_.raw.clear();
  message_.payload.clear();
  if (!whole) {
    swallowing_ = true;
    return;
  }
  answer_refusal();
}

void TdsSession::State::answer_refusal() {
  const std::string payload = std::move(refusal_);
  refusal_.clear();
  message_ = {};
  say_to_client(payload);
  // Its transaction has outlived a reset that gave the gate away, and may not go on.
  if (gate_ == Gate::unsure || outlived_reset_ || resets_ == tds::status::reset_keep_transaction) {
    stage_ = Stage::closing;
    act(conversation::Action::Kind::close_server);
    act(conversation::Action::Kind::close_client);
  }
}

void TdsSession::State::answer_attention() {
  std::string payload;
  tds::append_done(payload, {tds::token::done, tds::done_status::attention, 0, 0}, tds_version_);
  say_to_client(payload);
}

void TdsSession::State::say_to_client(std::string_view payload) {
  tds::append_message(client_out_.back(), tds::packet::reply, payload, packet_size_);
}

}  // namespace termgate::tds_session
