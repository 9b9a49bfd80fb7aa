#include "input.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include <termgate/error.hpp>

#include "command.hpp"

namespace termgate::cli {
namespace {

constexpr std::size_t part_bytes = std::size_t{64} << 10;

volatile std::sig_atomic_t interrupted = 0;
int wake_pipe[2] = {-1, -1};

void note_interrupt(int) {
  const int kept = errno;
  interrupted = 1;
  // If the pipe is full, an earlier write will wake the reader.
  [[maybe_unused]] const auto written = write(wake_pipe[1], "", 1);
  errno = kept;
}

// Makes room for `more` bytes at the end. A buffer that grows by doubling is copied each time, and
// both copies are in memory together. So a large buffer gets the largest capacity at once; the
// system provides only the pages that are written to. If the allocation fails, the buffer grows as
// usual.
void make_room(std::string& bytes, std::size_t more, std::size_t most) {
  if (bytes.size() + more <= bytes.capacity() || bytes.size() <= (std::size_t{4} << 20)) return;
  try {
    bytes.reserve(most);
  } catch (const std::bad_alloc&) {}
}

}  // namespace

Interrupts::Interrupts() {
  interrupted = 0;
  if (pipe2(wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error(fmt::format("no pipe for signals: {}", std::strerror(errno)));
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

Interrupts::~Interrupts() {
  std::signal(SIGINT, SIG_DFL);
  close(wake_pipe[0]);
  close(wake_pipe[1]);
}

bool Interrupts::seen() const { return interrupted != 0; }
int Interrupts::wake() const { return wake_pipe[0]; }

Input::Input(std::string path) : path_(std::move(path)), file_(STDIN_FILENO) {
  if (path_ == "-") return;
  file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0)
    throw UsageError(fmt::format("--file {}: it cannot be read: {}", path_, std::strerror(errno)));
  struct stat about {};
  if (fstat(file_, &about) == 0 && S_ISDIR(about.st_mode)) {
    close(file_);
    throw UsageError(fmt::format("--file {}: it is a directory", path_));
  }
}

Input::~Input() {
  if (file_ != STDIN_FILENO) close(file_);
}

std::string Input::name() const {
  return path_ == "-" ? "standard input" : fmt::format("--file {}", path_);
}

std::size_t Input::read_some(char* bytes, std::size_t size) {
  for (;;) {
    const auto count = read(file_, bytes, size);
    if (count >= 0) return static_cast<std::size_t>(count);
    // Another process that shares standard input may have made it non-blocking.
    if (errno == EAGAIN) {
      pollfd descriptor{file_, POLLIN, 0};
      poll(&descriptor, 1, -1);
    } else if (errno != EINTR) {
      throw Error(fmt::format("{}: reading it failed: {}", name(), std::strerror(errno)));
    }
  }
}

std::string Input::all(std::size_t bytes_max) {
  std::string bytes;
  struct stat about {};
  if (fstat(file_, &about) == 0 && S_ISREG(about.st_mode)) {
    const auto left = about.st_size - std::max<off_t>(0, lseek(file_, 0, SEEK_CUR));
    if (left > 0 && static_cast<std::uintmax_t>(left) > bytes_max) {
      throw InvalidInput(fmt::format(
          "TG005 a payload of {} bytes is over the limit of {} (setting payload_bytes_max)", left,
          bytes_max));
    }
    // Reserve one part more, because a file may grow meanwhile and one in /proc has size 0.
    if (left > 0) bytes.reserve(static_cast<std::size_t>(left) + part_bytes);
  }
  for (;;) {
    const std::size_t size = bytes.size();
    make_room(bytes, part_bytes, bytes_max + part_bytes);
    bytes.resize(size + part_bytes);
    bytes.resize(size + read_some(bytes.data() + size, part_bytes));
    if (bytes.size() == size) return bytes;
    if (bytes.size() > bytes_max)
      throw InvalidInput(fmt::format(
          "TG005 a payload of more than {} bytes is over the limit (setting payload_bytes_max)",
          bytes_max));
  }
}

Input::Next Input::line(std::string& line, std::size_t bytes_max, std::chrono::milliseconds wait,
                        const Interrupts& interrupts) {
  for (;;) {
    if (interrupts.seen()) return Next::interrupted;
    const auto newline = buffer_.find('\n', at_);
    const std::size_t piece = (newline == std::string::npos ? buffer_.size() : newline) - at_;
    if (line_.size() + piece > bytes_max) {
      throw InvalidInput(
          fmt::format("TG005 line {} has more than {} bytes, the limit of a payload (setting "
                      "payload_bytes_max)",
                      lines_ + 1, bytes_max));
    }
    make_room(line_, piece, bytes_max + 1);
    line_.append(buffer_, at_, piece);
    at_ += piece;
    if (newline != std::string::npos || (ended_ && !line_.empty())) {
      if (newline != std::string::npos) ++at_;
      line = std::move(line_);
      line_.clear();
      ++lines_;
      return Next::line;
    }
    if (ended_) return Next::end;

    pollfd descriptors[] = {{file_, POLLIN, 0}, {interrupts.wake(), POLLIN, 0}};
    const int ready = poll(descriptors, 2, wait.count() < 0 ? -1 : static_cast<int>(wait.count()));
    if (ready < 0 && errno != EINTR)
      throw Error(fmt::format("{}: waiting for it failed: {}", name(), std::strerror(errno)));
    if (ready == 0) return Next::quiet;
    if (ready < 0 || descriptors[0].revents == 0) continue;
    buffer_.resize(part_bytes);
    at_ = 0;
    try {
      buffer_.resize(read_some(buffer_.data(), buffer_.size()));
    } catch (const Error& error) {
      buffer_.clear();
      throw Error(fmt::format("{} (after line {})", error.what(), lines_));
    }
    ended_ = buffer_.empty();
  }
}

}  // namespace termgate::cli
