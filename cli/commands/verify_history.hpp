// verify --history: what clients wrote down, held against what the database holds, by testkit's checker.
#pragma once

#include <termgate/testkit/checker.hpp>

#include "command.hpp"

namespace termgate::cli {

struct HistoryJudgement {
  testkit::Verdict verdict;
  std::vector<testkit::Operation> operations;  // of the history; after them, those of rows that others wrote
  std::size_t recorded = 0;                    // of the history
  std::size_t clients = 0;
  std::size_t others = 0;  // rows that nobody in the history wrote
};

// Throws UsageError for a file that is no history, what the library throws for a database that cannot be read.
HistoryJudgement judge_history(const Arguments& arguments, Database& database);

}  // namespace termgate::cli
