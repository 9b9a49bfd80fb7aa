// drill: its options from the command line.
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
  std::string url;  // the drill's own connection
  // The URL for the user's command; by default `url`.
  std::string through;
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

// Throws UsageError, and InvalidInput for a scope or connection string that is not valid.
Plan plan_of(const Arguments& arguments);

// Whether the pattern occurs in the first 2,048 bytes. The limit is there because the recursion of
// std::regex is as deep as the text is long.
bool matches(const std::regex& pattern, std::string_view text);

}  // namespace termgate::cli::drill
