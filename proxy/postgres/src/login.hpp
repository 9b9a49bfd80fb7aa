// From the first byte to the first ReadyForQuery: who the client is, whether it is admitted, and
// its authentication with the server.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/pgwire/reader.hpp>
#include <termgate/pgwire/startup.hpp>
#include <termgate/pg_session/host.hpp>

#include "claims.hpp"
#include "line.hpp"
#include "parts.hpp"
#include "transaction_model.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread.
class Login {
 public:
  Login(Line& line, Claims& claims, Texts& texts, ServerFacts& facts, TransactionModel& model);

  // --- the client ---
  void greet(std::string_view bytes);
  void encrypted();
  void admitted(const Admission& admission);
  void from_client(const pgwire::Event& event);

  // --- the server ---
  void server_connected();
  void server_greeted(std::string_view& bytes);
  void start();
  // What the session still has to do about a message of the server's.
  enum class Then : std::uint8_t { nothing, note_parameter, go_on };
  Then from_server(const pgwire::Event& event);

  // --- after the server's ReadyForQuery, before the client gets it ---
  bool asks() const;
  // The query for the server's PID, what the session declares already, and what it may do.
  // served_by() reads its row.
  std::string question() const;
  void served_by(std::string_view row);
  bool keeps_ready() const noexcept { return !ready_.empty(); }
  void give_ready();

  Instant started() const noexcept { return started_; }
  std::uint32_t cancel_pid() const noexcept { return cancel_pid_; }
  std::string_view cancel_key() const noexcept { return cancel_key_; }

 private:
  void startup_read(const pgwire::StartupEvent& event);
  void refuse(std::string_view sqlstate, std::string_view message);
  std::string server_options(std::string_view requested) const;
  void authentication(const pgwire::Event& event);
  bool is_same_user(const pgwire::Event& event);
  std::string guard_of_session() const;
  std::string check_may_be_called() const;
  void not_guarded();

  Line& line_;
  Claims& claims_;
  Texts& texts_;
  ServerFacts& facts_;
  TransactionModel& model_;

  pgwire::StartupReader reader_;
  bool encrypted_ = false;
  bool ssl_requested_ = false, gss_requested_ = false;
  std::uint16_t client_minor_ = 0;
  bool negotiated_ = false;
  // The client's parameters and extensions, to be sent on to the server.
  std::vector<std::pair<std::string, std::string>> startup_;
  bool credential_requested_ = false;
  bool plus_removed_ = false;
  bool awaiting_sasl_initial_ = false;
  Instant started_;
  // The server's ReadyForQuery, not passed on yet.
  std::string ready_;
  // The process id and key of a cancel request.
  std::uint32_t cancel_pid_ = 0;
  std::string cancel_key_;
};

}  // namespace termgate::pg_session
