// `termgate proxy --backend sqlite:FILE`: an SQLite file served over libSQL's protocol.
#pragma once

#include <vector>

#include <termgate/http/systemd.hpp>

#include "commands/proxy_given.hpp"

namespace termgate::cli {

// Serves until a signal ends it; SIGHUP reads the file of --config again. Returns the exit status,
// or ends the process with it if a statement cannot be interrupted. Throws UsageError.
int serve_sqlite_file(const Arguments& line, const Given& given,
                      const std::vector<http::InheritedSocket>& inherited);

}  // namespace termgate::cli
