// drill: tests the user's fence with the classic failure of a leader, for a service in any
// language.
//
//   instance 1 leads ─ SIGSTOP ─▶ instance 2 takes over ─▶ SIGCONT ─▶ instance 1 writes under its old term ─▶ refused: passed
#include "drill/drill.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "drill/ground.hpp"
#include "drill/instance.hpp"
#include "drill/plan.hpp"
#include "drill/run.hpp"
#include "output.hpp"
#include "secrets.hpp"
#include "storm/sql.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace drill {
namespace {

int carry_out(const Arguments& arguments, std::vector<Result>& results) {
  const Plan plan = plan_of(arguments);
  if (!plan.output_folder.empty()) {
    std::error_code failure;
    std::filesystem::create_directories(plan.output_folder, failure);
    if (failure)
      throw UsageError(fmt::format("--output {}: {}", plan.output_folder, failure.message()));
  }
  end_in_order_on_signals();
  Ground ground(plan);
  bool passed = true;
  for (int number = 1; number <= plan.runs && !is_interrupted(); ++number) {
    if (!plan.json)
      print_line(fmt::format("drill of \"{}\" on {}, run {} of {}: {}",
                             printable(plan.scope.name()),
                             storm::name_of(storm::engine_of(plan.url)), number, plan.runs,
                             printable(without_passwords(
                                 fmt::format("{}", fmt::join(plan.command, " ")), plan.secrets))));
    results.push_back(play(plan, ground, number));
    const Result& result = results.back();
    passed = passed && result.verdict == Verdict::passed;
    if (plan.json) continue;
    print_line(fmt::format("{}: {}.", result.verdict == Verdict::passed ? "PASSED" : "FAILED",
                           title_of(result.verdict)));
    if (!result.detail.empty()) print_line("  " + printable(result.detail));
    for (const std::string& line : result.evidence) print_line("  " + printable(line));
    for (const std::string& line : result.notes) print_line("  note: " + printable(line));
  }
  if (plan.json) {
    boost::json::array runs;
    for (const Result& result : results) runs.push_back(json_of(result));
    const auto first = std::find_if(results.begin(), results.end(), [](const Result& result) {
      return result.verdict != Verdict::passed;
    });
    print_json({{"verdict", results.empty() ? "interrupted"
                                            : name_of(first == results.end() ? Verdict::passed
                                                                             : first->verdict)},
                {"scope", plan.scope.name()},
                {"runs", std::move(runs)}});
  }
  if (const auto path = arguments.maybe("junit")) write_junit(*path, plan.scope.name(), results);
  return passed && !results.empty() && !is_interrupted() ? Exit::done : Exit::failed;
}

// A CI server shows the file of --junit, so that is written however the drill ends, also if it
// could not begin.
int run(const Arguments& arguments) {
  std::vector<Result> results;
  try {
    return carry_out(arguments, results);
  } catch (const std::exception& error) {
    if (const auto path = arguments.maybe("junit")) {
      Result result;
      result.run = static_cast<int>(results.size()) + 1;
      result.verdict = Verdict::not_judged;
      std::vector<std::string> secrets;
      for (const char* option : {"db", "through"}) {
        if (const auto url = arguments.maybe(option)) secrets.push_back(*url);
      }
      if (const char* url = std::getenv("TERMGATE_DB")) secrets.emplace_back(url);
      result.detail = without_passwords(error.what(), secrets);
      results.push_back(std::move(result));
      try {
        write_junit(*path, arguments.text_or("scope", ""), results);
      } catch (const Error&) {
        // The error that ended the drill is the more useful one.
      }
    }
    throw;
  }
}

}  // namespace
}  // namespace drill

void add_drill_command(std::vector<Command>& commands) {
  commands.push_back(
      {"drill",
       "prove that your service survives a stale leader",
       "Starts your command twice, lets the first instance lead, stops it (SIGSTOP), waits until "
       "the second has taken over, and resumes "
       "the first.\nThe drill passes only if the resumed instance tried to write under its old "
       "term and was refused "
       "(docs/use/drill.md).\n\n"
       "  termgate drill --db postgresql://app@127.0.0.1/test --scope billing -- python3 "
       "service.py\n"
       "  termgate drill --db sqlite:test.db --scope billing --junit drill.xml -- ./service "
       "--database test.db\n\n"
       "The command gets its database in TERMGATE_DB, DATABASE_URL and PGHOST, PGPORT …, its scope "
       "in TERMGATE_SCOPE, and its number, 1 or "
       "2, in TERMGATE_DRILL_INSTANCE.\n"
       "On PostgreSQL and SQL Server these lead through the drill, which sees what the server "
       "refuses and commits. On SQLite layer 1, "
       "which runs in your process, reports it.\nOn an encrypted connection the drill sees a "
       "refusal in the audit or, with "
       "--expect-refusal, in the command's output.\n\n"
       "Exit status: 0 passed; 1 failed: a stale write was committed, it did not try, no takeover, "
       "no instance led, it ended by itself, or "
       "the drill could not be carried out; 2 wrong usage.",
       [](po::options_description& o) {
         const auto text = [] { return po::value<std::string>(); };
         const auto list = [] { return po::value<std::vector<std::string>>()->composing(); };
         o.add_options()("scope", text(), "the scope that the command leads")(
             "runs", text(), "how many times; all must pass (1)")(
             "timeout", text(), "for each wait: to lead, to take over, to try (30s)")(
             "lead-for", text(), "how long instance 1 leads before it is stopped (1s)")(
             "stop-timeout", text(), "between SIGTERM and SIGKILL (5s)")(
             "through", text(),
             "the URL for the command, if it is not --db's: another role, a proxy")(
             "expect-refusal", text(),
             "a regular expression for what the command prints when it is refused; used only if "
             "the drill cannot see the refusal itself")(
             "evidence", text(),
             "a query that returns one number, the writes under term $1 of scope $2; if it grows "
             "after the takeover, those are stale "
             "writes")("allow-write", list(),
                       "a regular expression for statements that an instance may write even if it "
                       "does not lead; may be repeated")(
             "junit", text(), "write the result to this file as JUnit XML")(
             "output", text(), "a folder for the output of each instance")(
             "quiet", po::bool_switch(), "do not show their output")(
             "command", po::value<std::vector<std::string>>(), "the command and its arguments");
       },
       {"command"},
       drill::run});
  commands.push_back({"drill-keeper",
                      "keeps one instance of a drill",
                      "Started by `termgate drill`.",
                      [](po::options_description& o) {
                        o.add_options()("control", po::value<std::string>(), "")(
                            "command", po::value<std::vector<std::string>>(), "");
                      },
                      {"command"},
                      drill::keep,
                      true,
                      true});
}

}  // namespace termgate::cli
