#include "login.hpp"

#include <termgate/statements/declaration.hpp>
#include <termgate/tds/packet.hpp>
#include <termgate/tds/text.hpp>

namespace termgate::tds_session {
namespace {

using conversation::Action;

// The version that the proxy reports in PRELOGIN: that of SQL Server 2022, 16.0.1000.
constexpr std::string_view our_version{"\x10\x00\x03\xE8\x00\x00", 6};
constexpr std::size_t login_answer_max = 64u << 10;
constexpr std::size_t prelogin_answer_max = 4096;
constexpr std::uint32_t login_failed = 18456;
constexpr std::size_t login7_version_at = 4;
constexpr std::size_t ack_version_at = 1;  // in LOGINACK's body, the most significant byte first
constexpr std::uint8_t login_severity = 14;
// Appended to the server's own message, which cannot know that there is a proxy.
constexpr std::string_view integrated_advice =
    "This Windows login came through a proxy. Kerberos needs a service principal name for the "
    "proxy's name and port (MSSQLSvc/NAME:PORT) "
    "on "
    "the account of SQL Server; NTLM passes where Extended Protection of SQL Server is off. Or use "
    "a SQL Server login";

}  // namespace

void Login::on_client_message(const Message& message, bool more_came) {
  switch (channel_.stage) {
    case Stage::client_prelogin:
      // jTDS without TLS sends no PRELOGIN, as clients of SQL Server 7 did.
      if (message.type == tds::packet::login7 && !channel_.peer.encrypted_already)
        return on_client_login(message.payload);
      if (message.type != tds::packet::prelogin)
        return malformed_peer("client", "it does not begin with PRELOGIN");
      return on_client_prelogin(message.payload, more_came);
    case Stage::client_login:
      if (message.type != tds::packet::login7)
        return malformed_peer("client", "a LOGIN7 was expected");
      return on_client_login(message.payload);
    case Stage::client_sspi:
      if (message.type != tds::packet::sspi)
        return malformed_peer("client", "the answer of an integrated login was expected");
      channel_.to_server.back().append(message.raw);
      channel_.stage = Stage::server_login;
      return;
    default: return;
  }
}

void Login::on_client_prelogin(std::string_view greeting, bool more_came) {
  const auto prelogin = tds::decode_prelogin(greeting);
  if (!prelogin) return malformed_peer("client", prelogin.problem().reason());
  tds::Prelogin answer;
  answer.version = our_version;
  // Always sent: without it some clients fall back to an older protocol, or keep MARS on.
  answer.mars = 0;
  const tds::Encryption asked = prelogin->encryption.value_or(tds::Encryption::not_supported);
  // Under TDS 8.0 there is nothing to negotiate: the client ignores the answer.
  const bool tls = !channel_.peer.encrypted_already && channel_.options.client_tls &&
                   asked != tds::Encryption::not_supported;
  // OFF would mean TLS for the login only, and clear text after it on the same socket, so the proxy
  // never answers with it.
  answer.encryption = !tls                            ? tds::Encryption::not_supported
                      : asked == tds::Encryption::off ? tds::Encryption::required
                                                      : tds::Encryption::on;
  if (!tls && channel_.options.client_tls_required) answer.encryption = tds::Encryption::required;
  if (channel_.peer.encrypted_already) answer.encryption = tds::Encryption::on;
  std::string payload;
  tds::append_prelogin(payload, answer);
  channel_.say_to_client(payload);
  channel_.stage = Stage::client_login;
  if (!tls) return;
  // Clear text that has arrived after PRELOGIN would be taken for data under TLS.
  if (more_came) return malformed_peer("client", "it sends on before TLS has begun");
  channel_.stage = Stage::client_tls;
  channel_.act(Action::Kind::start_wrapped_client_tls);
}

void Login::on_client_login(std::string_view payload) {
  const auto login = tds::decode_login7(payload);
  if (!login) return malformed_peer("client", login.problem().reason());
  channel_.speak(login->tds_version);
  // The proxy requires TLS, and the client has continued in clear text.
  if (channel_.options.client_tls_required && !encrypted_)
    return refuse("28000", "this proxy requires TLS: Encrypt=yes");
  if (!speaks_known_version(*login)) return;
  for (const tds::Feature& one : login->features) {
    if (one.id == tds::feature::federated_authentication) {
      return refuse("0A000",
                    "federated authentication (Microsoft Entra) does not go through this proxy: "
                    "use a SQL Server login");
    }
  }
  // Features that the proxy cannot support are removed. A session that the client library restores
  // on its own would continue without its gate. A classified result cannot be parsed, nor can the
  // types JSON and vector. The server's name is put in, because Azure's gateway finds a server by
  // the name in the login.
  using namespace tds::feature;
  constexpr char unwanted[] = {static_cast<char>(session_recovery),
                               static_cast<char>(data_classification), static_cast<char>(json),
                               static_cast<char>(vector)};
  const auto sent_on = tds::changed_login7(
      payload, *login, {std::string_view(unwanted, sizeof unwanted), channel_.options.server_name});
  if (!sent_on) return malformed_peer("client", sent_on.problem().reason());
  writes_ = !login->attach_file.empty()       ? Writes::attached_file
            : !login->change_password.empty() ? Writes::password
                                              : Writes::nothing;
  integrated_ = login->integrated();
  request_.user = integrated_ ? "" : tds::utf8_of(login->user);
  request_.database = tds::utf8_of(login->database);
  request_.application_name = tds::utf8_of(login->application);
  const auto declaration = statements::declared_in_application_name(request_.application_name);
  if (!declaration.problem.empty()) return refuse("TG005", declaration.problem);
  claims_.declare_at_login(declaration);
  login7_ = *sent_on;
  // After the login, 8.0 and 7.4 are the same, so each side may use either.
  if (channel_.tds_version == tds::version::v8_0) {
    speaks_8_0_ = true;
    channel_.speak(tds::version::v7_4);
  }
  const bool strict = channel_.options.server_tls == Options::ServerTls::strict;
  if (strict && channel_.tds_version < tds::version::v7_4) {
    return refuse("08P01",
                  "the server speaks TDS 8.0 only, which is TDS 7.4 after the login, and the "
                  "client asks for an older version");
  }
  const std::uint32_t to_server = strict ? tds::version::v8_0 : channel_.tds_version;
  for (std::size_t i = 0; i < 4; ++i)
    login7_[login7_version_at + i] = static_cast<char>(to_server >> 8 * i & 0xFF);
  channel_.stage = Stage::admission;
  channel_.act(Action::Kind::admit);
}

bool Login::speaks_known_version(const tds::Login7& login) {
  if (login.tds_version == tds::version::v8_0) {
    if (channel_.peer.encrypted_already) return true;
    refuse("08P01", "TDS 8.0 begins with TLS (Encrypt=strict), and this client has not");
    return false;
  }
  if (login.tds_version >= tds::version::v7_1) return true;
  refuse("08P01", "this proxy speaks TDS 7.1 and later, and the client asks for an older version");
  return false;
}

void Login::on_admitted(const conversation::Admission& admission) {
  if (channel_.stage != Stage::admission) return;
  if (!admission.refused_sqlstate.empty()) return end(admission.refused_message);
  claims_.admit(admission);
  // The login itself would write, before the session can enter a gate.
  if (claims_.enforces() && admission.without_term != conversation::WithoutTerm::allow &&
      writes_ != Writes::nothing) {
    return refuse("TG005", writes_ == Writes::attached_file
                               ? "TG005 a login that attaches a database file (AttachDBFilename) "
                                 "is refused in a fenced session"
                               : "TG005 a login that changes its password is refused in a fenced "
                                 "session: change it without the proxy");
  }
  channel_.stage = Stage::connecting;
  channel_.act(Action::Kind::connect_server);
}

void Login::send_prelogin() {
  tds::Prelogin prelogin;
  prelogin.version = our_version;
  // Under TDS 8.0 the server ignores it.
  prelogin.encryption = channel_.options.server_tls == Options::ServerTls::disable
                            ? tds::Encryption::not_supported
                            : tds::Encryption::on;
  prelogin.instance = std::string_view("\0", 1);
  prelogin.mars = 0;
  std::string payload;
  tds::append_prelogin(payload, prelogin);
  tds::append_message(channel_.to_server.back(), tds::packet::prelogin, payload,
                      channel_.packet_size);
  channel_.stage = Stage::server_prelogin;
}

void Login::take_server_prelogin(std::string_view bytes, bool ends) {
  server_prelogin_.append(bytes);
  if (server_prelogin_.size() > prelogin_answer_max)
    return malformed_peer("server", "its PRELOGIN is too long");
  if (ends) on_server_prelogin();
}

void Login::on_server_prelogin() {
  const auto prelogin = tds::decode_prelogin(server_prelogin_);
  if (!prelogin) return malformed_peer("server", prelogin.problem().reason());
  const tds::Encryption said = prelogin->encryption.value_or(tds::Encryption::not_supported);
  const bool tls = said == tds::Encryption::on || said == tds::Encryption::required;
  server_prelogin_ = {};
  if (channel_.options.server_tls == Options::ServerTls::strict) return send_login();
  if (tls && channel_.options.server_tls == Options::ServerTls::disable) {
    return end("the server requires TLS, and --backend says encrypt=no");
  }
  if (!tls && channel_.options.server_tls == Options::ServerTls::require) {
    return end("the server does not offer TLS, which --backend requires");
  }
  if (!tls) return send_login();
  channel_.stage = Stage::server_tls;
  channel_.act(Action::Kind::start_wrapped_server_tls);
}

void Login::send_login() {
  tds::append_message(channel_.to_server.back(), tds::packet::login7, login7_,
                      channel_.packet_size);
  std::string().swap(login7_);
  channel_.stage = Stage::server_login;
}

void Login::on_token(const tds::TokenEvent& event) {
  if (event.kind == tds::TokenEvent::Kind::lost) return malformed_peer("server", event.why);
  if (event.kind != tds::TokenEvent::Kind::token || answer_.size() > login_answer_max) return;
  switch (event.token) {
    case tds::token::environment_change: {
      const auto change = tds::decode_environment_change(event.body);
      if (!change) return malformed_peer("server", change.problem().reason());
      on_environment_change(*change);
      if (change->type == tds::environment::mirroring_partner) return;
      break;
    }
    case tds::token::login_ack: {
      const auto ack = tds::decode_login_ack(event.body);
      if (!ack) return malformed_peer("server", ack.problem().reason());
      outcome_ = Outcome::accepted;
      channel_.speak(ack->tds_version == tds::version::v8_0 ? tds::version::v7_4
                                                            : ack->tds_version);
      break;
    }
    case tds::token::feature_ack:
      for (std::size_t at = 0; at + 5 <= event.body.size();) {
        if (static_cast<std::uint8_t>(event.body[at]) == tds::feature::column_encryption)
          channel_.tokens.distrust_results();
        std::size_t size = 0;
        for (std::size_t i = 4; i > 0; --i)
          size = size << 8 | static_cast<unsigned char>(event.body[at + i]);
        at += 5 + size;
      }
      break;
    case tds::token::error:
      if (outcome_ != Outcome::accepted) outcome_ = Outcome::refused;
      break;
    default: break;
  }
  append_answer(event);
}

// Routing and similar changes would make the client bypass the proxy.
void Login::on_environment_change(const tds::EnvironmentChange& change) {
  if (change.type != tds::environment::routing &&
      change.type != tds::environment::enhanced_routing &&
      change.type != tds::environment::user_instance)
    return;
  const auto to = tds::decode_routing(change.now);
  if (to) routed_to_ = to->server + ":" + std::to_string(to->port);
  else if (routed_to_.empty()) routed_to_ = "another address";
}

void Login::append_answer(const tds::TokenEvent& event) {
  answer_ += static_cast<char>(event.token);
  const bool has_length = event.token != tds::token::feature_ack &&
                          event.token < tds::token::done &&
                          event.token != tds::token::return_status;
  if (has_length) {
    answer_ += static_cast<char>(event.body.size() & 0xFF);
    answer_ += static_cast<char>(event.body.size() >> 8 & 0xFF);
  }
  const std::size_t body_at = answer_.size();
  answer_.append(event.body);
  if (event.token == tds::token::error) behind_errors_ = answer_.size();
  if (event.token == tds::token::login_ack) {
    const std::uint32_t to_client = speaks_8_0_ ? tds::version::v8_0 : channel_.tds_version;
    for (std::size_t i = 0; i < 4; ++i)
      answer_[body_at + ack_version_at + i] = static_cast<char>(to_client >> 8 * (3 - i) & 0xFF);
  }
}

bool Login::lets_in() {
  if (answer_.size() > login_answer_max) {
    malformed_peer("server", "its answer to a login is too long");
    return false;
  }
  if (!routed_to_.empty()) {
    end("the server sends its clients on to " + routed_to_ +
        " (routing), past the proxy. Azure SQL: set the server's connection policy to Proxy. "
        "Read-only routing "
        "of an availability group: point --backend to that address, or connect without "
        "ApplicationIntent=ReadOnly");
    return false;
  }
  if (outcome_ == Outcome::accepted) return true;
  if (outcome_ == Outcome::refused) {
    conversation::Incident incident;
    incident.kind = conversation::Incident::Kind::login_refused;
    incident.code = "28000";
    incident.message = integrated_ ? integrated_advice : "the server refused the login";
    if (integrated_) {
      std::string advice;
      tds::append_report(advice, tds::token::error, login_failed, login_severity, integrated_advice,
                         "termgate", channel_.tds_version);
      answer_.insert(behind_errors_, advice);
    }
    channel_.happened(incident);
  }
  channel_.say_to_client(answer_);
  answer_.clear();
  if (outcome_ == Outcome::refused) channel_.close();
  else channel_.stage = Stage::client_sspi;
  return false;
}

void Login::pass_answer_on() {
  tds::append_message(channel_.to_client.back(), tds::packet::reply, answer_, 4096);
  std::string().swap(answer_);
}

void Login::refuse(std::string_view code, std::string_view message) {
  conversation::Incident incident;
  incident.kind = conversation::Incident::Kind::login_refused;
  incident.code = code;
  incident.message = message;
  channel_.happened(incident);
  end(message);
}

void Login::end(std::string_view message) {
  std::string payload;
  tds::append_report(payload, tds::token::error, login_failed, login_severity, message, "termgate",
                     channel_.tds_version);
  tds::append_done(payload, {tds::token::done, tds::done_status::error, 0, 0},
                   channel_.tds_version);
  channel_.say_to_client(payload);
  channel_.close();
}

}  // namespace termgate::tds_session
