// drill: the verdicts and the result of a run, as JSON and as a JUnit file.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "command.hpp"

namespace termgate::cli::drill {

using std::chrono::milliseconds;

enum class Verdict {
  passed,
  stale_write_committed,
  did_not_try,
  no_takeover,
  nobody_led,
  ended_by_itself,
  // The database or the machine failed.
  not_judged,
  interrupted
};
const char* name_of(Verdict verdict);  // "did_not_try"
const char* title_of(Verdict verdict);

struct Step {
  double seconds;  // since the run began
  std::string what;
};

// The result of one run.
struct Result {
  int run = 1;
  Verdict verdict = Verdict::nobody_led;
  std::string detail;
  // Terms of the stopped leader and of the one that took over; 0: none.
  std::int64_t term = 0, next_term = 0;
  std::string witness;                // what saw the refusal: wire, layer1, audit or output
  std::string refusal;                // the refusal's message
  std::vector<std::string> evidence;  // the stale writes that were found
  std::vector<std::string> notes;     // further remarks for the reader
  std::vector<Step> steps;
  std::vector<std::string> output;  // the last lines, each with its instance's number
  double seconds = 0;
};

boost::json::object json_of(const Result& result);
// For CI servers: one test suite with one test case for each run. Throws Error if the file cannot
// be written.
void write_junit(const std::string& path, const std::string& scope,
                 const std::vector<Result>& results);

}  // namespace termgate::cli::drill
