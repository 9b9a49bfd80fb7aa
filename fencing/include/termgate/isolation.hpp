// Isolation levels by their SQL names. The check is right at every one of them
// (docs/reference/lock-protocol.md).
#pragma once

namespace termgate {
inline namespace v0 {

// SQLite knows one level, serializable, and takes them all as that.
enum class Isolation { database_default, read_committed, repeatable_read, serializable };

}  // namespace v0
}  // namespace termgate
