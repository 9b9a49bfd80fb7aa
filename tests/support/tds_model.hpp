// A model of SQL Server with layer 1, as far as a proxy of TDS can tell it from the real one: one
// session, its transaction, its gate, one fence. Bytes in, bytes out. It is the oracle of
// unit_tds_session and fuzz_tds_session: a write that runs without the gate held under the current
// fence is counted.
//
// A batch is judged by the words in it: `write` writes, `begin`, `commit` and `rollback` are
// transactions that are announced, `quietly` makes them unannounced (as Babelfish does), `noexec`
// stops executing RPCs until `exec`, `fail` is an error, `rows` a result, `declare` (in an RPC as
// well) sets SESSION_CONTEXT to the model's `declares` pair, `insert bulk` announces rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/tds/login.hpp>
#include <termgate/tds/packet.hpp>
#include <termgate/tds/request.hpp>
#include <termgate/tds/text.hpp>
#include <termgate/tds/token.hpp>
#include <termgate/tds/types.hpp>

namespace termgate::test {

class TdsModel {
 public:
  // --- what it is ---
  std::uint32_t tds_version = tds::version::v7_4;
  std::uint32_t acks = 0;  // the version that the login's answer names; 0: the same
  std::int64_t fence = 5, grace_ms = 1000;
  std::string scope = "s";
  std::pair<std::string, std::int64_t> declared{"", 0}, declares{"", 0};
  bool silence_allowed = false;  // who has declared nothing writes as it likes
  bool has_layer1 = true, refuses_login = false, wants_sspi = false, routes = false,
       writers_raise = true;

  // --- what became of it ---
  std::vector<std::string> ran;  // batches, RPCs (by name), "tm N", "rows", in order
  int writes = 0, unfenced = 0;
  int enters = 0, leaves = 0;
  bool gate = false;
  std::int64_t gate_term = 0;
  std::uint64_t transaction = 0;
  bool bulk_announced = false;
  std::int64_t gives_back = 0;  // in front of a handle: a value of the statement's own; 0: none
  std::int64_t next_handle =
      0;  // of prepared statements; 0: none is given. Only reads are prepared then
  std::string login_application, login_server;
  std::uint32_t login_version = 0;

  std::string out;  // for the proxy

  void feed(std::string_view bytes) {
    while (true) {
      const tds::PacketEvent event = reader_.next(bytes);
      bytes.remove_prefix(event.used);
      if (event.kind == tds::PacketEvent::Kind::need_more) return;
      if (event.kind == tds::PacketEvent::Kind::malformed) {
        malformed = event.problem.reason();
        return;
      }
      if (event.kind == tds::PacketEvent::Kind::header && event.first) {
        type_ = event.header.type;
        first_status_ = event.header.status;
        payload_.clear();
      }
      if (event.kind == tds::PacketEvent::Kind::payload) payload_ += event.raw;
      if (event.ends_message) message((event.header.status & tds::status::ignore) != 0);
    }
  }
  std::string malformed;

  // Another session raises: not past a held gate, whose session is ended. False: it was.
  bool raise(std::int64_t term) {
    const bool evicts = gate;
    fence = std::max(fence, term);
    if (evicts) gate = false;
    return !evicts;
  }

 private:
  void say(std::string_view payload) { tds::append_message(out, tds::packet::reply, payload, 512); }
  void done(std::string& payload, std::uint16_t status, bool procedure = false) const {
    tds::append_done(payload,
                     {procedure ? tds::token::done_procedure : tds::token::done, status, 0, 0},
                     tds_version);
  }
  static std::string descriptor_bytes(std::uint64_t value) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> 8 * i & 0xFF);
    return bytes;
  }

  // A request that cannot be read: it is its client's, for our own are written by CallWriter.
  void complain(std::string payload) {
    tds::append_report(payload, tds::token::error, 8009, 16, "The incoming TDS stream is incorrect",
                       "model", tds_version);
    done(payload, tds::done_status::error);
    say(payload);
  }
  void begin(std::string& payload, bool announced) {
    transaction = ++last_transaction_;
    if (announced)
      tds::append_environment_change(payload, tds::environment::begin_transaction,
                                     descriptor_bytes(transaction), "");
  }
  void finish(std::string& payload, bool commit, bool announced) {
    if (transaction == 0) return;
    if (announced) {
      tds::append_environment_change(
          payload,
          commit ? tds::environment::commit_transaction : tds::environment::rollback_transaction,
          "", descriptor_bytes(transaction));
    }
    transaction = 0;
  }
  void write() {
    ++writes;
    if (silence_allowed && (declared.second == 0 || !has_layer1) && !gate) return;
    if (!gate || gate_term != fence) ++unfenced;
  }

  void message(bool given_up) {
    std::string payload;
    if (given_up) {
      done(payload, tds::done_status::error);
      return say(payload);
    }
    if ((first_status_ & tds::status::any_reset) != 0) {
      gate = false;
      key_.clear();
      executes_ = true;
      if ((first_status_ & tds::status::reset) != 0) transaction = 0;
      payload += std::string("\xE3\3\0\x12\0\0", 6);
    }
    switch (type_) {
      case tds::packet::prelogin: return prelogin();
      case tds::packet::login7: return login();
      case tds::packet::sspi: return logged_in();
      case tds::packet::attention: done(payload, tds::done_status::attention); return say(payload);
      case tds::packet::bulk:
        ran.emplace_back("rows");
        if (!bulk_announced) ++unfenced;
        bulk_announced = false;
        write();
        done(payload, tds::done_status::count);
        return say(payload);
      default: break;
    }
    const auto headers = tds::decode_headers(payload_, tds_version);
    if (!headers) return complain(payload);
    const std::string body = payload_.substr(headers->bytes);
    if (type_ == tds::packet::sql_batch) return batch(tds::utf8_of(body), payload);
    if (type_ == tds::packet::transaction) return manage(body, payload);
    call(body, payload);
  }

  void prelogin() {
    tds::Prelogin answer;
    answer.version = std::string_view("\x10\0\0\0\0\0", 6);
    answer.encryption = tds::Encryption::not_supported;
    answer.mars = 0;
    std::string payload;
    tds::append_prelogin(payload, answer);
    say(payload);
  }
  void login() {
    if (const auto login = tds::decode_login7(payload_))
      login_application = tds::utf8_of(login->application),
      login_server = tds::utf8_of(login->server), login_version = login->tds_version;
    std::string payload;
    if (wants_sspi) {
      wants_sspi = false;
      payload += std::string("\xED\2\0ok", 5);
      return say(payload);
    }
    logged_in();
  }
  void logged_in() {
    std::string payload;
    if (refuses_login) {
      tds::append_report(payload, tds::token::error, 18456, 14, "Login failed", "model",
                         tds_version);
      done(payload, tds::done_status::error);
      return say(payload);
    }
    if (routes) { payload += std::string("\xE3\x0C\0\x14\7\0\0\x99\5\1\0x\0\0\0", 15); }
    std::string ack("\x01", 1);
    for (int i = 3; i >= 0; --i)
      ack += static_cast<char>((acks != 0 ? acks : tds_version) >> 8 * i & 0xFF);
    ack += std::string("\1M\0\x10\0\0\0", 7);
    payload += '\xAD';
    payload += static_cast<char>(ack.size());
    payload += '\0';
    payload += ack;
    done(payload, 0);
    say(payload);
  }

  // A text that runs it; one may have blanks in front.
  static bool resets(const std::string& text) {
    const std::string_view from =
        std::string_view(text).substr(std::min(text.find_first_not_of(' '), text.size()));
    return from.starts_with("EXEC sp_reset_connection") ||
           from.starts_with("EXEC (N'EXEC sp_reset_connection");
  }
  static bool has(const std::string& text, std::string_view word) {
    return text.find(word) != std::string::npos;
  }

  void batch(const std::string& text, std::string payload) {
    ran.push_back(text);
    const bool announced = !has(text, "quietly");
    if (has(text, "noexec")) executes_ = false;
    else if (has(text, "exec")) executes_ = true;
    if (has(text, "begin")) begin(payload, announced);
    if (has(text, "write")) write();
    if (has(text, "insert bulk")) bulk_announced = true;
    if (has(text, "a hidden reset")) {
      gate = false;
      payload += std::string("\xE3\3\0\x12\0\0", 6);
    }
    if (has(text, "declare")) declared = declares;
    if (resets(text)) gate = false;
    if (has(text, "rows"))
      payload += std::string("\x81\1\0\0\0\0\0\x09\0\x26\4\1c\0\xD1\4\1\0\0\0", 20);
    if (has(text, "commit")) finish(payload, true, announced);
    if (has(text, "rollback")) finish(payload, false, announced);
    if (has(text, "fail"))
      tds::append_report(payload, tds::token::error, 8134, 16, "Divide by zero", "model",
                         tds_version);
    done(payload, has(text, "fail") ? tds::done_status::error : tds::done_status::count);
    say(payload);
  }

  void manage(const std::string& body, std::string payload) {
    const auto request = tds::decode_transaction_request(body);
    if (!request) return complain(payload);
    ran.push_back("tm " + std::to_string(request->kind));
    if (request->kind == tds::transaction_request::begin) begin(payload, true);
    if (request->kind == tds::transaction_request::commit ||
        (request->kind == tds::transaction_request::rollback && request->name.empty())) {
      finish(payload, request->kind == tds::transaction_request::commit, true);
      if (request->begins_next) begin(payload, true);
    }
    done(payload, 0);
    say(payload);
  }

  // --- the gate ---
  struct Given {
    std::map<std::string, std::string> texts;
    std::map<std::string, std::int64_t> numbers;
  };
  static Given given_to(const tds::Call& call) {
    Given given;
    for (const auto& one : call.parameters) {
      if (one.null) continue;
      tds::ReturnValue value;
      value.type = one.type.type;
      value.null = false;
      value.data = one.data;
      const std::string name = tds::utf8_of(one.name);
      if (const auto number = value.integer()) given.numbers[name] = *number;
      else
        given.texts[name] =
            one.type.type == tds::type::nvarchar ? tds::utf8_of(one.data) : std::string(one.data);
    }
    return given;
  }
  // Status, user type and flags of a returned value.
  std::string flags() const { return "\1" + std::string(tds::is_7_2(tds_version) ? 6 : 4, '\0'); }
  void integer_out(std::string& payload, std::string_view name, std::int64_t value,
                   char ordinal = 0) const {
    payload += std::string("\xAC", 1) + ordinal + std::string(1, '\0');
    const std::string wide = tds::utf16_of(name);
    payload += static_cast<char>(wide.size() / 2);
    payload += wide + flags() + std::string("\x26\x08\x08", 3) +
               descriptor_bytes(static_cast<std::uint64_t>(value));
  }
  void text_out(std::string& payload, std::string_view name, std::string_view value) const {
    payload += std::string("\xAC\0\0", 3);
    const std::string wide = tds::utf16_of(name), data = tds::utf16_of(value);
    payload += static_cast<char>(wide.size() / 2);
    payload += wide + flags() + std::string("\xE7\x40\x1F\x09\x04\xD0\x00\x34", 8);
    payload += static_cast<char>(data.size() & 0xFF);
    payload += static_cast<char>(data.size() >> 8);
    payload += data;
  }

  void call(const std::string& body, std::string payload) {
    const tds::Calls calls = tds::decode_rpc(body, tds_version);
    if (calls.all.empty()) return complain(payload);
    const tds::Call& one = calls.all[0];
    const std::string name = tds::utf8_of(one.name);
    const bool of_gate = has(name, "[gate_");
    if (!of_gate) {
      ran.push_back(one.id != 0 ? "rpc " + std::to_string(one.id) : name);
      if (name == "sp_reset_connection") gate = false;
      std::string texts;
      for (const tds::Parameter& parameter : one.parameters) texts += tds::utf8_of(parameter.data);
      const bool reads = has(texts, "SELECT") && !has(texts, "UPDATE");
      if (reads || (one.id == tds::procedure::execute && given_handles_)) {
      } else if (one.id == tds::procedure::execute_sql || one.id == tds::procedure::execute ||
                 one.id == tds::procedure::prepare_execute)
        write();
      if (has(name + texts, "declare")) declared = declares;
      if (resets(texts)) gate = false;
      payload += std::string("\x79\0\0\0\0", 5);
      if (next_handle > 0 &&
          (one.id == tds::procedure::prepare || one.id == tds::procedure::prepare_execute)) {
        if (gives_back != 0) integer_out(payload, "@p0", gives_back, 1);
        integer_out(payload, "@handle", next_handle++);
        given_handles_ = true;
      }
      done(payload, 0, true);
      return say(payload);
    }
    if (!has_layer1) {
      tds::append_report(payload, tds::token::error, 2812, 16, "Could not find stored procedure",
                         "model", tds_version);
      done(payload, tds::done_status::error, true);
      return say(payload);
    }
    const Given given = given_to(one);
    payload += std::string("\x79\0\0\0\0", 5);
    if (executes_) {
      if (has(name, "gate_hello")) {
        integer_out(payload, "@declared", declared.second != 0 ? 1 : 0);
        integer_out(payload, "@grace_ms", grace_ms);
      }
      if (has(name, "gate_enter")) enter(given, payload);
      if (has(name, "gate_leave")) leave(given, payload);
      integer_out(payload, "@trancount", transaction != 0 ? 1 : 0);
      integer_out(payload, "@proof", -given.numbers.at("@proof") - 1);
    }
    done(payload, 0, true);
    say(payload);
  }
  void enter(const Given& given, std::string& payload) {
    ++enters;
    std::string of = given.texts.contains("@scope") ? given.texts.at("@scope") : declared.first;
    const std::int64_t term =
        given.numbers.contains("@term") ? given.numbers.at("@term") : declared.second;
    std::int64_t code = 0, must_raise = 0;
    if (of.empty()) code = 50002;
    else if (gate && key_ != given.texts.at("@secret")) code = 50005;
    else if (term < fence) code = 50001;
    else if (term > fence) {
      code = 50005;
      must_raise = writers_raise ? 1 : 0;
    }
    if (code == 0) {
      gate = true;
      gate_term = term;
      key_ = given.texts.at("@secret");
    } else {
      text_out(payload, "@message",
               "TG00" + std::to_string(code - 50000) + " refused by the model");
    }
    text_out(payload, "@scope", of);
    integer_out(payload, "@term", term);
    integer_out(payload, "@code", code);
    integer_out(payload, "@fence", fence);
    integer_out(payload, "@raise", must_raise);
  }
  void leave(const Given& given, std::string& payload) {
    ++leaves;
    std::int64_t code = transaction != 0 ? 1 : 0;
    if (code == 0 && gate && key_ != given.texts.at("@secret")) code = 50005;
    if (code == 0) gate = false;
    integer_out(payload, "@code", code);
  }

  tds::PacketReader reader_{tds::Direction::from_client};
  std::uint8_t type_ = 0, first_status_ = 0;
  std::string payload_, key_;
  bool executes_ = true, given_handles_ = false;
  std::uint64_t last_transaction_ = 100;
};

}  // namespace termgate::test
