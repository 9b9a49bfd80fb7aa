#include <termgate/lease_source.hpp>

namespace termgate::inline v0 {

LeaseSource::~LeaseSource() = default;  // defined here so that the vtable is emitted once

}  // namespace termgate::inline v0
