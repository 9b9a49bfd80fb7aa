// storm: its options from the command line.
#pragma once

#include <memory>
#include <string_view>

#include "command.hpp"
#include "storm/clock.hpp"
#include "storm/faults.hpp"
#include "storm/storm.hpp"

namespace termgate::cli::storm {

// Throws UsageError.
Plan plan_of(const Arguments& arguments);
// `--naive list`. Returns the exit code.
int list_naive(bool json);
bool has(const Plan& plan, std::string_view fault);
// The clocks of the storm's processes, if they are to be stepped and can be. Otherwise returns null
// and removes the fault from the plan, or throws UsageError if the arguments name it.
std::unique_ptr<Clocks> clocks_of(const Arguments& arguments, Plan& plan);

}  // namespace termgate::cli::storm
