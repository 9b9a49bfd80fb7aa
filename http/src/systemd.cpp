// The two protocols of systemd, without its library: LISTEN_FDS for sockets that it opened,
// NOTIFY_SOCKET for the service's state (sd_listen_fds(3), sd_notify(3)).
#include <termgate/http/systemd.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

namespace termgate::http {

std::vector<InheritedSocket> take_inherited_sockets() {
  constexpr int first = 3;  // SD_LISTEN_FDS_START
  std::vector<InheritedSocket> sockets;
  const char* pid = std::getenv("LISTEN_PID");
  const char* count = std::getenv("LISTEN_FDS");
  const char* names = std::getenv("LISTEN_FDNAMES");
  if (pid != nullptr && count != nullptr && std::strtol(pid, nullptr, 10) == getpid()) {
    std::string rest = names == nullptr ? "" : names;
    const long sockets_max = std::clamp(std::strtol(count, nullptr, 10), 0L, 64L);
    for (int i = 0; i < sockets_max; ++i) {
      const auto colon = rest.find(':');
      std::string name = rest.substr(0, colon);
      rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
      if (name.empty() || name == "unknown") name = "listen_fd";
      if (fcntl(first + i, F_SETFD, FD_CLOEXEC) == 0)
        sockets.push_back({first + i, std::move(name)});
    }
  }
  // A child that is started later must not take these sockets for its own.
  unsetenv("LISTEN_PID");
  unsetenv("LISTEN_FDS");
  unsetenv("LISTEN_FDNAMES");
  return sockets;
}

void notify_service_manager(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';
  std::string message(state);
  if (state == "RELOADING=1") {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    message += fmt::format("\nMONOTONIC_USEC={}",
                           static_cast<long long>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000);
  }
  const int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return;
  // If nobody receives it, nobody needs it.
  (void)sendto(descriptor, message.data(), message.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  close(descriptor);
}

}  // namespace termgate::http
