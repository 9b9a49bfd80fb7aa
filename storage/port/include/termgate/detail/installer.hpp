// How layer 1 is installed or upgraded on a server: the same order for every driver. Internal.
#pragma once

#include <algorithm>
#include <functional>
#include <string_view>

#include <fmt/format.h>

#include <termgate/detail/driver.hpp>
#include <termgate/error.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

// Binary N works on the schema of N-1 and N+1 (docs/contract.md, section 9).
inline void refuse_newer(int installed, int ours) {
  if (installed <= ours + 1) return;
  throw DatabaseError(
      fmt::format("the database has version {} of Termgate's tables and this command knows {}: "
                  "install a newer termgate",
                  installed, ours));
}

struct InstallSteps {
  std::function<void(std::string_view script)> run;
  std::function<void(int version, std::string_view name)>
      note;                 // records that this migration is installed
  std::string_view before;  // runs before the files if any is pending; may be empty
  std::string_view after;   // runs after the files if any is pending
};

// Runs all files, in order, if the database lacks the last of them; in the caller's transaction, in
// which no other installer is at work. `installed`: the installed version, 0 for none.
template <class Migrations>
InstallReport install_layer1(const Migrations& migrations, int installed,
                             const InstallSteps& steps) {
  const int ours = migrations.empty() ? 0 : migrations.back().version;
  refuse_newer(installed, ours);
  if (installed < ours) {
    if (!steps.before.empty()) steps.run(steps.before);
    for (const auto& migration : migrations) {
      steps.run(migration.text);
      steps.note(migration.version, migration.name);
    }
    if (!steps.after.empty()) steps.run(steps.after);
  }
  return {installed, std::max(ours, installed)};
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
