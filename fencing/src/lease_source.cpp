#include <termgate/lease_source.hpp>

namespace termgate::inline v0 {

LeaseSource::~LeaseSource() = default;  // one home for its table of calls

}  // namespace termgate::inline v0
