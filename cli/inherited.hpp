// What a caller hands down to a process: signal dispositions, the signal mask, the standard streams. Termgate sets what it depends on, and
// the programs that it starts get what its caller gave, as from a shell.
#pragma once

namespace termgate::cli {

// First in main(), while there is one thread. A caller that ignores SIGCHLD would hide the ends of our children from us, one that blocks
// signals would leave us deaf, and a closed standard stream would be taken by the first file or socket that is opened.
void settle_inherited();

// Whether the caller ignored it, as nohup does with SIGHUP.
bool caller_ignored(int signal) noexcept;

// In a child, between fork and exec: dispositions and mask as the caller gave them.
void hand_down_inherited() noexcept;

}  // namespace termgate::cli
