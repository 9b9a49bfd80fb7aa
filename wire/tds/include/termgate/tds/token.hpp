// A server's answer as tokens: walked without keeping rows, in pieces of any size, and written where a proxy answers itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/tds/malformed.hpp>
#include <termgate/tds/type_info.hpp>
#include <termgate/tds/types.hpp>

namespace termgate::tds {

struct Done {
  std::uint8_t token = token::done;
  std::uint16_t status = 0;
  std::uint16_t command = 0;
  std::uint64_t count = 0;
  bool more() const noexcept { return (status & done_status::more) != 0; }
  bool failed() const noexcept { return (status & (done_status::error | done_status::server_error)) != 0; }
};

struct Report {
  std::uint8_t token = token::error;
  std::uint32_t number = 0;
  std::uint8_t state = 1;
  std::uint8_t severity = 16;
  std::string_view text, server, procedure;  // UTF-16
  std::uint32_t line = 1;
};

struct EnvironmentChange {
  std::uint8_t type = 0;
  std::string_view now, before;  // UTF-16, or bytes, as the type has it
};

struct LoginAck {
  std::uint8_t interface = 1;
  std::uint32_t tds_version = 0;
  std::string_view program;         // UTF-16
  std::string_view server_version;  // 4 bytes
};

struct ReturnValue {
  std::uint16_t ordinal = 0;
  std::string_view name;  // UTF-16, with its @
  std::uint8_t type = 0;
  bool null = true;
  bool kept = true;  // the value was short enough to be kept
  std::string_view data;
  // An integer of any width. None: NULL, or no integer.
  std::optional<std::int64_t> integer() const noexcept;
};

// The body of a token, as the walker hands it out. Malformed where something in it lies outside of it.
Decoded<Done> decode_done(std::uint8_t token, std::string_view body) noexcept;
Decoded<Report> decode_report(std::uint8_t token, std::string_view body, std::uint32_t tds_version) noexcept;
Decoded<EnvironmentChange> decode_environment_change(std::string_view body) noexcept;
Decoded<LoginAck> decode_login_ack(std::string_view body) noexcept;

// The descriptor in an environment change that begins or ends a transaction; 0: none.
std::uint64_t transaction_of(std::string_view value) noexcept;

struct TokenEvent {
  enum class Kind : std::uint8_t {
    need_more,
    token,         // whole: `token` and `body`, without the token's byte and its length. Rows and their metadata come without a body
    return_value,  // `value`
    lost,          // once: from here on only the end of the message can be found
  };
  Kind kind = Kind::need_more;
  std::size_t used = 0;
  std::uint8_t token = 0;
  std::string_view body{};  // valid until the next call
  ReturnValue value{};
  const char* why = "";  // lost
};

// Walks the payload of one message after another. Where it meets what it does not know it is lost up to the message's end, and says so; it
// keeps no more than one token, or the beginning of one, of 64 kB at most.
class TokenReader {
 public:
  explicit TokenReader(std::uint32_t tds_version) noexcept : version_(tds_version) {}

  void set_version(std::uint32_t tds_version) noexcept { version_ = tds_version; }
  // Columns are described in a way that is not read here (column encryption, data classification): results lose the walker.
  void distrust_results() noexcept { results_unknown_ = true; }

  TokenEvent next(std::string_view input);
  // The message has ended. The last token of it, where that is one of the DONE family, walked or lost; then begins anew.
  std::optional<Done> end_of_message();
  // Whether the message ended between two tokens, as far as is known.
  bool is_lost() const noexcept { return step_ == Step::lost; }
  std::size_t buffered() const noexcept { return buffer_.capacity(); }

 private:
  enum class Step : std::uint8_t {
    token,
    length_2,
    fixed,
    body,
    length_4,
    feature_id,
    feature_size,
    column_count,
    column,
    return_value,
    value,
    row,
    null_bitmap,
    lost
  };
  enum class ValueStep : std::uint8_t { begin, text_head, partial, chunk };

  bool step(TokenEvent& event);
  bool on_token(TokenEvent& event);
  bool on_column(TokenEvent& event);
  bool on_return_value(TokenEvent& event);
  bool on_value(TokenEvent& event);
  void value_ends(TokenEvent& event);
  bool give(TokenEvent& event);
  bool lose(TokenEvent& event, const char* why);
  void want(Step step, std::size_t bytes) noexcept;
  void begin_value() noexcept;
  void next_column(TokenEvent& event);
  void take_length(std::uint64_t length, bool null) noexcept;
  std::size_t width_of_user_type() const noexcept;

  std::uint32_t version_;
  bool results_unknown_ = false;
  Step step_ = Step::token;
  std::uint8_t token_ = 0;
  std::size_t want_ = 1;    // bytes that the step needs in buffer_
  std::uint64_t skip_ = 0;  // bytes that nobody reads
  std::string buffer_;
  bool given_ = false;        // buffer_ was handed out and goes with the next call
  std::string tail_;          // while lost: the last bytes
  std::optional<Done> last_;  // of the DONE family, if it was the last token
  // --- of a result ---
  std::vector<TypeInfo> columns_;
  std::size_t columns_left_ = 0;
  std::size_t column_ = 0;
  std::string nulls_;  // of NBCROW
  // --- of a value ---
  TypeInfo type_;
  ValueStep value_step_ = ValueStep::begin;
  bool keep_ = false;  // it is that of a RETURNVALUE
  ReturnValue value_;
  std::string value_name_, value_data_;
};

// --- what a proxy says itself; each appends one token to a payload ---

void append_done(std::string& out, const Done& done, std::uint32_t tds_version);
// Texts as UTF-8; they are cut where they are longer than the token can hold.
void append_report(std::string& out, std::uint8_t token, std::uint32_t number, std::uint8_t severity, std::string_view text,
                   std::string_view server, std::uint32_t tds_version);
// `now`, `before`: bytes with their number in front of them in one byte (types 8 to 12, 17 and 18).
void append_environment_change(std::string& out, std::uint8_t type, std::string_view now, std::string_view before);

}  // namespace termgate::tds
