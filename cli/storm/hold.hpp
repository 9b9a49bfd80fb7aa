// storm: the session of a leader that freezes in the middle of a transaction (faults `hold-…`). It
// is either a session of this process that is left idle, or one of a child process that is stopped.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.hpp"

namespace termgate::cli::storm {

// One thread at a time. If it has a child process, that dies with this object, and with the thread
// that created it.
class HeldSession {
 public:
  virtual ~HeldSession() = default;
  // Runs one statement, which must be on one line. Returns the first value of the result, or "".
  // Throws like Sql::run. A child process reports every error but OutcomeUnknown and Unavailable as
  // a DatabaseError with the same code.
  virtual std::string run(const std::string& statement) = 0;
  virtual void freeze() = 0;
  virtual void resume() = 0;
};
std::unique_ptr<HeldSession> held_session(const std::string& url);
std::unique_ptr<HeldSession> held_process(const std::string& program, const std::string& url);

// The hidden command `storm-holder`: runs what it reads, one statement a line, and answers each
// with a line.
int hold(const Arguments& arguments);

}  // namespace termgate::cli::storm
