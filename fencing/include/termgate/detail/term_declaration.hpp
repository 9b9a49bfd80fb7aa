// The line that an elector writes into a file: `scope=… term=…`, values URL-encoded
// (docs/contract.md, section 5.1). Internal: the proxy's watched file and the term source file://
// read it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <termgate/scope.hpp>
#include <termgate/term.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

// What the text of a file declares, or what is wrong with it.
struct TermDeclaration {
  std::optional<Scope> scope;
  std::optional<Term> term;
  std::string problem;  // without an error code
};
TermDeclaration read_term_declaration(std::string_view text);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
