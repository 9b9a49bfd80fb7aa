#include "waiting.hpp"

#include <fmt/format.h>

#include <termgate/pgwire/types.hpp>

namespace termgate::pg_session {

namespace frontend = pgwire::frontend;

bool Waiting::blocked_but_for_deferred() const noexcept {
  if (line_.server_leaves) return true;
  if (line_.in_copy_in || line_.client_mid_frame) return false;
  return script_.running || session_lock_.stage != SessionLock::Stage::none;
}

bool Waiting::blocked() const noexcept {
  return line_.deferred.has_value() || blocked_but_for_deferred();
}

// Units (guard.hpp) are judged against the predicted transaction. A simple query waits for every
// reply. The messages of a pipeline wait only if what is under way may change how they must be read
// (texts_.outstanding.wait_for_all).
bool Waiting::must_wait(char type) const noexcept {
  if (line_.stage != Stage::ready) return false;
  if (line_.server.replies.empty())
    return pipeline_.begun() && !pipeline_.held.empty() &&
           (type == frontend::query || type == frontend::function_call);
  switch (type) {
    case frontend::query:
    case frontend::function_call: return true;
    case frontend::parse:
    case frontend::bind:
    case frontend::execute:
    case frontend::describe:
    case frontend::close: return !pipeline_.begun() && texts_.outstanding.wait_for_all;
    case frontend::sync:
    case frontend::flush:
      return !pipeline_.begun() && texts_.outstanding.wait_for_all && !line_.server_awaits_sync();
    default: return false;
  }
}

// Whether the message must not come in the middle of a COPY from the client. There the server takes
// the data, its end, and messages that it ignores.
bool Waiting::breaks_a_copy(char type) noexcept {
  switch (type) {
    case frontend::copy_data:
    case frontend::copy_done:
    case frontend::copy_fail:
    case frontend::sync:
    case frontend::flush:
    case frontend::terminate: return false;
    default: return true;
  }
}

void Waiting::end_in_copy(char type) {
  line_.end("08P01", fmt::format("unexpected message type 0x{:02X} during COPY from stdin",
                                 static_cast<unsigned char>(type)));
}

}  // namespace termgate::pg_session
