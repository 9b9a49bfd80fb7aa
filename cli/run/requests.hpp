// `termgate run --on-request`: answers one request after another. Each answer is a child of this
// process that waits for a request, runs COMMAND under the lease and ends, like a plain `termgate
// run`. So answers share no state, and the watchdog is always forked by a process with one thread.
#pragma once

#include <optional>

namespace termgate::cli::run {

// In each child it returns nothing, and the child sets *begun once COMMAND is about to run. In the
// parent it returns the exit status, when a signal has ended it or a child has found the options
// wrong. If a child ends before COMMAND ran, the next one starts after 1 s, later after up to 60 s.
// The caller must have one thread and no connection.
std::optional<int> answer_requests(bool*& begun);

}  // namespace termgate::cli::run
