// drill: one run, from the first instance's start to the verdict.
#pragma once

#include "drill/drill.hpp"
#include "drill/ground.hpp"
#include "drill/plan.hpp"

namespace termgate::cli::drill {

// After this call the first SIGINT, SIGTERM or SIGHUP ends the run in order; a second one of the
// same kind ends the process at once, and the keepers then kill what is left.
void end_in_order_on_signals();
bool is_interrupted() noexcept;

// Starts both instances, plays the takeover, ends the instances, and judges. A failure of the
// database or the machine before the instances are ended is part of the verdict (not_judged).
// Throws UsageError, and what the library throws if the database fails after that.
Result play(const Plan& plan, Ground& ground, int number);

}  // namespace termgate::cli::drill
