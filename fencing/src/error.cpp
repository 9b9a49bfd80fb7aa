// Out-of-line destructors pin each exception's type information to this library, so that a throw in
// one shared object is caught in another.
#include <termgate/error.hpp>

namespace termgate {
inline namespace v0 {

Error::~Error() = default;
StaleTerm::~StaleTerm() = default;
TermRequired::~TermRequired() = default;
SequenceConflict::~SequenceConflict() = default;
FenceUntrusted::~FenceUntrusted() = default;
InvalidInput::~InvalidInput() = default;
Blocked::~Blocked() = default;
Conflict::~Conflict() = default;
LeaseLost::~LeaseLost() = default;
Cancelled::~Cancelled() = default;
Unavailable::~Unavailable() = default;
OutcomeUnknown::~OutcomeUnknown() = default;
DatabaseError::~DatabaseError() = default;

}  // namespace v0
}  // namespace termgate
