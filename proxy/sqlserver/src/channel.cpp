#include "channel.hpp"

#include <termgate/detail/error_from_message.hpp>
#include <termgate/tds/packet.hpp>

namespace termgate::tds_session {
namespace {

using conversation::Action;

constexpr std::uint8_t fatal = 20;

}  // namespace

std::uint32_t number_of(std::string_view code) noexcept {
  const std::uint32_t number = detail::number_of_tg(code);
  return number != 0 ? number : 50006;
}

void Channel::say_to_client(std::string_view payload) {
  tds::append_message(to_client.back(), tds::packet::reply, payload, packet_size);
}

void Channel::call(std::string_view payload, std::uint8_t resets) {
  tds::append_message(to_server.back(), tds::packet::rpc, payload, packet_size, resets);
}

void Channel::acknowledge_attention() {
  std::string payload;
  tds::append_done(payload, {tds::token::done, tds::done_status::attention, 0, 0}, tds_version);
  say_to_client(payload);
}

void Channel::speak(std::uint32_t version) {
  tds_version = version;
  tokens.set_version(version);
}

void Channel::close() {
  stage = Stage::closing;
  act(Action::Kind::close_server);
  act(Action::Kind::close_client);
}

void Channel::end(std::uint32_t number, std::string_view message, bool awaited) {
  if (stage == Stage::closing) return;
  const bool in_login =
      stage >= Stage::client_login && stage <= Stage::hello && stage != Stage::client_tls;
  if (awaited || in_login) {
    std::string payload;
    tds::append_report(payload, tds::token::error, number, fatal, message, "termgate", tds_version);
    tds::append_done(payload, {tds::token::done, tds::done_status::error, 0, 0}, tds_version);
    say_to_client(payload);
  }
  close();
}

void Channel::malformed_peer(std::string_view who, std::string_view why, bool awaited) {
  conversation::Incident incident;
  incident.kind = conversation::Incident::Kind::malformed;
  const std::string message = std::string(who) + ": " + std::string(why);
  incident.message = message;
  happened(incident);
  end(50006, "the " + std::string(who) + " broke the protocol (TDS): " + std::string(why), awaited);
}

}  // namespace termgate::tds_session
