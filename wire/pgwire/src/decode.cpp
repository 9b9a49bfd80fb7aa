// Decodes bodies of messages into structs. encode.cpp draws the layouts. Pure: no state, any
// thread. Returned views point into the body. A body must contain its fields and nothing after
// them: a message that PostgreSQL and the proxy read differently could get something past the
// check.
#include <termgate/pgwire/decode.hpp>

#include <termgate/pgwire/startup.hpp>

#include "bytes.hpp"

namespace termgate::pgwire {
namespace {

Malformed cut_short(const char* message) noexcept {
  return malformed("invalid message format: %s ends too early", message);
}
Malformed too_long(const char* message) noexcept {
  return malformed("invalid message format: %s goes on after its end", message);
}

// The problem of a body that has been read, but not to its end.
Malformed not_done(const Cursor& cursor, const char* message) noexcept {
  return cursor.good() ? too_long(message) : cut_short(message);
}

Decoded<Named> decode_named(std::string_view body, const char* message) noexcept {
  Cursor cursor(body);
  const char what = cursor.byte();
  const std::string_view name = cursor.text();
  if (!cursor.done()) return not_done(cursor, message);
  if (what != 'S' && what != 'P')
    return malformed("invalid %s message subtype 0x%02x", message,
                     static_cast<unsigned char>(what));
  return Named{what == 'P', name};
}

std::size_t place_of(char letter) noexcept {
  return letter == '\0' ? std::string_view::npos : ReportFields::letters.find(letter);
}

}  // namespace

Decoded<Query> decode_query(std::string_view body) noexcept {
  Cursor cursor(body);
  const std::string_view sql = cursor.text();
  if (!cursor.done()) return not_done(cursor, "Query");
  return Query{sql};
}

Decoded<Parse> decode_parse(std::string_view body) noexcept {
  Cursor cursor(body);
  Parse parse;
  parse.statement = cursor.text();
  parse.sql = cursor.text();
  parse.parameter_types = cursor.u16();
  cursor.bytes(std::size_t{4} * parse.parameter_types);
  if (!cursor.done()) return not_done(cursor, "Parse");
  return parse;
}

std::vector<std::uint32_t> decode_parse_types(std::string_view body) {
  Cursor cursor(body);
  cursor.text();
  cursor.text();
  std::vector<std::uint32_t> types(cursor.u16());
  for (std::uint32_t& type : types) type = cursor.u32();
  return types;
}

Decoded<Bind> decode_bind(std::string_view body) noexcept {
  Cursor cursor(body);
  Bind bind;
  bind.portal = cursor.text();
  bind.statement = cursor.text();
  bind.parameter_formats = cursor.u16();
  cursor.bytes(std::size_t{2} * bind.parameter_formats);
  bind.parameters = cursor.u16();
  // Skips the values, whatever their size, because nothing here needs them.
  for (unsigned i = 0; i < bind.parameters && cursor.good(); ++i) {
    const std::uint32_t length = cursor.u32();
    if (length == 0xffffffff) continue;  // NULL
    cursor.bytes(length);
  }
  bind.result_formats = cursor.u16();
  cursor.bytes(std::size_t{2} * bind.result_formats);
  if (!cursor.done()) return not_done(cursor, "Bind");
  if (bind.parameter_formats > 1 && bind.parameter_formats != bind.parameters) {
    return malformed("bind message has %u parameter formats but %u parameters",
                     bind.parameter_formats, bind.parameters);
  }
  return bind;
}

Decoded<BindNames> decode_bind_names(std::string_view head) noexcept {
  Cursor cursor(head);
  BindNames names;
  names.portal = cursor.text();
  names.statement = cursor.text();
  if (!cursor.good())
    return malformed("bind message whose names do not end within its first %zu bytes", head.size());
  return names;
}

Decoded<Named> decode_describe(std::string_view body) noexcept {
  return decode_named(body, "Describe");
}
Decoded<Named> decode_close(std::string_view body) noexcept { return decode_named(body, "Close"); }

Decoded<Execute> decode_execute(std::string_view body) noexcept {
  Cursor cursor(body);
  Execute execute;
  execute.portal = cursor.text();
  execute.rows_max = cursor.u32();
  if (!cursor.done()) return not_done(cursor, "Execute");
  return execute;
}

Decoded<FunctionCallHead> decode_function_call_head(std::string_view head) noexcept {
  Cursor cursor(head);
  const FunctionCallHead call{cursor.u32()};
  if (!cursor.good()) return cut_short("FunctionCall");
  return call;
}

std::string_view ReportFields::operator[](char letter) const noexcept {
  const std::size_t place = place_of(letter);
  return place == std::string_view::npos ? std::string_view() : fields_[place];
}

void ReportFields::set(char letter, std::string_view text) noexcept {
  const std::size_t place = place_of(letter);
  if (place != std::string_view::npos) fields_[place] = text;
}

bool ReportFields::ends_connection() const noexcept {
  // V is never translated, and is sent from 9.6 on; S may be in any language.
  const std::string_view severity = (*this)['V'].empty() ? (*this)['S'] : (*this)['V'];
  return severity == "FATAL" || severity == "PANIC";
}

Decoded<ReportFields> decode_report(std::string_view body) noexcept {
  Cursor cursor(body);
  ReportFields fields;
  for (;;) {
    const char letter = cursor.byte();
    if (letter == '\0') break;
    fields.set(letter, cursor.text());
    if (!cursor.good()) break;
  }
  if (!cursor.done()) return not_done(cursor, "ErrorResponse or NoticeResponse");
  return fields;
}

Decoded<TransactionStatus> decode_ready_for_query(std::string_view body) noexcept {
  Cursor cursor(body);
  const char status = cursor.byte();
  if (!cursor.done()) return not_done(cursor, "ReadyForQuery");
  if (status != 'I' && status != 'T' && status != 'E')
    return malformed("unknown transaction status 0x%02x", static_cast<unsigned char>(status));
  return static_cast<TransactionStatus>(status);
}

Decoded<ParameterStatus> decode_parameter_status(std::string_view body) noexcept {
  Cursor cursor(body);
  ParameterStatus status;
  status.name = cursor.text();
  status.value = cursor.text();
  if (!cursor.done()) return not_done(cursor, "ParameterStatus");
  return status;
}

Decoded<BackendKeyData> decode_backend_key_data(std::string_view body) noexcept {
  Cursor cursor(body);
  BackendKeyData data;
  data.pid = cursor.u32();
  // Four bytes in protocol 3.0; from 3.2 on the server chooses the length.
  data.key = cursor.rest();
  if (!cursor.good() || data.key.size() < cancel_key_bytes_min) return cut_short("BackendKeyData");
  if (data.key.size() > cancel_key_bytes_max) return too_long("BackendKeyData");
  return data;
}

bool Authentication::offers(std::string_view mechanism) const noexcept {
  if (type != Type::sasl || mechanism.empty()) return false;
  Cursor cursor(payload);
  for (std::string_view name = cursor.text(); cursor.good() && !name.empty();
       name = cursor.text()) {
    if (name == mechanism) return true;
  }
  return false;
}

Decoded<Authentication> decode_authentication(std::string_view body) noexcept {
  Cursor cursor(body);
  const std::uint32_t type = cursor.u32();
  if (!cursor.good()) return cut_short("Authentication");
  const std::string_view payload = cursor.rest();
  Authentication authentication{static_cast<Authentication::Type>(type), payload};
  switch (authentication.type) {
    case Authentication::Type::ok:
    case Authentication::Type::kerberos_v5:
    case Authentication::Type::cleartext_password:
    case Authentication::Type::gss:
    case Authentication::Type::sspi:
      if (!payload.empty()) return too_long("Authentication");
      return authentication;
    case Authentication::Type::md5_password:
      if (payload.size() != 4)
        return malformed("md5 authentication with %zu bytes of salt: 4 are needed", payload.size());
      return authentication;
    case Authentication::Type::sasl: {
      // Names, each with a NUL at its end, and a NUL after the last: at least one name.
      Cursor names(payload);
      unsigned count = 0;
      for (std::string_view name = names.text(); names.good() && !name.empty(); name = names.text())
        ++count;
      if (!names.done() || count == 0)
        return malformed("SASL authentication whose list of mechanisms is empty or does not end");
      return authentication;
    }
    case Authentication::Type::gss_continue:
    case Authentication::Type::sasl_continue:
    case Authentication::Type::sasl_final: return authentication;
  }
  return malformed("authentication of the unknown type %lu", static_cast<unsigned long>(type));
}

}  // namespace termgate::pgwire
