// A raise must not be undone by a crash (F3): what SQLite flushes at its commit, and the folder
// that it does not flush.
#include <termgate/detail/sqlite/core.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include <termgate/detail/sqlite/errors.hpp>
#include <termgate/error.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

std::string RaiseFlush::problem(bool* folder) {
  const char* path = sqlite3_db_filename(core_.connection(), "main");
  if (path == nullptr || *path == '\0') return {};  // in memory: nothing outlives the process
  // A PRAGMA's answer is fixed when it is prepared, so these two are prepared each time.
  Statement synchronous(core_.connection(), "PRAGMA main.synchronous");
  Running level(synchronous.get());
  if (!level.step() || level.integer(0) < 2) {
    return fmt::format("PRAGMA synchronous is {}: set it to FULL, outside a transaction",
                       level.integer(0) == 0 ? "OFF" : "NORMAL");
  }
  Statement journal(core_.connection(), "PRAGMA main.journal_mode");
  Running mode(journal.get());
  if (!mode.step() || mode.text(0) == "off")
    return "PRAGMA journal_mode is OFF, so nothing can be rolled back";
  // Connections that share a cache also share its flushing: the one that set its synchronous last
  // decides for all.
  int used = 0, share = 0, most = 0;
  if (sqlite3_db_status(core_.connection(), SQLITE_DBSTATUS_CACHE_USED, &used, &most, 0) ==
          SQLITE_OK &&
      sqlite3_db_status(core_.connection(), SQLITE_DBSTATUS_CACHE_USED_SHARED, &share, &most, 0) ==
          SQLITE_OK &&
      used != share) {
    return "another connection of this process shares its cache, and with it decides what is "
           "flushed: open it without cache=shared";
  }
  if (folder != nullptr) *folder = mode.text(0) == "delete" && level.integer(0) == 2;
  return {};
}

void RaiseFlush::require(std::string_view scope, std::int64_t term) {
  bool folder = false;
  if (const std::string problem = this->problem(&folder); !problem.empty()) {
    wanted_ = true;
    throw InvalidInput(
        fmt::format("TG005 the fence of scope \"{}\" cannot be raised to {}, for a crash could "
                    "take it back: {}",
                    scope, term, problem));
  }
  if (!folder) return;
  // In mode DELETE a commit is the removal of the journal. FULL, unlike EXTRA, does not flush the
  // folder, so after a power failure the journal may be back and undo the raise (F3). Therefore
  // this flushes it.
  needs_folder_ = true;
}

// A folder that cannot be flushed is noticed now instead of after the commit.
std::optional<FileWatch::Problem> RaiseFlush::before_commit() {
  if (!needs_folder_) return std::nullopt;
  const std::string folder =
      std::filesystem::path(sqlite3_db_filename(core_.connection(), "main")).parent_path();
  folder_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ >= 0 && fsync(folder_) == 0) return std::nullopt;
  return FileWatch::Problem{
      SQLITE_CANTOPEN,
      fmt::format(
          "the folder {} cannot be flushed ({}), so a crash could take back the raise: nothing was "
          "written; PRAGMA journal_mode = WAL needs no such flush",
          folder, std::strerror(errno))};
}

void RaiseFlush::ended(bool committed) noexcept {
  const int folder = std::exchange(folder_, -1);
  if (std::exchange(needs_folder_, false) && committed) {
    if (folder >= 0 && fsync(folder) == 0) ++folders_;
    else failed_ = true;
  }
  if (folder >= 0) close(folder);
}

// SQLite reports a commit when it can no longer fail, so the next call throws the failure; a call
// that commits by itself throws it before it returns.
void RaiseFlush::report_failure() {
  if (!std::exchange(failed_, false)) return;
  throw OutcomeUnknown(
      "a fence was raised by the last COMMIT and the flush of its folder failed: a power cut could "
      "take the raise back",
      std::string(code_name(SQLITE_IOERR_DIR_FSYNC)));
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
