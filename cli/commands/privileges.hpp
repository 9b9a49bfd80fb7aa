// What a role may do with layer 1. It is read from the catalogs alone, so that a role without any
// grant can learn what it lacks before a command starts. On databases other than PostgreSQL
// everything is allowed.
#pragma once

#include <optional>
#include <string>

#include <termgate/database.hpp>

namespace termgate::cli {

struct Access {
  bool installed = false;
  std::string role;   // its name
  std::string owner;  // layer 1's; empty if it is not installed
  bool owns = false;  // the role is the owner, a member of it, or a superuser
  int level = 0;      // 0 none, 1 read, 2 write, 3 lead, 4 operate
  std::string level_name() const;
};

// What `role`, by default the connected one, may do. Empty if the database is not PostgreSQL, or
// has no such role.
std::optional<Access> access_of(Database& database, const std::string& schema,
                                const std::optional<std::string>& role = {});

// `termgate init --grant app=lead`, with --schema if it is not the default one.
std::string grant_command(const std::string& schema, const std::string& role,
                          const std::string& level);

// need_level() throws Error if the role lacks the level, need_owner() if it is not the owner, and
// both if layer 1 is not installed. The message begins with `who` ("drill") and names the role,
// what it lacks, and the next step.
void need_level(Database& database, const std::string& schema, const std::string& level,
                const std::string& who);
void need_owner(Database& database, const std::string& schema, const std::string& who);

// Whether the role may create tables in its default schema, and that is not the schema of layer 1.
// True on databases other than PostgreSQL.
bool may_create_tables(Database& database, const std::string& schema);

// The schema in which storm and bench create their tables. A role gets a schema for the run if it
// may not create tables in its default one (PostgreSQL 15 allows only the database's owner to
// create tables in public), or if that is the schema of layer 1 because both have the same name.
class Workspace {
 public:
  // Throws Error if the role can create neither tables in its default schema nor a schema.
  Workspace(Database& database, const std::string& layer, const std::string& wanted,
            const std::string& who);
  // The schema for the search_path; empty if the role's default schema is fine.
  const std::string& schema() const { return schema_; }
  // The URL with that search_path.
  std::string url(const std::string& url) const;
  void make(const std::string& url) const;             // throws Unavailable, DatabaseError
  void remove(const std::string& url) const noexcept;  // only if it is empty

 private:
  std::string schema_;
};

}  // namespace termgate::cli
