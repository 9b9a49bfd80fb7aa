// Whoever can read a term for the scope in the file leads under it for as long as the file shows
// it; reading it again is the renewal. The elector guarantees the rest: that a term is shown on one
// machine only, and that each is higher than the last.
#include <termgate/sources/file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <termgate/detail/term_declaration.hpp>
#include <termgate/error.hpp>

namespace termgate::sources {
namespace {

using std::chrono::milliseconds;

class File final : public LeaseSource {
 public:
  static constexpr std::size_t bytes_max = 4096;

  explicit File(const SourceUrl& url) : path_(url.path) {
    if (!url.hosts.empty() || !url.user.empty() || !url.options.empty() || path_.size() < 2)
      throw InvalidInput(
          "TG005 the URL of the term source: file:///PATH, with the whole path and nothing else");
  }

  std::string name() const override { return "file://" + path_; }
  bool new_term_each_time() const override { return false; }

  std::optional<SourceLease> try_acquire(const Scope& scope, const std::string&,
                                         milliseconds) override {
    const std::optional<Term> term = shown(scope);
    return term ? std::optional(SourceLease{*term}) : std::nullopt;
  }
  bool renew(const Scope& scope, const SourceLease& lease, const std::string&,
             milliseconds) override {
    return shown(scope) == lease.term;
  }
  bool release(const Scope& scope, const SourceLease& lease, const std::string&) override {
    return shown(scope) == lease.term;
  }

 private:
  // None: the file does not exist, or has no term for this scope.
  std::optional<Term> shown(const Scope& scope) const {
    const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
      if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
      throw Unavailable(fmt::format("the file {} cannot be read: {}", path_, std::strerror(errno)));
    }
    std::string text(bytes_max + 1, '\0');
    std::size_t length = 0;
    int error = 0;
    for (;;) {
      const ssize_t got = read(descriptor, text.data() + length, text.size() - length);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) error = errno;
      else length += static_cast<std::size_t>(got);
      if (got <= 0 || length == text.size()) break;
    }
    close(descriptor);
    if (error != 0)
      throw Unavailable(fmt::format("the file {} cannot be read: {}", path_, std::strerror(error)));
    if (length > bytes_max)
      throw DatabaseError(
          fmt::format("the file {} is malformed: it has more than {} bytes", path_, bytes_max));
    text.resize(length);
    const auto declaration = detail::read_term_declaration(text);
    if (!declaration.problem.empty())
      throw DatabaseError(fmt::format("the file {} is malformed: {}", path_, declaration.problem));
    return declaration.scope == scope ? declaration.term : std::nullopt;
  }

  const std::string path_;
};

}  // namespace

std::unique_ptr<LeaseSource> open_file(const SourceUrl& url) { return std::make_unique<File>(url); }

}  // namespace termgate::sources
