// Any thread may call now(). The constructor looks once; later look() runs on the Authority's
// looker thread. A term lower than one that any file has shown for the scope is stale: restoring an
// old file must not make an old leader current.
#include <termgate/authority/term_file.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace termgate::authority {
namespace {

// Size, times and the inode, so that a rename over the file is seen even within one clock tick.
std::string what_stat_says(const struct stat& file) {
  return fmt::format("{}:{}:{}:{}.{}:{}.{}", file.st_dev, file.st_ino, file.st_size,
                     file.st_mtim.tv_sec, file.st_mtim.tv_nsec, file.st_ctim.tv_sec,
                     file.st_ctim.tv_nsec);
}

conversation::TermSource::Standing nothing(std::string why, const char* code) {
  conversation::TermSource::Standing standing;
  standing.why_not = std::move(why);
  standing.problem_code = code;
  return standing;
}

}  // namespace

std::int64_t HighestTerms::saw(const std::string& scope, std::int64_t term) {
  const std::lock_guard lock(mutex_);
  auto& highest = highest_[scope];
  highest = std::max(highest, term);
  return highest;
}

std::int64_t HighestTerms::of(const std::string& scope) const {
  const std::lock_guard lock(mutex_);
  const auto found = highest_.find(scope);
  return found == highest_.end() ? 0 : found->second;
}

TermFile::TermFile(std::string path, std::shared_ptr<HighestTerms> highest)
    : path_(std::move(path)), highest_(std::move(highest)), seen_("not yet") {
  look();
}

void TermFile::look() {
  struct stat file {};
  const std::string says =
      stat(path_.c_str(), &file) == 0 ? what_stat_says(file) : fmt::format("error {}", errno);
  if (says == seen_) return;
  // Recorded before the read, so that the next look sees a change in between.
  seen_ = says;
  Standing standing = read();
  const std::lock_guard lock(mutex_);
  standing_ = std::move(standing);
}

conversation::TermSource::Standing TermFile::read() {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    if (errno == ENOENT || errno == ENOTDIR)
      return nothing(fmt::format("the file {} is not there", path_), "TG002");
    return nothing(fmt::format("the file {} cannot be read: {}", path_, std::strerror(errno)),
                   "TG005");
  }
  // Reads one byte more than is allowed, to detect a file that is too long.
  std::string text(bytes_max + 1, '\0');
  std::size_t length = 0;
  for (;;) {
    const ssize_t got = ::read(descriptor, text.data() + length, text.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int error = errno;
      close(descriptor);
      return nothing(fmt::format("the file {} cannot be read: {}", path_, std::strerror(error)),
                     "TG005");
    }
    length += static_cast<std::size_t>(got);
    if (got == 0 || length == text.size()) break;
  }
  close(descriptor);
  if (length > bytes_max)
    return nothing(
        fmt::format("the file {} is malformed: it has more than {} bytes", path_, bytes_max),
        "TG005");
  text.resize(length);
  auto declaration = read_declaration(text);
  if (!declaration.problem.empty())
    return nothing(fmt::format("the file {} is malformed: {}", path_, declaration.problem),
                   "TG005");
  const std::int64_t highest = highest_->saw(declaration.scope->name(), declaration.term->value());
  if (declaration.term->value() < highest)
    return fell_back(*declaration.scope, *declaration.term, highest);
  Standing standing;
  standing.scope = std::move(declaration.scope);
  standing.term = declaration.term;
  return standing;
}

conversation::TermSource::Standing TermFile::now() const {
  Standing standing;
  {
    const std::lock_guard lock(mutex_);
    standing = standing_;
  }
  if (!standing.term) return standing;
  // Another file may have shown a higher term since this one was read.
  const std::int64_t highest = highest_->of(standing.scope->name());
  return standing.term->value() < highest ? fell_back(*standing.scope, *standing.term, highest)
                                          : standing;
}

conversation::TermSource::Standing TermFile::fell_back(const Scope& scope, Term term,
                                                       std::int64_t highest) const {
  return nothing(
      fmt::format("stale term {} for scope \"{}\": the file {} fell back, {} was shown before",
                  term.value(), scope.name(), path_, highest),
      "TG001");
}

}  // namespace termgate::authority
