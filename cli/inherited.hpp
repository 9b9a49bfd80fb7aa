// What a process inherits from its caller: signal dispositions, the signal mask and the standard
// streams. Termgate sets those that it depends on, and restores the caller's for the programs that
// it starts, so that they start as from a shell.
#pragma once

namespace termgate::cli {

// Call it first in main(), while there is only one thread. It repairs what would harm us: if
// SIGCHLD were ignored, we could not wait for our children; blocked signals would never arrive; and
// a closed standard stream's number would be given to the first file or socket that is opened.
void settle_inherited();

// Whether the caller ignored this signal, as nohup does with SIGHUP.
bool caller_ignored(int signal) noexcept;

// For a child, between fork and exec: restores the caller's dispositions and signal mask.
void hand_down_inherited() noexcept;

}  // namespace termgate::cli
