// What the connected role may do with layer 1, read from the catalogs alone, so that a role without any grant can learn what it
// lacks before a command starts. PostgreSQL; on other databases everything here says yes.
#pragma once

#include <optional>
#include <string>

#include <termgate/database.hpp>

namespace termgate::cli {

struct Access {
  bool installed = false;
  std::string role;   // as given
  std::string owner;  // of layer 1; empty where there is none
  bool owns = false;  // the role is the owner, a member of it, or a superuser
  int level = 0;      // 0 nothing, 1 read, 2 write, 3 lead, 4 operate
  std::string level_name() const;
};

// What the connected role may do, or `role`. None: a database without roles, or no such role.
std::optional<Access> access_of(Database& database, const std::string& schema, const std::optional<std::string>& role = {});

// `termgate init --grant app=lead`, with --schema where it is not the usual one.
std::string grant_command(const std::string& schema, const std::string& role, const std::string& level);

// Throw Error, which names the role, what it lacks and the command that gives it, and in front of all that `who`: "drill". Also where
// layer 1 is not installed.
void need_level(Database& database, const std::string& schema, const std::string& level, const std::string& who);
void need_owner(Database& database, const std::string& schema, const std::string& who);

// Whether the role's own place, where CREATE TABLE puts a table, takes one and is not the schema of layer 1. True where there are no roles.
bool may_create_tables(Database& database, const std::string& schema);

// Where the storm and the benchmark make their tables. A role that can create none in its own place (PostgreSQL 15 lets nobody create
// tables in public), or whose place is the schema of layer 1 because the two have one name, gets a schema for the run.
class Workspace {
 public:
  // Throws Error where the role can create tables nowhere.
  Workspace(Database& database, const std::string& layer, const std::string& wanted, const std::string& who);
  // The schema to set as search_path; empty: the role's own place is fine.
  const std::string& schema() const { return schema_; }
  // The URL with that search_path.
  std::string url(const std::string& url) const;
  void make(const std::string& url) const;             // throws DatabaseError
  void remove(const std::string& url) const noexcept;  // an empty one

 private:
  std::string schema_;
};

}  // namespace termgate::cli
