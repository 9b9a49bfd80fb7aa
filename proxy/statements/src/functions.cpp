#include "functions.hpp"

#include <algorithm>
#include <array>

namespace termgate::statements {
namespace {

// A name that ends in `*` stands for all that begin so. Left out on purpose, because they change nothing that anybody reads:
// txid_current and pg_current_xact_id (a number is used up), pg_export_snapshot (pg_dump -j), setseed, pg_sleep, pg_stat_clear_snapshot.
constexpr std::string_view holes[] = {
    // Large objects: READ ONLY refuses their writes from 16 on only. Reading ones are told apart below.
    "lo_*", "lowrite",
    // Sequences: refused by READ ONLY, but they are never a read.
    "nextval", "setval",
    // Messages to other sessions, and other sessions' ends.
    "pg_notify", "pg_terminate_backend", "pg_cancel_backend", "pg_log_backend_memory_contexts",
    // Locks that others wait for, and that outlive the transaction.
    "pg_advisory_*", "pg_try_advisory_*",
    // The write-ahead log, backups, standbys.
    "pg_switch_wal", "pg_create_restore_point", "pg_logical_emit_message", "pg_backup_start", "pg_backup_stop", "pg_start_backup", "pg_stop_backup", "pg_promote", "pg_wal_replay_*",
    // Replication slots and origins; reading changes from a slot consumes them.
    "pg_create_physical_replication_slot", "pg_create_logical_replication_slot", "pg_copy_physical_replication_slot", "pg_copy_logical_replication_slot", "pg_drop_replication_slot",
    "pg_replication_slot_advance", "pg_logical_slot_get_*", "pg_replication_origin_*", "pg_sync_replication_slots",
    // The server itself, and files beside it.
    "pg_reload_conf", "pg_rotate_logfile*", "pg_file_*", "pg_stat_reset*", "pg_stat_statements_reset", "pg_stat_kcache_reset", "pg_import_system_collations", "pg_nextoid",
    "pg_stop_making_pinned_objects", "pg_restore_relation_stats", "pg_clear_relation_stats", "pg_restore_attribute_stats", "pg_clear_attribute_stats", "binary_upgrade_*", "pg_extension_config_dump",
    // Maintenance below the level of transactions.
    "brin_summarize_*", "brin_desummarize_*", "gin_clean_pending_list", "heap_force_*", "pg_truncate_visibility_map", "pg_buffercache_evict*", "pg_prewarm", "autoprewarm_*",
    // Other connections, for which our transaction's READ ONLY means nothing.
    "dblink*", "postgres_fdw_disconnect*",
    // TREAT(1 AS name) is a call of pg_catalog.name(1) in the grammar, whatever the name.
    "treat",
    // SQL given as text: what it calls cannot be seen here.
    "query_to_xml*", "cursor_to_xml*", "ts_stat", "ts_rewrite", "crosstab*", "connectby", "xpath_table", "http*",
};

constexpr std::string_view reading_large_objects[] = {"lo_close", "lo_get", "lo_lseek", "lo_lseek64", "lo_tell", "lo_tell64"};

constexpr std::string_view termgate_writes[] = {
    "acquire_lease", "adopt", "append", "append_many", "check_term", "force_release", "job_finish", "job_heartbeat", "job_start",
    "protect", "prune", "release_lease", "renew_lease", "reset_fence", "seal", "unadopt", "unprotect",
};

constexpr std::string_view termgate_reads[] = {"doctor", "fence", "lease", "outcome", "read_stream", "schema_version", "server_time", "verify_findings"};

constexpr std::string_view syntax[] = {
    "all", "and", "any", "array", "as", "between", "bigint", "bit", "bool", "boolean", "by", "case", "cast", "char", "character", "coalesce", "cube", "date", "dec", "decimal", "distinct", "else",
    "end", "except", "exists", "explain", "extract", "filter", "float", "from", "greatest", "group", "grouping", "having", "ilike", "in", "int", "integer", "intersect", "interval", "is", "join", "lateral",
    "least", "like", "limit", "materialized", "national", "nchar", "not", "nullif", "numeric", "of", "offset", "on", "only", "or", "order", "over", "overlay", "partition", "position", "precision",
    "recursive", "rollup", "row", "select", "sets", "similar", "smallint", "some", "substring", "table", "text", "then", "time", "timestamp", "trim", "union", "using", "values", "varbit", "varchar",
    "varying", "when", "where", "with", "within",
};

constexpr std::string_view read_only_settings[] = {
    "default_transaction_read_only", "is_superuser", "role", "session_authorization", "session_replication_role", "transaction_read_only",
};

constexpr std::string_view lexing_settings[] = {"backslash_quote", "client_encoding", "standard_conforming_strings"};

constexpr std::string_view everyday[] = {
    "abs", "age", "array_agg", "array_length", "array_position", "array_to_string", "array_upper", "avg", "bool_and", "bool_or", "btrim", "ceil", "ceiling", "char_length", "chr",
    "clock_timestamp", "col_description", "concat", "concat_ws", "count", "cume_dist", "current_database", "current_schema", "current_schemas", "current_setting", "date_part", "date_trunc",
    "dense_rank", "encode", "exp", "first_value", "floor", "format", "format_type", "generate_series", "has_schema_privilege", "has_table_privilege", "initcap", "json_agg",
    "json_build_object", "jsonb_agg", "jsonb_array_elements", "jsonb_build_object", "jsonb_object_agg", "lag", "last_value", "lead", "left", "length", "ln", "log", "lower", "lpad", "ltrim",
    "make_interval", "max", "md5", "min", "mod", "now", "ntile", "nullif", "obj_description", "octet_length", "percent_rank", "pg_backend_pid", "pg_encoding_to_char", "pg_get_constraintdef",
    "pg_get_expr", "pg_get_indexdef", "pg_get_userbyid", "pg_get_viewdef", "pg_is_in_recovery", "pg_relation_size", "pg_sleep", "pg_table_is_visible", "pg_total_relation_size",
    "pg_type_is_visible", "power", "quote_ident", "random", "rank", "regexp_matches", "regexp_replace", "repeat", "replace", "reverse", "right", "round", "row_number", "row_to_json", "rpad",
    "rtrim", "sign", "split_part", "sqrt", "stddev", "string_agg", "string_to_array", "strpos", "substr", "sum", "timeofday", "timezone", "to_char", "to_date", "to_json", "to_jsonb",
    "to_number", "to_regclass", "to_timestamp", "to_tsquery", "to_tsvector", "transaction_timestamp", "trunc", "unnest", "upper", "variance", "version", "width_bucket",
};

constexpr std::string_view everyday_operators[] = {
    "!=", "!~", "!~*", "!~~", "!~~*", "#", "#-", "#>", "#>>", "%", "&", "&&", "*", "+", "-", "->", "->>", "-|-", "/", "<", "<->", "<<", "<=", "<>", "<@", "=", ">", ">=", ">>", "?", "?&", "?|",
    "@", "@>", "@?", "@@", "^", "|", "|/", "||", "||/", "~", "~*", "~~", "~~*",
};

constexpr std::string_view everyday_types[] = {
    "bigint", "bit", "bool", "boolean", "bpchar", "bytea", "char", "character", "cidr", "date", "dec", "decimal", "double", "float", "float4", "float8", "inet", "int", "int2", "int4", "int8",
    "integer", "interval", "json", "jsonb", "money", "name", "numeric", "oid", "real", "regclass", "regnamespace", "regproc", "regprocedure", "regrole", "regtype", "smallint", "text", "time",
    "timestamp", "timestamptz", "timetz", "tsquery", "tsvector", "uuid", "varbit", "varchar", "xml",
};

// Words that a string may follow; any other word in front of one is the name of its type.
constexpr std::string_view before_a_constant[] = {
    "all",  "and",  "as",     "between", "by",     "case",  "distinct", "else",    "escape",  "for",       "from",  "having", "ilike", "in",      "into", "is",   "isnull", "like",
    "limit", "not", "notnull", "offset", "on",     "or",    "placing",  "precision", "returning", "select", "set",  "similar", "symmetric", "then", "to", "uescape", "using", "values",
    "varying", "when", "where", "zone",
};

static_assert(std::is_sorted(std::begin(before_a_constant), std::end(before_a_constant)));
static_assert(std::is_sorted(std::begin(termgate_reads), std::end(termgate_reads)));
static_assert(std::is_sorted(std::begin(everyday_operators), std::end(everyday_operators)));
static_assert(std::is_sorted(std::begin(everyday_types), std::end(everyday_types)));
static_assert(std::is_sorted(std::begin(everyday), std::end(everyday)));
static_assert(std::is_sorted(std::begin(termgate_writes), std::end(termgate_writes)));
static_assert(std::is_sorted(std::begin(syntax), std::end(syntax)));
static_assert(std::is_sorted(std::begin(read_only_settings), std::end(read_only_settings)));

template <class List>
bool listed(const List& list, std::string_view name) noexcept {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

template <class List>
bool found(const List& sorted, std::string_view name) noexcept {
  return std::binary_search(std::begin(sorted), std::end(sorted), name);
}

// By first letter, so that the usual call costs a handful of comparisons.
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
    const bool hit = hole.back() == '*' ? function.starts_with(hole.substr(0, hole.size() - 1)) : function == hole;
    if (hit) return !listed(reading_large_objects, function);
  }
  return false;
}

bool is_everyday(std::string_view function) noexcept { return found(everyday, function); }
bool is_everyday_operator(std::string_view operation) noexcept { return found(everyday_operators, operation); }
bool is_everyday_type(std::string_view type) noexcept { return found(everyday_types, type); }
bool stands_before_a_constant(std::string_view word) noexcept { return found(before_a_constant, word); }
bool is_termgate_write(std::string_view function) noexcept { return found(termgate_writes, function); }
bool is_termgate_read(std::string_view function) noexcept {
  constexpr std::string_view prefix = "termgate_";
  return found(termgate_reads, function.starts_with(prefix) ? function.substr(prefix.size()) : function);
}
bool is_syntax_before_parenthesis(std::string_view word) noexcept { return found(syntax, word); }
bool sets_read_only(std::string_view setting) noexcept { return found(read_only_settings, setting); }
bool changes_lexing(std::string_view setting) noexcept { return listed(lexing_settings, setting); }

}  // namespace termgate::statements
