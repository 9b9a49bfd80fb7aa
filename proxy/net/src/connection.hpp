// One client, as its worker knows it: greeting, session, farewell. The session's bytes are carried
// by its Relay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <termgate/conversation/session_host.hpp>

#include "end.hpp"
#include "relay.hpp"
#include "worker.hpp"

namespace termgate::net {

// Owned by its worker, on whose thread everything here runs. Other threads know a connection only
// by its number and post to the worker. Every way out is end(), which may be called from any step:
// the object lives until the worker has handled the current events.
class Connection final {
 public:
  Connection(Worker& worker, std::uint64_t id, int descriptor, const Endpoint& peer,
             const http::OpenListener& listener, std::shared_ptr<const Settings> settings);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void begin();

  std::uint64_t id() const noexcept { return id_; }
  const Endpoint& peer() const noexcept { return peer_; }
  const std::string& listener() const noexcept { return listener_.options.name; }
  const std::shared_ptr<const Settings>& settings() const noexcept { return settings_; }
  std::size_t place() const noexcept { return place_; }
  void set_place(std::size_t place) noexcept { place_ = place; }
  bool silent() const noexcept;  // its client has sent nothing yet
  conversation::Instant began() const noexcept { return began_; }
  const End& client() const noexcept { return client_; }
  Relay& relay() noexcept { return relay_; }
  const conversation::LoginRequest* who() const noexcept { return relay_.who(); }

  void ready(End& end, std::uint32_t events);
  void look_at_clock(conversation::Instant now);
  void drain();
  // The client of a session has closed its side, perhaps after bytes that are not read yet.
  bool hung_up() const;
  void cut(std::string_view sqlstate, std::string_view message);
  // Ends with this error. The session sends it; before there is one, only a PostgreSQL client
  // without TLS that has sent nothing gets it.
  void give_up(std::string_view sqlstate, std::string_view message, std::string_view why);
  void farewell(std::string_view why);  // ends once the client has closed its side, or after 1 s
  void end(std::string_view why);       // at once
  // Counts and logs that a handshake has failed. Returns why.
  std::string tls_failed(const End& end);

 private:
  enum class Stage : std::uint8_t { proxy_header, first_byte, direct_tls, session, farewell, over };

  bool greets() const noexcept { return stage_ < Stage::session; }
  void read_proxy_header();
  void read_first_byte();
  void step_direct_tls();
  void begin_session(bool encrypted);
  void drain_farewell();

  Worker& worker_;
  const std::uint64_t id_;
  const http::OpenListener& listener_;
  std::shared_ptr<const Settings> settings_;
  Endpoint peer_;
  std::size_t place_ = 0;
  const conversation::Instant began_;
  conversation::Instant deadline_;  // of the greeting, or of the farewell
  Stage stage_ = Stage::first_byte;
  std::string header_;  // PROXY, as far as it has arrived
  std::string why_;     // of the farewell
  End client_;
  Relay relay_;
};

}  // namespace termgate::net
