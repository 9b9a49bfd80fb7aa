// A file that a leader election writes: one line `scope=… term=…`, values URL-encoded, replaced by
// rename (docs/contract.md, section 5.1).
//
// If the file is missing, there is no term (TG002). If it is malformed or cannot be read: TG005. If
// its term is lower than one that any file has shown for the same scope: TG001. The file is checked
// with stat, not inotify: a change on an NFS server, or of a parent folder, as with a ConfigMap,
// raises no event in the file's own folder; a folder that does not exist yet cannot be watched; and
// a few stats a second cost almost nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <termgate/detail/term_declaration.hpp>
#include <termgate/conversation/admission.hpp>

namespace termgate::authority {

using FileDeclaration = detail::TermDeclaration;
inline FileDeclaration read_declaration(std::string_view text) {
  return detail::read_term_declaration(text);
}

// The highest term that any file has shown for a scope since the process started. Any thread.
class HighestTerms {
 public:
  // Returns the highest term so far, this one included.
  std::int64_t saw(const std::string& scope, std::int64_t term);
  std::int64_t of(const std::string& scope) const;  // 0: none

 private:
  mutable std::mutex mutex_;  // guards highest_
  std::map<std::string, std::int64_t> highest_;
};

class TermFile final : public conversation::TermSource {
 public:
  static constexpr std::size_t bytes_max = 4096;

  // `highest` is shared by all files of the process. Reads the file at once.
  TermFile(std::string path, std::shared_ptr<HighestTerms> highest);

  // Reads the file again if it has changed. One thread at a time; may block as long as the file
  // system does.
  void look();
  Standing now() const override;
  const std::string& path() const noexcept { return path_; }

 private:
  Standing read();
  Standing fell_back(const Scope& scope, Term term, std::int64_t highest) const;

  const std::string path_;
  const std::shared_ptr<HighestTerms> highest_;
  std::string seen_;          // the result of the last stat; only look() uses it
  mutable std::mutex mutex_;  // guards standing_
  Standing standing_;
};

}  // namespace termgate::authority
