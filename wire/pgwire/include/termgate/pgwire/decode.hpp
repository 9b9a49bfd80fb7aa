// Decodes bodies of messages, as far as a decision needs them. A function takes the body of one
// whole message (Event::body), checks it to its end, and returns views into it, or why it is
// malformed. If its argument is named `head`, the first bytes are enough, and the rest is not
// checked. Except for decode_parse_types(), none allocates or throws. Any thread. What a proxy only
// passes on (rows, values, passwords, SASL data) is not decoded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <termgate/pgwire/malformed.hpp>

namespace termgate::pgwire {

// --- from a client ---

struct Query {
  std::string_view sql;
};
Decoded<Query> decode_query(std::string_view body) noexcept;

struct Parse {
  std::string_view statement;  // empty: the unnamed one
  std::string_view sql;
  std::uint16_t parameter_types = 0;
};
Decoded<Parse> decode_parse(std::string_view body) noexcept;
// The OIDs of its parameters' types; 0: unspecified. Takes a body that decode_parse() has accepted.
std::vector<std::uint32_t> decode_parse_types(std::string_view body);

// Names and counts. The lengths of all values are checked, the values are not read.
struct Bind {
  std::string_view portal;
  std::string_view statement;
  std::uint16_t parameter_formats = 0;
  std::uint16_t parameters = 0;
  std::uint16_t result_formats = 0;
};
Decoded<Bind> decode_bind(std::string_view body) noexcept;

// Only the names, from the first bytes of a Bind that is streamed. Names that do not end within
// `head` are malformed: no reasonable client has names of kilobytes, and no server keeps more than
// 63 bytes of one.
struct BindNames {
  std::string_view portal;
  std::string_view statement;
};
Decoded<BindNames> decode_bind_names(std::string_view head) noexcept;

// Describe and Close.
struct Named {
  bool portal = false;  // false: a prepared statement
  std::string_view name;
};
Decoded<Named> decode_describe(std::string_view body) noexcept;
Decoded<Named> decode_close(std::string_view body) noexcept;

struct Execute {
  std::string_view portal;
  std::uint32_t rows_max = 0;  // 0: all
};
Decoded<Execute> decode_execute(std::string_view body) noexcept;

struct FunctionCallHead {
  std::uint32_t function_oid = 0;
};
// `head`: at least the first 4 bytes of the body.
Decoded<FunctionCallHead> decode_function_call_head(std::string_view head) noexcept;

// --- from a server ---

// The fields of an ErrorResponse or NoticeResponse by their letter ("Error and Notice Message
// Fields", protocol-error-fields.html). A missing field is an empty view, even the SQLSTATE.
// append_error_response() takes the same type, so a relayed report can be changed in one field:
// decode, set, append.
class ReportFields {
 public:
  // S severity · V severity, never translated · C SQLSTATE · M message · D detail · H hint · P
  // position · p internal position q internal query · W where · s schema · t table · c column · d
  // data type · n constraint · F file · L line · R routine
  static constexpr std::string_view letters = "SVCMDHPpqWstcdnFLR";

  std::string_view operator[](char letter) const noexcept;
  // Ignores a letter that is not one of `letters`, as the protocol requires.
  void set(char letter, std::string_view text) noexcept;

  std::string_view sqlstate() const noexcept { return (*this)['C']; }
  std::string_view message() const noexcept { return (*this)['M']; }
  // FATAL or PANIC: the server closes the connection after it.
  bool ends_connection() const noexcept;

 private:
  std::array<std::string_view, letters.size()> fields_{};
};
// ErrorResponse and NoticeResponse.
Decoded<ReportFields> decode_report(std::string_view body) noexcept;

enum class TransactionStatus : char { idle = 'I', in_block = 'T', failed = 'E' };
Decoded<TransactionStatus> decode_ready_for_query(std::string_view body) noexcept;

struct ParameterStatus {
  std::string_view name;
  std::string_view value;
};
Decoded<ParameterStatus> decode_parameter_status(std::string_view body) noexcept;

// Protocol 3.0: a key of 4 bytes; 3.2: 4 to 256.
struct BackendKeyData {
  std::uint32_t pid = 0;
  std::string_view key;
};
Decoded<BackendKeyData> decode_backend_key_data(std::string_view body) noexcept;

struct Authentication {
  enum class Type : std::uint32_t {
    ok = 0,
    kerberos_v5 = 2,
    cleartext_password = 3,
    md5_password = 5,
    gss = 7,
    gss_continue = 8,
    sspi = 9,
    sasl = 10,
    sasl_continue = 11,
    sasl_final = 12,
  };
  Type type = Type::ok;
  std::string_view payload;  // md5: the 4 bytes of salt; sasl: the names of mechanisms; *_continue,
                             // *_final: opaque

  // Whether the server's list of mechanisms contains this one.
  bool offers(std::string_view mechanism) const noexcept;
};
// An authentication of a kind that is not listed above is malformed, because a proxy would not know
// which side sends next.
Decoded<Authentication> decode_authentication(std::string_view body) noexcept;

}  // namespace termgate::pgwire
