// user add, remove, list: the accounts of an SQLite file behind the proxy. Only verifiers are ever written.
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include <termgate/sqlite_server/users.hpp>

#include "command.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

std::string path_of(const Arguments& arguments) { return arguments.text("users"); }

sqlite_server::Users users_of(const std::string& path, bool may_be_new) {
  if (may_be_new && !std::filesystem::exists(path)) return {};
  return sqlite_server::read_users(path);
}

// One line of the standard input; from a terminal asked for, and not shown.
std::string read_password(const std::string& name) {
  std::string password;
  if (isatty(STDIN_FILENO) == 0) {
    std::getline(std::cin, password);
    return password;
  }
  const auto ask = [](const std::string& prompt) {
    termios before{};
    tcgetattr(STDIN_FILENO, &before);
    termios silent = before;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    std::cerr << prompt << std::flush;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    std::string line;
    std::getline(std::cin, line);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    std::cerr << "\n";
    return line;
  };
  password = ask("Password for " + name + ": ");
  if (ask("Again: ") != password) throw UsageError("the two are not the same; nothing was written");
  return password;
}

// What the file or the password is not fit for is the caller's to mend.
template <class Work>
int done(const Work& work) {
  try {
    return work();
  } catch (const UsageError&) { throw; } catch (const std::runtime_error& error) {
    std::cerr << "termgate: " << error.what() << "\n";
    return Exit::failed;
  }
}

int run_add(const Arguments& arguments) {
  return done([&] {
    const std::string path = path_of(arguments), name = arguments.text("name");
    if (const std::string problem = sqlite_server::user_name_problem(name); !problem.empty()) throw UsageError(problem);
    sqlite_server::Users users = users_of(path, true);
    const std::string verifier = sqlite_server::make_verifier(read_password(name));
    const bool had = !users.insert_or_assign(name, verifier).second;
    sqlite_server::write_users(path, users);
    fmt::print("{} {}\n", name, had ? "has a new password" : "was added");
    return static_cast<int>(Exit::done);
  });
}

int run_remove(const Arguments& arguments) {
  return done([&] {
    const std::string path = path_of(arguments), name = arguments.text("name");
    sqlite_server::Users users = users_of(path, false);
    if (users.erase(name) == 0) throw std::runtime_error(fmt::format("{}: there is no user {}", path, name));
    sqlite_server::write_users(path, users);
    fmt::print("{} was removed; sessions that are open stay\n", name);
    return static_cast<int>(Exit::done);
  });
}

int run_list(const Arguments& arguments) {
  return done([&] {
    for (const auto& [name, verifier] : users_of(path_of(arguments), false)) fmt::print("{}\n", name);
    return static_cast<int>(Exit::done);
  });
}

void file_option(po::options_description& options) {
  options.add_options()("users", po::value<std::string>(), "the file of accounts, as given to termgate proxy --users");
}
void name_option(po::options_description& options) {
  file_option(options);
  options.add_options()("name", po::value<std::string>(), "the user");
}

}  // namespace

void add_user_commands(std::vector<Command>& commands) {
  commands.push_back({"user add",
                      "add an account for an SQLite file behind the proxy, or give it a new password",
                      "Reads the password from the terminal, or one line of the standard input; only a SCRAM-SHA-256 verifier is written.\n"
                      "  termgate user add ann --users users\n"
                      "  termgate proxy --listen 0.0.0.0:6432 --backend sqlite:app.db --users users",
                      name_option,
                      {"name"},
                      run_add,
                      false,
                      true});
  commands.push_back({"user remove",
                      "take an account away",
                      "Who has a session keeps it; the next login is refused.\n  termgate user remove ann --users users",
                      name_option,
                      {"name"},
                      run_remove,
                      false,
                      true});
  commands.push_back(
      {"user list", "list the accounts", "One name a line.\n  termgate user list --users users", file_option, {}, run_list, false, true});
}

}  // namespace termgate::cli
