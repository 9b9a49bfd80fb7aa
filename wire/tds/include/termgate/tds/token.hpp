// The tokens of a server's answer: reads them in pieces of any size without storing rows, and
// writes those that a proxy sends itself.
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
  bool failed() const noexcept {
    return (status & (done_status::error | done_status::server_error)) != 0;
  }
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
  std::string_view now, before;  // UTF-16 or bytes, depending on the type
};

struct LoginAck {
  std::uint8_t interface = 1;
  std::uint32_t tds_version = 0;
  std::string_view program;         // UTF-16
  std::string_view server_version;  // 4 bytes
};

struct ReturnValue {
  std::uint16_t ordinal = 0;
  std::string_view name;  // UTF-16, including its @
  std::uint8_t type = 0;
  bool null = true;
  bool kept = true;  // false: the value has more than 8000 bytes, or came in chunks
  std::string_view data;
  // The value as an integer, of any width. nullopt: NULL, or neither an integer nor a bit.
  std::optional<std::int64_t> integer() const noexcept;
};

// These decode the body of a token, as the reader returns it. Malformed if a field exceeds the
// body; for decode_done(), if the body has neither 8 nor 12 bytes.
Decoded<Done> decode_done(std::uint8_t token, std::string_view body) noexcept;
Decoded<Report> decode_report(std::uint8_t token, std::string_view body,
                              std::uint32_t tds_version) noexcept;
Decoded<EnvironmentChange> decode_environment_change(std::string_view body) noexcept;
Decoded<LoginAck> decode_login_ack(std::string_view body) noexcept;

// The descriptor in an environment change that begins or ends a transaction; 0: none.
std::uint64_t transaction_of(std::string_view value) noexcept;

struct TokenEvent {
  enum class Kind : std::uint8_t {
    need_more,
    // A whole token: `token` and `body`, without the token's byte and its length. Rows and their
    // metadata have no body. SESSIONSTATE and FEDAUTHINFO are skipped without an event.
    token,
    return_value,  // `value`
    // Returned once: from here on only the end of the message can be found.
    lost,
  };
  Kind kind = Kind::need_more;
  std::size_t used = 0;
  std::uint8_t token = 0;
  std::string_view body{};  // valid until the next call
  ReturnValue value{};
  const char* why = "";  // the reason, for `lost`
};

// Reads the payload of one message after another. At a token or type that it does not know it
// returns `lost` and skips to the end of the message. Besides the types of a result's columns it
// stores at most one token, or the beginning of one, up to 64 kB.
class TokenReader {
 public:
  explicit TokenReader(std::uint32_t tds_version) noexcept : version_(tds_version) {}

  void set_version(std::uint32_t tds_version) noexcept { version_ = tds_version; }
  // Call if the server will describe columns in a way that is not supported here (column
  // encryption, data classification): from then on every result makes the reader lose its place.
  void distrust_results() noexcept { results_unknown_ = true; }

  TokenEvent next(std::string_view input);
  // Call when the message has ended. Returns its last token if that is one of the DONE family, even
  // after `lost`; then starts anew.
  std::optional<Done> end_of_message();
  // Whether the reader has lost its place in this message.
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
  std::uint64_t skip_ = 0;  // bytes to skip
  std::string buffer_;
  bool given_ = false;        // buffer_ was returned and is cleared by the next call
  std::string tail_;          // the last bytes, after `lost`
  std::optional<Done> last_;  // the last token, if it is of the DONE family
  // --- the current result ---
  std::vector<TypeInfo> columns_;
  std::size_t columns_left_ = 0;
  std::size_t column_ = 0;
  std::string nulls_;  // the null bitmap of an NBCROW
  // --- the current value ---
  TypeInfo type_;
  ValueStep value_step_ = ValueStep::begin;
  bool keep_ = false;  // it is the value of a RETURNVALUE
  ReturnValue value_;
  std::string value_name_, value_data_;
};

// --- tokens that a proxy sends itself; each function appends one to a payload ---

void append_done(std::string& out, const Done& done, std::uint32_t tds_version);
// `text` and `server` are UTF-8, and are cut after 2000 and 128 units of UTF-16.
void append_report(std::string& out, std::uint8_t token, std::uint32_t number,
                   std::uint8_t severity, std::string_view text, std::string_view server,
                   std::uint32_t tds_version);
// For the types 8 to 12, 17 and 18, whose values are bytes: `now` and `before` have at most 255
// each.
void append_environment_change(std::string& out, std::uint8_t type, std::string_view now,
                               std::string_view before);

}  // namespace termgate::tds
