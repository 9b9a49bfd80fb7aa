// The two connections of a session: its stage, what was read and must wait, and what is on its way
// in each direction. Every class of the session writes through it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/pgwire/reader.hpp>
#include <termgate/pg_session/host.hpp>
#include <termgate/pg_session/session.hpp>

#include "batch.hpp"
#include "reply_router.hpp"

namespace termgate::pg_session {

enum class Stage : std::uint8_t {
  greeting,    // the client's first packets
  client_tls,  // S was sent, and the handshake is under way
  admitting,
  connecting,
  server_greeting,  // SSLRequest was sent
  server_tls,
  login,  // client and server authenticate
  ready,
  replication,
  // Sends what is in the outboxes and reads nothing more.
  closing,
  closed,
};

// A message of the client's that was read and must wait.
struct Deferred {
  std::string frame;
  char type = 0;
  std::uint32_t body_bytes = 0;
  bool last = true, whole = true;
};

// Owner: the session's State; its thread. Invariant: once the session ends, nothing of the client's
// waits.
struct Line {
  Line(const Options& its_options, Peer its_peer, SessionHost& its_host, Instant its_beginning);

  void act(Action::Kind kind) { actions.push_back({kind}); }
  // Sends FATAL to the client and Terminate to the server.
  void end(std::string_view sqlstate, std::string_view message);
  void close_all();
  bool over() const noexcept { return stage == Stage::closing || stage == Stage::closed; }
  bool server_awaits_sync() const noexcept;
  void assert_consistent() const noexcept;

  const Options& options;
  Peer peer;
  SessionHost& host;
  Instant now, quiet_since;
  Stage stage = Stage::greeting;
  bool draining = false;
  LoginRequest login_request;
  std::uint32_t server_pid = 0;
  std::string server_key;

  Outbox to_client;
  // What is on its way to the server, and the replies that it still owes.
  Batch server;
  ReplyRouter router{server.replies, to_client};
  std::vector<Action> actions;

  pgwire::Reader client_reader, server_reader;
  // Bytes of the client that must not be processed yet.
  std::string client_in;
  std::optional<Deferred> deferred;
  // Part of a message of the client's is on its way to the server.
  bool client_mid_frame = false;
  // Every request is answered, but settle() must wait for the rest of the client's message.
  bool settle_after_frame = false;
  // The server waits for CopyData.
  bool in_copy_in = false;
  // An extended message has failed: the server skips everything up to the client's Sync.
  bool server_skips = false;
  // The server has sent a FATAL error and closes the connection.
  bool server_leaves = false;
  // What becomes of the rest of a streamed message.
  enum class Parts : std::uint8_t { send, drop } client_parts = Parts::send;
};

}  // namespace termgate::pg_session
