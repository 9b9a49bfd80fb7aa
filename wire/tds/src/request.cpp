// ALL_HEADERS ([MS-TDS] 2.2.5.3): total length:4, then headers of length:4, type:2, data. Type 2:
// descriptor:8, outstanding requests:4.
//
//   Batch (type 1):   ALL_HEADERS  text as UTF-16
//   RPC (type 3):     ALL_HEADERS  call (0xFF call)*     0x80 in place of 0xFF in TDS 7.1; 0xFE: the rest is not to be executed
//   call:           name length:2  name as UTF-16 | 0xFFFF id:2     options:2     parameter*
//   parameter:      name: 1 + UTF-16   status:1 (1: OUTPUT, 2: default, 8: encrypted)   TYPE_INFO   value   (cipher, where encrypted)
//   cipher:         TYPE_INFO  algorithm:1  (its name: 1 + UTF-16, where it is 0)  kind:1  database:4  key:4  version:4  metadata:8  rule:1
//   table:          0xF3  database, schema, name: 1 + UTF-16   count:2 (0xFFFF: NULL)  column*  option* 0x00  (0x01 value*)* 0x00
//   column:         user type:4  flags:2 (0x0200: the rows do not have it)  TYPE_INFO  name: 1 + UTF-16
//   option:         0x10  count:2  (column:2 flags:1)*  |  0x11  count:2  column:2*
//   Transaction (14): ALL_HEADERS  kind:2  …
//   begin           isolation:1  name: 1 (its bytes) + UTF-16
//   commit          name  flags:1  (isolation:1  name, where flags has 1: the next one begins at once)
//   rollback        the same as commit
//   save            name
#include <termgate/tds/request.hpp>

#include <algorithm>
#include <utility>

#include <termgate/tds/text.hpp>

#include "bytes.hpp"

namespace termgate::tds {
namespace {

constexpr std::size_t headers_bytes_max = 4096;
constexpr std::uint16_t transaction_header = 2;
constexpr std::size_t parameters_max = 10'000;
constexpr std::uint8_t encrypted_parameter = 0x08;
constexpr std::uint8_t output_parameter = 0x01;
constexpr std::string_view any_collation{"\x09\x04\xD0\x00\x34", 5};
constexpr std::uint16_t text_bytes_max = 8000;

bool is_separator(std::uint8_t byte, std::uint32_t tds_version) noexcept {
  return is_7_2(tds_version) ? byte == 0xFF || byte == 0xFE : byte == 0x80;
}

constexpr std::size_t head_bytes_max = std::size_t{256}
                                       << 10;  // enough for twice the longest name of a procedure
constexpr std::uint64_t unknown_total = ~std::uint64_t{0} - 1;
constexpr std::uint16_t column_default = 0x0200;

// Collects the parts that a CallReader reports, up to a number of parameters.
class Collector final : public CallSink {
 public:
  void call(std::uint16_t id, std::string_view name, std::uint16_t options) override {
    calls_.all.push_back({id, std::string(name), options, {}});
  }
  void parameter(std::string_view name, std::uint8_t status, const TypeInfo& type,
                 bool null) override {
    if (++parameters_ > parameters_max) return;
    calls_.all.back().parameters.push_back({std::string(name), status, type, null, {}});
  }
  void data(std::string_view bytes) override {
    if (parameters_ <= parameters_max) calls_.all.back().parameters.back().data.append(bytes);
  }
  void parameter_ends() override {}

  bool all() const noexcept { return parameters_ <= parameters_max; }
  Calls&& take() noexcept { return std::move(calls_); }

 private:
  Calls calls_;
  std::size_t parameters_ = 0;
};

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
    if (headers.has_transaction || data.size() != 12)
      return malformed("ALL_HEADERS: the transaction's header is malformed");
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

std::size_t CallReader::lost() noexcept {
  good_ = false;
  return 0;
}

bool CallReader::take(std::string_view bytes, CallSink& sink) {
  while (good_) {
    if (left_ > 0) {
      const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
      if (tells_ && some > 0) sink.data(bytes.substr(0, some));
      bytes.remove_prefix(some);
      left_ -= some;
      if (left_ > 0) return true;
      if (!in_chunks_) value_ends(sink);
      continue;
    }
    const std::size_t missing = step(sink);
    if (missing == 0) {
      head_.clear();
      continue;
    }
    if (bytes.empty()) return true;
    const std::size_t some = std::min(missing, bytes.size());
    head_.append(bytes.substr(0, some));
    bytes.remove_prefix(some);
    if (head_.size() > head_bytes_max) lost();
  }
  return false;
}

std::size_t CallReader::step(CallSink& sink) {
  switch (in_) {
    case In::call: return read_call(sink);
    case In::between:
      if (head_.empty()) return 1;
      if (!is_separator(static_cast<std::uint8_t>(head_[0]), tds_version_)) {
        in_ = In::parameter;
        return read_parameter(sink);
      }
      in_ = In::call;
      return 0;
    case In::parameter: return read_parameter(sink);
    case In::value:
    case In::chunk: {
      const std::size_t missing = read_chunk();
      if (missing == 0 && good_ && left_ == 0) value_ends(sink);
      return missing;
    }
    case In::cipher: return read_cipher();
    case In::table: return read_table();
    case In::column: return read_column();
    case In::table_option: return read_table_option();
    case In::row: return read_row(sink);
  }
  return lost();
}

std::size_t CallReader::read_call(CallSink& sink) {
  Cursor cursor(head_);
  std::uint16_t id = procedure::none;
  std::string_view name;
  const std::uint16_t length = cursor.u16();
  if (length == 0xFFFF) id = cursor.u16();
  else name = cursor.bytes(std::size_t{2} * length);
  const std::uint16_t options = cursor.u16();
  if (!cursor.good()) return cursor.missing();
  if (id == procedure::none && name.empty()) return lost();
  any_ = true;
  in_ = In::between;
  sink.call(id, name, options);
  return 0;
}

std::size_t CallReader::read_parameter(CallSink& sink) {
  Cursor cursor(head_);
  const std::string_view name = cursor.short_text();
  const std::uint8_t status = cursor.u8();
  if (!cursor.good()) return cursor.missing();
  if (cursor.rest().empty()) return 1;
  encrypted_ = (status & encrypted_parameter) != 0;
  if (static_cast<std::uint8_t>(cursor.rest()[0]) == type::table) {
    TypeInfo table;
    table.type = type::table;
    sink.parameter(name, status, table, false);
    in_ = In::table;
    return 0;
  }
  const TypeRead type = read_type(cursor.rest(), TypePlace::parameter);
  if (type.kind == TypeRead::Kind::unknown) return lost();
  if (type.kind == TypeRead::Kind::need_more) return type.needed - cursor.rest().size();
  return begin_value(type.info, cursor.at() + type.info.bytes, true, sink, name, status);
}

// `at`: the offset in head_ after the type. `tells`: it is a parameter's own value, and not one in
// a table.
std::size_t CallReader::begin_value(const TypeInfo& type, std::size_t at, bool tells,
                                    CallSink& sink, std::string_view name, std::uint8_t status) {
  constexpr std::uint64_t null_total = ~std::uint64_t{0};
  Cursor cursor(std::string_view(head_).substr(at));
  bool null = false;
  std::uint64_t length = 0;
  switch (type.form) {
    case ValueForm::fixed:
      length = type.size;
      null = type.type == type::null;
      break;
    case ValueForm::length_1:
      length = cursor.u8();
      null = length == 0;
      break;
    case ValueForm::length_2:
      length = cursor.u16();
      null = length == 0xFFFF;
      break;
    case ValueForm::length_4:
      length = cursor.u32();
      null = length == 0xFFFFFFFF;
      break;
    case ValueForm::variant:
      length = cursor.u32();
      null = length == 0;
      break;
    case ValueForm::partial:
      length = cursor.number(8);
      null = length == null_total;
      break;
    case ValueForm::text_pointer: return lost();
  }
  if (!cursor.good()) return cursor.missing();
  if (tells) sink.parameter(name, status, type, null);
  tells_ = tells;
  in_chunks_ = type.form == ValueForm::partial && !null;
  total_ = in_chunks_ ? length : 0;
  sum_ = 0;
  left_ = in_chunks_ || null ? 0 : length;
  in_ = in_chunks_ ? In::chunk : In::value;
  if (left_ == 0 && !in_chunks_) value_ends(sink);
  return 0;
}

std::size_t CallReader::read_chunk() {
  Cursor cursor(head_);
  const std::uint32_t length = cursor.u32();
  if (!cursor.good()) return cursor.missing();
  if (length == 0 && total_ != unknown_total && sum_ != total_) return lost();
  left_ = length;
  sum_ += length;
  return 0;
}

void CallReader::value_ends(CallSink& sink) {
  if (!tells_) {
    ++column_;
    in_ = In::row;
    return;
  }
  sink.parameter_ends();
  in_ = encrypted_ ? In::cipher : In::between;
}

std::size_t CallReader::read_cipher() {
  if (head_.empty()) return 1;
  const TypeRead type = read_type(head_, TypePlace::parameter);
  if (type.kind == TypeRead::Kind::unknown) return lost();
  if (type.kind == TypeRead::Kind::need_more) return type.needed - head_.size();
  Cursor cursor(std::string_view(head_).substr(type.info.bytes));
  if (cursor.u8() == 0) cursor.short_text();
  cursor.bytes(1 + 4 + 4 + 4 + 8 + 1);
  if (!cursor.good()) return cursor.missing();
  in_ = In::between;
  return 0;
}

std::size_t CallReader::read_table() {
  constexpr std::uint16_t null_table = 0xFFFF;
  Cursor cursor(head_);
  for (int i = 0; i < 3; ++i) cursor.short_text();
  const std::uint16_t count = cursor.u16();
  if (!cursor.good()) return cursor.missing();
  columns_.clear();
  columns_left_ = count == null_table ? 0 : count;
  if (columns_left_ > table_columns_max) {
    too_many_columns_ = true;
    return lost();
  }
  in_ = columns_left_ == 0 ? In::table_option : In::column;
  return 0;
}

std::size_t CallReader::read_column() {
  Cursor cursor(head_);
  cursor.u32();
  const std::uint16_t flags = cursor.u16();
  if (!cursor.good()) return cursor.missing();
  if (cursor.rest().empty()) return 1;
  const TypeRead type = read_type(cursor.rest(), TypePlace::parameter);
  if (type.kind == TypeRead::Kind::unknown) return lost();
  if (type.kind == TypeRead::Kind::need_more) return type.needed - cursor.rest().size();
  cursor.bytes(type.info.bytes);
  cursor.short_text();
  if (!cursor.good()) return cursor.missing();
  // Columns of the type NULL have no bytes in a row. Left out, they cost no time there, however
  // many there are.
  if ((flags & column_default) == 0 && type.info.type != type::null) columns_.push_back(type.info);
  if (--columns_left_ == 0) in_ = In::table_option;
  return 0;
}

std::size_t CallReader::read_table_option() {
  constexpr std::uint8_t end = 0, order_unique = 0x10, ordering = 0x11;
  Cursor cursor(head_);
  const std::uint8_t option = cursor.u8();
  if (!cursor.good()) return cursor.missing();
  if (option == end) {
    in_ = In::row;
    column_ = columns_.size();
    return 0;
  }
  if (option != order_unique && option != ordering) return lost();
  const std::size_t count = cursor.u16();
  cursor.bytes(count * (option == order_unique ? 3 : 2));
  return cursor.missing();
}

// Begins the next value of a row, or the next row.
std::size_t CallReader::read_row(CallSink& sink) {
  if (column_ < columns_.size()) return begin_value(columns_[column_], 0, false, sink, {}, 0);
  constexpr std::uint8_t end = 0, row = 1;
  if (head_.empty()) return 1;
  const auto next = static_cast<std::uint8_t>(head_[0]);
  if (next != end && next != row) return lost();
  if (next == row) {
    column_ = 0;
    return 0;
  }
  sink.parameter_ends();
  in_ = encrypted_ ? In::cipher : In::between;
  return 0;
}

Calls decode_rpc(std::string_view body, std::uint32_t tds_version) {
  Collector collector;
  CallReader reader(tds_version);
  const bool good = reader.take(body, collector);
  Calls calls = collector.take();
  calls.whole = good && reader.may_end() && collector.all();
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
  if (!cursor.good())
    return malformed("a request to the transaction manager of kind %u ends too early",
                     request.kind);
  return request;
}

CallWriter::CallWriter(std::string& out, std::uint32_t tds_version, std::uint64_t transaction,
                       std::string_view name)
    : out_(out) {
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
