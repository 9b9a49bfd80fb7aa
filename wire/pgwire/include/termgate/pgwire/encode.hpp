// Appends the messages that a proxy makes itself to a buffer. A text is cut at its first NUL, so
// that a value cannot insert a message of its own into the stream. Throws only std::bad_alloc, and
// std::length_error for a message of more than 2 GB or with more than 65,535 entries; then `out` is
// unchanged. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <termgate/pgwire/decode.hpp>

namespace termgate::pgwire {

// A value of Bind or DataRow; nullopt is NULL.
using Field = std::optional<std::string_view>;

// --- to a client ---

// Empty `fields` are left out. S, V, C and M should be present.
void append_error_response(std::string& out, const ReportFields& fields);
void append_notice_response(std::string& out, const ReportFields& fields);
// An ordinary report: severity ("ERROR", "FATAL") in S and V, SQLSTATE, message.
ReportFields report(std::string_view severity, std::string_view sqlstate,
                    std::string_view message) noexcept;

void append_ready_for_query(std::string& out, TransactionStatus status);
void append_parameter_status(std::string& out, std::string_view name, std::string_view value);
void append_backend_key_data(std::string& out, std::uint32_t pid, std::string_view key);
// `payload` as in Authentication; for sasl, append_authentication_sasl() adds the NULs of the
// mechanisms' names.
void append_authentication(std::string& out, Authentication::Type type,
                           std::string_view payload = {});
void append_authentication_sasl(std::string& out, std::span<const std::string_view> mechanisms);
void append_negotiate_protocol_version(std::string& out, std::uint16_t minor,
                                       std::span<const std::string_view> refused_extensions);
void append_command_complete(std::string& out, std::string_view tag);
void append_notification_response(std::string& out, std::uint32_t pid, std::string_view channel,
                                  std::string_view payload);

struct Column {
  std::string_view name;
  std::uint32_t table_oid = 0;
  std::uint16_t attribute = 0;
  std::uint32_t type_oid = 25;  // text
  std::int16_t type_size = -1;
  std::int32_t type_modifier = -1;
  std::uint16_t format = 0;  // 0 text, 1 binary
};
void append_row_description(std::string& out, std::span<const Column> columns);
void append_data_row(std::string& out, std::span<const Field> values);

// Messages without a body, to either side: ParseComplete, BindComplete, CloseComplete, NoData,
// EmptyQueryResponse, PortalSuspended, CopyDone; Sync, Flush, Terminate. `type` is one of
// types.hpp.
void append_bare(std::string& out, char type);
// CopyData, and messages with an opaque body: PasswordMessage, SASLResponse and the like.
void append_opaque(std::string& out, char type, std::string_view body);

// --- to a server ---

void append_query(std::string& out, std::string_view sql);
void append_parse(std::string& out, std::string_view statement, std::string_view sql,
                  std::span<const std::uint32_t> parameter_types = {});
// Formats: none (all text), one for all, or one for each; 0: text, 1: binary.
void append_bind(std::string& out, std::string_view portal, std::string_view statement,
                 std::span<const Field> values,
                 std::span<const std::uint16_t> parameter_formats = {},
                 std::span<const std::uint16_t> result_formats = {});
void append_describe_statement(std::string& out, std::string_view statement);
void append_describe_portal(std::string& out, std::string_view portal);
void append_execute(std::string& out, std::string_view portal, std::uint32_t rows_max = 0);
void append_close_statement(std::string& out, std::string_view statement);
void append_close_portal(std::string& out, std::string_view portal);
void append_copy_fail(std::string& out, std::string_view message);

}  // namespace termgate::pgwire
