// verify --history: compares what clients recorded with what the database contains, by testkit's
// checker.
#pragma once

#include <termgate/testkit/checker.hpp>

#include "command.hpp"

namespace termgate::cli {

struct HistoryJudgement {
  testkit::Verdict verdict;
  // The history's operations, followed by those for rows that others wrote.
  std::vector<testkit::Operation> operations;
  std::size_t recorded = 0;  // operations in the history
  std::size_t clients = 0;
  std::size_t others = 0;  // rows that nobody in the history wrote
};

// Throws UsageError if the file is not a valid history, Error after SIGINT, and what the library
// throws if the database cannot be read.
HistoryJudgement judge_history(const Arguments& arguments, Database& database);

}  // namespace termgate::cli
