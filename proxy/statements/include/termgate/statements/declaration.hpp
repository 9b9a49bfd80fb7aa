// Scope and term as a client declares them (docs/contract.md, section 5), parsed from each place
// that can carry them. Any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <termgate/scope.hpp>
#include <termgate/statements/settings.hpp>
#include <termgate/term.hpp>

namespace termgate::statements {

// What one place declares. An empty value means "not declared". A malformed one never means "no
// term": `problem` then begins with TG005 and says what is wrong, and neither scope nor term may be
// used.
struct Declaration {
  std::optional<Scope> scope;
  std::optional<Term> term;
  std::string problem;

  bool empty() const noexcept { return !scope && !term && problem.empty(); }
  bool operator==(const Declaration&) const = default;
};

// Whether a setting is termgate.scope or termgate.term. Names of settings are compared without
// regard to case.
bool is_declared_setting(std::string_view setting) noexcept;

// Whether termgate.scope or termgate.term is anywhere in a text, in upper or lower case.
bool speaks_of_terms(std::string_view text) noexcept;

// Adds the value of `setting`, as SET or a start-up parameter gives it, to `declaration`: a value
// replaces, an empty one removes. is_declared_setting() must hold for `setting`. `where` names the
// place in the message ("SET").
void declare(Declaration& declaration, std::string_view setting, std::string_view value,
             std::string_view where);

// Section 5.5: /*termgate.scope='order-7',termgate.term='42'*/ before the first or after the last
// token; a `;` at the end is not a token. Values are URL-encoded; other sqlcommenter keys may be
// beside ours. Two different values for a key are malformed.
Declaration declared_in_comments(std::string_view sql, const Settings& settings = {});

// Section 5.2: termgate.scope=…;termgate.term=…; somewhere in application_name. A value without its
// `;` may have been truncated, so it is malformed.
Declaration declared_in_application_name(std::string_view application_name);

// Section 5.3: the start-up parameter `options` (PGOPTIONS): -c termgate.scope=… or
// --termgate.scope=…, split and unescaped as the server does (pg_split_opts,
// process_postgres_switches). Of two values the later one counts, as in the server.
Declaration declared_in_options(std::string_view options);

}  // namespace termgate::statements
