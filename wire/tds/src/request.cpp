// ALL_HEADERS ([MS-TDS] 2.2.5.3): total length:4, then headers of length:4, type:2, data. Type 2: descriptor:8, outstanding requests:4.
//
// Batch (type 1):   ALL_HEADERS  text as UTF-16
// RPC (type 3):     ALL_HEADERS  call (0xFF call)*          0x80 in place of 0xFF in TDS 7.1; 0xFE: the rest is not to be executed
//   call:           name length:2  name as UTF-16 | 0xFFFF id:2     options:2     parameter*
//   parameter:      name: 1 + UTF-16   status:1 (1: OUTPUT, 2: default, 8: encrypted)   TYPE_INFO   value
// Transaction (14): ALL_HEADERS  kind:2  …
//   begin           isolation:1  name: 1 (its bytes) + UTF-16
//   commit          name  flags:1  (isolation:1  name, where flags has 1: the next one begins at once)
//   rollback        the same as commit
//   save            name
#include <termgate/tds/request.hpp>

#include <termgate/tds/text.hpp>

#include "bytes.hpp"

namespace termgate::tds {
namespace {

constexpr std::size_t headers_bytes_max = 4096;
constexpr std::uint16_t transaction_header = 2;
constexpr std::size_t parameters_max = 10'000;
constexpr std::size_t calls_max = 10'000;
constexpr std::uint8_t encrypted = 0x08;
constexpr std::uint8_t output_parameter = 0x01;
constexpr std::string_view any_collation{"\x09\x04\xD0\x00\x34", 5};
constexpr std::uint16_t text_bytes_max = 8000;

bool is_separator(std::uint8_t byte, std::uint32_t tds_version) noexcept {
  return is_7_2(tds_version) ? byte == 0xFF || byte == 0xFE : byte == 0x80;
}

bool read_parameter(std::string_view& left, Call& call) {
  Cursor cursor(left);
  Parameter parameter;
  parameter.name = cursor.short_text();
  parameter.status = cursor.u8();
  if (!cursor.good() || (parameter.status & encrypted) != 0) return false;
  const TypeRead type = read_type(cursor.rest(), TypePlace::parameter);
  if (type.kind != TypeRead::Kind::read) return false;
  cursor.bytes(type.info.bytes);
  parameter.type = type.info;
  parameter.value = read_value(cursor.rest(), type.info);
  if (!parameter.value.good) return false;
  cursor.bytes(parameter.value.bytes);
  call.parameters.push_back(parameter);
  left = cursor.rest();
  return true;
}

}  // namespace

Decoded<Headers> decode_headers(std::string_view payload, std::uint32_t tds_version) {
  Headers headers;
  if (!is_7_2(tds_version)) return headers;
  Cursor cursor(payload);
  const std::uint32_t total = cursor.u32();
  if (!cursor.good() || total < 4 || total > headers_bytes_max || total > payload.size())
    return malformed("ALL_HEADERS of %u bytes", total);
  Cursor within(payload.substr(4, total - 4));
  while (!within.done()) {
    const std::uint32_t length = within.u32();
    const std::uint16_t type = within.u16();
    if (!within.good() || length < 6) return malformed("ALL_HEADERS: a header of %u bytes", length);
    const std::string_view data = within.bytes(length - 6);
    if (!within.good()) return malformed("ALL_HEADERS: a header of %u bytes", length);
    if (type != transaction_header) continue;
    if (headers.has_transaction || data.size() != 12) return malformed("ALL_HEADERS: the transaction's header is malformed");
    headers.has_transaction = true;
    headers.transaction = read_little(data.data(), 8);
    headers.outstanding = static_cast<std::uint32_t>(read_little(data.data() + 8, 4));
  }
  headers.bytes = total;
  return headers;
}

void append_headers(std::string& out, std::uint64_t transaction) {
  append_little(out, 22, 4);
  append_little(out, 18, 4);
  append_little(out, transaction_header, 2);
  append_little(out, transaction, 8);
  append_little(out, 1, 4);
}

Calls decode_rpc(std::string_view body, std::uint32_t tds_version) {
  Calls calls;
  std::size_t parameters = 0;
  while (calls.all.size() < calls_max) {
    Cursor cursor(body);
    Call call;
    const std::uint16_t length = cursor.u16();
    if (length == 0xFFFF) {
      call.id = cursor.u16();
    } else {
      call.name = cursor.bytes(std::size_t{2} * length);
    }
    call.options = cursor.u16();
    if (!cursor.good() || (call.id == procedure::none && call.name.empty())) return calls;
    body = cursor.rest();
    calls.all.push_back(std::move(call));
    bool another = false;
    while (!body.empty() && !another) {
      another = is_separator(static_cast<std::uint8_t>(body[0]), tds_version);
      if (another) {
        body.remove_prefix(1);
      } else if (++parameters > parameters_max || !read_parameter(body, calls.all.back())) {
        return calls;
      }
    }
    if (body.empty()) {
      // A separator behind the last call separates it from nothing; drivers send that.
      calls.whole = true;
      return calls;
    }
  }
  return calls;
}

Decoded<TransactionRequest> decode_transaction_request(std::string_view body) {
  TransactionRequest request;
  Cursor cursor(body);
  request.kind = cursor.u16();
  switch (request.kind) {
    case transaction_request::begin:
      request.isolation = cursor.u8();
      request.name = cursor.bytes(cursor.u8());
      break;
    case transaction_request::commit:
    case transaction_request::rollback:
      request.name = cursor.bytes(cursor.u8());
      request.begins_next = (cursor.u8() & 1) != 0;
      if (request.begins_next) {
        request.isolation = cursor.u8();
        cursor.bytes(cursor.u8());
      }
      break;
    case transaction_request::save: request.name = cursor.bytes(cursor.u8()); break;
    default: break;
  }
  if (!cursor.good()) return malformed("a request to the transaction manager of kind %u ends too early", request.kind);
  return request;
}

CallWriter::CallWriter(std::string& out, std::uint32_t tds_version, std::uint64_t transaction, std::string_view name) : out_(out) {
  if (is_7_2(tds_version)) append_headers(out_, transaction);
  const std::string wide = utf16_of(name);
  append_little(out_, wide.size() / 2, 2);
  out_.append(wide);
  append_little(out_, 0, 2);
}

void CallWriter::begin(std::string_view name, bool output) {
  const std::string wide = utf16_of(name);
  out_ += static_cast<char>(wide.size() / 2);
  out_.append(wide);
  out_ += static_cast<char>(output ? output_parameter : 0);
}

void CallWriter::text(std::string_view name, const std::string_view* value, bool output) {
  begin(name, output);
  out_ += static_cast<char>(type::nvarchar);
  append_little(out_, text_bytes_max, 2);
  out_.append(any_collation);
  if (value == nullptr) {
    append_little(out_, 0xFFFF, 2);
    return;
  }
  std::string wide = utf16_of(*value);
  if (wide.size() > text_bytes_max) wide.resize(text_bytes_max);
  append_little(out_, wide.size(), 2);
  out_.append(wide);
}

void CallWriter::integer(std::string_view name, const std::int64_t* value, bool output) {
  begin(name, output);
  out_ += static_cast<char>(type::integer_n);
  out_ += '\x08';
  out_ += static_cast<char>(value == nullptr ? 0 : 8);
  if (value != nullptr) append_little(out_, static_cast<std::uint64_t>(*value), 8);
}

void CallWriter::binary(std::string_view name, std::string_view value) {
  begin(name, false);
  out_ += static_cast<char>(type::varbinary);
  append_little(out_, text_bytes_max, 2);
  append_little(out_, value.size(), 2);
  out_.append(value);
}

}  // namespace termgate::tds
