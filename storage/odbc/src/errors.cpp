// From ODBC's diagnostics to the library's errors, in this order: a refusal of layer 1; a conflict,
// by which the server itself reports that it has rolled back; a lost connection or a timeout, whose
// meaning depends on whether COMMIT was sent. SQLSTATEs decide where drivers agree, native numbers
// and words where they do not.
#include <termgate/detail/odbc/errors.hpp>

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include <termgate/detail/error_from_message.hpp>
#include <termgate/error.hpp>

namespace termgate {
inline namespace v0 {
namespace detail::odbc {
namespace {

bool is_any(std::string_view state, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), state) != list.end();
}
bool is_any(int native, std::initializer_list<int> list) {
  return std::find(list.begin(), list.end(), native) != list.end();
}

// The connection is gone. 08: SQL's class; HYT01 connection timeout; IMC0n msodbcsql could not
// bring the session back; 57P0n, 25P0n PostgreSQL ended the session. 20003 … 20047 FreeTDS's own
// numbers for a broken line; 596 and 6005 the session or the server is being ended; 10053, 10054,
// 10060 sockets; 64 and 233 the network's name or the pipe is gone.
bool is_gone(const Diagnostic& one, Family family) {
  const std::string_view state = one.sqlstate;
  if (state.starts_with("08") || state.starts_with("IMC0") || state == "HYT01" ||
      is_any(state, {"57P01", "57P02", "57P05", "25P03", "25P04"}))
    return true;
  return family == Family::sqlserver &&
         is_any(one.native, {20003, 20004, 20006, 20009, 20017, 20047, 596, 6005, 10053, 10054,
                             10060, 64, 233});
}

bool mentions(std::string_view text, std::string_view what) {
  return text.find(what) != std::string_view::npos;
}

// Other servers that speak TDS lack SQL Server's numbers (33557097 is sent for every error without
// a number), so their texts are read.
bool is_conflict(const Diagnostic& one, Family family) {
  if (one.sqlstate.starts_with("40") && one.sqlstate != "40003") return true;
  if (family != Family::sqlserver) return false;
  // 2627 on write_ids: another session is storing the same write id; the repeated transaction will
  // find it.
  return is_any(one.native,
                {1205, 3957, 3958, 3960, 3961, 3962, 3966, 41301, 41302, 41305, 41325, 41839}) ||
         (one.native == 2627 && mentions(one.message, "write_ids")) ||
         (one.native == 33557097 && (mentions(one.message, "could not serialize access") ||
                                     mentions(one.message, "deadlock detected")));
}

bool is_timeout(const Diagnostic& one, Family family) {
  if (one.sqlstate == "HYT00" || one.sqlstate == "S1T00") return true;
  if (family == Family::postgresql) return is_any(one.sqlstate, {"57014", "55P03"});
  return one.native == 1222 ||
         (one.native == 33557097 &&
          (mentions(one.message, "lock timeout") || mentions(one.message, "statement timeout")));
}

// Whether the server went away, moved or shed load in the middle of a request: Azure SQL (40197 …
// 49920), an availability group (976, 978, 983), or a log that cannot be written (3314, 9001, 823
// to 825). A COMMIT that ended so may have been carried out.
bool is_cut_short(const Diagnostic& one, Family family) {
  return family == Family::sqlserver &&
         is_any(one.native,
                {40197, 40501, 40613, 40020, 40143, 40166, 40540, 4221, 10928, 10929, 49918,
                 49919, 49920, 976,   978,   983,   3314,  9001,  823,  824,   825});
}

// Whether the database refuses the connection, or cannot accept it now: nothing was written.
// States from IM002 to IM005 mean that the driver or the data source is missing.
bool is_turned_away(const Diagnostic& one, Family family) {
  if (is_any(one.sqlstate, {"28000", "28P01", "3D000", "57P03"}) ||
      one.sqlstate.starts_with("IM0") || one.sqlstate.starts_with("53"))
    return true;
  if (family != Family::sqlserver) return false;
  return is_any(one.native, {18456, 18452, 4060, 911, 916, 922, 924, 927, 942, 945, 17142});
}

// A hint for the case that Termgate's objects are missing or may not be used.
std::string hint_for(const Diagnostic& one, Family family, const std::string& message) {
  if (one.sqlstate == "42501" && mentions(message, "permission denied for function ")) {
    return "; if it is one of Termgate's: `termgate init --grant ROLE=read|write|lead|operate` "
           "lets a role call it";
  }
  if (!mentions(message, "termgate")) return {};
  const bool babel = family == Family::sqlserver && one.native == 33557097;
  if (is_any(one.sqlstate, {"3F000", "42P01", "42883"}) ||
      (family == Family::sqlserver && is_any(one.native, {208, 2812, 15151})) ||
      (babel && mentions(message, "does not exist"))) {
    return "; is Termgate installed in this database? `termgate init` does it";
  }
  if (one.sqlstate == "42501" || (family == Family::sqlserver && one.native == 229) ||
      (babel && mentions(message, "permission denied"))) {
    return "; `termgate init --grant ROLE=read|write|lead|operate` lets a role use it";
  }
  return {};
}

}  // namespace

std::string plain_message(std::string_view message) {
  while (message.starts_with('[')) {
    const auto end = message.find(']');
    if (end == std::string_view::npos) break;
    message.remove_prefix(end + 1);
  }
  for (const std::string_view severity : {"ERROR: ", "FATAL: ", "PANIC: "}) {
    if (message.starts_with(severity)) message.remove_prefix(severity.size());
  }
  while (message.starts_with(' ')) message.remove_prefix(1);
  if (const auto tail = message.rfind(";\nError while "); tail != std::string_view::npos)
    message = message.substr(0, tail);
  while (message.ends_with('\n')) message.remove_suffix(1);
  // psqlodbc adds lines: detail and hint are useful for people, the others tell the place in
  // Termgate's functions.
  std::string plain;
  bool keep = true;
  for (bool first = true; first || !message.empty(); first = false) {
    const auto end = message.find('\n');
    std::string_view line = message.substr(0, end);
    message = end == std::string_view::npos ? std::string_view{} : message.substr(end + 1);
    std::string_view joint = first ? "" : "\n";
    const auto is = [&](std::string_view start, std::string_view instead) {
      if (first || !line.starts_with(start)) return;
      line.remove_prefix(start.size());
      joint = instead;
      keep = !instead.empty();
    };
    is("DETAIL: ", "; detail: ");
    is("HINT: ", "; hint: ");
    for (const std::string_view where :
         {"CONTEXT: ", "POSITION: ", "INTERNAL QUERY: ", "INTERNAL POSITION: ", "SCHEMA: ",
          "TABLE: ", "COLUMN: ", "DATATYPE: ", "CONSTRAINT: ", "FILE: ", "LINE: ", "FUNCTION: ",
          "STATEMENT: "})
      is(where, "");
    if (keep) plain.append(joint).append(line);
  }
  return plain;
}

void throw_for(const OdbcError& failure, Phase phase, Family family) {
  static const Diagnostic silent{"HY000", 0, "the ODBC driver failed and gave no reason"};
  const auto& all = failure.diagnostics;
  // The first specific one: some drivers put "general error" or a warning in front of it.
  const auto telling = std::find_if(all.begin(), all.end(), [&](const Diagnostic& one) {
    return !one.sqlstate.starts_with("01") && (is_gone(one, family) || is_conflict(one, family) ||
                                               is_timeout(one, family) || one.native != 0);
  });
  const Diagnostic& one = telling != all.end() ? *telling : all.empty() ? silent : all.front();
  const std::string message = plain_message(one.message);
  const std::string code =
      family == Family::sqlserver && one.native != 0 ? std::to_string(one.native) : one.sqlstate;

  // A code of layer 1: on SQL Server the number and the prefix together, elsewhere the SQLSTATE.
  for (const Diagnostic& each : all) {
    const std::string text = plain_message(each.message);
    const std::string tg =
        family == Family::sqlserver ? detail::tg_code_of(each.native) : each.sqlstate;
    if (detail::number_of_tg(tg) == 0 || !text.starts_with(tg + " ")) continue;
    // The contract defines the exact text of TG001, so its hint is removed.
    throw_if_tg(text.starts_with("TG001")
                    ? std::string_view(text).substr(
                          0, std::min(text.find("; detail: "), text.find("; hint: ")))
                    : std::string_view(text));
  }
  if (phase == Phase::connect) {
    const bool certificate =
        family == Family::sqlserver && mentions(message, "certificate verify failed");
    throw Unavailable(message +
                          (certificate ? "; a server that signed its own certificate needs its CA "
                                         "installed here, or TrustServerCertificate=yes"
                                       : "") +
                          "; nothing was written",
                      code);
  }
  // The commit text's own refusal (dialect.cpp): a procedure of the user has already committed the
  // earlier statements.
  if (phase == Phase::commit && family == Family::sqlserver && one.native == 50000 &&
      mentions(message, "committed a part of it"))
    throw OutcomeUnknown(message, code);
  if (one.sqlstate == "40003") throw OutcomeUnknown(message, code);
  // A conflict means that the server has rolled back, even if the session ended with it.
  if (is_conflict(one, family)) throw Conflict(message, code);
  const bool gone = failure.dead || is_gone(one, family);
  const bool late = is_timeout(one, family);
  if (late && (gone || one.sqlstate == "HYT00") && phase == Phase::commit) {
    throw OutcomeUnknown(
        "no answer in time, and what was sent may still be carried out: " + message, code);
  }
  if (gone) {
    if (phase == Phase::commit)
      throw OutcomeUnknown("COMMIT was sent and the connection was lost: " + message, code);
    throw Unavailable(message + "; nothing was written", code);
  }
  if (phase == Phase::commit && is_cut_short(one, family))
    throw OutcomeUnknown("COMMIT was sent, and the server gave up on it: " + message, code);
  if (late || is_cut_short(one, family) || is_turned_away(one, family))
    throw Unavailable(message + "; nothing was written", code);
  throw DatabaseError(message + hint_for(one, family, message), code);
}

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
