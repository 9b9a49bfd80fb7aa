// Accounts of an SQLite file that is served: a text file of one `name verifier` a line, the verifier as PostgreSQL keeps it in
// pg_authid (SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey). No password is in it, nor can one be computed from it but by guessing.
// `#` begins a comment line. Stateless; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace termgate::sqlite_server {

using Users = std::map<std::string, std::string, std::less<>>;

// Throws std::runtime_error: the file cannot be read, or a line of it is none (the message has its number, not its text).
Users read_users(const std::string& path);
// Replaces the file by rename, readable by its owner only. Throws std::runtime_error.
void write_users(const std::string& path, const Users& users);
// A new verifier with a salt of its own. Throws std::runtime_error for what cannot be a password: empty, longer than 1000 bytes, or
// other than printable ASCII, which clients would have to normalise alike.
std::string make_verifier(std::string_view password);
// Why `name` cannot be a user's; empty: it can.
std::string user_name_problem(std::string_view name);

}  // namespace termgate::sqlite_server
