// Limits on what a client may send and receive. Each has a name here, and each error names the
// limit that was exceeded.
#pragma once

#include <cstddef>

namespace termgate::hrana {

inline constexpr std::size_t json_depth_max = 64;
inline constexpr std::size_t requests_max =
    4096;  // requests of a pipeline, steps of a batch, statements of a v0 call
inline constexpr std::size_t condition_depth_max = 16;
inline constexpr std::size_t condition_parts_max =
    4096;  // conditions inside one condition, in total
inline constexpr std::size_t parameters_max = 32766;
inline constexpr std::size_t stored_sql_max = 50;  // texts of a stream
inline constexpr std::size_t socket_stored_sql_max =
    128;  // texts of a WebSocket connection, whose clients store up to 100
inline constexpr std::size_t stored_sql_bytes_max = std::size_t{64} << 10;
inline constexpr std::size_t text_bytes_max = std::size_t{1} << 20;       // one statement's text
inline constexpr std::size_t sequence_bytes_max = std::size_t{16} << 20;  // a sequence's text
inline constexpr std::size_t value_bytes_max = std::size_t{64} << 20;
inline constexpr std::size_t answer_bytes_max = std::size_t{64}
                                                << 20;  // the default; --max-answer-bytes
inline constexpr std::size_t message_bytes_max =
    2048;  // an error's text, which SQLite may build from a client's text
inline constexpr std::size_t unanswered_max = 128;  // unanswered requests of a WebSocket connection
inline constexpr std::size_t socket_streams_max = 4096;  // open streams of a WebSocket connection
inline constexpr std::size_t socket_cursors_max = 64;    // open cursors of a WebSocket connection

}  // namespace termgate::hrana
