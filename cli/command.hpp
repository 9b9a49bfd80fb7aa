// What every command of `termgate` shares: its options, the database, and how arguments become values.
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

// One command's arguments, parsed. Lives as long as the command runs.
class Arguments {
 public:
  Arguments(boost::program_options::variables_map values, std::string program) : values_(std::move(values)), program_(std::move(program)) {}

  bool has(const char* name) const { return values_.count(name) != 0 && !values_[name].defaulted(); }
  bool flag(const char* name) const { return values_.count(name) != 0 && values_[name].as<bool>(); }
  std::string text(const char* name) const;  // throws UsageError if it is missing
  std::string text_or(const char* name, std::string fallback) const;
  std::optional<std::string> maybe(const char* name) const;
  std::vector<std::string> list(const char* name) const;
  std::string written(const char* name) const;  // any option's value as text, to be compared; empty: it is not given
  std::int64_t integer(const char* name, std::int64_t low, std::int64_t high) const;
  std::int64_t integer_or(const char* name, std::int64_t fallback, std::int64_t low, std::int64_t high) const;
  std::chrono::milliseconds duration_or(const char* name, std::chrono::milliseconds fallback) const;
  std::optional<std::chrono::milliseconds> maybe_duration(const char* name) const;

  Scope scope() const { return Scope(text("scope")); }
  Term term(const char* name = "term") const;  // InvalidInput (TG005) for what is no term
  bool json() const { return flag("json"); }
  const std::string& program() const { return program_; }  // how this process was called, to start it again

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
  std::vector<std::string> positional;  // option names that take the bare arguments; the last may be many
  std::function<int(const Arguments&)> run;
  bool hidden = false;
  bool own_database = false;  // names its server by options of its own: --db is none of them
  int exit_base = 0;          // added to the statuses of its own failures: `run` passes COMMAND's through
};

// "500ms", "10s", "5m", "2h", "1d". Throws UsageError.
std::chrono::milliseconds parse_duration(std::string_view text);
// The first line of the file that --OPTION names; its password, or the token that it is, is known from then on (secrets.hpp).
std::string url_in_file(std::string_view option, const std::string& path);
// Host and database of a URL, for people: without user, password and parameters.
std::string place_of(std::string_view url);

// The families; each adds its commands.
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

// The user who acts, for audited actions: SUDO_USER or USER, and the host.
std::string default_actor();
// What the audit keeps where --reason was left out.
inline constexpr const char* no_reason = "no reason given";

}  // namespace termgate::cli
