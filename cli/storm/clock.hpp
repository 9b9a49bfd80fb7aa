// storm: steps the wall clock of single processes with libfaketime. CLOCK_MONOTONIC stays true,
// because the histories are judged by it.
//
// The library is preloaded (LD_PRELOAD). Whenever the process reads the wall clock, the library
// reads the process's own file, which says by how many seconds that clock is off.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "storm/storm.hpp"

namespace termgate::cli::storm {

// Where Debian's package installs the library for programs with threads; empty if it is not there.
std::string find_libfaketime();
// Why processes of this program cannot run with `library`; empty if they can. It tries this with a
// process whose wall clock must be an hour off and whose monotonic clock must be right.
std::string libfaketime_problem(const std::string& library, const std::string& folder,
                                const std::string& program);

// Writes how far a clock is off. Replaces the file as a whole, so that no reader sees half of it.
// Throws Error.
void write_clock(const std::string& path, std::chrono::seconds off);
// Chooses a step: up to four of the storm's TTLs, a minute or an hour, forward or back; never zero.
std::chrono::seconds step_of(Choice& choice, milliseconds ttl);

// This process's environment, with the `settings` (NAME=value) added or replaced.
std::vector<std::string> environment_with(const std::vector<std::string>& settings);

// The wall clocks of the storm's processes. One thread.
class Clocks {
 public:
  // `folder` holds the clocks' files. `ttl` is the leases' TTL; a clock stays off for one to six
  // TTLs.
  Clocks(std::string library, std::string folder, milliseconds ttl)
      : library_(std::move(library)), folder_(std::move(folder)), ttl_(ttl) {}

  // The environment variables for the process called `who`. The clock belongs to this name, as to a
  // machine: it stays as it is when the process is restarted.
  std::vector<std::string> settings(const std::string& who);
  // Steps one of the clocks that are right now; returns false if there is none.
  bool step_one(Choice& choice);
  // Sets right the clocks whose time has come.
  void tick();
  void right_all();

 private:
  struct Clock {
    std::string path;
    bool stepped = false;
    std::chrono::steady_clock::time_point due;  // when to set it right
  };
  const std::string library_, folder_;
  const milliseconds ttl_;
  std::list<Clock> clocks_;
};

// Removes what the library leaves in shared memory when its process is killed. Call it after
// waitpid().
void forget_clock(pid_t pid) noexcept;

// The hidden command `storm-clock`: prints the wall clock and the monotonic clock in milliseconds.
int print_clocks(const Arguments& arguments);

}  // namespace termgate::cli::storm
