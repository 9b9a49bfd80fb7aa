// Leases and terms from ZooKeeper 3.5 or later: an ephemeral node, whose czxid is the term.
#pragma once

#include <memory>

#include <termgate/lease_source.hpp>
#include <termgate/sources/url.hpp>

namespace termgate::sources {

// zookeeper://, with any number of the ensemble's servers; a path is the chroot. There is one
// session for each scope, with two threads of the client library. Connects at the first call.
std::unique_ptr<LeaseSource> open_zookeeper(const SourceUrl& url);

}  // namespace termgate::sources
