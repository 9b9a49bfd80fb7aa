// drill: one run, from the first instance's start to the verdict.
#pragma once

#include "drill/drill.hpp"
#include "drill/ground.hpp"
#include "drill/plan.hpp"

namespace termgate::cli::drill {

// After this call the first SIGINT, SIGTERM or SIGHUP ends the run in order; the second one ends
// the process at once, and the keepers then kill what is left.
void end_in_order_on_signals();
bool is_interrupted() noexcept;

// Starts both instances, plays the takeover, ends the instances, and judges. Of Termgate's errors
// it throws only UsageError: a failure of the database or the machine is part of the verdict.
Result play(const Plan& plan, Ground& ground, int number);

}  // namespace termgate::cli::drill
