// Opens the SQLite driver. Internal; no SQLite type appears here.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include <termgate/detail/driver.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

struct SqliteOptions {
  int connections_max;  // one writes, the others read
  // How long a call waits for its turn, another process's lock or a reader; none: the setting
  // check_wait_ms (and 5 s for a free connection to read with).
  std::optional<std::chrono::milliseconds> check_wait;
};

// `path_and_options` is what follows "sqlite:": PATH or :memory:, then
// ?journal_mode=wal|delete|truncate|persist and &synchronous=extra|full|normal|off. Without them a
// new file becomes WAL, an existing one keeps its mode, and synchronous is extra: full, and in mode
// delete the removal of the journal, which is the commit, is flushed too. Throws InvalidInput for
// options that it does not know, Unavailable for a directory. The file is opened at first use, and
// created by install() only.
std::unique_ptr<Driver> open_sqlite(std::string_view path_and_options,
                                    const SqliteOptions& options);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
