// What a --db URL says about an ODBC connection, and the connection string made of it. The one
// place that reads or quotes these texts.
//
//   sqlserver://USER:PASSWORD@HOST:PORT/DB?driver=NAME&KEY=VALUE…
//       percent-encoded where needed; DB may be missing; further keys go to the driver
//   odbc:KEY=VALUE;KEY={a value; with {anything}} in it};…
//       as for SQLDriverConnect; DSN=NAME is looked up in odbc.ini
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/detail/odbc/traits.hpp>

namespace termgate {
inline namespace v0 {
namespace detail::odbc {

struct ConnectionString {
  std::string text;                  // for SQLDriverConnect, UTF-8
  std::vector<std::string> secrets;  // passwords in it, and the whole text
  Maker maker;
};

// Throws InvalidInput, naming the part that is wrong and never its value.
ConnectionString connection_string_of(std::string_view url);

// KEY=VALUE pairs in order. Throws InvalidInput for a part without =, an empty key, a brace that
// does not end, or text after one.
std::vector<std::pair<std::string, std::string>> attributes_of(std::string_view text);

// The value as written in a connection string: in braces if anything in it needs that. Throws
// InvalidInput for NUL, and for a closing brace that the driver cannot take.
std::string quoted_value(std::string_view key, std::string_view value, Maker maker);

// `message` without any of the secrets.
std::string redacted(std::string message, const std::vector<std::string>& secrets);

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
