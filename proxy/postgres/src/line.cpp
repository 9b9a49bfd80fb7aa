// How both connections of a session end.
#include "line.hpp"

#include <cassert>
#include <utility>

#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/types.hpp>

namespace termgate::pg_session {

namespace {

// Static, because a Reader keeps a reference to its rules.
const pgwire::Rules& server_rules() {
  static const pgwire::Rules rules = [] {
    pgwire::Rules made = pgwire::Rules::backend();
    // The row of a check must arrive as one message.
    made[pgwire::backend::data_row].whole_max = 4096;
    return made;
  }();
  return rules;
}

}  // namespace

Line::Line(const Options& its_options, Peer its_peer, SessionHost& its_host, Instant its_beginning)
    : options(its_options),
      peer(std::move(its_peer)),
      host(its_host),
      now(its_beginning),
      quiet_since(its_beginning),
      client_reader(its_options.client_rules),
      server_reader(server_rules()) {}

// Sends FATAL to the client, as a server does before it closes, and Terminate to the server. After
// the first call further ones do nothing, so the first reason is the one that the client sees.
void Line::end(std::string_view sqlstate, std::string_view message) {
  if (over()) return;
  // In the middle of a message to the client no error can be sent any more.
  if (server_reader.between_messages() || router.keeps_a_part() || stage < Stage::login)
    pgwire::append_error_response(to_client.back(), pgwire::report("FATAL", sqlstate, message));
  close_all();
}

// Ends the session: discards what the client has sent and nobody has read yet, and requests that
// both connections be closed. What is in the outboxes is still sent.
void Line::close_all() {
  if (over()) return;
  // In the middle of a client's message a Terminate would be read as part of its body.
  const bool greeted = stage >= Stage::login && !client_mid_frame;
  const bool connected = stage >= Stage::connecting;
  if (greeted) pgwire::append_bare(server.bytes.back(), pgwire::frontend::terminate);
  stage = Stage::closing;
  client_in.clear();
  deferred.reset();
  if (connected) act(Action::Kind::close_server);
  act(Action::Kind::close_client);
}

// Whether the last request in the queue is one that the server need not answer before it gets a
// Sync or a Flush. A Sync that a COPY FROM STDIN has swallowed is no longer in the queue.
bool Line::server_awaits_sync() const noexcept {
  assert(!server.replies.empty() && "must_wait() and the callers have seen that a reply is owed");
  switch (server.replies.last().request) {
    case Request::sync:
    case Request::query:
    case Request::function_call:
    case Request::passage:
    case Request::nothing: return false;
    default: return true;
  }
}

void Line::assert_consistent() const noexcept {
  assert((!over() || (client_in.empty() && !deferred)) &&
         "nothing of the client's waits once the session ends");
  assert((over() || stage >= Stage::login || server.replies.empty()) &&
         "the server owes no reply before the login");
}

}  // namespace termgate::pg_session
