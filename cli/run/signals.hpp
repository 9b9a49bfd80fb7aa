// The signals that `termgate run` passes on to COMMAND: blocked before the first thread starts, and
// read from a descriptor.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>
#include <system_error>

#include "inherited.hpp"

namespace termgate::cli::run {

class Signals {
 public:
  explicit Signals(std::initializer_list<int> more = {}) {
    sigset_t mine;
    sigemptyset(&mine);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
      sigaddset(&mine, signal);
    for (const int signal : more) sigaddset(&mine, signal);
    pthread_sigmask(SIG_BLOCK, &mine, nullptr);
    signal(SIGTTOU, SIG_IGN);  // so that giving the terminal back does not stop us
    signal(SIGPIPE, SIG_IGN);
    descriptor_ = signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK);
    if (descriptor_ < 0)
      throw std::system_error(errno, std::system_category(), "a descriptor for signals");
  }
  ~Signals() { close(descriptor_); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  int descriptor() const { return descriptor_; }
  int next() const {  // returns 0 if there is none
    signalfd_siginfo info{};
    return read(descriptor_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                : 0;
  }
  // Whether the signal ends termgate itself. A signal that the caller ignores, as nohup does with
  // SIGHUP, is only passed on. SIGTERM always ends it.
  static bool ends_this(int signal) { return signal == SIGTERM || !caller_ignored(signal); }

 private:
  int descriptor_;
};

}  // namespace termgate::cli::run
