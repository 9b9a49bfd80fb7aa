// `termgate run --on-request`: one answer after another, each by a child of this process, which waits for a request, runs COMMAND under the
// lease and ends, as `termgate run` does. So nothing is left of one answer when the next one begins, and a watchdog is forked by a process
// with one thread.
#pragma once

#include <optional>

namespace termgate::cli::run {

// Returns none in each child, which sets *begun once COMMAND is about to run. In the parent: returns when a signal has ended it, or when a
// child found the options wrong, with that child's status. A child that ended before COMMAND ran is followed by another after 1 s, later
// after up to 60 s. The caller has one thread and no connection.
std::optional<int> answer_requests(bool*& begun);

}  // namespace termgate::cli::run
