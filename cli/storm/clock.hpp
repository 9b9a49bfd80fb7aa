// storm: wall clocks that are stepped, each process's own, by libfaketime. CLOCK_MONOTONIC stays true: the histories are judged by it.
//
// The library is loaded before a process's others (LD_PRELOAD) and reads the process's file at each look at the wall clock: how many
// seconds that clock is off.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "storm/storm.hpp"

namespace termgate::cli::storm {

// Where Debian's package puts the library for programs with threads; nothing where it is not there.
std::string find_libfaketime();
// Why processes of this program cannot run with `library`; empty: they can. Starts one, whose wall clock must be an hour off and whose
// monotonic clock must not.
std::string libfaketime_problem(const std::string& library, const std::string& folder, const std::string& program);

// How far a clock is off, for whoever reads the file: replaced as a whole, so that nobody reads half of it. Throws Error.
void write_clock(const std::string& path, std::chrono::seconds off);
// By up to four of the storm's TTLs, a minute or an hour, forward or back; never by nothing.
std::chrono::seconds step_of(Choice& choice, milliseconds ttl);

// The environment of this process with `settings` (NAME=value) in the place of what it says of those names.
std::vector<std::string> environment_with(const std::vector<std::string>& settings);

// The clocks of the storm's processes. One thread.
class Clocks {
 public:
  // `folder`: of the files. `ttl`: the leases'; a clock is off for one to six of them.
  Clocks(std::string library, std::string folder, milliseconds ttl) : library_(std::move(library)), folder_(std::move(folder)), ttl_(ttl) {}

  // What the environment of the process called `who` needs. Its clock is a machine's: it stays as it is when the process is started again.
  std::vector<std::string> settings(const std::string& who);
  // Steps a clock that is right; false: none is.
  bool step_one(Choice& choice);
  // Sets right whose time has come.
  void tick();
  void right_all();

 private:
  struct Clock {
    std::string path;
    bool stepped = false;
    std::chrono::steady_clock::time_point due;  // to be set right
  };
  const std::string library_, folder_;
  const milliseconds ttl_;
  std::list<Clock> clocks_;
};

// What the library leaves in shared memory when its process is killed. After the process has been waited for.
void forget_clock(pid_t pid) noexcept;

int print_clocks(const Arguments& arguments);  // the hidden command `storm-clock`: the wall clock and the monotonic one, in milliseconds

}  // namespace termgate::cli::storm
