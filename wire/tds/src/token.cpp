// The tokens of a server's answer ([MS-TDS] 2.2.7; each begins with its own byte):
//
//   ENVCHANGE E3, INFO AB, ERROR AA, LOGINACK AD, ORDER A9, TABNAME A4, COLINFO A5, SSPI ED:  length:2  body
//   SESSIONSTATE E4, FEDAUTHINFO EE:   length:4  body
//   DONE FD, DONEPROC FE, DONEINPROC FF:   status:2  command:2  count:8 (4 before TDS 7.2)
//   RETURNSTATUS 79:   value:4          OFFSET 78:  4 bytes
//   FEATUREEXTACK AE:  (id:1  length:4  data)*  FF
//   RETURNVALUE AC:    ordinal:2  name: 1 + UTF-16  status:1  user type:4 (2)  flags:2  TYPE_INFO  value
//   COLMETADATA 81:    count:2 (FFFF: none)  (user type:4 (2)  flags:2  TYPE_INFO  [table of TEXT, NTEXT, IMAGE]  name: 1 + UTF-16)*
//     table:           parts:1 (each 2 + UTF-16); before TDS 7.2: 2 + UTF-16
//   ROW D1:            a value for each column      NBCROW D2:  a bit for each column, 1: NULL; then the values that are not
//
//   ERROR, INFO:  number:4  state:1  severity:1  text: 2 + UTF-16  server: 1 + UTF-16  procedure: 1 + UTF-16  line:4 (2 before TDS 7.2)
//   ENVCHANGE:    type:1  now: 1 + …  before: 1 + …     (UTF-16 units for types 1 to 6, 13 and 19, else bytes; 20 and 21: both 2 + …; 15: now 4 + …)
//   LOGINACK:     interface:1  TDS version:4 (most significant byte first)  program: 1 + UTF-16  version:4
#include <termgate/tds/token.hpp>

#include <algorithm>

#include <termgate/tds/text.hpp>

#include "bytes.hpp"

namespace termgate::tds {
namespace {

// How much is gathered of FEATUREEXTACK, or of the description of one column.
constexpr std::size_t part_bytes_max = 64u << 10;
constexpr std::size_t value_kept_max = 8000;  // for a RETURNVALUE
constexpr std::size_t columns_max = 8192;     // a result has at most 4,096
constexpr std::size_t done_bytes_max = 13;
constexpr std::size_t kept_bytes = 4096;

bool is_done(std::uint8_t byte) noexcept { return byte >= token::done; }
std::size_t done_body_bytes(std::uint32_t tds_version) noexcept {
  return is_7_2(tds_version) ? 12 : 8;
}

// Reads the parts of a column after its TYPE_INFO.
void read_column_names(Cursor& cursor, const TypeInfo& type, std::uint32_t tds_version) noexcept {
  if (type.is_text()) {
    const int parts = is_7_2(tds_version) ? cursor.u8() : 1;
    for (int i = 0; i < parts && cursor.good(); ++i) cursor.long_text();
  }
  cursor.short_text();
}

}  // namespace

std::optional<std::int64_t> ReturnValue::integer() const noexcept {
  if (null || !kept ||
      (type != type::integer_n && type != type::bit_n && type != type::int8 && type != type::int4 &&
       type != type::int2 && type != type::int1))
    return std::nullopt;
  const std::uint64_t bits = read_little(data.data(), data.size());
  switch (data.size()) {
    case 1: return static_cast<std::int64_t>(bits);
    case 2: return static_cast<std::int16_t>(bits);
    case 4: return static_cast<std::int32_t>(bits);
    case 8: return static_cast<std::int64_t>(bits);
    default: return std::nullopt;
  }
}

Decoded<Done> decode_done(std::uint8_t token, std::string_view body) noexcept {
  if (body.size() != 8 && body.size() != 12) return malformed("DONE of %zu bytes", body.size());
  Done done;
  done.token = token;
  done.status = static_cast<std::uint16_t>(read_little(body.data(), 2));
  done.command = static_cast<std::uint16_t>(read_little(body.data() + 2, 2));
  done.count = read_little(body.data() + 4, body.size() - 4);
  return done;
}

Decoded<Report> decode_report(std::uint8_t token, std::string_view body,
                              std::uint32_t tds_version) noexcept {
  Report report;
  Cursor cursor(body);
  report.token = token;
  report.number = cursor.u32();
  report.state = cursor.u8();
  report.severity = cursor.u8();
  report.text = cursor.long_text();
  report.server = cursor.short_text();
  report.procedure = cursor.short_text();
  report.line = static_cast<std::uint32_t>(cursor.number(is_7_2(tds_version) ? 4 : 2));
  if (!cursor.good())
    return malformed("token 0x%02x of %zu bytes ends too early", token, body.size());
  return report;
}

Decoded<EnvironmentChange> decode_environment_change(std::string_view body) noexcept {
  EnvironmentChange change;
  Cursor cursor(body);
  change.type = cursor.u8();
  const bool in_text = change.type <= 6 || change.type == environment::mirroring_partner ||
                       change.type == environment::user_instance;
  if (change.type == environment::routing || change.type == environment::enhanced_routing) {
    change.now = cursor.bytes(cursor.u16());
    change.before = cursor.bytes(cursor.u16());
  } else if (change.type == environment::promote_transaction) {
    change.now = cursor.bytes(cursor.u32());
    change.before = cursor.bytes(cursor.u8());
  } else {
    const std::size_t unit = in_text ? 2 : 1;
    change.now = cursor.bytes(unit * cursor.u8());
    change.before = cursor.bytes(unit * cursor.u8());
  }
  if (!cursor.good()) return malformed("ENVCHANGE of type %u ends too early", change.type);
  return change;
}

Decoded<LoginAck> decode_login_ack(std::string_view body) noexcept {
  LoginAck ack;
  Cursor cursor(body);
  ack.interface = cursor.u8();
  for (int i = 0; i < 4; ++i) ack.tds_version = ack.tds_version << 8 | cursor.u8();
  ack.program = cursor.short_text();
  ack.server_version = cursor.bytes(4);
  if (!cursor.good()) return malformed("LOGINACK of %zu bytes ends too early", body.size());
  return ack;
}

std::uint64_t transaction_of(std::string_view value) noexcept {
  return value.size() == 8 ? read_little(value.data(), 8) : 0;
}

// --- the reader ---

TokenEvent TokenReader::next(std::string_view input) {
  TokenEvent event;
  if (given_) {
    given_ = false;
    buffer_.clear();
    if (buffer_.capacity() > kept_bytes) std::string().swap(buffer_);
  }
  for (;;) {
    if (step_ == Step::lost) {
      tail_.append(input.substr(input.size() - std::min(input.size(), done_bytes_max)));
      if (tail_.size() > done_bytes_max) tail_.erase(0, tail_.size() - done_bytes_max);
      event.used += input.size();
      return event;
    }
    if (skip_ > 0) {
      const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, input.size()));
      skip_ -= some;
      event.used += some;
      input.remove_prefix(some);
      if (skip_ > 0) return event;
    }
    const std::size_t lacking = want_ - std::min(want_, buffer_.size()),
                      some = std::min(lacking, input.size());
    buffer_.append(input.substr(0, some));
    event.used += some;
    input.remove_prefix(some);
    if (buffer_.size() < want_) return event;
    if (step(event)) return event;
  }
}

std::optional<Done> TokenReader::end_of_message() {
  std::optional<Done> last;
  if (step_ == Step::lost) {
    const std::size_t bytes = 1 + done_body_bytes(version_);
    if (tail_.size() >= bytes) {
      const std::string_view end = std::string_view(tail_).substr(tail_.size() - bytes);
      if (is_done(static_cast<std::uint8_t>(end[0])))
        last = *decode_done(static_cast<std::uint8_t>(end[0]), end.substr(1));
    }
  } else if (step_ == Step::token && skip_ == 0 && (given_ || buffer_.empty())) {
    last = last_;
  }
  tail_.clear();
  buffer_.clear();
  columns_.clear();
  nulls_.clear();
  given_ = false;
  skip_ = 0;
  last_.reset();
  want(Step::token, 1);
  return last;
}

void TokenReader::want(Step step, std::size_t bytes) noexcept {
  step_ = step;
  want_ = bytes;
}

bool TokenReader::lose(TokenEvent& event, const char* why) {
  tail_ = buffer_;
  if (tail_.size() > done_bytes_max) tail_.erase(0, tail_.size() - done_bytes_max);
  buffer_.clear();
  skip_ = 0;
  last_.reset();
  step_ = Step::lost;
  event.kind = TokenEvent::Kind::lost;
  event.token = token_;
  event.why = why;
  return true;
}

bool TokenReader::give(TokenEvent& event) {
  event.kind = TokenEvent::Kind::token;
  event.token = token_;
  event.body = buffer_;
  given_ = true;
  want(Step::token, 1);
  return true;
}

// Handles the bytes that the step needed. True: an event is to be returned.
bool TokenReader::step(TokenEvent& event) {
  switch (step_) {
    case Step::token: return on_token(event);
    case Step::length_2: {
      const auto length = static_cast<std::size_t>(read_little(buffer_.data(), 2));
      buffer_.clear();
      want(Step::body, length);
      return false;
    }
    case Step::length_4:
      skip_ = read_little(buffer_.data(), 4);
      buffer_.clear();
      want(Step::token, 1);
      return false;
    case Step::fixed:
      if (is_done(token_)) last_ = *decode_done(token_, buffer_);
      return give(event);
    case Step::body: return give(event);
    case Step::feature_id: {
      // The token is gathered as a whole: the buffer has the ids, sizes and data so far.
      if (static_cast<std::uint8_t>(buffer_.back()) == feature::terminator) return give(event);
      want(Step::feature_size, buffer_.size() + 4);
      return false;
    }
    case Step::feature_size: {
      const std::uint64_t size = read_little(buffer_.data() + buffer_.size() - 4, 4);
      if (size > part_bytes_max || buffer_.size() + size + 1 > part_bytes_max)
        return lose(event, "an acknowledged feature has too much to say");
      want(Step::feature_id, buffer_.size() + static_cast<std::size_t>(size) + 1);
      return false;
    }
    case Step::column_count: {
      const auto count = static_cast<std::size_t>(read_little(buffer_.data(), 2));
      buffer_.clear();
      columns_.clear();
      columns_left_ = count == 0xFFFF ? 0 : count;
      if (columns_left_ > columns_max) return lose(event, "a result of too many columns");
      if (columns_left_ == 0) return give(event);
      want(Step::column, width_of_user_type() + 3);
      return false;
    }
    case Step::column: return on_column(event);
    case Step::return_value: return on_return_value(event);
    case Step::null_bitmap:
      nulls_ = buffer_;
      buffer_.clear();
      next_column(event);
      return event.kind != TokenEvent::Kind::need_more;
    case Step::row:
    case Step::value: return on_value(event);
    case Step::lost: break;
  }
  return true;
}

std::size_t TokenReader::width_of_user_type() const noexcept { return is_7_2(version_) ? 4 : 2; }

bool TokenReader::on_token(TokenEvent& event) {
  token_ = static_cast<std::uint8_t>(buffer_[0]);
  buffer_.clear();
  last_.reset();
  switch (token_) {
    case token::environment_change:
    case token::info:
    case token::error:
    case token::login_ack:
    case token::order:
    case token::table_name:
    case token::column_info:
    case token::sspi: want(Step::length_2, 2); return false;
    case token::session_state:
    case token::federated_info: want(Step::length_4, 4); return false;
    case token::done:
    case token::done_procedure:
    case token::done_in_procedure: want(Step::fixed, done_body_bytes(version_)); return false;
    case token::return_status:
    case token::offset: want(Step::fixed, 4); return false;
    case token::feature_ack: want(Step::feature_id, 1); return false;
    case token::column_metadata:
      if (results_unknown_)
        return lose(event, "results are described in a way that is not read here");
      want(Step::column_count, 2);
      return false;
    case token::return_value:
      if (results_unknown_)
        return lose(event, "results are described in a way that is not read here");
      want(Step::return_value, 3);
      return false;
    case token::row:
      column_ = 0;
      nulls_.clear();
      next_column(event);
      return event.kind != TokenEvent::Kind::need_more;
    case token::null_bitmap_row:
      column_ = 0;
      want(Step::null_bitmap, (columns_.size() + 7) / 8);
      return false;
    default: return lose(event, "a token that is not known here");
  }
}

bool TokenReader::on_column(TokenEvent& event) {
  Cursor cursor(buffer_);
  cursor.bytes(width_of_user_type() + 2);
  const TypeRead type = read_type(cursor.rest(), TypePlace::column);
  if (type.kind == TypeRead::Kind::unknown)
    return lose(event, "a column of a type that is not known here");
  if (type.kind == TypeRead::Kind::need_more) {
    want_ = cursor.at() + type.needed;
    return false;
  }
  cursor.bytes(type.info.bytes);
  read_column_names(cursor, type.info, version_);
  if (!cursor.good()) {
    want_ = buffer_.size() + cursor.missing();
    if (want_ > part_bytes_max) return lose(event, "a column has too long a name");
    return false;
  }
  columns_.push_back(type.info);
  buffer_.clear();
  if (--columns_left_ == 0) return give(event);
  want_ = width_of_user_type() + 3;
  return false;
}

bool TokenReader::on_return_value(TokenEvent& event) {
  Cursor cursor(buffer_);
  const std::uint16_t ordinal = cursor.u16();
  const std::string_view name = cursor.short_text();
  cursor.bytes(1 + width_of_user_type() + 2);
  if (!cursor.good()) {
    want_ = buffer_.size() + cursor.missing();
    return false;
  }
  const TypeRead type = read_type(cursor.rest(), TypePlace::column);
  if (type.kind == TypeRead::Kind::unknown)
    return lose(event, "a returned value of a type that is not known here");
  if (type.kind == TypeRead::Kind::need_more) {
    want_ = cursor.at() + type.needed;
    return false;
  }
  value_ = {};
  value_.ordinal = ordinal;
  value_.type = type.info.type;
  value_name_ = name;
  value_data_.clear();
  type_ = type.info;
  keep_ = true;
  buffer_.clear();
  want(Step::value, 0);
  begin_value();
  return false;
}

// --- values ---

void TokenReader::begin_value() noexcept {
  value_step_ = ValueStep::begin;
  switch (type_.form) {
    case ValueForm::fixed: want_ = 0; break;
    case ValueForm::length_1:
    case ValueForm::text_pointer: want_ = 1; break;
    case ValueForm::length_2: want_ = 2; break;
    case ValueForm::length_4:
    case ValueForm::variant: want_ = 4; break;
    case ValueForm::partial: want_ = 8; break;
  }
}

// Moves to the next column of a row that has a value.
void TokenReader::next_column(TokenEvent& event) {
  keep_ = false;
  const auto is_null = [&](std::size_t column) {
    return column / 8 < nulls_.size() &&
           (static_cast<unsigned char>(nulls_[column / 8]) >> column % 8 & 1) != 0;
  };
  while (column_ < columns_.size() && is_null(column_)) ++column_;
  if (column_ >= columns_.size()) {
    event.kind = TokenEvent::Kind::token;
    event.token = token_;
    want(Step::token, 1);
    return;
  }
  type_ = columns_[column_++];
  want(Step::row, 0);
  begin_value();
}

// A value of `length` bytes follows, without chunks.
void TokenReader::take_length(std::uint64_t length, bool null) noexcept {
  buffer_.clear();
  value_.null = null;
  value_.kept = null || length <= value_kept_max;
  value_step_ = ValueStep::chunk;
  if (keep_ && value_.kept && !null) {
    want_ = static_cast<std::size_t>(length);
  } else {
    want_ = 0;
    skip_ = null ? 0 : length;
  }
  type_.size = 0;  // no chunk follows
}

bool TokenReader::on_value(TokenEvent& event) {
  const std::uint64_t number =
      read_little(buffer_.data(), std::min<std::size_t>(buffer_.size(), 8));
  switch (value_step_) {
    case ValueStep::begin:
      switch (type_.form) {
        case ValueForm::fixed: take_length(type_.size, type_.type == type::null); return false;
        case ValueForm::length_1: take_length(number, number == 0); return false;
        case ValueForm::length_2: take_length(number, number == 0xFFFF); return false;
        case ValueForm::length_4: take_length(number, number == 0xFFFFFFFF); return false;
        case ValueForm::variant: take_length(number, number == 0); return false;
        case ValueForm::text_pointer:
          if (number == 0) {
            take_length(0, true);
            return false;
          }
          buffer_.clear();
          skip_ = number + 8;
          want_ = 4;
          value_step_ = ValueStep::text_head;
          return false;
        case ValueForm::partial:
          buffer_.clear();
          value_.null = number == ~std::uint64_t{0};
          value_step_ = ValueStep::partial;
          want_ = value_.null ? 0 : 4;
          return false;
      }
      return false;
    case ValueStep::text_head: take_length(number, false); return false;
    case ValueStep::partial:
      if (value_.null || number == 0) {
        value_ends(event);
        return event.kind != TokenEvent::Kind::need_more;
      }
      buffer_.clear();
      // Chunks are not joined: values in chunks are long, and the proxy needs no long value.
      value_.kept = false;
      skip_ = number;
      want_ = 4;
      return false;
    case ValueStep::chunk:
      value_data_ = buffer_;
      value_ends(event);
      return event.kind != TokenEvent::Kind::need_more;
  }
  return false;
}

void TokenReader::value_ends(TokenEvent& event) {
  buffer_.clear();
  if (!keep_) return next_column(event);
  value_.name = value_name_;
  value_.data = value_data_;
  event.kind = TokenEvent::Kind::return_value;
  event.token = token_;
  event.value = value_;
  want(Step::token, 1);
}

// --- tokens that a proxy sends itself ---

void append_done(std::string& out, const Done& done, std::uint32_t tds_version) {
  out += static_cast<char>(done.token);
  append_little(out, done.status, 2);
  append_little(out, done.command, 2);
  append_little(out, done.count, done_body_bytes(tds_version) - 4);
}

void append_report(std::string& out, std::uint8_t token, std::uint32_t number,
                   std::uint8_t severity, std::string_view text, std::string_view server,
                   std::uint32_t tds_version) {
  constexpr std::size_t text_bytes_max = 4000, server_bytes_max = 2 * 128;
  std::string message = utf16_of(text), name = utf16_of(server);
  if (message.size() > text_bytes_max) message.resize(text_bytes_max);
  if (name.size() > server_bytes_max) name.resize(server_bytes_max);
  std::string body;
  append_little(body, number, 4);
  body += '\x01';
  body += static_cast<char>(severity);
  append_little(body, message.size() / 2, 2);
  body.append(message);
  body += static_cast<char>(name.size() / 2);
  body.append(name);
  body += '\0';
  append_little(body, 1, is_7_2(tds_version) ? 4 : 2);
  out += static_cast<char>(token);
  append_little(out, body.size(), 2);
  out.append(body);
}

void append_environment_change(std::string& out, std::uint8_t type, std::string_view now,
                               std::string_view before) {
  out += static_cast<char>(token::environment_change);
  append_little(out, 3 + now.size() + before.size(), 2);
  out += static_cast<char>(type);
  out += static_cast<char>(now.size());
  out.append(now);
  out += static_cast<char>(before.size());
  out.append(before);
}

}  // namespace termgate::tds
