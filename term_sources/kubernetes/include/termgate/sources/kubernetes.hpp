// Leases and terms from a Lease object of Kubernetes (coordination.k8s.io/v1), as client-go's
// leader election uses it.
#pragma once

#include <memory>

#include <termgate/lease_source.hpp>
#include <termgate/sources/url.hpp>

namespace termgate::sources {

// kubernetes:///NAMESPACE in a pod, kubernetes://HOST[:PORT]/NAMESPACE elsewhere. Connects at the
// first call.
std::unique_ptr<LeaseSource> open_kubernetes(const SourceUrl& url);

}  // namespace termgate::sources
