// Leases and terms from one Redis server: SET NX PX for the lease and a counter for the terms, both
// in one script (redis.cpp).
#pragma once

#include <memory>

#include <termgate/lease_source.hpp>
#include <termgate/sources/url.hpp>

namespace termgate::sources {

// redis:// or rediss:// (TLS). Connects at the first call. Throws InvalidInput for options that do
// not apply.
std::unique_ptr<LeaseSource> open_redis(const SourceUrl& url);

}  // namespace termgate::sources
