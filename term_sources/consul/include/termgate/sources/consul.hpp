// Leases and terms from Consul: a key that is locked by a session.
#pragma once

#include <memory>

#include <termgate/lease_source.hpp>
#include <termgate/sources/url.hpp>

namespace termgate::sources {

// consul:// or consuls:// (TLS): the address of an agent. Connects at the first call.
std::unique_ptr<LeaseSource> open_consul(const SourceUrl& url);

}  // namespace termgate::sources
