// The commands as one JSON document: what `termgate --help --json` prints, and what man pages and completions are made from.
#pragma once

#include <string_view>

#include <boost/json.hpp>

#include "command.hpp"

namespace termgate::cli {

// {"name", "group", "summary", "help", "own_database", "arguments", "options": [{"name", "value", "many", "meaning"}]} of one command.
boost::json::object description(const Command& command, std::string_view group);
boost::json::array description(const boost::program_options::options_description& options);

}  // namespace termgate::cli
