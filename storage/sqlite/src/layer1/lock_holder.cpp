// Which process holds the file's write lock, for a TG006 that names it. Reads /proc.
#include <termgate/detail/sqlite/layer1.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include <termgate/detail/sqlite/errors.hpp>
#include <termgate/error.hpp>

#include "common.hpp"
#include "unit.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlite {
namespace {

std::string process_name(long pid) {
  const std::string name = first_line(fmt::format("/proc/{}/comm", pid));
  return name.empty() ? fmt::format("process {}", pid) : fmt::format("process {} ({})", pid, name);
}

}  // namespace

// Reads the kernel's list of locks by byte and file. No file is opened, because closing a
// descriptor of the database would drop this process's own locks on it.
long lock_owner(std::istream& locks, const std::vector<std::string>& files, long long first_byte,
                long long last_byte) {
  std::string line;
  while (std::getline(locks, line)) {
    std::istringstream fields(line);
    std::string number, kind, advice, mode, pid_text, file, first, last;
    fields >> number >> kind;
    if (kind == "->") continue;
    fields >> advice >> mode >> pid_text >> file >> first >> last;
    if (std::find(files.begin(), files.end(), file) == files.end()) continue;
    const long long low = std::atoll(first.c_str());
    const long long high = last == "EOF" ? low : std::atoll(last.c_str());
    if (high < first_byte || low > last_byte) continue;
    if (const long pid = std::atol(pid_text.c_str()); pid > 0) return pid;
  }
  return 0;
}

namespace {

// The kernel's name of the file in that list, "08:01:4711": device and inode. The device matters
// because every file system counts its inodes from 1. It is the file system's own device, which on
// btrfs and overlays differs from stat()'s; there it is read from the mount table.
std::vector<std::string> lock_names(const std::string& path) {
  struct statx status {};
  if (statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC, STATX_INO | STATX_MNT_ID, &status) != 0)
    return {};
  std::vector<std::string> names{
      fmt::format("{:02x}:{:02x}:{}", status.stx_dev_major, status.stx_dev_minor, status.stx_ino)};
  if ((status.stx_mask & STATX_MNT_ID) == 0) return names;
  std::ifstream mounts("/proc/self/mountinfo");
  std::string line;
  while (std::getline(mounts, line)) {
    unsigned long long id = 0;
    unsigned major = 0, minor = 0;
    if (std::sscanf(line.c_str(), "%llu %*d %u:%u", &id, &major, &minor) == 3 &&
        id == status.stx_mnt_id) {
      names.push_back(fmt::format("{:02x}:{:02x}:{}", major, minor, status.stx_ino));
      break;
    }
  }
  return names;
}

}  // namespace

int lock_holder_pid(sqlite3* db) {
  const char* path = sqlite3_db_filename(db, "main");
  if (path == nullptr || *path == '\0') return 0;
  struct Wanted {
    std::string path;
    long long first, last;
  };
  // SQLite's file format, "locking": the WAL's write lock is byte 120 of the -shm file; in
  // rollback-journal mode the pending, reserved and shared bytes are at 2^30 and after.
  const Wanted places[] = {{std::string(path) + "-shm", 120, 120},
                           {path, 0x40000000, 0x40000001 + 510}};
  for (const Wanted& place : places) {
    std::ifstream locks("/proc/locks");
    const long pid = lock_owner(locks, lock_names(place.path), place.first, place.last);
    if (pid > 0) return static_cast<int>(pid);
  }
  return 0;
}

std::string lock_holder(sqlite3* db) {
  const int pid = lock_holder_pid(db);
  if (pid == 0) return "another connection";
  return pid == getpid() ? "another connection of this process" : process_name(pid);
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
