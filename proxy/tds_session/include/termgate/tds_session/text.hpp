// What a T-SQL text is, as far as it decides whether it may run outside the gate: an allow-list of connection settings, transaction control
// and questions about the server, and what surely reads only. Whatever is not plainly one of those is `other`, and goes through the gate.
// Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace termgate::tds_session {

struct TextVerdict {
  enum class Kind : std::uint8_t {
    settings,     // changes and reads no data: it needs no gate
    declares,     // the same, and it sets termgate.scope or termgate.term of the session
    set_term,     // EXEC termgate.set_term, alone: `scope` and `term`, or `problem`
    reads,        // perhaps settings, then SELECTs without a side effect: no gate where reads may pass
    bulk_insert,  // INSERT BULK: the rows come in a message of their own
    forbidden,    // `problem`: what would take the gate away, or outlive the session
    other,
  };
  Kind kind = Kind::other;
  std::string scope;
  std::int64_t term = 0;
  std::string problem;
};

// `text`: UTF-8. `schema`: of layer 1.
TextVerdict classify(std::string_view text, std::string_view schema);

// Whether a procedure may run without the gate: its name as an RPC carries it, in UTF-8. `reads`: where reads may pass, too.
bool is_harmless_procedure(std::string_view name, bool reads = false);
// Whether the last part of a name is `last`, and (where it has one) the part before it is `schema`; without regard to case and brackets.
bool names_procedure(std::string_view name, std::string_view schema, std::string_view last);
// The parts of a name, in small letters and without brackets and quotes; none where it is not written as SQL Server reads a name for
// certain.
std::vector<std::string> parts_of_name(std::string_view name);
// Whether a call of this name (UTF-8) resets the session, as a packet's reset bit does: its session locks are given back.
bool resets_session(std::string_view name);
// Whether the text of parameters that goes with a statement (@p0 int, @p1 nvarchar(10) = N'x') declares values of the server's own types,
// and nothing else.
bool only_declares(std::string_view text);

}  // namespace termgate::tds_session
