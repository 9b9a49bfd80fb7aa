// What the parts of a TDS session share: outboxes, actions, the stage, and the protocol version of
// both sides. Owner: one session; its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/conversation/outbox.hpp>
#include <termgate/tds/token.hpp>
#include <termgate/tds/types.hpp>
#include <termgate/tds_session/tds_session.hpp>

namespace termgate::tds_session {

enum class Stage : std::uint8_t {
  client_prelogin,
  client_tls,
  client_login,
  admission,
  connecting,
  server_prelogin,
  server_tls,
  server_login,
  // The server needs another message of an integrated login.
  client_sspi,
  hello,
  ready,
  entering,
  raising,
  relaying,
  leaving,
  closing
};

struct Channel {
  Channel(const Options& chosen, Peer about, conversation::SessionHost& shared)
      : options(chosen), peer(std::move(about)), host(shared) {}

  void act(conversation::Action::Kind kind) { actions.push_back({kind}); }
  void happened(const conversation::Incident& incident) const { host.happened(incident); }
  void say_to_client(std::string_view payload);
  // A procedure call of ours to the server, with these reset bits in its first packet.
  void call(std::string_view payload, std::uint8_t resets = 0);
  void acknowledge_attention();
  void speak(std::uint32_t version);
  // Closes both connections once their outboxes are sent.
  void close();
  // The same, with an error for a client that is logging in, or that waits for an answer of which
  // it has seen nothing (`awaited`).
  void end(std::uint32_t number, std::string_view message, bool awaited);
  // `who`: "client" or "server".
  void malformed_peer(std::string_view who, std::string_view why, bool awaited);
  bool logged_in() const noexcept { return stage >= Stage::ready && stage != Stage::closing; }

  const Options& options;
  const Peer peer;
  conversation::SessionHost& host;
  Stage stage = Stage::client_prelogin;
  conversation::Outbox to_client, to_server;
  std::vector<conversation::Action> actions;
  tds::TokenReader tokens{tds::version::v7_4};
  std::uint32_t tds_version = tds::version::v7_4;
  std::size_t packet_size = 4096;
};

// The error number for a code TG00n. Any other code gets the number of TG006.
std::uint32_t number_of(std::string_view code) noexcept;

}  // namespace termgate::tds_session
