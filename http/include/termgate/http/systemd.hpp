// systemd's two protocols, without its library: sockets handed over (sd_listen_fds(3)) and states reported (sd_notify(3)).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace termgate::http {

struct InheritedSocket {
  int descriptor;
  std::string name;  // FileDescriptorName= of the socket unit; "listen_fd" where none is
};
// Those meant for this process; none otherwise. They will not be inherited further, and a second call finds none.
std::vector<InheritedSocket> take_inherited_sockets();

// READY=1, RELOADING=1 (with the moment that systemd wants), STOPPING=1. Nothing where nobody asked.
void notify_service_manager(std::string_view state);

}  // namespace termgate::http
