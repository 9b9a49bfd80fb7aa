// Reports each refusal of a stale term to a drill's witness, if there is one.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include <termgate/error.hpp>

#include "common.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlite {
namespace {

// Layer 1 runs inside the writer's own process, so nobody outside sees what it refuses. For a drill
// (docs/use/drill.md) TERMGATE_WITNESS names a file that gets a line for each refused write, "TG001
// term scope", and for each refused seal, "seal term scope". It must be an existing, regular file;
// whatever goes wrong here changes nothing about the refusal.
void report_to_witness(const char* kind, std::string_view scope, std::int64_t term) noexcept {
  const char* path = secure_getenv("TERMGATE_WITNESS");
  if (path == nullptr || *path == '\0') return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return;
  struct stat what {};
  std::array<char, 1024> line;
  const int size =
      std::snprintf(line.data(), line.size(), "%s %lld %.*s\n", kind, static_cast<long long>(term),
                    static_cast<int>(scope.size()), scope.data());
  if (fstat(file, &what) == 0 && S_ISREG(what.st_mode) && size > 0 &&
      size < static_cast<int>(line.size()))
    static_cast<void>(!write(file, line.data(), static_cast<std::size_t>(size)));
  close(file);
}

[[noreturn]] void refuse_stale(std::string_view scope, std::int64_t term, std::int64_t fence) {
  throw StaleTerm(fmt::format("TG001 stale term {} for scope \"{}\": the fence stands at {}", term,
                              scope, fence),
                  std::string(scope), term, fence);
}

}  // namespace

[[noreturn]] void refuse_stale_write(std::string_view scope, std::int64_t term,
                                     std::int64_t fence) {
  report_to_witness("TG001", scope, term);
  refuse_stale(scope, term, fence);
}

[[noreturn]] void refuse_stale_seal(std::string_view scope, std::int64_t term, std::int64_t fence) {
  report_to_witness("seal", scope, term);
  refuse_stale(scope, term, fence);
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
