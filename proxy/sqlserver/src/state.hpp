// The inside of TdsSession: its parts, and who calls which of them when.
//
//   channel.hpp      what the parts share: outboxes, actions, the stage, the protocol's version
//   login.hpp        to the server's answer that admits the client
//   verdict.hpp      which way a message of the client's goes
//   gate.hpp         whether the gate is held, and our own calls
//   transaction.hpp  whether a transaction is open
//   claims.hpp       which scope and term the session writes under
//
//   client.cpp       the client's messages: gathered, forwarded, refused
//   calls.cpp        when the gate is entered and left, and what follows from the answers
//   server.cpp       the server's answers: relayed and parsed
//   session.cpp      the public interface: ends, deadlines, evictions
//
//   After the login:
//   READY ──▶ ENTERING ──▶ RELAYING ──▶ READY   the gate is not held, and is entered first
//             ENTERING ──▶ RAISING ──▶ ENTERING the fence must be raised first
//             ENTERING or RAISING ──▶ READY     refused or cancelled
//             ENTERING ──▶ LEAVING              it is not proven that the gate was not entered
//   READY ──────────────▶ RELAYING ──▶ READY    the gate is held, or the message needs none
//   READY ──▶ LEAVING ──▶ READY                 a raise wants the gate, it was not used for a while,
//                                               or the proxy drains
//   READY ──▶ LEAVING ──▶ ENTERING              the session has declared another scope or term
//   any   ──▶ CLOSING                           an error, a deadline, a drain, a higher fence, or a
//                                               raise that has waited for the grace period
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <termgate/tds/packet.hpp>
#include <termgate/tds/token.hpp>
#include <termgate/tds/types.hpp>
#include <termgate/tds_session/tds_session.hpp>

#include "channel.hpp"
#include "claims.hpp"
#include "gate.hpp"
#include "login.hpp"
#include "transaction.hpp"
#include "verdict.hpp"

namespace termgate::tds_session {

class TdsSession::State {
 public:
  State(const Options& options, Peer peer, conversation::SessionHost& host, Instant now);

  // --- client.cpp ---
  void take_client(std::string_view bytes, Instant now);
  void pump_client(Instant now);
  bool reads_packets() const noexcept;
  bool take_attention(Instant now);
  void on_client_event(const tds::PacketEvent& event, Instant now);
  void forward_rest(const tds::PacketEvent& event, Instant now);
  void on_message(Instant now);
  void through_gate(const Verdict& verdict, Instant now);
  void forward(const Verdict& verdict, Instant now);
  void answer_locally(const Verdict& verdict);
  void refuse(std::string_view code, std::string_view message, bool from_memory,
              std::int64_t fence = 0);
  void answer_refusal();

  // --- calls.cpp ---
  enum class AfterLeave : std::uint8_t { ready, enter, refuse };
  void send_hello(Instant now);
  void send_enter(const ScopedTerm& pair, Instant now);
  void send_leave(AfterLeave after, Instant now);
  void hello_ends(Instant now);
  void enter_ends(Instant now);
  void entered(Instant now);
  void not_entered(Instant now);
  void leave_ends(Instant now);
  void raised(const conversation::Raised& event, Instant now);
  // Whether the client has cancelled its message while a call of ours was under way. The
  // cancellation is answered here.
  bool ends_cancelled(Instant now);
  bool may_leave() const noexcept;
  void wanted(bool certain, Instant now);

  // --- server.cpp ---
  void take_server(std::string_view bytes, Instant now);
  void on_server_event(const tds::PacketEvent& event, Instant now);
  void relay(const tds::PacketEvent& event);
  void walk(std::string_view payload);
  void on_token(const tds::TokenEvent& event);
  void on_environment_change(std::string_view body);
  void server_message_ends(Instant now);
  void relayed_message_ends(std::optional<tds::Done> last, Instant now);
  void back_to_ready(Instant now);

  // --- session.cpp ---
  void end(std::uint32_t number, std::string_view message) {
    channel_.end(number, message, awaited());
  }
  // Whether the client waits for an answer of which it has seen nothing yet.
  bool awaited() const noexcept;
  // Ends the session if the proxy drains and nothing is under way. True: it has ended.
  bool drain_ends();
  void end_for_raise();
  void fence_seen(const conversation::FenceSeen& event);
  void tick(Instant now);

  Channel channel_;
  const Instant started_;
  // When the client's last message or the server's last answer came.
  Instant latest_;
  Claims claims_;
  Login login_{channel_, claims_};
  MessageClassifier classifier_{channel_.options, claims_};
  Gate gate_{channel_};
  Transaction transaction_;
  tds::PacketReader client_reader_{tds::Direction::from_client},
      server_reader_{tds::Direction::from_server};
  bool draining_ = false;
  // Why the gate cannot be called here. Empty: it can.
  std::string no_layer1_;

  // --- the client's message ---
  // What happens to the packets that follow those in `message_`: gathered too, forwarded as they
  // come (`judged`: once they have been judged), or dropped with a refused message.
  enum class Rest : std::uint8_t { gathered, judged, forwarded, dropped };
  // Bytes of the client that are not processed yet.
  std::string input_;
  Message message_;
  Rest rest_ = Rest::gathered;
  // What the message that is on its way to the gate or to the server does.
  Verdict::Does does_ = Verdict::Does::other;
  // The error to send when a refused message has ended.
  std::string refusal_;
  // Status bits of a reset that has not been sent to the server yet.
  std::uint8_t resets_ = 0;
  // What happened while a call of ours for this message was under way.
  struct OnTheWay {
    // The client has cancelled the message with an attention.
    bool cancelled = false;
    bool raised = false;
    // Its transaction is older than a reset, and must not continue without the gate.
    bool outlived_reset = false;
  } on_the_way_;

  // --- the answer to that message ---
  enum class Relayed : std::uint8_t { nothing, some, all };
  Relayed relayed_ = Relayed::nothing;
  bool failed_ = false;
  // The answer returns the handle of a statement that only reads.
  bool prepares_read_ = false;
  // Rows that an INSERT BULK has announced may come.
  bool rows_may_come_ = false;
  // How many attentions were sent on and are not acknowledged yet.
  int attentions_ = 0;
  // Tokens from the answers to our own calls that the client must see.
  std::string carry_;

  // --- after a call that leaves the gate ---
  AfterLeave after_leave_ = AfterLeave::ready;
  ScopedTerm next_pair_;
  std::string refusal_code_, refusal_message_;
};

}  // namespace termgate::tds_session
