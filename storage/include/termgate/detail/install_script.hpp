// What init does, as one script that somebody can read and run without Termgate's command. Internal.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace termgate::inline v0::detail {

struct InstallScript {
  std::string kind;  // postgresql, sqlserver or sqlite
  std::string schema = "termgate";
  std::vector<std::string> revokes;                         // roles; PostgreSQL
  std::vector<std::pair<std::string, std::string>> grants;  // role, level
  std::string failover;                                     // empty: as it is
  bool transaction = true;                                  // false: whoever runs the script has begun one; PostgreSQL
};

// Installs or upgrades; to run it again changes nothing. For SQLite it installs only: an upgrade needs the library's functions.
// Throws InvalidInput for a schema's name that no database of ours can have.
std::string install_script(const InstallScript& wanted);

}  // namespace termgate::inline v0::detail
