// storm's options, read once.
#pragma once

#include <memory>
#include <string_view>

#include "command.hpp"
#include "storm/clock.hpp"
#include "storm/faults.hpp"
#include "storm/storm.hpp"

namespace termgate::cli::storm {

// UsageError names the option that cannot be meant.
Plan plan_of(const Arguments& arguments);
// `--naive list`. Returns the exit code.
int list_naive(bool json);
bool has(const Plan& plan, std::string_view fault);
// The clocks of the storm's processes, where they are to be stepped and can be; otherwise null, and the fault leaves the plan.
std::unique_ptr<Clocks> clocks_of(const Arguments& arguments, Plan& plan);

}  // namespace termgate::cli::storm
