// Which of the client's messages must wait (client.cpp lists the reasons).
#pragma once

#include "line.hpp"
#include "parts.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread. Only end_in_copy() changes anything.
class Waiting {
 public:
  Waiting(Line& line, const Texts& texts, const Pipeline& pipeline, const Script& script,
          const SessionLock& session_lock) noexcept
      : line_(line),
        texts_(texts),
        pipeline_(pipeline),
        script_(script),
        session_lock_(session_lock) {}

  bool blocked() const noexcept;
  bool blocked_but_for_deferred() const noexcept;
  // This message begins a unit that cannot be judged yet.
  bool must_wait(char type) const noexcept;
  static bool breaks_a_copy(char type) noexcept;
  void end_in_copy(char type);

 private:
  Line& line_;
  const Texts& texts_;
  const Pipeline& pipeline_;
  const Script& script_;
  const SessionLock& session_lock_;
};

}  // namespace termgate::pg_session
