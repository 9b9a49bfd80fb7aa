// What all commands of `termgate` share: their options, access to the database, and the parsing of
// arguments.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <boost/program_options.hpp>

#include <termgate/database.hpp>

namespace termgate::cli {

// Exit statuses (docs/contract.md, section 6).
enum Exit : int {
  done = 0,
  failed = 1,
  wrong_usage = 2,
  refused_stale = 3,
  lease_anothers = 4,
  lease_lost = 5,
  sequence_conflict = 6,
  outcome_unknown = 7,
  blocked = 8,
  other_code = 9,
};

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One command's arguments, parsed. Lives as long as the command runs. Numbers and durations that
// are malformed or out of range throw UsageError.
class Arguments {
 public:
  Arguments(boost::program_options::variables_map values, std::string program)
      : values_(std::move(values)), program_(std::move(program)) {}

  bool has(const char* name) const {
    return values_.count(name) != 0 && !values_[name].defaulted();
  }
  bool flag(const char* name) const { return values_.count(name) != 0 && values_[name].as<bool>(); }
  std::string text(const char* name) const;  // throws UsageError if it is missing
  std::string text_or(const char* name, std::string fallback) const;
  std::optional<std::string> maybe(const char* name) const;
  std::vector<std::string> list(const char* name) const;
  // The option's value as text, for comparisons; empty if the option was not given.
  std::string written(const char* name) const;
  std::int64_t integer(const char* name, std::int64_t low, std::int64_t high) const;
  std::int64_t integer_or(const char* name, std::int64_t fallback, std::int64_t low,
                          std::int64_t high) const;
  std::chrono::milliseconds duration_or(const char* name, std::chrono::milliseconds fallback) const;
  std::optional<std::chrono::milliseconds> maybe_duration(const char* name) const;

  Scope scope() const { return Scope(text("scope")); }
  // Throws UsageError if it is missing, InvalidInput (TG005) if the text is not a term.
  Term term(const char* name = "term") const;
  bool json() const { return flag("json"); }
  // The name under which this process was called, for starting it again.
  const std::string& program() const { return program_; }

  std::string database_url() const;  // --db, --db-file or TERMGATE_DB
  Database open() const;

 private:
  boost::program_options::variables_map values_;
  std::string program_;
};

struct Command {
  std::string name;     // one or two words: "append", "fence list"
  std::string summary;  // one line
  std::string help;     // what it does, an example, what to do about its errors
  std::function<void(boost::program_options::options_description&)> options;
  // Names of the options that take the bare arguments; the last one may take many.
  std::vector<std::string> positional;
  std::function<int(const Arguments&)> run;
  bool hidden = false;
  // The command has options of its own that name its server, so it does not take --db.
  bool own_database = false;
  // Added to the exit statuses of Termgate's own failures, because `run` returns COMMAND's status.
  int exit_base = 0;
};

// "500ms", "10s", "5m", "2h", "1d". Throws UsageError.
std::chrono::milliseconds parse_duration(std::string_view text);
// The first line of the file that --OPTION names. A password in it is hidden from all output from
// then on (secrets.hpp). Throws UsageError if the file cannot be read or that line is empty.
std::string url_in_file(std::string_view option, const std::string& path);
// What messages call the database of a URL: host and database without user, password and
// parameters, the path of an SQLite file, "odbc" for any odbc: URL, "local" if nothing is named.
std::string place_of(std::string_view url);

// Each of these adds the commands of one family.
void add_database_commands(std::vector<Command>& commands);
void add_write_commands(std::vector<Command>& commands);
void add_admin_command(std::vector<Command>& commands);
void add_follow_commands(std::vector<Command>& commands);
void add_fence_commands(std::vector<Command>& commands);
void add_lease_commands(std::vector<Command>& commands);
void add_job_commands(std::vector<Command>& commands);
void add_run_command(std::vector<Command>& commands);
void add_demo_command(std::vector<Command>& commands);
void add_bench_command(std::vector<Command>& commands);
void add_storm_command(std::vector<Command>& commands);
void add_drill_command(std::vector<Command>& commands);
void add_proxy_command(std::vector<Command>& commands);
#ifdef TERMGATE_WITH_HRANA_CLIENT
void add_sql_command(std::vector<Command>& commands);
#endif

// The name that the audit records as the actor of an action: the user (SUDO_USER, USER, LOGNAME, or
// the process's own) and the host.
std::string default_actor();
// What the audit records where --reason was left out.
inline constexpr const char* no_reason = "no reason given";

}  // namespace termgate::cli
