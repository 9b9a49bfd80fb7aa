// T-SQL needs no separator between two statements: SELECT 1 UPDATE t SET a = 1 are two. So every
// bare word is checked, wherever it is. A text only reads if
//
//   every reserved word      is on the allow-list below. Each statement that writes begins with a
//                            reserved word, except for a few, whose words are on a list of their own
//   every word before a (    is on a list: a word of the allow-list, a function of the server without
//                            side effects, or a type. A function with a dot in its name is a
//                            user's, which may do anything
//   no name has four parts   because that would be on another server
#include "read.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace termgate::tds_session {
namespace {

using Kind = Token::Kind;

// Reserved words of T-SQL ("Reserved Keywords (Transact-SQL)").
constexpr std::array reserved{
    "add",
    "all",
    "alter",
    "and",
    "any",
    "as",
    "asc",
    "authorization",
    "backup",
    "begin",
    "between",
    "break",
    "browse",
    "bulk",
    "by",
    "cascade",
    "case",
    "check",
    "checkpoint",
    "close",
    "clustered",
    "coalesce",
    "collate",
    "column",
    "commit",
    "compute",
    "constraint",
    "contains",
    "containstable",
    "continue",
    "convert",
    "create",
    "cross",
    "current",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_user",
    "cursor",
    "database",
    "dbcc",
    "deallocate",
    "declare",
    "default",
    "delete",
    "deny",
    "desc",
    "disk",
    "distinct",
    "distributed",
    "double",
    "drop",
    "dump",
    "else",
    "end",
    "errlvl",
    "escape",
    "except",
    "exec",
    "execute",
    "exists",
    "exit",
    "external",
    "fetch",
    "file",
    "fillfactor",
    "for",
    "foreign",
    "freetext",
    "freetexttable",
    "from",
    "full",
    "function",
    "goto",
    "grant",
    "group",
    "having",
    "holdlock",
    "identity",
    "identity_insert",
    "identitycol",
    "if",
    "in",
    "index",
    "inner",
    "insert",
    "intersect",
    "into",
    "is",
    "join",
    "key",
    "kill",
    "left",
    "like",
    "lineno",
    "load",
    "merge",
    "national",
    "nocheck",
    "nonclustered",
    "not",
    "null",
    "nullif",
    "of",
    "off",
    "offsets",
    "on",
    "open",
    "opendatasource",
    "openquery",
    "openrowset",
    "openxml",
    "option",
    "or",
    "order",
    "outer",
    "over",
    "percent",
    "pivot",
    "plan",
    "precision",
    "primary",
    "print",
    "proc",
    "procedure",
    "public",
    "raiserror",
    "read",
    "readtext",
    "reconfigure",
    "references",
    "replication",
    "restore",
    "restrict",
    "return",
    "revert",
    "revoke",
    "right",
    "rollback",
    "rowcount",
    "rowguidcol",
    "rule",
    "save",
    "schema",
    "securityaudit",
    "select",
    "semantickeyphrasetable",
    "semanticsimilaritydetailstable",
    "semanticsimilaritytable",
    "session_user",
    "set",
    "setuser",
    "shutdown",
    "some",
    "statistics",
    "system_user",
    "table",
    "tablesample",
    "textsize",
    "then",
    "to",
    "top",
    "tran",
    "transaction",
    "trigger",
    "truncate",
    "try_convert",
    "tsequal",
    "union",
    "unique",
    "unpivot",
    "update",
    "updatetext",
    "use",
    "user",
    "values",
    "varying",
    "view",
    "waitfor",
    "when",
    "where",
    "while",
    "with",
    "within",
    "writetext",
};
// The reserved words that a read may have.
constexpr std::array of_reads{
    "all",
    "and",
    "any",
    "as",
    "asc",
    "between",
    "by",
    "case",
    "coalesce",
    "collate",
    "contains",
    "convert",
    "cross",
    "current",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_user",
    "declare",
    "default",
    "desc",
    "distinct",
    "double",
    "else",
    "end",
    "escape",
    "except",
    "exists",
    "fetch",
    "for",
    "freetext",
    "from",
    "full",
    "group",
    "having",
    "identitycol",
    "in",
    "index",
    "inner",
    "intersect",
    "is",
    "join",
    "left",
    "like",
    "national",
    "not",
    "null",
    "nullif",
    "of",
    "off",
    "on",
    "option",
    "or",
    "order",
    "outer",
    "over",
    "percent",
    "pivot",
    "precision",
    "right",
    "rowguidcol",
    "select",
    "session_user",
    "some",
    "system_user",
    "tablesample",
    "then",
    "top",
    "try_convert",
    "union",
    "unpivot",
    "user",
    "values",
    "varying",
    "when",
    "where",
    "with",
    "within",
};
// Words that are not reserved but begin a statement that does more than read, or are hints that
// take locks.
constexpr std::array never{
    "conversation", "dialog",   "disable",        "enable",  "modify",
    "receive",      "rename",   "repeatableread", "send",    "serializable",
    "tablock",      "tablockx", "throw",          "updlock", "xlock",
};
// Functions without side effects that need no schema name, and types that are written the same way.
constexpr std::array functions{
    "abs",
    "acos",
    "app_name",
    "approx_count_distinct",
    "ascii",
    "asin",
    "atan",
    "atn2",
    "avg",
    "bigint",
    "binary",
    "binary_checksum",
    "cast",
    "ceiling",
    "char",
    "charindex",
    "checksum",
    "checksum_agg",
    "choose",
    "col_length",
    "col_name",
    "columnproperty",
    "concat",
    "concat_ws",
    "context_info",
    "cos",
    "cot",
    "count",
    "count_big",
    "cume_dist",
    "databasepropertyex",
    "datalength",
    "dateadd",
    "datediff",
    "datediff_big",
    "datefromparts",
    "datename",
    "datepart",
    "datetime2",
    "datetime2fromparts",
    "datetimefromparts",
    "datetimeoffset",
    "datetrunc",
    "day",
    "db_id",
    "db_name",
    "dec",
    "decimal",
    "degrees",
    "dense_rank",
    "difference",
    "eomonth",
    "error_message",
    "exp",
    "first_value",
    "float",
    "floor",
    "format",
    "getdate",
    "getutcdate",
    "greatest",
    "grouping",
    "grouping_id",
    "has_dbaccess",
    "has_perms_by_name",
    "hashbytes",
    "host_id",
    "host_name",
    "ident_current",
    "ident_incr",
    "ident_seed",
    "iif",
    "index_col",
    "indexproperty",
    "is_member",
    "is_rolemember",
    "is_srvrolemember",
    "isdate",
    "isjson",
    "isnull",
    "isnumeric",
    "json_query",
    "json_value",
    "lag",
    "last_value",
    "lead",
    "least",
    "len",
    "log",
    "log10",
    "lower",
    "ltrim",
    "max",
    "min",
    "month",
    "nchar",
    "newid",
    "ntile",
    "numeric",
    "nvarchar",
    "object_definition",
    "object_id",
    "object_name",
    "object_schema_name",
    "objectproperty",
    "objectpropertyex",
    "openjson",
    "original_login",
    "parsename",
    "patindex",
    "percent_rank",
    "percentile_cont",
    "percentile_disc",
    "pi",
    "power",
    "quotename",
    "radians",
    "rand",
    "rank",
    "replace",
    "replicate",
    "reverse",
    "round",
    "row_number",
    "rowcount_big",
    "rtrim",
    "schema_id",
    "schema_name",
    "scope_identity",
    "serverproperty",
    "session_context",
    "sessionproperty",
    "sign",
    "sin",
    "soundex",
    "space",
    "sql_variant_property",
    "sqrt",
    "square",
    "stdev",
    "stdevp",
    "str",
    "string_agg",
    "string_split",
    "stuff",
    "substring",
    "sum",
    "suser_id",
    "suser_name",
    "suser_sid",
    "suser_sname",
    "switchoffset",
    "sysdatetime",
    "sysdatetimeoffset",
    "sysutcdatetime",
    "tan",
    "time",
    "timefromparts",
    "todatetimeoffset",
    "translate",
    "trim",
    "try_cast",
    "try_parse",
    "type_id",
    "type_name",
    "typeproperty",
    "unicode",
    "upper",
    "user_id",
    "user_name",
    "var",
    "varbinary",
    "varchar",
    "varp",
    "xact_state",
    "year",
};

// Built-in types. A user-defined type may come from an assembly, whose code runs when a value of it
// is created.
constexpr std::array types{
    "bigint",
    "binary",
    "bit",
    "char",
    "character",
    "date",
    "datetime",
    "datetime2",
    "datetimeoffset",
    "dec",
    "decimal",
    "double",
    "float",
    "geography",
    "geometry",
    "hierarchyid",
    "image",
    "int",
    "integer",
    "json",
    "money",
    "national",
    "nchar",
    "ntext",
    "numeric",
    "nvarchar",
    "real",
    "rowversion",
    "smalldatetime",
    "smallint",
    "smallmoney",
    "sql_variant",
    "sysname",
    "text",
    "time",
    "timestamp",
    "tinyint",
    "uniqueidentifier",
    "varbinary",
    "varchar",
    "vector",
    "xml",
};

bool is_sign(std::span<const Token> tokens, std::size_t at, char sign) noexcept {
  return at < tokens.size() && tokens[at].kind == Kind::sign && tokens[at].text[0] == sign;
}
bool is_word(std::span<const Token> tokens, std::size_t at, std::string_view word) noexcept {
  return at < tokens.size() && tokens[at].kind == Kind::word && tokens[at].text == word;
}
bool is_name(const Token& token) noexcept {
  return token.kind == Kind::word || token.kind == Kind::name || token.kind == Kind::either;
}

bool is_own_type(std::span<const Token> tokens, std::size_t at) noexcept {
  if (at >= tokens.size() || tokens[at].kind != Kind::word || !contains(types, tokens[at].text))
    return false;
  return !is_sign(tokens, at + 1, '.');
}

// The index after the parenthesis that closes the one at `at`.
std::size_t behind_parentheses(std::span<const Token> tokens, std::size_t at) noexcept {
  std::size_t depth = 0;
  do {
    if (is_sign(tokens, at, '(')) ++depth;
    if (is_sign(tokens, at, ')')) --depth;
    ++at;
  } while (depth > 0 && at < tokens.size());
  return at;
}

// Whether the target type of CAST(x AS type) or CONVERT(type, x) is built in.
bool converts_to_own_type(std::span<const Token> tokens, std::size_t at) noexcept {
  if (tokens[at].kind != Kind::word || !is_sign(tokens, at + 1, '(')) return true;
  const std::string_view word = tokens[at].text;
  if (word == "convert" || word == "try_convert") return is_own_type(tokens, at + 2);
  if (word != "cast" && word != "try_cast" && word != "try_parse") return true;
  for (std::size_t one = at + 2; one < tokens.size() && !is_sign(tokens, one, ')'); ++one) {
    if (is_sign(tokens, one, '(')) one = behind_parentheses(tokens, one) - 1;
    else if (is_word(tokens, one, "as")) return is_own_type(tokens, one + 1);
  }
  return false;
}

// Whether the variable at `at`, and those that follow after commas, have built-in types. Moves `at`
// past them.
bool own_variables(std::span<const Token> tokens, std::size_t& at) noexcept {
  for (;;) {
    if (at >= tokens.size() || tokens[at].kind != Kind::word || !tokens[at].text.starts_with('@'))
      return false;
    if (is_word(tokens, ++at, "as")) ++at;
    if (!is_own_type(tokens, at)) return false;
    // Skips its value, if it has one, to the next comma that is not within parentheses.
    for (++at; at < tokens.size() && !is_sign(tokens, at, ','); ++at) {
      if (is_sign(tokens, at, '(')) at = behind_parentheses(tokens, at) - 1;
      else if (is_sign(tokens, at, ';') || is_word(tokens, at, "select") ||
               is_word(tokens, at, "with") || is_word(tokens, at, "declare"))
        return true;
    }
    if (at >= tokens.size()) return true;
    ++at;
  }
}

// Whether the name at `at` is not called, or is a function that a read may call.
bool may_be_called(std::span<const Token> tokens, std::size_t at) noexcept {
  const Token& name = tokens[at];
  if (!is_sign(tokens, at + 1, '(')) return true;
  const bool has_owner = at > 0 && is_sign(tokens, at - 1, '.');
  if (name.kind != Kind::word || has_owner) return false;
  return contains(of_reads, name.text) || contains(functions, name.text);
}

bool word_may_stand(std::span<const Token> tokens, std::size_t at) noexcept {
  const std::string_view word = tokens[at].text;
  if (contains(never, word)) return false;
  if (contains(reserved, word) && !contains(of_reads, word)) return false;
  // Only the FETCH of OFFSET … ROWS FETCH NEXT. The FETCH of a cursor does not follow ROW or ROWS.
  if (word == "fetch") {
    const bool of_offset =
        at > 0 && (is_word(tokens, at - 1, "rows") || is_word(tokens, at - 1, "row"));
    if (!of_offset || !(is_word(tokens, at + 1, "next") || is_word(tokens, at + 1, "first")))
      return false;
  }
  // NEXT VALUE FOR takes a number from a sequence.
  if (word == "next" && is_word(tokens, at + 1, "value")) return false;
  // FOR UPDATE is refused because of its second word; FOR SYSTEM_TIME, FOR XML and FOR JSON only
  // read.
  return true;
}

}  // namespace

bool surely_reads(std::span<const Token> tokens) noexcept {
  if (tokens.empty()) return false;
  if (!is_word(tokens, 0, "select") && !is_word(tokens, 0, "with") &&
      !is_word(tokens, 0, "declare"))
    return false;
  bool selects = false;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const Token& token = tokens[at];
    if (token.kind == Kind::strange) return false;
    if (token.kind == Kind::word && !word_may_stand(tokens, at)) return false;
    if (is_name(token) && !may_be_called(tokens, at)) return false;
    if (!converts_to_own_type(tokens, at)) return false;
    if (std::size_t behind = at + 1;
        is_word(tokens, at, "declare") && !own_variables(tokens, behind))
      return false;
    selects = selects || is_word(tokens, at, "select");
    if (!is_sign(tokens, at, '.')) continue;
    // Counts the dots of a name: database..table has two in a row, server.database.schema.table
    // three.
    std::size_t dots = 0;
    for (std::size_t back = at + 1; back-- > 0;) {
      if (is_sign(tokens, back, '.')) ++dots;
      else if (!is_name(tokens[back]) || (back + 1 <= at && !is_sign(tokens, back + 1, '.'))) break;
    }
    if (dots >= 3) return false;
  }
  return selects;
}

bool is_reserved(std::string_view word) noexcept { return contains(reserved, word); }

bool declares_values(std::span<const Token> tokens) noexcept {
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const Token& token = tokens[at];
    if (token.kind == Kind::strange) return false;
    if (token.kind == Kind::word && contains(reserved, token.text) &&
        !contains(of_reads, token.text))
      return false;
    if (is_word(tokens, at, "select") || is_word(tokens, at, "with")) return false;
    if (is_name(token) && is_sign(tokens, at + 1, '(') && !is_own_type(tokens, at)) return false;
  }
  std::size_t at = 0;
  return tokens.empty() || (own_variables(tokens, at) && at >= tokens.size());
}

}  // namespace termgate::tds_session
