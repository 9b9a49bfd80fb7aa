// The commands as one JSON document. `termgate --help --json` prints it, and man pages and
// completions are generated from it.
#pragma once

#include <string_view>

#include <boost/json.hpp>

#include "command.hpp"

namespace termgate::cli {

// Describes one command: {"name", "group", "summary", "help", "own_database", "arguments",
// "options": [{"name", "value", "many", "meaning"}]}.
boost::json::object description(const Command& command, std::string_view group);
boost::json::array description(const boost::program_options::options_description& options);

}  // namespace termgate::cli
