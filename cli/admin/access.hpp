// Who may do what over HTTP: bearer tokens from a file, each with a name (which the audit keeps) and a level. Values; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace termgate::cli::admin {

enum class Level { read = 1, lead, operate };  // each may do what the one before may

struct Caller {
  std::string name;
  Level level;
};

class Access {
 public:
  // A line each: NAME LEVEL TOKEN. Blank lines and those that begin with # count for nothing. Throws UsageError: no such file, a file that
  // others may read, a line that is none of these, a token of fewer than 20 characters or one that occurs twice.
  static Access from_file(const std::string& path);
  static Access from_text(std::string_view text, std::string_view name);

  // By the value of the header Authorization, as "Bearer TOKEN". The time that it takes says nothing of how much of a token was right.
  std::optional<Caller> caller(std::string_view authorization) const;
  bool empty() const { return tokens_.empty(); }

 private:
  struct Token {
    Caller caller;
    std::string secret;
  };
  std::vector<Token> tokens_;
};

}  // namespace termgate::cli::admin
