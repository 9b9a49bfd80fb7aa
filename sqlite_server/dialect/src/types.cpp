#include <termgate/dialect/types.hpp>

#include <iterator>
#include <string>

#include "names.hpp"

namespace termgate::dialect {
namespace {

// `declared`: SQLite reads an affinity out of the word: INT integer; CHAR, CLOB, TEXT text; BLOB blob; REAL, FLOA, DOUB real; else
// numeric, which would turn '007' of a date, uuid or json column into a number. Those are declared so that they contain TEXT.
constexpr Type table[] = {
    {"int2", "smallint", 21, 1005, Stored::integer, "pg_int2"},
    {"int4", "int4", 23, 1007, Stored::integer, "pg_int4"},
    {"int8", "bigint", 20, 1016, Stored::integer, "pg_int8"},
    {"float4", "float4", 700, 1021, Stored::real, "pg_float4"},
    {"float8", "double precision", 701, 1022, Stored::real, "pg_float8"},
    {"numeric", "numeric", 1700, 1231, Stored::numeric, "pg_numeric"},
    {"bool", "boolean", 16, 1000, Stored::numeric, "pg_bool"},
    {"text", "text", 25, 1009, Stored::text, "pg_text"},
    {"varchar", "varchar", 1043, 1015, Stored::text, "pg_text"},
    {"bpchar", "char", 1042, 1014, Stored::text, "pg_text"},
    {"name", "name text", 19, 1003, Stored::text, "pg_text"},
    {"bytea", "bytea blob", 17, 1001, Stored::blob, "pg_bytea"},
    {"date", "date text", 1082, 1182, Stored::text, "pg_date"},
    {"time", "time text", 1083, 1183, Stored::text, "pg_time"},
    {"timetz", "timetz text", 1266, 1270, Stored::text, "pg_timetz"},
    {"timestamp", "timestamp text", 1114, 1115, Stored::text, "pg_timestamp"},
    {"timestamptz", "timestamptz text", 1184, 1185, Stored::text, "pg_timestamptz"},
    {"interval", "interval_text", 1186, 1187, Stored::text, "pg_interval"},
    {"uuid", "uuid text", 2950, 2951, Stored::text, "pg_uuid"},
    {"json", "json text", 114, 199, Stored::text, "pg_json"},
    {"jsonb", "jsonb text", 3802, 3807, Stored::text, "pg_jsonb"},
    {"char", "\"char\" text", 18, 1002, Stored::text, "pg_char"},
    {"oid", "oid_int", 26, 1028, Stored::integer, "pg_int8"},
    {"xid", "xid_int", 28, 1011, Stored::integer, "pg_int8"},
    {"regclass", "regclass_int", 2205, 2210, Stored::integer, "pg_regclass"},
    {"regtype", "regtype_int", 2206, 2211, Stored::integer, "pg_regtype"},
    {"regproc", "regproc_int", 24, 1008, Stored::integer, "pg_regproc"},
    {"regprocedure", "regprocedure_int", 2202, 2207, Stored::integer, "pg_regproc"},
    {"regoper", "regoper_int", 2203, 2208, Stored::integer, "pg_regoper"},
    {"regoperator", "regoperator_int", 2204, 2209, Stored::integer, "pg_regoper"},
    {"regnamespace", "regnamespace_int", 4089, 4090, Stored::integer, "pg_regnamespace"},
    {"regrole", "regrole_int", 4096, 4097, Stored::integer, "pg_regrole"},
    {"regcollation", "regcollation_int", 4191, 4192, Stored::integer, "pg_regcollation"},
    {"regconfig", "regconfig_int", 3734, 3735, Stored::integer, "pg_regconfig"},
    {"regdictionary", "regdictionary_int", 3769, 3770, Stored::integer, "pg_regdictionary"},
    {"inet", "inet_text", 869, 1041, Stored::text, "pg_text"},
    {"cidr", "cidr_text", 650, 651, Stored::text, "pg_text"},
    {"macaddr", "macaddr_text", 829, 1040, Stored::text, "pg_text"},
    {"xml", "xml_text", 142, 143, Stored::text, "pg_text"},
    {"int2vector", "int2vector_text", 22, 1006, Stored::text, "pg_text"},
    {"oidvector", "oidvector_text", 30, 1013, Stored::text, "pg_text"},
    {"pg_node_tree", "pg_node_tree_text", 194, 0, Stored::text, "pg_text"},
    {"aclitem", "aclitem_text", 1033, 1034, Stored::text, "pg_text"},
    {"cstring", "cstring_text", 2275, 1263, Stored::text, "pg_text"},
    {"unknown", "text", 705, 0, Stored::text, "pg_text"},
    {"record", "record_text", 2249, 2287, Stored::text, "pg_text"},
};

struct Spelling {
  std::string_view written;
  std::string_view name;
};
// clang-format off
constexpr Spelling spellings[] = {
    {"smallint", "int2"}, {"int", "int4"}, {"integer", "int4"}, {"bigint", "int8"}, {"smallserial", "int2"}, {"serial2", "int2"}, {"serial", "int4"}, {"serial4", "int4"}, {"bigserial", "int8"},
    {"serial8", "int8"}, {"real", "float4"}, {"float", "float8"}, {"double precision", "float8"}, {"double", "float8"}, {"decimal", "numeric"}, {"boolean", "bool"}, {"character varying", "varchar"},
    {"character", "bpchar"}, {"nchar", "bpchar"}, {"clob", "text"}, {"blob", "bytea"}, {"time without time zone", "time"}, {"time with time zone", "timetz"},
    {"timestamp without time zone", "timestamp"}, {"timestamp with time zone", "timestamptz"}, {"datetime", "timestamp"}, {"tinyint", "int2"}, {"mediumint", "int4"}, {"nvarchar", "varchar"}, {"varying character", "varchar"}};
// clang-format on

}  // namespace

std::span<const Type> types() noexcept { return table; }

const Type* type_named(std::string_view name) noexcept {
  for (const Spelling& spelling : spellings) {
    if (spelling.written == name) name = spelling.name;
  }
  for (const Type& type : table) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

const Type* type_of(Oid oid) noexcept {
  for (const Type& type : table) {
    if (type.oid == oid) return &type;
  }
  return nullptr;
}

Oid oid_of_declared(std::string_view declared) noexcept {
  const std::string lower = lowered(declared);
  std::string name = lower.substr(0, lower.find('('));
  while (!name.empty() && name.back() == ' ') name.pop_back();
  const bool array = lower.find("[]") != std::string::npos || name.ends_with("_array_text");
  if (name.ends_with("_array_text")) name.resize(name.size() - 11);
  // SQLite's INTEGER holds 64 bits; PostgreSQL's is written int4 by translate().
  if (name == "integer") return array ? 1016 : oid::int8;
  for (const Type& type : table) {
    if (type.declared == name && type.oid != oid::unknown) return array ? type.array : type.oid;
  }
  if (const Type* type = type_named(name)) return array ? type->array : type->oid;
  // A word of nobody's: as SQLite reads an affinity out of it. NUMERIC, which may hold anything, is text to a client.
  const auto has = [&](std::string_view part) { return lower.find(part) != std::string::npos; };
  const Oid by_affinity = has("int") && !has("point")                 ? oid::int8
                          : has("char") || has("clob") || has("text") ? oid::text
                          : has("blob")                               ? oid::bytea
                          : has("real") || has("floa") || has("doub") ? oid::float8
                                                                      : oid::text;
  return array ? type_of(by_affinity)->array : by_affinity;
}

}  // namespace termgate::dialect
