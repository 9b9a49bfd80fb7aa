// The state of a conversation, and which file does what with it:
//
//   login.cpp     to the first answer of the server that lets in, and the gate's greeting
//   client.cpp    the client's messages: gathered, judged, forwarded, refused
//   gate.cpp      our own calls: enter, leave, and what they answer
//   server.cpp    the server's answers: relayed and walked
//   session.cpp   the outside: ends, deadlines, evictions
//
//   READY ──▶ ENTERING ──▶ RELAYING ──▶ READY        the gate is not held: it is entered first
//   READY ──────────────▶ RELAYING ──▶ READY         it is held, or the message needs none
//   READY ──▶ LEAVING ──▶ READY                      a raise wants it, or nobody has used it for a while
//   any   ──▶ CLOSING                                a raise has waited for it for the grace period
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/conversation/outbox.hpp>
#include <termgate/tds/login.hpp>
#include <termgate/tds/packet.hpp>
#include <termgate/tds/request.hpp>
#include <termgate/tds/token.hpp>
#include <termgate/tds/types.hpp>
#include <termgate/tds_session/tds_session.hpp>
#include <termgate/tds_session/text.hpp>

#include "claims.hpp"
#include "watch.hpp"

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
  client_sspi,  // the server wants more of an integrated login
  hello,
  ready,
  entering,
  raising,
  relaying,
  leaving,
  closing
};

// A message of the client's, whole or as far as it is looked at before it goes on.
struct Message {
  std::uint8_t type = 0;
  bool complete = false;    // else more packets follow
  bool given_up = false;    // by the client itself, at its end
  std::uint8_t resets = 0;  // status bits of its first packet, taken out of `raw`
  std::string raw;          // its packets
  std::string payload;      // what is in them
};

// What is to be done with one.
struct Verdict {
  enum class Way : std::uint8_t { pass, gate, refuse, answer };
  Way way = Way::gate;
  bool bulk = false;       // rows follow in a message of their own
  bool bulk_rows = false;  // these are they
  bool declares = false;
  bool only_reads = false;         // it cannot have declared anything
  bool resets = false;             // the session, by a call
  bool prepares_read = false;      // a statement that only reads: the handle that comes back stands for it
  std::optional<ScopedTerm> sets;  // by set_term
  std::string code, message;
  std::string statement;  // for the log
};

// What a call of ours has answered so far.
struct Answer {
  bool proven = false;
  std::int64_t code = -1;
  bool raise = false;
  std::int64_t trancount = 0;
  std::int64_t fence = 0;
  std::int64_t declared = 0, term = 0, grace_ms = 0;
  std::string scope, message;
  std::string error;  // the first one that the server sent
  std::uint32_t error_number = 0;
};

class TdsSession::State {
 public:
  State(const Options& options, Peer peer, conversation::SessionHost& host, Instant now);

  // --- login.cpp ---
  void on_client_prelogin(Instant now);
  void on_client_login(Instant now);
  void on_admitted(const conversation::Admission& admission, Instant now);
  void send_server_prelogin();
  void on_server_prelogin(Instant now);
  void send_login();
  void login_token(const tds::TokenEvent& event);
  void login_message_ends(Instant now);
  void hello_ends(Instant now);
  void refuse_login(std::uint32_t number, std::string_view code, std::string_view message);
  void end_login(std::uint32_t number, std::string_view message);

  // --- client.cpp ---
  void take_client(std::string_view bytes, Instant now);
  void pump_client(Instant now);
  bool reads_packets() const noexcept;
  bool take_attention(Instant now);
  void on_client_event(const tds::PacketEvent& event, Instant now);
  void on_message(Instant now);
  Verdict verdict_of(const Message& message);
  Verdict verdict_of_batch(std::string_view body) const;
  Verdict verdict_of_calls(std::string_view body) const;
  bool call_reads(const tds::Call& call, Verdict& verdict) const;
  bool reads_pass() const noexcept { return claims_.admission().without_term == conversation::WithoutTerm::read_only; }
  Verdict verdict_of_transaction(std::string_view body) const;
  void through_gate(const Verdict& verdict, Instant now);
  void observe(const Verdict& verdict);
  void forward(const Verdict& verdict, Instant now);
  void answer_locally(const Verdict& verdict);
  void refuse(std::string_view code, std::string_view message, bool from_memory, Instant now, std::int64_t fence = 0);
  void answer_refusal();
  void answer_attention();
  void say_to_client(std::string_view payload);
  std::uint8_t done_token() const noexcept { return message_.type == tds::packet::rpc ? tds::token::done_procedure : tds::token::done; }

  // --- gate.cpp ---
  enum class AfterLeave : std::uint8_t { ready, enter, refuse };
  void send_enter(const ScopedTerm& pair, Instant now);
  void send_leave(AfterLeave after, Instant now);
  void send_hello(Instant now);
  void send_call(std::string_view payload, Instant now);
  void call_value(const tds::ReturnValue& value);
  void enter_ends(Instant now);
  void leave_ends(Instant now);
  std::string gate_name(std::string_view procedure) const;
  bool may_leave() const noexcept;
  enum class Gate : std::uint8_t { open, held, unsure };
  void gate_is(Gate gate);
  void wanted(bool certain, Instant now);

  // --- server.cpp ---
  void take_server(std::string_view bytes, Instant now);
  void on_server_event(const tds::PacketEvent& event, Instant now);
  void walk(std::string_view payload);
  void on_token(const tds::TokenEvent& event);
  void on_environment_change(std::string_view body);
  void server_message_ends(Instant now);
  void relayed_message_ends(std::optional<tds::Done> last, Instant now);
  void back_to_ready(Instant now);

  // --- session.cpp ---
  void act(conversation::Action::Kind kind) { actions_.push_back({kind}); }
  void happened(conversation::Incident incident) const { host_.happened(incident); }
  // The end, with an error where the client waits for an answer of which it has seen nothing yet.
  void end(std::uint32_t number, std::string_view message);
  void malformed_peer(std::string_view who, std::string_view why);
  // Whether it was, for the proxy drains and nothing is under way.
  bool drain_ends();
  void end_for_raise();
  void tick(Instant now);
  bool in_transaction() const noexcept { return transaction_ != 0 || server_inside_; }
  bool logged_in() const noexcept { return stage_ >= Stage::ready && stage_ != Stage::closing; }

  const Options& options_;
  const Peer peer_;
  conversation::SessionHost& host_;
  Stage stage_ = Stage::client_prelogin;
  const Instant started_;
  Instant latest_;  // the client's last message, or the server's last answer
  conversation::LoginRequest login_;
  Claims claims_;
  conversation::Outbox client_out_, server_out_;
  std::vector<conversation::Action> actions_;
  tds::PacketReader client_reader_{tds::Direction::from_client}, server_reader_{tds::Direction::from_server};
  tds::TokenReader tokens_{tds::version::v7_4};
  std::uint32_t tds_version_ = tds::version::v7_4;
  std::size_t packet_size_ = 4096;
  bool draining_ = false;

  // --- the login ---
  std::string prelogin_answer_;  // the server's, as it comes
  std::string login7_;           // what the server is sent
  std::string login_answer_;     // tokens for the client
  bool login_acked_ = false, login_failed_ = false, login_ended_ = false;
  bool encrypted_;           // by the client's TLS
  bool speaks_8_0_ = false;  // the client
  bool routed_ = false;
  std::string routed_to_;                             // where the server sends its clients, if it says so
  bool attaches_ = false, changes_password_ = false;  // the login
  bool integrated_ = false;                           // NTLM or Kerberos; its messages pass as they are
  std::size_t behind_errors_ = 0;                     // of login_answer_
  bool has_layer1_ = false;
  std::string no_layer1_;  // why not

  // --- the client's message ---
  std::string input_;  // not looked at yet
  Message message_;
  bool streaming_ = false;  // the rest of a message goes on as it comes
  bool judges_ = false;     // what of it goes on
  Judge judge_;
  bool swallowing_ = false;  // the rest of a refused message goes nowhere
  std::string refusal_;      // to be answered when it has ended
  std::uint8_t resets_ = 0;  // that the server has not been told yet
  bool cancelled_ = false;   // by an attention, while a call of ours was under way

  // --- its answer ---
  bool relayed_any_ = false;
  bool response_done_ = false;
  bool response_failed_ = false;
  bool bulk_sent_ = false, bulk_expected_ = false, reads_sent_ = false;
  int attentions_ = 0;  // sent on and not acknowledged
  // Of statements that only read, where reads may pass; nothing that may have prepared another under the same number has run since.
  std::set<std::int64_t> read_handles_;
  bool prepares_read_ = false;
  std::string carry_;  // tokens of our own calls' answers that the client must see

  // --- the gate ---
  Gate gate_ = Gate::open;
  bool gate_wanted_ = false;               // give it back as soon as possible
  std::optional<Instant> raise_waits_;     // since when one surely does, and …
  Instant raise_seen_{};                   // … was last seen to
  std::chrono::milliseconds grace_{1000};  // of the database, as it was at the login
  ScopedTerm pair_;                        // that it was entered with, or is being
  ScopedTerm wanted_;                      // to be entered with after leaving
  bool wanted_declared_ = false;
  Instant used_{}, sent_{};
  std::int64_t proof_ = 0;
  Answer answer_;
  AfterLeave after_leave_ = AfterLeave::ready;
  bool outlived_reset_ = false;  // the transaction has, in which the gate is being entered: it may not go on without
  bool raised_ = false;          // for this message already
  std::string after_code_, after_message_;

  // --- the transaction ---
  std::uint64_t transaction_ = 0;  // its descriptor; 0: none, as far as was announced
  bool server_inside_ = false;     // … as a leave was answered, since the last message of the client's
};

// The number of an error for a code TG00n; anything else is TG006's.
std::uint32_t number_of(std::string_view code) noexcept;

}  // namespace termgate::tds_session
