// Messages for the scripts of session tests, made by pgwire's encoders, and streams of them told in
// words, so that a failure can be read. Also what a session's own messages look like: the texts of
// docs/decisions/0006 stand here a second time, on purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/reader.hpp>
#include <termgate/pgwire/startup.hpp>
#include <termgate/pgwire/types.hpp>

namespace termgate::test::wire {

using Values = std::vector<pgwire::Field>;

template <class Append>
std::string made(Append append) {
  std::string bytes;
  append(bytes);
  return bytes;
}

// --- a client's ---
inline std::string query(std::string_view sql) {
  return made([&](auto& out) { pgwire::append_query(out, sql); });
}
inline std::string parse(std::string_view name, std::string_view sql,
                         std::vector<std::uint32_t> types = {}) {
  return made([&](auto& out) { pgwire::append_parse(out, name, sql, types); });
}
inline std::string bind_message(std::string_view portal, std::string_view statement,
                                const Values& values = {}) {
  return made([&](auto& out) { pgwire::append_bind(out, portal, statement, values); });
}
inline std::string describe_statement(std::string_view name) {
  return made([&](auto& out) { pgwire::append_describe_statement(out, name); });
}
inline std::string describe_portal(std::string_view name) {
  return made([&](auto& out) { pgwire::append_describe_portal(out, name); });
}
inline std::string execute(std::string_view portal = "", std::uint32_t rows = 0) {
  return made([&](auto& out) { pgwire::append_execute(out, portal, rows); });
}
inline std::string close_statement(std::string_view name) {
  return made([&](auto& out) { pgwire::append_close_statement(out, name); });
}
inline std::string close_portal(std::string_view name) {
  return made([&](auto& out) { pgwire::append_close_portal(out, name); });
}
inline std::string bare(char type) {
  return made([&](auto& out) { pgwire::append_bare(out, type); });
}
inline std::string opaque(char type, std::string_view body) {
  return made([&](auto& out) { pgwire::append_opaque(out, type, body); });
}
inline std::string sync_message() { return bare('S'); }
inline std::string flush() { return bare('H'); }
inline std::string terminate() { return bare('X'); }
inline std::string copy_done() { return bare('c'); }
inline std::string password(std::string_view body) { return opaque('p', body); }
// FunctionCall without arguments.
inline std::string function_call(std::uint32_t oid) {
  std::string body;
  for (int shift = 24; shift >= 0; shift -= 8) body += static_cast<char>(oid >> shift & 0xff);
  return opaque('F', body + std::string(6, '\0'));
}
inline std::string startup(std::uint16_t minor,
                           std::vector<pgwire::StartupMessage::Parameter> parameters) {
  return made([&](auto& out) { pgwire::append_startup(out, minor, parameters); });
}

// --- a server's ---
inline std::string ready(char status) { return opaque('Z', std::string_view(&status, 1)); }
inline std::string complete(std::string_view tag) {
  return made([&](auto& out) { pgwire::append_command_complete(out, tag); });
}
inline std::string row(const Values& values) {
  return made([&](auto& out) { pgwire::append_data_row(out, values); });
}
inline std::string columns(std::initializer_list<std::string_view> names) {
  std::vector<pgwire::Column> all;
  for (const auto name : names) all.push_back({.name = name});
  return made([&](auto& out) { pgwire::append_row_description(out, all); });
}
inline std::string report(char type, std::string_view severity, std::string_view code,
                          std::string_view message,
                          std::initializer_list<std::pair<char, std::string_view>> more = {}) {
  pgwire::ReportFields fields = pgwire::report(severity, code, message);
  for (const auto& [letter, text] : more) fields.set(letter, text);
  return made([&](auto& out) {
    type == 'E' ? pgwire::append_error_response(out, fields)
                : pgwire::append_notice_response(out, fields);
  });
}
inline std::string error(std::string_view code, std::string_view message,
                         std::initializer_list<std::pair<char, std::string_view>> more = {}) {
  return report('E', "ERROR", code, message, more);
}
inline std::string fatal(std::string_view code, std::string_view message) {
  return report('E', "FATAL", code, message);
}
inline std::string notice(std::string_view message) {
  return report('N', "NOTICE", "00000", message);
}
inline std::string parse_complete() { return bare('1'); }
inline std::string bind_complete() { return bare('2'); }
inline std::string close_complete() { return bare('3'); }
inline std::string no_data() { return bare('n'); }
inline std::string parameters_none() { return opaque('t', std::string_view("\0\0", 2)); }
inline std::string empty_query() { return bare('I'); }
inline std::string copy_in() { return opaque('G', std::string_view("\0\0\0", 3)); }
inline std::string function_result() {
  return opaque('V', std::string_view("\xff\xff\xff\xff", 4));
}
inline std::string status(std::string_view name, std::string_view value) {
  return made([&](auto& out) { pgwire::append_parameter_status(out, name, value); });
}
inline std::string authentication(pgwire::Authentication::Type type,
                                  std::string_view payload = {}) {
  return made([&](auto& out) { pgwire::append_authentication(out, type, payload); });
}
inline std::string sasl(std::vector<std::string_view> mechanisms) {
  return made([&](auto& out) { pgwire::append_authentication_sasl(out, mechanisms); });
}
inline std::string key(std::uint32_t pid, std::string_view bytes) {
  return made([&](auto& out) { pgwire::append_backend_key_data(out, pid, bytes); });
}

// --- the session's own, and what a server answers to them ---
// Named behind what nobody else knows: the key that the client was given, and the server's PID.
inline std::string named(std::string_view stem, const std::string& key = "0123",
                         std::size_t pid = 4711) {
  std::string name(stem);
  std::size_t bits = std::hash<std::string>()(key) ^ pid << 32;
  for (int i = 0; i < 16; ++i, bits >>= 4) name += "0123456789abcdef"[bits & 15];
  return name;
}

// Where the transaction begins nothing is alive in the unnamed portal; in a block ours has a name,
// and is closed.
enum class In { beginning, block };
inline constexpr In block = In::block;

// Prepared anew each time, and closed again.
inline std::string ours(const std::string& name, std::string_view sql,
                        std::vector<std::uint32_t> types, const Values& values, In in) {
  const std::string_view portal = in == block ? "_termgate" : "";
  return parse(name, sql, types) + bind_message(portal, name, values) + execute(portal) +
         (in == block ? close_portal(portal) : std::string()) + close_statement(name);
}
inline std::string writable(In in = In::beginning) {
  return ours(named("_termgate_writable_"), "SET transaction_read_only TO off", {}, {}, in);
}
inline std::string locked(In in = In::beginning) {
  return ours(named("_termgate_locked_"), "SET transaction_read_only TO on", {}, {}, in);
}
// Before the client's first savepoint in a block that nothing has passed in, and the way back to it
// before the COMMIT.
inline std::string mark() {
  return ours(named("_termgate_mark_"), "SAVEPOINT _termgate_first", {}, {}, In::block);
}
inline std::string unmark() {
  return ours(named("_termgate_unmark_"), "RELEASE SAVEPOINT _termgate_first", {}, {}, In::block);
}
inline std::string check_claim(pgwire::Field scope, pgwire::Field term, In in,
                               pgwire::Field else_scope = {}, pgwire::Field else_term = {}) {
  return ours(named("_termgate_check_"), "SELECT \"termgate\".check_claim_text($1, $2, $3, $4)",
              {25, 20, 25, 20}, {scope, term, else_scope, else_term}, in);
}
// The first check of a transaction that was made writable: it becomes what the server's own default
// says.
inline std::string mode_of_session(In in) {
  return std::string(
             "pg_catalog.set_config('transaction_read_only', "
             "pg_catalog.set_config('default_transaction_read_only', NULL, true), true)") +
         (in == block ? ", pg_catalog.left(pg_catalog.set_config('default_transaction_read_only', "
                        "'on', true), 0)"
                      : "");
}
inline std::string check_opens(In in = In::beginning, pgwire::Field scope = {},
                               pgwire::Field term = {}, pgwire::Field else_scope = {},
                               pgwire::Field else_term = {}) {
  return ours(named("_termgate_check_own_"),
              "SELECT pg_catalog.concat(\"termgate\".check_claim_text($1, $2, $3, $4), "
              "pg_catalog.chr(10), " +
                  mode_of_session(in) + ")",
              {25, 20, 25, 20}, {scope, term, else_scope, else_term}, in);
}
// The same by itself.
inline std::string own_mode(In in = In::beginning) {
  return ours(named("_termgate_own_mode_"), "SELECT " + mode_of_session(in), {}, {}, in);
}
inline std::string check(std::string_view scope, std::string_view term, In in = In::beginning) {
  return check_claim(scope, term, in);
}
inline std::string check_declared(In in = In::beginning) { return check_claim({}, {}, in); }
// `lent`: outside of a block, where what code has made of the session's default can be seen.
inline std::string check_again(In in = In::block, bool lent = false) {
  const std::string now =
      lent ? ", pg_catalog.current_setting('default_transaction_read_only')" : "";
  return ours(named("_termgate_again_"), "SELECT *" + now + " FROM \"termgate\".check_again()", {},
              {}, in);
}
inline std::string hold(std::string_view required = "t") {
  return ours(named("_termgate_hold_"), "SELECT * FROM \"termgate\".hold_claim($1, $2, $3, $4, $5)",
              {25, 20, 25, 20, 16}, {{}, {}, {}, {}, required}, In::beginning);
}
inline std::string opening(In in = In::beginning) { return writable(in) + check_opens(in); }
// The session's default: put back, and taken away for what runs under the lock of the session.
// Whoever makes it writable may have deallocated ours.
inline std::string default_on(const std::string& name = named("_termgate_default_on_")) {
  return ours(name, "SET default_transaction_read_only TO on", {}, {}, In::beginning);
}
inline std::string put_back(const std::string& name = named("_termgate_default_on_")) {
  return default_on(name) + sync_message();
}
// Its own again, while what runs under that lock runs.
inline std::string default_back() {
  return ours(named("_termgate_default_back_"), "SET default_transaction_read_only TO DEFAULT", {},
              {}, In::beginning) +
         sync_message();
}
// What the session's default is: in front of a put_back() on a server that does not report it, and
// without ours in front of a SHOW.
inline std::string look(In in = In::beginning) {
  return ours(named("_termgate_look_"), "SHOW default_transaction_read_only", {}, {}, in);
}
inline std::string look_at_own() {
  return ours(named("_termgate_lend_"), "SET LOCAL default_transaction_read_only TO DEFAULT", {},
              {}, block) +
         look(block) +
         ours(named("_termgate_take_back_"), "SET LOCAL default_transaction_read_only TO on", {},
              {}, block);
}
// A raise by itself, in a transaction that is READ ONLY where the session is.
inline std::string raise_in_advance() {
  return writable() + own_mode() + check_declared() + sync_message();
}
inline std::string release(std::string_view scope) {
  return default_on() +
         ours(named("_termgate_release_"), "SELECT \"termgate\".release_session($1)", {25}, {scope},
              In::beginning) +
         sync_message();
}

inline std::string portal_closed(In in) {
  return (in == block ? close_complete() : std::string()) + close_complete();
}
inline std::string set_done(In in = In::beginning) {
  return parse_complete() + bind_complete() + complete("SET") + portal_closed(in);
}
inline std::string own_mode_done(In in = In::beginning) {
  return parse_complete() + bind_complete() + (in == block ? row({"off", ""}) : row({"off"})) +
         complete("SELECT 1") + portal_closed(in);
}
inline std::string mark_done() {
  return parse_complete() + bind_complete() + complete("SAVEPOINT") + portal_closed(block);
}
inline std::string unmark_done() {
  return parse_complete() + bind_complete() + complete("RELEASE") + portal_closed(block);
}
inline std::string claim_text(std::string_view scope, std::string_view term,
                              std::string_view fence) {
  return std::string(term) + " " + std::string(fence) + " " + std::string(scope);
}
inline std::string check_done(std::string_view fence = "5", In in = In::beginning,
                              std::string_view scope = "orders", std::string_view term = "5") {
  return parse_complete() + bind_complete() + row({claim_text(scope, term, fence)}) +
         complete("SELECT 1") + portal_closed(in);
}
inline std::string check_declared_done(std::string_view scope, std::string_view term,
                                       std::string_view fence, In in = In::beginning) {
  return parse_complete() + bind_complete() + row({scope, term, fence}) + complete("SELECT 1") +
         portal_closed(in);
}
inline std::string opening_done(In in = In::beginning) {
  return set_done(in) + check_done("5", in);
}

inline std::string look_done(std::string_view value, In in = In::beginning) {
  return parse_complete() + bind_complete() + row({value}) + complete("SHOW") + portal_closed(in);
}
inline std::string raise_in_advance_done() {
  return set_done() + own_mode_done() + check_done("5") + ready('I');
}

// Where an earlier pipeline may have left one of the name, a Close of it stands in front.
inline std::string left(std::string_view stem, const std::string& ours) {
  return close_statement(named(stem)) + ours;
}
inline std::string writable_left(In in = In::beginning) {
  return left("_termgate_writable_", writable(in));
}
inline std::string check_opens_left(In in = In::beginning) {
  return left("_termgate_check_own_", check_opens(in));
}
inline std::string check_left(const std::string& ours) { return left("_termgate_check_", ours); }
inline std::string opening_left() { return writable_left() + check_opens_left(); }
inline std::string left_done(const std::string& answer) { return close_complete() + answer; }
inline std::string opening_left_done() { return left_done(set_done()) + left_done(check_done()); }
inline std::string check_failed(
    std::string_view code = "TG001",
    std::string_view message = "TG001 stale term 5 for scope \"orders\": the fence stands at 6") {
  return parse_complete() + bind_complete() + error(code, message);
}
// The opening's check fails: whatever stands behind it up to the Sync is skipped.
inline std::string opening_failed(std::string_view code, std::string_view message,
                                  In in = In::beginning) {
  return set_done(in) + check_failed(code, message);
}
inline std::string put_back_done() { return set_done() + ready('I'); }
inline std::string raise_in_advance_failed(std::string_view code, std::string_view message) {
  return set_done() + own_mode_done() + check_failed(code, message) + ready('I');
}
// Behind a failed raise in advance the check of that name is left, and the one that opens is of
// another.
inline std::string opening_behind() { return writable_left() + check_opens(); }
inline std::string opening_behind_done() { return left_done(set_done()) + check_done("5"); }
inline std::string opening_behind_failed(std::string_view code, std::string_view message) {
  return left_done(set_done()) + check_failed(code, message);
}
inline std::string release_done() {
  return set_done() + parse_complete() + bind_complete() + row({"t"}) + complete("SELECT 1") +
         close_complete() + ready('I');
}

// Behind the server's first ReadyForQuery, before the client hears of it: READ ONLY once more, and
// whether it is the server that answers.
inline std::string who_asked(std::string_view guard = {}) {
  return query(
      std::string(
          "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('termgate.scope', true), "
          "pg_catalog.current_setting('termgate.term', true), EXISTS (SELECT FROM "
          "pg_catalog.pg_rewrite r WHERE r.ev_type OPERATOR(pg_catalog.<>) '1' AND r.ev_class "
          "OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid), "
          "pg_catalog.current_setting('search_path', true), pg_catalog.pg_is_in_recovery(), "
          "pg_catalog.current_setting('default_transaction_read_only'), "
          "pg_catalog.set_config('default_transaction_read_only', NULL, true)") +
      std::string(guard));
}
inline constexpr std::string_view may_check =
    ", (SELECT pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND "
    "pg_catalog.has_function_privilege(p.oid, 'EXECUTE') FROM pg_catalog.pg_proc p JOIN "
    "pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace WHERE p.proname "
    "OPERATOR(pg_catalog.=) 'check_claim_text' AND n.nspname OPERATOR(pg_catalog.=) 'termgate' "
    "LIMIT 1)";
inline std::string who_serves(const std::string& name = named("_termgate_default_on_")) {
  return who_asked() + put_back(name);
}
inline std::string who_answered(std::string_view pid = "4711", pgwire::Field scope = {},
                                pgwire::Field term = {}, std::string_view rules = "f",
                                pgwire::Field guard = {}) {
  return columns({"pg_backend_pid", "current_setting", "current_setting", "exists",
                  "current_setting", "pg_is_in_recovery", "current_setting", "set_config",
                  "setting"}) +
         row({pid, scope, term, rules, "\"$user\", public", "f", "off", "off", guard}) +
         complete("SELECT 1") + ready('I');
}
inline std::string who_serves_done(std::string_view pid = "4711", pgwire::Field scope = {},
                                   pgwire::Field term = {}, std::string_view rules = "f",
                                   pgwire::Field guard = {}) {
  return who_answered(pid, scope, term, rules, guard) + put_back_done();
}

// A statement without parameters by the unnamed names.
inline std::string once(std::string_view sql) {
  return parse("", sql) + bind_message("", "") + execute();
}
// One simple statement as it is sent behind an opening, and what comes back for it.
inline std::string converted(std::string_view sql) {
  return parse("", sql) + bind_message("", "") + describe_portal("") + execute() +
         close_statement("") + sync_message();
}
inline std::string converted_done(std::string_view tag, char state = 'I') {
  return parse_complete() + bind_complete() + no_data() + complete(tag) + close_complete() +
         ready(state);
}

// --- in words ---
inline std::string escaped(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes.substr(0, 300)) {
    if (byte >= ' ' && byte < 127 && byte != '\\') {
      text += byte;
    } else {
      constexpr std::string_view digits = "0123456789abcdef";
      text += "\\x";
      text += digits[static_cast<unsigned char>(byte) >> 4];
      text += digits[static_cast<unsigned char>(byte) & 15];
    }
  }
  return bytes.size() > 300 ? text + "… " + std::to_string(bytes.size()) + " bytes" : text;
}

// A line a message. What is no message (a start-up packet, one byte of an answer, half a frame) is
// told as bytes.
inline std::string told(std::string_view stream) {
  std::string text;
  while (!stream.empty()) {
    std::size_t size = 0;
    if (stream.size() >= 5 && stream.front() != '\0') {
      for (std::size_t i = 1; i < 5; ++i) size = size << 8 | static_cast<unsigned char>(stream[i]);
      ++size;
    }
    text += "    ";
    if (size < 5 || size > stream.size()) return text + "bytes " + escaped(stream) + "\n";
    const std::string_view body = stream.substr(5, size - 5);
    text += stream.front();
    const auto fields = stream.front() == 'E' || stream.front() == 'N'
                            ? pgwire::decode_report(body)
                            : pgwire::Decoded<pgwire::ReportFields>(pgwire::Malformed());
    if (fields && !fields->sqlstate().empty()) {
      for (const char letter : std::string_view("SCMDHP")) {
        if (!(*fields)[letter].empty())
          text += std::string(" ") + letter + "=" + std::string((*fields)[letter]);
      }
    } else if (!body.empty()) {
      text += " " + escaped(body);
    }
    text += '\n';
    stream.remove_prefix(size);
  }
  return text.empty() ? "    nothing\n" : text;
}

}  // namespace termgate::test::wire
