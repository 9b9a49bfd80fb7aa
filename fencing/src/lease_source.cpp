#include <termgate/lease_source.hpp>

namespace termgate {
inline namespace v0 {

LeaseSource::~LeaseSource() = default;  // defined here so that the vtable is emitted once

}  // namespace v0
}  // namespace termgate
