// systemd's two protocols, without its library: sockets handed over (sd_listen_fds(3)) and states
// reported (sd_notify(3)).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace termgate::http {

struct InheritedSocket {
  int descriptor;
  std::string name;  // FileDescriptorName= of the socket unit; "listen_fd" if it has none
};
// The sockets handed to this process, at most 64. Child processes do not inherit them, and a second
// call returns none. It changes the environment: call it before there are other threads.
std::vector<InheritedSocket> take_inherited_sockets();

// Sends READY=1, RELOADING=1 (with the timestamp that systemd requires) or STOPPING=1. Does nothing
// without NOTIFY_SOCKET in the environment. Errors are ignored.
void notify_service_manager(std::string_view state);

}  // namespace termgate::http
