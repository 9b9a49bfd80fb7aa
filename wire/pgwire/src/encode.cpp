// What follows type and length (drawn in reader.cpp), after PostgreSQL documentation, "Message
// Formats" (protocol-message-formats.html) and "Error and Notice Message Fields"
// (protocol-error-fields.html). text: bytes, then a NUL; field: int32 length, then the bytes, or -1
// for NULL; integers big-endian; [n]x: an int16 count n, then n times x.
//
//   from a client                                          from a server
//   Q Query     text sql                                   E Error, N Notice  (letter, text)* NUL
//   P Parse     text statement, text sql, [n]int32 oid     Z ReadyForQuery    byte I, T or E
//   B Bind      text portal, text statement,               S ParameterStatus  text name, text value
//               [n]int16 format, [n]field, [n]int16 format K BackendKeyData   int32 pid, 4 … 256 bytes key
//   D Describe  byte S or P, text name                     R Authentication   int32 type, by type:
//   C Close     byte S or P, text name                                        5: 4 bytes salt; 10: text* NUL; 8, 11, 12: bytes
//   E Execute   text portal, int32 rows                    v Negotiate…       int32 version, int32 n, n times text
//   F Function… int32 oid, [n]int16, [n]field, int16       C CommandComplete  text tag
//   d CopyData  bytes                                      A Notification     int32 pid, text channel, text payload
//   f CopyFail  text message                               T RowDescription   [n](text name, int32 table, int16 attribute,
//   p Password… bytes                                                         int32 type, int16 size, int32 modifier, int16 format)
//   S Sync, H Flush, X Terminate, c CopyDone: nothing      D DataRow          [n]field
//                                                          t ParameterDesc…   [n]int32 oid
//                                                          G, H, W Copy…      byte 0 text or 1 binary, [n]int16 format
//                                                          d CopyData         bytes
//                                                          1 2 3 I n s c: nothing
#include <termgate/pgwire/encode.hpp>

#include <cstddef>
#include <stdexcept>

#include <termgate/pgwire/types.hpp>

#include "bytes.hpp"

namespace termgate::pgwire {
namespace {

// One message under construction. Unless `end` was reached, what was appended of it is taken back.
class Frame {
 public:
  Frame(std::string& out, char type) : out_(out), begin_(out.size()) {
    out_ += type;
    out_.append(4, '\0');
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() {
    if (!ended_) out_.resize(begin_);
  }

  void byte(char value) { out_ += value; }
  void u16(std::uint16_t value) { append_u16(out_, value); }
  void u32(std::uint32_t value) { append_u32(out_, value); }
  void bytes(std::string_view value) { out_ += value; }
  void text(std::string_view value) { (out_ += value.substr(0, value.find('\0'))) += '\0'; }
  void count(std::size_t value) {
    if (value > 0xffff) throw std::length_error("more than 65535 entries in one message");
    u16(static_cast<std::uint16_t>(value));
  }
  void field(const Field& value) {
    if (!value) return u32(0xffffffff);
    if (value->size() > length_max) throw std::length_error("a value of more than 2 GB");
    u32(static_cast<std::uint32_t>(value->size()));
    bytes(*value);
  }
  void end() {
    const std::size_t length = out_.size() - begin_ - 1;
    if (length > length_max) throw std::length_error("a message of more than 2 GB");
    for (unsigned i = 0; i < 4; ++i)
      out_[begin_ + 1 + i] = static_cast<char>(length >> (24 - 8 * i) & 0xff);
    ended_ = true;
  }

 private:
  static constexpr std::size_t length_max = 0x7fffffff;

  std::string& out_;
  std::size_t begin_;
  bool ended_ = false;
};

void append_report(std::string& out, char type, const ReportFields& fields) {
  Frame frame(out, type);
  for (const char letter : ReportFields::letters) {
    if (fields[letter].empty()) continue;
    frame.byte(letter);
    frame.text(fields[letter]);
  }
  frame.byte('\0');
  frame.end();
}

void append_text(std::string& out, char type, std::string_view text) {
  Frame frame(out, type);
  frame.text(text);
  frame.end();
}

void append_named(std::string& out, char type, char what, std::string_view name) {
  Frame frame(out, type);
  frame.byte(what);
  frame.text(name);
  frame.end();
}

}  // namespace

void append_error_response(std::string& out, const ReportFields& fields) {
  append_report(out, backend::error_response, fields);
}
void append_notice_response(std::string& out, const ReportFields& fields) {
  append_report(out, backend::notice_response, fields);
}

ReportFields report(std::string_view severity, std::string_view sqlstate,
                    std::string_view message) noexcept {
  ReportFields fields;
  fields.set('S', severity);
  fields.set('V', severity);
  fields.set('C', sqlstate);
  fields.set('M', message);
  return fields;
}

void append_ready_for_query(std::string& out, TransactionStatus status) {
  const char byte = static_cast<char>(status);
  append_opaque(out, backend::ready_for_query, {&byte, 1});
}

void append_parameter_status(std::string& out, std::string_view name, std::string_view value) {
  Frame frame(out, backend::parameter_status);
  frame.text(name);
  frame.text(value);
  frame.end();
}

void append_backend_key_data(std::string& out, std::uint32_t pid, std::string_view key) {
  Frame frame(out, backend::backend_key_data);
  frame.u32(pid);
  frame.bytes(key);
  frame.end();
}

void append_authentication(std::string& out, Authentication::Type type, std::string_view payload) {
  Frame frame(out, backend::authentication);
  frame.u32(static_cast<std::uint32_t>(type));
  frame.bytes(payload);
  frame.end();
}

void append_authentication_sasl(std::string& out, std::span<const std::string_view> mechanisms) {
  Frame frame(out, backend::authentication);
  frame.u32(static_cast<std::uint32_t>(Authentication::Type::sasl));
  for (const std::string_view mechanism : mechanisms) frame.text(mechanism);
  frame.byte('\0');
  frame.end();
}

void append_negotiate_protocol_version(std::string& out, std::uint16_t minor,
                                       std::span<const std::string_view> refused_extensions) {
  Frame frame(out, backend::negotiate_protocol_version);
  frame.u32(3u << 16 | minor);
  frame.u32(static_cast<std::uint32_t>(refused_extensions.size()));
  for (const std::string_view extension : refused_extensions) frame.text(extension);
  frame.end();
}

void append_command_complete(std::string& out, std::string_view tag) {
  append_text(out, backend::command_complete, tag);
}

void append_notification_response(std::string& out, std::uint32_t pid, std::string_view channel,
                                  std::string_view payload) {
  Frame frame(out, backend::notification_response);
  frame.u32(pid);
  frame.text(channel);
  frame.text(payload);
  frame.end();
}

void append_row_description(std::string& out, std::span<const Column> columns) {
  Frame frame(out, backend::row_description);
  frame.count(columns.size());
  for (const Column& column : columns) {
    frame.text(column.name);
    frame.u32(column.table_oid);
    frame.u16(column.attribute);
    frame.u32(column.type_oid);
    frame.u16(static_cast<std::uint16_t>(column.type_size));
    frame.u32(static_cast<std::uint32_t>(column.type_modifier));
    frame.u16(column.format);
  }
  frame.end();
}

void append_data_row(std::string& out, std::span<const Field> values) {
  Frame frame(out, backend::data_row);
  frame.count(values.size());
  for (const Field& value : values) frame.field(value);
  frame.end();
}

void append_bare(std::string& out, char type) { Frame(out, type).end(); }

void append_opaque(std::string& out, char type, std::string_view body) {
  Frame frame(out, type);
  frame.bytes(body);
  frame.end();
}

void append_query(std::string& out, std::string_view sql) {
  append_text(out, frontend::query, sql);
}

void append_parse(std::string& out, std::string_view statement, std::string_view sql,
                  std::span<const std::uint32_t> parameter_types) {
  Frame frame(out, frontend::parse);
  frame.text(statement);
  frame.text(sql);
  frame.count(parameter_types.size());
  for (const std::uint32_t oid : parameter_types) frame.u32(oid);
  frame.end();
}

void append_bind(std::string& out, std::string_view portal, std::string_view statement,
                 std::span<const Field> values, std::span<const std::uint16_t> parameter_formats,
                 std::span<const std::uint16_t> result_formats) {
  Frame frame(out, frontend::bind);
  frame.text(portal);
  frame.text(statement);
  frame.count(parameter_formats.size());
  for (const std::uint16_t format : parameter_formats) frame.u16(format);
  frame.count(values.size());
  for (const Field& value : values) frame.field(value);
  frame.count(result_formats.size());
  for (const std::uint16_t format : result_formats) frame.u16(format);
  frame.end();
}

void append_describe_statement(std::string& out, std::string_view statement) {
  append_named(out, frontend::describe, 'S', statement);
}
void append_describe_portal(std::string& out, std::string_view portal) {
  append_named(out, frontend::describe, 'P', portal);
}

void append_execute(std::string& out, std::string_view portal, std::uint32_t rows_max) {
  Frame frame(out, frontend::execute);
  frame.text(portal);
  frame.u32(rows_max);
  frame.end();
}

void append_close_statement(std::string& out, std::string_view statement) {
  append_named(out, frontend::close, 'S', statement);
}
void append_close_portal(std::string& out, std::string_view portal) {
  append_named(out, frontend::close, 'P', portal);
}
void append_copy_fail(std::string& out, std::string_view message) {
  append_text(out, frontend::copy_fail, message);
}

}  // namespace termgate::pgwire
