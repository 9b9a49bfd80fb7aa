// The page that `termgate admin` serves, from page.html (page.cmake puts it into the program).
#pragma once

#include <termgate/admin/api.hpp>

namespace termgate::admin {

// Has a Content-Security-Policy that allows only the page's own scripts, marked by a nonce of this
// reply.
Reply admin_page();

}  // namespace termgate::admin
