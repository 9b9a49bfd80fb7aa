// Decides whether a T-SQL text may run outside the gate. An allow-list has connection settings,
// transaction control, queries about the server, and what certainly only reads. Anything else goes
// through the gate, except for `set_term` and `forbidden`. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace termgate::tds_session {

struct TextVerdict {
  enum class Kind : std::uint8_t {
    settings,  // neither changes nor reads data: needs no gate
    // The same, and sets termgate.scope or termgate.term of the session.
    declares,
    // EXEC termgate.set_term, alone: gives `scope` and `term`, or `problem`.
    set_term,
    // Perhaps settings, then SELECTs without side effects: needs no gate if reads may pass.
    reads,
    bulk_insert,  // INSERT BULK: the rows come in a separate message
    // Could release the gate or outlive the session, or cannot be read: `problem` says which.
    forbidden,
    other,
  };
  Kind kind = Kind::other;
  std::string scope;
  std::int64_t term = 0;
  std::string problem;
};

// `text`: UTF-8. `schema`: the schema of layer 1.
TextVerdict classify(std::string_view text, std::string_view schema);

// Whether a procedure may run without the gate. `name`: as an RPC carries it, in UTF-8. `reads`:
// the procedures that read the catalogue may, too.
bool is_harmless_procedure(std::string_view name, bool reads = false);
// Whether the last part of a name is `last` and the part before it, if there is one, is `schema`.
// Ignores case and brackets.
bool names_procedure(std::string_view name, std::string_view schema, std::string_view last);
// The parts of a name, in lower case, without brackets and quotes. Empty if SQL Server might read
// the name differently.
std::vector<std::string> parts_of_name(std::string_view name);
// Whether a call of this name (UTF-8) resets the session and so releases its session locks, as a
// packet's reset bit does.
bool resets_session(std::string_view name);
// Whether a statement's parameter text (@p0 int, @p1 nvarchar(10) = N'x') does nothing but declare
// values of built-in types.
bool only_declares(std::string_view text);

}  // namespace termgate::tds_session
