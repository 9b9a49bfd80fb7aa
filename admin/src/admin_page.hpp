// The page that `termgate admin` serves, from page.html (page.cmake puts it into the program).
#pragma once

#include <termgate/admin/api.hpp>

namespace termgate::admin {

// With a Content-Security-Policy that lets nothing run but the page's own scripts, marked by a nonce of this reply.
Reply admin_page();

}  // namespace termgate::admin
