// A large payload on its way to SQL Server: in pieces, each a statement of its own, into a temporary table of the session, and put together
// there before the statement that uses it takes any lock. A driver copies what is bound (FreeTDS: all of it), so that no more than a piece
// is ever held besides the payload itself.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <termgate/value.hpp>

#include <termgate/detail/odbc/connection.hpp>

namespace termgate::inline v0::detail::odbc {

// A payload of more bytes travels in pieces of so many; one that is read comes in parts of so many. Room for its copies in driver and
// server, and few enough of them (64 for 1 GiB) that their round trips are not felt.
constexpr std::size_t payload_piece_bytes = std::size_t{16} << 20;

// How long the next statement may take. Throws Unavailable where the time of the whole is over: nothing was written.
using NextLimit = std::function<milliseconds()>;

// Sends the pieces. Throws OdbcError, as Connection does.
void bring_pieces(Connection& connection, std::string_view payload, const NextLimit& limit);

// The text that makes @termgate_payload of them, to be sent in front of a statement that uses it; `$<bytes_parameter>` is the length that
// is due. The server refuses what arrived otherwise (TG005), and empties the table.
std::string joining_text(std::size_t bytes_parameter);

// The rows of a batch into #termgate_batch, from where calls/append_many.sql has them. `ids`: as many as payloads, or none.
void bring_batch(Connection& connection, std::span<const std::string> payloads, const TextArray* ids, const NextLimit& limit);

// After a call outside a transaction (one would undo it itself): what was brought leaves the server's memory. A connection that cannot do
// that is given up.
void clear_pieces(Connection& connection, milliseconds limit) noexcept;

// `$<number>` outside of longer numbers becomes `instead`.
std::string with_parameter(std::string_view text, std::size_t number, std::string_view instead);

}  // namespace termgate::inline v0::detail::odbc
