// storm: the statistics of its history, the checker's verdict, and the report of both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <termgate/testkit/checker.hpp>

#include "command.hpp"
#include "storm/faults.hpp"
#include "storm/ground.hpp"
#include "storm/log.hpp"
#include "storm/storm.hpp"

namespace termgate::cli::storm {

// Counts. stale_after_stop: refused writes of leaders that were stopped meanwhile. settled: writes
// without an answer that were sent again and committed. codes: the other failures by their code.
struct Figures {
  std::size_t writes = 0, acknowledged = 0, stale = 0, stale_after_stop = 0, failed = 0,
              unanswered = 0, settled = 0, acquisitions = 0, takeovers = 0, looks = 0;
  std::map<std::string, std::size_t> codes;
};

struct Judgement {
  testkit::Verdict verdict;
  std::vector<Breach> findings;
  std::vector<Hostage> hostages;
  std::vector<std::string> unjudged;  // what could not be judged, and why
};

Figures figures_of(const History& history, const std::vector<Crew::Stop>& stops);

// Reads the database's final state and checks the history against it. Catches Error: what could not
// be read is in `unjudged`.
Judgement judge(const Plan& plan, Ground& ground, const History& history, const Faults& faults);

// Prints the report, as text or JSON. `logs` is the folder that is kept, or empty. Returns the exit
// code.
int report(const Plan& plan, const Arguments& arguments, const History& history,
           const Judgement& judgement, const Crew& crew, const Faults& faults,
           std::int64_t evictions, double seconds, bool cleared, const std::string& logs);

}  // namespace termgate::cli::storm
