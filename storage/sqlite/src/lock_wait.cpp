// The notice is one datagram, "TERM SCOPE", to an abstract Unix socket whose name holds the process
// and the file (lock_wait.hpp says what it is for). The sender runs on the thread that waits; the
// listener has a thread of its own, which its destructor ends.
#include <termgate/detail/sqlite/lock_wait.hpp>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <termgate/detail/sqlite/layer1.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// Fills in `address` and returns its length, or 0 if the file does not exist. Device and inode, so
// that every path to the file gives the same name.
socklen_t address_of(sockaddr_un& address, int pid, const std::string& path) {
  struct stat status {};
  if (path.empty() || stat(path.c_str(), &status) != 0) return 0;
  const std::string name =
      fmt::format("termgate-sqlite-waiters/{}/{}:{}", pid, status.st_dev, status.st_ino);
  address = {};
  address.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(),
              size);  // after a zero byte, which makes the name abstract
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
}

// Longer than any notice: a scope has at most 800 bytes. Anything longer is cut, and is not a
// notice.
constexpr std::size_t notice_bytes_max = 4096;

}  // namespace

// False: no holder was found, so looking again soon is useful. A notice that cannot be delivered is
// not an error.
bool LockWait::send_notice() const {
  const char* path = sqlite3_db_filename(db_, "main");
  if (path == nullptr || *path == '\0') return true;
  const int holder = lock_holder_pid(db_);
  if (holder <= 0) return false;
  sockaddr_un address{};
  const socklen_t size = address_of(address, holder, path);
  const int to = size != 0 ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
  if (to < 0) return true;
  const std::string notice = fmt::format("{} {}", term_, scope_);
  // If nobody listens, or too many others wait, nothing can be done about it.
  [[maybe_unused]] const auto sent = sendto(to, notice.data(), notice.size(), MSG_NOSIGNAL,
                                            reinterpret_cast<const sockaddr*>(&address), size);
  close(to);
  return true;
}

void LockWait::pause(milliseconds at_most) {
  const auto now = steady_clock::now();
  if (now >= next_) {
    // With many writers the lock changes hands all the time, so a holder that was not found is
    // looked for again soon.
    next_ = now + (send_notice() ? every : first_after);
  }
  std::this_thread::sleep_for(std::clamp(at_most, milliseconds(1), pause_));
  pause_ = std::min(pause_ * 2, pause_max);
}

LockWaitListener::LockWaitListener(const std::string& path,
                                   std::function<void(const LockWaitNotice&)> heard)
    : heard_(std::move(heard)) {
  sockaddr_un address{};
  const socklen_t size = address_of(address, getpid(), path);
  if (size == 0) return;
  socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return;
  const int on = 1;
  if (setsockopt(socket_, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    close(std::exchange(socket_, -1));
    return;
  }
  thread_ = std::thread([this] { listen(); });
}

LockWaitListener::~LockWaitListener() {
  if (socket_ < 0) return;
  over_ = true;
  // Wakes the thread out of recvmsg(); close() alone would not, and would free the number while the
  // thread still uses it.
  shutdown(socket_, SHUT_RDWR);
  thread_.join();
  close(socket_);
}

void LockWaitListener::listen() {
  char received[notice_bytes_max];
  while (true) {
    iovec buffer{received, sizeof received};
    alignas(cmsghdr) char more[CMSG_SPACE(sizeof(ucred))];
    msghdr message{};
    message.msg_iov = &buffer;
    message.msg_iovlen = 1;
    message.msg_control = more;
    message.msg_controllen = sizeof more;
    const ssize_t size = recvmsg(socket_, &message, 0);
    if (over_ || (size < 0 && errno != EINTR)) return;
    if (size <= 0) continue;
    const cmsghdr* head = CMSG_FIRSTHDR(&message);
    if (head == nullptr || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_CREDENTIALS)
      continue;
    ucred who{};
    std::memcpy(&who, CMSG_DATA(head), sizeof who);
    // Any process of the network namespace can send here, and a notice may end a client. So only
    // the same user and root count; the kernel fills in the credentials.
    if (who.uid != geteuid() && who.uid != 0) continue;
    LockWaitNotice notice{.pid = who.pid, .scope = {}, .term = 0};
    const char* const end = received + size;
    const auto [behind, problem] = std::from_chars(received, end, notice.term);
    if (problem != std::errc() || behind == end || *behind != ' ' || notice.term < 0) continue;
    notice.scope.assign(behind + 1, end);
    heard_(notice);
  }
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
