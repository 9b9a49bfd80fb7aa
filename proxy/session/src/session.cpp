#include <termgate/session/session.hpp>
