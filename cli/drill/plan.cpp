// drill: parses and checks its options.
#include "drill/plan.hpp"

#include <fmt/format.h>

#include "storm/sql.hpp"

namespace termgate::cli::drill {
namespace {

std::regex regex_of(const char* option, const std::string& text) {
  try {
    return std::regex(text, std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    throw UsageError(fmt::format("--{} {}: no regular expression: {}", option, text, error.what()));
  }
}

}  // namespace

bool matches(const std::regex& pattern, std::string_view text) {
  return std::regex_search(std::string(text.substr(0, 2048)), pattern);
}

Plan plan_of(const Arguments& arguments) {
  Plan plan{.url = "",
            .through = "",
            .schema = arguments.text_or("schema", "termgate"),
            .scope = arguments.scope(),
            .command = arguments.list("command"),
            .runs = 1,
            .timeout = {},
            .lead_for = {},
            .stop_timeout = {},
            .expect_refusal = {},
            .allowed_writes = {},
            .evidence = arguments.maybe("evidence"),
            .output_folder = arguments.text_or("output", ""),
            .quiet = arguments.flag("quiet"),
            .json = arguments.json(),
            .secrets = {}};
  if (plan.command.empty())
    throw UsageError("which command? `termgate drill --scope S -- COMMAND …`");
  plan.url = arguments.database_url();
  if (storm::is_sqlite(plan.url)) {
    if (plan.url.find(":memory:") != std::string::npos)
      throw UsageError("drill: an SQLite database in memory has one process; give a file");
    if (arguments.maybe("through"))
      throw UsageError("--through: only for a server's URL, not for an SQLite file");
#ifdef TERMGATE_WITH_ODBC
  } else if (storm::is_odbc(plan.url)) {
    storm::engine_of(plan.url);  // throws if it is not a valid connection string
#endif
  } else if (!plan.url.starts_with("postgres")) {
    throw UsageError("drill runs on sqlite:PATH, postgresql://…, sqlserver://… and odbc:…");
  }
  plan.through = arguments.text_or("through", plan.url);
  plan.secrets = {plan.url, plan.through};
  plan.runs = static_cast<int>(arguments.integer_or("runs", 1, 1, 1000));
  plan.timeout = arguments.duration_or("timeout", milliseconds(30'000));
  plan.lead_for = arguments.duration_or("lead-for", milliseconds(1000));
  plan.stop_timeout = arguments.duration_or("stop-timeout", milliseconds(5000));
  if (plan.timeout < milliseconds(100)) throw UsageError("--timeout: 100ms or more");
  if (const auto text = arguments.maybe("expect-refusal"))
    plan.expect_refusal = regex_of("expect-refusal", *text);
  for (const std::string& text : arguments.list("allow-write"))
    plan.allowed_writes.push_back(regex_of("allow-write", text));
  if (plan.evidence && plan.evidence->find("$2") != std::string::npos &&
      plan.evidence->find("$1") == std::string::npos)
    throw UsageError("--evidence: $1 is the term, $2 the scope; a query that has $2 needs $1");
  return plan;
}

}  // namespace termgate::cli::drill
