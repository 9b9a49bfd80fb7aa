// Turns the server's failures, and libpqxx's exceptions (<termgate/postgres_check.hpp>), into the
// library's errors. What a lost connection means depends on the phase: before COMMIT was sent
// nothing was written, afterwards the outcome is unknown.
#include "errors.hpp"

#include <pqxx/except>
#include <pqxx/version>

#include <termgate/detail/error_from_message.hpp>
#include <termgate/detail/plant.hpp>
#include <termgate/error.hpp>

#include "connection.hpp"
#include "redact.hpp"

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

bool starts_with_any(std::string_view line, std::initializer_list<std::string_view> starts) {
  for (auto start : starts) {
    if (line.starts_with(start)) return true;
  }
  return false;
}

// libpqxx 6.4 creates some exceptions (insufficient_privilege is one) without their SQLSTATE, which
// follows from the exception's class.
std::string sqlstate_of(const pqxx::sql_error& failure) {
  if (!failure.sqlstate().empty()) return failure.sqlstate();
  const auto is = [&](auto* type) { return dynamic_cast<decltype(type)>(&failure) != nullptr; };
  if (is(static_cast<const pqxx::insufficient_privilege*>(nullptr))) return "42501";
  if (is(static_cast<const pqxx::undefined_table*>(nullptr))) return "42P01";
  if (is(static_cast<const pqxx::undefined_function*>(nullptr))) return "42883";
  if (is(static_cast<const pqxx::undefined_column*>(nullptr))) return "42703";
  if (is(static_cast<const pqxx::syntax_error*>(nullptr))) return "42601";
  if (is(static_cast<const pqxx::disk_full*>(nullptr))) return "53100";
  if (is(static_cast<const pqxx::out_of_memory*>(nullptr))) return "53200";
  if (is(static_cast<const pqxx::insufficient_resources*>(nullptr))) return "53000";
  if (is(static_cast<const pqxx::restrict_violation*>(nullptr))) return "23001";
  if (is(static_cast<const pqxx::not_null_violation*>(nullptr))) return "23502";
  if (is(static_cast<const pqxx::foreign_key_violation*>(nullptr))) return "23503";
  if (is(static_cast<const pqxx::unique_violation*>(nullptr))) return "23505";
  if (is(static_cast<const pqxx::check_violation*>(nullptr))) return "23514";
  if (is(static_cast<const pqxx::integrity_constraint_violation*>(nullptr))) return "23000";
  if (is(static_cast<const pqxx::feature_not_supported*>(nullptr))) return "0A000";
  if (is(static_cast<const pqxx::data_exception*>(nullptr))) return "22000";
  if (is(static_cast<const pqxx::invalid_cursor_state*>(nullptr))) return "24000";
  if (is(static_cast<const pqxx::invalid_sql_statement_name*>(nullptr))) return "26000";
  if (is(static_cast<const pqxx::invalid_cursor_name*>(nullptr))) return "34000";
  if (is(static_cast<const pqxx::plpgsql_raise*>(nullptr))) return "P0001";
  if (is(static_cast<const pqxx::plpgsql_no_data_found*>(nullptr))) return "P0002";
  if (is(static_cast<const pqxx::plpgsql_too_many_rows*>(nullptr))) return "P0003";
  if (is(static_cast<const pqxx::plpgsql_error*>(nullptr))) return "P0000";
  return {};
}

// For an error of libpqxx itself, which has no SQLSTATE.
[[noreturn]] void throw_without_code(const std::string& message, Phase phase, bool connected) {
  if (!connected) throw_for_sqlstate("08006", message, phase);
  throw DatabaseError(message);
}

// libpq has no SQLSTATE for a connection that has ended, but keeps the server's if a fatal error
// ended it.
[[noreturn]] void throw_for_state(const std::string& state, const std::string& message, Phase phase,
                                  bool connected) {
  const bool refused =
      state.starts_with("TG") || state.starts_with("40") || state.starts_with("57P");
  throw_for_sqlstate(connected || refused ? state : "08006", message, phase);
}

}  // namespace

std::string readable_message(std::string_view text) {
  // libpqxx 7 puts the name of a prepared statement in front of the server's message. These names
  // are the library's, and contain no quote.
  if (starts_with_any(text, {"Failure during 'termgate_", "Failure during '[PREPARE termgate_"})) {
    if (const auto end = text.find("': "); end != std::string_view::npos)
      text.remove_prefix(end + 3);
  }
  std::string message;
  bool keep = true;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (starts_with_any(line, {"CONTEXT:  ", "LINE ", "QUERY:  ", "LOCATION:  "})) {
      keep = false;
      continue;
    }
    if (line.starts_with("HINT:  ")) {
      keep = true;
      message += "; hint: ";
      line.remove_prefix(7);
    } else if (line.starts_with("DETAIL:  ")) {
      keep = true;
      message += "; detail: ";
      line.remove_prefix(9);
    } else if (!keep) {
      continue;
    } else if (!message.empty() && !line.empty()) {
      message += '\n';
    }
    for (std::string_view severity : {"ERROR:  ", "FATAL:  ", "PANIC:  "}) {
      if (message.empty() && line.starts_with(severity)) line.remove_prefix(severity.size());
    }
    message += line;
  }
  return message;
}

void throw_for_sqlstate(std::string_view sqlstate, const std::string& message, Phase phase) {
  const std::string code(sqlstate);
  // The contract defines the exact text of TG001; its hint adds nothing to StaleTerm.
  if (sqlstate == "TG001")
    throw_if_tg(std::string_view(message).substr(0, message.find("; hint: ")));
  if (sqlstate.starts_with("TG")) throw_if_tg(message);
  // The session was ended (57P01 eviction or shutdown, 57P02 crash, 57P04 its database was dropped,
  // 57P05, 25P03 and 25P04 timeouts) or the connection is gone (08): whatever was sent last may or
  // may not have happened.
  const bool gone = sqlstate.starts_with("08") || sqlstate.starts_with("57P") ||
                    sqlstate == "25P03" || sqlstate == "25P04";
  if (gone && sqlstate != "57P03") {
    if (phase == Phase::commit && !TERMGATE_PLANTED(postgres_lost_answer))
      throw OutcomeUnknown("COMMIT was sent and the connection was lost: " + message, code);
    throw Unavailable(message + "; nothing was written", code);
  }
  if (sqlstate == "40003") throw OutcomeUnknown(message, code);
  if (sqlstate.starts_with("40")) throw Conflict(message, code);  // 40001, 40P01, 40002
  // 57P03 starting up, 57014 cancelled or timed out, 53 out of something, 28 login, 3D000 no such
  // database, 55P03 a lock_timeout of the user's own.
  if (sqlstate == "57P03" || sqlstate == "57014" || sqlstate.starts_with("53") ||
      sqlstate.starts_with("28") || sqlstate == "3D000" || sqlstate == "55P03") {
    throw Unavailable(message + "; nothing was written", code);
  }
  // 3F000, 42P01, 42883: without layer 1, its schema and functions do not exist.
  if ((sqlstate == "3F000" || sqlstate == "42883" || sqlstate == "42P01") &&
      message.find("termgate") != std::string::npos) {
    throw DatabaseError(
        message + "; is Termgate installed in this database? `termgate init` does it", code);
  }
  // The message does not tell whose function, schema or view it is, and Termgate's schema may have
  // any name.
  if (sqlstate == "42501" && message.find("permission denied for ") != std::string::npos) {
    throw DatabaseError(message +
                            "; if it is Termgate's: `termgate init --grant "
                            "ROLE=read|write|lead|operate` lets a role use it",
                        code);
  }
  if (sqlstate == "25006") {
    throw DatabaseError(message +
                            "; either this server is a standby, or default_transaction_read_only "
                            "is on: for the role (ALTER ROLE … SET "
                            "default_transaction_read_only = off), the database (ALTER DATABASE) "
                            "or the server (ALTER SYSTEM)",
                        code);
  }
  if (sqlstate == "42601" && message.find("multiple commands") != std::string::npos) {
    throw DatabaseError(message + "; give each statement as a separate argument", code);
  }
  throw DatabaseError(message, code);
}

void rethrow_as_ours(Phase phase, std::string_view secrets_of, bool connected) {
  auto text = [&](const std::exception& failure) {
    return redact(readable_message(failure.what()), secrets_of);
  };
  try {
    throw;
  } catch (const Error&) { throw; } catch (const ServerFailure& failure) {
    throw_for_state(failure.sqlstate(), text(failure), phase, connected);
    // The order matters: in libpqxx 6.4 statement_completion_unknown is a transaction_rollback, and
    // a write of unknown outcome that counts as rolled back would be written twice.
  } catch (const pqxx::in_doubt_error& failure) {
    throw OutcomeUnknown(text(failure));
  } catch (const pqxx::statement_completion_unknown& failure) {
    throw OutcomeUnknown(text(failure), "40003");
  } catch (const pqxx::serialization_failure& failure) {
    throw Conflict(text(failure), "40001");
  } catch (const pqxx::deadlock_detected& failure) {
    throw Conflict(text(failure), "40P01");
  } catch (const pqxx::transaction_rollback& failure) {
    throw Conflict(text(failure), "40000");
  } catch (const pqxx::too_many_connections& failure) {
    throw Unavailable(text(failure), "53300");
  } catch (const pqxx::broken_connection& failure) {
    throw_for_sqlstate("08006", text(failure), phase);
  } catch (const pqxx::sql_error& failure) {
    throw_for_state(sqlstate_of(failure), text(failure), phase, connected);
#if PQXX_VERSION_MAJOR < 7
  } catch (const pqxx::pqxx_exception& failure) {
    throw_without_code(text(failure.base()), phase, connected);
  }
#else
    // In libpqxx 7 pqxx::failure is the base class.
  } catch (const pqxx::failure& failure) {
    throw_without_code(text(failure), phase, connected);
  } catch (const pqxx::internal_error& failure) {
    throw_without_code(text(failure), phase, connected);
  } catch (const pqxx::usage_error& failure) {
    throw_without_code(text(failure), phase, connected);
  } catch (const pqxx::argument_error& failure) {
    throw_without_code(text(failure), phase, connected);
  } catch (const pqxx::conversion_error& failure) {
    throw_without_code(text(failure), phase, connected);
  } catch (const pqxx::range_error& failure) {
    throw_without_code(text(failure), phase, connected);
  }
#endif
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
