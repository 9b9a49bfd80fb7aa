// drill: the options on the command line.
#pragma once

#include <chrono>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "drill/drill.hpp"

namespace termgate::cli::drill {

struct Plan {
  std::string url;      // the drill's own way to the database
  std::string through;  // the command's; empty: the same
  std::string schema;
  Scope scope;
  std::vector<std::string> command;
  int runs;
  milliseconds timeout, lead_for, stop_timeout;
  std::optional<std::regex> expect_refusal;
  std::vector<std::regex> allowed_writes;
  std::optional<std::string> evidence;
  std::string output_folder;
  bool quiet, json;
  std::vector<std::string> secrets;  // texts that may hold a password
};

// Throws UsageError.
Plan plan_of(const Arguments& arguments);

// Whether the pattern is found in the first 2,048 bytes: std::regex takes stack with the length of what it looks at.
bool matches(const std::regex& pattern, std::string_view text);

}  // namespace termgate::cli::drill
