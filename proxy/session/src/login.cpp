// From the first byte to the first ReadyForQuery: who the client is, whether it is let in, and its conversation with the server
// about its credential, which passes through (PostgreSQL documentation, "Start-up", protocol-flow.html).
#include <algorithm>
#include <array>

#include "numbers.hpp"
#include "state.hpp"

namespace termgate::session {

namespace frontend = pgwire::frontend;
namespace backend = pgwire::backend;
using pgwire::Event;

namespace {

constexpr std::size_t name_bytes_max = 63;  // of a PostgreSQL identifier
bool is_ascii(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char letter) { return static_cast<unsigned char>(letter) < 0x80; });
}

// PostgreSQL up to 16 cuts a longer name off, and would let it in as somebody, or into something, that no rule and no limit was
// applied to.
std::string too_long(std::string_view what, const std::string& name) {
  if (name.size() <= name_bytes_max) return {};
  return std::string(what) + " has " + std::to_string(name.size()) + " bytes: PostgreSQL's names have at most " +
         std::to_string(name_bytes_max) + ", and Termgate does not guess which one is meant";
}

// For the log: this client does not come in.
template <class State>
void refuse_login(State& state, std::string_view sqlstate, std::string_view message) {
  state.host_.happened({.kind = Incident::Kind::login_refused, .code = sqlstate, .message = message});
  state.end(sqlstate, message);
}

}  // namespace

void Session::State::greet(std::string_view bytes) {
  client_in_.append(bytes);
  while (stage_ == Stage::greeting && !client_in_.empty()) {
    const pgwire::StartupEvent event = login_.reader.next(client_in_);
    using Startup = pgwire::StartupEvent::Kind;
    switch (event.kind) {
      case Startup::need_more: client_in_.erase(0, event.used); return;
      case Startup::malformed:
        host_.happened({.kind = Incident::Kind::malformed, .message = event.problem.reason()});
        // As PostgreSQL does: who did not speak its protocol at all would not understand the answer, and who has thought better of it
        // (Terminate at once) wants none.
        if (event.unanswered) return close_all();
        if (event.before_3) {
          to_client_.back() += "EFATAL:  " + std::string(event.problem.reason()) + "\n";
          to_client_.back() += '\0';
          return close_all();
        }
        return end(event.problem.sqlstate, event.problem.reason());
      case Startup::direct_tls:
        // Where TLS is served the caller has dealt with it; PostgreSQL without TLS gives no answer.
        host_.happened({.kind = Incident::Kind::malformed, .message = "a TLS handshake where none is allowed"});
        return close_all();
      case Startup::gssenc_request:
      case Startup::ssl_request: {
        const bool ssl = event.kind == Startup::ssl_request;
        client_in_.erase(0, event.used);
        bool& requested = ssl ? login_.ssl_requested : login_.gss_requested;
        if (requested) return end("08P01", ssl ? "SSLRequest twice" : "GSSENCRequest twice");
        requested = true;
        // What was written before our answer is clear text that somebody may have put in front of the encrypted session.
        if (!client_in_.empty()) return end("08P01", "unencrypted data after a request for encryption");
        if (!ssl || !options_.client_tls || login_.encrypted) {
          to_client_.back() += 'N';
          continue;
        }
        to_client_.back() += 'S';
        stage_ = Stage::client_tls;
        return act(Action::Kind::start_client_tls);
      }
      case Startup::cancel_request:
        cancel_pid_ = event.pid;
        cancel_key_ = std::string(event.key);
        client_in_.clear();
        stage_ = Stage::closing;
        return act(Action::Kind::forward_cancel);
      case Startup::startup: return startup_read(event);
    }
  }
}

void Session::State::startup_read(const pgwire::StartupEvent& event) {
  const pgwire::StartupMessage& startup = event.startup;
  login_.client_minor = startup.minor;
  for (const auto& [name, value] : startup.parameters) login_.startup.emplace_back(name, value);
  for (const auto& [name, value] : startup.extensions) login_.startup.emplace_back(name, value);
  const auto named = [&](std::string_view name) { return std::string(startup.find(name).value_or("")); };
  login_request_.user = named("user");
  login_request_.database = named("database").empty() ? login_request_.user : named("database");
  login_request_.application_name = named("application_name");
  const std::string replication = named("replication");
  login_request_.replication =
      !replication.empty() && replication != "false" && replication != "off" && replication != "no" && replication != "0";

  statements::Declaration declared = statements::declared_in_application_name(login_request_.application_name);
  const statements::Declaration by_options = statements::declared_in_options(named("options"));
  for (const auto& one : {declared, by_options}) {
    if (!one.problem.empty()) return refuse_login(*this, "TG005", one.problem);
  }
  // Of two places the later one counts, each half by itself; application_name has less weight than the options.
  claims_.declare(declared);
  claims_.declare(by_options);
  settings_.own_names_first = puts_own_names_first(named("search_path")) && puts_own_names_first(named("options"));
  for (const auto& [name, value] : startup.parameters) {
    if (!statements::is_declared_setting(name)) continue;
    statements::Declaration one;
    statements::declare(one, name, value, "the start-up message");
    if (!one.problem.empty()) return refuse_login(*this, "TG005", one.problem);
    claims_.declare(one);
  }
  client_in_.erase(0, event.used);

  if (options_.client_tls_required && !login_.encrypted && !peer_.local)
    return refuse_login(*this, "28000", "Termgate takes no connection without TLS here");
  if (login_request_.user.empty()) return refuse_login(*this, "28000", "no PostgreSQL user name specified in startup packet");
  if (const std::string problem = too_long("the user's name", login_request_.user); !problem.empty())
    return refuse_login(*this, "28000", problem);
  if (const std::string problem = too_long("the database's name", login_request_.database); !problem.empty())
    return refuse_login(*this, "28000", problem);
  stage_ = Stage::admitting;
  act(Action::Kind::admit);
}

void Session::State::admitted(const Admission& admission) {
  if (stage_ != Stage::admitting) return;
  claims_.admit(admission, login_request_.replication);
  if (!admission.refused_sqlstate.empty()) return end(admission.refused_sqlstate, admission.refused_message);
  if (login_request_.replication && !admission.replication) {
    return refuse_login(
        *this, "28000",
        "replication connections are not let through: they read past every fence. Connect to the server directly, or allow them by a rule");
  }
  stage_ = Stage::connecting;
  act(Action::Kind::connect_server);
}

void Session::State::server_connected() {
  if (stage_ != Stage::connecting) return;
  if (options_.server_is_local || options_.server_tls == Options::ServerTls::disable) return start_login();
  pgwire::append_ssl_request(server_.bytes.back());
  stage_ = Stage::server_greeting;
}

void Session::State::server_greeted(std::string_view& bytes) {
  const char answer = bytes.front();
  bytes.remove_prefix(1);
  if (answer == 'S') {
    if (!bytes.empty()) return end("08006", "the server sent unencrypted data after it agreed to TLS: a third party may be in between");
    stage_ = Stage::server_tls;
    return act(Action::Kind::start_server_tls);
  }
  if (answer != 'N') return end("08006", "the server answered the request for TLS with something else; is it a PostgreSQL server?");
  if (options_.server_tls == Options::ServerTls::require) return end("08006", "the server offers no TLS, which this proxy requires");
  start_login();
}

// `options` as the client wrote it, behind what application_name declares.
std::string Session::State::server_options(std::string_view requested) const {
  std::string result;
  const auto declared = [&](std::string_view setting, const std::string& value) {
    result += "-c ";
    result += setting;
    result += '=';
    for (const char letter : value) {
      if (letter == '\\' || letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r' || letter == '\v' || letter == '\f')
        result += '\\';
      result += letter;
    }
    result += ' ';
  };
  // application_name declares below the options: in front of them.
  const statements::Declaration by_name = statements::declared_in_application_name(login_request_.application_name);
  if (by_name.scope) declared("termgate.scope", by_name.scope->name());
  if (by_name.term) declared("termgate.term", std::to_string(by_name.term->value()));
  result += requested;
  return result;
}

void Session::State::start_login() {
  claims_.login_begins();
  using ServerGuard = Options::ServerGuard;
  const bool there =
      options_.server_guard == ServerGuard::required || (options_.server_guard == ServerGuard::when_there && host_.server_has_guard());
  if (there && claims_.may_be_server_guarded()) {
    claims_.server_guards();
    // Nothing takes it back, so it may be in the start-up packet. Whether it has worked is checked ahead of the client's first message.
    login_.startup.emplace_back("termgate.guard_session", "on");
  }
  std::vector<pgwire::StartupMessage::Parameter> parameters;
  std::string options;
  std::string_view requested;
  for (const auto& [name, value] : login_.startup) {
    if (name == "options") requested = value;
    else parameters.emplace_back(name, value);
  }
  options = login_request_.replication ? std::string(requested) : server_options(requested);
  if (!options.empty()) parameters.emplace_back("options", options);
  if (login_request_.replication && claims_.enforces()) parameters.emplace_back("default_transaction_read_only", "on");
  // A newer minor version than the codec's is negotiated down here; what the server knows it says itself.
  pgwire::append_startup(server_.bytes.back(), std::min(login_.client_minor, pgwire::protocol_minor_max), parameters);
  login_.startup.clear();
  login_.startup.shrink_to_fit();
  stage_ = Stage::login;
}

void Session::State::login_from_client(const Event& event) {
  if (event.type == frontend::terminate) return close_all();
  if (event.type != frontend::password || event.kind != Event::Kind::message) {
    host_.happened({.kind = Incident::Kind::malformed, .message = "a message that has no place in a login"});
    return end("08P01", "expected password response");
  }
  if (login_.awaiting_sasl_initial) {
    login_.awaiting_sasl_initial = false;
    // SASLInitialResponse: mechanism, NUL, length, client-first-message, which begins with the GS2 header.
    const std::size_t nul = event.body.find('\0');
    const std::size_t begin = nul == std::string_view::npos ? nul : nul + 5;
    if (login_.plus_removed && begin != std::string_view::npos && begin < event.body.size() && event.body[begin] == 'y') {
      return refuse_login(*this, "28000",
                          "channel binding cannot pass through a proxy that ends TLS on both sides, and the server insists on it where the "
                          "client could: connect with channel_binding=disable, or let the proxy reach "
                          "the server without TLS (a Unix socket, loopback)");
    }
  }
  server_.bytes.back() += event.frame;
}

void Session::State::authentication(const Event& event) {
  const auto authentication = pgwire::decode_authentication(event.body);
  if (!authentication) return end("08P01", authentication.problem().reason());
  using Type = pgwire::Authentication::Type;
  if (authentication->type == Type::ok) {
    if (!login_.credential_requested && !peer_.local && !options_.trust_backend) {
      return refuse_login(*this, "28000",
                          "the server requests no credential (its pg_hba.conf trusts this proxy), so anybody could log in: Termgate "
                          "offers it to other machines only with --trust-backend");
    }
  } else if (authentication->type != Type::sasl_final) {
    login_.credential_requested = true;
  }
  if (authentication->type == Type::gss || authentication->type == Type::sspi || authentication->type == Type::kerberos_v5) {
    return refuse_login(
        *this, "28000",
        "GSSAPI names the server's host and cannot pass through a proxy: use SCRAM, or a certificate between client and proxy");
  }
  if (authentication->type == Type::sasl) {
    login_.awaiting_sasl_initial = true;
    if (authentication->offers("SCRAM-SHA-256-PLUS")) {
      // It binds to the certificate of the server, which the client of a proxy does not see.
      login_.plus_removed = true;
      std::vector<std::string_view> mechanisms;
      for (std::string_view rest = authentication->payload; !rest.empty() && rest.front() != '\0';) {
        const std::string_view one = rest.substr(0, rest.find('\0'));
        if (!one.ends_with("-PLUS")) mechanisms.push_back(one);
        rest.remove_prefix(std::min(one.size() + 1, rest.size()));
      }
      if (mechanisms.empty())
        return refuse_login(*this, "28000", "the server takes SCRAM with channel binding only, which cannot pass through a proxy");
      pgwire::append_authentication_sasl(to_client_.back(), mechanisms);
      return;
    }
  }
  to_client_.back() += event.frame;
}

void Session::State::login_parameter(const Event& event) {
  if (const auto status = pgwire::decode_parameter_status(event.body)) {
    // Where the server makes another role of the name (db_user_namespace), the rules and limits were asked about nobody.
    if (status->name == "session_authorization" && !options_.server_pooler && status->value != login_request_.user &&
        is_ascii(status->value) && is_ascii(login_request_.user)) {
      return refuse_login(*this, "28000",
                          "the server let user \"" + login_request_.user + "\" in as \"" + std::string(status->value) +
                              "\", and Termgate's rules are about the name that was given");
    }
  }
  parameter_status(event);
}

void Session::State::login_from_server(const Event& event) {
  if (event.kind == Event::Kind::part) {  // an ErrorResponse beyond all measure
    to_client_.back() += event.frame;
    return;
  }
  if (!login_.negotiated && login_.client_minor > pgwire::protocol_minor_max && event.type != backend::negotiate_protocol_version &&
      event.type != backend::error_response) {
    login_.negotiated = true;
    pgwire::append_negotiate_protocol_version(to_client_.back(), pgwire::protocol_minor_max, {});
  }
  switch (event.type) {
    case backend::negotiate_protocol_version:
      if (login_.negotiated) return end("08P01", "the server negotiated the protocol twice");
      login_.negotiated = true;
      to_client_.back() += event.frame;
      return;
    case backend::authentication: return authentication(event);
    case backend::backend_key_data: {
      const auto key = pgwire::decode_backend_key_data(event.body);
      if (!key) return end("08P01", key.problem().reason());
      server_pid_ = key->pid;
      server_key_ = std::string(key->key);
      // The server's real PID, for those who look at it; a key of our own.
      peer_.cancel_key.resize(std::min<std::size_t>(peer_.cancel_key.size(), server_key_.size() > 4 ? 32 : 4));
      pgwire::append_backend_key_data(to_client_.back(), server_pid_, peer_.cancel_key);
      return act(Action::Kind::registered);
    }
    case backend::parameter_status: return login_parameter(event);
    case backend::notice_response: to_client_.back() += event.frame; return;
    case backend::error_response:
      if (const auto report = pgwire::decode_report(event.body))
        host_.happened({.kind = Incident::Kind::login_refused, .code = report->sqlstate(), .message = report->message()});
      to_client_.back() += event.frame;
      return;  // FATAL: the server closes the connection after it
    case backend::ready_for_query:
      if (claims_.asks_at_login(options_.server_pooler)) {
        login_.ready = event.frame;  // given when it is known what serves, and what is declared
      } else {
        to_client_.back() += event.frame;
      }
      stage_ = login_request_.replication ? Stage::replication : Stage::ready;
      quiet_since_ = now_;
      if (stage_ == Stage::replication) {
        std::string rest = std::move(client_in_);
        client_in_.clear();
        return replication_from_client(rest);
      }
      if (!claims_.asks_at_login(options_.server_pooler)) return pump();
      ask_who_serves();
      // READ ONLY from here on, and not before: a login trigger may write.
      if (claims_.guards()) restore_default();
      return;
    default: return end("08P01", "the server sent what has no place in a login");
  }
}

// It was to be guarded by the server, and is not READ ONLY; so it must not go on.
void Session::State::login_not_guarded() {
  refuse_login(*this, "57P03",
               options_.server_guard == Options::ServerGuard::required
                   ? "this proxy admits only sessions that the server's guard covers (--guard require), and database \"" +
                         login_request_.database + "\" has no guard over schema \"" + options_.schema +
                         "\": load termgate_guard by shared_preload_libraries, and CREATE EXTENSION termgate_guard"
                   : std::string("the server's guard was there before and is gone: connect again"));
}

}  // namespace termgate::session
