// The CHECK of a column that the front makes: in SQLite's own functions, so that programs without the proxy cannot store what it could
// not read. The forms are those of values.hpp.
#include <string>
#include <string_view>

#include "names.hpp"
#include "resolution.hpp"
#include "writer.hpp"

namespace termgate::dialect {
namespace {

// `$` stands for the column.
std::string over(std::string_view form, const std::string& column) {
  std::string out;
  for (const char c : form) out += c == '$' ? column : std::string(1, c);
  return out;
}

// A time of day at `at` characters of `text`, up to six digits of a second, the last of them no zero.
std::string clock(const std::string& text, int at) {
  const std::string time = "substr(" + text + ", " + std::to_string(at) + ", 8)",
                    rest = "substr(" + text + ", " + std::to_string(at + 8) + ")";
  return time + " GLOB '[0-2][0-9]:[0-5][0-9]:[0-5][0-9]' AND " + time + " < '24' AND (" + rest + " = '' OR (" + rest +
         " GLOB '.*[1-9]' AND " + rest + " NOT GLOB '.*[^0-9]*' AND length(" + rest + ") <= 7))";
}

// A day that the calendar has, of the years 1 to 9999. Without the modifier older SQLites give back February 30.
std::string day(const std::string& text) { return "date(" + text + ", '+0 days') IS " + text + " AND " + text + " >= '0001'"; }

std::string numeric_form(std::int32_t typmod) {
  if (typmod < 4)
    return "(typeof($) IN ('integer', 'real', 'null') AND $ BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308) OR $ = 'NaN'";
  const int precision = (typmod - 4) >> 16, scale = (typmod - 4) & 0xffff, whole = precision - scale;
  std::string form = "(typeof($) IN ('integer', 'real', 'null') AND (typeof($) <> 'real' OR round($, " + std::to_string(scale) + ") = $)";
  // Of more digits SQLite has no number.
  if (whole < 19) form += " AND $ > -1e" + std::to_string(whole) + " AND $ < 1e" + std::to_string(whole);
  return form + ") OR $ = 'NaN'";
}

// The words of an interval in PostgreSQL's order, each there or not: any digits are written 9, a minus is left out.
std::string interval_form() {
  std::string plain = "$";
  for (char digit = '0'; digit < '9'; ++digit) plain = "replace(" + plain + ", '" + digit + "', '9')";
  for (int i = 0; i < 4; ++i) plain = "replace(" + plain + ", '99', '9')";
  plain = "replace(replace(" + plain + ", '-9', '9'), '+9', '9')";
  plain = "replace(replace(replace(" + plain + ", ' years', ' year'), ' mons', ' mon'), ' days', ' day')";
  std::string list;
  for (int parts = 0; parts < 8; ++parts) {
    for (const std::string_view time : {"", "9:9:9", "9:9:9.9"}) {
      std::string words;
      const auto put = [&](std::string_view word) { (words += words.empty() ? "" : " ") += word; };
      if ((parts & 1) != 0) put("9 year");
      if ((parts & 2) != 0) put("9 mon");
      if ((parts & 4) != 0) put("9 day");
      if (!time.empty()) put(time);
      if (!words.empty()) list += (list.empty() ? "'" : ", '") + words + "'";
    }
  }
  return "typeof($) IN ('text', 'null') AND " + plain + " IN (" + list +
         ") AND ($ NOT GLOB '*:*' OR $ GLOB '*[0-9][0-9]:[0-5][0-9]:[0-5][0-9]*')";
}

std::string form_of(Oid type, std::int32_t typmod, const std::string& column) {
  const std::string length = std::to_string(typmod - 4);
  const bool sized = typmod > 4 || (typmod >= 4 && type != oid::numeric);
  switch (type) {
    case oid::int2: return "typeof($) IN ('integer', 'null') AND $ BETWEEN -32768 AND 32767";
    case oid::int4: return "typeof($) IN ('integer', 'null') AND $ BETWEEN -2147483648 AND 2147483647";
    case oid::int8: return "typeof($) IN ('integer', 'null')";
    case oid::oid: return "typeof($) IN ('integer', 'null') AND $ BETWEEN 0 AND 4294967295";
    case oid::boolean: return "typeof($) IN ('integer', 'null') AND $ IN (0, 1)";
    case oid::float4: return "(typeof($) IN ('real', 'null') AND (abs($) <= 3.4028234663852886e38 OR abs($) = 9e999)) OR $ = 'NaN'";
    case oid::float8: return "typeof($) IN ('real', 'null') OR $ = 'NaN'";
    case oid::numeric: return numeric_form(typmod);
    case oid::bytea: return "typeof($) IN ('blob', 'null')";
    case oid::text: return "typeof($) IN ('text', 'null')";
    case oid::varchar: return "typeof($) IN ('text', 'null')" + (sized ? " AND length($) <= " + length : std::string());
    case oid::bpchar:
      return "typeof($) IN ('text', 'null') AND $ = rtrim($, ' ')" + (sized ? " AND length($) <= " + length : std::string());
    case oid::name: return "typeof($) IN ('text', 'null') AND length(CAST($ AS BLOB)) <= 63";
    case oid::uuid:
      return "typeof($) IN ('text', 'null') AND $ LIKE '________-____-____-____-____________' AND $ NOT GLOB '*[^0-9a-f-]*' AND "
             "length(replace($, '-', '')) = 32";
    case oid::json:
    case oid::jsonb: return "$ IS NULL OR (typeof($) = 'text' AND json_valid($))";
    case oid::date: return "$ IS NULL OR $ IN ('infinity', '-infinity') OR (" + day(column) + ")";
    case oid::time: return "$ IS NULL OR $ = '24:00:00' OR (" + clock(column, 1) + ")";
    case oid::timestamp:
      return "$ IS NULL OR $ IN ('infinity', '-infinity') OR (" + day("substr(" + column + ", 1, 10)") +
             " AND substr($, 11, 1) = ' ' AND " + clock(column, 12) + ")";
    case oid::timestamptz: {
      const std::string bare = "substr(" + column + ", 1, length(" + column + ") - 3)";
      return "$ IS NULL OR $ IN ('infinity', '-infinity') OR ($ GLOB '*+00' AND " + day("substr(" + column + ", 1, 10)") +
             " AND substr($, 11, 1) = ' ' AND " + clock(bare, 12) + ")";
    }
    case oid::timetz:
      return "typeof($) IN ('text', 'null') AND $ GLOB '[0-2][0-9]:[0-5][0-9]:[0-5][0-9]*[+-][0-9]*' AND $ NOT GLOB '*[^0-9:.+-]*'";
    case oid::interval: return interval_form();
    default: break;
  }
  if (resolution::is_array(type)) return "typeof($) IN ('text', 'null') AND $ GLOB '{*}'";
  return {};
}

}  // namespace

std::string stored_check(const std::string& name, Oid type, std::int32_t typmod) {
  const std::string column = quoted_name(name), form = form_of(type, typmod, column);
  return form.empty() ? form : "CONSTRAINT " + std::string(stored_check_name) + " CHECK (" + over(form, column) + ")";
}

}  // namespace termgate::dialect
