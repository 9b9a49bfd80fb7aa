// Leases and terms from etcd 3.4 or later, over the JSON form of its API: a key with a lease,
// created only if it does not exist.
#pragma once

#include <memory>

#include <termgate/lease_source.hpp>
#include <termgate/sources/url.hpp>

namespace termgate::sources {

// etcd:// or etcds:// (TLS), with any number of cluster members. Connects at the first call.
std::unique_ptr<LeaseSource> open_etcd(const SourceUrl& url);

}  // namespace termgate::sources
