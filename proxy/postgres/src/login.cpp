// From the first byte to the first ReadyForQuery: who the client is, whether it is admitted, and
// its authentication with the server, which passes through (PostgreSQL documentation, "Start-up",
// protocol-flow.html).
#include "login.hpp"

#include <algorithm>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/types.hpp>
#include <termgate/statements/declaration.hpp>
#include <termgate/text/quote.hpp>

#include "columns.hpp"
#include "effects.hpp"
#include "numbers.hpp"

namespace termgate::pg_session {

namespace frontend = pgwire::frontend;
namespace backend = pgwire::backend;
using pgwire::Event;

namespace {

constexpr std::size_t name_bytes_max = 63;  // the longest PostgreSQL identifier
bool is_ascii(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(),
                     [](char letter) { return static_cast<unsigned char>(letter) < 0x80; });
}

// Most versions of PostgreSQL truncate a longer name. The client would log in as a user, or into a
// database, whose rules and limits were not applied.
std::string too_long(std::string_view what, const std::string& name) {
  if (name.size() <= name_bytes_max) return {};
  return std::string(what) + " has " + std::to_string(name.size()) +
         " bytes: PostgreSQL's names have at most " + std::to_string(name_bytes_max) +
         ", and Termgate does not guess which one is meant";
}

}  // namespace

Login::Login(Line& line, Claims& claims, Texts& texts, ServerFacts& facts, TransactionModel& model)
    : line_(line),
      claims_(claims),
      texts_(texts),
      facts_(facts),
      model_(model),
      reader_(!line.peer.encrypted_already),
      encrypted_(line.peer.encrypted_already),
      started_(line.now) {}

// Reports that this client is not admitted, and ends the session.
void Login::refuse(std::string_view sqlstate, std::string_view message) {
  line_.host.happened(
      {.kind = Incident::Kind::login_refused, .code = sqlstate, .message = message});
  line_.end(sqlstate, message);
}

// The handshake with the client is done.
void Login::encrypted() {
  if (line_.stage != Stage::client_tls) return;
  encrypted_ = true;
  line_.stage = Stage::greeting;
  reader_ = pgwire::StartupReader(false);
  if (!line_.client_in.empty()) {
    const std::string bytes = std::exchange(line_.client_in, std::string());
    greet(bytes);
  }
}

void Login::greet(std::string_view bytes) {
  line_.client_in.append(bytes);
  while (line_.stage == Stage::greeting && !line_.client_in.empty()) {
    const pgwire::StartupEvent event = reader_.next(line_.client_in);
    using Startup = pgwire::StartupEvent::Kind;
    switch (event.kind) {
      case Startup::need_more: line_.client_in.erase(0, event.used); return;
      case Startup::malformed:
        line_.host.happened({.kind = Incident::Kind::malformed, .message = event.problem.reason()});
        // As PostgreSQL does: a client that does not speak its protocol would not understand an
        // answer, and one that sends Terminate at once needs none.
        if (event.unanswered) return line_.close_all();
        if (event.before_3) {
          line_.to_client.back() += "EFATAL:  " + std::string(event.problem.reason()) + "\n";
          line_.to_client.back() += '\0';
          return line_.close_all();
        }
        return line_.end(event.problem.sqlstate, event.problem.reason());
      case Startup::direct_tls:
        // Where TLS is served, the caller has handled this already. PostgreSQL without TLS gives no
        // answer to it.
        line_.host.happened({.kind = Incident::Kind::malformed,
                             .message = "a TLS handshake where none is allowed"});
        return line_.close_all();
      case Startup::gssenc_request:
      case Startup::ssl_request: {
        const bool ssl = event.kind == Startup::ssl_request;
        line_.client_in.erase(0, event.used);
        bool& requested = ssl ? ssl_requested_ : gss_requested_;
        if (requested) return line_.end("08P01", ssl ? "SSLRequest twice" : "GSSENCRequest twice");
        requested = true;
        // What was written before our answer is clear text that an attacker may have put ahead of
        // the encrypted session.
        if (!line_.client_in.empty())
          return line_.end("08P01", "unencrypted data after a request for encryption");
        if (!ssl || !line_.options.client_tls || encrypted_) {
          line_.to_client.back() += 'N';
          continue;
        }
        line_.to_client.back() += 'S';
        line_.stage = Stage::client_tls;
        return line_.act(Action::Kind::start_client_tls);
      }
      case Startup::cancel_request:
        cancel_pid_ = event.pid;
        cancel_key_ = std::string(event.key);
        line_.client_in.clear();
        line_.stage = Stage::closing;
        return line_.act(Action::Kind::forward_cancel);
      case Startup::startup: return startup_read(event);
    }
  }
}

void Login::startup_read(const pgwire::StartupEvent& event) {
  const pgwire::StartupMessage& startup = event.startup;
  client_minor_ = startup.minor;
  for (const auto& [name, value] : startup.parameters) startup_.emplace_back(name, value);
  for (const auto& [name, value] : startup.extensions) startup_.emplace_back(name, value);
  const auto named = [&](std::string_view name) {
    return std::string(startup.find(name).value_or(""));
  };
  line_.login_request.user = named("user");
  line_.login_request.database =
      named("database").empty() ? line_.login_request.user : named("database");
  line_.login_request.application_name = named("application_name");
  const std::string replication = named("replication");
  line_.login_request.replication = !replication.empty() && replication != "false" &&
                                    replication != "off" && replication != "no" &&
                                    replication != "0";

  statements::Declaration declared =
      statements::declared_in_application_name(line_.login_request.application_name);
  const statements::Declaration by_options = statements::declared_in_options(named("options"));
  for (const auto& one : {declared, by_options}) {
    if (!one.problem.empty()) return refuse("TG005", one.problem);
  }
  // The later of two declarations counts, separately for scope and term; the options win over
  // application_name.
  claims_.declare(declared);
  claims_.declare(by_options);
  texts_.settings.own_names_first =
      puts_own_names_first(named("search_path")) && puts_own_names_first(named("options"));
  for (const auto& [name, value] : startup.parameters) {
    if (!statements::is_declared_setting(name)) continue;
    statements::Declaration one;
    statements::declare(one, name, value, "the start-up message");
    if (!one.problem.empty()) return refuse("TG005", one.problem);
    claims_.declare(one);
  }
  line_.client_in.erase(0, event.used);

  if (line_.options.client_tls_required && !encrypted_ && !line_.peer.local)
    return refuse("28000", "Termgate takes no connection without TLS here");
  if (line_.login_request.user.empty())
    return refuse("28000", "no PostgreSQL user name specified in startup packet");
  if (const std::string problem = too_long("the user's name", line_.login_request.user);
      !problem.empty())
    return refuse("28000", problem);
  if (const std::string problem = too_long("the database's name", line_.login_request.database);
      !problem.empty())
    return refuse("28000", problem);
  line_.stage = Stage::admitting;
  line_.act(Action::Kind::admit);
}

void Login::admitted(const Admission& admission) {
  if (line_.stage != Stage::admitting) return;
  claims_.admit(admission, line_.login_request.replication);
  if (!admission.refused_sqlstate.empty())
    return line_.end(admission.refused_sqlstate, admission.refused_message);
  if (line_.login_request.replication && !admission.replication) {
    return refuse("28000",
                  "replication connections are not let through: they read past every fence. "
                  "Connect to the server directly, or allow them by a rule");
  }
  line_.stage = Stage::connecting;
  line_.act(Action::Kind::connect_server);
}

void Login::server_connected() {
  if (line_.stage != Stage::connecting) return;
  if (line_.options.server_is_local || line_.options.server_tls == Options::ServerTls::disable)
    return start();
  pgwire::append_ssl_request(line_.server.bytes.back());
  line_.stage = Stage::server_greeting;
}

void Login::server_greeted(std::string_view& bytes) {
  const char answer = bytes.front();
  bytes.remove_prefix(1);
  if (answer == 'S') {
    if (!bytes.empty())
      return line_.end("08006",
                       "the server sent unencrypted data after it agreed to TLS: a third party may "
                       "be in between");
    line_.stage = Stage::server_tls;
    return line_.act(Action::Kind::start_server_tls);
  }
  if (answer != 'N')
    return line_.end(
        "08006",
        "the server answered the request for TLS with something else; is it a PostgreSQL server?");
  if (line_.options.server_tls == Options::ServerTls::require)
    return line_.end("08006", "the server offers no TLS, which this proxy requires");
  start();
}

// `options` as the client wrote it, after what application_name declares.
std::string Login::server_options(std::string_view requested) const {
  std::string result;
  const auto declared = [&](std::string_view setting, const std::string& value) {
    result += "-c ";
    result += setting;
    result += '=';
    for (const char letter : value) {
      if (letter == '\\' || letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r' ||
          letter == '\v' || letter == '\f')
        result += '\\';
      result += letter;
    }
    result += ' ';
  };
  // Declarations in application_name come first, because the options win over them.
  const statements::Declaration by_name =
      statements::declared_in_application_name(line_.login_request.application_name);
  if (by_name.scope) declared("termgate.scope", by_name.scope->name());
  if (by_name.term) declared("termgate.term", std::to_string(by_name.term->value()));
  result += requested;
  return result;
}

void Login::start() {
  claims_.login_begins();
  using ServerGuard = Options::ServerGuard;
  const bool there =
      line_.options.server_guard == ServerGuard::required ||
      (line_.options.server_guard == ServerGuard::when_there && line_.host.server_has_guard());
  if (there && claims_.may_be_server_guarded()) {
    claims_.server_guards();
    // The setting cannot be taken back, so it may be in the start-up packet. Whether it has worked
    // is checked before the client's first message.
    startup_.emplace_back("termgate.guard_session", "on");
  }
  std::vector<pgwire::StartupMessage::Parameter> parameters;
  std::string options;
  std::string_view requested;
  for (const auto& [name, value] : startup_) {
    if (name == "options") requested = value;
    else parameters.emplace_back(name, value);
  }
  options = line_.login_request.replication ? std::string(requested) : server_options(requested);
  if (!options.empty()) parameters.emplace_back("options", options);
  if (line_.login_request.replication && claims_.enforces())
    parameters.emplace_back("default_transaction_read_only", "on");
  // A newer minor version than the codec's is negotiated down here; the server does that for its
  // own.
  pgwire::append_startup(line_.server.bytes.back(),
                         std::min(client_minor_, pgwire::protocol_minor_max), parameters);
  startup_.clear();
  startup_.shrink_to_fit();
  line_.stage = Stage::login;
}

void Login::from_client(const Event& event) {
  if (event.type == frontend::terminate) return line_.close_all();
  if (event.type != frontend::password || event.kind != Event::Kind::message) {
    line_.host.happened(
        {.kind = Incident::Kind::malformed, .message = "a message that has no place in a login"});
    return line_.end("08P01", "expected password response");
  }
  if (awaiting_sasl_initial_) {
    awaiting_sasl_initial_ = false;
    // SASLInitialResponse: mechanism, NUL, length, client-first-message, which begins with the GS2
    // header.
    const std::size_t nul = event.body.find('\0');
    const std::size_t begin = nul == std::string_view::npos ? nul : nul + 5;
    if (plus_removed_ && begin != std::string_view::npos && begin < event.body.size() &&
        event.body[begin] == 'y') {
      return refuse("28000",
                    "channel binding cannot pass through a proxy that ends TLS on both sides, and "
                    "the server insists on it where the "
                    "client could: connect with channel_binding=disable, or let the proxy reach "
                    "the server without TLS (a Unix socket, loopback)");
    }
  }
  line_.server.bytes.back() += event.frame;
}

void Login::authentication(const Event& event) {
  const auto authentication = pgwire::decode_authentication(event.body);
  if (!authentication) return line_.end("08P01", authentication.problem().reason());
  using Type = pgwire::Authentication::Type;
  if (authentication->type == Type::ok) {
    if (!credential_requested_ && !line_.peer.local && !line_.options.trust_backend) {
      return refuse("28000",
                    "the server requests no credential (its pg_hba.conf trusts this proxy), so "
                    "anybody could log in: Termgate "
                    "offers it to other machines only with --trust-backend");
    }
  } else if (authentication->type != Type::sasl_final) {
    credential_requested_ = true;
  }
  if (authentication->type == Type::gss || authentication->type == Type::sspi ||
      authentication->type == Type::kerberos_v5) {
    return refuse("28000",
                  "GSSAPI names the server's host and cannot pass through a proxy: use SCRAM, or a "
                  "certificate between client and proxy");
  }
  if (authentication->type == Type::sasl) {
    awaiting_sasl_initial_ = true;
    if (authentication->offers("SCRAM-SHA-256-PLUS")) {
      // It binds to the certificate of the server, which the client of a proxy does not see.
      plus_removed_ = true;
      std::vector<std::string_view> mechanisms;
      for (std::string_view rest = authentication->payload;
           !rest.empty() && rest.front() != '\0';) {
        const std::string_view one = rest.substr(0, rest.find('\0'));
        if (!one.ends_with("-PLUS")) mechanisms.push_back(one);
        rest.remove_prefix(std::min(one.size() + 1, rest.size()));
      }
      if (mechanisms.empty())
        return refuse(
            "28000",
            "the server takes SCRAM with channel binding only, which cannot pass through a proxy");
      pgwire::append_authentication_sasl(line_.to_client.back(), mechanisms);
      return;
    }
  }
  line_.to_client.back() += event.frame;
}

// With db_user_namespace the server changes the name to another role, so the rules and limits would
// have been applied to the wrong user.
bool Login::is_same_user(const Event& event) {
  const auto status = pgwire::decode_parameter_status(event.body);
  if (!status || status->name != "session_authorization" || line_.options.server_pooler ||
      status->value == line_.login_request.user || !is_ascii(status->value) ||
      !is_ascii(line_.login_request.user))
    return true;
  refuse("28000", "the server let user \"" + line_.login_request.user + "\" in as \"" +
                      std::string(status->value) +
                      "\", and Termgate's rules are about the name that was given");
  return false;
}

Login::Then Login::from_server(const Event& event) {
  if (event.kind == Event::Kind::part) {  // of an error or notice that is too long to be parsed
    line_.to_client.back() += event.frame;
    return Then::nothing;
  }
  if (!negotiated_ && client_minor_ > pgwire::protocol_minor_max &&
      event.type != backend::negotiate_protocol_version && event.type != backend::error_response) {
    negotiated_ = true;
    pgwire::append_negotiate_protocol_version(line_.to_client.back(), pgwire::protocol_minor_max,
                                              {});
  }
  switch (event.type) {
    case backend::negotiate_protocol_version:
      if (negotiated_) {
        line_.end("08P01", "the server negotiated the protocol twice");
        break;
      }
      negotiated_ = true;
      line_.to_client.back() += event.frame;
      break;
    case backend::authentication: authentication(event); break;
    case backend::backend_key_data: {
      const auto key = pgwire::decode_backend_key_data(event.body);
      if (!key) {
        line_.end("08P01", key.problem().reason());
        break;
      }
      line_.server_pid = key->pid;
      line_.server_key = std::string(key->key);
      // The client sees the server's real PID, but a cancel key of the proxy's.
      line_.peer.cancel_key.resize(std::min<std::size_t>(line_.peer.cancel_key.size(),
                                                         line_.server_key.size() > 4 ? 32 : 4));
      pgwire::append_backend_key_data(line_.to_client.back(), line_.server_pid,
                                      line_.peer.cancel_key);
      line_.act(Action::Kind::registered);
      break;
    }
    case backend::parameter_status:
      return is_same_user(event) ? Then::note_parameter : Then::nothing;
    case backend::notice_response: line_.to_client.back() += event.frame; break;
    case backend::error_response:
      if (const auto report = pgwire::decode_report(event.body))
        line_.host.happened({.kind = Incident::Kind::login_refused,
                             .code = report->sqlstate(),
                             .message = report->message()});
      line_.to_client.back() += event.frame;
      break;  // FATAL: the server closes the connection after it
    case backend::ready_for_query:
      if (asks()) {
        ready_ = event.frame;  // passed on when the answer to our query is here
      } else {
        line_.to_client.back() += event.frame;
      }
      line_.stage = line_.login_request.replication ? Stage::replication : Stage::ready;
      line_.quiet_since = line_.now;
      return Then::go_on;
    default: line_.end("08P01", "the server sent what has no place in a login"); break;
  }
  return Then::nothing;
}

bool Login::asks() const { return claims_.asks_at_login(line_.options.server_pooler); }

void Login::give_ready() {
  line_.to_client.back() += ready_;
  ready_ = std::string();
}

// The server was to guard this session and does not. The session is not READ ONLY, so it must not
// go on.
void Login::not_guarded() {
  refuse("57P03",
         line_.options.server_guard == Options::ServerGuard::required
             ? "this proxy admits only sessions that the server's guard covers (--guard require), "
               "and database \"" +
                   line_.login_request.database + "\" has no guard over schema \"" +
                   line_.options.schema +
                   "\": load termgate_guard by shared_preload_libraries, and CREATE EXTENSION "
                   "termgate_guard"
             : std::string("the server's guard was there before and is gone: connect again"));
}

// Selects "on" if the server guards this session, "off" if it could, NULL if no guard is loaded
// that uses our layer 1. Only a setting that a library has registered is in pg_settings with the
// context `internal`, so a client cannot fake it, and every role may look. The guard refuses every
// write of a session that may act as the owner of layer 1, so with `when_there` the proxy guards
// such a session itself.
std::string Login::guard_of_session() const {
  std::string sql =
      "(SELECT s.setting FROM pg_catalog.pg_settings s WHERE s.name OPERATOR(pg_catalog.=) "
      "'termgate.guarded' AND s.context "
      "OPERATOR(pg_catalog.=) 'internal' AND EXISTS (SELECT FROM pg_catalog.pg_extension e JOIN "
      "pg_catalog.pg_namespace n ON n.oid "
      "OPERATOR(pg_catalog.=) e.extnamespace WHERE e.extname OPERATOR(pg_catalog.=) "
      "'termgate_guard' AND n.nspname "
      "OPERATOR(pg_catalog.=) " +
      text::postgresql_string(line_.options.schema);
  if (line_.options.server_guard == Options::ServerGuard::when_there)
    sql += " AND NOT pg_catalog.pg_has_role(n.nspowner, 'MEMBER')";
  return sql + "))";
}

// Selects whether this session's role may call the check; with enforcement its first write would
// show that. NULL: there is no check.
std::string Login::check_may_be_called() const {
  return "(SELECT pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND "
         "pg_catalog.has_function_privilege(p.oid, 'EXECUTE') FROM "
         "pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) "
         "p.pronamespace WHERE p.proname "
         "OPERATOR(pg_catalog.=) 'check_claim_text' AND n.nspname OPERATOR(pg_catalog.=) " +
         text::postgresql_string(line_.options.schema) + " LIMIT 1)";
}

// The columns: 0 the PID; 1, 2 the scope and term that the session declares; 3 whether users'
// tables have rewrite rules (CREATE RULE); 4 search_path; 5 whether the server is a standby; 6
// default_transaction_read_only, 7 what RESET makes of it; 8, where needed, guard_of_session() or
// check_may_be_called().
//
// The PID shows a pooler, which answers the login itself, with a PID of its own. A pooler that
// gives each transaction to another server session would pass a declaration, and our READ ONLY, on
// to other clients.
std::string Login::question() const {
  std::string sql =
      "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('termgate.scope', true), "
      "pg_catalog.current_setting('termgate.term', "
      "true), EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_type OPERATOR(pg_catalog.<>) "
      "'1' AND r.ev_class "
      "OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid), pg_catalog.current_setting('search_path', "
      "true)";
  // Whether the session may write, and whether a login trigger has changed that: the value after a
  // RESET is the server's own.
  sql +=
      ", pg_catalog.pg_is_in_recovery(), "
      "pg_catalog.current_setting('default_transaction_read_only'), "
      "pg_catalog.set_config('default_transaction_read_only', NULL, true)";
  if (line_.options.server_guard != Options::ServerGuard::off && claims_.may_be_server_guarded())
    sql += ", " + guard_of_session();
  else if (!claims_.enforces()) sql += ", " + check_may_be_called();
  return sql;
}

// Reads the columns of question(), except the PID. What the session declares from the start
// includes ALTER ROLE and ALTER DATABASE.
void Login::served_by(std::string_view row) {
  std::string_view scope, term, rules;
  if (!column(row, 1, scope)) return;
  if (!column(row, 2, term)) term = "?";
  // A pooler may have kept what another start-up message declared.
  if (!line_.options.server_pooler) claims_.server_declares(scope, term);
  if (column(row, 3, rules)) facts_.has_rules = rules == "t";
  if (std::string_view path; column(row, 4, path))
    texts_.settings.own_names_first &= puts_own_names_first(path);
  std::string_view recovers, now, own;
  if (column(row, 5, recovers) && column(row, 6, now) && column(row, 7, own)) {
    if (recovers == "t") facts_.recovery = ServerFacts::Recovery::standby;
    Default& by_default = model_.by_default;
    by_default.own = own == "on";
    // A login trigger has set it.
    if (now != own)
      by_default.believed = by_default.answered = by_default.committed =
          now == "on" ? Mode::read_only : Mode::read_write;
  }
  if (std::string_view may; !claims_.enforces() && column(row, 8, may))
    facts_.check_problem = may == "t" ? "" : may == "f" ? "42501" : "3F000";
  if (line_.options.server_guard == Options::ServerGuard::off || !claims_.may_be_server_guarded())
    return;
  std::string_view guard;
  if (!column(row, 8, guard)) guard = {};
  line_.host.saw_server_guard(!guard.empty());
  if (claims_.server_guarded() && guard != "on") not_guarded();
}

}  // namespace termgate::pg_session
