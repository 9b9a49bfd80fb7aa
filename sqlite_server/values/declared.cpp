// What a CREATE TABLE declares, as an OID and a length. docs/reference/sqlite-types.md is this table for people.
#include <algorithm>

#include <termgate/sqlite_server/catalog.hpp>

#include "catalog/schema.hpp"
#include "values/forms.hpp"

namespace termgate::sqlite_server {

namespace oid = dialect::oid;

DeclaredType type_of_declaration(std::string_view declared) noexcept {
  const Oid whole = dialect::oid_of_declared(declared);
  const auto open = declared.find('('), close = declared.find(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {whole, -1};
  std::int64_t numbers[2] = {-1, 0};
  std::size_t place = 0;
  bool digits = false;
  for (const char c : declared.substr(open + 1, close - open - 1)) {
    if (c >= '0' && c <= '9') {
      if (!digits) numbers[place] = 0;
      digits = true;
      numbers[place] = std::min<std::int64_t>(numbers[place] * 10 + (c - '0'), 100'000'000);
    } else if (c == ',' && digits && place == 0) {
      place = 1;
      digits = false;
    } else if (c != ' ') {
      return {whole, -1};
    }
  }
  // An array has the length of its elements.
  const Oid element = element_of(whole), type = element != 0 ? element : whole;
  // As PostgreSQL bounds them; a length beyond is SQLite's business and none of ours.
  if ((type == oid::varchar || type == oid::bpchar) && numbers[0] >= 1 && numbers[0] <= 10'485'760)
    return {whole, static_cast<std::int32_t>(numbers[0] + 4)};
  if (type == oid::numeric && numbers[0] >= 1 && numbers[0] <= 1000 && numbers[1] <= numbers[0])
    return {whole, static_cast<std::int32_t>((numbers[0] << 16 | numbers[1]) + 4)};
  if ((type == oid::timestamp || type == oid::timestamptz || type == oid::time) && numbers[0] >= 0 && numbers[0] <= 6)
    return {whole, static_cast<std::int32_t>(numbers[0])};
  return {whole, -1};
}

}  // namespace termgate::sqlite_server
