// watched() wraps a source, and refuses terms that go backwards. Each service's own implementation
// is wrapped once.
#pragma once

#include <memory>

#include <termgate/lease_source.hpp>

namespace termgate::sources {

// The result is safe to call from any thread: calls wait for each other.
std::shared_ptr<LeaseSource> watched(std::unique_ptr<LeaseSource> source);

}  // namespace termgate::sources
