// Names of prepared statements and portals: as the server compares them, and which are reserved for
// the proxy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace termgate::pg_session {

// A client's prepared statements beyond this number count as unknown, hence as writes; so do its
// portals.
constexpr std::size_t names_max = 20'000;

// Objects of users have this OID or a higher one (FirstNormalObjectId).
constexpr std::uint32_t first_user_oid = 16'384;

// How much of a unit's text is kept for the log, which shows its first words.
constexpr std::size_t unit_text_bytes = 80;

// The server truncates names to this length (NAMEDATALEN - 1).
inline std::string_view cut(std::string_view name) noexcept { return name.substr(0, 63); }

inline bool has_high_byte(std::string_view text) noexcept {
  return std::any_of(text.begin(), text.end(),
                     [](char byte) { return static_cast<unsigned char>(byte) >= 0x80; });
}

// A name that is not ASCII means another name under another client_encoding, and SQL truncates a
// long one between two characters, so that it may equal a shorter one. A statement or portal with
// such a name counts as unknown.
inline bool may_be_another(std::string_view name) noexcept { return has_high_byte(name); }

inline bool is_reserved(std::string_view name) noexcept { return name.starts_with("_termgate"); }

// SQLSTATE admin_shutdown. A connection pool takes it for a server that shuts down, and connects
// again.
inline constexpr std::string_view stale_ends = "57P01";

}  // namespace termgate::pg_session
