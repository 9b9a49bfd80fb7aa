// storm: the session of a leader that freezes in the middle of a transaction (faults `hold-…`): of this process, left idle, or of a process
// of its own that is stopped.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.hpp"

namespace termgate::cli::storm {

// One thread at a time; a process of its own dies with it, and with the thread that made it.
class HeldSession {
 public:
  virtual ~HeldSession() = default;
  // One statement on one line; the first value of what it returns, "" for none. Throws what Sql::run throws, as OutcomeUnknown, Unavailable
  // or DatabaseError.
  virtual std::string run(const std::string& statement) = 0;
  virtual void freeze() = 0;
  virtual void resume() = 0;
};
std::unique_ptr<HeldSession> held_session(const std::string& url);
std::unique_ptr<HeldSession> held_process(const std::string& program, const std::string& url);

int hold(
    const Arguments& arguments);  // the hidden command `storm-holder`: runs what it reads, a statement a line, and answers each with a line

}  // namespace termgate::cli::storm
