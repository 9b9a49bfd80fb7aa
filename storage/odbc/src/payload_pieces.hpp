// Sends a large payload to SQL Server in pieces, each by a separate statement, into a temporary
// table of the session. There they are joined before the statement that uses the payload takes any
// lock. A driver copies what is bound (FreeTDS: all of it), so at most one piece is held besides
// the payload itself.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <termgate/value.hpp>

#include <termgate/detail/odbc/connection.hpp>

namespace termgate {
inline namespace v0 {
namespace detail::odbc {

// A payload of more bytes is sent, and read, in pieces of this size: small enough for several
// copies in driver and server, and large enough that the round trips do not matter (64 for 1 GiB).
constexpr std::size_t payload_piece_bytes = std::size_t{16} << 20;

// How long the next statement may take. Throws Unavailable if the total time is over: nothing was
// written.
using NextLimit = std::function<milliseconds()>;

// Sends the pieces. Throws OdbcError, as Connection does.
void bring_pieces(Connection& connection, std::string_view payload, const NextLimit& limit);

// The text that joins them in @termgate_payload, to be sent in front of a statement that uses it;
// `$<bytes_parameter>` is the expected length. The server refuses any other length (TG005), and
// empties the table.
std::string joining_text(std::size_t bytes_parameter);

// Puts the rows of a batch into #termgate_batch, which calls/append_many.sql reads. `ids`: as many
// as payloads, or none.
void bring_batch(Connection& connection, std::span<const std::string> payloads,
                 const TextArray* ids, const NextLimit& limit);

// Removes the pieces and the batch from the server's memory after a call outside a transaction.
// Inside one, joining them empties the table, or the rollback does. A connection that cannot do
// that is closed.
void clear_pieces(Connection& connection, milliseconds limit) noexcept;

// Replaces `$<number>` by `instead`, but not inside longer numbers.
std::string with_parameter(std::string_view text, std::size_t number, std::string_view instead);

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
