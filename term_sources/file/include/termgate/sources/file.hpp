// Terms from a file that an elector writes on the leader's machine: one line, scope=… term=…,
// replaced by rename.
#pragma once

#include <memory>

#include <termgate/lease_source.hpp>
#include <termgate/sources/url.hpp>

namespace termgate::sources {

// file:///PATH. Throws InvalidInput if the URL has anything else. Opens the file at each call.
std::unique_ptr<LeaseSource> open_file(const SourceUrl& url);

}  // namespace termgate::sources
