// The page that `termgate admin` serves, from page.html (page.cmake puts it into the program).
#pragma once

#include "api.hpp"

namespace termgate::cli::admin {

// With a Content-Security-Policy that lets nothing run but the page's own scripts, marked by a nonce of this reply.
Reply admin_page();

}  // namespace termgate::cli::admin
