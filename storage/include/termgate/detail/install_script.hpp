// Everything that init does, as one script that can be read and run without Termgate's command.
// Internal.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace termgate {
inline namespace v0 {
namespace detail {

struct InstallScript {
  std::string kind;  // postgresql, sqlserver or sqlite
  std::string schema = "termgate";
  std::vector<std::string> revokes;                         // roles; PostgreSQL
  std::vector<std::pair<std::string, std::string>> grants;  // role, level
  std::string failover;                                     // empty: unchanged
  bool transaction = true;  // false: the caller of the script has begun one; PostgreSQL
};

// Installs or upgrades; running it again changes nothing. For SQLite it only installs: an upgrade
// needs the library's functions. Throws InvalidInput for a schema name that Termgate does not
// support.
std::string install_script(const InstallScript& wanted);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
