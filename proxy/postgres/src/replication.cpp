// Replication connections, if a rule admits them. The server parses each Query by its replication
// grammar and, if the connection names a database, everything else as SQL. It takes no extended
// protocol there, so no check can be put ahead of a write. SQL may only read, in a session that is
// READ ONLY by default, which is all that subscriptions need.
#include "replication.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/types.hpp>
#include <termgate/statements/classify.hpp>

#include "effects.hpp"

namespace termgate::pg_session {

namespace backend = pgwire::backend;
namespace frontend = pgwire::frontend;
using pgwire::Event;
using statements::Access;
using statements::Kind;

namespace {

// On a replication connection a text that begins with one of these words never runs as SQL: a
// server that does not know the word reports a syntax error.
constexpr std::array<std::string_view, 10> commands{
    "IDENTIFY_SYSTEM",        "BASE_BACKUP",
    "START_REPLICATION",      "CREATE_REPLICATION_SLOT",
    "ALTER_REPLICATION_SLOT", "DROP_REPLICATION_SLOT",
    "READ_REPLICATION_SLOT",  "TIMELINE_HISTORY",
    "UPLOAD_MANIFEST",        "SHOW"};

// The first statement of libpq's own clients: it empties the search_path.
constexpr std::string_view secure_search_path =
    "SELECT pg_catalog.set_config('search_path', '', false);";

bool continues_a_word(char letter) noexcept {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_' || letter == '$' || (letter & 0x80) != 0;
}

bool is_replication_command(std::string_view sql) noexcept {
  sql.remove_prefix(std::min(sql.find_first_not_of(" \t\n\r\f\v"), sql.size()));
  return std::any_of(commands.begin(), commands.end(), [&](std::string_view word) {
    return sql.starts_with(word) &&
           (sql.size() == word.size() || !continues_a_word(sql[word.size()]));
  });
}

// Whether the statement keeps the session READ ONLY and does nothing that READ ONLY lets through.
bool only_reads(const statements::Statement& statement, std::string_view sql) {
  const Effects effects = effects_of(statement, sql);
  if (effects.has(Effect::read_only_hole | Effect::calls_unknown | Effect::access_refused))
    return false;
  switch (effects.way) {
    case Effects::Way::read:
      return effects.kind != Kind::prepare &&
             effects.kind != Kind::execute;  // what is prepared may write in spite of READ ONLY
    case Effects::Way::control:
      return effects.access != Access::read_write && effects.kind != Kind::prepare_transaction;
    case Effects::Way::neutral:
      if (effects.has(Effect::sets_access | Effect::sets_default_access))
        return effects.access == Access::read_only;
      return !effects.has(Effect::unsettles | Effect::changes_declaration);
    case Effects::Way::write:
    case Effects::Way::alone: return false;
  }
  return false;
}

bool fits_replication(std::string_view sql, const statements::Settings& settings) {
  if (is_replication_command(sql) || sql == secure_search_path) return true;
  const statements::Classified text = statements::classify(sql, settings);
  // After a COMMIT in the same text, the next transaction would begin with a default that hidden
  // code may have changed before the server reports it.
  const auto controls = [&](const statements::Statement& one) {
    return effects_of(one, sql).way == Effects::Way::control;
  };
  if (text.statements.size() > 1 &&
      std::any_of(text.statements.begin(), text.statements.end(), controls))
    return false;
  return std::all_of(text.statements.begin(), text.statements.end(),
                     [&](const statements::Statement& one) { return only_reads(one, sql); });
}

}  // namespace

void Replication::from_client(std::string_view bytes) {
  while (!bytes.empty() && line_.stage == Stage::replication) {
    const Event event = line_.client_reader.next(bytes);
    bytes.remove_prefix(event.used);
    if (event.kind == Event::Kind::malformed) {
      line_.host.happened({.kind = Incident::Kind::malformed, .message = event.problem.reason()});
      return line_.end(event.problem.sqlstate, event.problem.reason());
    }
    if (event.kind == Event::Kind::message && event.type == frontend::query && claims_.enforces()) {
      const auto query = pgwire::decode_query(event.body);
      if (!query) return line_.end("08P01", query.problem().reason());
      // The server reports a changed default with its reply; a query sent before that would already
      // run by it.
      if (std::exchange(query_unanswered_, true))
        return line_.end("0A000",
                         "Termgate takes one query at a time in a replication connection: send the "
                         "next when the answer has come");
      if (!fits_replication(query->sql, settings_)) {
        return line_.end("0A000",
                         "Termgate lets a replication connection run replication commands and "
                         "plain reads, without functions of the user's own: "
                         "a check cannot stand in front of a write here. "
                         "Use an ordinary connection for other SQL");
      }
    }
    line_.server.bytes.back() += event.frame;
    if (event.kind == Event::Kind::need_more) return;
    if (event.type == frontend::copy_data && event.last) {
      const std::string_view data = line_.client_reader.run_of(frontend::copy_data, bytes);
      line_.server.bytes.back() += data;
      bytes.remove_prefix(data.size());
    }
  }
}

void Replication::from_server(std::string_view bytes) {
  while (!bytes.empty() && line_.stage == Stage::replication) {
    const Event event = line_.server_reader.next(bytes);
    bytes.remove_prefix(event.used);
    if (event.kind == Event::Kind::malformed) {
      line_.host.happened({.kind = Incident::Kind::malformed, .message = event.problem.reason()});
      return line_.end("08P01", std::string("the server: ") + std::string(event.problem.reason()));
    }
    if (event.kind == Event::Kind::message && event.type == backend::parameter_status) {
      const auto status = pgwire::decode_parameter_status(event.body);
      if (status && status->name == "default_transaction_read_only" && status->value == "off" &&
          claims_.enforces())
        return line_.end("0A000", "something has made this replication connection writable");
      if (status && status->name == "standard_conforming_strings")
        settings_.standard_conforming_strings = status->value == "on"
                                                    ? statements::ConformingStrings::on
                                                    : statements::ConformingStrings::off;
      if (status && status->name == "client_encoding")
        settings_.ascii_safe_encoding = statements::encoding_is_ascii_safe(status->value);
    }
    if (event.type == backend::ready_for_query) query_unanswered_ = false;
    line_.to_client.back() += event.frame;
    if (event.kind == Event::Kind::need_more) return;
    if (event.type == backend::copy_data && event.last) {
      const std::string_view data = line_.server_reader.run_of(backend::copy_data, bytes);
      line_.to_client.back() += data;
      bytes.remove_prefix(data.size());
    }
  }
}

}  // namespace termgate::pg_session
