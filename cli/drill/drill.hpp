// drill: a drill's options and its result.
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
  not_judged,  // the database failed, or the machine
  interrupted
};
const char* name_of(Verdict verdict);   // "did_not_try"
const char* title_of(Verdict verdict);  // a sentence

struct Step {
  double seconds;  // since the run began
  std::string what;
};

struct Result {  // of one run
  int run = 1;
  Verdict verdict = Verdict::nobody_led;
  std::string detail;
  std::int64_t term = 0, next_term = 0;  // of the stopped leader, and of the one that took over; 0: none
  std::string witness;                   // who saw the refusal: wire, layer1, audit, output
  std::string refusal;                   // what it said
  std::vector<std::string> evidence;     // of stale writes
  std::vector<std::string> notes;        // what else the reader should know
  std::vector<Step> steps;
  std::vector<std::string> output;  // the last lines, each with its instance
  double seconds = 0;
};

boost::json::object json_of(const Result& result);
// For CI servers: one test suite, one test case a run. Throws Error where the file cannot be written.
void write_junit(const std::string& path, const std::string& scope, const std::vector<Result>& results);

}  // namespace termgate::cli::drill
