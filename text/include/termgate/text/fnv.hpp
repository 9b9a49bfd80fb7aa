// FNV-1a, a hash that is the same in every process and build. It does not withstand chosen inputs.
#pragma once

#include <cstdint>
#include <string_view>

namespace termgate::text {

constexpr std::uint64_t fnv1a(std::string_view text) noexcept {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace termgate::text
