// The numeric constants of TDS: packet types and their status bits, tokens of a server's answer,
// types of environment changes, procedures that an RPC identifies by number ([MS-TDS] 2.2.3.1.1,
// 2.2.4, 2.2.6.6, 2.2.7).
#pragma once

#include <cstdint>

namespace termgate::tds {

// The protocol versions as in LOGIN7 and LOGINACK, read as one number.
namespace version {
inline constexpr std::uint32_t v7_0 = 0x70000000;
inline constexpr std::uint32_t v7_1 = 0x71000000;
inline constexpr std::uint32_t v7_1_revision_1 = 0x71000001;
inline constexpr std::uint32_t v7_2 = 0x72090002;
inline constexpr std::uint32_t v7_3a = 0x730A0003;
inline constexpr std::uint32_t v7_3b = 0x730B0003;
inline constexpr std::uint32_t v7_4 = 0x74000004;
inline constexpr std::uint32_t v8_0 = 0x08000000;
}  // namespace version

// Layouts changed with 7.2: from then on requests have ALL_HEADERS, counts in DONE have 64 bits,
// user types 32.
constexpr bool is_7_2(std::uint32_t tds_version) noexcept {
  return tds_version >= 0x72000000 || tds_version == version::v8_0;
}

namespace packet {
inline constexpr std::uint8_t sql_batch = 1;
inline constexpr std::uint8_t old_login = 2;
inline constexpr std::uint8_t rpc = 3;
inline constexpr std::uint8_t reply = 4;
inline constexpr std::uint8_t attention = 6;
inline constexpr std::uint8_t bulk = 7;
inline constexpr std::uint8_t federated_token = 8;
inline constexpr std::uint8_t transaction = 14;
inline constexpr std::uint8_t login7 = 16;
inline constexpr std::uint8_t sspi = 17;
inline constexpr std::uint8_t prelogin = 18;
}  // namespace packet

namespace status {
inline constexpr std::uint8_t end_of_message = 0x01;
inline constexpr std::uint8_t ignore =
    0x02;  // together with end_of_message: the client withdraws its own message
inline constexpr std::uint8_t reset = 0x08;
inline constexpr std::uint8_t reset_keep_transaction = 0x10;
inline constexpr std::uint8_t any_reset = reset | reset_keep_transaction;
}  // namespace status

namespace token {
inline constexpr std::uint8_t offset = 0x78;
inline constexpr std::uint8_t return_status = 0x79;
inline constexpr std::uint8_t column_metadata = 0x81;
inline constexpr std::uint8_t alternate_metadata = 0x88;
inline constexpr std::uint8_t data_classification = 0xA3;
inline constexpr std::uint8_t table_name = 0xA4;
inline constexpr std::uint8_t column_info = 0xA5;
inline constexpr std::uint8_t order = 0xA9;
inline constexpr std::uint8_t error = 0xAA;
inline constexpr std::uint8_t info = 0xAB;
inline constexpr std::uint8_t return_value = 0xAC;
inline constexpr std::uint8_t login_ack = 0xAD;
inline constexpr std::uint8_t feature_ack = 0xAE;
inline constexpr std::uint8_t row = 0xD1;
inline constexpr std::uint8_t null_bitmap_row = 0xD2;
inline constexpr std::uint8_t alternate_row = 0xD3;
inline constexpr std::uint8_t environment_change = 0xE3;
inline constexpr std::uint8_t session_state = 0xE4;
inline constexpr std::uint8_t sspi = 0xED;
inline constexpr std::uint8_t federated_info = 0xEE;
inline constexpr std::uint8_t done = 0xFD;
inline constexpr std::uint8_t done_procedure = 0xFE;
inline constexpr std::uint8_t done_in_procedure = 0xFF;
}  // namespace token

namespace done_status {
inline constexpr std::uint16_t more = 0x0001;
inline constexpr std::uint16_t error = 0x0002;
inline constexpr std::uint16_t in_transaction = 0x0004;
inline constexpr std::uint16_t count = 0x0010;
inline constexpr std::uint16_t attention = 0x0020;
inline constexpr std::uint16_t server_error = 0x0100;
}  // namespace done_status

namespace environment {
inline constexpr std::uint8_t database = 1;
inline constexpr std::uint8_t language = 2;
inline constexpr std::uint8_t packet_size = 4;
inline constexpr std::uint8_t collation = 7;
inline constexpr std::uint8_t begin_transaction = 8;
inline constexpr std::uint8_t commit_transaction = 9;
inline constexpr std::uint8_t rollback_transaction = 10;
inline constexpr std::uint8_t enlist_distributed = 11;
inline constexpr std::uint8_t defect_distributed = 12;
inline constexpr std::uint8_t mirroring_partner = 13;
inline constexpr std::uint8_t promote_transaction = 15;
inline constexpr std::uint8_t transaction_manager_address = 16;
inline constexpr std::uint8_t transaction_ended = 17;
inline constexpr std::uint8_t reset_acknowledged = 18;
inline constexpr std::uint8_t user_instance = 19;
inline constexpr std::uint8_t routing = 20;
inline constexpr std::uint8_t enhanced_routing = 21;
}  // namespace environment

namespace prelogin_option {
inline constexpr std::uint8_t version = 0;
inline constexpr std::uint8_t encryption = 1;
inline constexpr std::uint8_t instance = 2;
inline constexpr std::uint8_t thread = 3;
inline constexpr std::uint8_t mars = 4;
inline constexpr std::uint8_t trace = 5;
inline constexpr std::uint8_t federated_required = 6;
inline constexpr std::uint8_t nonce = 7;
inline constexpr std::uint8_t terminator = 0xFF;
}  // namespace prelogin_option

enum class Encryption : std::uint8_t { off = 0, on = 1, not_supported = 2, required = 3 };

namespace feature {
inline constexpr std::uint8_t session_recovery = 0x01;
inline constexpr std::uint8_t federated_authentication = 0x02;
inline constexpr std::uint8_t column_encryption = 0x04;
inline constexpr std::uint8_t global_transactions = 0x05;
inline constexpr std::uint8_t azure_sql_support = 0x08;
inline constexpr std::uint8_t data_classification = 0x09;
inline constexpr std::uint8_t utf8_support = 0x0A;
inline constexpr std::uint8_t azure_dns_caching = 0x0B;
inline constexpr std::uint8_t json = 0x0D;
inline constexpr std::uint8_t vector = 0x0E;
inline constexpr std::uint8_t terminator = 0xFF;
}  // namespace feature

// Requests to the transaction manager (packet type 14).
namespace transaction_request {
inline constexpr std::uint16_t get_dtc_address = 0;
inline constexpr std::uint16_t propagate = 1;
inline constexpr std::uint16_t begin = 5;
inline constexpr std::uint16_t promote = 6;
inline constexpr std::uint16_t commit = 7;
inline constexpr std::uint16_t rollback = 8;
inline constexpr std::uint16_t save = 9;
}  // namespace transaction_request

// Procedures that an RPC may identify by number.
namespace procedure {
inline constexpr std::uint16_t none = 0;
inline constexpr std::uint16_t cursor = 1;
inline constexpr std::uint16_t cursor_open = 2;
inline constexpr std::uint16_t cursor_prepare = 3;
inline constexpr std::uint16_t cursor_execute = 4;
inline constexpr std::uint16_t cursor_prepare_execute = 5;
inline constexpr std::uint16_t cursor_unprepare = 6;
inline constexpr std::uint16_t cursor_fetch = 7;
inline constexpr std::uint16_t cursor_option = 8;
inline constexpr std::uint16_t cursor_close = 9;
inline constexpr std::uint16_t execute_sql = 10;
inline constexpr std::uint16_t prepare = 11;
inline constexpr std::uint16_t execute = 12;
inline constexpr std::uint16_t prepare_execute = 13;
inline constexpr std::uint16_t prepare_execute_rpc = 14;
inline constexpr std::uint16_t unprepare = 15;
}  // namespace procedure

// Types of values ([MS-TDS] 2.2.5.4).
namespace type {
inline constexpr std::uint8_t null = 0x1F;
inline constexpr std::uint8_t image = 0x22;
inline constexpr std::uint8_t text = 0x23;
inline constexpr std::uint8_t unique_identifier = 0x24;
inline constexpr std::uint8_t varbinary_old = 0x25;
inline constexpr std::uint8_t integer_n = 0x26;
inline constexpr std::uint8_t varchar_old = 0x27;
inline constexpr std::uint8_t date = 0x28;
inline constexpr std::uint8_t time = 0x29;
inline constexpr std::uint8_t datetime2 = 0x2A;
inline constexpr std::uint8_t datetime_offset = 0x2B;
inline constexpr std::uint8_t binary_old = 0x2D;
inline constexpr std::uint8_t char_old = 0x2F;
inline constexpr std::uint8_t int1 = 0x30;
inline constexpr std::uint8_t bit = 0x32;
inline constexpr std::uint8_t int2 = 0x34;
inline constexpr std::uint8_t decimal_old = 0x37;
inline constexpr std::uint8_t int4 = 0x38;
inline constexpr std::uint8_t datetime4 = 0x3A;
inline constexpr std::uint8_t float4 = 0x3B;
inline constexpr std::uint8_t money = 0x3C;
inline constexpr std::uint8_t datetime = 0x3D;
inline constexpr std::uint8_t float8 = 0x3E;
inline constexpr std::uint8_t numeric_old = 0x3F;
inline constexpr std::uint8_t variant = 0x62;
inline constexpr std::uint8_t ntext = 0x63;
inline constexpr std::uint8_t bit_n = 0x68;
inline constexpr std::uint8_t decimal_n = 0x6A;
inline constexpr std::uint8_t numeric_n = 0x6C;
inline constexpr std::uint8_t float_n = 0x6D;
inline constexpr std::uint8_t money_n = 0x6E;
inline constexpr std::uint8_t datetime_n = 0x6F;
inline constexpr std::uint8_t money4 = 0x7A;
inline constexpr std::uint8_t int8 = 0x7F;
inline constexpr std::uint8_t varbinary = 0xA5;
inline constexpr std::uint8_t varchar = 0xA7;
inline constexpr std::uint8_t binary = 0xAD;
inline constexpr std::uint8_t character = 0xAF;
inline constexpr std::uint8_t nvarchar = 0xE7;
inline constexpr std::uint8_t nchar = 0xEF;
inline constexpr std::uint8_t user_defined = 0xF0;
inline constexpr std::uint8_t xml = 0xF1;
inline constexpr std::uint8_t table = 0xF3;
}  // namespace type

}  // namespace termgate::tds
