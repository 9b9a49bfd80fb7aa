// FileWatch: whether the file that a connection has open is still the one that its path names.
//
// A connection goes on writing to the file that it has opened, whatever became of the path: a restore by rename or a
// new file at the same place leaves it writing where nobody reads any more, and past the fences of the new file (F2).
// SQLite knows (SQLITE_FCNTL_HAS_MOVED) and does not ask by itself.
//
// What cannot be known: that a copy was written over the same file in place (docs/reference/lock-protocol.md, "SQLite").
// One thread at a time, like the connection.
#pragma once

#include <termgate/detail/sqlite/sqlite_api.hpp>

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>

namespace termgate::inline v0::sqlite {

class FileWatch {
 public:
  // Soon after the connection was opened. `path`: as its user named it; symbolic links in it are followed anew at each
  // question. Empty, or a file without a name: nothing is ever moved.
  void begin(sqlite3* db, const std::string& path);
  // From now on the write-ahead log and its index must stay the files that they are. After the connection has read.
  void know_log() noexcept;
  // `writing`: the connection holds the write lock, so that its log must be there. A few stat() calls.
  bool moved(bool writing) noexcept;
  // The same without a question to SQLite: of a copy that another thread has. A link that was made to follow the moved
  // file looks as before.
  bool replaced() const noexcept;
  const std::string& path() const noexcept { return path_; }

 private:
  struct Identity {
    dev_t device;
    ino_t inode;
    bool operator==(const Identity&) const = default;
  };
  static std::optional<Identity> identity_of(const std::string& path) noexcept;
  bool uses_log() const noexcept;

  sqlite3* db_ = nullptr;
  std::string path_;
  std::optional<Identity> file_;
  struct Beside {
    std::string path;
    std::optional<Identity> file;
  };
  std::array<Beside, 2> log_;  // -wal, -shm
};

}  // namespace termgate::inline v0::sqlite
