#include "commands/privileges.hpp"

#include <fmt/format.h>

#include <termgate/detail/named_row.hpp>
#include <termgate/operator.hpp>

#include <termgate/error.hpp>
#include <termgate/text/hex.hpp>

#include "storm/sql.hpp"
#ifdef TERMGATE_WITH_POSTGRES
#include <libpq-fe.h>
#endif

namespace termgate::cli {
namespace {

// A level is recognised by a function that the level may call and lower ones may not.
constexpr const char* access_sql = R"(
SELECT r.rolname::text AS role,
       m.oid IS NOT NULL AS installed,
       coalesce(pg_catalog.pg_get_userbyid(m.relowner)::text, '') AS owner,
       coalesce(pg_catalog.pg_has_role(r.oid, m.relowner, 'USAGE'), false) AS owns,
       CASE WHEN n.oid IS NULL OR NOT pg_catalog.has_schema_privilege(r.oid, n.oid, 'USAGE') THEN 0 ELSE coalesce((
         SELECT max(l.level) FROM (VALUES (1, 'fence'), (2, 'check_term'), (3, 'acquire_lease'), (4, 'reset_fence')) AS l(level, name)
           JOIN pg_catalog.pg_proc p ON p.proname = l.name AND p.pronamespace = n.oid
          WHERE pg_catalog.has_function_privilege(r.oid, p.oid, 'EXECUTE')), 0) END AS level
  FROM pg_catalog.pg_roles r
  LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = $1
  LEFT JOIN pg_catalog.pg_class m ON m.relnamespace = n.oid AND m.relname = 'migrations' AND m.relkind = 'r'
 WHERE r.rolname = )";

int level_of(const std::string& name) {
  return name == "read" ? 1 : name == "write" ? 2 : name == "lead" ? 3 : name == "operate" ? 4 : 0;
}

bool is_plain(const std::string& name) {
  for (const char letter : name) {
    if (!text::is_letter_or_digit(letter) && letter != '_' && letter != '-' && letter != '.')
      return false;
  }
  return !name.empty();
}

std::string for_shell(const std::string& word) {
  if (is_plain(word)) return word;
  std::string all = "'";
  for (const char letter : word) all += letter == '\'' ? "'\\''" : std::string(1, letter);
  return all + "'";
}

std::string with_schema(const std::string& schema) {
  return schema == "termgate" ? "" : " --schema " + for_shell(schema);
}

[[noreturn]] void not_installed(const std::string& schema, const std::string& who) {
  throw Error(fmt::format(
      "{}: this database has no layer 1{}; the role that is to own it runs: termgate init{}", who,
      schema == "termgate" ? "" : fmt::format(" in schema {}", schema), with_schema(schema)));
}

}  // namespace

std::string Access::level_name() const {
  constexpr const char* names[] = {"no level", "level read", "level write", "level lead",
                                   "level operate"};
  return names[level];
}

std::string grant_command(const std::string& schema, const std::string& role,
                          const std::string& level) {
  return fmt::format("termgate init{} --grant {}={}", with_schema(schema), for_shell(role), level);
}

std::optional<Access> access_of(Database& database, const std::string& schema,
                                const std::optional<std::string>& role) {
  if (database.kind() != "postgresql") return std::nullopt;
  const Rows found =
      role ? database.query(std::string(access_sql) + "$2", {Value(schema), Value(*role)})
           : database.query(std::string(access_sql) + "current_user", {Value(schema)});
  if (found.rows.empty()) return std::nullopt;
  const detail::NamedRow row(found, found.rows[0]);
  Access access;
  access.role = row["role"].as_text();
  access.installed = row["installed"].as_bool();
  access.owner = row["owner"].as_text();
  access.owns = row["owns"].as_bool();
  access.level = access.owns ? 4 : static_cast<int>(row["level"].as_int());
  return access;
}

void need_level(Database& database, const std::string& schema, const std::string& level,
                const std::string& who) {
  const auto access = access_of(database, schema);
  if (!access) {
    if (Operator(database).installed_version() == 0) not_installed(schema, who);
    return;
  }
  if (!access->installed) not_installed(schema, who);
  if (access->level >= level_of(level)) return;
  throw Error(
      fmt::format("{}: role {} has {} and needs level {}. Role {}, which owns layer 1, runs: {}",
                  who, access->role, access->level_name(), level, access->owner,
                  grant_command(schema, access->role, level)));
}

void need_owner(Database& database, const std::string& schema, const std::string& who) {
  const auto access = access_of(database, schema);
  if (!access) {
    if (Operator(database).installed_version() == 0) not_installed(schema, who);
    return;
  }
  if (!access->installed) not_installed(schema, who);
  if (access->owns) return;
  throw Error(
      fmt::format("{}: role {} is not the owner of layer 1, and no grant is enough for this "
                  "command: connect as role {}, or as a superuser",
                  who, access->role, access->owner));
}

bool may_create_tables(Database& database, const std::string& schema) {
  if (database.kind() != "postgresql") return true;
  return database
      .query(
          "SELECT coalesce(current_schema() <> $1 AND "
          "pg_catalog.has_schema_privilege(current_schema(), 'CREATE'), false)",
          {Value(schema)})
      .rows.at(0)[0]
      .as_bool();
}

Workspace::Workspace(Database& database, const std::string& layer, const std::string& wanted,
                     const std::string& who) {
  if (database.kind() != "postgresql") return;
  if (may_create_tables(database, layer)) return;
  const Rows found = database.query(
      "SELECT current_user::text, current_database()::text, "
      "pg_catalog.has_database_privilege(current_database(), 'CREATE')");
  const Row& row = found.rows.at(0);
  if (!row[2].as_bool())
    throw Error(
        fmt::format("{}: role {} can create tables nowhere; an owner of database {} runs: GRANT "
                    "CREATE ON DATABASE \"{}\" TO \"{}\";",
                    who, row[0].as_text(), row[1].as_text(), row[1].as_text(), row[0].as_text()));
  schema_ = wanted;
}

void Workspace::make(const std::string& url) const {
  if (!schema_.empty()) storm::connect(url)->run("CREATE SCHEMA " + schema_);
}

void Workspace::remove(const std::string& url) const noexcept {
  if (schema_.empty()) return;
  try {
    storm::connect(url)->run("DROP SCHEMA IF EXISTS " + schema_);
  } catch (const std::exception&) {
    // The caller is ending, perhaps because of an error that is more useful than this one.
  }
}

std::string Workspace::url(const std::string& url) const {
  if (schema_.empty()) return url;
#ifdef TERMGATE_WITH_ODBC
  if (storm::is_odbc(url)) return storm::placed_odbc(url, schema_);
#endif
#ifdef TERMGATE_WITH_POSTGRES
  std::string options;
  if (PQconninfoOption* parsed = PQconninfoParse(url.c_str(), nullptr)) {
    for (PQconninfoOption* at = parsed; at->keyword != nullptr; ++at) {
      if (std::string_view(at->keyword) == "options" && at->val != nullptr)
        options = std::string(at->val) + " ";
    }
    PQconninfoFree(parsed);
  }
  options += "-csearch_path=" + schema_;
  // A '?' before the '@' belongs to the password. If a parameter occurs twice, libpq uses the last
  // one.
  const auto at = url.find('@');
  return url + (url.find('?', at == std::string::npos ? 0 : at) != std::string::npos ? "&" : "?") +
         "options=" + text::percent_encoded(options);
#else
  return url;
#endif
}

}  // namespace termgate::cli
