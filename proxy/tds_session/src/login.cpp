// From the client's PRELOGIN to the first answer of the server that lets it in, and the greeting of the gate.
#include <termgate/statements/declaration.hpp>
#include <termgate/tds/text.hpp>

#include "state.hpp"

namespace termgate::tds_session {
namespace {

using conversation::Action;

// The proxy's own version in PRELOGIN: that of SQL Server 2022, 16.0.1000.
constexpr std::string_view our_version{"\x10\x00\x03\xE8\x00\x00", 6};
constexpr std::size_t login_answer_max = 64u << 10;
constexpr std::uint32_t login_failed = 18456;
constexpr std::size_t login7_version_at = 4;
constexpr std::size_t ack_version_at = 1;  // of LOGINACK's body, the most significant byte first
constexpr std::uint8_t login_severity = 14;
// What the server's own message cannot know: there is a proxy in the way.
constexpr std::string_view integrated_advice =
    "This Windows login came through a proxy. Kerberos needs a service principal name for the proxy's name and port (MSSQLSvc/NAME:PORT) "
    "on "
    "the account of SQL Server; NTLM passes where Extended Protection of SQL Server is off. Or use a SQL Server login";

}  // namespace

void TdsSession::State::on_client_prelogin(Instant) {
  const auto prelogin = tds::decode_prelogin(message_.payload);
  if (!prelogin) return malformed_peer("client", prelogin.problem().reason());
  tds::Prelogin answer;
  answer.version = our_version;
  // Always there: without it some clients fall back to an older protocol, or keep their multiplexing on.
  answer.mars = 0;
  const tds::Encryption asked = prelogin->encryption.value_or(tds::Encryption::not_supported);
  // Under TDS 8.0 nothing is to be agreed on: the client passes over the answer.
  const bool tls = !peer_.encrypted_already && options_.client_tls && asked != tds::Encryption::not_supported;
  // OFF would mean TLS for the login only, and clear text behind it on the same socket: never said.
  answer.encryption = !tls                            ? tds::Encryption::not_supported
                      : asked == tds::Encryption::off ? tds::Encryption::required
                                                      : tds::Encryption::on;
  if (!tls && options_.client_tls_required) answer.encryption = tds::Encryption::required;
  if (peer_.encrypted_already) answer.encryption = tds::Encryption::on;
  std::string payload;
  tds::append_prelogin(payload, answer);
  tds::append_message(client_out_.back(), tds::packet::reply, payload, packet_size_);
  message_ = {};
  stage_ = Stage::client_login;
  if (!tls) return;
  // What has come in clear text behind it would be taken for what TLS protects.
  if (!input_.empty()) return malformed_peer("client", "it sends on before TLS has begun");
  stage_ = Stage::client_tls;
  act(Action::Kind::start_wrapped_client_tls);
}

void TdsSession::State::on_client_login(Instant) {
  const auto login = tds::decode_login7(message_.payload);
  if (!login) return malformed_peer("client", login.problem().reason());
  tds_version_ = login->tds_version;
  tokens_.set_version(tds_version_);
  // It was told so with PRELOGIN, and has gone on in clear text.
  if (options_.client_tls_required && !encrypted_) return refuse_login(login_failed, "28000", "this proxy requires TLS: Encrypt=yes");
  if (tds_version_ == tds::version::v8_0 && !peer_.encrypted_already)
    return refuse_login(login_failed, "08P01", "TDS 8.0 begins with TLS (Encrypt=strict), and this client has not");
  if (tds_version_ < tds::version::v7_1 && tds_version_ != tds::version::v8_0) {
    return refuse_login(login_failed, "08P01", "this proxy speaks TDS 7.1 and later, and the client asks for an older version");
  }
  for (const tds::Feature& one : login->features) {
    if (one.id == tds::feature::federated_authentication) {
      return refuse_login(login_failed, "0A000",
                          "federated authentication (Microsoft Entra) does not go through this proxy: use a SQL Server login");
    }
  }
  // A session that is recovered behind our back would go on without its gate; a classified result cannot be walked, nor can the types of
  // JSON and vectors. Azure's gateway finds a server by its name in the login.
  using namespace tds::feature;
  constexpr char unwanted[] = {static_cast<char>(session_recovery), static_cast<char>(data_classification), static_cast<char>(json),
                               static_cast<char>(vector)};
  const auto sent_on = tds::changed_login7(message_.payload, *login, {std::string_view(unwanted, sizeof unwanted), options_.server_name});
  if (!sent_on) return malformed_peer("client", sent_on.problem().reason());
  attaches_ = !login->attach_file.empty();
  changes_password_ = !login->change_password.empty();
  integrated_ = login->integrated();
  login_.user = integrated_ ? "" : tds::utf8_of(login->user);
  login_.database = tds::utf8_of(login->database);
  login_.application_name = tds::utf8_of(login->application);
  const auto declaration = statements::declared_in_application_name(login_.application_name);
  if (!declaration.problem.empty()) return refuse_login(login_failed, "TG005", declaration.problem);
  claims_.declare_at_login(declaration);
  login7_ = *sent_on;
  // What comes after the login is the same in 8.0 as in 7.4: each side may speak one of the two.
  if (tds_version_ == tds::version::v8_0) {
    speaks_8_0_ = true;
    tds_version_ = tds::version::v7_4;
    tokens_.set_version(tds_version_);
  }
  const bool strict = options_.server_tls == Options::ServerTls::strict;
  if (strict && tds_version_ < tds::version::v7_4) {
    return refuse_login(login_failed, "08P01",
                        "the server speaks TDS 8.0 only, which is TDS 7.4 after the login, and the client asks for an older version");
  }
  const std::uint32_t to_server = strict ? tds::version::v8_0 : tds_version_;
  for (std::size_t i = 0; i < 4; ++i) login7_[login7_version_at + i] = static_cast<char>(to_server >> 8 * i & 0xFF);
  message_ = {};
  stage_ = Stage::admission;
  act(Action::Kind::admit);
}

void TdsSession::State::on_admitted(const conversation::Admission& admission, Instant) {
  if (stage_ != Stage::admission) return;
  if (!admission.refused_sqlstate.empty()) return end_login(login_failed, admission.refused_message);
  claims_.admit(admission);
  // The login itself would write, and no gate is entered before it.
  if (claims_.enforces() && admission.without_term != conversation::WithoutTerm::allow && (attaches_ || changes_password_)) {
    return refuse_login(login_failed, "TG005",
                        attaches_ ? "TG005 a login that attaches a database file (AttachDBFilename) is refused in a fenced session"
                                  : "TG005 a login that changes its password is refused in a fenced session: change it without the proxy");
  }
  stage_ = Stage::connecting;
  act(Action::Kind::connect_server);
}

void TdsSession::State::send_server_prelogin() {
  tds::Prelogin prelogin;
  prelogin.version = our_version;
  // Under TDS 8.0 the server passes over it.
  prelogin.encryption = options_.server_tls == Options::ServerTls::disable ? tds::Encryption::not_supported : tds::Encryption::on;
  prelogin.instance = std::string_view("\0", 1);
  prelogin.mars = 0;
  std::string payload;
  tds::append_prelogin(payload, prelogin);
  tds::append_message(server_out_.back(), tds::packet::prelogin, payload, packet_size_);
  stage_ = Stage::server_prelogin;
}

void TdsSession::State::on_server_prelogin(Instant) {
  const auto prelogin = tds::decode_prelogin(prelogin_answer_);
  if (!prelogin) return malformed_peer("server", prelogin.problem().reason());
  const tds::Encryption said = prelogin->encryption.value_or(tds::Encryption::not_supported);
  const bool tls = said == tds::Encryption::on || said == tds::Encryption::required;
  prelogin_answer_ = {};
  if (options_.server_tls == Options::ServerTls::strict) return send_login();
  if (tls && options_.server_tls == Options::ServerTls::disable) {
    return end_login(login_failed, "the server requires TLS, and --backend says encrypt=no");
  }
  if (!tls && options_.server_tls == Options::ServerTls::require) {
    return end_login(login_failed, "the server does not offer TLS, which --backend requires");
  }
  if (!tls) return send_login();
  stage_ = Stage::server_tls;
  act(Action::Kind::start_wrapped_server_tls);
}

void TdsSession::State::send_login() {
  tds::append_message(server_out_.back(), tds::packet::login7, login7_, packet_size_);
  std::string().swap(login7_);
  stage_ = Stage::server_login;
}

void TdsSession::State::login_token(const tds::TokenEvent& event) {
  if (event.kind == tds::TokenEvent::Kind::lost) return malformed_peer("server", event.why);
  if (event.kind != tds::TokenEvent::Kind::token || login_answer_.size() > login_answer_max) return;
  switch (event.token) {
    case tds::token::environment_change: {
      const auto change = tds::decode_environment_change(event.body);
      if (!change) return malformed_peer("server", change.problem().reason());
      // They would lead the client past the proxy.
      if (change->type == tds::environment::routing || change->type == tds::environment::enhanced_routing ||
          change->type == tds::environment::user_instance) {
        routed_ = true;
        const auto to = tds::decode_routing(change->now);
        if (to) routed_to_ = to->server + ":" + std::to_string(to->port);
      }
      if (change->type == tds::environment::mirroring_partner) return;
      break;
    }
    case tds::token::login_ack: {
      const auto ack = tds::decode_login_ack(event.body);
      if (!ack) return malformed_peer("server", ack.problem().reason());
      login_acked_ = true;
      tds_version_ = ack->tds_version == tds::version::v8_0 ? tds::version::v7_4 : ack->tds_version;
      tokens_.set_version(tds_version_);
      break;
    }
    case tds::token::feature_ack:
      for (std::size_t at = 0; at + 5 <= event.body.size();) {
        if (static_cast<std::uint8_t>(event.body[at]) == tds::feature::column_encryption) tokens_.distrust_results();
        std::size_t size = 0;
        for (std::size_t i = 4; i > 0; --i) size = size << 8 | static_cast<unsigned char>(event.body[at + i]);
        at += 5 + size;
      }
      break;
    case tds::token::error: login_failed_ = true; break;
    default: break;
  }
  login_answer_ += static_cast<char>(event.token);
  const bool has_length =
      event.token != tds::token::feature_ack && event.token < tds::token::done && event.token != tds::token::return_status;
  if (has_length) {
    login_answer_ += static_cast<char>(event.body.size() & 0xFF);
    login_answer_ += static_cast<char>(event.body.size() >> 8 & 0xFF);
  }
  const std::size_t body_at = login_answer_.size();
  login_answer_.append(event.body);
  if (event.token == tds::token::error) behind_errors_ = login_answer_.size();
  if (event.token == tds::token::login_ack) {
    const std::uint32_t to_client = speaks_8_0_ ? tds::version::v8_0 : tds_version_;
    for (std::size_t i = 0; i < 4; ++i) login_answer_[body_at + ack_version_at + i] = static_cast<char>(to_client >> 8 * (3 - i) & 0xFF);
  }
}

void TdsSession::State::login_message_ends(Instant now) {
  if (login_answer_.size() > login_answer_max) return malformed_peer("server", "its answer to a login is too long");
  if (routed_) {
    return end_login(login_failed,
                     "the server sends its clients on to " + (routed_to_.empty() ? "another address" : routed_to_) +
                         " (routing), past the proxy. Azure SQL: set the server's connection policy to Proxy. Read-only routing "
                         "of an availability group: point --backend to that address, or connect without ApplicationIntent=ReadOnly");
  }
  if (login_acked_) {
    stage_ = Stage::hello;
    return send_hello(now);
  }
  if (login_failed_) {
    conversation::Incident incident;
    incident.kind = conversation::Incident::Kind::login_refused;
    incident.code = "28000";
    incident.message = integrated_ ? integrated_advice : "the server refused the login";
    if (integrated_) {
      std::string advice;
      tds::append_report(advice, tds::token::error, login_failed, login_severity, integrated_advice, "termgate", tds_version_);
      login_answer_.insert(behind_errors_, advice);
    }
    happened(incident);
  }
  tds::append_message(client_out_.back(), tds::packet::reply, login_answer_, packet_size_);
  login_answer_.clear();
  if (!login_failed_) {
    stage_ = Stage::client_sspi;
    return;
  }
  stage_ = Stage::closing;
  act(Action::Kind::close_server);
  act(Action::Kind::close_client);
}

void TdsSession::State::hello_ends(Instant now) {
  has_layer1_ = answer_.proven;
  if (!has_layer1_) no_layer1_ = answer_.error.empty() ? "the gate did not answer" : answer_.error;
  if (answer_.declared != 0) claims_.server_knows();
  if (answer_.grace_ms > 0) grace_ = std::chrono::milliseconds(answer_.grace_ms);
  tds::append_message(client_out_.back(), tds::packet::reply, login_answer_, 4096);
  std::string().swap(login_answer_);
  stage_ = Stage::ready;
  pump_client(now);
}

void TdsSession::State::refuse_login(std::uint32_t number, std::string_view code, std::string_view message) {
  conversation::Incident incident;
  incident.kind = conversation::Incident::Kind::login_refused;
  incident.code = code;
  incident.message = message;
  happened(incident);
  end_login(number, message);
}

void TdsSession::State::end_login(std::uint32_t number, std::string_view message) {
  std::string payload;
  tds::append_report(payload, tds::token::error, number, login_severity, message, "termgate", tds_version_);
  tds::append_done(payload, {tds::token::done, tds::done_status::error, 0, 0}, tds_version_);
  tds::append_message(client_out_.back(), tds::packet::reply, payload, packet_size_);
  stage_ = Stage::closing;
  act(Action::Kind::close_server);
  act(Action::Kind::close_client);
}

}  // namespace termgate::tds_session
