// drill: one run, from the first instance's start to the verdict.
#pragma once

#include "drill/drill.hpp"
#include "drill/ground.hpp"
#include "drill/plan.hpp"

namespace termgate::cli::drill {

// From the first SIGINT, SIGTERM or SIGHUP on a run ends in order; a second one ends the process at once, and then the keepers end
// what is left.
void end_in_order_on_signals();
bool is_interrupted() noexcept;

// Starts both instances, plays the takeover, ends them, and judges. Throws UsageError and nothing else of ours: what failed in the
// database or on the machine is in the verdict.
Result play(const Plan& plan, Ground& ground, int number);

}  // namespace termgate::cli::drill
