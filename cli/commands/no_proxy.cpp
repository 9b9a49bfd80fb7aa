// The command proxy in a build without the proxy: says how to build with it.
#include <fmt/format.h>

#include "command.hpp"

namespace termgate::cli {

void add_proxy_command(std::vector<Command>& commands) {
  commands.push_back({"proxy",
                      "refuse stale writers in front of PostgreSQL, SQL Server or an SQLite file "
                      "(not in this build)",
                      "This termgate was built without its proxy. Build it with "
                      "-DTERMGATE_PROXY=ON, which needs libssl-dev and libpg-query-dev.",
                      [](boost::program_options::options_description& o) {
                        o.add_options()(
                            "listen", boost::program_options::value<std::vector<std::string>>(),
                            "")("backend", boost::program_options::value<std::string>(), "")(
                            "config", boost::program_options::value<std::string>(), "");
                      },
                      {},
                      [](const Arguments&) -> int {
                        throw UsageError(
                            "this termgate was built without its proxy: configure with "
                            "-DTERMGATE_PROXY=ON (needs libssl-dev and libpg-query-dev) and "
                            "build again");
                      }});
}

}  // namespace termgate::cli
