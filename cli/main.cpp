// termgate: finds the command, parses its options, runs it, and turns errors into messages and exit
// statuses.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "command.hpp"
#include "describe.hpp"
#include "inherited.hpp"
#include "output.hpp"
#include "secrets.hpp"

namespace po = boost::program_options;
using namespace termgate;
using namespace termgate::cli;

namespace {

int exit_code(const Error& error) {
  if (dynamic_cast<const StaleTerm*>(&error)) return Exit::refused_stale;
  if (dynamic_cast<const LeaseLost*>(&error)) return Exit::lease_lost;
  if (dynamic_cast<const SequenceConflict*>(&error)) return Exit::sequence_conflict;
  if (dynamic_cast<const OutcomeUnknown*>(&error)) return Exit::outcome_unknown;
  if (dynamic_cast<const Blocked*>(&error)) return Exit::blocked;
  if (error.code().starts_with("TG")) return Exit::other_code;
  return Exit::failed;
}

// A message that is safe on a terminal. Names and bytes in it may come from anybody: control
// characters are escaped, and the text after a line break is indented, so that it cannot pass for a
// message of ours.
std::string shown(std::string_view message) {
  std::string text;
  while (!message.empty() && message.back() == '\n') message.remove_suffix(1);
  for (;;) {
    const auto end = message.find('\n');
    std::string_view line = message.substr(0, end);
    for (auto tab = line.find('\t'); tab != std::string_view::npos; tab = line.find('\t')) {
      text += escaped(line.substr(0, tab)) + "  ";
      line.remove_prefix(tab + 1);
    }
    text += escaped(line);
    if (end == std::string_view::npos) return text;
    text += "\n  ";
    message.remove_prefix(end + 1);
  }
}

// The errors that end a command go through here, so that none shows a password.
void complain(bool json, std::string_view code, const std::string& text, int status,
              std::vector<std::string> given) {
  if (const char* url = std::getenv("TERMGATE_DB")) given.emplace_back(url);
  const std::string message = without_passwords(text, given);
  if (json)
    print_json({{"error",
                 {{"code", code},
                  {"message", is_utf8(message) ? message : printable(message)},
                  {"exit", status}}}});
  else print_message(shown(message));
}

// The groups of the help text; a command is in the group that names its first word. Commands that
// are in no group are listed last.
struct Group {
  const char* title;
  std::vector<std::string_view> words;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {"Set up", {"init", "uninstall", "settings", "protect", "unprotect", "adopt", "unadopt"}},
      {"Lead", {"run", "lease", "job"}},
      {"Write and read",
       {"append", "exec", "sql", "outcome", "read", "follow", "follower", "stream", "prune"}},
      {"Fences", {"seal", "fence"}},
      {"Inspect", {"status", "explain", "doctor", "verify", "admin"}},
      {"Fence programs that you cannot change", {"proxy"}},
      {"Prove", {"demo", "drill", "storm", "bench"}},
      {"Other", {}},
  };
  return all;
}

const Group& group_of(const Command& command) {
  const std::string_view word = std::string_view(command.name).substr(0, command.name.find(' '));
  for (const Group& group : groups()) {
    if (std::find(group.words.begin(), group.words.end(), word) != group.words.end()) return group;
  }
  return groups().back();
}

void print_overview(const std::vector<Command>& commands) {
  print_line("termgate: fencing at the write boundary\n\nUsage: termgate COMMAND [options]");
  for (const Group& group : groups()) {
    bool first = true;
    for (const Command& command : commands) {
      if (command.hidden || &group_of(command) != &group) continue;
      if (first) print_line(fmt::format("\n{}:", group.title));
      first = false;
      print_line(fmt::format("  {:<24}{}", command.name, command.summary));
    }
  }
  print_line(
      "\nEvery command except proxy and sql takes --db URL, --db-file FILE or TERMGATE_DB, and "
      "--json. `termgate COMMAND --help` describes "
      "it, "
      "`termgate --help --json` all of them.\n"
      "A URL is sqlite:PATH, postgresql://user@host:port/dbname, "
      "sqlserver://USER:PASSWORD@HOST:PORT/DB or odbc:CONNECTION-STRING; "
      "passwords may come from PGPASSFILE or the environment.\n"
      "Exit status: 0 done, 1 failed, 2 wrong usage, 3 refused as stale, 4 another owner holds the "
      "lease, 5 the lease was lost,\n"
      "6 sequence conflict, 7 outcome unknown, 8 blocked, 9 any other TG code.");
}

po::options_description common_options(bool own_database) {
  if (own_database) {
    po::options_description help("Every command");
    help.add_options()("json", po::bool_switch(), "print an error as JSON")(
        "help", po::bool_switch(), "this text");
    return help;
  }
  po::options_description options("Every command");
  options.add_options()("db", po::value<std::string>(), "the database's URL")(
      "db-file", po::value<std::string>(), "a file whose first line is that URL")(
      "schema", po::value<std::string>(), "PostgreSQL schema of layer 1 (default termgate)")(
      "json", po::bool_switch(), "print one JSON document; a list is one array")(
      "help", po::bool_switch(), "this text");
  return options;
}

void print_description(const std::vector<Command>& commands) {
  boost::json::array all;
  for (const Command& command : commands) {
    if (!command.hidden) all.push_back(description(command, group_of(command).title));
  }
  print_json({{"version", TERMGATE_VERSION},
              {"commands", std::move(all)},
              {"every_command", description(common_options(false))},
              {"own_database", description(common_options(true))}});
}

// The edit distance: how many letters to insert, remove or replace to turn one word into the other.
std::size_t edits(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t replaced = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({replaced, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

// The separator between an error and its next step: ". Did you mean X?" if one of the names is at
// most two letters away (of a short word, half its letters), otherwise ";".
std::string meant(std::string_view prefix, std::string_view word,
                  const std::vector<std::string>& names) {
  const auto nearest = std::min_element(
      names.begin(), names.end(),
      [&](const auto& a, const auto& b) { return edits(word, a) < edits(word, b); });
  const std::size_t most = std::min<std::size_t>(2, word.size() / 2);
  if (word.size() > 40 || nearest == names.end() || edits(word, *nearest) > most) return ";";
  return fmt::format(". Did you mean {}{}?", prefix, *nearest);
}

int parse_and_run(const Command& command, const std::vector<std::string>& words,
                  const std::string& program) {
  po::options_description own("Options");
  if (command.options) command.options(own);
  const po::options_description common = common_options(command.own_database);
  po::options_description all;
  all.add(own).add(common);
  po::positional_options_description positional;
  for (std::size_t i = 0; i < command.positional.size(); ++i) {
    const bool last = i + 1 == command.positional.size();
    const bool many = last && dynamic_cast<const po::typed_value<std::vector<std::string>>*>(
                                  all.find(command.positional[i], false).semantic().get());
    positional.add(command.positional[i].c_str(), many ? -1 : 1);
  }
  po::variables_map values;
  // A number may be negative (a term of -1 deserves its own error), so "-1" must not be parsed as
  // an option.
  using namespace po::command_line_style;
  try {
    po::store(po::command_line_parser(words)
                  .options(all)
                  .positional(positional)
                  .style(allow_long | long_allow_adjacent | long_allow_next)
                  .run(),
              values);
  } catch (const po::unknown_option& error) {
    std::vector<std::string> names;
    for (const auto& option : all.options()) names.push_back(option->long_name());
    const std::string given = error.get_option_name();
    std::string word = given.substr(0, given.find('='));
    word.erase(0, word.find_first_not_of('-'));
    throw UsageError(
        fmt::format("{}{} --help lists what there is", error.what(), meant("--", word, names)));
  }
  po::notify(values);
  if (values["help"].as<bool>()) {
    print_line(fmt::format("termgate {}: {}\n\n{}\n", command.name, command.summary, command.help));
    std::cout << own << "\n" << common;
    return Exit::done;
  }
  const Arguments arguments(std::move(values), program);
  try {
    return command.run(arguments);
  } catch (const Error& error) {
    const int status = command.exit_base + exit_code(error);
    complain(arguments.json(), error.code(), error.what(), status, words);
    return status;
  }
}

int run_command(const Command& command, const std::vector<std::string>& words,
                const std::string& program) {
  if (command.exit_base == 0) return parse_and_run(command, words, program);
  const bool json = std::find(words.begin(), std::find(words.begin(), words.end(), "--"),
                              "--json") != std::find(words.begin(), words.end(), "--");
  int status = command.exit_base + Exit::wrong_usage;
  try {
    return parse_and_run(command, words, program);
  } catch (const UsageError& error) {
    complain(json, "", error.what(), status, words);
  } catch (const po::error& error) {
    complain(json, "", fmt::format("{}; --help lists what there is", error.what()), status, words);
  } catch (const std::exception& error) {
    status = command.exit_base + Exit::failed;
    complain(json, "", error.what(), status, words);
  }
  return status;
}

int run_all(const std::vector<std::string>& words, const std::string& program) {
  std::vector<Command> commands;
  add_database_commands(commands);
  add_write_commands(commands);
#ifdef TERMGATE_WITH_HRANA_CLIENT
  add_sql_command(commands);
#endif
  add_follow_commands(commands);
  add_fence_commands(commands);
  add_lease_commands(commands);
  add_run_command(commands);
  add_job_commands(commands);
  add_proxy_command(commands);
  add_admin_command(commands);
  add_bench_command(commands);
  add_demo_command(commands);
  add_storm_command(commands);
  add_drill_command(commands);
  if (words.size() > 1 && words[0] == "help") {
    std::vector<std::string> help_words(words.begin() + 1, words.end());
    help_words.emplace_back("--help");
    return run_all(help_words, program);
  }
  if (words.empty() || words[0] == "--help" || words[0] == "help" || words[0] == "-h") {
    if (words.size() == 2 && words[1] == "--json") print_description(commands);
    else print_overview(commands);
    return words.empty() ? Exit::wrong_usage : Exit::done;
  }
  if (words[0] == "--version") {
    print_line("termgate " TERMGATE_VERSION);
    return Exit::done;
  }
  const std::string two = words.size() > 1 ? words[0] + " " + words[1] : words[0];
  std::string family;
  std::size_t widest = 0;
  for (const Command& command : commands) widest = std::max(widest, command.name.size());
  for (const Command& command : commands) {
    if (command.name == two && two != words[0])
      return run_command(command, {words.begin() + 2, words.end()}, program);
    if (command.name.starts_with(words[0] + " "))
      family += fmt::format("\n  termgate {:<{}}{}", command.name, widest + 2, command.summary);
  }
  for (const Command& command : commands) {
    if (command.name == words[0])
      return run_command(command, {words.begin() + 1, words.end()}, program);
  }
  if (!family.empty()) {
    const bool wanted = words.size() > 1 && words[1] == "--help";
    fmt::print(wanted ? stdout : stderr, "termgate {} is one of:{}\n", words[0], family);
    return wanted ? Exit::done : Exit::wrong_usage;
  }
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (!command.hidden) names.push_back(command.name.substr(0, command.name.find(' ')));
  }
  throw UsageError(fmt::format("there is no command \"{}\"{} `termgate --help` lists them",
                               words[0], meant("", words[0], names)));
}

}  // namespace

int main(int argc, char** argv) {
  settle_inherited();
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  int status = Exit::failed;
  try {
    status = run_all(words, argv[0]);
  } catch (const UsageError& error) {
    status = Exit::wrong_usage;
    complain(json, "", error.what(), status, words);
  } catch (const po::error& error) {
    status = Exit::wrong_usage;
    complain(json, "", fmt::format("{}; --help lists what there is", error.what()), status, words);
  } catch (const std::bad_alloc&) {
    complain(json, "", "out of memory", status, words);
  } catch (const std::exception& error) { complain(json, "", error.what(), status, words); }
  // A full disk or a closed pipe must not look like success.
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    std::fputs("termgate: standard output could not be written\n", stderr);
    return Exit::failed;
  }
  return status;
}
