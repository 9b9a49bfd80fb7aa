// Catch2 3 (Debian 13) under the names of Catch2 2 (Debian 12), which the tests are written for.
#pragma once

#include <string>

#include <catch2/catch_all.hpp>

namespace Catch {

using Matchers::EndsWith;
using Matchers::Equals;
using Matchers::StartsWith;
inline auto Contains(const std::string& text) { return Matchers::ContainsSubstring(text); }

}  // namespace Catch

using Catch::Approx;
