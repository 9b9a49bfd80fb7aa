#include "functions.hpp"

#include <algorithm>
#include <array>

namespace termgate::statements {
namespace {

// clang-format off
// A name that ends in `*` means all names with that beginning. Left out on purpose, because nobody
// reads what they change: txid_current and pg_current_xact_id (use up a number), pg_export_snapshot
// (pg_dump -j), setseed, pg_sleep, pg_stat_clear_snapshot.
constexpr std::string_view holes[] = {
    // Large objects: READ ONLY refuses to write them only from version 16 on. Functions that only
    // read are listed below.
    "lo_*", "lowrite",
    // Sequences: READ ONLY refuses these, except for temporary ones.
    "nextval", "setval",
    // Messages to other sessions, and functions that end other sessions.
    "pg_notify", "pg_terminate_backend", "pg_cancel_backend", "pg_log_backend_memory_contexts",
    // Locks that others wait for, and that outlive the transaction.
    "pg_advisory_*", "pg_try_advisory_*",
    // The write-ahead log, backups, standbys.
    "pg_switch_wal", "pg_create_restore_point", "pg_logical_emit_message", "pg_backup_start", "pg_backup_stop", "pg_start_backup", "pg_stop_backup", "pg_promote", "pg_wal_replay_*",
    // Replication slots and origins; reading changes from a slot consumes them.
    "pg_create_physical_replication_slot", "pg_create_logical_replication_slot", "pg_copy_physical_replication_slot", "pg_copy_logical_replication_slot", "pg_drop_replication_slot",
    "pg_replication_slot_advance", "pg_logical_slot_get_*", "pg_replication_origin_*", "pg_sync_replication_slots",
    // The server itself, and files.
    "pg_reload_conf", "pg_rotate_logfile*", "pg_file_*", "pg_stat_reset*", "pg_stat_statements_reset", "pg_stat_kcache_reset", "pg_import_system_collations", "pg_nextoid",
    "pg_stop_making_pinned_objects", "pg_restore_relation_stats", "pg_clear_relation_stats", "pg_restore_attribute_stats", "pg_clear_attribute_stats", "binary_upgrade_*", "pg_extension_config_dump",
    // Maintenance below the level of transactions.
    "brin_summarize_*", "brin_desummarize_*", "gin_clean_pending_list", "heap_force_*", "pg_truncate_visibility_map", "pg_buffercache_evict*", "pg_prewarm", "autoprewarm_*",
    // Other connections, which our transaction's READ ONLY does not cover.
    "dblink*", "postgres_fdw_disconnect*",
    // In the grammar TREAT(1 AS name) is a call of pg_catalog.name(1), for any name.
    "treat",
    // SQL given as text, whose calls cannot be seen here.
    "query_to_xml*", "cursor_to_xml*", "ts_stat", "ts_rewrite", "crosstab*", "connectby", "xpath_table", "http*",
};
// clang-format on

constexpr std::string_view reading_large_objects[] = {"lo_close",   "lo_get",  "lo_lseek",
                                                      "lo_lseek64", "lo_tell", "lo_tell64"};

constexpr std::string_view termgate_writes[] = {
    "acquire_lease",
    "adopt",
    "append",
    "append_many",
    "check_term",
    "follower_advance",
    "follower_remove",
    "follower_start",
    "force_release",
    "job_finish",
    "job_heartbeat",
    "job_request",
    "job_start",
    "job_take",
    "protect",
    "prune",
    "release_lease",
    "renew_lease",
    "renew_leases",
    "request_hand_over",
    "require_lease",
    "reset_fence",
    "seal",
    "unadopt",
    "unprotect",
};

constexpr std::string_view termgate_reads[] = {"doctor",         "fence",       "follower_behind",
                                               "lease",          "outcome",     "read_stream",
                                               "schema_version", "server_time", "verify_findings"};

// Words that cannot be the name of a function or type unless quoted: reserved ones, and those that
// can name only a column. For all others the surrounding words decide (calls.cpp,
// is_grammar_here).
constexpr std::string_view syntax[] = {
    "all",     "and",       "any",      "array",     "as",        "between",   "bigint",
    "bit",     "boolean",   "case",     "cast",      "char",      "character", "coalesce",
    "dec",     "decimal",   "distinct", "else",      "end",       "except",    "exists",
    "extract", "float",     "from",     "greatest",  "group",     "grouping",  "having",
    "in",      "int",       "integer",  "intersect", "interval",  "lateral",   "least",
    "limit",   "national",  "nchar",    "not",       "nullif",    "numeric",   "offset",
    "on",      "only",      "or",       "order",     "overlay",   "position",  "precision",
    "row",     "select",    "smallint", "some",      "substring", "table",     "then",
    "time",    "timestamp", "trim",     "union",     "using",     "values",    "varchar",
    "when",    "where",     "with",
};

// clang-format off
// SELECT word FROM pg_get_keywords(), of versions 13 and 18 together, without words that are
// values, such as NULL.
constexpr std::string_view keywords[] = {
    "abort", "absent", "absolute", "access", "action", "add", "admin", "after", "aggregate", "all", "also", "alter", "always", "analyse", "analyze", "and", "any", "array", "as",
    "asc", "asensitive", "assertion", "assignment", "asymmetric", "at", "atomic", "attach", "attribute", "authorization", "backward", "before", "begin", "between", "bigint",
    "binary", "bit", "boolean", "both", "breadth", "by", "cache", "call", "called", "cascade", "cascaded", "case", "cast", "catalog", "chain", "char", "character",
    "characteristics", "check", "checkpoint", "class", "close", "cluster", "coalesce", "collate", "collation", "column", "columns", "comment", "comments", "commit", "committed",
    "compression", "concurrently", "conditional", "configuration", "conflict", "connection", "constraint", "constraints", "content", "continue", "conversion", "copy", "cost",
    "create", "cross", "csv", "cube", "current", "cursor", "cycle", "data", "database", "day", "deallocate", "dec", "decimal", "declare", "default", "defaults", "deferrable",
    "deferred", "definer", "delete", "delimiter", "delimiters", "depends", "depth", "desc", "detach", "dictionary", "disable", "discard", "distinct", "do", "document", "domain",
    "double", "drop", "each", "else", "empty", "enable", "encoding", "encrypted", "enforced", "enum", "error", "escape", "event", "except", "exclude", "excluding", "exclusive",
    "execute", "exists", "explain", "expression", "extension", "external", "extract", "family", "fetch", "filter", "finalize", "first", "float", "following", "for", "force",
    "foreign", "format", "forward", "freeze", "from", "full", "function", "functions", "generated", "global", "grant", "granted", "greatest", "group", "grouping", "groups",
    "handler", "having", "header", "hold", "hour", "identity", "if", "ilike", "immediate", "immutable", "implicit", "import", "in", "include", "including", "increment", "indent",
    "index", "indexes", "inherit", "inherits", "initially", "inline", "inner", "inout", "input", "insensitive", "insert", "instead", "int", "integer", "intersect", "interval",
    "into", "invoker", "is", "isnull", "isolation", "join", "json", "json_array", "json_arrayagg", "json_exists", "json_object", "json_objectagg", "json_query", "json_scalar",
    "json_serialize", "json_table", "json_value", "keep", "key", "keys", "label", "language", "large", "last", "lateral", "leading", "leakproof", "least", "left", "level", "like",
    "limit", "listen", "load", "local", "location", "lock", "locked", "logged", "mapping", "match", "matched", "materialized", "maxvalue", "merge", "merge_action", "method",
    "minute", "minvalue", "mode", "month", "move", "name", "names", "national", "natural", "nchar", "nested", "new", "next", "nfc", "nfd", "nfkc", "nfkd", "no", "none",
    "normalize", "normalized", "not", "nothing", "notify", "notnull", "nowait", "nullif", "nulls", "numeric", "object", "objects", "of", "off", "offset", "oids", "old", "omit",
    "on", "only", "operator", "option", "options", "or", "order", "ordinality", "others", "out", "outer", "over", "overlaps", "overlay", "overriding", "owned", "owner", "parallel",
    "parameter", "parser", "partial", "partition", "passing", "password", "path", "period", "placing", "plan", "plans", "policy", "position", "preceding", "precision", "prepare",
    "prepared", "preserve", "primary", "prior", "privileges", "procedural", "procedure", "procedures", "program", "publication", "quote", "quotes", "range", "read", "real",
    "reassign", "recheck", "recursive", "ref", "references", "referencing", "refresh", "reindex", "relative", "release", "rename", "repeatable", "replace", "replica", "reset",
    "restart", "restrict", "return", "returning", "returns", "revoke", "right", "role", "rollback", "rollup", "routine", "routines", "row", "rows", "rule", "savepoint", "scalar",
    "schema", "schemas", "scroll", "search", "second", "security", "select", "sequence", "sequences", "serializable", "server", "session", "set", "setof", "sets", "share", "show",
    "similar", "simple", "skip", "smallint", "snapshot", "some", "source", "sql", "stable", "standalone", "start", "statement", "statistics", "stdin", "stdout", "storage",
    "stored", "strict", "string", "strip", "subscription", "substring", "support", "symmetric", "sysid", "system", "table", "tables", "tablesample", "tablespace", "target", "temp",
    "template", "temporary", "text", "then", "ties", "time", "timestamp", "to", "trailing", "transaction", "transform", "treat", "trigger", "trim", "truncate", "trusted", "type",
    "types", "uescape", "unbounded", "uncommitted", "unconditional", "unencrypted", "union", "unique", "unknown", "unlisten", "unlogged", "until", "update", "using", "vacuum",
    "valid", "validate", "validator", "value", "values", "varchar", "variadic", "varying", "verbose", "version", "view", "views", "virtual", "volatile", "when", "where",
    "whitespace", "window", "with", "within", "without", "work", "wrapper", "write", "xml", "xmlattributes", "xmlconcat", "xmlelement", "xmlexists", "xmlforest", "xmlnamespaces",
    "xmlparse", "xmlpi", "xmlroot", "xmlserialize", "xmltable", "year", "yes", "zone",
};
// clang-format on

constexpr std::string_view read_only_settings[] = {
    "default_transaction_read_only", "is_superuser",          "role", "session_authorization",
    "session_replication_role",      "transaction_read_only",
};

constexpr std::string_view lexing_settings[] = {"backslash_quote", "client_encoding",
                                                "standard_conforming_strings"};

// clang-format off
constexpr std::string_view everyday[] = {
    "abs", "age", "array_agg", "array_length", "array_position", "array_to_string", "array_upper", "avg", "bool_and", "bool_or", "btrim", "ceil", "ceiling", "char_length", "chr",
    "clock_timestamp", "col_description", "concat", "concat_ws", "count", "cume_dist", "current_database", "current_schema", "current_schemas", "current_setting", "date", "date_part", "date_trunc",
    "dense_rank", "encode", "exp", "first_value", "floor", "format", "format_type", "generate_series", "has_schema_privilege", "has_table_privilege", "initcap", "json_agg",
    "json_build_object", "jsonb_agg", "jsonb_array_elements", "jsonb_build_object", "jsonb_object_agg", "lag", "last_value", "lead", "left", "length", "ln", "log", "lower", "lpad", "ltrim",
    "make_interval", "max", "md5", "min", "mod", "now", "ntile", "nullif", "obj_description", "octet_length", "percent_rank", "pg_backend_pid", "pg_encoding_to_char", "pg_get_constraintdef",
    "pg_get_expr", "pg_get_indexdef", "pg_get_publication_tables", "pg_get_replica_identity_index", "pg_get_userbyid", "pg_get_viewdef", "pg_is_in_recovery", "pg_relation_is_publishable", "pg_relation_size", "pg_sleep", "pg_table_is_visible", "pg_total_relation_size",
    "pg_type_is_visible", "power", "quote_ident", "random", "rank", "regexp_matches", "regexp_replace", "repeat", "replace", "reverse", "right", "round", "row_number", "row_to_json", "rpad",
    "rtrim", "sign", "split_part", "sqrt", "stddev", "string_agg", "string_to_array", "strpos", "substr", "sum", "text", "timeofday", "timezone", "to_char", "to_date", "to_json", "to_jsonb",
    "to_number", "to_regclass", "to_timestamp", "to_tsquery", "to_tsvector", "transaction_timestamp", "trunc", "unnest", "upper", "variance", "version", "width_bucket",
};
// clang-format on

constexpr std::string_view everyday_operators[] = {
    "!=", "!~", "!~*", "!~~", "!~~*", "#",   "#-", "#>", "#>>", "%",  "&",  "&&",
    "*",  "+",  "-",   "->",  "->>",  "-|-", "/",  "<",  "<->", "<<", "<=", "<>",
    "<@", "=",  ">",   ">=",  ">>",   "?",   "?&", "?|", "@",   "@>", "@?", "@@",
    "^",  "|",  "|/",  "||",  "||/",  "~",   "~*", "~~", "~~*",
};

constexpr std::string_view everyday_types[] = {
    "bigint",    "bit",      "bool",     "boolean",      "bpchar",    "bytea",        "char",
    "character", "cidr",     "date",     "dec",          "decimal",   "double",       "float",
    "float4",    "float8",   "inet",     "int",          "int2",      "int4",         "int8",
    "integer",   "interval", "json",     "jsonb",        "money",     "name",         "numeric",
    "oid",       "real",     "regclass", "regnamespace", "regproc",   "regprocedure", "regrole",
    "regtype",   "smallint", "text",     "time",         "timestamp", "timestamptz",  "timetz",
    "tsquery",   "tsvector", "uuid",     "varbit",       "varchar",   "xml",
};

// No expression follows these words in a query, and columns often have these names.
constexpr std::string_view columns[] = {
    "action", "class",    "comment", "data",   "database", "domain", "label",    "language",
    "level",  "location", "method",  "mode",   "name",     "owner",  "password", "policy",
    "role",   "schema",   "server",  "source", "text",     "type",   "view",
};

// Words that a string may follow and that are not a type. Any other word before a string is the
// name of its type, unless is_grammar_here().
constexpr std::string_view before_a_constant[] = {
    "all",       "and",  "as",     "between", "case",      "distinct",  "else",
    "for",       "from", "having", "in",      "into",      "limit",     "not",
    "offset",    "on",   "or",     "placing", "precision", "returning", "select",
    "symmetric", "then", "to",     "using",   "values",    "when",      "where",
};

static_assert(std::is_sorted(std::begin(before_a_constant), std::end(before_a_constant)));
static_assert(std::is_sorted(std::begin(termgate_reads), std::end(termgate_reads)));
static_assert(std::is_sorted(std::begin(everyday_operators), std::end(everyday_operators)));
static_assert(std::is_sorted(std::begin(everyday_types), std::end(everyday_types)));
static_assert(std::is_sorted(std::begin(everyday), std::end(everyday)));
static_assert(std::is_sorted(std::begin(termgate_writes), std::end(termgate_writes)));
static_assert(std::is_sorted(std::begin(syntax), std::end(syntax)));
static_assert(std::is_sorted(std::begin(keywords), std::end(keywords)));
static_assert(std::is_sorted(std::begin(columns), std::end(columns)));
static_assert(std::is_sorted(std::begin(read_only_settings), std::end(read_only_settings)));

template <class List>
bool listed(const List& list, std::string_view name) noexcept {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

template <class List>
bool found(const List& sorted, std::string_view name) noexcept {
  return std::binary_search(std::begin(sorted), std::end(sorted), name);
}

// Indexed by first letter, so that a typical call costs only a few comparisons.
const auto holes_by_letter = [] {
  std::array<std::array<std::string_view, 64>, 26> result{};
  std::array<std::size_t, 26> counts{};
  for (const std::string_view hole : holes) {
    const auto letter = static_cast<std::size_t>(hole[0] - 'a');
    result.at(letter).at(counts.at(letter)++) = hole;
  }
  return result;
}();

}  // namespace

bool is_read_only_hole(std::string_view function) noexcept {
  if (function.empty() || function[0] < 'a' || function[0] > 'z') return false;
  for (const std::string_view hole : holes_by_letter[static_cast<std::size_t>(function[0] - 'a')]) {
    if (hole.empty()) break;
    const bool hit = hole.back() == '*' ? function.starts_with(hole.substr(0, hole.size() - 1))
                                        : function == hole;
    if (hit) return !listed(reading_large_objects, function);
  }
  return false;
}

bool is_everyday(std::string_view function) noexcept { return found(everyday, function); }
bool is_everyday_operator(std::string_view operation) noexcept {
  return found(everyday_operators, operation);
}
bool is_everyday_type(std::string_view type) noexcept { return found(everyday_types, type); }
bool stands_before_a_constant(std::string_view word) noexcept {
  return found(before_a_constant, word);
}
bool is_termgate_write(std::string_view function) noexcept {
  return found(termgate_writes, function);
}
bool is_termgate_read(std::string_view function) noexcept {
  return found(termgate_reads, function);
}
bool is_never_a_name(std::string_view word) noexcept { return found(syntax, word); }
bool may_begin_expression(std::string_view word) noexcept {
  return found(keywords, word) && !found(columns, word);
}
bool sets_read_only(std::string_view setting) noexcept {
  return found(read_only_settings, setting);
}
bool changes_lexing(std::string_view setting) noexcept { return listed(lexing_settings, setting); }

}  // namespace termgate::statements
