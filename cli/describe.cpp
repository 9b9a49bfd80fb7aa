#include "describe.hpp"

#include <string>
#include <vector>

namespace po = boost::program_options;

namespace termgate::cli {

boost::json::array description(const po::options_description& options) {
  boost::json::array all;
  for (const auto& option : options.options()) {
    const po::value_semantic& semantic = *option->semantic();
    all.push_back({{"name", option->long_name()},
                   {"value", semantic.max_tokens() > 0},
                   {"many", dynamic_cast<const po::typed_value<std::vector<std::string>>*>(
                                &semantic) != nullptr},
                   {"meaning", option->description()}});
  }
  return all;
}

boost::json::object description(const Command& command, std::string_view group) {
  po::options_description own;
  if (command.options) command.options(own);
  boost::json::array arguments;
  for (const std::string& name : command.positional) arguments.push_back(boost::json::value(name));
  return {{"name", command.name},
          {"group", group},
          {"summary", command.summary},
          {"help", command.help},
          {"own_database", command.own_database},
          {"arguments", std::move(arguments)},
          {"options", description(own)}};
}

}  // namespace termgate::cli
